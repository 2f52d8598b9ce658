"""An attempt and the step that it tries: made, finished, told of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deploysteps import exceptions, states
from deploysteps.conductor import old_way, waiting, words
from deploysteps.conductor.task_manager import TaskManager
from deploysteps.db import runs, transitions, types
from deploysteps.db.locks import Also
from deploysteps.db.models import StepAttempt
from deploysteps.db.pages import made
from deploysteps.steps import StepDict, StepFlow

PREPARE = 0
"""Position of the attempt that prepares the node; steps count from 1."""


def prepares(flow: StepFlow) -> StepDict:
    """Return what runs before the first step, as a step is named."""
    interface, method = flow.prepare or ("", "")
    return {"interface": interface, "step": method}


def entry_of(task: TaskManager, flow: StepFlow) -> StepDict:
    """Return what the current attempt tries: a step of the list, or what is none.

    :raises InconsistentSteps: there is none.
    """
    attempt = task.attempt
    if attempt is not None and attempt.position == PREPARE:
        return prepares(flow)
    if old_way.is_old(attempt):
        return old_way.entry(flow)
    entry: StepDict | None = getattr(task.node, flow.step_field)
    if entry is None and attempt is not None:  # a step has meddled with it: its attempt names it
        plan = task.node.driver_internal_info.get(flow.list_field)
        named = (step for step in plan or () if isinstance(step, Mapping))
        entry = next((dict(s) for s in named if s.get("id") == attempt.step_id), None)
    if entry is None:
        raise exceptions.InconsistentSteps(reason="the run has no current step")
    return entry


def interface_of(task: TaskManager, entry: Mapping[str, Any]) -> Any:
    """Return the interface that runs a step: what the agent offers, the deploy interface does."""
    return getattr(task.driver, "deploy" if entry.get("agent") else entry["interface"])


def current(task: TaskManager) -> StepAttempt:
    """Return the attempt that is current.

    :raises InconsistentSteps: there is none.
    """
    if task.attempt is None:
        raise exceptions.InconsistentSteps(reason="the run has no current attempt")
    return task.attempt


def run_id_of(node: Any) -> int:
    """Return the row id of the node's run.

    :raises InconsistentSteps: it has none.
    """
    if node.run_id is None:
        raise exceptions.InconsistentSteps(reason="the node has no current run")
    return int(node.run_id)


def new(
    task: TaskManager, run_id: int, position: int, number: int, entry: Mapping[str, Any]
) -> StepAttempt:
    """Make an attempt that runs now."""
    return made(
        StepAttempt,
        run_id=run_id,
        position=position,
        attempt=number,
        node_id=task.node.id,
        interface=entry["interface"],
        step=entry["step"],
        step_id=entry.get("id"),
        state=runs.RUNNING,
        conductor=task.runtime.host,
        started_at=types.utcnow(),
        reenter=False,
        reboot=False,
    )


def has_retries_left(task: TaskManager, retries: int) -> bool:
    """Retries are for a step that raised: one that a crash cut off has used none up."""
    attempt = current(task)
    if attempt.attempt <= retries or not retries:
        return attempt.attempt <= retries
    lost = runs.interruptions(task.runtime.database, attempt.run_id, attempt.position)
    return attempt.attempt - lost <= retries


def finished(
    attempt: StepAttempt | None,
    outcome: str,
    *,
    error: str | None = None,
    evidence: Mapping[str, Any] | None = None,
) -> list[Also]:
    """Return the statement that ends an attempt, if it has not ended."""
    if attempt is None or attempt.state == runs.FINISHED:
        return []
    return [
        transitions.finish(
            attempt,
            outcome,
            types.utcnow(),
            error=error,
            evidence=evidence or attempt.evidence,
        )
    ]


def set_state(node: Any, state: str) -> None:
    """Let a node be in a state of its flow, in memory; the target stays."""
    if node.provision_state != state:
        row = states.STATES[state]
        if node.target_provision_state not in row.other_targets:
            node.target_provision_state = row.target
        node.provision_state = state
        node.provision_updated_at = types.utcnow()


def drop_flags(node: Any, flow: StepFlow) -> None:
    """Take away what drivers of the field note of one attempt."""
    for key in flow.flags or ():
        node.driver_internal_info.pop(key, None)


def clocks(task: TaskManager, flow: StepFlow) -> waiting.Clocks:
    """Return the settings that bound this flow's waits."""
    return waiting.clocks(task.runtime.conf, flow)


def told(task: TaskManager, why: str) -> str:
    """Return ``why`` with the step, the attempt and the time it took."""
    attempt = task.attempt
    if attempt is None:
        return why
    took = (types.utcnow() - attempt.started_at).total_seconds()
    return words.step_failed(attempt.interface, attempt.step, why, attempt.attempt, took)
