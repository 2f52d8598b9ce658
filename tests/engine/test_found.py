"""What an adversarial review broke once: drivers that misbehave, beats that come too late."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import pytest
import sqlalchemy as sa

from deploysteps import exceptions, states
from deploysteps.conductor import beats, inventory, provision
from deploysteps.db import beats as rows
from deploysteps.db import nodes, transitions
from deploysteps.db.models import Node, StepRun
from deploysteps.drivers import base, fake
from tests import support
from tests.engine.test_runs import assert_no_residue
from tests.engine.test_waits import Two, deployed_to_wait

MARK = "MARKERsecret123"


def failed(start, database, vendor, **values):
    """Deploy a node with this interface and return it once it has failed."""
    service = start(database, vendor=vendor)
    node = support.enrolled(service, **values)
    service.manager.do_node_deploy(None, node.uuid)
    return support.settle(database, node.uuid, states.DEPLOYFAIL)


def step(code: Any, **rules: Any) -> type[support.Vendor]:
    """Return an interface whose one step is ``code(task)``."""

    def go(self, task):
        return code(task)

    return type("Vendor", (support.Vendor,), {"go": base.deploy_step(priority=9, **rules)(go)})


# --- agents ---------------------------------------------------------------------------


def test_no_token_is_given_and_no_beat_recorded_once_the_run_has_ended(database, start):
    """F29, F33: a lookup or a beat that was read before an end changes nothing after it."""

    class Both(Two):
        pass

    service, node, _ = deployed_to_wait(start, database, vendor=Both)
    before, seen = nodes.get(database, node.uuid), rows.see(database, node.uuid)
    service.manager.do_provisioning_action(None, node.uuid, "abort")
    support.settle(database, node.uuid, states.DEPLOYFAIL)
    with pytest.raises(exceptions.NodeLocked):
        rows.give_token(database, before, "late")
    with pytest.raises(exceptions.NodeLocked):
        beats._record(service.runtime, seen, beats.Beat("http://127.0.0.1:1/"), None)
    assert_no_residue(database, node)
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(database, node.uuid, states.DEPLOYWAIT)
    support.beat(service, node, support.token(service, node))


def test_the_old_boots_beat_does_not_end_a_wait_for_a_reboot(sqlite, start):
    """F27: the field's flag; a new boot of the agent has a new token."""

    def reboots(task):
        if task.node.deploy_step["step"] == "first":
            return states.DEPLOYWAIT
        task.node.set_driver_internal_info("deployment_reboot", True)
        return states.DEPLOYWAIT

    class Rebooting(support.Vendor):
        @base.deploy_step(priority=9)
        def first(self, task):
            return reboots(task)

        @base.deploy_step(priority=8)
        def second(self, task):
            return reboots(task)

    service, node, old = deployed_to_wait(start, sqlite, vendor=Rebooting)
    support.beat(service, node, old)
    support.until(
        lambda: (
            (n := nodes.get(sqlite, node.uuid)).deploy_step["step"] == "second"
            and n.reservation is None
        )
    )
    with pytest.raises(exceptions.InvalidParameterValue, match="token"):
        service.manager.heartbeat(None, node.uuid, support.CALLBACK, agent_token=old)
    support.beat(service, node, support.token(service, node))
    support.settle(sqlite, node.uuid, states.ACTIVE)


def test_a_deferred_beat_keeps_what_it_said(sqlite, start):
    """F24, F74: an error that was reported while no worker was free is still an error."""

    class Own(fake.FakeDeploy):
        def heartbeat(self, task, callback_url, agent_version, agent_verify_ca=None,
                      agent_status=None, agent_status_message=None):  # fmt: skip
            if agent_status == "error":
                task.fail_step(agent_status_message)
            else:
                task.complete_step()

    class Both(Two):
        pass

    service, node, token = deployed_to_wait(start, sqlite, vendor=Both, deploy=Own)
    slots = []
    with pytest.raises(exceptions.NoFreeConductorWorker):
        while True:
            slots.append(service.runtime.workers.reserve(operator=True))
    support.beat(service, node, token, agent_status="error", agent_status_message="no disk")
    for slot in slots:
        slot.release()
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert "vendor.first failed: no disk" in node.last_error


def test_a_beat_at_another_conductor_is_left_to_the_waits_own(database, start, conf, tmp_path):
    """Promise 10, F47: one that does not offer the node's interfaces does not touch it."""

    class Both(Two):
        pass

    _, node, token = deployed_to_wait(start, database, vendor=Both)
    conf.set_override("state_path", str(tmp_path / "other"))
    other = start(database, host="conductor-2")
    other.runtime.registry = None  # it would be asked for a driver
    support.beat(other, node, token)
    support.until(
        lambda: (
            (n := nodes.get(database, node.uuid)).deploy_step["step"] == "second"
            and n.reservation is None
        )
    )
    assert Both.log == ["first", "second"]


# --- aborts -----------------------------------------------------------------------------


def test_an_abort_that_the_run_overtook_ends_the_wait_that_follows(sqlite, start):
    """F67, F68: judged again after it was written, and tied to the attempt that was judged."""

    class Both(Two):
        pass

    service, node, token = deployed_to_wait(start, sqlite, vendor=Both)
    judged = []

    def judge(fresh):
        if not judged:  # between the judgement and the write the first wait ends
            judged.append(provision._to_cut_short(service.runtime, fresh))
            support.beat(service, node, token)
            support.until(lambda: nodes.get(sqlite, node.uuid).deploy_step["step"] == "second")
            support.settle(sqlite, node.uuid, states.DEPLOYWAIT)
            return judged[0]
        return provision._to_cut_short(service.runtime, fresh)

    inventory.request_abort(service.runtime, nodes.get(sqlite, node.uuid), "me", judge)
    time.sleep(0.4)
    waiting = nodes.get(sqlite, node.uuid)  # "second" is not abortable: it is not cut short
    assert waiting.provision_state == states.DEPLOYWAIT
    support.beat(service, node, token)
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert "aborted by me" in node.last_error


def test_a_long_reason_for_maintenance_ends_the_run_on_every_database(database, start, conf):
    """F59."""
    conf.set_override("allow_provisioning_in_maintenance", False, group="conductor")

    class Both(Two):
        pass

    service, node, _ = deployed_to_wait(start, database, vendor=Both)
    service.manager.set_node_maintenance(None, node.uuid, True, "fan \U0001f600 " * 400)
    support.settle(database, node.uuid, states.DEPLOYFAIL)
    with database.engine.connect() as connection:
        assert connection.execute(sa.select(StepRun.abort_requested_by)).scalar()


# --- drivers that misbehave -----------------------------------------------------------


def test_a_step_that_ended_the_run_itself_is_not_ended_again(sqlite, start):
    """Nothing touches the machine once the lock is given back."""
    cleaned = []

    class Tidy(fake.FakeDeploy):
        def clean_up(self, task):
            cleaned.append(task.node.provision_state)

    service = start(sqlite, vendor=step(lambda task: task.process_event("done")), deploy=Tidy)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(sqlite, node.uuid, states.ACTIVE)
    time.sleep(0.2)
    assert cleaned == [] and nodes.get(sqlite, node.uuid).last_error is None
    assert_no_residue(sqlite, node)


@pytest.mark.parametrize("where", ["step", "clean_up"])
def test_a_lost_lock_that_only_the_author_claims_is_a_failure(sqlite, start, where):
    def lost(*_):
        raise exceptions.LockLost(node=f"mine {MARK}")

    class Untidy(fake.FakeDeploy):
        def clean_up(self, task):
            if where == "clean_up":
                lost()

    def go(task):
        if where == "step":
            lost()
        raise RuntimeError("broken")

    service = start(sqlite, vendor=step(go), deploy=Untidy)
    node = support.enrolled(service, driver_info={"bmc_password": MARK})
    service.manager.do_node_deploy(None, node.uuid)
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert "vendor.go failed" in node.last_error and MARK not in node.last_error
    assert_no_residue(sqlite, node)


def spoil_lock(task):
    task.node.reservation = None
    task.node.lock_token = "mine"


def spoil_state(task):
    task.node.provision_state = states.ACTIVE
    task.node.save()
    raise RuntimeError("broken")


def spoil_hold(task):
    task.process_event("hold")


@pytest.mark.parametrize(
    ("code", "ends", "words"),
    [(spoil_lock, states.ACTIVE, None), (spoil_state, states.DEPLOYFAIL, "broken"),
     (spoil_hold, states.DEPLOYFAIL, "a driver cannot hold a run")],
)  # fmt: skip
def test_a_step_cannot_spoil_the_lock_or_the_state(sqlite, start, code, ends, words):
    service = start(sqlite, vendor=step(code))
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    node = support.settle(sqlite, node.uuid, ends)
    assert (words or "") in (node.last_error or "")
    assert_no_residue(sqlite, node)


def test_a_retry_gets_the_arguments_as_they_were_given(sqlite, start):
    """F11."""
    seen = []

    class Eating(support.Vendor):
        @base.deploy_step(
            priority=0, repeatable=True, retries=1, argsinfo={"deep": {"description": "a dict"}}
        )
        def eat(self, task, deep):
            seen.append(dict(deep["a"]))
            deep["a"].clear()
            raise RuntimeError("again")

    service = start(sqlite, vendor=Eating)
    node = support.enrolled(service)
    args = {"deep": {"a": {"b": 1}}}
    wanted = [{"interface": "vendor", "step": "eat", "priority": 5, "args": args}]
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=wanted)
    support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert seen == [{"b": 1}, {"b": 1}]


@pytest.mark.parametrize("after", [-1, float("nan"), float("inf"), 10**30, "5", True])
def test_a_pause_that_makes_no_sense_fails_the_step_by_name(sqlite, start, after):
    def go(task):
        raise exceptions.StepNotReady("not yet", after=after)

    node = failed(start, sqlite, step(go))
    assert "vendor.go failed" in node.last_error and "after" in node.last_error


@pytest.mark.parametrize("method", ["validate", "get_deploy_steps"])
def test_a_driver_that_wants_to_exit_does_not_take_the_server_with_it(sqlite, start, method):
    """F51, F92."""

    def leave(self, task, *args):
        raise SystemExit(3)

    service = start(sqlite, vendor=type("Leaving", (support.Vendor,), {method: leave}))
    node = support.enrolled(service)
    if method == "validate":
        report = service.manager.validate_driver_interfaces(None, node.uuid)
        assert "SystemExit" in report["vendor"]["reason"]
        return
    with pytest.raises(exceptions.DriverOperationError, match="SystemExit"):
        service.manager.get_node_steps(None, node.uuid)
    service.manager.do_node_deploy(None, node.uuid)
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert "SystemExit" in node.last_error


@pytest.mark.parametrize("kind", ["exit", "odd value"])
def test_a_power_change_that_breaks_leaves_nothing_behind(sqlite, start, kind):
    class Breaking(fake.FakePower):
        def set_power_state(self, task, power_state, timeout=None):
            if kind == "exit":
                raise SystemExit(1)
            task.node.set_driver_internal_info("x", object())

    service = start(sqlite, power=Breaking)
    node = support.enrolled(service)
    service.manager.change_node_power_state(None, node.uuid, states.POWER_ON)
    node = support.until(
        lambda: (n := nodes.get(sqlite, node.uuid)).reservation is None and n.last_error and n
    )
    assert node.target_power_state is None


# --- secrets ----------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 300, 3000])
def test_a_secret_is_masked_before_a_text_is_cut(sqlite, start, size):
    """F58, F76."""
    secret = "".join(f"{MARK}{n:06}" for n in range(size))

    def go(task):
        raise RuntimeError("cannot use " + "x" * 10_000 + secret)

    node = failed(start, sqlite, step(go), driver_info={"ssh_password": secret})
    last = support.attempts(sqlite, node)[-1]
    assert MARK not in f"{node.last_error}{last.error}{last.evidence}"


def test_a_secret_that_the_step_has_replaced_is_masked_still(sqlite, start, caplog):
    """F76."""

    def go(task):
        task.node.driver_info["bmc_password"] = "rotated-secret"
        task.node.save()
        if task.node.deploy_step["step"] == "go":
            raise RuntimeError(f"{MARK} is now rotated-secret")

    node = failed(start, sqlite, step(go), driver_info={"bmc_password": MARK})
    assert "****** is now ******" in node.last_error
    assert MARK not in caplog.text and "rotated-secret" not in caplog.text


def test_the_reason_of_a_step_that_is_not_ready_is_logged_masked(sqlite, start, caplog):
    """F76."""
    caplog.set_level("DEBUG")

    def go(task):
        if not task.node.driver_internal_info.get("seen"):
            task.node.set_driver_internal_info("seen", True)
            raise exceptions.StepNotReady(f"waiting for {MARK}", after=0.01)

    service = start(sqlite, vendor=step(go))
    node = support.enrolled(service, driver_info={"bmc_password": MARK})
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(sqlite, node.uuid, states.ACTIVE)
    assert "waiting for ******" in caplog.text and MARK not in caplog.text


def test_a_deployment_validates_the_interfaces_that_it_uses(sqlite, start):
    class Picky(support.Vendor):
        def validate(self, task: Any, *args: Any, **kwargs: Any) -> None:
            raise exceptions.MissingParameterValue("driver_info/address is not set")

        @base.deploy_step(priority=9)
        def go(self, task):
            return None

    service = start(sqlite, vendor=Picky)
    node = support.enrolled(service)
    with pytest.raises(exceptions.InvalidParameterValue, match="address is not set"):
        service.manager.do_node_deploy(None, node.uuid)
    assert nodes.get(sqlite, node.uuid).provision_state == states.AVAILABLE
    off = [{"interface": "vendor", "step": "go", "priority": 0, "args": {}}]
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=off)
    support.settle(sqlite, node.uuid, states.ACTIVE)


def test_two_racing_completions_of_one_attempt_are_one(database, start):
    """F16: what is signalled twice goes on once."""

    class Both(Two):
        pass

    service, node, _ = deployed_to_wait(start, database, vendor=Both)
    attempt = support.attempts(database, node)[-1]
    key = transitions.key_of(attempt)
    sent: list[bool] = []
    threads = [
        threading.Thread(target=lambda: sent.append(transitions.send_signal(database, key, "done")))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sent.count(True) == 1
    service.runtime.wake()
    support.until(lambda: nodes.get(database, node.uuid).deploy_step["step"] == "second")
    with database.engine.connect() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(Node)).scalar() == 1


@pytest.mark.parametrize("name", ["uuid", "id"])
@pytest.mark.parametrize("saves", [True, False])
def test_a_driver_does_not_rename_its_node(sqlite, start, name, saves):
    """F74's kind: nobody would find the node any more."""

    class Vendor(support.Vendor):
        @base.deploy_step(priority=9)
        def rename(self, task):
            setattr(task.node, name, {"uuid": "1" * 36, "id": 99_999}[name])
            if saves:
                task.node.save()

    service = start(sqlite, vendor=Vendor)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    found = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert (found.id, found.uuid) == (node.id, node.uuid)
    told = f"a driver may not change a node's {name}" if saves else f"it changed the node's {name}"
    assert told in found.last_error and "internal error" not in found.last_error
    assert support.outcomes(sqlite, node)[-1] == ("rename", 1, "failed")


@pytest.mark.parametrize("raises", [True, False])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_step_that_forks_makes_no_second_engine(sqlite, start, raises):
    """The child would go on with the run, and keep the API's port."""
    children = []

    class Vendor(support.Vendor):
        @base.deploy_step(priority=9)
        def fork(self, task):
            child = os.fork()
            if not child and raises:
                raise RuntimeError("in the child")
            children.append(child)

    service = start(sqlite, vendor=Vendor)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(sqlite, node.uuid, states.ACTIVE)
    _, status = os.waitpid(children[0], 0)
    assert os.waitstatus_to_exitcode(status) == 1
