"""Finds nodes for allocations, and gives them back.

Looking and taking may be done by any conductor, and by two at once: what an
allocation gets, and whether, is decided by one write in the database. So an
allocation whose conductor was lost is simply worked at again.
"""

from __future__ import annotations

import datetime
import logging
import random
import time
from collections.abc import Mapping
from typing import Any

from deploysteps import exceptions, group_exceptions, states
from deploysteps.conductor import words
from deploysteps.conductor.runtime import Runtime
from deploysteps.conductor.task_manager import acquire
from deploysteps.db import allocations as rows
from deploysteps.db import locks, types
from deploysteps.db.group_models import Allocation

LOG = logging.getLogger(__name__)

_QUIET = 5.0
"""Seconds that a new allocation is left to the conductor that was asked for it."""


def create(runtime: Runtime, context: Any, values: Mapping[str, Any]) -> Allocation:
    """Store an allocation and look for a node; see :class:`GroupVerbs`."""
    node_uuid = values.get("node_uuid")
    row = {name: value for name, value in values.items() if name != "node_uuid"}
    if node_uuid is not None:
        return _backfill(runtime, context, row, node_uuid)
    slot = runtime.workers.reserve(operator=True)
    try:
        made = rows.insert(runtime.database, row)
    except BaseException:
        slot.release()
        raise
    LOG.info("Allocation %s: wants a node of class %s", made.uuid, made.resource_class)
    slot.run(allocate, runtime, made)
    return made


def allocate(runtime: Runtime, allocation: Allocation) -> None:
    """Look for a node until one is had or none would do; the last resort of its thread."""
    try:
        why = _allocate(runtime, allocation)
    except exceptions.DatabaseUnavailable as exc:
        LOG.error("Allocation %s: %s It is worked at again.", allocation.uuid, exc)
        return
    except BaseException as exc:
        LOG.exception("Allocation %s: failed", allocation.uuid)
        why = f"unexpected error: {words.text_of(exc)}"
    if why is None:
        return
    told = f"Failed to process allocation {allocation.uuid}: {why}."
    told = words.shortened(told, words.LAST_ERROR_BYTES)
    if rows.fail(runtime.database, allocation.id, told):
        LOG.error("%s", told)


def _allocate(runtime: Runtime, allocation: Allocation) -> str | None:
    """Return why there is no node; None when there is, or the allocation is gone."""
    conf = runtime.conf.conductor
    for left in range(conf.node_locked_retry_attempts, -1, -1):
        found = rows.candidates(runtime.database, allocation)
        if not found:
            return _nothing(allocation)
        random.shuffle(found)  # so that several allocations do not all want the same first
        found.sort(key=lambda node: node.name is None or node.name != allocation.name)
        for node in found:
            if rows.take(runtime.database, allocation, node):
                LOG.info("Allocation %s: has node %s", allocation.uuid, node.uuid)
                return None
        if not _wanted(runtime, allocation):
            return None
        if left and not runtime.stopping.is_set():
            time.sleep(conf.node_locked_retry_interval)
    return f"could not reserve any of {len(found)} suitable nodes: they are locked, or were taken"


def _wanted(runtime: Runtime, allocation: Allocation) -> bool:
    try:
        return rows.get(runtime.database, allocation.uuid).state == rows.ALLOCATING
    except exceptions.NotFound:
        return False


def _nothing(allocation: Allocation) -> str:
    nodes_named = "none of the requested nodes are" if allocation.candidate_nodes else "no node is"
    with_traits = f", with the traits {', '.join(allocation.traits)}" if allocation.traits else ""
    return (
        f"{nodes_named} available, of the resource class {allocation.resource_class}{with_traits}, "
        "without an instance, out of maintenance, and of a known power state"
    )


def resume(runtime: Runtime) -> int:
    """Work at the allocations that a lost conductor left; returns how many."""
    before = types.utcnow() - datetime.timedelta(seconds=_QUIET)
    found = rows.stuck(runtime.database, before)
    for number, allocation in enumerate(found):
        try:
            slot = runtime.workers.reserve()
        except (exceptions.NoFreeConductorWorker, exceptions.NotStarted):
            return number  # the next round goes on
        slot.run(allocate, runtime, allocation)
    return len(found)


def _backfill(runtime: Runtime, context: Any, row: Mapping[str, Any], node_uuid: str) -> Allocation:
    """Store an allocation for a node that has its instance already.

    :raises AllocationFailed: the node is not as it says; it is kept, with the reason.
    """
    made = rows.insert(runtime.database, row)
    try:
        with acquire(context, node_uuid, purpose="allocation", runtime=runtime) as task:
            problem = _unfit(runtime, task.node, made)
            if problem is not None:
                raise group_exceptions.AllocationFailed(uuid=made.uuid, error=problem)
            task.node.instance_uuid = made.uuid
            task.node.set_instance_info("traits", list(made.traits))
            task.write(task.node.changes(), [rows.gives(made.id, task.node.id)], unlock=True)
    except locks.Stale:
        raise group_exceptions.AllocationNotFound(allocation=made.uuid) from None
    except exceptions.DeployStepsException as exc:
        rows.fail(runtime.database, made.id, words.text_of(exc))
        raise
    return rows.get(runtime.database, made.uuid)


def _unfit(runtime: Runtime, node: Any, allocation: Allocation) -> str | None:
    """Return why a node cannot be said to have been allocated so."""
    problems = []
    if node.provision_state != states.ACTIVE:
        problems.append(f"it is in state {node.provision_state!r}, not {states.ACTIVE!r}")
    if node.instance_uuid not in (None, allocation.uuid):
        problems.append(f"it has the instance {node.instance_uuid}")
    if allocation.resource_class and node.resource_class != allocation.resource_class:
        problems.append(f"its resource class is {node.resource_class}")
    lacks = rows.missing_traits(runtime.database, node.id, allocation.traits)
    if lacks:
        problems.append(f"it has no trait {', '.join(lacks)}")
    if allocation.candidate_nodes and node.uuid not in allocation.candidate_nodes:
        problems.append("it is not among the candidate nodes")
    return f"node {node.uuid} cannot be backfilled: {'; '.join(problems)}" if problems else None


def destroy(runtime: Runtime, context: Any, ident: str) -> None:
    """Remove an allocation; its node, if it has one, is free then.

    :raises InvalidState: the node is active, or something goes on with it.
    """
    found = rows.get(runtime.database, ident)
    if found.node_id is None and rows.delete(runtime.database, found.id):
        return
    node_id = rows.get(runtime.database, found.uuid).node_id
    if node_id is None:
        raise exceptions.Conflict(f"Allocation {found.uuid} changes just now; ask again.")
    with acquire(context, node_id, purpose="allocation deletion", runtime=runtime) as task:
        refuse_leaving(task.node, found.uuid)
        leave(task.node)
        task.write(task.node.changes(), [rows.leaves(node_id)], unlock=True)
    LOG.info("Allocation %s: removed; node %s has none now", found.uuid, task.node.uuid)


def refuse_leaving(node: Any, allocation: str) -> None:
    """Refuse to take an allocation from a node that is in use.

    :raises InvalidState: it is, and it is not in maintenance.
    """
    if node.maintenance:
        return
    kind = states.STATES[node.provision_state].kind
    if node.provision_state == states.ACTIVE or kind is not states.Kind.STABLE:
        raise exceptions.InvalidState(
            f"Cannot remove allocation {allocation} for node {node.uuid}, because the node is in "
            f"state {node.provision_state!r} and not in maintenance: undeploy it first",
            code=409,
        )


def leave(node: Any) -> None:
    """Take from a node, in memory, what its allocation gave it."""
    node.instance_uuid = None
    node.instance_info.pop("traits", None)


def check_update(runtime: Runtime, node: Any, changes: Mapping[str, Any]) -> list[Any]:
    """Return what a change of a node takes with it: with its instance goes its allocation.

    :raises InvalidState: not now.
    """
    if "instance_uuid" not in changes or node.instance_uuid is None:
        return []
    held = rows.of_node(runtime.database, node.id)
    if held is None or changes["instance_uuid"] == node.instance_uuid:
        return []
    refuse_leaving(node, held.uuid)
    return [rows.leaves(node.id)]
