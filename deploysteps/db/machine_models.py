"""The tables of what is known of a machine itself: settings, firmware, inventory."""

from __future__ import annotations

import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, mapped_column

from deploysteps.db import types
from deploysteps.db.models import Base, Big, Json


class _OfANode:
    """Columns that these tables share; their rows go with the node."""

    created_at: Mapped[datetime.datetime] = mapped_column(types.UTC, default=types.utcnow)
    updated_at: Mapped[datetime.datetime | None] = mapped_column(types.UTC)


def _node() -> Any:
    return mapped_column(Big, sa.ForeignKey("nodes.id", ondelete="CASCADE"), primary_key=True)


class BIOSSetting(_OfANode, Base):
    """A setting of the machine's firmware, as the machine said last."""

    __tablename__ = "bios_settings"

    node_id: Mapped[int] = _node()
    name: Mapped[str] = mapped_column(types.short_text(), primary_key=True)
    value: Mapped[str | None] = mapped_column(types.LONG_TEXT)
    attribute_type: Mapped[str | None] = mapped_column(types.short_text())
    allowable_values: Mapped[list[str] | None] = mapped_column(types.JSON)
    lower_bound: Mapped[int | None] = mapped_column(sa.BigInteger)
    upper_bound: Mapped[int | None] = mapped_column(sa.BigInteger)
    min_length: Mapped[int | None] = mapped_column(sa.BigInteger)
    max_length: Mapped[int | None] = mapped_column(sa.BigInteger)
    read_only: Mapped[bool | None]
    reset_required: Mapped[bool | None]
    unique: Mapped[bool | None]


class FirmwareComponent(_OfANode, Base):
    """A part of the machine that has firmware, and which."""

    __tablename__ = "firmware_components"

    node_id: Mapped[int] = _node()
    component: Mapped[str] = mapped_column(types.short_text(), primary_key=True)
    initial_version: Mapped[str | None] = mapped_column(types.short_text())
    current_version: Mapped[str | None] = mapped_column(types.short_text())
    last_version_flashed: Mapped[str | None] = mapped_column(types.short_text())
    vendor: Mapped[str | None] = mapped_column(types.short_text())
    model: Mapped[str | None] = mapped_column(types.short_text())
    serial_number: Mapped[str | None] = mapped_column(types.short_text())


class NodeInventory(_OfANode, Base):
    """What the last inspection found."""

    __tablename__ = "node_inventory"

    node_id: Mapped[int] = _node()
    inventory_data: Mapped[Json] = mapped_column(types.JSON)
    plugin_data: Mapped[Json] = mapped_column(types.JSON)
