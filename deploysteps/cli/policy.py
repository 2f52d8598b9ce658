"""``deploysteps policy``: the rules of who may do what, and a check of those that are set."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Sequence

import click
from oslo_config import cfg

from deploysteps import conf, reserved, texts
from deploysteps.access.enforcer import Enforcer
from deploysteps.access.rules import STEP, list_rules
from deploysteps.cli.app import Group, State, pass_state
from deploysteps.cli.config import refuse_all


@click.group(cls=Group)
def policy() -> None:
    """See and check the rules of who may do what."""


@policy.command("sample")
@pass_state
def sample(state: State) -> None:
    """Print a policy file with every rule, what it is about and its default.

    Every rule is a comment: take off the # of those that are to be another.
    """
    rules = list(list_rules())
    if state.as_json:
        told = [{"name": r.name, "check": r.check_str, "about": r.description} for r in rules]
        state.output.data({"rules": told})
        return
    for rule in rules:
        for line in textwrap.wrap(rule.description or "", 96):
            click.echo(f"# {line}")
        click.echo(f"#{json.dumps(rule.name)}: {json.dumps(rule.check_str)}\n")


@policy.command("check")
@pass_state
def check(state: State) -> None:
    """Check the policy file that the configuration names."""
    settings = conf.setup(config_files=state.config_files)
    conf.check(settings)
    enforcer = Enforcer(settings)
    changed = enforcer.changed()
    strange = enforcer.without_effect()
    unknown, an_agent_may = _no_steps(settings, changed)
    warnings = unknown if an_agent_may else []
    if warnings:
        for one in warnings:
            click.echo(f"Warning: {one}", err=True)
    else:
        strange += unknown
    verdict = "look at the warnings" if warnings else "good"
    verdict = "some have no effect" if strange else verdict
    many = "1 rule" if len(changed) == 1 else f"{len(changed)} rules"
    told = f"sets {many}" if changed else "sets none, defaults apply"
    state.output.report(
        f"the policy file {told}; {verdict}",
        {"set": changed, "without_effect": strange, "warnings": warnings},
    )
    if strange:
        refuse_all(strange)


def _no_steps(settings: cfg.ConfigOpts, changed: Sequence[str]) -> tuple[list[str], bool]:
    """Return what there is to say of rules of steps that no enabled driver declares.

    And whether agents of the machines may have such steps: nobody knows before they are up.
    """
    named = [name.removeprefix(f"{STEP}:") for name in changed if name.startswith(f"{STEP}:")]
    if not named:
        return [], False
    from deploysteps.drivers import factory

    registry = factory.Registry(settings)
    known = registry.declared_steps()
    known |= {f"{step['interface']}.{step['step']}" for step in reserved.offered()}
    agents = registry.brings_agents_steps()
    told = []
    for step in named:
        if step in known:
            continue
        close = texts.closest(step, known)
        hint = f"; did you mean {close}?" if close else ""
        but = ", though a machine's agent may bring it" if agents else ""
        told.append(f"{STEP}:{step}: no driver that is enabled here declares {step}{but}{hint}")
    return told, agents
