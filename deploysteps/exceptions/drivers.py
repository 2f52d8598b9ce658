"""Errors of drivers and of their steps: those of loading them, and those that authors raise."""

from __future__ import annotations

from typing import Any

from deploysteps.exceptions.kinds import (
    LONGEST_WAIT,
    DeployStepsException,
    Invalid,
    InvalidParameterValue,
)
from deploysteps.exceptions.things import DriverNotFound


class DriverLoadError(DeployStepsException):
    """A plugin is enabled and cannot be loaded."""

    _msg_fmt = (
        "Driver, hardware type or interface %(driver)s could not be loaded. Reason: %(reason)s."
    )


class DriverNotEnabled(DriverNotFound):
    """Installed, but not enabled in the configuration."""


class DriverNotInstalled(DriverNotFound):
    """No installed distribution registers this name."""


class ForeignConductorGroup(InvalidParameterValue):
    """The node is of a conductor group that this conductor does not work for."""


class InterfaceNotFound(InvalidParameterValue):
    """No such interface implementation for this node."""


class IncompatibleInterface(InvalidParameterValue):
    """The hardware type does not support this implementation."""

    _msg_fmt = (
        "%(interface_type)s interface implementation '%(interface_impl)s' is not "
        "supported by hardware type %(hardware_type)s."
    )


class NoValidDefaultForInterface(InvalidParameterValue):
    """Nothing supported and enabled is left for an interface."""

    _msg_fmt = (
        "No default value found for %(interface_type)s interface of hardware type %(driver)s."
    )


class UnsupportedDriverExtension(Invalid):
    """The driver does not do this."""

    _msg_fmt = "Driver %(driver)s does not support %(extension)s (disabled or not implemented)."


class StepDeclarationError(DeployStepsException, TypeError):
    """A step is declared wrongly; raised while the class is created."""

    _msg_fmt = "%(reason)s"


class PowerStateFailure(DeployStepsException):
    """The machine did not reach the power state."""

    _msg_fmt = "Failed to set node power state to %(pstate)s."


class DriverOperationError(DeployStepsException):
    """A driver could not do what it was asked."""

    _msg_fmt = "Runtime exception: %(reason)s."


class InstanceDeployFailure(DeployStepsException):
    """A deployment failed."""

    _msg_fmt = "Failed to deploy instance: %(reason)s"


class DeployStepFailed(InstanceDeployFailure):
    """For driver authors: this step failed, and this is why."""

    _msg_fmt = "Deploy step failed: %(reason)s"


class NodeCleaningFailure(DeployStepsException):
    """Cleaning failed."""

    _msg_fmt = "Failed to clean node %(node)s: %(reason)s"


class CleanStepFailed(NodeCleaningFailure):
    """For driver authors: this step failed, and this is why."""

    _msg_fmt = "Clean step failed: %(reason)s"


class NodeVerifyFailure(DeployStepsException):
    """Verifying failed."""

    _msg_fmt = "Failed to verify node %(node)s: %(reason)s"


class VerifyStepFailed(NodeVerifyFailure):
    """For driver authors: this step failed, and this is why."""

    _msg_fmt = "Verify step failed: %(reason)s"


class NodeServicingFailure(DeployStepsException):
    """Servicing failed."""

    _msg_fmt = "Failed to service node %(node)s: %(reason)s"


class ServiceStepFailed(NodeServicingFailure):
    """For driver authors: this step failed, and this is why."""

    _msg_fmt = "Service step failed: %(reason)s"


class StepNotReady(DeployStepsException):
    """For driver authors: not yet; wait, and enter this step again.

    :param after: seconds after which the step is entered again by the
        timer; a 25th of the time that it has waited, up to a minute, when that
        is longer. Without it the next heartbeat of the machine's agent does it.
    """

    _msg_fmt = "Not ready: %(reason)s"

    def __init__(self, message: object = None, *, after: float | None = None, **kwargs: Any):
        """See the class."""
        super().__init__(message, **kwargs)
        if after is not None and not (
            isinstance(after, int | float)
            and not isinstance(after, bool)
            and 0 <= after <= LONGEST_WAIT
        ):
            raise InvalidParameterValue(
                f"StepNotReady(after=...) takes seconds from 0 to {LONGEST_WAIT}, got {after!r}"
            )
        self.after = after


class StepsChanged(DeployStepsException):
    """For driver authors: the machine's steps are not any more those that it told of.

    Before it is raised, ``agent_steps`` has to know the new ones. The run makes
    its plan anew and begins again at the first step, three times at most.
    """

    _msg_fmt = "The steps have changed: %(reason)s"
