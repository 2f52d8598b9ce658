"""Inspecting, adopting and rescuing: work of one call, with all that runs have."""

from __future__ import annotations

import datetime
import threading
from typing import ClassVar

import pytest
import sqlalchemy as sa
from oslo_context.context import RequestContext

from deploysteps import exceptions, states
from deploysteps.conductor.task_manager import acquire
from deploysteps.db import inventories, nodes, runs, transitions, types
from deploysteps.db.models import Node, StepAttempt
from deploysteps.drivers import fake
from deploysteps.steps import JOBS, RUNS
from tests import support

PASSWORD = "hunter2-of-the-rescue"


class Inspect(fake.FakeInspect):
    """Answers, waits or raises as the node's ``extra`` says."""

    aborted: ClassVar[list] = []
    gate = threading.Event()

    def inspect_hardware(self, task):
        how = task.node.extra.get("inspect", "done")
        if how == "raises":
            raise exceptions.DriverOperationError("the BMC says no")
        if how == "polls":
            return states.wait(states.INSPECTWAIT, poll=0.05)
        if how == "waits":
            return states.INSPECTWAIT
        if how == "nonsense":
            return states.ACTIVE
        if how == "blocks":
            self.gate.wait(60)
        task.keep_inventory({"cpu": {"count": 4}}, {"raw": 1})
        return states.MANAGEABLE

    def check_step(self, task, step):
        assert step["step"] == "inspect_hardware"
        task.keep_inventory({"polled": True})
        return states.StepStatus.DONE

    def abort(self, task):
        self.aborted.append(task.node.uuid)
        if task.node.extra.get("abort") == "raises":
            raise RuntimeError("it cannot be stopped")


class NoAbort(Inspect):
    """One that cannot be stopped."""

    def abort(self, task):
        raise exceptions.UnsupportedDriverExtension(driver="x", extension="abort")


class Rescue(fake.FakeRescue):
    """Keeps what it was given."""

    given: ClassVar[list] = []
    cleaned: ClassVar[list] = []

    def validate(self, task, *args):
        assert task.node.instance_info.get("rescue_password") or task.node.extra.get("any")

    def rescue(self, task):
        self.given.append(task.node.instance_info["rescue_password"])
        if task.node.extra.get("rescue") == "raises":
            raise RuntimeError(f"cannot set {PASSWORD}")
        return states.RESCUEWAIT if task.node.extra.get("rescue") == "waits" else states.RESCUE

    def clean_up(self, task):
        self.cleaned.append(task.node.uuid)


class Deploy(support.Deploy):
    """Takes over as told."""

    def take_over(self, task):
        if task.node.extra.get("adopt") == "raises":
            raise RuntimeError("no instance there")


@pytest.fixture(autouse=True)
def forgotten():
    Inspect.aborted.clear()
    Inspect.gate.clear()
    Rescue.given.clear()
    Rescue.cleaned.clear()
    yield
    Inspect.gate.set()


@pytest.fixture
def service(sqlite, start):
    return start(sqlite, inspect=Inspect, rescue=Rescue, deploy=Deploy)


def act(service, node, verb):
    service.manager.do_provisioning_action(RequestContext(user_id="ann"), node.uuid, verb)


def put(service, node, **values):
    nodes.set_unlocked(service.database, node.id, values)


def again(service, node):
    return nodes.get(service.database, node.id)


def manageable(service, **extra):
    return support.enrolled(service, provision_state=states.MANAGEABLE, extra=extra)


def active(service, **extra):
    return support.enrolled(service, provision_state=states.ACTIVE, extra=extra)


def told(service, node):
    entry = nodes.history_of(service.database, node.id)[0]
    return entry.event_type, entry.user


# --- inspecting ------------------------------------------------------------------------------


def test_an_inspection_in_one_go(service, database, start):
    node = manageable(service)
    act(service, node, states.INSPECT)
    now = support.settle(service.database, node.id, states.MANAGEABLE)
    assert now.inspection_finished_at is not None and now.inspection_started_at is None
    assert (now.last_error, now.run_id, now.target_provision_state) == (None, None, None)
    assert inventories.get(service.database, node.id) == {
        "inventory": {"cpu": {"count": 4}},
        "plugin_data": {"raw": 1},
    }
    run = support.last_run(service.database, node)
    assert (run.flow, run.outcome, run.requested_by, run.plan) == ("inspect", "success", "ann", [])
    assert told(service, node) == ("inspect success", "ann")
    assert "job_steps" not in now.driver_internal_info


def test_the_state_and_target_are_visible_before_the_verb_returns(service):
    """api-surface 4.1: the CLI gives up when it sees the old state with no target."""
    node = manageable(service, inspect="blocks")
    act(service, node, states.INSPECT)
    now = again(service, node)
    assert (now.provision_state, now.target_provision_state) == (
        states.INSPECTING, states.MANAGEABLE,
    )  # fmt: skip
    assert now.inspection_started_at is not None and now.inspection_finished_at is None
    with pytest.raises(exceptions.NodeLocked):
        act(service, node, states.INSPECT)
    Inspect.gate.set()
    support.settle(service.database, node.id, states.MANAGEABLE)


@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("raises", "inspect.inspect_hardware failed: the BMC says no"),
        ("nonsense", "inspect.inspect_hardware() returns None or 'manageable' when it is done, or "
         "the state 'inspect wait'"),
    ],
)  # fmt: skip
def test_an_inspection_that_fails_says_why_and_may_be_repeated(service, how, words):
    """F15, F73, F75."""
    node = manageable(service, inspect=how)
    act(service, node, states.INSPECT)
    now = support.settle(service.database, node.id, states.INSPECTFAIL)
    assert words in now.last_error and now.target_provision_state == states.MANAGEABLE
    assert now.inspection_started_at is None and now.inspection_finished_at is None
    assert told(service, node)[0] == "inspect failed"
    assert Inspect.aborted == [], "nothing goes on that could be stopped"
    put(service, node, extra={})
    act(service, node, states.INSPECT)
    assert support.settle(service.database, node.id, states.MANAGEABLE).last_error is None


def test_a_failed_inspection_may_be_left_by_manage(service):
    node = manageable(service, inspect="raises")
    act(service, node, states.INSPECT)
    support.settle(service.database, node.id, states.INSPECTFAIL)
    act(service, node, states.MANAGE)
    assert again(service, node).provision_state == states.MANAGEABLE


def test_an_inspection_that_is_polled(service):
    node = manageable(service, inspect="polls")
    act(service, node, states.INSPECT)
    support.settle(service.database, node.id, states.MANAGEABLE)
    assert inventories.get(service.database, node.id)["inventory"] == {"polled": True}


@pytest.mark.parametrize("by", ["complete_step", "process_event"])
def test_an_inspection_that_waits_for_its_driver(service, by):
    """No beat of an agent ends it; a periodic method of the driver does, either way."""
    node = manageable(service, inspect="waits")
    act(service, node, states.INSPECT)
    now = support.settle(service.database, node.id, states.INSPECTWAIT)
    assert now.inspection_started_at is not None
    token = support.token(service, node)
    support.beat(service, node, token)
    assert again(service, node).provision_state == states.INSPECTWAIT
    with acquire(None, node.uuid, runtime=service.runtime) as task:
        if by == "complete_step":
            task.complete_step()
        else:
            task.process_event("done")
    now = support.settle(service.database, node.id, states.MANAGEABLE)
    assert now.inspection_finished_at is not None
    assert not now.driver_internal_info.get("agent_secret_token")


@pytest.mark.parametrize("setting", [0, 1800])
def test_an_inspection_that_waits_is_limited(sqlite, start, conf, setting):
    """F36, F40: 0 switches it off."""
    conf.set_override("inspect_wait_timeout", setting, group="conductor")
    service = start(sqlite, inspect=Inspect)
    node = manageable(service, inspect="waits")
    act(service, node, states.INSPECT)
    support.settle(sqlite, node.id, states.INSPECTWAIT)
    attempt = support.attempts(sqlite, node)[0]
    if not setting:
        assert attempt.deadline_at is None
        return
    assert attempt.deadline_at - attempt.waiting_since == datetime.timedelta(seconds=1800)
    past = types.utcnow() - datetime.timedelta(seconds=1)
    with sqlite.engine.begin() as connection:
        connection.execute(sa.update(StepAttempt).values(deadline_at=past, due_at=past))
    now = support.settle(sqlite, node.id, states.INSPECTFAIL)
    assert "timed out" in now.last_error and Inspect.aborted == [node.uuid]
    assert told(service, node)[0] == "inspect timeout"


@pytest.mark.parametrize(
    ("driver", "extra", "also"),
    [
        (Inspect, {}, None),
        (Inspect, {"abort": "raises"}, "it cannot be stopped"),
        (NoAbort, {}, None),
    ],
    ids=["stops", "raises", "cannot"],
)
def test_a_waiting_inspection_is_aborted(sqlite, start, driver, extra, also):
    """F70, F79: the driver is told, and whatever it says the node is not left waiting."""
    service = start(sqlite, inspect=driver)
    node = manageable(service, inspect="waits", **extra)
    act(service, node, states.INSPECT)
    support.settle(sqlite, node.id, states.INSPECTWAIT)
    act(service, node, states.ABORT)
    now = support.settle(sqlite, node.id, states.INSPECTFAIL)
    assert "aborted by ann" in now.last_error
    assert (also is None) == ("cleaning up failed" not in now.last_error)
    assert also is None or also in now.last_error
    assert Inspect.aborted == ([node.uuid] if driver is Inspect else [])
    act(service, node, states.ABORT)


def test_an_abort_while_the_call_runs_takes_effect_when_it_ends(service):
    """F67."""
    node = manageable(service, inspect="blocks")
    act(service, node, states.INSPECT)
    act(service, node, states.ABORT)
    Inspect.gate.set()
    now = support.settle(service.database, node.id, states.INSPECTFAIL)
    assert "aborted by ann" in now.last_error and now.inspection_finished_at is None


def test_what_cannot_be_inspected_is_refused_and_unchanged(sqlite, start, conf):
    """Promise 13."""
    service = start(sqlite, inspect=Inspect)
    node = support.enrolled(service, provision_state=states.ACTIVE)
    before = again(service, node)
    with pytest.raises(exceptions.InvalidStateRequested):
        act(service, node, states.INSPECT)
    put(service, node, provision_state=states.MANAGEABLE, driver_info={"fake_delay": "x"})
    with pytest.raises(exceptions.InvalidParameterValue, match="Failed to validate power"):
        act(service, node, states.INSPECT)
    now = again(service, node)
    assert now.reservation is None and now.run_id is None
    assert now.provision_updated_at == before.provision_updated_at


# --- adopting --------------------------------------------------------------------------------


def test_an_adoption(service):
    node = manageable(service)
    act(service, node, states.ADOPT)
    now = support.settle(service.database, node.id, states.ACTIVE)
    assert (now.target_provision_state, now.last_error) == (None, None)
    assert told(service, node)[0] == "adopt success"


def test_an_adoption_that_fails_is_repeated_or_left(service):
    node = manageable(service, adopt="raises")
    act(service, node, states.ADOPT)
    now = support.settle(service.database, node.id, states.ADOPTFAIL)
    assert "no instance there" in now.last_error
    assert now.target_provision_state == states.ACTIVE
    act(service, node, states.ADOPT)
    support.settle(service.database, node.id, states.ADOPTFAIL)
    act(service, node, states.MANAGE)
    assert again(service, node).provision_state == states.MANAGEABLE


# --- rescuing --------------------------------------------------------------------------------


def rescue(service, node, password=PASSWORD):
    service.manager.do_node_rescue(RequestContext(user_id="ann"), node.uuid, password)


def test_a_rescue_and_the_way_back(service):
    node = active(service)
    rescue(service, node)
    now = support.settle(service.database, node.id, states.RESCUE)
    assert Rescue.given == [PASSWORD]
    assert "rescue_password" not in now.instance_info
    act(service, node, states.UNRESCUE)
    now = support.settle(service.database, node.id, states.ACTIVE)
    assert (now.last_error, now.target_provision_state) == (None, None)
    assert [r.flow for r in runs.of_node(service.database, node.id)] == ["unrescue", "rescue"]


@pytest.mark.parametrize("password", ["", "  ", None, 7])
def test_a_rescue_needs_a_password(service, password):
    node = active(service)
    with pytest.raises(exceptions.InvalidParameterValue, match="rescue_password"):
        rescue(service, node, password)
    assert again(service, node).provision_state == states.ACTIVE


def test_a_rescue_that_fails_keeps_no_password(service):
    """F76, F78: nor does its reason tell it."""
    node = active(service, rescue="raises")
    rescue(service, node)
    now = support.settle(service.database, node.id, states.RESCUEFAIL)
    assert "rescue_password" not in now.instance_info
    assert PASSWORD not in now.last_error and "******" in now.last_error
    assert Rescue.cleaned == [node.uuid]
    entry = nodes.history_of(service.database, node.id)[0]
    assert PASSWORD not in entry.event
    attempt = support.attempts(service.database, node)[0]
    assert PASSWORD not in str(attempt.evidence) + attempt.error


def test_a_rescue_waits_for_the_agent(service):
    node = active(service, rescue="waits")
    rescue(service, node)
    now = support.settle(service.database, node.id, states.RESCUEWAIT)
    assert now.instance_info["rescue_password"] == PASSWORD, "the agent's driver needs it"
    assert now.target_provision_state == states.RESCUE
    support.beat(service, node, support.token(service, node))
    now = support.settle(service.database, node.id, states.RESCUE)
    assert "rescue_password" not in now.instance_info


@pytest.mark.parametrize("how", ["abort", "silence", "undeploy", "delete"])
def test_a_waiting_rescue_ends(service, how):
    """F37: whatever ends it, the password is gone and nothing is left over."""
    node = active(service, rescue="waits")
    rescue(service, node)
    support.settle(service.database, node.id, states.RESCUEWAIT)
    wanted = states.RESCUEFAIL
    if how == "abort":
        act(service, node, states.ABORT)
    elif how == "silence":
        past = types.utcnow() - datetime.timedelta(days=1)
        with service.database.engine.begin() as connection:
            connection.execute(sa.update(StepAttempt).values(waiting_since=past, due_at=past))
        service.runtime.wake()
    elif how == "undeploy":
        service.manager.do_node_tear_down(None, node.uuid)
        wanted = states.AVAILABLE
    else:
        put(service, node, maintenance=True)
        service.manager.destroy_node(None, node.uuid)
        with pytest.raises(exceptions.NodeNotFound):
            again(service, node)
        return
    now = support.settle(service.database, node.id, wanted)
    assert "rescue_password" not in now.instance_info and now.run_id is None
    if how == "silence":
        assert "rescue_callback_timeout" in now.last_error


@pytest.mark.parametrize(
    "state", [states.RESCUE, states.RESCUEFAIL, states.UNRESCUEFAIL, states.ACTIVE]
)
def test_where_a_rescue_may_begin(service, state):
    node = support.enrolled(service, provision_state=state)
    rescue(service, node)
    support.settle(service.database, node.id, states.RESCUE)


def test_no_rescue_in_maintenance_but_an_inspection_and_an_adoption(service):
    node = active(service, any=True)
    put(service, node, maintenance=True)
    with pytest.raises(exceptions.NodeInMaintenance):
        rescue(service, node)
    put(service, node, provision_state=states.RESCUE)
    with pytest.raises(exceptions.NodeInMaintenance):
        act(service, node, states.UNRESCUE)
    put(service, node, provision_state=states.MANAGEABLE)
    act(service, node, states.INSPECT)
    support.settle(service.database, node.id, states.MANAGEABLE)
    act(service, node, states.ADOPT)
    support.settle(service.database, node.id, states.ACTIVE)


# --- crashes ---------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", JOBS)
def test_a_call_that_a_crash_cut_off_ends_with_a_reason(database, start, conf, verb):
    """F43, F44, promise 10: no such call is said to be safe to repeat."""
    service = start(database, inspect=Inspect, rescue=Rescue)
    flow = JOBS[verb]
    node = support.enrolled(service)
    with database.engine.begin() as connection:
        run = service_run(connection, node, flow)
        connection.execute(
            sa.update(Node)
            .where(Node.id == node.id)
            .values(
                provision_state=flow.running,
                run_id=run,
                reservation="gone",
                lock_token="t",
                instance_info={"rescue_password": "xxxx"},
                maintenance=True,
            )
        )
    now = support.settle(database, node.id, flow.failed)
    assert "conductor gone was lost" in now.last_error
    assert flow.prepare.method in now.last_error
    assert bool(flow.drops) == ("rescue_password" not in now.instance_info)
    assert runs.get(database, run).outcome == "failed"


def service_run(connection, node, flow):
    run, _uuid = transitions.start_run(
        connection, node_id=node.id, flow=flow.name, plan=[], started_at=types.utcnow()
    )
    connection.execute(
        sa.insert(StepAttempt).values(
            run_id=run,
            position=0,
            attempt=1,
            node_id=node.id,
            interface=flow.prepare.interface,
            step=flow.prepare.method,
            state=runs.RUNNING,
            conductor="gone",
            started_at=types.utcnow(),
            reenter=False,
        )
    )
    return run


def test_a_wait_goes_on_after_a_restart(sqlite, start):
    """Promise 10: a crash is no failure of what waits."""
    service = start(sqlite, inspect=Inspect)
    node = manageable(service, inspect="waits")
    act(service, node, states.INSPECT)
    support.settle(sqlite, node.id, states.INSPECTWAIT)
    service.stop(1)
    service = start(sqlite, inspect=Inspect)
    assert again(service, node).provision_state == states.INSPECTWAIT
    with acquire(None, node.uuid, runtime=service.runtime) as task:
        task.complete_step()
    support.settle(sqlite, node.id, states.MANAGEABLE)


def test_every_job_has_its_states_to_itself():
    held = [state for flow in RUNS.values() for state in flow.states]
    assert len(held) == len(set(held))
    assert {*states.TRANSIENT_STATES} - {*held} == {states.DELETING}
    assert {*held} >= states.WAIT_STATES
