"""What is no run of steps: verifying a node, tearing an instance down."""

from __future__ import annotations

import logging
from typing import Any

from deploysteps import states
from deploysteps.conductor import endings, words
from deploysteps.conductor.task_manager import TaskManager
from deploysteps.db import types
from deploysteps.steps import FLOWS, flow_of_state

LOG = logging.getLogger(__name__)


def _enter(task: TaskManager, event: str) -> str:
    """Move the node in memory and return the state it is in now."""
    node = task.node
    node.provision_state = states.next_state(node.provision_state, event)
    node.target_provision_state = states.STATES[node.provision_state].target
    node.provision_updated_at = types.utcnow()
    node.last_error = None
    return node.provision_state


def move(task: TaskManager, event: str) -> bool:
    """Do a verb of the table; True when it began work that a worker has to do."""
    if _enter(task, event) in states.TRANSIENT_STATES:
        task.write(task.node.changes())
        return True
    task.settle_state()
    return False


def _end(task: TaskManager, problem: str | None) -> None:
    """Leave the transient state, well or not, and give the lock back."""
    node = task.node
    if problem is not None:
        node.last_error = words.shown(problem, task.masker(), words.LAST_ERROR_BYTES)
        LOG.error("Node %s: %s", node.uuid, node.last_error)
        task.fail_state()
        return
    node.last_error = None
    node.provision_state = states.next_state(node.provision_state, states.DONE)
    task.settle_state()
    LOG.info("Node %s: now %s", node.uuid, node.provision_state)


def verify(task: TaskManager) -> None:
    """Check that the node can be managed, and learn its power state."""
    problem = None
    try:
        task.driver.power.validate(task)
        task.node.power_state = task.driver.power.get_power_state(task)
    except BaseException as exc:  # SystemExit and its like end this, not the conductor
        if task.lost:
            raise
        problem = f"the node cannot be managed: {words.text_of(exc)}"
    _end(task, problem)


def begin_tear_down(task: TaskManager) -> None:
    """Write that the node is being undeployed; a run that waits ends with it."""
    flow = flow_of_state(task.node.provision_state)
    if flow is None:
        move(task, states.DELETE)
        return
    ending = endings.Ending(endings.UNDEPLOYED, states.DELETE, clean_up=False, keep_lock=True)
    endings.end(task, flow, ending)


_INSTANCE_KEYS = ("instance", "root_uuid_or_disk_id", "is_whole_disk_image", "deploy_boot_mode")


def tear_down(task: TaskManager) -> None:
    """Let the driver take the instance off the machine, and forget the instance."""
    try:
        task.driver.deploy.tear_down(task)
    except BaseException as exc:  # SystemExit and its like end this, not the conductor
        if task.lost:
            raise
        _end(task, f"tearing down failed: {words.text_of(exc)}")
        return
    _forget_instance(task.node)
    _end(task, None)


def _forget_instance(node: Any) -> None:
    node.instance_uuid = node.instance_name = None
    node.instance_info = {}
    for key in _INSTANCE_KEYS:
        node.driver_internal_info.pop(key, None)
    endings.forget_agent(node)
    for flow in FLOWS.values():
        setattr(node, flow.step_field, None)
