"""The verbs about what brings nodes and ports together, as the API knows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from oslo_context.context import RequestContext

from deploysteps.db.group_models import Allocation, Chassis, Portgroup

Context = RequestContext | None
"""Who asks; None for the process itself."""


class GroupClient(Protocol):
    """A part of :class:`deploysteps.conductor.rpc.Client`, which tells of errors."""

    def update_runbook_traits(
        self,
        context: Context,
        ident: str,
        *,
        replace: Sequence[str] | None = None,
        add: Sequence[str] = (),
        remove: Sequence[str] = (),
    ) -> list[str]:
        """Change the traits that a runbook is for, and return those that it has then."""

    def create_chassis(self, context: Context, values: Mapping[str, Any]) -> Chassis:
        """Store a chassis."""

    def update_chassis(
        self,
        context: Context,
        uuid: str,
        values: Mapping[str, Any],
        before: Mapping[str, Any] | None = None,
    ) -> Chassis:
        """Change a chassis."""

    def destroy_chassis(self, context: Context, uuid: str) -> None:
        """Remove a chassis in which no node stands."""

    def create_portgroup(
        self, context: Context, node_id: str, values: Mapping[str, Any]
    ) -> Portgroup:
        """Store a portgroup of a node."""

    def update_portgroup(
        self,
        context: Context,
        uuid: str,
        values: Mapping[str, Any],
        before: Mapping[str, Any] | None = None,
    ) -> Portgroup:
        """Change a portgroup."""

    def destroy_portgroup(self, context: Context, uuid: str) -> None:
        """Remove a portgroup that has no port."""

    def create_allocation(self, context: Context, values: Mapping[str, Any]) -> Allocation:
        """Store an allocation and begin to look for its node.

        With ``node_uuid`` among the values that active node is given to it at once.
        """

    def update_allocation(
        self,
        context: Context,
        ident: str,
        values: Mapping[str, Any],
        before: Mapping[str, Any] | None = None,
    ) -> Allocation:
        """Change the name or ``extra`` of an allocation."""

    def destroy_allocation(self, context: Context, ident: str) -> None:
        """Remove an allocation and free its node."""
