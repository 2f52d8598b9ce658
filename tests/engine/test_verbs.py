"""The manager's verbs other than deploying: inventory, manage, undeploy, power."""

from __future__ import annotations

import threading
import time
from typing import Any
from uuid import uuid4

import pytest
import sqlalchemy as sa

from deploysteps import exceptions, states
from deploysteps.conductor import task_manager
from deploysteps.db import nodes, ports
from deploysteps.db.models import Node
from deploysteps.drivers import base, fake
from tests import support


def put(database, node, **values):
    with database.engine.begin() as connection:
        connection.execute(sa.update(Node).where(Node.id == node.id).values(**values))


def test_enrolling_fills_in_the_drivers_interfaces(database, start):
    service = start(database)
    node = service.manager.create_node(None, {"driver": "test-hardware", "name": "n1"})
    assert node.provision_state == states.ENROLL
    assert node.deploy_interface == node.power_interface == "test"
    assert nodes.get(database, "n1").uuid == node.uuid


@pytest.mark.parametrize(
    ("values", "error", "words"),
    [
        ({}, exceptions.MissingParameterValue, "driver"),
        ({"driver": "test-hardwear"}, exceptions.InvalidParameterValue, "did you mean"),
        ({"driver": "test-hardware", "power_interface": "ipmi"},
         exceptions.InvalidParameterValue, "power interface 'ipmi'"),
    ],
)  # fmt: skip
def test_a_mistake_in_enrolling_is_named_and_leaves_nothing(sqlite, start, values, error, words):
    """Promise 13, F90."""
    service = start(sqlite)
    with pytest.raises(error, match=words) as caught:
        service.manager.create_node(None, values)
    assert caught.value.code == 400
    assert nodes.listing(sqlite) == []


def test_clashes_are_told_apart(database, start):
    service = start(database)
    manager = service.manager
    instance = "11111111-1111-1111-1111-111111111111"
    one = manager.create_node(
        None, {"driver": "test-hardware", "name": "a", "instance_uuid": instance}
    )
    for values, error in (
        ({"name": "a"}, exceptions.DuplicateName),
        ({"uuid": one.uuid}, exceptions.NodeAlreadyExists),
        ({"instance_uuid": instance}, exceptions.InstanceAssociated),
    ):
        with pytest.raises(error) as caught:
            manager.create_node(None, {"driver": "test-hardware", **values})
        assert caught.value.code == 409
    two = manager.create_node(None, {"driver": "test-hardware", "name": "b"})
    with pytest.raises(exceptions.DuplicateName, match="a already exists"):
        manager.update_node(None, two.uuid, {"name": "a"})
    assert nodes.get(database, two.uuid).reservation is None
    port = manager.create_port(None, one.uuid, {"address": "AA:BB:CC:DD:EE:FF"})
    assert port.address == "aa:bb:cc:dd:ee:ff" and port.node_uuid == one.uuid
    with pytest.raises(exceptions.MACAlreadyExists):
        manager.create_port(None, two.uuid, {"address": "aa:bb:cc:dd:ee:ff"})
    with pytest.raises(exceptions.PortAlreadyExists):
        manager.create_port(None, two.uuid, {"address": "aa:bb:cc:dd:ee:00", "uuid": port.uuid})


def test_ports_are_changed_and_removed_under_the_nodes_lock(sqlite, start, conf):
    conf.set_override("node_locked_retry_attempts", 0, group="conductor")
    service = start(sqlite)
    manager = service.manager
    node = support.enrolled(service)
    port = ports.of_node(sqlite, node.id)[0]
    assert manager.update_port(None, port.uuid, {"pxe_enabled": False}).pxe_enabled is False
    with (
        task_manager.acquire(None, node.uuid, runtime=service.runtime),
        pytest.raises(exceptions.NodeLocked),
    ):
        manager.destroy_port(None, port.uuid)
    manager.destroy_port(None, port.uuid)
    with pytest.raises(exceptions.PortNotFound):
        manager.destroy_port(None, port.uuid)


def test_updating_keeps_what_it_is_told_and_refuses_busy_nodes(database, start, conf):
    conf.set_override("node_locked_retry_attempts", 1, group="conductor")
    service = start(database)
    manager = service.manager
    node = support.enrolled(service)
    changed = manager.update_node(None, node.uuid, {"extra": {"a": [1]}, "owner": "me"})
    assert changed.extra == {"a": [1]} and changed.updated_at is not None
    assert nodes.get(database, node.uuid).extra == {"a": [1]}
    with (
        task_manager.acquire(None, node.uuid, purpose="x", runtime=service.runtime),
        pytest.raises(exceptions.NodeLocked),
    ):
        manager.update_node(None, node.uuid, {"owner": "you"})
    put(database, node, provision_state=states.DEPLOYWAIT)
    with pytest.raises(exceptions.Conflict, match="state transition is in progress"):
        manager.update_node(None, node.uuid, {"owner": "you"})
    assert nodes.get(database, node.uuid).owner == "me"


def test_a_change_that_was_made_from_an_older_value_is_refused(database, start):
    """No update is lost to another that came in between."""
    service = start(database)
    node = support.enrolled(service, extra={"a": 1})
    update = service.manager.update_node
    update(None, node.uuid, {"extra": {"a": 1, "b": 2}}, before={"extra": {"a": 1}})
    with pytest.raises(exceptions.Conflict, match="extra"):
        update(None, node.uuid, {"extra": {"a": 1, "c": 3}}, before={"extra": {"a": 1}})
    assert nodes.get(database, node.uuid).extra == {"a": 1, "b": 2}


def test_an_instance_is_not_put_in_the_place_of_another(database, start):
    """Of two schedulers that take one node, the second one is told."""
    service = start(database)
    update, first = service.manager.update_node, "11111111-1111-1111-1111-111111111111"
    node = support.enrolled(service, instance_uuid=first)
    assert update(None, node.uuid, {"instance_uuid": first.upper()}).instance_uuid == first
    with pytest.raises(exceptions.NodeAssociated, match=first) as caught:
        update(None, node.uuid, {"instance_uuid": "22222222-2222-2222-2222-222222222222"})
    assert caught.value.code == 409
    assert nodes.get(database, node.uuid).instance_uuid == first
    assert update(None, node.uuid, {"instance_uuid": None}).instance_uuid is None


@pytest.mark.parametrize("state", [states.ACTIVE, states.DEPLOYFAIL, states.RESCUE])
def test_an_instance_keeps_its_interfaces_and_resource_class(sqlite, start, state):
    service = start(sqlite)
    update = service.manager.update_node
    node = support.enrolled(service, resource_class="gold")
    put(sqlite, node, provision_state=state)
    for changes in ({"boot_interface": "fake"}, {"resource_class": "other"}):
        with pytest.raises(exceptions.InvalidState, match=next(iter(changes))) as caught:
            update(None, node.uuid, changes)
        assert caught.value.code == 409
    same = {"boot_interface": node.boot_interface, "resource_class": "gold", "extra": {"a": 1}}
    assert update(None, node.uuid, same).extra == {"a": 1}
    put(sqlite, node, maintenance=True)
    assert update(None, node.uuid, {"boot_interface": node.boot_interface})
    with pytest.raises(exceptions.InvalidState, match="resource_class"):
        update(None, node.uuid, {"resource_class": "other"})
    put(sqlite, node, provision_state=states.AVAILABLE)
    assert update(None, node.uuid, {"resource_class": "other"}).resource_class == "other"


def test_interfaces_can_be_reset_and_wrong_ones_are_refused(sqlite, start):
    service = start(sqlite)
    manager = service.manager
    node = support.enrolled(service)
    put(sqlite, node, power_interface="gone")
    with pytest.raises(exceptions.InvalidParameterValue, match="gone"):
        manager.update_node(None, node.uuid, {"boot_interface": "test"})
    assert manager.update_node(None, node.uuid, {}, reset_interfaces=True).power_interface == "test"


def test_a_node_whose_driver_is_gone_can_be_mended_and_deleted(database, start):
    """F93."""
    service = start(database)
    manager = service.manager
    node = support.enrolled(service)
    put(database, node, driver="uninstalled", provision_state=states.ENROLL)
    assert manager.update_node(None, node.uuid, {"extra": {"a": 1}}).extra == {"a": 1}
    manager.set_node_maintenance(None, node.uuid, True, "driver is gone")
    report = manager.validate_driver_interfaces(None, node.uuid)
    assert report["power"]["result"] is False and "uninstalled" in report["power"]["reason"]
    with pytest.raises(exceptions.InvalidParameterValue, match="uninstalled"):
        manager.do_provisioning_action(None, node.uuid, "manage")
    put(database, node, provision_state=states.AVAILABLE, maintenance=False)
    with pytest.raises(exceptions.InvalidParameterValue, match="uninstalled"):
        manager.do_node_deploy(None, node.uuid)
    manager.destroy_node(None, node.uuid)
    with pytest.raises(exceptions.NodeNotFound):
        nodes.get(database, node.uuid)


def test_maintenance_is_set_and_cleared_on_a_locked_node(sqlite, start):
    service = start(sqlite)
    node = support.enrolled(service)
    with task_manager.acquire(None, node.uuid, runtime=service.runtime):
        service.manager.set_node_maintenance(None, node.uuid, True, "fan")
        assert nodes.get(sqlite, node.uuid).maintenance_reason == "fan"
        service.manager.set_node_maintenance(None, node.uuid, False)
    after = nodes.get(sqlite, node.uuid)
    assert after.maintenance is False and after.maintenance_reason is None


@pytest.mark.parametrize("state", sorted(states.STATES))
def test_deleting_follows_the_table_unless_in_maintenance(sqlite, start, state):
    service = start(sqlite)
    node = support.enrolled(service)
    put(sqlite, node, provision_state=state)
    if state not in states.DELETABLE_STATES:
        with pytest.raises(exceptions.InvalidState) as caught:
            service.manager.destroy_node(None, node.uuid)
        assert caught.value.code == 409
        put(sqlite, node, maintenance=True)
    service.manager.destroy_node(None, node.uuid)
    assert nodes.listing(sqlite) == [] and ports.listing(sqlite) == []


def test_a_protected_node_is_left_alone(sqlite, start):
    service = start(sqlite)
    manager = service.manager
    node = support.enrolled(service)
    with pytest.raises(exceptions.InvalidState) as caught:
        manager.update_node(None, node.uuid, {"protected": True})
    assert caught.value.code == 409
    put(sqlite, node, provision_state=states.ACTIVE)
    manager.update_node(None, node.uuid, {"protected": True})
    for verb in (
        lambda: manager.do_node_tear_down(None, node.uuid),
        lambda: manager.do_node_deploy(None, node.uuid, rebuild=True),
        lambda: manager.destroy_node(None, node.uuid),
    ):
        with pytest.raises(exceptions.NodeProtected):
            verb()
    assert nodes.get(sqlite, node.uuid).reservation is None


@pytest.mark.parametrize("flag", ["protected", "retired"])
def test_a_reason_goes_with_its_flag(sqlite, start, flag):
    service, reason = start(sqlite), f"{flag}_reason"
    manager = service.manager
    for values in ({reason: "because"}, {flag: False, reason: "because"}):
        with pytest.raises(exceptions.InvalidParameterValue, match=f"only be set when {flag}"):
            manager.create_node(None, {"driver": "test-hardware", **values})
    if flag == "protected":
        with pytest.raises(exceptions.InvalidParameterValue, match="new node can not be protected"):
            manager.create_node(None, {"driver": "test-hardware", "protected": True})
    node = support.enrolled(service)
    put(sqlite, node, provision_state=states.ACTIVE)
    with pytest.raises(exceptions.InvalidParameterValue, match=f"only be set when {flag}"):
        manager.update_node(None, node.uuid, {reason: "because"})
    manager.update_node(None, node.uuid, {flag: True, reason: "because"})
    assert getattr(manager.update_node(None, node.uuid, {flag: True}), reason) == "because"
    assert getattr(manager.update_node(None, node.uuid, {flag: False}), reason) is None


def test_a_node_with_children_is_not_removed(sqlite, start):
    """What is left would be a part of nothing, which no list shows."""
    manager = start(sqlite).manager
    parent, child, below = (
        manager.create_node(None, {"driver": "test-hardware", "name": name})
        for name in ("parent", "child", "below")
    )
    manager.update_node(None, child.uuid, {"parent_node": parent.uuid})
    manager.update_node(None, below.uuid, {"parent_node": child.uuid})
    put(sqlite, parent, maintenance=True)
    with pytest.raises(exceptions.InvalidParameterValue, match="parent_node of 1 other node"):
        manager.destroy_node(None, parent.uuid)
    for above, named in ((parent, parent), (parent, child), (parent, below)):
        with pytest.raises(exceptions.InvalidParameterValue, match="the same, or below it"):
            manager.update_node(None, above.uuid, {"parent_node": named.uuid})
    with pytest.raises(exceptions.InvalidParameterValue, match="no such node"):
        manager.create_node(None, {"driver": "test-hardware", "parent_node": str(uuid4())})
    for node in (below, child, parent):
        manager.destroy_node(None, node.uuid)
    assert nodes.listing(sqlite) == []


def test_two_nodes_do_not_become_each_others_parent_at_once(sqlite, start):
    """While a parent is given, its own parents stay what they are."""
    manager = start(sqlite).manager
    top, middle, low = (manager.create_node(None, {"driver": "test-hardware"}) for _ in range(3))
    manager.update_node(None, middle.uuid, {"parent_node": top.uuid})
    for held in (top, middle):
        put(sqlite, held, reservation="somebody", lock_token="t")
        with pytest.raises(exceptions.NodeLocked):
            manager.update_node(None, low.uuid, {"parent_node": middle.uuid})
        put(sqlite, held, reservation=None, lock_token=None)
    assert nodes.get(sqlite, low.id).parent_node is None
    manager.update_node(None, low.uuid, {"parent_node": middle.uuid})
    assert [nodes.get(sqlite, one.id).reservation for one in (top, middle, low)] == [None] * 3


def test_a_port_is_given_to_another_node(sqlite, start):
    """Under the locks of both; its portgroup does not come along."""
    manager = start(sqlite).manager
    one, two = (manager.create_node(None, {"driver": "test-hardware"}) for _ in range(2))
    group = manager.create_portgroup(None, one.uuid, {})
    values = {"address": "52:54:00:00:00:77", "portgroup_uuid": group.uuid}
    port = manager.create_port(None, one.uuid, values)
    to_two = {"node_uuid": two.uuid, "portgroup_uuid": None}
    with pytest.raises(exceptions.InvalidParameterValue, match="has no portgroup"):
        manager.update_port(None, port.uuid, {"node_uuid": two.uuid})
    put(sqlite, two, reservation="somebody", lock_token="t")
    with pytest.raises(exceptions.NodeLocked):
        manager.update_port(None, port.uuid, to_two)
    assert [p.uuid for p in ports.of_node(sqlite, one.id)] == [port.uuid]
    put(sqlite, two, reservation=None, lock_token=None)
    moved = manager.update_port(None, port.uuid, {**to_two, "extra": {"a": 1}})
    assert (moved.node_uuid, moved.portgroup_uuid, moved.extra) == (two.uuid, None, {"a": 1})
    assert [p.uuid for p in ports.of_node(sqlite, two.id)] == [port.uuid]
    assert ports.of_node(sqlite, one.id) == []
    assert [nodes.get(sqlite, node.id).reservation for node in (one, two)] == [None, None]
    again = manager.update_port(None, port.uuid, {"node_uuid": two.uuid})
    assert again.node_uuid == two.uuid


@pytest.fixture
def meanwhile(monkeypatch):
    """Set what happens, once, between the moment a node is read and that in which it is locked."""
    grant, left = task_manager.locks.grant, []

    def late(*args, **kwargs):
        if left:
            left.pop()()
        return grant(*args, **kwargs)

    monkeypatch.setattr(task_manager.locks, "grant", late)
    return left.append


def test_a_port_that_has_got_another_node_is_not_touched_under_the_lock_of_the_old(
    database, start, meanwhile
):
    manager = start(database).manager
    one, two = (manager.create_node(None, {"driver": "test-hardware"}) for _ in range(2))
    port = manager.create_port(None, one.uuid, {"address": "52:54:00:00:00:77"})
    to_two = {"node_id": two.id, "node_uuid": two.uuid}
    for verb in (manager.destroy_port, lambda *asked: manager.update_port(*asked, {"extra": {}})):
        ports.update(database, port.uuid, {"node_id": one.id, "node_uuid": one.uuid})
        meanwhile(lambda: ports.update(database, port.uuid, to_two))
        with pytest.raises(exceptions.Conflict, match="just given to another node"):
            verb(None, port.uuid)
    assert [p.uuid for p in ports.of_node(database, two.id)] == [port.uuid]
    assert [nodes.get(database, node.id).reservation for node in (one, two)] == [None, None]
    manager.destroy_port(None, port.uuid)


def test_a_parent_is_not_removed_while_its_child_is_made(database, start, conf, meanwhile):
    conf.set_override("node_locked_retry_attempts", 0, group="conductor")
    service = start(database)
    manager = service.manager
    parent = manager.create_node(None, {"driver": "test-hardware"})
    child = {"driver": "test-hardware", "parent_node": parent.uuid}
    with (
        task_manager.acquire(None, parent.uuid, purpose="removal", runtime=service.runtime),
        pytest.raises(exceptions.NodeLocked),
    ):
        manager.create_node(None, child)
    meanwhile(lambda: manager.destroy_node(None, parent.uuid))
    with pytest.raises(exceptions.InvalidParameterValue, match="no such node"):
        manager.create_node(None, child)
    assert nodes.listing(database) == [] and not service.runtime.active
    parent = manager.create_node(None, {"driver": "test-hardware"})
    manager.create_node(None, {**child, "parent_node": parent.uuid})
    assert nodes.get(database, parent.id).reservation is None


# --- manage, provide, undeploy ---------------------------------------------------------


def test_manage_learns_the_power_state_and_provide_makes_available(database, start):
    service = start(database)
    node = support.enrolled(service, provision_state=states.ENROLL)
    service.manager.do_provisioning_action(None, node.uuid, "manage")
    node = support.settle(database, node.uuid, states.MANAGEABLE)
    assert node.power_state == states.POWER_OFF and node.last_error is None
    service.manager.do_provisioning_action(None, node.uuid, "provide")
    node = support.settle(database, node.uuid, states.AVAILABLE)
    assert node.target_provision_state is None
    with pytest.raises(exceptions.InvalidStateRequested, match="provide"):
        service.manager.do_provisioning_action(None, node.uuid, "provide")
    with pytest.raises(exceptions.InvalidParameterValue, match="clean"):
        service.manager.do_provisioning_action(None, node.uuid, "clean")


class NoPower(fake.FakePower):
    def get_power_state(self, task):
        raise ConnectionError("no route to http://root:calvin@bmc/")


def test_a_node_that_cannot_be_managed_says_why_without_its_secrets(database, start):
    service = start(database, power=NoPower)
    node = support.enrolled(service, provision_state=states.ENROLL)
    service.manager.do_provisioning_action(None, node.uuid, "manage")
    node = support.until(
        lambda: (n := nodes.get(database, node.uuid)).last_error and n.reservation is None and n
    )
    assert node.provision_state == states.ENROLL
    assert "no route" in node.last_error and "calvin" not in node.last_error


def test_undeploying_takes_the_instance_off_the_node(database, start):
    service = start(database)
    node = support.enrolled(service, provision_state=states.ACTIVE)
    put(
        database,
        node,
        instance_uuid="22222222-2222-2222-2222-222222222222",
        instance_info={"image_source": "http://x"},
        deploy_step={"interface": "deploy", "step": "old", "priority": 1},
    )
    service.manager.do_node_tear_down(None, node.uuid)
    node = support.settle(database, node.uuid, states.AVAILABLE)
    assert node.instance_uuid is None and node.instance_info == {}
    assert node.deploy_step is None


def test_a_failing_undeploy_is_an_error_that_can_be_tried_again(sqlite, start):
    class Stuck(fake.FakeDeploy):
        stuck = True

        def tear_down(self, task):
            if Stuck.stuck:
                raise RuntimeError("the switch does not answer")

    service = start(sqlite, deploy=Stuck)
    node = support.enrolled(service, provision_state=states.ACTIVE)
    service.manager.do_node_tear_down(None, node.uuid)
    node = support.settle(sqlite, node.uuid, states.ERROR)
    assert "the switch does not answer" in node.last_error
    Stuck.stuck = False
    service.manager.do_node_tear_down(None, node.uuid)
    assert support.settle(sqlite, node.uuid, states.AVAILABLE).last_error is None


@pytest.mark.parametrize("state", sorted(states.STATES))
def test_every_verb_in_every_state_is_done_or_refused(sqlite, start, state):
    """F25: the table decides, never an exception of another kind."""
    service = start(sqlite)
    manager = service.manager
    verbs = {
        states.DEPLOY: lambda n: manager.do_node_deploy(None, n.uuid),
        states.REBUILD: lambda n: manager.do_node_deploy(None, n.uuid, rebuild=True),
        states.DELETE: lambda n: manager.do_node_tear_down(None, n.uuid),
        states.MANAGE: lambda n: manager.do_provisioning_action(None, n.uuid, "manage"),
        states.PROVIDE: lambda n: manager.do_provisioning_action(None, n.uuid, "provide"),
    }
    for event, verb in verbs.items():
        node = support.enrolled(service)
        put(sqlite, node, provision_state=state)
        if states.can(state, event):
            verb(node)
            support.settle(sqlite, node.uuid, *states.STABLE_STATES)
        else:
            with pytest.raises(exceptions.InvalidStateRequested) as caught:
                verb(node)
            assert caught.value.code == 400
            after = nodes.get(sqlite, node.uuid)
            assert (after.provision_state, after.reservation) == (state, None)


# --- power ----------------------------------------------------------------------------


def test_a_power_change_shows_its_target_and_then_the_state(database, start):
    go = threading.Event()

    class Slow(fake.FakePower):
        def set_power_state(self, task, power_state, timeout=None):
            go.wait(10)
            assert timeout == 30

    service = start(database, power=Slow)
    node = support.enrolled(service)
    service.manager.change_node_power_state(None, node.uuid, states.POWER_ON, timeout=30)
    assert nodes.get(database, node.uuid).target_power_state == states.POWER_ON
    go.set()
    node = support.until(lambda: (n := nodes.get(database, node.uuid)).reservation is None and n)
    assert (node.power_state, node.target_power_state) == (states.POWER_ON, None)


def test_a_failing_power_change_is_told_and_a_good_one_keeps_a_failed_runs_reason(sqlite, start):
    """F71: a later power change does not take the reason of a failed state away."""

    class Flaky(fake.FakePower):
        broken = True

        def set_power_state(self, task, power_state, timeout=None):
            if Flaky.broken:
                raise exceptions.PowerStateFailure(pstate=power_state)

    service = start(sqlite, power=Flaky)
    node = support.enrolled(service)

    def change():
        service.manager.change_node_power_state(None, node.uuid, states.POWER_OFF)
        return support.until(lambda: (n := nodes.get(sqlite, node.uuid)).reservation is None and n)

    failed = change()
    assert failed.power_state == states.ERROR and "power off" in failed.last_error
    Flaky.broken = False
    assert change().last_error is None
    put(sqlite, node, provision_state=states.DEPLOYFAIL, last_error="the disk is gone")
    assert change().last_error == "the disk is gone"


@pytest.mark.parametrize(
    ("target", "timeout"), [("boil", None), ("", None), (states.POWER_ON, 0), (states.POWER_ON, -1)]
)
def test_a_power_target_that_makes_no_sense_is_refused(sqlite, start, target, timeout):
    service = start(sqlite)
    node = support.enrolled(service)
    with pytest.raises(exceptions.InvalidParameterValue):
        service.manager.change_node_power_state(None, node.uuid, target, timeout)
    after = nodes.get(sqlite, node.uuid)
    assert after.reservation is None and after.target_power_state is None


# --- asking ------------------------------------------------------------------------------


def test_one_broken_validate_does_not_hide_the_others(sqlite, start):
    """F92."""

    class Broken(support.Vendor):
        def validate(self, task: Any, *args: Any, **kwargs: Any) -> None:
            raise ZeroDivisionError("oops")

    service = start(sqlite, vendor=Broken)
    node = support.enrolled(service)
    report = service.manager.validate_driver_interfaces(None, node.uuid)
    assert report["vendor"] == {"result": False, "reason": "ZeroDivisionError: oops"}
    assert report["power"] == {"result": True}
    assert set(report) == set(base.INTERFACES)


def test_the_steps_of_a_node_are_listed_with_overrides_and_disabled_ones(sqlite, start, conf):
    class Some(support.Vendor):
        @base.deploy_step(priority=30, abortable=False, repeatable=True)
        def some(self, task):
            return None

        @base.deploy_step(priority=0)
        def off(self, task):
            return None

    conf.set_override("deploy_step_priority_override", ["vendor.some:5"], group="conductor")
    service = start(sqlite, vendor=Some)
    node = support.enrolled(service)
    found = {s["step"]: s for s in service.manager.get_node_steps(None, node.uuid)}
    some = found["some"]
    assert (some["priority"], some["default_priority"], some["flow"]) == (5, 30, "deploy")
    assert (some["abortable"], some["repeatable"], some["source"]) == (False, True, "configuration")
    assert some["replaced"] == [{"source": "driver", "priority": 30}]
    assert found["off"]["priority"] == 0
    assert Some.declared_steps["deploy"]["some"].priority == 30


@pytest.mark.parametrize("entry", ["vendor.nope:5", "power.anything:1"])
def test_an_override_of_an_unknown_step_is_refused_at_start(sqlite, start, conf, entry):
    conf.set_override("deploy_step_priority_override", [entry], group="conductor")
    with pytest.raises(exceptions.ConfigurationError, match=entry.split(".")[1].split(":")[0]):
        start(sqlite, vendor=support.Vendor)


def test_collection_hooks_are_called_once_a_run(sqlite, start):
    """F94."""
    calls = []

    class Counting(support.Vendor):
        def get_deploy_steps(self, task):
            calls.append(1)
            return super().get_deploy_steps(task)

    service = start(sqlite, vendor=Counting)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(sqlite, node.uuid, states.ACTIVE)
    assert len(calls) == 1


def test_reads_take_no_lock(sqlite, start, conf):
    """F61."""
    service = start(sqlite)
    node = support.enrolled(service)
    with task_manager.acquire(None, node.uuid, runtime=service.runtime):
        conf.set_override("node_locked_retry_interval", 60, group="conductor")
        begun = time.monotonic()
        service.manager.get_node_steps(None, node.uuid)
        service.manager.validate_driver_interfaces(None, node.uuid)
        nodes.listing(sqlite)
        assert time.monotonic() - begun < 30


def test_a_shared_task_saves_changed_columns_and_never_step_state(database, start):
    service = start(database)
    node = support.enrolled(service)
    with task_manager.acquire(None, node.uuid, shared=True, runtime=service.runtime) as task:
        put(database, node, owner="someone else")
        task.node.extra["seen"] = True
        task.node.set_driver_internal_info("deploy_steps", [{"step": "x"}])
        task.node.deploy_step = {"step": "x"}
        task.node.save()
    after = nodes.get(database, node.uuid)
    assert after.extra == {"seen": True} and after.owner == "someone else"
    assert after.deploy_step is None and "deploy_steps" not in after.driver_internal_info


def test_a_task_can_be_upgraded_and_hands_its_lock_to_a_worker(database, start):
    service = start(database)
    node = support.enrolled(service)
    done = threading.Event()
    with task_manager.acquire(None, node.uuid, shared=True, runtime=service.runtime) as task:
        assert task.shared
        task.upgrade_lock(purpose="upgraded")
        assert not task.shared and nodes.get(database, node.uuid).lock_purpose == "upgraded"

        def work(word):
            assert nodes.get(database, node.uuid).reservation == "conductor-1"
            task.node.extra[word] = 1
            task.node.save()
            done.set()

        task.spawn_after(work, "hello")
    assert done.wait(10)
    support.settle(database, node.uuid, states.AVAILABLE)
    assert nodes.get(database, node.uuid).extra == {"hello": 1}
    task.release_resources()


def test_work_that_a_driver_spawned_and_that_raises_fails_the_node(sqlite, start):
    """F51: nothing disappears in a thread."""
    service = start(sqlite)
    node = support.enrolled(service, provision_state=states.ACTIVE)

    def work():
        raise KeyError("in the thread")

    with task_manager.acquire(None, node.uuid, runtime=service.runtime) as task:
        task.process_event("delete", callback=work)
    node = support.settle(sqlite, node.uuid, states.ERROR)
    assert "in the thread" in node.last_error


def test_a_spawn_that_finds_no_worker_is_told_and_frees_the_lock(sqlite, start, conf):
    conf.set_override("workers_pool_size", 3, group="conductor")
    service = start(sqlite)
    node = support.enrolled(service)
    slots = [service.runtime.workers.reserve(operator=True) for _ in range(3)]
    told = []
    task = task_manager.acquire(None, node.uuid, runtime=service.runtime)
    task.set_spawn_error_hook(lambda exc, word: told.append((type(exc), word)), "hook")
    task.spawn_after(lambda: None)
    with pytest.raises(exceptions.NoFreeConductorWorker), task:
        pass
    assert told == [(exceptions.NoFreeConductorWorker, "hook")]
    assert nodes.get(sqlite, node.uuid).reservation is None
    for slot in slots:
        slot.release()


def test_a_write_under_a_lost_lock_is_refused(database, start):
    """Promise 8."""
    service = start(database)
    node = support.enrolled(service)
    task = task_manager.acquire(None, node.uuid, runtime=service.runtime)
    put(database, node, lock_token="taken over", reservation="other")
    task.node.extra["late"] = True
    with pytest.raises(exceptions.LockLost):
        task.node.save()
    assert nodes.get(database, node.uuid).extra == {}
    task.release_resources()
    assert nodes.get(database, node.uuid).reservation == "other"
