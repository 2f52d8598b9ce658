"""The lock-free writes of agents: their tokens and heartbeats.

Each is conditional on the node being unlocked, so that none can be lost to
what a lock's holder writes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa

from deploysteps import exceptions
from deploysteps.db import runs
from deploysteps.db.engine import Database, again
from deploysteps.db.locks import Also, columns_of, run_also
from deploysteps.db.models import Node, StepAttempt, table
from deploysteps.db.pages import is_uuid, of_row

_NODE, _ATTEMPT = table(Node), table(StepAttempt)


class Seen(NamedTuple):
    """What of a node a heartbeat is checked against, without its long columns."""

    id: int
    uuid: str
    reservation: str | None
    run_id: int | None
    agent_secret_token: str | None
    agent_url: str | None
    agent_verify_ca: str | None


_IDENT: Any = sa.bindparam("ident")
_SEEN = {
    name: sa.select(*(_NODE.c[field] for field in Seen._fields)).where(_NODE.c[name] == _IDENT)
    for name in ("uuid", "name")
}


def see(database: Database, ident: str) -> Seen:
    """Return what a heartbeat is checked against.

    :raises NodeNotFound: no node of this uuid or name.
    """
    by_uuid = is_uuid(ident)
    query, value = _SEEN["uuid" if by_uuid else "name"], ident.lower() if by_uuid else ident
    row = database.read(lambda c: c.execute(query, {"ident": value}).first())
    if row is None:
        raise exceptions.NodeNotFound(node=ident)
    return Seen(*row)


# One statement for both: a beat is the commonest request there is. Of a run's attempts at most
# one waits, the one that began last.
_WAITS = sa.and_(_ATTEMPT.c.run_id == _NODE.c.run_id, _ATTEMPT.c.state == runs.WAITING)
_SEEN_WAITING = {
    name: sa.select(*(_NODE.c[field] for field in Seen._fields), *_ATTEMPT.c)
    .select_from(_NODE.outerjoin(_ATTEMPT, _WAITS))
    .where(_NODE.c[name] == _IDENT)
    .order_by(_ATTEMPT.c.position.desc(), _ATTEMPT.c.attempt.desc())
    .limit(1)
    for name in ("uuid", "name")
}


def see_waiting(database: Database, ident: str) -> tuple[Seen, StepAttempt | None]:
    """Return what :func:`see` does, and the node's attempt that waits, if one does.

    :raises NodeNotFound: no node of this uuid or name.
    """
    by_uuid = is_uuid(ident)
    query = _SEEN_WAITING["uuid" if by_uuid else "name"]
    value = ident.lower() if by_uuid else ident
    row = database.read(lambda c: c.execute(query, {"ident": value}).first())
    if row is None:
        raise exceptions.NodeNotFound(node=ident)
    own = len(Seen._fields)
    attempt = row[own:]
    return Seen(*row[:own]), None if attempt[0] is None else of_row(StepAttempt, attempt)


def record(
    database: Database,
    node: Seen,
    values: Mapping[str, Any],
    also: Sequence[Also],
) -> None:
    """Write what a heartbeat says, if its token still is the node's.

    :raises NodeLocked: an operation holds the node, or the run has ended
        meanwhile; nothing was written.
    :raises Stale: a statement of ``also`` matched nothing; nothing was written.
    """
    columns = columns_of(values)
    given = {f"v_{name}": value for name, value in columns.items()}
    given["k_id"] = node.id
    if node.agent_secret_token is not None:
        given["k_token"] = node.agent_secret_token
    query = _recording(tuple(columns), "k_token" in given)
    _unlocked(database, node.id, node.uuid, query, given, also)


@functools.lru_cache(32)
def _recording(columns: tuple[str, ...], has_token: bool) -> sa.Update:
    held = _NODE.c.agent_secret_token
    same = held == sa.bindparam("k_token", type_=held.type) if has_token else held.is_(None)
    named = {name: sa.bindparam(f"v_{name}", type_=_NODE.c[name].type) for name in columns}
    where = (_NODE.c.id == sa.bindparam("k_id"), _NODE.c.reservation.is_(None), same)
    return sa.update(_NODE).where(*where).values(named)


def give_token(database: Database, node: Node, token: str) -> None:
    """Store the token of a new boot, unless another lookup was faster or the run ended.

    :raises NodeLocked: an operation holds the node, or it is not any more as
        it was read.
    """
    same = (
        _NODE.c.agent_secret_token.is_(None),
        _NODE.c.provision_state == node.provision_state,
        _NODE.c.run_id.is_(None) if node.run_id is None else _NODE.c.run_id == node.run_id,
    )
    # Looked up, not done again: a token that is not told is one that no agent has.
    mine = (
        sa.select(_NODE.c.id)
        .where(_NODE.c.id == node.id, _NODE.c.agent_secret_token == token)
        .with_for_update()
    )
    query = (
        sa.update(_NODE)
        .where(_NODE.c.id == node.id, _NODE.c.reservation.is_(None), *same)
        .values({"agent_secret_token": token})
    )
    _unlocked(
        database,
        node.id,
        node.uuid,
        query,
        {},
        (),
        happened=lambda c: c.execute(mine).first() is not None,
    )


def _unlocked(
    database: Database,
    node_id: int,
    node_uuid: str,
    query: sa.Update,
    given: Mapping[str, Any],
    also: Sequence[Also],
    *,
    happened: Callable[[sa.Connection], bool] = again,
) -> None:
    def work(connection: sa.Connection) -> None:
        if connection.execute(query, given).rowcount != 1:
            holder = connection.execute(
                sa.select(_NODE.c.reservation).where(_NODE.c.id == node_id)
            ).scalar()
            raise exceptions.NodeLocked(node=node_uuid, host=holder or "another request")
        for extra in also:
            run_also(connection, extra)

    database.write(work, happened=happened)
