"""What a write under a lock tells: events for watchers, and numbers for metrics."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

from deploysteps import counts, reserved
from deploysteps.db import events
from deploysteps.db.events import New
from deploysteps.db.locks import Also
from deploysteps.steps import INTERFACE_TYPES, RUNS, flow_of_state

OTHER = "other"
"""Stands in metrics for every step that no enabled class declares."""

NOTHING_DONE = "nothing_done"
"""Outcome in metrics of runs that ended well with nothing to do."""


def of_write(
    node: Any, values: Mapping[str, Any], also: Iterable[Also], more: Sequence[New] = ()
) -> list[New]:
    """Return what a write of a node tells, the node's own state last.

    :param values: attributes that are written.
    :param more: events of what runs last in the transaction.
    """
    told = [one.tells for one in also if one.tells is not None]
    told.extend(more)
    before, state = node.was("provision_state"), values.get("provision_state")
    if state is not None and state != before:
        run_id = told[-1].run_id if told else node.run_id
        target = values.get("target_provision_state", node.target_provision_state)
        told.append(
            New(events.NODE_STATE, run_id, {"state": state, "previous": before, "target": target})
        )
    return told


def count(told: Sequence[New], registry: Any, before: str, after: str) -> None:
    """Count what was told, once it is committed.

    :param before: the node's state before the write; it and the one ``after``
        tell the flow.
    """
    flow = flow_of_state(before) or flow_of_state(after)
    name = flow.name if flow is not None else OTHER
    for kind, _run_id, data in told:
        if kind == events.RUN_FINISHED:
            # A cleaning that is switched off erased nothing: it must not count as one that did.
            counts.RUNS.add(name, NOTHING_DONE if data.get("note") else data["outcome"])
        elif kind in (events.STEP_FINISHED, events.STEP_FAILED):
            step = f"{data['interface']}.{data['step']}"
            step = step if step in _declared(registry) else OTHER
            counts.STEPS.add(name, step, data["outcome"])
            counts.STEP_SECONDS.add(name, step, seconds=data["seconds"])


_known: WeakKeyDictionary[Any, frozenset[str]] = WeakKeyDictionary()


def _declared(registry: Any) -> frozenset[str]:
    """Return every step that an enabled class declares: what metrics may name."""
    if registry not in _known:
        _known[registry] = frozenset(_listed(registry))
    return _known[registry]


def _listed(registry: Any) -> Iterable[str]:
    for flow in RUNS.values():
        yield from (".".join(named) for named in (flow.prepare, flow.core) if named)
        for driver in () if flow.job else registry.hardware_types:
            for kind in INTERFACE_TYPES:
                for instance in registry.interfaces(driver, kind).values():
                    yield from (f"{kind}.{step}" for step in instance.declared_steps[flow.name])
    for step in reserved.offered():
        yield f"{step['interface']}.{step['step']}"
