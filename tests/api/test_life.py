"""A node's life through the API, with a real conductor behind it."""

from __future__ import annotations

import pytest

from deploysteps import states
from deploysteps.api import versions
from tests import support
from tests.api.conftest import Vendor

URL = "http://192.0.2.1:9999"
PROVISION = "/v1/nodes/n1/states/provision"


@pytest.fixture
def node(api):
    created = api.post("/v1/nodes", {"driver": "test-hardware", "name": "n1"}, version=10)
    assert created.status == 201
    port = {"address": "52:54:00:00:00:01", "node_uuid": created.body["uuid"]}
    assert api.post("/v1/ports", port).status == 201
    return created.body


@pytest.fixture
def waiting(api, service, node):
    """The node, waiting for its agent."""
    assert api.put(PROVISION, {"target": "active"}).status == 202
    support.settle(service.database, "n1", states.DEPLOYWAIT)
    return node


def beat(api, token, **more):
    body = {"callback_url": URL, "agent_token": token, "agent_version": "13.0.0", **more}
    return api.post("/v1/heartbeat/n1", body)


def looked_up(api):
    answer = api.get("/v1/lookup?addresses=52:54:00:00:00:01", version=62)
    assert answer.status == 200, answer
    return answer.body["config"]["agent_token"]


def test_from_enroll_to_active_and_back(api, service):
    node = api.post("/v1/nodes", {"driver": "test-hardware", "name": "n1"}).body
    assert node["provision_state"] == "enroll"
    assert all(node[f"{kind}_interface"] == "test" for kind in versions.DRIVER_INTERFACES)
    api.post("/v1/ports", {"address": "52:54:00:00:00:01", "node_uuid": node["uuid"]})
    for target, state in (("manage", "manageable"), ("provide", "available")):
        assert api.put(PROVISION, {"target": target}).status == 202
        support.settle(service.database, "n1", state)

    answer = api.put(PROVISION, {"target": "active"})
    assert answer.status == 202
    # Clients stop waiting when they see no target: it is visible before the answer.
    shown = api.get("/v1/nodes/n1").body
    assert shown["target_provision_state"] == "active"
    support.settle(service.database, "n1", states.DEPLOYWAIT)
    shown = api.get("/v1/nodes/n1").body
    assert shown["deploy_step"]["step"] == "wait_for_agent"
    assert shown["driver_internal_info"]["deploy_step_index"] == 1
    assert "deploy_step" not in api.get("/v1/nodes/n1", version=43).body
    run, *before = api.get("/v1/nodes/n1/runs").body["runs"]
    assert (run["state"], run["flow"]) == ("waiting", "deploy")
    assert [(one["flow"], one["outcome"]) for one in before] == [
        ("clean", "success"),
        ("verify", "success"),
    ]

    token = looked_up(api)
    assert len(token) >= 32
    assert looked_up(api) == "******"
    assert beat(api, token).status == 202
    support.settle(service.database, "n1", states.ACTIVE)
    shown = api.get("/v1/nodes/n1").body
    assert shown["deploy_step"] is None
    assert shown["target_provision_state"] is None
    run = api.get("/v1/nodes/n1/runs").body["runs"][0]
    assert (run["state"], run["outcome"], run["error"]) == ("finished", "success", None)
    steps = [(a["interface"], a["step"], a["outcome"]) for a in run["attempts"]]
    assert ("vendor", "wait_for_agent", "success") in steps

    assert api.put(PROVISION, {"target": "deleted"}).status == 202
    support.settle(service.database, "n1", states.AVAILABLE)
    assert api.delete("/v1/nodes/n1").status == 204
    assert api.get("/v1/nodes/n1").status == 404


@pytest.mark.parametrize(
    ("method", "path", "body", "status"),
    [
        ("POST", "/v1/nodes", {"driver": "test-hardware", "name": "n1"}, 409),
        ("POST", "/v1/nodes", {"driver": "nope"}, 400),
        ("POST", "/v1/nodes", {"driver": "test-hardware", "deploy_interface": "nope"}, 400),
        ("POST", "/v1/ports", {"address": "52:54:00:00:00:01", "node_uuid": "{uuid}"}, 409),
        (
            "POST",
            "/v1/ports",
            {"address": "52:54:00:00:00:02", "node_uuid": "c2ab0b1e-1f7b-4c1e-9d7a-1a53d7b3f60a"},
            400,
        ),
        ("PUT", PROVISION, {"target": "provide"}, 400),
        ("PUT", PROVISION, {"target": "abort"}, 400),
        ("PUT", PROVISION, {"target": "rebuild"}, 400),
        ("PUT", PROVISION, {"target": "deleted"}, 400),
        ("PATCH", "/v1/nodes/n1", [{"op": "add", "path": "/protected", "value": "True"}], 409),
        ("PATCH", "/v1/nodes/n1", [{"op": "add", "path": "/driver", "value": "nope"}], 400),
        ("PATCH", "/v1/nodes/n1", [{"op": "add", "path": "/raid_interface", "value": "x"}], 400),
        ("GET", "/v1/drivers/nope/properties", None, 404),
        ("GET", "/v1/lookup?addresses=52:54:00:00:00:01", None, 404),
        ("POST", "/v1/heartbeat/n1", {"callback_url": URL, "agent_token": "x"}, 400),
        (
            "PUT",
            PROVISION,
            {
                "target": "active",
                "deploy_steps": [
                    {"interface": "deploy", "step": "deploy", "args": {}, "priority": 5}
                ],
            },
            400,
        ),
    ],
)
def test_a_mistake_is_4xx_and_changes_nothing(api, node, method, path, body, status):
    """F15; the statuses are those of the field."""
    if isinstance(body, dict) and body.get("node_uuid") == "{uuid}":
        body["node_uuid"] = node["uuid"]
    before = api.get("/v1/nodes/n1").body
    answer = api(method, path, body)
    assert answer.status == status, answer
    after = api.get("/v1/nodes/n1").body
    assert {**after, "updated_at": None} == {**before, "updated_at": None}


def test_what_is_refused_while_a_node_waits(api, service, waiting):
    patch = [{"op": "add", "path": "/extra/z", "value": 1}]
    assert api.patch("/v1/nodes/n1", patch).status == 409
    assert api.delete("/v1/nodes/n1").status == 409
    assert api.put(PROVISION, {"target": "active"}).status == 400


def test_what_is_refused_while_a_step_runs(api, service, node):
    """F21, F22, F61: locked is 409 for those who write, and nothing for those who read."""
    step = {"interface": "vendor", "step": "hang", "args": {}, "priority": 200}
    assert api.put(PROVISION, {"target": "active", "deploy_steps": [step]}).status == 202
    support.until(lambda: (api.get("/v1/nodes/n1").body["deploy_step"] or {}).get("step") == "hang")
    token = "x" * 43
    patch = [{"op": "add", "path": "/extra/z", "value": 1}]
    assert api.patch("/v1/nodes/n1", patch).status == 409
    assert api.put(PROVISION, {"target": "active"}).status == 409
    assert api.put("/v1/nodes/n1/states/power", {"target": "power on"}).status == 409
    assert beat(api, token).status in (400, 409)
    for path in ("", "/states", "/runs", "/steps", "/validate", "/ports"):
        assert api.get(f"/v1/nodes/n1{path}").status == 200
    assert api.put("/v1/nodes/n1/maintenance", {"reason": "r"}).status == 202
    assert api.get("/v1/nodes/n1").body["maintenance_reason"] == "r"
    assert api.get("/v1/nodes/n1").body["last_error"] is None
    Vendor.go.set()
    support.settle(service.database, "n1", states.DEPLOYWAIT)


def test_heartbeats_that_are_refused(api, waiting):
    """F29, F30."""
    token = looked_up(api)
    assert beat(api, "wrong").status == 400
    assert api.post("/v1/heartbeat/n1", {"callback_url": URL}).status == 400
    assert api.get("/v1/nodes/n1").body["provision_state"] == "wait call-back"
    assert beat(api, token).status == 202


def test_another_callback_url_is_refused(api, service, waiting):
    """F30: pinned for each boot."""
    token = looked_up(api)
    assert beat(api, token).status == 202
    support.settle(service.database, "n1", states.ACTIVE)
    answer = beat(api, token, callback_url="http://192.0.2.66:9999")
    assert answer.status == 400


def test_abort_of_a_wait(api, service, waiting):
    """F69, F70: a second one is 202 and changes nothing."""
    assert api.put(PROVISION, {"target": "abort"}, version=109).status == 406
    assert api.put(PROVISION, {"target": "abort"}, version=110).status == 202
    support.settle(service.database, "n1", states.DEPLOYFAIL)
    shown = api.get("/v1/nodes/n1").body
    assert "vendor.wait_for_agent" in shown["last_error"]
    assert shown["target_provision_state"] == "active"
    assert shown["deploy_step"]["step"] == "wait_for_agent"
    assert api.put(PROVISION, {"target": "abort"}, version=110).status == 202
    assert api.get("/v1/nodes/n1").body["last_error"] == shown["last_error"]
    (run,) = api.get("/v1/nodes/n1/runs").body["runs"]
    assert (run["state"], run["outcome"]) == ("finished", "aborted")


def test_a_secret_argument_is_told_nowhere(api, service, node):
    """F76, F77."""
    mark = "pLaNtEd-SeCrEt"
    step = {"interface": "vendor", "step": "say", "args": {"word": mark}, "priority": 200}
    assert api.put(PROVISION, {"target": "active", "deploy_steps": [step]}).status == 202
    support.settle(service.database, "n1", states.DEPLOYFAIL)
    shown = api.get("/v1/nodes/n1")
    assert "cannot say ******" in shown.body["last_error"]
    for path in ("", "/states", "/runs", "/steps"):
        assert mark not in api.get(f"/v1/nodes/n1{path}").text


def test_a_node_in_maintenance_is_not_deployed_but_can_be_deleted(api, service, node):
    """F26."""
    assert api.put("/v1/nodes/n1/maintenance", {"reason": "r"}).status == 202
    assert api.put(PROVISION, {"target": "active"}).status == 400
    patch = [{"op": "add", "path": "/maintenance", "value": "False"}]
    answer = api.patch("/v1/nodes/n1", patch)
    assert (answer.status, answer.body["maintenance"]) == (200, False)
    assert answer.body["maintenance_reason"] is None
    assert (
        api.patch("/v1/nodes/n1", [{"op": "add", "path": "/maintenance", "value": True}]).status
        == 200
    )
    assert api.delete("/v1/nodes/n1").status == 204


def test_an_answer_to_a_patch_is_what_a_get_tells(api, node):
    patch = [
        {"op": "add", "path": "/description", "value": "d"},
        {"op": "add", "path": "/driver_info/password", "value": "hunter2"},
        {"op": "add", "path": "/retired", "value": "True"},
    ]
    answer = api.patch("/v1/nodes/n1", patch)
    assert answer.status == 200, answer
    assert answer.body["driver_info"] == {"password": "******"}
    assert answer.body["retired"] is True
    assert {**answer.body, "updated_at": None} == {
        **api.get("/v1/nodes/n1").body,
        "updated_at": None,
    }


def test_power(api, service, node):
    assert api.put("/v1/nodes/n1/states/power", {"target": "power on"}).status == 202
    support.until(lambda: api.get("/v1/nodes/n1").body["power_state"] == "power on")
    assert api.get("/v1/nodes/n1/states").body["target_power_state"] is None


def test_ports_are_changed_and_removed(api, node):
    (port,) = api.get("/v1/ports").body["ports"]
    path = f"/v1/ports/{port['uuid']}"
    patch = [{"op": "add", "path": "/extra/a", "value": 1}]
    assert api.patch(path, patch).body["extra"] == {"a": 1}
    assert api.delete(path).status == 204
    assert api.get(path).status == 404


def test_what_a_conductor_offers(api):
    (driver,) = api.get("/v1/drivers").body["drivers"]
    assert (driver["name"], driver["hosts"]) == ("test-hardware", ["conductor-1"])
    assert api.get("/v1/drivers/test-hardware").body["default_deploy_interface"] == "test"
    assert isinstance(api.get("/v1/drivers/test-hardware/properties").body, dict)
    (conductor,) = api.get("/v1/conductors").body["conductors"]
    assert (conductor["hostname"], conductor["alive"]) == ("conductor-1", True)
    assert api.get("/v1/conductors/conductor-1").body["drivers"] == ["test-hardware"]


def test_steps_of_a_node(api, node):
    found = api.get(f"/v1/nodes/{node['uuid']}/steps", version=1).body["steps"]
    by_name = api.get("/v1/nodes/n1/steps", version=1)  # ours: the same at every version
    assert by_name.body["steps"] == found
    waiting = next(step for step in found if step["step"] == "wait_for_agent")
    assert waiting == {
        "interface": "vendor",
        "step": "wait_for_agent",
        "flow": "deploy",
        "priority": 50,
        "default_priority": 50,
        "argsinfo": None,
        "abortable": True,
        "repeatable": False,
        "source": "driver",
        "forbidden": False,
    }
