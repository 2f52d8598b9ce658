"""Settings, firmware and inventories of machines, on every database."""

from __future__ import annotations

import threading

import pytest
import sqlalchemy as sa

from deploysteps import exceptions
from deploysteps.db import inventories, locks, machine_parts
from deploysteps.db.machine_models import BIOSSetting, FirmwareComponent, NodeInventory
from deploysteps.db.models import table
from tests.support_sql import counting

SRIOV = {
    "name": "sriov",
    "value": "Disabled",
    "attribute_type": "Enumeration",
    "allowable_values": ["Enabled", "Disabled"],
    "read_only": False,
    "reset_required": True,
    "unique": None,
}
DELAY = {"name": "delay", "value": "5", "lower_bound": -(2**63), "upper_bound": 2**63 - 1}


def keep(database, model, node, given):
    lock, _ = locks.grant(database, node.id, "c", "test")
    rows = machine_parts.checked(model, given)
    try:
        locks.write(database, lock, {}, then=lambda c: machine_parts.keep(c, model, node.id, rows))
    finally:
        locks.release(database, lock)


def settings(database, node):
    return {one.name: one for one in machine_parts.settings_of(database, node.id)}


def test_settings_through_their_life(database, make):
    node, other = make(database), make(database)
    assert machine_parts.settings_of(database, node.id) == []
    keep(database, BIOSSetting, node, [SRIOV, DELAY])
    keep(database, BIOSSetting, other, [{"name": "sriov", "value": "x"}])
    first = settings(database, node)
    assert list(first) == ["delay", "sriov"]
    assert {name: getattr(first["sriov"], name) for name in SRIOV} == SRIOV
    assert (first["delay"].lower_bound, first["delay"].upper_bound) == (-(2**63), 2**63 - 1)
    assert first["delay"].updated_at is None
    keep(database, BIOSSetting, node, [{**SRIOV, "value": "Enabled"}, DELAY, {"name": "new"}])
    second = settings(database, node)
    assert list(second) == ["delay", "new", "sriov"]
    assert second["sriov"].value == "Enabled" and second["sriov"].updated_at is not None
    assert second["sriov"].created_at == first["sriov"].created_at
    assert second["delay"].updated_at is None and second["new"].value is None
    keep(database, BIOSSetting, node, [DELAY])
    assert list(settings(database, node)) == ["delay"]
    assert settings(database, other)["sriov"].value == "x"
    assert machine_parts.setting(database, node.id, "delay").value == "5"
    for name in ("Delay", "delay ", "sriov"):
        assert machine_parts.setting(database, node.id, name) is None


def test_what_did_not_change_is_not_written(database, make):
    node = make(database)
    keep(database, BIOSSetting, node, [SRIOV, DELAY])
    with counting(database) as count:
        keep(database, BIOSSetting, node, [DELAY, SRIOV])
    assert not [text for text in count.of("INSERT", "UPDATE", "DELETE") if "bios_settings" in text]


def test_which_firmware_was_first_and_which_was_put_there(database, make):
    node = make(database)
    told = {"component": "bmc", "vendor": "A", "model": "B", "serial_number": "C"}
    for version in ("1.0", "1.0", "1.1", "1.1"):
        keep(database, FirmwareComponent, node, [{**told, "current_version": version}])
    (found,) = machine_parts.components_of(database, node.id)
    assert (found.initial_version, found.current_version) == ("1.0", "1.1")
    assert found.last_version_flashed == "1.1" and found.updated_at is not None
    assert (found.vendor, found.model, found.serial_number) == ("A", "B", "C")
    own = {"initial_version": "0.9", "last_version_flashed": "1.2", "current_version": "1.2"}
    keep(database, FirmwareComponent, node, [{"component": "bmc", **own}])
    (found,) = machine_parts.components_of(database, node.id)
    assert {name: getattr(found, name) for name in own} == own


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["x"], r"bios_settings\[0\] is a str"),
        ([{"value": "x"}], "no name"),
        ([{"name": ""}], "no name"),
        ([{"name": 5}], "name is a int, not str"),
        ([{"name": "a"}, {"name": "a"}], "name of another one"),
        ([{"name": "a"}, {"name": "a  "}], "name of another one"),
        ([{"name": "  "}], "no name"),
        ([{"name": "a", "node_id": 1}], "has node_id; there are name"),
        ([{"name": "a" * 256}], "too long"),
        ([{"name": "a", "allowable_values": "x"}], "no list of texts"),
        ([{"name": "a", "allowable_values": [1]}], "no list of texts"),
        ([{"name": "a", "lower_bound": True}], "lower_bound is a bool"),
        ([{"name": "a", "lower_bound": "5"}], "lower_bound is a str"),
        ([{"name": "a", "lower_bound": 2**63}], "too large"),
        ([{"name": "a", "read_only": "no"}], "read_only is a str"),
        ([{"name": "a", "value": {"x": 1}}], "value is a dict"),
    ],
)
def test_what_is_no_setting_is_refused_by_its_name(given, why):
    with pytest.raises(exceptions.InvalidParameterValue, match=why):
        machine_parts.checked(BIOSSetting, given)


def test_values_become_texts():
    """Controllers tell numbers and flags as they are."""
    given = [{"name": str(value), "value": value} for value in (True, 5, 1.5, "x", None)]
    found = [row["value"] for row in machine_parts.checked(BIOSSetting, given)]
    assert found == ["True", "5", "1.5", "x", None]


def test_nothing_is_kept_once_the_lock_is_lost(database, make):
    """F46: a writer that lost its lock writes nothing, here as elsewhere."""
    node = make(database)
    lock, _ = locks.grant(database, node.id, "c", "test")
    locks.grant(database, node.id, "d", "recovery", held=lock.token)
    rows = machine_parts.checked(BIOSSetting, [SRIOV])
    with pytest.raises(exceptions.LockLost):
        locks.write(
            database, lock, {}, then=lambda c: machine_parts.keep(c, BIOSSetting, node.id, rows)
        )
    assert machine_parts.settings_of(database, node.id) == []


def test_an_inventory_is_replaced(database, make):
    node, other = make(database), make(database)
    assert inventories.get(database, node.id) is None
    inventories.store(database, node.id, {"cpu": {"count": 4}}, {"raw": [1]})
    assert inventories.get(database, node.id) == {
        "inventory": {"cpu": {"count": 4}},
        "plugin_data": {"raw": [1]},
    }
    inventories.store(database, node.id, {"memory": "é\0x" * 50_000})
    found = inventories.get(database, node.id)
    assert found["plugin_data"] == {} and len(found["inventory"]["memory"]) == 150_000
    assert inventories.get(database, other.id) is None


def test_two_inspections_at_once_leave_one_inventory(database, make):
    node = make(database)
    failed = []

    def store(number):
        try:
            inventories.store(database, node.id, {"number": number})
        except Exception as exc:
            failed.append(exc)

    threads = [threading.Thread(target=store, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert failed == []
    assert inventories.get(database, node.id)["inventory"]["number"] in range(6)


def test_all_of_it_goes_with_the_node(database, make):
    node = make(database)
    keep(database, BIOSSetting, node, [SRIOV])
    keep(database, FirmwareComponent, node, [{"component": "bmc"}])
    inventories.store(database, node.id, {})
    lock, _ = locks.grant(database, node.id, "c", "test")
    locks.delete_node(database, lock)
    for model in (BIOSSetting, FirmwareComponent, NodeInventory):
        query = sa.select(sa.func.count()).select_from(table(model))
        assert database.read(lambda c, query=query: c.execute(query).scalar()) == 0
    with pytest.raises(exceptions.NodeNotFound):
        inventories.store(database, node.id, {})
