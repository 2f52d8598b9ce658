"""Queries on portgroups. Everything returned is detached."""

from __future__ import annotations

import sqlalchemy as sa

from deploysteps import exceptions
from deploysteps.db import nodes
from deploysteps.db.engine import Database, again
from deploysteps.db.group_models import Portgroup
from deploysteps.db.models import Port
from deploysteps.db.saved import Saved

PORTGROUPS = Saved(
    Portgroup,
    lambda ident: exceptions.PortgroupNotFound(portgroup=ident),
    filters={
        "node_id": lambda v: Portgroup.node_id == v,
        "shard_in": lambda v: nodes.whose(Portgroup.node_id, "shard_in", v),
        "address": lambda v: Portgroup.address == v.lower(),
        # What a project sees: those of nodes that it owns or has on loan.
        "visible_to": lambda v: nodes.whose(Portgroup.node_id, "visible_to", v),
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
