"""The decorators that declare a method to be a step, and what they refuse.

A declaration that would fail in the middle of a deployment fails here, while
the class body runs, with the file, the class, the method and what to write
instead.
"""

from __future__ import annotations

import copy
import functools
import inspect
import math
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar

from deploysteps import exceptions, steps
from deploysteps.drivers import args

Method = TypeVar("Method")

MARK = "_deploysteps_marks"
"""Attribute of a decorated function: flow name -> its declaration. As an
attribute it is carried along by :func:`functools.wraps`."""

NOTES = "_deploysteps_notes"
"""Name in a class body: a list of :class:`Note`, one for each declaration made
in it, whether or not its function is still there when the class is ready."""


class Note(NamedTuple):
    """What a decorator leaves in the class body."""

    where: str
    name: str
    declaration: steps.Declaration


MAX_SECONDS = 2**31 - 1
"""The longest time that every clock and database can add to today."""

_WRAPPERS = 100
"""Decorators on one function; more is a chain that bites its own tail."""

_CLASS_BODY_DEPTH = 12
"""Calls between a class body and a decorator in it (helpers of helpers)."""


def deploy_step(
    priority: int,
    argsinfo: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    abortable: bool = True,
    repeatable: bool = False,
    timeout: float | None = None,
    retries: int = 0,
    retry_delay: float = 0,
) -> Callable[[Method], Method]:
    """Declare a method of an interface class to be a deploy step.

    The method is called as ``method(task, **args)``. It returns None when the
    step is done, ``states.DEPLOYWAIT`` or ``states.wait(...)`` when it goes on
    elsewhere, and raises when it failed.

    :param priority: place in the deployment, the highest runs first; 0 means
        that the step only runs when somebody asks for it.
    :param argsinfo: argument name -> ``{'description': ...}`` and optionally
        ``'required'`` (bool), ``'schema'`` (a JSON Schema for the value) and
        ``'secret'`` (bool: masked wherever people look).
    :param abortable: whether a wait of this step may be aborted at once;
        False: an abort takes effect when the step has ended.
    :param repeatable: whether it is safe to run the step again, even while a
        first try may still be running somewhere.
    :param timeout: seconds that the step may wait; 0 means without limit,
        None means the limit of the configuration.
    :param retries: how many more times a step that raised is tried; needs
        ``repeatable``.
    :param retry_delay: seconds between two tries.
    :raises StepDeclarationError: when the declaration cannot work.
    """
    return _decorator(
        steps.Declaration(
            flow=steps.DEPLOY.name,
            priority=priority,
            argsinfo=argsinfo,
            abortable=abortable,
            repeatable=repeatable,
            timeout=timeout,
            retries=retries,
            retry_delay=retry_delay,
        )
    )


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


def check_method(method: Any, name: str | None = None) -> None:
    """Refuse what cannot be called as ``instance.name(task, **args)``.

    :param method: an attribute as it stands in the class body.
    :raises StepDeclarationError: with the remedy.
    """
    where = whereabouts(method, name)
    for kinds, what in _NO_METHODS:
        if isinstance(method, kinds):
            raise refuse(where, f"{what} cannot be a step; write a plain method (self, task, ...)")
    function = inner_function(method)
    if not callable(function) or not hasattr(type(function), "__get__"):
        raise refuse(
            where,
            f"a {type(function).__name__} is not bound to its instance like a method and cannot "
            "be a step; write a plain method (self, task, ...), and decorators as functions",
        )
    for part in wrapped_chain(function):
        for is_kind, what in _NO_PLAIN_CALLS:
            if is_kind(part):
                raise refuse(
                    where,
                    f"{what} cannot be a step, because calling it does not run its body; write a "
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


def _decorator(declaration: steps.Declaration) -> Callable[[Method], Method]:
    word = f"{declaration.flow}_step"
    if callable(declaration.priority) or hasattr(declaration.priority, "__get__"):
        raise refuse(
            whereabouts(declaration.priority),
            f"did you forget ()? Write @{word}(priority), for example @{word}(50)",
        )

    def mark(method: Method) -> Method:
        check_method(method)
        where = whereabouts(method)
        _check_numbers(where, word, declaration)
        _check_flags(where, word, declaration)
        function = inner_function(method)
        checked = _checked_argsinfo(where, declaration.argsinfo)
        made = steps.Declaration(
            declaration.flow,
            int(declaration.priority),
            _fit_signature(where, function, checked),
            declaration.abortable,
            declaration.repeatable,
            declaration.timeout,
            int(declaration.retries),
            declaration.retry_delay,
        )
        notes = _class_notes()
        marks = dict(getattr(function, MARK, {}))
        if any(marks.get(made.flow) is note.declaration for note in notes):
            raise refuse(where, f"has @{word} twice; remove one")
        try:
            setattr(function, MARK, marks | {made.flow: made})
        except (AttributeError, TypeError):
            raise refuse(
                where,
                f"a {type(function).__name__} cannot be marked as a step; write a plain method",
            ) from None
        notes.append(Note(where, getattr(function, "__name__", ""), made))
        return method

    return mark


def _class_notes() -> list[Note]:
    """Return the list :data:`NOTES` of the class body that runs now.

    A decorator sees the function and not what becomes of it. The note lets
    the finished class tell that a mark was lost under a later wrapper.
    """
    frame = sys._getframe(2)
    for _ in range(_CLASS_BODY_DEPTH):
        is_function = frame.f_code.co_flags & inspect.CO_OPTIMIZED
        if not is_function:
            if frame.f_locals is frame.f_globals or "__qualname__" not in frame.f_locals:
                break
            notes: list[Note] = frame.f_locals.setdefault(NOTES, [])
            return notes
        if frame.f_back is None:
            break
        frame = frame.f_back
    return []


def _is_number(value: object, kinds: Any) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def _check_numbers(where: str, word: str, declaration: steps.Declaration) -> None:
    for name, most in (("priority", steps.MAX_PRIORITY), ("retries", steps.MAX_PRIORITY)):
        value = getattr(declaration, name)
        if not _is_number(value, int) or not 0 <= value <= most:
            raise refuse(
                where,
                f"@{word}({name}=...) takes an integer from 0 to {most}, got {_shown(value)}",
            )
    for name in ("timeout", "retry_delay"):
        value = getattr(declaration, name)
        if value is None and name == "timeout":
            continue
        if (
            not _is_number(value, int | float)
            or not math.isfinite(value)
            or not 0 <= value <= MAX_SECONDS
        ):
            raise refuse(
                where,
                f"@{word}({name}=...) takes seconds, a number from 0 to {MAX_SECONDS}, "
                f"got {_shown(value)}",
            )


def _check_flags(where: str, word: str, declaration: steps.Declaration) -> None:
    for name in ("abortable", "repeatable"):
        value = getattr(declaration, name)
        if not isinstance(value, bool):
            raise refuse(where, f"@{word}({name}=...) takes True or False, got {_shown(value)}")
    if declaration.retries and not declaration.repeatable:
        raise refuse(
            where,
            f"@{word}(retries={declaration.retries}) needs repeatable=True: a step that is tried "
            "again must be safe to run twice; if it is, add repeatable=True, else drop retries",
        )


_ARGUMENT_KEYS = ("description", "required", "schema", "secret")


def _checked_argsinfo(
    where: str, argsinfo: Mapping[str, Mapping[str, Any]] | None
) -> dict[str, dict[str, Any]] | None:
    if argsinfo is None:
        return None
    if not isinstance(argsinfo, Mapping):
        raise refuse(
            where,
            f"argsinfo is a {type(argsinfo).__name__}; write a dict "
            "{'name': {'description': '...'}}, or None when the step takes no arguments",
        )
    for name, info in argsinfo.items():
        if not isinstance(name, str) or not name.isidentifier():
            raise refuse(where, f"argsinfo has the key {_shown(name)}; write an argument's name")
        _check_argument(f"{where}: argsinfo[{name!r}]", info)
    return copy.deepcopy({name: dict(info) for name, info in argsinfo.items()})


def _check_argument(where: str, info: object) -> None:
    if not isinstance(info, Mapping):
        raise refuse(where, f"is {_shown(info)}; write {{'description': '...'}}")
    unknown = [key for key in info if key not in _ARGUMENT_KEYS]
    if unknown:
        raise refuse(where, f"has unknown keys {unknown!r}; known are {list(_ARGUMENT_KEYS)}")
    description = info.get("description")
    if not isinstance(description, str) or not description.strip():
        raise refuse(where, "has no 'description'; say in a sentence what the argument is for")
    for key in ("required", "secret"):
        if not isinstance(info.get(key, False), bool):
            raise refuse(where, f"{key!r} is {_shown(info[key])}; write True or False")
    if "schema" in info:
        try:
            args.check_schema(info["schema"])
        except ValueError as exc:
            raise refuse(where, f"'schema' is no JSON Schema (2020-12): {exc}") from None


def _fit_signature(
    where: str, function: Any, argsinfo: dict[str, dict[str, Any]] | None
) -> dict[str, dict[str, Any]] | None:
    """Compare the arguments with the method's parameters.

    An argument that says nothing about ``required`` and whose parameter has
    no default is required, and the returned mapping says so.
    """
    given = argsinfo or {}
    parameters = _Parameters.of(function)
    if parameters is None:
        return argsinfo
    if not parameters.takes_task:
        raise refuse(where, "takes no task; write def ...(self, task, ...)")
    for name in given:
        if name in parameters.taken:
            raise refuse(
                where,
                f"argsinfo names {name!r}, which is what the engine passes itself; rename it",
            )
        if name not in parameters.by_name and not parameters.any_name:
            raise refuse(
                where,
                f"argsinfo names {name!r}, but the method has no such argument; add it to the "
                "method or take it out of argsinfo",
            )
    for name in parameters.needed:
        if name not in given:
            raise refuse(
                where,
                f"needs the argument {name!r}, which is not in argsinfo; add "
                f"{{{name!r}: {{'description': '...', 'required': True}}}} or give it a default",
            )
        if not given[name].setdefault("required", True):
            raise refuse(
                where,
                f"argsinfo says that {name!r} is not required, but the method has no default for "
                "it; give it one or write 'required': True",
            )
    return argsinfo


class _Parameters:
    """What a method takes beside ``self`` and ``task``."""

    def __init__(self, parameters: list[inspect.Parameter]) -> None:
        positional = [
            p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        starred = any(p.kind is p.VAR_POSITIONAL for p in parameters)
        rest = positional[2:] + [p for p in parameters if p.kind is p.KEYWORD_ONLY]
        self.takes_task = starred or len(positional) >= 2
        self.taken = {"self", "task"} | {
            p.name for p in positional[:2] if p.kind is not p.POSITIONAL_ONLY
        }
        self.any_name = any(p.kind is p.VAR_KEYWORD for p in parameters)
        self.by_name = {p.name for p in rest if p.kind is not p.POSITIONAL_ONLY}
        self.needed = [p.name for p in rest if p.default is p.empty]

    @classmethod
    def of(cls, function: Any) -> _Parameters | None:
        """Read a function's signature through its wrappers, if it has one."""
        try:
            return cls(list(inspect.signature(function).parameters.values()))
        except (TypeError, ValueError):
            return None


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."
