"""Queries on ports. Everything returned is detached."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from uuid import uuid4

import sqlalchemy as sa

from deploysteps import exceptions
from deploysteps.db import nodes, types
from deploysteps.db.engine import Database, again
from deploysteps.db.models import Port
from deploysteps.db.pages import exists, fetch, is_uuid, page, rows_of, translating


def get(database: Database, ident: str) -> Port:
    """Return the port of this uuid or name.

    :raises PortNotFound: there is none.
    """
    by_uuid = is_uuid(ident)
    its = Port.uuid == ident.lower() if by_uuid else Port.name == ident
    found = database.read(lambda c: fetch(c, Port, rows_of(Port).where(its)))
    if not found:
        raise exceptions.PortNotFound(port=ident)
    return found[0]


def of_node(database: Database, node_id: int) -> list[Port]:
    """Return a node's ports, oldest first."""
    query = rows_of(Port).where(Port.node_id == node_id).order_by(Port.id)
    return database.read(lambda c: fetch(c, Port, query))


def listing(
    database: Database,
    *,
    node_id: int | None = None,
    address: str | None = None,
    portgroup: str | None = None,
    shards: Sequence[str] | None = None,
    visible_to: str | None = None,
    limit: int | None = None,
    marker: str | None = None,
    sort_key: str = "id",
    sort_dir: str = "asc",
) -> list[Port]:
    """Return a page of ports.

    :param shards: only ports of nodes in one of these.
    :param visible_to: a project: only ports of nodes that it owns or leases.
    """
    query = rows_of(Port)
    if node_id is not None:
        query = query.where(Port.node_id == node_id)
    if address is not None:
        query = query.where(Port.address == address.lower())
    if portgroup is not None:
        query = query.where(Port.portgroup_uuid == portgroup)
    if shards is not None:
        query = query.where(nodes.whose(Port.node_id, "shard_in", shards))
    if visible_to is not None:
        query = query.where(nodes.whose(Port.node_id, "visible_to", visible_to))
    return database.read(
        lambda c: page(
            query, Port, c, limit=limit, marker=marker, sort_key=sort_key, sort_dir=sort_dir
        )
    )


def insert(database: Database, values: Mapping[str, Any]) -> Port:
    """Insert a port and return it; it is given a uuid when it has none.

    :raises MACAlreadyExists, PortAlreadyExists: it clashes.
    """
    row = {**values, "uuid": (values.get("uuid") or str(uuid4())).lower()}
    row["address"] = row["address"].lower()
    with translating(row):
        database.write(
            lambda c: c.execute(sa.insert(Port).values(row)) and None,
            happened=lambda c: exists(c, Port, row["uuid"]),
        )
    return get(database, row["uuid"])


def update(database: Database, uuid: str, values: Mapping[str, Any]) -> Port:
    """Change a port and return it.

    :raises MACAlreadyExists, PortAlreadyExists: it clashes.
    """
    row = {**values, "updated_at": types.utcnow()}
    with translating({**values, "uuid": uuid}):
        database.write(
            lambda c: c.execute(sa.update(Port).where(Port.uuid == uuid).values(row)) and None,
            happened=again,
        )
    return get(database, uuid)


def delete(database: Database, uuid: str) -> None:
    """Remove a port.

    :raises PortNotFound: there is none.
    """
    gone = database.write(
        lambda c: c.execute(sa.delete(Port).where(Port.uuid == uuid)).rowcount,
        happened=lambda c: not exists(c, Port, uuid),
    )
    if not gone:
        raise exceptions.PortNotFound(port=uuid)


def uuids_of(database: Database, node_ids: Sequence[int]) -> dict[int, list[str]]:
    """Return node id -> uuids of its ports, in one query."""
    query = sa.select(Port.node_id, Port.uuid).where(Port.node_id.in_(node_ids)).order_by(Port.id)
    found: dict[int, list[str]] = {node_id: [] for node_id in node_ids}
    for node_id, uuid in database.read(lambda c: c.execute(query).all()):
        found[node_id].append(uuid)
    return found
