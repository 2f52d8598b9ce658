"""Traits of nodes and of runbooks: what a machine can do, and which steps fit it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from deploysteps.cli.app import Group, State, pass_state
from deploysteps.cli.client import node_path


def group(owner: str, path: Callable[..., str]) -> click.Group:
    """Return the commands for traits of an owner, such as a node.

    :param path: gives the path below one of them.
    """
    argument = click.argument("ident", metavar=owner.upper())
    names_ = click.argument("names", nargs=-1, required=True, metavar="TRAIT...")

    def show(state: State, ident: str) -> None:
        found: list[Any] = state.client.get(path(ident, "traits"))["traits"]
        rows = [(name,) for name in found]
        state.output.rows(("trait",), rows, found, f"{owner} {ident} has no traits")

    @click.group("traits", cls=Group, help=f"See and change the traits of a {owner}.")
    def made() -> None:
        pass

    @made.command("list", help="List the traits.")
    @argument
    @pass_state
    def list_(state: State, ident: str) -> None:
        show(state, ident)

    @made.command("add", help="Add traits, such as CUSTOM_RAID, and list what there is then.")
    @argument
    @names_
    @pass_state
    def add(state: State, ident: str, names: tuple[str, ...]) -> None:
        for name in names:
            state.client.put(path(ident, "traits", name), None)
        show(state, ident)

    @made.command("set", help="Replace all traits by these.")
    @argument
    @names_
    @pass_state
    def set_(state: State, ident: str, names: tuple[str, ...]) -> None:
        state.client.put(path(ident, "traits"), {"traits": list(names)})
        show(state, ident)

    @made.command("remove", help="Remove traits, and list what is left.")
    @argument
    @names_
    @pass_state
    def remove(state: State, ident: str, names: tuple[str, ...]) -> None:
        for name in names:
            state.client.delete(path(ident, "traits", name))
        show(state, ident)

    @made.command("clear", help="Remove all traits.")
    @argument
    @pass_state
    def clear(state: State, ident: str) -> None:
        state.client.delete(path(ident, "traits"))
        show(state, ident)

    return made


COMMANDS: tuple[click.Command, ...] = (group("node", node_path),)
"""What ``deploysteps node`` has of this."""
