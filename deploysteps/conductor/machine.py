"""What is asked of a machine itself, beside power: boot device, firmware, console, media, VIFs.

What is read needs no lock. What is set takes it; what may take long is handed
to a worker, and what became of it stands in ``last_error`` and the history.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

from deploysteps import exceptions, secrets, states
from deploysteps.conductor import provision, words
from deploysteps.conductor.runtime import Runtime
from deploysteps.conductor.task_manager import TaskManager, acquire
from deploysteps.db import nodes, transitions, types

LOG = logging.getLogger(__name__)

_TO_REPEAT = (409, 503)
"""Codes that tell a caller to try again; they stay what they are."""


class Masking(Protocol):
    """As much of a task as telling an error needs."""

    def masker(self) -> secrets.Masker:
        """Return what masks the secrets that were there."""


@contextmanager
def refusing(task: Masking, what: str) -> Iterator[None]:
    """Turn whatever a driver raises into what its caller is told.

    What a driver says of a request is the caller's to mend, in its own words;
    anything else is the driver's own mistake.

    :param what: what was tried, for the latter.
    :raises UnsupportedDriverExtension: the driver does not do this.
    :raises InvalidParameterValue: it does, and not with what is asked for.
    :raises Conflict, DeployStepsException: try again.
    :raises DriverOperationError: it failed.
    """
    try:
        yield
    except exceptions.LockLost:
        raise
    except BaseException as exc:  # SystemExit would stop the server that asks
        raise refusal(task, what, exc) from exc


def refusal(task: Masking, what: str, exc: BaseException) -> exceptions.DeployStepsException:
    """Return what to raise in place of what a driver raised; see :func:`refusing`."""
    if not isinstance(exc, exceptions.DeployStepsException):
        return words.refusal(task, what, exc)
    told = words.shown(words.text_of(exc), task.masker(), words.LAST_ERROR_BYTES)
    if isinstance(exc, exceptions.UnsupportedDriverExtension):
        return exceptions.UnsupportedDriverExtension(told)
    if exc.code in _TO_REPEAT:
        return exceptions.DeployStepsException(told, code=exc.code)
    if exc.code < 500:
        return exceptions.InvalidParameterValue(told)
    return words.refusal(task, what, exc)


def fitting(answer: Any, kinds: type | tuple[type, ...], what: str) -> Any:
    """Return what a driver answered, if it can be sent at all.

    :raises DriverOperationError: it cannot.
    """
    try:
        types.encode(answer)
    except (TypeError, ValueError, RecursionError) as exc:
        raise exceptions.DriverOperationError(
            f"{what} returned what is not JSON ({type(exc).__name__}: {exc})"
        ) from exc
    if not isinstance(answer, kinds):
        raise exceptions.DriverOperationError(f"{what} returned a {type(answer).__name__}")
    return answer


def valid(task: TaskManager, kind: str) -> Any:
    """Return an interface of the node that has what it needs.

    :raises UnsupportedDriverExtension, InvalidParameterValue: it has not.
    """
    provision.has_driver(task)
    interface = getattr(task.driver, kind)
    with refusing(task, f"the {kind} interface cannot be validated"):
        interface.validate(task)
    return interface


# --- read, and set at once -------------------------------------------------------------


def read(
    runtime: Runtime,
    context: Any,
    node_id: str,
    kind: str,
    method: str,
    *args: Any,
    kinds: type | tuple[type, ...],
) -> Any:
    """Return what a method of one of the node's interfaces returns; errors as :func:`refusing`.

    :param kinds: what it may be.
    """
    purpose = f"calling {kind}.{method}"
    with acquire(context, node_id, shared=True, purpose=purpose, runtime=runtime) as task:
        interface = valid(task, kind)
        with refusing(task, f"{kind}.{method} failed"):
            return fitting(getattr(interface, method)(task, *args), kinds, f"{kind}.{method}")


def do(
    runtime: Runtime,
    context: Any,
    node_id: str,
    kind: str,
    method: str,
    *args: Any,
    failed: str | None = None,
    **named: Any,
) -> None:
    """Call a method that sets something, under the node's lock; errors as :func:`refusing`.

    :param failed: what the history tells when it raised.
    """
    purpose = f"calling {kind}.{method}"
    with acquire(context, node_id, purpose=purpose, runtime=runtime) as task:
        interface = valid(task, kind)
        try:
            with refusing(task, f"{kind}.{method} failed"):
                getattr(interface, method)(task, *args, **named)
                if not task.ended:
                    task.node.save()
        except exceptions.DeployStepsException as exc:
            if failed is not None and not task.lost and not task.ended:
                task.write({}, [_told(task, f"{failed}: {exc}", kind)])
            raise


def set_raid(
    runtime: Runtime, context: Any, node_id: str, target_raid_config: Mapping[str, Any]
) -> None:
    """Keep the RAID configuration that a node is to have; an empty one asks for nothing."""
    purpose = "setting target RAID config"
    with acquire(context, node_id, purpose=purpose, runtime=runtime) as task:
        if target_raid_config:
            provision.has_driver(task)
            with refusing(task, "the RAID configuration cannot be checked"):
                task.driver.raid.validate_raid_config(task, target_raid_config)
        task.write({"target_raid_config": dict(target_raid_config)})


def disk_properties(runtime: Runtime, driver: str) -> dict[str, str]:
    """Return key of a logical disk -> description, of a hardware type's default interface."""
    interface = runtime.registry.compose(driver).raid
    found: dict[str, str] = fitting(
        interface.get_logical_disk_properties(), dict, "raid.get_logical_disk_properties"
    )
    return found


# --- set by a worker ---------------------------------------------------------------------


def set_boot_mode(runtime: Runtime, context: Any, node_id: str, mode: str) -> None:
    """Begin a change of the boot mode."""

    def work(task: TaskManager) -> None:
        management = task.driver.management
        if _known(task, management.get_boot_mode) != mode:
            management.set_boot_mode(task, mode)
        task.node.boot_mode = mode

    _begin(runtime, context, node_id, "management", f"change boot mode to {mode!r}", work)


def set_secure_boot(runtime: Runtime, context: Any, node_id: str, on: bool) -> None:
    """Begin a change of secure boot."""

    def work(task: TaskManager) -> None:
        management = task.driver.management
        if _known(task, management.get_secure_boot_state) is not on:
            management.set_secure_boot_state(task, on)
        task.node.secure_boot = on

    what = f"switch secure boot {'on' if on else 'off'}"
    _begin(runtime, context, node_id, "management", what, work)


def console_of(runtime: Runtime, context: Any, node_id: str) -> dict[str, Any] | None:
    """Return how to reach the node's console; None when it is not started."""
    purpose = "getting console information"
    with acquire(context, node_id, shared=True, purpose=purpose, runtime=runtime) as task:
        if not task.node.console_enabled:
            return None
        interface = valid(task, "console")
        with refusing(task, "console.get_console failed"):
            found: dict[str, Any] = fitting(
                interface.get_console(task), dict, "console.get_console"
            )
            return found


def set_console(runtime: Runtime, context: Any, node_id: str, on: bool) -> None:
    """Begin to start or to stop the node's console."""

    def work(task: TaskManager) -> None:
        console = task.driver.console
        (console.start_console if on else console.stop_console)(task)
        task.node.console_enabled = on

    what = f"{'start' if on else 'stop'} the console"
    _begin(
        runtime, context, node_id, "console", what, work,
        unless=lambda task: bool(task.node.console_enabled) is on, anytime=True,
    )  # fmt: skip


def attach_media(
    runtime: Runtime, context: Any, node_id: str, device_type: str, image_url: str
) -> None:
    """Begin to put an image into a virtual drive."""

    def work(task: TaskManager) -> None:
        task.driver.management.attach_virtual_media(
            task, device_type=device_type, image_url=image_url
        )

    what = f"attach virtual media as {device_type}"
    conceal = {"image_url": image_url}
    _begin(runtime, context, node_id, "management", what, work, anytime=True, conceal=conceal)


def detach_media(
    runtime: Runtime, context: Any, node_id: str, device_types: Sequence[str] | None
) -> None:
    """Begin to empty virtual drives; None means all of them."""

    def work(task: TaskManager) -> None:
        task.driver.management.detach_virtual_media(task, device_types=device_types)

    what = f"detach virtual media ({', '.join(device_types or ['all'])})"
    _begin(runtime, context, node_id, "management", what, work, anytime=True)


def _begin(
    runtime: Runtime,
    context: Any,
    node_id: str,
    kind: str,
    what: str,
    work: Callable[[TaskManager], None],
    *,
    unless: Callable[[TaskManager], bool] = lambda task: False,
    anytime: bool = False,
    conceal: Any = None,
) -> None:
    """Check that an interface can be asked, and hand the rest to a worker.

    :param anytime: also while a run waits.
    :param conceal: what may hold secrets of its own.
    :raises Conflict: the node is between two states.
    """
    with provision.HandingOver(runtime, context, node_id, what) as (task, hand_over):
        state = task.node.provision_state
        if not anytime and states.STATES[state].kind is not states.Kind.STABLE:
            raise exceptions.Conflict(
                f"Node {task.node.uuid} is in state {state!r}, from which it goes on by itself: to "
                f"{what} now would be in the way. Try again later."
            )
        task.conceal(conceal)
        valid(task, kind)
        if not unless(task):
            hand_over(change, what, work, kind)


def change(
    task: TaskManager, what: str, work: Callable[[TaskManager], None], event_type: str
) -> None:
    """Do the work, in a worker, and write what became of it."""
    node, problem = task.node, None
    try:
        work(task)
        if not task.ended:
            node.save()
    except BaseException as exc:  # SystemExit and its like end this, not the conductor
        if task.lost:
            raise
        problem = f"failed to {what}: {words.text_of(exc)}"
    if task.ended:
        return  # the driver moved the node by an event, and all was written with it
    if problem is not None:
        # What the driver changed and did not save is dropped: it may be half done.
        told = words.shown(problem, task.masker(), words.LAST_ERROR_BYTES)
        LOG.error("Node %s: %s", node.uuid, told)
        task.write({"last_error": told}, [_told(task, problem, event_type)], unlock=True)
    elif states.STATES[node.provision_state].failed:
        task.write({}, unlock=True)  # why a node is in a failed state stays told
    else:
        task.write({"last_error": None}, unlock=True)


def _known(task: TaskManager, ask: Callable[[TaskManager], Any]) -> Any:
    """Return what a driver says of the present; None when it cannot."""
    try:
        return ask(task)
    except BaseException as exc:  # it is set then, whatever it was
        if task.lost:
            raise
        told = words.shown(words.text_of(exc), task.masker(), words.LAST_ERROR_BYTES)
        LOG.info("Node %s: what is set now is not known: %s", task.node.uuid, told)
        return None


def _told(task: TaskManager, event: str, event_type: str) -> Any:
    return transitions.history(
        nodes.history_row(
            task.node,
            words.shown(event, task.masker(), words.LAST_ERROR_BYTES),
            event_type=event_type,
            severity="ERROR",
            conductor=task.runtime.host,
            user=task.user,
            project=task.project,
        )
    )
