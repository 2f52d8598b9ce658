"""Runs and steps of a node: ours, at every version."""

from __future__ import annotations

import datetime

import pytest
import sqlalchemy as sa

from deploysteps.db import locks, nodes
from deploysteps.db.models import StepAttempt, StepRun
from deploysteps.steps import FLOWS
from tests.support_api import Api, Recording
from tests.support_sql import counting

BEGAN = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC)


def run_of(database, node, number, *, states=(), owner=None, since=None, **values):
    """Insert a run whose attempts have these states."""

    def work(connection):
        row = {
            "uuid": f"00000000-0000-0000-0000-{number:012}",
            "node_id": node.id,
            "flow": "deploy",
            "plan": [],
            "started_at": BEGAN,
            **values,
        }
        run_id = connection.execute(sa.insert(StepRun).values(row)).inserted_primary_key[0]
        for position, state in enumerate(states):
            attempt = {
                "run_id": run_id,
                "position": position,
                "attempt": 1,
                "node_id": node.id,
                "interface": "deploy",
                "step": f"s{position}",
                "state": state,
                "conductor": "c1",
                "started_at": BEGAN,
                "progress": {"percent": 5, "text": "see http://me:hunter2@bmc/"},
                "owner": owner,
                "waiting_since": since,
                "reboot": None if owner is None else True,
            }
            connection.execute(sa.insert(StepAttempt).values(attempt))
        return row["uuid"]

    return database.write(work)


@pytest.mark.parametrize(
    ("values", "states", "told"),
    [
        ({}, (), "running"),
        ({}, ("finished", "running"), "running"),
        ({}, ("finished", "waiting"), "waiting"),
        ({}, ("waiting", "running"), "running"),
        ({"abort_requested_at": BEGAN}, ("running",), "aborting"),
        ({"finished_at": BEGAN, "outcome": "success"}, ("finished",), "finished"),
        ({"finished_at": BEGAN, "abort_requested_at": BEGAN}, ("finished",), "finished"),
    ],
)
def test_the_state_of_a_run_follows_its_attempts(api, sqlite, node, values, states, told):
    run_of(sqlite, node, 1, states=states, **values)
    assert api.get("/v1/nodes/n1/runs").body["runs"][0]["state"] == told


@pytest.mark.parametrize("version", [None, 1, 43, 115])
def test_a_run_is_shown_with_its_attempts_at_every_version(api, sqlite, node, version):
    run_of(sqlite, node, 1, states=("waiting",), owner="agent", requested_by="me", error="why")
    (run,) = api.get(f"/v1/nodes/{node.uuid}/runs", version=version).body["runs"]
    assert run == {
        "uuid": "00000000-0000-0000-0000-000000000001",
        "flow": "deploy",
        "state": "waiting",
        "mechanism": "steps",
        "resumes": None,
        "requested_by": "me",
        "request": None,
        "left_out": [],
        "started_at": "2026-11-30T12:00:00.000000+00:00",
        "finished_at": None,
        "outcome": None,
        "error": "why",
        "attempts": [
            {
                "interface": "deploy",
                "step": "s0",
                "attempt": 1,
                "state": "waiting",
                "conductor": "c1",
                "started_at": "2026-11-30T12:00:00.000000+00:00",
                "finished_at": None,
                "outcome": None,
                "error": None,
                "progress": {"percent": 5, "text": "see http://******@bmc/"},
                "waits_for": "agent",
                "waiting_since": None,
                "deadline": None,
                "silent_at": None,
                "evidence": None,
                "reboot": True,
            }
        ],
    }


@pytest.mark.parametrize(
    ("owner", "heard", "given_up"),
    [
        ("agent", None, "2026-11-30T12:30:00.000000+00:00"),
        ("agent", BEGAN + datetime.timedelta(seconds=90), "2026-11-30T12:31:30.000000+00:00"),
        ("poller", BEGAN + datetime.timedelta(seconds=90), None),
    ],
)
def test_a_wait_for_the_agent_tells_when_its_silence_ends_it(
    api, sqlite, node, owner, heard, given_up
):
    nodes.set_unlocked(sqlite, node.id, {"agent_heartbeat_column": heard})
    run_of(sqlite, node, 1, states=("waiting", "waiting"), owner=owner, since=BEGAN)
    (run,) = api.get("/v1/nodes/n1/runs").body["runs"]
    assert [one["silent_at"] for one in run["attempts"]] == [None, given_up]
    assert api.get(f"/v1/nodes/n1/runs/{run['uuid']}").body["attempts"] == run["attempts"]


def test_a_run_that_is_over_has_no_silence_to_end_it(api, sqlite, node):
    run_of(sqlite, node, 1, states=("waiting",), owner="agent", since=BEGAN, finished_at=BEGAN)
    (run,) = api.get("/v1/nodes/n1/runs").body["runs"]
    assert run["attempts"][0]["silent_at"] is None


SECRET = {"word": {"description": "d", "secret": True}}


def test_what_was_asked_for_is_told_without_its_secrets(api, sqlite, node):
    """F77: a request does not say which of its arguments are secret; the plan does."""
    args = {"word": "hunter2", "text": "x", "password": "hunter2"}
    known = {"interface": "vendor", "step": "say", "args": args}
    unknown = {"interface": "vendor", "step": "nobody_knows", "args": {"word": "hunter2"}}
    left = {"interface": "bios", "step": "x", "priority": 0, "source": "driver", "why": "disabled"}
    run_of(
        sqlite,
        node,
        1,
        request={
            "layers": [{"source": "request", "steps": [known, unknown]}],
            "runbook": "CUSTOM_X",
            "disable_ramdisk": True,
        },
        plan=[{**known, "argsinfo": SECRET}],
        left_out=[left],
        mechanism="deploy",
        resumes="another",
    )
    answer = api.get("/v1/nodes/n1/runs")
    (run,) = answer.body["runs"]
    shown = {"word": "******", "text": "x", "password": "******"}
    steps = [{**known, "args": shown}, {**unknown, "args": {"word": "******"}}]
    assert run["request"] == {
        "layers": [{"source": "request", "steps": steps}],
        "runbook": "CUSTOM_X",
        "disable_ramdisk": True,
    }
    assert (run["left_out"], run["mechanism"], run["resumes"]) == ([left], "deploy", "another")
    assert "hunter2" not in answer.text
    assert "plan" not in run
    answer = api.get("/v1/nodes/n1/runs?plan=true")
    assert answer.body["runs"][0]["plan"] == [{**known, "args": shown, "argsinfo": SECRET}]
    assert "hunter2" not in answer.text


def test_runs_are_paged_newest_first_and_are_of_this_node_only(api, sqlite, node):
    other = nodes.insert(sqlite, {"driver": "x", "provision_state": "enroll"})
    foreign = run_of(sqlite, other, 99)
    uuids = [run_of(sqlite, node, number, states=("finished",)) for number in range(5)]
    path, found = "/v1/nodes/n1/runs?limit=2", []
    while path:
        body = api.get(path).body
        found += [run["uuid"] for run in body["runs"]]
        path = body.get("next", "").removeprefix("http://falconframework.org")
    assert found == uuids[::-1]
    assert api.get(f"/v1/nodes/n1/runs?marker={foreign}").status == 404
    assert api.get("/v1/nodes/n1/runs?marker=zzz").status == 404
    for wrong in ("sort_key=id", "limit=-1", "zzz=1", "marker=%00", "plan=x"):
        assert api.get(f"/v1/nodes/n1/runs?{wrong}").status == 400


def test_a_page_of_runs_costs_the_same_queries_whatever_its_length(api, sqlite, node):
    """F86."""
    run_of(sqlite, node, 1, states=("finished",) * 3)
    with counting(sqlite) as few:
        api.get("/v1/nodes/n1/runs")
    for number in range(2, 20):
        run_of(sqlite, node, number, states=("finished",) * 3)
    with counting(sqlite) as many:
        assert len(api.get("/v1/nodes/n1/runs").body["runs"]) == 19
    assert many.statements == few.statements


@pytest.mark.parametrize("version", [None, 1, 115])
def test_steps_are_shown_at_every_version(conf, sqlite, node, version):
    step = {
        "interface": "vendor",
        "step": "say",
        "flow": "deploy",
        "priority": 5,
        "default_priority": 5,
        "argsinfo": {"password": {"description": "the word", "secret": True}},
        "abortable": True,
        "repeatable": False,
        "source": "driver",
        "forbidden": False,
    }
    conductor = Recording(get_node_steps=[step])
    api = Api(conf, sqlite, conductor)
    for query, flow in (("", "deploy"), *((f"?flow={name}", name) for name in FLOWS)):
        answer = api.get(f"/v1/nodes/{node.uuid}/steps{query}", version=version)
        assert answer.body == {"steps": [step]}
        assert conductor.calls.pop() == ("get_node_steps", (node.uuid, flow), {})


def test_validation_tells_of_the_interfaces_that_the_field_tells_of(conf, sqlite, node):
    found = {"boot": {"result": True}, "power": {"result": False, "reason": "x"}, "vendor": {}}
    api = Api(conf, sqlite, Recording(validate_driver_interfaces=found))
    body = api.get("/v1/nodes/n1/validate").body
    assert body == {"boot": {"result": True}, "power": {"result": False, "reason": "x"}}


def test_who_holds_a_node_since_when_and_what_for_is_told(conf, sqlite, node):
    """F65."""
    api = Api(conf, sqlite, None)
    assert api.get("/v1/nodes/n1/runs").body["lock"] is None
    held, _ = locks.grant(sqlite, node.id, "conductor-1", "node deploy")
    lock = api.get("/v1/nodes/n1/runs").body["lock"]
    assert (lock["holder"], lock["purpose"]) == ("conductor-1", "node deploy")
    assert lock["since"].endswith("+00:00") and held.token not in str(lock)


def test_one_run_is_shown_with_its_plan_and_what_explains_it(api, sqlite, node):
    known = {"interface": "vendor", "step": "say", "args": {"word": "hunter2"}, "argsinfo": SECRET}
    uuid = run_of(sqlite, node, 1, states=("finished", "waiting"), owner="agent", plan=[known])
    run_of(sqlite, node, 2)
    answer = api.get(f"/v1/nodes/n1/runs/{uuid}")
    listed = api.get("/v1/nodes/n1/runs?plan=true").body["runs"][1]
    assert answer.body == {**listed, "node_uuid": node.uuid}
    assert answer.body["plan"][0]["args"] == {"word": "******"} and "hunter2" not in answer.text
    assert len(answer.body["attempts"]) == 2
    assert api.get(f"/v1/nodes/n1/runs/{uuid.upper()}").body == answer.body
    assert api.get(f"/v1/nodes/n1/runs/{uuid}", version=None).status == 200  # a path of ours
    assert api.get(f"/v1/nodes/{node.uuid}/runs/{uuid}", version=None).status == 200


def test_a_run_of_another_node_or_of_none_is_not_found(api, sqlite, node):
    other = nodes.insert(sqlite, {"driver": "x", "provision_state": "enroll"})
    foreign = run_of(sqlite, other, 99)
    for run in (foreign, "zzz", "0", "x" * 300):
        assert api.get(f"/v1/nodes/n1/runs/{run}").status == 404
    assert api.get(f"/v1/nodes/nobody/runs/{foreign}").status == 404
    assert api.get(f"/v1/nodes/{other.uuid}/runs/{foreign}?plan=true").status == 400
