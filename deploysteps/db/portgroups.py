"""Queries on portgroups. Everything returned is detached."""

from __future__ import annotations

import sqlalchemy as sa

from deploysteps import exceptions
from deploysteps.db.engine import Database, again
from deploysteps.db.group_models import Portgroup
from deploysteps.db.models import Node, Port
from deploysteps.db.saved import Saved

_NODES = sa.select(Node.id)

PORTGROUPS = Saved(
    Portgroup,
    lambda ident: exceptions.PortgroupNotFound(portgroup=ident),
    filters={
        "node_id": lambda v: Portgroup.node_id == v,
        "shard_in": lambda v: Portgroup.node_id.in_(_NODES.where(Node.shard.in_(v))),
        "address": lambda v: Portgroup.address == v.lower(),
        # What a project sees: those of nodes that it owns or has on loan.
        "visible_to": lambda v: Portgroup.node_id.in_(
            _NODES.where(sa.or_(Node.owner == v, Node.lessee == v))
        ),
    },
)

get = PORTGROUPS.get
listing = PORTGROUPS.listing
insert = PORTGROUPS.insert
update = PORTGROUPS.update


def delete(database: Database, ident: str) -> None:
    """Remove a portgroup that has no port.

    :raises PortgroupNotFound: there is none.
    :raises InvalidParameterValue: it has ports.
    """
    found = get(database, ident)
    has = sa.select(sa.literal(1)).where(Port.portgroup_uuid == found.uuid)
    query = sa.delete(Portgroup).where(Portgroup.id == found.id, ~has.exists())
    if not database.write(lambda c: c.execute(query).rowcount, happened=again):
        get(database, ident)
        raise exceptions.InvalidParameterValue(
            f"Cannot complete the requested action because portgroup {found.uuid} contains ports."
        )
