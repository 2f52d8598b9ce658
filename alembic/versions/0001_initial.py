"""The first schema."""

import sqlalchemy as sa
from alembic import op

from deploysteps.db import types
from deploysteps.db.models import MYSQL, Big

revision = "0001"
down_revision = None
position = 1
compatible_from = 1


def upgrade() -> None:
    """Make every table."""
    op.create_table(
        "conductors",
        sa.Column("id", Big, autoincrement=True, nullable=False),
        sa.Column("hostname", sa.String(length=255), nullable=False),
        sa.Column("boot_id", sa.String(length=32), nullable=False),
        sa.Column("online", sa.Boolean(), nullable=False),
        sa.Column("conductor_group", sa.String(length=255), nullable=False),
        sa.Column("created_at", types.Utc(), nullable=False),
        sa.Column("updated_at", types.Utc(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_conductors"),
        sa.UniqueConstraint("hostname", name="uq_conductors_hostname"),
        **MYSQL,
    )
    op.create_index("ix_conductors_alive", "conductors", ["online", "updated_at"], unique=False)
    op.create_table(
        "nodes",
        sa.Column("id", Big, autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("created_at", types.Utc(), nullable=False),
        sa.Column("updated_at", types.Utc(), nullable=True),
        sa.Column("driver", sa.String(length=255), nullable=False),
        sa.Column("driver_info", types.Json(), nullable=False),
        sa.Column("properties", types.Json(), nullable=False),
        sa.Column("extra", types.Json(), nullable=False),
        sa.Column("instance_info", types.Json(), nullable=False),
        sa.Column("network_data", types.Json(), nullable=False),
        sa.Column("raid_config", types.Json(), nullable=False),
        sa.Column("target_raid_config", types.Json(), nullable=False),
        sa.Column("provision_state", sa.String(length=40), nullable=False),
        sa.Column("target_provision_state", sa.String(length=40), nullable=True),
        sa.Column("provision_updated_at", types.Utc(), nullable=True),
        sa.Column("power_state", sa.String(length=40), nullable=True),
        sa.Column("target_power_state", sa.String(length=40), nullable=True),
        sa.Column("last_error", types.LongText(), nullable=True),
        sa.Column("maintenance", sa.Boolean(), nullable=False),
        sa.Column("maintenance_reason", types.LongText(), nullable=True),
        sa.Column("fault", sa.String(length=255), nullable=True),
        sa.Column("instance_uuid", sa.String(length=36), nullable=True),
        sa.Column("instance_name", sa.String(length=255), nullable=True),
        sa.Column("chassis_uuid", sa.String(length=36), nullable=True),
        sa.Column("resource_class", sa.String(length=255), nullable=True),
        sa.Column("conductor_group", sa.String(length=255), nullable=False),
        sa.Column("owner", sa.String(length=255), nullable=True),
        sa.Column("lessee", sa.String(length=255), nullable=True),
        sa.Column("description", types.LongText(), nullable=True),
        sa.Column("shard", sa.String(length=255), nullable=True),
        sa.Column("parent_node", sa.String(length=36), nullable=True),
        sa.Column("boot_mode", sa.String(length=16), nullable=True),
        sa.Column("secure_boot", sa.Boolean(), nullable=True),
        sa.Column("console_enabled", sa.Boolean(), nullable=False),
        sa.Column("automated_clean", sa.Boolean(), nullable=True),
        sa.Column("protected", sa.Boolean(), nullable=False),
        sa.Column("protected_reason", types.LongText(), nullable=True),
        sa.Column("retired", sa.Boolean(), nullable=False),
        sa.Column("retired_reason", types.LongText(), nullable=True),
        sa.Column("disable_power_off", sa.Boolean(), nullable=False),
        sa.Column("inspection_started_at", types.Utc(), nullable=True),
        sa.Column("inspection_finished_at", types.Utc(), nullable=True),
        sa.Column("bios_interface", sa.String(length=255), nullable=True),
        sa.Column("boot_interface", sa.String(length=255), nullable=True),
        sa.Column("console_interface", sa.String(length=255), nullable=True),
        sa.Column("deploy_interface", sa.String(length=255), nullable=True),
        sa.Column("firmware_interface", sa.String(length=255), nullable=True),
        sa.Column("inspect_interface", sa.String(length=255), nullable=True),
        sa.Column("management_interface", sa.String(length=255), nullable=True),
        sa.Column("network_interface", sa.String(length=255), nullable=True),
        sa.Column("power_interface", sa.String(length=255), nullable=True),
        sa.Column("raid_interface", sa.String(length=255), nullable=True),
        sa.Column("rescue_interface", sa.String(length=255), nullable=True),
        sa.Column("storage_interface", sa.String(length=255), nullable=True),
        sa.Column("vendor_interface", sa.String(length=255), nullable=True),
        sa.Column("reservation", sa.String(length=255), nullable=True),
        sa.Column("lock_token", sa.String(length=32), nullable=True),
        sa.Column("lock_purpose", sa.String(length=255), nullable=True),
        sa.Column("locked_at", types.Utc(), nullable=True),
        sa.Column("generation", Big, nullable=False),
        sa.Column("run_id", Big, nullable=True),
        sa.Column("deploy_step", types.Json(), nullable=True),
        sa.Column("deploy_steps", types.Json(), nullable=True),
        sa.Column("deploy_step_index", types.Json(), nullable=True),
        sa.Column("agent_url", types.LongText(), nullable=True),
        sa.Column("agent_version", sa.String(length=255), nullable=True),
        sa.Column("agent_secret_token", sa.String(length=128), nullable=True),
        sa.Column("agent_last_heartbeat", types.Utc(), nullable=True),
        sa.Column("agent_verify_ca", types.LongText(), nullable=True),
        sa.Column("driver_internal_info", types.Json(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_nodes"),
        sa.UniqueConstraint("instance_uuid", name="uq_nodes_instance_uuid"),
        sa.UniqueConstraint("name", name="uq_nodes_name"),
        sa.UniqueConstraint("uuid", name="uq_nodes_uuid"),
        **MYSQL,
    )
    op.create_index("ix_nodes_conductor_group", "nodes", ["conductor_group"], unique=False)
    op.create_index("ix_nodes_driver", "nodes", ["driver"], unique=False)
    op.create_index("ix_nodes_lessee", "nodes", ["lessee"], unique=False)
    op.create_index("ix_nodes_owner", "nodes", ["owner"], unique=False)
    op.create_index("ix_nodes_parent_node", "nodes", ["parent_node"], unique=False)
    op.create_index("ix_nodes_chassis_uuid", "nodes", ["chassis_uuid"], unique=False)
    op.create_index("ix_nodes_instance_name", "nodes", ["instance_name"], unique=False)
    op.create_index("ix_nodes_maintenance", "nodes", ["maintenance"], unique=False)
    op.create_index("ix_nodes_fault", "nodes", ["fault"], unique=False)
    op.create_index(
        "ix_nodes_provision_state",
        "nodes",
        ["provision_state", "provision_updated_at"],
        unique=False,
    )
    op.create_index("ix_nodes_reservation", "nodes", ["reservation"], unique=False)
    op.create_index("ix_nodes_resource_class", "nodes", ["resource_class"], unique=False)
    op.create_index("ix_nodes_shard", "nodes", ["shard"], unique=False)
    op.create_table(
        "schema_revisions",
        sa.Column("revision", sa.String(length=32), nullable=False),
        sa.Column("position", sa.Integer(), nullable=False),
        sa.Column("compatible_from", sa.Integer(), nullable=False),
        sa.Column("applied_at", types.Utc(), nullable=False),
        sa.PrimaryKeyConstraint("revision", name="pk_schema_revisions"),
        **MYSQL,
    )
    op.create_table(
        "conductor_interfaces",
        sa.Column("conductor_id", Big, nullable=False),
        sa.Column("hardware_type", sa.String(length=64), nullable=False),
        sa.Column("interface_type", sa.String(length=16), nullable=False),
        sa.Column("interface_name", sa.String(length=64), nullable=False),
        sa.Column("is_default", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["conductor_id"],
            ["conductors.id"],
            name="fk_conductor_interfaces_conductor_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint(
            "conductor_id",
            "hardware_type",
            "interface_type",
            "interface_name",
            name="pk_conductor_interfaces",
        ),
        **MYSQL,
    )
    op.create_table(
        "node_history",
        sa.Column("id", Big, autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("node_id", Big, nullable=False),
        sa.Column("created_at", types.Utc(), nullable=False),
        sa.Column("severity", sa.String(length=10), nullable=False),
        sa.Column("event_type", sa.String(length=64), nullable=False),
        sa.Column("event", types.LongText(), nullable=False),
        sa.Column("conductor", sa.String(length=255), nullable=True),
        sa.Column("user", sa.String(length=255), nullable=True),
        sa.ForeignKeyConstraint(
            ["node_id"], ["nodes.id"], name="fk_node_history_node_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_node_history"),
        sa.UniqueConstraint("uuid", name="uq_node_history_uuid"),
        **MYSQL,
    )
    op.create_index("ix_node_history_node", "node_history", ["node_id", "id"], unique=False)
    op.create_table(
        "ports",
        sa.Column("id", Big, autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("node_id", Big, nullable=False),
        sa.Column("node_uuid", sa.String(length=36), nullable=False),
        sa.Column("created_at", types.Utc(), nullable=False),
        sa.Column("updated_at", types.Utc(), nullable=True),
        sa.Column("address", sa.String(length=64), nullable=False),
        sa.Column("extra", types.Json(), nullable=False),
        sa.Column("internal_info", types.Json(), nullable=False),
        sa.Column("local_link_connection", types.Json(), nullable=False),
        sa.Column("pxe_enabled", sa.Boolean(), nullable=False),
        sa.Column("portgroup_uuid", sa.String(length=36), nullable=True),
        sa.Column("physical_network", sa.String(length=64), nullable=True),
        sa.Column("is_smartnic", sa.Boolean(), nullable=False),
        sa.Column("name", sa.String(length=255), nullable=True),
        sa.Column("description", types.LongText(), nullable=True),
        sa.Column("vendor", sa.String(length=255), nullable=True),
        sa.Column("category", sa.String(length=255), nullable=True),
        sa.Column("available_for_dynamic_portgroup", sa.Boolean(), nullable=False),
        sa.ForeignKeyConstraint(
            ["node_id"], ["nodes.id"], name="fk_ports_node_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_ports"),
        sa.UniqueConstraint("address", name="uq_ports_address"),
        sa.UniqueConstraint("name", name="uq_ports_name"),
        sa.UniqueConstraint("uuid", name="uq_ports_uuid"),
        **MYSQL,
    )
    op.create_index("ix_ports_node_id", "ports", ["node_id"], unique=False)
    op.create_table(
        "step_runs",
        sa.Column("id", Big, autoincrement=True, nullable=False),
        sa.Column("uuid", sa.String(length=36), nullable=False),
        sa.Column("node_id", Big, nullable=False),
        sa.Column("flow", sa.String(length=16), nullable=False),
        sa.Column("plan", types.Json(), nullable=False),
        sa.Column("requested_by", sa.String(length=255), nullable=True),
        sa.Column("started_at", types.Utc(), nullable=False),
        sa.Column("finished_at", types.Utc(), nullable=True),
        sa.Column("outcome", sa.String(length=16), nullable=True),
        sa.Column("error", types.LongText(), nullable=True),
        sa.Column("abort_requested_at", types.Utc(), nullable=True),
        sa.Column("abort_requested_by", sa.String(length=255), nullable=True),
        sa.ForeignKeyConstraint(
            ["node_id"], ["nodes.id"], name="fk_step_runs_node_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("id", name="pk_step_runs"),
        sa.UniqueConstraint("uuid", name="uq_step_runs_uuid"),
        **MYSQL,
    )
    op.create_index("ix_step_runs_node", "step_runs", ["node_id", "id"], unique=False)
    op.create_table(
        "step_attempts",
        sa.Column("run_id", Big, nullable=False),
        sa.Column("position", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("attempt", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("node_id", Big, nullable=False),
        sa.Column("interface", sa.String(length=16), nullable=False),
        sa.Column("step", sa.String(length=255), nullable=False),
        sa.Column("step_id", sa.String(length=36), nullable=True),
        sa.Column("state", sa.String(length=16), nullable=False),
        sa.Column("conductor", sa.String(length=255), nullable=False),
        sa.Column("started_at", types.Utc(), nullable=False),
        sa.Column("finished_at", types.Utc(), nullable=True),
        sa.Column("outcome", sa.String(length=16), nullable=True),
        sa.Column("error", types.LongText(), nullable=True),
        sa.Column("evidence", types.Json(), nullable=True),
        sa.Column("progress", types.Json(), nullable=True),
        sa.Column("owner", sa.String(length=16), nullable=True),
        sa.Column("reenter", sa.Boolean(), nullable=False),
        sa.Column("waiting_since", types.Utc(), nullable=True),
        sa.Column("due_at", types.Utc(), nullable=True),
        sa.Column("deadline_at", types.Utc(), nullable=True),
        sa.Column("signal", sa.String(length=16), nullable=True),
        sa.Column("signal_detail", types.LongText(), nullable=True),
        sa.Column("poll", types.Json(), nullable=True),
        sa.ForeignKeyConstraint(
            ["run_id"], ["step_runs.id"], name="fk_step_attempts_run_id", ondelete="CASCADE"
        ),
        sa.PrimaryKeyConstraint("run_id", "position", "attempt", name="pk_step_attempts"),
        **MYSQL,
    )
    op.create_index(
        "ix_step_attempts_waiting",
        "step_attempts",
        ["owner", "due_at"],
        unique=False,
        sqlite_where=sa.text("owner IS NOT NULL"),
        postgresql_where=sa.text("owner IS NOT NULL"),
    )


def downgrade() -> None:
    """Remove every table."""
    op.drop_table("step_attempts")
    op.drop_table("step_runs")
    op.drop_table("ports")
    op.drop_table("node_history")
    op.drop_table("conductor_interfaces")
    op.drop_table("schema_revisions")
    op.drop_table("nodes")
    op.drop_table("conductors")
