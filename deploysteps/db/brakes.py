"""How many nodes may be at something at once: counted where no two can count at a time."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from deploysteps.db.models import Node, SchemaRevision

# Any row that is there for ever: who holds it counts alone. SQLite has one writer anyway.
_ALONE = sa.select(SchemaRevision.revision).order_by(SchemaRevision.position).limit(1)


def count(connection: sa.Connection, states: Sequence[str]) -> int:
    """Return how many nodes are in these states, in the transaction that adds one.

    Others that count wait for its end, so that none of them sees less than
    there will be.
    """
    if connection.dialect.name != "sqlite":
        connection.execute(_ALONE.with_for_update())
    query = sa.select(sa.func.count()).where(Node.provision_state.in_(states))
    return int(connection.execute(query).scalar() or 0)
