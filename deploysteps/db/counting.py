"""Counts what is sent to the database, for metrics."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from sqlalchemy import event

from deploysteps import counts

READ_ONLY = "deploysteps_read"
"""Execution option of connections that only read: their commits write nothing."""


def watch(engine: sa.Engine) -> None:
    """Count this engine's statements and commits."""

    @event.listens_for(engine, "before_cursor_execute")
    def statement(*_args: Any) -> None:
        counts.STATEMENTS.add()

    @event.listens_for(engine, "commit")
    def commit(connection: sa.Connection) -> None:
        if not connection.get_execution_options().get(READ_ONLY):
            counts.COMMITS.add()
