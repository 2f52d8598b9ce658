"""What authors of drivers and operators need to see, found by one who was new here."""

from __future__ import annotations

import pytest

from deploysteps import exceptions, states
from deploysteps.drivers import base
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
