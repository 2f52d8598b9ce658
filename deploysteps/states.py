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
from collections.abc import Iterator
from typing import Any, NamedTuple

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


POWER_TARGETS: dict[str, str] = {
    POWER_ON: POWER_ON,
    POWER_OFF: POWER_OFF,
    REBOOT: POWER_ON,
    SOFT_POWER_OFF: POWER_OFF,
    SOFT_REBOOT: POWER_ON,
}
"""What is asked for -> the power state that it leads to."""


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
    other_targets: tuple[str, ...] = ()
    """Targets that a node brings along and keeps here."""
    agent: bool = False
    """An agent may run on the machine: lookups and heartbeats are accepted."""
    deletable: bool = False
    """The node's record may be removed from here."""
    failed: bool = False
    """Something went wrong: ``last_error`` says what."""


_MANUAL = (MANAGEABLE,)
"""Where a cleaning that an operator asked for leads, instead of to ``available``."""

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
        State(CLEANING, Kind.TRANSIENT, target=AVAILABLE, other_targets=_MANUAL, agent=True),
        State(CLEANWAIT, Kind.WAIT, target=AVAILABLE, other_targets=_MANUAL, agent=True),
        State(CLEANHOLD, Kind.HOLD, target=AVAILABLE, other_targets=_MANUAL, agent=True),
        State(CLEANFAIL, Kind.STABLE, target=AVAILABLE, other_targets=_MANUAL, failed=True),
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
CLEAN, SERVICE, UNHOLD = "clean", "service", "unhold"
INSPECT, ADOPT, UNRESCUE = "inspect", "adopt", "unrescue"
TO_RESCUE = "rescue"
"""The event; the state that it leads to is spelled the same."""
WAIT, RESUME, HOLD, DONE, FAIL = "wait", "resume", "hold", "done", "fail"
KEPT = "kept"
"""The end of a cleaning that was asked for: the node stays with its operator."""


class Transition(NamedTuple):
    """One row of the table of transitions."""

    start: str
    event: str
    end: str
    target: str | None = None
    """``target_provision_state`` that it sets, where it is not the state's own."""


def _run(running: str, waiting: str, holding: str, failed: str) -> Iterator[Transition]:
    """Return what a run of steps may do between its beginning and its good end."""
    for event, end in ((WAIT, waiting), (HOLD, holding), (FAIL, failed), (ABORT, failed)):
        yield Transition(running, event, end)
    for event, end in ((RESUME, running), (FAIL, failed), (ABORT, failed)):
        yield Transition(waiting, event, end)
    for event, end in ((UNHOLD, running), (FAIL, failed), (ABORT, failed)):
        yield Transition(holding, event, end)


def _job(
    begins: str, starts: tuple[str, ...], running: str, waiting: str | None, failed: str, end: str
) -> Iterator[Transition]:
    """Return what work of one call does, from where it may be asked for to its ends."""
    for start in starts:
        yield Transition(start, begins, running)
    yield Transition(running, DONE, end)
    for event in (FAIL, ABORT):
        yield Transition(running, event, failed)
    if waiting is not None:
        yield Transition(running, WAIT, waiting)
        yield Transition(waiting, RESUME, running)
        for event in (FAIL, ABORT):
            yield Transition(waiting, event, failed)


TRANSITIONS: tuple[Transition, ...] = (
    Transition(ENROLL, MANAGE, VERIFYING),
    Transition(VERIFYING, DONE, MANAGEABLE),
    Transition(VERIFYING, FAIL, ENROLL),
    Transition(VERIFYING, ABORT, ENROLL),
    Transition(AVAILABLE, MANAGE, MANAGEABLE),
    Transition(CLEANFAIL, MANAGE, MANAGEABLE),
    Transition(INSPECTFAIL, MANAGE, MANAGEABLE),
    Transition(ADOPTFAIL, MANAGE, MANAGEABLE),
    # cleaning
    Transition(MANAGEABLE, PROVIDE, CLEANING),
    Transition(MANAGEABLE, CLEAN, CLEANING, MANAGEABLE),
    Transition(DELETING, CLEAN, CLEANING),
    *_run(CLEANING, CLEANWAIT, CLEANHOLD, CLEANFAIL),
    Transition(CLEANING, DONE, AVAILABLE),
    Transition(CLEANING, KEPT, MANAGEABLE),
    # deploying
    Transition(AVAILABLE, DEPLOY, DEPLOYING),
    Transition(DEPLOYFAIL, DEPLOY, DEPLOYING),
    Transition(ACTIVE, REBUILD, DEPLOYING),
    Transition(DEPLOYFAIL, REBUILD, DEPLOYING),
    Transition(ERROR, REBUILD, DEPLOYING),
    *_run(DEPLOYING, DEPLOYWAIT, DEPLOYHOLD, DEPLOYFAIL),
    Transition(DEPLOYING, DONE, ACTIVE),
    # servicing
    Transition(ACTIVE, SERVICE, SERVICING),
    Transition(SERVICEFAIL, SERVICE, SERVICING),
    *_run(SERVICING, SERVICEWAIT, SERVICEHOLD, SERVICEFAIL),
    Transition(SERVICING, DONE, ACTIVE),
    # undeploying
    Transition(ACTIVE, DELETE, DELETING),
    Transition(DEPLOYFAIL, DELETE, DELETING),
    Transition(DEPLOYWAIT, DELETE, DELETING),
    Transition(DEPLOYHOLD, DELETE, DELETING),
    Transition(ERROR, DELETE, DELETING),
    Transition(SERVICEWAIT, DELETE, DELETING),
    Transition(SERVICEHOLD, DELETE, DELETING),
    Transition(SERVICEFAIL, DELETE, DELETING),
    Transition(RESCUE, DELETE, DELETING),
    Transition(RESCUEFAIL, DELETE, DELETING),
    Transition(UNRESCUEFAIL, DELETE, DELETING),
    Transition(DELETING, FAIL, ERROR),
    Transition(RESCUEWAIT, DELETE, DELETING),
    # what is one call: inspecting, adopting, rescuing
    *_job(INSPECT, (MANAGEABLE, INSPECTFAIL), INSPECTING, INSPECTWAIT, INSPECTFAIL, MANAGEABLE),
    Transition(INSPECTWAIT, DONE, MANAGEABLE),
    *_job(ADOPT, (MANAGEABLE, ADOPTFAIL), ADOPTING, None, ADOPTFAIL, ACTIVE),
    *_job(
        TO_RESCUE,
        (ACTIVE, RESCUE, RESCUEFAIL, UNRESCUEFAIL),
        RESCUING,
        RESCUEWAIT,
        RESCUEFAIL,
        RESCUE,
    ),
    *_job(UNRESCUE, (RESCUE, RESCUEFAIL, UNRESCUEFAIL), UNRESCUING, None, UNRESCUEFAIL, ACTIVE),
)


def _build_machine() -> machines.FiniteMachine:
    machine = machines.FiniteMachine()
    for name in STATES:
        machine.add_state(name)
    for move in TRANSITIONS:
        machine.add_transition(move.start, move.end, move.event)
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
    return frozenset(move.event for move in TRANSITIONS if move.start == current)


def can(current: str, event: str) -> bool:
    """Tell whether the table has ``event`` in ``current``."""
    return event in events(current)


def of_kind(*kinds: Kind) -> frozenset[str]:
    """Return the names of the states of these kinds."""
    return frozenset(s.name for s in STATES.values() if s.kind in kinds)


@functools.cache
def target_after(current: str, event: str, target: str | None) -> str | None:
    """Return ``target_provision_state`` after an event.

    :param target: what it was before: states of a flow that leads to several
        ends keep it.
    """
    after = next_state(current, event)
    for move in TRANSITIONS:
        if (move.start, move.event) == (current, event) and move.target is not None:
            return move.target
    return target if target in STATES[after].other_targets else STATES[after].target


def good_end(running: str, target: str | None) -> str:
    """Return the event by which a run in this state ends well.

    :param target: the state that the node is to end in.
    """
    ends = {move.end: move.event for move in TRANSITIONS if move.start == running}
    event = ends.get(target or "", DONE)
    return event if event in (DONE, KEPT) else DONE


def may(current: str, event: str) -> bool:
    """Tell whether people may ask for ``event``: of work that goes on, only for its end."""
    return can(current, event) and (event == ABORT or current not in TRANSIENT_STATES)


def verbs(current: str) -> list[str]:
    """Return what people may ask for in ``current``, by the words of the API."""
    return [verb for verb, event in VERBS.items() if may(current, event)]


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
    CLEAN: CLEAN,
    SERVICE: SERVICE,
    ABORT: ABORT,
    UNHOLD: UNHOLD,
    INSPECT: INSPECT,
    ADOPT: ADOPT,
    TO_RESCUE: TO_RESCUE,
    UNRESCUE: UNRESCUE,
}


class StepStatus(enum.Enum):
    """What :meth:`BaseInterface.check_step` says of a waiting step."""

    DONE = "done"
    RUNNING = "running"


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
        grow: float = 1.5,
        at_most: float = 60.0,
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
    grow: float = 1.5,
    at_most: float = 60.0,
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
