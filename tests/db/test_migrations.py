"""The schema: made, upgraded, taken back, recognised."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc

from deploysteps import exceptions
from deploysteps.db import migration, nodes, ports, runs, types, webhooks
from deploysteps.db.engine import Database
from deploysteps.db.event_models import WebhookDelivery, WebhookEndpoint
from deploysteps.db.models import Base, Conductor, SchemaRevision, table

REVISIONS = table(SchemaRevision)
SCRIPTS = Path(migration.__file__).parent / "migrations"

NEXT = '''
"""Adds."""
import sqlalchemy as sa
from alembic import op

revision, down_revision = "{revision}", "{head}"
position, compatible_from = {position}, {compatible_from}


def upgrade():
    {upgrade}


def downgrade():
    with op.batch_alter_table("nodes") as batch:
        batch.drop_column("colour")
'''
ADD = 'op.add_column("nodes", sa.Column("colour", sa.String(9)))'
REMAKE = """with op.batch_alter_table("nodes", recreate="auto") as batch:
        batch.add_column(sa.Column("colour", sa.String(9)))
        batch.alter_column("fault", type_=sa.String(300), existing_type=sa.String(255))"""
FAIL = (
    ADD
    + """
    op.execute("INSERT INTO no_such_table VALUES ('hunter2')")"""
)


HEAD = migration.head()
HEAD_AT = int(HEAD)
AFTER = f"{HEAD_AT + 1:04}"
"""This program's newest revision, and the one that tests add to it."""
LINE = [(f"{place:04}", place, 1) for place in range(1, HEAD_AT + 1)]
"""What is noted when every migration was applied: all of them only add."""


@pytest.fixture
def newer(tmp_path, monkeypatch):
    """Give this program one more migration."""

    def give(upgrade=ADD, compatible_from=1):
        shutil.copytree(SCRIPTS, tmp_path / "migrations", dirs_exist_ok=True)
        text = NEXT.format(
            revision=AFTER,
            head=HEAD,
            position=HEAD_AT + 1,
            upgrade=upgrade,
            compatible_from=compatible_from,
        )
        (tmp_path / f"migrations/versions/{AFTER}_next.py").write_text(text)
        monkeypatch.setattr(migration, "__file__", str(tmp_path / "migration.py"))

    return give


def tables(database: Database) -> set[str]:
    return set(database.read(lambda c: sa.inspect(c).get_table_names()))


def columns(database: Database) -> set[str]:
    return {c["name"] for c in database.read(lambda c: sa.inspect(c).get_columns("nodes"))}


def noted(database: Database) -> list[tuple]:
    query = sa.select(
        REVISIONS.c.revision, REVISIONS.c.position, REVISIONS.c.compatible_from
    ).order_by(REVISIONS.c.position)
    return [tuple(row) for row in database.read(lambda c: c.execute(query).all())]


def pretend(database: Database, revision: str, *, note: bool = True, compatible_from: int = 1):
    """Do to the database what a newer program's migration does."""
    with database.engine.begin() as connection:
        connection.execute(sa.text("UPDATE alembic_version SET version_num = :r"), {"r": revision})
        if note:
            connection.execute(
                sa.insert(REVISIONS).values(
                    revision=revision,
                    position=9,
                    compatible_from=compatible_from,
                    applied_at=types.utcnow(),
                )
            )


def test_up_down_and_up_again(blank):
    """F60: and each time the tables are what the models say, indexes included."""
    for _ in range(2):
        migration.ensure(blank)
        assert migration.current(blank) == migration.head() == "0007"
        assert set(Base.metadata.tables) <= tables(blank)
        with blank.reading() as connection:
            assert migration.differences(connection) == []
        assert noted(blank) == LINE
        migration.downgrade(blank, "base")
        assert migration.current(blank) is None and tables(blank) == {"alembic_version"}


def test_a_difference_is_found(blank):
    """The comparison above is not blind."""
    migration.upgrade(blank)
    with blank.engine.begin() as connection:
        on = " ON nodes" if blank.dialect == "mysql" else ""
        connection.exec_driver_sql(f"DROP INDEX ix_nodes_owner{on}")
        connection.exec_driver_sql(
            f"DROP INDEX ix_step_attempts_waiting{on.replace('nodes', 'step_attempts')}"
        )
        connection.exec_driver_sql("ALTER TABLE nodes ADD COLUMN odd VARCHAR(10)")
        connection.exec_driver_sql("CREATE TABLE stray (id INTEGER)")
    with blank.reading() as connection:
        found = str(migration.differences(connection))
    for name in ("ix_nodes_owner", "ix_step_attempts_waiting", "odd", "stray"):
        assert name in found


def test_names_are_short_enough_for_every_database():
    """F60: MariaDB takes 64 characters, PostgreSQL 63; both cut or refuse silently."""
    for one in Base.metadata.tables.values():
        for item in (*one.constraints, *one.indexes):
            assert item.name is not None and len(str(item.name)) <= 63
            size = sum(
                getattr(c.type, "length", None) or 4
                for c in getattr(item, "columns", ())
                if not isinstance(item, sa.ForeignKeyConstraint)
            )
            assert size * 4 <= 3072, f"{item.name} is beyond InnoDB's key limit"


def test_an_older_schema(blank, newer, caplog):
    """SQLite is upgraded by itself; a server, which others use, when its operator says so."""
    migration.ensure(blank)
    newer()
    caplog.set_level(logging.INFO, "deploysteps")
    if blank.dialect == "sqlite":
        migration.ensure(blank)
        assert f"from revision {HEAD} to {AFTER}" in caplog.text
    else:
        with pytest.raises(exceptions.DatabaseVersionError) as told:
            migration.ensure(blank)
        assert HEAD in str(told.value) and AFTER in str(told.value)
        assert "run: deploysteps db upgrade" in str(told.value)
        assert migration.current(blank) == HEAD and "colour" not in columns(blank)
        migration.upgrade(blank)
        migration.ensure(blank)
    assert migration.current(blank) == AFTER and "colour" in columns(blank)
    assert noted(blank) == [*LINE, (AFTER, HEAD_AT + 1, 1)]
    migration.downgrade(blank, HEAD)
    assert "colour" not in columns(blank) and noted(blank) == LINE


def test_when_a_migration_was_applied_stays(blank, newer):
    def when():
        query = sa.select(REVISIONS.c.applied_at).where(REVISIONS.c.revision == "0001")
        return blank.read(lambda c: c.execute(query).scalar())

    migration.ensure(blank)
    before = when()
    newer()
    migration.upgrade(blank)
    assert when() == before


def test_rows_survive_a_table_that_is_made_anew(blank, newer, make):
    """SQLite changes a column by making another table and dropping the first.

    With foreign keys on that empties every table that refers to it.
    """
    migration.ensure(blank)
    node = make(blank)
    ports.insert(blank, {"node_id": node.id, "node_uuid": node.uuid, "address": "aa:bb"})
    newer(REMAKE)
    migration.upgrade(blank)
    assert [p.address for p in ports.of_node(blank, node.id)] == ["aa:bb"]
    migration.downgrade(blank, HEAD)
    assert nodes.get(blank, node.uuid).id == node.id and len(ports.of_node(blank, node.id)) == 1
    with pytest.raises(Exception, match="(?i)foreign key|violates|constraint"):
        ports.insert(blank, {"node_id": 4711, "node_uuid": node.uuid, "address": "cc:dd"})


def test_a_migration_that_fails(blank, newer):
    """MariaDB keeps half of it; all say what failed, where the schema is, and what to do."""
    migration.ensure(blank)
    newer(FAIL)
    with pytest.raises(exceptions.DatabaseVersionError) as told:
        migration.upgrade(blank)
    text = str(told.value)
    assert f"after revision {HEAD}" in text and "no_such_table" in text and "db upgrade" in text
    assert "\n" not in text and "hunter2" not in text
    half = blank.dialect == "mysql"
    assert ("colour" in columns(blank)) is half
    assert ("by hand" if half else "nothing was changed") in text
    assert migration.current(blank) == HEAD


def test_a_first_migration_that_broke_off(blank):
    """Killed halfway on MariaDB: some tables, no revision."""
    migration.ensure(blank)
    with blank.engine.begin() as connection:
        connection.execute(sa.text("DELETE FROM alembic_version"))
        connection.execute(sa.text("DROP TABLE step_attempts"))
    with pytest.raises(exceptions.DatabaseVersionError, match="broke off halfway"):
        migration.ensure(blank)


def test_a_newer_schema_that_only_adds_is_used(blank, caplog):
    """A rolling upgrade migrates first."""
    migration.ensure(blank)
    pretend(blank, "0009")
    caplog.set_level(logging.INFO, "deploysteps")
    migration.ensure(blank)
    assert "0009" in caplog.text and "only adds" in caplog.text
    assert migration.current(blank) == "0009"


@pytest.mark.parametrize(
    ("note", "compatible_from"), [(True, 9), (False, 1)], ids=["incompatible", "unknown"]
)
def test_any_other_newer_schema_is_refused(blank, note, compatible_from):
    migration.ensure(blank)
    pretend(blank, "0009", note=note, compatible_from=compatible_from)
    for call in (
        migration.ensure,
        migration.upgrade,
        lambda database: migration.downgrade(database, "base"),
    ):
        with pytest.raises(exceptions.DatabaseVersionError, match="0009.*does not know") as told:
            call(blank)
        assert "upgrade deploysteps" in str(told.value)
    assert "nodes" in tables(blank)


def test_an_incompatible_step_on_the_way_is_refused(blank):
    """0008 took something away; that 0009 only added does not bring it back."""
    migration.ensure(blank)
    pretend(blank, "0009")
    with blank.engine.begin() as connection:
        connection.execute(
            sa.insert(REVISIONS).values(
                revision="0008", position=8, compatible_from=8, applied_at=types.utcnow()
            )
        )
    with pytest.raises(exceptions.DatabaseVersionError):
        migration.ensure(blank)


def test_a_database_of_something_else_is_left_alone(blank):
    with blank.engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE invoices (id INTEGER)"))
    with pytest.raises(exceptions.DatabaseVersionError, match="belongs to something else"):
        migration.ensure(blank)
    assert tables(blank) == {"invoices"}


def test_a_database_of_another_alembic_user_is_left_alone(blank):
    with blank.engine.begin() as connection:
        connection.execute(sa.text("CREATE TABLE alembic_version (version_num VARCHAR(32))"))
        connection.execute(sa.text("INSERT INTO alembic_version VALUES ('cafe')"))
    for call in (migration.ensure, migration.upgrade):
        with pytest.raises(exceptions.DatabaseVersionError, match="cafe.*does not know"):
            call(blank)
    assert tables(blank) == {"alembic_version"}


def test_every_migration_says_its_place():
    positions = []
    for script in migration.scripts().walk_revisions():
        positions.append(script.module.position)
        assert 1 <= script.module.compatible_from <= script.module.position
    assert sorted(positions) == list(range(1, len(positions) + 1))


STARTER = """
import sys
from deploysteps.db import migration
from deploysteps.db.engine import Database
print("ready", flush=True)
for line in sys.stdin:
    database = Database(line.strip(), connect_wait=5)
    try:
        database.wait_ready(print)
        migration.ensure(database)
        print("made", migration.current(database), flush=True)
    except Exception as exc:
        print(type(exc).__name__, str(exc).replace(chr(10), " "), flush=True)
    database.dispose()
"""


def test_processes_that_start_at_once_on_an_empty_database(blank, tmp_path):
    """One makes the schema, the others wait for it."""
    started = [
        subprocess.Popen(
            [sys.executable, "-c", STARTER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        )
        for _ in range(2)
    ]
    try:
        for process in started:
            assert process.stdout.readline() == "ready\n"
        for round_ in range(2 if blank.dialect == "sqlite" else 1):
            url = blank.url.render_as_string(hide_password=False)
            if blank.dialect == "sqlite":
                url = f"sqlite:///{tmp_path}/{round_}.sqlite"
            for process in started:
                process.stdin.write(url + "\n")
                process.stdin.flush()
            assert [p.stdout.readline() for p in started] == [f"made {HEAD}\n"] * 2
    finally:
        for process in started:
            process.stdin.close()
            process.wait(10)
            process.stdout.close()


def _old_tables(database: Database) -> sa.MetaData:
    """Return the tables as a program of the first revision knows them."""
    found = sa.MetaData()
    with database.engine.connect() as connection:
        found.reflect(connection)
    return found


def _old_rows(node_id: int) -> dict[str, dict]:
    """Return what such a program writes, its columns only."""
    now = types.utcnow().replace(tzinfo=None)
    return {
        "step_runs": {
            "id": node_id,
            "uuid": f"{node_id:036}",
            "node_id": node_id,
            "flow": "deploy",
            "plan": "[]",
            "started_at": now,
        },
        "step_attempts": {
            "run_id": node_id,
            "position": 0,
            "attempt": 1,
            "node_id": node_id,
            "interface": "deploy",
            "step": "deploy",
            "state": "waiting",
            "conductor": "c",
            "started_at": now,
            "reenter": False,
            "owner": "agent",
        },
    }


def test_programs_of_the_first_revision_go_on_writing(blank, make):
    """A rolling upgrade migrates first: they insert rows without the new columns."""
    migration.upgrade(blank, "0001")
    old = _old_tables(blank)
    migration.upgrade(blank)
    assert len(_old_tables(blank).tables["nodes"].c) > len(old.tables["nodes"].c)
    node = make(blank)
    with blank.engine.begin() as connection:
        for name, row in _old_rows(node.id).items():
            connection.execute(sa.insert(old.tables[name]).values(row))
        machines = old.tables["nodes"]
        same = [column for column in machines.c if column.name not in ("id", "uuid")]
        names = ["id", "uuid", *(column.name for column in same)]
        other = sa.select(sa.literal(node.id + 1), sa.literal(f"{1:036}"), *same)
        connection.execute(sa.insert(machines).from_select(names, other))
    run = runs.of_node(blank, node.id)[0]
    assert (run.request, run.left_out, run.mechanism, run.resumes) == (None,) * 4
    assert runs.attempts(blank, [run.id])[run.id][0].reboot is None
    fresh = nodes.get(blank, node.id + 1)
    assert fresh.clean_step is None and fresh.driver_internal_info == {}


def test_rows_survive_the_second_migration_and_its_taking_back(blank, make):
    """SQLite makes the tables anew to drop columns; indexes and rows are there afterwards."""

    def indexes():
        with blank.engine.connect() as connection:
            inspected = sa.inspect(connection)
            return {
                (
                    name,
                    index["name"],
                    tuple(index["column_names"]),
                    bool(index["unique"]),
                    str((index.get("dialect_options") or {}).get(f"{blank.dialect}_where")),
                )
                for name in inspected.get_table_names()
                for index in inspected.get_indexes(name)
            }

    migration.upgrade(blank, "0001")
    first = _old_tables(blank)
    before = indexes()
    migration.upgrade(blank)
    node = make(blank, name="one")
    with blank.engine.begin() as connection:
        for name, row in _old_rows(node.id).items():
            connection.execute(sa.insert(first.tables[name]).values(row))
    migration.downgrade(blank, "0001")
    assert indexes() == before
    after = _old_tables(blank)
    assert {name: set(t.c.keys()) for name, t in after.tables.items()} == {
        name: set(t.c.keys()) for name, t in first.tables.items()
    }
    migration.upgrade(blank)
    assert nodes.get(blank, "one").id == node.id
    assert [a.owner for a in runs.attempts(blank, [node.id])[node.id]] == ["agent"]
    with blank.reading() as connection:
        assert migration.differences(connection) == []


def test_webhooks_survive_the_sixth_migration_and_its_taking_back(blank):
    """SQLite makes their tables anew; what waits is there, and goes with its receiver."""
    migration.upgrade(blank, "0005")
    row = {
        "id": 7,
        "endpoint_id": 3,
        "event_id": 9,
        "node_uuid": "n",
        "state": "pending",
        "body": "{}",
        "created_at": types.utcnow(),
        "tries": 0,
        "next_try_at": types.utcnow(),
    }
    with blank.engine.begin() as connection:
        connection.execute(
            sa.insert(WebhookEndpoint).values(id=3, key="k", url="http://h/", cursor=9)
        )
        connection.execute(sa.insert(WebhookDelivery).values(row))
    for move, revision in (
        (migration.upgrade, "0006"),
        (migration.downgrade, "0005"),
        (migration.upgrade, "head"),
    ):
        move(blank, revision)
        (found,) = webhooks.listing(blank, None, 10)
        assert (found.id, found.event_id) == (7, 9)
    with blank.engine.begin() as connection:
        connection.execute(sa.delete(WebhookEndpoint))
    assert webhooks.listing(blank, None, 10) == []
    with blank.engine.begin() as connection, pytest.raises(db_exc.DBReferenceError):
        connection.execute(sa.insert(WebhookDelivery).values(row))


def test_a_blank_at_the_end_makes_another_text_on_every_database(blank):
    """MariaDB passes over it where a table does not say otherwise: all do, and may be compared."""
    migration.upgrade(blank, "0006")
    rows = table(Conductor)

    def named(name: str) -> list[str]:
        query = sa.select(rows.c.hostname).where(rows.c.hostname == name)
        return list(blank.read(lambda c: c.execute(query).scalars()))

    def add(name: str) -> None:
        with blank.engine.begin() as connection:
            connection.execute(sa.insert(rows).values(hostname=name, boot_id="b"))

    add("one")
    migration.upgrade(blank)
    if blank.dialect == "mysql":
        query = (
            "SELECT DISTINCT COLLATION_NAME FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = "
            "DATABASE() AND TABLE_NAME <> 'alembic_version' AND COLLATION_NAME IS NOT NULL"
        )
        found = blank.read(lambda c: list(c.execute(sa.text(query)).scalars()))
        assert found == ["utf8mb4_nopad_bin"]
    assert named("one ") == []
    add("one ")
    add("One")
    for name in ("one", "one ", "One"):
        assert named(name) == [name]
    with blank.engine.begin() as connection:
        connection.execute(sa.delete(rows).where(rows.c.hostname == "one "))
    migration.downgrade(blank, "0006")
    assert named("one") == ["one"]


def test_a_schema_is_checked_without_a_change(blank, newer):
    """The remedy is named; the same words as a service that starts."""
    with pytest.raises(exceptions.DatabaseVersionError, match="no schema yet; run: deploysteps db"):
        migration.check(blank)
    assert tables(blank) == set()
    migration.ensure(blank)
    migration.check(blank)
    newer()
    with pytest.raises(exceptions.DatabaseVersionError, match=f"needs {AFTER}; run: deploysteps"):
        migration.check(blank)
    assert migration.current(blank) == HEAD
    pretend(blank, f"{HEAD_AT + 3:04}")
    migration.check(blank)
    pretend(blank, f"{HEAD_AT + 2:04}", note=False)
    with pytest.raises(exceptions.DatabaseVersionError, match="does not know"):
        migration.check(blank)


def test_a_second_migration_that_broke_off_goes_on(blank):
    """MariaDB keeps half of it; the remedy is to run it again, and that is told."""
    migration.upgrade(blank, "0001")
    with blank.engine.begin() as connection:
        # In the way of one of the last things that it does.
        connection.exec_driver_sql("CREATE VIEW runbooks AS SELECT uuid FROM nodes")
    with pytest.raises(exceptions.DatabaseVersionError) as told:
        migration.upgrade(blank)
    half = blank.dialect == "mysql"
    assert ("which goes on from there" in str(told.value)) is half
    assert ("by hand" in str(told.value)) is False
    assert ("node_traits" in tables(blank)) is half and migration.current(blank) == "0001"
    with blank.engine.begin() as connection:
        connection.exec_driver_sql("DROP VIEW runbooks")
    migration.upgrade(blank)
    with blank.reading() as connection:
        assert migration.differences(connection) == []
