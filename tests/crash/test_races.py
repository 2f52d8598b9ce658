"""Who may do a thing once, asked from many sides at once (F16, F19, F38, F53, F70).

The same code in every flow that waits.
"""

from __future__ import annotations

import dataclasses
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploysteps import exceptions, states
from deploysteps.conductor import attend, task_manager
from deploysteps.conductor.recovery import Recovery
from deploysteps.db import nodes, runs, sweeps
from deploysteps.db.engine import Database
from deploysteps.db.models import Node
from deploysteps.db.transitions import key_of
from deploysteps.drivers import base
from deploysteps.steps import flow_of_state
from tests import support
from tests.crash import checks, drivers
from tests.crash.drivers import Deploy, Kinds
from tests.crash.journal import journal
from tests.crash.scenarios import DEPLOY, PROVIDE, SCENARIOS, SERVICE, WAYS, Scenario, Way
from tests.crash.stepwise import Peer, Stepwise, forked

pytestmark = pytest.mark.proof

BURST = 50


class Gated(Kinds):
    """Two waits in a row; the second begins when it is let."""

    gate = threading.Event()

    @drivers.step(9, waits=True)
    def first(self, task):
        return self._agent(task, "first")

    @drivers.step(8, waits=True)
    def second(self, task):
        journal.note("run", "second", task)
        assert self.gate.wait(60)
        return base.wait_state(task)

    def check_step(self, task, step):
        return states.StepStatus.DONE


@pytest.fixture(autouse=True)
def a_journal(tmp_path: Path) -> Iterator[None]:
    journal.path = tmp_path / "journal"
    yield
    journal.path = Path(os.devnull)


def at_once(calls: list[Callable[[], Any]]) -> list[Any]:
    """Call all at the same moment, each in a thread; return results or exceptions."""
    barrier = threading.Barrier(len(calls))
    found: list[Any] = [None] * len(calls)

    def run(place: int, call: Callable[[], Any]) -> None:
        barrier.wait(60)
        try:
            found[place] = call()
        except Exception as exc:
            found[place] = exc

    threads = [threading.Thread(target=run, args=item) for item in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


def waits_in(database: Database, node: Node, step: str) -> Callable[[], bool]:
    """Return the question whether a node waits, unlocked, in a step."""

    def ask() -> bool:
        now = nodes.get(database, node.uuid)
        here = now.provision_state in states.WAIT_STATES and now.reservation is None
        return here and current_step(now) == step

    return ask


def current_step(node: Node) -> str | None:
    """Return the name of the step that is current in the flow that a node is in."""
    flow = flow_of_state(node.provision_state)
    current = getattr(node, flow.step_field) if flow is not None else None
    return current["step"] if current else None


def begin(conductor: Any, node: Node, way: Way, vendor: type[Kinds]) -> None:
    """Ask for a run of the vendor interface's steps."""
    Scenario("race", way, vendor, way.goal).begin(conductor, node)


FLOWS_THAT_WAIT = pytest.mark.parametrize("way", [DEPLOY, PROVIDE, SERVICE], ids=lambda w: w.name)


def rounds_of(way: Way, rounds: int) -> int:
    """Return how many rounds a flow has: two thirds of all are deployments."""
    return rounds if way is DEPLOY else max(rounds // 4, 2)


def runs_of(way: Way, *steps: str) -> list[str]:
    """Return what the journal has when these steps have run."""
    assert way.flow.prepare is not None
    return [way.flow.prepare.method, *steps]


ROUNDS = {"sqlite": 12, "postgresql": 4, "mysql": 4}
BY_TWO = {"sqlite": 120, "postgresql": 30, "mysql": 30}
"""More than two hundred rounds in all."""


@FLOWS_THAT_WAIT
def test_a_burst_of_heartbeats_completes_one_wait(database, start, kind, way):
    """F16, F19: fifty at once on a node with two waits in a row."""
    service = start(database, vendor=Gated, deploy=Deploy)
    for _ in range(rounds_of(way, ROUNDS[kind])):
        journal.path.unlink(missing_ok=True)
        Gated.gate.clear()
        node = support.enrolled(service, provision_state=way.at)
        begin(service, node, way, Gated)
        support.until(waits_in(database, node, "first"))
        token = support.token(service, node)

        def beat(node=node, token=token) -> None:
            service.manager.heartbeat(None, node.uuid, support.CALLBACK, agent_token=token)

        answers = at_once([beat] * BURST)
        accepted = [answer for answer in answers if answer is None]
        refused = [answer for answer in answers if answer is not None]
        assert accepted and all(isinstance(a, exceptions.NodeLocked) for a in refused), refused
        Gated.gate.set()
        support.until(waits_in(database, node, "second"))
        assert journal.runs() == runs_of(way, "first", "second")
        beat()
        support.settle(database, node.uuid, way.goal)
        assert journal.runs() == runs_of(way, "first", "second")
        assert support.outcomes(database, node) == [
            ("first", 1, "success"),
            ("second", 1, "success"),
        ]


@FLOWS_THAT_WAIT
def test_each_of_many_bursts_completes_a_wait_at_most(database, start, kind, way):
    """F19: beats that come while the second wait begins complete no more than it."""
    service = start(database, vendor=Gated, deploy=Deploy)
    Gated.gate.set()
    for _ in range(rounds_of(way, ROUNDS[kind] // 2)):
        journal.path.unlink(missing_ok=True)
        node = support.enrolled(service, provision_state=way.at)
        begin(service, node, way, Gated)
        support.until(waits_in(database, node, "first"))
        token = support.token(service, node)
        accepted = 0

        def beat(node=node, token=token) -> None:
            service.manager.heartbeat(None, node.uuid, support.CALLBACK, agent_token=token)

        while nodes.get(database, node.uuid).provision_state != way.goal:
            accepted += sum(answer is None for answer in at_once([beat] * 10))
        assert accepted >= 2
        assert journal.runs() == runs_of(way, "first", "second")


# --- two processes -------------------------------------------------------------------


class Two(Kinds):
    """Two waits in a row; the second begins once a file is there."""

    @drivers.step(9, waits=True)
    def first(self, task):
        return self._agent(task, "first")

    @drivers.step(8, waits=True)
    def second(self, task):
        journal.note("run", "second", task)
        until = time.monotonic() + 60
        while not journal.path.with_suffix(".go").exists():
            assert time.monotonic() < until
            time.sleep(0.001)
        return base.wait_state(task)

    def check_step(self, task, step):
        return states.StepStatus.DONE


def conductor_process(url: str, conf: Any, host: str) -> Callable[[str, str], Any]:
    """Return what a conductor process does when it is told to."""
    made: list[Any] = []

    def do(order: str, uuid: str) -> Any:
        if not made:
            database = Database(url)
            found = support.registry(conf, vendor=Two, deploy=Deploy)
            made.append(Stepwise(database, conf, found, host))
            made[0].start()
        conductor: Stepwise = made[0]
        node = nodes.get(conductor.database, uuid)
        attempt = None
        if node.run_id is not None:
            attempt = runs.last_attempt(conductor.database, node.run_id)
        try:
            return ORDERS[order](conductor, node, attempt)
        except exceptions.NodeLocked:
            return "locked"

    return do


def _begin(conductor: Stepwise, node: Node, attempt: Any) -> str:
    way = next(way for way in WAYS.values() if way.at == node.provision_state)
    begin(conductor, node, way, Two)
    return str(conductor.manager.lookup(None, [], node.uuid)[1])


def _beat(conductor: Stepwise, node: Node, attempt: Any) -> str:
    conductor.manager.heartbeat(
        None, node.uuid, support.CALLBACK, agent_token=node.agent_secret_token
    )
    return "accepted"


def _resume(conductor: Stepwise, node: Node, attempt: Any) -> str:
    """Resume the first step as a poller does that saw it wait."""
    key = key_of(attempt)._replace(position=1, attempt=1)
    with task_manager.acquire(
        None, node.uuid, purpose="poll", retry=False, runtime=conductor.runtime
    ) as task:
        attend.attend(task, key, attend.Beat(support.CALLBACK))
    return "attended"


def _complete(conductor: Stepwise, node: Node, attempt: Any) -> str:
    """Complete the step that waits, as a callback does, and look after what is due."""
    with task_manager.acquire(None, node.uuid, shared=True, runtime=conductor.runtime) as task:
        if task.attempt is not None and task.attempt.step == "first":
            task.complete_step()
    conductor.sweeper.sweep()
    return "completed"


ORDERS = {"begin": _begin, "beat": _beat, "resume": _resume, "complete": _complete}
"""What the two processes do at once, each in turn."""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@FLOWS_THAT_WAIT
def test_two_processes_that_resume_at_once_advance_once(database, url, conf, kind, way):
    """F16: more than two hundred rounds in all, by beats, pollers and callbacks."""
    database.dispose()
    go = journal.path.with_suffix(".go")
    with (
        Peer(conductor_process(url, conf, "conductor-1")) as one,
        Peer(conductor_process(url, conf, "conductor-2")) as other,
    ):
        for number in range(rounds_of(way, BY_TWO[kind])):
            journal.path.unlink(missing_ok=True)
            go.unlink(missing_ok=True)
            node = nodes.insert(
                database,
                {"driver": "test-hardware", "provision_state": way.at},
            )
            one.ask("begin", node.uuid).result()
            order = ("beat", "resume", "complete")[number % 3]
            asked = [one.ask(order, node.uuid), other.ask(order, node.uuid)]
            support.until(lambda asked=asked: any(a.ready() for a in asked))  # who lost
            go.touch()
            said = [answer.result() for answer in asked]
            now = nodes.get(database, node.uuid)
            assert current_step(now) == "second", (order, said)
            assert journal.runs() == runs_of(way, "first", "second"), (order, said)
            assert support.outcomes(database, node) == [
                ("first", 1, "success"),
                ("second", 1, None),
            ]


# --- one ending ----------------------------------------------------------------------


def one_ending(database: Database, node: Node) -> str:
    """Check that a node's run ended once, and return how."""
    run = support.last_run(database, node)
    assert run.finished_at is not None
    checks.history_is_complete(database, node, run)
    checks.each_end_is_told(database, node)
    checks.nothing_is_left(nodes.get(database, node.uuid))
    return str(run.outcome)


def waiting_in_second(database: Database, conductor: Stepwise, name: str) -> Node:
    """Return a node that waits in the second step of the story."""
    story = SCENARIOS[name]
    node = conductor.manager.create_node(
        None, {"driver": "test-hardware", "provision_state": story.before}
    )
    story.begin(conductor, node)
    with task_manager.acquire(None, node.uuid, shared=True, runtime=conductor.runtime) as task:
        task.complete_step()
    conductor.sweeper.sweep()
    node = nodes.get(database, node.uuid)
    assert current_step(node) == "second"
    return node


def in_flows_that_wait(story: str) -> Any:
    """Parametrise over the names of a story in each flow."""
    told = [n for n, one in SCENARIOS.items() if n in (story, f"{story}-{one.way.name}")]
    return pytest.mark.parametrize("name", told)


def conductors_for(
    database: Database, conf: Any, name: str, hosts: tuple[str, ...] = ("conductor-1",)
) -> list[Stepwise]:
    """Return conductors, started, for a story of the crash matrix."""
    registry = support.registry(conf, **SCENARIOS[name].interfaces)
    found = [Stepwise(database, conf, registry, host) for host in hosts]
    for conductor in found:
        conductor.start()
    return found


@in_flows_that_wait("timed-out")
def test_a_timeout_and_a_failure_at_once_are_one_ending(database, conf, name):
    """F38: the first reason wins, and stays whole."""
    (conductor,) = conductors_for(database, conf, name)
    outcomes: Counter[str] = Counter()
    for _ in range(rounds_of(SCENARIOS[name].way, 10)):
        node = waiting_in_second(database, conductor, name)
        task = task_manager.acquire(None, node.uuid, shared=True, runtime=conductor.runtime)

        def fail(task=task) -> None:
            task.fail_step("the callback said so")
            conductor.sweeper.sweep()

        at_once([fail, conductor.sweeper.sweep, conductor.sweeper.sweep])
        support.until(lambda node=node: conductor.sweeper.sweep() and _ended(database, node))
        outcome = one_ending(database, node)
        outcomes[outcome] += 1
        error = nodes.get(database, node.uuid).last_error
        assert ("the callback said so" in error) == (outcome == "failed"), error
        assert ("timed out" in error) == (outcome == "timeout"), error
    assert set(outcomes) <= {"timeout", "failed"}


def _ended(database: Database, node: Node) -> bool:
    now = nodes.get(database, node.uuid)
    return now.provision_state in states.STABLE_STATES and now.reservation is None


@in_flows_that_wait("told")
def test_two_aborts_at_once_are_one(database, conf, name):
    """F70: both are accepted, the node is aborted once."""
    (conductor,) = conductors_for(database, conf, name)
    for _ in range(rounds_of(SCENARIOS[name].way, 10)):
        node = waiting_in_second(database, conductor, name)

        def abort(node=node) -> None:
            conductor.manager.do_provisioning_action(None, node.uuid, states.ABORT)

        answers = at_once([abort] * 4 + [conductor.sweeper.sweep])
        assert not [a for a in answers if isinstance(a, Exception)], answers
        support.until(lambda node=node: conductor.sweeper.sweep() and _ended(database, node))
        assert one_ending(database, node) == "aborted"
        abort()  # afterwards, too, it is accepted and changes nothing
        assert one_ending(database, node) == "aborted"


@in_flows_that_wait("told")
def test_an_abort_and_a_heartbeat_at_once_end_it_or_complete_it(database, conf, name):
    """F67, F70: never both, and an abort is never forgotten."""
    (conductor,) = conductors_for(database, conf, name)
    outcomes: Counter[str] = Counter()
    for _ in range(rounds_of(SCENARIOS[name].way, 12)):
        node = waiting_in_second(database, conductor, name)
        token = conductor.manager.lookup(None, [], node.uuid)[1]

        def beat(node=node, token=token) -> None:
            conductor.manager.heartbeat(None, node.uuid, support.CALLBACK, agent_token=token)

        def abort(node=node) -> None:
            conductor.manager.do_provisioning_action(None, node.uuid, states.ABORT)

        said = at_once([beat, abort])
        for _ in range(3):  # the steps of this story ask twice
            if not _ended(database, node):
                conductor.sweeper.sweep()
        if not _ended(database, node):
            beat()
        outcome = one_ending(database, node)
        outcomes[outcome] += 1
        accepted = said[1] is None
        assert accepted == (outcome == "aborted") or outcome == "success", (said, outcome)
    assert set(outcomes) <= {"aborted", "success"}


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize(
    "name", ["repeatable", "once", "repeatable-provide", "once-clean", "once-service"]
)
def test_of_two_recoverers_with_one_snapshot_one_wins(database, conf, monkeypatch, name):
    """F53: claimed by compare-and-set; who lost does nothing."""
    hosts = ("conductor-1", "conductor-2", "conductor-3")
    dead, *recoverers = conductors_for(database, conf, name, hosts)
    checks.aged(database, "conductor-1")
    story = SCENARIOS[name]
    again, flow = story.vendor is drivers.Safe, story.way.flow
    for _ in range(rounds_of(story.way, 8)):
        journal.path.unlink(missing_ok=True)
        node = cut_off_in_sync(database, dead, story)
        snapshot = sweeps.locked_nodes(database)
        monkeypatch.setattr(sweeps, "locked_nodes", lambda _db, snapshot=snapshot: snapshot)
        # Nobody has seen it alive: a sign that is new, and old by its time, is of a wrong clock.
        taken = at_once([Recovery(one.runtime).sweep for one in recoverers])
        monkeypatch.undo()
        assert sum(taken) == 1, taken
        assert journal.runs().count("sync") == (2 if again else 1)
        now = nodes.get(database, node.uuid)
        assert now.reservation is None
        assert now.provision_state == (flow.waiting if again else flow.failed)


def cut_off_in_sync(database: Database, conductor: Stepwise, story: Scenario) -> Node:
    """Return a node whose conductor is killed in the code of the step ``sync``."""
    # In the order of priority: the other way round, it waits before.
    story = dataclasses.replace(story, backwards=False)
    node = conductor.manager.create_node(
        None, {"driver": "test-hardware", "provision_state": story.before}
    )
    database.dispose()

    def life() -> None:
        journal.fatal = "sync"
        story.begin(conductor, node)

    assert forked(life).killed
    node = nodes.get(database, node.uuid)
    assert node.reservation == "conductor-1" and current_step(node) == "sync"
    return node
