"""What the database tells of the whole service, for ``/metrics``; bounded, and one read."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import sqlalchemy as sa

from deploysteps.db import types
from deploysteps.db.engine import Database
from deploysteps.db.event_models import WebhookDelivery
from deploysteps.db.models import Node, StepAttempt, table
from deploysteps.db.pages import has
from deploysteps.db.runs import WAITING
from deploysteps.db.webhooks import DEAD, PENDING
from deploysteps.steps import OWNERS

_N, _A, _D = table(Node), table(StepAttempt), table(WebhookDelivery)
_COUNT = sa.func.count()


@dataclasses.dataclass
class Found:
    """What there is now."""

    nodes: dict[str, int] = dataclasses.field(default_factory=dict)
    """Provision state -> nodes."""
    locked: int = 0
    waits: dict[str, int] = dataclasses.field(default_factory=dict)
    """Who ends it -> waiting steps."""
    due: int = 0
    """Waiting steps that are due and that nobody has taken on yet."""
    webhooks: dict[str, int] = dataclasses.field(default_factory=dict)
    """State -> webhooks that were not taken."""
    oldest: datetime.datetime | None = None
    """Since when the oldest of them waits, dead ones left out."""


def _counted(kind: str, label: Any, *where: Any, of: sa.Table) -> sa.Select[Any]:
    grouped = sa.select(sa.literal(kind), label, _COUNT).select_from(of).where(*where)
    return grouped.group_by(label)


def _query(now: datetime.datetime) -> sa.CompoundSelect[Any]:
    waits = (_A.c.owner.in_(OWNERS), _A.c.state == WAITING)
    one: sa.ColumnElement[str] = sa.literal_column("''")
    return sa.union_all(
        _counted("nodes", _N.c.provision_state, of=_N),
        sa.select(sa.literal("locked"), one, _COUNT).where(has(_N.c.reservation)),
        _counted("waits", _A.c.owner, *waits, of=_A),
        sa.select(sa.literal("due"), one, _COUNT).select_from(_A).where(*waits, _A.c.due_at <= now),
        _counted("webhooks", _D.c.state, of=_D),
    )


def found(database: Database) -> Found:
    """Return what there is now."""
    query = _query(types.utcnow())
    oldest = sa.select(sa.func.min(_D.c.created_at)).where(_D.c.state == PENDING)

    def work(connection: sa.Connection) -> Found:
        told = Found(waits=dict.fromkeys(OWNERS, 0), webhooks={PENDING: 0, DEAD: 0})
        for kind, label, count in connection.execute(query):
            if kind in ("locked", "due"):
                setattr(told, kind, int(count))
            else:
                getattr(told, kind)[label] = int(count)
        told.oldest = connection.scalar(oldest)
        return told

    return database.read(work)
