"""What is asked about states: derived from the table."""

from __future__ import annotations

import functools

from automaton import exceptions as automaton_exceptions
from automaton import machines

from deploysteps import exceptions
from deploysteps.states.table import ABORT, DONE, KEPT, STATES, TRANSITIONS, VERBS, Kind


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
