"""The list of steps: override, merge, forbid, validate, drop zeros, sort.

What the interfaces offer is collected in :mod:`deploysteps.conductor.offers`.
All but :func:`overridden` are pure functions over dicts.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, NamedTuple
from uuid import uuid4

from deploysteps import exceptions, reserved, texts
from deploysteps.conductor.offers import (
    AGENT,
    CONFIGURED,
    DRIVER,
    Key,
    Offer,
    Overrides,
    check_name,
    check_shape,
    collect,
    key_of,
    label_of,
    twice,
)
from deploysteps.drivers.base import validate_step_args
from deploysteps.steps import DEPLOY, StepDict, StepFlow

__all__ = [
    "AGENT",
    "CONFIGURED",
    "DRIVER",
    "Key",
    "Offer",
    "check_name",
    "check_shape",
    "collect",
    "key_of",
    "label_of",
]


class Layer(NamedTuple):
    """Steps that somebody lays over what is offered."""

    source: str
    """``request``, ``template NAME`` or ``runbook NAME``."""
    steps: Sequence[Mapping[str, Any]]


@dataclasses.dataclass(frozen=True)
class Plan:
    """What a run will do."""

    entries: list[StepDict]
    """The steps in order, as they are stored, each with an ``id``."""
    left_out: list[dict[str, Any]] = dataclasses.field(default_factory=list)
    """Steps that were offered or asked for and do not run, each with ``why``."""
    agent_to_come: bool = False
    note: str | None = None
    """Why there is nothing to do, where that is meant so."""

    @property
    def unknown(self) -> list[StepDict]:
        """Those of the steps that only the machine's agent may know."""
        return [entry for entry in self.entries if entry.get("unknown")]


def get_steps(task: Any, flow: StepFlow) -> list[StepDict]:
    """Return the steps that a run of the flow would do of itself, in order.

    Collected from every interface, with operators' overrides; priority 0 and
    what is forbidden are left out.

    :raises InvalidParameterValue: an interface offers a step that makes no sense.
    """
    banned = forbidden(task.runtime.conf.conductor, flow)
    offered = [step for step in overridden(task, flow).steps if key_of(step) not in banned]
    return ordered(enabled(offered), flow)


def get_deploy_steps(task: Any) -> list[StepDict]:
    """Return :func:`get_steps` of a deployment, under the field's name."""
    return get_steps(task, DEPLOY)


def overridden(task: Any, flow: StepFlow) -> Offer:
    """Return what the interfaces offer, with operators' priorities."""
    offer = collect(task, flow)
    if flow.overrides is None:
        return offer
    overrides = parse_overrides(task.runtime.conf.conductor[flow.overrides])
    return offer._replace(steps=override(offer.steps, overrides))


def forbidden(conf: Any, flow: StepFlow) -> frozenset[Key]:
    """Return the steps that operators forbid; ``conf`` is the group ``[conductor]``."""
    names = (name.partition(".") for name in conf[flow.forbidden])
    return frozenset((interface, step) for interface, _, step in names)


def plan(
    offer: Offer,
    layers: Sequence[Layer],
    flow: StepFlow,
    *,
    banned: Collection[Key] = (),
    disable_ramdisk: bool = False,
) -> Plan:
    """Return the list that a run stores: merged, checked, sorted, each with an id.

    :raises InvalidParameterValue: naming what of the request is wrong.
    """
    asked = [layer for layer in layers if layer.steps]
    listed = flow.in_order and bool(asked)
    merge_ = _listed if listed else merge
    merged = merge_(offer, asked, flow)
    kept = [step for step in merged if key_of(step) not in banned]
    wanted = kept if listed else enabled(kept)
    validate(wanted, disable_ramdisk=disable_ramdisk)
    wanted = wanted if listed else ordered(wanted, flow)
    _check_agent_lives(wanted)
    option = f"{SKIPPED}: [conductor] {flow.forbidden}"
    off = [] if listed else [step for step in kept if _disabled(step)]
    left_out = [
        *(_left_out(step, step["why"]) for step in offer.dropped if step["priority"]),
        *(_left_out(step, option) for step in merged if key_of(step) in banned and _meant(step)),
        *(_left_out(step, f"disabled by {step['source']}") for step in off),
    ]
    return Plan(
        planned(wanted),
        left_out,
        offer.agent_to_come,
    )


def _check_agent_lives(steps: Sequence[StepDict]) -> None:
    """Refuse a step of the agent's that would come when the agent is gone.

    :raises InvalidParameterValue: naming it.
    """
    end: StepDict | None = None
    for step in steps:
        if end is not None and step.get("agent"):
            raise exceptions.InvalidParameterValue(
                f"{label_of(step)} is a step of the machine's agent and would come after "
                f"{label_of(end)}, which ends the agent: give it a priority of at least "
                f"{end['priority']}, or 0"
            )
        end = step if step.get("ends_agent") else end


def _meant(step: StepDict) -> bool:
    """Tell whether a step would have run, had it not been forbidden."""
    return step["priority"] > 0 or step["source"] not in (DRIVER, AGENT, CONFIGURED)


def _disabled(step: StepDict) -> bool:
    """Tell whether a step would run, had nobody given it priority 0."""
    return step["priority"] == 0 and any(had["priority"] for had in step.get("replaced", ()))


def not_done(task: Any, flow: StepFlow, why: str) -> list[dict[str, Any]]:
    """Return :func:`get_steps` as steps that do not run, each with ``why``."""
    return [_left_out(step, why) for step in get_steps(task, flow)]


def _left_out(step: StepDict, why: str) -> dict[str, Any]:
    priorities = (step["priority"], *(had["priority"] for had in step.get("replaced", ())))
    return {
        "interface": step["interface"],
        "step": step["step"],
        "priority": next((priority for priority in priorities if priority), 0),
        "source": step["source"],
        "why": why,
    }


def parse_overrides(entries: Iterable[str]) -> dict[Key, int]:
    """Return (interface, step) -> priority of ``<interface>.<step>:<priority>`` entries.

    The option's type has checked their form.
    """
    found: dict[Key, int] = {}
    for entry in entries:
        name, _, priority = entry.rpartition(":")
        interface, _, step = name.partition(".")
        found[interface, step] = int(priority)
    return found


def override(steps: Iterable[StepDict], overrides: Overrides) -> list[StepDict]:
    """Return copies of the steps with operators' priorities."""
    return [_moved(step, overrides.get(key_of(step), step["priority"])) for step in steps]


def _moved(step: StepDict, priority: int) -> StepDict:
    if priority == step["priority"]:
        return dict(step)
    return _laid_over(step, {"priority": priority, "args": step["args"]}, CONFIGURED)


def _laid_over(step: StepDict, wanted: Mapping[str, Any], source: str) -> StepDict:
    """Return a step with another's priority and arguments, and what was there before."""
    before = {"source": step["source"], "priority": step["priority"]}
    return {
        **step,
        "priority": wanted["priority"],
        "args": wanted["args"],
        "source": source,
        "replaced": [*step.get("replaced", ()), before],
    }


def merge(offer: Offer, layers: Sequence[Layer], flow: StepFlow) -> list[StepDict]:
    """Return the offered steps with the layers laid over them, one after the other.

    A step of a layer takes the place of the one of the same interface and
    name: its priority and its arguments count. The core step may be switched
    off, and not moved.

    :raises InvalidParameterValue: naming the step.
    """
    merged = {key_of(step): dict(step) for step in offer.steps}
    by: dict[Key, str] = {}
    for layer in layers:
        clash = twice(layer.steps)
        if clash:
            raise exceptions.InvalidParameterValue(
                f"step {'.'.join(clash)} is {_asked(layer)} twice"
            )
        for wanted in layer.steps:
            check_shape(wanted, _where(layer))
            key = key_of(wanted)
            if layer.source.startswith(TEMPLATE):
                if key in by:
                    raise exceptions.InvalidParameterValue(
                        f"step {'.'.join(key)} is in two templates of this node, {by[key]} and "
                        f"{layer.source.removeprefix(TEMPLATE)}: take one of the traits away"
                    )
                by[key] = layer.source.removeprefix(TEMPLATE)
            if key == flow.core and wanted["priority"] != 0:
                raise exceptions.InvalidParameterValue(
                    f"the core step {'.'.join(key)} can be disabled (priority 0), not given "
                    "another priority"
                )
            base = merged.get(key) or _found(wanted, offer, flow)
            given = {"priority": wanted["priority"], "args": wanted.get("args") or {}}
            merged[key] = _laid_over(base, given, layer.source) if key in merged else base | given
            merged[key]["source"] = layer.source
    return list(merged.values())


SKIPPED = "skipped by policy"
"""What the reason begins with, why an operator's forbidden step does not run."""

REQUEST, TEMPLATE, RUNBOOK = "request", "template ", "runbook "
"""What the source of a layer begins with."""


def _where(layer: Layer) -> str:
    return "the request" if layer.source == REQUEST else layer.source


def _asked(layer: Layer) -> str:
    return "requested" if layer.source == REQUEST else f"in {layer.source}"


def _listed(offer: Offer, layers: Sequence[Layer], flow: StepFlow) -> list[StepDict]:
    """Return the steps of the layers and nothing else, in their order.

    :raises InvalidParameterValue: naming the step.
    """
    known = {key_of(step): step for step in offer.steps}
    merged: list[StepDict] = []
    for layer in layers:
        for wanted in layer.steps:
            check_name(wanted, _where(layer))
            base = known.get(key_of(wanted)) or _found(wanted, offer, flow)
            given = {"args": wanted.get("args") or {}, "source": layer.source}
            merged.append({**base, **given})
    return merged


def _found(wanted: Mapping[str, Any], offer: Offer, flow: StepFlow) -> StepDict:
    """Return a step that no interface offers: a reserved one, or one that the agent may know.

    :raises InvalidParameterValue: it is neither.
    """
    if flow.waiting and reserved.is_reserved(wanted):
        return next(step for step in reserved.offered() if key_of(step) == key_of(wanted))
    if offer.agent_to_come:
        return {
            "interface": wanted["interface"],
            "step": wanted["step"],
            "priority": wanted.get("priority", 0),
            "unknown": True,
        }
    known = [label_of(step) for step in offer.steps]
    close = texts.closest(label_of(wanted), known)
    meant = f" (did you mean {close}?)" if close else ""
    raise exceptions.InvalidParameterValue(
        f"no interface of this node has a {flow.name} step {label_of(wanted)}{meant}; "
        f"GET /v1/nodes/<node>/steps?flow={flow.name} lists what there is"
    )


def validate(steps: Iterable[StepDict], *, disable_ramdisk: bool = False) -> None:
    """Check the arguments of steps that will run.

    What only the agent may know is checked when it has told.

    :raises InvalidParameterValue: naming step and argument, never a value.
    """
    for step in steps:
        if step.get("unknown"):
            continue
        validate_step_args(step.get("argsinfo"), step.get("args"), step=label_of(step))
        if disable_ramdisk and step.get("requires_ramdisk"):
            raise exceptions.InvalidParameterValue(
                f"{label_of(step)} needs the ramdisk, which the request disables; take the step "
                "out, or leave disable_ramdisk out"
            )


def enabled(steps: Iterable[StepDict]) -> list[StepDict]:
    """Return the steps whose priority is not 0."""
    return [step for step in steps if step["priority"] > 0]


def ordered(steps: Iterable[StepDict], flow: StepFlow) -> list[StepDict]:
    """Return the steps, highest priority first; ties by rank, then as they came.

    At one priority the step that ends the machine's agent is the last: what the
    agent does there needs it alive.
    """
    return sorted(
        steps,
        key=lambda step: (
            -step["priority"],
            bool(step.get("ends_agent")),
            flow.rank_of(step["interface"]),
        ),
    )


# What of an offered step the plan does not repeat: the declaration says it,
# and only what differs from a plain step has to be kept for steps that no
# class declares.
_PLAIN: StepDict = {
    "repeatable": False,
    "timeout": None,
    "retries": 0,
    "retry_delay": 0,
    "requires_ramdisk": False,
    "ends_agent": False,
}


def planned(steps: Iterable[StepDict]) -> list[StepDict]:
    """Return the steps as they are stored: each with an id of its own."""
    return [
        {
            **{
                key: value
                for key, value in step.items()
                if key != "default_priority" and _PLAIN.get(key, _ABSENT) != value
            },
            "id": uuid4().hex[:12],
        }
        for step in steps
    ]


_ABSENT = object()
