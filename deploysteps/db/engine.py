"""Connections: one :class:`Database` per process.

No session leaves this package. A read is a short connection of its own; a
write is one transaction, tried again when the database says that it was a
matter of timing, and looked up when the connection broke at COMMIT.
"""

from __future__ import annotations

import itertools
import logging
import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

import sqlalchemy as sa
from oslo_db import exception as db_exc
from oslo_db.sqlalchemy import exc_filters
from sqlalchemy import exc as sa_exc

from deploysteps import exceptions, secrets
from deploysteps.db import counting, dialects
from deploysteps.db.failures import (
    code_of,
    has_no_room,
    is_disconnect,
    is_transient,
    is_unavailable,
    raise_unavailable,
    reason_of,
    size_of,
)

LOG = logging.getLogger(__name__)
T = TypeVar("T")

Patience = Callable[[str], bool]
"""Is told why a write cannot be done now, and answers whether it is tried once more."""

_TRIES = 12
_FIRST_PAUSE, _LONGEST_PAUSE = 0.005, 1.0
_READ_ONLY = {counting.READ_ONLY: True}
_TOO_LARGE = (1153, 1406)
"""MariaDB and MySQL: larger than a packet, larger than the column."""
_NOT_NOW = (db_exc.DBError, sa_exc.DBAPIError, exceptions.DatabaseUnavailable)
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
        self.url = dialects.url_of(url)
        self.dialect = self.url.get_backend_name()
        self.in_memory = dialects.is_in_memory(self.url)
        self.connect_wait = connect_wait
        self.idle_transaction_timeout = idle_transaction_timeout
        self.is_full = False
        """Whether there was no room for the last write."""
        self._pool_timeout = pool_timeout
        self._own_folder = own_folder
        try:
            self.engine = sa.create_engine(
                self.url,
                hide_parameters=True,
                **dialects.engine_options(
                    self.url,
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
        dialects.prepare(self.engine, busy_timeout, idle_transaction_timeout)
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
                    raise_unavailable(exc)
                    raise
        raise AssertionError("unreachable")

    def write(
        self,
        work: Callable[[sa.Connection], T],
        *,
        happened: Callable[[sa.Connection], bool] | None = None,
        patience: Patience | None = None,
    ) -> T:
        """Run ``work`` in one transaction and commit.

        A deadlock, a busy file or a connection that broke before COMMIT is
        tried again: nothing was written. A connection that breaks *at*
        COMMIT is looked up with ``happened``; without it
        :class:`CommitUnknown` is raised, since a second try might do the work
        twice.

        :param patience: asked after the last try, when the database is away or full:
            True for one more.
        :raises DatabaseUnavailable: after the last try.
        :raises Invalid: a value is larger than the server takes.
        """
        pause = _FIRST_PAUSE
        for tries in itertools.count(1):
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
                        unknown = is_disconnect(exc)
                        raise
                    self.is_full = False
                    return result
            except (db_exc.DBError, sa_exc.DBAPIError) as exc:
                if unknown and self._settled(happened, exc, patience):
                    return result
                self._refuse_too_large(exc)
                if tries >= _TRIES or not is_transient(exc):
                    self.is_full = has_no_room(exc)
                    if not (patience and is_unavailable(exc) and patience(reason_of(exc))):
                        raise_unavailable(exc)
                        raise
                LOG.debug("Trying a transaction again: %s", type(exc).__name__)
            except exceptions.DatabaseUnavailable as exc:  # the pool has no connection
                if not (patience and patience(exc.message)):
                    raise
            time.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(pause * 2, _LONGEST_PAUSE)
        raise AssertionError("unreachable")

    def _refuse_too_large(self, exc: BaseException) -> None:
        """Tell a value that is too large, at which a server may just hang up.

        :raises Invalid: with the remedy.
        """
        error = getattr(exc, "inner_exception", None) or exc
        code, sent = code_of(exc), 0
        if is_disconnect(exc):
            sent = size_of(getattr(error, "params", None))
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
        self,
        happened: Callable[[sa.Connection], bool] | None,
        cause: BaseException,
        patience: Patience | None,
    ) -> bool:
        if happened is None:
            raise CommitUnknown("the connection broke at COMMIT") from cause
        pause = _FIRST_PAUSE
        for tries in itertools.count(1):
            try:
                with self.reading() as connection:
                    return happened(connection)
            except _NOT_NOW as exc:
                # It has waited for a connection of the pool already.
                has_waited = isinstance(exc, exceptions.DatabaseUnavailable)
                if (has_waited or tries >= _TRIES) and not (
                    patience and (has_waited or is_unavailable(exc)) and patience(reason_of(exc))
                ):
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
            dialects.make_file(Path(str(self.url.database)), self._own_folder)
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
                        f"[database] connection: cannot use the database {self.place}: "
                        f"{reason_of(exc)}"
                    ) from exc
                if not told:
                    tell(
                        f"waiting up to {self.connect_wait:g} s for the database {self.place}: "
                        f"{reason_of(exc)}"
                    )
                    told = True
            if (cancelled or threading.Event()).wait(0.5):
                raise exceptions.NotStarted(reason="stopped while it waited for the database")


def _roll_back(transaction: sa.RootTransaction) -> None:
    try:
        transaction.rollback()
    except (db_exc.DBError, sa_exc.DBAPIError) as exc:
        # The connection is gone and its transaction with it; the first
        # error, which is on its way up, says more.
        LOG.debug("Rolling back failed: %s", type(exc).__name__)
