"""What a step's declaration says of how it is run, looked up where it was declared."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from deploysteps.steps import StepFlow


@dataclasses.dataclass(frozen=True, slots=True)
class Policy:
    """How one step may be waited for, aborted, repeated and retried."""

    abortable: bool = True
    repeatable: bool = False
    timeout: float | None = None
    retries: int = 0
    retry_delay: float = 0


_FIELDS = tuple(field.name for field in dataclasses.fields(Policy))


def of_entry(entry: Mapping[str, Any]) -> Policy:
    """Return what a plan's entry says; for steps that no class declares."""
    return Policy(**{name: entry[name] for name in _FIELDS if entry.get(name) is not None})


def of_step(driver: Any, flow: StepFlow, entry: Mapping[str, Any]) -> Policy:
    """Return a step's policy: the declaration's word, not that of a copy of it."""
    interface = getattr(driver, entry["interface"], None)
    declared = interface.declaration(flow.name, entry["step"]) if interface is not None else None
    if declared is None:
        return of_entry(entry)
    return Policy(**{name: getattr(declared, name) for name in _FIELDS})
