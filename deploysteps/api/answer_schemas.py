"""The shapes of answers, as JSON Schema 2020-12.

Which fields there are, and since when, is in :mod:`deploysteps.api.versions`;
what a client may write is of the type that :mod:`deploysteps.api.schemas` gives
it. Only what is neither has its type here. What has a ``title`` is published
under that name.
"""

from __future__ import annotations

from deploysteps import states, steps
from deploysteps.api import schemas, versions
from deploysteps.api.schemas import Schema
from deploysteps.api.shapes import (
    ANY,
    FLAG,
    LINKS,
    MAYBE_FLAG,
    MAYBE_OBJECT,
    MAYBE_TEXT,
    MAYBE_TIME,
    MAYBE_UUID,
    OBJECT,
    TEXT,
    TIME,
    TIMES,
    URL,
    UUID,
    WHOLE,
    array,
    one_of,
    page,
    shown,
    some,
    whole,
)

# --- nodes ------------------------------------------------------------------------------

_NODE: dict[str, Schema] = {
    **TIMES,
    **{flow.step_field: MAYBE_OBJECT for flow in steps.FLOWS.values()},
    "driver_internal_info": OBJECT,
    "inspection_finished_at": MAYBE_TIME,
    "inspection_started_at": MAYBE_TIME,
    "links": LINKS,
    "ports": LINKS,
    "states": LINKS,
    "portgroups": LINKS,
    "volume": LINKS,
    # Null is ``available`` in the words of 1.1.
    "provision_state": one_of([*states.STATES, None]),
    "provision_updated_at": MAYBE_TIME,
    "raid_config": OBJECT,
    "secure_boot": MAYBE_FLAG,
    "target_raid_config": OBJECT,
    "traits": array(TEXT),
}
NODE = shown("Node", versions.NODE_FIELDS, _NODE, schemas.NODE)
NODES = page("Nodes", "nodes", NODE)
NODE_STATES = shown("NodeStates", versions.STATES_FIELDS, _NODE, schemas.NODE, always=None)
_VALIDATED = whole("ValidatedInterface", result=MAYBE_FLAG, reason=TEXT)
VALIDATION: Schema = {
    "title": "Validation",
    "type": "object",
    "properties": {kind: some(_VALIDATED, "result") for kind in steps.INTERFACE_TYPES},
    "additionalProperties": False,
}
TRAITS = whole("Traits", traits=array(TEXT))
_HISTORY: dict[str, Schema] = {
    **TIMES,
    "links": LINKS,
    "severity": MAYBE_TEXT,
    "duration_seconds": {"type": ["integer", "number", "null"]},
}
HISTORY_ENTRY = shown("HistoryEntry", versions.HISTORY_FIELDS, _HISTORY)
HISTORY = page("History", "history", HISTORY_ENTRY)

# --- of a machine itself ------------------------------------------------------------------

BOOT_DEVICE: Schema = {
    "title": "BootDevice",
    "type": "object",
    "properties": {"boot_device": MAYBE_TEXT, "persistent": MAYBE_FLAG},
}
BOOT_DEVICES = whole("BootDevices", supported_boot_devices=array(TEXT))
INDICATORS = whole(
    "Indicators",
    indicators=array(
        whole(
            "Indicator", name=TEXT, component=TEXT, readonly=FLAG, states=array(TEXT), links=LINKS
        )
    ),
)
INDICATOR_STATE = whole("IndicatorState", state=TEXT)
CONSOLE = whole("Console", console_enabled=FLAG, console_info=MAYBE_OBJECT)
VIFS = whole("Vifs", vifs=array(OBJECT))
VIRTUAL_MEDIA: Schema = {"title": "VirtualMedia", "type": ["array", "object"]}
INVENTORY = whole("Inventory", inventory=OBJECT, plugin_data=OBJECT)
_MAYBE_NUMBER: Schema = {"type": ["integer", "null"]}
BIOS_SETTING = some(
    shown(
        "BiosSetting",
        versions.BIOS_FIELDS,
        {
            **TIMES,
            **dict.fromkeys(("lower_bound", "upper_bound"), _MAYBE_NUMBER),
            **dict.fromkeys(("min_length", "max_length"), _MAYBE_NUMBER),
            **dict.fromkeys(("read_only", "reset_required", "unique"), MAYBE_FLAG),
            "name": TEXT,
            "allowable_values": {"type": ["array", "null"], "items": TEXT},
            "links": LINKS,
        },
    ),
    *("created_at", "updated_at", "links"),
)
BIOS_SETTINGS = whole("BiosSettings", bios=array(BIOS_SETTING))
ONE_BIOS_SETTING: Schema = {
    "title": "OneBiosSetting",
    "type": "object",
    "additionalProperties": BIOS_SETTING,
}
FIRMWARE = whole(
    "Firmware",
    firmware=array(
        some(
            shown("FirmwareComponent", versions.FIRMWARE_FIELDS, {**TIMES, "component": TEXT}),
            *("created_at", "updated_at"),
        )
    ),
)
VENDOR_METHODS: Schema = {
    "title": "VendorMethods",
    "type": "object",
    "additionalProperties": some(
        whole(
            "VendorMethod",
            http_methods=array(TEXT),
            description=TEXT,
            attach=FLAG,
            require_exclusive_lock=FLAG,
            **{"async": FLAG},
        ),
        *("http_methods", "async", "description", "attach"),
    ),
}
LOGICAL_DISK: Schema = {
    "title": "LogicalDiskProperties",
    "type": "object",
    "additionalProperties": TEXT,
}

# --- ours, of nodes -----------------------------------------------------------------------

_FLOW = one_of(steps.RUNS)
_ARGSINFO: Schema = {"type": ["object", "null"]}
_RULES: dict[str, Schema] = {"abortable": FLAG, "repeatable": ANY}
STEP = some(
    whole(
        "OfferedStep",
        interface=TEXT,
        step=TEXT,
        priority=WHOLE,
        flow=_FLOW,
        forbidden=FLAG,
        **_RULES,
        default_priority=WHOLE,
        argsinfo=_ARGSINFO,
        source=TEXT,
        replaced=ANY,
    ),
    *("interface", "step", "priority", "flow", "forbidden", *_RULES),
)
PLANNED_STEP = some(
    whole(
        "PlannedStep",
        interface=TEXT,
        step=TEXT,
        args=OBJECT,
        **_RULES,
        priority=WHOLE,
        source=TEXT,
        argsinfo=_ARGSINFO,
        replaced=ANY,
        requires_ramdisk=FLAG,
    ),
    *("interface", "step", "args", *_RULES),
)
LEFT_OUT: Schema = {
    "title": "StepLeftOut",
    "type": "object",
    "properties": {"interface": TEXT, "step": TEXT, "why": TEXT},
    "required": ["interface", "step", "why"],
}
PLAN = whole(
    "Plan",
    flow=_FLOW,
    steps=array(PLANNED_STEP),
    left_out=array(LEFT_OUT),
    unknown=array(PLANNED_STEP),
    agent_to_come=FLAG,
    note=MAYBE_TEXT,
    problem=MAYBE_TEXT,
)
STEPS = whole("OfferedSteps", steps=array(STEP))
ATTEMPT = whole(
    "Attempt",
    interface=TEXT,
    step=TEXT,
    attempt=WHOLE,
    state=TEXT,
    conductor=TEXT,
    started_at=TIME,
    finished_at=MAYBE_TIME,
    outcome=MAYBE_TEXT,
    error=MAYBE_TEXT,
    progress=MAYBE_OBJECT,
    waits_for=MAYBE_TEXT,
    waiting_since=MAYBE_TIME,
    deadline=MAYBE_TIME,
    silent_at=MAYBE_TIME,
    reboot=FLAG,
    evidence=MAYBE_OBJECT,
)
_RUN = whole(
    "Run",
    uuid=UUID,
    flow=_FLOW,
    state=one_of(["running", "waiting", "aborting", "finished"]),
    mechanism=one_of(["steps", "deploy"]),
    resumes=MAYBE_UUID,
    requested_by=MAYBE_TEXT,
    request=MAYBE_OBJECT,
    left_out=array(OBJECT),
    started_at=TIME,
    finished_at=MAYBE_TIME,
    outcome=MAYBE_TEXT,
    error=MAYBE_TEXT,
    attempts=array(ATTEMPT),
)
RUN = some(_RUN, *_RUN["properties"], plan=array(OBJECT))
LOCK: Schema = {
    "anyOf": [whole("Lock", holder=TEXT, purpose=MAYBE_TEXT, since=MAYBE_TIME), {"type": "null"}]
}
ONE_RUN = whole("OneRun", **_RUN["properties"], plan=array(OBJECT), node_uuid=UUID)
RUNS = page("Runs", "runs", RUN, lock=LOCK)

# --- ports, drivers, conductors, saved steps ------------------------------------------------

PORT = shown(
    "Port",
    versions.PORT_FIELDS,
    {**TIMES, "internal_info": OBJECT, "links": LINKS, "node_uuid": UUID},
    schemas.PORT,
)
PORTS = page("Ports", "ports", PORT)

DRIVER = shown(
    "Driver",
    versions.DRIVER_FIELDS,
    {
        "name": TEXT,
        "hosts": array(TEXT),
        "links": LINKS,
        "properties": LINKS,
        "type": one_of(["dynamic"]),
        **{f"enabled_{kind}_interfaces": array(TEXT) for kind in versions.DRIVER_INTERFACES},
    },
)
DRIVERS = whole("Drivers", drivers=array(DRIVER))
DRIVER_PROPERTIES: Schema = {
    "title": "DriverProperties",
    "type": "object",
    "additionalProperties": TEXT,
}

CONDUCTOR = shown(
    "Conductor",
    versions.CONDUCTOR_FIELDS,
    {
        **TIMES,
        "hostname": TEXT,
        "conductor_group": TEXT,
        "alive": FLAG,
        "drivers": array(TEXT),
        "links": LINKS,
    },
)
CONDUCTORS = page("Conductors", "conductors", CONDUCTOR)


DEPLOY_TEMPLATE = shown(
    "DeployTemplate",
    versions.DEPLOY_TEMPLATE_FIELDS,
    {**TIMES, "links": LINKS, "steps": array(OBJECT)},
    schemas.DEPLOY_TEMPLATE,
)
DEPLOY_TEMPLATES = page("DeployTemplates", "deploy_templates", DEPLOY_TEMPLATE)
_CHASSIS: dict[str, Schema] = {**TIMES, "links": LINKS, "nodes": LINKS}
CHASSIS = shown("Chassis", versions.CHASSIS_FIELDS, _CHASSIS, schemas.CHASSIS)
CHASSIS_LIST = page("ChassisList", "chassis", CHASSIS)
_PORTGROUP: dict[str, Schema] = {
    **TIMES,
    "links": LINKS,
    "ports": LINKS,
    "internal_info": OBJECT,
    "dynamic_portgroup": FLAG,
}
PORTGROUP = shown("Portgroup", versions.PORTGROUP_FIELDS, _PORTGROUP, schemas.PORTGROUP)
PORTGROUPS = page("Portgroups", "portgroups", PORTGROUP)
SHARDS = whole("Shards", shards=array(whole("Shard", name=TEXT, count=WHOLE)))
CHILDREN = whole(
    "Children",
    children=array(UUID),
    links=whole("ChildrenLink", href=URL, rel=one_of(["children"])),
)
_ALLOCATION: dict[str, Schema] = {
    **TIMES,
    "candidate_nodes": array(TEXT),
    "links": LINKS,
    "node_uuid": MAYBE_UUID,
    "state": one_of(["allocating", "active", "error"]),
    "traits": array(TEXT),
}
ALLOCATION = shown("Allocation", versions.ALLOCATION_FIELDS, _ALLOCATION, schemas.ALLOCATION)
ALLOCATIONS = page("Allocations", "allocations", ALLOCATION)
RUNBOOK = shown(
    "Runbook",
    versions.RUNBOOK_FIELDS,
    {**TIMES, "links": LINKS, "steps": array(OBJECT), "traits": array(TEXT)},
    schemas.RUNBOOK,
)
RUNBOOKS = page("Runbooks", "runbooks", RUNBOOK)

# --- the agent's ----------------------------------------------------------------------------

LOOKUP = whole(
    "Lookup",
    node=NODE,
    config={
        "type": "object",
        "properties": {
            "heartbeat_timeout": WHOLE,
            "agent_token": TEXT,
            "agent_token_required": FLAG,
        },
        "required": ["heartbeat_timeout", "agent_token"],
    },
)

# --- version documents, errors ----------------------------------------------------------------

VERSION = whole(
    "Version", id=one_of(["v1"]), links=LINKS, status=TEXT, min_version=TEXT, version=TEXT
)
ROOT = whole("Root", name=TEXT, description=TEXT, default_version=VERSION, versions=array(VERSION))
_V1 = whole("V1", id=one_of(["v1"]), links=LINKS, media_types=OBJECT, version=VERSION)
V1 = some(
    _V1,
    *_V1["properties"],
    **{name: {**LINKS, "x-since": f"1.{minor}"} for name, minor in versions.ENDPOINTS.items()},
)

ERROR: Schema = whole(
    "Error",
    error_message={
        "type": "string",
        "contentMediaType": "application/json",
        "contentSchema": {
            "anyOf": [
                whole(
                    "Fault",
                    faultcode=one_of(["Client", "Server"]),
                    faultstring=TEXT,
                    debuginfo={"type": "null"},
                ),
                whole("BareError", code=WHOLE, title=TEXT, description=TEXT),
            ]
        },
        "description": "A JSON document in a string; see contentSchema.",
    },
)
"""What every refusal answers."""
