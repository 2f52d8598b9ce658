"""``deploysteps node traits``: what a machine can do, and which deploy templates fit it."""

from __future__ import annotations

from typing import Any

import click

from deploysteps.cli.app import Group, State, pass_state
from deploysteps.cli.client import node_path


@click.group("traits", cls=Group)
def traits() -> None:
    """See and change the traits of a machine, such as CUSTOM_RAID."""


@traits.command("list")
@click.argument("node")
@pass_state
def list_(state: State, node: str) -> None:
    """List the traits."""
    _show(state, node)


@traits.command("add")
@click.argument("node")
@click.argument("names", nargs=-1, required=True, metavar="TRAIT...")
@pass_state
def add(state: State, node: str, names: tuple[str, ...]) -> None:
    """Add traits, and list what there is then."""
    for name in names:
        state.client.put(node_path(node, "traits", name), None)
    _show(state, node)


@traits.command("set")
@click.argument("node")
@click.argument("names", nargs=-1, required=True, metavar="TRAIT...")
@pass_state
def set_(state: State, node: str, names: tuple[str, ...]) -> None:
    """Replace all traits by these."""
    state.client.put(node_path(node, "traits"), {"traits": list(names)})
    _show(state, node)


@traits.command("remove")
@click.argument("node")
@click.argument("names", nargs=-1, required=True, metavar="TRAIT...")
@pass_state
def remove(state: State, node: str, names: tuple[str, ...]) -> None:
    """Remove traits, and list what is left."""
    for name in names:
        state.client.delete(node_path(node, "traits", name))
    _show(state, node)


@traits.command("clear")
@click.argument("node")
@pass_state
def clear(state: State, node: str) -> None:
    """Remove all traits."""
    state.client.delete(node_path(node, "traits"))
    _show(state, node)


def _show(state: State, node: str) -> None:
    found: list[Any] = state.client.get(node_path(node, "traits"))["traits"]
    state.output.rows(("trait",), [(name,) for name in found], found, f"node {node} has no traits")


COMMANDS: tuple[click.Command, ...] = (traits,)
"""What ``deploysteps node`` has of this."""
