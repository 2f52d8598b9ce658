"""Vendor methods: which there are, and calling one for a node or for a driver."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from deploysteps import exceptions, secrets
from deploysteps.conductor import machine, provision, words
from deploysteps.conductor.runtime import Runtime
from deploysteps.conductor.task_manager import TaskManager, acquire
from deploysteps.drivers import passthru

LOG = logging.getLogger(__name__)

Answer = dict[str, Any]
"""``return``: what the method returned, text or bytes if it is to be attached;
``async``: whether it runs in a worker, and nobody waits for that; ``attach``."""


def methods_of_node(runtime: Runtime, context: Any, node_id: str) -> dict[str, Any]:
    """Return name -> what is told of it, of the methods of the node's vendor interface."""
    purpose = "listing vendor methods"
    with acquire(context, node_id, shared=True, purpose=purpose, runtime=runtime) as task:
        provision.has_driver(task)
        return {name: one.shown() for name, one in task.driver.vendor.vendor_routes.items()}


def methods_of_driver(runtime: Runtime, driver: str) -> dict[str, Any]:
    """Return the same of a hardware type's default vendor interface.

    :raises DriverNotFound: it is not enabled here.
    """
    vendor = runtime.registry.compose(driver).vendor
    return {name: one.shown() for name, one in vendor.driver_routes.items()}


def call_for_node(
    runtime: Runtime,
    context: Any,
    node_id: str,
    name: str,
    http_method: str,
    given: Mapping[str, Any],
) -> Answer:
    """Call a method for a node; see :func:`deploysteps.drivers.passthru.passthru`."""
    with acquire(context, node_id, shared=True, purpose="finding", runtime=runtime) as task:
        provision.has_driver(task)
        route = _route(task.driver.vendor.vendor_routes, name, http_method)
    purpose, lock = f"calling vendor method {name}", bool(route.require_exclusive_lock)
    if route.is_async:
        handing = provision.HandingOver(runtime, context, node_id, purpose, shared=not lock)
        with handing as (task, hand_over):
            _check(task, route, http_method, given)
            hand_over(_work if lock else _work_unlocked, route, http_method, given)
        return {"return": None, "async": True, "attach": route.attach}
    with acquire(context, node_id, shared=not lock, purpose=purpose, runtime=runtime) as task:
        method = _check(task, route, http_method, given)
        with machine.refusing(task, f"vendor method {name} failed"):
            returned = _fit(method(task, http_method=http_method, **given), route)
            if lock and not task.ended:
                task.node.save()
        return {"return": returned, "async": False, "attach": route.attach}


def call_for_driver(
    runtime: Runtime,
    context: Any,
    driver: str,
    name: str,
    http_method: str,
    given: Mapping[str, Any],
) -> Answer:
    """Call a method of a hardware type's default vendor interface, without a node.

    :raises DriverNotFound: it is not enabled here.
    """
    vendor = runtime.registry.compose(driver).vendor
    route = _route(vendor.driver_routes, name, http_method)
    method, mask = getattr(vendor, route.attribute), secrets.Masker(given)
    said = _Said(mask)
    _refuse(route, passthru.not_to_give(given))
    with machine.refusing(said, f"vendor method {name} was not checked"):
        vendor.driver_validate(method=name, http_method=http_method, **given)
    _refuse(route, passthru.misfit(method, context, given, http_method))
    if not route.is_async:
        with machine.refusing(said, f"vendor method {name} failed"):
            returned = _fit(method(context, http_method=http_method, **given), route)
        return {"return": returned, "async": False, "attach": route.attach}

    def work() -> None:
        try:
            method(context, http_method=http_method, **given)
        except BaseException as exc:  # nobody waits for it: the log is where it is told
            LOG.error("Vendor method %s of %s failed\n%s", name, driver, words.traced(exc, mask))

    runtime.workers.reserve(operator=True).run(work)
    return {"return": None, "async": True, "attach": route.attach}


class _Said:
    """What was said, where there is no node."""

    def __init__(self, mask: secrets.Masker) -> None:
        self._mask = mask

    def masker(self) -> secrets.Masker:
        """Return what masks the secrets in it."""
        return self._mask


def _route(routes: Mapping[str, passthru.Route], name: str, http_method: str) -> passthru.Route:
    route = routes.get(name)
    if route is None:
        known = f"; there are {', '.join(sorted(routes))}" if routes else ""
        raise exceptions.InvalidParameterValue(f"No handler for method {name[:80]}{known}")
    if http_method not in route.http_methods:
        raise exceptions.InvalidParameterValue(
            f"The method {name} does not support HTTP {http_method}; it does "
            f"{', '.join(route.http_methods)}"
        )
    return route


def _check(
    task: TaskManager, route: passthru.Route, http_method: str, given: Mapping[str, Any]
) -> Callable[..., Any]:
    """Return a method that may be called so.

    :raises InvalidParameterValue: naming what is wrong with its arguments.
    """
    task.conceal(given)
    provision.has_driver(task)
    vendor = task.driver.vendor
    route = _route(vendor.vendor_routes, route.name, http_method)  # it may be another by now
    method: Callable[..., Any] = getattr(vendor, route.attribute)
    _refuse(route, passthru.not_to_give(given))
    with machine.refusing(task, f"vendor method {route.name} was not checked"):
        vendor.validate(task, method=route.name, http_method=http_method, **given)
    _refuse(route, passthru.misfit(method, task, given, http_method))
    return method


def _refuse(route: passthru.Route, problem: str | None) -> None:
    if problem is not None:
        raise exceptions.InvalidParameterValue(f"vendor method {route.name}: {problem}")


def _fit(returned: Any, route: passthru.Route) -> Any:
    if route.attach and isinstance(returned, bytes | str):
        return returned
    if route.attach:
        raise exceptions.DriverOperationError(
            f"vendor method {route.name} returned a {type(returned).__name__}; what it attaches is "
            "text or bytes"
        )
    return machine.fitting(returned, object, f"vendor method {route.name}")


def _work(
    task: TaskManager, route: passthru.Route, http_method: str, given: Mapping[str, Any]
) -> None:
    method = getattr(task.driver.vendor, route.attribute)
    machine.change(
        task,
        f"do what vendor method {route.name} does",
        lambda held: method(held, http_method=http_method, **given),
        "vendor",
    )


def _work_unlocked(
    task: TaskManager, route: passthru.Route, http_method: str, given: Mapping[str, Any]
) -> None:
    try:
        getattr(task.driver.vendor, route.attribute)(task, http_method=http_method, **given)
    except BaseException as exc:  # it changes nothing of the node: the log is where it is told
        trace = words.traced(exc, task.masker())
        LOG.error("Node %s: vendor method %s failed\n%s", task.node.uuid, route.name, trace)
