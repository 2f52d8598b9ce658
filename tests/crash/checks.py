"""What must be true of a node after a crash and what followed it, in whatever flow."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import sqlalchemy as sa

from deploysteps import states
from deploysteps.conductor import endings
from deploysteps.conductor.steps import label_of
from deploysteps.db import events, nodes, runs
from deploysteps.db.engine import Database
from deploysteps.db.event_models import Event
from deploysteps.db.models import Node, StepAttempt, StepRun
from deploysteps.reserved import RESERVED, is_reserved
from deploysteps.steps import FLOWS, RUNS, StepFlow, flow_of_state
from tests import support
from tests.crash.journal import journal
from tests.crash.scenarios import Scenario

OUTCOMES = {
    endings.SUCCESS,
    endings.FAILED,
    endings.ABORTED,
    endings.TIMEOUT,
    endings.INTERRUPTED,
    endings.UNDEPLOYED,
}


class Before:
    """How a crash left a node."""

    lock_broken = False
    """Whether an operator broke the lock, before anybody knew that its holder was lost."""

    def __init__(self, database: Database, uuid: str) -> None:
        self.node = nodes.get(database, uuid)
        self.runs = runs.of_node(database, self.node.id)
        attempt = runs.last_attempt(database, self.runs[0].id) if self.runs else None
        self.attempt = attempt
        self.flow = flow_of_state(self.node.provision_state)
        self.journal = journal.lines()

    def __str__(self) -> str:
        """Tell it, for people who read a failure."""
        node, attempt = self.node, self.attempt
        what = f"{attempt.step}#{attempt.attempt} {attempt.state}" if attempt is not None else "-"
        return (
            f"left it {node.provision_state!r}, locked by {node.reservation!r} for "
            f"{node.lock_purpose!r}, attempt {what}, journal {self.journal}"
        )

    def had_ended(self, scenario: Scenario) -> bool:
        """Tell whether the story was over."""
        state = self.node.provision_state
        begun = state != scenario.before or bool(self.runs)
        return begun and state in states.STABLE_STATES

    def goes_on(self, scenario: Scenario) -> bool:
        """Tell whether an operator will ask for another run, however this one ends."""
        good = bool(self.runs) and self.runs[0].outcome == endings.SUCCESS
        return scenario.again is not None and len(self.runs) < 2 and not good

    def cut_off(self, scenario: Scenario) -> StepAttempt | None:
        """Return the attempt whose code may have been cut off and may not be repeated."""
        attempt, flow = self.attempt, self.flow
        if flow is None or self.node.provision_state != flow.running or attempt is None:
            return None
        if attempt.state == runs.FINISHED or repeatable(scenario, flow, attempt.step, self.runs[0]):
            return None
        return attempt

    @property
    def lost(self) -> str:
        """What is said of the conductor that was lost."""
        node = self.node
        if self.lock_broken:
            return f"the lock of conductor {node.reservation} for {node.lock_purpose!r} was broken"
        return f"conductor {node.reservation} was lost (last heard of at "


def repeatable(scenario: Scenario, flow: StepFlow, step: str, run: StepRun) -> bool:
    """Tell whether a step said that it may be run again."""
    declared = scenario.vendor.declaration(flow.name, step)
    if declared is not None:
        return declared.repeatable
    if step in RESERVED:
        return RESERVED[step].repeatable
    return any(entry["step"] == step and entry.get("repeatable") for entry in run.plan)


def is_to_go_on(scenario: Scenario, node: Node, told: Sequence[StepRun]) -> bool:
    """Tell whether the operator of the story now asks to go on."""
    return (
        scenario.again is not None
        and node.provision_state == scenario.way.flow.failed
        and len(told) == 1
    )


def expected(scenario: Scenario, before: Before) -> tuple[str, str | None]:
    """Return the state that the node has to end in, and what its error has to say."""
    state, flow = before.node.provision_state, before.flow
    if before.goes_on(scenario):
        return scenario.goal, None
    if before.had_ended(scenario):
        return state, before.node.last_error
    attempt = before.cut_off(scenario)
    if attempt is not None and flow is not None:
        return flow.failed, f"{attempt.interface}.{attempt.step} failed: interrupted: {before.lost}"
    if flow is None and state in states.TRANSIENT_STATES:
        return states.next_state(state, states.FAIL), f"{state} was interrupted: {before.lost}"
    return scenario.goal, None


def check(database: Database, scenario: Scenario, before: Before, uuid: str) -> None:
    """Check a node that has come to an end."""
    node = nodes.get(database, uuid)
    state, error = expected(scenario, before)
    assert node.provision_state == state, (node.provision_state, node.last_error)
    if error is not None:
        assert node.last_error is not None and error in node.last_error, node.last_error
    told = runs.of_node(database, node.id)
    nothing_is_left(node, told[0] if told else None)
    for run in told:
        history_is_complete(database, node, run)
    each_end_is_told(database, node)
    events_agree(database, node)
    if scenario.steps:
        for run in told:
            _steps_ran_as_they_may(database, scenario, node, run)
        if told:
            _is_planned_as_asked(scenario, told[-1])
        _what_was_done_is_not_done_again(database, told)
        _the_instance_is_gone(scenario, node, told)


def nothing_is_left(node: Node, last: StepRun | None = None) -> None:
    """No lock, no plan, no token: the same after every ending of every flow.

    :param last: the run that ended last, if it is to be looked at.
    """
    held = (node.reservation, node.lock_token, node.lock_purpose, node.locked_at)
    assert held == (None,) * 4, held
    assert node.run_id is None
    info = node.driver_internal_info
    for key in ("agent_secret_token", "agent_url", *(k for f in FLOWS.values() for k in f.keys)):
        assert key not in info, key
    assert node.target_power_state is None
    assert node.inspection_started_at is None
    for flow in RUNS.values():
        assert not set(flow.drops) & set(node.instance_info), node.instance_info
    state = states.STATES[node.provision_state]
    assert node.target_provision_state in (state.target, *state.other_targets)
    assert not state.failed or node.last_error, "failed without a reason"
    for flow in FLOWS.values():
        current = getattr(node, flow.step_field)
        assert current is None or node.provision_state == flow.failed, (flow.name, current)
    if last is None or state.name == states.ERROR:
        return
    assert node.last_error == last.error, (node.last_error, last.error)
    assert (last.outcome == endings.SUCCESS) == (last.error is None)
    if last.outcome != endings.SUCCESS:
        assert node.provision_state == RUNS[last.flow].failed


def names_of(run: StepRun) -> list[str]:
    """Return what a run does, in order: what prepares it, and its steps."""
    flow = RUNS[run.flow]
    begins = [entry["step"] for entry in run.plan if not entry.get("skip")]
    nothing = not begins and flow.may_be_empty is not True and not flow.job
    if flow.prepare is None or nothing or _without_ramdisk(run):
        return begins
    return [flow.prepare.method, *begins]


def _without_ramdisk(run: StepRun) -> bool:
    return bool((run.request or {}).get("disable_ramdisk"))


def history_is_complete(database: Database, node: Node, run: StepRun) -> None:
    """A run that ended has all its attempts, in the order of its plan, each with an ending."""
    assert run.finished_at is not None and run.outcome in OUTCOMES, run.outcome
    attempts = runs.attempts(database, [run.id])[run.id]
    by_position: dict[int, list[StepAttempt]] = {}
    for attempt in attempts:
        by_position.setdefault(attempt.position, []).append(attempt)
        assert attempt.state == runs.FINISHED, (attempt.step, attempt.state)
        assert attempt.outcome in OUTCOMES and attempt.finished_at is not None
        assert attempt.finished_at >= attempt.started_at
        left = (attempt.owner, attempt.due_at, attempt.deadline_at, attempt.signal, attempt.poll)
        assert left == (None,) * 5, left
        assert not attempt.reenter and not attempt.reboot
        without = attempt.outcome in (endings.SUCCESS, endings.UNDEPLOYED)
        assert without == (attempt.error is None), (attempt.outcome, attempt.error)
    first = 1 if _without_ramdisk(run) else 0
    assert list(by_position) == list(range(first, first + len(by_position))), list(by_position)
    for position, tries in by_position.items():
        assert [one.attempt for one in tries] == list(range(1, len(tries) + 1))
        assert len({one.step for one in tries}) == 1
        assert all(one.outcome in (endings.FAILED, endings.INTERRUPTED) for one in tries[:-1])
        last = position == max(by_position)
        assert last or tries[-1].outcome == endings.SUCCESS, (position, tries[-1].outcome)
    begun, plan = [tries[0].step for tries in by_position.values()], names_of(run)
    assert begun == plan[: len(begun)], (begun, plan)
    if run.outcome == endings.SUCCESS:
        assert begun == plan
        assert all(t[-1].outcome == endings.SUCCESS for t in by_position.values())


def each_end_is_told(database: Database, node: Node) -> None:
    """Every run that ended has one entry in the node's history."""
    ends = Counter(f"{run.flow} {run.outcome}" for run in runs.of_node(database, node.id))
    told = Counter(support.ends_told(database, node))
    assert told == ends, (told, ends)


def events_agree(database: Database, node: Node) -> None:
    """Watchers were told of each transition once, and of nothing that did not happen.

    At any moment, also right after a kill: an event is written with its transition.
    """
    told = events.after(database, 0, 100_000, node=node.uuid)
    chain = [event.data for event in told if event.type == events.NODE_STATE]
    for before, after in pairwise(chain):
        assert after["previous"] == before["state"], chain
    assert not chain or chain[-1]["state"] == node.provision_state, (chain, node.provision_state)
    known = runs.of_node(database, node.id)
    attempts = runs.attempts(database, [run.id for run in known])
    for run in known:
        mine = [event for event in told if event.run_uuid == run.uuid]
        assert {event.flow for event in mine} == {run.flow}
        begun = [event for event in mine if event.type == events.RUN_STARTED]
        ended = [event.data for event in mine if event.type == events.RUN_FINISHED]
        assert len(begun) == 1 and mine[0] is begun[0]
        ends = [(run.outcome, run.error)] if run.finished_at else []
        assert [(one["outcome"], one.get("error")) for one in ended] == ends, (ended, ends)
        by_attempt: dict[tuple[int, int], list[Event]] = {}
        for event in mine:
            if event.type.startswith("step."):
                key = (event.data["position"], event.data["attempt"])
                by_attempt.setdefault(key, []).append(event)
        there = {(one.position, one.attempt): one for one in attempts[run.id]}
        assert list(by_attempt) == list(there), (list(by_attempt), list(there))
        for key, attempt in there.items():
            _attempt_is_told(attempt, by_attempt[key])
    strange = {event.run_uuid for event in told} - {run.uuid for run in known} - {None}
    assert not strange, strange


def _attempt_is_told(attempt: StepAttempt, told: Sequence[Event]) -> None:
    """What was told of an attempt, one after the other, leads to the state that it is in."""
    state = None
    for event in told:
        data = event.data
        assert (data["interface"], data["step"]) == (attempt.interface, attempt.step)
        if event.type in (events.STEP_STARTED, events.STEP_RETRIED):
            assert state is None and (event.type == events.STEP_RETRIED) == (attempt.attempt > 1)
            state = runs.WAITING if "waits_for" in data else runs.RUNNING
        elif event.type == events.STEP_WAITING:
            assert state == runs.RUNNING, [event.type for event in told]
            state = runs.WAITING
        elif event.type == events.STEP_RESUMED:
            assert state == runs.WAITING, [event.type for event in told]
            state = runs.RUNNING
        else:
            assert event.type in (events.STEP_FINISHED, events.STEP_FAILED)
            assert state in (runs.RUNNING, runs.WAITING)
            assert (data["outcome"], data.get("error")) == (attempt.outcome, attempt.error)
            state = runs.FINISHED
    assert state == attempt.state, (state, attempt.state, [event.type for event in told])


def _steps_ran_as_they_may(
    database: Database, scenario: Scenario, node: Node, run: StepRun
) -> None:
    flow, ran = RUNS[run.flow], journal.runs(run.id)
    tries: dict[str, int] = {}
    for attempt in runs.attempts(database, [run.id])[run.id]:
        tries[attempt.step] = attempt.attempt
    for step in set(ran):
        again = repeatable(scenario, flow, step, run)
        assert ran.count(step) <= tries.get(step, 0), f"{step} ran and no attempt says so: {ran}"
        assert again or ran.count(step) == 1, f"{step} ran twice: {ran}"
        entered = sum(line == ("enter", step, str(run.id)) for line in journal.all())
        assert again or entered <= 1, f"{step} was entered twice"
    order = [step for step, after in pairwise([*ran, None]) if step != after]
    silent = {entry["step"] for entry in run.plan if _is_silent(entry)}
    plan = [step for step in names_of(run) if step not in silent]
    assert order == plan[: len(order)], f"ran {ran}, planned {plan}"
    if run.outcome == endings.SUCCESS:
        assert order == plan, f"skipped: ran {ran}, planned {plan}"
        _is_put_away(flow, run)
    if node.provision_state == flow.failed and run.id == _newest(database, node):
        last = list(tries)[-1]
        prepared = flow.prepare is not None and last == flow.prepare.method
        named = (getattr(node, flow.step_field) or {}).get("step")
        old = run.mechanism == runs.OLD_WAY
        kept = flow.step_field in Node.__table__.columns
        assert prepared or old or not kept or named == last, (named, last)
        told = node.last_error or ""
        assert f".{last} failed: " in told or f".{last} had ended" in told, told


def _newest(database: Database, node: Node) -> int:
    return runs.of_node(database, node.id, limit=1)[0].id


def _is_silent(entry: Mapping[str, Any]) -> bool:
    """Tell whether a step writes nothing into the journal."""
    return is_reserved(entry) and not entry.get("old_way")


def _is_put_away(flow: StepFlow, run: StepRun) -> None:
    """What was made ready for the steps is put away before a good end."""
    if flow.finish is not None and run.plan:
        put_away = ("tidy", flow.finish.method, str(run.id)) in journal.all()
        assert put_away != _without_ramdisk(run)


def _is_planned_as_asked(scenario: Scenario, first: StepRun) -> None:
    """What a request lists runs in its order; what nobody asks for, by priority."""
    flow = RUNS[first.flow]
    if flow.job:
        assert first.plan == []
        return
    planned = [entry for entry in first.plan if entry["step"] != "grown"]
    if scenario.way.listed and first.flow == scenario.way.flow.name:
        asked = scenario.asked() or []
        assert [label_of(one) for one in planned] == [label_of(one) for one in asked]
    elif first.mechanism != runs.OLD_WAY:
        own = scenario.vendor.declared_steps[flow.name]
        wanted = {f"vendor.{name}": one.priority for name, one in own.items() if one.priority}
        if first.flow == scenario.way.flow.name:
            wanted |= {label_of(one): one["priority"] for one in scenario.asked() or ()}
        wanted |= {label_of(one): one["priority"] for one in planned if one.get("agent")}
        names = [label_of(one) for one in planned]
        assert names == sorted(wanted, key=lambda name: -wanted[name]), names


def _what_was_done_is_not_done_again(database: Database, told: Sequence[StepRun]) -> None:
    """A run that goes on begins with what failed, or after it, in a new attempt."""
    for run, before in pairwise(told):
        if run.resumes is None:
            continue
        assert run.resumes == before.uuid
        done = {
            attempt.step
            for attempt in runs.attempts(database, [before.id])[before.id]
            if attempt.outcome == endings.SUCCESS and attempt.position > 0
        }
        skipped = {entry["step"] for entry in run.plan if entry.get("skip")}
        assert done <= skipped and len(skipped - done) <= 1, (done, skipped)
        assert not skipped & set(journal.runs(run.id))


def _the_instance_is_gone(scenario: Scenario, node: Node, told: Sequence[StepRun]) -> None:
    """An undeployment takes the instance off the machine once, and its data off the node."""
    torn_down = journal.count("tear", "down")
    assert torn_down <= 1
    if not scenario.instance:
        return
    cleaned = bool(told) and told[0].flow == "clean"
    assert not cleaned or torn_down == 1
    assert (node.instance_uuid is None) == (not node.instance_info) == cleaned


def aged(database: Database, host: str) -> None:
    """Let a conductor be silent for a day."""
    with database.engine.begin() as connection:
        changed = connection.execute(
            sa.text("UPDATE conductors SET updated_at = :then WHERE hostname = :host"),
            {"then": "2020-01-01 00:00:00", "host": host},
        )
    assert changed.rowcount == 1, f"conductor {host} was never there"
