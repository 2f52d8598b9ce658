"""The one ending: success, failure, abort, timeout, take-over, undeploy, deletion.

Reason and state, the run's outcome, the attempt's, the history entry and the
unlock are one write; index, list and flags are gone with it.
"""

from __future__ import annotations

import dataclasses
import logging
from contextlib import suppress
from typing import Any

from deploysteps import exceptions, states
from deploysteps.conductor import words
from deploysteps.db import locks, nodes, power, runs, transitions, types
from deploysteps.steps import AGENT_TOLD, Call, StepFlow

LOG = logging.getLogger(__name__)

SUCCESS, FAILED, ABORTED, TIMEOUT = "success", "failed", "aborted", "timeout"
INTERRUPTED, UNDEPLOYED = runs.INTERRUPTED, "undeployed"
_FAULTS = (FAILED, TIMEOUT)
"""Outcomes after which nobody knows how the machine is."""


@dataclasses.dataclass(frozen=True, slots=True)
class Ending:
    """How a run ends."""

    outcome: str
    event: str
    """Event of the state table: ``done``, ``fail``, ``abort``, ``delete``."""
    reason: str | None = None
    """For people, not yet masked or shortened."""
    exception: BaseException | None = None
    clean_up: bool = True
    """Whether the deploy interface may tidy up: never after a lost lock."""
    attempt_outcome: str | None = None
    """Of the current attempt, where it is not the run's: an abort that came
    while a step ran takes effect when the step has ended well."""
    note: str | None = None
    """Why a good end is one with nothing done; history, events and metrics tell it."""
    keep_lock: bool = False
    """The state is not the last one: an undeploy goes on under the lock."""

    @property
    def good(self) -> bool:
        """Whether an abort that was asked for takes precedence."""
        return self.outcome == SUCCESS


def succeed(note: str | None = None) -> Ending:
    """End well."""
    return Ending(SUCCESS, states.DONE, note=note)


def fail(reason: str, exception: BaseException | None = None, **more: Any) -> Ending:
    """End with a failure."""
    return Ending(FAILED, states.FAIL, reason, exception, **more)


def end(task: Any, flow: StepFlow, ending: Ending) -> None:
    """End the node's run and give the lock back, in one write.

    :raises LockLost: nothing was written and the work must stop.
    :raises AbortAsked: a good end that has to give way; nothing was written.
    """
    if task.ended:
        raise exceptions.LockLost(node=task.node.uuid)
    node, attempt = task.node, task.attempt
    reason = ending.reason
    if not ending.good and ending.clean_up and with_ramdisk(task, flow):
        reason = _cleaned_up(task, flow, reason)
    mask = task.masker()
    error = words.shown(reason, mask, words.LAST_ERROR_BYTES) if reason else None
    now = types.utcnow()
    kept = ("provision_state", "target_provision_state", flow.step_field, *(flow.times or ()))
    before = {name: getattr(node, name) for name in kept}
    had = {key: node.driver_internal_info.get(key) for key in flow.keys}
    values = _node_values(task, flow, ending, error, now)
    also = []
    if attempt is not None and attempt.state != runs.FINISHED:
        also.append(
            transitions.finish(
                attempt,
                ending.attempt_outcome or ending.outcome,
                now,
                error=None if ending.attempt_outcome == SUCCESS else error,
                evidence=words.evidence_of(ending.exception, mask, attempt.evidence),
            )
        )
    if node.run_id is not None:
        finished = transitions.end_run(
            node.run_id, ending.outcome, error, now, good=ending.good, note=ending.note
        )
        also.append(finished)
    also.append(
        transitions.history(
            nodes.history_row(
                node,
                error or _told_well(flow, ending, values["provision_state"]),
                event_type=f"{flow.name} {ending.outcome}",
                severity="ERROR" if error else "INFO",
                conductor=task.runtime.host,
                user=task.user,
                project=task.project,
            ),
            node.run_id,
        )
    )
    # What fails before the first step has done nothing to the machine.
    if flow.fault and error and ending.outcome in _FAULTS and before[flow.step_field]:
        # An operator's maintenance stays his.
        also.append(power.found_faulty(node.id, error, flow.fault, must=False))
    run_id = node.run_id
    try:
        task.write(
            values,
            also,
            unlock=not ending.keep_lock,
            unless_abort_of=run_id if ending.good else None,
        )
    except (locks.AbortAsked, locks.Stale):
        if not ending.good:
            raise
        # Asked for before the fence, or between it and the run's row.
        for name, value in before.items():
            setattr(node, name, value)
        node.driver_internal_info.update({k: v for k, v in had.items() if v is not None})
        raise locks.AbortAsked from None
    task.attempt = None
    if ending.exception is not None and not _meant(ending.exception):
        # An author's mistake: where it is, is what is needed first.
        LOG.error("Node %s:\n%s", node.uuid, words.traced(ending.exception, mask))
    told = LOG.info if ending.good else LOG.error
    told(
        "Node %s: %s ended: %s, now %s%s",
        node.uuid,
        flow.name,
        ending.outcome,
        values["provision_state"],
        f": {error}" if error else "",
    )


def _meant(exc: BaseException) -> bool:
    """Tell whether an exception is a driver's word for a failure, and no mistake in its code."""
    return isinstance(exc, exceptions.DeployStepsException)


def with_ramdisk(task: Any, flow: StepFlow) -> bool:
    """Tell whether the run prepares the ramdisk, and has to put it away."""
    return not (flow.no_ramdisk and task.node.driver_internal_info.get(flow.no_ramdisk))


def _told_well(flow: StepFlow, ending: Ending, state: str) -> str:
    if not ending.good:
        return f"{flow.name} ended by {ending.event!r}; the node is {state}"
    note = f" ({ending.note})" if ending.note else ""
    return f"{flow.name} succeeded{note}; the node is {state}"


def call(task: Any, what: Call) -> Any:
    """Call a method of one of the node's interfaces."""
    return getattr(getattr(task.driver, what.interface), what.method)(task)


def _cleaned_up(task: Any, flow: StepFlow, reason: str | None) -> str | None:
    waits = task.attempt is not None and task.attempt.state == runs.WAITING
    try:
        if flow.cut_short is not None and waits:
            with suppress(exceptions.UnsupportedDriverExtension):  # then it goes on for nothing
                call(task, flow.cut_short)
        if flow.clean_up is not None:
            call(task, flow.clean_up)
    except BaseException as exc:  # its error is told beside the reason, the state is reached
        if task.lost and isinstance(exc, exceptions.LockLost):
            raise
        also = f"cleaning up failed as well: {words.text_of(exc)}"
        told = words.shown(also, task.masker(), words.LAST_ERROR_BYTES)
        LOG.error("Node %s: %s", task.node.uuid, told)
        return f"{reason}; {also}" if reason else also
    finally:
        task.undo_renaming()
    return reason


def _node_values(
    task: Any, flow: StepFlow, ending: Ending, error: str | None, now: Any
) -> dict[str, Any]:
    """Return what of the node the ending writes."""
    node = task.node
    for key in flow.keys:
        node.driver_internal_info.pop(key, None)
    if not ending.keep_lock:
        forget_agent(node)
    before, target = node.provision_state, node.target_provision_state
    event = ending.event if not ending.good else states.good_end(before, target)
    node.provision_state = states.next_state(before, event)
    node.target_provision_state = states.target_after(before, event, target)
    node.provision_updated_at = now
    node.last_error = error
    for key in flow.drops:
        node.instance_info.pop(key, None)
    if flow.times:
        since, until = flow.times
        setattr(node, since, None)
        if ending.good:
            setattr(node, until, now)
    if ending.good or ending.keep_lock:
        setattr(node, flow.step_field, None)
    return {**node.changes(), "run_id": None}


def forget_agent(node: Any) -> None:
    """Drop what is known of the machine's agent, its token above all.

    The one place: called at every loss of the agent (an ending, a power
    change), so that the next boot of the agent gets a fresh token and the
    old one is refused.
    """
    for key in ("agent_secret_token", "agent_url", "agent_verify_ca", AGENT_TOLD):
        node.driver_internal_info.pop(key, None)
