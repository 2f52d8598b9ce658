"""A node's lock, and the fence."""

from __future__ import annotations

import functools
import threading

import pytest
import sqlalchemy as sa

from deploysteps import exceptions
from deploysteps.db import beats, locks, nodes, ports, runs, transitions, types
from deploysteps.db.locks import Also, Lock
from deploysteps.db.models import Node, Port, StepRun, table
from tests.db.test_engine import commits
from tests.db.test_sizes import begun
from tests.support_sql import counting

NODES, RUNS, PORTS = table(Node), table(StepRun), table(Port)


@pytest.fixture
def node(database, make):
    return make(database, name="n")


def take(database, node, host="c1", **more):
    return locks.grant(database, node.id, host, "testing", **more)[0]


def fresh(database, node):
    return nodes.get(database, node.id)


def history(node, text="said"):
    return transitions.history(nodes.history_row(node.id, text, event_type="test"))


def said(database, node):
    return [entry.event for entry in nodes.history_of(database, node.id)]


# --- taking ---------------------------------------------------------------------------


def test_a_grant_is_one_update(database, node):
    """F62; and it is seen who holds the node, since when and why (F65)."""
    with counting(database) as count:
        lock = take(database, node)
    assert len(count.of("UPDATE")) == 1 and count.statements == 2 and count.commits == 1
    found = fresh(database, node)
    assert (found.reservation, found.lock_purpose, found.lock_token) == (
        "c1",
        "testing",
        lock.token,
    )
    assert abs((found.locked_at - types.utcnow()).total_seconds()) < 30
    assert len(lock.token) == 32 and lock.node_uuid == node.uuid


def test_a_locked_node_names_its_holder(database, node):
    lock = take(database, node)
    with counting(database) as count, pytest.raises(exceptions.NodeLocked) as told:
        take(database, node, "c2")
    assert node.uuid in str(told.value) and "host c1" in str(told.value)
    assert told.value.code == 409 and count.commits == 0
    assert fresh(database, node).lock_token == lock.token


def test_a_node_that_is_gone(database, node):
    lock = take(database, node)
    locks.delete_node(database, lock)
    assert lock.token is None
    with pytest.raises(exceptions.NodeNotFound):
        take(database, node)
    assert not locks.release(database, lock)


def test_a_grant_writes_more_in_the_same_write(database, node):
    values = {"provision_state": "deploying", "agent_url_column": "http://x"}
    lock, found = locks.grant(
        database, node.id, "c1", "p" * 300, values=values, also=[history(node)]
    )
    assert found.provision_state == "deploying" and found.agent_url == "http://x"
    assert found.lock_token == lock.token and len(found.lock_purpose) == 255
    assert found.changes() == {} and said(database, node) == ["said"]


def test_a_grant_whose_further_statement_is_stale_is_none(database, node):
    stale = Also(sa.update(RUNS).where(RUNS.c.id == 4711), {"error": "x"}, must=True)
    active = {"another"}
    with pytest.raises(locks.Stale):
        take(database, node, also=[history(node), stale], active=active)
    assert fresh(database, node).reservation is None and said(database, node) == []
    assert active == {"another"}


def test_the_process_knows_of_its_lock_before_the_database_does(database, node):
    """F46: else the recovery loop might take it for one of an earlier life."""

    class Active(set):
        def add(self, token):
            assert fresh(database, node).lock_token != token
            super().add(token)

    active = Active()
    lock = take(database, node, active=active)
    assert active == {lock.token}
    with pytest.raises(exceptions.NodeLocked):
        take(database, node, active=active)
    assert active == {lock.token}


def race(*calls):
    """Run calls at once; return what each returned or raised."""
    meet, found = threading.Barrier(len(calls)), [None] * len(calls)

    def run(place, call):
        meet.wait()
        try:
            found[place] = call()
        except Exception as exc:
            found[place] = exc

    threads = [threading.Thread(target=run, args=pair) for pair in enumerate(calls)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


@pytest.mark.parametrize("dead", [False, True], ids=["free", "held"])
def test_of_many_who_try_one_wins(database, node, dead):
    """F53: a free node, and one of a dead conductor that all saw with the same token."""
    for round_ in range(8):
        held = take(database, node, f"dead-{round_}").token if dead else None
        found = race(
            *(lambda i=i, held=held: take(database, node, f"c{i}", held=held) for i in range(4))
        )
        won = [lock for lock in found if isinstance(lock, Lock)]
        lost = [exc for exc in found if isinstance(exc, exceptions.NodeLocked)]
        assert len(won) == 1 and len(lost) == 3, found
        now = fresh(database, node)
        assert now.lock_token == won[0].token
        assert all(now.reservation in str(exc) for exc in lost)
        locks.release(database, won[0])


def test_a_lock_that_was_given_back_is_not_taken_away(database, node):
    """F53: the snapshot of who is dead was stale."""
    old = take(database, node)
    token = old.token
    locks.release(database, old)
    with pytest.raises(exceptions.NodeLocked, match="another conductor"):
        take(database, node, "c2", held=token)
    new = take(database, node, "c3")
    with pytest.raises(exceptions.NodeLocked, match="c3"):
        take(database, node, "c2", held=token)
    assert fresh(database, node).lock_token == new.token


# --- writing ------------------------------------------------------------------------


def test_a_write_is_the_fence_first_and_one_commit(database, node):
    lock = take(database, node)
    with counting(database) as count:
        locks.write(database, lock, {"last_error": "x"}, [history(node)])
    assert count.commits == 1 and count.statements == 2
    assert count.texts[0].startswith("UPDATE nodes") and "lock_token" in count.texts[0]
    assert count.texts[1].startswith("INSERT INTO node_history")
    found = fresh(database, node)
    assert found.last_error == "x" and found.updated_at is not None
    assert found.generation == lock.generation == 1


def test_unlock_and_state_are_one_write(database, node):
    """Promise 8, F71: whoever sees the state can take the node at once."""
    lock = take(database, node)
    with counting(database) as count:
        locks.write(database, lock, {"provision_state": "active"}, unlock=True)
    assert count.commits == 1 and count.statements == 1
    found = fresh(database, node)
    assert found.provision_state == "active" and lock.token is None
    assert not any((found.reservation, found.lock_token, found.lock_purpose, found.locked_at))


def test_what_runs_last_is_part_of_the_write(database, node):
    lock = take(database, node)
    assert locks.write(database, lock, {}, then=lambda c: 7) == 7

    def then(_connection):
        raise KeyError("x")

    with pytest.raises(KeyError):
        locks.write(database, lock, {"last_error": "x"}, [history(node)], then=then)
    assert fresh(database, node).last_error is None and said(database, node) == []
    assert lock.generation == 1
    locks.write(database, lock, {"last_error": "y"})
    assert fresh(database, node).generation == lock.generation == 2


def test_a_lost_lock_writes_nothing(database, node):
    """Promise 8: a conductor that was thought dead and wakes up."""
    lock = take(database, node)
    taken = take(database, node, "c2", held=lock.token)
    run_id, _ = begun(database, node, taken)
    for call in (
        lambda: locks.write(database, lock, {"last_error": "late"}, [history(node)]),
        lambda: locks.write(database, lock, {"last_error": "late"}, unlock=True),
        lambda: locks.write(database, lock, {}, unless_abort_of=run_id),
        lambda: locks.delete_node(database, lock),
    ):
        with pytest.raises(exceptions.LockLost, match=node.uuid):
            call()
    assert not locks.release(database, lock)
    found = fresh(database, node)
    assert found.last_error is None and said(database, node) == []
    assert found.lock_token == taken.token and found.reservation == "c2"


def test_a_lock_that_was_given_back_writes_nothing(database, node):
    lock = take(database, node)
    copy = Lock(lock.node_id, lock.node_uuid, lock.token, lock.generation)
    assert locks.release(database, lock) and lock.token is None
    for late in (lock, copy):
        with pytest.raises(exceptions.LockLost):
            locks.write(database, late, {"last_error": "late"})
        assert locks.release(database, late) is False
    assert fresh(database, node).last_error is None


def test_a_node_deleted_under_a_writer(database, node):
    lock = take(database, node)
    with database.engine.begin() as connection:
        connection.execute(sa.delete(NODES))
    with pytest.raises(exceptions.LockLost):
        locks.write(database, lock, {"last_error": "x"})
    with pytest.raises(exceptions.LockLost):
        locks.delete_node(database, lock)


def test_release_is_idempotent(database, node):
    lock = take(database, node)
    with counting(database) as count:
        assert locks.release(database, lock) is True
        assert count.statements == 1
        assert locks.release(database, lock) is False
        assert count.statements == 1


def test_two_threads_give_one_lock_back(database, node):
    """One of them finds it gone; that is no abort, nor anything else."""
    for _ in range(15):
        lock = take(database, node)
        give = functools.partial(locks.release, database, lock)
        assert sorted(race(give, give)) in (
            [False, True],
            [True, True],
        )
        assert fresh(database, node).reservation is None


def test_the_wrong_fence_with_a_token_that_goes_meanwhile(sqlite, make, monkeypatch):
    """A race as it was met: the write matched no row, and then another thread freed the lock."""
    node = make(sqlite)
    lock = take(sqlite, node)
    other = Lock(lock.node_id, lock.node_uuid, lock.token, lock.generation)
    locks.release(sqlite, other)
    real = locks._state

    def state(connection, node_id):
        lock.token = None
        return real(connection, node_id)

    monkeypatch.setattr(locks, "_state", state)
    with pytest.raises(exceptions.LockLost):
        locks.write(sqlite, lock, {})


def test_a_stale_further_statement_takes_everything_back(database, node):
    lock = take(database, node)
    _run_id, attempt = begun(database, node, lock)
    done = transitions.finish(attempt, "success", types.utcnow())
    locks.write(database, lock, {}, [done])
    with pytest.raises(locks.Stale):
        locks.write(database, lock, {"last_error": "twice"}, [history(node), done], unlock=True)
    assert fresh(database, node).last_error is None and said(database, node) == []
    assert lock.token == fresh(database, node).lock_token
    locks.write(database, lock, {"last_error": "once"}, unlock=True)


def test_an_abort_that_was_asked_for(database, node):
    lock = take(database, node)
    run_id, _ = begun(database, node, lock)
    locks.write(database, lock, {"fault": "a"}, unless_abort_of=run_id)
    assert transitions.ask_abort(database, run_id, "me") and not transitions.ask_abort(
        database, run_id, "you"
    )
    with pytest.raises(locks.AbortAsked):
        locks.write(database, lock, {"fault": "b"}, [history(node)], unless_abort_of=run_id)
    assert fresh(database, node).fault == "a" and said(database, node) == []
    for also in (
        transitions.unless_abort(run_id),
        transitions.end_run(run_id, "success", None, types.utcnow(), good=True),
    ):
        with pytest.raises(locks.Stale):
            locks.write(database, lock, {"fault": "c"}, [also])
    ended = transitions.end_run(run_id, "aborted", "asked", types.utcnow(), good=False)
    locks.write(database, lock, {"fault": "d"}, [ended], unlock=True)
    assert fresh(database, node).fault == "d" and runs.get(database, run_id).outcome == "aborted"
    assert runs.get(database, run_id).abort_requested_by == "me"
    assert not transitions.ask_abort(database, run_id, "late")


def test_an_abort_and_an_end_at_once(database, node):
    """F67: one of them is first, and both know which."""
    for _ in range(8):
        lock = take(database, node)
        run_id, _ = begun(database, node, lock)
        good = transitions.end_run(run_id, "success", None, types.utcnow(), good=True)
        asked, ended = race(
            lambda run_id=run_id: transitions.ask_abort(database, run_id, "me"),
            lambda lock=lock, good=good, run_id=run_id: locks.write(
                database, lock, {}, [good], unless_abort_of=run_id, unlock=True
            ),
        )
        run = runs.get(database, run_id)
        if asked:
            assert isinstance(ended, locks.AbortAsked | locks.Stale) and run.outcome is None
            locks.release(database, lock)
        else:
            assert ended is None and run.outcome == "success" and run.abort_requested_at is None


def test_a_deleted_node_takes_all_with_it(database, node):
    lock = take(database, node)
    begun(database, node, lock)
    ports.insert(database, {"node_id": node.id, "node_uuid": node.uuid, "address": "a"})
    locks.write(database, lock, {}, [history(node)])
    locks.delete_node(database, lock)
    for one in ("nodes", "ports", "step_runs", "step_attempts", "node_history"):
        count = sa.text(f"SELECT COUNT(*) FROM {one}")
        assert database.read(lambda c, count=count: c.execute(count).scalar()) == 0, one


# --- commits of unknown outcome -----------------------------------------------------------


@pytest.mark.parametrize("how", ["after", "before"])
def test_a_broken_commit(database, node, how):
    """Promise 4: looked up by token and generation; each thing is done once."""
    active = set()
    with commits(database, how):
        lock = take(database, node, active=active)
    assert fresh(database, node).lock_token == lock.token and active == {lock.token}
    with commits(database, how):
        locks.write(database, lock, {"last_error": "x"}, [history(node)])
    assert said(database, node) == ["said"] and fresh(database, node).generation == 1
    with commits(database, how):
        locks.write(database, lock, {"last_error": "y"}, [history(node)], unlock=True)
    assert len(said(database, node)) == 2 and fresh(database, node).reservation is None
    lock = take(database, node)
    with commits(database, how):
        assert locks.release(database, lock)
    lock = take(database, node)
    with commits(database, how):
        locks.delete_node(database, lock)


def test_a_commit_that_broke_and_a_lock_that_was_lost_meanwhile(database, node, monkeypatch):
    lock = take(database, node)
    real = locks._settled

    def settled(connection, node_id):
        if "stolen" not in seen:
            seen["stolen"] = take(database, node, "c2", held=lock.token)
        return real(connection, node_id)

    seen = {}
    monkeypatch.setattr(locks, "_settled", settled)
    with commits(database, "before"), pytest.raises(exceptions.LockLost):
        locks.write(database, lock, {"last_error": "x"})
    assert fresh(database, node).lock_token == seen["stolen"].token
    assert fresh(database, node).last_error is None


@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_a_commit_that_comes_true_after_the_connection_broke(database, node):
    """The server had read COMMIT and was slow: a look at once would see nothing.

    Played by another connection that did the same and commits a moment later.
    """
    lock = take(database, node)
    dialect = database.engine.dialect
    real, timers = dialect.do_commit, []

    def do_commit(pooled):
        dialect.do_commit = real
        pooled.dbapi_connection.rollback()
        slow = database.engine.connect()
        begun_ = slow.begin()
        slow.execute(
            sa.update(NODES).where(NODES.c.id == node.id).values(generation=1, last_error="x")
        )
        slow.execute(history(node).statement, history(node).values)

        def end():
            begun_.commit()
            slow.close()

        timers.append(threading.Timer(0.4, end))
        timers[0].start()
        pooled.dbapi_connection.close()
        real(pooled)

    dialect.do_commit = do_commit
    try:
        locks.write(database, lock, {"last_error": "x"}, [history(node)])
    finally:
        del dialect.do_commit
    timers[0].join()
    assert said(database, node) == ["said"] and fresh(database, node).last_error == "x"


# --- without a lock -------------------------------------------------------------------


def test_a_heartbeat_is_not_recorded_under_anothers_lock(database, node):
    seen = beats.see(database, node.uuid.upper())
    assert seen == beats.see(database, "n") and seen.id == node.id
    values = {"agent_url_column": "http://x", "agent_heartbeat_column": types.utcnow()}
    with counting(database) as count:
        beats.record(database, seen, values, [history(node)])
    assert count.statements == 2 and count.commits == 1
    assert fresh(database, node).agent_url == "http://x"
    lock = take(database, node)
    with pytest.raises(exceptions.NodeLocked, match="c1"):
        beats.record(database, seen, {"agent_url_column": "http://y"}, [])
    locks.release(database, lock)
    stale = Also(sa.update(RUNS).where(RUNS.c.id == 4711), {"error": "x"}, must=True)
    with pytest.raises(locks.Stale):
        beats.record(database, seen, {"agent_url_column": "http://y"}, [stale])
    assert fresh(database, node).agent_url == "http://x"
    assert beats.see(database, "n").agent_url == "http://x"
    with pytest.raises(exceptions.NodeNotFound):
        beats.see(database, "nobody")


def test_a_heartbeat_with_yesterdays_token(database, node):
    """F29: the run ended, or the machine booted anew, between the check and the write."""
    beats.give_token(database, node, "old")
    seen = beats.see(database, "n")
    nodes.set_unlocked(database, node.id, {"agent_token_column": "new"})
    with pytest.raises(exceptions.NodeLocked):
        beats.record(database, seen, {"agent_url_column": "http://x"}, [])
    assert fresh(database, node).agent_url is None


def test_of_many_lookups_one_gives_the_token(database, node):
    found = race(*(lambda i=i: beats.give_token(database, node, f"t{i}") for i in range(4)))
    assert found.count(None) == 1
    assert sum(isinstance(exc, exceptions.NodeLocked) for exc in found) == 3
    info = fresh(database, node).driver_internal_info
    assert info == {"agent_secret_token": f"t{found.index(None)}"}


@pytest.mark.parametrize("change", [{"provision_state": "active"}, {"run_id": 7}])
def test_a_token_is_not_given_to_a_node_that_went_on(database, node, change):
    nodes.set_unlocked(database, node.id, change)
    with pytest.raises(exceptions.NodeLocked):
        beats.give_token(database, node, "token")
    assert fresh(database, node).agent_secret_token is None


def test_columns_that_no_lock_protects(database, node):
    take(database, node)
    nodes.set_unlocked(
        database,
        node.id,
        {"maintenance": True, "driver_internal_column": {"a": 1}, "agent_url_column": "http://x"},
    )
    found = fresh(database, node)
    assert found.maintenance is True and found.reservation == "c1"
    assert found.driver_internal_info == {"a": 1, "agent_url": "http://x"}
