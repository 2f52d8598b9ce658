"""What every measured process shares: database settings, counters, and its line of output.

Each row of the table is measured in a process of its own, some of them in another virtual
environment, so this module imports nothing but SQLAlchemy and the standard library.
"""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import event
from sqlalchemy.engine import Connection, Engine

SETTINGS = {"journal_mode": "wal", "synchronous": "full", "foreign_keys": "on"}
"""The settings all rows share, unless a row says ``as shipped``. The runner checks them."""

_SYNCHRONOUS = {0: "off", 1: "normal", 2: "full", 3: "extra"}
_CONTROL = ("PRAGMA", "BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE")
_WRITES = ("INSERT", "UPDATE", "DELETE", "REPLACE")
_WROTE = "benchmark_transaction_wrote"


def arguments(description: str, kinds: tuple[str, ...]) -> argparse.Namespace:
    """Parse what the runner passes to every measured process."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--kind", choices=kinds, required=True)
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--directory", type=Path, required=True, help="where the database goes")
    parser.add_argument(
        "--as-shipped", action="store_true", help="leave the peer's own database settings alone"
    )
    return parser.parse_args()


def use_wal(path: Path) -> None:
    """Create the database file in WAL mode; the file remembers it for every later connection."""
    connection = sqlite3.connect(path)
    try:
        connection.execute("PRAGMA journal_mode=WAL")
    finally:
        connection.close()


def use_foreign_keys() -> None:
    """Turn foreign keys on for every connection of this process, for a peer that does not.

    ``synchronous`` needs nothing: FULL is what SQLite does when nobody says otherwise, and a
    peer that opens a connection for each transaction would pay for every needless PRAGMA.
    """

    @event.listens_for(Engine, "connect")
    def _on_connect(dbapi_connection: Any, _record: Any) -> None:
        dbapi_connection.execute("PRAGMA foreign_keys=ON")


def settings_of(connection: Connection) -> dict[str, str]:
    """Return the settings in force on ``connection``, asked of SQLite itself."""

    def ask(name: str) -> Any:
        return connection.exec_driver_sql(f"PRAGMA {name}").scalar()

    return {
        "journal_mode": str(ask("journal_mode")).lower(),
        "synchronous": _SYNCHRONOUS.get(int(ask("synchronous")), "unknown"),
        "foreign_keys": "on" if ask("foreign_keys") else "off",
    }


class Counter:
    """Counts what SQLAlchemy sends to the database between ``__enter__`` and ``__exit__``.

    ``statements`` are those that read or write rows; BEGIN, SAVEPOINT and PRAGMA are not
    counted, since some libraries send them as statements and others leave them to the driver.
    ``commits`` are those of transactions that wrote something: committing a transaction that
    only read costs no write to disk, so counting it would compare unlike things.

    Only the calling thread counts, because two peers poll the database from threads of their
    own whether or not a step runs. All measured work is done in the calling thread.
    """

    def __init__(self) -> None:
        self.statements = 0
        self.commits = 0
        self.seconds = 0.0
        self._thread = threading.get_ident()
        self._listeners: dict[str, Callable[..., Any]] = {
            "before_cursor_execute": self._statement,
            "commit": self._commit,
            "rollback": self._rollback,
        }

    def __enter__(self) -> Counter:
        for name, listener in self._listeners.items():
            event.listen(Engine, name, listener)
        self._began = time.perf_counter()
        return self

    def __exit__(self, *_exc: object) -> None:
        self.seconds += time.perf_counter() - self._began
        for name, listener in self._listeners.items():
            event.remove(Engine, name, listener)

    def _counting(self) -> bool:
        return threading.get_ident() == self._thread

    def _statement(self, conn: Connection, _cursor: Any, statement: str, *_rest: Any) -> None:
        if not self._counting():
            return
        verb = statement.lstrip(" \n\t(").split(None, 1)[0].upper()
        if verb.startswith(_CONTROL):
            return
        self.statements += 1
        if verb.startswith(_WRITES):
            conn.info[_WROTE] = True

    def _commit(self, conn: Connection) -> None:
        if conn.info.pop(_WROTE, False) and self._counting():
            self.commits += 1

    def _rollback(self, conn: Connection) -> None:
        conn.info.pop(_WROTE, None)


def report(
    *,
    peer: str,
    version: str,
    kind: str,
    steps: int,
    counter: Counter,
    settings: dict[str, str],
    **more: Any,
) -> None:
    """Print the one line that the runner reads: JSON, on standard output, the last line."""
    line = {
        "peer": peer,
        "version": version,
        "kind": kind,
        "steps": steps,
        "seconds": counter.seconds,
        "statements_per_step": counter.statements / steps,
        "commits_per_step": counter.commits / steps,
        "settings": settings,
        **more,
    }
    sys.stdout.write("\n" + json.dumps(line) + "\n")
    sys.stdout.flush()
