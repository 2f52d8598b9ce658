"""What the loops look for: due waits, orphaned locks, gaps. Rows are copied out."""

from __future__ import annotations

import datetime
from collections.abc import Collection, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa

from deploysteps import exceptions, states
from deploysteps.db import nodes
from deploysteps.db.engine import Database, again
from deploysteps.db.models import INTERFACE_COLUMNS, Node, NodeHistory, StepAttempt, StepRun, table
from deploysteps.db.node import COLUMN_KEYS
from deploysteps.db.pages import has, made
from deploysteps.db.runs import WAITING
from deploysteps.db.transitions import Key
from deploysteps.steps import OWNERS

_A, _N, _R, _H = table(StepAttempt), table(Node), table(StepRun), table(NodeHistory)


class Due(NamedTuple):
    """A waiting attempt that wants to be looked at."""

    node_id: int
    key: Key
    due_at: datetime.datetime


def due(database: Database, conductor: str, until: datetime.datetime, limit: int) -> list[Due]:
    """Return the waiting attempts of a conductor that are due, the earliest first."""
    query = (
        sa.select(_A.c.node_id, _A.c.run_id, _A.c.position, _A.c.attempt, _A.c.due_at)
        .where(_A.c.owner.in_(OWNERS), _A.c.due_at <= until)
        .where(_A.c.conductor == conductor, _A.c.state == WAITING)
        .order_by(_A.c.due_at)
        .limit(limit)
    )
    rows = database.read(lambda c: list(c.execute(query).all()))
    return [Due(row[0], Key(*row[1:4]), row[4]) for row in rows]


class Orphan(NamedTuple):
    """A node whose lock, or whose state, nobody looks after."""

    node_id: int
    uuid: str
    state: str
    holder: str | None
    token: str | None
    since: datetime.datetime | None
    purpose: str | None = None
    why: str | None = None
    """What happened, where it is not that its conductor was lost."""
    told: bool = False
    """Whether the node's history has it already."""

    @classmethod
    def of(cls, node: Node, why: str) -> Orphan:
        """Make one of a node whose lock is taken away on purpose, of which its history tells."""
        return cls(
            node.id,
            node.uuid,
            node.provision_state,
            node.reservation,
            node.lock_token,
            node.locked_at,
            node.lock_purpose,
            why,
            told=True,
        )


_ORPHAN = (
    _N.c.id,
    _N.c.uuid,
    _N.c.provision_state,
    _N.c.reservation,
    _N.c.lock_token,
    _N.c.locked_at,
    _N.c.lock_purpose,
)


def locked_nodes(database: Database) -> list[Orphan]:
    """Return every locked node with its holder."""
    query = sa.select(*_ORPHAN).where(has(_N.c.reservation))
    return [Orphan(*row) for row in database.read(lambda c: list(c.execute(query).all()))]


def gaps(database: Database, quiet_since: datetime.datetime) -> list[Orphan]:
    """Return unlocked nodes in states that somebody ought to be at work in.

    :param quiet_since: only what was not touched since then, so that a node
        between two operations is left alone.
    """
    transient = sa.and_(
        _N.c.provision_state.in_(sorted(states.TRANSIENT_STATES)), _N.c.reservation.is_(None)
    )
    waits = sa.select(sa.literal(1)).where(_A.c.run_id == _N.c.run_id, _A.c.state == WAITING)
    lost_wait = sa.and_(
        _N.c.provision_state.in_(sorted(states.WAIT_STATES | states.HOLD_STATES)),
        _N.c.reservation.is_(None),
        ~waits.exists(),
    )
    touched = sa.func.coalesce(_N.c.updated_at, _N.c.created_at)
    query = sa.select(*_ORPHAN).where(sa.or_(transient, lost_wait), touched <= quiet_since)
    return [Orphan(*row) for row in database.read(lambda c: list(c.execute(query).all()))]


def foreign_waits(database: Database, conductor: str, alive: Collection[str]) -> list[Due]:
    """Return the waiting attempts of conductors that are gone."""
    return _waits(database, _A.c.conductor.not_in([*alive, conductor]))


def own_waits(database: Database, conductor: str) -> list[Due]:
    """Return the waiting attempts that a conductor looks after, due or not."""
    return _waits(database, _A.c.conductor == conductor)


def _waits(database: Database, whose: sa.ColumnElement[bool]) -> list[Due]:
    query = (
        sa.select(_A.c.node_id, _A.c.run_id, _A.c.position, _A.c.attempt, _A.c.due_at)
        .where(_A.c.owner.in_(OWNERS), _A.c.state == WAITING)
        .where(whose)
    )
    rows = database.read(lambda c: list(c.execute(query).all()))
    return [Due(row[0], Key(*row[1:4]), row[4]) for row in rows]


def take_wait(database: Database, key: Key, conductor: str) -> None:
    """Make a conductor the one that looks after a waiting attempt."""
    query = (
        sa.update(_A)
        .where(_A.c.run_id == key.run_id, _A.c.position == key.position)
        .where(_A.c.attempt == key.attempt, _A.c.state == WAITING)
        .values(conductor=conductor)
    )
    database.write(lambda c: c.execute(query) and None, happened=again)


class User(NamedTuple):
    """A node that uses an interface, as far as a driver's predicate may look at it."""

    node: Node
    """Of it only what names it, and what tells whose it is: its driver, interfaces and group."""
    fields: dict[str, Any]


_WHOSE = ("id", "uuid", "driver", "conductor_group", *INTERFACE_COLUMNS.values())


def check_fields(fields: Collection[str]) -> None:
    """Refuse what is no field of a node.

    :raises InvalidParameterValue: naming it.
    """
    for name in fields:
        if name != _INTERNAL and name not in _N.c:
            raise exceptions.InvalidParameterValue(f"a node has no field {name!r}")


_INTERNAL = "driver_internal_info"
"""Shown to drivers with the columns that are keys of it."""


def users(
    database: Database,
    kind: str,
    names: Mapping[str, Collection[str | None]],
    filters: Mapping[str, Any],
    fields: Collection[str] = (),
) -> list[User]:
    """Return the nodes that use an interface and pass the filters; one query.

    :param kind: the interface's type.
    :param names: hardware type -> the interface's names there; None stands for
        nodes that name none.
    :param filters: see :func:`deploysteps.db.nodes.condition`.
    :param fields: what else of a node is told.
    """
    check_fields(fields)
    own = _N.c[f"{kind}_interface"]
    used = [
        sa.and_(_N.c.driver == driver, own.is_(None) if name is None else own == name)
        for driver, known in names.items()
        for name in known
    ]
    told = [
        name
        for field in fields
        for name in ((_INTERNAL, *COLUMN_KEYS) if field == _INTERNAL else (field,))
    ]
    query = (
        sa.select(*(_N.c[name] for name in dict.fromkeys((*_WHOSE, *told))))
        .where(sa.or_(sa.false(), *used))
        .where(*(nodes.condition(name, value) for name, value in filters.items()))
        .order_by(_N.c.id)
    )
    rows = database.read(lambda c: list(c.execute(query).mappings()))
    return [
        User(
            made(Node, **{name: row[name] for name in _WHOSE}),
            {field: _told(dict(row), field) for field in fields},
        )
        for row in rows
    ]


def _told(row: Mapping[str, Any], field: str) -> Any:
    if field != _INTERNAL:
        return row[field]
    keys = {attribute: row[key] for key, attribute in COLUMN_KEYS.items()}
    return made(Node, driver_internal_column=row[_INTERNAL], **keys).driver_internal_info


def prune_runs(database: Database, keep: int) -> int:
    """Remove the oldest ended runs of nodes that have more than ``keep``."""
    return _prune(database, _R, keep, _R.c.finished_at.is_not(None))


def prune_history(database: Database, keep: int) -> int:
    """Remove the oldest history entries of nodes that have more than ``keep``."""
    return _prune(database, _H, keep, sa.true())


def _prune(database: Database, rows: sa.Table, keep: int, old: Any) -> int:
    if not keep:
        return 0
    crowded = sa.select(rows.c.node_id).group_by(rows.c.node_id).having(sa.func.count() > keep)
    node_ids = database.read(lambda c: list(c.execute(crowded).scalars()))
    return sum(_prune_one(database, rows, node_id, keep, old) for node_id in node_ids)


def _prune_one(database: Database, rows: sa.Table, node_id: int, keep: int, old: Any) -> int:
    newest = sa.select(rows.c.id).where(rows.c.node_id == node_id).order_by(rows.c.id.desc())
    last = database.read(lambda c: c.execute(newest.offset(keep - 1).limit(1)).scalar())
    gone = sa.delete(rows).where(rows.c.node_id == node_id, rows.c.id < last, old)
    return int(database.write(lambda c: c.execute(gone).rowcount, happened=again))
