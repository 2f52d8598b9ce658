"""Conductor groups: a conductor works on the nodes of its group, and on no others."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from deploysteps import exceptions, states
from deploysteps.conductor import power_sync, task_manager
from deploysteps.conductor.charge import Charge
from deploysteps.conductor.periodics import Periodics
from deploysteps.conductor.recovery import Recovery
from deploysteps.conductor.service import Service
from deploysteps.db import conductors, locks, nodes, runs
from deploysteps.db.models import Node, StepAttempt, table
from deploysteps.drivers import base, fake
from tests import support


@contextlib.contextmanager
def of_group(service: Service, group: str) -> Iterator[Service]:
    """Have a conductor be of another group for a while."""
    conf = service.runtime.conf
    before = conf.conductor.conductor_group
    conf.set_override("conductor_group", group, "conductor")
    try:
        yield service
    finally:
        conf.set_override("conductor_group", before, "conductor")


def another(service: Service, host: str, group: str) -> None:
    """Put a conductor beside it that offers the same."""
    offers = [tuple(offer) for offer in service.runtime.registry.offers()]
    conductors.register(service.database, host, host, offers, group)


def in_group(service: Service, group: str = "rack7", **values: Any) -> Any:
    """Return a node of another conductor's group."""
    another(service, "rack-1", group)
    return support.enrolled(service, conductor_group=group, **values)


def test_a_conductor_is_known_by_its_group_and_case_is_the_same(database, start, conf):
    conf.set_override("conductor_group", "Rack7", "conductor")
    service = start(database)
    assert conductors.get(database, service.runtime.host).conductor_group == "rack7"
    node = support.enrolled(service, conductor_group="RACK7")
    assert node.conductor_group == "rack7"
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(database, node.uuid, states.ACTIVE)


@pytest.mark.parametrize("group", ["two words", "a/b", "x\n", "x" * 256])
def test_a_setting_that_is_no_group_is_refused(conf, group):
    with pytest.raises(ValueError):
        conf.set_override("conductor_group", group, "conductor")


def test_work_on_a_node_of_another_group_is_refused_and_changes_nothing(database, start):
    service = start(database)
    node = in_group(service)
    manager = service.manager
    for work in (
        lambda: manager.do_node_deploy(None, node.uuid),
        lambda: manager.do_node_tear_down(None, node.uuid),
        lambda: manager.do_provisioning_action(None, node.uuid, states.MANAGE),
        lambda: manager.change_node_power_state(None, node.uuid, states.POWER_ON),
        lambda: manager.validate_driver_interfaces(None, node.uuid),
        lambda: manager.get_node_steps(None, node.uuid),
        lambda: manager.unlock_node(None, node.uuid),
    ):
        with pytest.raises(exceptions.ForeignConductorGroup) as refused:
            work()
        assert refused.value.code == 400
        assert str(refused.value) == (
            f"Node {node.uuid} is of conductor group 'rack7', and conductor conductor-1 is of no "
            "conductor group; ask rack-1."
        )
    found = nodes.get(database, node.uuid)
    assert found.provision_state == states.AVAILABLE and found.reservation is None
    conductors.leave(database, "rack-1", "rack-1")
    with pytest.raises(exceptions.ForeignConductorGroup, match="no conductor of that group"):
        manager.do_node_deploy(None, node.uuid)


def test_records_of_a_node_of_another_group_are_changed_anywhere(database, start):
    """One endpoint is enough for an inventory."""
    service = start(database)
    node = in_group(service)
    manager = service.manager
    assert manager.update_node(None, node.uuid, {"extra": {"a": 1}}).extra == {"a": 1}
    port = manager.create_port(None, node.uuid, {"address": "52:54:00:00:99:99"})
    manager.update_port(None, port.uuid, {"extra": {"b": 2}})
    manager.destroy_port(None, port.uuid)
    manager.destroy_node(None, node.uuid)


def test_a_node_moves_only_into_a_group_that_serves_its_driver(database, start):
    service = start(database)
    node = support.enrolled(service)
    manager = service.manager
    with pytest.raises(exceptions.InvalidParameterValue, match="conductor group 'rack7'"):
        manager.update_node(None, node.uuid, {"conductor_group": "rack7"})
    with pytest.raises(exceptions.InvalidParameterValue, match="conductor group 'rack7'"):
        support.enrolled(service, conductor_group="rack7")
    conductors.register(database, "c7", "b", [("other", "deploy", "fake", True)], "rack7")
    with pytest.raises(exceptions.InvalidParameterValue, match="'test-hardware'"):
        manager.update_node(None, node.uuid, {"conductor_group": "rack7"})
    another(service, "rack-1", "rack7")
    moved = manager.update_node(None, node.uuid, {"conductor_group": "Rack7"})
    assert moved.conductor_group == "rack7"
    conductors.leave(database, "rack-1", "rack-1")
    conductors.leave(database, "c7", "b")
    assert manager.update_node(None, node.uuid, {"conductor_group": ""}).conductor_group == ""
    manager.do_node_deploy(None, node.uuid)
    support.settle(database, node.uuid, states.ACTIVE)


def ipxe(service: Service) -> list[tuple[Any, ...]]:
    """Return the offers of a conductor that has another boot interface for the same type."""
    offers = [tuple(offer) for offer in service.runtime.registry.offers()]
    named = [(*offer[:2], "ipxe", True) if offer[1] == "boot" else offer for offer in offers]
    return [*named, *(("only-there", *offer[1:]) for offer in named)]


def test_a_node_has_the_interfaces_that_a_conductor_of_its_group_offers(database, start):
    """A request goes to one whose own interfaces tell nothing of those of another group."""
    service = start(database)
    manager = service.manager
    own = support.enrolled(service)
    conductors.register(database, "rack-1", "b", ipxe(service), "rack7")
    made = support.enrolled(service, conductor_group="rack7")
    assert (made.boot_interface, made.raid_interface) == ("ipxe", "test")
    there = support.enrolled(service, conductor_group="rack7", driver="only-there")
    assert there.boot_interface == "ipxe"
    lacks = "No conductor of conductor group 'rack7'.*: rack-1 does not offer boot interface 'test'"
    for work in (
        lambda: support.enrolled(service, conductor_group="rack7", boot_interface="test"),
        lambda: manager.update_node(None, made.uuid, {"boot_interface": "test"}),
        lambda: manager.update_node(None, own.uuid, {"conductor_group": "rack7"}),
    ):
        with pytest.raises(exceptions.InvalidParameterValue, match=lacks):
            work()
    with pytest.raises(exceptions.InvalidParameterValue, match="ipxe"):
        manager.update_node(None, made.uuid, {"conductor_group": ""})
    moved = manager.update_node(None, own.uuid, {"conductor_group": "rack7"}, True)
    assert (moved.conductor_group, moved.boot_interface) == ("rack7", "ipxe")
    conductors.leave(database, "rack-1", "b")
    assert manager.update_node(None, made.uuid, {"extra": {"a": 1}}).extra == {"a": 1}
    back = {"conductor_group": "", "boot_interface": "test"}
    assert manager.update_node(None, made.uuid, back).boot_interface == "test"


def test_a_node_is_not_enrolled_where_no_conductor_would_serve_it(database, start, conf):
    """Its group is what the request says, not that of the conductor that was asked."""
    conf.set_override("conductor_group", "rack7", "conductor")
    service = start(database)
    with pytest.raises(exceptions.InvalidParameterValue, match="without a conductor group"):
        support.enrolled(service)


@pytest.fixture
def moved(database, monkeypatch) -> None:
    """Give a node another group between the moment it is read and that in which it is locked."""
    grant = locks.grant

    def late(database: Any, node_id: int, host: str, purpose: str, **more: Any) -> Any:
        if host == "conductor-1":
            nodes.set_unlocked(database, node_id, {"conductor_group": "rack7"})
        return grant(database, node_id, host, purpose, **more)

    monkeypatch.setattr(task_manager.locks, "grant", late)


def test_a_node_that_moves_while_its_lock_is_waited_for_is_refused(database, start, moved):
    service = start(database)
    node = service.manager.create_node(
        None, {"driver": "test-hardware", "provision_state": states.AVAILABLE}
    )
    with pytest.raises(exceptions.ForeignConductorGroup):
        service.manager.do_node_deploy(None, node.uuid)
    found = nodes.get(database, node.uuid)
    assert found.reservation is None and found.provision_state == states.AVAILABLE
    assert not service.runtime.active
    nodes.set_unlocked(database, node.id, {"conductor_group": ""})
    with task_manager.acquire(None, node.uuid, shared=True, runtime=service.runtime) as task:
        with pytest.raises(exceptions.ForeignConductorGroup):
            task.upgrade_lock()
        assert task.shared and nodes.get(database, node.uuid).reservation is None


def test_clocks_leave_a_node_out_that_moves_while_they_look_at_it(database, start, moved, caplog):
    class Found(fake.FakePower):
        def get_power_state(self, task):
            return states.POWER_OFF

        def supports_power_sync(self, task):
            return True

    class Looks(fake.FakeRAID):
        @base.node_periodic(spacing=3600, shared_task=False)
        def look(self, task):
            raise AssertionError

    service = start(database, raid=Looks, power=Found)
    node = service.manager.create_node(
        None,
        {
            "driver": "test-hardware",
            "provision_state": states.AVAILABLE,
            "power_state": states.POWER_ON,
        },
    )
    caplog.set_level("WARNING")
    periodics = Periodics(service.runtime, None)
    (job,) = periodics.jobs
    assert periodics.run(job) == 0
    nodes.set_unlocked(database, node.id, {"conductor_group": ""})
    sync = power_sync.PowerSync(service.runtime)
    assert sync.round() == 1
    sync.stop()
    assert nodes.get(database, node.id).conductor_group == "rack7"
    assert not caplog.records


def test_clocks_leave_nodes_of_other_groups_alone(database, start):
    service = start(database)
    node = in_group(service)
    own = support.enrolled(service)
    another(service, "conductor-2", "rack8")
    charge = Charge(service.runtime)
    assert charge.mine(own) and not charge.mine(node)
    with of_group(service, "rack7"):
        conductors.leave(database, "rack-1", "rack-1")
        charge = Charge(service.runtime)
        assert charge.mine(node) and not charge.mine(own)


def test_what_a_lost_conductor_left_is_taken_over_by_its_group_only(database, start):
    """F47 of groups: a conductor at another site cannot reach the machine."""
    service = start(database)
    node = in_group(service, provision_state=states.DEPLOYING)
    locks.grant(database, node.id, "rack-1", "deploy")
    conductors.leave(database, "rack-1", "rack-1")
    recovery = Recovery(service.runtime)
    assert recovery.sweep() == 0
    assert nodes.get(database, node.uuid).reservation == "rack-1"
    with of_group(service, "rack7"):
        assert recovery.sweep() == 1
    support.settle(database, node.uuid, states.DEPLOYFAIL)


def test_waits_of_a_lost_conductor_are_looked_after_by_its_group_only(database, start):
    class Waits(support.Vendor):
        @base.deploy_step(priority=9)
        def wait(self, task):
            return states.wait(states.DEPLOYWAIT, callback=True)

    service = start(database, vendor=Waits)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(database, node.uuid, states.DEPLOYWAIT)
    assert service.stop(5)
    with database.engine.begin() as connection:
        connection.execute(sa.update(table(Node)).values(conductor_group="rack7"))
    other = start(database, host="conductor-2", vendor=Waits)
    recovery = Recovery(other.runtime)

    def owner() -> str:
        return support.attempts(database, node)[-1].conductor

    recovery.sweep()
    assert owner() == "conductor-1"
    with of_group(other, "rack7"):
        recovery.sweep()
    assert owner() == "conductor-2"


class Tells(support.Deploy):
    """Notes what is put away."""

    def __init__(self) -> None:
        super().__init__()
        self.put_away: list[str] = []

    def tear_down_cleaning(self, task):
        self.put_away.append(task.node.uuid)


class Cleans(support.Vendor):
    @base.clean_step(priority=0, abortable=False)
    def wait(self, task):
        return states.wait(states.CLEANWAIT, callback=True)


@contextlib.contextmanager
def left_by_a_group(database: Any, start: Any, lives: bool = False) -> Iterator[tuple[Any, Any]]:
    """Give a conductor, and a cleaning that waits at one of rack7, which is gone or lives."""
    service = start(database, vendor=Cleans, deploy=Tells)
    node = support.enrolled(service, provision_state=states.MANAGEABLE)
    step = {"interface": "vendor", "step": "wait", "args": {}}
    service.manager.do_node_clean(None, node.uuid, [step])
    support.settle(database, node.uuid, states.CLEANWAIT)
    assert service.stop(5)
    nodes.set_unlocked(database, node.id, {"conductor_group": "rack7"})
    other = start(database, host="conductor-2", vendor=Cleans, deploy=Tells)
    if lives:
        another(other, "rack-1", "rack7")
    put_away = other.runtime.registry.compose("test-hardware").deploy.put_away
    yield other, nodes.get(database, node.id)
    assert put_away == []


def may_go_on(service: Service, node: Any) -> None:
    """A node that is at rest is given to a conductor that lives, and is worked on."""
    manager = service.manager
    assert manager.update_node(None, node.uuid, {"conductor_group": ""}).conductor_group == ""
    manager.do_provisioning_action(None, node.uuid, states.MANAGE)
    support.settle(service.database, node.uuid, states.MANAGEABLE)


LEFT_ALONE = "the machine was left as it is, since no conductor of conductor group 'rack7' is alive"


def test_a_run_of_a_group_without_conductors_is_aborted_anywhere(database, start):
    with left_by_a_group(database, start) as (service, node):
        with pytest.raises(exceptions.ForeignConductorGroup, match="start one, or abort its run"):
            service.manager.validate_driver_interfaces(None, node.uuid)
        service.manager.do_provisioning_action(None, node.uuid, states.ABORT)
        found = nodes.get(database, node.id)
        assert found.provision_state == states.CLEANFAIL and found.reservation is None
        assert f"aborted by an operator; {LEFT_ALONE}" in found.last_error
        assert support.outcomes(database, node)[-1] == ("wait", 1, "aborted")
        with pytest.raises(exceptions.ForeignConductorGroup, match="or give the node another"):
            service.manager.validate_driver_interfaces(None, node.uuid)
        may_go_on(service, node)


@pytest.mark.parametrize("lives", [True, False])
def test_a_hold_is_ended_where_somebody_goes_on_with_it(database, start, lives):
    """A run that nobody would go on with stays on hold, and one who unholds it is told."""
    with left_by_a_group(database, start, lives) as (service, node):
        nodes.set_unlocked(database, node.id, {"provision_state": states.CLEANHOLD})
        with database.engine.begin() as connection:
            connection.execute(sa.update(table(StepAttempt)).values(owner="operator"))
        way_out = "start one, or abort its run"
        told = (
            contextlib.nullcontext()
            if lives
            else pytest.raises(exceptions.ForeignConductorGroup, match=way_out)
        )
        with told:
            service.manager.do_provisioning_action(None, node.uuid, states.UNHOLD)
        signal = runs.last_attempt(database, node.run_id).signal
        assert signal == ("done" if lives else None)
        assert nodes.get(database, node.id).provision_state == states.CLEANHOLD


@pytest.mark.parametrize("what", ["waits", "runs"])
def test_a_lock_of_a_group_without_conductors_is_broken_anywhere(database, start, what):
    with left_by_a_group(database, start) as (service, node):
        locks.grant(database, node.id, "rack-1", "node clean")
        if what == "runs":
            nodes.set_unlocked(database, node.id, {"provision_state": states.CLEANING})
            with database.engine.begin() as connection:
                connection.execute(sa.update(table(StepAttempt)).values(state=runs.RUNNING))
        for work in (
            lambda: service.manager.do_provisioning_action(None, node.uuid, states.ABORT),
            lambda: service.manager.do_node_deploy(None, node.uuid),
        ):
            with pytest.raises(exceptions.ForeignConductorGroup, match="start one, or unlock the"):
                work()
        assert Recovery(service.runtime).sweep() == 0
        service.manager.unlock_node(None, node.uuid, "rack7 burned down")
        found = support.settle(database, node.uuid, states.CLEANFAIL)
        assert LEFT_ALONE in found.last_error and "rack7 burned down" in found.last_error
        assert found.maintenance and found.fault == "clean failure"
        assert support.outcomes(database, node)[-1] == ("wait", 1, "interrupted")
        may_go_on(service, node)


def test_where_conductors_of_the_group_live_they_end_its_runs(database, start):
    with left_by_a_group(database, start, lives=True) as (service, node):
        service.manager.do_provisioning_action(None, node.uuid, states.ABORT)
        assert nodes.get(database, node.id).provision_state == states.CLEANWAIT
        nodes.set_unlocked(database, node.id, {"maintenance": True})
        with pytest.raises(exceptions.ForeignConductorGroup, match=r"ask rack-1\."):
            service.manager.destroy_node(None, node.uuid)
        assert nodes.get(database, node.id).reservation is None
        locks.grant(database, node.id, "rack-1", "node clean")
        with pytest.raises(exceptions.ForeignConductorGroup, match=r"ask rack-1\."):
            service.manager.unlock_node(None, node.uuid)


def test_a_node_of_a_group_without_conductors_is_removed_and_its_machine_left_alone(
    database, start
):
    with left_by_a_group(database, start) as (service, node):
        service.manager.set_node_maintenance(None, node.uuid, True)
        service.manager.destroy_node(None, node.uuid)
        with pytest.raises(exceptions.NodeNotFound):
            nodes.get(database, node.uuid)


def test_periodic_methods_are_called_by_conductors_of_the_group_only(database, start):
    seen: list[str] = []

    class Looks(fake.FakeRAID):
        @base.node_periodic(spacing=3600)
        def look(self, task):
            seen.append(task.node.uuid)

    service = start(database, raid=Looks)
    own = support.enrolled(service)
    node = in_group(service)
    conductors.leave(database, "rack-1", "rack-1")
    periodics = Periodics(service.runtime, None)
    (job,) = periodics.jobs
    assert periodics.run(job) == 1 and seen == [own.uuid]
    with of_group(service, "rack7"):
        assert periodics.run(job) == 1 and seen == [own.uuid, node.uuid]
