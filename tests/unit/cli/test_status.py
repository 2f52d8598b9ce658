"""``deploysteps status upgrade check``: the field's exit codes, a table, JSON."""

import json

import pytest

from deploysteps.db import nodes, runbooks, runs, templates, types
from deploysteps.db.engine import Database
from deploysteps.db.models import StepRun, table

CHECK = ("status", "upgrade", "check")
NAMES = (
    "database schema",
    "enabled drivers",
    "online data migrations",
    "deployments begun the old way",
    "deploy templates and runbooks",
    "nodes and their drivers",
)


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    for name in ("OS_DATABASE__CONNECTION", "OS_DEFAULT__ENABLED_HARDWARE_TYPES"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def database(ok, tmp_path):
    """The configured database, with the schema."""
    ok("db", "upgrade")
    found = Database(f"sqlite:///{tmp_path}/var/deploysteps.sqlite")
    yield found
    found.dispose()


@pytest.fixture
def told(run):
    """Run the check; returns the exit code and name -> (result, details)."""

    def invoke(**more):
        result = run(*CHECK, "--json", **more)
        found = json.loads(result.stdout)
        checks = {one["check"]: (one["result"], one["details"]) for one in found["checks"]}
        assert tuple(checks) == NAMES
        assert found["result"] == ("success", "warning", "failure")[result.exit_code]
        return result.exit_code, checks

    return invoke


def old_run(database, **values):
    node = nodes.insert(database, {"driver": "fake-hardware", "provision_state": "wait call-back"})
    row = {"uuid": node.uuid, "node_id": node.id, "flow": "deploy", "plan": [], "mechanism": None}
    row |= {"started_at": types.utcnow(), **values}
    database.write(lambda c: c.execute(table(StepRun).insert().values(row)) and None)
    return node


def test_all_is_good(told, database, ok):
    assert told() == (0, dict.fromkeys(NAMES, ("success", "")))
    text = ok(*CHECK).stdout
    assert all(name in text for name in NAMES) and text.count("success") == len(NAMES)


def test_without_a_database_nothing_is_made(told, tmp_path):
    code, checks = told()
    assert code == 2
    result, details = checks["database schema"]
    assert result == "failure" and "run: deploysteps db upgrade" in details
    assert checks["deploy templates and runbooks"][0] == "skipped"
    assert list(tmp_path.iterdir()) == []


def test_a_schema_that_is_behind(told, database, ok):
    ok("db", "downgrade", "0001", "--yes")
    code, checks = told()
    assert code == 2 and "revision 0001" in checks["database schema"][1]
    assert "run: deploysteps db upgrade" in checks["database schema"][1]
    assert checks["online data migrations"][0] == "skipped"
    assert checks["enabled drivers"][0] == "success"


def test_rows_of_older_programs(told, database, ok, run):
    """F82: what an online data migration left is a failure, counted by table."""
    old_run(database)
    code, checks = told()
    assert code == 2 and "1 in step_runs" in checks["online data migrations"][1]
    assert "run: deploysteps db online-data-migrations" in checks["online data migrations"][1]
    ok("db", "online-data-migrations")
    assert told()[0] == 0


def test_deployments_begun_the_old_way(told, database):
    machines = [old_run(database, mechanism=runs.OLD_WAY) for _ in range(22)]
    old_run(database, mechanism=runs.OLD_WAY, finished_at=types.utcnow())
    code, checks = told()
    result, details = checks["deployments begun the old way"]
    assert (code, result) == (1, "warning")
    assert "22 node(s)" in details and "and 2 more" in details
    assert [node.uuid in details for node in machines] == [True] * 20 + [False] * 2


def test_of_many_kinds_of_nodes_that_are_not_offered_the_number_of_the_others_is_told(
    told, database
):
    machines = [
        nodes.insert(database, {"driver": f"rack-{number}", "provision_state": "enroll"})
        for number in range(22)
    ]
    details = told()[1]["nodes and their drivers"][1]
    assert details.endswith(" and 2 more")
    assert [node.uuid in details for node in machines].count(True) == 20


def test_templates_and_runbooks_that_do_not_fit(told, database):
    unknown = {"interface": "deploy", "step": "from_the_agent", "args": {}}
    templates.insert(
        database, {"name": "CUSTOM_AGENT", "steps": [{**unknown, "priority": 5}], "extra": {}}
    )
    code, checks = told()
    assert code == 1 and checks["deploy templates and runbooks"][0] == "warning"
    assert "CUSTOM_AGENT" in checks["deploy templates and runbooks"][1]
    wrong = {"interface": "power", "step": "hold", "args": {"key": "hunter2"}, "order": 1}
    runbooks.insert(database, {"name": "CUSTOM_BAD", "steps": [wrong], "extra": {}})
    code, checks = told()
    assert code == 2
    result, details = checks["deploy templates and runbooks"]
    assert result == "failure" and "runbook CUSTOM_BAD: power.hold" in details
    assert "hunter2" not in details


def test_drivers_that_cannot_be_loaded(told, database):
    code, checks = told(env={"OS_DEFAULT__ENABLED_HARDWARE_TYPES": "nope"})
    assert code == 2 and checks["enabled drivers"][0] == "failure"
    assert "'nope', which is not installed" in checks["enabled drivers"][1]
    assert checks["deploy templates and runbooks"][0] == "skipped"
    assert checks["online data migrations"][0] == "success"


def test_it_could_not_look(run):
    """255 as the field's tools have it: no answer is not a bad answer."""
    away = {
        "OS_DATABASE__CONNECTION": "postgresql://u:hunter2@127.0.0.1:1/d",
        "OS_DATABASE__CONNECT_WAIT": "0.1",
    }
    result = run(*CHECK, env=away)
    assert result.exit_code == 255 and result.stdout == ""
    assert "cannot use the database" in result.stderr and "hunter2" not in result.output
    result = run(*CHECK, env={"OS_DATABASE__CONNECTION": "nonsense"})
    assert result.exit_code == 255 and "[database] connection" in result.stderr
    assert "Traceback" in run("--debug", *CHECK, env=away).stderr


def test_nodes_whose_driver_lost_an_interface(told, database):
    """F47: before the last conductor that offers it is upgraded."""
    fine = {"driver": "fake-hardware", "provision_state": "available", "bios_interface": "fake"}
    nodes.insert(database, fine)
    assert told()[0] == 0
    gone = [nodes.insert(database, {**fine, "firmware_interface": "gone"}) for _ in range(3)]
    code, checks = told()
    result, details = checks["nodes and their drivers"]
    assert (code, result) == (1, "warning")
    assert "3 node(s), such as" in details and "firmware interface 'gone'" in details
    assert any(node.uuid in details for node in gone)
