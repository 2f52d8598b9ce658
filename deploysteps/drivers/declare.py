"""The decorators that declare a method to be a step, and what they refuse.

A declaration that would fail in the middle of a deployment fails here, while
the class body runs, with the file, the class, the method and what to write
instead.
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from deploysteps import steps
from deploysteps.drivers import args, marks
from deploysteps.drivers.marks import refuse

Method = TypeVar("Method")

MAX_SECONDS = 2**31 - 1
"""The longest time that every clock and database can add to today."""


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


def clean_step(
    priority: int,
    abortable: bool = False,
    argsinfo: Mapping[str, Mapping[str, Any]] | None = None,
    requires_ramdisk: bool = True,
    *,
    repeatable: bool = False,
    timeout: float | None = None,
    retries: int = 0,
    retry_delay: float = 0,
) -> Callable[[Method], Method]:
    """Declare a method of an interface class to be a clean step.

    As :func:`deploy_step`, but for cleaning: it waits with ``states.CLEANWAIT``.
    A method that serves several flows carries the decorator of each, and waits
    with ``base.wait_state(task)``.

    :param priority: place in automated cleaning, the highest runs first; 0
        means that the step only runs when somebody asks for it.
    :param requires_ramdisk: whether the machine must run the agent's ramdisk;
        False: the step is done without it, through the controller alone.
    :raises StepDeclarationError: when the declaration cannot work.
    """
    return _decorator(
        steps.Declaration(
            flow=steps.CLEAN.name,
            priority=priority,
            argsinfo=argsinfo,
            abortable=abortable,
            repeatable=repeatable,
            timeout=timeout,
            retries=retries,
            retry_delay=retry_delay,
            requires_ramdisk=requires_ramdisk,
        )
    )


def verify_step(
    priority: int, *, repeatable: bool = False, retries: int = 0
) -> Callable[[Method], Method]:
    """Declare a method of an interface class to be a verify step.

    It runs when a node becomes manageable, is called as ``method(task)``, and
    returns None or raises: a verification cannot wait.

    :param priority: place in the verification, the highest runs first; 0
        means never, unless a setting gives it another one.
    :param repeatable: whether it is safe to run the step again.
    :param retries: how many more times a step that raised is tried, at once;
        needs ``repeatable``.
    :raises StepDeclarationError: when the declaration cannot work.
    """
    return _decorator(
        steps.Declaration(
            flow=steps.VERIFY.name, priority=priority, repeatable=repeatable, retries=retries
        )
    )


def service_step(
    priority: int = 0,
    abortable: bool = False,
    argsinfo: Mapping[str, Mapping[str, Any]] | None = None,
    requires_ramdisk: bool = True,
    *,
    repeatable: bool = False,
    timeout: float | None = None,
    retries: int = 0,
    retry_delay: float = 0,
) -> Callable[[Method], Method]:
    """Declare a method of an interface class to be a service step.

    As :func:`clean_step`, but for a machine in service: it only runs when
    somebody asks for it, and waits with ``states.SERVICEWAIT``.

    :raises StepDeclarationError: when the declaration cannot work.
    """
    return _decorator(
        steps.Declaration(
            flow=steps.SERVICE.name,
            priority=priority,
            argsinfo=argsinfo,
            abortable=abortable,
            repeatable=repeatable,
            timeout=timeout,
            retries=retries,
            retry_delay=retry_delay,
            requires_ramdisk=requires_ramdisk,
        )
    )


def _decorator(declaration: steps.Declaration) -> Callable[[Method], Method]:
    word = marks.word(declaration.flow)
    if callable(declaration.priority) or hasattr(declaration.priority, "__get__"):
        raise refuse(
            marks.whereabouts(declaration.priority),
            f"did you forget ()? Write {word}(priority), for example {word}(50)",
        )

    def mark(method: Method) -> Method:
        marks.check_method(method)
        where = marks.whereabouts(method)
        _check_numbers(where, word, declaration)
        _check_flags(where, word, declaration)
        function = marks.inner_function(method)
        checked = _checked_argsinfo(where, declaration.argsinfo)
        made = dataclasses.replace(
            declaration,
            priority=int(declaration.priority),
            argsinfo=_fit_signature(where, function, checked),
            retries=int(declaration.retries),
        )
        marked: Method = marks.leave(method, where, made.flow, made)
        return marked

    return mark


def _is_number(value: object, kinds: Any) -> bool:
    return isinstance(value, kinds) and not isinstance(value, bool)


def _check_numbers(where: str, word: str, declaration: steps.Declaration) -> None:
    for name, most in (("priority", steps.MAX_PRIORITY), ("retries", steps.MAX_PRIORITY)):
        value = getattr(declaration, name)
        if not _is_number(value, int) or not 0 <= value <= most:
            raise refuse(
                where,
                f"{word}({name}=...) takes an integer from 0 to {most}, got {_shown(value)}",
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
                f"{word}({name}=...) takes seconds, a number from 0 to {MAX_SECONDS}, "
                f"got {_shown(value)}",
            )


def _check_flags(where: str, word: str, declaration: steps.Declaration) -> None:
    for name in ("abortable", "repeatable", "requires_ramdisk"):
        value = getattr(declaration, name)
        if not isinstance(value, bool):
            raise refuse(where, f"{word}({name}=...) takes True or False, got {_shown(value)}")
    if declaration.retries and not declaration.repeatable:
        raise refuse(
            where,
            f"{word}(retries={declaration.retries}) needs repeatable=True: a step that is tried "
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
