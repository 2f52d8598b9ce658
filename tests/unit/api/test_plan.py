"""The plan of a run that is not run, and the lock that is broken: ours, at every version."""

from __future__ import annotations

import pytest

from deploysteps.db import runbooks
from deploysteps.steps import FLOWS
from tests.support_api import Api, Recording

STEP = {"interface": "bios", "step": "apply", "args": {}}
ENTRY = {
    "interface": "vendor",
    "step": "say",
    "priority": 5,
    "source": "request",
    "args": {"word": "hunter2", "text": "x"},
    "argsinfo": {"word": {"description": "d", "secret": True}},
    "abortable": True,
    "repeatable": False,
    "replaced": [{"source": "driver", "priority": 1}],
}
PLAN = {
    "flow": "deploy",
    "steps": [ENTRY],
    "left_out": [
        {"interface": "bios", "step": "x", "priority": 0, "source": "driver", "why": "disabled"}
    ],
    "unknown": [],
    "agent_to_come": False,
    "note": None,
    "problem": None,
}
SHOWN = {**PLAN, "steps": [{**ENTRY, "args": {"word": "******", "text": "x"}}]}


@pytest.fixture
def conductor():
    return Recording(get_node_plan=PLAN, get_node_steps=[])


@pytest.fixture
def api(conf, sqlite, conductor, node):
    return Api(conf, sqlite, conductor)


def asked(conductor):
    ((verb, args, named),) = conductor.calls
    conductor.calls.clear()
    assert verb == "get_node_plan"
    return args[1:], {name: value for name, value in named.items() if value is not None}


@pytest.mark.parametrize("version", [None, 1, 115])
@pytest.mark.parametrize("flow", FLOWS)
def test_a_plan_is_told_without_its_secrets(api, conductor, node, flow, version):
    """F77."""
    answer = api.get(f"/v1/nodes/{node.uuid}/steps?flow={flow}&plan=true", version=version)
    assert (answer.status, answer.body) == (200, SHOWN)
    assert asked(conductor) == ((flow,), {})
    answer = api.post(f"/v1/nodes/{node.uuid}/plan", {"flow": flow}, version=version)
    assert (answer.status, answer.body) == (200, SHOWN)
    assert asked(conductor) == ((flow,), {})
    assert "hunter2" not in answer.text


def test_a_plan_of_steps_that_are_asked_for(api, conductor, sqlite):
    book = runbooks.insert(sqlite, {"name": "CUSTOM_R", "steps": [{**STEP, "order": 1}]})
    for body, flow, named in (
        (None, "deploy", {}),
        ({"flow": None}, "deploy", {}),
        (
            {"deploy_steps": [{**STEP, "priority": "5"}]},
            "deploy",
            {"steps": [{**STEP, "priority": 5}]},
        ),
        (
            {"flow": "clean", "clean_steps": [STEP], "disable_ramdisk": True},
            "clean",
            {"steps": [STEP], "disable_ramdisk": True},
        ),
        ({"flow": "service", "runbook": "CUSTOM_R"}, "service", {"runbook": book.uuid}),
    ):
        assert api.post("/v1/nodes/n1/plan", body).status == 200
        assert asked(conductor) == ((flow,), named)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ([], "type object"),
        ({"flow": "rescue"}, "flow must be one of deploy, clean, verify, service"),
        ({"flow": 5}, "flow must be"),
        ({"zzz": 1}, "zzz"),
        ({"clean_steps": [STEP]}, "a plan of it takes 'deploy_steps'"),
        ({"flow": "service", "clean_steps": [STEP]}, "a plan of it takes 'service_steps'"),
        ({"flow": "verify", "deploy_steps": [STEP]}, "takes none"),
        ({"flow": "clean", "clean_steps": [{**STEP, "priority": 1}]}, "'priority'"),
        ({"deploy_steps": [STEP]}, "'priority' is a required property"),
        ({"runbook": "CUSTOM_R"}, "'runbook' is only valid with flow 'clean' or 'service'"),
        ({"disable_ramdisk": True}, "'disable_ramdisk' is only valid"),
        ({"flow": "clean", "runbook": "CUSTOM_X"}, "could not be found"),
        ({"flow": "clean", "runbook": "CUSTOM_X", "clean_steps": [STEP]}, "not both"),
    ],
)
def test_a_mistake_about_a_plan_is_400(api, conductor, body, told):
    """F15."""
    answer = api.post("/v1/nodes/n1/plan", body)
    assert answer.status == 400 and told in answer.fault
    assert conductor.calls == []


@pytest.mark.parametrize("query", ["flow=rescue", "flow=", "plan=maybe", "zzz=1", "flow=a&flow=b"])
def test_a_mistake_about_steps_is_400(api, conductor, query):
    status = api.get(f"/v1/nodes/n1/steps?{query}").status
    assert status == (200 if query == "flow=" else 400)


def test_of_a_node_that_is_not_there(api):
    assert api.get("/v1/nodes/nope/steps?plan=true").status == 404
    assert api.post("/v1/nodes/nope/plan").status == 404
    assert api.delete("/v1/nodes/nope/lock").status == 404


@pytest.mark.parametrize("version", [None, 1, 115])
@pytest.mark.parametrize(
    ("body", "reason"), [(None, None), ({}, None), ({"reason": "it hangs"}, "it hangs")]
)
def test_a_lock_is_broken_at_every_version(api, conductor, node, version, body, reason):
    """F65."""
    answer = api("DELETE", f"/v1/nodes/{node.uuid}/lock", body, version=version)
    assert (answer.status, answer.text) == (204, "")
    told = {"reason": reason, "since": None}
    assert conductor.calls == [("unlock_node", (node.uuid,), told)]


@pytest.mark.parametrize("body", [[], {"reason": 5}, {"zzz": 1}, {"reason": "\0"}, "x"])
def test_a_mistake_about_a_lock_is_400(api, conductor, body):
    assert api("DELETE", "/v1/nodes/n1/lock", body).status == 400
    assert api.delete("/v1/nodes/n1/lock?zzz=1").status == 400
    assert conductor.calls == []
