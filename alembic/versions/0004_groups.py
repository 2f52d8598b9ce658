"""Allocations, chassis and portgroups; traits of runbooks; more of a node's history."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from deploysteps.db import types
from deploysteps.db.models import MYSQL, Big

revision = "0004"
down_revision = "0003"
position = 4
# Tables that older programs do not meet, and columns that may be null.
compatible_from = 1
# As 0002: on MariaDB it goes on from where it broke off.
goes_on = True

HISTORY: dict[str, Any] = {
    "project": sa.String(length=255),
    "state": sa.String(length=40),
    "target_provision_state": sa.String(length=40),
    "duration_seconds": sa.Integer(),
}
INDEXES = (
    ("ix_allocations_state", "allocations", "state"),
    ("ix_allocations_owner", "allocations", "owner"),
    ("ix_allocations_resource_class", "allocations", "resource_class"),
    ("ix_portgroups_node_id", "portgroups", "node_id"),
    ("ix_ports_portgroup_uuid", "ports", "portgroup_uuid"),
)


def upgrade() -> None:
    """Add columns and tables, those that are not there yet."""
    present = sa.inspect(op.get_bind())
    known = {column["name"] for column in present.get_columns("node_history")}
    for name, type_ in HISTORY.items():
        if name not in known:
            op.add_column("node_history", sa.Column(name, type_, nullable=True))
    for table, make in TABLES.items():
        if not present.has_table(table):
            make(table)
    for name, table, column in INDEXES:
        if not present.has_index(table, name):
            op.create_index(name, table, [column], unique=False)


def _named(table: str, *columns: Any) -> None:
    op.create_table(
        table,
        sa.Column("id", Big, autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("created_at", types.Utc(), nullable=False),
        sa.Column("updated_at", types.Utc(), nullable=True),
        sa.Column("extra", types.Json(), nullable=False),
        *columns,
        sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
        sa.UniqueConstraint("uuid", name=f"uq_{table}_uuid"),
        **MYSQL,
    )


def _of_a_node(table: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["node_id"], ["nodes.id"], name=f"fk_{table}_node_id", ondelete="CASCADE"
    )


def _allocations(table: str) -> None:
    _named(
        table,
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("node_id", Big, nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("owner", sa.String(length=255), nullable=True),
        sa.Column("last_error", types.LongText(), nullable=True),
        sa.Column("resource_class", sa.String(length=80), nullable=True),
        sa.Column("traits", types.Json(), nullable=False),
        sa.Column("candidate_nodes", types.Json(), nullable=False),
        _of_a_node(table),
        sa.UniqueConstraint("name", name="uq_allocations_name"),
        sa.UniqueConstraint("node_id", name="uq_allocations_node_id"),
    )


def _runbook_traits(table: str) -> None:
    op.create_table(
        table,
        sa.Column("runbook_id", Big, nullable=False),
        sa.Column("trait", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(
            ["runbook_id"], ["runbooks.id"], name="fk_runbook_traits_runbook_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("runbook_id", "trait", name="pk_runbook_traits"),
        **MYSQL,
    )


def _chassis(table: str) -> None:
    _named(table, sa.Column("description", sa.String(length=255), nullable=True))


def _portgroups(table: str) -> None:
    _named(
        table,
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("node_id", Big, nullable=False),
        sa.Column("node_uuid", sa.String(length=36), nullable=False),
        sa.Column("address", sa.String(length=64), nullable=True),
        sa.Column("internal_info", types.Json(), nullable=False),
        sa.Column("standalone_ports_supported", sa.Boolean(), nullable=False),
        sa.Column("mode", sa.String(length=255), nullable=True),
        sa.Column("properties", types.Json(), nullable=False),
        sa.Column("physical_network", sa.String(length=64), nullable=True),
        sa.Column("category", sa.String(length=80), nullable=True),
        sa.Column("dynamic_portgroup", sa.Boolean(), nullable=False),
        _of_a_node(table),
        sa.UniqueConstraint("name", name="uq_portgroups_name"),
        sa.UniqueConstraint("address", name="uq_portgroups_address"),
    )


TABLES = {
    "allocations": _allocations,
    "runbook_traits": _runbook_traits,
    "chassis": _chassis,
    "portgroups": _portgroups,
}


def downgrade() -> None:
    """Remove what :func:`upgrade` added."""
    for table in reversed(TABLES):
        op.drop_table(table)
    op.drop_index("ix_ports_portgroup_uuid", "ports")
    with op.batch_alter_table("node_history") as batch:
        for name in HISTORY:
            batch.drop_column(name)
