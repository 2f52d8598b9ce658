"""The list of steps: collect, override, merge, validate, drop zeros, sort.

All but :func:`collect` are pure functions over dicts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any
from uuid import uuid4

from deploysteps import exceptions
from deploysteps.drivers.base import validate_step_args
from deploysteps.steps import DEPLOY, INTERFACE_TYPES, MAX_PRIORITY, StepDict, StepFlow

Key = tuple[str, str]
Overrides = Mapping[Key, int]


def key_of(step: Mapping[str, Any]) -> Key:
    """Return what names a step in a plan: interface and step."""
    return (step["interface"], step["step"])


def get_deploy_steps(task: Any) -> list[StepDict]:
    """Return the steps that a deployment of the task's node would run, in order.

    Collected from every interface, with operators' overrides; priority 0 is
    left out.

    :raises InvalidParameterValue: an interface offers a step that makes no sense.
    """
    return ordered(enabled(overridden(task, DEPLOY)), DEPLOY)


def overridden(task: Any, flow: StepFlow) -> list[StepDict]:
    """Return what the interfaces offer, with operators' priorities."""
    overrides = parse_overrides(task.runtime.conf.conductor[flow.overrides])
    return override(collect(task, flow), overrides)


def plan(
    offered: Sequence[StepDict], requested: Sequence[Mapping[str, Any]], flow: StepFlow
) -> list[StepDict]:
    """Return the list that a run stores: merged, checked, sorted, each with an id.

    :raises InvalidParameterValue: naming what of the request is wrong.
    """
    merged = merge(offered, requested, flow)
    validate(merged)
    return planned(ordered(enabled(merged), flow))


def collect(task: Any, flow: StepFlow) -> list[StepDict]:
    """Ask every interface of the node for its steps, once, and check what comes.

    :raises InvalidParameterValue: naming interface, class and step.
    """
    found: list[StepDict] = []
    for interface in flow.rank:
        instance = getattr(task.driver, interface, None)
        if instance is None:
            continue
        offered = getattr(instance, flow.collect)(task)
        where = f"{type(instance).__name__}.{flow.collect}()"
        if not isinstance(offered, list | tuple):
            raise exceptions.InvalidParameterValue(
                f"{where} returned {type(offered).__name__}; it has to return a list of steps"
            )
        found.extend(_offered(step, interface, where) for step in offered)
    clash = _twice(found)
    if clash:
        raise exceptions.InvalidParameterValue(f"step {'.'.join(clash)} is offered twice")
    return found


def _offered(step: Any, interface: str, where: str) -> StepDict:
    if not isinstance(step, Mapping):
        raise exceptions.InvalidParameterValue(
            f"{where} offers {type(step).__name__} where a step (a dict) belongs"
        )
    checked = {"interface": interface, **step}
    checked.setdefault("args", None)
    checked["source"] = "driver"
    check_shape(checked, where)
    checked["default_priority"] = checked["priority"]
    return checked


def check_shape(step: Mapping[str, Any], where: str) -> None:
    """Check names and priority of a step.

    :raises InvalidParameterValue: naming the step and what is wrong with it.
    """
    name = step.get("step")
    interface = step.get("interface")
    if not isinstance(name, str) or not name:
        raise exceptions.InvalidParameterValue(f"{where}: a step has no name ('step')")
    label = f"{interface}.{name}"
    if interface not in INTERFACE_TYPES:
        raise exceptions.InvalidParameterValue(
            f"{where}: step {label}: unknown interface; one of {', '.join(INTERFACE_TYPES)}"
        )
    priority = step.get("priority")
    if isinstance(priority, bool) or not isinstance(priority, int):
        raise exceptions.InvalidParameterValue(
            f"{where}: step {label}: priority must be a whole number, "
            f"not {'missing' if priority is None else type(priority).__name__}"
        )
    if not 0 <= priority <= MAX_PRIORITY:
        raise exceptions.InvalidParameterValue(
            f"{where}: step {label}: priority must be from 0 (never runs) to {MAX_PRIORITY}"
        )


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
    return [{**step, "priority": overrides.get(key_of(step), step["priority"])} for step in steps]


def merge(
    offered: Sequence[StepDict], requested: Sequence[Mapping[str, Any]], flow: StepFlow
) -> list[StepDict]:
    """Return the offered steps with what a request asks for laid over them.

    A requested step takes the place of the offered one of the same interface
    and name: its priority and its arguments count. The core step may be
    switched off, and not moved.

    :raises InvalidParameterValue: naming the step.
    """
    clash = _twice(requested)
    if clash:
        raise exceptions.InvalidParameterValue(f"step {'.'.join(clash)} is requested twice")
    known = {key_of(step): index for index, step in enumerate(offered)}
    merged = [dict(step) for step in offered]
    for wanted in requested:
        check_shape(wanted, "the request")
        key = key_of(wanted)
        label = ".".join(key)
        if key not in known:
            raise exceptions.InvalidParameterValue(
                f"no interface of this node has a {flow.name} step {label}; "
                f"GET /v1/nodes/<node>/steps lists what there is"
            )
        step = merged[known[key]]
        if key == flow.core and wanted["priority"] != 0:
            raise exceptions.InvalidParameterValue(
                f"the core step {label} can be disabled (priority 0), not given another priority"
            )
        step.update(priority=wanted["priority"], args=wanted.get("args") or {}, source="request")
    return merged


def _twice(steps: Iterable[Mapping[str, Any]]) -> Key | None:
    seen: set[Key] = set()
    for step in steps:
        key = (str(step.get("interface")), str(step.get("step")))
        if key in seen:
            return key
        seen.add(key)
    return None


def validate(steps: Iterable[StepDict]) -> None:
    """Check the arguments of every step that will run.

    :raises InvalidParameterValue: naming step and argument, never a value.
    """
    for step in enabled(steps):
        validate_step_args(step.get("argsinfo"), step.get("args"), step=".".join(key_of(step)))


def enabled(steps: Iterable[StepDict]) -> list[StepDict]:
    """Return the steps whose priority is not 0."""
    return [step for step in steps if step["priority"] > 0]


def ordered(steps: Iterable[StepDict], flow: StepFlow) -> list[StepDict]:
    """Return the steps, highest priority first; ties by rank, then as they came."""
    return sorted(steps, key=lambda step: (-step["priority"], flow.rank_of(step["interface"])))


# What of an offered step the plan does not repeat: the declaration says it,
# and only what differs from a plain step has to be kept for steps that no
# class declares.
_PLAIN: StepDict = {"repeatable": False, "timeout": None, "retries": 0, "retry_delay": 0}


def planned(steps: Iterable[StepDict]) -> list[StepDict]:
    """Return the steps as they are stored: each with an id of its own."""
    return [
        {
            "id": uuid4().hex[:12],
            **{
                key: value
                for key, value in step.items()
                if key != "default_priority" and _PLAIN.get(key, _ABSENT) != value
            },
        }
        for step in steps
    ]


_ABSENT = object()


def locate(current: Mapping[str, Any] | None, index: Any, plan: Any) -> int:
    """Return where the current step is in the plan; -1 before the first one.

    The stored triple has to be consistent. When the list changed in flight
    the position is found again by the step's identity.

    :raises InconsistentSteps: saying what does not fit.
    """
    if not isinstance(plan, list) or not plan:
        raise exceptions.InconsistentSteps(reason="there is no list of steps")
    if not all(isinstance(entry, Mapping) for entry in plan):
        raise exceptions.InconsistentSteps(reason="the list has entries that are no steps")
    if current is None and index is None:
        return -1
    if current is None:
        raise exceptions.InconsistentSteps(reason=f"no current step, but an index ({index!r})")
    name = f"{current.get('interface')}.{current.get('step')}"
    if isinstance(index, bool) or not isinstance(index, int) or index < 0:
        raise exceptions.InconsistentSteps(reason=f"current step {name} with index {index!r}")
    if index < len(plan) and _same(current, plan[index]):
        return index
    places = [place for place, entry in enumerate(plan) if _same(current, entry)]
    if len(places) != 1:
        raise exceptions.InconsistentSteps(
            reason=f"current step {name} (index {index}) is "
            f"{'no longer' if not places else 'more than once'} in the list"
        )
    return places[0]


def _same(current: Mapping[str, Any], entry: Any) -> bool:
    if not isinstance(entry, Mapping):
        return False
    if current.get("id") is not None or entry.get("id") is not None:
        return current.get("id") == entry.get("id")
    return all(current.get(k) == entry.get(k) for k in ("interface", "step"))
