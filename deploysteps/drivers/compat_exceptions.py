"""The field's exception names, for drivers that raise and catch them.

Most are this package's own; the others are what drivers of certain hardware
raise when it fails.
"""

from __future__ import annotations

from deploysteps.exceptions import (
    Conflict,
    DeployStepFailed,
    DeployStepsException,
    DriverLoadError,
    DriverNotFound,
    DriverOperationError,
    ExclusiveLockRequired,
    InstanceDeployFailure,
    Invalid,
    InvalidParameterValue,
    InvalidState,
    InvalidStateRequested,
    MissingParameterValue,
    NodeAssociated,
    NodeCleaningFailure,
    NodeInMaintenance,
    NodeLocked,
    NodeNotFound,
    NodeServicingFailure,
    NodeVerifyFailure,
    NotFound,
    PortNotFound,
    PowerStateFailure,
    UnsupportedDriverExtension,
)

__all__ = [
    "AgentAPIError",
    "AgentConnectionFailed",
    "Conflict",
    "ConsoleError",
    "ConsoleSubprocessFailed",
    "DeployStepFailed",
    "DracOperationError",
    "DriverLoadError",
    "DriverNotFound",
    "DriverOperationError",
    "ExclusiveLockRequired",
    "FailedToGetSensorData",
    "FailedToParseSensorData",
    "HardwareInspectionFailure",
    "IPMIFailure",
    "IRMCOperationError",
    "IloOperationError",
    "ImageRefValidationFailed",
    "InstanceDeployFailure",
    "Invalid",
    "InvalidMAC",
    "InvalidParameterValue",
    "InvalidState",
    "InvalidStateRequested",
    "IronicException",
    "MissingParameterValue",
    "NoFreePhysicalPorts",
    "NodeAssociated",
    "NodeCleaningFailure",
    "NodeInMaintenance",
    "NodeLocked",
    "NodeNotFound",
    "NodeServicingFailure",
    "NodeVerifyFailure",
    "NotFound",
    "PasswordFileFailedToCreate",
    "PortNotFound",
    "PowerStateFailure",
    "RedfishConnectionError",
    "RedfishError",
    "StorageError",
    "UnsupportedDriverExtension",
    "UnsupportedHardwareFeature",
    "VifAlreadyAttached",
    "VifNotAttached",
]

IronicException = DeployStepsException


class AgentConnectionFailed(DriverOperationError):
    """The machine's agent does not answer."""

    _msg_fmt = "Connection to agent failed: %(reason)s"


class AgentAPIError(DriverOperationError):
    """The machine's agent answered with an error."""

    _msg_fmt = (
        "Agent API for node %(node)s returned HTTP status code %(status)s with error: %(error)s"
    )


class ConsoleError(DeployStepsException):
    """A console failed."""


class ConsoleSubprocessFailed(ConsoleError):
    """A console's program did not start."""

    _msg_fmt = "Console subprocess failed to start. %(error)s"


class DracOperationError(DriverOperationError):
    """A DRAC failed."""

    _msg_fmt = "DRAC operation failed. Reason: %(error)s"


class FailedToGetSensorData(DeployStepsException):
    """A machine's sensors could not be read."""

    _msg_fmt = "Failed to get sensor data for node %(node)s. Error: %(error)s"


class FailedToParseSensorData(DeployStepsException):
    """What a machine's sensors told makes no sense."""

    _msg_fmt = "Failed to parse sensor data for node %(node)s. Error: %(error)s"


class HardwareInspectionFailure(DeployStepsException):
    """An inspection failed."""

    _msg_fmt = "Failed to inspect hardware. Reason: %(error)s"


class IPMIFailure(DeployStepsException):
    """An IPMI command failed."""

    _msg_fmt = "IPMI call failed: %(cmd)s."


class IRMCOperationError(DriverOperationError):
    """An iRMC failed."""

    _msg_fmt = "iRMC %(operation)s failed. Reason: %(error)s"


class IloOperationError(DriverOperationError):
    """An iLO failed."""

    _msg_fmt = "%(operation)s failed, error: %(error)s"


class ImageRefValidationFailed(DeployStepsException):
    """An image cannot be used."""

    _msg_fmt = "Validation of image href %(image_href)s failed, reason: %(reason)s"


class InvalidMAC(Invalid):
    """No hardware address."""

    _msg_fmt = "Expected a MAC address but received %(mac)s."


class PasswordFileFailedToCreate(DeployStepsException):
    """A file for a tool that takes passwords from files could not be made."""

    _msg_fmt = "Failed to create the password file. %(error)s"


class RedfishError(DriverOperationError):
    """A Redfish controller failed."""

    _msg_fmt = "Redfish exception occurred. Error: %(error)s"


class RedfishConnectionError(RedfishError):
    """A Redfish controller does not answer."""

    _msg_fmt = "Redfish connection failed for node %(node)s: %(error)s"


class StorageError(DeployStepsException):
    """A remote volume failed."""

    _msg_fmt = "Storage operation failure."


class UnsupportedHardwareFeature(Invalid):
    """A machine lacks what was asked of it."""

    _msg_fmt = (
        "Node %(node)s hardware does not support feature %(feature)s, which is required based upon "
        "the requested configuration."
    )


class VifAlreadyAttached(Invalid):
    """The virtual interface has a port already.

    A refusal for good: no 409, which clients would try again.
    """

    _msg_fmt = (
        "Unable to attach VIF because VIF %(vif)s is already attached to Ironic %(object_type)s "
        "%(object_uuid)s"
    )


class VifNotAttached(Invalid):
    """The node does not have this virtual interface."""

    _msg_fmt = "Unable to detach VIF %(vif)s from node %(node)s because it is not attached to it."


class NoFreePhysicalPorts(Invalid):
    """No port is left for another virtual interface."""

    _msg_fmt = "Unable to attach VIF %(vif)s, not enough free physical ports."
