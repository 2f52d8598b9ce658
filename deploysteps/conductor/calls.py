"""Verbs that are one call of a driver's: inspect, adopt, rescue, unrescue.

Each is a flow without steps (:data:`deploysteps.steps.JOBS`); what they differ
in before they begin stands here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from deploysteps import exceptions, states
from deploysteps.conductor import engine, provision, starting
from deploysteps.conductor.runtime import Runtime
from deploysteps.conductor.steps import Plan
from deploysteps.steps import ADOPT, INSPECT, RESCUE, UNRESCUE, StepFlow


class Verb(NamedTuple):
    """What is asked before the work of one call begins."""

    flow: StepFlow
    event: str
    validates: tuple[str, ...]
    """Interfaces that have to have what they need."""
    in_maintenance: bool
    """Whether it may be begun in maintenance, as in the field."""


VERBS: dict[str, Verb] = {
    verb.event: verb
    for verb in (
        Verb(INSPECT, states.INSPECT, ("power", "inspect"), in_maintenance=True),
        Verb(ADOPT, states.ADOPT, ("power",), in_maintenance=True),
        Verb(RESCUE, states.TO_RESCUE, ("power", "rescue", "network"), in_maintenance=False),
        Verb(UNRESCUE, states.UNRESCUE, ("power",), in_maintenance=False),
    )
}


def begin(
    runtime: Runtime,
    context: Any,
    node_id: str,
    event: str,
    instance_info: Mapping[str, Any] | None = None,
) -> None:
    """Write that the work has begun, and give it to a worker.

    :param instance_info: keys that the work needs; they go when it ends.
    :raises InvalidStateRequested, NodeInMaintenance, InvalidParameterValue: a
        mistake in the request.
    :raises NodeLocked, NoFreeConductorWorker: try again.
    """
    verb = VERBS[event]
    purpose = f"node {event}"
    with provision.HandingOver(runtime, context, node_id, purpose) as (task, hand_over):
        provision.refuse(task, event, in_maintenance=None if verb.in_maintenance else event)
        for key, value in (instance_info or {}).items():
            task.node.set_instance_info(key, value)  # drivers may check it
        provision.validate(task, verb.validates)
        starting.start(task, verb.flow, Plan([]), event=event, requested_by=task.user)
        hand_over(engine.run, verb.flow)


def rescue(runtime: Runtime, context: Any, node_id: str, password: str) -> None:
    """Begin to boot a rescue system; see :meth:`ConductorManager.do_node_rescue`."""
    if not isinstance(password, str) or not password.strip():
        raise exceptions.InvalidParameterValue("a rescue needs a rescue_password that is not blank")
    begin(runtime, context, node_id, states.TO_RESCUE, {"rescue_password": password})
