"""The state table: the one place where states and transitions stand.

Names and spellings are those of the bare-metal API (Ironic v1), because
clients compare the exact strings. Every question about states (which ones
wait, which are transient, which verbs are legal where, which accept a
heartbeat) is answered by deriving from :data:`STATES` and
:data:`TRANSITIONS`; nothing else keeps a list.
"""

from __future__ import annotations

import contextvars
import dataclasses
import enum
import functools
import math
from typing import Any

from automaton import exceptions as automaton_exceptions
from automaton import machines

from deploysteps import exceptions

NOSTATE = None

# Provision states.
ENROLL = "enroll"
VERIFYING = "verifying"
MANAGEABLE = "manageable"
AVAILABLE = "available"
DEPLOYING = "deploying"
DEPLOYWAIT = "wait call-back"
DEPLOYHOLD = "deploy hold"
DEPLOYFAIL = "deploy failed"
ACTIVE = "active"
DELETING = "deleting"
ERROR = "error"
CLEANING = "cleaning"
CLEANWAIT = "clean wait"
CLEANHOLD = "clean hold"
CLEANFAIL = "clean failed"
INSPECTING = "inspecting"
INSPECTWAIT = "inspect wait"
INSPECTFAIL = "inspect failed"
ADOPTING = "adopting"
ADOPTFAIL = "adopt failed"
RESCUING = "rescuing"
RESCUEWAIT = "rescue wait"
RESCUE = "rescue"
RESCUEFAIL = "rescue failed"
UNRESCUING = "unrescuing"
UNRESCUEFAIL = "unrescue failed"
SERVICING = "servicing"
SERVICEWAIT = "service wait"
SERVICEHOLD = "service hold"
SERVICEFAIL = "service failed"

# Words that are not states but stand where states do.
DEPLOYDONE = "deploy complete"
DELETED = "deleted"
REBUILD = "rebuild"

# Power states and targets.
POWER_ON = "power on"
POWER_OFF = "power off"
REBOOT = "rebooting"
SOFT_POWER_OFF = "soft power off"
SOFT_REBOOT = "soft rebooting"


class Kind(enum.Enum):
    """What a conductor owes to a node in a state of this kind."""

    STABLE = "stable"
    """Nothing is going on; no lock is held for long."""
    TRANSIENT = "transient"
    """A conductor is at work under a lock; left alone it must be recovered."""
    WAIT = "wait"
    """Work goes on elsewhere (machine, BMC, clock); a row, no thread."""
    HOLD = "hold"
    """Waits for an operator, without a limit of its own."""


@dataclasses.dataclass(frozen=True, slots=True)
class State:
    """One row of the state table."""

    name: str
    kind: Kind
    target: str | None = None
    """``target_provision_state`` that the node shows while it is here."""
    agent: bool = False
    """An agent may run on the machine: lookups and heartbeats are accepted."""
    deletable: bool = False
    """The node's record may be removed from here."""
    failed: bool = False
    """Something went wrong: ``last_error`` says what."""


STATES: dict[str, State] = {
    state.name: state
    for state in (
        State(ENROLL, Kind.STABLE, deletable=True),
        State(VERIFYING, Kind.TRANSIENT, target=MANAGEABLE),
        State(MANAGEABLE, Kind.STABLE, deletable=True),
        State(AVAILABLE, Kind.STABLE, deletable=True),
        State(DEPLOYING, Kind.TRANSIENT, target=ACTIVE, agent=True),
        State(DEPLOYWAIT, Kind.WAIT, target=ACTIVE, agent=True),
        State(DEPLOYHOLD, Kind.HOLD, target=ACTIVE, agent=True),
        State(DEPLOYFAIL, Kind.STABLE, target=ACTIVE, failed=True),
        State(ACTIVE, Kind.STABLE),
        State(DELETING, Kind.TRANSIENT, target=AVAILABLE),
        State(ERROR, Kind.STABLE, target=AVAILABLE, failed=True),
        State(CLEANING, Kind.TRANSIENT, target=AVAILABLE, agent=True),
        State(CLEANWAIT, Kind.WAIT, target=AVAILABLE, agent=True),
        State(CLEANHOLD, Kind.HOLD, target=AVAILABLE, agent=True),
        State(CLEANFAIL, Kind.STABLE, target=AVAILABLE, failed=True),
        State(INSPECTING, Kind.TRANSIENT, target=MANAGEABLE, agent=True),
        State(INSPECTWAIT, Kind.WAIT, target=MANAGEABLE, agent=True),
        State(INSPECTFAIL, Kind.STABLE, target=MANAGEABLE, failed=True),
        State(ADOPTING, Kind.TRANSIENT, target=ACTIVE),
        State(ADOPTFAIL, Kind.STABLE, target=ACTIVE, deletable=True, failed=True),
        State(RESCUING, Kind.TRANSIENT, target=RESCUE, agent=True),
        State(RESCUEWAIT, Kind.WAIT, target=RESCUE, agent=True),
        State(RESCUE, Kind.STABLE),
        State(RESCUEFAIL, Kind.STABLE, target=RESCUE, failed=True),
        State(UNRESCUING, Kind.TRANSIENT, target=ACTIVE),
        State(UNRESCUEFAIL, Kind.STABLE, target=ACTIVE, failed=True),
        State(SERVICING, Kind.TRANSIENT, target=ACTIVE, agent=True),
        State(SERVICEWAIT, Kind.WAIT, target=ACTIVE, agent=True),
        State(SERVICEHOLD, Kind.HOLD, target=ACTIVE, agent=True),
        State(SERVICEFAIL, Kind.STABLE, target=ACTIVE, failed=True),
    )
}

# Events. The first group is what people ask for (verbs), the second what the
# engine tells.
MANAGE, PROVIDE, DEPLOY, DELETE, ABORT = "manage", "provide", "deploy", "delete", "abort"
WAIT, RESUME, HOLD, UNHOLD, DONE, FAIL = "wait", "resume", "hold", "unhold", "done", "fail"

# (from, event, to). ``provide`` and the end of an undeploy go straight to
# available: there is no cleaning flow yet, and a state that nothing leads to
# keeps its way out so that a node found in it can be recovered.
TRANSITIONS: tuple[tuple[str, str, str], ...] = (
    (ENROLL, MANAGE, VERIFYING),
    (VERIFYING, DONE, MANAGEABLE),
    (VERIFYING, FAIL, ENROLL),
    (MANAGEABLE, PROVIDE, AVAILABLE),
    (AVAILABLE, MANAGE, MANAGEABLE),
    (CLEANFAIL, MANAGE, MANAGEABLE),
    (INSPECTFAIL, MANAGE, MANAGEABLE),
    (ADOPTFAIL, MANAGE, MANAGEABLE),
    # deploying
    (AVAILABLE, DEPLOY, DEPLOYING),
    (DEPLOYFAIL, DEPLOY, DEPLOYING),
    (ACTIVE, REBUILD, DEPLOYING),
    (DEPLOYFAIL, REBUILD, DEPLOYING),
    (ERROR, REBUILD, DEPLOYING),
    (DEPLOYING, WAIT, DEPLOYWAIT),
    (DEPLOYING, HOLD, DEPLOYHOLD),
    (DEPLOYING, DONE, ACTIVE),
    (DEPLOYING, FAIL, DEPLOYFAIL),
    (DEPLOYING, ABORT, DEPLOYFAIL),
    (DEPLOYWAIT, RESUME, DEPLOYING),
    (DEPLOYWAIT, FAIL, DEPLOYFAIL),
    (DEPLOYWAIT, ABORT, DEPLOYFAIL),
    (DEPLOYHOLD, UNHOLD, DEPLOYWAIT),
    (DEPLOYHOLD, FAIL, DEPLOYFAIL),
    (DEPLOYHOLD, ABORT, DEPLOYFAIL),
    # undeploying
    (ACTIVE, DELETE, DELETING),
    (DEPLOYFAIL, DELETE, DELETING),
    (DEPLOYWAIT, DELETE, DELETING),
    (DEPLOYHOLD, DELETE, DELETING),
    (ERROR, DELETE, DELETING),
    (SERVICEFAIL, DELETE, DELETING),
    (RESCUE, DELETE, DELETING),
    (RESCUEFAIL, DELETE, DELETING),
    (UNRESCUEFAIL, DELETE, DELETING),
    (DELETING, DONE, AVAILABLE),
    (DELETING, FAIL, ERROR),
    # ways out of states that no verb leads to yet
    (CLEANING, FAIL, CLEANFAIL),
    (CLEANWAIT, FAIL, CLEANFAIL),
    (CLEANHOLD, FAIL, CLEANFAIL),
    (INSPECTING, FAIL, INSPECTFAIL),
    (INSPECTWAIT, FAIL, INSPECTFAIL),
    (ADOPTING, FAIL, ADOPTFAIL),
    (RESCUING, FAIL, RESCUEFAIL),
    (RESCUEWAIT, FAIL, RESCUEFAIL),
    (UNRESCUING, FAIL, UNRESCUEFAIL),
    (SERVICING, FAIL, SERVICEFAIL),
    (SERVICEWAIT, FAIL, SERVICEFAIL),
    (SERVICEHOLD, FAIL, SERVICEFAIL),
)


def _build_machine() -> machines.FiniteMachine:
    machine = machines.FiniteMachine()
    for name in STATES:
        machine.add_state(name)
    for start, event, end in TRANSITIONS:
        machine.add_transition(start, end, event)
    machine.freeze()
    return machine


machine = _build_machine()
"""The table as an :class:`automaton.machines.FiniteMachine` (frozen)."""


@functools.cache
def next_state(current: str, event: str) -> str:
    """Return the state that ``event`` leads to from ``current``.

    :raises InvalidState: when the table has no such transition.
    """
    probe = machine.copy(shallow=True)
    try:
        probe.initialize(start_state=current)
        probe.process_event(event)
    except (automaton_exceptions.InvalidState, automaton_exceptions.NotFound) as exc:
        legal = ", ".join(sorted(events(current))) or "none"
        raise exceptions.InvalidState(
            f"a node in state {current!r} cannot {event!r}; legal here: {legal}"
        ) from exc
    return str(probe.current_state)


def events(current: str) -> frozenset[str]:
    """Return the events that the table allows in ``current``."""
    return frozenset(event for start, event, _ in TRANSITIONS if start == current)


def can(current: str, event: str) -> bool:
    """Tell whether the table has ``event`` in ``current``."""
    return event in events(current)


def of_kind(*kinds: Kind) -> frozenset[str]:
    """Return the names of the states of these kinds."""
    return frozenset(s.name for s in STATES.values() if s.kind in kinds)


STABLE_STATES = of_kind(Kind.STABLE)
TRANSIENT_STATES = of_kind(Kind.TRANSIENT)
WAIT_STATES = of_kind(Kind.WAIT)
HOLD_STATES = of_kind(Kind.HOLD)
AGENT_STATES = frozenset(s.name for s in STATES.values() if s.agent)
DELETABLE_STATES = frozenset(s.name for s in STATES.values() if s.deletable)

# What clients write as ``target`` -> the event of the table.
VERBS: dict[str, str] = {
    "manage": MANAGE,
    "provide": PROVIDE,
    ACTIVE: DEPLOY,
    "deploy": DEPLOY,
    REBUILD: REBUILD,
    DELETED: DELETE,
    "undeploy": DELETE,
    ABORT: ABORT,
}


class StepStatus(enum.Enum):
    """What :meth:`BaseInterface.check_step` says of a waiting step."""

    DONE = "done"
    RUNNING = "running"


class Wait(str):
    """A wait state that says when it wants to be looked at.

    Equal to the plain string, so that code which compares with
    ``states.DEPLOYWAIT`` needs to know nothing of it. Made by :func:`wait`.
    """

    poll: float | None
    grow: float
    at_most: float
    limit: float | None

    def __new__(
        cls,
        state: str,
        *,
        poll: float | None = None,
        grow: float = 1.5,
        at_most: float = 60.0,
        limit: float | None = None,
    ) -> Wait:
        """See :func:`wait`."""
        self = super().__new__(cls, state)
        self.poll, self.grow, self.at_most, self.limit = poll, grow, at_most, limit
        return self


def wait(
    flow_state: str,
    *,
    poll: float | None = None,
    grow: float = 1.5,
    at_most: float = 60.0,
    limit: float | None = None,
) -> Wait:
    """Return ``flow_state`` with instructions for the wait.

    :param flow_state: the flow's wait state, e.g. ``states.DEPLOYWAIT``.
    :param poll: seconds before ``check_step`` is asked first. Without it
        the machine's agent ends the wait by a heartbeat.
    :param grow: each further pause is this many times longer (at least 1).
    :param at_most: seconds that a pause may grow to.
    :param limit: seconds after which the step fails, counted from the start
        of the wait; 0 switches the limit off. Overrides the declared
        ``timeout``.
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
    answer = Wait(flow_state, poll=poll, grow=grow, at_most=at_most, limit=limit)
    asked_to_wait.set(answer)
    return answer


asked_to_wait: contextvars.ContextVar[Wait | None] = contextvars.ContextVar(
    "asked_to_wait", default=None
)
"""The last answer that :func:`wait` made here: a step that asked to wait and
then returned None forgot to say so."""
