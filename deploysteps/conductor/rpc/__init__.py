"""How the API reaches a conductor.

:class:`Client` is all that the API knows of conductors. ``local`` reaches one
in the same process; another transport is another class with these methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from oslo_context.context import RequestContext

from deploysteps.conductor.rpc.groups import GroupClient
from deploysteps.conductor.rpc.machine import MachineClient
from deploysteps.db.models import DeployTemplate, Node, Port, Runbook
from deploysteps.steps import Resume

Context = RequestContext | None
"""Who asks; None for the process itself."""

Steps = Sequence[Mapping[str, Any]]
"""Steps that somebody asks for."""


class Client(MachineClient, GroupClient, Protocol):
    """The verbs of a conductor. ``node_id`` is the uuid or name of a node.

    Every verb raises :class:`~deploysteps.exceptions.DeployStepsException`
    whose ``code`` is the HTTP status to answer with: 400 for what the caller
    must mend, 404 for what is not there, 409 for what is in the way (a lock,
    a running operation, a duplicate), 503 for what is worth trying again.
    """

    def create_node(self, context: Context, values: Mapping[str, Any]) -> Node:
        """Check driver and interfaces, fill in default interfaces, and store a node."""

    def update_node(
        self,
        context: Context,
        node_id: str,
        values: Mapping[str, Any],
        reset_interfaces: bool = False,
        before: Mapping[str, Any] | None = None,
    ) -> Node:
        """Change columns of a node; ``reset_interfaces`` gives it its driver's defaults.

        ``before``: what these columns have to hold still; a 409 if they do not.
        """

    def destroy_node(self, context: Context, node_id: str) -> None:
        """Remove a node's record."""

    def set_node_maintenance(
        self, context: Context, node_id: str, maintenance: bool, reason: str | None
    ) -> None:
        """Set a node to maintenance, or back; needs no lock."""

    def create_port(self, context: Context, node_id: str, values: Mapping[str, Any]) -> Port:
        """Store a port of a node."""

    def update_port(
        self,
        context: Context,
        port_uuid: str,
        values: Mapping[str, Any],
        before: Mapping[str, Any] | None = None,
    ) -> Port:
        """Change columns of a port; ``before`` as in :meth:`update_node`."""

    def destroy_port(self, context: Context, port_uuid: str) -> None:
        """Remove a port."""

    def do_node_deploy(
        self,
        context: Context,
        node_id: str,
        rebuild: bool = False,
        configdrive: str | Mapping[str, Any] | None = None,
        deploy_steps: Steps | None = None,
        resume: Resume | None = None,
    ) -> None:
        """Start a deployment, or go on with a failed one; it is visible before this returns."""

    def do_node_clean(
        self,
        context: Context,
        node_id: str,
        clean_steps: Steps | None = None,
        disable_ramdisk: bool | None = None,
        runbook: str | None = None,
    ) -> None:
        """Start a cleaning by these steps, or a runbook's; it is visible before this returns."""

    def do_node_service(
        self,
        context: Context,
        node_id: str,
        service_steps: Steps | None = None,
        disable_ramdisk: bool | None = None,
        runbook: str | None = None,
        resume: Resume | None = None,
    ) -> None:
        """Start a servicing, or go on with a failed one; it is visible before this returns."""

    def do_node_tear_down(self, context: Context, node_id: str) -> None:
        """Start an undeployment; its state is visible before this returns."""

    def do_provisioning_action(self, context: Context, node_id: str, action: str) -> None:
        """Do what needs nothing but its name, such as ``manage``, ``inspect`` or ``abort``."""

    def do_node_rescue(self, context: Context, node_id: str, rescue_password: str) -> None:
        """Start a rescue; its state is visible before this returns."""

    def unlock_node(
        self,
        context: Context,
        node_id: str,
        reason: str | None = None,
        since: str | None = None,
    ) -> None:
        """Break the lock that someone holds, keep that in the history, and recover the node.

        ``since``: of the lock that is meant; another is left alone, with a 409.
        """

    def change_node_power_state(
        self, context: Context, node_id: str, new_state: str, timeout: int | None = None
    ) -> None:
        """Start a power action; its target is visible before this returns."""

    def validate_driver_interfaces(
        self, context: Context, node_id: str
    ) -> Mapping[str, Mapping[str, Any]]:
        """Return interface -> ``{'result': bool or None, 'reason': text}``."""

    def get_node_steps(
        self, context: Context, node_id: str, flow: str = "deploy"
    ) -> list[dict[str, Any]]:
        """Return every step that a node offers a flow, those with priority 0 included."""

    def get_node_plan(
        self,
        context: Context,
        node_id: str,
        flow: str = "deploy",
        steps: Steps | None = None,
        runbook: str | None = None,
        disable_ramdisk: bool | None = None,
    ) -> dict[str, Any]:
        """Return what a run would do, without running it.

        ``steps`` in their order; ``left_out``, each with why; ``unknown``:
        those that wait for the agent's list; ``problem``: why it would be
        refused, or None.
        """

    def lookup(
        self, context: Context, addresses: Sequence[str], node_uuid: str | None
    ) -> tuple[Node, str]:
        """Return an agent's node and its token, ``******`` when it was handed out before."""

    def heartbeat(
        self,
        context: Context,
        node_id: str,
        callback_url: str,
        agent_version: str | None = None,
        agent_token: str | None = None,
        agent_verify_ca: str | None = None,
        agent_status: str | None = None,
        agent_status_message: str | None = None,
    ) -> None:
        """Record an agent's sign of life; does not wait for what it sets off."""

    def get_driver_properties(self, context: Context, driver_name: str) -> dict[str, str]:
        """Return name -> help of what a hardware type reads from ``driver_info``."""

    def update_node_traits(
        self,
        context: Context,
        node_id: str,
        *,
        replace: Sequence[str] | None = None,
        add: Sequence[str] = (),
        remove: Sequence[str] = (),
    ) -> list[str]:
        """Change a node's traits, and return those that it has then.

        A trait to be removed that it does not have is a 404.
        """

    # Deploy templates and runbooks; ``ident`` is a uuid or a name.

    def get_secret_arguments(self, context: Context) -> dict[str, list[str]]:
        """Return ``interface.step`` -> its arguments that an enabled class declares secret.

        Steps that are kept for any node do not say it themselves.
        """

    def create_deploy_template(self, context: Context, values: Mapping[str, Any]) -> DeployTemplate:
        """Check and store a deploy template."""

    def update_deploy_template(
        self,
        context: Context,
        ident: str,
        values: Mapping[str, Any],
        before: Mapping[str, Any] | None = None,
    ) -> DeployTemplate:
        """Change columns of a deploy template; ``before`` as in :meth:`update_node`."""

    def destroy_deploy_template(self, context: Context, ident: str) -> None:
        """Remove a deploy template."""

    def create_runbook(self, context: Context, values: Mapping[str, Any]) -> Runbook:
        """Check and store a runbook."""

    def update_runbook(
        self,
        context: Context,
        ident: str,
        values: Mapping[str, Any],
        before: Mapping[str, Any] | None = None,
    ) -> Runbook:
        """Change columns of a runbook; ``before`` as in :meth:`update_node`."""

    def destroy_runbook(self, context: Context, ident: str) -> None:
        """Remove a runbook."""
