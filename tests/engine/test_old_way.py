"""Drivers of before there were steps, and processes that are pinned to before."""

from __future__ import annotations

import warnings
from typing import Any

import pytest

from deploysteps import exceptions, states
from deploysteps.conductor import old_way
from deploysteps.db import nodes, runs
from deploysteps.drivers import base, discovery
from deploysteps.steps import INTERFACE_TYPES
from tests import support

DONE: list[str] = []


@pytest.fixture(autouse=True)
def forgotten() -> None:
    DONE.clear()
    old_way._warned.clear()


def noop_of(kind: str) -> Any:
    """Return an interface of a kind that does nothing."""
    group = discovery.plugins(discovery.namespace(kind))
    return next((group[name].value for name in ("noop", f"no-{kind}") if name in group), None)


class Bare(base.DeployInterface):
    """A deploy interface without steps and without deploy()."""

    def get_properties(self):
        return {}

    def validate(self, task):
        return None

    def prepare(self, task):
        DONE.append("prepare")

    def clean_up(self, task):
        DONE.append("clean up")

    def tear_down(self, task):
        return states.DELETED

    def take_over(self, task):
        return None


PLAIN = {kind: made for kind in INTERFACE_TYPES if (made := noop_of(kind)) is not None}
"""Interfaces that declare no step at all: with them, a driver is an old one."""


class Old(Bare):
    """It does it all in one method."""

    def deploy(self, task):
        DONE.append("deploy")
        return task.node.extra.get("answer", states.DEPLOYDONE)


class Agent(Bare):
    """It goes on by heartbeats, and moves the node by events itself."""

    def deploy(self, task):
        DONE.append("deploy")
        return states.DEPLOYWAIT

    def deploy_has_started(self, task):
        return "continue" in DONE

    def continue_deploy(self, task):
        task.process_event("resume")
        DONE.append("continue")
        task.process_event("wait")

    def deploy_is_done(self, task):
        return len(DONE) >= 4

    def reboot_to_instance(self, task):
        DONE.append("reboot")
        task.process_event("resume")
        task.process_event("fail" if task.node.extra.get("fails") else "done")


class Bios(base.BIOSInterface):
    def get_properties(self):
        return {}

    def validate(self, task):
        return None

    @base.deploy_step(priority=120)
    def tune(self, task):
        DONE.append("tune")


def test_an_old_driver_deploys_with_one_warning_a_class(database, start, caplog):
    """§5: it is named, and what to write is said."""
    service = start(database, **{**PLAIN, "deploy": Old})
    with warnings.catch_warnings(record=True):
        warnings.simplefilter("always")
        for _ in range(2):
            node = support.enrolled(service)
            service.manager.do_node_deploy(None, node.uuid)
            node = support.settle(database, node.uuid, states.ACTIVE)
    assert DONE == ["prepare", "deploy"] * 2
    told = [r.getMessage() for r in caplog.records if "has no deploy steps" in r.getMessage()]
    assert len(told) == 1 and "Old" in told[0] and "@base.deploy_step" in told[0]
    run = support.last_run(database, node)
    assert (run.mechanism, run.outcome) == ("deploy", "success")
    assert node.deploy_step is None and "deploy_steps" not in node.driver_internal_info


@pytest.mark.parametrize("answer", [None, "ok", True, states.CLEANWAIT, states.ACTIVE])
def test_an_old_driver_that_answers_something_else_fails(sqlite, start, answer):
    """F31, F74, F75."""
    service = start(sqlite, **{**PLAIN, "deploy": Old})
    node = support.enrolled(service, extra={"answer": answer})
    service.manager.do_node_deploy(None, node.uuid)
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert "deploy.deploy failed" in node.last_error and DONE[-1] == "clean up"


def test_an_old_agent_driver_is_led_by_its_heartbeats(database, start):
    """§5: not started: continue; done: reboot; what it fires passes through the one ending."""
    service = start(database, **{**PLAIN, "deploy": Agent})
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    seen = support.settle(database, node.uuid, states.DEPLOYWAIT)
    assert "deploy_steps" not in seen.driver_internal_info and seen.deploy_step is None
    token = support.token(service, node)
    support.beat(service, node, token)
    support.until(lambda: "continue" in DONE)
    support.settle(database, node.uuid, states.DEPLOYWAIT)
    support.beat(service, node, token)  # neither: only noted
    support.settle(database, node.uuid, states.DEPLOYWAIT)
    assert DONE == ["prepare", "deploy", "continue"]
    DONE.append("written")
    support.beat(service, node, token)
    node = support.settle(database, node.uuid, states.ACTIVE)
    assert DONE[-1] == "reboot"
    assert support.last_run(database, node).outcome == "success"
    assert "agent_secret_token" not in node.driver_internal_info


def test_an_old_agent_driver_may_fail_by_its_event_and_by_abort(sqlite, start):
    service = start(sqlite, **{**PLAIN, "deploy": Agent})
    node = support.enrolled(service, extra={"fails": True})
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(sqlite, node.uuid, states.DEPLOYWAIT)
    DONE.extend(("continue", "written"))
    support.beat(service, node, support.token(service, node))
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert "fail" in node.last_error
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(sqlite, node.uuid, states.DEPLOYWAIT)
    service.manager.do_provisioning_action(None, node.uuid, "abort")
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert "aborted" in node.last_error


def test_with_neither_steps_nor_deploy_it_fails_and_says_so(sqlite, start):
    """F1."""
    service = start(sqlite, **{**PLAIN, "deploy": Bare})
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert "no steps" in node.last_error


def test_old_and_new_interfaces_mix(database, start):
    """§5: the old deploy() is a step among the others, and the node is not active without it."""
    service = start(database, **{**PLAIN, "deploy": Old, "bios": Bios})
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    node = support.settle(database, node.uuid, states.ACTIVE)
    assert DONE == ["prepare", "tune", "deploy"]
    assert support.last_run(database, node).mechanism == "steps"


def test_an_old_agent_driver_among_new_interfaces_ends_its_own_step(database, start):
    service = start(database, **{**PLAIN, "deploy": Agent, "bios": Bios})
    node = support.enrolled(service)
    wanted = [{"interface": "power", "step": "power_on", "priority": 1, "args": {}}]
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=wanted)
    support.settle(database, node.uuid, states.DEPLOYWAIT)
    DONE.extend(("continue", "written"))
    support.beat(service, node, support.token(service, node))
    node = support.settle(database, node.uuid, states.ACTIVE)
    steps = [a[0] for a in support.outcomes(database, node)]
    assert steps == ["tune", "deploy", "power_on"] and node.power_state == states.POWER_ON


def test_a_request_of_steps_to_an_old_driver_alone_is_refused(sqlite, start):
    service = start(sqlite, **{**PLAIN, "deploy": Old})
    node = support.enrolled(service)
    wanted = [{"interface": "bios", "step": "nope", "priority": 1, "args": {}}]
    with pytest.raises(exceptions.InvalidParameterValue, match=r"bios\.nope"):
        service.manager.do_node_deploy(None, node.uuid, deploy_steps=wanted)


# --- pins ---------------------------------------------------------------------------------


class New(Bare):
    """Its deploy() is a step."""

    @base.deploy_step(priority=100)
    def deploy(self, task):
        DONE.append("deploy")


def pinned(conf: Any) -> None:
    conf.set_override("pin_release_version", "0.0")


@pytest.mark.parametrize("driver", [Old, New])
def test_pinned_below_steps_deploy_is_called_the_old_way(database, start, conf, driver):
    """§6: decorated or not; None and 'deploy complete' both mean done."""
    pinned(conf)
    service = start(database, **{**PLAIN, "deploy": driver})
    node = support.enrolled(service, extra={"answer": None})
    service.manager.do_node_deploy(None, node.uuid)
    node = support.settle(database, node.uuid, states.ACTIVE)
    assert DONE == ["prepare", "deploy"]
    assert support.last_run(database, node).mechanism == "deploy"


def test_pinned_below_steps_a_deployment_that_would_lose_some_is_refused(sqlite, start, conf):
    pinned(conf)
    service = start(sqlite, **{**PLAIN, "deploy": New, "bios": Bios})
    node = support.enrolled(service)
    with pytest.raises(exceptions.InvalidParameterValue, match=r"bios\.tune"):
        service.manager.do_node_deploy(None, node.uuid)
    node = nodes.get(sqlite, node.uuid)
    assert node.provision_state == states.AVAILABLE and not runs.of_node(sqlite, node.id)


class Waits(Bare):
    @base.deploy_step(priority=100)
    def deploy(self, task):
        DONE.append("deploy")
        return states.DEPLOYWAIT

    @base.deploy_step(priority=50)
    def after(self, task):
        DONE.append("after")


def test_what_was_begun_by_steps_goes_on_by_steps_on_a_pinned_process(database, start, conf):
    """§6: starting is decided by the pin, continuing by the run."""
    service = start(database, **{**PLAIN, "deploy": Waits})
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(database, node.uuid, states.DEPLOYWAIT)
    service.stop(5)
    pinned(conf)
    service = start(database, **{**PLAIN, "deploy": Waits})
    support.beat(service, node, support.token(service, node))
    support.settle(database, node.uuid, states.ACTIVE)
    assert DONE == ["prepare", "deploy", "after"]


def test_what_was_begun_the_old_way_ends_the_old_way_on_an_unpinned_process(database, start, conf):
    pinned(conf)
    service = start(database, **{**PLAIN, "deploy": Agent})
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(database, node.uuid, states.DEPLOYWAIT)
    service.stop(5)
    conf.clear_override("pin_release_version")
    service = start(database, **{**PLAIN, "deploy": Agent})
    DONE.extend(("continue", "written"))
    support.beat(service, node, support.token(service, node))
    node = support.settle(database, node.uuid, states.ACTIVE)
    assert support.last_run(database, node).mechanism == "deploy"


def test_an_old_deployment_whose_conductor_was_lost_is_failed(sqlite, start):
    class Hangs(Bare):
        def deploy(self, task):
            raise SystemExit

    service = start(sqlite, **{**PLAIN, "deploy": Hangs})
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert "deploy.deploy failed: SystemExit" in node.last_error


# --- breaking a lock -----------------------------------------------------------------------


def test_a_lock_is_broken_by_the_fence_and_that_is_told(database, start):
    """§1: unlock; F46: who held it cannot write any more; F65."""
    import threading

    stuck = threading.Event()

    class Stuck(support.Vendor):
        @base.deploy_step(priority=50)
        def stuck(self, task):
            stuck.wait(60)
            task.node.set_driver_internal_info("late", True)
            task.node.save()

    service = start(database, vendor=Stuck)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    support.until(lambda: (nodes.get(database, node.uuid).deploy_step or {}).get("step") == "stuck")
    with pytest.raises(exceptions.Conflict, match="but not since"):
        service.manager.unlock_node(None, node.uuid, "it hangs", since="2020-01-01T00:00:00+00:00")
    service.manager.unlock_node(None, node.uuid, "it hangs")
    node = support.settle(database, node.uuid, states.DEPLOYFAIL)
    assert "vendor.stuck failed" in node.last_error and "it hangs" in node.last_error
    stuck.set()
    support.until(lambda: service.runtime.workers.busy == 0)
    node = nodes.get(database, node.uuid)
    assert "late" not in node.driver_internal_info and node.provision_state == states.DEPLOYFAIL
    told = [(entry.event_type, entry.event) for entry in nodes.history_of(database, node.id)]
    assert any(kind == "lock broken" and "it hangs" in text for kind, text in told)
    with pytest.raises(exceptions.InvalidParameterValue, match="not locked"):
        service.manager.unlock_node(None, node.uuid)
