"""What must be true of a node after a crash and what followed it."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import sqlalchemy as sa

from deploysteps import states
from deploysteps.db import nodes, runs
from deploysteps.db.engine import Database
from deploysteps.db.models import Node, StepAttempt, StepRun
from deploysteps.steps import DEPLOY
from tests import support
from tests.crash.scenarios import Scenario, journal

OUTCOMES = {"success", "failed", "aborted", "timeout", "interrupted", "undeployed"}


class Before:
    """How a crash left a node."""

    def __init__(self, database: Database, uuid: str) -> None:
        self.node = nodes.get(database, uuid)
        self.run = next(iter(runs.of_node(database, self.node.id, limit=1)), None)
        attempt = runs.last_attempt(database, self.run.id) if self.run is not None else None
        self.attempt = attempt
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
        begun = state != scenario.at or self.run is not None
        return begun and state in states.STABLE_STATES

    def cut_off(self, scenario: Scenario) -> StepAttempt | None:
        """Return the attempt whose code may have been cut off and may not be repeated."""
        attempt = self.attempt
        if self.node.provision_state != states.DEPLOYING or attempt is None:
            return None
        if attempt.state != runs.RUNNING or repeatable(scenario, attempt.step):
            return None
        return attempt


def repeatable(scenario: Scenario, step: str) -> bool:
    """Tell whether a step said that it may be run again."""
    declared = scenario.vendor.declaration("deploy", step)
    return declared is not None and declared.repeatable


def expected(scenario: Scenario, before: Before) -> tuple[str, str | None]:
    """Return the state that the node has to end in, and what its error has to say."""
    state = before.node.provision_state
    lost = f"conductor {before.node.reservation} was lost since "
    if before.had_ended(scenario):
        return state, before.node.last_error
    attempt = before.cut_off(scenario)
    if attempt is not None:
        return states.DEPLOYFAIL, (
            f"{attempt.interface}.{attempt.step} failed: interrupted: {lost}"
        )
    if state in (states.DELETING, states.VERIFYING):
        return states.next_state(state, states.FAIL), f"{state} was interrupted: {lost}"
    return scenario.goal, None


def check(database: Database, scenario: Scenario, before: Before, uuid: str) -> None:
    """Check a node that has come to an end."""
    node = nodes.get(database, uuid)
    state, error = expected(scenario, before)
    assert node.provision_state == state, (node.provision_state, node.last_error)
    if error is not None:
        assert node.last_error is not None and error in node.last_error, node.last_error
    failed = states.STATES[state].failed
    assert not failed or node.last_error, "failed without a reason"
    if state in (states.ACTIVE, states.MANAGEABLE):
        assert node.last_error is None
    nothing_is_left(node)
    for run in runs.of_node(database, node.id):
        history_is_complete(database, node, run)
    each_end_is_told(database, node)
    if scenario.steps:
        _steps_ran_as_they_may(database, scenario, node)


def nothing_is_left(node: Node) -> None:
    """No lock, no plan, no token: the same after every ending."""
    held = (node.reservation, node.lock_token, node.lock_purpose, node.locked_at)
    assert held == (None,) * 4, held
    assert node.run_id is None
    info = node.driver_internal_info
    for key in ("deploy_steps", "deploy_step_index", "agent_secret_token", *DEPLOY.flags):
        assert key not in info, key
    assert node.target_power_state is None
    assert node.target_provision_state == states.STATES[node.provision_state].target
    good = not states.STATES[node.provision_state].failed
    assert not (good and node.deploy_step), node.deploy_step


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
        without = attempt.outcome in ("success", "undeployed")
        assert without == (attempt.error is None), (attempt.outcome, attempt.error)
    assert list(by_position) == list(range(len(by_position))), list(by_position)
    for position, tries in by_position.items():
        assert [one.attempt for one in tries] == list(range(1, len(tries) + 1))
        assert len({one.step for one in tries}) == 1
        assert all(one.outcome in ("failed", "interrupted") for one in tries[:-1])
        last = position == len(by_position) - 1
        assert last or tries[-1].outcome == "success", (position, tries[-1].outcome)
    begun = [tries[0].step for tries in by_position.values()]
    plan = ["prepare", *(entry["step"] for entry in run.plan)]
    assert begun == plan[: len(begun)], (begun, plan)
    if run.outcome == "success":
        assert begun == plan and all(t[-1].outcome == "success" for t in by_position.values())


def each_end_is_told(database: Database, node: Node) -> None:
    """Every run that ended has one entry in the node's history."""
    ends = Counter(f"deploy {run.outcome}" for run in runs.of_node(database, node.id))
    told = Counter(entry.event_type for entry in nodes.history_of(database, node.id))
    assert told == ends, (told, ends)


def _steps_ran_as_they_may(database: Database, scenario: Scenario, node: Node) -> None:
    run = support.last_run(database, node)
    ran = journal.runs()
    tries: dict[str, int] = {}
    for attempt in runs.attempts(database, [run.id])[run.id]:
        tries[attempt.step] = attempt.attempt
    for step in set(ran):
        assert ran.count(step) <= tries.get(step, 0), f"{step} ran and no attempt says so: {ran}"
        assert repeatable(scenario, step) or ran.count(step) == 1, f"{step} ran twice: {ran}"
        entered = journal.count("enter", step)
        assert repeatable(scenario, step) or entered <= 1, f"{step} was entered twice"
    order = [step for step, after in pairwise([*ran, None]) if step != after]
    plan = ["prepare", *(entry["step"] for entry in run.plan)]
    assert order == plan[: len(order)], f"ran {ran}, planned {plan}"
    if run.outcome == "success":
        assert order == plan, f"skipped: ran {ran}, planned {plan}"
    if node.provision_state == states.DEPLOYFAIL:
        last = list(tries)[-1]
        assert last == "prepare" or (node.deploy_step or {}).get("step") == last
        assert f".{last} failed: " in (node.last_error or ""), node.last_error


def aged(database: Database, host: str) -> None:
    """Let a conductor be silent for a day."""
    with database.engine.begin() as connection:
        changed = connection.execute(
            sa.text("UPDATE conductors SET updated_at = :then WHERE hostname = :host"),
            {"then": "2020-01-01 00:00:00", "host": host},
        )
    assert changed.rowcount == 1, f"conductor {host} was never there"
