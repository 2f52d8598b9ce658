"""Finds the steps and periodic methods of an interface class, when it is created."""

from __future__ import annotations

import dataclasses
import logging
import sys
import types
import warnings
from collections.abc import Mapping
from typing import Any

from deploysteps import reserved as reserved_steps
from deploysteps import steps
from deploysteps.drivers import marks

LOG = logging.getLogger(__name__)

Declared = Mapping[str, Mapping[str, steps.Declaration]]
"""Flow name -> step name -> declaration, in the order of declaration."""

KINDS = (*steps.FLOWS, marks.PERIODIC)
"""What a method can be marked as."""

Found = dict[str, Mapping[str, Any]]
"""One of :data:`KINDS` -> method -> declaration, in the order of declaration."""


@dataclasses.dataclass(frozen=True, slots=True)
class Dropped:
    """A step that a class overrides with something that is no step."""

    kind: str
    name: str
    base: type
    by: type


def collect(
    cls: type, reserved: frozenset[str], told: frozenset[Dropped]
) -> tuple[Found, frozenset[Dropped]]:
    """Return the marked methods of a class, and the inherited ones that it has no more.

    They are found by the name of the attribute, in the class and all that it
    inherits from, plain mixins included. They are ordered as they stand in
    the class body, base classes first; an override keeps its base's place.

    :param reserved: names that cannot be steps.
    :param told: dropped steps of which the bases have warned.
    :raises StepDeclarationError: for a step that could not run.
    """
    found: dict[str, dict[str, Any]] = {kind: {} for kind in KINDS}
    owners: dict[tuple[str, str], type] = {}
    dropped: dict[tuple[str, str], Dropped] = {}
    for klass in reversed(cls.__mro__):
        _refuse_lost_marks(klass)
        for name, attribute in vars(klass).items():
            own = _marks(attribute)
            if own:
                _check_method(klass, name, attribute, reserved, set(own) == {marks.PERIODIC})
            for kind, known in found.items():
                if kind in own:
                    known[name] = own[kind]
                    owners[kind, name] = klass
                    dropped.pop((kind, name), None)
                elif known.pop(name, None) is not None:
                    dropped[kind, name] = Dropped(kind, name, owners[kind, name], klass)
    for (kind, name), owner in owners.items():
        if name in found[kind]:
            _check_name(cls, owner, name)
    gone = frozenset(dropped.values())
    for drop in dropped.values():
        if drop not in told:
            _warn(drop)
    return {kind: types.MappingProxyType(known) for kind, known in found.items()}, gone


def _marks(attribute: Any) -> Mapping[str, Any]:
    """Return the marks that an attribute carries, also inside a descriptor."""
    if isinstance(attribute, type):
        return {}
    for function in marks.wrapped_chain(marks.inner_function(attribute)):
        found = getattr(function, marks.MARK, None)
        if isinstance(found, dict):
            return found
    return {}


def _check_method(
    klass: type, name: str, attribute: Any, reserved: frozenset[str], periodic: bool
) -> None:
    label = f"{klass.__qualname__}.{name}"
    what = f"a {marks.noun(marks.PERIODIC)}" if periodic else "a step"
    marks.check_method(attribute, label, what)
    if name in reserved or (name.startswith("__") and name.endswith("__")):
        raise marks.refuse(
            marks.whereabouts(attribute, label),
            f"is called by the engine or by Python itself, and cannot be {what}; rename it",
        )


def _check_name(cls: type, owner: type, name: str) -> None:
    """Refuse a name that means something else on this type of interface."""
    kind = getattr(cls, "interface_type", None)
    where = marks.whereabouts(vars(owner)[name], f"{owner.__qualname__}.{name}")
    if reserved_steps.is_reserved({"interface": kind, "step": name}):
        raise marks.refuse(
            where,
            f"has the name of the reserved step {name!r}, which the conductor does itself on the "
            f"{kind} interface; rename it",
        )
    if any(call.interface == kind and call.method == name for call in _CALLS):
        raise marks.refuse(
            where,
            f"is called by the engine itself on the {kind} interface, and cannot be a step; "
            "rename it",
        )


_CALLS = tuple(
    call
    for flow in steps.FLOWS.values()
    for call in (flow.prepare, flow.finish, flow.clean_up)
    if call is not None
)


def _refuse_lost_marks(klass: type) -> None:
    notes: list[marks.Note] = vars(klass).get(marks.NOTES, [])
    if not notes:
        return
    present = {
        id(declaration)
        for attribute in vars(klass).values()
        for declaration in _marks(attribute).values()
    }
    for where, name, kind, declaration in notes:
        if id(declaration) in present:
            continue
        if kind in _marks(vars(klass).get(name)):
            raise marks.refuse(where, f"is defined twice in {klass.__qualname__}; rename one")
        raise marks.refuse(
            where,
            f"was declared a {marks.noun(kind)}, but {klass.__qualname__} has none of this "
            "declaration: a decorator above it makes a new function without functools.wraps. Write "
            f"@functools.wraps(func) in that decorator, or put {marks.word(kind)} on top",
        )


def _warn(drop: Dropped) -> None:
    noun, word = marks.noun(drop.kind), marks.word(drop.kind)
    message = (
        f"{_full_name(drop.by)} overrides {drop.name!r}, a {noun} of {_full_name(drop.base)}, "
        f"without {word}: it is no {noun} any more. Decorate it again to keep it one"
    )
    LOG.warning(message)
    function = marks.inner_function(vars(drop.by).get(drop.name))
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
