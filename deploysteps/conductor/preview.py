"""What a node offers and what a run would do, shown without running anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deploysteps import exceptions, reserved, secrets
from deploysteps.conductor import planning, policy, steps, words
from deploysteps.conductor.task_manager import TaskManager
from deploysteps.steps import FLOWS, StepDict, StepFlow

_OFFERED = ("interface", "step", "priority", "default_priority", "argsinfo", "source", "replaced")
_PLANNED = ("interface", "step", "priority", "source", "argsinfo", "replaced", "requires_ramdisk")


def flow_named(name: str) -> StepFlow:
    """Return a flow by its name.

    :raises InvalidParameterValue: there is none.
    """
    if name not in FLOWS:
        raise exceptions.InvalidParameterValue(
            f"there is no flow {name[:80]!r}; there are {', '.join(FLOWS)}"
        )
    return FLOWS[name]


def _driver(task: TaskManager) -> Any:
    try:
        return task.driver
    except exceptions.NotFound as exc:
        raise exceptions.InvalidParameterValue(str(exc)) from exc


def steps_of(task: TaskManager, flow: StepFlow) -> list[StepDict]:
    """Return every step that the node offers, disabled ones last, reserved ones at the end.

    :raises InvalidParameterValue, DriverOperationError: they cannot be collected.
    """
    _driver(task)
    try:
        found = steps.overridden(task, flow).steps
    except BaseException as exc:  # SystemExit would stop the server that asks
        raise words.refusal(task, "the steps cannot be collected", exc) from None
    banned = steps.forbidden(task.runtime.conf.conductor, flow)
    shown = [*steps.ordered(found, flow), *(reserved.offered() if flow.waiting else ())]
    return [
        {
            **{name: step[name] for name in _OFFERED if name in step},
            **_rules(task, flow, step),
            "flow": flow.name,
            "forbidden": steps.key_of(step) in banned,
        }
        for step in shown
    ]


def _rules(task: TaskManager, flow: StepFlow, step: StepDict) -> dict[str, Any]:
    rules = policy.of_step(task.driver, flow, step)
    return {"abortable": rules.abortable, "repeatable": rules.repeatable}


def plan_of(
    task: TaskManager,
    flow: StepFlow,
    asked: Sequence[Mapping[str, Any]] | None,
    runbook: str | None,
    disable_ramdisk: bool | None,
) -> dict[str, Any]:
    """Return what a run would do; see :meth:`ConductorManager.get_node_plan`."""
    _driver(task)
    plan, problem = steps.Plan([]), None
    try:
        request = planning.request(task, flow, asked, runbook, disable_ramdisk)
        plan = planning.build(task, flow, request)
        how = planning.mechanism(task, flow, plan)
        plan = steps.Plan(
            planning.entries_of(task, flow, plan, how), plan.left_out, plan.agent_to_come, plan.note
        )
    except planning.CollectionFailed as exc:
        problem = f"the steps cannot be collected: {words.text_of(exc.cause)}"
    except exceptions.DeployStepsException as exc:
        if exc.code >= 500:
            raise
        problem = str(exc)
    mask = task.masker()
    return {
        "flow": flow.name,
        "steps": [_shown(task, flow, entry) for entry in plan.entries],
        "left_out": plan.left_out,
        "unknown": [_shown(task, flow, entry) for entry in plan.unknown],
        "agent_to_come": plan.agent_to_come,
        "note": plan.note,
        "problem": words.shown(problem, mask, words.LAST_ERROR_BYTES) if problem else None,
    }


def _shown(task: TaskManager, flow: StepFlow, entry: StepDict) -> dict[str, Any]:
    """Return a plan's entry for people: secret arguments are masked."""
    return {
        **{name: entry[name] for name in _PLANNED if name in entry},
        "args": secrets.masked(entry)["args"] or {},
        **_rules(task, flow, entry),
    }
