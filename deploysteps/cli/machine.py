"""``deploysteps node``: what a machine is made of, and what it is told beside its steps."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import click

from deploysteps.cli import vendor
from deploysteps.cli.app import Command, Group, State, pass_state
from deploysteps.cli.client import node_path
from deploysteps.cli.params import json_or_file, key_value


class Part(NamedTuple):
    """A list of what a machine has."""

    name: str
    told: str
    columns: tuple[str, ...]
    empty: str


_AS_READ = ", as its driver read it last."
PARTS = (
    Part(
        "firmware",
        "List the firmware of a machine" + _AS_READ,
        ("component", "current_version", "initial_version", "last_version_flashed"),
        "no firmware is known of node {}",
    ),
    Part(
        "children",
        "List the nodes that are parts of this one.",
        ("uuid",),
        "node {} has no children",
    ),
)
_BIOS = Part("bios", "", ("name", "value"), "no settings are known of node {}")
_LIGHTS = Part(
    "indicators", "", ("name", "readonly", "states"), "no indicator lights are known of node {}"
)
_VIFS = Part("vifs", "", ("id",), "node {} has no virtual interfaces")


_LATER = "if it fails, last_error of the node will say why"
"""Of what a worker does after the answer."""


class Switch(NamedTuple):
    """Something of a machine that is shown, or set when a value is given."""

    name: str
    told: str
    shown: tuple[str, ...]
    """The path that tells it."""
    members: tuple[str, ...]
    """What is shown of that; everything when none is named."""
    path: tuple[str, ...]
    """Where it is set."""
    member: str
    values: Mapping[str, Any]
    """What people write -> what is sent."""


_ON_OFF: Mapping[str, Any] = {"on": True, "off": False}
SWITCHES = (
    Switch(
        "boot-mode",
        "Show by which firmware a machine boots, or begin to change it.",
        ("states",),
        ("boot_mode",),
        ("states", "boot_mode"),
        "target",
        {"uefi": "uefi", "bios": "bios"},
    ),
    Switch(
        "secure-boot",
        "Show whether a machine boots only what is signed, or begin to change it.",
        ("states",),
        ("secure_boot",),
        ("states", "secure_boot"),
        "target",
        _ON_OFF,
    ),
    Switch(
        "console",
        "Show how to reach a machine's console, or begin to start or stop it.",
        ("states", "console"),
        (),
        ("states", "console"),
        "enabled",
        _ON_OFF,
    ),
)


def _show_part(state: State, node: str, part: Part, *path: str) -> None:
    found = state.client.get(node_path(node, *path, part.name))[part.name]
    rows = [[item.get(c) for c in part.columns] if isinstance(item, dict) else [item]
            for item in found]  # fmt: skip
    state.output.rows(part.columns, rows, found, part.empty.format(node))


def _part(part: Part) -> click.Command:
    @click.command(part.name, cls=Command, help=part.told)
    @click.argument("node")
    @pass_state
    def show(state: State, node: str) -> None:
        _show_part(state, node, part)

    return show


def _switch(switch: Switch) -> click.Command:
    @click.command(switch.name, cls=Command, help=switch.told)
    @click.argument("node")
    @click.argument("value", required=False, type=click.Choice(list(switch.values)))
    @pass_state
    def command(state: State, node: str, value: str | None) -> None:
        if value is None:
            found = state.client.get(node_path(node, *switch.shown))
            wanted = switch.members or tuple(found)
            state.output.mapping({name: found.get(name) for name in wanted})
            return
        body = {switch.member: switch.values[value]}
        state.client.put(node_path(node, *switch.path), body)
        _report(state, node, f"{switch.name} {value} begun; {_LATER}")

    return command


@click.command("bios", cls=Command)
@click.argument("node")
@click.argument("setting", required=False)
@pass_state
def bios(state: State, node: str, setting: str | None) -> None:
    """List the settings of a machine's firmware, or show all that is known of one."""
    if setting is None:
        _show_part(state, node, _BIOS)
        return
    state.output.mapping(state.client.get(node_path(node, "bios", setting))[setting])


@click.command("inventory", cls=Command)
@click.argument("node")
@pass_state
def inventory(state: State, node: str) -> None:
    """Show what the last inspection of a machine found; --json also what plugins made of it."""
    found = state.client.get(node_path(node, "inventory"))
    state.output.rows(("field", "value"), list(found["inventory"].items()), found)


@click.command("states", cls=Command)
@click.argument("node")
@pass_state
def states(state: State, node: str) -> None:
    """Show the states of a machine, and no more of it."""
    state.output.mapping(state.client.get(node_path(node, "states")))


@click.command("raid", cls=Command)
@click.argument("node")
@click.argument("config", required=False, type=json_or_file, metavar="[JSON|@FILE|-]")
@pass_state
def raid(state: State, node: str, config: Any) -> None:
    """Show the RAID configuration that a machine has and is to have, or keep another.

    It is to have the configuration that is kept; a step makes it so.
    """
    if config is None:
        found = state.client.get(node_path(node, "states"))
        state.output.mapping({name: found.get(name) for name in ("raid_config", _RAID)})
        return
    state.client.put(node_path(node, "states", "raid"), config)
    _report(state, node, "the configuration is kept; a step of a cleaning makes it so")


_RAID = "target_raid_config"


@click.command("boot-device", cls=Command)
@click.argument("node")
@click.argument("device", required=False)
@click.option("--persistent", is_flag=True, help="Not only for the next boot.")
@pass_state
def boot_device(state: State, node: str, device: str | None, persistent: bool) -> None:
    """Show what a machine boots from and what it could boot from, or choose one."""
    path = node_path(node, "management", "boot_device")
    if device is not None:
        state.client.put(path, {"boot_device": device, "persistent": persistent})
        times = "from now on" if persistent else "once"
        _report(state, node, f"boots from {device} {times}")
        return
    if persistent:
        raise click.UsageError("--persistent goes with a DEVICE")
    state.output.mapping(state.client.get(path) | state.client.get(f"{path}/supported"))


@click.command("nmi", cls=Command)
@click.argument("node")
@pass_state
def nmi(state: State, node: str) -> None:
    """Send a machine a non-maskable interrupt: its system dumps its memory, if it is set up so."""
    state.client.put(node_path(node, "management", "inject_nmi"), {})
    _report(state, node, "interrupted")


@click.command("indicator", cls=Command)
@click.argument("node")
@click.argument("light", required=False)
@click.argument("value", required=False, type=click.Choice(["on", "off", "blinking"]))
@pass_state
def indicator(state: State, node: str, light: str | None, value: str | None) -> None:
    """List the indicator lights of a machine, show one such as led@system, or switch it."""
    if light is None:
        _show_part(state, node, _LIGHTS, "management")
        return
    path = node_path(node, "management", "indicators", light)
    if value is None:
        state.output.mapping(state.client.get(path))
        return
    state.client.put(path, {"state": value})
    _report(state, node, f"{light} is {value}")


@click.group("vifs", cls=Group)
def vifs() -> None:
    """See and change the virtual interfaces that a machine's ports are attached to."""


@vifs.command("list")
@click.argument("node")
@pass_state
def list_vifs(state: State, node: str) -> None:
    """List the virtual interfaces."""
    _show_part(state, node, _VIFS)


@vifs.command("attach")
@click.argument("node")
@click.argument("vif")
@click.option("--port-uuid", help="The port to attach it to; by default any that is free.")
@click.option("--portgroup-uuid", help="The portgroup to attach it to.")
@click.option(
    "--info",
    type=key_value,
    multiple=True,
    metavar="KEY=VALUE",
    help="What else the network interface wants to know; may be repeated.",
)
@pass_state
def attach(
    state: State, /, node: str, vif: str, info: tuple[tuple[str, Any], ...], **where: str | None
) -> None:
    """Attach a virtual interface."""
    body = {**dict(info), "id": vif, **{name: uuid for name, uuid in where.items() if uuid}}
    state.client.post(node_path(node, "vifs"), body)
    _report(state, node, f"{vif} is attached")


@vifs.command("detach")
@click.argument("node")
@click.argument("vif")
@pass_state
def detach(state: State, node: str, vif: str) -> None:
    """Detach a virtual interface."""
    state.client.delete(node_path(node, "vifs", vif))
    _report(state, node, f"{vif} is detached")


@click.group("vmedia", cls=Group)
def vmedia() -> None:
    """See and change the virtual media (images that its controller shows as disks) of a machine."""


@vmedia.command("list")
@click.argument("node")
@pass_state
def list_media(state: State, node: str) -> None:
    """List the devices, and what is in them."""
    found = state.client.call("GET", node_path(node, "vmedia"), None)
    columns = ("media_types", "inserted", "image")
    rows = [[item.get(name) for name in columns] for item in found]
    state.output.rows(columns, rows, found, f"node {node} has no virtual media")


@vmedia.command("attach")
@click.argument("node")
@click.argument("device")
@click.argument("url")
@pass_state
def insert(state: State, node: str, device: str, url: str) -> None:
    """Begin to put the image at a URL into a device, such as cdrom."""
    state.client.post(node_path(node, "vmedia"), {"device_type": device, "image_url": url})
    _report(state, node, f"begun to fill {device}; {_LATER}")


@vmedia.command("detach")
@click.argument("node")
@click.argument("devices", nargs=-1, metavar="[DEVICE]...")
@pass_state
def eject(state: State, node: str, devices: tuple[str, ...]) -> None:
    """Begin to take images out of devices, by default of all."""
    named = ",".join(devices) or None
    state.client.delete(node_path(node, "vmedia"), device_types=named)
    _report(state, node, f"begun to empty what was named; {_LATER}")


def _report(state: State, node: str, text: str) -> None:
    state.output.report(f"{node}: {text}", {"node": node, "told": text})


COMMANDS: tuple[click.Command, ...] = (
    states,
    *(_part(part) for part in PARTS),
    bios,
    inventory,
    *(_switch(switch) for switch in SWITCHES),
    boot_device,
    indicator,
    raid,
    nmi,
    vifs,
    vmedia,
    vendor.group(node_path, "NODE"),
)
"""What ``deploysteps node`` has of this."""
