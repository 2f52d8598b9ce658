"""The state table: the one place where states, events and transitions stand.

Every question about them is answered by deriving from it, in
:mod:`deploysteps.states.questions`; nothing else keeps a list.
"""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator
from typing import NamedTuple

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
