"""What inspections found: one inventory per node, the last one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from deploysteps import exceptions
from deploysteps.db import types
from deploysteps.db.engine import Database, again
from deploysteps.db.machine_models import NodeInventory
from deploysteps.db.models import Node, table

_N, _I = table(Node), table(NodeInventory)


def store(
    database: Database,
    node_id: int,
    inventory: Mapping[str, Any],
    plugin_data: Mapping[str, Any] | None = None,
) -> None:
    """Keep what an inspection found, in place of what the last one did.

    :param inventory: what the machine is made of, as its agent tells it.
    :param plugin_data: what else came with it.
    :raises NodeNotFound: the node is gone.
    """
    database.write(lambda c: keep(c, node_id, inventory, plugin_data), happened=again)


def keep(
    connection: sa.Connection,
    node_id: int,
    inventory: Mapping[str, Any],
    plugin_data: Mapping[str, Any] | None = None,
) -> None:
    """As :func:`store`, inside a transaction: ``then`` of a write under the node's lock."""
    values = {"inventory_data": dict(inventory), "plugin_data": dict(plugin_data or {})}
    # Two at once would each find no row and insert one.
    row = sa.select(_N.c.id).where(_N.c.id == node_id).with_for_update()
    if connection.execute(row).first() is None:
        raise exceptions.NodeNotFound(node=node_id)
    there = sa.select(sa.literal(1)).where(_I.c.node_id == node_id)
    now = types.utcnow()
    if connection.execute(there).first() is None:
        connection.execute(sa.insert(_I).values(node_id=node_id, created_at=now, **values))
    else:
        update = sa.update(_I).where(_I.c.node_id == node_id)
        connection.execute(update.values(updated_at=now, **values))


def get(database: Database, node_id: int) -> dict[str, Any] | None:
    """Return ``{'inventory': ..., 'plugin_data': ...}`` of a node; None when there is none."""
    query = sa.select(_I.c.inventory_data, _I.c.plugin_data).where(_I.c.node_id == node_id)
    found = database.read(lambda c: c.execute(query).first())
    return None if found is None else {"inventory": found[0], "plugin_data": found[1]}
