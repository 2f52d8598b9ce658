"""Connections: one :class:`Database` per process.

No session leaves this package. A read is a short connection of its own; a
write is one transaction, tried again when the database says that it was a
matter of timing, and looked up when the connection broke at COMMIT.
"""

from __future__ import annotations

import logging
import random
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import sqlalchemy as sa
import tenacity
from oslo_db import exception as db_exc
from oslo_db.sqlalchemy import exc_filters
from sqlalchemy import event
from sqlalchemy import exc as sa_exc

from deploysteps import exceptions, secrets
from deploysteps.db import counting

LOG = logging.getLogger(__name__)
T = TypeVar("T")

_TRIES = 12
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 1.0
_CONNECT_TIMEOUT = 10
_READ_ONLY = {counting.READ_ONLY: True}
_TOO_LARGE = (1153, 1406)
"""MariaDB and MySQL: larger than a packet, larger than the column."""
_ESCAPED = "\"'\\\n\r\0\x1a"
"""What MariaDB and MySQL are sent with a backslash before it."""
_LEAST_PACKET = 2**20
"""Bytes; what is smaller is never why a server hung up."""


class CommitUnknown(exceptions.DatabaseUnavailable):
    """The connection broke at COMMIT: it may have happened or not."""


def again(_connection: sa.Connection) -> bool:
    """Answer ``happened`` for a write that may as well be done a second time."""
    return False


class Database:
    """A database, its pool, and the two ways to use it."""

    def __init__(
        self,
        url: str,
        *,
        busy_timeout: float = 30.0,
        max_pool_size: int = 20,
        max_overflow: int = 50,
        pool_timeout: float = 30.0,
        connect_wait: float = 60.0,
        idle_transaction_timeout: float = 30.0,
        own_folder: str | None = None,
    ) -> None:
        """Make the engine; nothing is connected yet.

        :param url: SQLAlchemy URL. ``mariadb+pymysql`` is taken as
            ``mysql+pymysql``, for which errors are translated.
        :param busy_timeout: seconds a writer waits for SQLite's one lock.
        :param connect_wait: seconds :meth:`wait_ready` waits for a server.
        :param idle_transaction_timeout: seconds after which a server ends a
            transaction that says nothing: no step's code runs inside one.
        :param own_folder: the only folder that is made when an SQLite file is to be in it.
        """
        self.url = _url(url)
        self.dialect = self.url.get_backend_name()
        self.in_memory = self.dialect == "sqlite" and _is_in_memory(self.url)
        self.connect_wait = connect_wait
        self.idle_transaction_timeout = idle_transaction_timeout
        self._pool_timeout = pool_timeout
        self._own_folder = own_folder
        try:
            self.engine = sa.create_engine(
                self.url,
                hide_parameters=True,
                **_engine_options(
                    self,
                    busy_timeout,
                    {
                        "pool_size": max_pool_size,
                        "max_overflow": max_overflow,
                        "pool_timeout": pool_timeout,
                    },
                ),
            )
        except ModuleNotFoundError as exc:
            remedy = f"install it with: pip install 'deploysteps[{self.dialect}]'"
            raise exceptions.ConfigurationError(
                f"[database] connection needs the module {exc.name}; {remedy}"
            ) from exc
        exc_filters.register_engine(self.engine)
        counting.watch(self.engine)
        if self.dialect == "sqlite":
            _prepare_sqlite(self.engine, busy_timeout)
        else:
            _end_idle_transactions(self.engine, max(1, round(idle_transaction_timeout)))
        self._readers = self.engine.execution_options(**_READ_ONLY)

    def __repr__(self) -> str:
        """Show the URL without its password."""
        return f"<Database {self.place}>"

    @property
    def place(self) -> str:
        """The URL without what is secret in it, for people."""
        return secrets.masked_urls(self.url.set(password=None).render_as_string())

    def dispose(self) -> None:
        """Close every pooled connection."""
        self.engine.dispose()

    @contextmanager
    def reading(self) -> Iterator[sa.Connection]:
        """Give a connection for reading; copy rows out and leave soon."""
        with self._connected(self._readers) as connection:
            yield connection

    def _connected(self, engine: sa.Engine) -> sa.Connection:
        """Take a connection from the pool, or make one.

        :raises DBConnectionError: the database takes no connection now; not
            every dialect says of itself that this is what its error means.
        """
        try:
            return engine.connect()
        except sa_exc.TimeoutError as exc:
            raise exceptions.DatabaseUnavailable(
                reason=f"no connection of the pool was free within {self._pool_timeout:g} s; "
                "see [database] max_pool_size and max_overflow"
            ) from exc
        except sa_exc.OperationalError as exc:
            raise db_exc.DBConnectionError(exc) from exc

    def read(self, work: Callable[[sa.Connection], T]) -> T:
        """Run ``work`` on a reading connection; a broken one is replaced once."""
        for again in (True, False):
            try:
                with self.reading() as connection:
                    return work(connection)
            except (db_exc.DBError, sa_exc.DBAPIError) as exc:
                if not (again and is_disconnect(exc)):
                    _raise_unavailable(exc)
                    raise
        raise AssertionError("unreachable")

    def write(
        self,
        work: Callable[[sa.Connection], T],
        *,
        happened: Callable[[sa.Connection], bool] | None = None,
    ) -> T:
        """Run ``work`` in one transaction and commit.

        A deadlock, a busy file or a connection that broke before COMMIT is
        tried again: nothing was written. A connection that breaks *at*
        COMMIT is looked up with ``happened``; without it
        :class:`CommitUnknown` is raised, since a second try might do the work
        twice.

        :raises DatabaseUnavailable: after the last try.
        :raises Invalid: a value is larger than the server takes.
        """
        pause = _FIRST_PAUSE
        for left in range(_TRIES - 1, -1, -1):
            unknown = False
            try:
                with self._connected(self.engine) as connection:
                    transaction = connection.begin()
                    try:
                        result = work(connection)
                    except BaseException:
                        _roll_back(transaction)
                        raise
                    try:
                        transaction.commit()
                    except BaseException as exc:
                        unknown = _broke(exc)
                        raise
                    return result
            except (db_exc.DBError, sa_exc.DBAPIError) as exc:
                if unknown and self._settled(happened, exc):
                    return result
                self._refuse_too_large(exc)
                if not (left and is_transient(exc)):
                    _raise_unavailable(exc)
                    raise
                LOG.debug("Trying a transaction again: %s", type(exc).__name__)
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(pause * 2, _LONGEST_PAUSE)
        raise AssertionError("unreachable")

    def _refuse_too_large(self, exc: BaseException) -> None:
        """Tell a value that is too large, at which a server may just hang up.

        :raises Invalid: with the remedy.
        """
        error = getattr(exc, "inner_exception", None) or exc
        code = next(iter(getattr(getattr(error, "orig", None), "args", ())), None)
        sent = _size(getattr(error, "params", None)) if is_disconnect(exc) else 0
        if self.dialect != "mysql" or (code not in _TOO_LARGE and sent < _LEAST_PACKET):
            return
        if code in _TOO_LARGE or sent > self._largest_packet():
            raise exceptions.Invalid(
                f"The database takes no value as large as this ({reason_of(exc)}); send less, or "
                "raise max_allowed_packet of the database server.",
                code=413,
            ) from exc

    def _largest_packet(self) -> float:
        try:
            return self.read(lambda c: c.scalar(sa.text("SELECT @@max_allowed_packet"))) or 0
        except (exceptions.DatabaseUnavailable, db_exc.DBError, sa_exc.DBAPIError):
            return float("inf")  # the server is away: that is why it hung up

    def _settled(
        self, happened: Callable[[sa.Connection], bool] | None, cause: BaseException
    ) -> bool:
        if happened is None:
            raise CommitUnknown("the connection broke at COMMIT") from cause
        pause = _FIRST_PAUSE
        for left in range(_TRIES - 1, -1, -1):
            try:
                with self.reading() as connection:
                    return happened(connection)
            except (db_exc.DBError, sa_exc.DBAPIError) as exc:
                if not left:
                    raise CommitUnknown("the connection broke at COMMIT") from exc
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        raise AssertionError("unreachable")

    def wait_ready(
        self, tell: Callable[[str], None], cancelled: threading.Event | None = None
    ) -> None:
        """Connect, waiting up to ``connect_wait`` seconds for a server.

        :param tell: is given one line that says what is waited for.
        :param cancelled: gives up at once when it is set.
        :raises DatabaseUnavailable: naming the server and the last error.
        """
        if self.dialect == "sqlite" and not self.in_memory:
            _make_file(Path(str(self.url.database)), self._own_folder)
        until = time.monotonic() + self.connect_wait
        told = False
        while True:
            try:
                with self.reading() as connection:
                    connection.execute(sa.text("SELECT 1"))
                return
            except (db_exc.DBError, sa_exc.DBAPIError) as exc:
                if self.dialect == "sqlite" or time.monotonic() >= until:
                    raise exceptions.DatabaseUnavailable(
                        f"cannot use the database {self.place}: {reason_of(exc)}"
                    ) from exc
                if not told:
                    tell(
                        f"waiting up to {self.connect_wait:g} s for the database {self.place}: "
                        f"{reason_of(exc)}"
                    )
                    told = True
            if (cancelled or threading.Event()).wait(0.5):
                raise exceptions.NotStarted(reason="stopped while it waited for the database")


_DRIVERS = {
    "sqlite": ("pysqlite",),
    "postgresql": ("psycopg", "psycopg2"),
    "mysql": ("pymysql",),
}
"""The drivers that work here: synchronous ones, whose errors are translated."""


def _url(text: str) -> sa.URL:
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


def _is_in_memory(url: sa.URL) -> bool:
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


def _engine_options(
    database: Database, busy_timeout: float, pool: Mapping[str, Any]
) -> dict[str, Any]:
    options: dict[str, Any] = {"poolclass": sa.pool.QueuePool, **pool}
    if database.in_memory:
        # One connection is the whole database: threads take turns at it.
        options.update(pool_size=1, max_overflow=0)
    if database.dialect == "sqlite":
        options["connect_args"] = {"check_same_thread": False, "timeout": busy_timeout}
    else:
        options["pool_recycle"] = 3600
    if database.dialect == "postgresql" and "connect_timeout" not in database.url.query:
        # A host that swallows packets would be waited for for minutes.
        options["connect_args"] = {"connect_timeout": _CONNECT_TIMEOUT}
    if database.dialect == "mysql":
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


def _make_file(file: Path, own_folder: str | None) -> None:
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


def _roll_back(transaction: sa.RootTransaction) -> None:
    try:
        transaction.rollback()
    except (db_exc.DBError, sa_exc.DBAPIError) as exc:
        # The connection is gone and its transaction with it; the first
        # error, which is on its way up, says more.
        LOG.debug("Rolling back failed: %s", type(exc).__name__)


def reason_of(exc: BaseException) -> str:
    """Return the first line of what the database said."""
    inner = getattr(exc, "inner_exception", None) or exc
    inner = getattr(inner, "orig", None) or inner
    return str(inner).splitlines()[0] if str(inner) else type(inner).__name__


def is_disconnect(exc: BaseException) -> bool:
    """Tell whether the connection is gone."""
    inner = getattr(exc, "inner_exception", None)
    return isinstance(exc, db_exc.DBConnectionError) or any(
        bool(getattr(error, "connection_invalidated", False)) for error in (exc, inner)
    )


def _size(params: Any) -> int:
    """Return the bytes that the texts of a statement's largest row take on the way."""
    rows = params if isinstance(params, list) else [params or {}]
    return max(
        sum(
            len(text.encode("utf-8", "replace")) + sum(map(text.count, _ESCAPED))
            for text in row.values()
            if isinstance(text, str)
        )
        for row in rows
    )


_broke = is_disconnect
_TIMING = (
    "database is locked",
    "database table is locked",
    "could not serialize",
    "lock wait timeout",
)


def is_transient(exc: BaseException) -> bool:
    """Tell whether the same transaction may well succeed a moment later."""
    if isinstance(exc, db_exc.DBDeadlock) or is_disconnect(exc):
        return True
    text = reason_of(exc).lower()
    return any(words in text for words in _TIMING)


def _raise_unavailable(exc: BaseException) -> None:
    if is_transient(exc):
        raise exceptions.DatabaseUnavailable(reason=reason_of(exc)) from exc
