"""The verbs of a conductor about what brings nodes and ports together; thin as the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deploysteps.conductor import allocations, groups
from deploysteps.conductor.runtime import Runtime
from deploysteps.db import allocations as rows
from deploysteps.db import chassis, runbook_traits, runbooks
from deploysteps.db.group_models import Allocation, Chassis, Portgroup


class GroupVerbs:
    """Mixed into :class:`~deploysteps.conductor.manager.ConductorManager`."""

    runtime: Runtime

    def update_runbook_traits(
        self,
        context: Any,
        ident: str,
        *,
        replace: Sequence[str] | None = None,
        add: Sequence[str] = (),
        remove: Sequence[str] = (),
    ) -> list[str]:
        """Change the traits that a runbook is for, and return those that it has then.

        :raises InvalidParameterValue: a name that cannot be one, or too many.
        """
        database = self.runtime.database
        book = runbooks.get(database, ident)
        return runbook_traits.change(database, book.id, replace=replace, add=add, remove=remove)

    def create_chassis(self, context: Any, values: Mapping[str, Any]) -> Chassis:
        """Store a chassis.

        :raises ChassisAlreadyExists: its uuid is taken.
        """
        return chassis.insert(self.runtime.database, values)

    def update_chassis(
        self,
        context: Any,
        uuid: str,
        values: Mapping[str, Any],
        before: Mapping[str, Any] | None = None,
    ) -> Chassis:
        """Change a chassis; ``before`` as in :meth:`update_node`."""
        return chassis.update(self.runtime.database, uuid, values, before=before)

    def destroy_chassis(self, context: Any, uuid: str) -> None:
        """Remove a chassis.

        :raises InvalidParameterValue: nodes stand in it.
        """
        chassis.delete(self.runtime.database, uuid)

    def create_portgroup(self, context: Any, node_id: str, values: Mapping[str, Any]) -> Portgroup:
        """Store a portgroup of a node.

        :raises PortgroupMACAlreadyExists, PortgroupDuplicateName: it clashes.
        :raises NodeLocked: try again.
        """
        return groups.create_portgroup(self.runtime, context, node_id, values)

    def update_portgroup(
        self,
        context: Any,
        uuid: str,
        values: Mapping[str, Any],
        before: Mapping[str, Any] | None = None,
    ) -> Portgroup:
        """Change a portgroup; ``before`` as in :meth:`update_node`."""
        return groups.update_portgroup(self.runtime, context, uuid, values, before or {})

    def destroy_portgroup(self, context: Any, uuid: str) -> None:
        """Remove a portgroup.

        :raises InvalidParameterValue: it has ports.
        """
        groups.destroy_portgroup(self.runtime, context, uuid)

    def create_allocation(self, context: Any, values: Mapping[str, Any]) -> Allocation:
        """Store an allocation; a worker looks for its node.

        :param values: columns of it, and perhaps ``node_uuid``: the active node
            that is said to have been allocated so, which is decided at once.
        :raises AllocationAlreadyExists, AllocationDuplicateName: it clashes.
        :raises AllocationFailed, InstanceAssociated, NodeHasAllocation: that
            node is not as it has to be; the allocation is kept, as failed.
        :raises NodeLocked, NoFreeConductorWorker: try again.
        """
        return allocations.create(self.runtime, context, values)

    def update_allocation(
        self,
        context: Any,
        ident: str,
        values: Mapping[str, Any],
        before: Mapping[str, Any] | None = None,
    ) -> Allocation:
        """Change the name or ``extra``; ``before`` as in :meth:`update_node`."""
        found = rows.get(self.runtime.database, ident)
        return rows.update(self.runtime.database, found.uuid, values, before or {})

    def destroy_allocation(self, context: Any, ident: str) -> None:
        """Remove an allocation and free its node.

        :raises InvalidState: the node is active, or something goes on with it.
        :raises NodeLocked: try again.
        """
        allocations.destroy(self.runtime, context, ident)
