"""What differs from one kind of database to the other, before anything is asked of it."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import sqlalchemy as sa
import tenacity
from oslo_db import exception as db_exc
from sqlalchemy import event
from sqlalchemy import exc as sa_exc

from deploysteps import exceptions

_CONNECT_TIMEOUT = 10
"""Seconds."""
_DRIVERS = {
    "sqlite": ("pysqlite",),
    "postgresql": ("psycopg", "psycopg2"),
    "mysql": ("pymysql",),
}
"""The drivers that work here: synchronous ones, whose errors are translated."""


def url_of(text: str) -> sa.URL:
    """Return the URL of a database that can be used.

    :raises ConfigurationError: with what to write instead; the text itself
        is not told, since it may hold a password.
    """
    try:
        url = _rewritten(sa.make_url(text))
    except (sa_exc.ArgumentError, ValueError):
        # Without the cause, which quotes the text.
        raise exceptions.ConfigurationError(
            "[database] connection is not a database URL; "
            "write e.g. sqlite:////var/lib/deploysteps/deploysteps.sqlite or "
            "postgresql+psycopg://user:password@host/name"
        ) from None
    backend, _, driver = url.drivername.partition("+")
    if driver not in ("", *_DRIVERS.get(backend, ())) or backend not in _DRIVERS:
        raise exceptions.ConfigurationError(
            f"[database] connection: {url.drivername!r} is not supported; "
            "use sqlite, postgresql+psycopg or mysql+pymysql"
        )
    return url


def is_in_memory(url: sa.URL) -> bool:
    """Tell whether a database is gone with its process."""
    if url.get_backend_name() != "sqlite":
        return False
    name = url.database or ":memory:"
    return ":memory:" in name or url.query.get("mode") == "memory"


def _rewritten(url: sa.URL) -> sa.URL:
    """Give the driver that errors are translated for."""
    name = url.drivername
    if name.startswith("mariadb"):
        url = url.set(drivername="mysql" + name.removeprefix("mariadb"))
    if url.drivername in ("mysql", "postgresql", "postgres"):
        driver = "mysql+pymysql" if url.drivername == "mysql" else "postgresql+psycopg"
        url = url.set(drivername=driver)
    if url.get_backend_name() == "mysql" and "charset" not in url.query:
        url = url.update_query_dict({"charset": "utf8mb4"})
    return url


def engine_options(url: sa.URL, busy_timeout: float, pool: Mapping[str, Any]) -> dict[str, Any]:
    """Return what SQLAlchemy has to know of a database.

    :param pool: the sizes of its pool of connections.
    """
    dialect = url.get_backend_name()
    options: dict[str, Any] = {"poolclass": sa.pool.QueuePool, **pool}
    if is_in_memory(url):
        # One connection is the whole database: threads take turns at it.
        options.update(pool_size=1, max_overflow=0)
    if dialect == "sqlite":
        options["connect_args"] = {"check_same_thread": False, "timeout": busy_timeout}
    else:
        options["pool_recycle"] = 3600
    if dialect == "postgresql" and "connect_timeout" not in url.query:
        # A host that swallows packets would be waited for for minutes.
        options["connect_args"] = {"connect_timeout": _CONNECT_TIMEOUT}
    if dialect == "mysql":
        # Fences and claims must see what others committed, not a snapshot.
        options["isolation_level"] = "READ COMMITTED"
    return options


def _use_wal(cursor: Any, busy_timeout: float) -> None:
    """Switch a file to WAL; the busy timeout does not hold for this one statement."""
    tries = tenacity.Retrying(
        retry=tenacity.retry_if_exception_message(match=".*locked"),
        stop=tenacity.stop_after_delay(busy_timeout),
        wait=tenacity.wait_random(0.005, 0.05),
        reraise=True,
    )
    tries(cursor.execute, "PRAGMA journal_mode = WAL")


def prepare(engine: sa.Engine, busy_timeout: float, idle_timeout: float) -> None:
    """Have every connection be what this package takes it for; see :class:`Database`."""
    if engine.dialect.name == "sqlite":
        _prepare_sqlite(engine, busy_timeout)
    else:
        _end_idle_transactions(engine, max(1, round(idle_timeout)))


def _prepare_sqlite(engine: sa.Engine, busy_timeout: float) -> None:
    @event.listens_for(engine, "connect")
    def on_connect(dbapi_connection: Any, _record: Any) -> None:
        dbapi_connection.isolation_level = None  # transactions are begun below
        cursor = dbapi_connection.cursor()
        cursor.execute(f"PRAGMA busy_timeout = {int(busy_timeout * 1000)}")
        _use_wal(cursor, busy_timeout)
        cursor.execute("PRAGMA synchronous = FULL")
        cursor.execute("PRAGMA foreign_keys = ON")
        cursor.close()

    @event.listens_for(engine, "begin")
    def on_begin(connection: sa.Connection) -> None:
        # A reader takes one statement's snapshot. A writer takes the lock at
        # once: one that upgrades later fails whatever the busy timeout is.
        if connection.get_execution_options().get("deploysteps_read"):
            return
        try:
            # Past SQLAlchemy, whose way costs as much as a small UPDATE.
            dbapi: Any = connection.connection.dbapi_connection
            dbapi.execute("BEGIN IMMEDIATE")
        except sqlite3.OperationalError as exc:
            raise db_exc.DBDeadlock(exc) from exc


def _end_idle_transactions(engine: sa.Engine, seconds: int) -> None:
    """Let the server end what a frozen or cut-off conductor left open.

    Its row locks would make every other conductor wait, for hours where the
    host is gone without a word.
    """

    @event.listens_for(engine, "connect")
    def on_connect(dbapi_connection: Any, _record: Any) -> None:
        if engine.dialect.name == "postgresql":
            order = f"SET idle_in_transaction_session_timeout = '{seconds}s'"
        elif "MariaDB" in dbapi_connection.get_server_info():
            order = f"SET SESSION idle_transaction_timeout = {seconds}"
        else:
            return  # MySQL has no such setting
        cursor = dbapi_connection.cursor()
        cursor.execute(order)
        cursor.close()
        dbapi_connection.commit()


def make_file(file: Path, own_folder: str | None) -> None:
    """Make the file, and its folder if it is our own, for their owner alone.

    It holds the passwords of BMCs.
    """
    own = own_folder is not None and file.parent == Path(own_folder)
    if not own and not file.parent.is_dir():  # a typo would make an empty database elsewhere
        raise exceptions.ConfigurationError(
            f"cannot make the database {file}: there is no folder {file.parent}; make it, or set "
            "[database] connection or [DEFAULT] state_path"
        )
    try:
        if own:
            file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        if not file.exists():
            file.touch(mode=0o600)
    except OSError as exc:
        raise exceptions.ConfigurationError(
            f"cannot make the database {file}: {exc.strerror}; "
            "set [database] connection or [DEFAULT] state_path"
        ) from exc
