"""Chassis and portgroups: what may point to them, and when they may go."""

from __future__ import annotations

import pytest

from deploysteps import exceptions
from deploysteps.db import chassis, nodes, portgroups, ports
from tests import support

UUID = "c2ab0b1e-1f7b-4c1e-9d7a-1a53d7b3f60a"


def test_a_chassis_and_its_nodes(database, start):
    service = start(database)
    manager = service.manager
    case = manager.create_chassis(None, {"description": "rack 1", "extra": {}})
    with pytest.raises(exceptions.InvalidParameterValue, match=f"Chassis {UUID} could not"):
        support.enrolled(service, chassis_uuid=UUID)
    node = support.enrolled(service, chassis_uuid=case.uuid)
    with pytest.raises(exceptions.InvalidParameterValue, match="could not be found"):
        manager.update_node(None, node.uuid, {"chassis_uuid": UUID})
    with pytest.raises(exceptions.InvalidParameterValue, match="contains nodes"):
        manager.destroy_chassis(None, case.uuid)
    assert nodes.get(database, node.id).reservation is None
    manager.update_node(None, node.uuid, {"chassis_uuid": None})
    changed = manager.update_chassis(None, case.uuid, {"extra": {"a": 1}}, {"extra": {}})
    assert changed.extra == {"a": 1}
    with pytest.raises(exceptions.Conflict):
        manager.update_chassis(None, case.uuid, {"extra": {}}, {"extra": {"b": 1}})
    with pytest.raises(exceptions.ChassisAlreadyExists):
        manager.create_chassis(None, {"uuid": case.uuid})
    manager.destroy_chassis(None, case.uuid)
    with pytest.raises(exceptions.ChassisNotFound):
        manager.destroy_chassis(None, case.uuid)
    assert chassis.listing(database) == []


def test_uuids_in_capitals_are_those_in_small_letters(database, start):
    """A node is found by them however they were written, and they are taken but once."""
    service = start(database)
    manager = service.manager
    case = manager.create_chassis(None, {"description": "rack 1"})
    capitals = {"chassis_uuid": case.uuid.upper(), "instance_uuid": UUID.upper()}
    node = support.enrolled(service, **capitals)
    for name, value in capitals.items():
        for asked in (value, value.lower()):
            assert [n.id for n in nodes.listing(database, filters={name: asked})] == [node.id]
    with pytest.raises(exceptions.InvalidParameterValue, match="contains nodes"):
        manager.destroy_chassis(None, case.uuid)
    with pytest.raises(exceptions.Conflict):
        support.enrolled(service, instance_uuid=UUID)
    manager.update_node(None, node.uuid, dict.fromkeys(capitals))
    changed = manager.update_node(None, node.uuid, capitals)
    assert (changed.chassis_uuid, changed.instance_uuid) == (case.uuid, UUID)


def test_a_port_is_in_its_portgroup_however_that_is_written(database, start):
    """A portgroup of which that is forgotten could be removed, its ports with it."""
    service = start(database)
    manager, node = service.manager, support.enrolled(service)
    group = manager.create_portgroup(None, node.uuid, {"name": "bond"})
    row = {"address": "52:54:00:00:77:01", "portgroup_uuid": group.uuid.upper()}
    manager.create_port(None, node.uuid, row)
    (port,) = ports.listing(database, portgroup=group.uuid)
    assert port.portgroup_uuid == group.uuid
    with pytest.raises(exceptions.InvalidParameterValue, match="contains ports"):
        manager.destroy_portgroup(None, group.uuid)


def test_a_portgroup_and_its_ports(database, start):
    service = start(database)
    manager = service.manager
    node, other = support.enrolled(service), support.enrolled(service)
    group = manager.create_portgroup(
        None, node.uuid, {"name": "pg", "address": "AA:BB:CC:DD:EE:FF"}
    )
    assert (group.address, group.mode) == ("aa:bb:cc:dd:ee:ff", "active-backup")
    assert group.node_uuid == node.uuid and group.standalone_ports_supported is True
    for values, error in (
        ({"name": "pg"}, exceptions.PortgroupDuplicateName),
        ({"address": "aa:bb:cc:dd:ee:ff"}, exceptions.PortgroupMACAlreadyExists),
        ({"uuid": group.uuid}, exceptions.PortgroupAlreadyExists),
    ):
        with pytest.raises(error) as caught:
            manager.create_portgroup(None, other.uuid, values)
        assert caught.value.code == 409
    mine, theirs = (ports.of_node(database, one.id)[0] for one in (node, other))
    manager.update_port(None, mine.uuid, {"portgroup_uuid": group.uuid})
    for port, named, words in (
        (theirs, group.uuid, "has no portgroup"),
        (mine, UUID, "has no portgroup"),
    ):
        with pytest.raises(exceptions.InvalidParameterValue, match=words):
            manager.update_port(None, port.uuid, {"portgroup_uuid": named})
    with pytest.raises(exceptions.InvalidParameterValue, match="contains ports"):
        manager.destroy_portgroup(None, group.uuid)
    changed = manager.update_portgroup(None, group.uuid, {"address": "AA:BB:CC:DD:EE:00"})
    assert changed.address == "aa:bb:cc:dd:ee:00"
    manager.update_port(None, mine.uuid, {"portgroup_uuid": None})
    manager.destroy_portgroup(None, group.uuid)
    assert portgroups.listing(database) == []


def test_portgroups_go_with_their_node(database, start):
    service = start(database)
    node = support.enrolled(service)
    service.manager.create_portgroup(None, node.uuid, {})
    service.manager.destroy_node(None, node.uuid)
    assert portgroups.listing(database) == []
