"""``deploysteps node``: machines, over REST."""

from __future__ import annotations

from typing import Any

import click

from deploysteps import states
from deploysteps.cli import machine, provision, runs, traits, unlock, waiting
from deploysteps.cli.app import Group, State, pass_state
from deploysteps.cli.client import node_path
from deploysteps.cli.collection import UUID_OPTION, delete_all, listing_options, show_list
from deploysteps.cli.errors import CommandError
from deploysteps.cli.params import changes, flags, given, node_fields, removals, stacked, texts
from deploysteps.cli.params import waiting as wait_options

LISTED = ("uuid", "name", "driver", "provision_state", "power_state", "maintenance")

POWER: dict[str, tuple[str, str]] = {
    "on": (states.POWER_ON, states.POWER_ON),
    "off": (states.POWER_OFF, states.POWER_OFF),
    "reboot": (states.REBOOT, states.POWER_ON),
    "soft-off": (states.SOFT_POWER_OFF, states.POWER_OFF),
    "soft-reboot": (states.SOFT_REBOOT, states.POWER_ON),
}
"""What people write -> the target, and the power state that it ends in."""


@click.group(cls=Group)
def node() -> None:
    """Enrol machines, deploy them, and see what goes on."""


for _command in (
    *provision.COMMANDS,
    *runs.COMMANDS,
    *machine.COMMANDS,
    *traits.COMMANDS,
    *unlock.COMMANDS,
):
    node.add_command(_command)


@node.command("create")
@click.option("--driver", required=True, help="The hardware type, e.g. fake-hardware.")
@UUID_OPTION
@node_fields
@pass_state
def create(state: State, /, **fields: Any) -> None:
    """Enrol a machine."""
    made = state.client.post("/v1/nodes", given(fields))
    state.output.mapping(made)


_FILTERS = (
    ("driver", "Only nodes of this hardware type."),
    ("resource_class", "Only nodes of this resource class."),
    ("owner", "Only nodes of this project."),
    ("lessee", "Only nodes that this project uses."),
    ("fault", "Only nodes with this fault, such as 'power failure'."),
    ("conductor", "Only nodes that this conductor works on, or that fall to it."),
    ("conductor_group", "Only nodes of this conductor group."),
    ("shard", "Only nodes in this shard; several with commas between."),
    ("chassis_uuid", "Only nodes in this chassis."),
    ("parent_node", "Only nodes that are parts of this one."),
    ("instance_uuid", "Only the node with this instance."),
    ("instance_name", "Only nodes whose instance is called so."),
    ("description_contains", "Only nodes with this in their description."),
)
_SWITCHES = (
    ("maintenance", "Only nodes that are, or are not, in maintenance."),
    ("associated", "Only nodes that have, or have not, an instance."),
    ("retired", "Only nodes that are, or are not, retired."),
    ("sharded", "Only nodes that are, or are not, in a shard."),
)


@node.command("list")
@click.option(
    "--provision-state",
    type=click.Choice(list(states.STATES)),
    metavar="STATE",
    help="Only nodes in this state, such as 'deploy failed'.",
)
@stacked([*texts(_FILTERS), *flags(_SWITCHES)])
@click.option(
    "--include-children",
    is_flag=True,
    default=None,
    help="Also nodes that are parts of others (parent_node).",
)
@stacked(listing_options(LISTED))
@pass_state
def list_(state: State, /, **more: Any) -> None:
    """List machines."""
    advice = "`deploysteps node create` enrols one"
    show_list(state, "/v1/nodes", "nodes", "no nodes", advice, **more)


@node.command("show")
@click.argument("node")
@click.option("--fields", help="Show only these, separated by commas.")
@pass_state
def show(state: State, node: str, fields: str | None) -> None:
    """Show a machine, by uuid or name."""
    state.output.mapping(state.client.get(node_path(node), fields=fields))


@node.command("set")
@click.argument("node")
@click.option("--driver", help="Another hardware type.")
@click.option(
    "--reset-interfaces",
    is_flag=True,
    default=None,
    help="With --driver: take its default interfaces, but those that are given.",
)
@node_fields
@pass_state
def set_(state: State, /, node: str, reset_interfaces: bool | None, **fields: Any) -> None:
    """Change fields of a machine, and show it.

    KEY=VALUE sets one member of an object and leaves its other members alone.
    """
    patch = changes(given(fields))
    if not patch:
        raise click.UsageError(
            "nothing to change was given, such as --driver-info address=10.0.0.1"
        )
    found = state.client.patch(node_path(node), patch, reset_interfaces=reset_interfaces)
    state.output.mapping(found)


@node.command("unset")
@click.argument("node")
@click.argument("fields", nargs=-1, required=True, metavar="FIELD[/KEY]...")
@pass_state
def unset(state: State, node: str, fields: tuple[str, ...]) -> None:
    """Empty fields of a machine, or take members out of them, and show it.

    For example `deploysteps node unset node-1 description driver_info/address`.
    """
    state.output.mapping(state.client.patch(node_path(node), removals(fields)))


@node.command("delete")
@click.argument("nodes", nargs=-1, required=True)
@pass_state
def delete(state: State, nodes: tuple[str, ...]) -> None:
    """Forget machines; a machine that is in use must be undeployed first."""
    delete_all(state, nodes, node_path)


@node.command("validate")
@click.argument("node")
@pass_state
def validate(state: State, node: str) -> None:
    """Check what each interface needs to know; exit 1 when something is missing."""
    report = state.client.get(node_path(node, "validate"))
    rows = [(kind, item["result"], item.get("reason")) for kind, item in sorted(report.items())]
    state.output.rows(("interface", "result", "reason"), rows, report)
    bad = [kind for kind, result, _ in rows if result is False]
    if bad:
        raise CommandError(f"node {node} is not valid: {', '.join(bad)}")


@node.command("power")
@click.argument("node")
@click.argument("target", type=click.Choice(list(POWER)))
@wait_options
@pass_state
def power(state: State, node: str, target: str, wait: bool, timeout: float) -> None:
    """Switch a machine on or off."""
    wanted, end = POWER[target]
    client = state.client
    body = {"target": wanted} | ({"timeout": int(timeout)} if timeout >= 1 else {})
    client.put(node_path(node, "states", "power"), body)
    if not wait:
        state.output.report(f"{node}: {wanted} asked for", {"node": node, "target": wanted})
        return
    last = waiting.until_power_settled(client, node, end, timeout, provision.tell)
    if last["power_state"] != end:
        raise CommandError(
            f"node {node} is {last['power_state']!r}: {last['last_error'] or 'no reason was told'}"
        )
    state.output.report(f"{node} is {last['power_state']}", last)


@node.command("maintenance")
@click.argument("node")
@click.argument("switch", type=click.Choice(["on", "off"]))
@click.option("--reason", help="Why, for others to read.")
@pass_state
def maintenance(state: State, node: str, switch: str, reason: str | None) -> None:
    """Take a machine out of service, or back."""
    path = node_path(node, "maintenance")
    if switch == "on":
        state.client.put(path, {"reason": reason} if reason else {})
    elif reason:
        raise click.UsageError("--reason goes with on")
    else:
        state.client.delete(path)
    told = {"node": node, "maintenance": switch == "on"}
    state.output.report(f"{node}: maintenance {switch}", told)
