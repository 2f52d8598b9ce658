"""Webhooks on their way: how far each receiver is, and what it has not taken yet.

One process at a time serves a receiver: it holds a lease on the receiver's
row, and everything it writes about it names that lease.
"""

from __future__ import annotations

import datetime
import hashlib
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import sqlalchemy as sa
from oslo_db import exception as db_exc

from deploysteps.db import events, types
from deploysteps.db.engine import Database, again
from deploysteps.db.event_models import Event, WebhookDelivery, WebhookEndpoint
from deploysteps.db.models import Conductor, table
from deploysteps.db.pages import fetch, rows_of

_E, _D, _C = table(WebhookEndpoint), table(WebhookDelivery), table(Conductor)

PENDING, DEAD = "pending", "dead"
_AT_ONCE = 500
"""Rows that one statement names."""


def key_of(url: str) -> str:
    """Return what a receiver is known by."""
    return hashlib.sha256(url.encode()).hexdigest()


def shown(url: str) -> str:
    """Return a receiver for people: what its path and user part hold may be secret."""
    parts = urlsplit(url)
    port = f":{parts.port}" if parts.port else ""
    return f"{parts.scheme}://{parts.hostname}{port}/ ({key_of(url)[:8]})"


def known(database: Database, url: str) -> WebhookEndpoint:
    """Return a receiver's row; a new one begins with what happens from now on."""
    query = rows_of(WebhookEndpoint).where(_E.c.key == key_of(url))
    found = database.read(lambda c: fetch(c, WebhookEndpoint, query))
    if not found:
        values = {
            "key": key_of(url),
            "url": shown(url),
            "cursor": events.settled_newest(database),
        }
        with suppress(db_exc.DBDuplicateEntry):  # another conductor was faster
            database.write(lambda c: c.execute(sa.insert(_E).values(values)) and None)
        found = database.read(lambda c: fetch(c, WebhookEndpoint, query))
    return found[0]


def holder_of(host: str, boot_id: str) -> str:
    """Return what a process of a conductor is called as the holder of a lease."""
    return f"{host[:24]}/{boot_id}"


def _is_known_boot() -> sa.ColumnElement[bool]:
    """Tell whether a lease's holder is a process that some conductor is now, or was last.

    A process that was killed is none any more as soon as its conductor was started again.
    """
    boots = sa.select(_C.c.id).where(_E.c.holder.like(sa.literal("%/").concat(_C.c.boot_id)))
    return sa.exists(boots)


def lease(database: Database, endpoint: int, holder: str, seconds: float) -> bool:
    """Take or keep the lease of a receiver; False when another process has it."""
    now = types.utcnow()
    free = (
        _E.c.holder.is_(None),
        _E.c.holder == holder,
        _E.c.lease_until < now,
        sa.not_(_is_known_boot()),
    )
    query = (
        sa.update(_E)
        .where(_E.c.id == endpoint)
        .where(sa.or_(*free))
        .values(holder=holder, lease_until=now + datetime.timedelta(seconds=seconds))
    )
    return database.write(lambda c: c.execute(query).rowcount, happened=again) == 1


def give_back(database: Database, holder: str) -> None:
    """Give back every lease of a process that stops."""
    query = sa.update(_E).where(_E.c.holder == holder)
    query = query.values(holder=None, lease_until=types.utcnow())
    database.write(lambda c: c.execute(query) and None, happened=again)


class Ready(NamedTuple):
    """An event as it is sent."""

    event: Event
    body: str


def take(
    database: Database, endpoint: int, holder: str, cursor: int, to: int, ready: Sequence[Ready]
) -> bool:
    """Note events as deliveries, and that all up to ``to`` were looked at; one transaction.

    :returns: False when the lease, or the cursor, is another's; nothing was written.
    """
    now = types.utcnow()
    move = (
        sa.update(_E)
        .where(_E.c.id == endpoint, _E.c.holder == holder, _E.c.cursor == cursor)
        .values(cursor=to)
    )
    rows = [
        {
            "endpoint_id": endpoint,
            "event_id": one.event.id,
            "node_uuid": one.event.node_uuid,
            "state": PENDING,
            "body": one.body,
            "created_at": now,
            "tries": 0,
            "next_try_at": now,
        }
        for one in ready
    ]

    def work(connection: sa.Connection) -> bool:
        if connection.execute(move).rowcount != 1:
            return False
        if rows:
            connection.execute(sa.insert(_D), rows)
        return True

    # Done twice the second finds the cursor moved, and what it wrote is there.
    return database.write(work, happened=lambda c: c.scalar(_cursor(endpoint)) == to)


def cursor(database: Database, endpoint: int) -> int | None:
    """Return the newest event that was looked at for a receiver; None: it is not known."""
    found = database.read(lambda c: c.scalar(_cursor(endpoint)))
    return None if found is None else int(found)


def _cursor(endpoint: int) -> sa.Select[Any]:
    return sa.select(_E.c.cursor).where(_E.c.id == endpoint)


def pending(database: Database, endpoint: int) -> int:
    """Return how many deliveries a receiver has not taken, dead ones left out."""
    query = sa.select(sa.func.count()).where(_D.c.endpoint_id == endpoint, _D.c.state == PENDING)
    return int(database.read(lambda c: c.scalar(query)) or 0)


def due(database: Database, endpoint: int, limit: int) -> list[WebhookDelivery]:
    """Return the oldest delivery of each node, where it is due: what follows waits for it.

    One look over the index, and then rows by their events. As one query it would be left to the
    server's statistics, which know nothing of rows that come and go, and then all that is
    pending is looked over again for each of them.
    """
    heads = (
        sa.select(sa.func.min(_D.c.event_id).label("head"))
        .where(_D.c.endpoint_id == endpoint, _D.c.state == PENDING)
        .group_by(_D.c.node_uuid)
        .order_by("head")
    )
    query = (
        rows_of(WebhookDelivery)
        .where(_D.c.endpoint_id == endpoint, _D.c.state == PENDING)
        .where(_D.c.next_try_at <= types.utcnow())
        .order_by(_D.c.event_id)
    )

    def work(connection: sa.Connection) -> list[WebhookDelivery]:
        found: list[WebhookDelivery] = []
        ids = list(connection.execute(heads).scalars())
        while ids and len(found) < limit:
            some, ids = ids[:_AT_ONCE], ids[_AT_ONCE:]
            wanted = query.where(_D.c.event_id.in_(some)).limit(limit - len(found))
            found += fetch(connection, WebhookDelivery, wanted)
        return found

    return database.read(work)


def _mine(delivery: WebhookDelivery, holder: str) -> sa.ColumnElement[bool]:
    held = sa.select(_E.c.id).where(_E.c.id == delivery.endpoint_id, _E.c.holder == holder)
    return sa.and_(_D.c.id == delivery.id, sa.exists(held))


def delivered(database: Database, delivery: WebhookDelivery, holder: str) -> None:
    """Forget a delivery that was taken."""
    query = sa.delete(_D).where(_mine(delivery, holder))
    database.write(lambda c: c.execute(query) and None, happened=again)


def failed(
    database: Database, delivery: WebhookDelivery, holder: str, why: str, pause: float | None
) -> None:
    """Note a try that failed.

    :param pause: seconds until the next one; None: there is none, it is dead.
    """
    later = types.utcnow() + datetime.timedelta(seconds=pause or 0)
    query = (
        sa.update(_D)
        .where(_mine(delivery, holder))
        .values(
            tries=delivery.tries + 1,
            last_error=why,
            next_try_at=later,
            state=PENDING if pause is not None else DEAD,
        )
    )
    database.write(lambda c: c.execute(query) and None, happened=again)


# --- for people ---------------------------------------------------------------------


class Waiting(NamedTuple):
    """A delivery as people see it."""

    id: int
    url: str
    event_id: int
    node: str
    state: str
    tries: int
    created_at: datetime.datetime
    next_try_at: datetime.datetime
    last_error: str | None


def listing(database: Database, state: str | None, limit: int) -> list[Waiting]:
    """Return deliveries that were not taken, the oldest first."""
    query = (
        sa.select(
            _D.c.id,
            _E.c.url,
            _D.c.event_id,
            _D.c.node_uuid,
            _D.c.state,
            _D.c.tries,
            _D.c.created_at,
            _D.c.next_try_at,
            _D.c.last_error,
        )
        .join(_E, _E.c.id == _D.c.endpoint_id)
        .order_by(_D.c.id)
        .limit(limit)
    )
    if state is not None:
        query = query.where(_D.c.state == state)
    return [Waiting(*row) for row in database.read(lambda c: list(c.execute(query).all()))]


def receivers(database: Database) -> int:
    """Return how many receivers are known."""
    return int(database.read(lambda c: c.scalar(sa.select(sa.func.count()).select_from(_E))) or 0)


def retry(database: Database, ids: Collection[int] | None) -> int:
    """Let dead deliveries be tried again; None: all of them. Returns how many."""
    query = (
        sa.update(_D)
        .where(_D.c.state == DEAD)
        .values(state=PENDING, tries=0, next_try_at=types.utcnow())
    )
    if ids is not None:
        query = query.where(_D.c.id.in_(ids))
    return int(database.write(lambda c: c.execute(query).rowcount, happened=again))


def prune(database: Database, before: datetime.datetime) -> int:
    """Remove dead deliveries of before then, and receivers that nobody has served since then."""
    dead = sa.delete(_D).where(_D.c.state == DEAD, _D.c.created_at < before)
    unserved = sa.delete(_E).where(_E.c.lease_until < before)

    def work(connection: sa.Connection) -> int:
        gone = connection.execute(dead).rowcount
        return int(gone + connection.execute(unserved).rowcount)

    return database.write(work, happened=again)


def queue(database: Database) -> Mapping[str, int]:
    """Return state -> how many deliveries there are."""
    query = sa.select(_D.c.state, sa.func.count()).group_by(_D.c.state)
    return {state: count for state, count in database.read(lambda c: list(c.execute(query).all()))}
