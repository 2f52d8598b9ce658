"""Events of runs, steps and nodes, and webhooks on their way."""

import sqlalchemy as sa
from alembic import op

from deploysteps.db import types
from deploysteps.db.models import MYSQL, Big

revision = "0003"
down_revision = "0002"
position = 3
# Only tables that older programs do not know.
compatible_from = 1
goes_on = True


def upgrade() -> None:
    """Add the tables, those that are not there yet."""
    present = sa.inspect(op.get_bind())
    for table, make in (
        ("events", _events),
        ("webhook_endpoints", _endpoints),
        ("webhook_deliveries", _deliveries),
    ):
        if not present.has_table(table):
            make()


def _events() -> None:
    op.create_table(
        "events",
        sa.Column("id", Big, autoincrement=True, nullable=False),
        sa.Column("at", types.Utc(), nullable=False),
        sa.Column("type", sa.String(length=32), nullable=False),
        sa.Column("node_uuid", sa.String(length=36), nullable=False),
        sa.Column("run_uuid", sa.String(length=36), nullable=True),
        sa.Column("flow", sa.String(length=16), nullable=True),
        sa.Column("data", types.Json(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
        # Else SQLite gives an id again once its row, the newest, is gone.
        sqlite_autoincrement=True,
        **MYSQL,
    )


def _endpoints() -> None:
    op.create_table(
        "webhook_endpoints",
        sa.Column("id", Big, autoincrement=True, nullable=False),
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("url", types.LongText(), nullable=False),
        sa.Column("cursor", Big, nullable=False),
        sa.Column("holder", sa.String(length=64), nullable=True),
        sa.Column("lease_until", types.Utc(), nullable=True),
        sa.PrimaryKeyConstraint("id", name="pk_webhook_endpoints"),
        sa.UniqueConstraint("key", name="uq_webhook_endpoints_key"),
        **MYSQL,
    )


def _deliveries() -> None:
    op.create_table(
        "webhook_deliveries",
        sa.Column("id", Big, autoincrement=True, nullable=False),
        sa.Column("endpoint_id", Big, nullable=False),
        sa.Column("event_id", Big, nullable=False),
        sa.Column("node_uuid", sa.String(length=36), nullable=False),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("body", types.LongText(), nullable=False),
        sa.Column("created_at", types.Utc(), nullable=False),
        sa.Column("tries", sa.Integer(), nullable=False),
        sa.Column("next_try_at", types.Utc(), nullable=False),
        sa.Column("last_error", types.LongText(), nullable=True),
        sa.ForeignKeyConstraint(
            ["endpoint_id"],
            ["webhook_endpoints.id"],
            name="fk_webhook_deliveries_endpoint_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_webhook_deliveries"),
        sa.UniqueConstraint(
            "endpoint_id", "event_id", name="uq_webhook_deliveries_endpoint_id_event_id"
        ),
        **MYSQL,
    )
    op.create_index(
        "ix_webhook_deliveries_queue",
        "webhook_deliveries",
        ["endpoint_id", "state", "node_uuid", "event_id"],
        unique=False,
    )


def downgrade() -> None:
    """Remove the tables; what was not delivered yet is lost."""
    op.drop_table("webhook_deliveries")
    op.drop_table("webhook_endpoints")
    op.drop_table("events")
