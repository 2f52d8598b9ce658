"""Saved lists of steps: deploy templates and runbooks, checked when they are saved.

They are checked by the same code as a request, against all that the enabled
drivers declare: which node they will be used for is not known yet. When they
are used they are checked again, against that node.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Generic, NamedTuple

from deploysteps import exceptions, reserved, secrets
from deploysteps.conductor import steps
from deploysteps.conductor.runtime import Runtime
from deploysteps.db import runbooks, templates, traits
from deploysteps.db.engine import Database
from deploysteps.db.models import DeployTemplate, Runbook
from deploysteps.db.saved import M, Saved
from deploysteps.drivers.args import json_type, validate_step_args
from deploysteps.steps import DEPLOY, FLOWS, MAX_PRIORITY, StepDict, StepFlow

LOG = logging.getLogger(__name__)


@dataclasses.dataclass(frozen=True)
class Kind(Generic[M]):
    """What deploy templates and runbooks differ in."""

    what: str
    """What people call it."""
    source: str
    """What the source of its steps begins with, in a plan and in messages."""
    saved: Saved[M]
    flows: tuple[StepFlow, ...]
    """It has to fit one of them."""
    place: str
    """The key of a step that says when it runs."""


TEMPLATE = Kind("deploy template", steps.TEMPLATE, templates.TEMPLATES, (DEPLOY,), "priority")
RUNBOOK = Kind(
    "runbook",
    steps.RUNBOOK,
    runbooks.RUNBOOKS,
    tuple(flow for flow in FLOWS.values() if flow.in_order),
    "order",
)


# --- saving -------------------------------------------------------------------------


def create_deploy_template(
    runtime: Runtime, context: Any, values: Mapping[str, Any]
) -> DeployTemplate:
    """Check and store a deploy template.

    :raises InvalidParameterValue: naming what is wrong with it.
    :raises Conflict: its name or uuid is taken.
    """
    return _create(runtime, TEMPLATE, values)


def update_deploy_template(
    runtime: Runtime,
    context: Any,
    ident: str,
    values: Mapping[str, Any],
    before: Mapping[str, Any] | None = None,
) -> DeployTemplate:
    """Change columns of a deploy template, by its uuid or name.

    :param before: what these columns have to hold still; a 409 if they do not.
    """
    return _update(runtime, TEMPLATE, ident, values, before)


def destroy_deploy_template(runtime: Runtime, context: Any, ident: str) -> None:
    """Remove a deploy template; runs that it was part of keep its steps."""
    _destroy(runtime, TEMPLATE, ident)


def create_runbook(runtime: Runtime, context: Any, values: Mapping[str, Any]) -> Runbook:
    """Check and store a runbook; errors as :func:`create_deploy_template`."""
    return _create(runtime, RUNBOOK, values)


def update_runbook(
    runtime: Runtime,
    context: Any,
    ident: str,
    values: Mapping[str, Any],
    before: Mapping[str, Any] | None = None,
) -> Runbook:
    """Change columns of a runbook; see :func:`update_deploy_template`."""
    return _update(runtime, RUNBOOK, ident, values, before)


def destroy_runbook(runtime: Runtime, context: Any, ident: str) -> None:
    """Remove a runbook; runs of it keep its steps."""
    _destroy(runtime, RUNBOOK, ident)


def _create(runtime: Runtime, kind: Kind[M], values: Mapping[str, Any]) -> M:
    for needed in ("name", "steps"):
        if values.get(needed) is None:
            raise exceptions.MissingParameterValue(f"a {kind.what} needs {needed}")
    row = _checked(runtime.registry, kind, values["name"], {"extra": {}, **values}, {})
    made = kind.saved.insert(runtime.database, row)
    LOG.info("%s %s: made", kind.what.capitalize(), made.name)
    return made


def _update(
    runtime: Runtime,
    kind: Kind[M],
    ident: str,
    values: Mapping[str, Any],
    before: Mapping[str, Any] | None,
) -> M:
    found = kind.saved.get(runtime.database, ident)
    if values.get("uuid", found.uuid) != found.uuid:
        raise exceptions.InvalidParameterValue(f"the uuid of a {kind.what} cannot be changed")
    row = _checked(
        runtime.registry, kind, values.get("name", found.name), values, kind.saved.values(found)
    )
    changed = kind.saved.update(runtime.database, found.uuid, row, before=before)
    LOG.info("%s %s: changed", kind.what.capitalize(), changed.name)
    return changed


def _destroy(runtime: Runtime, kind: Kind[M], ident: str) -> None:
    gone = kind.saved.delete(runtime.database, ident)
    LOG.info("%s %s: removed", kind.what.capitalize(), gone.name)


def _checked(
    registry: Any,
    kind: Kind[M],
    name: str,
    values: Mapping[str, Any],
    present: Mapping[str, Any],
) -> dict[str, Any]:
    """Return the columns to write, steps as they are stored.

    :param present: the row as it is; empty for a new one.
    """
    for field in values:
        if field not in kind.saved.fields:
            raise exceptions.InvalidParameterValue(
                f"a {kind.what} has no {field!r}; it has {', '.join(kind.saved.fields)}"
            )
    if "name" in values:
        traits.check_name(name, kind.what)
    row = dict(values)
    if "steps" in row:
        row["steps"] = _in_order(
            [_shaped(step, kind, name) for step in _listed(row["steps"], kind, name)], kind, name
        )
    if "steps" in row or "disable_ramdisk" in row:
        _check_row(Catalogue(registry), kind, name, {**present, **row})
    return row


def _listed(given: Any, kind: Kind[M], name: str) -> Sequence[Any]:
    if not isinstance(given, list | tuple) or not given:
        told = "it is empty" if isinstance(given, list | tuple) else f"not {json_type(given)}"
        raise exceptions.InvalidParameterValue(
            f"{kind.source}{name}: steps must be a list of steps; {told}"
        )
    return given


def _shaped(step: Any, kind: Kind[M], name: str) -> StepDict:
    what = f"{kind.source}{name}"
    if not isinstance(step, Mapping):
        raise exceptions.InvalidParameterValue(
            f"{what}: a step must be an object, not {json_type(step)}"
        )
    label = steps.check_name(step, what)
    known = ("interface", "step", "args", kind.place)
    for field in step:
        if field not in known:
            raise exceptions.InvalidParameterValue(
                f"{what}: step {label} has an unknown key {str(field)[:80]!r} "
                f"(known: {', '.join(known)})"
            )
    args = step.get("args")
    if args is not None and not isinstance(args, Mapping):
        validate_step_args(None, args, step=label)  # says so, as for any request
    return {**step, "args": dict(args or {})}


def _in_order(given: list[StepDict], kind: Kind[M], name: str) -> list[StepDict]:
    """Return the steps of a runbook in their order, each with its number."""
    if kind.place != "order":
        return given
    numbered = [step for step in given if step.get("order") is not None]
    if not numbered:
        return [{**step, "order": place} for place, step in enumerate(given, 1)]
    if len(numbered) < len(given):
        raise exceptions.InvalidParameterValue(
            f"{kind.source}{name}: 'order' stands in some of the steps; give it to all of them, "
            "or to none"
        )
    for step in given:
        order = step["order"]
        if isinstance(order, bool) or not isinstance(order, int) or not 0 <= order <= MAX_PRIORITY:
            raise exceptions.InvalidParameterValue(
                f"{kind.source}{name}: step {steps.label_of(step)}: order must be a whole number "
                f"from 0 to {MAX_PRIORITY}"
            )
    return sorted(given, key=lambda step: int(step["order"]))


# --- checking -----------------------------------------------------------------------


class Catalogue:
    """What the enabled interfaces declare."""

    def __init__(self, registry: Any) -> None:
        """Read it from a :class:`deploysteps.drivers.factory.Registry`."""
        self._declared: dict[tuple[str, str, str], list[StepDict]] = {}
        classes: set[type] = set()
        for offer in registry.offers():
            kind = offer.interface_type
            instance = registry.interfaces(offer.hardware_type, kind)[offer.interface_name]
            if type(instance) not in classes:
                classes.add(type(instance))
                self._add(kind, instance)

    def _add(self, kind: str, instance: Any) -> None:
        for flow, declarations in instance.declared_steps.items():
            for name, declared in declarations.items():
                self._declared.setdefault((flow, kind, name), []).append(
                    {
                        "interface": kind,
                        "step": name,
                        "priority": declared.priority,
                        "args": None,
                        "argsinfo": declared.argsinfo,
                        "requires_ramdisk": declared.requires_ramdisk,
                        "source": steps.DRIVER,
                    }
                )

    def variants(self, flow: StepFlow, key: steps.Key) -> list[StepDict]:
        """Return the declarations of a step, one for each class that has it."""
        return self._declared.get((flow.name, *key), [])

    def secrets(self) -> dict[str, list[str]]:
        """Return ``interface.step`` -> its arguments that some class declares secret."""
        found: dict[str, set[str]] = {}
        for (_, kind, name), variants in self._declared.items():
            for variant in variants:
                named = secrets.secret_args(variant["argsinfo"])
                if named:
                    found.setdefault(f"{kind}.{name}", set()).update(named)
        return {step: sorted(named) for step, named in found.items()}

    def knows(self, flows: Sequence[StepFlow], key: steps.Key) -> bool:
        """Tell whether an enabled interface declares a step for one of these flows."""
        return any(self.variants(flow, key) for flow in flows)


def check(
    registry: Any,
    flows: Sequence[StepFlow],
    given: Sequence[Mapping[str, Any]],
    what: str,
    *,
    disable_ramdisk: bool = False,
) -> None:
    """Check that a list of steps fits at least one of these flows.

    A step fits when one of the classes that declare it takes its arguments.
    One that no enabled interface declares for any of the flows may be brought
    by an agent, and is let through; see :func:`problems`.

    :param what: ``template NAME`` or ``runbook NAME``: the source of its steps.
    :raises InvalidParameterValue: in the words of a request with these steps.
    """
    _check(Catalogue(registry), flows, given, what, disable_ramdisk)


def _check_row(catalogue: Catalogue, kind: Kind[M], name: str, row: Mapping[str, Any]) -> None:
    disable = bool(row.get("disable_ramdisk"))
    _check(catalogue, kind.flows, row["steps"], f"{kind.source}{name}", disable)


def _check(
    catalogue: Catalogue,
    flows: Sequence[StepFlow],
    given: Sequence[Mapping[str, Any]],
    what: str,
    disable_ramdisk: bool,
) -> None:
    refused: dict[str, str] = {}
    for flow in _possible(catalogue, flows, given, what):
        offer = steps.Offer(_offered(catalogue, flow, given, disable_ramdisk), agent_to_come=True)
        try:
            layers = [steps.Layer(what, given)]
            steps.plan(offer, layers, flow, disable_ramdisk=disable_ramdisk)
        except exceptions.InvalidParameterValue as exc:
            refused[flow.name] = str(exc)
        else:
            return
    texts = list(dict.fromkeys(refused.values()))
    raise exceptions.InvalidParameterValue(
        texts[0] if len(texts) == 1 else f"{what} fits no flow ({_of_flows(refused)})"
    )


def _possible(
    catalogue: Catalogue,
    flows: Sequence[StepFlow],
    given: Sequence[Mapping[str, Any]],
    what: str,
) -> list[StepFlow]:
    """Return the flows that have all the steps which any of them has.

    :raises InvalidParameterValue: there is none, the steps are of different flows.
    """
    for step in given:
        steps.check_name(step, what)
    known = [key for key in _drivers_keys(given) if catalogue.knows(flows, key)]
    strange: dict[str, str] = {}
    for flow in flows:
        missing = [".".join(key) for key in known if not catalogue.variants(flow, key)]
        if missing:
            strange[flow.name] = f"no enabled interface has {', '.join(missing)}"
    possible = [flow for flow in flows if flow.name not in strange]
    if not possible:
        raise exceptions.InvalidParameterValue(f"{what} fits no flow ({_of_flows(strange)})")
    return possible


def _of_flows(told: Mapping[str, str]) -> str:
    return "; ".join(f"{flow}: {text}" for flow, text in told.items())


def _drivers_keys(given: Sequence[Mapping[str, Any]]) -> list[steps.Key]:
    """Return the steps that are not the conductor's own, each once."""
    return list(dict.fromkeys(steps.key_of(s) for s in given if not reserved.is_reserved(s)))


def _offered(
    catalogue: Catalogue,
    flow: StepFlow,
    given: Sequence[Mapping[str, Any]],
    disable_ramdisk: bool,
) -> list[StepDict]:
    """Return the steps of the list as a node would offer them that suits it best."""
    found: list[StepDict] = []
    for key in _drivers_keys(given):
        variants = catalogue.variants(flow, key)
        # A node has one class for each interface: it has to suit every use.
        uses = [step.get("args") for step in given if steps.key_of(step) == key]
        fit = (v for v in variants if all(_fits(v, args, disable_ramdisk) for args in uses))
        found += [next(fit, variants[0])] if variants else []
    return found


def _fits(variant: StepDict, args: Any, disable_ramdisk: bool) -> bool:
    try:
        steps.validate([{**variant, "args": args}], disable_ramdisk=disable_ramdisk)
    except exceptions.InvalidParameterValue:
        return False
    return True


# --- the upgrade check --------------------------------------------------------------


class Problem(NamedTuple):
    """Something saved that does not fit the drivers that are enabled here."""

    what: str
    """``deploy template`` or ``runbook``."""
    name: str
    text: str
    certain: bool = True
    """False: it fits where the machine's agent brings the step."""


def problems(registry: Any, database: Database) -> list[Problem]:
    """Return every template and runbook that does not fit the enabled drivers (any more).

    Such as one with a step that gained a required argument. A step that no
    enabled interface declares is told as well, and is not certain.
    """
    catalogue = Catalogue(registry)
    return [*_problems(catalogue, database, TEMPLATE), *_problems(catalogue, database, RUNBOOK)]


def _problems(catalogue: Catalogue, database: Database, kind: Kind[M]) -> Iterator[Problem]:
    for row in kind.saved.listing(database, sort_key="name"):
        try:
            _check_row(catalogue, kind, row.name, kind.saved.values(row))
        except exceptions.InvalidParameterValue as exc:
            yield Problem(kind.what, row.name, str(exc))
            continue
        except (AttributeError, KeyError, TypeError) as exc:
            # Written past this program: whatever it is, the other rows are checked all the same.
            yield Problem(kind.what, row.name, f"its stored steps are no list of steps ({exc})")
            continue
        for key in _drivers_keys(row.steps):
            if not catalogue.knows(kind.flows, key):
                told = (
                    f"no enabled interface has a step {'.'.join(key)}; it runs only where the "
                    "machine's agent brings it"
                )
                yield Problem(kind.what, row.name, told, certain=False)
