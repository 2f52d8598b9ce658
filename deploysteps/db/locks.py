"""A node's lock, and the fence that every write under it passes.

A grant is one conditional UPDATE with a token that is new each time. Each
transaction under the lock begins with an UPDATE of the node's row that names
the token; when it matches no row the lock was taken away, and everything is
rolled back. ``generation`` grows with each such UPDATE, so that a COMMIT
whose outcome is unknown can be looked up.
"""

from __future__ import annotations

import dataclasses
import functools
import secrets as random_source
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa

from deploysteps import exceptions
from deploysteps.db import events, types
from deploysteps.db.engine import Database, Patience
from deploysteps.db.models import Node, StepRun, table
from deploysteps.db.pages import fetch, rows_of, translating

T = TypeVar("T")
_NODE = table(Node)
_RUN = table(StepRun)

_BY_ID = rows_of(Node).where(_NODE.c.id == sa.bindparam("f_id"))
_STATE = sa.select(_NODE.c.lock_token, _NODE.c.generation).where(_NODE.c.id == sa.bindparam("f_id"))

FREE: dict[str, Any] = {
    "reservation": None,
    "lock_token": None,
    "lock_purpose": None,
    "locked_at": None,
}


@dataclasses.dataclass(slots=True)
class Lock:
    """A granted lock. ``token`` is None once it was given back."""

    node_id: int
    node_uuid: str
    token: str | None
    generation: int


@dataclasses.dataclass(frozen=True, slots=True)
class Also:
    """A further statement of a fenced transaction.

    ``must`` says that it has to match a row; else all is rolled back and
    :class:`Stale` raised.
    """

    statement: Any
    values: Any
    must: bool = False
    tells: events.New | None = None
    """What watchers are told of it."""


class Stale(Exception):
    """What the write was about is no longer so; nothing was written."""


class AbortAsked(Exception):
    """Someone asked for the run to end; nothing was written."""


def _bound(columns: tuple[str, ...]) -> dict[str, Any]:
    return {name: sa.bindparam(f"v_{name}", type_=_NODE.c[name].type) for name in columns}


# What a row must be like for its lock to be granted: nobody's, taken from
# who holds it by this token, or held without one, as other programs may do.
_FREE_ROW = _NODE.c.reservation.is_(None)
_HELD_ROW = _NODE.c.lock_token == sa.bindparam("f_token")
_NO_TOKEN_ROW = sa.and_(_NODE.c.reservation.is_not(None), _NODE.c.lock_token.is_(None))


@functools.cache
def _grant(
    columns: tuple[str, ...], take_over: bool, by_token: bool, same: tuple[str, ...]
) -> sa.Update:
    """Return the granting UPDATE for a set of columns, made once each."""
    taken = _HELD_ROW if by_token else _NO_TOKEN_ROW
    asked = (_NODE.c[n] == sa.bindparam(f"k_{n}", type_=_NODE.c[n].type) for n in same)
    statement = sa.update(_NODE).where(_NODE.c.id == sa.bindparam("f_id"), *asked)
    return statement.where(taken if take_over else _FREE_ROW).values(_bound(columns))


@functools.cache
def _fence(columns: tuple[str, ...], unless_abort: bool) -> sa.Update:
    """Return the fencing UPDATE for a set of columns, made once each."""
    statement = (
        sa.update(_NODE)
        .where(_NODE.c.id == sa.bindparam("f_id"), _NODE.c.lock_token == sa.bindparam("f_token"))
        .values(_bound(columns))
    )
    if unless_abort:
        asked = sa.select(sa.literal(1)).where(
            _RUN.c.id == sa.bindparam("f_run"), _RUN.c.abort_requested_at.is_not(None)
        )
        statement = statement.where(~asked.exists())
    return statement


def columns_of(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return column name -> value for mapped attribute -> value."""
    attributes = _attribute_columns()
    return {attributes.get(name, name): value for name, value in values.items()}


@functools.cache
def _attribute_columns() -> dict[str, str]:
    mapper: Any = sa.inspect(Node)
    return {attr.key: attr.columns[0].name for attr in mapper.column_attrs}


def new_token() -> str:
    """Return a token that was never used."""
    return random_source.token_hex(16)


def grant_values(host: str, token: str, purpose: str) -> dict[str, Any]:
    """Return the columns of a granted lock."""
    return {
        "reservation": host,
        "lock_token": token,
        "lock_purpose": purpose[:255],
        "locked_at": types.utcnow(),
    }


def grant(
    database: Database,
    node_id: int,
    host: str,
    purpose: str,
    *,
    values: Mapping[str, Any] | None = None,
    same: Mapping[str, Any] | None = None,
    also: Sequence[Also] = (),
    held: str | None = None,
    active: set[str] | None = None,
) -> tuple[Lock, Node]:
    """Take a node's lock, in one UPDATE, and read the node.

    :param values: further columns that the same UPDATE writes.
    :param same: columns as they were read; the lock is not granted when one is another by now.
    :param also: statements of the same transaction.
    :param held: take the lock away from who holds it by this token (recovery
        of a dead conductor's locks); loses when another did it first. Empty:
        it is held without a token.
    :param active: is given the token before the lock is taken, so that the
        process never sees a lock of its own that it does not know.
    :raises NodeLocked: naming the holder, or somebody has changed what had to be the same;
        nothing was written.
    :raises Stale: a statement of ``also`` that must match did not.
    """
    token, kept = new_token(), columns_of(same or {})
    row = {**grant_values(host, token, purpose), **columns_of(values or {})}
    query = _grant(tuple(row), held is not None, bool(held), tuple(kept))
    params = {f"v_{name}": value for name, value in row.items()}
    params.update({f"k_{name}": value for name, value in kept.items()}, f_id=node_id)
    if held:
        params["f_token"] = held

    def work(connection: sa.Connection) -> Node:
        taken = connection.execute(query, params).rowcount == 1
        node = fetch(connection, Node, _BY_ID, {"f_id": node_id})
        if not node:
            raise exceptions.NodeNotFound(node=node_id)
        if not taken:
            raise exceptions.NodeLocked(
                node=node[0].uuid, host=node[0].reservation or "another conductor"
            )
        for extra in also:
            run_also(connection, extra)
        return node[0]

    def happened(connection: sa.Connection) -> bool:
        return _settled(connection, node_id)[0] == token

    if active is not None:
        active.add(token)
    try:
        node = database.write(work, happened=happened)
    except BaseException:
        if active is not None:
            active.discard(token)
        raise
    return Lock(node.id, node.uuid, token, node.generation), node


def _state(connection: sa.Connection, node_id: int) -> tuple[str | None, int]:
    row = connection.execute(_STATE, {"f_id": node_id}).first()
    return (row[0], row[1]) if row else (None, -1)


def _settled(connection: sa.Connection, node_id: int) -> tuple[str | None, int]:
    """As :func:`_state`, after a transaction that is still at its COMMIT.

    A server may commit a moment after the connection broke; locking the row
    waits for it, so that what is read is how it ended.
    """
    row = connection.execute(_STATE.with_for_update(), {"f_id": node_id}).first()
    return (row[0], row[1]) if row else (None, -1)


def run_also(connection: sa.Connection, extra: Also) -> None:
    """Run a statement of a transaction.

    :raises Stale: it had to match a row and did not.
    """
    result = connection.execute(extra.statement, extra.values)
    if extra.must and result.rowcount != 1:
        raise Stale


def write(
    database: Database,
    lock: Lock,
    values: Mapping[str, Any],
    also: Sequence[Also] = (),
    *,
    unlock: bool = False,
    unless_abort_of: int | None = None,
    then: Callable[[sa.Connection], T] | None = None,
    tells: Callable[[T | None], Sequence[events.New]] | None = None,
    patience: Patience | None = None,
) -> T | None:
    """Write under a lock: the fence, then the other statements, one commit.

    :param values: mapped attribute -> value of the node.
    :param unlock: give the lock back in the same write.
    :param unless_abort_of: row id of a run; when its abort was asked for,
        nothing is written.
    :param then: runs after them in the transaction; its result is returned.
    :param tells: is given that result, and returns what watchers are told;
        written last, so that only the commit can fail after it.
    :param patience: see :meth:`Database.write`.
    :raises LockLost: the lock was taken away; nothing was written.
    :raises AbortAsked, Stale: see there; nothing was written.
    """
    held = lock.token  # read once: another thread may give the lock back meanwhile
    if held is None:
        raise exceptions.LockLost(node=lock.node_uuid)
    row = columns_of(values)
    row["generation"] = generation = lock.generation + 1
    row["updated_at"] = types.utcnow()
    if unlock:
        row.update(FREE)
    statement = _fence(tuple(row), unless_abort_of is not None)
    params = {f"v_{name}": value for name, value in row.items()}
    params["f_id"], params["f_token"] = lock.node_id, held
    if unless_abort_of is not None:
        params["f_run"] = unless_abort_of

    def work(connection: sa.Connection) -> T | None:
        if connection.execute(statement, params).rowcount != 1:
            if _state(connection, lock.node_id)[0] == held:
                raise AbortAsked
            raise exceptions.LockLost(node=lock.node_uuid)
        for extra in also:
            run_also(connection, extra)
        result = then(connection) if then is not None else None
        told = tells(result) if tells is not None else ()
        if told:
            events.write(connection, lock.node_uuid, told)
        return result

    def happened(connection: sa.Connection) -> bool:
        token, stored = _settled(connection, lock.node_id)
        if stored >= generation and (unlock or token == held):
            return True
        if token == held:
            return False
        raise exceptions.LockLost(node=lock.node_uuid)

    with translating({"uuid": lock.node_uuid, **values}):
        result = database.write(work, happened=happened, patience=patience)
    lock.generation = generation
    if unlock:
        lock.token = None
    return result


def release(database: Database, lock: Lock) -> bool:
    """Give a lock back; False when it was lost before."""
    if lock.token is None:
        return False
    try:
        write(database, lock, {}, unlock=True)
    except exceptions.LockLost:
        lock.token = None
        return False
    return True


def delete_node(database: Database, lock: Lock) -> None:
    """Remove the node's row and all that hangs on it, under its lock.

    :raises LockLost: the lock was taken away; nothing was removed.
    """

    def work(connection: sa.Connection) -> None:
        query = sa.delete(_NODE).where(_NODE.c.id == lock.node_id, _NODE.c.lock_token == lock.token)
        if connection.execute(query).rowcount != 1:
            raise exceptions.LockLost(node=lock.node_uuid)

    database.write(work, happened=lambda c: _settled(c, lock.node_id)[1] == -1)
    lock.token = None
