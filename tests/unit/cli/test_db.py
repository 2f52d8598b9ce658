import contextlib
import json
import sqlite3

import pytest

from deploysteps.db import nodes, types
from deploysteps.db.engine import Database
from deploysteps.db.models import StepRun, table


@pytest.fixture(autouse=True)
def in_the_folder(monkeypatch, tmp_path):
    monkeypatch.delenv("OS_DATABASE__CONNECTION", raising=False)


def test_the_schema_is_made_shown_and_removed(ok, failing, tmp_path):
    assert json.loads(ok("db", "version", "--json").stdout)["current"] is None
    assert "there is no database file" in ok("db", "version").stdout
    assert list(tmp_path.iterdir()) == []
    ok("db", "upgrade")
    told = json.loads(ok("db", "version", "--json").stdout)
    assert told["current"] == told["head"]
    assert (tmp_path / "var" / "deploysteps.sqlite").exists()
    code, line = failing("db", "downgrade", "base")
    assert code == 2 and "--yes" in line
    assert "none (empty)" in ok("db", "downgrade", "base", "--yes").stdout
    assert told["head"] in ok("db", "upgrade").stdout


@pytest.mark.parametrize("command", [("version",), ("upgrade",), ("downgrade", "base", "--yes")])
def test_a_file_that_is_no_database(failing, tmp_path, command):
    file = tmp_path / "var" / "deploysteps.sqlite"
    file.parent.mkdir()
    file.write_text("Dear diary, this is no database.")
    code, line = failing("db", *command)
    assert code == 6 and "deploysteps.sqlite is no SQLite database; set [database]" in line
    assert file.read_text().startswith("Dear diary")
    file.unlink()
    file.mkdir()
    assert failing("db", *command)[0] == 6


@pytest.mark.parametrize("command", [("version",), ("upgrade",), ("downgrade", "base", "--yes")])
def test_a_database_of_something_else(failing, tmp_path, command):
    file = tmp_path / "var" / "deploysteps.sqlite"
    file.parent.mkdir()
    with contextlib.closing(sqlite3.connect(file)) as other:
        other.execute("CREATE TABLE diary (day TEXT)")
        code, line = failing("db", *command)
        assert code == 6 and "belongs to something else; set [database] connection" in line
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("diary",)]


def test_an_empty_file_is_an_empty_database(ok, tmp_path):
    (tmp_path / "var").mkdir()
    (tmp_path / "var" / "deploysteps.sqlite").touch()
    assert "none (empty)" in ok("db", "version").stdout
    ok("db", "upgrade")


def test_a_revision_that_is_none(failing):
    code, line = failing("db", "upgrade", "nope")
    assert code == 2 and "nope" in line


def test_a_database_that_is_away(run):
    away = {
        "OS_DATABASE__CONNECTION": "postgresql://u:hunter2@127.0.0.1:1/d",
        "OS_DATABASE__CONNECT_WAIT": "0.1",
    }
    result = run("db", "version", env=away)
    assert result.exit_code == 5
    assert "waiting up to 0.1 s" in result.stderr and "hunter2" not in result.output


@pytest.fixture
def database(ok, tmp_path):
    ok("db", "upgrade")
    found = Database(f"sqlite:///{tmp_path}/var/deploysteps.sqlite")
    yield found
    found.dispose()


def old_runs(database, count):
    """Write runs as an older program does."""
    node = nodes.insert(database, {"driver": "x", "provision_state": "available"})
    rows = [
        {
            "uuid": f"{number:036}",
            "node_id": node.id,
            "flow": "deploy",
            "plan": [],
            "started_at": types.utcnow(),
        }
        for number in range(count)
    ]
    database.write(lambda c: c.execute(table(StepRun).insert(), rows) and None)


MIGRATE = ("db", "online-data-migrations")


def test_online_data_migrations(ok, run, database):
    """F82: what is left is counted, and the exit code says whether to go on."""
    assert "mechanism of runs" in ok(*MIGRATE).stdout
    old_runs(database, 5)
    result = run(*MIGRATE, "--max-count", "2", "--json")
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert told["left"] == 3
    assert told["migrations"][0] == {
        "name": "mechanism of runs",
        "table": "step_runs",
        "found": 2,
        "done": 2,
        "left": 3,
        "error": None,
    }
    assert "mechanism of runs: 2 of step_runs" in result.stderr
    assert json.loads(ok(*MIGRATE, "--json").stdout)["left"] == 0


def test_online_data_migrations_that_can_do_nothing(run, database):
    old_runs(database, 1)
    with database.engine.begin() as connection:
        connection.exec_driver_sql(
            "CREATE TRIGGER no BEFORE UPDATE ON step_runs BEGIN SELECT RAISE(ABORT, 'full'); END"
        )
    result = run(*MIGRATE)
    assert result.exit_code == 2 and "full" in result.stdout
    result = run(*MIGRATE, "--max-count", "0")
    assert result.exit_code == 2 and "--max-count" in result.stderr


def test_online_data_migrations_need_this_program_s_schema(failing, ok, tmp_path):
    code, line = failing(*MIGRATE)
    assert code == 6 and "there is no database file; run: deploysteps db upgrade" in line
    assert list(tmp_path.iterdir()) == []
    ok("db", "upgrade", "0001")
    code, line = failing(*MIGRATE)
    assert code == 6 and "revision 0001" in line and "run: deploysteps db upgrade" in line
