"""``deploysteps node watch`` and ``runs``: what goes on, and what was."""

import json
import re

import pytest

from deploysteps.cli import waiting, watch
from deploysteps.cli.errors import ExitCode
from tests.unit.cli.conftest import UUID


def test_a_state_is_told_with_its_own_time(ok, made, follows):
    changed = "2026-01-02T03:04:08+00:00"
    run = made.run(made.attempt("deploy.deploy"), outcome="success")
    follows((made.node("active", provision_updated_at=changed), run))
    last = ok("node", "watch", "n").stdout.splitlines()[-1]
    assert last == f"{watch.clock(changed)} node-1 is active"


def test_a_state_that_is_older_than_what_ended_in_it_comes_first(ok, made, follows):
    """The node is read before its run, which may have ended meanwhile."""
    run = made.run(made.attempt("deploy.deploy"), outcome="success")
    follows(
        (made.node("deploying", provision_updated_at="2026-01-02T03:04:06+00:00"), run),
        (made.node("active", provision_updated_at="2026-01-02T03:04:08+00:00"), run),
    )
    lines = ok("node", "watch", "n").stdout.splitlines()
    assert [line.partition("node-1 ")[2] for line in lines] == [
        "is deploying",
        "deploy.deploy success after 2.5 s",
        "is active",
    ]


def test_a_failure_is_told_once_and_not_of_the_attempt_that_went_well(ok, made, follows):
    error = "deploy.write failed: disk is dead (attempt 1, after 2.5 s)"
    bad = made.attempt("deploy.write", outcome="failed", error=error)
    good = made.attempt("deploy.write", number=2)
    follows((made.node("active"), made.run(bad, good, outcome="success")))
    told = ok("node", "watch", "n").stdout.splitlines()
    assert [line.partition("node-1 ")[2] for line in told] == [
        "is deploying",
        error,
        "deploy.write success (attempt 2) after 2.5 s",
        "is active",
    ]


def test_the_state_of_a_run_that_was_quicker_than_the_look_is_told(ok, made, follows):
    """What is printed does not hang on how quick the machine was."""
    run = made.run(made.attempt("deploy.deploy"), outcome="success")
    follows((made.node("active", provision_updated_at=run["finished_at"]), run))
    assert ok("node", "watch", "n").stdout.splitlines()[0] == (
        f"{watch.clock(run['started_at'])} node-1 is deploying"
    )


def test_a_run_that_goes_on_with_another_says_so_first(ok, made, follows):
    """Lines are in the order of their times."""
    run = made.run(made.attempt("deploy.deploy"), outcome="success", resumes="r0")
    follows((made.node("active", provision_updated_at=run["finished_at"]), run))
    first, second, *_ = ok("node", "watch", "n").stdout.splitlines()
    assert first == f"{watch.clock(run['started_at'])} node-1 goes on with run r0"
    assert second.endswith("is deploying")


def test_a_wait_says_what_it_is_for(ok, made, follows):
    waits = {"waits_for": "poller", "progress": {"percent": None, "text": "for the disks"}}
    follows(
        (made.node("deploy wait"), made.run(made.attempt("x.y", "waiting", **waits))),
        (made.node("active"), made.run(made.attempt("x.y"), outcome="success")),
    )
    assert "for the disks; waits, and looks again" in ok("node", "watch", "n").stdout


def test_the_state_of_a_run_is_told_once(ok, made, follows):
    run = made.run(made.attempt("deploy.deploy"), outcome="success")
    follows((made.node("deploying"), made.run()), (made.node("active"), run))
    assert ok("node", "watch", "n").stdout.count("is deploying") == 1


def test_watch_ends_with_the_run(ok, made, follows):
    run = made.run(made.attempt("deploy.deploy"), outcome="success")
    follows((made.node("active"), run))
    assert "deploy.deploy success" in ok("node", "watch", "n").stdout
    told = json.loads(ok("node", "watch", "n", "--json").stdout)
    assert told["run"]["outcome"] == "success"


def test_watch_of_a_failed_run_fails(run, made, follows):
    follows((made.node("deploy failed"), made.run(outcome="aborted")))
    result = run("node", "watch", "n")
    assert result.exit_code == 1 and "ended: aborted" in result.stderr


def test_watch_without_a_run(run, made, follows):
    follows((made.node(), None))
    result = run("node", "watch", "n")
    assert result.exit_code == ExitCode.NOT_FOUND and "node deploy node-1" in result.stderr


def test_watch_stays_with_its_run_when_another_begins(ok, made, follows, stub):
    first = made.run(outcome="success")
    second = made.run(uuid="another")
    follows((made.node("deploying"), made.run()), (made.node("active"), first))
    stub.on(
        "GET",
        f"/v1/nodes/{UUID}/runs",
        {"runs": [made.run()]},
        {"runs": [second, first]},
    )
    assert json.loads(ok("node", "watch", "n", "--json").stdout)["run"]["uuid"] == first["uuid"]


@pytest.mark.parametrize(
    "lost",
    [(200, ConnectionError), (502, b"<html>"), (503, {"error_message": {"title": "no database"}})],
    ids=["gone", "gone behind a proxy", "without its database"],
)
def test_watch_waits_for_a_service_that_is_restarted(stub, run, made, follows, lost):
    follows(
        (made.node("deploying"), made.run()),
        (made.node("active"), made.run(outcome="success")),
    )
    listed = stub.answers["GET", "/v1/nodes/n"]
    listed[1:1] = [lost] * 3
    result = run("node", "watch", "n")
    away, back = result.stderr.splitlines()
    assert result.exit_code == 0
    assert "trying again" in away and back == "the service is back"


def test_watch_gives_up_on_a_service_that_never_was(stub, failing):
    stub.on("GET", "/v1/nodes/n", ConnectionError)
    assert failing("node", "watch", "n")[0] == ExitCode.UNREACHABLE


def test_watch_loses_patience(stub, run, made, follows, monkeypatch):
    monkeypatch.setattr(waiting, "PATIENCE", 0.0)
    follows((made.node("deploying"), made.run()))
    stub.answers["GET", "/v1/nodes/n"].append((200, ConnectionError))
    assert run("node", "watch", "n").exit_code == ExitCode.UNREACHABLE


def test_runs_and_steps(stub, ok, made):
    stub.on("GET", "/v1/nodes/n/runs", {"runs": [made.run(outcome="failed")]})
    head, row = ok("node", "runs", "n").stdout.splitlines()
    assert head.split() == ["UUID", "FLOW", "OUTCOME", "STARTED", "DURATION", "NOTE"]
    started = watch.clock("2026-01-02T03:04:05+00:00")
    assert f"failed   {started}  60.0 s    deploy.deploy failed: because" in row
    stub.on("GET", "/v1/nodes/n/runs", {"runs": [made.run()]})
    assert re.search(r"deploy  running  .* \d+\.\d s", ok("node", "runs", "n").stdout)
    offered = {
        "interface": "raid",
        "step": "create",
        "flow": "deploy",
        "priority": 5,
        "default_priority": 0,
        "argsinfo": None,
        "abortable": True,
        "repeatable": False,
        "source": "driver",
    }
    stub.on("GET", "/v1/nodes/n/steps", {"steps": [offered]})
    assert "raid" in ok("node", "steps", "n").stdout
    assert json.loads(ok("node", "steps", "n", "--json").stdout) == [offered]
