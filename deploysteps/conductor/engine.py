"""Run, resume, abort, finish: the only writer of step state once a run has begun.

A step's life: its attempt is written, its code runs, its answer is written
together with the next attempt. Between two steps there is one commit and no
moment at which nobody owes anything.
"""

from __future__ import annotations

import copy
import logging
from collections.abc import Mapping
from typing import Any

from deploysteps import exceptions, reserved, states
from deploysteps.conductor import (
    answers,
    attempts,
    caches,
    endings,
    old_way,
    policy,
    positions,
    replanning,
    waiting,
    words,
)
from deploysteps.conductor import reserved as reserved_steps
from deploysteps.conductor.answers import (
    Done,
    Failed,
    Holds,
    NotReady,
    Pauses,
    StartsOver,
    Waits,
)
from deploysteps.conductor.attempts import PREPARE, clocks, entry_of, told
from deploysteps.conductor.policy import Policy
from deploysteps.conductor.task_manager import TaskManager
from deploysteps.db import locks, runs, transitions, types
from deploysteps.db.locks import Also
from deploysteps.db.models import StepAttempt
from deploysteps.drivers.base import overrides_check_step
from deploysteps.steps import AWAITS_AGENT, Call, StepDict, StepFlow, flow_of_state

LOG = logging.getLogger(__name__)


def run(
    task: TaskManager, flow: StepFlow, problem: str | None = None, note: str | None = None
) -> None:
    """Do a run that was started, as far as it goes without waiting.

    :param problem: why the plan could not be made; the run ends with it.
    :param note: why there is nothing to do, where that is meant so.
    """
    if problem is not None:
        endings.end(task, flow, endings.fail(problem, clean_up=False))
    elif task.attempt is not None:
        _go_on(task, flow, _execute(task, flow))
    elif _has_steps(task, flow):
        _go_on(task, flow, answers.DONE)
    elif note is not None and _may_be_empty(task, flow):
        _end_well(task, flow, note)
    else:
        left = f"{note}: " if note else ""
        problem = (
            f"no steps: {left}no interface of the node has a {flow.name} step that is enabled and "
            f"allowed; GET /v1/nodes/<node>/steps?flow={flow.name} lists what there is"
        )
        endings.end(task, flow, endings.fail(problem, clean_up=False))


def was_planned(task: TaskManager, flow: StepFlow) -> bool:
    """Tell whether a run that has not begun a step has a plan, be it an empty one."""
    return task.node.driver_internal_info.get(flow.list_field) is not None


def _has_steps(task: TaskManager, flow: StepFlow) -> bool:
    info = task.node.driver_internal_info
    return bool(info.get(flow.list_field) or info.get(AWAITS_AGENT))


def _may_be_empty(task: TaskManager, flow: StepFlow) -> bool:
    """Tell whether a run without any step ends well here."""
    rule = flow.may_be_empty
    return bool(task.runtime.conf.conductor[rule]) if isinstance(rule, str) else rule


# --- the loop --------------------------------------------------------------------


def _go_on(task: TaskManager, flow: StepFlow, answer: answers.Answer) -> None:
    """Act on an answer, and on those of the steps that follow, until one waits or ends it."""
    try:
        while _act(task, flow, answer):
            answer = _execute(task, flow)
    except locks.AbortAsked:
        _end_aborted(task, flow)


def _execute(task: TaskManager, flow: StepFlow) -> answers.Answer:
    """Run the current attempt's code."""
    entry = entry_of(task, flow)
    if attempts.current(task).position == PREPARE and flow.prepare is not None:
        prepare = flow.prepare
        return answers.ask(task, flow, lambda: endings.call(task, prepare))
    if entry.get("old_way"):
        return old_way.execute(task, flow)
    if reserved.is_reserved(entry):
        return reserved_steps.execute(task, flow, entry)
    interface = attempts.interface_of(task, entry)
    args = entry.get("args")
    # A copy in depth: a retry gets the arguments as they were given.
    given = {**entry, "args": copy.deepcopy(args) if args else {}}
    LOG.debug("Node %s: %s.%s runs", task.node.uuid, entry["interface"], entry["step"])
    return answers.ask(task, flow, lambda: getattr(interface, flow.execute)(task, given))


def _act(task: TaskManager, flow: StepFlow, answer: answers.Answer) -> bool:
    """Write what an answer means; True when there is a step to execute now."""
    if task.ended:
        return False  # the driver ended the run itself, by an event
    if task.answer is not None:
        answer = _with_what_was_said(answer, *task.answer)
        task.answer = None
    attempts.set_state(task.node, flow.running)  # where a wait ends, or a driver meddled with it
    match answer:
        case Done():
            return _next(task, flow)
        case Waits(wait):
            return _wait(task, flow, wait)
        case Pauses(seconds):
            columns = waiting.pause(seconds, types.utcnow(), reenter=False)
            return _begin_wait(task, flow, columns, Policy(), flow.waiting)
        case Holds():
            return _begin_wait(task, flow, waiting.hold(types.utcnow()), Policy(), flow.holding)
        case NotReady(reason, after):
            return _wait_until_ready(task, flow, reason, after)
        case StartsOver():
            return _start_over(task, flow, answer)
        case Failed():
            return _fail(task, flow, answer)


def _with_what_was_said(answer: answers.Answer, good: bool, why: str | None) -> answers.Answer:
    """Return what a step means that ended itself, by an event or by its task, as well.

    A failure stands, whichever of the two says so.
    """
    if isinstance(answer, Failed):
        return answer
    return answers.DONE if good else Failed(why or "it failed", raised=False)


def _next(task: TaskManager, flow: StepFlow) -> bool:
    """The current attempt is done: finish it and begin the next, in one commit."""
    node, done = task.node, task.attempt
    caches.refresh(task, flow, done)
    info = node.driver_internal_info
    current = getattr(node, flow.step_field)
    position = done.position + 1 if done is not None else PREPARE + 1
    if flow.job:
        return _end_well(task, flow)
    if old_way.is_old(done):
        if position > PREPARE + 1:
            return _end_well(task, flow)
        return _begin(task, flow, old_way.entry(flow), position)
    try:
        if info.get(AWAITS_AGENT):
            replanning.merge_agents(task, flow)
        plan: Any = info.get(flow.list_field)
        told_none = plan == [] and position == PREPARE + 1 and not info.get(AWAITS_AGENT)
        if told_none and flow.may_be_empty is not True:
            return _nothing_told(task, flow)
        place = positions.locate(
            current, info.get(flow.index_field), plan, may_be_empty=flow.may_be_empty is True
        )
        place = positions.following(plan, place)
        if place < len(plan):
            positions.check_next(plan[place])
        elif info.get(AWAITS_AGENT):
            raise exceptions.InvalidParameterValue(
                "the machine's agent was to come, and has not told which steps it has"
            )
    except exceptions.InconsistentSteps as exc:
        endings.end(task, flow, endings.fail(told(task, words.text_of(exc)), exc))
        return False
    except exceptions.InvalidParameterValue as exc:  # what comes next, not what has ended well
        why = words.text_of(exc)
        endings.end(task, flow, endings.fail(why, exc, attempt_outcome=endings.SUCCESS))
        return False
    attempts.drop_flags(node, flow)
    if place == len(plan):
        return _end_well(task, flow)
    if task.runtime.stopping.is_set():
        _pause(task, done)
        return False
    info[flow.index_field] = place
    setattr(node, flow.step_field, plan[place])
    try:
        return _begin(task, flow, plan[place], position)
    except locks.AbortAsked:
        setattr(node, flow.step_field, current)
        _end_aborted(task, flow, attempt_outcome=endings.SUCCESS)
        return False


def _nothing_told(task: TaskManager, flow: StepFlow) -> bool:
    """The agent has told that it has no step, and nobody else has one either."""
    if not _may_be_empty(task, flow):
        why = f"no steps: the agent offers no {flow.name} step"
        endings.end(task, flow, endings.fail(why, attempt_outcome=endings.SUCCESS))
        return False
    return _end_well(task, flow)


def _begin(
    task: TaskManager,
    flow: StepFlow,
    entry: StepDict,
    position: int,
    ended: list[Also] | None = None,
) -> bool:
    """Write that the next attempt begins, and that the current one is done.

    :param ended: how the current one ended, where it is not done.
    :raises AbortAsked: nothing was written.
    """
    node = task.node
    if ended is None:  # taken first: what follows begins no earlier, in its record too
        ended = attempts.finished(task.attempt, endings.SUCCESS)
    begun = attempts.new(task, attempts.run_id_of(node), position, 1, entry)
    changes = node.changes()
    also = [*ended, transitions.begin(begun)]
    also.extend(task.changed_plan(changes))
    task.write(changes, also, unless_abort_of=node.run_id)
    task.attempt = begun
    return True


def _end_well(task: TaskManager, flow: StepFlow, note: str | None = None) -> bool:
    """Put away what was made ready, and end the run."""
    try:
        if flow.finish is None or note is not None or not endings.with_ramdisk(task, flow):
            endings.end(task, flow, endings.succeed(note))
        else:
            _put_away(task, flow, flow.finish)
    except locks.AbortAsked:
        _end_aborted(task, flow, attempt_outcome=endings.SUCCESS)
    return False


def _put_away(task: TaskManager, flow: StepFlow, finish: Call) -> None:
    """Call what runs after the last step, and end the run as it says."""
    last = task.attempt
    if last is not None and last.state != runs.FINISHED:
        # Written first: cut off from here on, it is the putting away that is done again.
        ended = attempts.finished(last, endings.SUCCESS)
        task.write(task.node.changes(), ended, unless_abort_of=task.node.run_id)
        last.state = runs.FINISHED
    answer = answers.ask(task, flow, lambda: endings.call(task, finish))
    if answer != answers.DONE:
        failed = answer if isinstance(answer, Failed) else Failed("it cannot wait")
        why = f"{finish.interface}.{finish.method} failed: {failed.why}"
        endings.end(task, flow, endings.fail(why, failed.exception, clean_up=False))
    else:
        endings.end(task, flow, endings.succeed())


def _wait(task: TaskManager, flow: StepFlow, wait: states.Wait) -> bool:
    entry = entry_of(task, flow)
    if wait.poll is not None and not overrides_check_step(attempts.interface_of(task, entry)):
        why = (
            "it asked to be polled, but its interface has no check_step(); write one, or return "
            f"the plain wait state ({flow.waiting!r}) for a wait that the agent ends"
        )
        return _fail(task, flow, Failed(why, raised=False))
    said = waiting.said(task.node.driver_internal_info, flow, wait)
    rules = policy.of_step(task.driver, flow, entry)
    columns = waiting.begin(
        said, rules.timeout, types.utcnow(), _last_beat(task.node), clocks(task, flow)
    )
    return _begin_wait(task, flow, columns, rules, flow.waiting)


def _wait_until_ready(task: TaskManager, flow: StepFlow, reason: str, after: float | None) -> bool:
    node, attempt = task.node, attempts.current(task)
    rules = policy.of_step(task.driver, flow, entry_of(task, flow))
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
    return _begin_wait(task, flow, columns, rules, flow.waiting)


def _begin_wait(
    task: TaskManager,
    flow: StepFlow,
    columns: Mapping[str, Any],
    rules: Policy,
    state: str | None,
) -> bool:
    """Write that the current attempt waits, and give the lock back."""
    node, attempt = task.node, attempts.current(task)
    if columns["reboot"]:
        # Only the agent of the next boot may end this wait: it gets a new token.
        endings.forget_agent(node)
    attempts.set_state(node, state or flow.running)
    attempts.drop_flags(node, flow)
    changes = node.changes()
    also = [transitions.wait(attempt, columns)]
    also.extend(task.changed_plan(changes))
    if rules.abortable:
        also.append(transitions.unless_abort(attempts.run_id_of(node)))
    try:
        task.write(changes, also, unlock=True)
    except locks.Stale:
        attempts.set_state(node, flow.running)
        raise locks.AbortAsked from None
    task.runtime.wake()
    return False


def _fail(task: TaskManager, flow: StepFlow, failure: Failed) -> bool:
    """The current attempt failed: try again if it may be, else end the run."""
    node, attempt = task.node, attempts.current(task)
    rules = Policy()
    if attempt.position != PREPARE and failure.raised:
        rules = policy.of_step(task.driver, flow, entry_of(task, flow))
    if not (rules.repeatable and attempts.has_retries_left(task, rules.retries)):
        endings.end(task, flow, endings.fail(told(task, failure.why), failure.exception))
        return False
    mask = task.masker()
    error = words.shown(told(task, failure.why), mask, words.LAST_ERROR_BYTES)
    LOG.warning("Node %s: %s; trying again in %g s", node.uuid, error, rules.retry_delay)
    evidence = words.evidence_of(failure.exception, mask, attempt.evidence)
    ended = attempts.finished(attempt, endings.FAILED, error=error, evidence=evidence)
    return _try_again(task, flow, ended, rules.retry_delay)


def _try_again(task: TaskManager, flow: StepFlow, ended: list[Also], delay: float = 0) -> bool:
    """Write the next attempt of the same step; True when it runs at once."""
    node, attempt = task.node, attempts.current(task)
    entry = entry_of(task, flow)
    again = attempts.new(task, attempt.run_id, attempt.position, attempt.attempt + 1, entry)
    attempts.drop_flags(node, flow)
    delay = delay if flow.waiting else 0
    attempts.set_state(node, (flow.waiting if delay else None) or flow.running)
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


def _start_over(task: TaskManager, flow: StepFlow, answer: StartsOver) -> bool:
    """The plan is out of date: make it anew and begin its first step; True when one runs."""
    node, attempt = task.node, attempts.current(task)
    try:
        place = replanning.start_over(task, flow, answer.why)
    except exceptions.DatabaseUnavailable:
        raise
    except exceptions.DeployStepsException as exc:
        endings.end(task, flow, endings.fail(told(task, words.text_of(exc)), answer.exception))
        return False
    mask = task.masker()
    error = words.shown(told(task, answer.why), mask, words.LAST_ERROR_BYTES)
    LOG.warning("Node %s: %s; the run begins again at its first step", node.uuid, error)
    evidence = words.evidence_of(answer.exception, mask, attempt.evidence)
    ended = attempts.finished(attempt, endings.FAILED, error=error, evidence=evidence)
    attempts.drop_flags(node, flow)
    attempts.set_state(node, flow.running)
    return _begin(
        task, flow, node.driver_internal_info[flow.list_field][place], attempt.position + 1, ended
    )


def _pause(task: TaskManager, done: StepAttempt | None) -> None:
    """The conductor stops: record what is done and leave the rest to the next start."""
    LOG.info("Node %s: the conductor stops; the run goes on after its start", task.node.uuid)
    task.write(task.node.changes(), attempts.finished(done, endings.SUCCESS), unlock=True)


# --- going on -----------------------------------------------------------------------


def resume(task: TaskManager, flow: StepFlow) -> None:
    """The waiting attempt is done (or, if it said so, is to be entered again)."""
    attempt = attempts.current(task)
    if not attempt.reenter:
        _go_on(task, flow, answers.DONE)
        return
    node = task.node
    attempts.set_state(node, flow.running)
    # A step that is not abortable is entered again, but in an operator's maintenance.
    abortable = policy.of_step(task.driver, flow, entry_of(task, flow)).abortable
    try:
        task.write(
            node.changes(),
            [transitions.enter(attempt, task.runtime.host)],
            unless_abort_of=node.run_id if abortable else None,
        )
    except (locks.AbortAsked, locks.Stale):
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


def start_over(task: TaskManager, flow: StepFlow, answer: StartsOver) -> None:
    """The waiting attempt found that the plan is out of date."""
    _go_on(task, flow, answer)


def take_up(task: TaskManager, flow: StepFlow) -> bool:
    """Let the step of a lost conductor go on, where its interface knows that it does.

    :returns: False when that cannot be told; nothing was changed.
    """
    entry = entry_of(task, flow)
    adopt = attempts.interface_of(task, entry).adopt_step
    answer = answers.ask(task, flow, lambda: adopt(task, dict(entry)))
    if not isinstance(answer, Waits):
        if isinstance(answer, Failed):
            why = words.shown(answer.why, task.masker(), words.LAST_ERROR_BYTES)
            LOG.warning("Node %s: adopt_step() failed: %s", task.node.uuid, why)
        return False
    LOG.info("Node %s: %s.%s goes on", task.node.uuid, entry["interface"], entry["step"])
    _go_on(task, flow, answer)
    return True


def time_out(task: TaskManager, flow: StepFlow, why: str) -> None:
    """The waiting attempt took too long."""
    endings.end(task, flow, endings.Ending(endings.TIMEOUT, states.FAIL, told(task, why)))


def abort(task: TaskManager, flow: StepFlow) -> None:
    """End the run because it was asked for."""
    _end_aborted(task, flow)


def repeat_interrupted(task: TaskManager, flow: StepFlow, why: str) -> None:
    """Run a step again that a lost conductor had begun; it said that this is safe."""
    ended = attempts.finished(attempts.current(task), endings.INTERRUPTED, error=why)
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
    run_row = runs.get(task.runtime.database, attempts.run_id_of(task.node))
    why = f"aborted by {run_row.abort_requested_by or 'an operator'}"
    ended = task.attempt if attempt_outcome is not None else None
    reason = f"{why}, when {ended.interface}.{ended.step} had ended" if ended else told(task, why)
    ending = endings.Ending(endings.ABORTED, states.ABORT, reason, attempt_outcome=attempt_outcome)
    endings.end(task, flow, ending)


def flow_of(task: TaskManager) -> StepFlow | None:
    """Return the flow that the node is in, by its state."""
    return flow_of_state(task.node.provision_state)


def _last_beat(node: Any) -> Any:
    return node.agent_heartbeat_column
