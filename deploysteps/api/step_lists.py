"""Steps that a request asks for: checked by the schema of their flow, and put in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from deploysteps import exceptions
from deploysteps.api import schemas
from deploysteps.api.validation import checked
from deploysteps.steps import StepDict, StepFlow

_OF_CHILDREN = ("execute_on_child_nodes", "limit_child_node_execution")


def asked(flow: StepFlow, given: Any) -> list[StepDict]:
    """Return the steps as a conductor takes them.

    A flow that runs them in the request's order gets them without ``order``:
    it has been applied.

    :raises Invalid: naming the member and the step that is wrong.
    """
    member = flow.list_field
    fit = numbers(checked(schemas.STEPS[member], given, member))
    return _in_order(member, fit) if flow.in_order else fit


def numbers(given: Iterable[Mapping[str, Any]]) -> list[StepDict]:
    """Return steps with integers where digits may stand."""
    return [
        {name: int(v) if name in ("priority", "order") else v for name, v in step.items()}
        for step in given
    ]


def refuse_twice(given: Iterable[Mapping[str, Any]], what: str) -> None:
    """Refuse a list that has a step twice, where each may stand once.

    :raises Invalid: naming it.
    """
    seen: set[tuple[str, str]] = set()
    for step in given:
        key = (step["interface"], step["step"])
        if key in seen:
            raise exceptions.Invalid(
                f"Schema error for {what}: steps must not have {'.'.join(key)} twice"
            )
        seen.add(key)


def _in_order(member: str, given: list[StepDict]) -> list[StepDict]:
    for position, step in enumerate(given):
        for name in _OF_CHILDREN:
            if step.get(name):
                raise exceptions.Invalid(
                    f"{member}[{position}].{name} is not supported: this server runs no steps on "
                    "child nodes; leave it out, and ask for the steps of each of those nodes"
                )
    ordered = [step for step in given if "order" in step]
    if ordered and len(ordered) < len(given):
        raise exceptions.Invalid(
            f"{member}: 'order' stands in some of the steps; give it to all of them, or to none"
        )
    steps = sorted(given, key=lambda step: step.get("order", 0))
    return [
        {"interface": step["interface"], "step": step["step"], "args": step.get("args", {})}
        for step in steps
    ]
