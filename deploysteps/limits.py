"""How much the agent on a machine may say of its steps.

Whoever has the machine may be the agent. What is here is a multiple of what
agents of the field say: ironic-python-agent 13.0.0 tells some twenty steps of
a few hundred bytes each, and no retries at all. It is checked before anything is kept.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping
from typing import Any

from deploysteps import exceptions

LONGEST_NAME = 255
"""Characters of a step's name: what a row holds."""
MOST_STEPS = 500
LARGEST_STEP = 64 * 1024
LARGEST_STEPS = 512 * 1024
LARGEST_VERSIONS = 16 * 1024
"""Bytes of JSON: of a step, of all steps of a flow, and of ``hardware_manager_version``."""
MOST_DEEP = 32
"""Levels of lists and objects in each other."""
MOST_TEXT = 80
"""Characters of a name that an error repeats."""

_AT_MOST: Mapping[str, float] = {"retries": 10, "retry_delay": 3600, "timeout": 30 * 86_400}
"""Numbers of a step, with the most that an agent may say; times in seconds."""


def short(text: Any) -> str:
    """Return a name as errors repeat it: printable, and not long."""
    found = text if isinstance(text, str) else type(text).__name__
    found = "".join(sign if sign.isprintable() else "?" for sign in found[: MOST_TEXT + 1])
    return found if len(found) <= MOST_TEXT else f"{found[:MOST_TEXT]}..."


def is_name(text: str) -> bool:
    """Tell whether a text may be a step's name: it has to fit into a row and onto a screen."""
    return 0 < len(text) <= LONGEST_NAME and text.isprintable()


def depth(value: Any, most: int) -> int:
    """Return how deep lists and objects are nested in a JSON value, or ``most + 1``."""
    deepest, level = 0, [value]
    while level := [item for item in level if isinstance(item, dict | list)]:
        deepest += 1
        if deepest > most:
            break
        level = [
            inner for item in level for inner in (item.values() if isinstance(item, dict) else item)
        ]
    return deepest


def size(value: Any) -> int:
    """Return how many bytes of JSON a value of bounded depth is."""
    return len(json.dumps(value, default=str))


def check_steps(offered: Iterable[Any], whose: str) -> None:
    """Check the steps of a flow that an agent offers against what it may say.

    Only the limits are checked; what is no step at all is not looked at.

    :param whose: who offers them, for the error.
    :raises InvalidParameterValue: naming the step and the limit.
    """
    count = total = 0
    for step in offered:
        count += 1
        if count > MOST_STEPS:
            raise exceptions.InvalidParameterValue(f"{whose} offers more than {MOST_STEPS} steps")
        if not isinstance(step, Mapping):
            continue
        total += _check_step(step, whose)
        if total > LARGEST_STEPS:
            raise exceptions.InvalidParameterValue(
                f"{whose}: up to step {_label(step)} its steps have more than {LARGEST_STEPS} bytes"
            )


def _label(step: Mapping[str, Any]) -> str:
    return f"{short(step.get('interface'))}.{short(step.get('step'))}"


def _check_step(step: Mapping[str, Any], whose: str) -> int:
    """Check one step, and return its size."""

    def refuse(what: str) -> exceptions.InvalidParameterValue:
        return exceptions.InvalidParameterValue(f"{whose}: step {_label(step)} {what}")

    name = step.get("step")
    if isinstance(name, str) and len(name) > LONGEST_NAME:
        raise refuse(f"has a name of more than {LONGEST_NAME} characters")
    if depth(dict(step), MOST_DEEP) > MOST_DEEP:
        raise refuse(f"is nested deeper than {MOST_DEEP} levels")
    found = size(step)
    if found > LARGEST_STEP:
        raise refuse(f"has more than {LARGEST_STEP} bytes")
    for key, most in _AT_MOST.items():
        value: Any = step.get(key)
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if is_number and not (math.isfinite(value) and value <= most):
            raise refuse(f"says {key} of more than {most:g}, the most that an agent may say")
    return found


def check_versions(versions: Any, whose: str) -> None:
    """Check what an agent calls the versions of its hardware managers.

    :raises InvalidParameterValue: naming the limit.
    """
    if depth(versions, MOST_DEEP) > MOST_DEEP or size(versions) > LARGEST_VERSIONS:
        raise exceptions.InvalidParameterValue(
            f"{whose}: its hardware_manager_version has more than {LARGEST_VERSIONS} bytes, "
            f"or is nested deeper than {MOST_DEEP} levels"
        )
