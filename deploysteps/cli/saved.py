"""``deploysteps template`` and ``deploysteps runbook``: lists of steps that are kept."""

from __future__ import annotations

import dataclasses
import urllib.parse
from typing import Any

import click

from deploysteps.cli.app import Group, State, pass_state
from deploysteps.cli.params import Decorator, given, key_value, pointer, stacked, step_list


@dataclasses.dataclass(frozen=True)
class Kind:
    """What the two groups differ in."""

    place: str
    """The collection of the API."""
    name: str
    create: str
    """Help of ``create``."""
    steps: str
    """Help of ``--steps``."""
    options: tuple[Decorator, ...]
    """What may be set beside name, steps and extra."""
    listed: tuple[str, ...]
    """Fields in a list."""

    def path(self, ident: str = "") -> str:
        """Return the path of one, or of all."""
        return f"/v1/{self.place}" + (f"/{urllib.parse.quote(ident, safe='')}" if ident else "")


_EXTRA = click.option(
    "--extra",
    type=key_value,
    multiple=True,
    metavar="KEY=VALUE",
    help="Anything else; may be repeated. VALUE is JSON, or else a text.",
)
_FROM = " @FILE reads the list from a file, - from stdin."


TEMPLATE = Kind(
    "deploy_templates",
    "template",
    "Keep deploy steps for instances that ask for the trait NAME, such as CUSTOM_RAID.",
    "The steps: a JSON list of objects with interface, step, priority and args, all four "
    "required, each step once. Priority 0 disables a step." + _FROM,
    (),
    ("uuid", "name"),
)
RUNBOOK = Kind(
    "runbooks",
    "runbook",
    "Keep steps for cleaning or servicing nodes that have the trait NAME, such as CUSTOM_WIPE.",
    "The steps: a JSON list of objects with interface, step, order and args, all four required; "
    "they run by order." + _FROM,
    (
        click.option("--description", help="A note."),
        click.option("--owner", help="Whose it is."),
        click.option("--public/--no-public", default=None, help="Whether others may use it."),
        click.option(
            "--disable-ramdisk/--no-disable-ramdisk",
            default=None,
            help="Whether it runs without the machine's agent.",
        ),
    ),
    ("uuid", "name", "owner", "public", "description"),
)


def _fields(kind: Kind, *, required: bool) -> Decorator:
    steps = click.option(
        "--steps", type=step_list, metavar="JSON|@FILE|-", help=kind.steps, required=required
    )
    return stacked([steps, *kind.options, _EXTRA])


def _group(kind: Kind, told: str) -> click.Group:
    @click.group(kind.name, cls=Group, help=told)
    def group() -> None:
        pass

    @group.command("create", help=kind.create)
    @click.argument("name")
    @_fields(kind, required=True)
    @click.option("--uuid", help="A UUID to have; by default it gets one.")
    @pass_state
    def create(state: State, /, **fields: Any) -> None:
        state.output.mapping(state.client.post(kind.path(), given(fields)))

    @group.command("list", help=f"List the {kind.name}s.")
    @pass_state
    def list_(state: State) -> None:
        found = state.client.list(kind.path(), kind.place, fields=",".join(kind.listed))
        rows = [[item.get(name) for name in kind.listed] for item in found]
        state.output.rows(
            kind.listed,
            rows,
            found,
            f"no {kind.name}s; `deploysteps {kind.name} create` makes one",
        )

    @group.command("show", help=f"Show a {kind.name}, by uuid or name.")
    @click.argument("ident", metavar=kind.name.upper())
    @pass_state
    def show(state: State, ident: str) -> None:
        state.output.mapping(state.client.get(kind.path(ident)))

    @group.command("set", help=f"Change a {kind.name}, and show it; --steps replaces all steps.")
    @click.argument("ident", metavar=kind.name.upper())
    @click.option("--name", help="Another name.")
    @_fields(kind, required=False)
    @pass_state
    def set_(state: State, /, ident: str, **fields: Any) -> None:
        values = given(fields)
        extra = {f"extra/{pointer(key)}": v for key, v in values.pop("extra", {}).items()}
        patch = [
            {"op": "add", "path": f"/{path}", "value": value}
            for path, value in (values | extra).items()
        ]
        if not patch:
            raise click.UsageError("nothing to change was given, such as --steps")
        state.output.mapping(state.client.patch(kind.path(ident), patch))

    @group.command("delete", help=f"Forget {kind.name}s; runs that use one go on.")
    @click.argument("idents", nargs=-1, required=True, metavar=f"{kind.name.upper()}...")
    @pass_state
    def delete(state: State, idents: tuple[str, ...]) -> None:
        for ident in idents:
            state.client.delete(kind.path(ident))
        state.output.report(f"deleted {', '.join(idents)}", {"deleted": list(idents)})

    return group


template = _group(TEMPLATE, "Keep deploy steps under the name of a trait.")
runbook = _group(RUNBOOK, "Keep lists of steps for cleaning and servicing.")
