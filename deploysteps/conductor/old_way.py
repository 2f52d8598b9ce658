"""Drivers of before there were steps: a deployment is one method, ``deploy(task)``.

Goes away, with what calls it, when no release has to work with such drivers.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Sequence
from typing import Any

from deploysteps import exceptions, releases, states
from deploysteps.conductor import answers
from deploysteps.conductor.steps import key_of, label_of
from deploysteps.steps import StepDict, StepFlow

LOG = logging.getLogger(__name__)

STEP_ID = "old way"
"""``step_id`` of its attempts: the engine knows them by it, whatever the pin is now."""

PRIORITY = 100
"""Of ``deploy(task)`` among the steps of other interfaces, as of the field's core step."""

_warned: set[type] = set()


def is_old(attempt: Any) -> bool:
    """Tell whether an attempt belongs to a run that is done the old way."""
    return attempt is not None and attempt.step_id == STEP_ID


def entry(flow: StepFlow) -> StepDict:
    """Return the one step of a run that is done the old way."""
    return {"id": STEP_ID, **step_of(flow)}


def step_of(flow: StepFlow) -> StepDict:
    """Return what such a driver's method is among the steps of others."""
    interface, step = flow.core or ("", "")
    return {
        "interface": interface,
        "step": step,
        "priority": PRIORITY,
        "args": None,
        "source": "driver",
        "old_way": True,
    }


def has_method(task: Any, flow: StepFlow) -> bool:
    """Tell whether the deploy interface has the method, and no step of its name."""
    if not flow.old_way or flow.core is None:
        return False
    interface, step = flow.core
    instance = getattr(task.driver, interface, None)
    undeclared = instance is not None and instance.declaration(flow.name, step) is None
    return undeclared and callable(getattr(instance, step, None))


def can(task: Any, flow: StepFlow) -> bool:
    """Tell whether the deploy interface has the method, be it a step or not."""
    interface, step = flow.core or ("", "")
    return callable(getattr(getattr(task.driver, interface, None), step, None))


def is_old_driver(task: Any, flow: StepFlow) -> bool:
    """Tell whether no interface of the node declares a step and the method is there."""
    if not has_method(task, flow):
        return False
    kinds = (getattr(task.driver, kind, None) for kind in flow.rank)
    return not any(kind.declared_steps[flow.name] for kind in kinds if kind is not None)


def refuse_steps(entries: Sequence[StepDict], flow: StepFlow, pin: str | None) -> None:
    """Refuse a deployment that would leave out enabled steps.

    :raises InvalidParameterValue: naming them.
    """
    left = [label_of(step) for step in entries if key_of(step) != flow.core]
    if left:
        raise exceptions.InvalidParameterValue(
            f"[DEFAULT] pin_release_version = {pin} allows no {flow.name} steps, and this node "
            f"has {', '.join(left)}: without them it would become active half done. Disable "
            "them, or take the pin away when every process is upgraded"
        )


def execute(task: Any, flow: StepFlow) -> answers.Answer:
    """Call ``deploy(task)`` and judge its answer."""
    deploy: Any = task.driver.deploy
    declared = deploy.declaration(flow.name, "deploy") is not None
    if not declared:
        _warn(type(deploy))
    pin = task.runtime.conf.pin_release_version
    none_is_done = declared or not releases.pinned(pin).deploy_steps
    return answers.ask(task, flow, lambda: _answer(deploy.deploy(task), flow, none_is_done))


def _answer(value: Any, flow: StepFlow, none_is_done: bool) -> Any:
    if isinstance(value, str) and value == states.DEPLOYDONE:
        return None
    if value is None and not none_is_done:
        raise exceptions.InstanceDeployFailure(
            f"deploy() returned None; a driver without steps returns {states.DEPLOYDONE!r} when "
            f"it is done, or {flow.waiting!r} when it goes on elsewhere"
        )
    return value


def _warn(cls: type) -> None:
    """Say once of a class that it is of the old kind."""
    if cls in _warned:
        return
    _warned.add(cls)
    text = (
        f"{cls.__module__}.{cls.__qualname__} has no deploy steps: its deploy(task) does it all. "
        "Declare them: @base.deploy_step(priority=100) on deploy(self, task), which then returns "
        "None when it is done; see 'Porting a driver' in the documentation. A later release will "
        "not run such drivers; every deployment begun this way must have ended before you upgrade "
        "to it (`deploysteps status upgrade check` lists them)"
    )
    LOG.warning(text)
    warnings.warn(text, DeprecationWarning, stacklevel=2)
