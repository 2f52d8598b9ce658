"""What the reserved steps of :mod:`deploysteps.reserved` do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from deploysteps import states
from deploysteps.conductor import answers
from deploysteps.conductor.answers import Answer, Failed, Holds, Pauses, Waits
from deploysteps.steps import StepFlow


def execute(task: Any, flow: StepFlow, entry: Mapping[str, Any]) -> Answer:
    """Run a reserved step."""
    return _HANDLERS[entry["step"]](task, flow, entry.get("args") or {})


def _power(target: str) -> Callable[[Any, StepFlow, Mapping[str, Any]], Answer]:
    def switch(task: Any, flow: StepFlow, args: Mapping[str, Any]) -> Answer:
        if target == states.POWER_OFF and task.node.disable_power_off:
            why = "the node has disable_power_off: it is not switched off before that is unset"
            return Failed(why, raised=False)
        return answers.ask(task, flow, lambda: task.switch_power(target))

    return switch


def _wait(task: Any, flow: StepFlow, args: Mapping[str, Any]) -> Answer:
    seconds = args.get("seconds")
    if seconds is not None:
        return Pauses(float(seconds))
    return Waits(states.Wait(flow.waiting or ""))


def _hold(task: Any, flow: StepFlow, args: Mapping[str, Any]) -> Answer:
    return Holds()


_HANDLERS: dict[str, Callable[[Any, StepFlow, Mapping[str, Any]], Answer]] = {
    "power_on": _power(states.POWER_ON),
    "power_off": _power(states.POWER_OFF),
    "reboot": _power(states.REBOOT),
    "wait": _wait,
    "hold": _hold,
}
"""Name in the registry -> what it does; a test compares the two."""
