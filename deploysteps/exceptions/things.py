"""Errors about what there is: nodes, ports and all else that has a name; locked, taken or gone."""

from __future__ import annotations

from deploysteps.exceptions.kinds import (
    Conflict,
    DeployStepsException,
    Invalid,
    InvalidParameterValue,
    InvalidState,
    NotFound,
)


class NodeNotFound(NotFound):
    """No node of this name or uuid."""

    _msg_fmt = "Node %(node)s could not be found."


class PortNotFound(NotFound):
    """No port of this uuid or address."""

    _msg_fmt = "Port %(port)s could not be found."


class NodeTraitNotFound(NotFound):
    """The node does not have this trait."""

    _msg_fmt = "Node %(node)s doesn't have a trait '%(trait)s'."


class DeployTemplateNotFound(NotFound):
    """No deploy template of this name or uuid."""

    _msg_fmt = "Deploy template %(template)s could not be found."


class RunbookNotFound(NotFound):
    """No runbook of this name or uuid."""

    _msg_fmt = "Runbook %(runbook)s could not be found."


class RunNotFound(NotFound):
    """No step run of this uuid."""

    _msg_fmt = "Step run %(run)s could not be found."


class ConductorNotFound(NotFound):
    """No conductor of this name."""

    _msg_fmt = "Conductor %(conductor)s could not be found."


class DriverNotFound(NotFound):
    """No alive conductor offers this hardware type."""

    _msg_fmt = "Could not find the following driver(s) or hardware type(s): %(driver_name)s."


class NodeLocked(Conflict):
    """Another operation holds the node."""

    _msg_fmt = (
        "Node %(node)s is locked by host %(host)s, please retry after the "
        "current operation is completed."
    )


class NodeAssociated(Conflict):
    """The node has an instance."""

    _msg_fmt = "Node %(node)s is associated with instance %(instance)s."


class DuplicateName(Conflict):
    """A node of this name exists."""

    _msg_fmt = "A node with name %(name)s already exists."


class NodeAlreadyExists(Conflict):
    """A node of this uuid exists."""

    _msg_fmt = "A node with UUID %(uuid)s already exists."


class InstanceAssociated(Conflict):
    """The instance uuid is taken."""

    _msg_fmt = (
        "Instance %(instance_uuid)s is already associated with a node, it "
        "cannot be associated with this other node %(node)s"
    )


class MACAlreadyExists(Conflict):
    """A port of this address exists."""

    _msg_fmt = "A port with MAC address %(mac)s already exists."


class DuplicatePortName(Conflict):
    """A port of this name exists."""

    _msg_fmt = "A port with name %(name)s already exists."


class PortAlreadyExists(Conflict):
    """A port of this uuid exists."""

    _msg_fmt = "A port with UUID %(uuid)s already exists."


class DeployTemplateDuplicateName(Conflict):
    """A deploy template of this name exists."""

    _msg_fmt = "A deploy template with name %(name)s already exists."


class DeployTemplateAlreadyExists(Conflict):
    """A deploy template of this uuid exists."""

    _msg_fmt = "A deploy template with UUID %(uuid)s already exists."


class RunbookDuplicateName(Conflict):
    """A runbook of this name exists."""

    _msg_fmt = "A runbook with name %(name)s already exists."


class RunbookAlreadyExists(Conflict):
    """A runbook of this uuid exists."""

    _msg_fmt = "A runbook with UUID %(uuid)s already exists."


class NodeInMaintenance(Invalid):
    """The operation is refused while the node is in maintenance."""

    _msg_fmt = (
        "The %(op)s operation can't be performed on node %(node)s because it's in maintenance mode."
    )


class NodeIsRetired(Invalid):
    """The operation is refused for a node that is retired."""

    _msg_fmt = (
        "The %(op)s operation can't be performed on node %(node)s because it is retired; set "
        "retired to false first."
    )


class NodeProtected(DeployStepsException):
    """The node is protected from undeploying, rebuilding and deletion."""

    _msg_fmt = "Node %(node)s is protected and can not be undeployed, rebuilt or deleted."
    code = 403


class InvalidStateRequested(InvalidState):
    """The requested action cannot be done in the node's state."""

    _msg_fmt = (
        'The requested action "%(action)s" can not be performed on node '
        '"%(node)s" while it is in state "%(state)s".'
    )


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
