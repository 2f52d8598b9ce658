"""What sets a node in motion: what is accepted, and what reaches the conductor."""

from __future__ import annotations

import pytest

from deploysteps.db import nodes
from deploysteps.steps import INTERFACE_TYPES, MAX_PRIORITY

PATH = "/v1/nodes/n1/states/provision"
STEP = {"interface": "bios", "step": "apply", "args": {"a": 1}, "priority": 5}


@pytest.fixture(autouse=True)
def _node(node):
    return node


def asked(api, conductor, body, **more):
    conductor.calls.clear()
    answer = api.put(PATH, body, **more)
    assert answer.status == 202, answer
    assert (answer.text, len(conductor.calls)) == ("", 1)
    assert answer.headers["location"].endswith("/v1/nodes/n1/states")
    return conductor.calls[0]


@pytest.mark.parametrize(
    ("target", "verb", "args", "kwargs"),
    [
        ("active", "do_node_deploy", (), {"rebuild": False}),
        ("deploy", "do_node_deploy", (), {"rebuild": False}),
        ("rebuild", "do_node_deploy", (), {"rebuild": True}),
        ("deleted", "do_node_tear_down", (), {}),
        ("undeploy", "do_node_tear_down", (), {}),
        ("manage", "do_provisioning_action", ("manage",), {}),
        ("provide", "do_provisioning_action", ("provide",), {}),
        ("abort", "do_provisioning_action", ("abort",), {}),
        ("inspect", "do_provisioning_action", ("inspect",), {}),
        ("adopt", "do_provisioning_action", ("adopt",), {}),
        ("unrescue", "do_provisioning_action", ("unrescue",), {}),
    ],
)
def test_a_target_is_a_verb_of_the_conductor(api, conductor, node, target, verb, args, kwargs):
    name, given, named = asked(api, conductor, {"target": target})
    assert (name, given) == (verb, (node.uuid, *args))
    assert named.items() >= kwargs.items()
    if verb == "do_node_deploy":
        assert (named["configdrive"], named["deploy_steps"]) == (None, None)


def test_steps_and_config_drive_arrive_as_they_were_sent(api, conductor):
    """F11."""
    drive = {"meta_data": {"h": "x"}, "user_data": "#!/bin/sh", "vendor_data": {}}
    steps = [STEP, {**STEP, "step": "other", "priority": "07"}]
    _, _, named = asked(
        api, conductor, {"target": "active", "deploy_steps": steps, "configdrive": drive}
    )
    assert named["configdrive"] == drive
    assert named["deploy_steps"] == [STEP, {**STEP, "step": "other", "priority": 7}]


def test_a_rescue_takes_its_password(api, conductor, node):
    name, given, _ = asked(api, conductor, {"target": "rescue", "rescue_password": "let me in"})
    assert (name, given) == ("do_node_rescue", (node.uuid, "let me in"))


@pytest.mark.parametrize("body", [{}, {"rescue_password": ""}, {"rescue_password": " \t"}])
def test_a_rescue_without_a_password_is_400(api, conductor, body):
    answer = api.put(PATH, {"target": "rescue", **body})
    assert answer.status == 400 and "rescue_password" in answer.fault
    assert conductor.calls == []


def test_a_password_that_is_kept_for_a_rescue_is_shown_to_nobody(api, sqlite, node):
    """F76, F78."""
    nodes.set_unlocked(sqlite, node.id, {"instance_info": {"rescue_password": "let me in"}})
    answer = api.get("/v1/nodes/n1")
    assert answer.body["instance_info"] == {"rescue_password": "******"}
    assert "let me in" not in answer.text


@pytest.mark.parametrize("interface", INTERFACE_TYPES)
def test_every_interface_may_have_steps(api, conductor, interface):
    asked(api, conductor, {"target": "active", "deploy_steps": [{**STEP, "interface": interface}]})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"interface": "xx"}, "[0].interface must be one of bios"),
        ({"interface": None}, "[0].interface"),
        ({"step": ""}, "[0].step must not be empty"),
        ({"step": 5}, "[0].step must be of type string"),
        ({"args": []}, "[0].args must be of type object"),
        ({"args": None}, "[0].args must be of type object"),
        ({"args": "hunter2"}, "[0].args must be of type object"),
        ({"priority": -1}, "[0].priority must be an integer from 0 to"),
        ({"priority": 1.5}, "[0].priority must be an integer"),
        ({"priority": True}, "[0].priority must be an integer"),
        ({"priority": None}, "[0].priority must be an integer"),
        ({"priority": "-1"}, "[0].priority must be an integer"),
        ({"priority": ""}, "[0].priority must be an integer"),
        ({"priority": "5\n"}, "[0].priority must be an integer"),
        ({"priority": "9" * 5000}, "[0].priority must be an integer"),
        ({"priority": MAX_PRIORITY + 1}, "[0].priority must be an integer"),
        ({"zzz": 1}, "('zzz' was unexpected) in [0]"),
    ],
)
def test_a_step_that_fails_its_schema_is_named(api, conductor, change, told):
    """F15, and F76: no value is told."""
    body = {"target": "active", "deploy_steps": [{**STEP, **change}]}
    answer = api.put(PATH, body)
    assert answer.status == 400
    assert told in answer.fault
    assert "hunter2" not in answer.fault
    assert conductor.calls == []


@pytest.mark.parametrize("missing", STEP)
def test_every_member_of_a_step_is_required(api, missing):
    step = {name: value for name, value in STEP.items() if name != missing}
    answer = api.put(PATH, {"target": "active", "deploy_steps": [STEP, step]})
    assert answer.status == 400
    assert f"'{missing}' is a required property in [1]" in answer.fault


def test_many_large_steps_are_taken(api, conductor):
    """F59: 200 steps with 10 KB of arguments each."""
    steps = [{**STEP, "step": f"s{n}", "args": {"a": "\U0001f600" * 2500}} for n in range(200)]
    assert len(
        asked(api, conductor, {"target": "active", "deploy_steps": steps})[2]["deploy_steps"]
    )


def test_deploy_steps_that_are_too_deep_or_no_list_are_4xx(api, conductor):
    """F14."""
    deep = b'{"target": "active", "deploy_steps": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert api.put(PATH, raw=deep).status == 400
    for wrong in ({}, "x", 5, [5], [[]]):
        assert api.put(PATH, {"target": "active", "deploy_steps": wrong}).status == 400
    assert conductor.calls == []


def test_an_empty_list_of_steps_is_ignored_at_any_version(api, conductor):
    body = {"target": "active", "deploy_steps": []}
    assert asked(api, conductor, body, version=68)[2]["deploy_steps"] is None
    assert api.put(PATH, {**body, "deploy_steps": [STEP]}, version=68).status == 406
    assert api.put(PATH, {**body, "deploy_steps": [STEP]}, version=69).status == 202


@pytest.mark.parametrize(
    ("target", "drive", "version", "status"),
    [
        ("active", "http://host/drive", 5, 202),
        ("rebuild", "x", 34, 400),
        ("rebuild", "x", 35, 202),
        ("active", {}, 55, 400),
        ("active", {}, 56, 202),
        ("active", {"vendor_data": {}}, 58, 400),
        ("active", {"vendor_data": {}}, 59, 202),
        ("active", {"zzz": 1}, 115, 400),
        ("active", {"meta_data": []}, 115, 400),
        ("active", 5, 115, 400),
        ("active", [], 115, 400),
    ],
)
def test_a_config_drive_that_is_wrong_or_newer_is_400(api, target, drive, version, status):
    body = {"target": target, "configdrive": drive}
    assert api.put(PATH, body, version=version).status == status


@pytest.mark.parametrize(
    "body",
    [
        {"target": "active", "clean_steps": [{"interface": "bios", "step": "x"}]},
        {"target": "manage", "deploy_steps": [STEP]},
        {"target": "deleted", "configdrive": "x"},
        {"target": "provide", "rescue_password": "x"},
        {"target": "active", "runbook": "x"},
        {"target": "abort", "service_steps": [{}]},
    ],
)
def test_a_member_with_the_wrong_target_names_both(api, conductor, body):
    answer = api.put(PATH, body)
    target, member = body["target"], list(body)[1]
    assert answer.status == 400
    assert f"'{member}'" in answer.fault and f"'{target}'" in answer.fault
    assert conductor.calls == []


@pytest.mark.parametrize(
    "body", [{}, {"target": None}, {"target": 5}, [], {"target": "active", "zzz": 1}]
)
def test_a_body_without_a_target_is_400(api, body):
    assert api.put(PATH, body).status == 400


def test_an_unknown_target_is_told_as_a_bad_transition(api, node):
    answer = api.put(PATH, {"target": "frobnicate"})
    assert answer.status == 400
    assert answer.fault == (
        f'The requested action "frobnicate" can not be performed on node "{node.uuid}" '
        'while it is in state "available".'
    )


# --- power and maintenance ----------------------------------------------------------------


def test_power(api, conductor, node):
    answer = api.put("/v1/nodes/n1/states/power", {"target": "soft power off", "timeout": 30})
    assert (answer.status, answer.text) == (202, "")
    assert answer.headers["location"].endswith("/v1/nodes/n1/states")
    assert conductor.calls == [
        ("change_node_power_state", (node.uuid, "soft power off"), {"timeout": 30})
    ]


@pytest.mark.parametrize(
    ("body", "version", "status"),
    [
        ({"target": "frobnicate"}, 115, 400),
        ({}, 115, 400),
        ({"target": "power on", "timeout": 0}, 115, 400),
        ({"target": "power on", "timeout": -1}, 115, 400),
        ({"target": "power on", "timeout": "x"}, 115, 400),
        ({"target": "power on", "timeout": 10**30}, 115, 400),
        ({"target": "power on", "timeout": True}, 115, 400),
        ({"target": "power on", "timeout": 5}, 26, 406),
        ({"target": "power on", "timeout": 5}, 27, 202),
        ({"target": "power on", "timeout": None}, 26, 202),
    ],
)
def test_mistakes_about_power(api, body, version, status):
    assert api.put("/v1/nodes/n1/states/power", body, version=version).status == status


def test_an_unknown_power_target_names_the_state(api, sqlite, node):
    nodes.set_unlocked(sqlite, node.id, {"power_state": "power on"})
    answer = api.put("/v1/nodes/n1/states/power", {"target": "frobnicate"})
    assert answer.fault.endswith('on node "n1" while it is in state "power on".')


def test_maintenance(api, conductor, node):
    for body in ({"reason": "because"}, None, {}):
        answer = api.put("/v1/nodes/n1/maintenance", body)
        assert (answer.status, answer.text) == (202, "")
        assert "location" not in answer.headers
    answer = api.delete("/v1/nodes/n1/maintenance")
    assert (answer.status, answer.text) == (202, "")
    assert [args for _, args, _ in conductor.calls] == [
        (node.uuid, True, "because"),
        (node.uuid, True, None),
        (node.uuid, True, None),
        (node.uuid, False, None),
    ]
    assert api.put("/v1/nodes/n1/maintenance", {"reason": 5}).status == 400
    assert api.put("/v1/nodes/n1/maintenance", {"zzz": 5}).status == 400
