"""Vendor methods: what only one maker's machines do, called by its name over the API.

::

    class MyVendor(base.VendorInterface):
        @base.passthru(["POST"], async_call=False, description="Blink")
        def blink(self, task, http_method, times):
            ...

        @base.driver_passthru(["GET"], async_call=False)
        def models(self, context, http_method):
            ...
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from deploysteps import exceptions
from deploysteps.drivers import marks

Method = TypeVar("Method", bound=Callable[..., Any])

HTTP_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
GIVEN_HERE = ("self", "task", "context", "method", "http_method")
"""Names of arguments that a caller cannot give: they are filled in for him."""

_NODE, _DRIVER = "_deploysteps_passthru", "_deploysteps_driver_passthru"


@dataclasses.dataclass(frozen=True, slots=True)
class Route:
    """A vendor method, as its decorator declares it."""

    name: str
    """The name that it is called by."""
    attribute: str
    """The attribute of the class that has it."""
    http_methods: Sequence[str]
    is_async: bool
    """Whether it runs in a worker, and nobody waits for what it returns."""
    description: str
    attach: bool
    """Whether what it returns, text or bytes, is the answer's body as it is."""
    require_exclusive_lock: bool | None
    """Whether it needs the node's lock; None for one that is about no node."""

    def shown(self) -> dict[str, Any]:
        """Return what is told of it, under the field's names."""
        told: dict[str, Any] = {
            "http_methods": list(self.http_methods),
            "async": self.is_async,
            "description": self.description,
            "attach": self.attach,
        }
        if self.require_exclusive_lock is not None:
            told["require_exclusive_lock"] = self.require_exclusive_lock
        return told


def passthru(
    http_methods: Sequence[str],
    method: str | None = None,
    async_call: bool = True,
    description: str | None = None,
    attach: bool = False,
    require_exclusive_lock: bool = True,
) -> Callable[[Method], Method]:
    """Declare a method of a vendor interface to be called for a node.

    It is called as ``method(task, http_method=..., **arguments)``, after
    ``validate(task, method=..., http_method=..., **arguments)``. A method that
    is a step as well carries both decorators.

    :param http_methods: those by which it may be called.
    :param method: the name that callers use; its own when it is not given.
    :param async_call: run it in a worker: the caller is answered 202 at once,
        and what it returns is dropped. False: he waits, and gets what it
        returns, which must be JSON. What talks to a controller had better not
        be waited for.
    :param attach: what it returns is text or bytes, and is sent as it is.
    :param require_exclusive_lock: False: it changes nothing of the node, and
        works while something else is going on.
    :raises StepDeclarationError: when the declaration cannot work.
    """
    return _decorator(
        _NODE, http_methods, method, async_call, description, attach, require_exclusive_lock
    )


def driver_passthru(
    http_methods: Sequence[str],
    method: str | None = None,
    async_call: bool = True,
    description: str | None = None,
    attach: bool = False,
) -> Callable[[Method], Method]:
    """Declare a method of a vendor interface to be called for the driver, without a node.

    It is called as ``method(context, http_method=..., **arguments)``, after
    ``driver_validate(method=..., http_method=..., **arguments)``. Parameters as
    :func:`passthru`.
    """
    return _decorator(_DRIVER, http_methods, method, async_call, description, attach, None)


def routes(cls: type) -> tuple[Mapping[str, Route], Mapping[str, Route]]:
    """Return what a class offers for nodes, and for the driver: name -> route.

    An override without the decorator is no vendor method any more.

    :raises StepDeclarationError: two methods have one name.
    """
    return _found(cls, _NODE), _found(cls, _DRIVER)


def not_to_give(given: Mapping[str, Any]) -> str | None:
    """Return why arguments are not a caller's to give; None when they are."""
    taken = sorted(name for name in given if name in GIVEN_HERE)
    return f"the argument {taken[0]!r} is not the caller's to give" if taken else None


def misfit(
    function: Callable[..., Any], first: Any, given: Mapping[str, Any], http_method: str
) -> str | None:
    """Return why arguments are not those that a method takes; None when they fit."""
    try:
        inspect.signature(function).bind(first, http_method=http_method, **given)
    except TypeError as exc:
        return str(exc)
    return None


def _decorator(
    mark: str,
    http_methods: Sequence[str],
    name: str | None,
    async_call: bool,
    description: str | None,
    attach: bool,
    lock: bool | None,
) -> Callable[[Method], Method]:
    def declare(function: Method) -> Method:
        where = marks.whereabouts(function)
        marks.check_method(function, what="a vendor method")
        if getattr(function, mark, None) is not None:
            raise marks.refuse(where, f"is declared {_WORDS[mark]} twice; remove one")
        route = Route(
            name=name or str(getattr(function, "__name__", "")),
            attribute="",
            http_methods=tuple(_methods(http_methods, where)),
            is_async=async_call,
            description=description or "",
            attach=attach,
            require_exclusive_lock=lock,
        )
        if attach and async_call:
            raise marks.refuse(
                where, "attaches what it returns, and nobody waits for it: add async_call=False"
            )
        setattr(function, mark, route)
        return function

    return declare


_WORDS = {_NODE: "@passthru", _DRIVER: "@driver_passthru"}


def _methods(given: Iterable[str], where: str) -> list[str]:
    names = [] if isinstance(given, str) else [str(name).upper() for name in given]
    if not names or not set(names) <= set(HTTP_METHODS):
        raise marks.refuse(
            where, f"needs a list of HTTP methods, each one of {', '.join(HTTP_METHODS)}"
        )
    return names


def _found(cls: type, mark: str) -> Mapping[str, Route]:
    found: dict[str, Route] = {}
    for attribute in dict.fromkeys(name for base in reversed(cls.__mro__) for name in vars(base)):
        value = getattr(cls, attribute, None)
        route = getattr(value, mark, None) if callable(value) else None
        if not isinstance(route, Route):
            continue
        if route.name in found:
            raise exceptions.StepDeclarationError(
                f"{cls.__module__}.{cls.__qualname__} has two methods {_WORDS[mark]} of the name "
                f"{route.name!r}; give one of them another by method=..."
            )
        found[route.name] = dataclasses.replace(route, attribute=attribute)
    return found
