"""The kinds of errors: whose mistake it is, and with what status the API answers."""

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


class NotAcceptable(DeployStepsException):
    """Newer than the requested API version."""

    _msg_fmt = "Request not acceptable."
    code = 406


class Conflict(DeployStepsException):
    """In the way of something that exists or goes on; try again."""

    _msg_fmt = "Conflict."
    code = 409
