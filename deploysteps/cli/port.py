"""``deploysteps port``: the network ports by which agents are known."""

from __future__ import annotations

import urllib.parse

import click

from deploysteps.cli.app import Group, State, pass_state
from deploysteps.cli.client import node_path

LISTED = ("uuid", "address", "node_uuid", "pxe_enabled")


@click.group(cls=Group)
def port() -> None:
    """Tell which network ports (MAC addresses) a machine has."""


@port.command("create")
@click.argument("address")
@click.option("--node", required=True, help="The machine, by uuid or name.")
@click.option("--uuid", help="A UUID to have; by default it gets one.")
@pass_state
def create(state: State, address: str, node: str, uuid: str | None) -> None:
    """Add a port with a MAC address to a machine."""
    client = state.client
    owner = client.get(node_path(node), fields="uuid")
    body = {"address": address, "node_uuid": owner["uuid"]} | ({"uuid": uuid} if uuid else {})
    state.output.mapping(client.post("/v1/ports", body))


@port.command("list")
@click.option("--node", help="Only ports of this machine.")
@click.option("--address", help="Only the port with this MAC address.")
@pass_state
def list_(state: State, node: str | None, address: str | None) -> None:
    """List ports."""
    found = state.client.list(
        "/v1/ports", "ports", fields=",".join(LISTED), node=node, address=address
    )
    rows = [[item.get(name) for name in LISTED] for item in found]
    state.output.rows(LISTED, rows, found, "no ports")


@port.command("show")
@click.argument("uuid")
@pass_state
def show(state: State, uuid: str) -> None:
    """Show a port."""
    state.output.mapping(state.client.get(f"/v1/ports/{urllib.parse.quote(uuid, safe='')}"))


@port.command("delete")
@click.argument("uuids", nargs=-1, required=True)
@pass_state
def delete(state: State, uuids: tuple[str, ...]) -> None:
    """Remove ports."""
    for uuid in uuids:
        state.client.delete(f"/v1/ports/{urllib.parse.quote(uuid, safe='')}")
    state.output.report(f"deleted {', '.join(uuids)}", {"deleted": list(uuids)})
