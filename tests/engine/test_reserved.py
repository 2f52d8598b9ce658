"""Reserved steps, holds, reboots, callbacks, the field's flags, progress."""

from __future__ import annotations

import time
from typing import Any

import pytest

from deploysteps import exceptions, reserved, states
from deploysteps.conductor import reserved as handlers
from deploysteps.conductor import task_manager
from deploysteps.db import nodes
from deploysteps.drivers import base
from tests import support

DONE: list[str] = []


@pytest.fixture(autouse=True)
def forgotten() -> None:
    DONE.clear()


def step(name: str, interface: str = "vendor", priority: int = 50, **args: Any) -> dict[str, Any]:
    return {"interface": interface, "step": name, "priority": priority, "args": args}


class Steps(support.Vendor):
    """One method is a step of every flow that waits."""

    @base.deploy_step(priority=0)
    @base.clean_step(priority=0)
    @base.service_step(priority=0)
    def marks(self, task):
        DONE.append("marks")

    @base.deploy_step(priority=0)
    def callback(self, task):
        return states.wait(states.DEPLOYWAIT, callback=True)

    @base.deploy_step(priority=0)
    def polling_flag(self, task):
        task.node.set_driver_internal_info("deployment_polling", True)
        return states.DEPLOYWAIT

    @base.deploy_step(priority=0)
    def reboots(self, task):
        return states.wait(states.DEPLOYWAIT, reboot=True)

    @base.deploy_step(priority=0, retries=1, repeatable=True, retry_delay=60)
    def pauses(self, task):
        raise exceptions.DeployStepFailed("once")

    @base.deploy_step(priority=0)
    def entered_twice(self, task):
        DONE.append("entered")
        if DONE.count("entered") == 1:
            task.node.set_driver_internal_info("skip_current_deploy_step", False)
            return states.DEPLOYWAIT
        return None

    @base.deploy_step(priority=0)
    def tells(self, task):
        for percent in range(101):
            task.report_progress(percent, f"at {percent} with {task.node.driver_info['password']}")
        task.report_progress("much", "no number")

    @base.deploy_step(priority=0)
    def says_what_for(self, task):
        task.report_progress(None, "for the disks to spin down")
        return states.wait(states.DEPLOYWAIT, callback=True)

    @base.deploy_step(priority=0)
    def tells_and_waits(self, task):
        task.report_progress(40, "x" * 5000)
        return states.wait(states.DEPLOYWAIT, callback=True)


def test_the_registry_and_what_is_done_name_the_same_steps():
    """F6: one registry."""
    assert set(handlers._HANDLERS) == set(reserved.RESERVED)


def ask(service, flow, node, wanted):
    if flow == "deploy":
        service.manager.do_node_deploy(None, node.uuid, deploy_steps=wanted)
        return states.ACTIVE, states.DEPLOYHOLD
    wanted = [{k: v for k, v in one.items() if k != "priority"} for one in wanted]
    if flow == "clean":
        service.manager.do_node_clean(None, node.uuid, wanted)
        return states.MANAGEABLE, states.CLEANHOLD
    service.manager.do_node_service(None, node.uuid, wanted)
    return states.ACTIVE, states.SERVICEHOLD


AT = {"deploy": states.AVAILABLE, "clean": states.MANAGEABLE, "service": states.ACTIVE}


@pytest.mark.parametrize("interface", reserved.INTERFACES)
@pytest.mark.parametrize("name", reserved.RESERVED)
@pytest.mark.parametrize("flow", AT)
def test_a_reserved_step_passes_validation_stays_in_the_list_and_runs(
    sqlite, start, flow, name, interface
):
    """F6: each, under each interface, in each flow that waits."""
    service = start(sqlite, vendor=Steps)
    node = support.enrolled(service, provision_state=AT[flow])
    goal, hold = ask(service, flow, node, [step(name, interface), step("marks", priority=40)])
    if name == "hold":
        support.settle(sqlite, node.uuid, hold)
        assert "marks" not in DONE
        service.manager.do_provisioning_action(None, node.uuid, "unhold")
    if name == "wait":
        support.settle(sqlite, node.uuid, *states.WAIT_STATES)
        support.beat(service, node, support.token(service, node))
    node = support.settle(sqlite, node.uuid, goal)
    run = support.last_run(sqlite, node)
    assert name in [entry["step"] for entry in run.plan]
    assert (name, 1, "success") in support.outcomes(sqlite, node) and DONE == ["marks"]
    powers = {"power_on": states.POWER_ON, "reboot": states.POWER_ON, "power_off": "power off"}
    if name in powers:
        assert node.power_state == powers[name]


def test_a_wait_with_seconds_is_ended_by_the_clock_and_not_by_beats(database, start):
    service = start(database, vendor=Steps)
    node = support.enrolled(service)
    wanted = [step("wait", "deploy", seconds=600), step("marks", priority=40)]
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=wanted)
    support.settle(database, node.uuid, states.DEPLOYWAIT)
    token = support.token(service, node)
    for _ in range(3):
        support.beat(service, node, token)
    time.sleep(0.3)
    waits = support.attempts(database, node)[-1]
    assert waits.owner == "timer" and not DONE
    assert (waits.due_at - waits.waiting_since).total_seconds() == 600
    support.age(database, node, 600)
    support.settle(database, node.uuid, states.ACTIVE)
    assert DONE == ["marks"]


@pytest.mark.parametrize("args", [{"seconds": -1}, {"seconds": "x"}, {"minutes": 1}])
def test_arguments_of_a_reserved_step_are_checked(sqlite, start, args):
    service = start(sqlite, vendor=Steps)
    node = support.enrolled(service)
    with pytest.raises(exceptions.InvalidParameterValue, match=r"deploy\.wait"):
        service.manager.do_node_deploy(
            None, node.uuid, deploy_steps=[step("wait", "deploy", **args)]
        )


def test_a_hold_lasts_over_a_restart_ignores_beats_and_ends_by_abort_as_well(database, start):
    """§3, §4; F69, F70."""
    service = start(database, vendor=Steps)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=[step("hold", "deploy", 90)])
    support.settle(database, node.uuid, states.DEPLOYHOLD)
    token = support.token(service, node)
    service.stop(5)
    service = start(database, vendor=Steps)
    support.beat(service, node, token)
    held = support.settle(database, node.uuid, states.DEPLOYHOLD)
    assert held.deploy_step["step"] == "hold" and held.reservation is None
    service.manager.do_provisioning_action(None, node.uuid, "abort")
    service.manager.do_provisioning_action(None, node.uuid, "abort")
    node = support.settle(database, node.uuid, states.DEPLOYFAIL)
    assert "aborted" in node.last_error and node.deploy_step["step"] == "hold"
    with pytest.raises(exceptions.InvalidStateRequested):
        service.manager.do_provisioning_action(None, node.uuid, "unhold")


@pytest.mark.parametrize("name", ["callback", "polling_flag"])
def test_a_wait_that_the_driver_ends_is_not_ended_by_beats(database, start, name):
    """F17, F18."""
    service = start(database, vendor=Steps)
    node = support.enrolled(service)
    service.manager.do_node_deploy(
        None, node.uuid, deploy_steps=[step(name), step("marks", priority=40)]
    )
    support.settle(database, node.uuid, states.DEPLOYWAIT)
    token = support.token(service, node)
    for _ in range(5):
        support.beat(service, node, token)
    time.sleep(0.3)
    assert support.attempts(database, node)[-1].owner == "callback" and not DONE
    assert "deployment_polling" not in nodes.get(database, node.uuid).driver_internal_info
    with task_manager.acquire(None, node.uuid, shared=True, runtime=service.runtime) as task:
        task.complete_step()
    support.settle(database, node.uuid, states.ACTIVE)
    assert DONE == ["marks"]


@pytest.mark.parametrize("name", ["wait", "hold", "pauses"])
def test_what_an_operator_or_the_clock_ends_no_driver_ends(sqlite, start, name):
    """§3: others' signals change nothing."""
    service = start(sqlite, vendor=Steps)
    node = support.enrolled(service)
    wanted = step("pauses") if name == "pauses" else step(name, "deploy")
    if name == "wait":
        wanted["args"] = {"seconds": 60}
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=[wanted])
    support.settle(sqlite, node.uuid, states.DEPLOYWAIT, states.DEPLOYHOLD)
    with task_manager.acquire(None, node.uuid, shared=True, runtime=service.runtime) as task:
        task.complete_step()
        task.fail_step("no")
    time.sleep(0.3)
    found = nodes.get(sqlite, node.uuid)
    assert found.provision_state in (states.DEPLOYWAIT, states.DEPLOYHOLD)
    service.manager.do_provisioning_action(None, node.uuid, "abort")
    support.settle(sqlite, node.uuid, states.DEPLOYFAIL)


def test_a_wait_that_reboots_is_ended_by_a_new_boot_only(database, start):
    """F27, F29."""
    service = start(database, vendor=Steps)
    node = support.enrolled(service)
    wanted = [step("wait", "deploy", priority=60), step("reboots"), step("marks", priority=40)]
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=wanted)
    support.settle(database, node.uuid, states.DEPLOYWAIT)
    old = support.token(service, node)
    support.beat(service, node, old)
    support.until(lambda: support.attempts(database, node)[-1].step == "reboots")
    support.settle(database, node.uuid, states.DEPLOYWAIT)
    assert support.attempts(database, node)[-1].reboot is True
    with pytest.raises(exceptions.InvalidParameterValue, match="token"):
        support.beat(service, node, old)
    assert not DONE
    support.beat(service, node, support.token(service, node))
    support.settle(database, node.uuid, states.ACTIVE)
    assert DONE == ["marks"]


def test_a_step_that_asks_by_its_flag_is_entered_again(sqlite, start):
    service = start(sqlite, vendor=Steps)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=[step("entered_twice")])
    support.settle(sqlite, node.uuid, states.DEPLOYWAIT)
    support.beat(service, node, support.token(service, node))
    support.settle(sqlite, node.uuid, states.ACTIVE)
    assert DONE == ["entered", "entered"]


def test_progress_is_shown_bounded_masked_and_never_a_reason_to_fail(database, start):
    service = start(database, vendor=Steps)
    node = support.enrolled(service, driver_info={"password": "hunter2"})
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=[step("tells")])
    node = support.settle(database, node.uuid, states.ACTIVE)
    progress = next(a for a in support.attempts(database, node) if a.step == "tells").progress
    assert progress["percent"] == 100 and progress["text"].startswith("at 100")
    assert "hunter2" not in progress["text"] and progress["at"]
    node = support.enrolled(service, driver_info={"password": "hunter2"})
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=[step("tells_and_waits")])
    node = support.settle(database, node.uuid, states.DEPLOYWAIT)
    progress = support.attempts(database, node)[-1].progress
    assert progress["percent"] == 40 and len(progress["text"]) <= 500


def test_a_step_says_what_it_waits_for_without_a_share(database, start):
    service = start(database, vendor=Steps)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=[step("says_what_for")])
    support.settle(database, node.uuid, states.DEPLOYWAIT)
    progress = support.attempts(database, node)[-1].progress
    assert (progress["percent"], progress["text"]) == (None, "for the disks to spin down")


@pytest.mark.parametrize("bad", [{"poll": 1, "reboot": True}, {"poll": 1, "callback": True}])
def test_a_wait_is_ended_by_one(bad):
    with pytest.raises(exceptions.InvalidParameterValue, match="not both"):
        states.wait(states.DEPLOYWAIT, **bad)
