"""What appeared in which version of the API: the one table.

Numbers are minor versions of API 1: ``44`` is 1.44. A thing is there from its
number on and is never taken away again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

from deploysteps import exceptions, releases, states, steps

MIN = 1
MAX = releases.pinned(None).api
"""The newest version of this program; a pin may hold a process to an older one."""
T = TypeVar("T")

# --- fields of answers, in the order they are shown --------------------------------

NODE_FIELDS: dict[str, int] = {
    "uuid": 1,
    "created_at": 1,
    "updated_at": 1,
    "automated_clean": 47,
    "bios_interface": 40,
    "boot_interface": 31,
    "boot_mode": 75,
    "clean_step": 7,
    "conductor_group": 46,
    "console_enabled": 1,
    "console_interface": 31,
    "deploy_interface": 31,
    "deploy_step": 44,
    "description": 51,
    "disable_power_off": 95,
    "driver": 1,
    "driver_info": 1,
    "driver_internal_info": 3,
    "extra": 1,
    "fault": 42,
    "firmware_interface": 86,
    "health": 109,
    "inspect_interface": 31,
    "inspection_finished_at": 6,
    "inspection_started_at": 6,
    "instance_info": 1,
    "instance_name": 104,
    "instance_uuid": 1,
    "last_error": 1,
    "lessee": 65,
    "maintenance": 1,
    "maintenance_reason": 1,
    "management_interface": 31,
    "name": 5,
    "network_data": 66,
    "network_interface": 20,
    "owner": 50,
    "parent_node": 83,
    "power_interface": 31,
    "power_state": 1,
    "properties": 1,
    "protected": 48,
    "protected_reason": 48,
    "provision_state": 1,
    "provision_updated_at": 1,
    "raid_config": 12,
    "raid_interface": 31,
    "rescue_interface": 38,
    "reservation": 1,
    "resource_class": 21,
    "retired": 61,
    "retired_reason": 61,
    "secure_boot": 75,
    "service_step": 87,
    "shard": 82,
    "storage_interface": 33,
    "target_power_state": 1,
    "target_provision_state": 1,
    "target_raid_config": 12,
    "traits": 37,
    "vendor_interface": 31,
    "conductor": 49,
    "allocation_uuid": 52,
    "chassis_uuid": 1,
    "ports": 1,
    "states": 14,
    "portgroups": 24,
    "volume": 32,
    "links": 1,
}

NODE_ITEM: tuple[str, ...] = (
    "uuid",
    "instance_uuid",
    "maintenance",
    "power_state",
    "provision_state",
    "name",
    "links",
)
"""Fields of an item of ``GET /v1/nodes``."""

STATES_FIELDS: dict[str, int] = {
    "console_enabled": 1,
    "last_error": 1,
    "power_state": 1,
    "provision_state": 1,
    "target_power_state": 1,
    "target_provision_state": 1,
    "provision_updated_at": 1,
    "raid_config": 12,
    "target_raid_config": 12,
    "boot_mode": 75,
    "secure_boot": 75,
}
"""Fields of ``GET /v1/nodes/<id>/states``."""

PORT_FIELDS: dict[str, int] = {
    "uuid": 1,
    "created_at": 1,
    "updated_at": 1,
    "address": 1,
    "extra": 1,
    "internal_info": 18,
    "is_smartnic": 53,
    "local_link_connection": 19,
    "physical_network": 34,
    "pxe_enabled": 19,
    "node_uuid": 1,
    "portgroup_uuid": 24,
    "name": 88,
    "description": 97,
    "vendor": 100,
    "category": 101,
    "available_for_dynamic_portgroup": 111,
    "links": 1,
}
PORT_NODE_NAME = 94
"""A port is made for a node that is named by its name, too."""
PORT_MEMBERS: dict[str, int] = {**PORT_FIELDS, "node_ident": PORT_NODE_NAME}
"""Members of the body that makes a port."""
PORT_ITEM: tuple[str, ...] = ("uuid", "address", "links")

DRIVER_INTERFACES: dict[str, int] = {
    **dict.fromkeys(steps.INTERFACE_TYPES, 30),
    "storage": 33,
    "rescue": 38,
    "bios": 40,
    "firmware": 86,
}
"""The interface types that a driver tells of."""

DRIVER_FIELDS: dict[str, int] = {
    "name": 1,
    "hosts": 1,
    "links": 1,
    "properties": 14,
    "type": 30,
    **{f"default_{kind}_interface": first for kind, first in DRIVER_INTERFACES.items()},
    **{f"enabled_{kind}_interfaces": first for kind, first in DRIVER_INTERFACES.items()},
}
DRIVER_ITEM: tuple[str, ...] = ("name", "hosts", "links", "properties", "type")

CONDUCTOR_FIELDS: dict[str, int] = {
    "hostname": 49,
    "conductor_group": 49,
    "alive": 49,
    "created_at": 49,
    "updated_at": 49,
    "drivers": 49,
    "links": 49,
}
CONDUCTOR_ITEM: tuple[str, ...] = ("hostname", "conductor_group", "alive", "links")

DEPLOY_TEMPLATE_FIELDS: dict[str, int] = {
    "uuid": 55,
    "created_at": 55,
    "updated_at": 55,
    "name": 55,
    "extra": 55,
    "links": 55,
    "steps": 55,
}
RUNBOOK_FIELDS: dict[str, int] = {
    "uuid": 92,
    "created_at": 92,
    "updated_at": 92,
    "name": 92,
    "extra": 92,
    "public": 92,
    "owner": 92,
    "disable_ramdisk": 92,
    "description": 112,
    "links": 92,
    "steps": 92,
    "traits": 112,
}
CHASSIS_FIELDS: dict[str, int] = dict.fromkeys(
    ("uuid", "created_at", "updated_at", "description", "extra", "nodes", "links"), 1
)
CHASSIS_ITEM: tuple[str, ...] = ("uuid", "description", "links")

PORTGROUP_FIELDS: dict[str, int] = {
    **dict.fromkeys(
        (
            "uuid",
            "created_at",
            "updated_at",
            "address",
            "extra",
            "internal_info",
            "name",
            "standalone_ports_supported",
            "node_uuid",
        ),
        23,
    ),
    "mode": 26,
    "properties": 26,
    "physical_network": 102,
    "category": 103,
    "dynamic_portgroup": 111,
    "ports": 24,
    "links": 23,
}
PORTGROUP_ITEM: tuple[str, ...] = ("uuid", "address", "name", "links")
PORTGROUP_PARTS = 24
"""``nodes/<id>/portgroups`` and ``portgroups/<id>/ports``."""
CHILDREN = 83
"""``nodes/<id>/children``."""

ALLOCATION_FIELDS: dict[str, int] = {
    **dict.fromkeys(
        (
            "uuid",
            "created_at",
            "updated_at",
            "candidate_nodes",
            "extra",
            "last_error",
            "name",
            "resource_class",
            "state",
            "traits",
            "node_uuid",
        ),
        52,
    ),
    "owner": 60,
    "links": 52,
}
ALLOCATION_MEMBERS: dict[str, int] = {**ALLOCATION_FIELDS, "node": 58}
"""Members of a body; ``node`` is 400 before its version, as in the field."""
ALLOCATION_UPDATE = 57
"""``PATCH`` of allocations."""
STEP_LIST_ITEM: tuple[str, ...] = ("uuid", "name", "links")
"""Fields of an item of a list of deploy templates or runbooks."""

HISTORY = 78
HISTORY_FIELDS: dict[str, int] = {
    **dict.fromkeys(
        ("uuid", "created_at", "severity", "event", "event_type", "conductor", "user"), HISTORY
    ),
    "project": 113,
    **dict.fromkeys(("state", "target_provision_state", "duration_seconds"), 115),
    "links": HISTORY,
}
HISTORY_ITEM: tuple[str, ...] = ("uuid", "created_at", "severity", "event", "links")
"""Fields of an item of ``GET /v1/nodes/<id>/history``."""

BIOS_REGISTRY = 74
"""What is known of a setting beside its value; and ``fields=`` and ``detail=`` of settings."""
BIOS_FIELDS: dict[str, int] = {
    **dict.fromkeys(("name", "value", "created_at", "updated_at", "links"), 40),
    **dict.fromkeys(
        ("attribute_type", "allowable_values", "lower_bound", "upper_bound", "min_length",
         "max_length", "read_only", "reset_required", "unique"),
        BIOS_REGISTRY,
    ),
}  # fmt: skip
BIOS_ITEM: tuple[str, ...] = ("name", "value")
"""Fields of a setting that is listed, beside those that are there whatever is asked for."""

FIRMWARE_FIELDS: dict[str, int] = {
    **dict.fromkeys(
        ("component", "initial_version", "current_version", "last_version_flashed",
         "created_at", "updated_at"),
        86,
    ),
    **dict.fromkeys(("vendor", "model", "serial_number"), 114),
}  # fmt: skip

# --- endpoints, and arguments of lists ------------------------------------------------

ENDPOINTS: dict[str, int] = {
    "nodes": 1,
    "ports": 1,
    "chassis": 1,
    "drivers": 1,
    "lookup": 22,
    "heartbeat": 22,
    "portgroups": 23,
    "conductors": 49,
    "allocations": 52,
    "events": 54,
    "deploy_templates": 55,
    "shards": 82,
    "runbooks": 92,
}
"""The collections that this server has; the version document lists them."""

NODE_PARTS: dict[str, int] = {
    "management/inject_nmi": 29,
    "management/indicators": 63,
    "states/boot_mode": 76,
    "states/secure_boot": 76,
    "vifs": 28,
    "bios": 40,
    "firmware": 86,
    "inventory": 81,
    "vmedia": 89,
    "vmedia GET": 93,
}
"""Paths below ``nodes/<id>``, of which older requests are told 404; those not named are of 1.1."""
RAID = 12
"""RAID configurations, of which older requests are told 406 and not 404."""
VIF_PORT = 67
"""``port_uuid`` or ``portgroup_uuid`` of a VIF is told apart; before, it is passed on as it is."""

NODE_FILTERS: dict[str, int] = {
    "associated": 1,
    "chassis_uuid": 1,
    "conductor": 49,
    "conductor_group": 46,
    "description_contains": 1,
    "driver": 16,
    "fault": 42,
    "include_children": 83,
    "instance_name": 104,
    "instance_uuid": 1,
    "lessee": 65,
    "maintenance": 1,
    "owner": 50,
    "parent_node": 83,
    "provision_state": 9,
    "resource_class": 21,
    "retired": 1,
    "shard": 82,
    "sharded": 82,
}
PORT_FILTERS: dict[str, int] = {"portgroup": PORTGROUP_PARTS, "shard": 82}
PORTGROUP_SHARD = 106
"""Filter ``shard`` of portgroups."""
LIST_FIELDS = 8
"""``fields=`` of nodes and ports, of lists and of one."""
LIST_DETAIL = 43
"""``detail=`` of lists; below it is an unknown argument."""
DRIVER_DETAIL = 30
DRIVER_LIST_FIELDS = 77

# --- what a request may say ------------------------------------------------------------

NODE_NAMES = 5
ENROLL = 11
"""A new node is ``enroll``; before, it was ``available``."""
AVAILABLE_SHOWN = 2
"""State ``available`` is shown by its name; before, as null."""
RESET_INTERFACES = 45

TARGETS: dict[str, int] = {
    states.ACTIVE: 1,
    states.DELETED: 1,
    states.REBUILD: 1,
    "manage": 4,
    "provide": 4,
    "inspect": 6,
    "abort": 13,
    "clean": 15,
    "adopt": 17,
    "rescue": 38,
    "unrescue": 38,
    "deploy": 73,
    "undeploy": 73,
    "unhold": 85,
    "service": 87,
}
"""Targets of ``states/provision``."""

ABORT_FROM: dict[str, int] = {
    states.DEPLOYING: 110,
    states.DEPLOYWAIT: 110,
    states.INSPECTING: 41,
    states.INSPECTWAIT: 41,
}
"""States that ``abort`` came to later than it came itself."""

POWER_TARGETS: dict[str, int] = {
    states.POWER_ON: 1,
    states.POWER_OFF: 1,
    states.REBOOT: 1,
    states.SOFT_POWER_OFF: 27,
    states.SOFT_REBOOT: 27,
}
POWER_TIMEOUT = 27

TRAITS = 37
"""``nodes/<id>/traits``, of which older requests are told 406 and not 404."""

_DEPLOYS = (states.ACTIVE, "deploy", states.REBUILD)
PROVISION_MEMBERS: dict[str, dict[str, int]] = {
    "configdrive": dict.fromkeys(_DEPLOYS, 1),
    "deploy_steps": dict.fromkeys(_DEPLOYS, 69),
    "clean_steps": {states.CLEAN: 15},
    "service_steps": {states.SERVICE: 87},
    "disable_ramdisk": {states.CLEAN: 70, states.SERVICE: 108},
    "rescue_password": {"rescue": 38},
    "runbook": {states.CLEAN: 92, states.SERVICE: 92},
    **dict.fromkeys(
        ("resume", "resume_after"), dict.fromkeys((states.ACTIVE, "deploy", states.SERVICE), 1)
    ),
}
"""Member of ``states/provision`` -> the targets it goes with -> since when.

``resume`` and ``resume_after`` are ours, at every version."""

CONFIGDRIVE_REBUILD = 35
CONFIGDRIVE_OBJECT = 56
CONFIGDRIVE_VENDOR_DATA = 59

HEARTBEAT_FIELDS: dict[str, int] = {
    "callback_url": 22,
    "agent_version": 36,
    "agent_token": 22,
    "agent_verify_ca": 68,
    "agent_status": 72,
    "agent_status_message": 72,
}
"""A member that is newer than the request is unknown. ``agent_token`` came with 1.62 and is
taken at every version, as the field's server does: agents send it whatever they negotiated."""


def shown(names: Iterable[str], table: Mapping[str, int], version: int) -> list[str]:
    """Return those of ``names`` that a request of this version sees."""
    return [name for name in names if table[name] <= version]


def check(name: str, table: Mapping[str, int], version: int) -> None:
    """Refuse what is newer than the request.

    :raises NotAcceptable: it is.
    """
    if table[name] > version:
        raise exceptions.NotAcceptable(
            f"Request not acceptable: {name!r} needs API version 1.{table[name]} or later, "
            f"the request is of version 1.{version}."
        )


def require(endpoint: str, version: int) -> None:
    """Answer as a server that does not have the endpoint yet.

    :raises NotFound: it is newer than the request.
    """
    if ENDPOINTS[endpoint] > version:
        raise exceptions.NotFound()


def require_part(part: str, version: int) -> None:
    """As :func:`require`, of one of :data:`NODE_PARTS`.

    :raises NotFound: it is newer than the request.
    """
    if NODE_PARTS[part] > version:
        raise exceptions.NotFound()


def check_all(names: Collection[str], table: Mapping[str, int], version: int) -> None:
    """Refuse every name in ``names`` that is newer than the request."""
    for name in names:
        check(name, table, version)
