"""How the API reaches a conductor.

:class:`Client` is all that the API knows of conductors. ``local`` reaches one
in the same process; another transport is another class with these methods.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from oslo_context.context import RequestContext

from deploysteps.db.models import Node, Port

Context = RequestContext | None
"""Who asks; None for the process itself."""


class Client(Protocol):
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
        deploy_steps: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Start a deployment; its state is visible before this returns."""

    def do_node_tear_down(self, context: Context, node_id: str) -> None:
        """Start an undeployment; its state is visible before this returns."""

    def do_provisioning_action(self, context: Context, node_id: str, action: str) -> None:
        """Do ``manage``, ``provide`` or ``abort``."""

    def change_node_power_state(
        self, context: Context, node_id: str, new_state: str, timeout: int | None = None
    ) -> None:
        """Start a power action; its target is visible before this returns."""

    def validate_driver_interfaces(
        self, context: Context, node_id: str
    ) -> Mapping[str, Mapping[str, Any]]:
        """Return interface -> ``{'result': bool or None, 'reason': text}``."""

    def get_node_steps(self, context: Context, node_id: str) -> list[dict[str, Any]]:
        """Return the steps that a node has, those with priority 0 included."""

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
