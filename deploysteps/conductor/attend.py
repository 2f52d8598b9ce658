"""Looking after waiting steps: beats, polls, timers, signals and time-outs.

:func:`attend` is the one function that decides what becomes of a wait. It
runs under the node's lock, in a worker, for the sweeper and for heartbeats.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from typing import Any, NamedTuple

from deploysteps import exceptions, reserved, states
from deploysteps.conductor import answers, attempts, endings, engine, waiting, words
from deploysteps.conductor.runtime import Runtime
from deploysteps.conductor.task_manager import TaskManager, adopt
from deploysteps.conductor.workers import Slot
from deploysteps.db import locks, nodes, runs, transitions, types
from deploysteps.db.models import StepAttempt
from deploysteps.db.transitions import Key, key_of
from deploysteps.drivers.base import DeployInterface
from deploysteps.steps import StepFlow

LOG = logging.getLogger(__name__)

PURPOSE = "looking after a waiting step"


class Beat(NamedTuple):
    """What an agent's heartbeat says."""

    callback_url: str
    agent_version: str | None = None
    agent_verify_ca: str | None = None
    agent_status: str | None = None
    agent_status_message: str | None = None


def guarded(work: Callable[..., None]) -> Callable[..., None]:
    """Return ``work(task, ...)`` with the last resort: what escapes fails the node."""

    def run(task: TaskManager, *args: Any) -> None:
        try:
            work(task, *args)
        except exceptions.LockLost as exc:
            told = words.shown(str(exc), task.masker(), words.LAST_ERROR_BYTES)
            LOG.warning("Node %s: %s The work stops here.", task.node.uuid, told)
        except exceptions.DatabaseUnavailable as exc:
            # No failure of the node's: it goes on from what is written, as after a crash.
            LOG.error("Node %s: recovery goes on from here: %s", task.node.uuid, exc)
            task.abandon()
        except BaseException as exc:
            trace = words.traced(exc, task.masker())
            LOG.error("Node %s: an error of the engine, not of a step\n%s", task.node.uuid, trace)
            _last_resort(task, exc)

    return run


def _last_resort(task: TaskManager, exc: BaseException) -> None:
    if task.lock is None or task.ended:
        return
    try:
        # What is in memory may be half changed; the row is what counts.
        row = nodes.get(task.runtime.database, task.node.id)
        task.lock.generation = row.generation
        fresh = adopt(task.runtime, task.context, row, task.lock, task.purpose)
        flow = engine.flow_of(fresh)
        # What one of ours says is for people, such as that a driver is not there any more.
        ours = isinstance(exc, exceptions.DeployStepsException)
        reason = f"{'' if ours else 'internal error: '}{words.text_of(exc)}"
        if flow is not None:
            reason = attempts.told(fresh, reason)
            endings.end(fresh, flow, endings.fail(reason, exc))
            return
        fresh.node.last_error = words.shown(reason, task.masker(), words.LAST_ERROR_BYTES)
        fresh.node.target_power_state = None
        if fresh.node.provision_state in states.TRANSIENT_STATES:
            fresh.fail_state()
        else:
            fresh.write(fresh.node.changes(), unlock=True)
    except BaseException:
        # Not even that could be written. The lock stays, and no work is
        # under it: the recovery loop finds it and brings the node to an end.
        LOG.exception("Node %s: it could not be failed; recovery will", task.node.uuid)
        task.abandon()


def attend(task: TaskManager, key: Key, beat: Beat | None = None) -> None:
    """Decide what becomes of the waiting attempt ``key``.

    :param beat: a heartbeat that came for it.
    """
    attempt, flow = task.attempt, engine.flow_of(task)
    if flow is None or attempt is None or attempt.state != runs.WAITING or key_of(attempt) != key:
        LOG.debug("Node %s: %s ended before it was looked at", task.node.uuid, key)
        return
    signal = attempt.signal
    if signal == "abort":
        engine.abort(task, flow)
    elif signal == "done":
        engine.resume(task, flow)
    elif signal == "fail":
        engine.fail_waiting(task, flow, answers.Failed(attempt.signal_detail or "it failed"))
    elif _is_too_long(attempt):
        _last_look(task, flow, attempt)
    elif beat is not None or signal == "beat":
        _heard(task, flow, attempt, beat or _remembered(task, attempt))
    elif attempt.poll is not None and attempt.owner in _ASKED:
        _poll(task, flow, attempt)
    elif attempt.owner == "timer":
        engine.resume(task, flow)
    else:
        _wait_on(task, flow, attempt)


_ASKED = ("poller", "agent")
"""Owners of waits that may be asked after on the timer."""


def _is_too_long(attempt: StepAttempt) -> bool:
    return attempt.deadline_at is not None and types.utcnow() >= attempt.deadline_at


def _last_look(task: TaskManager, flow: StepFlow, attempt: StepAttempt) -> None:
    """Give a wait up that is at its limit; polled work may have ended since it was asked after."""
    if attempt.poll is not None and attempt.owner in _ASKED:
        _poll(task, flow, attempt)
    else:
        engine.time_out(task, flow, _too_long(attempt))


def _too_long(attempt: StepAttempt) -> str:
    since, until = attempt.waiting_since, attempt.deadline_at
    took = (until - since).total_seconds() if since and until else 0
    whom = {
        "agent": "the machine's agent to report that it is done",
        "poller": "the polled work to finish",
        "timer": "the step to become ready",
        "callback": "the driver to say that it is done",
        "operator": "an operator",
    }[attempt.owner or "agent"]
    return f"timed out: it waited longer than its limit of {took:g} s for {whom}"


def detail_of(beat: Beat) -> str:
    """Return what of a beat is kept with the attempt, for one who looks at it later."""
    return json.dumps([beat.agent_status, beat.agent_status_message])


def _remembered(task: TaskManager, attempt: StepAttempt) -> Beat:
    """Return the beat that marked the attempt when no worker was free for it."""
    info = task.node.driver_internal_info
    status, message = json.loads(attempt.signal_detail or "[null, null]")
    return Beat(
        info.get("agent_url") or "",
        info.get("agent_version"),
        info.get("agent_verify_ca"),
        status,
        message,
    )


def overrides_heartbeat(deploy: Any) -> bool:
    """Tell whether a deploy interface decides alone what a heartbeat means."""
    return type(deploy).heartbeat is not DeployInterface.heartbeat


def _heard(task: TaskManager, flow: StepFlow, attempt: StepAttempt, beat: Beat) -> None:
    """Let the deploy interface say what a heartbeat means."""
    if beat.agent_status or beat.agent_status_message:
        said = beat.agent_status_message or ""
        attempt.evidence = {
            **(attempt.evidence or {}),
            "agent": {
                "status": beat.agent_status,
                "message": words.shown(said, task.masker(), words.EVIDENCE_BYTES),
                "at": types.timestamp(types.utcnow()),
            },
        }
    if attempt.owner == "agent" and attempt.reenter:
        _settle(task, flow, attempt, answers.DONE)
        return
    if attempt.owner == "agent" and _any_beat_ends(task, flow, attempt):
        _settle(task, flow, attempt, answers.DONE)
        return
    if attempt.owner == "agent":
        task.waiting_step = dict(attempts.entry_of(task, flow))
    else:
        # It hears every beat, and ends no wait that is not the agent's to end.
        task.overheard = True
    _settle(task, flow, attempt, _tell_driver(task, flow, beat), heard=True)


def _any_beat_ends(task: TaskManager, flow: StepFlow, attempt: StepAttempt) -> bool:
    """Tell whether a wait is no driver's to judge by ``check_step``, which knows its own steps."""
    if reserved.is_reserved(attempts.entry_of(task, flow)):
        return True
    if attempt.position != attempts.PREPARE or attempt.poll is not None:
        return False
    return not overrides_heartbeat(task.driver.deploy)


def _tell_driver(task: TaskManager, flow: StepFlow, beat: Beat) -> answers.Answer | None:
    """Call ``deploy.heartbeat`` and return what it said of the step, if anything."""

    def call() -> None:
        task.driver.deploy.heartbeat(
            task,
            beat.callback_url,
            beat.agent_version,
            agent_verify_ca=beat.agent_verify_ca,
            agent_status=beat.agent_status,
            agent_status_message=beat.agent_status_message,
        )

    # Flags that the waiting step has set say nothing about this call.
    answer = answers.ask(task, flow, call, flags=False)
    if task.overheard:
        if isinstance(answer, answers.Failed):
            told = words.shown(answer.why, task.masker(), words.LAST_ERROR_BYTES)
            LOG.warning(
                "Node %s: heartbeat() failed on a beat that ends no wait: %s", task.node.uuid, told
            )
        return None
    if isinstance(answer, answers.Failed | answers.NotReady | answers.StartsOver):
        return answer
    if task.answer is None:
        return None
    good, why = task.answer
    return answers.DONE if good else answers.Failed(why or "it failed")


def _poll(task: TaskManager, flow: StepFlow, attempt: StepAttempt) -> None:
    """Ask ``check_step`` of the interface that ran the step."""
    step = dict(attempts.entry_of(task, flow))
    interface = attempts.interface_of(task, step)
    said: list[Any] = []
    answer = answers.ask(
        task, flow, lambda: said.append(interface.check_step(task, step)), flags=False
    )
    match answer:
        case answers.Done() if type(said[0]) is states.StepStatus:
            done = said[0] is states.StepStatus.DONE
            _settle(task, flow, attempt, answers.DONE if done else None)
        case answers.Done():
            why = f"check_step() returned {type(said[0]).__name__}; it returns a StepStatus"
            _settle(task, flow, attempt, answers.Failed(why, raised=False))
        case _:
            _settle(task, flow, attempt, answer)


def _settle(
    task: TaskManager,
    flow: StepFlow,
    attempt: StepAttempt,
    answer: answers.Answer | None,
    *,
    heard: bool = False,
) -> None:
    """Act on what was learnt of a waiting attempt; None: it goes on waiting.

    :param heard: by a heartbeat, so that the agent is not silent.
    """
    task.waiting_step, task.answer, task.overheard = None, None, False
    if task.ended:
        return  # the driver ended the run itself, by an event
    if isinstance(answer, answers.Failed):
        engine.fail_waiting(task, flow, answer)
    elif isinstance(answer, answers.StartsOver):
        engine.start_over(task, flow, answer)
    elif answer is not None and not isinstance(answer, answers.NotReady):
        engine.resume(task, flow)
    elif engine.flow_of(task) is flow:
        go_on = _rearm if heard else _wait_on
        go_on(task, flow, attempt, answer.after if answer is not None else None)


def _rearm(
    task: TaskManager, flow: StepFlow, attempt: StepAttempt, ask_after: float | None = None
) -> None:
    """Go on waiting, and give the lock back, in one write.

    :param ask_after: seconds until a polled wait is asked after again, where
        ``check_step`` has named them.
    """
    look, poll, now = None, attempt.poll, types.utcnow()
    if poll is not None and attempt.owner in _ASKED:
        if ask_after is None:
            look, poll = waiting.next_poll(poll, now)
        else:
            look = waiting.after(now, max(ask_after, waiting.SHORTEST))
    if attempt.owner == "agent":
        look = waiting.earliest(look, _silent_at(task, flow, attempt))
    elif attempt.owner == "timer":
        look = attempt.due_at
    if task.node.provision_state == flow.running:  # an old driver has said "resume"
        attempts.set_state(task.node, flow.waiting or flow.running)
    due = waiting.earliest(look, attempt.deadline_at)
    also = [transitions.rearm(key_of(attempt), due, poll, attempt.evidence)]
    try:
        task.write(task.node.changes(), also, unlock=True)
    except locks.Stale:
        # A signal came meanwhile; it has made the attempt due at once.
        task.write(task.node.changes(), unlock=True)
    task.runtime.wake()


def _silent_at(task: TaskManager, flow: StepFlow, attempt: StepAttempt) -> Any:
    beat, clocks = task.node.agent_heartbeat_column, attempts.clocks(task, flow)
    heard = waiting.latest(beat, task.runtime.hearing.since())
    return waiting.given_up_at(attempt.owner, attempt.waiting_since, heard, clocks)


def _wait_on(
    task: TaskManager, flow: StepFlow, attempt: StepAttempt, ask_after: float | None = None
) -> None:
    """Go on waiting, unless that is at its limit, or the agent has been silent for too long."""
    if _is_too_long(attempt):
        engine.time_out(task, flow, _too_long(attempt))
        return
    limit = attempts.clocks(task, flow).silence
    silent = _silent_at(task, flow, attempt)
    if silent is None or types.utcnow() < silent:
        _rearm(task, flow, attempt, ask_after)
        return
    engine.time_out(
        task,
        flow,
        f"timed out: no heartbeat of the machine's agent for {limit:g} s "
        f"([conductor] {flow.callback_timeout}); {_heard_last(task)}",
    )


def _heard_last(task: TaskManager) -> str:
    """Return what is known of an agent that is silent, and where to look."""
    last = task.node.agent_heartbeat_column
    if last is None and not task.ports:
        return (
            "none came at all: an agent finds its node by the MAC addresses of ports; it has none"
        )
    came = f"the last came at {types.timestamp(last)}" if last else "none came at all"
    return f"{came}; is the agent running, and does it reach the API?"


def look_after(runtime: Runtime, node_id: int, key: Key, slot: Slot) -> bool:
    """Take the node's lock and attend to a due attempt in a worker; False if it is held."""
    try:
        lock, node = locks.grant(
            runtime.database,
            node_id,
            runtime.host,
            PURPOSE,
            also=[transitions.still_waits(key)],
            active=runtime.active,
        )
        task = adopt(runtime, None, node, lock, PURPOSE)
    except locks.Stale:  # it was attended to meanwhile; a node at rest is not locked for that
        slot.release()
        return True
    except (exceptions.NodeLocked, exceptions.NodeNotFound):
        slot.release()
        return False
    except BaseException:
        slot.release()
        raise
    task.hand_over(slot, guarded(attend), key)
    return True
