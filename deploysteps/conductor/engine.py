"""Start, run, resume, abort, finish: the only writer of step state.

A step's life: its attempt is written, its code runs, its answer is written
together with the next attempt. Between two steps there is one commit and no
moment at which nobody owes anything.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Mapping
from typing import Any

import sqlalchemy as sa

from deploysteps import exceptions, states
from deploysteps.conductor import answers, endings, policy, steps, waiting, words
from deploysteps.conductor.answers import Done, Failed, NotReady, Waits
from deploysteps.conductor.policy import Policy
from deploysteps.conductor.task_manager import TaskManager
from deploysteps.db import locks, runs, transitions, types
from deploysteps.db.locks import Also
from deploysteps.db.models import StepAttempt
from deploysteps.db.pages import made
from deploysteps.drivers.base import overrides_check_step
from deploysteps.steps import StepDict, StepFlow, flow_of_state

LOG = logging.getLogger(__name__)

PREPARE = 0
"""Position of the attempt that prepares the node; steps count from 1."""


# --- beginning -----------------------------------------------------------------


def start(
    task: TaskManager,
    flow: StepFlow,
    plan: list[StepDict],
    *,
    event: str,
    requested_by: str | None,
) -> None:
    """Write that a run begins: state, list, run and its first attempt, in one go.

    The caller's changes of the node (instance_info, say) go into the same write.
    """
    node, now = task.node, types.utcnow()
    info = node.driver_internal_info
    for key in (flow.index_field, *flow.flags):
        info.pop(key, None)
    info[flow.list_field] = plan
    node.provision_state = states.next_state(node.provision_state, event)
    node.target_provision_state = states.STATES[node.provision_state].target
    node.provision_updated_at = now
    node.last_error = None
    setattr(node, flow.step_field, None)
    first = {"interface": "deploy", "step": flow.prepare} if plan and flow.prepare else None

    def insert(connection: sa.Connection) -> tuple[int, StepAttempt | None]:
        run_id, _uuid = transitions.start_run(
            connection,
            node_id=node.id,
            flow=flow.name,
            plan=plan,
            requested_by=requested_by,
            now=now,
        )
        connection.execute(transitions.set_current_run(node.id, run_id))
        attempt = None
        if first is not None:
            attempt = _attempt(task, run_id, PREPARE, 1, first)
            begun = transitions.begin(attempt)
            connection.execute(begun.statement, begun.values)
        return run_id, attempt

    run_id, task.attempt = task.write(node.changes(), then=insert)
    node.stored({"run_id": run_id})
    LOG.info("Node %s: %s begins with %d steps", node.uuid, flow.name, len(plan))


def run(task: TaskManager, flow: StepFlow, problem: str | None = None) -> None:
    """Do a run that :func:`start` wrote, as far as it goes without waiting.

    :param problem: why the plan could not be made; the run ends with it.
    """
    if problem is None and not task.node.driver_internal_info.get(flow.list_field):
        problem = (
            f"no steps: no interface of the node has an enabled {flow.name} step; "
            f"GET /v1/nodes/<node>/steps lists what there is"
        )
    if problem is not None:
        endings.end(task, flow, endings.fail(problem, clean_up=False))
    elif task.attempt is not None and flow.prepare is not None:
        prepare: Callable[[TaskManager], Any] = getattr(task.driver.deploy, flow.prepare)
        answer = answers.ask(task, flow, lambda: _nothing(prepare(task)))
        _go_on(task, flow, answer)
    else:
        _go_on(task, flow, answers.DONE)


def _nothing(_value: Any) -> None:
    """Drop what ``prepare`` returned: the field gives it no meaning."""


# --- the loop --------------------------------------------------------------------


def _go_on(task: TaskManager, flow: StepFlow, answer: answers.Answer) -> None:
    """Act on an answer, and on those of the steps that follow, until one waits or ends it."""
    try:
        while _act(task, flow, answer):
            answer = _execute(task, flow)
    except locks.AbortAsked:
        _end_aborted(task, flow)


def _execute(task: TaskManager, flow: StepFlow) -> answers.Answer:
    """Run the current step's code."""
    entry: StepDict = getattr(task.node, flow.step_field)
    interface = getattr(task.driver, entry["interface"])
    args = entry.get("args")
    # A copy in depth: a retry gets the arguments as they were given.
    given = {**entry, "args": copy.deepcopy(args) if args else {}}
    LOG.debug("Node %s: %s.%s runs", task.node.uuid, entry["interface"], entry["step"])
    return answers.ask(task, flow, lambda: getattr(interface, flow.execute)(task, given))


def _act(task: TaskManager, flow: StepFlow, answer: answers.Answer) -> bool:
    """Write what an answer means; True when there is a step to execute now."""
    if task.ended:
        return False  # the driver ended the run itself, by an event
    _set_state(task.node, flow.running)  # also where a wait ends, or a driver meddled with it
    match answer:
        case Done():
            return _next(task, flow)
        case Waits(wait):
            return _wait(task, flow, wait)
        case NotReady(reason, after):
            return _wait_until_ready(task, flow, reason, after)
        case Failed():
            return _fail(task, flow, answer)


def _next(task: TaskManager, flow: StepFlow) -> bool:
    """The current attempt is done: finish it and begin the next, in one commit."""
    node, done = task.node, task.attempt
    info = node.driver_internal_info
    current = getattr(node, flow.step_field)
    plan: Any = info.get(flow.list_field)
    try:
        place = steps.locate(current, info.get(flow.index_field), plan)
        if place + 1 < len(plan):
            steps.check_shape(plan[place + 1], "the stored list")
    except (exceptions.InconsistentSteps, exceptions.InvalidParameterValue) as exc:
        endings.end(task, flow, endings.fail(told(task, words.text_of(exc)), exc))
        return False
    _drop_flags(node, flow)
    if place + 1 == len(plan):
        return _succeed(task, flow)
    if task.runtime.stopping.is_set():
        _pause(task, done)
        return False
    entry = plan[place + 1]
    info[flow.index_field] = place + 1
    setattr(node, flow.step_field, entry)
    position = done.position + 1 if done is not None else PREPARE + 1
    begun = _attempt(task, _run_id(node), position, 1, entry)
    changes = node.changes()
    also = [*_finished(done, endings.SUCCESS), transitions.begin(begun)]
    also.extend(task.changed_plan(changes))
    try:
        task.write(changes, also, unless_abort_of=node.run_id)
    except locks.AbortAsked:
        setattr(node, flow.step_field, current)
        _end_aborted(task, flow, attempt_outcome=endings.SUCCESS)
        return False
    task.attempt = begun
    return True


def _succeed(task: TaskManager, flow: StepFlow) -> bool:
    try:
        endings.end(task, flow, endings.succeed())
    except locks.AbortAsked:
        _end_aborted(task, flow, attempt_outcome=endings.SUCCESS)
    return False


def _wait(task: TaskManager, flow: StepFlow, wait: states.Wait) -> bool:
    node, entry = task.node, getattr(task.node, flow.step_field)
    if wait.poll is not None and not overrides_check_step(getattr(task.driver, entry["interface"])):
        why = (
            "it asked to be polled, but its interface has no check_step(); write one, or return "
            f"the plain wait state ({flow.waiting!r}) for a wait that the agent ends"
        )
        return _fail(task, flow, Failed(why, raised=False))
    rules = policy.of_step(task.driver, flow, entry)
    columns = waiting.begin(
        wait, rules.timeout, types.utcnow(), _last_beat(node), clocks(task, flow)
    )
    return _begin_wait(task, flow, columns, rules)


def _wait_until_ready(task: TaskManager, flow: StepFlow, reason: str, after: float | None) -> bool:
    node, attempt = task.node, _current(task)
    if attempt.position == PREPARE:
        return _fail(task, flow, Failed(f"it is not ready ({reason}), and cannot wait"))
    rules = policy.of_step(task.driver, flow, getattr(node, flow.step_field))
    columns = waiting.until_ready(
        after,
        rules.timeout,
        types.utcnow(),
        attempt.waiting_since,
        _last_beat(node),
        clocks(task, flow),
    )
    shown = words.shown(reason, task.masker(), words.LAST_ERROR_BYTES)
    LOG.info("Node %s: %s.%s waits: %s", node.uuid, attempt.interface, attempt.step, shown)
    return _begin_wait(task, flow, columns, rules)


def _begin_wait(
    task: TaskManager, flow: StepFlow, columns: Mapping[str, Any], rules: Policy
) -> bool:
    """Write that the current attempt waits, and give the lock back."""
    node, attempt = task.node, _current(task)
    if node.driver_internal_info.get(flow.reboots):
        # Only the agent of the next boot may end this wait: it gets a new token.
        endings.forget_agent(node)
    _set_state(node, flow.waiting)
    _drop_flags(node, flow)
    changes = node.changes()
    also = [transitions.wait(transitions.key_of(attempt), columns)]
    also.extend(task.changed_plan(changes))
    if rules.abortable:
        also.append(transitions.unless_abort(_run_id(node)))
    try:
        task.write(changes, also, unlock=True)
    except locks.Stale:
        _set_state(node, flow.running)
        raise locks.AbortAsked from None
    task.runtime.wake()
    return False


def _fail(task: TaskManager, flow: StepFlow, failure: Failed) -> bool:
    """The current attempt failed: try again if it may be, else end the run."""
    node, attempt = task.node, _current(task)
    entry = getattr(node, flow.step_field)
    rules = Policy()
    if attempt.position != PREPARE and failure.raised:
        rules = policy.of_step(task.driver, flow, entry)
    if not (rules.repeatable and _has_retries_left(task, rules.retries)):
        endings.end(task, flow, endings.fail(told(task, failure.why), failure.exception))
        return False
    mask = task.masker()
    error = words.shown(told(task, failure.why), mask, words.LAST_ERROR_BYTES)
    LOG.warning("Node %s: %s; trying again in %g s", node.uuid, error, rules.retry_delay)
    evidence = words.evidence_of(failure.exception, mask, attempt.evidence)
    ended = _finished(attempt, endings.FAILED, error=error, evidence=evidence)
    return _try_again(task, flow, ended, rules.retry_delay)


def _has_retries_left(task: TaskManager, retries: int) -> bool:
    """Retries are for a step that raised: one that a crash cut off has used none up."""
    attempt = _current(task)
    if attempt.attempt <= retries or not retries:
        return attempt.attempt <= retries
    lost = runs.interruptions(task.runtime.database, attempt.run_id, attempt.position)
    return attempt.attempt - lost <= retries


def _try_again(task: TaskManager, flow: StepFlow, ended: list[Also], delay: float = 0) -> bool:
    """Write the next attempt of the same step; True when it runs at once."""
    node, attempt = task.node, _current(task)
    entry = getattr(node, flow.step_field)
    again = _attempt(task, attempt.run_id, attempt.position, attempt.attempt + 1, entry)
    _drop_flags(node, flow)
    _set_state(node, flow.waiting if delay else flow.running)
    if delay:
        again.state = runs.WAITING
        for name, value in waiting.pause(delay, types.utcnow()).items():
            setattr(again, name, value)
    also = [*ended, transitions.begin(again)]
    task.write(node.changes(), also, unlock=bool(delay), unless_abort_of=node.run_id)
    task.attempt = again
    if delay:
        task.runtime.wake()
    return not delay


def _pause(task: TaskManager, done: StepAttempt | None) -> None:
    """The conductor stops: record what is done and leave the rest to the next start."""
    LOG.info("Node %s: the conductor stops; the run goes on after its start", task.node.uuid)
    task.write(task.node.changes(), _finished(done, endings.SUCCESS), unlock=True)


# --- going on -----------------------------------------------------------------------


def resume(task: TaskManager, flow: StepFlow) -> None:
    """The waiting attempt is done (or, if it said so, is to be entered again)."""
    attempt = _current(task)
    if not attempt.reenter:
        _go_on(task, flow, answers.DONE)
        return
    node = task.node
    _set_state(node, flow.running)
    try:
        task.write(
            node.changes(),
            [transitions.enter(transitions.key_of(attempt), task.runtime.host)],
            unless_abort_of=node.run_id,
        )
    except locks.AbortAsked:
        _end_aborted(task, flow)
        return
    attempt.state = runs.RUNNING
    _go_on(task, flow, _execute(task, flow))


def fail_waiting(task: TaskManager, flow: StepFlow, failure: Failed) -> None:
    """The waiting attempt failed."""
    try:
        if _fail(task, flow, failure):
            _go_on(task, flow, _execute(task, flow))
    except locks.AbortAsked:
        _end_aborted(task, flow)


def time_out(task: TaskManager, flow: StepFlow, why: str) -> None:
    """The waiting attempt took too long."""
    endings.end(task, flow, endings.Ending(endings.TIMEOUT, states.FAIL, told(task, why)))


def abort(task: TaskManager, flow: StepFlow) -> None:
    """End the run because it was asked for."""
    _end_aborted(task, flow)


def repeat_interrupted(task: TaskManager, flow: StepFlow, why: str) -> None:
    """Run a step again that a lost conductor had begun; it said that this is safe."""
    ended = _finished(_current(task), endings.INTERRUPTED, error=why)
    try:
        if _try_again(task, flow, ended):
            _go_on(task, flow, _execute(task, flow))
    except locks.AbortAsked:
        _end_aborted(task, flow)


def go_on_after(task: TaskManager, flow: StepFlow, last: StepAttempt) -> None:
    """Go on where a conductor stopped between two steps: ``last`` had ended well."""
    task.attempt = last
    _go_on(task, flow, answers.DONE)


def _end_aborted(task: TaskManager, flow: StepFlow, attempt_outcome: str | None = None) -> None:
    run_row = runs.get(task.runtime.database, _run_id(task.node))
    why = f"aborted by {run_row.abort_requested_by or 'an operator'}"
    ending = endings.Ending(
        endings.ABORTED, states.ABORT, told(task, why), attempt_outcome=attempt_outcome
    )
    endings.end(task, flow, ending)


# --- small things ----------------------------------------------------------------------


def flow_of(task: TaskManager) -> StepFlow | None:
    """Return the flow that the node is in, by its state."""
    return flow_of_state(task.node.provision_state)


def _current(task: TaskManager) -> StepAttempt:
    if task.attempt is None:
        raise exceptions.InconsistentSteps(reason="the run has no current attempt")
    return task.attempt


def _run_id(node: Any) -> int:
    if node.run_id is None:
        raise exceptions.InconsistentSteps(reason="the node has no current run")
    return int(node.run_id)


def _attempt(
    task: TaskManager, run_id: int, position: int, number: int, entry: Mapping[str, Any]
) -> StepAttempt:
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
    )


def _finished(
    attempt: StepAttempt | None,
    outcome: str,
    *,
    error: str | None = None,
    evidence: Mapping[str, Any] | None = None,
) -> list[Also]:
    if attempt is None or attempt.state == runs.FINISHED:
        return []
    return [
        transitions.finish(
            transitions.key_of(attempt),
            outcome,
            types.utcnow(),
            waited=attempt.state == runs.WAITING,
            error=error,
            evidence=evidence or attempt.evidence,
        )
    ]


def _set_state(node: Any, state: str) -> None:
    if node.provision_state != state:
        node.provision_state = state
        node.target_provision_state = states.STATES[state].target
        node.provision_updated_at = types.utcnow()


def _drop_flags(node: Any, flow: StepFlow) -> None:
    for key in flow.flags:
        node.driver_internal_info.pop(key, None)


def _last_beat(node: Any) -> Any:
    return node.agent_heartbeat_column


def clocks(task: TaskManager, flow: StepFlow) -> waiting.Clocks:
    """Return the settings that bound this flow's waits."""
    conf = task.runtime.conf.conductor
    return waiting.Clocks(conf[flow.callback_timeout], conf.default_step_timeout)


def told(task: TaskManager, why: str) -> str:
    """Return ``why`` with the step, the attempt and the time it took."""
    attempt = task.attempt
    if attempt is None:
        return why
    took = (types.utcnow() - attempt.started_at).total_seconds()
    return words.step_failed(attempt.interface, attempt.step, why, attempt.attempt, took)
