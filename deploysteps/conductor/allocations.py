"""Finds nodes for allocations, and gives them back.

Looking and taking may be done by any conductor, and by two at once: what an
allocation gets, and whether, is decided by one write in the database. So an
allocation whose conductor was lost is simply worked at again.
"""

from __future__ import annotations

import datetime
import logging
import random
import threading
from collections.abc import Mapping
from typing import Any

from deploysteps import exceptions, states
from deploysteps.conductor import words
from deploysteps.conductor.runtime import Runtime
from deploysteps.conductor.task_manager import acquire
from deploysteps.db import allocations as rows
from deploysteps.db import types
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
    # No operator's share: it wants no machine to be saved, and there may be many.
    slot = runtime.workers.reserve()
    try:
        made = rows.insert(runtime.database, row)
    except BaseException:
        slot.release()
        raise
    LOG.info("Allocation %s: wants a node of class %s", made.uuid, made.resource_class)
    slot.run(allocate, runtime, made)
    return made


class _AllLocked(Exception):
    """There are nodes that would do, and none can be had just now."""


def allocate(runtime: Runtime, allocation: Allocation, left: int | None = None) -> None:
    """Look for a node once; the last resort of its thread.

    Where all that would do are locked it is tried again later, by one thread for all of
    them: no worker waits for that.

    :param left: how often that may still be; None: it was not yet.
    """
    if left is None:
        left = runtime.conf.conductor.node_locked_retry_attempts
    try:
        why = _allocate(runtime, allocation)
    except _AllLocked as exc:
        if left and not runtime.stopping.is_set():
            _later(runtime, allocation.uuid, left - 1)
            return
        why = str(exc)
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
    """Return why there is no node; None when there is, or the allocation is gone.

    :raises _AllLocked: there may be one later.
    """
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
    raise _AllLocked(
        f"could not reserve any of {len(found)} suitable nodes: they are locked, or were taken"
    )


_LOCK = threading.Lock()
_SHORTEST = 0.05
"""Seconds between two tries, where the configuration says no pause."""


def _later(runtime: Runtime, uuid: str, left: int) -> None:
    with _LOCK:
        runtime.allocating[uuid] = left
        if runtime.allocates is None:
            runtime.allocates = threading.Thread(
                target=_try_again, args=(runtime,), name="allocations", daemon=True
            )
            runtime.allocates.start()


def _try_again(runtime: Runtime) -> None:
    """Try what waits, until nothing does. What a stop leaves, the next start goes on with."""
    pause = max(runtime.conf.conductor.node_locked_retry_interval, _SHORTEST)
    while True:
        stops = runtime.stopping.wait(pause)
        with _LOCK:
            if stops or not runtime.allocating:
                runtime.allocates = None
                return
            waiting, runtime.allocating = runtime.allocating, {}
        for uuid, left in waiting.items():
            if not runtime.stopping.is_set():
                _try_one(runtime, uuid, left)


def _try_one(runtime: Runtime, uuid: str, left: int) -> None:
    try:
        allocate(runtime, rows.get(runtime.database, uuid), left)
    except exceptions.NotFound:
        return
    except BaseException:  # it is stored as wanting a node: recovery goes on with it
        LOG.exception("Allocation %s: it was not tried again", uuid)


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
        if allocation.uuid in runtime.allocating:
            continue
        try:
            slot = runtime.workers.reserve()
        except (exceptions.NoFreeConductorWorker, exceptions.NotStarted):
            return number  # the next round goes on
        slot.run(allocate, runtime, allocation)
    return len(found)


def _backfill(runtime: Runtime, context: Any, row: Mapping[str, Any], node_uuid: str) -> Allocation:
    """Store an allocation for a node that has its instance already.

    Both rows are written in one transaction: it never wants a node, so that no clock
    gives it another one.

    :raises AllocationFailed: the node is not as it says; it is kept, with the reason.
    :raises Conflict: the node is locked, or has an allocation; nothing is kept, so that the
        same may be asked again.
    """
    made = rows.unstored(row)
    try:
        with acquire(
            context, node_uuid, purpose="allocation", any_group=True, runtime=runtime
        ) as task:
            node = task.node
            problem = _unfit(runtime, node, made)
            if problem is not None:
                raise exceptions.AllocationFailed(uuid=made.uuid, error=problem)
            if rows.of_node(runtime.database, node.id) is not None:
                raise exceptions.NodeHasAllocation(node=node.uuid)
            node.instance_uuid = made.uuid
            node.set_instance_info("traits", list(made.traits))
            given = {**row, "uuid": made.uuid, "state": rows.ACTIVE, "node_id": node.id}
            task.write(
                node.changes(),
                unlock=True,
                then=lambda connection: rows.insert_given(connection, given),
            )
    except exceptions.AllocationFailed as exc:
        why = words.shortened(words.text_of(exc), words.LAST_ERROR_BYTES)
        failed = {"uuid": made.uuid, "state": rows.ERROR, "last_error": why}
        rows.insert(runtime.database, {**row, **failed})
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
    with acquire(
        context, node_id, purpose="allocation deletion", any_group=True, runtime=runtime
    ) as task:
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

    What that gave the node goes with it, in memory, unless the change itself says otherwise.

    :raises InvalidState: not now.
    """
    if "instance_uuid" not in changes or node.instance_uuid is None:
        return []
    held = rows.of_node(runtime.database, node.id)
    if held is None or changes["instance_uuid"] == node.instance_uuid:
        return []
    refuse_leaving(node, held.uuid)
    leave(node)
    return [rows.leaves(node.id)]
