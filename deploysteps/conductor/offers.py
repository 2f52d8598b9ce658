"""What the interfaces of a node offer: collected, and checked, as anybody may have written it."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any, NamedTuple

from deploysteps import exceptions, limits, reserved
from deploysteps.steps import INTERFACE_TYPES, MAX_PRIORITY, StepDict, StepFlow

LOG = logging.getLogger(__name__)

Key = tuple[str, str]
Overrides = Mapping[Key, int]

DRIVER, AGENT, CONFIGURED = "driver", "agent", "configuration"
"""Sources of steps that nobody asked for."""


class Offer(NamedTuple):
    """What a node's interfaces offer."""

    steps: list[StepDict]
    agent_to_come: bool = False
    """An agent will run on the machine, and has not told its steps yet."""
    dropped: tuple[StepDict, ...] = ()
    """What the agent offers and does not run, each with ``why``."""


def key_of(step: Mapping[str, Any]) -> Key:
    """Return what names a step in a plan: interface and step."""
    return (step["interface"], step["step"])


def label_of(step: Mapping[str, Any]) -> str:
    """Return a step's name for people: ``interface.step``."""
    return f"{limits.short(step.get('interface'))}.{limits.short(step.get('step'))}"


def collect(task: Any, flow: StepFlow) -> Offer:
    """Ask every interface of the node for its steps, once, and check what comes.

    What the machine's agent offers is among them, when it has told.

    :raises InvalidParameterValue: naming interface, class and step.
    """
    found: list[StepDict] = []
    for interface in flow.rank:
        instance = getattr(task.driver, interface, None)
        if instance is None:
            continue
        offered = getattr(instance, flow.collect)(task)
        where = f"{type(instance).__name__}.{flow.collect}()"
        found.extend(_checked(offered, where, DRIVER, interface))
    clash = twice(found)
    if clash:
        raise exceptions.InvalidParameterValue(f"step {'.'.join(clash)} is offered twice")
    told = task.driver.deploy.agent_steps(task, flow.name)
    if told is None:
        return Offer(found, agent_to_come=True)
    where = f"{type(task.driver.deploy).__name__}.agent_steps()"
    if isinstance(told, list | tuple):
        limits.check_steps(told, where)
    merged, dropped = _with_agents(found, _checked(told, where, AGENT))
    return Offer(merged, dropped=tuple(dropped))


def _with_agents(
    found: list[StepDict], told: list[StepDict]
) -> tuple[list[StepDict], list[StepDict]]:
    """Return both lists, and what of the agent's does not run.

    Of two steps of one name the conductor's wins, and that is told (F4).
    """
    clash = twice(told)
    if clash:
        raise exceptions.InvalidParameterValue(f"the agent offers step {'.'.join(clash)} twice")
    known = {key_of(step): step for step in found}
    merged, dropped = list(found), []
    for step in told:
        ours = known.get(key_of(step))
        if ours is None and not reserved.is_reserved(step):
            merged.append({**step, "agent": True})
            continue
        LOG.warning("Step %s: the conductor's runs, not the agent's of this name", label_of(step))
        if ours is None:
            dropped.append({**step, "why": "the conductor has a reserved step of this name"})
        else:
            ours["replaced"] = [{"source": AGENT, "priority": step["priority"]}]
    return merged, dropped


def _checked(offered: Any, where: str, source: str, interface: str | None = None) -> list[StepDict]:
    if not isinstance(offered, list | tuple):
        raise exceptions.InvalidParameterValue(
            f"{where} returned {type(offered).__name__}; it has to return a list of steps"
        )
    steps = [_offered(step, interface, where, source) for step in offered]
    for step in steps:
        if source == DRIVER and reserved.is_reserved(step):
            raise exceptions.InvalidParameterValue(
                f"{where} offers {label_of(step)}, which is the name of a reserved step; rename it"
            )
    return steps


def _flag(value: Any) -> bool:
    return isinstance(value, bool)


def _seconds(value: Any) -> bool:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return number and math.isfinite(value) and 0 <= value <= exceptions.LONGEST_WAIT


def _count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_PRIORITY


def _arguments(value: Any) -> bool:
    named = isinstance(value, Mapping) and all(isinstance(name, str) for name in value)
    return value is None or (named and all(isinstance(info, Mapping) for info in value.values()))


def _object(value: Any) -> bool:
    return value is None or isinstance(value, Mapping)


_MAY_SAY: dict[str, tuple[Callable[[Any], bool], str]] = {
    "args": (_object, "an object or None"),
    "argsinfo": (_arguments, "name -> object, or None"),
    "abortable": (_flag, "True or False"),
    "repeatable": (_flag, "True or False"),
    "requires_ramdisk": (_flag, "True or False"),
    "reboot_requested": (_flag, "True or False"),
    "ends_agent": (_flag, "True or False"),
    "timeout": (lambda value: value is None or _seconds(value), "seconds or None"),
    "retry_delay": (_seconds, "seconds"),
    "retries": (_count, "a whole number"),
}
"""What an offered step may say beside its names and priority; the rest is the engine's own."""


def _offered(step: Any, interface: str | None, where: str, source: str) -> StepDict:
    if not isinstance(step, Mapping):
        raise exceptions.InvalidParameterValue(
            f"{where} offers {type(step).__name__} where a step (a dict) belongs"
        )
    checked = {"interface": interface, "args": None}
    names = ("interface", "step", "priority", *_MAY_SAY)
    checked.update({name: step[name] for name in names if name in step})
    checked["source"] = source
    check_shape(checked, where)
    for name, (fits, what) in _MAY_SAY.items():
        if name in checked and not fits(checked[name]):
            raise exceptions.InvalidParameterValue(
                f"{where}: step {label_of(checked)}: {name} has to be {what}"
            )
    try:
        json.dumps(checked, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as exc:
        raise exceptions.InvalidParameterValue(
            f"{where}: step {label_of(checked)} holds what is not JSON ({type(exc).__name__})"
        ) from None
    checked["default_priority"] = checked["priority"]
    return checked


def check_name(step: Mapping[str, Any], where: str) -> str:
    """Check the names of a step, and return them as people write them.

    :raises InvalidParameterValue: naming the step and what is wrong with it.
    """
    name = step.get("step")
    interface = step.get("interface")
    if not isinstance(name, str) or not name:
        raise exceptions.InvalidParameterValue(f"{where}: a step has no name ('step')")
    label = label_of(step)
    if not limits.is_name(name):
        raise exceptions.InvalidParameterValue(
            f"{where}: step {label}: a name is of at most {limits.LONGEST_NAME} characters that "
            "can be printed"
        )
    if interface not in INTERFACE_TYPES:
        raise exceptions.InvalidParameterValue(
            f"{where}: step {label}: unknown interface; one of {', '.join(INTERFACE_TYPES)}"
        )
    return label


def check_shape(step: Mapping[str, Any], where: str) -> None:
    """Check names and priority of a step.

    :raises InvalidParameterValue: naming the step and what is wrong with it.
    """
    label = check_name(step, where)
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


def twice(steps: Iterable[Mapping[str, Any]]) -> Key | None:
    """Return the first name that is there twice, if one is."""
    seen: set[Key] = set()
    for step in steps:
        key = (str(step.get("interface")), str(step.get("step")))
        if key in seen:
            return key
        seen.add(key)
    return None
