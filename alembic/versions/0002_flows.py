"""Cleaning, verifying and servicing; traits, deploy templates and runbooks."""

from typing import Any

import sqlalchemy as sa
from alembic import op

from deploysteps.db import types
from deploysteps.db.models import MYSQL, Big

revision = "0002"
down_revision = "0001"
position = 2
# Programs of 0001 go on writing rows meanwhile: every new column may be null.
compatible_from = 1
# MariaDB keeps what a migration did before it failed, such as at a lock on a
# table that services use. This one goes on from there when it is run again.
goes_on = True

COLUMNS: dict[str, dict[str, Any]] = {
    "nodes": {
        "clean_step": types.Json(),
        "clean_steps": types.Json(),
        "clean_step_index": types.Json(),
        "service_step": types.Json(),
        "service_steps": types.Json(),
        "service_step_index": types.Json(),
        "verify_steps": types.Json(),
        "verify_step_index": types.Json(),
    },
    "step_runs": {
        "request": types.Json(),
        "left_out": types.Json(),
        "mechanism": sa.String(length=16),
        "resumes": sa.String(length=36),
    },
    "step_attempts": {"reboot": sa.Boolean()},
}
INDEXES = (
    ("ix_node_traits_trait", "node_traits", "trait"),
    ("ix_runbooks_owner", "runbooks", "owner"),
)


def upgrade() -> None:
    """Add columns and tables, those that are not there yet."""
    present = sa.inspect(op.get_bind())
    for table, columns in COLUMNS.items():
        known = {column["name"] for column in present.get_columns(table)}
        for name, type_ in columns.items():
            if name not in known:
                op.add_column(table, sa.Column(name, type_, nullable=True))
    for table, make in (
        ("node_traits", _node_traits),
        ("deploy_templates", _deploy_templates),
        ("runbooks", _runbooks),
    ):
        if not present.has_table(table):
            make()
    for name, table, column in INDEXES:
        if not present.has_index(table, name):
            op.create_index(name, table, [column], unique=False)


def _node_traits() -> None:
    op.create_table(
        "node_traits",
        sa.Column("node_id", Big, nullable=False),
        sa.Column("trait", sa.String(length=255), nullable=False),
        sa.ForeignKeyConstraint(
            ["node_id"], ["nodes.id"], name="fk_node_traits_node_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("node_id", "trait", name="pk_node_traits"),
        **MYSQL,
    )


def _deploy_templates() -> None:
    op.create_table(
        "deploy_templates",
        sa.Column("id", Big, autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("created_at", types.Utc(), nullable=False),
        sa.Column("updated_at", types.Utc(), nullable=True),
        sa.Column("steps", types.Json(), nullable=False),
        sa.Column("extra", types.Json(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_deploy_templates"),
        sa.UniqueConstraint("name", name="uq_deploy_templates_name"),
        sa.UniqueConstraint("uuid", name="uq_deploy_templates_uuid"),
        **MYSQL,
    )


def _runbooks() -> None:
    op.create_table(
        "runbooks",
        sa.Column("id", Big, autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=False),
        sa.Column("created_at", types.Utc(), nullable=False),
        sa.Column("updated_at", types.Utc(), nullable=True),
        sa.Column("steps", types.Json(), nullable=False),
        sa.Column("disable_ramdisk", sa.Boolean(), nullable=False),
        sa.Column("public", sa.Boolean(), nullable=False),
        sa.Column("owner", sa.String(length=255), nullable=True),
        sa.Column("description", types.LongText(), nullable=True),
        sa.Column("extra", types.Json(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_runbooks"),
        sa.UniqueConstraint("name", name="uq_runbooks_name"),
        sa.UniqueConstraint("uuid", name="uq_runbooks_uuid"),
        **MYSQL,
    )


def downgrade() -> None:
    """Remove what :func:`upgrade` added."""
    op.drop_table("runbooks")
    op.drop_table("deploy_templates")
    op.drop_table("node_traits")
    for table, columns in COLUMNS.items():
        with op.batch_alter_table(table) as batch:
            for name in columns:
                batch.drop_column(name)
