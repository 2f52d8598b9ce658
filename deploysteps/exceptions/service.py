"""Errors of the service itself: its engine and locks, its database, its settings."""

from __future__ import annotations

from deploysteps.exceptions.kinds import Conflict, DeployStepsException


class InconsistentSteps(DeployStepsException):
    """The stored (current step, index, list) do not fit together."""

    _msg_fmt = "Inconsistent step state: %(reason)s"


class LockLost(Conflict):
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


class DatabaseUnavailable(DeployStepsException):
    """The database does not answer."""

    _msg_fmt = "The database does not answer: %(reason)s"
    code = 503


class DatabaseFull(DatabaseUnavailable):
    """The database answers, and has no room for what is to be written."""

    _msg_fmt = "The database has no room: %(reason)s"


class DatabaseVersionError(DeployStepsException):
    """The schema is older, newer or unknown, and the message says what to run."""


class ConfigurationError(DeployStepsException):
    """A setting is wrong; the message names it and its remedy."""
