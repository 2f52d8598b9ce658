"""The tables of what is told to watchers: events, and webhooks on their way."""

from __future__ import annotations

import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from deploysteps.db import types
from deploysteps.db.models import Base, Big

_NEVER_AGAIN = {"sqlite_autoincrement": True}
"""Else SQLite gives an id again once its row, the newest, is gone."""


class Event(Base):
    """A transition of a run, a step or a node, written in the transaction that made it.

    Nothing refers to other tables: an event outlives what it tells of. Its id
    is never given again, also when every event is gone.
    """

    __tablename__ = "events"

    id: Mapped[int] = mapped_column(Big, primary_key=True, autoincrement=True)
    at: Mapped[datetime.datetime] = mapped_column(types.UTC)
    type: Mapped[str] = mapped_column(types.short_text(32))
    node_uuid: Mapped[str] = mapped_column(types.UUID)
    run_uuid: Mapped[str | None] = mapped_column(types.UUID)
    flow: Mapped[str | None] = mapped_column(types.short_text(16))
    data: Mapped[dict[str, Any]] = mapped_column(types.JSON)
    """What else there is to tell: step, attempt, outcome, error, states."""

    __table_args__ = (_NEVER_AGAIN,)


class WebhookEndpoint(Base):
    """How far the events were taken for a receiver, and which conductor serves it now."""

    __tablename__ = "webhook_endpoints"

    id: Mapped[int] = mapped_column(Big, primary_key=True, autoincrement=True)
    key: Mapped[str] = mapped_column(types.short_text(64), unique=True)
    """Digest of its URL, which may hold what is secret."""
    url: Mapped[str] = mapped_column(types.LONG_TEXT)
    """For people, masked."""
    cursor: Mapped[int] = mapped_column(Big)
    """The newest event that was looked at."""
    holder: Mapped[str | None] = mapped_column(types.short_text(64))
    """The process that delivers to it, until its lease is over; its boot id comes last."""
    lease_until: Mapped[datetime.datetime | None] = mapped_column(types.UTC)

    __table_args__ = (_NEVER_AGAIN,)


class WebhookDelivery(Base):
    """An event that a receiver has not taken yet; it goes when it has."""

    __tablename__ = "webhook_deliveries"

    id: Mapped[int] = mapped_column(Big, primary_key=True, autoincrement=True)
    endpoint_id: Mapped[int] = mapped_column(
        Big, sa.ForeignKey("webhook_endpoints.id", ondelete="CASCADE")
    )
    event_id: Mapped[int] = mapped_column(Big)
    node_uuid: Mapped[str] = mapped_column(types.UUID)
    state: Mapped[str] = mapped_column(types.short_text(16))
    """``pending`` or ``dead``."""
    body: Mapped[str] = mapped_column(types.LONG_TEXT)
    """What is sent; it stays when its event is gone."""
    created_at: Mapped[datetime.datetime] = mapped_column(types.UTC)
    tries: Mapped[int] = mapped_column(sa.Integer, default=0)
    next_try_at: Mapped[datetime.datetime] = mapped_column(types.UTC)
    last_error: Mapped[str | None] = mapped_column(types.LONG_TEXT)

    __table_args__ = (
        sa.UniqueConstraint("endpoint_id", "event_id"),
        sa.Index("ix_webhook_deliveries_queue", "endpoint_id", "state", "node_uuid", "event_id"),
        _NEVER_AGAIN,
    )
