"""A plan that changes in flight: the agent tells its steps, or has others than it told."""

from __future__ import annotations

from typing import Any

from deploysteps import exceptions
from deploysteps.conductor import (
    attempts,
    endings,
    planning,
    policy,
    positions,
    starting,
    words,
)
from deploysteps.conductor.steps import Key, Plan, key_of
from deploysteps.conductor.task_manager import TaskManager
from deploysteps.db import runs, transitions
from deploysteps.db.models import StepRun
from deploysteps.steps import AWAITS_AGENT, STARTED_OVER, StepDict, StepFlow

MOST_RESTARTS = 3
"""How often one run begins again because the machine's steps have changed."""


def merge_agents(task: TaskManager, flow: StepFlow) -> None:
    """Put what the machine's agent offers into the plan, once it has told.

    The plan may be empty then, too.

    :raises InvalidParameterValue: it does not know a step that was asked for.
    """
    node, info = task.node, task.node.driver_internal_info
    plan, run_row = _planned(task, flow)
    if plan is None:
        return
    stored = info.get(flow.list_field) or []
    if any(entry.get("skip") for entry in stored):
        positions.refuse_another(stored, plan.entries, flow)
    current = getattr(node, flow.step_field)
    place = positions.locate(current, info.get(flow.index_field), stored) if stored else -1
    info[flow.list_field] = positions.replanned(stored, place, plan)
    del info[AWAITS_AGENT]
    # Said at once: what does not run is in the record, wherever the run ends.
    changes = node.changes()
    also = [transitions.save_left_out(run_row.id, plan.left_out), *task.changed_plan(changes)]
    task.write(changes, [*also, *starting.told_skipped(task, flow, plan)])


def start_over(task: TaskManager, flow: StepFlow, why: str) -> int:
    """Make the plan anew and stand before its first step, in memory.

    Steps that the run was told to skip, because it goes on with another, still are. What
    has ended well, and is not declared repeatable, is not run a second time, but for steps of
    the agent's.

    :param why: what has changed, for the error when it has changed too often.
    :returns: the place of the step to begin.
    :raises InvalidParameterValue: it cannot be made, or that was done too often.
    """
    node, info = task.node, task.node.driver_internal_info
    done = int(info.get(STARTED_OVER) or 0)
    if done >= MOST_RESTARTS:
        raise exceptions.InvalidParameterValue(
            f"{why}, after the run had begun again {done} times for this reason"
        )
    plan, _run = _planned(task, flow)
    if plan is None:
        raise exceptions.InvalidParameterValue(f"{why}, and the agent has not told its new ones")
    stored = info.get(flow.list_field) or []
    entries = _without_done(task, flow, stored, positions.replanned(stored, -1, plan))
    place = positions.following(entries, -1)
    if place == len(entries):
        raise exceptions.InvalidParameterValue(f"{why}, and no step is left")
    info[STARTED_OVER] = done + 1
    info[flow.list_field], info[flow.index_field] = entries, place
    setattr(node, flow.step_field, entries[place])
    return place


def _without_done(
    task: TaskManager, flow: StepFlow, stored: list[StepDict], entries: list[StepDict]
) -> list[StepDict]:
    """Return a new list in which what must not run again, and has run, is skipped.

    The agent's own steps run again, as the field has it: other hardware managers do them now.
    """
    run_id = attempts.run_id_of(task.node)
    told = runs.attempts(task.runtime.database, [run_id])[run_id]
    ended = {attempt.step_id for attempt in told if attempt.outcome == endings.SUCCESS}
    done = [_what(entry) for entry in stored if entry.get("id") in ended]
    found = []
    for entry in entries:
        again = entry.get("agent") or policy.of_step(task.driver, flow, entry).repeatable
        if _what(entry) in done and not again:
            done.remove(_what(entry))
            entry = {"skip": "done before in this run, and not repeatable", **entry}
        found.append(entry)
    return found


def _what(entry: StepDict) -> tuple[Key, Any]:
    return key_of(entry), entry.get("args") or {}


def _planned(task: TaskManager, flow: StepFlow) -> tuple[Plan | None, StepRun]:
    """Return the run's plan as it is today, None while the agent has not told its steps."""
    run_row = runs.get(task.runtime.database, attempts.run_id_of(task.node))
    try:
        if task.driver.deploy.agent_steps(task, flow.name) is None:
            return None, run_row
        return planning.build(task, flow, planning.Request.of(run_row.request)), run_row
    except exceptions.DeployStepsException:
        raise
    except BaseException as exc:  # whatever a driver raises fails the run, not the conductor
        cause: Any = exc.cause if isinstance(exc, planning.CollectionFailed) else exc
        raise exceptions.InvalidParameterValue(
            f"the steps cannot be collected: {words.text_of(cause)}"
        ) from exc
