"""The tables of what brings nodes and ports together: allocations, chassis, portgroups."""

from __future__ import annotations

import datetime

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from deploysteps.db import types
from deploysteps.db.models import Base, Big, Json


class _Named:
    """Columns that these tables share."""

    id: Mapped[int] = mapped_column(Big, primary_key=True, autoincrement=True)
    uuid: Mapped[str] = mapped_column(types.UUID, unique=True)
    created_at: Mapped[datetime.datetime] = mapped_column(types.UTC, default=types.utcnow)
    updated_at: Mapped[datetime.datetime | None] = mapped_column(types.UTC)
    extra: Mapped[Json] = mapped_column(types.JSON, default=dict)


class Allocation(_Named, Base):
    """A wish for a node, and the node that it got, whose ``instance_uuid`` is its uuid then."""

    __tablename__ = "allocations"

    name: Mapped[str | None] = mapped_column(types.short_text(), unique=True)
    node_id: Mapped[int | None] = mapped_column(
        Big, sa.ForeignKey("nodes.id", ondelete="CASCADE"), unique=True
    )
    state: Mapped[str] = mapped_column(types.short_text(16), index=True)
    """``allocating``, ``active`` or ``error``."""
    owner: Mapped[str | None] = mapped_column(types.short_text(), index=True)
    last_error: Mapped[str | None] = mapped_column(types.LONG_TEXT)
    resource_class: Mapped[str | None] = mapped_column(types.short_text(80), index=True)
    traits: Mapped[list[str]] = mapped_column(types.JSON, default=list)
    candidate_nodes: Mapped[list[str]] = mapped_column(types.JSON, default=list)


class RunbookTrait(Base):
    """A trait of nodes that a runbook is for."""

    __tablename__ = "runbook_traits"

    runbook_id: Mapped[int] = mapped_column(
        Big, sa.ForeignKey("runbooks.id", ondelete="CASCADE"), primary_key=True
    )
    trait: Mapped[str] = mapped_column(types.short_text(), primary_key=True)


class Chassis(_Named, Base):
    """A case that nodes stand in."""

    __tablename__ = "chassis"

    description: Mapped[str | None] = mapped_column(types.short_text())


class Portgroup(_Named, Base):
    """Ports of a node that are one link."""

    __tablename__ = "portgroups"

    name: Mapped[str | None] = mapped_column(types.short_text(), unique=True)
    node_id: Mapped[int] = mapped_column(
        Big, sa.ForeignKey("nodes.id", ondelete="CASCADE"), index=True
    )
    node_uuid: Mapped[str] = mapped_column(types.UUID)
    address: Mapped[str | None] = mapped_column(types.short_text(64), unique=True)
    internal_info: Mapped[Json] = mapped_column(types.JSON, default=dict)
    standalone_ports_supported: Mapped[bool] = mapped_column(default=True)
    mode: Mapped[str | None] = mapped_column(types.short_text())
    properties: Mapped[Json] = mapped_column(types.JSON, default=dict)
    physical_network: Mapped[str | None] = mapped_column(types.short_text(64))
    category: Mapped[str | None] = mapped_column(types.short_text(80))
    dynamic_portgroup: Mapped[bool] = mapped_column(default=False)
