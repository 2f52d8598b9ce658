"""What a dead conductor left behind, in every state that there is (F43-F45, F52, F54)."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc

from deploysteps import exceptions, states
from deploysteps.conductor import task_manager
from deploysteps.db import conductors, locks, nodes, runs, transitions, types
from deploysteps.db.engine import Database
from deploysteps.db.models import Node
from deploysteps.drivers import base
from tests import support
from tests.crash import checks
from tests.crash.drivers import Deploy, Safe
from tests.crash.journal import journal
from tests.crash.stepwise import Stepwise

DEAD = "conductor-dead"


@pytest.fixture(autouse=True)
def a_journal(tmp_path: Path) -> None:
    journal.path = tmp_path / "journal"


def left(database: Database, state: str, **values: Any) -> Node:
    """Insert a node as a dead conductor leaves it: in a state, and locked."""
    row = {
        "driver": "test-hardware",
        "provision_state": state,
        "target_provision_state": states.STATES[state].target,
        "reservation": DEAD,
        "lock_token": locks.new_token(),
        "locked_at": types.utcnow(),
        **values,
    }
    return nodes.insert(database, row)


def dead(database: Database) -> None:
    """Register a conductor and let it be silent since."""
    conductors.register(database, DEAD, "x" * 32, [])
    checks.aged(database, DEAD)


def outcome_of(state: str) -> str:
    """Return where a node that nobody looks after has to end."""
    return states.next_state(state, states.FAIL) if states.can(state, states.FAIL) else state


@pytest.mark.parametrize("maintenance", [False, True], ids=["", "in maintenance"])
def test_every_state_that_a_dead_conductor_held_ends_stable_and_unlocked(
    database, start, maintenance
):
    """F43, F44, F45: derived from the state table, so that none can be forgotten."""
    dead(database)
    found = {state: left(database, state, maintenance=maintenance) for state in states.STATES}
    start(database, vendor=support.Vendor)
    for state, node in found.items():
        node = support.settle(database, node.uuid, outcome_of(state))
        assert node.lock_token is None and node.locked_at is None
        assert node.maintenance == maintenance
        failed = outcome_of(state) != state
        assert bool(node.last_error) == failed, (state, node.last_error)
        if failed and states.STATES[state].kind is states.Kind.TRANSIENT:
            assert DEAD in node.last_error, node.last_error


@pytest.mark.parametrize("holder", [DEAD, "conductor-1"], ids=["dead", "itself"])
def test_a_lock_without_a_token_is_freed_as_well(database, start, holder):
    """F45: as other programs, or people, may write one."""
    node = left(database, states.DEPLOYING, reservation=holder, lock_token=None)
    stable = left(database, states.AVAILABLE, reservation=holder, lock_token=None)
    start(database, vendor=support.Vendor)
    support.settle(database, node.uuid, states.DEPLOYFAIL)
    support.settle(database, stable.uuid, states.AVAILABLE)


def test_states_that_nobody_holds_are_found_as_well(database, start):
    """F54: no lock, no wait, and yet somebody ought to be at work."""
    free = {"reservation": None, "lock_token": None, "locked_at": None}
    found = {state: left(database, state, **free) for state in states.STATES}
    start(database, vendor=support.Vendor)
    for state, node in found.items():
        node = support.settle(database, node.uuid, outcome_of(state))
        assert bool(node.last_error) == (outcome_of(state) != state), (state, node.last_error)


def test_a_conductor_that_lives_keeps_its_locks(database, start):
    """F46: whatever the state."""
    conductors.register(database, DEAD, "x" * 32, [])  # heard of just now
    found = {state: left(database, state) for state in states.STATES}
    service = start(database, vendor=support.Vendor)
    service._periodic.stop()  # the first sweep is what is looked at
    for state, node in found.items():
        now = nodes.get(database, node.uuid)
        assert (now.provision_state, now.lock_token) == (state, node.lock_token)


class Waits(support.Vendor):
    """A step that waits, in each way."""

    @base.deploy_step(priority=9)
    def agent(self, task):
        journal.note("run", "agent")
        return states.DEPLOYWAIT

    @base.deploy_step(priority=8)
    def last(self, task):
        journal.note("run", "last")


@pytest.mark.parametrize("maintenance", [False, True], ids=["", "in maintenance"])
def test_a_node_that_waited_goes_on_waiting(database, conf, start, maintenance):
    """F43, F44, promise 10: a crash is not a failure."""
    registry = support.registry(conf, vendor=Waits, deploy=Deploy)
    lost = Stepwise(database, conf, registry, DEAD)
    lost.start()
    node = lost.manager.create_node(
        None, {"driver": "test-hardware", "provision_state": states.AVAILABLE}
    )
    lost.manager.do_node_deploy(None, node.uuid)
    token = lost.manager.lookup(None, [], node.uuid)[1]
    nodes.set_unlocked(database, node.id, {"maintenance": maintenance})
    locks.grant(database, node.id, DEAD, "looking after a waiting step")
    checks.aged(database, DEAD)
    service = start(database, vendor=Waits, deploy=Deploy)
    node = support.settle(database, node.uuid, states.DEPLOYWAIT)
    assert node.last_error is None
    assert support.outcomes(database, node) == [("agent", 1, None)]
    support.until(lambda: support.attempts(database, node)[-1].conductor == "conductor-1")
    support.beat(service, node, token)
    support.settle(database, node.uuid, states.ACTIVE)
    assert journal.runs() == ["prepare", "agent", "last"]


# --- recovery that meets trouble of its own --------------------------------------------


def ten_cut_off(database: Database, conf: Any) -> tuple[Stepwise, list[Node]]:
    """Return a conductor, and ten nodes whose repeatable step another was lost in."""
    registry = support.registry(conf, vendor=Safe, deploy=Deploy)
    lost = Stepwise(database, conf, registry, DEAD)
    lost.start()
    found = []
    for _ in range(10):
        node = lost.manager.create_node(
            None, {"driver": "test-hardware", "provision_state": states.AVAILABLE}
        )
        lost.manager.do_node_deploy(None, node.uuid)
        found.append(cut_off(database, node))
    checks.aged(database, DEAD)
    return Stepwise(database, conf, registry, "conductor-1"), found


def cut_off(database: Database, node: Node) -> Node:
    """Turn a node that waits into one whose step is cut off by a dead conductor."""
    _, node = locks.grant(database, node.id, DEAD, "a heartbeat")
    attempt = runs.last_attempt(database, node.run_id)
    entered = transitions.enter(attempt, DEAD)

    def work(connection: sa.Connection) -> None:
        connection.execute(entered.statement, entered.values)
        connection.execute(
            sa.update(Node).where(Node.id == node.id).values(provision_state=states.DEPLOYING)
        )

    database.write(work)
    return node


FAULTS = {
    "taking the lock": (locks, "grant"),
    "reading the attempt": (runs, "last_attempt"),
    "building the driver": (nodes, "get"),
}


@pytest.mark.parametrize("error", [db_exc.DBConnectionError, exceptions.DatabaseUnavailable])
@pytest.mark.parametrize("where", FAULTS)
def test_a_database_error_for_one_orphan_costs_the_others_nothing(
    database, conf, monkeypatch, where, error
):
    """F52: at the third of ten; all ten are recovered in the end."""
    conductor, found = ten_cut_off(database, conf)
    module, name = FAULTS[where]
    real, count = getattr(module, name), [0]

    def failing(*args: Any, **kwargs: Any) -> Any:
        count[0] += 1
        if count[0] == 3:
            raise error
        return real(*args, **kwargs)

    monkeypatch.setattr(module, name, failing)
    conductor.start()
    monkeypatch.undo()
    went_on = [node for node in found if journal_has(database, node)]
    assert len(went_on) >= 9, "one error stopped the others"
    conductor.recovery.sweep()
    for node in found:
        node = nodes.get(database, node.uuid)
        assert node.reservation is None and node.provision_state == states.DEPLOYWAIT
        assert support.outcomes(database, node)[-2:] == [
            ("agent", 1, "interrupted"),
            ("agent", 2, None),
        ]
    assert not conductor.runtime.active


def journal_has(database: Database, node: Node) -> bool:
    """Tell whether a node was recovered."""
    return nodes.get(database, node.uuid).provision_state == states.DEPLOYWAIT


def test_a_listing_that_fails_is_made_again_by_the_next_round(database, conf, monkeypatch):
    """F52: at the start as well, before anything is known."""
    conductor, found = ten_cut_off(database, conf)
    conductors.register(database, "conductor-1", "y" * 32, [])
    from deploysteps.db import sweeps

    monkeypatch.setattr(sweeps, "locked_nodes", lambda _db: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        conductor.recovery.sweep()
    monkeypatch.undo()
    assert conductor.recovery.sweep() == 10
    assert all(journal_has(database, node) for node in found)


def test_a_lock_whose_work_could_not_begin_is_found_again(database, conf, monkeypatch):
    """F45, F51: granted, and then the attempt could not be read."""
    registry = support.registry(conf, vendor=Waits, deploy=Deploy)
    conductor = Stepwise(database, conf, registry, "conductor-1")
    conductor.start()
    node = conductor.manager.create_node(
        None, {"driver": "test-hardware", "provision_state": states.AVAILABLE}
    )
    conductor.manager.do_node_deploy(None, node.uuid)
    due_now(database, node)
    for begin in (
        conductor.sweeper.sweep,
        lambda: task_manager.acquire(None, node.uuid, runtime=conductor.runtime),
    ):
        with monkeypatch.context() as patched:
            patched.setattr(runs, "last_attempt", lambda *_: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                begin()
        assert nodes.get(database, node.uuid).reservation is not None
        conductor.recovery.sweep()
        now = nodes.get(database, node.uuid)
        assert now.reservation is None and now.provision_state == states.DEPLOYWAIT


class Left(support.Vendor):
    """Its conductor cannot write any more, while the step runs."""

    @base.deploy_step(priority=9)
    def left(self, task):
        task.abandon()
        task.node.save()


def test_what_a_conductor_left_itself_is_not_said_to_be_a_lost_conductors(database, conf):
    """F52: it lives; its log tells why it could not go on."""
    conductor = Stepwise(
        database, conf, support.registry(conf, vendor=Left, deploy=Deploy), "conductor-1"
    )
    conductor.start()
    node = conductor.manager.create_node(
        None, {"driver": "test-hardware", "provision_state": states.AVAILABLE}
    )
    conductor.manager.do_node_deploy(None, node.uuid)
    conductor.recovery.sweep()
    node = nodes.get(database, node.uuid)
    assert node.provision_state == states.DEPLOYFAIL
    assert "interrupted: conductor conductor-1 could not go on (its log says why) while it ran" in (
        node.last_error
    )
    checks.nothing_is_left(node)


def due_now(database: Database, node: Node) -> None:
    """Let a node's wait be due."""
    attempt = support.attempts(database, node)[-1]
    again = transitions.rearm(
        transitions.key_of(attempt),
        types.utcnow() - datetime.timedelta(seconds=1),
        None,
        None,
    )
    database.write(lambda c: c.execute(again.statement, again.values))


# --- ends that a stop or a crash leaves to the next life ---------------------------------


class Stops(support.Vendor):
    """The first step tells its conductor to stop."""

    @base.deploy_step(priority=9)
    def first(self, task):
        journal.note("run", "first")
        task.runtime.stopping.set()

    @base.deploy_step(priority=8)
    def second(self, task):
        journal.note("run", "second")


def test_a_run_that_was_aborted_while_no_conductor_was_there_is_aborted(database, conf):
    """F66, F67: between two steps, where no attempt is left to end."""
    registry = support.registry(conf, vendor=Stops, deploy=Deploy)
    first = Stepwise(database, conf, registry, "conductor-1")
    first.start()
    node = first.manager.create_node(
        None, {"driver": "test-hardware", "provision_state": states.AVAILABLE}
    )
    first.manager.do_node_deploy(None, node.uuid)
    assert nodes.get(database, node.uuid).reservation is None
    first.manager.do_provisioning_action(None, node.uuid, states.ABORT)
    Stepwise(database, conf, registry, "conductor-1").start()
    node = nodes.get(database, node.uuid)
    assert node.provision_state == states.DEPLOYFAIL
    assert "aborted by an operator, when vendor.first had ended" in node.last_error
    assert journal.runs() == ["prepare", "first"]
    checks.nothing_is_left(node)
    assert support.outcomes(database, node) == [("first", 1, "success")]
    assert support.last_run(database, node).outcome == "aborted"


class Retried(support.Vendor):
    """Fails each time."""

    @base.deploy_step(priority=9, repeatable=True, retries=2)
    def broken(self, task):
        journal.note("run", "broken")
        raise exceptions.DeployStepFailed("it is broken")


def test_a_crash_uses_up_no_retry(database, conf, monkeypatch):
    """F42: retries are for a step that raised."""
    registry = support.registry(conf, vendor=Retried, deploy=Deploy)
    lost = Stepwise(database, conf, registry, DEAD)
    lost.start()
    node = lost.manager.create_node(
        None, {"driver": "test-hardware", "provision_state": states.AVAILABLE}
    )
    with monkeypatch.context() as patched:
        patched.setattr(Retried, "broken", lambda self, task: task.abandon() or task.node.save())
        lost.manager.do_node_deploy(None, node.uuid)
    checks.aged(database, DEAD)
    Stepwise(database, conf, registry, "conductor-1").start()
    node = nodes.get(database, node.uuid)
    assert [outcome for _, _, outcome in support.outcomes(database, node)] == [
        "interrupted",
        "failed",
        "failed",
        "failed",
    ]
    assert journal.runs() == ["prepare", *["broken"] * 3]
