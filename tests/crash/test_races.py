"""Who may do a thing once, asked from many sides at once (F16, F19, F38, F53, F70)."""

from __future__ import annotations

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
from deploysteps.db import nodes, runs, sweeps
from deploysteps.db.engine import Database
from deploysteps.db.models import Node
from deploysteps.db.transitions import key_of
from deploysteps.drivers import base
from tests import support
from tests.crash import checks
from tests.crash.scenarios import SCENARIOS, Deploy, Kinds, journal
from tests.crash.stepwise import Peer, Stepwise, forked

BURST = 50


class Gated(Kinds):
    """Two waits in a row; the second begins when it is let."""

    gate = threading.Event()

    @base.deploy_step(priority=9)
    def first(self, task):
        journal.note("run", "first")
        return states.DEPLOYWAIT

    @base.deploy_step(priority=8)
    def second(self, task):
        journal.note("run", "second")
        assert self.gate.wait(20)
        return states.DEPLOYWAIT

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
        barrier.wait(20)
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
        here = now.provision_state == states.DEPLOYWAIT and now.reservation is None
        return here and now.deploy_step["step"] == step

    return ask


ROUNDS = {"sqlite": 12, "postgresql": 4, "mysql": 4}
BY_TWO = {"sqlite": 120, "postgresql": 30, "mysql": 30}
"""Two hundred rounds in all."""


def test_a_burst_of_heartbeats_completes_one_wait(database, start, kind):
    """F16, F19: fifty at once on a node with two waits in a row."""
    service = start(database, vendor=Gated, deploy=Deploy)
    for _ in range(ROUNDS[kind]):
        journal.path.unlink(missing_ok=True)
        Gated.gate.clear()
        node = support.enrolled(service)
        service.manager.do_node_deploy(None, node.uuid)
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
        assert journal.runs() == ["prepare", "first", "second"]
        beat()
        support.settle(database, node.uuid, states.ACTIVE)
        assert journal.runs() == ["prepare", "first", "second"]
        assert support.outcomes(database, node) == [
            ("first", 1, "success"),
            ("second", 1, "success"),
        ]


def test_each_of_many_bursts_completes_a_wait_at_most(database, start, kind):
    """F19: beats that come while the second wait begins complete no more than it."""
    service = start(database, vendor=Gated, deploy=Deploy)
    Gated.gate.set()
    for _ in range(ROUNDS[kind] // 2):
        journal.path.unlink(missing_ok=True)
        node = support.enrolled(service)
        service.manager.do_node_deploy(None, node.uuid)
        support.until(waits_in(database, node, "first"))
        token = support.token(service, node)
        accepted = 0

        def beat(node=node, token=token) -> None:
            service.manager.heartbeat(None, node.uuid, support.CALLBACK, agent_token=token)

        while nodes.get(database, node.uuid).provision_state != states.ACTIVE:
            accepted += sum(answer is None for answer in at_once([beat] * 10))
        assert accepted >= 2
        assert journal.runs() == ["prepare", "first", "second"]


# --- two processes -------------------------------------------------------------------


class Two(Kinds):
    """Two waits in a row; the second begins once a file is there."""

    @base.deploy_step(priority=9)
    def first(self, task):
        journal.note("run", "first")
        return states.DEPLOYWAIT

    @base.deploy_step(priority=8)
    def second(self, task):
        journal.note("run", "second")
        until = time.monotonic() + 10
        while not journal.path.with_suffix(".go").exists():
            assert time.monotonic() < until
            time.sleep(0.001)
        return states.DEPLOYWAIT

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


def _deploy(conductor: Stepwise, node: Node, attempt: Any) -> str:
    conductor.manager.do_node_deploy(None, node.uuid)
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


ORDERS = {"deploy": _deploy, "beat": _beat, "resume": _resume, "complete": _complete}
"""What the two processes do at once, each in turn."""


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_two_processes_that_resume_at_once_advance_once(database, url, conf, kind):
    """F16: two hundred rounds in all, by beats, pollers and callbacks."""
    database.dispose()
    go = journal.path.with_suffix(".go")
    with (
        Peer(conductor_process(url, conf, "conductor-1")) as one,
        Peer(conductor_process(url, conf, "conductor-2")) as other,
    ):
        for number in range(BY_TWO[kind]):
            journal.path.unlink(missing_ok=True)
            go.unlink(missing_ok=True)
            node = nodes.insert(
                database,
                {"driver": "test-hardware", "provision_state": states.AVAILABLE},
            )
            one.ask("deploy", node.uuid).result()
            order = ("beat", "resume", "complete")[number % 3]
            asked = [one.ask(order, node.uuid), other.ask(order, node.uuid)]
            support.until(lambda asked=asked: any(a.ready() for a in asked))  # who lost
            go.touch()
            said = [answer.result() for answer in asked]
            now = nodes.get(database, node.uuid)
            assert now.deploy_step["step"] == "second", (order, said)
            assert journal.runs() == ["prepare", "first", "second"], (order, said)
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


def waiting_in_second(database: Database, conductor: Stepwise) -> Node:
    """Return a node that waits in the second step of the story."""
    node = conductor.manager.create_node(
        None, {"driver": "test-hardware", "provision_state": states.AVAILABLE}
    )
    conductor.manager.do_node_deploy(None, node.uuid)
    with task_manager.acquire(None, node.uuid, shared=True, runtime=conductor.runtime) as task:
        task.complete_step()
    conductor.sweeper.sweep()
    node = nodes.get(database, node.uuid)
    assert node.deploy_step["step"] == "second"
    return node


def conductors_for(
    database: Database, conf: Any, name: str, hosts: tuple[str, ...] = ("conductor-1",)
) -> list[Stepwise]:
    """Return conductors, started, for a story of the crash matrix."""
    registry = support.registry(conf, vendor=SCENARIOS[name].vendor, deploy=Deploy)
    found = [Stepwise(database, conf, registry, host) for host in hosts]
    for conductor in found:
        conductor.start()
    return found


def test_a_timeout_and_a_failure_at_once_are_one_ending(database, conf):
    """F38: the first reason wins, and stays whole."""
    (conductor,) = conductors_for(database, conf, "timed-out")
    outcomes: Counter[str] = Counter()
    for _ in range(10):
        node = waiting_in_second(database, conductor)
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


def test_two_aborts_at_once_are_one(database, conf):
    """F70: both are accepted, the node is aborted once."""
    (conductor,) = conductors_for(database, conf, "told")
    for _ in range(10):
        node = waiting_in_second(database, conductor)

        def abort(node=node) -> None:
            conductor.manager.do_provisioning_action(None, node.uuid, states.ABORT)

        answers = at_once([abort] * 4 + [conductor.sweeper.sweep])
        assert not [a for a in answers if isinstance(a, Exception)], answers
        support.until(lambda node=node: conductor.sweeper.sweep() and _ended(database, node))
        assert one_ending(database, node) == "aborted"
        abort()  # afterwards, too, it is accepted and changes nothing
        assert one_ending(database, node) == "aborted"


def test_an_abort_and_a_heartbeat_at_once_end_it_or_complete_it(database, conf):
    """F67, F70: never both, and an abort is never forgotten."""
    (conductor,) = conductors_for(database, conf, "told")
    outcomes: Counter[str] = Counter()
    for _ in range(12):
        node = waiting_in_second(database, conductor)
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
@pytest.mark.parametrize("name", ["repeatable", "once"])
def test_of_two_recoverers_with_one_snapshot_one_wins(database, conf, monkeypatch, name):
    """F53: claimed by compare-and-set; who lost does nothing."""
    hosts = ("conductor-1", "conductor-2", "conductor-3")
    dead, *recoverers = conductors_for(database, conf, name, hosts)
    checks.aged(database, "conductor-1")
    for _ in range(8):
        journal.path.unlink(missing_ok=True)
        node = cut_off_in_sync(database, dead)
        snapshot = sweeps.locked_nodes(database)
        monkeypatch.setattr(sweeps, "locked_nodes", lambda _db, snapshot=snapshot: snapshot)
        taken = at_once([one.recovery.sweep for one in recoverers])
        monkeypatch.undo()
        assert sum(taken) == 1, taken
        assert journal.runs().count("sync") == (2 if name == "repeatable" else 1)
        now = nodes.get(database, node.uuid)
        assert now.reservation is None
        wanted = states.DEPLOYWAIT if name == "repeatable" else states.DEPLOYFAIL
        assert now.provision_state == wanted


def cut_off_in_sync(database: Database, conductor: Stepwise) -> Node:
    """Return a node whose conductor is killed in the code of the step ``sync``."""
    node = conductor.manager.create_node(
        None, {"driver": "test-hardware", "provision_state": states.AVAILABLE}
    )
    database.dispose()

    def life() -> None:
        journal.fatal = "sync"
        conductor.manager.do_node_deploy(None, node.uuid)

    assert forked(life).killed
    node = nodes.get(database, node.uuid)
    assert node.reservation == "conductor-1" and node.deploy_step["step"] == "sync"
    return node
