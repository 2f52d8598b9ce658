"""Errors about what brings nodes and ports together: allocations, chassis, portgroups."""

from __future__ import annotations

from deploysteps.exceptions import Conflict, InvalidParameterValue, NotFound


class AllocationNotFound(NotFound):
    """No allocation of this name or uuid."""

    _msg_fmt = "Allocation %(allocation)s could not be found."


class AllocationDuplicateName(Conflict):
    """An allocation of this name exists."""

    _msg_fmt = "An allocation with name %(name)s already exists."


class AllocationAlreadyExists(Conflict):
    """An allocation of this uuid exists."""

    _msg_fmt = "An allocation with UUID %(uuid)s already exists."


class AllocationFailed(InvalidParameterValue):
    """The node that is asked for cannot be given to the allocation."""

    _msg_fmt = "Failed to process allocation %(uuid)s: %(error)s."


class NodeHasAllocation(Conflict):
    """The node has another allocation."""

    _msg_fmt = "Node %(node)s has an allocation already."


class ChassisNotFound(NotFound):
    """No chassis of this uuid."""

    _msg_fmt = "Chassis %(chassis)s could not be found."


class ChassisAlreadyExists(Conflict):
    """A chassis of this uuid exists."""

    _msg_fmt = "A chassis with UUID %(uuid)s already exists."


class PortgroupNotFound(NotFound):
    """No portgroup of this name or uuid."""

    _msg_fmt = "Portgroup %(portgroup)s could not be found."


class PortgroupDuplicateName(Conflict):
    """A portgroup of this name exists."""

    _msg_fmt = "A portgroup with name %(name)s already exists."


class PortgroupAlreadyExists(Conflict):
    """A portgroup of this uuid exists."""

    _msg_fmt = "A portgroup with UUID %(uuid)s already exists."


class PortgroupMACAlreadyExists(Conflict):
    """A portgroup of this address exists."""

    _msg_fmt = "A portgroup with MAC address %(mac)s already exists."
