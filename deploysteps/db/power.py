"""Which nodes a conductor compares with their machines' power."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any

import sqlalchemy as sa

from deploysteps import states
from deploysteps.db.engine import Database
from deploysteps.db.locks import Also
from deploysteps.db.models import Node, table
from deploysteps.db.pages import fetch, rows_of
from deploysteps.steps import FLOWS

_N = table(Node)

FAULT = "power failure"
"""``fault`` of a node whose machine does not tell its power, or does not keep it."""
_OF_STEPS = tuple(flow.fault for flow in FLOWS.values() if flow.fault)
FAULTS = (FAULT, *_OF_STEPS, "rescue abort failure")
"""Every ``fault`` that the field knows."""

WELL: Mapping[str, Any] = {"maintenance": False, "maintenance_reason": None, "fault": None}
"""What of a node says that nothing was found wrong with its machine."""

UNTOLD = frozenset({states.ENROLL, states.ADOPTFAIL})
"""States at rest in which nothing is known of a machine that could be kept true."""
SYNCED = states.STABLE_STATES - UNTOLD

_IDLE = (
    _N.c.reservation.is_(None),
    _N.c.target_power_state.is_(None),
)


def to_sync(database: Database, drivers: Collection[str], after: int, limit: int) -> list[Node]:
    """Return nodes at rest, neither locked nor in maintenance, by their row ids; one query.

    :param drivers: hardware types that matter.
    :param after: the row id of the last one that was returned before.
    """
    return _page(
        database,
        drivers,
        after,
        limit,
        _N.c.provision_state.in_(sorted(SYNCED)),
        _N.c.maintenance == sa.false(),
    )


def to_recover(database: Database, drivers: Collection[str], after: int, limit: int) -> list[Node]:
    """Return nodes in maintenance because of their power, as :func:`to_sync`."""
    return _page(
        database,
        drivers,
        after,
        limit,
        _N.c.fault == FAULT,
        _N.c.provision_state.in_(sorted(states.STABLE_STATES - {states.ENROLL})),
        _N.c.maintenance == sa.true(),
    )


def _page(
    database: Database,
    drivers: Collection[str],
    after: int,
    limit: int,
    *which: sa.ColumnElement[bool],
) -> list[Node]:
    query = (
        rows_of(Node)
        .where(_N.c.id > after, _N.c.driver.in_(sorted(drivers)), *_IDLE, *which)
        .order_by(_N.c.id)
        .limit(limit)
    )
    return database.read(lambda c: fetch(c, Node, query))


def may_be_synced(node: Node) -> bool:
    """Tell of a node that was locked just now whether it may still be kept true."""
    return (
        node.provision_state in SYNCED and not node.maintenance and node.target_power_state is None
    )


def may_recover(node: Node) -> bool:
    """Tell of a node that was locked just now whether its fault is still its power."""
    return bool(node.maintenance) and node.fault == FAULT and node.target_power_state is None


def found_faulty(node_id: int, reason: str, fault: str = FAULT, *, must: bool = True) -> Also:
    """Set a node to maintenance, unless somebody has meanwhile: that needs no lock.

    :param must: whether nothing else is written then, either.
    """
    statement = (
        sa.update(_N)
        .where(_N.c.id == node_id, _N.c.maintenance == sa.false())
        .values(maintenance=True, maintenance_reason=reason, fault=fault)
    )
    return Also(statement, {}, must=must)


def found_well(node_id: int, fault: str | None = FAULT) -> Also:
    """Take a node out of maintenance, unless it is in it for another reason meanwhile."""
    statement = (
        sa.update(_N)
        .where(_N.c.id == node_id, _N.c.maintenance == sa.true(), _N.c.fault == fault)
        .values(WELL)
    )
    return Also(statement, {}, must=True)
