"""Events: what is told of each transition, in the transaction that makes it.

Ids grow in the order in which rows are inserted, and transactions commit in
another order on a server: an event with a lower id may come later. Readers
that remember an id use :func:`settled`, which waits for such a gap.
"""

from __future__ import annotations

import datetime
import functools
import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

import sqlalchemy as sa

from deploysteps.db import nodes, types
from deploysteps.db.engine import Database, again
from deploysteps.db.event_models import Event
from deploysteps.db.models import Node, table
from deploysteps.db.pages import fetch, rows_of

_EVENT = table(Event)

RUN_STARTED, RUN_FINISHED = "run.started", "run.finished"
STEP_STARTED, STEP_RETRIED = "step.started", "step.retried"
STEP_WAITING, STEP_RESUMED = "step.waiting", "step.resumed"
STEP_FINISHED, STEP_FAILED = "step.finished", "step.failed"
NODE_STATE = "node.state"
_LONGEST_ERROR = 4096
"""Characters; the attempt and the run keep the whole text."""
_MARGIN = 5.0
"""Seconds beyond those after which a server ends a transaction that says nothing."""


class New(NamedTuple):
    """An event that is to be written. Texts in it are masked already."""

    type: str
    run_id: int | None
    data: Mapping[str, Any]


def shortened(error: str | None) -> str | None:
    """Return an error's text as events have it."""
    if error is None or len(error) <= _LONGEST_ERROR:
        return error
    return f"{error[:_LONGEST_ERROR]}..."


@functools.cache
def _insert(count: int) -> sa.TextClause:
    """Return the INSERT of some rows, made once each.

    As text: SQLAlchemy compiles an INSERT of several rows anew each time.
    """
    run = "SELECT {} FROM step_runs WHERE id = :run{}"
    rows = ", ".join(
        f"(:at, :type{n}, :node, ({run.format('uuid', n)}), ({run.format('flow', n)}), :data{n})"
        for n in range(count)
    )
    text = f"INSERT INTO events (at, type, node_uuid, run_uuid, flow, data) VALUES {rows}"  # noqa: S608
    bound: list[sa.BindParameter[Any]] = [sa.bindparam("at", type_=types.Utc())]
    for n in range(count):
        bound.append(sa.bindparam(f"data{n}", type_=types.Json()))
        bound.append(sa.bindparam(f"run{n}", type_=sa.BigInteger()))
    return sa.text(text).bindparams(*bound)


def write(connection: sa.Connection, node_uuid: str, told: Sequence[New]) -> None:
    """Write what a transaction has to tell of a node; its last statement."""
    values: dict[str, Any] = {"at": types.utcnow(), "node": node_uuid}
    for n, one in enumerate(told):
        values[f"type{n}"], values[f"run{n}"] = one.type, one.run_id
        values[f"data{n}"] = {key: value for key, value in one.data.items() if value is not None}
    connection.execute(_insert(len(told)), values)


def document(event: Event) -> dict[str, Any]:
    """Return an event as watchers and receivers of webhooks get it."""
    return {
        "id": event.id,
        "type": event.type,
        "at": types.timestamp(event.at),
        "node": event.node_uuid,
        "run": event.run_uuid,
        "flow": event.flow,
        **event.data,
    }


# --- reading ------------------------------------------------------------------------


class Edges(NamedTuple):
    """The ids of the oldest and the newest event that are kept; 0 where there is none."""

    oldest: int
    newest: int


_EDGES = sa.select(sa.func.min(_EVENT.c.id), sa.func.max(_EVENT.c.id))
_AFTER = rows_of(Event).where(_EVENT.c.id > sa.bindparam("cursor")).order_by(_EVENT.c.id)


def edges(database: Database) -> Edges:
    """Return what is kept."""
    row: Any = database.read(lambda c: c.execute(_EDGES).one())
    return Edges(row[0] or 0, row[1] or 0)


def after(
    database: Database,
    cursor: int,
    limit: int,
    *,
    until: int | None = None,
    node: str | None = None,
    flow: str | None = None,
    project: str | None = None,
) -> list[Event]:
    """Return the events after an id, the oldest first, whether or not some may come late.

    :param until: the last id that is wanted.
    :param project: only of nodes that it owns or has on loan.
    """
    query = _AFTER.limit(limit)
    if until is not None:
        query = query.where(_EVENT.c.id <= until)
    if node is not None:
        query = query.where(_EVENT.c.node_uuid == node)
    if flow is not None:
        query = query.where(_EVENT.c.flow == flow)
    if project is not None:
        its = sa.select(Node.uuid).where(nodes.FILTERS["visible_to"](project))
        query = query.where(_EVENT.c.node_uuid.in_(its))
    return database.read(lambda c: fetch(c, Event, query, {"cursor": cursor}))


def settled(database: Database, cursor: int, limit: int) -> list[Event]:
    """Return the events after an id, up to where one may still be committed late.

    Only the commit follows the INSERT of events, and a server ends a
    transaction that says nothing: what is missing after that time was rolled
    back, and is not waited for. The time is that of whoever wrote what follows
    the gap, or has passed here, by a clock that nobody sets, since it was seen.
    """
    found = after(database, cursor, limit)
    if database.dialect == "sqlite":  # one writer at a time: there are no gaps
        return found
    step = _step(database) if database.dialect == "mysql" else 1
    wait = database.idle_transaction_timeout + _MARGIN
    old = types.utcnow() - datetime.timedelta(seconds=wait)
    last = cursor
    for place, event in enumerate(found):
        # Whatever has a lower id began before this one was written.
        is_gap = event.id > last + step and event.at > old
        if is_gap and not _is_over(database, last, wait):
            return found[:place]
        last = event.id
    return found


_gaps: WeakKeyDictionary[Database, dict[int, float]] = WeakKeyDictionary()
"""Of each database: the id before a gap -> when the gap was seen first."""
_MOST_GAPS = 1000


def _is_over(database: Database, before: int, wait: float) -> bool:
    """Tell whether a gap was seen so long ago that nothing comes into it any more."""
    now, gaps = time.monotonic(), _gaps.setdefault(database, {})
    seen = gaps.setdefault(before, now)
    if len(gaps) > _MOST_GAPS:
        gaps.pop(min(gaps), None)
    return now - seen > wait


_LOOKED_BACK = 10_000


def settled_newest(database: Database, since: int | None = None) -> int:
    """Return the newest event before which none is missing that may come late.

    :param since: one of which this is known; fewer are looked at then.
    """
    oldest, newest = edges(database)
    if database.dialect == "sqlite" or not newest:
        return newest
    cursor = max(newest - _LOOKED_BACK, oldest - 1, since or 0)
    while found := settled(database, cursor, 1000):
        cursor = found[-1].id
    return cursor


_steps: dict[int, int] = {}


def _step(database: Database) -> int:
    """Return what MariaDB adds from one id to the next: more than 1 in a Galera cluster."""
    if id(database) not in _steps:
        query = sa.text("SELECT @@auto_increment_increment")
        _steps[id(database)] = int(database.read(lambda c: c.scalar(query)) or 1)
    return _steps[id(database)]


# --- pruning ------------------------------------------------------------------------


def prune(
    database: Database, *, hours: float, rows: int, batch: int = 1000, most: int = 100_000
) -> int:
    """Remove events that are too old or too many, some in a transaction; the newest stays.

    :param hours: how long they are kept; 0: without limit.
    :param rows: how many are kept; 0: without limit.
    :param most: how many one call removes.
    """
    gone = 0
    while gone < most:
        oldest, newest = edges(database)
        last = min(oldest + batch, newest) - 1
        if rows and oldest <= newest - rows:
            last = min(last, newest - rows)
        elif hours:
            last = _last_before(database, hours, last)
        else:
            break
        if last < oldest or not oldest:
            break
        gone += _remove(database, last)
    return gone


def _remove(database: Database, last: int) -> int:
    query = sa.delete(_EVENT).where(_EVENT.c.id <= last)
    return int(database.write(lambda c: c.execute(query).rowcount, happened=again))


def _last_before(database: Database, hours: float, until: int) -> int:
    """Return the newest of the oldest events that is too old, 0 if none is."""
    old = types.utcnow() - datetime.timedelta(hours=hours)
    first = sa.select(sa.func.min(_EVENT.c.id)).where(_EVENT.c.id <= until, _EVENT.c.at >= old)

    def work(connection: sa.Connection) -> int:
        young = connection.scalar(first)
        return until if young is None else int(young) - 1

    return database.read(work)
