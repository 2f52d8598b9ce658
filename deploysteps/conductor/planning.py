"""What a run will do: the driver's steps, templates, a runbook and a request, made one list.

One path for all of them: what is refused in a request is refused in a
template, a runbook and when a run goes on from where it failed.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from deploysteps import exceptions, releases
from deploysteps.access import rules
from deploysteps.access.caller import Caller
from deploysteps.conductor import old_way, steps, words
from deploysteps.conductor.steps import REQUEST, RUNBOOK, TEMPLATE, Layer, Plan
from deploysteps.db import runbook_traits, runbooks, templates, traits
from deploysteps.db.runs import BY_STEPS, OLD_WAY
from deploysteps.steps import StepDict, StepFlow

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Request:
    """What was asked for, resolved: it is kept with the run."""

    layers: tuple[Layer, ...] = ()
    disable_ramdisk: bool = False
    runbook: str | None = None

    def stored(self) -> dict[str, Any]:
        """Return it as the run keeps it."""
        return {
            "layers": [layer._asdict() for layer in self.layers],
            "disable_ramdisk": self.disable_ramdisk,
            "runbook": self.runbook,
        }

    @classmethod
    def of(cls, stored: Mapping[str, Any] | None) -> Request:
        """Return what :meth:`stored` made."""
        kept = stored or {}
        return cls(
            tuple(Layer(**layer) for layer in kept.get("layers", ())),
            bool(kept.get("disable_ramdisk")),
            kept.get("runbook"),
        )


def request(
    task: Any,
    flow: StepFlow,
    asked: Sequence[Mapping[str, Any]] | None = None,
    runbook: str | None = None,
    disable_ramdisk: bool | None = None,
) -> Request:
    """Resolve what somebody asks for.

    :param asked: steps of the request.
    :param runbook: name or uuid of a runbook, instead of steps.
    :raises InvalidParameterValue: it cannot be asked for on this node.
    :raises RunbookNotFound: there is no such runbook.
    :raises StepForbidden: the caller may not run one of the steps.
    """
    layers = list(_templates(task)) if flow.templates else []
    name = None
    if runbook is not None:
        if asked:
            raise exceptions.InvalidParameterValue(
                f"a request has {flow.name} steps or a runbook, not both"
            )
        book = _runbook(task, runbook)
        name = book.name
        layers.append(Layer(f"{RUNBOOK}{name}", book.steps))
        disable_ramdisk = book.disable_ramdisk if disable_ramdisk is None else disable_ramdisk
    if asked:
        layers.append(Layer(REQUEST, [dict(step) for step in asked]))
    if flow.on_request and not any(layer.steps for layer in layers):
        raise exceptions.MissingParameterValue(
            f"there is nothing to do: name {flow.name} steps or a runbook"
        )
    _refuse_forbidden(task, layers)
    return Request(tuple(layers), bool(disable_ramdisk), name)


def _refuse_forbidden(task: Any, layers: Sequence[Layer]) -> None:
    """Refuse steps that a policy rule keeps the caller from, wherever they are named.

    What the process does by itself is nobody's request.
    """
    if task.context is None:
        return
    enforcer = task.runtime.rules
    caller = Caller(enforcer, task.context)
    for layer in layers:
        for step in layer.steps:
            rule = rules.of_step(step.get("interface"), step.get("step"))
            rule = rule if enforcer.has(rule) else rules.STEP
            if not caller.may(rule, task.node.owner, task.node.lessee):
                raise exceptions.StepForbidden(
                    step=steps.label_of(step), source=layer.source, rule=rule
                )


def again(task: Any, flow: StepFlow, stored: Request) -> Request:
    """Return what a request of before stands for today: its templates and runbook as they are.

    :raises InvalidParameterValue: it cannot be asked for any more.
    """
    own = [step for layer in stored.layers if layer.source == REQUEST for step in layer.steps]
    try:
        return request(task, flow, own, stored.runbook, stored.disable_ramdisk)
    except exceptions.RunbookNotFound as exc:
        raise exceptions.InvalidParameterValue(str(exc)) from exc


def _templates(task: Any) -> list[Layer]:
    """Return the templates whose names are traits of the instance."""
    wanted = task.node.instance_info.get("traits") or []
    if not isinstance(wanted, list) or not all(isinstance(trait, str) for trait in wanted):
        raise exceptions.InvalidParameterValue("instance_info['traits'] has to be a list of names")
    if not wanted:
        return []
    missing = sorted(set(wanted) - set(traits.of_node(task.runtime.database, task.node.id)))
    if missing:
        raise exceptions.InvalidParameterValue(
            f"the instance asks for traits that the node does not have: {', '.join(missing)}; "
            "add them to the node, or take them out of instance_info['traits']"
        )
    found = templates.named(task.runtime.database, wanted)
    return [Layer(f"{TEMPLATE}{name}", found[name].steps) for name in sorted(found)]


def _runbook(task: Any, ident: str) -> Any:
    book = runbooks.get(task.runtime.database, ident)
    database = task.runtime.database
    wanted = {book.name, *runbook_traits.of_runbook(database, book.id)}
    if wanted.isdisjoint(traits.of_node(database, task.node.id)):
        raise exceptions.InvalidParameterValue(
            f"runbook {book.name} is not for this node: a node it is for has a trait of that name, "
            "or one of the runbook's traits"
        )
    return book


def switched_off(task: Any, flow: StepFlow) -> str | None:
    """Return why a run that nobody asked steps for does none; None: it does its steps."""
    if flow.switch is None:
        return None
    own = getattr(task.node, flow.switch)
    on = task.runtime.conf.conductor[flow.switch] if own is None else own
    where = f"[conductor] {flow.switch}" if own is None else f"the node's {flow.switch}"
    return None if on else f"{where} is off"


def build(task: Any, flow: StepFlow, wanted: Request) -> Plan:
    """Return the plan of a run.

    :raises InvalidParameterValue: the request, or a template, is wrong.
    :raises CollectionFailed: the driver's own list cannot be had.
    """
    asked = any(layer.steps for layer in wanted.layers)
    why = None if asked else switched_off(task, flow)
    if why is not None:
        return Plan([], _not_done(task, flow, why), note=why)
    try:
        offer = steps.overridden(task, flow)
    except BaseException as exc:  # whatever a driver raises; SystemExit would stop the server
        raise CollectionFailed(exc) from exc
    if wanted.disable_ramdisk:
        offer = offer._replace(agent_to_come=False)  # nothing boots it
    if old_way.has_method(task, flow) and (offer.steps or asked):
        # An old deploy interface among others that have steps is one of them.
        offer = offer._replace(steps=[*offer.steps, old_way.step_of(flow)])
    plan = steps.plan(
        offer,
        wanted.layers,
        flow,
        banned=steps.forbidden(task.runtime.conf.conductor, flow),
        disable_ramdisk=wanted.disable_ramdisk,
    )
    if not plan.entries and flow.may_be_empty is not True and not asked:
        return dataclasses.replace(plan, note=f"no enabled {flow.name} step")
    return plan


def _not_done(task: Any, flow: StepFlow, why: str) -> list[StepDict]:
    """Return the steps that do not run because the flow is switched off, each with why.

    Whoever reads the run must not take it for one that did them.
    """
    try:
        return steps.not_done(task, flow, why)
    except BaseException as exc:  # a driver's; what is switched off must not fail for its steps
        told = words.shown(words.text_of(exc), task.masker(), words.LAST_ERROR_BYTES)
        LOG.warning("Node %s: %s; its steps cannot be collected: %s", task.node.uuid, why, told)
        return []


class CollectionFailed(Exception):
    """The steps of a node cannot be collected: the driver's mistake, not the caller's."""

    def __init__(self, cause: BaseException) -> None:
        """Keep what the driver raised."""
        self.cause = cause
        super().__init__("the steps cannot be collected")


def mechanism(task: Any, flow: StepFlow, plan: Plan) -> str:
    """Return how a run that begins now is done: by the pin, and by what the driver has.

    :raises InvalidParameterValue: the pin allows no steps, and there are some.
    """
    if not flow.old_way:
        return BY_STEPS
    pin = task.runtime.conf.pin_release_version
    if not releases.pinned(pin).deploy_steps:
        old_way.refuse_steps(plan.entries, flow, pin)
    elif plan.entries:
        return BY_STEPS
    core = [steps.key_of(step) for step in plan.entries] == [flow.core]
    off = {steps.key_of(step) for step in plan.left_out}
    off |= steps.forbidden(task.runtime.conf.conductor, flow)
    whole = core or (flow.core not in off and old_way.is_old_driver(task, flow))
    return OLD_WAY if whole and old_way.can(task, flow) else BY_STEPS


def entries_of(task: Any, flow: StepFlow, plan: Plan, how: str) -> list[StepDict]:
    """Return what the run's row keeps as its plan."""
    return [old_way.entry(flow)] if how == OLD_WAY else plan.entries
