"""``deploysteps allocation``: ask for a node by what it is, not by its name."""

from __future__ import annotations

import urllib.parse
from typing import Any

import click

from deploysteps.cli.app import Group, State, pass_state

LISTED = ("uuid", "name", "resource_class", "state", "node_uuid")


@click.group(cls=Group)
def allocation() -> None:
    """Ask for available nodes by resource class and traits."""


@allocation.command("create")
@click.option("--resource-class", required=True, help="The class that the node must be of.")
@click.option("--name", help="A name for the allocation.")
@click.option("--trait", "traits", multiple=True, help="A trait that the node must have; several.")
@click.option(
    "--candidate-node",
    "candidate_nodes",
    multiple=True,
    help="A node that may be taken, by uuid or name; several. Any, when none is named.",
)
@pass_state
def create(state: State, /, **wanted: Any) -> None:
    """Ask for a node; `deploysteps allocation show` tells which one it is."""
    body = {name: list(v) if isinstance(v, tuple) else v for name, v in wanted.items() if v}
    made = state.client.post("/v1/allocations", body)
    state.output.report(f"allocation {made['uuid']}: {made['state']}", made)


@allocation.command("list")
@pass_state
def list_(state: State) -> None:
    """List allocations."""
    found = state.client.list("/v1/allocations", "allocations")
    rows = [tuple(item[name] for name in LISTED) for item in found]
    state.output.rows(LISTED, rows, found, "no allocations")


@allocation.command("show")
@click.argument("ident", metavar="ALLOCATION")
@pass_state
def show(state: State, ident: str) -> None:
    """Show an allocation."""
    state.output.mapping(state.client.get(_path(ident)))


@allocation.command("delete")
@click.argument("ident", metavar="ALLOCATION")
@pass_state
def delete(state: State, ident: str) -> None:
    """Give up an allocation, and free its node."""
    state.client.delete(_path(ident))
    state.output.report(f"allocation {ident}: deleted", {"allocation": ident})


def _path(ident: str) -> str:
    return f"/v1/allocations/{urllib.parse.quote(ident, safe='')}"
