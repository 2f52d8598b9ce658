"""What authors of drivers and operators need to see, found by one who was new here."""

from __future__ import annotations

from typing import ClassVar

import pytest

from deploysteps import exceptions, states
from deploysteps.conductor.service import Service
from deploysteps.db import locks, nodes
from deploysteps.drivers import base, discovery
from deploysteps.drivers.factory import Registry
from tests import support


class Mistaken(support.Vendor):
    @base.deploy_step(priority=50)
    def mistaken(self, task):
        return {}[task.node.driver_info["password"]]

    @base.deploy_step(priority=0)
    def other(self, task):
        return None


def test_the_traceback_of_an_authors_mistake_is_logged_and_kept(sqlite, start, caplog):
    """F72, F76: where it is, and no secret."""
    service = start(sqlite, vendor=Mistaken)
    node = support.enrolled(service, driver_info={"password": "hunter2"})
    service.manager.do_node_deploy(None, node.uuid)
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    kept = support.attempts(sqlite, node)[-1].evidence["traceback"]
    for told in (caplog.text, kept):
        assert "Traceback" in told and "test_found_by_authors.py" in told and "hunter2" not in told


def test_what_is_left_of_a_request_is_told_when_it_is_nothing(sqlite, start):
    """F1."""
    service = start(sqlite, vendor=support.Vendor)
    node = support.enrolled(service)
    off = [{"interface": "deploy", "step": "deploy", "priority": 0, "args": {}}]
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=off)
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert "no steps" in node.last_error
    assert "deploy.deploy: disabled by request" in node.last_error


def test_a_mistyped_step_is_answered_with_the_one_that_was_meant(sqlite, start):
    service = start(sqlite, vendor=Mistaken)
    node = support.enrolled(service)
    typed = [{"interface": "vendor", "step": "othr", "priority": 5, "args": {}}]
    with pytest.raises(exceptions.InvalidParameterValue, match=r"did you mean vendor\.other\?"):
        service.manager.do_node_deploy(None, node.uuid, deploy_steps=typed)


SLIPS = {
    "forbidden_deploy_steps": ["vendor.othr"],
    "deploy_step_priority_override": "vendor.othr:5",
}


@pytest.mark.parametrize("option", SLIPS)
def test_a_setting_for_a_step_that_nobody_has_is_refused_at_start(sqlite, start, conf, option):
    """F7: a slip would leave the step allowed."""
    conf.set_override(option, SLIPS[option], group="conductor")
    with pytest.raises(exceptions.ConfigurationError, match=r"vendor.*'othr'.*other"):
        start(sqlite, vendor=Mistaken)


class Agent(support.Deploy):
    def agent_steps(self, task, flow):
        return []

    def get_deploy_steps(self, task):
        return super().get_deploy_steps(task)


@pytest.mark.parametrize("option", SLIPS)
def test_it_is_told_where_an_agent_may_bring_it(sqlite, start, conf, caplog, option):
    conf.set_override(option, SLIPS[option], group="conductor")
    start(sqlite, vendor=Mistaken, deploy=Agent)
    assert option in caplog.text and "unless an agent brings it" in caplog.text


class Polled(support.Vendor):
    asked: ClassVar[list[str]] = []

    @base.deploy_step(priority=110)
    def polled(self, task):
        return states.wait(states.DEPLOYWAIT, poll=0.2, limit=600)

    def check_step(self, task, step):
        self.asked.append(task.runtime.host)
        return states.StepStatus.RUNNING


def without(conf, database, **classes):
    """Return a conductor whose driver calls its vendor interface by another name."""
    found = support.registry(conf, **classes)._find
    vendor = discovery.namespace("vendor")
    renamed = {"renamed": discovery.Plugin("renamed", "a test", classes["vendor"])}
    registry = Registry(conf, find=lambda group: renamed if group == vendor else found(group))
    return Service(conf, database=database, registry=registry)


def test_a_wait_is_passed_on_by_a_conductor_whose_driver_lost_the_interface(
    database, start, conf, tmp_path
):
    """F47: in a rolling upgrade the old one, which has the interface, goes on with it."""
    conf.set_override("state_path", str(tmp_path / "first"))
    first = start(database, host="conductor-1", vendor=Polled)
    node = support.enrolled(first, vendor_interface="test")
    conf.set_override("state_path", str(tmp_path / "second"))
    start(database, host="conductor-2", vendor=Polled)
    first.manager.do_node_deploy(None, node.uuid)
    support.settle(database, node.uuid, states.DEPLOYWAIT)
    first.stop(5)
    conf.set_override("state_path", str(tmp_path / "first"))
    conf.set_override("host", "conductor-1")
    with without(conf, database, vendor=Polled):
        Polled.asked.clear()
        support.until(lambda: len(Polled.asked) > 1)
    assert set(Polled.asked) == {"conductor-2"}
    assert nodes.get(database, node.uuid).provision_state == states.DEPLOYWAIT


def test_what_was_cut_off_is_passed_on_by_a_conductor_whose_driver_lost_the_interface(
    database, start, conf, tmp_path
):
    """F45, F47: it was killed, and is started without what the node needs."""
    conf.set_override("state_path", str(tmp_path / "second"))
    other = start(database, host="conductor-2", vendor=Polled)
    node = support.enrolled(other, vendor_interface="test", provision_state=states.DEPLOYING)
    locks.grant(database, node.id, "conductor-1", "node deploy")
    conf.set_override("state_path", str(tmp_path / "first"))
    conf.set_override("host", "conductor-1")
    with without(conf, database, vendor=Polled):
        node = support.settle(database, node.uuid, states.DEPLOYFAIL)
    assert "interrupted before its first step" in node.last_error


def test_a_wait_whose_interface_nobody_has_any_more_fails_and_names_its_step(sqlite, start, conf):
    """Promise of the README: the reason names step, attempt and time."""
    first = start(sqlite, vendor=Polled)
    node = support.enrolled(first, vendor_interface="test")
    first.manager.do_node_deploy(None, node.uuid)
    support.settle(sqlite, node.uuid, states.DEPLOYWAIT)
    first.stop(5)
    with without(conf, sqlite, vendor=Polled):
        node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert node.last_error.startswith("vendor.polled failed: vendor interface 'test' is not")
    assert "attempt 1, after" in node.last_error and "internal error" not in node.last_error


class Keeps(support.Vendor):
    @base.deploy_step(priority=50)
    def keeps(self, task):
        task.node.set_driver_internal_info("found", {1, 2})


def test_what_cannot_be_kept_fails_the_step_by_its_name(sqlite, start):
    service = start(sqlite, vendor=Keeps)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert node.last_error.startswith("vendor.keeps failed: node.driver_internal_info holds")
    assert "attempt 1, after" in node.last_error


ANSWERS = {
    states.StepStatus.DONE: "it returned StepStatus, which is what check_step() answers; a",
    states.DEPLOYDONE: "it returned str 'deploy complete'",
}


@pytest.mark.parametrize("value", ANSWERS)
def test_an_answer_from_elsewhere_is_told_as_what_it_is(sqlite, start, value):
    """F74: what old drivers answer, and what check_step does."""

    class Elsewhere(support.Vendor):
        @base.deploy_step(priority=50)
        def elsewhere(self, task):
            return value

    service = start(sqlite, vendor=Elsewhere)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert ANSWERS[value] in node.last_error
