"""Steps that go on elsewhere: beats, polls, timers, time-outs, aborts."""

from __future__ import annotations

import datetime
import threading
import time
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_context.context import RequestContext

from deploysteps import exceptions, states
from deploysteps.conductor import task_manager
from deploysteps.db import nodes, runs, types
from deploysteps.db.models import Node
from deploysteps.drivers import base, fake
from tests import support
from tests.engine.test_runs import assert_no_residue


class Two(support.Vendor):
    """Two steps that wait for the agent, one after the other."""

    log: list[str]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls.log = []

    @base.deploy_step(priority=9)
    def first(self, task):
        self.log.append("first")
        return states.DEPLOYWAIT

    @base.deploy_step(priority=8, abortable=False)
    def second(self, task):
        self.log.append("second")
        return states.DEPLOYWAIT


def deployed_to_wait(start, database, **classes):
    """Start a deployment and return (service, node, token) once it waits."""
    service = start(database, **classes)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    node = support.settle(database, node.uuid, states.DEPLOYWAIT)
    return service, node, support.token(service, node)


def test_each_heartbeat_completes_one_wait(database, start):
    class Both(Two):
        pass

    service, node, token = deployed_to_wait(start, database, vendor=Both)
    assert node.deploy_step["step"] == "first" and node.reservation is None
    assert node.target_provision_state == states.ACTIVE
    support.beat(service, node, token)
    support.until(
        lambda: (
            (n := nodes.get(database, node.uuid)).provision_state == states.DEPLOYWAIT
            and n.deploy_step["step"] == "second"
            and n.reservation is None
        )
    )
    support.beat(service, node, token)
    support.settle(database, node.uuid, states.ACTIVE)
    assert Both.log == ["first", "second"]
    assert_no_residue(database, node)


def test_a_heartbeat_is_recorded_where_the_field_has_it(database, start):
    class Both(Two):
        pass

    service, node, token = deployed_to_wait(start, database, vendor=Both)
    support.beat(service, node, token)
    info = nodes.get(database, node.uuid).driver_internal_info
    assert info["agent_url"] == support.CALLBACK and info["agent_version"] == "1"
    assert datetime.datetime.fromisoformat(info["agent_last_heartbeat"]).tzinfo is not None


def test_a_token_is_given_once_a_boot_and_a_wrong_one_is_refused(database, start):
    """F29, F30."""

    class Both(Two):
        pass

    service, node, token = deployed_to_wait(start, database, vendor=Both)
    assert len(token) >= 32
    assert support.token(service, node) == "******"
    for wrong in (None, "", "x" * 40, "\u00e9", token[:-1]):
        with pytest.raises(exceptions.InvalidParameterValue, match="token"):
            service.manager.heartbeat(None, node.uuid, support.CALLBACK, agent_token=wrong)
    assert nodes.get(database, node.uuid).deploy_step["step"] == "first"


@pytest.mark.parametrize(
    "url", ["file:///etc/passwd", "no-scheme", "http://", "ftp://h/", "http://[::1"]
)
def test_a_callback_that_is_no_web_address_is_refused(sqlite, start, url):
    """F30."""

    class Both(Two):
        pass

    service, node, token = deployed_to_wait(start, sqlite, vendor=Both)
    with pytest.raises(exceptions.InvalidParameterValue, match="callback_url"):
        service.manager.heartbeat(None, node.uuid, url, agent_token=token)


def test_a_callback_is_pinned_and_bound_to_the_allowed_networks(sqlite, start, conf):
    """F30."""

    class Both(Two):
        pass

    conf.set_override("callback_networks", ["127.0.0.0/8"], group="agent")
    service, node, token = deployed_to_wait(start, sqlite, vendor=Both)
    with pytest.raises(exceptions.InvalidParameterValue, match="allowed network"):
        service.manager.heartbeat(None, node.uuid, "http://10.0.0.1/", agent_token=token)
    support.beat(service, node, token)
    support.until(lambda: nodes.get(sqlite, node.uuid).reservation is None)
    with pytest.raises(exceptions.InvalidParameterValue, match="callback_url"):
        service.manager.heartbeat(None, node.uuid, "http://127.0.0.1:1/", agent_token=token)


def test_heartbeats_that_are_refused_stand_in_the_history_once(sqlite, start):
    """An agent of the boot before, which nobody hears, is not the same as none at all."""

    class Both(Two):
        pass

    service, node, token = deployed_to_wait(start, sqlite, vendor=Both)

    def told():
        found = nodes.history_of(sqlite, node.id)
        return [entry.event for entry in found if entry.event_type == "heartbeat refused"]

    for wrong in ("of-the-last-boot", "another", None):
        with pytest.raises(exceptions.InvalidParameterValue):
            support.beat(service, node, wrong)
    assert len(told()) == 1
    assert told()[0].startswith("while vendor.first waits for the agent, a heartbeat is refused: ")
    assert "Agent token is missing, invalid or no longer valid" in told()[0]
    support.beat(service, node, token)
    support.until(lambda: nodes.get(sqlite, node.uuid).deploy_step["step"] == "second")
    support.settle(sqlite, node.uuid, states.DEPLOYWAIT)
    with pytest.raises(exceptions.InvalidParameterValue):
        support.beat(service, node, token, callback_url="http://192.0.2.9:9999")
    assert len(told()) == 2 and "vendor.second" in told()[0]


@pytest.mark.parametrize("loss", ["power off", "reboot", "abort", "fail", "timeout", "undeploy"])
def test_the_token_goes_with_the_agent(sqlite, start, loss):
    """F29: one place rotates it; the old one is refused, a new boot gets a fresh one."""

    class Both(Two):
        pass

    service, node, token = deployed_to_wait(start, sqlite, vendor=Both)
    manager = service.manager
    if loss == "power off":
        manager.change_node_power_state(None, node.uuid, states.POWER_OFF)
    elif loss == "reboot":
        manager.change_node_power_state(None, node.uuid, states.REBOOT)
    elif loss == "abort":
        manager.do_provisioning_action(None, node.uuid, "abort")
    elif loss == "undeploy":
        manager.do_node_tear_down(None, node.uuid)
    elif loss == "fail":
        with task_manager.acquire(None, node.uuid, shared=True, runtime=service.runtime) as task:
            task.fail_step("the agent said so")
    else:
        support.age(sqlite, node, 10**6)
        service.runtime.wake()
    support.until(
        lambda: (
            (n := nodes.get(sqlite, node.uuid)).agent_secret_token is None and n.reservation is None
        )
    )
    with pytest.raises(exceptions.InvalidParameterValue, match="token"):
        manager.heartbeat(None, node.uuid, support.CALLBACK, agent_token=token)
    if loss in ("power off", "reboot"):
        fresh = support.token(service, node)
        assert fresh not in (token, "******")
        support.beat(service, node, fresh)
        support.until(lambda: nodes.get(sqlite, node.uuid).deploy_step["step"] == "second")


def test_silence_of_the_agent_times_the_wait_out(database, start):
    """F36, F37, F39: the message names the kind of wait and the setting."""

    class Both(Two):
        pass

    service, node, _token = deployed_to_wait(start, database, vendor=Both)
    support.age(database, node, 1801)
    service.runtime.wake()
    node = support.settle(database, node.uuid, states.DEPLOYFAIL)
    assert "vendor.first failed: timed out: no heartbeat" in node.last_error
    assert "deploy_callback_timeout" in node.last_error
    node = assert_no_residue(database, node)
    assert node.deploy_step["step"] == "first"
    assert support.last_run(database, node).outcome == "timeout"
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(database, node.uuid, states.DEPLOYWAIT)


def test_a_beat_keeps_silence_from_timing_out(sqlite, start, conf):
    conf.set_override("step_poll_interval", 0.05, group="conductor")

    class Poll(support.Vendor):
        def check_step(self, task, step):
            return states.StepStatus.RUNNING

        @base.deploy_step(priority=5)
        def agent(self, task):
            return states.DEPLOYWAIT

    service, node, token = deployed_to_wait(start, sqlite, vendor=Poll)
    support.beat(service, node, token)
    begun = support.attempts(sqlite, node)[-1].waiting_since
    support.age(sqlite, node, 1801, heard=False)
    assert support.attempts(sqlite, node)[-1].waiting_since < begun
    support.until(lambda: support.attempts(sqlite, node)[-1].due_at > types.utcnow())
    assert nodes.get(sqlite, node.uuid).provision_state == states.DEPLOYWAIT
    support.age(sqlite, node, 1801)
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert "no heartbeat" in node.last_error


def test_a_late_beat_after_a_timeout_changes_nothing(sqlite, start):
    """F33, promise 7."""

    class Both(Two):
        pass

    service, node, token = deployed_to_wait(start, sqlite, vendor=Both)
    support.age(sqlite, node, 1801)
    service.runtime.wake()
    before = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    with pytest.raises(exceptions.InvalidParameterValue):
        service.manager.heartbeat(None, node.uuid, support.CALLBACK, agent_token=token)
    after = nodes.get(sqlite, node.uuid)
    assert (after.provision_state, after.last_error) == (before.provision_state, before.last_error)


def test_a_steps_own_timeout_is_absolute(sqlite, start):
    """Beats do not move it."""

    class Poll(support.Vendor):
        def check_step(self, task, step):
            return states.StepStatus.RUNNING

        @base.deploy_step(priority=5, timeout=600)
        def agent(self, task):
            return states.DEPLOYWAIT

    service, node, token = deployed_to_wait(start, sqlite, vendor=Poll)
    for _ in range(3):
        support.beat(service, node, token)
    support.until(lambda: nodes.get(sqlite, node.uuid).reservation is None)
    attempt = support.attempts(sqlite, node)[-1]
    assert attempt.deadline_at - attempt.waiting_since == datetime.timedelta(seconds=600)
    support.let_limit_pass(sqlite, node)
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert "longer than its limit of 600 s" in node.last_error


class Polled(support.Vendor):
    """A polled step, whose end the test decides."""

    answer: Any = states.StepStatus.RUNNING
    asked = 0

    def check_step(self, task, step):
        type(self).asked += 1
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    @base.deploy_step(priority=9)
    def job(self, task):
        return states.wait(states.DEPLOYWAIT, poll=0.02, grow=1.2, at_most=0.1)

    @base.deploy_step(priority=8)
    def agents(self, task):
        return states.DEPLOYWAIT


def polled(answer: Any = states.StepStatus.RUNNING) -> Any:
    return type("Polled", (Polled,), {"answer": answer, "asked": 0})


def test_beats_do_not_end_a_polled_wait_and_the_next_wait_hears_them(database, start):
    """F17, F18."""
    cls = polled()
    service, node, token = deployed_to_wait(start, database, vendor=cls)
    for _ in range(5):
        support.beat(service, node, token)
    support.until(lambda: cls.asked >= 3)
    assert nodes.get(database, node.uuid).deploy_step["step"] == "job"
    cls.answer = states.StepStatus.DONE
    support.until(
        lambda: (
            (n := nodes.get(database, node.uuid)).deploy_step["step"] == "agents"
            and n.provision_state == states.DEPLOYWAIT
            and n.reservation is None
        )
    )
    support.beat(service, node, token)
    support.settle(database, node.uuid, states.ACTIVE)


@pytest.mark.parametrize(
    ("answer", "words"),
    [(RuntimeError("the job failed: ECC"), "ECC"), (None, "StepStatus"), (True, "StepStatus"),
     (SystemExit(3), "SystemExit")],
)  # fmt: skip
def test_a_poll_that_raises_or_answers_nonsense_fails_the_step_now(sqlite, start, answer, words):
    """F41."""
    service = start(sqlite, vendor=polled(answer))
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert "vendor.job failed" in node.last_error and words in node.last_error
    assert_no_residue(sqlite, node)


@pytest.mark.parametrize("answer", [states.StepStatus.DONE, RuntimeError("no")])
def test_the_history_of_a_run_that_waited_tells_who_asked_for_it(database, start, answer):
    """It goes on in the conductor's name, and is still that user's."""

    class Brief(support.Vendor):
        @base.deploy_step(priority=9)
        def job(self, task):
            return states.wait(states.DEPLOYWAIT, poll=0.02)

        def check_step(self, task, step):
            if isinstance(answer, Exception):
                raise answer
            return answer

    service = start(database, vendor=Brief)
    node = support.enrolled(service)
    alice = RequestContext(user_id="alice", project_id="p")
    service.manager.do_node_deploy(alice, node.uuid)
    good = answer is states.StepStatus.DONE
    support.settle(database, node.uuid, states.ACTIVE if good else states.DEPLOYFAIL)
    (ended,) = [e for e in nodes.history_of(database, node.id) if e.event_type.startswith("deploy")]
    assert ended.user == "alice"


def test_a_polled_step_outlives_the_agents_silence(sqlite, start, conf):
    """F35."""
    conf.set_override("deploy_callback_timeout", 0.2, group="conductor")
    cls = polled()
    service = start(sqlite, vendor=cls)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    support.until(lambda: cls.asked > 8)
    assert nodes.get(sqlite, node.uuid).provision_state in (states.DEPLOYWAIT, states.DEPLOYING)
    cls.answer = states.StepStatus.DONE
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert "vendor.agents failed: timed out: no heartbeat" in node.last_error


def test_a_polled_wait_without_a_limit_has_the_default_one(sqlite, start, conf):
    """F36: no wait is for ever by accident."""
    conf.set_override("default_step_timeout", 0.4, group="conductor")
    service = start(sqlite, vendor=polled())
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert "longer than its limit of 0.4 s for the polled work" in node.last_error


def test_a_polled_wait_without_check_step_is_a_failure_that_says_so(sqlite, start):
    class NoCheck(support.Vendor):
        @base.deploy_step(priority=5)
        def job(self, task):
            return states.wait(states.DEPLOYWAIT, poll=1)

    service = start(sqlite, vendor=NoCheck)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    assert "check_step" in support.settle(sqlite, node.uuid, states.DEPLOYFAIL).last_error


def test_a_step_that_is_not_ready_is_entered_again_by_the_agents_beat(database, start):
    calls: list[int] = []

    class NotYet(support.Vendor):
        @base.deploy_step(priority=5)
        def go(self, task):
            calls.append(1)
            if len(calls) == 1:
                raise exceptions.StepNotReady("the agent is not up")

    service, node, token = deployed_to_wait(start, database, vendor=NotYet)
    support.beat(service, node, token)
    support.settle(database, node.uuid, states.ACTIVE)
    assert len(calls) == 2
    assert ("go", 1, "success") in support.outcomes(database, node)


def test_a_retrys_pause_is_the_timers_and_beats_do_not_end_it(sqlite, start):
    calls: list[int] = []

    class Again(support.Vendor):
        @base.deploy_step(priority=5, repeatable=True, retries=1, retry_delay=600)
        def go(self, task):
            calls.append(1)
            if len(calls) == 1:
                raise RuntimeError("once")

    service, node, token = deployed_to_wait(start, sqlite, vendor=Again)
    for _ in range(3):
        support.beat(service, node, token)
    time.sleep(0.3)
    assert len(calls) == 1
    support.age(sqlite, node, 600)
    support.settle(sqlite, node.uuid, states.ACTIVE)
    assert len(calls) == 2


def test_a_driver_that_overrides_heartbeat_decides_alone(database, start):
    heard: list[Any] = []

    class Own(fake.FakeDeploy):
        def heartbeat(self, task, callback_url, agent_version, agent_verify_ca=None,
                      agent_status=None, agent_status_message=None):  # fmt: skip
            heard.append((callback_url, agent_version, agent_status, agent_status_message))
            if agent_status == "end":
                task.complete_step()
            elif agent_status == "error":
                task.fail_step(agent_status_message)

    class Both(Two):
        pass

    service, node, token = deployed_to_wait(start, database, vendor=Both, deploy=Own)
    support.beat(service, node, token, agent_status="start")
    support.until(lambda: heard and nodes.get(database, node.uuid).reservation is None)
    assert nodes.get(database, node.uuid).deploy_step["step"] == "first"
    support.beat(service, node, token, agent_status="end")
    support.until(
        lambda: (
            (n := nodes.get(database, node.uuid)).deploy_step["step"] == "second"
            and n.reservation is None
        )
    )
    support.beat(service, node, token, agent_status="error", agent_status_message="disk on fire")
    node = support.settle(database, node.uuid, states.DEPLOYFAIL)
    assert "vendor.second failed: disk on fire" in node.last_error
    said = support.attempts(database, node)[-1].evidence["agent"]
    assert (said["status"], said["message"]) == ("error", "disk on fire")
    assert heard[0] == (support.CALLBACK, "1", "start", None)


def test_a_second_completion_changes_nothing(database, start):
    """Promise 5: whoever completes a wait names it."""

    class Both(Two):
        pass

    service, node, _token = deployed_to_wait(start, database, vendor=Both)
    runtime = service.runtime
    stale = [task_manager.acquire(None, node.uuid, shared=True, runtime=runtime) for _ in range(4)]
    stale[0].complete_step()
    stale[1].complete_step()
    support.until(
        lambda: (
            (n := nodes.get(database, node.uuid)).deploy_step["step"] == "second"
            and n.provision_state == states.DEPLOYWAIT
            and n.reservation is None
        )
    )
    stale[2].complete_step()
    stale[3].fail_step("too late")
    time.sleep(0.3)
    assert nodes.get(database, node.uuid).deploy_step["step"] == "second"
    service.manager.continue_node_deploy(None, node.uuid)
    support.settle(database, node.uuid, states.ACTIVE)
    assert Both.log == ["first", "second"]


def test_a_beat_on_a_locked_node_is_refused_and_leaves_no_error(database, start, conf):
    """F21, F22, F23: the sender knows; the node is as it was."""

    class Both(Two):
        pass

    service, node, token = deployed_to_wait(start, database, vendor=Both)
    with task_manager.acquire(None, node.uuid, purpose="held", runtime=service.runtime):
        conf.set_override("node_locked_retry_interval", 60, group="conductor")
        begun = time.monotonic()
        with pytest.raises(exceptions.NodeLocked) as caught:
            service.manager.heartbeat(None, node.uuid, support.CALLBACK, agent_token=token)
        assert time.monotonic() - begun < 30, "a lock is not waited for"
        assert caught.value.code == 409
        with pytest.raises(exceptions.NodeLocked):
            service.manager.lookup(None, [], node.uuid)
    after = nodes.get(database, node.uuid)
    assert after.last_error is None and after.agent_url is None
    support.beat(service, node, token)
    support.until(lambda: nodes.get(database, node.uuid).agent_url == support.CALLBACK)


def test_a_beat_without_a_free_worker_is_not_lost(sqlite, start):
    """F23, F24: it is recorded at once, and the sweeper goes on with it."""

    class Both(Two):
        pass

    service, node, token = deployed_to_wait(start, sqlite, vendor=Both)
    workers, slots = service.runtime.workers, []
    with pytest.raises(exceptions.NoFreeConductorWorker):
        while True:
            slots.append(workers.reserve(operator=True))
    support.beat(service, node, token)
    assert nodes.get(sqlite, node.uuid).agent_url == support.CALLBACK
    for slot in slots:
        slot.release()
    support.until(lambda: nodes.get(sqlite, node.uuid).deploy_step["step"] == "second")


@pytest.mark.parametrize("state", sorted(states.STATES))
def test_a_beat_and_a_lookup_in_any_state_give_a_defined_answer(sqlite, start, state):
    """F25: every state of the table."""
    service = start(sqlite)
    node = support.enrolled(service)
    with sqlite.engine.begin() as connection:
        connection.execute(sa.update(Node).values(provision_state=state, agent_secret_token="t"))
    if state in states.AGENT_STATES:
        service.manager.lookup(None, [], node.uuid)
    else:
        with pytest.raises(exceptions.NotFound):
            service.manager.lookup(None, [], node.uuid)
    service.manager.heartbeat(None, node.uuid, support.CALLBACK, agent_token="t")
    assert nodes.get(sqlite, node.uuid).provision_state == state


def test_lookup_finds_a_node_by_its_ports_and_hides_which_are_not_there(sqlite, start):
    class Both(Two):
        pass

    service, node, _ = deployed_to_wait(start, sqlite, vendor=Both)
    found, _token = service.manager.lookup(None, ["AA:bb:cc:dd:ee:ff", "52:54:00:00:00:01"])
    assert found.uuid == node.uuid
    texts = set()
    for arguments in ([[], "no-such-node"], [["aa:bb:cc:dd:ee:ff"]], [[]]):
        with pytest.raises(exceptions.NotFound) as caught:
            service.manager.lookup(None, *arguments)
        texts.add(str(caught.value))
    assert len(texts) == 1


# --- ending early ------------------------------------------------------------------


def abort(service, node):
    service.manager.do_provisioning_action(None, node.uuid, "abort")


def test_abort_of_a_wait_takes_effect_at_once(database, start):
    """F66, F69."""

    class Both(Two):
        pass

    service, node, _ = deployed_to_wait(start, database, vendor=Both)
    abort(service, node)
    node = support.settle(database, node.uuid, states.DEPLOYFAIL)
    assert "vendor.first" in node.last_error and "aborted by" in node.last_error
    node = assert_no_residue(database, node)
    assert node.deploy_step["step"] == "first"
    run = support.last_run(database, node)
    assert run.outcome == "aborted" and run.abort_requested_at is not None
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(database, node.uuid, states.DEPLOYWAIT)


@pytest.mark.parametrize("asked_for", [False, True])
def test_abort_of_a_step_that_is_not_abortable_waits_for_its_end(database, start, asked_for):
    """F68: read from the declaration, also for steps that a request lists."""

    class Solid(support.Vendor):
        @base.deploy_step(priority=0 if asked_for else 9, abortable=False)
        def solid(self, task):
            return states.DEPLOYWAIT

        @base.deploy_step(priority=8)
        def never(self, task):
            raise AssertionError("must not run")

    service = start(database, vendor=Solid)
    node = support.enrolled(service)
    steps = [{"interface": "vendor", "step": "solid", "priority": 9, "args": {}}]
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=steps if asked_for else None)
    node = support.settle(database, node.uuid, states.DEPLOYWAIT)
    token = support.token(service, node)
    abort(service, node)
    time.sleep(0.4)
    assert nodes.get(database, node.uuid).provision_state == states.DEPLOYWAIT
    support.beat(service, node, token)
    node = support.settle(database, node.uuid, states.DEPLOYFAIL)
    assert "aborted" in node.last_error and node.deploy_step["step"] == "solid"
    assert support.outcomes(database, node)[-1] == ("solid", 1, "success")


def test_in_maintenance_an_abort_ends_any_wait_and_before_it_says_so(database, start):
    """F68: an agent that goes on beating and never ends its step is in the operator's hands."""

    class Solid(support.Vendor):
        @base.clean_step(priority=9)
        def solid(self, task):
            return states.CLEANWAIT

    service = start(database, vendor=Solid)
    node = support.enrolled(service, provision_state=states.MANAGEABLE)
    service.manager.do_node_clean(None, node.uuid, [{"interface": "vendor", "step": "solid"}])
    node = support.settle(database, node.uuid, states.CLEANWAIT)
    abort(service, node)
    abort(service, node)
    told = [e for e in nodes.history_of(database, node.id) if e.event_type == "abort pending"]
    assert len(told) == 1
    assert "vendor.solid is not abortable" in told[0].event
    assert "set the node to maintenance and abort again" in told[0].event
    service.manager.set_node_maintenance(None, node.uuid, True, "it hangs")
    time.sleep(0.3)
    assert nodes.get(database, node.uuid).provision_state == states.CLEANWAIT
    abort(service, node)
    node = support.settle(database, node.uuid, states.CLEANFAIL)
    assert "vendor.solid failed: aborted by" in node.last_error
    assert node.maintenance_reason == "it hangs"
    assert support.outcomes(database, node)[-1] == ("solid", 1, "aborted")


def test_a_maintenance_that_a_failure_has_set_cuts_no_step_off(sqlite, start):
    """F68: nobody has said that the machine is his."""

    class Solid(support.Vendor):
        @base.clean_step(priority=9)
        def solid(self, task):
            return states.CLEANWAIT

    service = start(sqlite, vendor=Solid)
    faulty = {"maintenance": True, "maintenance_reason": "half wiped", "fault": "clean failure"}
    node = support.enrolled(service, provision_state=states.MANAGEABLE, **faulty)
    service.manager.do_provisioning_action(None, node.uuid, "provide")
    node = support.settle(sqlite, node.uuid, states.CLEANWAIT)
    abort(service, node)
    [told] = [e for e in nodes.history_of(sqlite, node.id) if e.event_type == "abort pending"]
    assert told.event.endswith("set the node to maintenance and abort again")
    assert runs.last_attempt(sqlite, node.run_id).signal is None
    service.manager.set_node_maintenance(None, node.uuid, True, "it hangs")
    abort(service, node)
    node = support.settle(sqlite, node.uuid, states.CLEANFAIL)
    assert "vendor.solid failed: aborted by" in node.last_error


@pytest.mark.parametrize("how", ["at once", "a second time", "by the maintenance"])
def test_in_maintenance_an_abort_of_a_step_that_runs_ends_the_wait_it_comes_to(
    database, start, conf, how
):
    """F68: it is not abortable; what it does before it waits cannot be cut off."""
    running, go = threading.Event(), threading.Event()
    conf.set_override(
        "allow_provisioning_in_maintenance", how != "by the maintenance", group="conductor"
    )

    class Solid(support.Vendor):
        @base.clean_step(priority=9)
        def solid(self, task):
            running.set()
            go.wait(60)
            return states.CLEANWAIT

    service = start(database, vendor=Solid)
    node = support.enrolled(service, provision_state=states.MANAGEABLE)
    service.manager.do_node_clean(None, node.uuid, [{"interface": "vendor", "step": "solid"}])
    assert running.wait(60)
    if how == "a second time":
        abort(service, node)
    service.manager.set_node_maintenance(None, node.uuid, True, "a fan")
    if how != "by the maintenance":
        abort(service, node)
    told = [e.event for e in nodes.history_of(database, node.id) if e.event_type == "abort pending"]
    assert len(told) == (how == "a second time")
    assert all("If it comes to wait, to end that at once, set the node to" in one for one in told)
    go.set()
    node = support.settle(database, node.uuid, states.CLEANFAIL)
    assert "vendor.solid failed: aborted by" in node.last_error
    assert node.maintenance_reason == "a fan"
    assert support.outcomes(database, node)[-1] == ("solid", 1, "aborted")


@pytest.mark.parametrize("last", [True, False])
def test_abort_while_a_step_runs_takes_effect_when_it_ends(database, start, last):
    """F67: the last step too."""
    running, go = threading.Event(), threading.Event()

    class Slow(support.Vendor):
        @base.deploy_step(priority=9)
        def slow(self, task):
            running.set()
            go.wait(60)

    if not last:
        Slow = type("Slow", (Slow,), {"after": base.deploy_step(priority=8)(_must_not_run)})
    service = start(database, vendor=Slow)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    assert running.wait(60)
    abort(service, node)
    abort(service, node)
    go.set()
    node = support.settle(database, node.uuid, states.DEPLOYFAIL)
    assert "aborted" in node.last_error and node.deploy_step["step"] == "slow"
    assert support.last_run(database, node).outcome == "aborted"
    assert_no_residue(database, node)


def _must_not_run(self, task):
    raise AssertionError("must not run")


_must_not_run.__name__ = "after"


def test_a_second_abort_changes_nothing_and_a_senseless_one_is_refused(sqlite, start):
    """F70."""

    class Both(Two):
        pass

    service, node, _ = deployed_to_wait(start, sqlite, vendor=Both)
    threads = [threading.Thread(target=abort, args=(service, node)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    before = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    abort(service, node)
    assert nodes.get(sqlite, node.uuid).last_error == before.last_error
    assert len(runs.of_node(sqlite, node.id)) == 1
    other = support.enrolled(service)
    for state in (states.AVAILABLE, states.ACTIVE, states.DEPLOYFAIL):
        with sqlite.engine.begin() as connection:
            connection.execute(
                sa.update(Node).where(Node.id == other.id).values(provision_state=state)
            )
        with pytest.raises(exceptions.InvalidStateRequested):
            abort(service, other)


@pytest.mark.parametrize("allowed", [True, False])
def test_maintenance_during_a_wait_does_what_the_setting_says(sqlite, start, conf, allowed):
    """F26."""
    conf.set_override("allow_provisioning_in_maintenance", allowed, group="conductor")

    class Both(Two):
        pass

    service, node, token = deployed_to_wait(start, sqlite, vendor=Both)
    service.manager.set_node_maintenance(None, node.uuid, True, "bad fan")
    if allowed:
        support.beat(service, node, token)
        support.until(lambda: nodes.get(sqlite, node.uuid).deploy_step["step"] == "second")
    else:
        node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
        assert "maintenance" in node.last_error and "bad fan" in node.last_error


def test_undeploy_ends_a_run_that_waits(database, start):
    class Both(Two):
        pass

    service, node, _ = deployed_to_wait(start, database, vendor=Both)
    service.manager.do_node_tear_down(None, node.uuid)
    node = support.settle(database, node.uuid, states.AVAILABLE)
    assert node.deploy_step is None and node.last_error is None
    assert_no_residue(database, node)
    assert support.last_run(database, node, "deploy").outcome == "undeployed"
    assert support.last_run(database, node).flow == "clean"


@pytest.mark.proof
def test_a_thousand_waits_hold_no_thread_and_cost_one_query(sqlite, start, conf):
    """F87, F88, promise 9."""
    conf.set_override("max_concurrent_deploy", 0, group="conductor")
    from tests.support_sql import counting

    class Both(Two):
        pass

    service = start(sqlite, vendor=Both)
    idle = None
    for number in range(1000):
        node = support.enrolled(service)
        task = task_manager.acquire(None, node.uuid, runtime=service.runtime)
        from deploysteps.conductor import engine, planning, starting
        from deploysteps.steps import DEPLOY

        plan = planning.build(task, DEPLOY, planning.Request())
        starting.start(task, DEPLOY, plan, event=states.DEPLOY, requested_by=None)
        engine.run(task, DEPLOY)
        if number == 100:
            idle = threading.active_count()
    assert threading.active_count() <= idle + 2
    service._sweeper.stop()
    service._periodic.stop()
    with counting(sqlite, here=True) as sent:
        service._sweeper.sweep()
    assert sent.statements == 1 and sent.commits == 0
