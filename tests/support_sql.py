"""Counting what is sent to a database: statements and commits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event

from deploysteps.db.engine import Database


class Count:
    """What was sent while :func:`counting`."""

    def __init__(self) -> None:
        self.texts: list[str] = []
        self.commits = 0

    @property
    def statements(self) -> int:
        """How many statements were sent, BEGIN left out."""
        return len(self.texts)


@contextmanager
def counting(database: Database) -> Iterator[Count]:
    """Count what is sent to a database, from any thread."""
    count = Count()

    def statement(_c: Any, _cursor: Any, text: str, *_: Any) -> None:
        count.texts.append(text)

    def commit(connection: sa.Connection) -> None:
        if not connection.get_execution_options().get("deploysteps_read"):
            count.commits += 1

    event.listen(database.engine, "before_cursor_execute", statement)
    event.listen(database.engine, "commit", commit)
    try:
        yield count
    finally:
        event.remove(database.engine, "before_cursor_execute", statement)
        event.remove(database.engine, "commit", commit)
