"""Shows things to people: the one place where rows become answers.

Every verb that answers with a node answers with :func:`node`, so that what is
masked for one is masked for all.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

from deploysteps import secrets, states
from deploysteps.api import versions
from deploysteps.db import runs as db_runs
from deploysteps.db.group_models import Allocation, Chassis, Portgroup
from deploysteps.db.machine_models import BIOSSetting, FirmwareComponent
from deploysteps.db.models import (
    Conductor,
    DeployTemplate,
    Node,
    NodeHistory,
    Port,
    Runbook,
    StepAttempt,
    StepRun,
)
from deploysteps.db.types import timestamp
from deploysteps.steps import FLOWS

Document = dict[str, Any]

OBJECTS = frozenset(
    {
        "driver_info",
        "driver_internal_info",
        "extra",
        "instance_info",
        "internal_info",
        "local_link_connection",
        "network_data",
        "properties",
        "raid_config",
        "target_raid_config",
    }
)
"""Shown as ``{}`` when empty, never as null."""
COLLECTIONS = frozenset({"ports", "states", "portgroups", "volume"})
"""Fields of a node that are links to what belongs to it."""


def links(base: str, *path: str) -> list[Document]:
    """Return the two links of a thing."""
    place = "/".join(path)
    return [
        {"href": f"{base}/v1/{place}", "rel": "self"},
        {"href": f"{base}/{place}", "rel": "bookmark"},
    ]


def node(
    item: Node,
    *,
    base: str,
    version: int,
    fields: Iterable[str],
    elsewhere: Mapping[str, Any] | None = None,
    unmasked: Collection[str] = (),
) -> Document:
    """Return a node as a request of ``version`` sees it.

    :param elsewhere: fields that do not stand in its row: ``conductor``, the
        name of the one in charge of it, and ``traits``; or that the caller may not see.
    :param unmasked: fields whose secrets he sees, if he may see the field at all.
    """
    shown = versions.shown(fields, versions.NODE_FIELDS, version)
    return {
        name: _node_field(item, name, base, version, elsewhere or {}, unmasked) for name in shown
    }


def _node_field(
    item: Node,
    name: str,
    base: str,
    version: int,
    elsewhere: Mapping[str, Any],
    unmasked: Collection[str] = (),
) -> Any:
    if name in elsewhere:
        return elsewhere[name]
    if name in unmasked:
        return getattr(item, name) or {}
    if name == "links":
        return links(base, "nodes", item.uuid)
    if name in COLLECTIONS:
        return links(base, "nodes", item.uuid, name)
    if name in _NODE_FIELDS:
        return _NODE_FIELDS[name](item)
    if name == "provision_state" and item.provision_state == states.AVAILABLE:
        return states.AVAILABLE if version >= versions.AVAILABLE_SHOWN else None
    return _value(item, name)


def _current(field: str) -> Callable[[Node], Any]:
    """Return how the current step of a flow is shown: null when there is none."""
    return lambda item: secrets.masked(getattr(item, field)) or None


# Fields that are not shown as a column holds them. Health has no value yet.
_NODE_FIELDS: dict[str, Callable[[Node], Any]] = {
    **{flow.step_field: _current(flow.step_field) for flow in FLOWS.values()},
    "conductor": lambda item: None,
    "traits": lambda item: [],
    "allocation_uuid": lambda item: None,
    "health": lambda item: None,
}


def _value(item: object, name: str) -> Any:
    value = getattr(item, name)
    if isinstance(value, datetime.datetime):
        return timestamp(value)
    return secrets.masked(value or {}) if name in OBJECTS else value


def node_states(item: Node, *, version: int) -> Document:
    """Return the states document of a node."""
    shown = versions.shown(versions.STATES_FIELDS, versions.STATES_FIELDS, version)
    return {name: _node_field(item, name, "", version, {}) for name in shown}


def port(item: Port, *, base: str, version: int, fields: Iterable[str]) -> Document:
    """Return a port as a request of ``version`` sees it."""
    shown = versions.shown(fields, versions.PORT_FIELDS, version)
    return {
        name: links(base, "ports", item.uuid) if name == "links" else _value(item, name)
        for name in shown
    }


def group(
    item: Chassis | Portgroup,
    *,
    base: str,
    version: int,
    place: str,
    part: str,
    table: Mapping[str, int],
    fields: Iterable[str],
) -> Document:
    """Return a chassis or a portgroup.

    :param place: the collection that it is in; ``part``: what it has, below it.
    """
    known = {
        "links": links(base, place, item.uuid),
        part: links(base, place, item.uuid, part),
    }
    return {
        name: known[name] if name in known else _value(item, name)
        for name in versions.shown(fields, table, version)
    }


def allocation(
    item: Allocation, node_uuid: str | None, *, base: str, version: int, fields: Iterable[str]
) -> Document:
    """Return an allocation as a request of ``version`` sees it."""
    known = {"links": links(base, "allocations", item.uuid), "node_uuid": node_uuid}
    return {
        name: known[name] if name in known else _value(item, name)
        for name in versions.shown(fields, versions.ALLOCATION_FIELDS, version)
    }


def step_list(
    item: DeployTemplate | Runbook,
    *,
    base: str,
    version: int,
    place: str,
    table: Mapping[str, int],
    fields: Iterable[str],
    hidden: Mapping[str, Collection[str]],
    traits: Sequence[str],
) -> Document:
    """Return a deploy template or a runbook.

    :param place: the collection that it is in.
    :param table: field -> the version it came with.
    :param hidden: ``interface.step`` -> its arguments that are secret.
    :param traits: of nodes that a runbook is for, beside the one of its name.
    """
    known: dict[str, Callable[[], Any]] = {
        "links": lambda: links(base, place, item.uuid),
        "steps": lambda: [_kept_step(step, hidden) for step in item.steps],
        "traits": lambda: list(traits),
    }
    return {
        name: known[name]() if name in known else _value(item, name)
        for name in versions.shown(fields, table, version)
    }


def _kept_step(step: Document, hidden: Mapping[str, Collection[str]]) -> Document:
    named = hidden.get(f"{step.get('interface')}.{step.get('step')}", ())
    declared = {name: {"secret": True} for name in named}
    shown: Document = secrets.masked({**step, "argsinfo": declared})
    del shown["argsinfo"]
    return shown


def driver(
    name: str,
    hosts: Sequence[str],
    interfaces: dict[str, Document],
    *,
    base: str,
    version: int,
    fields: Iterable[str],
) -> Document:
    """Return a hardware type; ``interfaces`` is type -> ``{'default', 'enabled'}``."""
    known: Document = {
        "name": name,
        "hosts": list(hosts),
        "links": links(base, "drivers", name),
        "properties": links(base, "drivers", name, "properties"),
        "type": "dynamic",
    }
    for kind in versions.DRIVER_INTERFACES:
        offered = interfaces.get(kind, {})
        known[f"default_{kind}_interface"] = offered.get("default")
        known[f"enabled_{kind}_interfaces"] = offered.get("enabled", [])
    return {
        field: known[field] for field in versions.shown(fields, versions.DRIVER_FIELDS, version)
    }


def conductor(
    item: Conductor, *, alive: bool, drivers: Sequence[str], base: str, fields: Iterable[str]
) -> Document:
    """Return a conductor."""
    known: Document = {
        "hostname": item.hostname,
        "conductor_group": item.conductor_group,
        "alive": alive,
        "created_at": timestamp(item.created_at),
        "updated_at": timestamp(item.updated_at),
        "drivers": list(drivers),
        "links": links(base, "conductors", item.hostname),
    }
    return {field: known[field] for field in fields}


def history(entry: NodeHistory, node: Node, *, base: str, fields: Iterable[str]) -> Document:
    """Return an entry of a node's history."""
    known: Document = {
        "uuid": entry.uuid,
        "created_at": timestamp(entry.created_at),
        "severity": entry.severity,
        "event": entry.event,
        "event_type": entry.event_type,
        "conductor": entry.conductor,
        "user": entry.user,
        "project": entry.project,
        "state": entry.state,
        "target_provision_state": entry.target_provision_state,
        "duration_seconds": entry.duration_seconds,
        "links": links(base, f"nodes/{node.uuid}/history", entry.uuid),
    }
    return {field: known[field] for field in fields}


def lock(node: Node) -> Document | None:
    """Return who holds a node's lock, since when and what for; None when it is free."""
    if node.reservation is None:
        return None
    return {
        "holder": node.reservation,
        "purpose": node.lock_purpose,
        "since": timestamp(node.locked_at),
    }


def run(
    item: StepRun,
    attempts: Sequence[StepAttempt],
    *,
    plan: bool = False,
    silent_at: datetime.datetime | None = None,
) -> Document:
    """Return a run with its attempts, in the order they began, and perhaps with its plan.

    :param silent_at: when the wait of the last attempt fails for want of heartbeats.
    """
    return {
        "uuid": item.uuid,
        "flow": item.flow,
        "state": _run_state(item, attempts),
        "mechanism": item.mechanism or db_runs.BY_STEPS,
        "resumes": item.resumes,
        "requested_by": item.requested_by,
        "request": _request(item),
        **({"plan": secrets.masked(item.plan or [])} if plan else {}),
        "left_out": secrets.masked(item.left_out or []),
        "started_at": timestamp(item.started_at),
        "finished_at": timestamp(item.finished_at),
        "outcome": item.outcome,
        "error": item.error,
        "attempts": [
            _attempt(attempt, silent_at if attempt is attempts[-1] else None)
            for attempt in attempts
        ],
    }


def _request(item: StepRun) -> Any:
    """Return what was asked for, masked as the plan's entries are.

    A request does not say which arguments are secret. The plan does; of what
    is not in it, every argument is masked.
    """
    declared = {(step.get("interface"), step.get("step")): step for step in item.plan or ()}

    def shown(value: Any) -> Any:
        if isinstance(value, list):
            return [shown(inner) for inner in value]
        if not isinstance(value, dict):
            return value
        if not isinstance(value.get("args"), dict):
            return {name: shown(inner) for name, inner in value.items()}
        entry = declared.get((value.get("interface"), value.get("step")))
        if entry is None:
            return {**value, "args": dict.fromkeys(value["args"], secrets.MASK)}
        told = secrets.masked({**entry, "args": value["args"]})
        return {**value, "args": told["args"]}

    return secrets.masked(shown(item.request))


def _run_state(item: StepRun, attempts: Sequence[StepAttempt]) -> str:
    if item.finished_at is not None:
        return db_runs.FINISHED
    if item.abort_requested_at is not None:
        return "aborting"
    waits = bool(attempts) and attempts[-1].state == db_runs.WAITING
    return db_runs.WAITING if waits else db_runs.RUNNING


def _attempt(item: StepAttempt, silent_at: datetime.datetime | None) -> Document:
    waits = item.state == db_runs.WAITING and item.finished_at is None
    return {
        "interface": item.interface,
        "step": item.step,
        "attempt": item.attempt,
        "state": item.state,
        "conductor": item.conductor,
        "started_at": timestamp(item.started_at),
        "finished_at": timestamp(item.finished_at),
        "outcome": item.outcome,
        "error": item.error,
        "progress": secrets.masked(item.progress),
        "waits_for": item.owner,
        "waiting_since": timestamp(item.waiting_since),
        "deadline": timestamp(item.deadline_at) if item.finished_at is None else None,
        "silent_at": timestamp(silent_at) if waits else None,
        "reboot": bool(item.reboot),
        "evidence": secrets.masked(item.evidence),
    }


def bios_setting(
    item: BIOSSetting, node_ident: str, *, base: str, fields: Collection[str]
) -> Document:
    """Return what a request sees of a setting; its times and links always."""
    seen = {"created_at", "updated_at", *fields}
    document: Document = {
        name: _plain(getattr(item, name))
        for name in versions.BIOS_FIELDS
        if name in seen and name != "links"
    }
    if secrets.names_secret(item.name) and document.get("value"):
        document["value"] = secrets.MASK
    return {**document, "links": links(base, "nodes", node_ident, "bios", item.name)}


def firmware(item: FirmwareComponent, *, fields: Collection[str]) -> Document:
    """Return what a request sees of a component; its times always."""
    seen = {"created_at", "updated_at", *fields}
    return {name: _plain(getattr(item, name)) for name in versions.FIRMWARE_FIELDS if name in seen}


def indicator(
    item: Node, component: str, name: str, known: Mapping[str, Any], *, base: str
) -> Document:
    """Return what is told of an indicator light; ``known`` is what its driver says."""
    one = f"{name}@{component}"
    return {
        "name": one,
        "component": component,
        "readonly": bool(known.get("readonly", True)),
        "states": list(known.get("states", [])),
        "links": links(base, "nodes", item.uuid, "management", "indicators", one),
    }


def _plain(value: Any) -> Any:
    return timestamp(value) if isinstance(value, datetime.datetime) else value
