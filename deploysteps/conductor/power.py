"""Changing a machine's power state on request."""

from __future__ import annotations

import logging

from deploysteps import exceptions, states
from deploysteps.conductor import endings, words
from deploysteps.conductor.task_manager import TaskManager

LOG = logging.getLogger(__name__)

PURPOSE = "changing node power state"
"""What the lock of such a change is held for."""


def begin(task: TaskManager, target: str, timeout: float | None) -> None:
    """Refuse a target that makes no sense for the node.

    :raises InvalidParameterValue: naming what there is.
    """
    if target not in states.POWER_TARGETS:
        raise exceptions.InvalidParameterValue(
            f"unknown power target {target!r}; there are {', '.join(states.POWER_TARGETS)}"
        )
    if timeout is not None and (isinstance(timeout, bool) or not timeout > 0):
        raise exceptions.InvalidParameterValue("timeout must be a number of seconds above 0")
    node = task.node
    if node.provision_state in (states.CLEANING, states.CLEANWAIT):
        # Whoever does that ends the cleaning by hand, and nobody knows how far it was.
        raise exceptions.InvalidStateRequested(
            action=target, node=node.uuid, state=node.provision_state
        )
    if node.disable_power_off and states.POWER_TARGETS.get(target) == states.POWER_OFF:
        raise exceptions.InvalidParameterValue(
            f"Node {node.uuid} has disable_power_off: it is not switched off before that is unset"
        )
    try:
        supported = task.driver.power.get_supported_power_states(task)
    except BaseException as exc:  # as everywhere that a driver is asked for a request
        raise words.refusal(task, "the power states cannot be asked for", exc) from None
    if target not in supported:
        raise exceptions.InvalidParameterValue(
            f"driver {task.node.driver} does not support {target!r}; it supports "
            f"{', '.join(supported)}"
        )


def show_target(task: TaskManager, target: str) -> None:
    """Write what is going on; the agent that ran on the machine is lost to it."""
    node = task.node
    node.target_power_state = states.POWER_TARGETS[target]
    if task.loses_agent(target):
        endings.forget_agent(node)
    task.write(node.changes())


def change(task: TaskManager, target: str, timeout: float | None) -> None:
    """Bring the machine into the power state and write what became of it."""
    node = task.node
    try:
        task.switch_power(target, timeout)
    except BaseException as exc:  # SystemExit and its like end a change, not the conductor
        if task.lost:
            raise
        why = f"failed to change power state to {target!r}: {words.text_of(exc)}"
        node.power_state = states.ERROR
        node.last_error = words.shown(why, task.masker(), words.LAST_ERROR_BYTES)
        LOG.error("Node %s: %s", node.uuid, node.last_error)
    else:
        if not states.STATES[node.provision_state].failed:
            node.last_error = None  # why a node is in a failed state stays told
    node.target_power_state = None
    task.write(node.changes(), unlock=True)


def interrupted(task: TaskManager, who: str) -> None:
    """Note on the node, without writing, that a change was cut off: it happened or it did not.

    So the machine's power is not known: the next round of the sync finds it out, and forces
    nothing back that was asked for.
    """
    node = task.node
    if node.target_power_state is None:
        return  # it was not begun, or had ended
    why = f"a change of the power state to {node.target_power_state!r} was interrupted: {who}"
    if not states.STATES[node.provision_state].failed:
        node.last_error = words.shown(why, task.masker(), words.LAST_ERROR_BYTES)
    LOG.error("Node %s: %s", node.uuid, why)
    node.power_state = states.ERROR
