"""The marks that decorators leave on methods, and what cannot carry one."""

from __future__ import annotations

import functools
import inspect
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from deploysteps import exceptions

MARK = "_deploysteps_marks"
"""Attribute of a decorated function: what it declares (a flow's name, or
:data:`PERIODIC`) -> the declaration. As an attribute it is carried along by
:func:`functools.wraps`."""

PERIODIC = "periodic"
"""The kind of mark that ``@node_periodic`` leaves; the others are named as flows."""

NOTES = "_deploysteps_notes"
"""Name in a class body: a list of :class:`Note`, one for each declaration made
in it, whether or not its function is still there when the class is ready."""


class Note(NamedTuple):
    """What a decorator leaves in the class body."""

    where: str
    name: str
    kind: str
    declaration: Any


_WRAPPERS = 100
"""Decorators on one function; more is a chain that bites its own tail."""

_CLASS_BODY_DEPTH = 12
"""Calls between a class body and a decorator in it (helpers of helpers)."""


def word(kind: str) -> str:
    """Return the decorator of a kind of mark, as authors write it."""
    return "@node_periodic" if kind == PERIODIC else f"@{kind}_step"


def noun(kind: str) -> str:
    """Return what a method with a mark of this kind is."""
    return "periodic method" if kind == PERIODIC else f"{kind} step"


def leave(method: Any, where: str, kind: str, declaration: Any) -> Any:
    """Mark a method, and note it in the class body that runs now.

    :returns: the method to put into the class. Of a function that belongs
        elsewhere, such as to a base class, it is a copy: a mark on the function
        itself would be one for everybody who has it.
    :raises StepDeclarationError: when it cannot carry the mark or has it already.
    """
    notes, body = _class_notes()
    method = _own(method, body)
    function = inner_function(method)
    marks = dict(getattr(function, MARK, {}))
    if any(marks.get(kind) is note.declaration for note in notes):
        raise refuse(where, f"has {word(kind)} twice; remove one")
    try:
        setattr(function, MARK, marks | {kind: declaration})
    except (AttributeError, TypeError):
        raise refuse(
            where,
            f"a {type(function).__name__} cannot be marked as a {noun(kind)}; write a plain method",
        ) from None
    notes.append(Note(where, getattr(function, "__name__", ""), kind, declaration))
    return method


def _own(method: Any, body: str | None) -> Any:
    """Return a method whose function belongs to the class body of this name."""
    function = inner_function(method)
    foreign = body is not None and not getattr(function, "__qualname__", "").startswith(f"{body}.")
    if not foreign or not isinstance(function, types.FunctionType):
        return method
    copy = types.FunctionType(
        function.__code__,
        function.__globals__,
        function.__name__,
        function.__defaults__,
        function.__closure__,
    )
    copy.__kwdefaults__ = function.__kwdefaults__
    functools.update_wrapper(copy, function)
    copy.__dict__.pop("__wrapped__")  # it is no wrapper of the other, but of what that wraps
    copy.__dict__.update(function.__dict__)
    return type(method)(copy) if isinstance(method, classmethod | staticmethod) else copy


def _class_notes() -> tuple[list[Note], str | None]:
    """Return the list :data:`NOTES` of the class body that runs now, and the class's name.

    A decorator sees the function and not what becomes of it. The note lets
    the finished class tell that a mark was lost under a later wrapper.
    """
    frame = sys._getframe(3)
    for _ in range(_CLASS_BODY_DEPTH):
        is_function = frame.f_code.co_flags & inspect.CO_OPTIMIZED
        if not is_function:
            if frame.f_locals is frame.f_globals or "__qualname__" not in frame.f_locals:
                break
            notes: list[Note] = frame.f_locals.setdefault(NOTES, [])
            return notes, str(frame.f_locals["__qualname__"])
        if frame.f_back is None:
            break
        frame = frame.f_back
    return [], None


def refuse(where: str, problem: str) -> exceptions.StepDeclarationError:
    """Return the error for a declaration; ``where`` is from :func:`whereabouts`."""
    return exceptions.StepDeclarationError(f"{where}: {problem}")


def whereabouts(method: object, name: str | None = None) -> str:
    """Return ``file:line: Class.method`` for a method or what wraps one."""
    *_, function = wrapped_chain(inner_function(method))
    code = getattr(function, "__code__", None)
    place = f"{code.co_filename}:{code.co_firstlineno}: " if code else ""
    return place + (name or getattr(function, "__qualname__", None) or repr(method))


def inner_function(attribute: Any) -> Any:
    """Return the function inside a descriptor such as ``classmethod``."""
    if isinstance(attribute, staticmethod | classmethod):
        return attribute.__func__
    if isinstance(attribute, functools.partialmethod | functools.partial):
        return attribute.func
    if isinstance(attribute, property):
        return attribute.fget
    if isinstance(attribute, functools.cached_property):
        return attribute.func
    return attribute


def wrapped_chain(function: Any) -> Iterator[Any]:
    """Yield a function, what it wraps, what that wraps, and so on."""
    yield function
    for _ in range(_WRAPPERS):
        function = getattr(function, "__wrapped__", None)
        if function is None:
            break
        yield function


def check_method(method: Any, name: str | None = None, what: str = "a step") -> None:
    """Refuse what cannot be called as ``instance.name(task, **args)``.

    :param method: an attribute as it stands in the class body.
    :param what: what it cannot be, for the message.
    :raises StepDeclarationError: with the remedy.
    """
    where = whereabouts(method, name)
    for kinds, odd in _NO_METHODS:
        if isinstance(method, kinds):
            raise refuse(where, f"{odd} cannot be {what}; write a plain method (self, task, ...)")
    function = inner_function(method)
    if not callable(function) or not hasattr(type(function), "__get__"):
        raise refuse(
            where,
            f"a {type(function).__name__} is not bound to its instance like a method and cannot "
            f"be {what}; write a plain method (self, task, ...), and decorators as functions",
        )
    for part in wrapped_chain(function):
        for is_kind, odd in _NO_PLAIN_CALLS:
            if is_kind(part):
                raise refuse(
                    where,
                    f"{odd} cannot be {what}, because calling it does not run its body; write a "
                    "plain `def` that does the work, e.g. by asyncio.run(), or return "
                    "states.wait(...) and override check_step()",
                )


_NO_METHODS: tuple[tuple[Any, str], ...] = (
    (staticmethod, "a staticmethod"),
    (functools.partialmethod, "a partialmethod"),
    (functools.partial, "a functools.partial"),
    (property, "a property"),
    (functools.cached_property, "a cached_property"),
    (type, "a class"),
    (types.MethodType, "a bound method"),
)

_NO_PLAIN_CALLS: tuple[tuple[Callable[[Any], bool], str], ...] = (
    (inspect.iscoroutinefunction, "an async function"),
    (inspect.isasyncgenfunction, "an async generator"),
    (inspect.isgeneratorfunction, "a generator"),
)
