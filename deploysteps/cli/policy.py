"""``deploysteps policy``: the rules of who may do what, and a check of those that are set."""

from __future__ import annotations

import json
import textwrap

import click

from deploysteps import conf
from deploysteps.access.enforcer import Enforcer
from deploysteps.access.rules import list_rules
from deploysteps.cli.app import Group, State, pass_state


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
    changed = Enforcer(settings).changed()
    told = f"sets {len(changed)} rules" if changed else "sets none, defaults apply"
    state.output.report(f"the policy file {told}; good", {"set": changed})
