"""Cleaning, verifying and servicing: what starts them, what they run, where they end."""

from __future__ import annotations

from typing import Any

import pytest

from deploysteps import exceptions, states
from deploysteps.db import nodes, runs
from deploysteps.drivers import base, fake
from deploysteps.steps import CLEAN, VERIFY
from tests import support

DONE: list[tuple[str, str]] = []


@pytest.fixture(autouse=True)
def forgotten() -> None:
    DONE.clear()


def note(task: Any, step: str) -> None:
    DONE.append((task.node.provision_state, step))


class Steps(support.Vendor):
    """Steps of several flows; one method is a step of three."""

    @base.deploy_step(priority=30)
    @base.clean_step(priority=20)
    @base.service_step(priority=0)
    def shared(self, task):
        note(task, "shared")

    @base.clean_step(priority=30, argsinfo={"word": {"description": "w", "required": False}})
    def first(self, task, word=None):
        note(task, f"first {word}" if word else "first")

    @base.clean_step(priority=0)
    @base.service_step(priority=0, abortable=True)
    def waits(self, task):
        note(task, "waits")
        return base.wait_state(task)

    @base.clean_step(priority=0, requires_ramdisk=False)
    def without(self, task):
        note(task, "without")

    @base.verify_step(priority=10)
    def looks(self, task):
        note(task, "looks")
        if task.node.extra.get("broken"):
            raise exceptions.VerifyStepFailed("it does not look right")


class Deploy(support.Deploy):
    """Tells of what runs before and after the steps."""

    def get_clean_steps(self, task):
        return []

    def prepare_cleaning(self, task):
        note(task, "prepare")

    def tear_down_cleaning(self, task):
        note(task, "put away")
        if task.node.extra.get("stuck"):
            raise exceptions.DeployStepsException("the network is stuck")

    prepare_service, tear_down_service = prepare_cleaning, tear_down_cleaning


def step(name: str, **args: Any) -> dict[str, Any]:
    return {"interface": "vendor", "step": name, **({"args": args} if args else {})}


def test_provide_cleans_by_the_drivers_steps_and_priorities(database, start):
    """§1: automated cleaning; F5: a priority belongs to (step, flow)."""
    service = start(database, vendor=Steps, deploy=Deploy)
    node = support.enrolled(service, provision_state=states.MANAGEABLE)
    service.manager.do_provisioning_action(None, node.uuid, "provide")
    node = support.settle(database, node.uuid, states.AVAILABLE)
    assert [what for _, what in DONE] == ["prepare", "first", "shared", "put away"]
    assert {state for state, _ in DONE} == {states.CLEANING}
    run = support.last_run(database, node)
    assert (run.flow, run.outcome) == ("clean", "success")
    assert node.clean_step is None and node.target_provision_state is None


def test_a_cleaning_on_request_runs_its_steps_in_its_order_and_keeps_the_node(database, start):
    """§1, F11, F13: arguments arrive; no priority is needed; it ends in manageable."""
    service = start(database, vendor=Steps, deploy=Deploy)
    node = support.enrolled(service, provision_state=states.MANAGEABLE)
    asked = [step("shared"), step("first", word="hello"), step("shared")]
    service.manager.do_node_clean(None, node.uuid, asked)
    seen = nodes.get(database, node.uuid)
    assert seen.target_provision_state in (states.MANAGEABLE, None)
    support.settle(database, node.uuid, states.MANAGEABLE)
    assert [what for _, what in DONE] == ["prepare", "shared", "first hello", "shared", "put away"]


def test_a_cleaning_on_request_that_fails_is_left_by_manage(sqlite, start):
    """api-surface: a failed manual clean keeps its target; `manage` leads on."""

    class Bad(Steps):
        @base.clean_step(priority=0)
        def bad(self, task):
            raise exceptions.CleanStepFailed("no")

    service = start(sqlite, vendor=Bad, deploy=Deploy)
    node = support.enrolled(service, provision_state=states.MANAGEABLE)
    service.manager.do_node_clean(None, node.uuid, [step("bad")])
    node = support.settle(sqlite, node.uuid, states.CLEANFAIL)
    assert node.target_provision_state == states.MANAGEABLE
    assert node.clean_step["step"] == "bad" and "vendor.bad failed: no" in node.last_error
    assert [what for _, what in DONE] == ["prepare", "put away"]
    service.manager.do_provisioning_action(None, node.uuid, "manage")
    support.settle(sqlite, node.uuid, states.MANAGEABLE)


@pytest.mark.parametrize(
    "asked",
    [[], [{"interface": "vendor", "step": "nope"}], [step("first", nope=1)], [step("looks")]],
)
def test_a_cleaning_that_cannot_be_is_refused_and_nothing_changes(sqlite, start, asked):
    """F5, F10, F12."""
    service = start(sqlite, vendor=Steps, deploy=Deploy)
    node = support.enrolled(service, provision_state=states.MANAGEABLE)
    with pytest.raises(exceptions.InvalidParameterValue):
        service.manager.do_node_clean(None, node.uuid, asked)
    node = nodes.get(sqlite, node.uuid)
    assert node.provision_state == states.MANAGEABLE and node.reservation is None
    assert not runs.of_node(sqlite, node.id) and not DONE


def test_without_the_ramdisk_nothing_is_prepared_and_steps_that_need_it_are_refused(sqlite, start):
    service = start(sqlite, vendor=Steps, deploy=Deploy)
    node = support.enrolled(service, provision_state=states.MANAGEABLE)
    with pytest.raises(exceptions.InvalidParameterValue, match=r"vendor\.first needs the ramdisk"):
        service.manager.do_node_clean(None, node.uuid, [step("first")], disable_ramdisk=True)
    service.manager.do_node_clean(None, node.uuid, [step("without")], disable_ramdisk=True)
    support.settle(sqlite, node.uuid, states.MANAGEABLE)
    assert [what for _, what in DONE] == ["without"]


def test_a_node_without_clean_steps_becomes_available_and_its_history_says_so(sqlite, start, conf):
    """F1."""
    service = start(sqlite, vendor=support.Vendor, deploy=Deploy)
    node = support.enrolled(service, provision_state=states.MANAGEABLE)
    service.manager.do_provisioning_action(None, node.uuid, "provide")
    node = support.settle(sqlite, node.uuid, states.AVAILABLE)
    assert "no enabled clean step" in nodes.history_of(sqlite, node.id)[0].event
    conf.set_override("allow_empty_cleaning", False, group="conductor")
    node = support.enrolled(service, provision_state=states.MANAGEABLE)
    service.manager.do_provisioning_action(None, node.uuid, "provide")
    node = support.settle(sqlite, node.uuid, states.CLEANFAIL)
    assert "no steps" in node.last_error


@pytest.mark.parametrize(
    ("setting", "own", "cleans"),
    [(True, None, True), (False, None, False), (True, False, False), (False, True, True)],
)
def test_automated_cleaning_is_switched_by_the_node_and_else_by_the_setting(
    sqlite, start, conf, setting, own, cleans
):
    conf.set_override("automated_clean", setting, group="conductor")
    service = start(sqlite, vendor=Steps, deploy=Deploy)
    node = support.enrolled(service, provision_state=states.MANAGEABLE, automated_clean=own)
    service.manager.do_provisioning_action(None, node.uuid, "provide")
    node = support.settle(sqlite, node.uuid, states.AVAILABLE)
    assert bool(DONE) is cleans
    told = nodes.history_of(sqlite, node.id)[0].event
    assert ("automated_clean is off" in told) is not cleans


def test_putting_away_that_fails_fails_the_cleaning(sqlite, start):
    """F79."""
    service = start(sqlite, vendor=Steps, deploy=Deploy)
    node = support.enrolled(service, provision_state=states.MANAGEABLE, extra={"stuck": True})
    service.manager.do_provisioning_action(None, node.uuid, "provide")
    node = support.settle(sqlite, node.uuid, states.CLEANFAIL)
    assert "deploy.tear_down_cleaning failed: the network is stuck" in node.last_error


def test_manage_verifies_by_steps_and_learns_the_power_state(database, start):
    service = start(database, vendor=Steps, deploy=Deploy)
    node = support.enrolled(service, provision_state=states.ENROLL)
    service.manager.do_provisioning_action(None, node.uuid, "manage")
    node = support.settle(database, node.uuid, states.MANAGEABLE)
    assert DONE == [(states.VERIFYING, "looks")] and node.power_state == states.POWER_OFF
    run = support.last_run(database, node)
    assert (run.flow, run.outcome) == ("verify", "success")
    assert not set(VERIFY.keys) & set(node.driver_internal_info)


def test_a_verification_that_fails_returns_the_node_to_enroll_with_the_reason(database, start):
    service = start(database, vendor=Steps, deploy=Deploy)
    node = support.enrolled(service, provision_state=states.ENROLL, extra={"broken": True})
    service.manager.do_provisioning_action(None, node.uuid, "manage")
    node = support.settle(database, node.uuid, states.ENROLL)
    assert "vendor.looks failed: it does not look right" in node.last_error
    assert support.outcomes(database, node)[-1] == ("looks", 1, "failed")


def test_servicing_runs_the_steps_that_were_asked_for_and_returns_to_active(database, start):
    service = start(database, vendor=Steps, deploy=Deploy)
    node = support.enrolled(service, provision_state=states.ACTIVE)
    service.manager.do_node_service(None, node.uuid, [step("waits"), step("shared")])
    support.settle(database, node.uuid, states.SERVICEWAIT)
    support.beat(service, node, support.token(service, node))
    node = support.settle(database, node.uuid, states.ACTIVE)
    assert [what for _, what in DONE] == ["prepare", "waits", "shared", "put away"]
    assert node.service_step is None
    with pytest.raises(exceptions.MissingParameterValue):
        service.manager.do_node_service(None, node.uuid, [])


def test_undeploy_tears_down_cleans_and_forgets_the_instance(database, start):
    """§1: the instance's data leaves the node."""
    service = start(database, vendor=Steps, deploy=Deploy)
    node = support.enrolled(
        service,
        provision_state=states.ACTIVE,
        instance_info={"image_source": "http://x/"},
        instance_uuid="0a1b2c3d-0000-4000-8000-000000000001",
    )
    service.manager.do_node_tear_down(None, node.uuid)
    node = support.settle(database, node.uuid, states.AVAILABLE)
    assert node.instance_info == {} and node.instance_uuid is None
    assert [what for _, what in DONE] == ["prepare", "first", "shared", "put away"]
    assert node.target_provision_state is None


def test_prepare_may_wait_for_the_agent_and_may_be_aborted_meanwhile(database, start):
    class Booting(Deploy):
        def prepare_cleaning(self, task):
            note(task, "prepare")
            return states.CLEANWAIT

    service = start(database, vendor=Steps, deploy=Booting)
    node = support.enrolled(service, provision_state=states.MANAGEABLE)
    service.manager.do_provisioning_action(None, node.uuid, "provide")
    support.settle(database, node.uuid, states.CLEANWAIT)
    support.beat(service, node, support.token(service, node))
    node = support.settle(database, node.uuid, states.AVAILABLE)
    assert [what for _, what in DONE] == ["prepare", "first", "shared", "put away"]
    node = support.enrolled(service, provision_state=states.MANAGEABLE)
    service.manager.do_provisioning_action(None, node.uuid, "provide")
    support.settle(database, node.uuid, states.CLEANWAIT)
    service.manager.do_provisioning_action(None, node.uuid, "abort")
    node = support.settle(database, node.uuid, states.CLEANFAIL)
    assert "aborted" in node.last_error


def test_a_forbidden_step_is_skipped_everywhere_and_that_is_told(sqlite, start, conf):
    """F7."""
    conf.set_override("forbidden_clean_steps", ["vendor.first"], group="conductor")
    service = start(sqlite, vendor=Steps, deploy=Deploy)
    node = support.enrolled(service, provision_state=states.MANAGEABLE)
    service.manager.do_provisioning_action(None, node.uuid, "provide")
    node = support.settle(sqlite, node.uuid, states.AVAILABLE)
    assert [what for _, what in DONE] == ["prepare", "shared", "put away"]
    run = support.last_run(sqlite, node)
    assert [(s["step"], s["why"].split(":")[0]) for s in run.left_out] == [
        ("first", "skipped by policy")
    ]
    told = [entry.event for entry in nodes.history_of(sqlite, node.id)]
    assert any("skipped by policy" in text and "vendor.first" in text for text in told)
    DONE.clear()
    node = support.enrolled(service, provision_state=states.MANAGEABLE)
    service.manager.do_node_clean(None, node.uuid, [step("first"), step("shared")])
    node = support.settle(sqlite, node.uuid, states.MANAGEABLE)
    assert [what for _, what in DONE] == ["prepare", "shared", "put away"]
    assert support.last_run(sqlite, node).left_out[0]["step"] == "first"


@pytest.mark.parametrize(
    "option", ["clean_step_priority_override", "verify_step_priority_override"]
)
def test_priorities_of_every_flow_can_be_overridden(sqlite, start, conf, option):
    name, flow = ("first", CLEAN) if "clean" in option else ("looks", VERIFY)
    conf.set_override(option, [f"vendor.{name}:0"], group="conductor")
    service = start(sqlite, vendor=Steps, deploy=Deploy)
    at = states.MANAGEABLE if flow is CLEAN else states.ENROLL
    node = support.enrolled(service, provision_state=at)
    action = "provide" if flow is CLEAN else "manage"
    service.manager.do_provisioning_action(None, node.uuid, action)
    node = support.settle(sqlite, node.uuid, states.AVAILABLE, states.MANAGEABLE)
    assert name not in [what for _, what in DONE]
    assert f"disabled by {'configuration'}" in support.last_run(sqlite, node).left_out[0]["why"]


def test_deleting_a_node_puts_away_what_its_run_had_made_ready(database, start):
    """§1: deleting a node ends its run like any ending."""
    service = start(database, vendor=Steps, deploy=Deploy)
    node = support.enrolled(service, provision_state=states.MANAGEABLE)
    service.manager.do_node_clean(None, node.uuid, [step("waits")])
    support.settle(database, node.uuid, states.CLEANWAIT)
    service.manager.set_node_maintenance(None, node.uuid, True)
    service.manager.destroy_node(None, node.uuid)
    assert [what for _, what in DONE] == ["prepare", "waits", "put away"]
    with pytest.raises(exceptions.NodeNotFound):
        nodes.get(database, node.uuid)


@pytest.mark.parametrize("flow", ["deploy", "clean"])
def test_the_brakes_refuse_with_words(sqlite, start, conf, flow):
    conf.set_override(f"max_concurrent_{flow}", 1, group="conductor")
    service = start(sqlite, vendor=Steps, deploy=Deploy)
    waiting = {"deploy": states.DEPLOYWAIT, "clean": states.CLEANWAIT}[flow]
    support.enrolled(service, provision_state=waiting)
    node = support.enrolled(
        service, provision_state=states.AVAILABLE if flow == "deploy" else states.MANAGEABLE
    )
    with pytest.raises(exceptions.ConcurrentActionLimit, match=f"max_concurrent_{flow} allows 1"):
        if flow == "deploy":
            service.manager.do_node_deploy(None, node.uuid)
        else:
            service.manager.do_provisioning_action(None, node.uuid, "provide")
    assert nodes.get(sqlite, node.uuid).reservation is None


@pytest.mark.parametrize(
    ("flow", "fault"), [("clean", "clean failure"), ("service", "service failure")]
)
@pytest.mark.parametrize("when", ["in a step", "while it is prepared", "in maintenance", "aborted"])
def test_a_step_that_fails_sets_the_node_to_maintenance(sqlite, start, flow, fault, when):
    """As in the field: nobody knows how the machine is. An operator's maintenance stays his."""

    class Vendor(support.Vendor):
        def fails(self, task):
            if when == "aborted":
                return WAITS[flow]
            if when == "in maintenance":
                service.manager.set_node_maintenance(None, task.node.uuid, True, "a fan")
            raise RuntimeError("half wiped")

        breaks = getattr(base, f"{flow}_step")(priority=0, abortable=True)(fails)

    class Deploy(fake.FakeDeploy):
        def _prepare(self, task):
            if when == "while it is prepared":
                raise RuntimeError("no network")

        prepare_cleaning = prepare_service = _prepare

    service = start(sqlite, vendor=Vendor, deploy=Deploy)
    begins, ends = (
        (states.MANAGEABLE, states.CLEANFAIL)
        if flow == "clean"
        else (states.ACTIVE, states.SERVICEFAIL)
    )
    node = support.enrolled(service, provision_state=begins)
    verb = getattr(service.manager, f"do_node_{flow}")
    verb(None, node.uuid, [{"interface": "vendor", "step": "breaks"}])
    if when == "aborted":
        support.settle(sqlite, node.uuid, WAITS[flow])
        service.manager.do_provisioning_action(None, node.uuid, "abort")
    found = support.settle(sqlite, node.uuid, ends)
    told = (found.maintenance, found.fault, found.maintenance_reason)
    assert (
        told
        == {
            "in a step": (True, fault, found.last_error),
            "while it is prepared": (False, None, None),
            "in maintenance": (True, None, "a fan"),
            "aborted": (False, None, None),
        }[when]
    )


WAITS = {"clean": states.CLEANWAIT, "service": states.SERVICEWAIT}
