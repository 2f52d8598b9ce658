"""Every error that crosses a room's border.

An exception takes a positional text, or the field's keyword arguments that
fill the class's ``_msg_fmt``; ``code`` is the HTTP status that the API
answers with. Only text is kept, so that an error can always be stored,
logged and sent.
"""

from __future__ import annotations

from typing import Any, ClassVar

LONGEST_WAIT = 2**31 - 1
"""Seconds that a wait may be told to last: what clocks and databases hold."""


class DeployStepsException(Exception):
    """Base of all errors of this package.

    :param message: the text. Without it, ``_msg_fmt`` filled with ``kwargs``.
    :param kwargs: values for ``_msg_fmt``; ``code`` overrides the status.
    """

    _msg_fmt: ClassVar[str] = "An unknown error occurred."
    code: int = 500

    def __init__(self, message: object = None, **kwargs: Any) -> None:
        """Build the text at once: arguments are not kept."""
        if "code" in kwargs:
            self.code = int(kwargs["code"])
        self.kwargs = {key: str(value) for key, value in kwargs.items()}
        if message is None:
            try:
                message = self._msg_fmt % kwargs
            except (KeyError, TypeError, ValueError):
                told = ", ".join(f"{k}={v}" for k, v in self.kwargs.items())
                message = f"{self._msg_fmt} ({told})" if told else self._msg_fmt
        self.message = str(message)
        super().__init__(self.message)

    def __reduce__(self) -> Any:
        """Pickle as text and status."""
        return (_rebuild, (type(self), self.message, self.code))


def _rebuild(cls: type[DeployStepsException], message: str, code: int) -> DeployStepsException:
    return cls(message, code=code)


# --- 4xx: what the caller can mend ------------------------------------------


class Invalid(DeployStepsException):
    """The request makes no sense."""

    _msg_fmt = "Unacceptable parameters: %(reason)s"
    code = 400


class InvalidParameterValue(Invalid):
    """A value that is not allowed; the message names it and the remedy."""

    _msg_fmt = "%(err)s"


class MissingParameterValue(InvalidParameterValue):
    """A required value was not given."""


class PatchError(Invalid):
    """A JSON patch that cannot be applied."""

    _msg_fmt = "Couldn't apply patch '%(patch)s'. Reason: %(reason)s"


class InvalidState(Invalid):
    """The state table has no such transition."""

    _msg_fmt = "Invalid resource state: %(reason)s"


class InvalidStateRequested(InvalidState):
    """The requested action cannot be done in the node's state."""

    _msg_fmt = (
        'The requested action "%(action)s" can not be performed on node '
        '"%(node)s" while it is in state "%(state)s".'
    )


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


class NotAuthenticated(DeployStepsException):
    """It is not known who asks."""

    _msg_fmt = "The request needs authentication."
    code = 401


class Forbidden(DeployStepsException):
    """Who asks may not have it."""

    _msg_fmt = "You may not do this: the policy rule '%(rule)s' does not let you pass."
    code = 403


class StepForbidden(Forbidden):
    """Who asks may not run this step."""

    _msg_fmt = (
        "You may not run the step %(step)s (%(source)s): the policy rule '%(rule)s' does not let "
        "you pass."
    )


class NotFound(DeployStepsException):
    """There is no such thing."""

    _msg_fmt = "Resource could not be found."
    code = 404


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


class NotAcceptable(DeployStepsException):
    """Newer than the requested API version."""

    _msg_fmt = "Request not acceptable."
    code = 406


class Conflict(DeployStepsException):
    """In the way of something that exists or goes on; try again."""

    _msg_fmt = "Conflict."
    code = 409


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


# --- drivers -----------------------------------------------------------------


class DriverLoadError(DeployStepsException):
    """A plugin is enabled and cannot be loaded."""

    _msg_fmt = (
        "Driver, hardware type or interface %(driver)s could not be loaded. Reason: %(reason)s."
    )


class DriverNotEnabled(DriverNotFound):
    """Installed, but not enabled in the configuration."""


class DriverNotInstalled(DriverNotFound):
    """No installed distribution registers this name."""


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
        timer. Without it the next heartbeat of the machine's agent does it.
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


# --- engine and locks ---------------------------------------------------------


class InconsistentSteps(DeployStepsException):
    """The stored (current step, index, list) do not fit together."""

    _msg_fmt = "Inconsistent step state: %(reason)s"


class LockLost(DeployStepsException):
    """The lock was taken away: nothing was written and the work must stop."""

    _msg_fmt = "The lock on node %(node)s was lost; nothing was written."


class ExclusiveLockRequired(DeployStepsException):
    """The operation needs an exclusive lock and the task has a shared one."""

    _msg_fmt = "An exclusive lock is required, but the current context has a shared lock."


class NoFreeConductorWorker(DeployStepsException):
    """All workers are busy; nothing was changed, try again."""

    _msg_fmt = (
        "Requested action cannot be performed due to lack of free conductor "
        "workers; nothing was changed, retry in a few seconds."
    )
    code = 503


class ConcurrentActionLimit(DeployStepsException):
    """As many nodes are at this as the operator allows; nothing was changed."""

    _msg_fmt = (
        "%(task_type)s of node %(node)s was refused: %(count)s are at it already, and "
        "[conductor] %(option)s allows %(limit)s; retry when one has ended, or raise the limit."
    )
    code = 503


class NoConductor(DeployStepsException):
    """No alive conductor offers what the node needs."""

    _msg_fmt = "%(reason)s"
    code = 503


class NotStarted(DeployStepsException):
    """The conductor is starting or stopping."""

    _msg_fmt = "The conductor is not accepting work: %(reason)s"
    code = 503


# --- database -------------------------------------------------------------------


class DatabaseUnavailable(DeployStepsException):
    """The database does not answer."""

    _msg_fmt = "The database does not answer: %(reason)s"
    code = 503


class DatabaseVersionError(DeployStepsException):
    """The schema is older, newer or unknown, and the message says what to run."""


class ConfigurationError(DeployStepsException):
    """A setting is wrong; the message names it and its remedy."""


class NodeProtected(DeployStepsException):
    """The node is protected from undeploying, rebuilding and deletion."""

    _msg_fmt = "Node %(node)s is protected and can not be undeployed, rebuilt or deleted."
    code = 403
