"""What an adversary found in lists and plans of steps: offers, forbidding, pins, going on.

What was found in the running of flows is in ``test_found_in_flows``.
"""

from __future__ import annotations

from typing import Any

import pytest

from deploysteps import exceptions, states
from deploysteps.drivers import base
from deploysteps.steps import FLOWS
from tests import support
from tests.engine.test_found_in_flows import begun, ended, of_vendor, vendor
from tests.engine.test_old_way import DONE, New, Old, pinned
from tests.engine.test_old_way import Bare as WithoutDeploy
from tests.engine.test_plans import step, with_traits

MARK = "MARKERsecret123"
DEPLOY, CLEAN, SERVICE = FLOWS["deploy"], FLOWS["clean"], FLOWS["service"]


def wipe(task):
    return None


class Agent(support.Deploy):
    """Its machine's agent tells its steps once the machine is prepared, and runs them."""

    offers: list[dict[str, Any]]
    booted: bool
    ran: list[str]
    broken: set[str]
    """Steps of the agent that fail; "prepare": it does not even boot."""

    def prepare(self, task):
        if "prepare" in self.broken:
            raise RuntimeError("no network")
        type(self).booted = True

    def agent_steps(self, task, flow):
        return [dict(step) for step in self.offers] if self.booted else None

    def execute_deploy_step(self, task, step):
        if not step.get("agent"):
            return super().execute_deploy_step(task, step)
        self.ran.append(step["step"])
        if step["step"] in self.broken:
            raise RuntimeError("broken")
        return None


def agent(*offers: dict[str, Any], broken: str = "") -> type[Agent]:
    members = {"offers": list(offers), "booted": False, "ran": [], "broken": {broken}}
    return type("Agent", (Agent,), members)


def boots_again(deploy: type[Agent], *offers: dict[str, Any]) -> None:
    """Let the machine's next agent offer these, and nothing of it be broken."""
    deploy.offers, deploy.booted, deploy.broken = list(offers), False, set()
    deploy.ran.clear()


ONE, TWO = step("one", 90, "raid"), step("two", 80, "raid")


# --- what is left out, or never comes -----------------------------------------------------------


@pytest.mark.parametrize("flow", [CLEAN, SERVICE], ids=lambda flow: flow.name)
def test_a_request_whose_steps_are_all_forbidden_fails(sqlite, start, conf, flow):
    """F1, F7: it is no success to have done nothing of what somebody asked for."""
    conf.set_override(flow.forbidden, ["vendor.wipe"], group="conductor")
    service = start(sqlite, vendor=vendor(wipe))
    node = ended(sqlite, begun(service, flow, "wipe"))
    assert node.provision_state == flow.failed and "no steps" in node.last_error
    run = support.last_run(sqlite, node)
    assert [(s["step"], f"[conductor] {flow.forbidden}" in s["why"]) for s in run.left_out] == [
        ("wipe", True)
    ]


@pytest.mark.parametrize("flow", [DEPLOY, CLEAN], ids=lambda flow: flow.name)
def test_an_agent_that_never_told_its_steps_fails_the_run(sqlite, start, flow):
    """F1, F3: its steps are not left out because others ran."""

    class Deploy(support.Deploy):
        def agent_steps(self, task, flow):
            return None

    service = start(sqlite, vendor=vendor(wipe), deploy=Deploy)
    node = ended(sqlite, begun(service, flow))
    assert node.provision_state == flow.failed and "agent was to come" in node.last_error
    assert of_vendor(sqlite, node) == [("wipe", "success")]


def test_without_a_ramdisk_no_agent_comes_and_an_unknown_step_is_refused(sqlite, start):
    """F15: at the request, as where the node has no agent at all."""
    service = start(sqlite, deploy=agent())
    node = support.enrolled(service, provision_state=states.MANAGEABLE)
    with pytest.raises(exceptions.InvalidParameterValue, match=r"raid\.nope"):
        service.manager.do_node_clean(
            None, node.uuid, [{"interface": "raid", "step": "nope"}], disable_ramdisk=True
        )


OFF = step("deploy", 0, "deploy")
HOW = {
    "forbidden": {"forbidden_deploy_steps": ["deploy.deploy"]},
    "override": {"deploy_step_priority_override": ["deploy.deploy:0"]},
    "request": {},
    "template": {},
}


@pytest.mark.parametrize(
    ("how", "driver"),
    # An override of what is no step is refused at start.
    [(how, driver) for how in HOW for driver in (New, Old) if (how, driver) != ("override", Old)],
)
def test_under_a_pin_a_step_that_is_off_does_not_run(sqlite, start, conf, how, driver):
    """F7: forbidden or disabled, on every path; what the run says was left out, was."""
    DONE.clear()
    pinned(conf)
    for option, value in HOW[how].items():
        conf.set_override(option, value, group="conductor")
    service = start(sqlite, deploy=driver)
    wanted = None
    if how == "template":
        service.manager.create_deploy_template(None, {"name": "CUSTOM_OFF", "steps": [OFF]})
        node = with_traits(service, "CUSTOM_OFF")
    else:
        node, wanted = support.enrolled(service), [OFF] if how == "request" else None
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=wanted)
    node = ended(sqlite, node)
    assert node.provision_state == states.DEPLOYFAIL and "no steps" in node.last_error
    assert "deploy" not in DONE
    assert [s["step"] for s in support.last_run(sqlite, node).left_out] == ["deploy"]


def test_under_a_pin_neither_steps_nor_deploy_is_told_as_no_steps(sqlite, start, conf, caplog):
    """F1: not as an attribute that a class lacks, nor as a way that is deprecated."""
    pinned(conf)
    service = start(sqlite, deploy=WithoutDeploy)
    node = ended(sqlite, begun(service, DEPLOY))
    assert node.provision_state == states.DEPLOYFAIL and "no steps" in node.last_error
    assert "has no deploy steps" not in caplog.text


# --- what is offered ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "more",
    [
        {"skip": "x"},
        {"old_way": True},
        {"id": 5},
        {"unknown": True, "agent": False, "source": "request", "replaced": "x"},
        {"extra": float("nan")},
    ],
    ids=lambda more: next(iter(more)),
)
def test_what_is_the_engines_own_is_not_taken_from_an_offer(sqlite, start, more):
    """F1, F4: the step runs, whatever else its dict says."""
    deploy = agent(ONE | more, TWO | more)
    service = start(sqlite, deploy=deploy)
    node = ended(sqlite, begun(service, DEPLOY))
    assert (node.provision_state, node.last_error) == (states.ACTIVE, None)
    assert deploy.ran == ["one", "two"]
    plan = support.last_run(sqlite, node).plan
    assert len({entry["id"] for entry in plan}) == len(plan)
    assert [entry["source"] for entry in plan if entry.get("agent")] == ["agent", "agent"]


@pytest.mark.parametrize(
    "more",
    [
        {"timeout": "soon"},
        {"timeout": -1},
        {"timeout": 1e308},
        {"args": {"x": {1}}},
        {"argsinfo": [1]},
        {"argsinfo": {"a": 1}},
    ],
    ids=str,
)
def test_an_offer_that_makes_no_sense_is_refused_by_name(sqlite, start, more):
    """F1: it names class and step; it is no error of the engine."""
    deploy = agent(ONE, TWO | more)
    service = start(sqlite, deploy=deploy)
    node = ended(sqlite, begun(service, DEPLOY))
    assert node.provision_state == states.DEPLOYFAIL and deploy.ran == []
    assert "Agent.agent_steps(): step raid.two" in node.last_error
    assert "internal error" not in node.last_error


def test_a_drivers_list_is_checked_like_an_agents(sqlite, start):
    """F4: and a name of the engine's own is refused in it."""

    class Vendor(support.Vendor):
        def get_deploy_steps(self, task):
            return [{"interface": "power", "step": "power_off", "priority": 90}]

    service = start(sqlite, vendor=Vendor)
    node = ended(sqlite, begun(service, DEPLOY))
    assert node.provision_state == states.DEPLOYFAIL
    assert "power.power_off, which is the name of a reserved step" in node.last_error


@pytest.mark.parametrize("name", ["power.power_off", "deploy.hold", "deploy.wait"])
def test_an_agents_step_of_a_reserved_name_does_not_run_and_is_logged(sqlite, start, caplog, name):
    """F4: nor does the conductor's step of the name, which nobody asked for."""
    interface, reserved = name.split(".")
    deploy = agent(step(reserved, 90, interface), TWO)
    service = start(sqlite, deploy=deploy)
    node = ended(sqlite, begun(service, DEPLOY))
    assert node.provision_state == states.ACTIVE and deploy.ran == ["two"]
    assert [s for s, _, _ in support.outcomes(sqlite, node)] == ["deploy", "two"]
    assert f"Step {name}: the conductor's runs" in caplog.text


def test_an_agents_step_of_a_reserved_name_is_told_as_left_out(sqlite, start):
    """F4: by the run, as by the plan that is shown before it."""
    deploy = agent(step("hold", 90, "deploy"), TWO)
    deploy.booted = True
    service = start(sqlite, deploy=deploy)
    node = support.enrolled(service)
    shown = service.manager.get_node_plan(None, node.uuid)["left_out"]
    service.manager.do_node_deploy(None, node.uuid)
    ended(sqlite, node)
    left = support.last_run(sqlite, node).left_out
    assert [(s["interface"], s["step"], s["source"], s["priority"]) for s in left] == [
        ("deploy", "hold", "agent", 90)
    ]
    assert shown == left


def test_a_step_that_takes_the_list_away_fails_by_name(database, start):
    """F8, F72: as an inconsistent list, not as the database's complaint."""

    def takes(task):
        task.node.set_driver_internal_info("deploy_steps", None)
        task.node.save()

    service = start(database, vendor=vendor(takes, wipe))
    node = ended(database, begun(service, DEPLOY))
    assert node.provision_state == states.DEPLOYFAIL
    assert "vendor.takes failed: Inconsistent step state" in node.last_error
    assert of_vendor(database, node) == [("takes", "failed")]


def test_a_clean_plan_that_is_refused_after_an_undeployment_fails_the_cleaning(sqlite, start):
    """F15, F79: the instance is gone and forgotten, and the reason is the plan's."""

    class Vendor(support.Vendor):
        @base.clean_step(priority=10, argsinfo={"x": {"description": "x", "required": True}})
        def needs(self, task, x):
            return None

    service = start(sqlite, vendor=Vendor)
    node = support.enrolled(
        service,
        provision_state=states.ACTIVE,
        instance_info={"image": "x"},
        instance_uuid="3cbe43c9-06d1-4f3e-8b0a-0e7c1cf5d6aa",
    )
    service.manager.do_node_tear_down(None, node.uuid)
    node = ended(sqlite, node)
    assert (node.provision_state, node.instance_uuid) == (states.CLEANFAIL, None)
    assert node.instance_info == {}
    assert node.last_error == "vendor.needs: missing required argument 'x'"


# --- going on from where it failed --------------------------------------------------------------


@pytest.mark.parametrize(
    ("offers", "words"),
    [
        ([ONE], ["raid.two is gone"]),
        ([TWO], ["raid.one is gone"]),
        (
            [step("wipe", 95, "raid"), ONE, TWO | {"priority": 70}],
            ["raid.wipe is new", "raid.two has another priority"],
        ),
    ],
    ids=["without the failed step", "without one that was done", "another plan"],
)
def test_a_resumed_plan_is_compared_once_the_agent_has_told_its_steps(sqlite, start, offers, words):
    """F8, F74: another one fails with the difference, before any step."""
    deploy = agent(ONE, TWO, broken="two")
    service = start(sqlite, deploy=deploy)
    node = ended(sqlite, begun(service, DEPLOY))
    assert deploy.ran == ["one", "two"]
    boots_again(deploy, *offers)
    service.manager.do_node_deploy(None, node.uuid, resume="at")
    node = ended(sqlite, node)
    assert node.provision_state == states.DEPLOYFAIL and deploy.ran == []
    for word in words:
        assert word in node.last_error


def test_a_run_that_failed_in_prepare_goes_on_with_steps_that_only_the_agent_knows(sqlite, start):
    """What was not known yet is no difference."""
    deploy = agent(ONE, broken="prepare")
    service = start(sqlite, deploy=deploy)
    node = support.enrolled(service)
    wanted = [step("two", 80, "raid")]
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=wanted)
    assert ended(sqlite, node).provision_state == states.DEPLOYFAIL
    boots_again(deploy, ONE, TWO)
    service.manager.do_node_deploy(None, node.uuid, resume="at")
    node = ended(sqlite, node)
    assert (node.provision_state, node.last_error) == (states.ACTIVE, None)
    assert deploy.ran == ["one", "two"]


class Exits(Exception):
    def __str__(self):
        raise SystemExit(1)


@pytest.mark.parametrize("kind", ["secret", "exits"])
def test_what_a_driver_raises_while_a_resume_is_compared_is_shown_masked(sqlite, start, kind):
    """F15, F64, F76: a refusal that tells no secret, whatever the exception does."""
    raises = False

    class Vendor(vendor(lambda task: 1 / 0)):  # type: ignore[misc]
        def get_deploy_steps(self, task):
            if raises and kind == "exits":
                raise Exits
            if raises:
                raise RuntimeError(f"no login with {task.node.driver_info['bmc_password']}")
            return super().get_deploy_steps(task)

    service = start(sqlite, vendor=Vendor)
    node = ended(sqlite, begun(service, DEPLOY, driver_info={"bmc_password": MARK}))
    raises = True
    with pytest.raises(exceptions.InvalidParameterValue, match="steps cannot be collected") as told:
        service.manager.do_node_deploy(None, node.uuid, resume="at")
    assert MARK not in str(told.value)
    assert ("Exits" if kind == "exits" else "no login with ******") in str(told.value)


def test_a_run_that_an_undeployment_ended_is_none_to_go_on_with(sqlite, start):
    """§4: from a failed deployment only; the machine is half torn down."""

    class Deploy(support.Deploy):
        def tear_down(self, task):
            raise RuntimeError("half torn down")

    def waits(task):
        return states.wait(states.DEPLOYWAIT, callback=True)

    service = start(sqlite, vendor=vendor(waits), deploy=Deploy)
    node = begun(service, DEPLOY)
    support.settle(sqlite, node.uuid, states.DEPLOYWAIT)
    service.manager.do_node_tear_down(None, node.uuid)
    support.settle(sqlite, node.uuid, states.ERROR)
    with pytest.raises(exceptions.InvalidParameterValue, match="no failed deploy"):
        service.manager.do_node_deploy(None, node.uuid, rebuild=True, resume="at")


def test_why_a_step_was_skipped_stays_told_over_further_resumes(sqlite, start):
    """F7: a step that never succeeded is not called done."""
    broken = {"second", "third"}

    def first(task):
        return None

    def second(task):
        if "second" in broken:
            raise RuntimeError("broken")

    def third(task):
        if "third" in broken:
            raise RuntimeError("broken")

    service = start(sqlite, vendor=vendor(first, second, third))
    node = ended(sqlite, begun(service, DEPLOY))
    failed_in = support.last_run(sqlite, node).uuid
    service.manager.do_node_deploy(None, node.uuid, resume="after")
    assert "vendor.third failed" in ended(sqlite, node).last_error
    broken.clear()
    service.manager.do_node_deploy(None, node.uuid, resume="at")
    assert ended(sqlite, node).provision_state == states.ACTIVE
    skipped = {e["step"]: e.get("skip") for e in support.last_run(sqlite, node).plan}
    assert skipped["second"] == f"skipped on request; it failed in run {failed_in}"
    assert "done before" in skipped["first"] and skipped["third"] is None
