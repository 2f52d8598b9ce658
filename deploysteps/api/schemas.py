"""The shapes of request bodies, as JSON Schema 2020-12.

One definition each: it validates requests, it says what is wrong with one
(``description`` finishes the sentence "... must be"), and it can be
published. ``default`` is what null, or removing the member, gives; a PATCH
changes what is not ``readOnly``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deploysteps import steps
from deploysteps.api import versions
from deploysteps.db.traits import MAX_TRAITS

Schema = dict[str, Any]

_DIALECT = "https://json-schema.org/draft/2020-12/schema"
# Python's "$" also matches before a line's end; "(?!\\n)" makes it the end, here and in ECMA.
_END = r"$(?!\n)"
_PLAIN = r"^[^\u0000\ud800-\udfff]*$"
_UUID = r"^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}" + _END

MAX_INT = 2**31 - 1


def _object(required: list[str], /, **properties: Schema) -> Schema:
    return {
        "$schema": _DIALECT,
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }


def _text(most: int = 255) -> Schema:
    return {
        "type": ["string", "null"],
        "maxLength": most,
        "pattern": _PLAIN,
        "description": "text without NUL and lone surrogates",
        "default": None,
    }


_PROJECT: Schema = {
    **_text(),
    "pattern": r"^([^\u0000\ud800-\udfff]*[^\u0000\ud800-\udfff ])?$",
    "description": "the id of a project: text without NUL, lone surrogates and blanks at its end",
}
"""To MariaDB a text is the same with blanks at its end, and another's things would be in a list."""


def _flag(default: bool | None = False) -> Schema:
    return {"type": ["boolean", "null"], "default": default}


UUID: Schema = {
    "type": ["string", "null"],
    "pattern": _UUID,
    "description": "a UUID",
    "default": None,
}
JSON: Schema = {"type": ["object", "null"], "default": {}}
NODE_NAME: Schema = {
    "type": ["string", "null"],
    "maxLength": 255,
    "pattern": r"^[A-Za-z0-9._~-]+" + _END,
    "not": {
        "anyOf": [{"type": "string", "pattern": _UUID}, {"enum": ["detail", "validate", ".", ".."]}]
    },
    "description": "usable as a host name (letters, digits and . _ ~ -) and not a UUID",
    "default": None,
}


def _fixed(schema: Schema) -> Schema:
    return {**schema, "readOnly": True}


_NODE: Schema = {
    "type": "string",
    "maxLength": 255,
    "pattern": r"^[A-Za-z0-9._~-]+" + _END,
    "description": "the UUID or the name of a node",
}

NODE: Schema = _object(
    ["driver"],
    uuid=_fixed(UUID),
    name=NODE_NAME,
    driver={
        "type": "string",
        "minLength": 1,
        "maxLength": 255,
        "pattern": _PLAIN,
        "description": "the name of a hardware type",
    },
    automated_clean=_flag(None),
    chassis_uuid=UUID,
    conductor_group={
        **_text(),
        "pattern": r"^[A-Za-z0-9_.-]*" + _END,
        "description": "letters, digits and _ . -; small and capital letters are the same",
        "default": "",
    },
    console_enabled=_fixed(_flag()),
    description=_text(4096),
    disable_power_off=_flag(),
    driver_info=JSON,
    extra=JSON,
    instance_info=JSON,
    instance_name=_text(),
    instance_uuid=UUID,
    lessee=_PROJECT,
    maintenance=_flag(),
    maintenance_reason=_fixed(_text(4096)),
    network_data=JSON,
    owner=_PROJECT,
    parent_node={**_NODE, "type": ["string", "null"], "default": None},
    properties=JSON,
    protected=_flag(),
    protected_reason=_text(4096),
    resource_class=_text(80),
    retired=_flag(),
    retired_reason=_text(4096),
    shard=_text(),
    **{f"{kind}_interface": _text() for kind in steps.INTERFACE_TYPES},
)
"""``POST /v1/nodes``; the values of a PATCH follow the same definitions."""

ADDRESS: Schema = {
    "type": "string",
    "pattern": r"^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}" + _END,
    "description": "a MAC address, six pairs of hex digits with colons",
}

PORT: Schema = _object(
    ["address"],
    uuid=_fixed(UUID),
    address=ADDRESS,
    node_uuid=_NODE,
    node_ident=_fixed(_NODE),
    extra=JSON,
    is_smartnic=_flag(),
    local_link_connection=JSON,
    physical_network=_text(64),
    portgroup_uuid=UUID,
    pxe_enabled=_flag(True),
    name=NODE_NAME,
    description=_text(4096),
    vendor=_text(),
    category=_text(),
    available_for_dynamic_portgroup=_flag(True),
)

PORT_QUERY: Schema = _object([], address=ADDRESS)
"""What a list of ports is narrowed by."""

PATCH: Schema = {
    "$schema": _DIALECT,
    "type": "array",
    "maxItems": 1000,
    "items": {
        "type": "object",
        "properties": {
            "op": {"enum": ["add", "replace", "remove"]},
            "path": {"type": "string", "pattern": "^/.", "description": "/member, or below it"},
            "value": {},
        },
        "required": ["op", "path"],
        "if": {"properties": {"op": {"enum": ["add", "replace"]}}},
        "then": {"required": ["value"]},
    },
}
"""A JSON Patch, as :func:`deploysteps.api.patch.parse` takes it (a test compares them)."""

MAX_STEPS = 1000
"""The most steps of one list."""


def _whole(most: int) -> Schema:
    return {
        "anyOf": [
            {"type": "integer", "minimum": 0, "maximum": most},
            {"type": "string", "pattern": r"^[0-9]{1,9}" + _END},
        ],
        "description": f"an integer from 0 to {most}, or its digits",
    }


def _steps(required: tuple[str, ...], **more: Schema) -> Schema:
    members = {
        "interface": {"type": "string", "enum": list(steps.INTERFACE_TYPES)},
        "step": {
            "type": "string",
            "minLength": 1,
            "maxLength": 255,
            "pattern": _PLAIN,
            "description": "the name of a step",
        },
        "args": {"type": "object"},
        **more,
    }
    item = {
        "type": "object",
        "properties": members,
        "required": list(required),
        "additionalProperties": False,
    }
    return {"$schema": _DIALECT, "type": "array", "maxItems": MAX_STEPS, "items": item}


DEPLOY_STEPS = _steps(
    ("interface", "step", "args", "priority"), priority=_whole(steps.MAX_PRIORITY)
)
ORDERED_STEPS = _steps(
    ("interface", "step"),
    order=_whole(MAX_INT),
    execute_on_child_nodes={"type": ["boolean", "null"]},
    limit_child_node_execution={"type": ["array", "null"]},
)
RUNBOOK_STEPS = _steps(("interface", "step", "args", "order"), order=_whole(MAX_INT))

STEPS: dict[str, Schema] = {
    flow.list_field: ORDERED_STEPS if flow.in_order else DEPLOY_STEPS
    for flow in (steps.DEPLOY, steps.CLEAN, steps.SERVICE)
}
"""Member with the steps that a request asks for -> what they are: each flow has its own."""

TRAIT: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
"""What a trait's name may be is :mod:`deploysteps.db.traits`' to say."""

TRAITS = _object(
    ["traits"],
    traits={"type": "array", "maxItems": MAX_TRAITS, "items": TRAIT},
)
"""``PUT /v1/nodes/<id>/traits``."""

DEPLOY_TEMPLATE = _object(
    ["name", "steps"],
    uuid=_fixed(UUID),
    name=TRAIT,
    extra=JSON,
    steps={**DEPLOY_STEPS, "minItems": 1},
)
"""``POST /v1/deploy_templates``; the values of a PATCH follow the same definitions."""

RUNBOOK = _object(
    ["name", "steps"],
    uuid=_fixed(UUID),
    name=TRAIT,
    description=_text(),
    disable_ramdisk=_flag(),
    extra=JSON,
    owner=_PROJECT,
    public=_flag(),
    steps={**RUNBOOK_STEPS, "minItems": 1},
)
"""``POST /v1/runbooks``; the values of a PATCH follow the same definitions."""

LATER_STEPS: Schema = {"type": ["array", "null"]}
"""Steps in a larger body: :data:`STEPS` is checked once the rest of the request is known to fit."""


def _named(table: Mapping[str, int]) -> Schema:
    """Return what names one of these; another name is refused in the words of the state table."""
    first = {name: f"1.{minor}" for name, minor in table.items()}
    return {"type": "string", "examples": list(table), "x-values": first}


CHASSIS = _object([], uuid=_fixed(UUID), description=_text(), extra=JSON)
"""``POST /v1/chassis``; the values of a PATCH follow the same definitions."""

PORTGROUP = _object(
    ["node_uuid"],
    uuid=_fixed(UUID),
    name=NODE_NAME,
    node_uuid=_fixed({"type": "string", "pattern": _UUID, "description": "the UUID of a node"}),
    address={**ADDRESS, "type": ["string", "null"], "default": None},
    extra=JSON,
    standalone_ports_supported=_flag(True),
    mode=_text(),
    properties=JSON,
    physical_network=_text(64),
    category=_text(80),
)
"""``POST /v1/portgroups``; the values of a PATCH follow the same definitions."""

_TOLD: Schema = {"type": ["string", "null"], "maxLength": 255}
EVENTS = _object(
    ["events"],
    events={
        "type": "array",
        "minItems": 1,
        "maxItems": 1000,
        "items": {
            "type": "object",
            "properties": {
                "event": {
                    "enum": ["network.bind_port", "network.unbind_port", "network.delete_port"]
                },
                "port_id": {"type": "string", "pattern": _UUID, "description": "a UUID"},
                "mac_address": ADDRESS,
                "status": {"type": "string", "maxLength": 255},
                "device_id": UUID,
                "binding:host_id": _TOLD,
                "binding:vnic_type": _TOLD,
            },
            "required": ["event", "port_id", "mac_address", "status"],
            "additionalProperties": False,
        },
    },
)
"""``POST /v1/events``: what a network service tells."""

MAX_CANDIDATES = 1000
"""The most nodes that an allocation chooses from, when they are named."""

ALLOCATION = _object(
    [],
    uuid=_fixed(UUID),
    name=NODE_NAME,
    candidate_nodes=_fixed(
        {"type": ["array", "null"], "maxItems": MAX_CANDIDATES, "items": {"type": "string"}}
    ),
    extra=JSON,
    node=_fixed(_text()),
    owner=_fixed(_PROJECT),
    resource_class=_fixed(_text(80)),
    traits=_fixed({"type": ["array", "null"], "maxItems": MAX_TRAITS, "items": TRAIT}),
)
"""``POST /v1/allocations``; the values of a PATCH follow the same definitions."""

CONFIGDRIVE: Schema = {
    "anyOf": [
        {"type": ["string", "null"]},
        {
            "type": "object",
            "properties": {
                "meta_data": {"type": "object"},
                "network_data": {"type": "object"},
                "user_data": {"type": ["object", "array", "string", "null"]},
                "vendor_data": {"type": "object"},
            },
            "additionalProperties": False,
        },
    ],
    "description": "text, or an object of meta_data, network_data, user_data and vendor_data",
}

PROVISION: Schema = _object(
    ["target"],
    target=_named(versions.TARGETS),
    configdrive=CONFIGDRIVE,
    **dict.fromkeys(STEPS, LATER_STEPS),
    rescue_password={"type": ["string", "null"]},
    disable_ramdisk=_flag(None),
    runbook=_text(),
    resume=_flag(None),
    resume_after=_flag(None),
)

PLAN: Schema = _object(
    [],
    flow={"type": ["string", "null"], "enum": [*steps.FLOWS, None], "default": steps.DEPLOY.name},
    runbook=_text(),
    disable_ramdisk=_flag(None),
    **dict.fromkeys(STEPS, LATER_STEPS),
)
"""``POST /v1/nodes/<id>/plan``."""

LOCK = _object([], reason=_text(4096), since=_text(64))
"""``DELETE /v1/nodes/<id>/lock``; ``since``: of the lock that is meant."""

POWER: Schema = _object(
    ["target"],
    target=_named(versions.POWER_TARGETS),
    timeout={"type": ["integer", "null"], "minimum": 1, "maximum": MAX_INT},
)

MAINTENANCE: Schema = _object([], reason=_text(4096))

# --- of a machine itself ----------------------------------------------------------------

BOOT_DEVICE: Schema = _object(
    ["boot_device"],
    boot_device={"type": "string", "minLength": 1, "maxLength": 255, "pattern": _PLAIN},
    persistent=_flag(),
)
"""``PUT /v1/nodes/<id>/management/boot_device``."""

NOTHING: Schema = _object([])
"""A request whose body has no members, or that has none."""

INDICATOR: Schema = _object(
    ["state"], state={"type": "string", "enum": ["on", "off", "blinking", "unknown"]}
)
"""``PUT /v1/nodes/<id>/management/indicators/<indicator>@<component>``."""

BOOT_MODE: Schema = _object(["target"], target={"type": "string", "enum": ["uefi", "bios"]})
SECURE_BOOT: Schema = _object(["target"], target={"type": "boolean"})
CONSOLE: Schema = _object(["enabled"], enabled={"type": "boolean"})

RAID: Schema = {"$schema": _DIALECT, "type": "object", "properties": {}}
"""``PUT /v1/nodes/<id>/states/raid``: what its members are is the driver's to say."""

_IDENT: Schema = {
    "type": "string",
    "maxLength": 255,
    "pattern": r"^[A-Za-z0-9._~-]+" + _END,
    "description": "a UUID or a name (letters, digits and . _ ~ -)",
}
VIF: Schema = {**_object(["id"], id=_IDENT), "additionalProperties": True}
"""``POST /v1/nodes/<id>/vifs``; what else it has is the network interface's to say."""

VMEDIA_DEVICES = ("disk", "cdrom", "floppy")
VMEDIA: Schema = _object(
    ["device_type", "image_url"],
    device_type={"type": "string", "enum": list(VMEDIA_DEVICES)},
    image_url={
        "type": "string",
        "maxLength": 2048,
        "pattern": r"^([hH][tT][tT][pP][sS]?|nfs|cifs|smb)://[^\s/]\S*" + _END,
        "description": "an http, https, nfs, cifs or smb URL",
    },
    # Images pass through no server here: the machine's controller fetches them itself.
    image_download_source={"type": "string", "enum": ["http"]},
)
"""``POST /v1/nodes/<id>/vmedia``."""

VENDOR_ARGUMENTS: Schema = {"$schema": _DIALECT, "type": "object", "properties": {}}
"""What a vendor method is called with: its own matter."""

HEARTBEAT: Schema = _object(
    ["callback_url"],
    callback_url={
        "type": "string",
        "maxLength": 2048,
        "pattern": r"^([hH][tT][tT][pP][sS]?://[^\s/]\S*)?" + _END,
        "description": "an http or https URL",
    },
    agent_version=_text(),
    agent_token=_text(128),
    agent_verify_ca=_text(65536),
    agent_status={"enum": ["start", "end", "error", None]},
    agent_status_message=_text(65536),
)
