"""The tables. ``nodes`` is the compatible view that operators and clients read.

Objects are handed out detached; :class:`Node` adds what drivers know from the
field (``driver_internal_info`` as one dict, ``save()``).
"""

from __future__ import annotations

import datetime
from typing import Any, cast

import sqlalchemy as sa
from sqlalchemy import orm
from sqlalchemy.orm import Mapped, mapped_column

from deploysteps import steps
from deploysteps.db import types
from deploysteps.db.node import NodeMethods

MYSQL: dict[str, Any] = {
    "mysql_engine": "InnoDB",
    "mysql_charset": "utf8mb4",
    "mysql_collate": "utf8mb4_bin",
}
"""For migrations, which make the tables. The models say nothing that is for one database of
several: each name of such an option loads all of SQLAlchemy's modules for that database."""

NAMING = {
    "ix": "ix_%(column_0_N_label)s",
    "uq": "uq_%(table_name)s_%(column_0_N_name)s",
    "fk": "fk_%(table_name)s_%(column_0_N_name)s",
    "pk": "pk_%(table_name)s",
}

Big = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
Json = dict[str, Any]


class Base(orm.DeclarativeBase):
    """Holds the metadata; every table has the same MariaDB options."""

    metadata = sa.MetaData(naming_convention=NAMING)


class Node(NodeMethods, Base):
    """A machine."""

    __tablename__ = "nodes"

    id: Mapped[int] = mapped_column(Big, primary_key=True, autoincrement=True)
    uuid: Mapped[str] = mapped_column(types.UUID, unique=True)
    name: Mapped[str | None] = mapped_column(types.short_text(), unique=True)
    created_at: Mapped[datetime.datetime] = mapped_column(types.UTC, default=types.utcnow)
    updated_at: Mapped[datetime.datetime | None] = mapped_column(types.UTC)

    driver: Mapped[str] = mapped_column(types.short_text())
    driver_info: Mapped[Json] = mapped_column(types.JSON, default=dict)
    properties: Mapped[Json] = mapped_column(types.JSON, default=dict)
    extra: Mapped[Json] = mapped_column(types.JSON, default=dict)
    instance_info: Mapped[Json] = mapped_column(types.JSON, default=dict)
    network_data: Mapped[Json] = mapped_column(types.JSON, default=dict)
    raid_config: Mapped[Json] = mapped_column(types.JSON, default=dict)
    target_raid_config: Mapped[Json] = mapped_column(types.JSON, default=dict)

    provision_state: Mapped[str] = mapped_column(types.short_text(40))
    target_provision_state: Mapped[str | None] = mapped_column(types.short_text(40))
    provision_updated_at: Mapped[datetime.datetime | None] = mapped_column(types.UTC)
    power_state: Mapped[str | None] = mapped_column(types.short_text(40))
    target_power_state: Mapped[str | None] = mapped_column(types.short_text(40))
    last_error: Mapped[str | None] = mapped_column(types.LONG_TEXT)
    maintenance: Mapped[bool] = mapped_column(default=False)
    maintenance_reason: Mapped[str | None] = mapped_column(types.LONG_TEXT)
    fault: Mapped[str | None] = mapped_column(types.short_text())

    instance_uuid: Mapped[str | None] = mapped_column(types.UUID, unique=True)
    instance_name: Mapped[str | None] = mapped_column(types.short_text())
    chassis_uuid: Mapped[str | None] = mapped_column(types.UUID)
    resource_class: Mapped[str | None] = mapped_column(types.short_text())
    conductor_group: Mapped[str] = mapped_column(types.short_text(), default="")
    owner: Mapped[str | None] = mapped_column(types.short_text())
    lessee: Mapped[str | None] = mapped_column(types.short_text())
    description: Mapped[str | None] = mapped_column(types.LONG_TEXT)
    shard: Mapped[str | None] = mapped_column(types.short_text())
    parent_node: Mapped[str | None] = mapped_column(types.UUID)
    boot_mode: Mapped[str | None] = mapped_column(types.short_text(16))
    secure_boot: Mapped[bool | None]
    console_enabled: Mapped[bool] = mapped_column(default=False)
    automated_clean: Mapped[bool | None]
    protected: Mapped[bool] = mapped_column(default=False)
    protected_reason: Mapped[str | None] = mapped_column(types.LONG_TEXT)
    retired: Mapped[bool] = mapped_column(default=False)
    retired_reason: Mapped[str | None] = mapped_column(types.LONG_TEXT)
    disable_power_off: Mapped[bool] = mapped_column(default=False)
    inspection_started_at: Mapped[datetime.datetime | None] = mapped_column(types.UTC)
    inspection_finished_at: Mapped[datetime.datetime | None] = mapped_column(types.UTC)

    bios_interface: Mapped[str | None] = mapped_column(types.short_text())
    boot_interface: Mapped[str | None] = mapped_column(types.short_text())
    console_interface: Mapped[str | None] = mapped_column(types.short_text())
    deploy_interface: Mapped[str | None] = mapped_column(types.short_text())
    firmware_interface: Mapped[str | None] = mapped_column(types.short_text())
    inspect_interface: Mapped[str | None] = mapped_column(types.short_text())
    management_interface: Mapped[str | None] = mapped_column(types.short_text())
    network_interface: Mapped[str | None] = mapped_column(types.short_text())
    power_interface: Mapped[str | None] = mapped_column(types.short_text())
    raid_interface: Mapped[str | None] = mapped_column(types.short_text())
    rescue_interface: Mapped[str | None] = mapped_column(types.short_text())
    storage_interface: Mapped[str | None] = mapped_column(types.short_text())
    vendor_interface: Mapped[str | None] = mapped_column(types.short_text())

    # The lock. A token is new with every grant; the generation grows with
    # every write under a lock, so that a commit of unknown outcome can be
    # looked up.
    reservation: Mapped[str | None] = mapped_column(types.short_text(), index=True)
    lock_token: Mapped[str | None] = mapped_column(types.short_text(32))
    lock_purpose: Mapped[str | None] = mapped_column(types.short_text())
    locked_at: Mapped[datetime.datetime | None] = mapped_column(types.UTC)
    generation: Mapped[int] = mapped_column(Big, default=0)

    # Step state. The current run; the current step; and, shown inside
    # driver_internal_info, the plan and the position in it.
    run_id: Mapped[int | None] = mapped_column(Big)
    deploy_step: Mapped[Json | None] = mapped_column(types.JSON)
    deploy_steps_column: Mapped[list[Json] | None] = mapped_column("deploy_steps", types.JSON)
    deploy_step_index_column: Mapped[int | None] = mapped_column("deploy_step_index", types.JSON)

    clean_step: Mapped[Json | None] = mapped_column(types.JSON)
    clean_steps_column: Mapped[list[Json] | None] = mapped_column("clean_steps", types.JSON)
    clean_step_index_column: Mapped[int | None] = mapped_column("clean_step_index", types.JSON)
    service_step: Mapped[Json | None] = mapped_column(types.JSON)
    service_steps_column: Mapped[list[Json] | None] = mapped_column("service_steps", types.JSON)
    service_step_index_column: Mapped[int | None] = mapped_column("service_step_index", types.JSON)
    verify_steps_column: Mapped[list[Json] | None] = mapped_column("verify_steps", types.JSON)
    verify_step_index_column: Mapped[int | None] = mapped_column("verify_step_index", types.JSON)

    # What the agent told last; shown inside driver_internal_info as well.
    agent_url_column: Mapped[str | None] = mapped_column("agent_url", types.LONG_TEXT)
    agent_version_column: Mapped[str | None] = mapped_column("agent_version", types.short_text())
    agent_token_column: Mapped[str | None] = mapped_column(
        "agent_secret_token", types.short_text(128)
    )
    agent_heartbeat_column: Mapped[datetime.datetime | None] = mapped_column(
        "agent_last_heartbeat", types.UTC
    )
    agent_ca_column: Mapped[str | None] = mapped_column("agent_verify_ca", types.LONG_TEXT)
    driver_internal_column: Mapped[Json] = mapped_column(
        "driver_internal_info", types.JSON, default=dict
    )

    __table_args__ = (
        sa.Index("ix_nodes_provision_state", "provision_state", "provision_updated_at"),
        sa.Index("ix_nodes_driver", "driver"),
        sa.Index("ix_nodes_resource_class", "resource_class"),
        sa.Index("ix_nodes_owner", "owner"),
        sa.Index("ix_nodes_lessee", "lessee"),
        sa.Index("ix_nodes_shard", "shard"),
        sa.Index("ix_nodes_conductor_group", "conductor_group"),
        sa.Index("ix_nodes_parent_node", "parent_node"),
        sa.Index("ix_nodes_chassis_uuid", "chassis_uuid"),
        sa.Index("ix_nodes_instance_name", "instance_name"),
        sa.Index("ix_nodes_maintenance", "maintenance"),
        sa.Index("ix_nodes_fault", "fault"),
    )


class Port(Base):
    """A network port of a node."""

    __tablename__ = "ports"

    id: Mapped[int] = mapped_column(Big, primary_key=True, autoincrement=True)
    uuid: Mapped[str] = mapped_column(types.UUID, unique=True)
    node_id: Mapped[int] = mapped_column(
        Big, sa.ForeignKey("nodes.id", ondelete="CASCADE"), index=True
    )
    node_uuid: Mapped[str] = mapped_column(types.UUID)
    created_at: Mapped[datetime.datetime] = mapped_column(types.UTC, default=types.utcnow)
    updated_at: Mapped[datetime.datetime | None] = mapped_column(types.UTC)
    address: Mapped[str] = mapped_column(types.short_text(64), unique=True)
    extra: Mapped[Json] = mapped_column(types.JSON, default=dict)
    internal_info: Mapped[Json] = mapped_column(types.JSON, default=dict)
    local_link_connection: Mapped[Json] = mapped_column(types.JSON, default=dict)
    pxe_enabled: Mapped[bool] = mapped_column(default=True)
    portgroup_uuid: Mapped[str | None] = mapped_column(types.UUID, index=True)
    physical_network: Mapped[str | None] = mapped_column(types.short_text(64))
    is_smartnic: Mapped[bool] = mapped_column(default=False)
    name: Mapped[str | None] = mapped_column(types.short_text(), unique=True)
    description: Mapped[str | None] = mapped_column(types.LONG_TEXT)
    vendor: Mapped[str | None] = mapped_column(types.short_text())
    category: Mapped[str | None] = mapped_column(types.short_text())
    available_for_dynamic_portgroup: Mapped[bool] = mapped_column(default=True)


class NodeTrait(Base):
    """A trait of a node; an instance that asks for it brings its deploy template."""

    __tablename__ = "node_traits"

    node_id: Mapped[int] = mapped_column(
        Big, sa.ForeignKey("nodes.id", ondelete="CASCADE"), primary_key=True
    )
    trait: Mapped[str] = mapped_column(types.short_text(), primary_key=True, index=True)


class DeployTemplate(Base):
    """Steps that a deployment adds, when the instance asks for the trait of its name."""

    __tablename__ = "deploy_templates"

    id: Mapped[int] = mapped_column(Big, primary_key=True, autoincrement=True)
    uuid: Mapped[str] = mapped_column(types.UUID, unique=True)
    name: Mapped[str] = mapped_column(types.short_text(), unique=True)
    created_at: Mapped[datetime.datetime] = mapped_column(types.UTC, default=types.utcnow)
    updated_at: Mapped[datetime.datetime | None] = mapped_column(types.UTC)
    steps: Mapped[list[Json]] = mapped_column(types.JSON)
    extra: Mapped[Json] = mapped_column(types.JSON, default=dict)


class Runbook(Base):
    """Steps in order, for cleaning or servicing nodes that have the trait of its name."""

    __tablename__ = "runbooks"

    id: Mapped[int] = mapped_column(Big, primary_key=True, autoincrement=True)
    uuid: Mapped[str] = mapped_column(types.UUID, unique=True)
    name: Mapped[str] = mapped_column(types.short_text(), unique=True)
    created_at: Mapped[datetime.datetime] = mapped_column(types.UTC, default=types.utcnow)
    updated_at: Mapped[datetime.datetime | None] = mapped_column(types.UTC)
    steps: Mapped[list[Json]] = mapped_column(types.JSON)
    disable_ramdisk: Mapped[bool] = mapped_column(default=False)
    public: Mapped[bool] = mapped_column(default=False)
    owner: Mapped[str | None] = mapped_column(types.short_text(), index=True)
    description: Mapped[str | None] = mapped_column(types.LONG_TEXT)
    extra: Mapped[Json] = mapped_column(types.JSON, default=dict)


class Conductor(Base):
    """A conductor process. Alive = online and heard of recently."""

    __tablename__ = "conductors"

    id: Mapped[int] = mapped_column(Big, primary_key=True, autoincrement=True)
    hostname: Mapped[str] = mapped_column(types.short_text(), unique=True)
    boot_id: Mapped[str] = mapped_column(types.short_text(32))
    online: Mapped[bool] = mapped_column(default=False)
    conductor_group: Mapped[str] = mapped_column(types.short_text(), default="")
    created_at: Mapped[datetime.datetime] = mapped_column(types.UTC, default=types.utcnow)
    updated_at: Mapped[datetime.datetime] = mapped_column(types.UTC, default=types.utcnow)

    __table_args__ = (sa.Index("ix_conductors_alive", "online", "updated_at"),)


class ConductorInterface(Base):
    """An interface that a conductor offers for a hardware type."""

    __tablename__ = "conductor_interfaces"

    conductor_id: Mapped[int] = mapped_column(
        Big, sa.ForeignKey("conductors.id", ondelete="CASCADE"), primary_key=True
    )
    hardware_type: Mapped[str] = mapped_column(types.short_text(64), primary_key=True)
    interface_type: Mapped[str] = mapped_column(types.short_text(16), primary_key=True)
    interface_name: Mapped[str] = mapped_column(types.short_text(64), primary_key=True)
    is_default: Mapped[bool] = mapped_column(default=False)


class StepRun(Base):
    """One execution of a flow."""

    __tablename__ = "step_runs"

    id: Mapped[int] = mapped_column(Big, primary_key=True, autoincrement=True)
    uuid: Mapped[str] = mapped_column(types.UUID, unique=True)
    node_id: Mapped[int] = mapped_column(Big, sa.ForeignKey("nodes.id", ondelete="CASCADE"))
    flow: Mapped[str] = mapped_column(types.short_text(16))
    plan: Mapped[list[Json]] = mapped_column(types.JSON)
    request: Mapped[Json | None] = mapped_column(types.JSON)
    """What was asked for: steps, runbook, ``disable_ramdisk``."""
    left_out: Mapped[list[Json] | None] = mapped_column(types.JSON)
    """Steps that were offered or asked for and do not run, each with why."""
    mechanism: Mapped[str | None] = mapped_column(types.short_text(16))
    """How it runs: by ``steps`` (also null), or the old way by ``deploy``."""
    resumes: Mapped[str | None] = mapped_column(types.UUID)
    """The failed run that this one goes on from, by its uuid."""
    requested_by: Mapped[str | None] = mapped_column(types.short_text())
    started_at: Mapped[datetime.datetime] = mapped_column(types.UTC)
    finished_at: Mapped[datetime.datetime | None] = mapped_column(types.UTC)
    outcome: Mapped[str | None] = mapped_column(types.short_text(16))
    error: Mapped[str | None] = mapped_column(types.LONG_TEXT)
    abort_requested_at: Mapped[datetime.datetime | None] = mapped_column(types.UTC)
    abort_requested_by: Mapped[str | None] = mapped_column(types.short_text())

    __table_args__ = (sa.Index("ix_step_runs_node", "node_id", "id"),)


class StepAttempt(Base):
    """One try of one step; (run, position, attempt) names it for ever.

    ``position`` counts the steps that the run began, from 0 (prepare); it is
    not the index in the plan, which may change in flight.
    """

    __tablename__ = "step_attempts"

    run_id: Mapped[int] = mapped_column(
        Big, sa.ForeignKey("step_runs.id", ondelete="CASCADE"), primary_key=True
    )
    position: Mapped[int] = mapped_column(sa.Integer, primary_key=True, autoincrement=False)
    attempt: Mapped[int] = mapped_column(sa.Integer, primary_key=True, autoincrement=False)
    node_id: Mapped[int] = mapped_column(Big)
    interface: Mapped[str] = mapped_column(types.short_text(16))
    step: Mapped[str] = mapped_column(types.short_text())
    step_id: Mapped[str | None] = mapped_column(types.short_text(36))
    state: Mapped[str] = mapped_column(types.short_text(16))
    conductor: Mapped[str] = mapped_column(types.short_text())
    started_at: Mapped[datetime.datetime] = mapped_column(types.UTC)
    finished_at: Mapped[datetime.datetime | None] = mapped_column(types.UTC)
    outcome: Mapped[str | None] = mapped_column(types.short_text(16))
    error: Mapped[str | None] = mapped_column(types.LONG_TEXT)
    evidence: Mapped[Json | None] = mapped_column(types.JSON)
    progress: Mapped[Json | None] = mapped_column(types.JSON)
    # Only while waiting: who ends it, what then, when to look, when to give up.
    owner: Mapped[str | None] = mapped_column(types.short_text(16))
    reenter: Mapped[bool] = mapped_column(default=False)
    reboot: Mapped[bool | None] = mapped_column(default=False)
    """The machine reboots: only a new boot of its agent ends the wait."""
    waiting_since: Mapped[datetime.datetime | None] = mapped_column(types.UTC)
    due_at: Mapped[datetime.datetime | None] = mapped_column(types.UTC)
    deadline_at: Mapped[datetime.datetime | None] = mapped_column(types.UTC)
    # What someone who may end the wait said: beat, done or fail.
    signal: Mapped[str | None] = mapped_column(types.short_text(16))
    signal_detail: Mapped[str | None] = mapped_column(types.LONG_TEXT)
    poll: Mapped[Json | None] = mapped_column(types.JSON)

    __table_args__ = (
        sa.Index(
            "ix_step_attempts_waiting",
            "owner",
            "due_at",
            sqlite_where=sa.text("owner IS NOT NULL"),
        ),
    )


class NodeHistory(Base):
    """What happened to a node, for people."""

    __tablename__ = "node_history"

    id: Mapped[int] = mapped_column(Big, primary_key=True, autoincrement=True)
    uuid: Mapped[str] = mapped_column(types.UUID, unique=True)
    node_id: Mapped[int] = mapped_column(Big, sa.ForeignKey("nodes.id", ondelete="CASCADE"))
    created_at: Mapped[datetime.datetime] = mapped_column(types.UTC)
    severity: Mapped[str] = mapped_column(types.short_text(10))
    event_type: Mapped[str] = mapped_column(types.short_text(64))
    event: Mapped[str] = mapped_column(types.LONG_TEXT)
    conductor: Mapped[str | None] = mapped_column(types.short_text())
    user: Mapped[str | None] = mapped_column(types.short_text())
    project: Mapped[str | None] = mapped_column(types.short_text())
    """Of the user who asked for what happened."""
    state: Mapped[str | None] = mapped_column(types.short_text(40))
    """The node's provision state when it happened."""
    target_provision_state: Mapped[str | None] = mapped_column(types.short_text(40))
    duration_seconds: Mapped[int | None]
    """For how long the node had been in that state."""

    __table_args__ = (sa.Index("ix_node_history_node", "node_id", "id"),)


class SchemaRevision(Base):
    """Which migrations were applied, and how old a program may meet them.

    ``compatible_from`` is the ``position`` of the oldest revision whose
    programs still work on this schema: a rolling upgrade migrates first.
    """

    __tablename__ = "schema_revisions"

    revision: Mapped[str] = mapped_column(types.short_text(32), primary_key=True)
    position: Mapped[int]
    compatible_from: Mapped[int]
    applied_at: Mapped[datetime.datetime] = mapped_column(types.UTC)


INTERFACE_COLUMNS = {kind: f"{kind}_interface" for kind in steps.INTERFACE_TYPES}


def table(model: type[Base]) -> sa.Table:
    """Return a model's table, for statements that are not about objects."""
    return cast("sa.Table", model.__table__)
