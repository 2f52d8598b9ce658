"""What the loops look for is really found, and what is kept is kept."""

from __future__ import annotations

import datetime

import pytest
import sqlalchemy as sa

from deploysteps import exceptions, states
from deploysteps.db import conductors, locks, nodes, ports, runs, sweeps, transitions, types
from deploysteps.db.models import Node, NodeHistory, StepAttempt, StepRun, table
from deploysteps.steps import OWNERS
from tests.db.test_sizes import begun
from tests.support_sql import counting

NODES, RUNS, ATTEMPTS, HISTORY = map(table, (Node, StepRun, StepAttempt, NodeHistory))
NOW = types.utcnow()
UUID = "11111111-1111-1111-1111-111111111111"
HOUR = datetime.timedelta(hours=1)
WAIT = {"state": "waiting", "owner": "agent", "waiting_since": NOW, "reenter": False}


def aged(database, model, by=HOUR, **columns):
    """Make every row of a table older."""
    at = types.utcnow() - by
    with database.engine.begin() as connection:
        connection.execute(sa.update(model).values({name: at for name in columns}))


def waiting(database, make, due_at, conductor="c1", **more):
    """A node whose step waits."""
    node = make(database, provision_state=states.DEPLOYWAIT)
    lock, node = locks.grant(database, node.id, conductor, "test")
    values = {**WAIT, "due_at": due_at, "conductor": conductor, **more}
    _run_id, attempt = begun(database, node, lock, values)
    locks.release(database, lock)
    return node, transitions.key_of(attempt)


def keys(found):
    return [due.key for due in found]


def test_what_is_due(database, make):
    """F39: a stale row really is found; the earliest first."""
    late = waiting(database, make, NOW - HOUR)[1]
    later = waiting(database, make, NOW - 2 * HOUR, owner="poller")[1]
    timer = waiting(database, make, NOW, owner="timer")[1]
    waiting(database, make, NOW + HOUR)
    waiting(database, make, None)
    waiting(database, make, NOW - HOUR, conductor="c2")
    waiting(database, make, NOW - HOUR, state="finished")
    waiting(database, make, NOW - HOUR, state="running", owner=None)
    with counting(database) as count:
        found = sweeps.due(database, "c1", NOW, 10)
    assert count.statements == 1
    assert keys(found) == [later, late, timer]
    assert found[0].due_at == NOW - 2 * HOUR
    assert keys(sweeps.due(database, "c1", NOW, 2)) == [later, late]
    assert sweeps.due(database, "c3", NOW, 10) == []


def test_every_owner_of_a_wait_is_swept(database, make):
    """F36: an owner that the sweep does not know would wait for ever."""
    for owner in OWNERS:
        key = waiting(database, make, NOW - HOUR, owner=owner)[1]
        assert key in keys(sweeps.due(database, "c1", NOW, 10))
        assert key in keys(sweeps.foreign_waits(database, "c9", ["c2"]))


def test_a_signal_makes_a_wait_due(database, make):
    """Whoever may end it says so, once; a beat gives way to a word."""
    key = waiting(database, make, NOW + HOUR)[1]
    assert sweeps.due(database, "c1", types.utcnow(), 10) == []
    assert transitions.send_signal(database, key, "beat")
    assert transitions.send_signal(database, key, "done")
    assert not transitions.send_signal(database, key, "fail", "late")
    assert keys(sweeps.due(database, "c1", types.utcnow(), 10)) == [key]
    (attempt,) = runs.attempts(database, [key.run_id])[key.run_id]
    assert (attempt.signal, attempt.signal_detail) == ("done", None)
    assert not transitions.send_signal(database, key._replace(attempt=2), "done")


def test_an_abort_cuts_a_wait_short(database, make):
    key = waiting(database, make, NOW + HOUR)[1]
    assert transitions.ask_abort(database, key.run_id, "me", key)
    assert keys(sweeps.due(database, "c1", types.utcnow(), 10)) == [key]
    assert runs.last_attempt(database, key.run_id).signal == "abort"
    assert not transitions.ask_abort(database, key.run_id, "me", key)


@pytest.mark.parametrize(("state", "owner"), [("running", None), ("waiting", "agent")])
def test_what_was_cut_short_neither_waits_nor_is_entered_again(database, make, state, owner):
    """F67: whatever its conductor is about to write."""
    key = waiting(database, make, None, state=state, owner=owner)[1]
    assert transitions.ask_abort(database, key.run_id, "me", key)
    attempt = runs.last_attempt(database, key.run_id)
    for also in (transitions.wait(attempt, {"owner": "agent"}), transitions.enter(attempt, "c1")):
        with pytest.raises(locks.Stale):
            database.write(lambda connection, also=also: locks.run_also(connection, also))
    assert runs.last_attempt(database, key.run_id).signal == "abort"
    assert keys(sweeps.due(database, "c1", types.utcnow(), 10)) == ([key] if owner else [])


def test_waits_of_conductors_that_are_gone(database, make):
    """F45."""
    mine = waiting(database, make, NOW, conductor="c1")[1]
    gone = waiting(database, make, None, conductor="gone", owner="poller")[1]
    waiting(database, make, NOW, conductor="c2")
    waiting(database, make, NOW, conductor="gone", state="finished")
    assert keys(sweeps.foreign_waits(database, "c1", ["c2"])) == [gone]
    assert keys(sweeps.foreign_waits(database, "c1", {"c2", "c1"})) == [gone]
    assert keys(sweeps.own_waits(database, "gone")) == [gone]
    sweeps.take_wait(database, gone, "c1")
    assert sweeps.own_waits(database, "gone") == []
    assert sweeps.foreign_waits(database, "c1", ["c2"]) == []
    assert keys(sweeps.due(database, "c1", NOW, 10)) == [mine]
    assert runs.last_attempt(database, gone.run_id).conductor == "c1"


def test_locked_nodes(database, make):
    make(database)
    for host in ("c1", "c2"):
        locks.grant(database, make(database).id, host, "test")
    found = sweeps.locked_nodes(database)
    assert {orphan.holder for orphan in found} == {"c1", "c2"}
    for orphan in found:
        node = nodes.get(database, orphan.node_id)
        assert (orphan.uuid, orphan.token, orphan.since, orphan.state) == (
            node.uuid,
            node.lock_token,
            node.locked_at,
            "available",
        )


@pytest.mark.parametrize("maintenance", [False, True])
def test_gaps_of_every_state(database, make, maintenance):
    """F43, F44, F54: each state that somebody owes something in, in maintenance too."""
    made = {
        state: make(database, provision_state=state, maintenance=maintenance).id
        for state in states.STATES
    }
    locks.grant(database, make(database, provision_state=states.DEPLOYING).id, "c1", "at work")
    owed = states.TRANSIENT_STATES | states.WAIT_STATES | states.HOLD_STATES
    with counting(database) as count:
        found = sweeps.gaps(database, types.utcnow() + HOUR)
    assert count.statements == 1
    assert {orphan.node_id for orphan in found} == {made[state] for state in owed}
    assert all(orphan.token is None and orphan.holder is None for orphan in found)
    assert sweeps.gaps(database, types.utcnow() - HOUR) == []
    aged(database, NODES, created_at=1)
    assert len(sweeps.gaps(database, types.utcnow())) == len(owed)


def test_a_wait_that_something_will_end_is_no_gap(database, make):
    waiting(database, make, None)
    assert sweeps.gaps(database, types.utcnow() + HOUR) == []
    node, _ = waiting(database, make, None, state="running", owner=None)
    assert [o.node_id for o in sweeps.gaps(database, types.utcnow() + HOUR)] == [node.id]


def test_a_node_that_was_just_touched_is_no_gap(database, make):
    node = make(database, provision_state=states.DEPLOYING)
    aged(database, NODES, created_at=1)
    quiet = types.utcnow() - HOUR / 2
    assert len(sweeps.gaps(database, quiet)) == 1
    lock, _ = locks.grant(database, node.id, "c1", "test")
    locks.release(database, lock)
    assert sweeps.gaps(database, quiet) == []


# --- pruning ------------------------------------------------------------------------


def many_runs(database, node, count, **values):
    """Insert ended runs, oldest first; returns their row ids."""
    row = {"node_id": node.id, "flow": "deploy", "plan": [], "started_at": NOW}
    ended = {"finished_at": NOW, "outcome": "success"}
    with database.engine.begin() as connection:
        for number in range(count):
            connection.execute(
                sa.insert(RUNS).values(uuid=f"{node.id}-{number}", **{**row, **ended, **values})
            )
    found = runs.of_node(database, node.id)
    return [run.id for run in reversed(found)]


@pytest.mark.parametrize("keep", [1, 3, 4, 5, 100])
def test_the_newest_runs_are_kept(database, make, keep):
    one, two, few = make(database), make(database), make(database)
    ids = many_runs(database, one, 5)
    many_runs(database, two, 4)
    many_runs(database, few, 1)
    attempt = {"position": 1, "attempt": 1, "node_id": one.id, "interface": "deploy", "step": "s"}
    with database.engine.begin() as connection:
        for run_id in ids:
            connection.execute(
                sa.insert(ATTEMPTS).values(
                    run_id=run_id,
                    state="finished",
                    conductor="c",
                    started_at=NOW,
                    reenter=False,
                    **attempt,
                )
            )
    gone = sweeps.prune_runs(database, keep)
    assert gone == max(0, 5 - keep) + max(0, 4 - keep)
    left = [run.id for run in runs.of_node(database, one.id)]
    assert left == ids[::-1][:keep]
    assert len(runs.of_node(database, two.id)) == min(4, keep)
    assert len(runs.of_node(database, few.id)) == 1
    count = sa.select(sa.func.count()).select_from(ATTEMPTS)
    assert database.read(lambda c: c.execute(count).scalar()) == len(left)
    assert sweeps.prune_runs(database, keep) == 0


def test_a_run_that_goes_on_is_never_pruned(database, make):
    node = make(database)
    (going,) = many_runs(database, node, 1, finished_at=None, outcome=None)
    with database.engine.begin() as connection:
        connection.execute(sa.update(RUNS).values(uuid="going"))
    many_runs(database, node, 4)
    assert sweeps.prune_runs(database, 2) == 2
    assert {run.id for run in runs.of_node(database, node.id)} >= {going}


def test_zero_keeps_all(database, make):
    """F40: 0 switches it off."""
    many_runs(database, make(database), 3)
    with counting(database) as count:
        assert sweeps.prune_runs(database, 0) == sweeps.prune_history(database, 0) == 0
    assert count.statements == 0


@pytest.mark.parametrize("keep", [1, 2, 3])
def test_the_newest_history_is_kept(database, make, keep):
    one, two = make(database), make(database)
    with database.engine.begin() as connection:
        for number in range(3):
            for node in (one, two):
                row = nodes.history_row(node.id, f"event {number}", event_type="test")
                connection.execute(sa.insert(HISTORY).values(row))
    assert sweeps.prune_history(database, keep) == 2 * (3 - keep)
    for node in (one, two):
        found = [entry.event for entry in nodes.history_of(database, node.id)]
        assert found == ["event 2", "event 1", "event 0"][:keep]
    assert [entry.event for entry in nodes.history_of(database, one.id, limit=1)] == ["event 2"]


# --- runs, conductors, ports ------------------------------------------------------------


def test_runs_are_paged_newest_first(database, make):
    node, other = make(database), make(database)
    ids = many_runs(database, node, 5)[::-1]
    many_runs(database, other, 1)
    first = runs.of_node(database, node.id, limit=2)
    rest = runs.of_node(database, node.id, marker=first[-1].uuid)
    assert [run.id for run in first + rest] == ids
    with pytest.raises(exceptions.RunNotFound):
        runs.of_node(database, other.id, marker=first[-1].uuid)
    with pytest.raises(exceptions.RunNotFound):
        runs.get(database, 4711)
    with counting(database) as count:
        assert runs.attempts(database, ids) == {run_id: [] for run_id in ids}
    assert count.statements == 1
    assert runs.attempts(database, []) == {} and runs.last_attempt(database, ids[0]) is None


def test_attempts_are_in_the_order_they_began(database, make):
    node = make(database)
    lock, node = locks.grant(database, node.id, "c", "test")
    run_id, _ = begun(database, node, lock)
    for position, attempt in ((2, 1), (1, 10), (1, 9), (10, 1)):
        more = StepAttempt(
            run_id=run_id,
            position=position,
            attempt=attempt,
            node_id=node.id,
            interface="deploy",
            step="s",
            state="running",
            conductor="c",
            started_at=NOW,
        )
        locks.write(database, lock, {}, [transitions.begin(more)])
    found = runs.attempts(database, [run_id])[run_id]
    assert [(a.position, a.attempt) for a in found] == [(1, 1), (1, 9), (1, 10), (2, 1), (10, 1)]
    assert runs.last_attempt(database, run_id).position == 10
    assert runs.interruptions(database, run_id, 1) == 0
    with pytest.raises(Exception, match="(?i)duplicate|unique"):
        locks.write(database, lock, {"fault": "x"}, [transitions.begin(found[0])])
    assert nodes.get(database, node.id).fault is None


OFFERS = [("fake-hardware", "deploy", "fake", True), ("fake-hardware", "deploy", "other", False)]


def test_a_conductor_appears_with_all_that_it_offers(database):
    """F91: in one transaction."""
    with counting(database) as count:
        row_id = conductors.register(database, "c1", "boot1", OFFERS, "g")
    assert count.commits == 1
    found = conductors.get(database, "c1")
    assert (found.id, found.boot_id, found.online, found.conductor_group) == (
        row_id,
        "boot1",
        True,
        "g",
    )
    assert conductors.offers(database, 60) == {"c1": [conductors.Offer(*o) for o in OFFERS]}
    assert conductors.register(database, "c1", "boot2", OFFERS[:1]) == row_id
    assert conductors.offers(database, 60) == {"c1": [conductors.Offer(*OFFERS[0])]}
    assert conductors.register(database, "c0", "boot", []) != row_id
    assert [c.hostname for c in conductors.listing(database)] == ["c0", "c1"]
    with pytest.raises(exceptions.ConductorNotFound, match="c7"):
        conductors.get(database, "c7")


def test_alive_is_online_and_recent(database):
    """F50: both; and what is long gone is forgotten."""
    for name in ("c1", "c2", "c3"):
        conductors.register(database, name, f"boot-{name}", OFFERS)
    conductors.leave(database, "c2", "boot-c2")
    table_ = table(type(conductors.get(database, "c3")))
    with database.engine.begin() as connection:
        connection.execute(
            sa.update(table_).where(table_.c.hostname == "c3").values(updated_at=NOW - HOUR)
        )
    assert conductors.alive_names(database, 60) == {"c1"} == set(conductors.offers(database, 60))
    assert conductors.touch(database, "c3", "boot-c3")
    assert conductors.alive_names(database, 60) == {"c1", "c3"}
    assert not conductors.touch(database, "c3", "another process")
    conductors.leave(database, "c3", "another process")
    assert conductors.alive_names(database, 60) == {"c1", "c3"}
    aged(database, table_, updated_at=1)
    assert conductors.prune(database, types.utcnow() - 2 * HOUR) == 0
    assert conductors.prune(database, types.utcnow() - HOUR / 2) == 3
    assert conductors.listing(database) == []


def test_conductors_of_one_name_that_start_at_once(database):
    from tests.db.test_locks import race

    def register(boot):
        return conductors.register(database, "c1", boot, OFFERS)

    found = race(*(lambda i=i: register(f"boot{i}") for i in range(4)))
    assert len(set(found)) == 1, found
    assert len(conductors.offers(database, 60)["c1"]) == len(OFFERS)


def test_ports(database, make):
    node, other = make(database, name="n"), make(database)
    values = {"node_id": node.id, "node_uuid": node.uuid}
    port = ports.insert(database, {**values, "address": "AA:BB:CC:00:00:01", "name": "eth0"})
    assert port.address == "aa:bb:cc:00:00:01"
    assert ports.listing(database, address="Aa:bB:cc:00:00:01")[0].uuid == port.uuid
    assert nodes.of_addresses(database, ["AA:BB:CC:00:00:01", "x"])[0].id == node.id
    assert nodes.of_addresses(database, []) == []
    with counting(database) as count:
        assert ports.uuids_of(database, [node.id, other.id]) == {
            node.id: [port.uuid],
            other.id: [],
        }
    assert count.statements == 1
    changed = ports.update(database, port.uuid, {"extra": {"a": [1]}})
    assert changed.extra == {"a": [1]} and changed.updated_at is not None
    assert ports.listing(database, node_id=other.id) == []
    ports.delete(database, port.uuid)
    with pytest.raises(exceptions.PortNotFound):
        ports.delete(database, port.uuid)
    with pytest.raises(exceptions.PortNotFound):
        ports.update(database, port.uuid, {"extra": {}})


@pytest.mark.parametrize(
    ("clash", "error", "words"),
    [
        ({"uuid": UUID}, exceptions.NodeAlreadyExists, f"UUID {UUID}"),
        ({"name": "one"}, exceptions.DuplicateName, "name one"),
        ({"instance_uuid": "i"}, exceptions.InstanceAssociated, "Instance i"),
    ],
)
def test_two_nodes_that_clash(database, make, clash, error, words):
    """In words that the field's clients know; whether inserted or changed."""
    make(database, uuid=UUID, name="one", instance_uuid="i")
    with pytest.raises(error, match=words) as told:
        make(database, **clash)
    assert told.value.code == 409
    if "uuid" not in clash:
        lock, _ = locks.grant(database, make(database).id, "c", "test")
        with pytest.raises(error, match=words):
            locks.write(database, lock, clash)
        locks.write(database, lock, {}, unlock=True)


@pytest.mark.parametrize(
    "name",
    [
        "nodes.uuid",
        "uq_nodes_uuid",
        "nodes_instance_uuid",
        "ports.address",
        "nodes uuid name",
        "for key 'nodes",
        'x" constraint',
    ],
)
def test_what_clashes_is_not_guessed_from_the_value(database, make, name):
    """MariaDB quotes the value before it names the constraint."""
    make(database, name=name)
    with pytest.raises(exceptions.DuplicateName) as told:
        make(database, name=name)
    assert name in str(told.value)


def test_two_ports_that_clash(database, make):
    node = make(database)
    values = {"node_id": node.id, "node_uuid": node.uuid}
    first = ports.insert(database, {**values, "address": "a1", "name": "address"})
    second = ports.insert(database, {**values, "address": "a2"})
    for clash, error in (
        ({"address": "A1"}, exceptions.MACAlreadyExists),
        ({"address": "a3", "name": "address"}, exceptions.DuplicatePortName),
        ({"address": "a3", "uuid": first.uuid}, exceptions.PortAlreadyExists),
    ):
        with pytest.raises(error):
            ports.insert(database, {**values, **clash})
    with pytest.raises(exceptions.MACAlreadyExists, match="a1"):
        ports.update(database, second.uuid, {"address": "a1"})
