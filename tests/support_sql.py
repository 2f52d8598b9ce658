"""Counting what is sent to a database: statements and commits."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import sqlalchemy as sa
from sqlalchemy import event

from deploysteps.db.engine import Database


class Count:
    """What was sent while :func:`counting`."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, Any]] = []
        self.commits = 0

    @property
    def texts(self) -> list[str]:
        """The statements, without their parameters."""
        return [text for text, _ in self.sent]

    @property
    def statements(self) -> int:
        """How many statements were sent, BEGIN left out."""
        return len(self.sent)

    def of(self, *verbs: str) -> list[str]:
        """The statements that begin with one of these words."""
        return [text for text in self.texts if text.lstrip().upper().startswith(verbs)]


@contextmanager
def counting(database: Database, *, here: bool = False) -> Iterator[Count]:
    """Count what is sent to a database, from any thread.

    :param here: from this thread only: a conductor's clocks may be at work in others.
    """
    count, mine = Count(), threading.get_ident()

    def counts() -> bool:
        return not here or threading.get_ident() == mine

    def statement(_c: Any, _cursor: Any, text: str, parameters: Any, *_: Any) -> None:
        if counts():
            count.sent.append((text, parameters))

    def commit(connection: sa.Connection) -> None:
        if counts() and not connection.get_execution_options().get("deploysteps_read"):
            count.commits += 1

    event.listen(database.engine, "before_cursor_execute", statement)
    event.listen(database.engine, "commit", commit)
    try:
        yield count
    finally:
        event.remove(database.engine, "before_cursor_execute", statement)
        event.remove(database.engine, "commit", commit)
