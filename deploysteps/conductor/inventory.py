"""What is known of machines: enrol, change, remove; ports; maintenance."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

from deploysteps import exceptions, states
from deploysteps.conductor import allocations, charge, endings, groups, words
from deploysteps.conductor.runtime import Runtime
from deploysteps.conductor.task_manager import TaskManager, acquire
from deploysteps.db import nodes, ports, runs, transitions, types
from deploysteps.db.models import INTERFACE_COLUMNS, Node, Port
from deploysteps.db.transitions import Key
from deploysteps.steps import INTERFACE_TYPES, flow_of_state

LOG = logging.getLogger(__name__)


def create_node(runtime: Runtime, context: Any, values: Mapping[str, Any]) -> Node:
    """Enrol a node; see :meth:`ConductorManager.create_node`."""
    row = {"provision_state": states.ENROLL, **values}
    if not row.get("driver"):
        raise exceptions.MissingParameterValue("a node needs a driver: name a hardware type")
    groups.fit_uuids(row)
    groups.check_chassis(runtime, row)
    groups.check_parent(runtime, row)
    _fit_group(row)
    for flag in ("protected", "retired"):
        _check_reason(flag, row, row)
    if row.get("protected"):
        raise exceptions.InvalidParameterValue(
            "A new node can not be protected; only a node that has an instance can."
        )
    row.update(_resolved(runtime, row.get("conductor_group", ""), row["driver"], row))
    row["provision_updated_at"] = types.utcnow()
    with _parent_kept(runtime, context, row):
        node = nodes.insert(runtime.database, row)
    LOG.info("Node %s: enrolled with driver %s", node.uuid, node.driver)
    return node


@contextmanager
def _parent_kept(runtime: Runtime, context: Any, row: Mapping[str, Any]) -> Iterator[None]:
    """Let nobody remove the parent that a new node names before the node is there.

    :raises InvalidParameterValue: it was removed already.
    """
    with ExitStack() as held:
        if (above := row.get("parent_node")) is not None:
            with suppress(exceptions.NodeNotFound):
                held.enter_context(_records(runtime, context, above, "node create"))
            groups.check_parent(runtime, row)
        yield


def _fit_group(values: dict[str, Any]) -> None:
    """Write a conductor group in lower case."""
    if "conductor_group" in values:
        values["conductor_group"] = (values["conductor_group"] or "").lower()


def _resolved(
    runtime: Runtime, group: str, driver: str, named: Mapping[str, Any]
) -> dict[str, str]:
    """Return the interface columns of a node of a group, defaults filled in.

    :raises InvalidParameterValue: a mistake in the request, so never a 404.
    """
    wanted = {kind: named.get(INTERFACE_COLUMNS[kind]) for kind in INTERFACE_TYPES}
    try:
        names = charge.resolved(runtime, group, driver, wanted)
    except exceptions.NotFound as exc:
        raise exceptions.InvalidParameterValue(str(exc)) from exc
    return {INTERFACE_COLUMNS[kind]: name for kind, name in names.items()}


def update_node(
    runtime: Runtime,
    context: Any,
    node_id: str,
    values: Mapping[str, Any],
    reset_interfaces: bool,
    before: Mapping[str, Any],
) -> Node:
    """Change columns of a node; see :meth:`ConductorManager.update_node`."""
    with ExitStack() as held:
        task = held.enter_context(_records(runtime, context, node_id, "node update"))
        node = task.node
        if states.STATES[node.provision_state].kind is not states.Kind.STABLE:
            raise exceptions.Conflict(
                f"Node {node.uuid} can not be updated while a state transition is in progress "
                f"(it is in state {node.provision_state!r})."
            )
        _refuse_changed(node, before, f"node {node.uuid}")
        changes = dict(values)
        _check_protection(node, changes)
        for flag in ("protected", "retired"):
            changes.update(_check_reason(flag, changes, {flag: getattr(node, flag)}))
        groups.fit_uuids(changes)
        _check_instance(node, changes)
        groups.check_chassis(runtime, changes)
        for above in groups.check_parent(runtime, changes, node.uuid):
            # Nobody else puts one of these below the node, or removes it, meanwhile.
            held.enter_context(_records(runtime, context, above, "node update"))
        groups.check_parent(runtime, changes, node.uuid)
        _fit_group(changes)
        if "maintenance" in changes or "maintenance_reason" in changes:
            changes["fault"] = None  # an operator's word stands for what the service found
        if changes.get("maintenance") is False:
            changes["maintenance_reason"] = None
        if reset_interfaces or _changes_what_serves(node, changes):
            changes.update(_interfaces_after(runtime, node, changes, reset_interfaces))
        also = allocations.check_update(runtime, node, changes)
        for name, value in changes.items():
            setattr(node, name, value)
        task.write(node.changes(), also, unlock=True)
        node.updated_at = types.utcnow()
        return node


def _refuse_changed(row: Node | Port, before: Mapping[str, Any], what: str) -> None:
    """Refuse a change that was made from values which the row does not have any more."""
    for name, value in before.items():
        if types.encode(getattr(row, name)) != types.encode(value):
            raise exceptions.Conflict(
                f"{name} of {what} was changed by another request meanwhile; "
                "read it again and repeat the change"
            )


def _changes_what_serves(node: Node, changes: Mapping[str, Any]) -> bool:
    """Tell whether a conductor has to be there for what a node is to be."""
    group = changes.get("conductor_group", node.conductor_group)
    moves = group != node.conductor_group
    return moves or not changes.keys().isdisjoint(("driver", *INTERFACE_COLUMNS.values()))


def _interfaces_after(
    runtime: Runtime, node: Node, changes: Mapping[str, Any], reset: bool
) -> dict[str, str]:
    kept = {} if reset else {c: getattr(node, c) for c in INTERFACE_COLUMNS.values()}
    group = changes.get("conductor_group", node.conductor_group)
    return _resolved(runtime, group, changes.get("driver", node.driver), {**kept, **changes})


def _check_protection(node: Node, changes: Mapping[str, Any]) -> None:
    if not changes.get("protected") or node.protected:
        return
    state = states.STATES[node.provision_state]
    if state.failed or not states.can(node.provision_state, states.DELETE):
        raise exceptions.InvalidState(
            f"Node {node.uuid} can not be protected in state {node.provision_state!r}; only a "
            f"node that has an instance can",
            code=409,
        )


def _check_instance(node: Node, changes: Mapping[str, Any]) -> None:
    """Refuse what an instance does not survive: another one in its place, or other interfaces.

    As in the field: of two schedulers that take a node the second one has to be told, and one
    that counts nodes by their resource class does not see it change under an instance.
    """
    if changes.get("instance_uuid") and node.instance_uuid not in (None, changes["instance_uuid"]):
        raise exceptions.NodeAssociated(node=node.uuid, instance=node.instance_uuid)
    state = states.STATES[node.provision_state]
    if not (state.failed or states.can(node.provision_state, states.DELETE)):
        return
    kept = [] if changes.get("maintenance", node.maintenance) else [*INTERFACE_COLUMNS.values()]
    if node.resource_class:
        kept.append("resource_class")
    for name in kept:
        if name in changes and changes[name] != getattr(node, name):
            or_so = "" if name == "resource_class" else " or in maintenance"
            raise exceptions.InvalidState(
                f"Node {node.uuid} can not have {name} updated unless it is enroll, manageable "
                f"or available{or_so}; it is in state {node.provision_state!r}.",
                code=409,
            )


def _check_reason(
    flag: str, changes: Mapping[str, Any], present: Mapping[str, Any]
) -> dict[str, None]:
    """Refuse the reason of a flag that is not set; one that is taken back takes its reason along.

    :returns: what else is to be written.
    """
    reason = f"{flag}_reason"
    is_set = changes.get(flag, present.get(flag))
    if changes.get(reason) and not is_set:
        raise exceptions.InvalidParameterValue(
            f"The {reason} field can only be set when {flag} is true."
        )
    return {} if is_set or flag not in changes else {reason: None}


def destroy_node(runtime: Runtime, context: Any, node_id: str) -> None:
    """Remove a node; see :meth:`ConductorManager.destroy_node`."""
    with _records(runtime, context, node_id, "node deletion") as task:
        node = task.node
        if node.protected:
            raise exceptions.NodeProtected(node=node.uuid)
        if not node.maintenance:
            if node.provision_state not in states.DELETABLE_STATES:
                allowed = ", ".join(sorted(states.DELETABLE_STATES))
                raise exceptions.InvalidState(
                    f"Can not delete node {node.uuid} while it is in provision state "
                    f"{node.provision_state!r}. Valid provision states to perform deletion are: "
                    f"{allowed}; or set it to maintenance first.",
                    code=409,
                )
            if node.instance_uuid is not None:
                raise exceptions.NodeAssociated(node=node.uuid, instance=node.instance_uuid)
        parts = len(nodes.children(runtime.database, node.uuid))
        if parts:
            raise exceptions.InvalidParameterValue(
                f"Can not delete node {node.uuid}: it is the parent_node of {parts} other "
                f"node{'s' if parts > 1 else ''}. Delete them, or change their parent_node, first."
            )
        flow = flow_of_state(node.provision_state)
        if flow is not None and node.run_id is not None:
            # What was made ready for the run is put away, as after any ending.
            touched, why = charge.may_touch(runtime, node), "the node is deleted"
            ending = endings.Ending(
                endings.ABORTED, states.ABORT, why, clean_up=touched, keep_lock=True
            )
            endings.end(task, flow, ending)
        task.delete_node()
        LOG.info("Node %s: removed", node.uuid)


def set_maintenance(
    runtime: Runtime, context: Any, node_id: str, on: bool, reason: str | None
) -> None:
    """Set or clear maintenance without a lock, so that it works on a busy node.

    Either way it is the operator's word from now on: a fault that the service had found is
    cleared, so that the service does not end this maintenance.
    """
    node = nodes.get(runtime.database, node_id)
    values = {"maintenance": on, "maintenance_reason": reason if on else None, "fault": None}
    nodes.set_unlocked(runtime.database, node.id, values)
    conf = runtime.conf.conductor
    if on and node.run_id is not None and not conf.allow_provisioning_in_maintenance:
        why = f"maintenance mode ({reason})" if reason else "maintenance mode"
        request_abort(runtime, node, why, _any_wait(runtime))


def request_abort(
    runtime: Runtime, node: Node, by: str, to_cut_short: Callable[[Node], Key | None]
) -> None:
    """Ask a node's run to end; one lock-free write, honoured by the next transition.

    :param to_cut_short: names the attempt whose wait may be ended at once, be it one that
        is to come. It is told in the same write. Asked again afterwards, since the run may
        have gone on meanwhile: what begins later sees the request.
    """
    if node.run_id is None:
        return
    told = to_cut_short(node)
    transitions.ask_abort(runtime.database, node.run_id, by, told)
    now = to_cut_short(nodes.get(runtime.database, node.id))
    if now is not None and now != told and now.run_id == node.run_id:
        transitions.cut_short(runtime.database, now)
    runtime.wake()


def _any_wait(runtime: Runtime) -> Callable[[Node], Key | None]:
    """Return what names the attempt that waits or may come to wait, abortable or not."""

    def waits(node: Node) -> Key | None:
        if node.run_id is None:
            return None
        attempt = runs.last_attempt(runtime.database, node.run_id)
        ended = attempt is None or attempt.state == runs.FINISHED
        return None if attempt is None or ended else transitions.key_of(attempt)

    return waits


def create_port(runtime: Runtime, context: Any, node_id: str, values: Mapping[str, Any]) -> Port:
    """Store a port; see :meth:`ConductorManager.create_port`."""
    with _records(runtime, context, node_id, "port create") as task:
        groups.check_portgroup(runtime, task.node.id, values)
        row = {**values, "node_id": task.node.id, "node_uuid": task.node.uuid}
        return ports.insert(runtime.database, row)


def update_port(
    runtime: Runtime,
    context: Any,
    uuid: str,
    values: Mapping[str, Any],
    before: Mapping[str, Any],
) -> Port:
    """Change a port under its node's lock; see :meth:`ConductorManager.update_port`."""
    changes = dict(values)
    with ExitStack() as held:
        task, port = held.enter_context(_port_kept(runtime, context, uuid, "port update"))
        if changes.pop("node_uuid", port.node_uuid) != port.node_uuid:
            # Both nodes are as they are told to be until the port has moved.
            other = _records(runtime, context, values["node_uuid"], "port update")
            node = held.enter_context(other).node
            changes.update(node_id=node.id, node_uuid=node.uuid)
            groups.check_portgroup(
                runtime, node.id, {"portgroup_uuid": port.portgroup_uuid, **changes}
            )
        else:
            groups.check_portgroup(runtime, task.node.id, changes)
        _refuse_changed(port, before, f"port {uuid}")
        return ports.update(runtime.database, uuid, changes)


def destroy_port(runtime: Runtime, context: Any, uuid: str) -> None:
    """Remove a port under its node's lock."""
    with _port_kept(runtime, context, uuid, "port deletion"):
        ports.delete(runtime.database, uuid)


def _records(runtime: Runtime, context: Any, node_id: str | int, purpose: str) -> TaskManager:
    """Return a task under which records are changed, whoever works on the machine."""
    return acquire(context, node_id, purpose=purpose, any_group=True, runtime=runtime)


@contextmanager
def _port_kept(
    runtime: Runtime, context: Any, uuid: str, purpose: str
) -> Iterator[tuple[TaskManager, Port]]:
    """Give a task on a port's node, whose lock keeps the port as it is, and the port.

    :raises Conflict: it has got another node while the lock was waited for.
    """
    node_id = ports.get(runtime.database, uuid).node_id
    with _records(runtime, context, node_id, purpose) as task:
        port = ports.get(runtime.database, uuid)
        if port.node_id != task.node.id:
            raise exceptions.Conflict(f"Port {uuid} was just given to another node; ask again.")
        yield task, port


def validate_interfaces(runtime: Runtime, context: Any, node_id: str) -> dict[str, dict[str, Any]]:
    """Return interface -> whether its ``validate`` is content, and why not."""
    with acquire(context, node_id, shared=True, purpose="validation", runtime=runtime) as task:
        mask = task.masker()
        return {kind: _validated(task, kind, mask) for kind in INTERFACE_TYPES}


def _validated(task: TaskManager, kind: str, mask: Any) -> dict[str, Any]:
    try:
        getattr(task.driver, kind).validate(task)
    except exceptions.UnsupportedDriverExtension as exc:
        return {"result": None, "reason": mask.text(str(exc))}
    except BaseException as exc:  # whatever a driver raises, the others still report
        told = words.shown(words.text_of(exc), mask, words.LAST_ERROR_BYTES)
        return {"result": False, "reason": told}
    return {"result": True}
