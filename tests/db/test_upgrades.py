"""Online data migrations, and deployments begun the old way."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest
import sqlalchemy as sa

from deploysteps.db import nodes, ports, runs, types, upgrades
from deploysteps.db.models import StepAttempt, StepRun, table
from tests.support_sql import counting

RUNS, ATTEMPTS = table(StepRun), table(StepAttempt)


def old_runs(database, node, count, *, tries=3, first=0, mechanism=None, finished=True):
    """Write runs with their attempts as an older program does."""
    now = types.utcnow()
    with database.engine.begin() as connection:
        for number in range(first, first + count):
            run = connection.execute(
                sa.insert(RUNS).values(
                    uuid=f"{node.id:018}{number:018}",
                    node_id=node.id,
                    flow="deploy",
                    plan=[],
                    started_at=now,
                    finished_at=now if finished else None,
                    mechanism=mechanism,
                )
            ).inserted_primary_key[0]
            for position in range(tries):
                connection.execute(
                    sa.insert(ATTEMPTS).values(
                        run_id=run,
                        position=position,
                        attempt=1,
                        node_id=node.id,
                        interface="deploy",
                        step="deploy",
                        state="finished",
                        conductor="c",
                        started_at=now,
                        reboot=None,
                    )
                )


def counts(database, column):
    query = sa.select(column, sa.func.count()).group_by(column)
    return {row[0]: row[1] for row in database.read(lambda c: c.execute(query).all())}


def test_old_rows_of_every_table_are_brought_up_to_date(database, make):
    """F82: finished or not; and what is left is counted in each table."""
    node = make(database)
    old_runs(database, node, 7)
    old_runs(database, node, 2, first=7, finished=False)
    assert upgrades.leftovers(database) == {"step_runs": 9, "step_attempts": 27}
    told = []
    results = upgrades.migrate(database, batch=4, progress=lambda r: told.append((r.name, r.done)))
    assert [(r.table, r.found, r.done, r.left, r.error) for r in results if r.found] == [
        ("step_runs", 9, 9, 0, None),
        ("step_attempts", 27, 27, 0, None),
    ]
    assert [done for name, done in told if name == "mechanism of runs"] == [4, 8, 9]
    assert len(told) == 3 + 7
    assert upgrades.leftovers(database) == {}
    assert counts(database, RUNS.c.mechanism) == {"steps": 9}
    assert counts(database, ATTEMPTS.c.reboot) == {False: 27}
    again = upgrades.migrate(database)
    assert [(r.found, r.done, r.left) for r in again] == [(0, 0, 0)] * len(again)


def test_every_column_that_stands_for_something_when_it_is_null_has_a_migration(database, make):
    """F82: what is null in a row of an older program, and not in one of this, is filled."""
    node = make(database)
    old_runs(database, node, 1)
    upgrades.migrate(database)
    defaults = {
        (model.__tablename__, column.name)
        for model in (StepRun, StepAttempt)
        for column in table(model).c
        if column.nullable and column.default is not None
    }
    assert defaults <= {(one.table.name, one.column) for one in upgrades.MIGRATIONS}


def test_a_value_that_is_there_is_never_replaced(database, make):
    """F81: compare and set, in one statement."""
    node = make(database)
    old_runs(database, node, 3, mechanism="deploy")
    old_runs(database, node, 3, first=3)
    fill = upgrades.MIGRATIONS[0]
    batches = fill.batches(database, 2)
    write = database.write

    def newer_first(work, **more):
        # A newer program writes between the reading and the writing.
        database.write = write
        with database.engine.begin() as connection:
            connection.execute(
                sa.update(RUNS)
                .where(RUNS.c.mechanism.is_(None))
                .where(RUNS.c.uuid.like("%3"))
                .values(mechanism="deploy")
            )
        return write(work, **more)

    database.write = newer_first
    assert [tuple(batch) for batch in batches] == [(2, 1), (1, 1)]
    assert counts(database, RUNS.c.mechanism) == {"deploy": 4, "steps": 2}


def test_at_most_so_many_and_the_rest_later(database, make):
    """Resumable: it goes on where it was broken off."""
    node = make(database)
    old_runs(database, node, 5, tries=2)
    done = []
    for _ in range(20):
        results = upgrades.migrate(database, max_count=4, batch=3)
        done.append(sum(r.done for r in results))
        if not any(r.left for r in results):
            break
    assert done == [4, 4, 4, 3]


def test_a_migration_that_fails_is_told_and_the_others_go_on(database, make, monkeypatch):
    node = make(database)
    old_runs(database, node, 2, tries=1)

    class Broken(upgrades.Fill):
        def batches(self, *args, **more):
            raise RuntimeError("no such luck")

    broken = Broken("broken", StepRun, "mechanism", "steps")
    monkeypatch.setattr(upgrades, "MIGRATIONS", (broken, *upgrades.MIGRATIONS[1:]))
    first, second, *_ = upgrades.migrate(database)
    assert (first.done, first.left, first.error) == (0, 2, "no such luck")
    assert (second.done, second.left, second.error) == (2, 0, None)


CAPITALS = [f"ABCDEF00-0000-4000-8000-{number:012}" for number in range(5)]


def test_uuids_that_were_stored_in_capitals_are_made_small(database, make):
    """And are found by either form, before and afterwards."""
    found = [make(database) for _ in CAPITALS]
    with database.engine.begin() as connection:
        for node, uuid in zip(found, CAPITALS, strict=True):
            row = {
                "n": node.id,
                "u": uuid,
                "p": f"p{node.id}",
                "c": uuid.upper(),
                "at": "2026-01-01",
            }
            for order in (
                "UPDATE nodes SET instance_uuid = :u, chassis_uuid = :u WHERE id = :n",
                "INSERT INTO ports (uuid, node_id, node_uuid, created_at, address, extra, "
                "internal_info, local_link_connection, pxe_enabled, is_smartnic, portgroup_uuid, "
                "available_for_dynamic_portgroup) "
                "VALUES (:p, :n, :p, :at, :p, '{}', '{}', '{}', true, false, :u, true)",
            ):
                connection.execute(sa.text(order), row)
    for form in (str.upper, str.lower):
        for name in ("instance_uuid", "chassis_uuid"):
            (one,) = nodes.listing(database, filters={name: form(CAPITALS[0])})
            assert getattr(one, name) == CAPITALS[0]
    assert upgrades.leftovers(database) == {"nodes": 10, "ports": 5}
    results = upgrades.migrate(database, batch=2)
    assert [(r.found, r.done, r.left, r.error) for r in results[-3:]] == [(5, 5, 0, None)] * 3
    small = {uuid.lower() for uuid in CAPITALS}
    assert {node.instance_uuid for node in nodes.listing(database)} == small
    assert {node.chassis_uuid for node in nodes.listing(database)} == small
    assert {port.portgroup_uuid for port in ports.listing(database)} == small
    assert len(nodes.listing(database, filters={"instance_uuid": CAPITALS[0]})) == 1
    assert len(ports.listing(database, portgroup=CAPITALS[0])) == 1


def test_an_instance_that_two_nodes_have_in_two_forms_is_told_and_the_rest_is_done(database, make):
    found = [make(database) for _ in range(6)]
    uuids = [*CAPITALS, CAPITALS[1].lower()]
    with database.engine.begin() as connection:
        for node, uuid in zip(found, uuids, strict=True):
            order = sa.text("UPDATE nodes SET instance_uuid = :u WHERE id = :n")
            connection.execute(order, {"u": uuid, "n": node.id})
    (result,) = [r for r in upgrades.migrate(database) if r.name == "instance of nodes"]
    assert (result.found, result.done, result.left) == (4, 4, 1)
    assert f"in capitals and in small letters; change one of each two (id {found[1].id})" in str(
        result.error
    )


def test_the_table_is_gone_through_once(database, make):
    """Not from its beginning for each batch: that would take hours on millions of rows."""
    node = make(database)
    old_runs(database, node, 6, tries=2)
    with counting(database) as count:
        list(upgrades.MIGRATIONS[1].batches(database, 4))
    selects = count.of("SELECT")
    assert len(selects) == 4 and len(count.of("UPDATE")) == 3
    assert "run_id >=" not in selects[0] and all("run_id >=" in text for text in selects[1:])


MIGRATOR = """
import sys
from deploysteps.db import upgrades
from deploysteps.db.engine import Database
database = Database(sys.argv[1])
print("ready", flush=True)
sys.stdin.readline()
results = upgrades.migrate(database, batch=3)
print(sum(r.done for r in results), [r.error for r in results if r.error], flush=True)
database.dispose()
"""


def test_two_migrators_and_a_live_writer_on_the_same_rows(database, make):
    """F81: each row is changed once, nothing newer is lowered, nobody fails."""
    node = make(database)
    old_runs(database, node, 40, tries=2)
    url = database.url.render_as_string(hide_password=False)
    started = [
        subprocess.Popen(
            [sys.executable, "-c", MIGRATOR, url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        for _ in range(2)
    ]
    newer: list[int] = []
    stop = threading.Event()

    def live() -> None:
        """Give the newest runs another value, as a conductor of this release does."""
        query = sa.select(RUNS.c.id).order_by(RUNS.c.id.desc())
        for run in database.read(lambda c: list(c.execute(query).scalars())):
            if stop.is_set():
                return
            change = sa.update(RUNS).where(RUNS.c.id == run).values(mechanism="deploy")
            database.write(lambda c, u=change: c.execute(u).rowcount, happened=lambda c: True)
            newer.append(run)

    writer = threading.Thread(target=live)
    try:
        for process in started:
            assert process.stdout.readline() == "ready\n"
        writer.start()
        for process in started:
            process.stdin.write("go\n")
            process.stdin.flush()
        told = [process.stdout.readline().split(" ", 1) for process in started]
        writer.join(60)
    finally:
        stop.set()
        for process in started:
            process.stdin.close()
            process.wait(10)
            process.stdout.close()
    assert [errors.strip() for _, errors in told] == ["[]", "[]"]
    assert upgrades.leftovers(database) == {} and len(newer) == 40
    assert counts(database, RUNS.c.mechanism) == {"deploy": 40}
    assert counts(database, ATTEMPTS.c.reboot) == {False: 80}
    assert 80 <= sum(int(done) for done, _ in told) <= 120


def test_deployments_begun_the_old_way_that_go_on(database, make):
    many = [make(database) for _ in range(5)]
    for node in many[:4]:
        old_runs(database, node, 1, tries=0, mechanism=runs.OLD_WAY, finished=False)
    old_runs(database, many[0], 1, tries=0, first=1, mechanism="deploy", finished=False)
    old_runs(database, many[4], 1, tries=0, mechanism="deploy")
    old_runs(database, many[4], 1, tries=0, first=1, mechanism="steps", finished=False)
    assert upgrades.begun_the_old_way(database, 3) == ([node.uuid for node in many[:3]], 4)


@pytest.mark.parametrize("size", [1, 2, 100])
def test_any_size_of_batch(database, make, size):
    old_runs(database, make(database), 3, tries=1)
    assert sum(batch.done for batch in upgrades.MIGRATIONS[0].batches(database, size)) == 3
