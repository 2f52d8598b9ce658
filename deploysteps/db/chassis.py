"""Queries on chassis. Everything returned is detached."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from deploysteps import exceptions
from deploysteps.db.engine import Database, again
from deploysteps.db.group_models import Chassis
from deploysteps.db.models import Node
from deploysteps.db.saved import Saved

CHASSIS = Saved(Chassis, lambda ident: exceptions.ChassisNotFound(chassis=ident))

get = CHASSIS.get
listing = CHASSIS.listing
insert = CHASSIS.insert
update = CHASSIS.update


def delete(database: Database, ident: str) -> None:
    """Remove a chassis in which no node stands.

    :raises ChassisNotFound: there is none.
    :raises InvalidParameterValue: it has nodes.
    """
    found = get(database, ident)
    stands = sa.select(sa.literal(1)).where(Node.chassis_uuid == found.uuid)
    query = sa.delete(Chassis).where(Chassis.id == found.id, ~stands.exists())
    if not database.write(lambda c: c.execute(query).rowcount, happened=again):
        get(database, ident)
        raise exceptions.InvalidParameterValue(
            f"Cannot complete the requested action because chassis {found.uuid} contains nodes."
        )


def missing(database: Database, uuids: Sequence[str]) -> list[str]:
    """Return those of these uuids that no chassis has."""
    wanted = [uuid.lower() for uuid in uuids]
    query = sa.select(Chassis.uuid).where(Chassis.uuid.in_(wanted))
    known = set(database.read(lambda c: c.execute(query).scalars().all()))
    return [uuid for uuid in wanted if uuid not in known]
