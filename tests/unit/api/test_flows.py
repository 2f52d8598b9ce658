"""Cleaning, servicing, going on with a failed run: what is accepted, and what reaches whom."""

from __future__ import annotations

import pytest

from deploysteps import reserved
from deploysteps.api import versions
from deploysteps.db import nodes, runbooks
from deploysteps.steps import INTERFACE_TYPES

PATH = "/v1/nodes/n1/states/provision"
STEP = {"interface": "bios", "step": "apply", "args": {"a": 1}}
FLOWS = {"clean": "do_node_clean", "service": "do_node_service"}
ORDERED = [pytest.param(target, f"{target}_steps", id=target) for target in FLOWS]


@pytest.fixture(autouse=True)
def _node(node):
    return node


@pytest.fixture
def runbook(sqlite):
    return runbooks.insert(sqlite, {"name": "CUSTOM_R", "steps": [{**STEP, "order": 1}]})


def asked(api, conductor, body, **more):
    """Return what a request that is accepted asks of the conductor."""
    conductor.calls.clear()
    answer = api.put(PATH, body, **more)
    assert (answer.status, answer.text) == (202, ""), answer
    assert answer.headers["location"].endswith("/v1/nodes/n1/states")
    ((verb, _, named),) = conductor.calls
    return verb, named


def refused(api, conductor, body, **more):
    """Return why a request is refused, of which the conductor hears nothing."""
    conductor.calls.clear()
    answer = api.put(PATH, body, **more)
    assert answer.status == 400, answer
    assert conductor.calls == []
    return answer.fault


@pytest.mark.parametrize(("target", "member"), ORDERED)
def test_steps_arrive_in_the_order_of_the_list(api, conductor, target, member):
    """F13: a priority means nothing there, so none is asked for."""
    steps = [STEP, {"interface": "raid", "step": "create"}]
    verb, named = asked(api, conductor, {"target": target, member: steps})
    assert verb == FLOWS[target]
    assert named[member] == [STEP, {"interface": "raid", "step": "create", "args": {}}]
    assert (named["disable_ramdisk"], named["runbook"]) == (None, None)


@pytest.mark.parametrize(("target", "member"), ORDERED)
def test_order_sorts_them(api, conductor, target, member):
    orders = {"a": 2, "b": "10", "c": 1}
    steps = [{**STEP, "step": name, "order": order} for name, order in orders.items()]
    _, named = asked(api, conductor, {"target": target, member: steps})
    assert [step["step"] for step in named[member]] == ["c", "a", "b"]
    assert all(set(step) == {"interface", "step", "args"} for step in named[member])
    told = refused(api, conductor, {"target": target, member: [*steps, STEP]})
    assert f"{member}: 'order' stands in some" in told


@pytest.mark.parametrize("interface", INTERFACE_TYPES)
@pytest.mark.parametrize(("target", "member"), ORDERED)
def test_every_interface_may_have_steps(api, conductor, target, member, interface):
    asked(api, conductor, {"target": target, member: [{**STEP, "interface": interface}]})


@pytest.mark.parametrize("name", reserved.RESERVED)
@pytest.mark.parametrize("interface", reserved.INTERFACES)
def test_reserved_steps_are_steps(api, conductor, interface, name):
    step = {"interface": interface, "step": name, "args": {}}
    for target, member in (("clean", "clean_steps"), ("service", "service_steps")):
        asked(api, conductor, {"target": target, member: [step]})
    asked(api, conductor, {"target": "active", "deploy_steps": [{**step, "priority": 5}]})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"priority": 5}, "('priority' was unexpected) in [0]"),
        ({"priority": 0}, "('priority' was unexpected) in [0]"),
        ({"interface": "xx"}, "[0].interface must be one of bios"),
        ({"interface": None}, "[0].interface"),
        ({"step": ""}, "[0].step must not be empty"),
        ({"step": 5}, "[0].step must be of type string"),
        ({"args": None}, "[0].args must be of type object"),
        ({"args": "hunter2"}, "[0].args must be of type object"),
        ({"order": -1}, "[0].order must be an integer from 0"),
        ({"order": "x"}, "[0].order must be an integer from 0"),
        ({"order": True}, "[0].order must be an integer from 0"),
        ({"order": 2**31}, "[0].order must be an integer from 0"),
        ({"zzz": 1}, "('zzz' was unexpected) in [0]"),
        ({"execute_on_child_nodes": "yes"}, "[0].execute_on_child_nodes must be of type boolean"),
        ({"execute_on_child_nodes": True}, "[0].execute_on_child_nodes is not supported"),
        ({"limit_child_node_execution": ["a"]}, "[0].limit_child_node_execution is not supported"),
        ({"limit_child_node_execution": "a"}, "[0].limit_child_node_execution must be of type"),
    ],
)
@pytest.mark.parametrize(("target", "member"), ORDERED)
def test_a_step_that_fails_its_schema_is_named(api, conductor, target, member, change, told):
    """F13, F15, and F76: no value is told."""
    fault = refused(api, conductor, {"target": target, member: [{**STEP, **change}]})
    assert told in fault and member in fault
    assert "hunter2" not in fault


@pytest.mark.parametrize("missing", ["interface", "step"])
@pytest.mark.parametrize(("target", "member"), ORDERED)
def test_interface_and_step_are_required(api, conductor, target, member, missing):
    """A missing interface was a 500 in the field."""
    step = {name: value for name, value in STEP.items() if name != missing}
    told = refused(api, conductor, {"target": target, member: [STEP, step]})
    assert f"'{missing}' is a required property in [1]" in told


@pytest.mark.parametrize(
    "change",
    [{"execute_on_child_nodes": False}, {"execute_on_child_nodes": None},
     {"limit_child_node_execution": []}, {"limit_child_node_execution": None}],
)  # fmt: skip
def test_members_about_child_nodes_may_say_nothing(api, conductor, change):
    _, named = asked(api, conductor, {"target": "clean", "clean_steps": [{**STEP, **change}]})
    assert named["clean_steps"] == [STEP]


@pytest.mark.parametrize(("target", "member"), ORDERED)
def test_something_to_do_is_required(api, conductor, runbook, target, member):
    for nothing in ({}, {member: []}, {member: None}, {"runbook": None}, {"runbook": ""}):
        told = refused(api, conductor, {"target": target, **nothing})
        assert f"'{target}' needs '{member}'" in told and "'runbook'" in told
    both = {"target": target, member: [STEP], "runbook": "CUSTOM_R"}
    assert "not both" in refused(api, conductor, both)
    for wrong in ({}, "x", 5, [5], [[]], True):
        refused(api, conductor, {"target": target, member: wrong})


@pytest.mark.parametrize("target", FLOWS)
def test_a_runbook_is_named_by_name_or_uuid(api, conductor, runbook, target):
    for ident in (runbook.name, runbook.uuid, runbook.uuid.upper()):
        body = {"target": target, "runbook": ident, "disable_ramdisk": "False"}
        _, named = asked(api, conductor, body)
        assert (named["runbook"], named[f"{target}_steps"]) == (runbook.uuid, None)
        assert named["disable_ramdisk"] is False


@pytest.mark.parametrize("ident", ["CUSTOM_X", "a b", "\0", "\ud800", "x" * 300, 5, ["x"], True])
def test_a_runbook_that_is_not_there_is_a_mistake_of_the_body(api, conductor, ident):
    refused(api, conductor, {"target": "clean", "runbook": ident})


@pytest.mark.parametrize("target", FLOWS)
def test_disable_ramdisk(api, conductor, target):
    for value, taken in ((True, True), (False, False), ("true", True), (None, None)):
        body = {"target": target, f"{target}_steps": [STEP], "disable_ramdisk": value}
        assert asked(api, conductor, body)[1]["disable_ramdisk"] is taken
    body["disable_ramdisk"] = "maybe"
    refused(api, conductor, body)


# --- resume ---------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [None, 1, 115])
@pytest.mark.parametrize(("member", "way"), [("resume", "at"), ("resume_after", "after")])
def test_a_failed_deployment_is_gone_on_with_at_every_version(
    api, conductor, node, member, way, version
):
    """Ours."""
    conductor.calls.clear()
    path = f"/v1/nodes/{node.uuid}/states/provision"
    answer = api.put(path, {"target": "active", member: True}, version=version)
    assert answer.status == 202
    ((verb, _, named),) = conductor.calls
    assert (verb, named["resume"]) == ("do_node_deploy", way)
    assert (named["deploy_steps"], named["configdrive"], named["rebuild"]) == (None, None, False)


@pytest.mark.parametrize(("member", "way"), [("resume", "at"), ("resume_after", "after")])
def test_a_failed_servicing_is_gone_on_with(api, conductor, member, way):
    verb, named = asked(api, conductor, {"target": "service", member: "true"})
    assert (verb, named["resume"]) == ("do_node_service", way)
    assert (named["service_steps"], named["runbook"]) == (None, None)


@pytest.mark.parametrize("nothing", [False, None])
def test_resume_that_says_nothing_is_a_new_run(api, conductor, nothing):
    """Without it a new deployment starts from the beginning, as the field expects."""
    body = {"target": "active", "resume": nothing, "resume_after": nothing}
    assert asked(api, conductor, body)[1]["resume"] is None
    body = {"target": "service", "service_steps": [STEP], "resume": nothing}
    assert asked(api, conductor, body)[1]["resume"] is None


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({"target": "active", "resume": True, "resume_after": True}, "'resume_after' cannot be"),
        ({"target": "active", "resume": True, "configdrive": "x"}, "'configdrive' cannot be"),
        (
            {"target": "active", "resume_after": True, "deploy_steps": [{**STEP, "priority": 1}]},
            "'deploy_steps' cannot be",
        ),
        ({"target": "service", "resume": True, "service_steps": [STEP]}, "'service_steps' cannot"),
        ({"target": "service", "resume": True, "runbook": "CUSTOM_R"}, "'runbook' cannot be"),
        ({"target": "rebuild", "resume": True}, "'resume' is only valid with target 'active'"),
        ({"target": "clean", "resume": True}, "not with 'clean'"),
        ({"target": "manage", "resume_after": True}, "not with 'manage'"),
        ({"target": "active", "resume": "maybe"}, "resume must be of type boolean"),
        ({"target": "active", "resume": 1}, "resume must be of type boolean"),
    ],
)
def test_what_does_not_go_with_resume(api, conductor, runbook, body, told):
    assert told in refused(api, conductor, body)


# --- unhold, abort --------------------------------------------------------------------------


@pytest.mark.parametrize(("version", "status"), [(84, 406), (85, 202), (86, 202)])
def test_unhold(api, conductor, version, status):
    assert api.put(PATH, {"target": "unhold"}, version=version).status == status
    expected = [("do_provisioning_action", ("unhold",))] if status == 202 else []
    assert [(verb, args[1:]) for verb, args, _ in conductor.calls] == expected


@pytest.mark.parametrize(
    ("state", "first"),
    [
        ("deploying", 110),
        ("wait call-back", 110),
        *((state, 13) for state in (
            "deploy hold", "cleaning", "clean wait", "clean hold", "servicing", "service wait",
            "service hold", "verifying",
        )),
    ],
)  # fmt: skip
def test_abort_in_every_state_of_a_run(api, sqlite, conductor, node, state, first):
    """F84. It came later to the states of a deployment that is not held."""
    nodes.set_unlocked(sqlite, node.id, {"provision_state": state})
    for version in (first - 1, first, first + 1):
        conductor.calls.clear()
        answer = api.put(PATH, {"target": "abort"}, version=version)
        assert answer.status == (202 if version >= first else 406)
        assert len(conductor.calls) == (version >= first)


@pytest.mark.parametrize("member", versions.PROVISION_MEMBERS)
@pytest.mark.parametrize("target", ["manage", "provide", "abort", "unhold", "deleted"])
def test_a_member_with_the_wrong_target_names_both(api, conductor, target, member):
    value = {"configdrive": "x", "rescue_password": "hunter2", "runbook": "x"}.get(
        member, [STEP] if member.endswith("_steps") else True
    )
    told = refused(api, conductor, {"target": target, member: value})
    assert f"'{member}'" in told and f"'{target}'" in told and "hunter2" not in told
    assert all(f"'{other}'" in told for other in versions.PROVISION_MEMBERS[member])
