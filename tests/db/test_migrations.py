"""The schema: made, upgraded, taken back, recognised."""

from __future__ import annotations

import logging
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import sqlalchemy as sa

from deploysteps import exceptions
from deploysteps.db import migration, nodes, ports, types
from deploysteps.db.engine import Database
from deploysteps.db.models import Base, SchemaRevision, table

REVISIONS = table(SchemaRevision)
SCRIPTS = Path(migration.__file__).parent / "migrations"

SECOND = '''
"""Adds."""
import sqlalchemy as sa
from alembic import op

revision, down_revision = "0002", "0001"
position, compatible_from = 2, {compatible_from}


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


@pytest.fixture
def newer(tmp_path, monkeypatch):
    """Give this program a second migration."""

    def give(upgrade=ADD, compatible_from=1):
        shutil.copytree(SCRIPTS, tmp_path / "migrations", dirs_exist_ok=True)
        text = SECOND.format(upgrade=upgrade, compatible_from=compatible_from)
        (tmp_path / "migrations/versions/0002_second.py").write_text(text)
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
        assert migration.current(blank) == migration.head() == "0001"
        assert set(Base.metadata.tables) <= tables(blank)
        with blank.reading() as connection:
            assert migration.differences(connection) == []
        assert noted(blank) == [("0001", 1, 1)]
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
        assert "from revision 0001 to 0002" in caplog.text
    else:
        with pytest.raises(exceptions.DatabaseVersionError) as told:
            migration.ensure(blank)
        assert "0001" in str(told.value) and "0002" in str(told.value)
        assert "run: deploysteps db upgrade" in str(told.value)
        assert migration.current(blank) == "0001" and "colour" not in columns(blank)
        migration.upgrade(blank)
        migration.ensure(blank)
    assert migration.current(blank) == "0002" and "colour" in columns(blank)
    assert noted(blank) == [("0001", 1, 1), ("0002", 2, 1)]
    migration.downgrade(blank, "0001")
    assert "colour" not in columns(blank) and noted(blank) == [("0001", 1, 1)]


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
    migration.downgrade(blank, "0001")
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
    assert "after revision 0001" in text and "no_such_table" in text and "db upgrade" in text
    assert "\n" not in text and "hunter2" not in text
    half = blank.dialect == "mysql"
    assert ("colour" in columns(blank)) is half
    assert ("by hand" if half else "nothing was changed") in text
    assert migration.current(blank) == "0001"


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
    ("note", "compatible_from"), [(True, 2), (False, 1)], ids=["incompatible", "unknown"]
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
                url = f"sqlite:///{tmp_path}/new/{round_}.sqlite"
            for process in started:
                process.stdin.write(url + "\n")
                process.stdin.flush()
            assert [p.stdout.readline() for p in started] == ["made 0001\n"] * 2
    finally:
        for process in started:
            process.stdin.close()
            process.wait(10)
            process.stdout.close()
