"""Chassis and portgroups: what is checked before they are written."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from deploysteps import exceptions
from deploysteps.conductor.runtime import Runtime
from deploysteps.conductor.task_manager import TaskManager, acquire
from deploysteps.db import chassis, nodes, portgroups
from deploysteps.db.group_models import Portgroup

_MODE = "active-backup"
"""What a portgroup's mode is when nobody names one, as in the field."""


def fit_uuids(values: dict[str, Any]) -> None:
    """Write in lower case, as uuids of our own are, those by which a node is looked for."""
    for name in ("chassis_uuid", "instance_uuid"):
        if values.get(name) is not None:
            values[name] = values[name].lower()


def check_chassis(runtime: Runtime, values: Mapping[str, Any]) -> None:
    """Refuse a node in a chassis that is not there.

    :raises InvalidParameterValue: naming it.
    """
    named = values.get("chassis_uuid")
    if named is not None and chassis.missing(runtime.database, [named]):
        raise exceptions.InvalidParameterValue(f"Chassis {named} could not be found.")


def check_parent(runtime: Runtime, values: Mapping[str, Any], uuid: str | None = None) -> list[str]:
    """Refuse a parent that is not there, is the node itself, or is below it.

    :param uuid: the node's; None for one that is made.
    :returns: the uuids of the parent, its parent, and so on.
    :raises InvalidParameterValue: naming it.
    """
    named = above = values.get("parent_node")
    chain: list[str] = []
    while above is not None and above not in chain:
        if above == uuid:
            raise exceptions.InvalidParameterValue(
                f"Node {named} cannot be the parent_node of {uuid}: it is the same, or below it."
            )
        try:
            item = nodes.get(runtime.database, above)
        except exceptions.NotFound as exc:
            if above == named:
                raise exceptions.InvalidParameterValue(
                    f"Unable to apply the requested parent_node {named!r}: there is no such node."
                ) from exc
            break
        chain.append(item.uuid)
        above = item.parent_node
    return chain


def check_portgroup(runtime: Runtime, node_id: int, values: Mapping[str, Any]) -> None:
    """Refuse a port in a portgroup that is not there, or is another node's.

    :raises InvalidParameterValue: naming it, and not telling which of both: whose nodes there
        are is not for everybody.
    """
    named = values.get("portgroup_uuid")
    if named is None:
        return
    with suppress(exceptions.NotFound):
        if portgroups.get(runtime.database, named).node_id == node_id:
            return
    raise exceptions.InvalidParameterValue(f"The node has no portgroup {named}.")


def create_portgroup(
    runtime: Runtime, context: Any, node_id: str, values: Mapping[str, Any]
) -> Portgroup:
    """Store a portgroup of a node, under the node's lock."""
    with _task(runtime, context, node_id, "portgroup create") as task:
        row = {**_fit(values), "node_id": task.node.id, "node_uuid": task.node.uuid}
        row["mode"] = row.get("mode") or _MODE
        return portgroups.insert(runtime.database, row)


def update_portgroup(
    runtime: Runtime,
    context: Any,
    uuid: str,
    values: Mapping[str, Any],
    before: Mapping[str, Any],
) -> Portgroup:
    """Change a portgroup, under its node's lock.

    :raises Conflict: ``before`` is not true any more.
    """
    found = portgroups.get(runtime.database, uuid)
    with _task(runtime, context, found.node_id, "portgroup update"):
        return portgroups.update(runtime.database, found.uuid, _fit(values), before=before)


def destroy_portgroup(runtime: Runtime, context: Any, uuid: str) -> None:
    """Remove a portgroup, under its node's lock."""
    found = portgroups.get(runtime.database, uuid)
    with _task(runtime, context, found.node_id, "portgroup deletion"):
        portgroups.delete(runtime.database, found.uuid)


def _task(runtime: Runtime, context: Any, node_id: str | int, purpose: str) -> TaskManager:
    return acquire(context, node_id, purpose=purpose, any_group=True, runtime=runtime)


def _fit(values: Mapping[str, Any]) -> dict[str, Any]:
    fit = dict(values)
    if fit.get("address"):
        fit["address"] = fit["address"].lower()
    return fit
