"""``deploysteps steps``: what hardware types declare; needs no service."""

from __future__ import annotations

from typing import Any

import click

from deploysteps import conf
from deploysteps import steps as vocabulary
from deploysteps.cli.app import Group, State, pass_state

COLUMNS = (
    "interface",
    "implementation",
    "default",
    "step",
    "flow",
    "priority",
    "repeatable",
    "abortable",
)


@click.group(cls=Group)
def steps() -> None:
    """See which steps hardware types declare; no service is needed."""


@steps.command("list")
@click.option(
    "--driver", required=True, help="A hardware type that is enabled, e.g. fake-hardware."
)
@pass_state
def list_(state: State, driver: str) -> None:
    """List the steps of a hardware type, of every implementation that is enabled.

    --json shows arguments as well.
    """
    from deploysteps.drivers import factory

    settings = conf.setup(config_files=state.config_files)
    conf.check(settings)
    registry = factory.Registry(settings)
    registry.hardware_type(driver)
    found = [
        _described(offer, interface, flow, step, declared)
        for offer in registry.offers()
        if offer.hardware_type == driver
        for interface in [registry.interfaces(driver, offer.interface_type)[offer.interface_name]]
        for flow, declarations in interface.declared_steps.items()
        for step, declared in declarations.items()
    ]
    rows = [[item[column] for column in COLUMNS] for item in found]
    state.output.rows(COLUMNS, rows, found, f"{driver} declares no steps")


def _described(
    offer: Any,
    interface: Any,
    flow: str,
    step: str,
    declared: vocabulary.Declaration,
) -> dict[str, Any]:
    told = (getattr(interface, step).__doc__ or "").strip()
    return {
        "interface": offer.interface_type,
        "implementation": offer.interface_name,
        "default": offer.default,
        "step": step,
        "flow": flow,
        "priority": declared.priority,
        "repeatable": declared.repeatable,
        "abortable": declared.abortable,
        "timeout": declared.timeout,
        "retries": declared.retries,
        "argsinfo": {name: dict(info) for name, info in (declared.argsinfo or {}).items()},
        "description": told.splitlines()[0] if told else "",
    }
