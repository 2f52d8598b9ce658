"""Methods of a driver that look at nodes from time to time: ``@node_periodic``.

They end waits that nobody else can end: a method that asks a controller about
its jobs, and then calls ``task.complete_step()`` or ``task.fail_step(why)``.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from deploysteps.drivers import marks
from deploysteps.drivers.marks import refuse

Method = TypeVar("Method")

MAX_SPACING = 365 * 86_400
"""The longest pause between two looks, in seconds."""

_WORD = marks.word(marks.PERIODIC)


@dataclasses.dataclass(frozen=True, slots=True)
class Periodic:
    """What ``@node_periodic`` says about a method."""

    spacing: float
    filters: Mapping[str, Any]
    enabled: bool
    purpose: str
    limit: int | None
    shared_task: bool
    predicate: Callable[[Any], Any] | None
    predicate_extra_fields: tuple[str, ...]
    takes: int
    """How many of ``task``, ``manager`` and ``context`` the method is given."""


def node_periodic(
    spacing: float | None = None,
    filters: Mapping[str, Any] | None = None,
    *,
    enabled: bool = True,
    purpose: str | None = None,
    limit: int | None = None,
    shared_task: bool = True,
    predicate: Callable[[Any], Any] | None = None,
    predicate_extra_fields: Sequence[str] = (),
) -> Callable[[Method], Method]:
    """Declare a method of an interface class to be called for nodes again and again.

    It is called as ``method(task, manager, context)``, ``method(task, context)``
    or ``method(task)``, whatever it takes, for each node that uses this very
    interface and that the filters let through. The nodes are looked up in one
    query. What the method raises for one node is logged, fails a step of this
    interface that waits by callback there, and does not keep it from the others.

    :param spacing: seconds between two looks.
    :param filters: what a node must be like, all of it: a column and its value
        (``maintenance``, ``provision_state``, ...), ``<column>_in`` and a list of
        values, or ``reserved`` (bool: whether its lock is held).
    :param enabled: False: the method is never called.
    :param purpose: what the lock is for, as others see it; the method's name if
        it is not given.
    :param limit: how many nodes are looked at each time, the others the next
        time; None means all.
    :param shared_task: False: the task holds the node's lock; a node that
        somebody else works on is left out this time.
    :param predicate: called with an object that has ``uuid``, ``driver``,
        ``conductor_group`` and the extra fields; the node is left out unless it
        says True. For what a filter cannot say.
    :param predicate_extra_fields: names of what else of the node it looks at.
    :raises StepDeclarationError: when the declaration cannot work.
    """
    if callable(spacing) or hasattr(spacing, "__get__"):
        raise refuse(
            marks.whereabouts(spacing),
            f"did you forget ()? Write {_WORD}(spacing), for example {_WORD}(60)",
        )

    def mark(method: Method) -> Method:
        noun = marks.noun(marks.PERIODIC)
        marks.check_method(method, what=f"a {noun}")
        where = marks.whereabouts(method)
        _check_purpose(where, purpose)
        _check_options(where, enabled=enabled, shared_task=shared_task, limit=limit)
        _check_predicate(where, predicate, predicate_extra_fields)
        function = marks.inner_function(method)
        made = Periodic(
            spacing=_checked_spacing(where, spacing, enabled),
            filters=_checked_filters(where, filters),
            enabled=enabled,
            purpose=purpose or f"periodic {getattr(function, '__name__', noun)}",
            limit=limit,
            shared_task=shared_task,
            predicate=predicate,
            predicate_extra_fields=tuple(predicate_extra_fields),
            takes=_takes(where, function),
        )
        marked: Method = marks.leave(method, where, marks.PERIODIC, made)
        return marked

    return mark


def _checked_spacing(where: str, spacing: Any, enabled: bool) -> float:
    """Return the seconds; those of a method that is switched off may be 0."""
    if (
        isinstance(spacing, bool)
        or not isinstance(spacing, int | float)
        or not math.isfinite(spacing)
        or not 0 <= spacing <= MAX_SPACING
        or (enabled and not spacing)
    ):
        raise refuse(
            where,
            f"{_WORD}(spacing=...) takes seconds, a number above 0 and up to {MAX_SPACING}, got "
            f"{spacing!r}",
        )
    return float(spacing)


def _checked_filters(where: str, filters: Any) -> Mapping[str, Any]:
    if filters is None:
        return {}
    if not isinstance(filters, Mapping):
        raise refuse(
            where,
            f"{_WORD}(filters=...) takes a dict such as {{'maintenance': False}}, not a "
            f"{type(filters).__name__}",
        )
    for name, value in filters.items():
        if not isinstance(name, str):
            raise refuse(where, f"filters has the key {name!r}; write the name of a column")
        if name.endswith("_in") and not isinstance(value, list | tuple | set | frozenset):
            raise refuse(where, f"filters[{name!r}] takes a list of values")
    return copy.deepcopy(dict(filters))


def _check_options(where: str, *, limit: Any, **flags: Any) -> None:
    for name, value in flags.items():
        if not isinstance(value, bool):
            raise refuse(where, f"{_WORD}({name}=...) takes True or False, got {value!r}")
    whole = isinstance(limit, int) and not isinstance(limit, bool)
    if limit is not None and not (whole and limit > 0):
        raise refuse(where, f"{_WORD}(limit=...) takes a number of nodes above 0, got {limit!r}")


def _check_purpose(where: str, purpose: Any) -> None:
    if purpose is not None and not (isinstance(purpose, str) and 0 < len(purpose) <= 255):
        raise refuse(where, f"{_WORD}(purpose=...) takes a text of 1 to 255 characters")


def _check_predicate(where: str, predicate: Any, fields: Any) -> None:
    if predicate is not None and not callable(predicate):
        raise refuse(
            where, f"{_WORD}(predicate=...) takes a function, not a {type(predicate).__name__}"
        )
    if not isinstance(fields, list | tuple) or not all(isinstance(name, str) for name in fields):
        raise refuse(
            where, f"{_WORD}(predicate_extra_fields=...) takes a list of the node's fields"
        )
    if fields and predicate is None:
        raise refuse(where, f"{_WORD}(predicate_extra_fields=...) is for a predicate; add it")


_FORMS = "(self, task, manager, context), (self, task, context) or (self, task)"


def _takes(where: str, function: Any) -> int:
    """Return how many arguments beside ``self`` the method takes."""
    parameters = list(inspect.signature(function).parameters.values())
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    needed = sum(p.default is p.empty for p in positional) - 1
    most = len(positional) - 1
    if any(p.kind is p.VAR_POSITIONAL for p in parameters):
        most = 3
    keyword_only = any(p.kind is p.KEYWORD_ONLY and p.default is p.empty for p in parameters)
    takes = min(most, 3)
    if takes < 1 or needed > 3 or keyword_only:
        raise refuse(where, f"is called by the conductor; write def ...{_FORMS}")
    return takes
