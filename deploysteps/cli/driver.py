"""``deploysteps driver``, ``conductor`` and ``shard``: what the service offers."""

from __future__ import annotations

import click

from deploysteps.cli import vendor
from deploysteps.cli.app import Group, State, pass_state
from deploysteps.cli.client import path_of


def _path(name: str, *more: str) -> str:
    return path_of("drivers", name, *more)


@click.group(cls=Group)
def driver() -> None:
    """See which hardware types the running conductors offer."""


@driver.command("list")
@pass_state
def list_drivers(state: State) -> None:
    """List hardware types and the conductors that offer them."""
    found = state.client.get("/v1/drivers")["drivers"]
    rows = [(item["name"], ", ".join(item["hosts"])) for item in found]
    state.output.rows(("name", "hosts"), rows, found, "no conductor that lives offers any")


@driver.command("show")
@click.argument("name")
@pass_state
def show_driver(state: State, name: str) -> None:
    """Show a hardware type: its interfaces, and which are the defaults."""
    state.output.mapping(state.client.get(_path(name)))


@driver.command("properties")
@click.argument("name")
@pass_state
def properties(state: State, name: str) -> None:
    """Show what a hardware type wants in a node's driver_info."""
    state.output.mapping(state.client.get(_path(name, "properties")))


@driver.command("raid-properties")
@click.argument("name")
@pass_state
def raid_properties(state: State, name: str) -> None:
    """Show what a RAID configuration may say of a logical disk."""
    state.output.mapping(state.client.get(_path(name, "raid", "logical_disk_properties")))


driver.add_command(vendor.group(_path, "NAME"))


@click.group(cls=Group)
def conductor() -> None:
    """See which conductors there are."""


@conductor.command("list")
@pass_state
def list_conductors(state: State) -> None:
    """List conductors, and whether they are alive."""
    found = state.client.list("/v1/conductors", "conductors")
    columns = ("hostname", "conductor_group", "alive")
    rows = [[item.get(name) for name in columns] for item in found]
    state.output.rows(columns, rows, found, "no conductors")


@conductor.command("show")
@click.argument("name")
@pass_state
def show_conductor(state: State, name: str) -> None:
    """Show a conductor: its group, its hardware types, and when it was heard last."""
    state.output.mapping(state.client.get(path_of("conductors", name)))


@click.group(cls=Group)
def shard() -> None:
    """See into which parts the nodes are divided."""


@shard.command("list")
@pass_state
def list_shards(state: State) -> None:
    """List shards, the fullest first; the nodes that are in none are under None."""
    found = state.client.get("/v1/shards")["shards"]
    rows = [(item["name"], item["count"]) for item in found]
    state.output.rows(("name", "count"), rows, found, "no shards")
