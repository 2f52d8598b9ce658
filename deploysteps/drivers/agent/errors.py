"""What can go wrong between the conductor and an agent. No text has a URL's query."""

from __future__ import annotations

from typing import Any

from deploysteps.drivers.compat_exceptions import AgentAPIError, AgentConnectionFailed


class Unreachable(AgentConnectionFailed):
    """The agent gave no answer of its own: a refused or lost connection, a time-out, a 5xx.

    It is no failure of the step: the agent may be there again in a moment.
    """

    def __init__(self, message: object = None, *, taken: bool = True, **kwargs: Any) -> None:
        """Keep whether the agent may have taken the request all the same."""
        super().__init__(message, **kwargs)
        self.taken = taken


class Refused(AgentAPIError):
    """The agent understood and refused (4xx), or what answers is no agent."""

    def __init__(self, message: object = None, *, status: int = 0, **kwargs: Any) -> None:
        """Keep the HTTP status; 0 when the answer made no sense."""
        super().__init__(message, **kwargs)
        self.status = status


class CommandFailed(Refused):
    """The agent has executed a command that was waited for, and it failed."""


class Busy(Refused):
    """The agent still executes another command (409): it does one at a time."""


class Gone(Refused):
    """The agent does not know the command (404): it was restarted meanwhile."""
