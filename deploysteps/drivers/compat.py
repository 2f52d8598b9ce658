"""What drivers written for Ironic import, under the names that they use.

To port such a driver, change its imports and little else. Instead of
``ironic.common``'s ``exception``, ``i18n`` and ``metrics_utils``, ``ironic.conductor``'s
``periodics``, ``task_manager`` and ``utils``, and ``ironic.drivers.modules``'
``deploy_utils``::

    from deploysteps import states
    from deploysteps.drivers import base
    from deploysteps.drivers import compat as deploy_utils
    from deploysteps.drivers import compat as manager_utils
    from deploysteps.drivers import compat as periodics
    from deploysteps.drivers import compat as task_manager
    from deploysteps.drivers.compat import METRICS, _, exception

Three drivers ported this way stand in ``examples/ported``.

New drivers need none of it: see the docstring of each for what to write.

``prepare_agent_boot`` is not offered: how the agent is booted is the deploy
interface's own matter. Its ``prepare()``, ``prepare_cleaning()`` or
``prepare_service()`` calls ``task.driver.boot.prepare_ramdisk(task, params)`` and
``task.switch_power(states.REBOOT)``, and returns the flow's wait state.
"""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any, TypeVar, cast

from deploysteps import exceptions, protocols, steps
from deploysteps.drivers import compat_exceptions as exception
from deploysteps.drivers.contract import current_flow, waiting_state_of
from deploysteps.drivers.periodic import node_periodic

__all__ = [
    "METRICS",
    "_",
    "check_for_missing_params",
    "cleaning_error_handler",
    "deploying_error_handler",
    "exception",
    "get_async_step_return_state",
    "get_metrics_logger",
    "is_ramdisk_disabled",
    "node_periodic",
    "node_power_action",
    "notify_conductor_resume_clean",
    "notify_conductor_resume_deploy",
    "notify_conductor_resume_operation",
    "notify_conductor_resume_service",
    "require_exclusive_lock",
    "servicing_error_handler",
    "set_async_step_flags",
    "step_error_handler",
]

LOG = logging.getLogger(__name__)

Function = TypeVar("Function", bound=Callable[..., Any])


# --- how a step that goes on elsewhere says so ------------------------------------


def set_async_step_flags(
    node: protocols.Node,
    reboot: bool | None = None,
    skip_current_step: bool | None = None,
    polling: bool | None = None,
) -> None:
    """Say how the current step goes on, before it returns its wait state.

    The flags become fields of the step's attempt when it begins to wait, and
    are gone from the node then. New drivers return
    ``states.wait(state, reboot=..., callback=...)``, or raise ``StepNotReady`` to
    be entered again.

    :param reboot: the machine reboots; only its new boot's agent counts.
    :param skip_current_step: False: the step is entered again after the wait.
    :param polling: a periodic method ends the wait, not a heartbeat.
    :raises InvalidState: the node is in no flow whose steps can wait.
    """
    flow = current_flow(node)
    if flow.flags is None:
        raise exceptions.InvalidState(f"a {flow.name} step cannot wait; leave the flags away")
    wanted = {
        flow.flags.reboot: reboot,
        flow.flags.skip: skip_current_step,
        flow.flags.polling: polling,
    }
    for key, value in wanted.items():
        if value is not None:
            node.set_driver_internal_info(key, value)
    node.save()


def get_async_step_return_state(node: protocols.Node) -> str:
    """Return the state that the current step waits in; new drivers: ``base.wait_state(task)``."""
    return waiting_state_of(node)


def notify_conductor_resume_operation(task: protocols.Task, operation: str) -> None:
    """Say that the step which waits is done; new drivers: ``task.complete_step()``.

    :param operation: the flow's name. A node that is not in that flow (any
        more) is left alone.
    """
    flow = steps.flow_of_state(task.node.provision_state)
    if flow is None or flow.name != operation:
        LOG.warning(
            "Node %s is in state %s: that its %s goes on changes nothing",
            task.node.uuid,
            task.node.provision_state,
            operation,
        )
        return
    task.complete_step()


def notify_conductor_resume_deploy(task: protocols.Task) -> None:
    """As :func:`notify_conductor_resume_operation`, for a deployment."""
    notify_conductor_resume_operation(task, steps.DEPLOY.name)


def notify_conductor_resume_clean(task: protocols.Task) -> None:
    """As :func:`notify_conductor_resume_operation`, for cleaning."""
    notify_conductor_resume_operation(task, steps.CLEAN.name)


def notify_conductor_resume_service(task: protocols.Task) -> None:
    """As :func:`notify_conductor_resume_operation`, for servicing."""
    notify_conductor_resume_operation(task, steps.SERVICE.name)


def _error_handler(flow: steps.StepFlow) -> Callable[..., None]:
    def handle(
        task: protocols.Task, logmsg: str, errmsg: str | None = None, *args: Any, **kwargs: Any
    ) -> None:
        LOG.error("Node %s: %s", task.node.uuid, logmsg)
        if task.node.provision_state == flow.running:
            raise flow.error(errmsg or logmsg)  # called by the step itself
        task.fail_step(errmsg or logmsg)

    handle.__doc__ = (
        f"Say that the {flow.name} step which waits failed; new drivers: task.fail_step(why).\n\n"
        "    Further arguments of the field's are taken and have no meaning: an ending is\n"
        "    always a whole ending. Called while the step's own code runs, it raises.\n"
    )
    return handle


deploying_error_handler = _error_handler(steps.DEPLOY)
cleaning_error_handler = _error_handler(steps.CLEAN)
servicing_error_handler = _error_handler(steps.SERVICE)


def step_error_handler(task: protocols.Task, logmsg: str, errmsg: str | None = None) -> None:
    """Say that the current step, of whatever flow, failed; new drivers: ``task.fail_step(why)``.

    :raises InvalidState: the node is in no flow.
    """
    _error_handler(current_flow(task.node))(task, logmsg, errmsg)


def is_ramdisk_disabled(node: protocols.Node) -> bool:
    """Tell whether a cleaning or a servicing does without the machine's agent."""
    flow = steps.flow_of_state(node.provision_state)
    key = flow.no_ramdisk if flow is not None else None
    return bool(key and node.driver_internal_info.get(key))


# --- power and locks ----------------------------------------------------------------


def node_power_action(task: protocols.Task, new_state: str, timeout: float | None = None) -> None:
    """Change the machine's power; new drivers: ``task.switch_power(target, timeout)``."""
    task.switch_power(new_state, timeout=timeout)


def require_exclusive_lock(function: Function) -> Function:
    """Refuse a call whose task has no lock of its own.

    For a function or method whose first argument (after ``self``), or whose
    keyword argument ``task``, is a task.

    :raises ExclusiveLockRequired: when it is called with a shared task.
    """

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        task = kwargs.get("task") or next(arg for arg in args[:2] if hasattr(arg, "shared"))
        if task.shared:
            raise exceptions.ExclusiveLockRequired
        return function(*args, **kwargs)

    return cast("Function", wrapper)


# --- settings of a node -----------------------------------------------------------------


def check_for_missing_params(
    info_dict: Mapping[str, Any], error_msg: str, param_prefix: str = ""
) -> None:
    """Refuse what lacks some of its values.

    :param info_dict: name -> value.
    :param error_msg: what to say before the names.
    :param param_prefix: what to put before each name, such as ``instance_info.``.
    :raises MissingParameterValue: naming all that are empty.
    """
    missing = [f"{param_prefix}{name}" for name, value in info_dict.items() if not value]
    if missing:
        raise exceptions.MissingParameterValue(f"{error_msg}. Missing are: {missing}")


# --- words and numbers ----------------------------------------------------------------


def _(text: str) -> str:
    """Return the text: messages are not translated."""
    return text


class _Nothing:
    """A decorator and context manager that measures nothing."""

    def __call__(self, function: Function) -> Function:
        return function

    def __enter__(self) -> _Nothing:
        return self

    def __exit__(self, *exc: object) -> None:
        return None


class _Metrics:
    """Takes measurements and drops them."""

    def timer(self, name: str, *args: Any, **kwargs: Any) -> _Nothing:
        """Return a decorator or context manager that does nothing."""
        return _Nothing()

    counter = gauge = timer

    def send_timer(self, name: str, value: float, *args: Any, **kwargs: Any) -> None:
        """Drop a value."""

    send_counter = send_gauge = send_timer


METRICS = _Metrics()


def get_metrics_logger(*args: Any, **kwargs: Any) -> _Metrics:
    """Return what takes measurements: nothing comes of them."""
    return METRICS
