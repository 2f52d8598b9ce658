"""``deploysteps events`` and ``node run`` against the real service, which is killed meanwhile."""

import json
import subprocess
import sys
import threading

import pytest
from click.testing import CliRunner

from deploysteps.cli import events
from deploysteps.cli.app import cli
from deploysteps.cli.local_service import LocalService, _environment
from tests.service.test_serve import deploy, enrol, wait_for

QUICK = {
    "conductor": {"recovery_interval": 0.5},
    "events": {"poll_interval": 0.1, "stream_heartbeat": 0.5},
}


@pytest.fixture
def service(tmp_path):
    with LocalService(tmp_path, QUICK) as running:
        enrol(running.client)
        yield running


@pytest.fixture
def run(service):
    def invoke(*args, code=0):
        result = CliRunner().invoke(cli, list(args), env={"OS_ENDPOINT": service.client.endpoint})
        assert result.exit_code == code, result.output
        return result.output

    return invoke


def state(service):
    return service.client.get("/v1/nodes/n")["provision_state"]


def test_events_and_runs_are_shown(service, run):
    run("node", "run", "nobody", code=3)
    deploy(service.client)
    wait_for(lambda: state(service) == "active", "active")
    told = run("events", "--after", "0", "--flow", "deploy", "--count", "5", "--node", "n")
    assert [line.split()[4] for line in told.splitlines()] == [
        "run.started",
        "step.started",
        "node.state",
        "step.finished",
        "step.started",
    ]
    assert "available -> deploying" in told and "deploy.prepare success" in told
    lines = run("events", "--after", "0", "--count", "2", "--json").splitlines()
    assert [json.loads(line)["id"] for line in lines] == [1, 2]
    assert "Node nobody could not be found" in run("events", "--node", "nobody", code=3)
    shown = run("node", "run", "n")
    assert "success" in shown and "deploy.deploy" in shown and "Attempts:" in shown
    whole = json.loads(run("node", "run", "n", "--json"))
    assert whole["plan"] and whole["attempts"] and whole["outcome"] == "success"
    oldest = json.loads(run("node", "runs", "n", "--json"))[-1]["uuid"]
    assert json.loads(run("node", "run", "n", oldest, "--json"))["uuid"] == oldest
    run("node", "run", "n", "no-such-run", code=3)


def test_a_stream_goes_on_after_the_service_was_killed(service):
    """Nothing is left out, and nothing told twice."""
    process = subprocess.Popen(
        [sys.executable, "-m", "deploysteps.cli", "events", "--after", "0", "--json"],
        env=_environment() | {"OS_ENDPOINT": service.client.endpoint, "PYTHONUNBUFFERED": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    seen = []
    reading = threading.Thread(
        target=lambda: [seen.append(json.loads(line)) for line in process.stdout], daemon=True
    )
    reading.start()
    try:
        wait_for(lambda: seen, "the first events")
        service.kill()
        service.start()
        deploy(service.client)
        wait_for(lambda: state(service) == "active", "active")
        wait_for(lambda: seen[-1].get("state") == "active", "the last event")
    finally:
        process.kill()
        process.wait()
    ids = [event["id"] for event in seen]
    assert ids == list(range(1, ids[-1] + 1))


def test_a_service_that_is_not_there_is_told(monkeypatch):
    monkeypatch.setattr(events, "_PAUSE", 0.01)
    env = {"OS_ENDPOINT": "http://127.0.0.1:1"}
    result = CliRunner().invoke(cli, ["events", "--count", "1"], env=env)
    assert result.exit_code == 5 and "does not answer" in result.output
