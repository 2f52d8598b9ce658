"""One SQLite file, many threads (F56, F57)."""

from __future__ import annotations

import sqlite3
import threading
import time

import pytest
import sqlalchemy as sa

from deploysteps import exceptions
from deploysteps.db import beats, locks, migration, nodes, types
from deploysteps.db.engine import Database
from deploysteps.db.models import Node, table

NODES = table(Node)
PRAGMAS = {"journal_mode": "wal", "synchronous": 2, "foreign_keys": 1, "busy_timeout": 30000}


@pytest.mark.parametrize("reading", [False, True])
def test_every_pooled_connection_is_set_up(sqlite, reading):
    """All at once, so that each is another one; and again after they were given back."""
    for _ in range(2):
        contexts = [sqlite.reading() if reading else sqlite.engine.connect() for _ in range(25)]
        connections = [context.__enter__() for context in contexts]
        try:
            assert len({id(c.connection.dbapi_connection) for c in connections}) == 25
            for connection in connections:
                raw = connection.connection.dbapi_connection
                for name, value in PRAGMAS.items():
                    assert raw.execute(f"PRAGMA {name}").fetchone() == (value,)
        finally:
            for context in contexts:
                context.__exit__(None, None, None)


def test_the_busy_timeout_is_as_set(tmp_path):
    database = Database(f"sqlite:///{tmp_path}/x.sqlite", busy_timeout=1.5)
    with database.reading() as connection:
        raw = connection.connection.dbapi_connection
        assert raw.execute("PRAGMA busy_timeout").fetchone() == (1500,)
    database.dispose()


def test_readers_take_no_lock_and_writers_take_theirs_at_once(sqlite):
    """A transaction that reads and then writes would fail whatever the timeout is."""
    with sqlite.reading() as connection:
        connection.execute(sa.select(NODES.c.id)).all()
        assert not connection.connection.dbapi_connection.in_transaction
    with sqlite.engine.connect() as connection, connection.begin():
        assert connection.connection.dbapi_connection.in_transaction
        impatient = sqlite3.connect(str(sqlite.url.database), timeout=0)
        with pytest.raises(sqlite3.OperationalError, match="locked"):
            impatient.execute("BEGIN IMMEDIATE")
        impatient.close()
        assert sqlite.read(lambda c: c.execute(sa.select(NODES.c.id)).all()) == []


def test_a_slow_reader_blocks_no_writer(sqlite, make):
    """F57: not even one that holds an open cursor."""
    for number in range(50):
        make(sqlite, name=str(number))
    with sqlite.reading() as connection:
        rows = connection.connection.dbapi_connection.execute("SELECT name FROM nodes")
        assert rows.fetchone()
        began = time.monotonic()
        for number in range(20):
            sqlite.write(
                lambda c, n=number: c.execute(
                    sa.update(NODES).where(NODES.c.name == str(n)).values(fault="x")
                )
            )
        assert time.monotonic() - began < 25, "a writer waits for thirty"
        assert len(rows.fetchall()) == 49
        rows.close()


def test_a_reader_never_sees_half_a_write(sqlite, make):
    first, second = make(sqlite), make(sqlite)
    stop, torn = threading.Event(), []

    def read():
        while not stop.is_set():
            seen = sqlite.read(lambda c: c.execute(sa.select(NODES.c.fault)).scalars().all())
            if len(set(seen)) != 1:
                torn.append(seen)

    reader = threading.Thread(target=read)
    reader.start()
    for number in range(50):

        def work(connection, number=number):
            for node in (first, second):
                connection.execute(
                    sa.update(NODES).where(NODES.c.id == node.id).values(fault=str(number))
                )

        sqlite.write(work)
    stop.set()
    reader.join()
    assert torn == []


def test_many_writers_and_readers(tmp_path, make):
    """F56: 8 threads that write, 4 that read, for 5 seconds, no error and nothing lost."""
    database = Database(f"sqlite:///{tmp_path}/busy.sqlite")
    database.wait_ready(print)
    migration.ensure(database)
    made = [make(database, name=str(number)) for number in range(8)]
    until = time.monotonic() + 5
    errors, writes, reads = [], [0] * 8, [0] * 4

    def guarded(work):
        def run(*args):
            try:
                while time.monotonic() < until or not (errors or all(writes + reads)):
                    work(*args)
            except BaseException as exc:
                errors.append(exc)

        return run

    @guarded
    def write(place):
        node = made[place]
        lock, _ = locks.grant(database, node.id, "c", "busy")
        locks.write(database, lock, {"extra": {"count": writes[place] + 1}})
        writes[place] += 1
        locks.release(database, lock)
        values = {"agent_heartbeat_column": types.utcnow()}
        beats.record(database, beats.see(database, node.uuid), values, [])

    @guarded
    def read(place):
        assert len(nodes.listing(database)) == 8
        reads[place] += 1

    threads = [
        *(threading.Thread(target=write, args=(n,)) for n in range(8)),
        *(threading.Thread(target=read, args=(n,)) for n in range(4)),
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    found = {n.name: n.extra["count"] for n in nodes.listing(database)}
    assert found == {str(number): count for number, count in enumerate(writes)}
    assert min(writes) > 0 and min(reads) > 0
    database.dispose()


def test_two_processes_objects_on_one_file(tmp_path, make):
    """Each with a pool of its own, as a command beside the service has it."""
    url = f"sqlite:///{tmp_path}/two.sqlite"
    one, two = Database(url), Database(url)
    one.wait_ready(print)
    migration.ensure(one)
    two.wait_ready(print)
    migration.ensure(two)
    node = make(one)
    errors = []

    def count(database):
        try:
            for _ in range(40):
                query = sa.update(NODES).where(NODES.c.id == node.id)
                database.write(
                    lambda c, q=query: c.execute(q.values(generation=NODES.c.generation + 1))
                )
        except Exception as exc:
            errors.append(exc)

    threads = [threading.Thread(target=count, args=(d,)) for d in (one, two, one, two)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == [] and nodes.get(two, node.id).generation == 160
    one.dispose(), two.dispose()


def test_a_full_disk_is_told_as_a_database_that_takes_nothing(sqlite, make):
    """F52: what can be read is read, nothing is half written, and room heals it."""
    make(sqlite, name="a")
    with sqlite.engine.connect() as connection:
        most = [connection.exec_driver_sql("PRAGMA page_count").scalar()]
    sqlite.dispose()
    sa.event.listen(
        sqlite.engine, "connect", lambda raw, _: raw.execute(f"PRAGMA max_page_count = {most[0]}")
    )
    large = {"x": "y" * 100_000}
    with pytest.raises(exceptions.DatabaseFull, match="disk is full"):
        make(sqlite, name="b", extra=large)
    assert sqlite.is_full and [node.name for node in nodes.listing(sqlite)] == ["a"]
    most[0] = 10**6
    sqlite.dispose()
    make(sqlite, name="b", extra=large)
    assert not sqlite.is_full and [node.name for node in nodes.listing(sqlite)] == ["a", "b"]
