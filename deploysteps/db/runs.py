"""Queries on runs and their attempts, for readers; writing is the locks' room."""

from __future__ import annotations

from collections.abc import Sequence

import sqlalchemy as sa

from deploysteps import exceptions
from deploysteps.db.engine import Database
from deploysteps.db.models import StepAttempt, StepRun
from deploysteps.db.pages import fetch, rows_of

FINISHED, WAITING, RUNNING = "finished", "waiting", "running"
BY_STEPS, OLD_WAY = "steps", "deploy"
"""``StepRun.mechanism``: one step after the other, or by the one method of an old driver."""
INTERRUPTED = "interrupted"
"""Outcome of an attempt whose conductor was lost."""


def get(database: Database, run_id: int) -> StepRun:
    """Return a run by its row id.

    :raises RunNotFound: there is none.
    """
    found = database.read(lambda c: fetch(c, StepRun, rows_of(StepRun).where(StepRun.id == run_id)))
    if not found:
        raise exceptions.RunNotFound(run=run_id)
    return found[0]


def of_node(
    database: Database, node_id: int, *, limit: int | None = None, marker: str | None = None
) -> list[StepRun]:
    """Return a node's runs, newest first, after the run whose uuid is ``marker``.

    :raises RunNotFound: for an unknown marker.
    """
    query = rows_of(StepRun).where(StepRun.node_id == node_id).order_by(StepRun.id.desc())

    def work(connection: sa.Connection) -> list[StepRun]:
        narrowed = query
        if marker is not None:
            at = connection.execute(
                sa.select(StepRun.id).where(StepRun.uuid == marker, StepRun.node_id == node_id)
            ).scalar()
            if at is None:
                raise exceptions.RunNotFound(run=marker)
            narrowed = query.where(StepRun.id < at)
        return fetch(connection, StepRun, narrowed.limit(limit))

    return database.read(work)


def one_of_node(database: Database, node_id: int, uuid: str) -> StepRun:
    """Return a run of a node by its uuid.

    :raises RunNotFound: the node has no such run.
    """
    query = rows_of(StepRun).where(StepRun.node_id == node_id, StepRun.uuid == uuid.lower())
    found = database.read(lambda c: fetch(c, StepRun, query))
    if not found:
        raise exceptions.RunNotFound(run=uuid[:255])
    return found[0]


def attempts(database: Database, run_ids: Sequence[int]) -> dict[int, list[StepAttempt]]:
    """Return run id -> its attempts in the order they began, in one query."""
    query = (
        rows_of(StepAttempt)
        .where(StepAttempt.run_id.in_(run_ids))
        .order_by(StepAttempt.run_id, StepAttempt.position, StepAttempt.attempt)
    )
    found: dict[int, list[StepAttempt]] = {run_id: [] for run_id in run_ids}
    for attempt in database.read(lambda c: fetch(c, StepAttempt, query)) if run_ids else ():
        found[attempt.run_id].append(attempt)
    return found


_LAST = (
    rows_of(StepAttempt)
    .where(StepAttempt.run_id == sa.bindparam("run"))
    .order_by(StepAttempt.position.desc(), StepAttempt.attempt.desc())
    .limit(1)
)


def last_attempt(database: Database, run_id: int) -> StepAttempt | None:
    """Return the attempt that the run began last: the current one."""
    found = database.read(lambda c: fetch(c, StepAttempt, _LAST, {"run": run_id}))
    return found[0] if found else None


def interruptions(database: Database, run_id: int, position: int) -> int:
    """Return how many attempts of a step ended because their conductor was lost."""
    query = (
        sa.select(sa.func.count())
        .select_from(StepAttempt)
        .where(StepAttempt.run_id == run_id, StepAttempt.position == position)
        .where(StepAttempt.outcome == INTERRUPTED)
    )
    return int(database.read(lambda c: c.execute(query).scalar()) or 0)
