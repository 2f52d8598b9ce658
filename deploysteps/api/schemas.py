"""The shapes of request bodies, as JSON Schema 2020-12.

One definition each: it validates requests, it says what is wrong with one
(``description`` finishes the sentence "... must be"), and it can be
published. ``default`` is what null, or removing the member, gives; a PATCH
changes what is not ``readOnly``.
"""

from __future__ import annotations

from typing import Any

from deploysteps import steps

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
    "not": {"anyOf": [{"type": "string", "pattern": _UUID}, {"const": "detail"}]},
    "description": "usable as a host name (letters, digits and . _ ~ -) and not a UUID",
    "default": None,
}


def _fixed(schema: Schema) -> Schema:
    return {**schema, "readOnly": True}


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
    conductor_group={**_text(), "default": ""},
    console_enabled=_fixed(_flag()),
    description=_text(4096),
    disable_power_off=_flag(),
    driver_info=JSON,
    extra=JSON,
    instance_info=JSON,
    instance_name=_text(),
    instance_uuid=UUID,
    lessee=_text(),
    maintenance=_flag(),
    maintenance_reason=_fixed(_text(4096)),
    network_data=JSON,
    owner=_text(),
    parent_node=UUID,
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
    ["address", "node_uuid"],
    uuid=_fixed(UUID),
    address=ADDRESS,
    node_uuid=_fixed({"type": "string", "pattern": _UUID, "description": "the UUID of a node"}),
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

DEPLOY_STEPS: Schema = {
    "$schema": _DIALECT,
    "type": "array",
    "maxItems": 1000,
    "items": {
        "type": "object",
        "properties": {
            "interface": {"type": "string", "enum": list(steps.INTERFACE_TYPES)},
            "step": {
                "type": "string",
                "minLength": 1,
                "maxLength": 255,
                "pattern": _PLAIN,
                "description": "the name of a step",
            },
            "args": {"type": "object"},
            "priority": {
                "anyOf": [
                    {"type": "integer", "minimum": 0, "maximum": steps.MAX_PRIORITY},
                    {"type": "string", "pattern": r"^[0-9]{1,9}" + _END},
                ],
                "description": f"an integer from 0 to {steps.MAX_PRIORITY}, or its digits",
            },
        },
        "required": ["interface", "step", "args", "priority"],
        "additionalProperties": False,
    },
}

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
    target={"type": "string"},
    configdrive=CONFIGDRIVE,
    deploy_steps={"type": ["array", "null"]},
    clean_steps={"type": ["array", "null"]},
    service_steps={"type": ["array", "null"]},
    rescue_password={"type": ["string", "null"]},
    disable_ramdisk=_flag(None),
    runbook={"type": ["string", "null"]},
)

POWER: Schema = _object(
    ["target"],
    target={"type": "string"},
    timeout={"type": ["integer", "null"], "minimum": 1, "maximum": MAX_INT},
)

MAINTENANCE: Schema = _object([], reason=_text(4096))

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
