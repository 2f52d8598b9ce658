"""What is no run of steps: tearing an instance down. Cleaning follows it."""

from __future__ import annotations

import inspect
import logging
from typing import Any

from deploysteps import exceptions, states
from deploysteps.conductor import brakes, endings, engine, planning, starting, words
from deploysteps.conductor.planning import Request
from deploysteps.conductor.steps import Plan
from deploysteps.conductor.task_manager import TaskManager
from deploysteps.db import allocations, nodes, transitions
from deploysteps.steps import CLEAN, FLOWS, StepFlow, flow_of_state

LOG = logging.getLogger(__name__)


def planned(task: TaskManager, flow: StepFlow, request: Request) -> tuple[Plan, str | None]:
    """Return the plan, or an empty one and what is wrong with the driver's own list.

    :raises InvalidParameterValue: what is asked for is wrong.
    """
    try:
        return planning.build(task, flow, request), None
    except planning.CollectionFailed as exc:  # not the caller's mistake: the run fails and says so
        trace = words.traced(exc.cause, task.masker())
        LOG.error("Node %s: its steps cannot be collected\n%s", task.node.uuid, trace)
        return Plan([]), f"the steps cannot be collected: {words.text_of(exc.cause)}"


def begin_tear_down(task: TaskManager) -> None:
    """Write that the node is being undeployed; a run that waits ends with it."""
    flow = flow_of_state(task.node.provision_state)
    if flow is None:
        row = nodes.history_row(
            task.node,
            "the undeployment begins",
            event_type="undeploy",
            conductor=task.runtime.host,
            user=task.user,
            project=task.project,
        )
        asked = transitions.history(row)
        task.move(states.DELETE, [asked], then=brakes.check(task, CLEAN))
        return
    ending = endings.Ending(endings.UNDEPLOYED, states.DELETE, clean_up=False, keep_lock=True)
    endings.end(task, flow, ending)


_INSTANCE_KEYS = ("instance", "root_uuid_or_disk_id", "is_whole_disk_image", "deploy_boot_mode")


def tear_down(task: TaskManager) -> None:
    """Let the driver take the instance off the machine, forget it, and clean the machine."""
    problem = None
    try:
        answer = task.driver.deploy.tear_down(task)
        problem = _odd(task, answer)
    except BaseException as exc:  # SystemExit and its like end this, not the conductor
        if task.lost:
            raise
        problem = f"tearing down failed: {words.text_of(exc)}"
    if problem is not None:
        task.node.last_error = words.shown(problem, task.masker(), words.LAST_ERROR_BYTES)
        LOG.error("Node %s: %s", task.node.uuid, task.node.last_error)
        task.fail_state()
        return
    _forget_instance(task.node)
    try:
        plan, bad = planned(task, CLEAN, Request())
    except exceptions.InvalidParameterValue as exc:  # nobody is there any more to be told
        plan, bad = Plan([]), words.text_of(exc)
    bad = bad or _maintenance(task)
    starting.start(
        task,
        CLEAN,
        plan,
        event=states.CLEAN,
        requested_by=task.user,
        also=[allocations.leaves(task.node.id)],
    )
    engine.run(task, CLEAN, bad, plan.note)


def _odd(task: TaskManager, answer: Any) -> str | None:
    """Return what speaks against a good end of ``tear_down()``: all but its two answers."""
    state = task.node.provision_state
    if state != states.DELETING:
        task.node.provision_state = states.DELETING
        return f"tear_down() moved the node to {state!r} by an event; it raises when it fails"
    if answer is None or (isinstance(answer, str) and answer == states.DELETED):
        return None
    if inspect.iscoroutine(answer) or inspect.isgenerator(answer):
        answer.close()  # its body never ran and never will
    return (
        f"tear_down() returned {type(answer).__name__}; it returns None or {states.DELETED!r} when "
        "the instance is off the machine, and raises when it is not"
    )


def _maintenance(task: TaskManager) -> str | None:
    """Return why no run may go on: maintenance may have been set while this one worked."""
    if task.runtime.conf.conductor.allow_provisioning_in_maintenance:
        return None
    now = nodes.get(task.runtime.database, task.node.id)
    reason = f" ({now.maintenance_reason})" if now.maintenance_reason else ""
    return f"maintenance mode{reason}" if now.maintenance else None


def _forget_instance(node: Any) -> None:
    node.instance_uuid = node.instance_name = None
    node.instance_info = {}
    for key in _INSTANCE_KEYS:
        node.driver_internal_info.pop(key, None)
    endings.forget_agent(node)
    for flow in FLOWS.values():
        setattr(node, flow.step_field, None)
