"""Queries on conductors, and on who is alive."""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import sqlalchemy as sa
from oslo_db import exception as db_exc

from deploysteps import exceptions
from deploysteps.db import types
from deploysteps.db.engine import Database, again
from deploysteps.db.models import Conductor, ConductorInterface
from deploysteps.db.pages import fetch, rows_of


class Offer(NamedTuple):
    """One interface that a conductor offers for a hardware type."""

    hardware_type: str
    interface_type: str
    interface_name: str
    is_default: bool


def register(
    database: Database,
    hostname: str,
    boot_id: str,
    offers: Iterable[Sequence[Any]],
    group: str = "",
) -> int:
    """Put a conductor online with all that it offers, in one transaction.

    :returns: the conductor's row id.
    """
    offered = [Offer(*offer) for offer in offers]

    def work(connection: sa.Connection) -> int:
        now = types.utcnow()
        values = {
            "boot_id": boot_id,
            "online": True,
            "conductor_group": group,
            "updated_at": now,
        }
        mine = sa.select(Conductor.id).where(Conductor.hostname == hostname)
        row_id = connection.execute(mine).scalar()
        if row_id is None:
            made = {"hostname": hostname, "created_at": now, **values}
            result = connection.execute(sa.insert(Conductor).values(made))
            row_id = int((result.inserted_primary_key or (0,))[0])
        else:
            connection.execute(sa.update(Conductor).where(Conductor.id == row_id).values(values))
        connection.execute(
            sa.delete(ConductorInterface).where(ConductorInterface.conductor_id == row_id)
        )
        if offered:
            connection.execute(
                sa.insert(ConductorInterface),
                [{"conductor_id": row_id, **offer._asdict()} for offer in offered],
            )
        return int(row_id)

    try:
        return database.write(work, happened=again)
    except db_exc.DBDuplicateEntry:
        # Another process of this name inserted the row meanwhile: it is there now.
        return database.write(work, happened=again)


def touch(database: Database, hostname: str, boot_id: str) -> bool:
    """Say that a conductor lives; False when it has left, or another process took its name."""
    query = (
        sa.update(Conductor)
        .where(Conductor.hostname == hostname, Conductor.boot_id == boot_id)
        .where(Conductor.online.is_(True))
        .values(updated_at=types.utcnow())
    )
    return database.write(lambda c: c.execute(query).rowcount, happened=again) == 1


def leave(database: Database, hostname: str, boot_id: str) -> None:
    """Take a conductor offline."""
    query = (
        sa.update(Conductor)
        .where(Conductor.hostname == hostname, Conductor.boot_id == boot_id)
        .values(online=False)
    )
    database.write(lambda c: c.execute(query) and None, happened=again)


def prune(database: Database, older_than: datetime.datetime) -> int:
    """Forget conductors that are long gone; returns how many."""
    query = sa.delete(Conductor).where(Conductor.updated_at < older_than)
    return int(database.write(lambda c: c.execute(query).rowcount, happened=again))


def listing(database: Database) -> list[Conductor]:
    """Return every conductor, by name."""
    query = rows_of(Conductor).order_by(Conductor.hostname)
    return database.read(lambda c: fetch(c, Conductor, query))


def get(database: Database, hostname: str) -> Conductor:
    """Return a conductor.

    :raises ConductorNotFound: there is none.
    """
    for conductor in listing(database):
        if conductor.hostname == hostname:
            return conductor
    raise exceptions.ConductorNotFound(conductor=hostname)


def alive_since(timeout: float) -> datetime.datetime:
    """Return the time after which a conductor must have been heard of."""
    return types.utcnow() - datetime.timedelta(seconds=timeout)


def is_alive(conductor: Conductor, timeout: float) -> bool:
    """Tell whether a conductor is online and was heard of recently."""
    return conductor.online and conductor.updated_at >= alive_since(timeout)


def heard(database: Database, hostname: str) -> datetime.datetime | None:
    """Return when a conductor was heard of last; None: never."""
    query = sa.select(Conductor.updated_at).where(Conductor.hostname == hostname)
    return database.read(lambda c: c.execute(query).scalar())


_SERVERS_TIME = {
    "postgresql": sa.text("SELECT clock_timestamp() AT TIME ZONE 'utc'"),
    "mysql": sa.text("SELECT utc_timestamp(6)"),
}


def clock_ahead(database: Database) -> float:
    """Return the seconds by which this machine's clock is ahead of the database server's.

    Negative: behind it. 0 where there is no server, or no more than the question has taken.
    """
    query = _SERVERS_TIME.get(database.dialect)
    if query is None:
        return 0.0
    before = datetime.datetime.now(datetime.UTC)
    told: Any = database.read(lambda c: c.execute(query).scalar())
    after, server = datetime.datetime.now(datetime.UTC), told.replace(tzinfo=datetime.UTC)
    if server < before:
        return float((before - server).total_seconds())
    return min(float((after - server).total_seconds()), 0.0)


def last_heard(database: Database) -> datetime.datetime | None:
    """Return when any conductor was heard of last; None: never."""
    query = sa.select(sa.func.max(Conductor.updated_at))
    return database.read(lambda c: c.execute(query).scalar())


def alive_names(database: Database, timeout: float) -> set[str]:
    """Return the names of the conductors that live."""
    return {c.hostname for c in listing(database) if is_alive(c, timeout)}


def offers(
    database: Database, timeout: float, group: str | None = None
) -> Mapping[str, list[Offer]]:
    """Return hostname -> what it offers, of the conductors that live.

    :param group: only of those of this conductor group.
    """
    query = (
        sa.select(
            Conductor.hostname,
            ConductorInterface.hardware_type,
            ConductorInterface.interface_type,
            ConductorInterface.interface_name,
            ConductorInterface.is_default,
        )
        .join(ConductorInterface, ConductorInterface.conductor_id == Conductor.id)
        .where(Conductor.online.is_(True), Conductor.updated_at >= alive_since(timeout))
        .order_by(Conductor.hostname)
    )
    if group is not None:
        query = query.where(Conductor.conductor_group == group)
    found: dict[str, list[Offer]] = {}
    rows: list[Any] = database.read(lambda c: list(c.execute(query).all()))
    for hostname, *offer in rows:
        found.setdefault(hostname, []).append(Offer(*offer))
    return found
