"""Waits that the agent ends and that are asked after as well; what goes with them in the engine."""

from __future__ import annotations

import logging
import time
from typing import ClassVar

import pytest

from deploysteps import exceptions, states
from deploysteps.conductor import steps as planning
from deploysteps.conductor.offers import Offer
from deploysteps.db import nodes, ports
from deploysteps.drivers import base, testing
from deploysteps.drivers.agent.configdrive import check, for_agent
from deploysteps.drivers.agent.deploy import CustomAgentDeploy
from deploysteps.steps import DEPLOY
from tests import support


class Asked(support.Vendor):
    """A step that the agent ends and that is asked after."""

    poll, limit = 0.02, None
    says: states.StepStatus = states.StepStatus.RUNNING
    again: float | None = None
    asked = 0

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        cls.asked = 0

    @base.deploy_step(priority=9)
    def first(self, task):
        cls = type(self)
        return states.wait(
            states.DEPLOYWAIT, poll=cls.poll, at_most=cls.poll * 4, limit=cls.limit, agent=True
        )

    def check_step(self, task, step):
        cls = type(self)
        cls.asked += 1
        if cls.again is not None:
            raise exceptions.StepNotReady("no answer", after=cls.again)
        return cls.says


def waiting(start, database, vendor):
    service = start(database, vendor=vendor)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    node = support.settle(database, node.uuid, states.DEPLOYWAIT, states.ACTIVE)
    return service, node


def test_the_timer_may_end_it(sqlite, start):
    class Soon(Asked):
        says = states.StepStatus.DONE

    _, node = waiting(start, sqlite, Soon)
    support.settle(sqlite, node.uuid, states.ACTIVE)
    assert Soon.asked == 1


def test_a_beat_may_end_it_where_the_next_look_is_far(sqlite, start):
    class Far(Asked):
        poll = 600

    service, node = waiting(start, sqlite, Far)
    token = support.token(service, node)
    support.beat(service, node, token)
    support.until(lambda: Far.asked == 1)
    Far.says = states.StepStatus.DONE
    support.beat(service, node, token)
    support.settle(sqlite, node.uuid, states.ACTIVE)
    assert Far.asked == 2


def test_it_is_the_agents_and_its_silence_fails_it(sqlite, start):
    """F35: the silence of the agent is its limit, and no other one."""

    class Silent(Asked):
        pass

    _, node = waiting(start, sqlite, Silent)
    attempt = support.attempts(sqlite, node)[-1]
    assert attempt.owner == "agent"
    assert (attempt.deadline_at - attempt.waiting_since).days == 7
    support.until(lambda: Silent.asked > 3)
    support.age(sqlite, node, 1801)
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert "no heartbeat of the machine's agent for 1800 s" in node.last_error


@pytest.mark.parametrize(
    ("has_called", "has_port", "told"),
    [
        (True, True, "the last came at "),
        (False, True, "none came at all; is the agent running"),
        (False, False, "by the MAC addresses of ports; it has none"),
    ],
)
def test_its_silence_is_told_with_what_is_known_of_it(sqlite, start, has_called, has_port, told):
    """At three in the morning: never there, gone, or not to be found at all."""

    class Silent(Asked):
        pass

    service, node = waiting(start, sqlite, Silent)
    if has_called:
        support.beat(service, node, support.token(service, node))
    if not has_port:
        ports.delete(sqlite, ports.of_node(sqlite, node.id)[0].uuid)
    support.age(sqlite, node, 1801, heard=has_called)
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert told in node.last_error


def test_beats_keep_it_alive(sqlite, start):
    class Alive(Asked):
        pass

    service, node = waiting(start, sqlite, Alive)
    support.beat(service, node, support.token(service, node))
    support.age(sqlite, node, 1801, heard=False)
    before = Alive.asked
    support.until(lambda: Alive.asked > before + 1)
    assert nodes.get(sqlite, node.uuid).last_error is None
    Alive.says = states.StepStatus.DONE
    support.settle(sqlite, node.uuid, states.ACTIVE)


def test_a_limit_of_its_own_counts_as_well(sqlite, start):
    class Limited(Asked):
        limit = 600

    _, node = waiting(start, sqlite, Limited)
    support.let_limit_pass(sqlite, node)
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert "limit of 600 s for the machine's agent" in node.last_error


def test_check_step_may_say_when_to_ask_again(sqlite, start):
    class Later(Asked):
        again = 600

    _, node = waiting(start, sqlite, Later)
    support.until(lambda: Later.asked == 1)

    def pause():
        attempt = support.attempts(sqlite, node)[-1]
        return (attempt.due_at - attempt.waiting_since).total_seconds()

    support.until(lambda: pause() > 500)
    time.sleep(0.4)
    assert Later.asked == 1


def test_an_interface_that_is_not_asked_cannot_have_one(sqlite, start):
    class Nobody(support.Vendor):
        @base.deploy_step(priority=9)
        def first(self, task):
            return states.wait(states.DEPLOYWAIT, poll=1, agent=True)

    service = start(sqlite, vendor=Nobody)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert "has no check_step()" in node.last_error


@pytest.mark.parametrize("more", [{"callback": True}, {"poll": 1, "reboot": True}])
def test_what_does_not_go_together_is_refused(more):
    with pytest.raises(exceptions.InvalidParameterValue, match="not both"):
        states.wait(states.DEPLOYWAIT, agent=True, **more)
    with pytest.raises(exceptions.InvalidParameterValue, match="agent"):
        states.wait(states.DEPLOYWAIT, agent="yes")


def test_a_poller_is_still_no_agents(sqlite, start):
    """F17: five beats, and nothing advances."""

    class Polled(Asked):
        @base.deploy_step(priority=9)
        def first(self, task):
            return states.wait(states.DEPLOYWAIT, poll=600)

        says = states.StepStatus.DONE

    service, node = waiting(start, sqlite, Polled)
    token = support.token(service, node)
    for _ in range(5):
        support.beat(service, node, token)
    time.sleep(0.3)
    assert nodes.get(sqlite, node.uuid).deploy_step["step"] == "first" and Polled.asked == 0


def test_what_is_kept_is_masked_and_survives_a_wait(sqlite, start):
    class Keeps(support.Vendor):
        @base.deploy_step(priority=9)
        def keeps(self, task):
            task.keep_evidence(
                "said", {"text": "planted-secret", "n": 1, "password": "x", "l": [None]}
            )
            return states.DEPLOYWAIT

    service = start(sqlite, vendor=Keeps)
    node = support.enrolled(service, driver_info={"bmc_password": "planted-secret"})
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(sqlite, node.uuid, states.DEPLOYWAIT)
    support.beat(service, node, support.token(service, node))
    support.settle(sqlite, node.uuid, states.ACTIVE)
    kept = next(a for a in support.attempts(sqlite, node) if a.step == "keeps").evidence
    assert kept["said"] == {"text": "******", "n": 1, "password": "******", "l": [None]}


def test_a_driver_may_say_that_its_steps_have_changed(sqlite, start, caplog):
    """Not only the agent's: the run begins again with the list of today.

    It skips what has ended well and may not run twice.
    """

    class Moves(support.Vendor):
        ran: ClassVar[list[str]] = []
        more = False

        def get_deploy_steps(self, task):
            offered = super().get_deploy_steps(task)
            return offered if Moves.more else [s for s in offered if s["step"] != "added"]

        @base.deploy_step(priority=10)
        def once(self, task):
            Moves.ran.append("once")

        @base.deploy_step(priority=9, repeatable=True)
        def one(self, task):
            Moves.ran.append("one")

        @base.deploy_step(priority=8)
        def added(self, task):
            Moves.ran.append("added")

        @base.deploy_step(priority=7)
        def two(self, task):
            Moves.ran.append("two")
            if not Moves.more:
                Moves.more = True
                raise exceptions.StepsChanged("there is more")

    service = start(sqlite, vendor=Moves)
    node = support.enrolled(service)
    with caplog.at_level(logging.WARNING):
        service.manager.do_node_deploy(None, node.uuid)
        support.settle(sqlite, node.uuid, states.ACTIVE)
    assert Moves.ran == ["once", "one", "two", "one", "added", "two"]
    assert "begins again" in caplog.text
    assert [e["step"] for e in support.last_run(sqlite, node).plan] == [
        "deploy",
        "once",
        "one",
        "added",
        "two",
    ]
    told = {e["step"]: e.get("skip") for e in support.last_run(sqlite, node).plan}
    assert told["once"] == "done before in this run, and not repeatable"
    assert told["one"] is None


def offered(name, priority, interface="deploy", **more):
    return {
        "interface": interface,
        "step": name,
        "priority": priority,
        "args": None,
        "source": "driver",
        **more,
    }


def test_what_ends_the_agent_is_the_last_of_its_priority():
    steps = [
        offered("end", 40, ends_agent=True),
        offered("raid", 40, "raid", agent=True),
        offered("boot", 40, "boot"),
        offered("first", 50),
    ]
    plan = planning.plan(Offer(steps), [], DEPLOY)
    assert [entry["step"] for entry in plan.entries] == ["first", "raid", "boot", "end"]
    steps[1]["priority"] = 39
    with pytest.raises(exceptions.InvalidParameterValue, match=r"raid\.raid .* deploy\.end"):
        planning.plan(Offer(steps), [], DEPLOY)


def test_a_step_of_the_class_is_tested_without_an_agent():
    task = testing.FakeTask(CustomAgentDeploy())
    task.node.driver_internal_info["agent_url"] = "http://127.0.0.1:1"
    assert testing.run_step(task, "deploy") is None


def test_a_configuration_drive_that_is_text_goes_as_it_is():
    assert for_agent("http://x/drive") == "http://x/drive" and for_agent(None) is None


def test_a_configuration_drive_that_is_an_object_needs_a_program(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(exceptions.InvalidParameterValue, match="genisoimage"):
        check({"meta_data": {}})
    program = tmp_path / "mkisofs"
    program.write_text(
        '#!/bin/sh\nwhile [ "$1" != -o ]; do shift; done\n: > "$2"\necho ISO > "$2"\n'
    )
    program.chmod(0o755)
    check({"meta_data": {}})
    import base64
    import gzip

    made = for_agent({"meta_data": {"a": 1}, "user_data": "x"})
    assert gzip.decompress(base64.b64decode(made)) == b"ISO\n"


def test_a_beat_may_find_that_the_steps_have_changed(sqlite, start):
    class Late(Asked):
        poll, changed = 600, False

        def check_step(self, task, step):
            cls = type(self)
            if not cls.changed:
                cls.changed = True
                raise exceptions.StepsChanged("it has other steps now")
            return states.StepStatus.DONE

    service, node = waiting(start, sqlite, Late)
    token = support.token(service, node)
    support.beat(service, node, token)
    support.until(lambda: len(support.attempts(sqlite, node)) == 4)
    support.settle(sqlite, node.uuid, states.DEPLOYWAIT)
    support.beat(service, node, token)
    support.settle(sqlite, node.uuid, states.ACTIVE)
    assert support.outcomes(sqlite, node) == [
        ("deploy", 1, "success"),
        ("first", 1, "failed"),
        ("first", 1, "success"),
    ]
