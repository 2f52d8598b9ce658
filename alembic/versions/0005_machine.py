"""What is known of a machine itself: settings, firmware, inventory."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from deploysteps.db import types
from deploysteps.db.models import MYSQL, Big

revision = "0005"
down_revision = "0004"
position = 5
# New tables only, whose rows go with their node: programs of 0001 do not meet them.
compatible_from = 1
# As 0002: on MariaDB it goes on from where it broke off.
goes_on = True


def upgrade() -> None:
    """Add the tables, those that are not there yet."""
    present = sa.inspect(op.get_bind())
    for name, make in TABLES.items():
        if not present.has_table(name):
            make(name)


def _of_a_node(name: str, key: str | None, *columns: sa.Column[Any]) -> None:
    op.create_table(
        name,
        sa.Column("node_id", Big, nullable=False),
        *columns,
        sa.Column("created_at", types.Utc(), nullable=False),
        sa.Column("updated_at", types.Utc(), nullable=True),
        sa.ForeignKeyConstraint(
            ["node_id"], ["nodes.id"], name=f"fk_{name}_node_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("node_id", *([key] if key else []), name=f"pk_{name}"),
        **MYSQL,
    )


def _texts(*names: str) -> list[sa.Column[Any]]:
    return [sa.Column(name, sa.String(length=255), nullable=True) for name in names]


def _bios_settings(name: str) -> None:
    bounds = ("lower_bound", "upper_bound", "min_length", "max_length")
    flags = ("read_only", "reset_required", "unique")
    _of_a_node(
        name,
        "name",
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("value", types.LongText(), nullable=True),
        *_texts("attribute_type"),
        sa.Column("allowable_values", types.Json(), nullable=True),
        *(sa.Column(column, sa.BigInteger(), nullable=True) for column in bounds),
        *(sa.Column(column, sa.Boolean(), nullable=True) for column in flags),
    )


def _firmware_components(name: str) -> None:
    versions = ("initial_version", "current_version", "last_version_flashed")
    _of_a_node(
        name,
        "component",
        sa.Column("component", sa.String(length=255), nullable=False),
        *_texts(*versions, "vendor", "model", "serial_number"),
    )


def _node_inventory(name: str) -> None:
    _of_a_node(
        name,
        None,
        sa.Column("inventory_data", types.Json(), nullable=False),
        sa.Column("plugin_data", types.Json(), nullable=False),
    )


TABLES = {
    "bios_settings": _bios_settings,
    "firmware_components": _firmware_components,
    "node_inventory": _node_inventory,
}


def downgrade() -> None:
    """Remove what :func:`upgrade` added."""
    for name in reversed(TABLES):
        op.drop_table(name)
