"""``deploysteps driver`` and ``deploysteps conductor``: what the service offers."""

from __future__ import annotations

import urllib.parse

import click

from deploysteps.cli.app import Group, State, pass_state


@click.group(cls=Group)
def driver() -> None:
    """See which hardware types the running conductors offer."""


@driver.command("list")
@pass_state
def list_drivers(state: State) -> None:
    """List hardware types and the conductors that offer them."""
    found = state.client.get("/v1/drivers")["drivers"]
    rows = [(item["name"], ", ".join(item["hosts"])) for item in found]
    state.output.rows(("name", "hosts"), rows, found)


@driver.command("properties")
@click.argument("name")
@pass_state
def properties(state: State, name: str) -> None:
    """Show what a hardware type wants in a node's driver_info."""
    path = f"/v1/drivers/{urllib.parse.quote(name, safe='')}/properties"
    state.output.mapping(state.client.get(path))


@click.group(cls=Group)
def conductor() -> None:
    """See which conductors there are."""


@conductor.command("list")
@pass_state
def list_conductors(state: State) -> None:
    """List conductors, and whether they are alive."""
    found = state.client.list("/v1/conductors", "conductors")
    rows = [(item["hostname"], item["alive"]) for item in found]
    state.output.rows(("hostname", "alive"), rows, found, "no conductors")
