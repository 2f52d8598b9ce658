"""Databases with nodes in them, the same in both services.

The first node is made through the service's own API with content as real ones have it, so
that its row is as the service writes it. The others are copies of that row with names,
uuids and addresses of their own, written straight to the file: 5,000 by HTTP take minutes.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from benchmarks.services import Service

TRAITS = ("CUSTOM_GOLD", "CUSTOM_RAID10", "HW_CPU_X86_VMX", "HW_NIC_SRIOV")
PORTS = 2
AGENT_URL = "https://192.0.2.7:9999"
AGENT_VERSION = "11.0.0"

_CONFIGDRIVE = "H4sIAAAAAAAA" + "Q29uZmlnRHJpdmU" * 160

NODE: dict[str, Any] = {
    "driver": "fake-hardware",
    "name": "node-00000",
    "resource_class": "baremetal.gold",
    "description": "2U, rack 14, unit 7; on loan to the storage team until spring",
    "driver_info": {
        "redfish_address": "https://bmc-00000.example.org",
        "redfish_system_id": "/redfish/v1/Systems/1",
        "redfish_username": "operator",
        "redfish_password": "correct horse battery staple",
        "redfish_verify_ca": "/etc/ssl/certs/bmc-ca.pem",
        "deploy_kernel": "http://images.example.org/ipa/kernel",
        "deploy_ramdisk": "http://images.example.org/ipa/initramfs",
        "ipmi_terminal_port": 17001,
    },
    "properties": {
        "cpus": "64",
        "cpu_arch": "x86_64",
        "memory_mb": "524288",
        "local_gb": "1787",
        "vendor": "Example Systems",
        "capabilities": "boot_mode:uefi,secure_boot:true,disk_label:gpt,iommu:true",
        "root_device": {"wwn": "0x5000c500a1b2c3d4", "hint": "size >= 1700"},
    },
    "extra": {
        "rack": "A-14",
        "unit": 7,
        "asset": "EX-2024-001337",
        "contacts": ["dc-hands@example.org", "storage@example.org"],
    },
    "instance_info": {
        "image_source": "http://images.example.org/jammy/disk.qcow2",
        "image_checksum": "3f1c" * 16,
        "image_os_hash_algo": "sha256",
        "root_gb": "1700",
        "swap_mb": "0",
        "display_name": "db-primary-03",
        "nova_host_id": "cell1-conductor-2",
        "capabilities": {"boot_mode": "uefi", "secure_boot": "true"},
        "traits": ["CUSTOM_GOLD"],
        "configdrive": _CONFIGDRIVE,
    },
}
INTERNAL: dict[str, Any] = {
    "agent_version": AGENT_VERSION,
    "agent_url": AGENT_URL,
    "is_whole_disk_image": True,
    "root_uuid_or_disk_id": "0b1e6c7a-0b5c-4d0e-9d75-6a0f0d9d6b1e",
    "hardware_manager_version": {"generic_hardware_manager": "1.2", "example_manager": "3.0"},
    "last_power_state_change": "2026-11-30T04:12:09.482172+00:00",
    "dnsmasq_tag": "00000000",
}


def uuid_of(kind: str, number: int) -> str:
    """Return the uuid of the node or port of a number: the same in every run."""
    return str(uuid5(NAMESPACE_URL, f"{kind}/{number}"))


def make_first(service: Service) -> None:
    """Make the first node with its ports and traits, by HTTP."""
    client = service.client()
    uuid = uuid_of("node", 0)
    client.send("POST", "/v1/nodes", {**NODE, "uuid": uuid}, wanted=201)
    client.send("PUT", f"/v1/nodes/{uuid}/traits", {"traits": list(TRAITS)}, wanted=204)
    for number in range(PORTS):
        port = {
            "uuid": uuid_of("port", number),
            "node_uuid": uuid,
            "address": _mac(number),
            "pxe_enabled": number == 0,
            "physical_network": "physnet1",
            "local_link_connection": {
                "switch_id": "00:1c:73:aa:bb:cc",
                "port_id": f"Ethernet{number}",
                "switch_info": "leaf-14",
            },
            "extra": {"vif_port_id": uuid_of("vif", number)},
        }
        client.send("POST", "/v1/ports", port, wanted=201)


def _mac(number: int) -> str:
    return "52:54:" + ":".join(f"{number >> shift & 255:02x}" for shift in (24, 16, 8, 0))


def fill(path: Path, count: int, *, state: str, columns: Mapping[str, str] | None = None) -> None:
    """Set the first node's provision state, and copy it until there are ``count``.

    :param columns: other columns of all nodes.
    """
    connection = sqlite3.connect(path)
    try:
        with connection:
            _fill(connection, count, state, columns or {})
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()


def _fill(
    connection: sqlite3.Connection, count: int, state: str, columns: Mapping[str, str]
) -> None:
    nodes, ports, traits = (_rows(connection, t) for t in ("nodes", "ports", "node_traits"))
    first = {**nodes[0], **_condition(nodes[0], connection, state), **columns}
    _update(connection, "nodes", first)
    for number in range(1, count):
        row = {
            **first,
            "id": first["id"] + number,
            "uuid": uuid_of("node", number),
            "name": f"node-{number:05}",
            "instance_uuid": first["instance_uuid"] and uuid_of("instance", number),
            "driver_info": first["driver_info"].replace("bmc-00000", f"bmc-{number:05}"),
        }
        _insert(connection, "nodes", row)
        for place, port in enumerate(ports):
            its = number * len(ports) + place
            copy = {
                **port,
                "id": ports[0]["id"] + its,
                "uuid": uuid_of("port", its),
                "address": _mac(its),
                "node_id": row["id"],
            }
            if "node_uuid" in port:
                copy["node_uuid"] = row["uuid"]
            _insert(connection, "ports", copy)
        for trait in traits:
            _insert(connection, "node_traits", {**trait, "node_id": row["id"]})


def _condition(
    row: Mapping[str, Any], connection: sqlite3.Connection, state: str
) -> dict[str, Any]:
    """Return the columns of a node in a state, whichever service's they are."""
    deployed = state == "active"
    info = dict(INTERNAL) if deployed else {}
    found: dict[str, Any] = {
        "provision_state": state,
        "power_state": "power on" if deployed else "power off",
        "provision_updated_at": row["created_at"],
        "instance_uuid": uuid_of("instance", 0) if deployed else None,
    }
    if not deployed:
        found["instance_info"] = "{}"
    if "conductor_affinity" in row:  # else Ironic takes over every deployed node at its start
        found["conductor_affinity"] = connection.execute("SELECT id FROM conductors").fetchone()[0]
    for name in [name for name in info if name in row]:  # ours keeps some in columns of their own
        found[name] = info.pop(name)
    found["driver_internal_info"] = json.dumps(info)
    return found


def _rows(connection: sqlite3.Connection, table: str) -> list[dict[str, Any]]:
    cursor = connection.execute(f"SELECT * FROM {table}")
    names = [column[0] for column in cursor.description]
    return [dict(zip(names, row, strict=True)) for row in cursor]


def _insert(connection: sqlite3.Connection, table: str, row: Mapping[str, Any]) -> None:
    marks = ", ".join("?" * len(row))
    connection.execute(f"INSERT INTO {table} ({', '.join(row)}) VALUES ({marks})", [*row.values()])


def _update(connection: sqlite3.Connection, table: str, row: Mapping[str, Any]) -> None:
    sets = ", ".join(f"{name} = ?" for name in row)
    connection.execute(f"UPDATE {table} SET {sets} WHERE id = ?", [*row.values(), row["id"]])


def held_by_ironic(token: str) -> dict[str, str]:
    """Return the columns of nodes that are held and whose agent has a token, as Ironic has them.

    It is not brought there by requests: its lookup refuses a held node, and a ``hold`` among
    the deploy steps that a request names is dropped.
    """
    info = {"agent_url": AGENT_URL, "agent_version": AGENT_VERSION, "agent_secret_token": token}
    return {
        "target_provision_state": "active",
        "deploy_interface": "custom-agent",
        "driver_internal_info": json.dumps(info),
    }
