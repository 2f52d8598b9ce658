"""Rules of single steps, wherever a request names them, and who a run is by (issue 4, 3; F12)."""

from __future__ import annotations

import pytest
from falcon import testing

from deploysteps import states
from deploysteps.api.app import create_app
from deploysteps.db import nodes, runbooks, runs, templates
from deploysteps.drivers import base
from tests import support
from tests.support_access import OWNER, keystone, token
from tests.support_api import Answer

RULE = "baremetal:step:execute:vendor.wipe"


class Vendor(support.Vendor):
    """Two steps that do nothing; one of them is not for everybody."""

    @base.deploy_step(priority=0)
    @base.clean_step(priority=0)
    @base.service_step(priority=0)
    def wipe(self, task):
        """Wipe."""

    @base.deploy_step(priority=0)
    @base.clean_step(priority=0)
    @base.service_step(priority=0)
    def mend(self, task):
        """Mend."""


@pytest.fixture
def policy(conf, tmp_path):
    path = tmp_path / "policy.yaml"
    path.write_text(f'"{RULE}": "role:admin and system_scope:all"\n')
    conf.set_override("policy_file", str(path), group="oslo_policy")
    return path


@pytest.fixture
def ask(conf, start, sqlite, policy):
    """Ask for another provision state of the one node, as an admin of the project that owns it."""
    service = start(sqlite, vendor=Vendor)
    node = support.enrolled(service, name="n1", owner=OWNER)
    client = testing.TestClient(create_app(conf, sqlite, service.client, keystone(conf)))

    def asked(body, path="/v1/nodes/n1/states/provision", method="PUT", who=("owner", "admin")):
        headers = {"X-OpenStack-Ironic-API-Version": "latest", **token(*who)}
        return Answer(client.simulate_request(method, path, json=body, headers=headers))

    asked.node, asked.service = node, service
    return asked


def step(name, **more):
    return {"interface": "vendor", "step": name, "args": {}, **more}


def in_state(ask, state):
    nodes.set_unlocked(ask.service.database, ask.node.id, {"provision_state": state})


def refused(ask, body, source):
    answer = ask(body)
    assert answer.status == 403, answer
    assert f"vendor.wipe ({source})" in answer.fault and RULE in answer.fault
    node = nodes.get(ask.service.database, ask.node.id)
    assert node.reservation is None and node.provision_state != states.DEPLOYING
    assert not runs.of_node(ask.service.database, node.id)


def test_a_step_is_refused_that_a_request_names(ask):
    body = {"target": "active", "deploy_steps": [step("wipe", priority=10)]}
    refused(ask, body, "request")
    in_state(ask, states.MANAGEABLE)
    refused(ask, {"target": "clean", "clean_steps": [step("mend"), step("wipe")]}, "request")
    in_state(ask, states.ACTIVE)
    refused(ask, {"target": "service", "service_steps": [step("wipe")]}, "request")


def test_a_step_is_refused_that_a_runbook_brings(ask):
    """F12: no way around the rule."""
    database = ask.service.database
    book = {"name": "CUSTOM_R", "steps": [step("wipe", order=1)], "extra": {}, "public": True}
    runbooks.insert(database, book)
    ask.service.manager.update_node_traits(None, ask.node.uuid, replace=["CUSTOM_R"])
    in_state(ask, states.MANAGEABLE)
    refused(ask, {"target": "clean", "runbook": "CUSTOM_R"}, "runbook CUSTOM_R")


def test_a_step_is_refused_that_a_deploy_template_brings(ask):
    database = ask.service.database
    values = {"name": "CUSTOM_T", "steps": [step("wipe", priority=5)], "extra": {}}
    templates.insert(database, values)
    ask.service.manager.update_node_traits(None, ask.node.uuid, replace=["CUSTOM_T"])
    ask.service.manager.update_node(
        None, ask.node.uuid, {"instance_info": {"traits": ["CUSTOM_T"]}}
    )
    refused(ask, {"target": "active"}, "template CUSTOM_T")


def test_a_plan_tells_the_refusal(ask):
    plan = ask({"deploy_steps": [step("wipe", priority=10)]}, "/v1/nodes/n1/plan", "POST").body
    assert "You may not run the step vendor.wipe (request)" in plan["problem"]


def test_who_may_runs_it_and_is_told_with_the_run(ask):
    body = {"target": "active", "deploy_steps": [step("wipe", priority=10)]}
    assert ask(body, who=("system", "admin")).status == 202
    support.settle(ask.service.database, "n1", states.ACTIVE)
    (run,) = runs.of_node(ask.service.database, ask.node.id)
    assert run.requested_by == "admin-of-system"
    shown = ask(None, "/v1/nodes/n1/runs", "GET").body["runs"]
    assert shown[0]["requested_by"] == "admin-of-system"


def test_other_steps_are_for_all_who_may_set_the_state(ask):
    body = {"target": "active", "deploy_steps": [step("mend", priority=10)]}
    assert ask(body).status == 202
    support.settle(ask.service.database, "n1", states.ACTIVE)
    told = ask(None, "/v1/nodes/n1/history?detail=True", "GET").body["history"]
    assert told and {entry["user"] for entry in told} <= {"admin-of-owner", None}
    assert "admin-of-owner" in {entry["user"] for entry in told}


def test_what_has_no_rule_of_its_own_has_that_of_all_steps(ask, policy):
    policy.write_text('"baremetal:step:execute": "!"\n')
    ask.service.runtime.rules._looked = 0.0
    body = {"target": "active", "deploy_steps": [step("mend", priority=10)]}
    answer = ask(body)
    assert answer.status == 403 and "vendor.mend" in answer.fault
    assert ask({"target": "active"}).status == 202, "the driver's own steps are nobody's wish"
