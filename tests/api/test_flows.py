"""Cleaning, servicing, holding, going on: through the API, with a real conductor behind it."""

from __future__ import annotations

import threading
from typing import Any, ClassVar

import pytest

from deploysteps import exceptions, states
from deploysteps.db import nodes
from deploysteps.drivers import base
from tests import support
from tests.api.conftest import Vendor as Common
from tests.support_api import Api

PROVISION = "/v1/nodes/n1/states/provision"
MARK = "pLaNtEd-SeCrEt"
SAY = {"word": {"description": "what to say", "required": True, "secret": True}}


class Vendor(Common):
    """Steps of every flow; one fails until it is mended."""

    go = threading.Event()
    broken = True
    ran: ClassVar[list[str]] = []

    @base.deploy_step(priority=0)
    def wait_for_agent(self, task: Any) -> None:
        """Not here."""

    @base.deploy_step(priority=60)
    def first(self, task: Any) -> None:
        """Be done."""
        self.ran.append("first")

    @base.deploy_step(priority=0, argsinfo={"size": {"description": "d", "required": True}})
    @base.clean_step(priority=0, requires_ramdisk=False)
    @base.service_step(requires_ramdisk=False)
    def fragile(self, task: Any, size: int = 0) -> None:
        """Fail until it is mended."""
        self.ran.append("fragile")
        if type(self).broken:
            raise exceptions.DeployStepsException("it is broken")

    @base.deploy_step(priority=0, argsinfo=SAY)
    @base.clean_step(priority=10, requires_ramdisk=False, argsinfo={"word": {**SAY["word"],
                     "required": False}})  # fmt: skip
    @base.service_step(requires_ramdisk=False, argsinfo=SAY)
    def say(self, task: Any, word: str = "") -> None:
        """Say a secret."""
        self.ran.append("say")

    @base.clean_step(priority=0, abortable=True, requires_ramdisk=False)
    @base.service_step(abortable=True, requires_ramdisk=False)
    def linger(self, task: Any) -> states.Wait:
        """Go on elsewhere, for ever."""
        running = {states.CLEANING: states.CLEANWAIT, states.SERVICING: states.SERVICEWAIT}
        return states.wait(running[task.node.provision_state], callback=True)


@pytest.fixture
def service(start, sqlite):
    Vendor.go.clear()
    Vendor.broken = True
    Vendor.ran.clear()
    yield start(sqlite, vendor=Vendor)
    Vendor.go.set()


@pytest.fixture
def node(api):
    created = api.post("/v1/nodes", {"driver": "test-hardware", "name": "n1"}, version=10)
    assert created.status == 201
    port = {"address": "52:54:00:00:00:01", "node_uuid": created.body["uuid"]}
    assert api.post("/v1/ports", port).status == 201
    return created.body


@pytest.fixture
def ask(api, service, node):
    """Ask for a target and wait for a state."""

    def put(target: str, *wanted: str, **body: Any) -> dict[str, Any]:
        answer = api.put(PROVISION, {"target": target, **body})
        assert answer.status == 202, answer
        shown = api.get("/v1/nodes/n1").body
        if shown["provision_state"] not in wanted:
            # Clients stop waiting when they see no target: it is visible before the answer.
            assert shown["target_provision_state"] is not None
        support.settle(service.database, "n1", *wanted)
        return api.get("/v1/nodes/n1").body

    return put


def step(name: str, **more: Any) -> dict[str, Any]:
    interface, _, name = name.rpartition(".")
    return {"interface": interface or "vendor", "step": name, "args": {}, **more}


def last_run(api: Api) -> dict[str, Any]:
    found: dict[str, Any] = api.get("/v1/nodes/n1/runs").body["runs"][0]
    return found


def told(run: dict[str, Any]) -> list[tuple[str, str]]:
    return [(attempt["step"], attempt["outcome"]) for attempt in run["attempts"]]


def test_a_machine_through_every_flow(api, ask, service):
    ask("manage", states.MANAGEABLE)
    shown = ask("clean", states.MANAGEABLE, clean_steps=[step("say", args={"word": MARK})])
    assert (shown["clean_step"], shown["last_error"]) == (None, None)
    run = last_run(api)
    assert (run["flow"], run["outcome"]) == ("clean", "success")
    assert ("say", "success") in told(run)
    (layer,) = run["request"]["layers"]
    assert layer["steps"][0]["args"] == {"word": "******"}
    ask("provide", states.AVAILABLE)
    assert ("say", "success") in told(last_run(api))
    ask("active", states.ACTIVE)
    ask("service", states.ACTIVE, service_steps=[step("say", args={"word": MARK})])
    run = last_run(api)
    assert (run["flow"], run["outcome"], run["mechanism"]) == ("service", "success", "steps")
    shown = ask("deleted", states.AVAILABLE)
    assert last_run(api)["flow"] == "clean"
    assert [shown[f"{flow}_step"] for flow in ("deploy", "clean", "service")] == [None] * 3
    assert shown["driver_internal_info"] == {}
    for path in ("", "/runs", "/steps?flow=clean", "/steps?flow=clean&plan=true"):
        assert MARK not in api.get(f"/v1/nodes/n1{path}").text


@pytest.mark.parametrize(
    ("flow", "first", "before", "waits", "failed"),
    [
        ("clean", 7, states.MANAGEABLE, states.CLEANWAIT, states.CLEANFAIL),
        ("service", 87, states.ACTIVE, states.SERVICEWAIT, states.SERVICEFAIL),
    ],
)
def test_a_step_that_waits_is_shown_and_aborted(
    api, ask, service, flow, first, before, waits, failed
):
    """F84, and F69: aborting is told until it has happened."""
    ask("manage", states.MANAGEABLE)
    if before == states.ACTIVE:
        ask("provide", states.AVAILABLE)
        ask("active", states.ACTIVE)
    steps = [step("say", args={"word": MARK}), step("linger")]
    shown = ask(flow, waits, **{f"{flow}_steps": steps})
    assert shown[f"{flow}_step"]["step"] == "linger"
    info = shown["driver_internal_info"]
    assert [one["step"] for one in info[f"{flow}_steps"]] == ["say", "linger"]
    assert (info[f"{flow}_step_index"], MARK in str(shown)) == (1, False)
    for version in (first - 1, first, first + 1):
        path = f"/v1/nodes/{shown['uuid']}"
        assert (f"{flow}_step" in api.get(path, version=version).body) == (version >= first)
    run = last_run(api)
    assert (run["state"], run["attempts"][-1]["waits_for"]) == ("waiting", "callback")
    shown = ask("abort", failed)
    assert "vendor.linger" in shown["last_error"]
    run = last_run(api)
    assert (run["state"], run["outcome"]) == ("finished", "aborted")
    assert run["attempts"][-1]["waits_for"] is None
    assert api.put(PROVISION, {"target": "abort"}).status == 202
    assert api.put(PROVISION, {"target": "unhold"}).status == 400
    if flow == "clean":
        for target in ("provide", "abort"):
            assert api.put(PROVISION, {"target": target}).status in (400, 202)
        ask("manage", states.MANAGEABLE)


def test_aborting_is_told_until_it_has_happened(api, ask, service):
    answer = api.put(PROVISION, {"target": "active", "deploy_steps": [step("hang", priority=90)]})
    assert answer.status == 202
    support.until(lambda: (api.get("/v1/nodes/n1").body["deploy_step"] or {}).get("step") == "hang")
    assert api.put(PROVISION, {"target": "abort"}, version=110).status == 202
    assert last_run(api)["state"] == "aborting"
    Vendor.go.set()
    support.settle(service.database, "n1", states.DEPLOYFAIL)
    assert (last_run(api)["state"], last_run(api)["outcome"]) == ("finished", "aborted")


# --- hold -----------------------------------------------------------------------------------


def test_hold_and_unhold(api, ask, service):
    held = step("deploy.hold", priority=70)
    shown = ask("active", states.DEPLOYHOLD, deploy_steps=[held])
    assert (shown["deploy_step"]["step"], Vendor.ran) == ("hold", [])
    attempt = last_run(api)["attempts"][-1]
    assert (attempt["state"], attempt["waits_for"]) == ("waiting", "operator")
    for target in ("active", "manage", "provide", "service"):
        body = {"target": target} | (
            {"service_steps": [step("say")]} if target == "service" else {}
        )
        assert api.put(PROVISION, body).status == 400
    assert api.put(PROVISION, {"target": "unhold"}, version=84).status == 406
    ask("unhold", states.ACTIVE)
    assert Vendor.ran == ["first"]
    assert api.put(PROVISION, {"target": "unhold"}).status == 400


def test_abort_of_a_hold_needs_no_newer_version_than_abort(api, ask, service):
    uuid = ask("active", states.DEPLOYHOLD, deploy_steps=[step("deploy.hold", priority=70)])["uuid"]
    path = f"/v1/nodes/{uuid}/states/provision"
    assert api.put(path, {"target": "abort"}, version=12).status == 406
    assert api.put(path, {"target": "abort"}, version=13).status == 202
    support.settle(service.database, "n1", states.DEPLOYFAIL)


# --- going on -------------------------------------------------------------------------------


@pytest.fixture
def failed(ask):
    """A node whose deployment failed in its second step."""
    return ask(
        "active",
        states.DEPLOYFAIL,
        deploy_steps=[step("fragile", priority=50, args={"size": 1})],
    )


def test_a_deployment_goes_on_with_the_step_that_failed(api, ask, failed):
    assert Vendor.ran == ["first", "fragile"]
    assert failed["deploy_step"]["step"] == "fragile"
    before = last_run(api)
    Vendor.broken = False
    ask("active", states.ACTIVE, resume=True)
    assert Vendor.ran == ["first", "fragile", "fragile"]
    run = last_run(api)
    assert (run["resumes"], run["outcome"]) == (before["uuid"], "success")


def test_a_deployment_goes_on_after_the_step_that_failed(api, ask, failed):
    ask("active", states.ACTIVE, resume_after=True)
    assert Vendor.ran == ["first", "fragile"]
    assert last_run(api)["outcome"] == "success"


def test_a_new_deployment_begins_anew(api, ask, failed):
    ask("active", states.ACTIVE)
    assert Vendor.ran == ["first", "fragile", "first"]
    assert last_run(api)["resumes"] is None


def test_a_servicing_goes_on(api, ask, node):
    ask("active", states.ACTIVE)
    steps = [step("say", args={"word": "x"}), step("fragile")]
    ask("service", states.SERVICEFAIL, service_steps=steps)
    assert Vendor.ran == ["first", "say", "fragile"]
    Vendor.broken = False
    ask("service", states.ACTIVE, resume=True)
    assert Vendor.ran == ["first", "say", "fragile", "fragile"]


def test_there_is_nothing_to_go_on_with(api, node):
    for body in ({"target": "active", "resume": True}, {"target": "active", "resume_after": True},
                 {"target": "service", "resume": True}):  # fmt: skip
        answer = api.put(PROVISION, body)
        assert answer.status == 400, answer
    assert api.get("/v1/nodes/n1").body["provision_state"] == "available"


# --- traits, templates, runbooks ------------------------------------------------------------


def test_traits(api, node):
    path = "/v1/nodes/n1/traits"
    assert api.put(path, {"traits": ["CUSTOM_B", "HW_CPU_X86_VMX"]}).status == 204
    assert api.put(f"{path}/CUSTOM_A").status == 204
    assert api.put(f"{path}/CUSTOM_A").status == 204
    expected = ["CUSTOM_A", "CUSTOM_B", "HW_CPU_X86_VMX"]
    assert api.get(path).body == {"traits": expected}
    assert api.get("/v1/nodes/n1").body["traits"] == expected
    assert api.delete(f"{path}/CUSTOM_B").status == 204
    assert api.delete(f"{path}/CUSTOM_B").status == 404
    assert api.delete(path).status == 204
    assert api.get(path).body == {"traits": []}
    many = [f"CUSTOM_{number}" for number in range(50)]
    assert api.put(path, {"traits": many}).status == 204
    assert api.put(f"{path}/CUSTOM_50").status == 400
    assert len(api.get(path).body["traits"]) == 50


def test_a_deploy_template_adds_steps_by_the_instances_traits(api, ask, service):
    body = {"name": "CUSTOM_T", "steps": [step("fragile", priority=70, args={"size": 1})]}
    made = api.post("/v1/deploy_templates", body)
    assert made.status == 201, made
    assert api.get("/v1/deploy_templates/CUSTOM_T").body == made.body
    assert api.post("/v1/deploy_templates", body).status == 409
    assert api.put("/v1/nodes/n1/traits/CUSTOM_T").status == 204
    patch = [{"op": "add", "path": "/instance_info/traits", "value": ["CUSTOM_T"]}]
    assert api.patch("/v1/nodes/n1", patch).status == 200
    plan = api.get("/v1/nodes/n1/steps?flow=deploy&plan=true").body
    found = {one["step"]: one["source"] for one in plan["steps"]}
    assert (found["fragile"], found["first"]) == ("template CUSTOM_T", "driver")
    Vendor.broken = False
    ask("active", states.ACTIVE)
    assert Vendor.ran == ["fragile", "first"]
    patch = [{"op": "replace", "path": "/steps/0/priority", "value": 5}]
    assert api.patch("/v1/deploy_templates/CUSTOM_T", patch).body["steps"][0]["priority"] == 5
    assert api.delete("/v1/deploy_templates/CUSTOM_T").status == 204
    assert api.get("/v1/deploy_templates").body == {"deploy_templates": []}


def test_a_runbook_cleans_the_nodes_that_have_its_trait(api, ask):
    steps = [step("say", order=2, args={"word": MARK}), step("fragile", order=1)]
    made = api.post("/v1/runbooks", {"name": "CUSTOM_R", "steps": steps})
    assert made.status == 201, made
    assert MARK not in made.text
    ask("manage", states.MANAGEABLE)
    asked = {"target": "clean", "runbook": "CUSTOM_R"}
    answer = api.put(PROVISION, asked)
    assert answer.status == 400 and "CUSTOM_R" in answer.fault
    assert api.put("/v1/nodes/n1/traits/CUSTOM_R").status == 204
    plan = api.post("/v1/nodes/n1/plan", {"flow": "clean", "runbook": "CUSTOM_R"}).body
    assert [one["step"] for one in plan["steps"]] == ["fragile", "say"]
    assert {one["source"] for one in plan["steps"]} == {"runbook CUSTOM_R"}
    Vendor.broken = False
    ask("clean", states.MANAGEABLE, runbook="CUSTOM_R")
    assert Vendor.ran == ["fragile", "say"]
    run = last_run(api)
    assert run["request"]["runbook"] == "CUSTOM_R" and MARK not in str(run)


# --- plan -----------------------------------------------------------------------------------


def test_a_plan_changes_nothing(api, node):
    before = api.get("/v1/nodes/n1").body
    body = {"deploy_steps": [step("first", priority=5), step("bios.nobody_knows", priority=1)]}
    plan = api.post("/v1/nodes/n1/plan", body).body
    assert plan["problem"] is not None and "nobody_knows" in plan["problem"]
    body = {"deploy_steps": [step("first", priority=5), step("deploy.deploy", priority=0)]}
    plan = api.post("/v1/nodes/n1/plan", body).body
    assert plan["problem"] is None
    (entry,) = plan["steps"]
    assert (entry["step"], entry["source"]) == ("first", "request")
    assert entry["replaced"][0]["source"] == "driver"
    assert "deploy" in {one["step"] for one in plan["left_out"]}
    assert all(one["why"] for one in plan["left_out"])
    assert api.get("/v1/nodes/n1").body == before
    assert api.get("/v1/nodes/n1/runs").body["runs"] == []


@pytest.mark.parametrize("flow", ["deploy", "clean", "verify", "service"])
def test_steps_and_plan_of_every_flow(api, node, flow):
    for version in (1, 115):
        path = f"/v1/nodes/{node['uuid']}/steps?flow={flow}"
        steps = api.get(path, version=version)
        assert steps.status == 200 and all(s["flow"] == flow for s in steps.body["steps"])
        plan = api.get(f"{path}&plan=true", version=version)
        assert plan.status == 200 and plan.body["flow"] == flow


# --- the lock -------------------------------------------------------------------------------


def test_a_lock_is_broken(api, ask, service):
    """F65: whoever held it cannot write any more."""
    assert 400 <= api.delete("/v1/nodes/n1/lock").status < 500
    answer = api.put(PROVISION, {"target": "active", "deploy_steps": [step("hang", priority=90)]})
    assert answer.status == 202
    support.until(lambda: (api.get("/v1/nodes/n1").body["deploy_step"] or {}).get("step") == "hang")
    lock = api.get("/v1/nodes/n1/runs").body["lock"]
    assert lock["holder"] == "conductor-1"
    answer = api("DELETE", "/v1/nodes/n1/lock", {"reason": "it hangs"})
    assert (answer.status, answer.text) == (204, "")
    support.settle(service.database, "n1", states.DEPLOYFAIL)
    Vendor.go.set()
    found = nodes.get(service.database, "n1")
    history = [entry.event for entry in nodes.history_of(service.database, found.id)]
    assert any("it hangs" in event for event in history)
    assert api.get("/v1/nodes/n1").body["provision_state"] == "deploy failed"


# --- mistakes -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "state"),
    [
        ({"target": "clean", "clean_steps": [step("say")]}, "available"),
        ({"target": "clean"}, "manageable"),
        ({"target": "clean", "clean_steps": [step("say", priority=1)]}, "manageable"),
        ({"target": "clean", "clean_steps": [step("say", args={"zzz": MARK})]}, "manageable"),
        ({"target": "service", "service_steps": [step("say")]}, "active"),
        ({"target": "service", "service_steps": [step("say")]}, "available"),
        ({"target": "clean", "runbook": "CUSTOM_NONE"}, "manageable"),
        ({"target": "unhold"}, "active"),
        ({"target": "abort"}, "active"),
        ({"target": "active", "resume": True}, "active"),
        ({"target": "active", "deploy_steps": [step("fragile", priority=1)]}, "available"),
    ],
)
def test_a_mistake_is_400_and_changes_nothing(api, service, node, body, state):
    """F15, F76."""
    nodes.set_unlocked(service.database, _id(service), {"provision_state": state})
    before = api.get("/v1/nodes/n1").body
    answer = api.put(PROVISION, body)
    assert answer.status == 400, answer
    assert MARK not in answer.text
    after = api.get("/v1/nodes/n1").body
    assert {**after, "updated_at": None} == {**before, "updated_at": None}
    assert api.get("/v1/nodes/n1/runs").body["runs"] == []


def _id(service: Any) -> int:
    return nodes.get(service.database, "n1").id


def test_the_same_mistake_is_told_alike_wherever_it_stands(api, service, node):
    """F12: in a request, in a template and in a runbook."""
    wrong = step("fragile", args={"size": 1, "zzz": MARK})
    told = [
        api.put(PROVISION, {"target": "active", "deploy_steps": [{**wrong, "priority": 1}]}),
        api.post("/v1/nodes/n1/plan", {"deploy_steps": [{**wrong, "priority": 1}]}),
    ]
    assert told[0].status == 400 and "zzz" in told[0].fault and MARK not in told[0].text
    assert told[1].body["problem"] == told[0].fault


# --- a pin ----------------------------------------------------------------------------------


def test_pinned_to_a_release_without_steps(conf, api, service, node):
    """Steps that the old way would leave out are refused by name, and no client sees 1.44."""
    conf.set_override("pin_release_version", "0.0")
    pinned = Api(conf, service.database, service.client)
    answer = pinned.put(PROVISION, {"target": "active"}, version=43)
    assert answer.status == 400 and "vendor.first" in answer.fault, answer
    assert pinned.get("/v1/nodes/n1", version=44).status == 406
    shown = pinned.get("/v1/nodes/n1", version=43).body
    assert shown["provision_state"] == "available" and "deploy_step" not in shown
    plan = pinned.get(f"/v1/nodes/{node['uuid']}/steps?plan=true", version=1).body
    assert "vendor.first" in plan["problem"]
