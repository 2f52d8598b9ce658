"""Reserved steps: offered by the conductor for every node, in every flow that waits.

The one registry: validation, the engine, the listing and the documentation
read it. What each does stands in ``deploysteps.conductor.reserved``.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from deploysteps import exceptions
from deploysteps.steps import StepDict


@dataclasses.dataclass(frozen=True, slots=True)
class Reserved:
    """A step that belongs to no driver."""

    help: str
    """What it does, for people."""
    argsinfo: Mapping[str, Mapping[str, Any]] | None = None
    repeatable: bool = True
    """Whether it may be done again after a conductor was lost in it."""


INTERFACES: tuple[str, ...] = ("power", "deploy")
"""Interfaces under which requests may name a reserved step, as the field writes them."""

RESERVED: dict[str, Reserved] = {
    "power_on": Reserved("Switch the machine on."),
    "power_off": Reserved("Switch the machine off."),
    "reboot": Reserved("Switch the machine off and on again."),
    "wait": Reserved(
        "Wait for some seconds, or without them for the next heartbeat of the machine's agent.",
        {
            "seconds": {
                "description": "how long; without it, until the next heartbeat",
                "required": False,
                "schema": {
                    "type": "number",
                    "minimum": 0,
                    "maximum": exceptions.LONGEST_WAIT,
                },
            }
        },
    ),
    "hold": Reserved("Wait until an operator says unhold."),
}
"""Name -> what it is."""

SOURCE = "conductor"
"""``source`` of a reserved step."""


def is_reserved(step: Mapping[str, Any]) -> bool:
    """Tell whether a step, by its interface and name, is a reserved one."""
    return step.get("interface") in INTERFACES and step.get("step") in RESERVED


def offered() -> list[StepDict]:
    """Return all of them as steps that run only when somebody asks for them."""
    return [
        {
            "interface": interface,
            "step": name,
            "priority": 0,
            "args": None,
            "argsinfo": {key: dict(info) for key, info in (reserved.argsinfo or {}).items()},
            "abortable": True,
            "repeatable": reserved.repeatable,
            "source": SOURCE,
        }
        for interface in INTERFACES
        for name, reserved in RESERVED.items()
    ]
