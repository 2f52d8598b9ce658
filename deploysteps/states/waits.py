"""What a step answers that goes on elsewhere: the wait states, and who ends a wait."""

from __future__ import annotations

import contextvars
import enum
import math
from typing import Any

from deploysteps import exceptions
from deploysteps.states.questions import WAIT_STATES


class StepStatus(enum.Enum):
    """What :meth:`BaseInterface.check_step` says of a waiting step."""

    DONE = "done"
    RUNNING = "running"


_GROW, _AT_MOST = 1.5, 60.0
"""How much longer each pause of a poll is than the one before it, and seconds that none exceeds."""


class Wait(str):
    """A wait state that says when it wants to be looked at, and who ends it.

    Equal to the plain string, so that code which compares with
    ``states.DEPLOYWAIT`` needs to know nothing of it. Made by :func:`wait`.
    """

    poll: float | None
    grow: float
    at_most: float
    limit: float | None
    reboot: bool
    callback: bool
    agent: bool

    def __new__(
        cls,
        state: str,
        *,
        poll: float | None = None,
        grow: float = _GROW,
        at_most: float = _AT_MOST,
        limit: float | None = None,
        reboot: bool = False,
        callback: bool = False,
        agent: bool = False,
    ) -> Wait:
        """See :func:`wait`."""
        self = super().__new__(cls, state)
        self.poll, self.grow, self.at_most, self.limit = poll, grow, at_most, limit
        self.reboot, self.callback, self.agent = reboot, callback, agent
        return self


def wait(
    flow_state: str,
    *,
    poll: float | None = None,
    grow: float = _GROW,
    at_most: float = _AT_MOST,
    limit: float | None = None,
    reboot: bool = False,
    callback: bool = False,
    agent: bool = False,
) -> Wait:
    """Return ``flow_state`` with instructions for the wait.

    Without ``poll`` and ``callback`` the machine's agent ends the wait, by a
    heartbeat.

    :param flow_state: the flow's wait state, e.g. ``states.DEPLOYWAIT``.
    :param poll: seconds before ``check_step`` is asked first.
    :param grow: each further pause is this many times longer (at least 1).
    :param at_most: seconds that a pause may grow to.
    :param limit: seconds after which the step fails, counted from the start
        of the wait; 0 switches the limit off. Overrides the declared
        ``timeout``.
    :param reboot: the machine reboots: what the agent of this boot still
        sends does not count, only an agent that has booted anew ends the wait.
    :param callback: ``task.complete_step()`` or ``task.fail_step()`` ends the
        wait, called by a periodic method or whatever the driver has;
        heartbeats do not.
    :param agent: with ``poll``: the wait is the agent's all the same. Its
        heartbeats and the timer both ask ``check_step``, and its silence fails
        the step as it does without ``poll``; there is no other limit unless
        ``limit`` or the declaration sets one. For work that the agent does and
        that can be asked after before its next heartbeat.
    :raises InvalidParameterValue: for a value that makes no sense.
    """
    if flow_state not in WAIT_STATES:
        raise exceptions.InvalidParameterValue(
            f"states.wait() takes one of {sorted(WAIT_STATES)}, not {flow_state!r}"
        )
    bounds: tuple[tuple[str, Any, float], ...] = (
        ("poll", poll, 0.0),
        ("grow", grow, 1.0),
        ("at_most", at_most, 0.0),
        ("limit", limit, 0.0),
    )
    for name, value, least in bounds:
        if value is None and name in ("poll", "limit"):
            continue
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not math.isfinite(value)
            or not least <= value <= exceptions.LONGEST_WAIT
        ):
            raise exceptions.InvalidParameterValue(
                f"states.wait({name}=...) takes a number from {least:g} to "
                f"{exceptions.LONGEST_WAIT}, got {value!r}"
            )
    for name, flag in (("reboot", reboot), ("callback", callback), ("agent", agent)):
        if not isinstance(flag, bool):
            raise exceptions.InvalidParameterValue(
                f"states.wait({name}=...) takes True or False, got {flag!r}"
            )
    if poll is not None and (reboot or callback):
        raise exceptions.InvalidParameterValue(
            f"states.wait() takes poll or {'reboot' if reboot else 'callback'}, not both: a wait "
            "is ended by one"
            f"{'; let check_step() say when the machine is back' if reboot else ''}"
        )
    if agent and callback:
        raise exceptions.InvalidParameterValue(
            "states.wait() takes agent or callback, not both: a wait is ended by one"
        )
    answer = Wait(
        flow_state,
        poll=poll,
        grow=grow,
        at_most=at_most,
        limit=limit,
        reboot=reboot,
        callback=callback,
        agent=agent,
    )
    asked_to_wait.set(answer)
    return answer


asked_to_wait: contextvars.ContextVar[str | None] = contextvars.ContextVar(
    "asked_to_wait", default=None
)
"""The last answer that :func:`wait` made here, or in words what else was begun
that goes on: a step that did so and then returned None forgot to say so."""
