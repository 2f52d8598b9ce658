"""Finds the steps of an interface class, once, when the class is created."""

from __future__ import annotations

import dataclasses
import logging
import sys
import types
import warnings
from collections.abc import Mapping
from typing import Any

from deploysteps import steps
from deploysteps.drivers import declare

LOG = logging.getLogger(__name__)

Declared = Mapping[str, Mapping[str, steps.Declaration]]
"""Flow name -> step name -> declaration, in the order of declaration."""


@dataclasses.dataclass(frozen=True, slots=True)
class Dropped:
    """A step that a class overrides with something that is no step."""

    flow: str
    name: str
    base: type
    by: type


def collect(
    cls: type, reserved: frozenset[str], told: frozenset[Dropped]
) -> tuple[Declared, frozenset[Dropped]]:
    """Return the steps of a class, and the inherited ones that it has no more.

    Steps are found by the name of the attribute, in the class and all that it
    inherits from, plain mixins included. They are ordered as they stand in
    the class body, base classes first; an override keeps its base's place.

    :param reserved: names that cannot be steps.
    :param told: dropped steps of which the bases have warned.
    :raises StepDeclarationError: for a step that could not run.
    """
    found: dict[str, dict[str, steps.Declaration]] = {flow: {} for flow in steps.FLOWS}
    owners: dict[tuple[str, str], type] = {}
    dropped: dict[tuple[str, str], Dropped] = {}
    for klass in reversed(cls.__mro__):
        _refuse_lost_marks(klass)
        for name, attribute in vars(klass).items():
            marks = _marks(attribute)
            if marks:
                _check_step(klass, name, attribute, reserved)
            for flow, known in found.items():
                if flow in marks:
                    known[name] = marks[flow]
                    owners[flow, name] = klass
                    dropped.pop((flow, name), None)
                elif known.pop(name, None) is not None:
                    dropped[flow, name] = Dropped(flow, name, owners[flow, name], klass)
    gone = frozenset(dropped.values())
    for drop in dropped.values():
        if drop not in told:
            _warn(drop)
    return (
        types.MappingProxyType({f: types.MappingProxyType(known) for f, known in found.items()}),
        gone,
    )


def _marks(attribute: Any) -> Mapping[str, steps.Declaration]:
    """Return the marks that an attribute carries, also inside a descriptor."""
    if isinstance(attribute, type):
        return {}
    for function in declare.wrapped_chain(declare.inner_function(attribute)):
        marks = getattr(function, declare.MARK, None)
        if isinstance(marks, dict):
            return marks
    return {}


def _check_step(klass: type, name: str, attribute: Any, reserved: frozenset[str]) -> None:
    label = f"{klass.__qualname__}.{name}"
    declare.check_method(attribute, label)
    if name in reserved or (name.startswith("__") and name.endswith("__")):
        raise declare.refuse(
            declare.whereabouts(attribute, label),
            "is called by the engine or by Python itself, and cannot be a step; rename it",
        )


def _refuse_lost_marks(klass: type) -> None:
    notes: list[declare.Note] = vars(klass).get(declare.NOTES, [])
    if not notes:
        return
    present = {
        id(declaration)
        for attribute in vars(klass).values()
        for declaration in _marks(attribute).values()
    }
    for where, name, declaration in notes:
        if id(declaration) in present:
            continue
        if declaration.flow in _marks(vars(klass).get(name)):
            raise declare.refuse(where, f"is defined twice in {klass.__qualname__}; rename one")
        raise declare.refuse(
            where,
            f"was declared a step, but {klass.__qualname__} has no step of this declaration: a "
            "decorator above it makes a new function without functools.wraps. Write "
            f"@functools.wraps(func) in that decorator, or put @{declaration.flow}_step on top",
        )


def _warn(drop: Dropped) -> None:
    message = (
        f"{_full_name(drop.by)} overrides {drop.name!r}, a {drop.flow} step of "
        f"{_full_name(drop.base)}, without @{drop.flow}_step: it is no step any more. Decorate it "
        "again to keep it one"
    )
    LOG.warning(message)
    function = declare.inner_function(vars(drop.by).get(drop.name))
    code = getattr(function, "__code__", None)
    module = sys.modules.get(drop.by.__module__)
    warnings.warn_explicit(
        message,
        UserWarning,
        filename=code.co_filename if code else getattr(module, "__file__", None) or "<unknown>",
        lineno=code.co_firstlineno if code else 1,
        module=drop.by.__module__,
    )


def _full_name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"
