"""Deeds of a conductor that are no run of steps: each happens as a whole or not at all.

A deed is killed at each of its points; after that the conductor starts again, or another
takes over, and what is found then has to be whole. Then it is asked for again, as a
client does that was never answered.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from deploysteps import exceptions, states
from deploysteps.conductor import allocations as working
from deploysteps.conductor.power_sync import PowerSync
from deploysteps.db import allocations, locks, nodes, portgroups, ports, runs, traits
from deploysteps.db.group_models import Allocation
from deploysteps.db.models import Node
from deploysteps.drivers import base, fake
from tests import support
from tests.crash import checks, drivers
from tests.crash.journal import journal
from tests.crash.scenarios import DEPLOY, SCENARIOS, Scenario, tear_down
from tests.crash.stepwise import Stepwise, drive

LOST = "conductor-lost"


class Power(drivers.Power):
    """A machine whose power only the journal knows."""

    def get_power_state(self, task: Any) -> str:
        known = [line.step for line in journal.all() if line.what == "power"]
        return states.POWER_OFF if known[-1:] == ["off"] else states.POWER_ON

    def set_power_state(self, task: Any, power_state: str, timeout: float | None = None) -> None:
        super().set_power_state(task, power_state, timeout)
        journal.note("power", "off" if power_state == states.POWER_OFF else "on", task)


class Management(drivers.Management):
    """A boot mode that only the journal knows."""

    def get_boot_mode(self, task: Any) -> str:
        return "uefi" if journal.count("boots", "uefi") else "bios"

    def set_boot_mode(self, task: Any, mode: str) -> None:
        journal.note("boots", mode, task)


INTERFACES: dict[str, type[base.BaseInterface]] = {
    **drivers.INTERFACES,
    "management": Management,
    "network": fake.FakeHardware().supported_network_interfaces[0],
    "power": Power,
}

Act = Callable[[Stepwise, Node], None]


def _nothing(conductor: Stepwise, node: Node) -> None:
    return None


@dataclasses.dataclass(frozen=True)
class Deed:
    """What is asked of a conductor."""

    name: str
    at: str
    """The state of the node."""
    act: Act
    is_whole: Act
    """Check that it happened or did not, and bring it to its end."""
    before: Act = _nothing
    """What is there before."""
    classes: Mapping[str, type[base.BaseInterface]] = dataclasses.field(
        default_factory=lambda: INTERFACES
    )
    vendor: type[drivers.Kinds] = drivers.Waiting
    every: int = 1
    """How far the points are apart that are tried on a server: much of a long deed is alike."""

    @property
    def story(self) -> Scenario:
        """The node that it is done to."""
        return Scenario(
            self.name,
            DEPLOY,
            self.vendor,
            self.at,
            values={"power_state": states.POWER_ON},
            classes=self.classes,
            at=self.at,
            steps=False,
        )


# --- allocations ----------------------------------------------------------------------


def _class_of(conductor: Stepwise, node: Node) -> None:
    """Let no other node be one that would do."""
    nodes.set_unlocked(conductor.database, node.id, {"resource_class": node.uuid})


def _name(node: Node) -> str:
    return f"for-{node.uuid}"


def _wish(node: Node, **more: Any) -> dict[str, Any]:
    return {"name": _name(node), "resource_class": node.uuid, "traits": [], **more}


def _wishes(conductor: Stepwise, node: Node) -> None:
    conductor.manager.create_allocation(None, _wish(node))


def _allocated(conductor: Stepwise, node: Node) -> None:
    _class_of(conductor, node)
    _wishes(conductor, node)
    _agree(conductor, node, there=True)


def _found(conductor: Stepwise, node: Node) -> Allocation | None:
    with suppress(exceptions.NotFound):
        return allocations.get(conductor.database, _name(node))
    return None


def _agree(conductor: Stepwise, node: Node, *, there: bool | None = None) -> Allocation | None:
    """The node and its allocation name each other, or neither names anything."""
    one, now = _found(conductor, node), nodes.get(conductor.database, node.id)
    assert there is None or (one is not None) == there
    if one is None or one.node_id is None:
        assert now.instance_uuid is None
        assert "traits" not in now.instance_info
    else:
        assert (one.state, one.node_id) == (allocations.ACTIVE, node.id)
        assert now.instance_uuid == one.uuid and now.instance_info["traits"] == []
    assert now.reservation is None
    return one


def _is_allocated(conductor: Stepwise, node: Node) -> None:
    """What was stored gets its node in any case; what was not is asked for again."""
    one = _agree(conductor, node)
    if one is None:
        _wishes(conductor, node)
    else:
        working._QUIET = -1.0
        working.resume(conductor.runtime)
    _agree(conductor, node, there=True)
    assert allocations.of_node(conductor.database, node.id) is not None


def _backfills(conductor: Stepwise, node: Node) -> None:
    conductor.manager.create_allocation(None, _wish(node, node_uuid=node.uuid))


def _is_backfilled(conductor: Stepwise, node: Node) -> None:
    one = _agree(conductor, node)
    if one is None:
        _backfills(conductor, node)
    assert allocations.of_node(conductor.database, node.id) is not None
    _agree(conductor, node, there=True)


def _frees(conductor: Stepwise, node: Node) -> None:
    conductor.manager.destroy_allocation(None, _name(node))


def _is_freed(conductor: Stepwise, node: Node) -> None:
    if _agree(conductor, node) is not None:
        _frees(conductor, node)
    _agree(conductor, node, there=False)


def _takes_the_instance(conductor: Stepwise, node: Node) -> None:
    conductor.manager.update_node(None, node.uuid, {"instance_uuid": None})


def _undeploys_allocated(conductor: Stepwise, node: Node) -> None:
    nodes.set_unlocked(conductor.database, node.id, {"provision_state": states.ACTIVE})
    tear_down(conductor, node)


def _is_undeployed(conductor: Stepwise, node: Node) -> None:
    now = nodes.get(conductor.database, node.id)
    torn_down = journal.count("tear", "down")
    if torn_down == 0 and now.provision_state in (states.AVAILABLE, states.ACTIVE, states.ERROR):
        _agree(conductor, node, there=True)
        _undeploys_allocated(conductor, node)
    now = drive(conductor, conductor.database, node.uuid)
    if now.provision_state == states.ERROR:  # cut off while the instance was taken off
        assert "was lost" in (now.last_error or "")
        _agree(conductor, node, there=True)
        tear_down(conductor, node)
        now = drive(conductor, conductor.database, node.uuid)
    if now.provision_state != states.AVAILABLE:
        assert now.provision_state == states.CLEANFAIL and "was lost" in (now.last_error or "")
    _agree(conductor, node, there=False)


# --- what belongs to a node -------------------------------------------------------------


def _mac(node: Node, last: int) -> str:
    return f"52:54:00:{node.id // 256 % 256:02x}:{node.id % 256:02x}:{last:02x}"


def _makes_ports(conductor: Stepwise, node: Node) -> None:
    """Make a portgroup and two ports in it, change one port, and remove the other."""
    manager = conductor.manager
    group = manager.create_portgroup(None, node.uuid, {"name": _name(node)})
    for last in (1, 2):
        made = {"address": _mac(node, last), "portgroup_uuid": group.uuid, "extra": {"at": 1}}
        port = manager.create_port(None, node.uuid, made)
    manager.update_port(None, port.uuid, {"address": _mac(node, 3), "extra": {"at": 3}})
    manager.update_portgroup(None, group.uuid, {"mode": "802.3ad", "properties": {"a": 1}})
    manager.destroy_port(None, port.uuid)


def _ports_are_whole(conductor: Stepwise, node: Node) -> None:
    """Each is there with all it was given, or not at all; all can be removed."""
    database = conductor.database
    assert nodes.get(database, node.id).reservation is None
    for port in ports.of_node(database, node.id):
        changed = port.address == _mac(node, 3)
        assert port.extra == {"at": 3 if changed else 1} and port.portgroup_uuid
        conductor.manager.destroy_port(None, port.uuid)
    with suppress(exceptions.NotFound):
        group = portgroups.get(database, _name(node))
        assert (group.mode == "802.3ad") == (group.properties == {"a": 1})
        conductor.manager.destroy_portgroup(None, group.uuid)
    _makes_ports(conductor, node)
    assert [port.address for port in ports.of_node(database, node.id)] == [_mac(node, 1)]


OLD, NEW = ["CUSTOM_A", "CUSTOM_B"], ["CUSTOM_B", "CUSTOM_C", "CUSTOM_D"]


def _has_traits(conductor: Stepwise, node: Node) -> None:
    conductor.manager.update_node_traits(None, node.uuid, replace=OLD)


def _replaces_traits(conductor: Stepwise, node: Node) -> None:
    conductor.manager.update_node_traits(None, node.uuid, replace=NEW)


def _traits_are_whole(conductor: Stepwise, node: Node) -> None:
    assert traits.of_node(conductor.database, node.id) in (OLD, NEW)
    _replaces_traits(conductor, node)
    assert traits.of_node(conductor.database, node.id) == NEW


def _has_everything(conductor: Stepwise, node: Node) -> None:
    _makes_ports(conductor, node)
    _has_traits(conductor, node)
    _allocated(conductor, node)
    conductor.manager.set_node_maintenance(None, node.uuid, True)


def _removes(conductor: Stepwise, node: Node) -> None:
    conductor.manager.destroy_node(None, node.uuid)


def _is_gone_with_all(conductor: Stepwise, node: Node) -> None:
    database = conductor.database
    with suppress(exceptions.NodeNotFound):
        nodes.get(database, node.id)
        assert len(ports.of_node(database, node.id)) == 1
        assert traits.of_node(database, node.id) == OLD
        _agree(conductor, node, there=True)
        _removes(conductor, node)
    assert ports.of_node(database, node.id) == []
    assert traits.of_node(database, node.id) == []
    assert _found(conductor, node) is None


# --- the machine ------------------------------------------------------------------------


def _alone(conductor: Stepwise, node: Node) -> None:
    """Let no clock ask the machines of earlier tellings."""
    for other in nodes.listing(conductor.database):
        if other.id != node.id:
            nodes.set_unlocked(conductor.database, other.id, {"maintenance": True})


def _power(conductor: Stepwise, node: Node) -> None:
    conductor.manager.change_node_power_state(None, node.uuid, states.POWER_OFF)


def _power_is_known(conductor: Stepwise, node: Node) -> None:
    """What is recorded is so, or said to be unknown with a reason; a round of the sync mends it."""
    database = conductor.database
    conductor.runtime.conf.set_override("force_power_state_during_sync", True, group="conductor")
    now, is_off = nodes.get(database, node.id), journal.count("power", "off") > 0
    assert (now.reservation, now.target_power_state) == (None, None)
    found = states.POWER_OFF if is_off else states.POWER_ON
    if now.power_state != found:
        assert now.power_state == states.ERROR, "recorded is what is not so"
    told = "a change of the power state to 'power off' was interrupted: conductor "
    assert (now.power_state == states.ERROR) == bool(now.last_error)
    assert not now.last_error or told in now.last_error
    PowerSync(conductor.runtime).round()
    synced = nodes.get(database, node.id)
    assert synced.power_state == found
    assert synced.last_error == now.last_error, "a clock has taken the reason away"
    if not is_off:
        _power(conductor, node)
    assert nodes.get(database, node.id).power_state == states.POWER_OFF


def _boots_otherwise(conductor: Stepwise, node: Node) -> None:
    conductor.manager.change_node_boot_mode(None, node.uuid, "uefi")


def _boot_mode_is_known(conductor: Stepwise, node: Node) -> None:
    """Asked for again it is so, whether or not the machine had it already."""
    database = conductor.database
    now = nodes.get(database, node.id)
    assert now.reservation is None
    done = now.boot_mode == "uefi"
    assert not done or journal.count("boots", "uefi") == 1
    told = [entry.event for entry in nodes.history_of(database, node.id)]
    if journal.count("boots", "uefi") and not done:
        assert any("change boot mode to 'uefi' was interrupted" in event for event in told), told
    _boots_otherwise(conductor, node)
    assert nodes.get(database, node.id).boot_mode == "uefi"
    assert journal.count("boots", "uefi") == 1


# --- what changes a run ------------------------------------------------------------------


def _waits(conductor: Stepwise, node: Node) -> None:
    conf = conductor.runtime.conf
    conf.set_override("allow_provisioning_in_maintenance", False, group="conductor")
    conductor.manager.do_node_deploy(None, node.uuid)


def _maintains(conductor: Stepwise, node: Node) -> None:
    conductor.manager.set_node_maintenance(None, node.uuid, True, "the fan")


def _run_is_ended(conductor: Stepwise, node: Node) -> None:
    """Asked for again, it ends the run, wherever it was cut off."""
    _maintains(conductor, node)
    now = support.until(lambda: _stable_after_a_look(conductor, node), 10)
    assert now.provision_state == states.DEPLOYFAIL and "the fan" in now.last_error
    assert now.maintenance and now.maintenance_reason == "the fan"
    checks.nothing_is_left(now, runs.of_node(conductor.database, now.id)[0])


def _stable_after_a_look(conductor: Stepwise, node: Node) -> Node | None:
    conductor.sweeper.sweep()
    conductor.recovery.sweep()
    now = nodes.get(conductor.database, node.id)
    return now if now.provision_state in states.STABLE_STATES and not now.reservation else None


def _is_held_by_a_lost_one(conductor: Stepwise, node: Node) -> None:
    _waits(conductor, node)
    locks.grant(conductor.database, node.id, LOST, "a heartbeat")


def _breaks_the_lock(conductor: Stepwise, node: Node) -> None:
    conductor.manager.unlock_node(None, node.uuid, "its host burns")


def _lock_is_broken(conductor: Stepwise, node: Node) -> None:
    """The run goes on; it is told once that somebody broke the lock, or the lock is there still."""
    database = conductor.database
    told = [entry.event_type for entry in nodes.history_of(database, node.id)]
    broken = told.count("lock broken")
    if broken == 0 and nodes.get(database, node.id).reservation is not None:
        _breaks_the_lock(conductor, node)
    assert broken <= 1
    now = drive(conductor, database, node.uuid)
    assert now.provision_state == states.ACTIVE, now.last_error


_AVAILABLE, _ACTIVE = states.AVAILABLE, states.ACTIVE

DEEDS: dict[str, Deed] = {
    deed.name: deed
    for deed in (
        Deed("allocation-made", _AVAILABLE, _wishes, _is_allocated, _class_of),
        Deed("allocation-told", _ACTIVE, _backfills, _is_backfilled, _class_of),
        Deed("allocation-removed", _AVAILABLE, _frees, _is_freed, _allocated),
        Deed("instance-taken-off", _AVAILABLE, _takes_the_instance, _is_freed, _allocated),
        Deed(
            "allocated-undeployed",
            _AVAILABLE,
            _undeploys_allocated,
            _is_undeployed,
            _allocated,
            every=5,
        ),
        Deed("ports", _AVAILABLE, _makes_ports, _ports_are_whole, every=7),
        Deed("traits", _AVAILABLE, _replaces_traits, _traits_are_whole, _has_traits),
        Deed("node-removed", _AVAILABLE, _removes, _is_gone_with_all, _has_everything),
        Deed("power", _ACTIVE, _power, _power_is_known, _alone),
        Deed("boot-mode", _ACTIVE, _boots_otherwise, _boot_mode_is_known),
        Deed("maintenance", _AVAILABLE, _maintains, _run_is_ended, _waits),
        Deed("lock-broken", _AVAILABLE, _breaks_the_lock, _lock_is_broken, _is_held_by_a_lost_one),
    )
}

assert not set(DEEDS) & set(SCENARIOS)
