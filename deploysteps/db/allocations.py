"""Queries on allocations, and the compare-and-set by which one gets its node.

However many conductors work at an allocation, or however many allocations
want one node: taking is one transaction that writes both rows only while the
node is free and the allocation still wants one. It needs no lock of the node,
and takes no node that is locked.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

import sqlalchemy as sa

from deploysteps import exceptions, states
from deploysteps.db import traits, types
from deploysteps.db.engine import Database, again
from deploysteps.db.group_models import Allocation
from deploysteps.db.locks import Also
from deploysteps.db.models import Node, NodeTrait, table
from deploysteps.db.pages import exists, fetch, is_uuid, made, page, rows_of, translating

ALLOCATING, ACTIVE, ERROR = "allocating", "active", "error"
"""States of an allocation."""
STATES = (ALLOCATING, ACTIVE, ERROR)

_A, _N, _T = table(Allocation), table(Node), table(NodeTrait)

FILTERS: dict[str, Callable[[Any], sa.ColumnElement[bool]]] = {
    "node_id": lambda v: _A.c.node_id == v,
    "owner": lambda v: _A.c.owner == v,
    "resource_class": lambda v: _A.c.resource_class == v,
    "state": lambda v: _A.c.state == v,
}


def get(database: Database, ident: str) -> Allocation:
    """Return the allocation of this uuid or name.

    :raises AllocationNotFound: there is none.
    """
    return database.read(lambda c: _get(c, ident))


def _get(connection: sa.Connection, ident: str) -> Allocation:
    by_uuid = is_uuid(ident)
    column = _A.c.uuid if by_uuid else _A.c.name
    query = rows_of(Allocation).where(column == (ident.lower() if by_uuid else ident))
    found = fetch(connection, Allocation, query)
    if not found:
        raise exceptions.AllocationNotFound(allocation=ident)
    return found[0]


def listing(
    database: Database, *, filters: Mapping[str, Any] | None = None, **asked: Any
) -> list[Allocation]:
    """Return a page of allocations.

    :param filters: of :data:`FILTERS`.
    :param asked: as :func:`deploysteps.db.pages.page` takes them.
    :raises NotFound: for an unknown marker (a uuid).
    """
    query = rows_of(Allocation)
    for name, value in (filters or {}).items():
        query = query.where(FILTERS[name](value))
    return database.read(lambda c: page(query, Allocation, c, **asked))


def of_node(database: Database, node_id: int) -> Allocation | None:
    """Return the allocation that has a node; None if it has none."""
    query = rows_of(Allocation).where(_A.c.node_id == node_id)
    found = database.read(lambda c: fetch(c, Allocation, query))
    return found[0] if found else None


def of_nodes(database: Database, node_ids: Sequence[int]) -> dict[int, str]:
    """Return node id -> uuid of its allocation, of those that have one, in one query."""
    query = sa.select(_A.c.node_id, _A.c.uuid).where(_A.c.node_id.in_(node_ids))
    rows = database.read(lambda c: c.execute(query).all()) if node_ids else ()
    return {row[0]: row[1] for row in rows}


def nodes_of(database: Database, found: Sequence[Allocation]) -> dict[int, str]:
    """Return row id -> uuid of the nodes that these allocations have, in one query."""
    ids = [item.node_id for item in found if item.node_id is not None]
    query = sa.select(_N.c.id, _N.c.uuid).where(_N.c.id.in_(ids))
    rows = database.read(lambda c: c.execute(query).all()) if ids else ()
    return {row[0]: row[1] for row in rows}


def insert(database: Database, values: Mapping[str, Any]) -> Allocation:
    """Insert an allocation; it is given a uuid when it has none.

    :param values: its columns; without a ``state`` it wants a node.
    :raises AllocationAlreadyExists, AllocationDuplicateName: it clashes.
    """
    row = {"state": ALLOCATING, **values, "uuid": unstored(values).uuid}
    with translating(row):
        database.write(
            lambda c: c.execute(sa.insert(Allocation).values(row)) and None,
            happened=lambda c: exists(c, Allocation, row["uuid"]),
        )
    return get(database, row["uuid"])


def unstored(values: Mapping[str, Any]) -> Allocation:
    """Return an allocation as :func:`insert` would store it, its ``uuid`` among it."""
    uuid = (values.get("uuid") or str(uuid4())).lower()
    return made(Allocation, **{"traits": [], "candidate_nodes": [], **values, "uuid": uuid})


def insert_given(connection: sa.Connection, values: Mapping[str, Any]) -> None:
    """Insert an allocation that has its node, in a write under that node's lock.

    :raises AllocationAlreadyExists, AllocationDuplicateName: it clashes.
    """
    with translating(values):
        connection.execute(sa.insert(Allocation).values(values))


def update(
    database: Database, uuid: str, values: Mapping[str, Any], before: Mapping[str, Any]
) -> Allocation:
    """Change what its user may change.

    :param before: what these columns have to hold still.
    :raises AllocationNotFound: there is none.
    :raises Conflict: the new name is taken, or ``before`` is not true any more.
    """
    row = {**values, "updated_at": types.utcnow()}

    def work(connection: sa.Connection) -> Allocation:
        query = rows_of(Allocation).where(_A.c.uuid == uuid).with_for_update()
        found = fetch(connection, Allocation, query)
        if not found:
            raise exceptions.AllocationNotFound(allocation=uuid)
        for name, value in before.items():
            if types.encode(getattr(found[0], name)) != types.encode(value):
                raise exceptions.Conflict(
                    f"{name} of allocation {uuid} was changed by another request meanwhile; "
                    "read it again and repeat the change"
                )
        connection.execute(sa.update(Allocation).where(_A.c.uuid == uuid).values(row))
        return _get(connection, uuid)

    with translating({**values, "uuid": uuid}):
        return database.write(work, happened=again)


class Candidate(NamedTuple):
    """A node that would do, as it was when it was looked for."""

    id: int
    uuid: str
    name: str | None
    generation: int
    instance_info: dict[str, Any]


def _free(allocation: Allocation) -> list[sa.ColumnElement[bool]]:
    """Return what a node has to be like to be taken."""
    wanted: list[sa.ColumnElement[bool]] = [
        _N.c.resource_class == allocation.resource_class,
        _N.c.provision_state == states.AVAILABLE,
        _N.c.instance_uuid.is_(None),
        _N.c.maintenance == sa.false(),
        _N.c.retired == sa.false(),
        _N.c.parent_node.is_(None),  # a part of a machine is none
    ]
    if allocation.candidate_nodes:
        wanted.append(_N.c.uuid.in_(allocation.candidate_nodes))
    if allocation.owner:
        wanted.append(sa.or_(_N.c.owner == allocation.owner, _N.c.lessee == allocation.owner))
    for trait in sorted(set(allocation.traits)):
        has_it = sa.select(sa.literal(1)).where(_T.c.node_id == _N.c.id, _T.c.trait == trait)
        wanted.append(has_it.exists())
    return wanted


def candidates(database: Database, allocation: Allocation) -> list[Candidate]:
    """Return the nodes that an allocation may have now, locked ones included; one query."""
    query = (
        sa.select(*(_N.c[name] for name in Candidate._fields))
        # What is known of its power says that the machine was reached at all.
        .where(_N.c.power_state.is_not(None), *_free(allocation))
        .order_by(_N.c.id)
    )
    return [Candidate(*row) for row in database.read(lambda c: list(c.execute(query).all()))]


def take(database: Database, allocation: Allocation, node: Candidate) -> bool:
    """Give a free node to an allocation that wants one; False if either is not so any more.

    :raises InstanceAssociated: the allocation's uuid is another node's instance.
    """
    now = types.utcnow()
    mine = (_A.c.id == allocation.id, _A.c.state == ALLOCATING)

    def work(connection: sa.Connection) -> bool:
        taken = connection.execute(
            sa.update(_N)
            .where(_N.c.id == node.id, _N.c.reservation.is_(None), *_free(allocation))
            .where(_N.c.generation == node.generation)
            .values(
                instance_uuid=allocation.uuid,
                instance_info={**node.instance_info, "traits": list(allocation.traits)},
                updated_at=now,
            )
        )
        if taken.rowcount != 1:
            return False
        given = sa.update(_A).where(*mine)
        done = connection.execute(
            given.values(node_id=node.id, state=ACTIVE, last_error=None, updated_at=now)
        )
        if done.rowcount != 1:
            raise _NotWanted  # the node's row is put back with it
        return True

    def happened(connection: sa.Connection) -> bool:
        query = sa.select(_A.c.node_id).where(_A.c.id == allocation.id)
        return connection.execute(query).scalar() == node.id

    try:
        with translating({"instance_uuid": allocation.uuid, "uuid": node.uuid}):
            return database.write(work, happened=happened)
    except _NotWanted:
        return False
    except exceptions.InstanceAssociated:
        wants = sa.select(sa.literal(1)).where(*mine)
        if database.read(lambda c: c.execute(wants).first()) is not None:
            raise
        return False  # another has just given it another node


class _NotWanted(Exception):
    """The allocation is gone, or has a node."""


def fail(database: Database, allocation_id: int, why: str) -> bool:
    """Say why an allocation that wants a node gets none; False if it does not want one."""
    query = (
        sa.update(_A)
        .where(_A.c.id == allocation_id, _A.c.state == ALLOCATING)
        .values(state=ERROR, last_error=why, updated_at=types.utcnow())
    )
    return database.write(lambda c: c.execute(query).rowcount, happened=again) == 1


def stuck(database: Database, before: datetime.datetime) -> list[Allocation]:
    """Return the allocations that have wanted a node since then or longer."""
    query = rows_of(Allocation).where(_A.c.state == ALLOCATING, _A.c.created_at <= before)
    return database.read(lambda c: fetch(c, Allocation, query.order_by(_A.c.id)))


def delete(database: Database, allocation_id: int) -> bool:
    """Remove an allocation that has no node; False if it has one, or is gone."""
    query = sa.delete(_A).where(_A.c.id == allocation_id, _A.c.node_id.is_(None))
    return database.write(lambda c: c.execute(query).rowcount, happened=again) == 1


# --- parts of writes under a node's lock -----------------------------------------------


def leaves(node_id: int) -> Also:
    """Remove the allocation of a node, if it has one."""
    return Also(sa.delete(_A).where(_A.c.node_id == node_id), {})


def missing_traits(database: Database, node_id: int, wanted: Sequence[str]) -> list[str]:
    """Return which of these traits a node does not have."""
    return sorted(set(wanted) - set(traits.of_node(database, node_id)))
