"""The statements that accompany a fenced write: runs, attempts, history."""

from __future__ import annotations

import datetime
import functools
from collections.abc import Mapping
from typing import Any, NamedTuple
from uuid import uuid4

import sqlalchemy as sa

from deploysteps.db import events, types
from deploysteps.db.engine import Database, again
from deploysteps.db.locks import Also
from deploysteps.db.models import Node, NodeHistory, StepAttempt, StepRun, table
from deploysteps.db.pages import exists
from deploysteps.db.runs import FINISHED, RUNNING, WAITING

_ATTEMPT = table(StepAttempt)
_RUN = table(StepRun)
_NODE = table(Node)
_INSERT_ATTEMPT = sa.insert(_ATTEMPT)
_HISTORY = table(NodeHistory)
_INSERT_HISTORY = sa.insert(_HISTORY)


class Key(NamedTuple):
    """What names an attempt for ever."""

    run_id: int
    position: int
    attempt: int


def key_of(attempt: StepAttempt) -> Key:
    """Return an attempt's name."""
    return Key(attempt.run_id, attempt.position, attempt.attempt)


def _where(statement: Any) -> Any:
    return statement.where(
        _ATTEMPT.c.run_id == sa.bindparam("k_run"),
        _ATTEMPT.c.position == sa.bindparam("k_position"),
        _ATTEMPT.c.attempt == sa.bindparam("k_attempt"),
    )


def _named(key: Key) -> dict[str, Any]:
    return {"k_run": key.run_id, "k_position": key.position, "k_attempt": key.attempt}


def _bound(*names: str) -> dict[str, Any]:
    return {name: sa.bindparam(f"v_{name}", type_=_ATTEMPT.c[name].type) for name in names}


_NO_WAIT: dict[str, Any] = {
    "owner": None,
    "due_at": None,
    "deadline_at": None,
    "signal": None,
    "signal_detail": None,
    "poll": None,
    "reenter": False,
    "reboot": False,
}

_UNFINISHED = _where(sa.update(_ATTEMPT)).where(_ATTEMPT.c.state != FINISHED)
_FINISH = _UNFINISHED.values(
    state=FINISHED, **_bound("finished_at", "outcome", "error", "evidence"), **_NO_WAIT
)
_WAIT_COLUMNS = ("owner", "reenter", "reboot", "waiting_since", "due_at", "deadline_at", "poll")
_BEGIN_RUNNING = (
    *Key._fields,
    "node_id",
    "interface",
    "step",
    "step_id",
    "state",
    "conductor",
    "started_at",
)
_BEGIN_WAITING = (*_BEGIN_RUNNING, *_WAIT_COLUMNS)
_NOT_CUT_SHORT = _ATTEMPT.c.signal.is_(None) | (_ATTEMPT.c.signal != "abort")
_WAIT = _UNFINISHED.where(_NOT_CUT_SHORT).values(
    state=WAITING, signal=None, signal_detail=None, **_bound(*_WAIT_COLUMNS, "evidence")
)
_UNSIGNALLED = _ATTEMPT.c.signal.is_(None) | (_ATTEMPT.c.signal == "beat")
_REARM = (
    _where(sa.update(_ATTEMPT))
    .where(_ATTEMPT.c.state == WAITING, _UNSIGNALLED)
    .values(signal=None, signal_detail=None, **_bound("due_at", "poll", "evidence"))
)
_ENTER = (
    _where(sa.update(_ATTEMPT))
    .where(_ATTEMPT.c.state == WAITING, _NOT_CUT_SHORT)
    .values(state=RUNNING, conductor=sa.bindparam("v_conductor"), **_NO_WAIT)
)
_SIGNAL = (
    _where(sa.update(_ATTEMPT))
    .where(_ATTEMPT.c.state == WAITING, _UNSIGNALLED)
    .values(**_bound("signal", "signal_detail", "due_at"))
)
_SIGNAL_OF_WAIT = _SIGNAL.where(
    _ATTEMPT.c.waiting_since == sa.bindparam("k_since", type_=types.Utc())
)
_CUT_SHORT = _UNFINISHED.where(_UNSIGNALLED).values(signal="abort", **_bound("due_at"))


_HOLD_RUN = (
    sa.update(_RUN)
    .where(_RUN.c.id == sa.bindparam("k_run"), _RUN.c.abort_requested_at.is_(None))
    .values(finished_at=None)
)
_END_RUN = (
    sa.update(_RUN)
    .where(_RUN.c.id == sa.bindparam("k_run"), _RUN.c.finished_at.is_(None))
    .values(
        finished_at=sa.bindparam("v_finished_at", type_=types.Utc()),
        outcome=sa.bindparam("v_outcome"),
        error=sa.bindparam("v_error", type_=types.LongText()),
    )
)
_END_RUN_UNLESS_ABORT = _END_RUN.where(_RUN.c.abort_requested_at.is_(None))


def begin(attempt: StepAttempt) -> Also:
    """Insert an attempt that runs now, or that waits first (a retry's pause)."""
    columns = _BEGIN_RUNNING if attempt.owner is None else _BEGIN_WAITING
    kind = events.STEP_RETRIED if attempt.attempt > 1 else events.STEP_STARTED
    return Also(
        _INSERT_ATTEMPT,
        {name: getattr(attempt, name) for name in columns},
        tells=_told(attempt, kind, conductor=attempt.conductor, waits_for=attempt.owner),
    )


def _told(attempt: StepAttempt, kind: str, **more: Any) -> events.New:
    """Return an event of a step."""
    named = {
        "interface": attempt.interface,
        "step": attempt.step,
        "position": attempt.position,
        "attempt": attempt.attempt,
    }
    return events.New(kind, attempt.run_id, {**named, **more})


_ENDED_BADLY = ("failed", "timeout", "interrupted")
"""Outcomes of an attempt that nobody has asked for."""


def finish(
    attempt: StepAttempt,
    outcome: str,
    now: datetime.datetime,
    *,
    error: str | None = None,
    evidence: Mapping[str, Any] | None = None,
) -> Also:
    """End an attempt that has not ended."""
    values = {
        "v_finished_at": now,
        "v_outcome": outcome,
        "v_error": error,
        "v_evidence": dict(evidence) if evidence else None,
        **_named(key_of(attempt)),
    }
    told = _told(
        attempt,
        events.STEP_FAILED if outcome in _ENDED_BADLY else events.STEP_FINISHED,
        outcome=outcome,
        seconds=round(max((now - attempt.started_at).total_seconds(), 0.0), 6),
        error=events.shortened(error),
    )
    return Also(_FINISH, values, must=True, tells=told)


def wait(attempt: StepAttempt, values: Mapping[str, Any]) -> Also:
    """Let an attempt wait, unless it is to be cut short; ``values`` has ``owner`` and so on."""
    bound = {f"v_{name}": values.get(name) for name in _WAIT_COLUMNS}
    bound["v_evidence"] = dict(attempt.evidence) if attempt.evidence else None
    told = _told(attempt, events.STEP_WAITING, waits_for=values.get("owner"))
    return Also(_WAIT, {**bound, **_named(key_of(attempt))}, must=True, tells=told)


_STILL_WAITS = _where(sa.update(_ATTEMPT)).where(_ATTEMPT.c.state == WAITING).values(state=WAITING)


def still_waits(key: Key) -> Also:
    """Change nothing, and match nothing when the attempt does not wait any more."""
    return Also(_STILL_WAITS, _named(key), must=True)


def rearm(
    key: Key,
    due_at: datetime.datetime | None,
    poll: Mapping[str, Any] | None,
    evidence: Mapping[str, Any] | None,
) -> Also:
    """Let a waiting attempt go on waiting until ``due_at``."""
    values = {
        "v_due_at": due_at,
        "v_poll": dict(poll) if poll else None,
        "v_evidence": dict(evidence) if evidence else None,
        **_named(key),
    }
    return Also(_REARM, values, must=True)


def enter(attempt: StepAttempt, conductor: str) -> Also:
    """Let a waiting attempt run (again), unless it is to be cut short."""
    values = {"v_conductor": conductor, **_named(key_of(attempt))}
    told = _told(attempt, events.STEP_RESUMED, conductor=conductor)
    return Also(_ENTER, values, must=True, tells=told)


def signal(
    key: Key,
    kind: str,
    detail: str | None = None,
    since: datetime.datetime | None = None,
) -> Also:
    """Say of a waiting attempt that it is done, failed, or that a beat came.

    :param since: of the wait that is meant; an attempt that is entered again
        may wait more than once.
    """
    values = {"v_signal": kind, "v_signal_detail": detail, "v_due_at": types.utcnow()}
    named = {**values, **_named(key)}
    if since is None:
        return Also(_SIGNAL, named, must=True)
    return Also(_SIGNAL_OF_WAIT, {**named, "k_since": since}, must=True)


def _cut_short(key: Key) -> Also:
    """End the wait of an attempt at once: that it is in, or, of one that runs, that it comes to."""
    return Also(_CUT_SHORT, {"v_due_at": types.utcnow(), **_named(key)})


def cut_short(database: Database, key: Key) -> None:
    """Tell an attempt without a lock that it is not to wait, or not any longer."""
    told = _cut_short(key)
    database.write(lambda c: c.execute(told.statement, told.values) and None, happened=again)


def send_signal(
    database: Database,
    key: Key,
    kind: str,
    detail: str | None = None,
    since: datetime.datetime | None = None,
) -> bool:
    """Write a signal without a lock; False when nothing waits for it."""
    sent = signal(key, kind, detail, since)
    return (
        database.write(lambda c: c.execute(sent.statement, sent.values).rowcount, happened=again)
        == 1
    )


_PROGRESS = _UNFINISHED.values(**_bound("progress"))


def report_progress(database: Database, key: Key, progress: Mapping[str, Any]) -> None:
    """Write how far an attempt is; no lock, and nothing once it has ended."""
    values = {"v_progress": dict(progress), **_named(key)}
    database.write(lambda c: c.execute(_PROGRESS, values) and None, happened=again)


_ABORT_RUN = (
    sa.update(_RUN)
    .where(_RUN.c.id == sa.bindparam("k_run"))
    .where(_RUN.c.finished_at.is_(None), _RUN.c.abort_requested_at.is_(None))
    .values(
        abort_requested_at=sa.bindparam("v_at", type_=types.Utc()),
        abort_requested_by=sa.bindparam("v_by"),
    )
)


def ask_abort(database: Database, run_id: int, by: str, also: Key | None = None) -> bool:
    """Note, without a lock, that a run is to end; False if it ended or was asked before.

    :param also: an attempt that is told in the same transaction: an abort that
        is noted and then forgotten would leave it waiting.
    """
    now = types.utcnow()

    def work(connection: sa.Connection) -> bool:
        if also is not None:  # first the attempt, then the run, as the engine locks them
            told = _cut_short(also)
            connection.execute(told.statement, told.values)
        values = {"k_run": run_id, "v_at": now, "v_by": by[:255]}
        return connection.execute(_ABORT_RUN, values).rowcount == 1

    return database.write(work, happened=again)


def start_run(connection: sa.Connection, **values: Any) -> tuple[int, str]:
    """Insert a run and return its row id and uuid.

    :param values: columns of :class:`~deploysteps.db.models.StepRun`.
    """
    uuid = str(uuid4())
    by = values.pop("requested_by", None)
    result = connection.execute(
        sa.insert(_RUN).values(uuid=uuid, requested_by=by[:255] if by else None, **values)
    )
    return int((result.inserted_primary_key or (0,))[0]), uuid


def set_current_run(node_id: int, run_id: int) -> sa.Update:
    """Return the UPDATE that makes a run the node's current one."""
    return sa.update(_NODE).where(_NODE.c.id == node_id).values(run_id=run_id)


def unless_abort(run_id: int) -> Also:
    """Hold the run's row, so that an abort comes before this write or after it."""
    return Also(_HOLD_RUN, {"k_run": run_id}, must=True)


def save_plan(run_id: int, plan: list[dict[str, Any]]) -> Also:
    """Keep a plan that changed in flight."""
    return Also(sa.update(_RUN).where(_RUN.c.id == run_id), {"plan": plan})


def save_left_out(run_id: int, left_out: list[dict[str, Any]]) -> Also:
    """Keep which steps do not run, of a plan that was made anew in flight."""
    return Also(sa.update(_RUN).where(_RUN.c.id == run_id), {"left_out": left_out or None})


def end_run(
    run_id: int,
    outcome: str,
    error: str | None,
    now: datetime.datetime,
    *,
    good: bool,
    note: str | None = None,
) -> Also:
    """End a run that has not ended; a good end gives way to an abort asked for.

    :param note: why it ended well with nothing done; those who listen are told.
    """
    values = {"k_run": run_id, "v_finished_at": now, "v_outcome": outcome, "v_error": error}
    told = {"outcome": outcome, "error": events.shortened(error)}
    if note:
        told["note"] = events.shortened(note)
    return Also(
        _END_RUN_UNLESS_ABORT if good else _END_RUN,
        values,
        must=True,
        tells=events.New(events.RUN_FINISHED, run_id, told),
    )


_ASKED_BY = sa.select(_RUN.c.requested_by).where(_RUN.c.id == sa.bindparam("k_run"))


def history(row: Mapping[str, Any], run_id: int | None = None) -> Also:
    """Insert a history entry.

    :param run_id: the run that it tells of, when nobody else is told to have asked: a run that
        waits goes on in the conductor's name, and is still of who asked for it.
    """
    if run_id is None or row.get("user"):
        return Also(_INSERT_HISTORY, dict(row))
    named = tuple(name for name in row if name != "user")
    return Also(
        _insert_of_run(named), {**{f"v_{name}": row[name] for name in named}, "k_run": run_id}
    )


@functools.cache
def _insert_of_run(named: tuple[str, ...]) -> sa.Insert:
    values = {name: sa.bindparam(f"v_{name}", type_=_HISTORY.c[name].type) for name in named}
    return sa.insert(_HISTORY).values(**values, user=_ASKED_BY.scalar_subquery())


def tell(database: Database, row: Mapping[str, Any]) -> None:
    """Insert a history entry alone, once."""
    database.write(
        lambda connection: connection.execute(_INSERT_HISTORY, dict(row)),
        happened=lambda connection: exists(connection, NodeHistory, row["uuid"]),
    )
