"""Groups of commands for what the API keeps in a collection: make, list, show, change, remove."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import click

from deploysteps.cli.app import Command, Group, State, pass_state
from deploysteps.cli.client import Client, node_path, path_of
from deploysteps.cli.errors import CommandError, ExitCode
from deploysteps.cli.params import Decorator, changes, given, limit_option, removals, stacked

UUID_OPTION = click.option("--uuid", help="A UUID to have; by default it gets one.")


@dataclasses.dataclass(frozen=True, kw_only=True)
class Kind:
    """What such groups differ in."""

    place: str
    """The collection of the API."""
    name: str
    told: str
    """Help of the group."""
    create: str
    """Help of ``create``."""
    delete: str
    """Help of ``delete``."""
    listed: tuple[str, ...]
    """Fields in a list."""
    first: str | None = None
    """The field that ``create`` takes as an argument, and ``set`` as an option."""
    new: tuple[Decorator, ...] = ()
    """Options of ``create`` alone."""
    changed: tuple[Decorator, ...] = ()
    """Options of ``set`` alone."""
    options: tuple[Decorator, ...] = ()
    """What may be set, then and later."""
    filters: tuple[Decorator, ...] = ()
    """What a list may be narrowed by."""
    of_node: bool = False
    """Whether ``--node`` names the machine that it is a part of."""

    @property
    def plural(self) -> str:
        """How several are called."""
        return self.name if self.name.endswith("s") else f"{self.name}s"

    def path(self, *parts: str) -> str:
        """Return the path of all, of one, or of something of it."""
        return path_of(self.place, *parts)

    def values(self, client: Client, fields: Mapping[str, Any]) -> dict[str, Any]:
        """Return what was given, as the API takes it."""
        values = given(fields)
        if self.of_node and "node" in values:
            owner = client.get(node_path(values.pop("node")), fields="uuid")
            values["node_uuid"] = owner["uuid"]
        return values


def group(kind: Kind) -> click.Group:
    """Return the group of a kind."""

    @click.group(kind.name, cls=Group, help=kind.told)
    def made() -> None:
        pass

    for command in (_create, _list, _show, _set, _unset, _delete):
        made.add_command(command(kind))
    return made


def _create(kind: Kind) -> click.Command:
    argument = (click.argument(kind.first),) if kind.first else ()

    @click.command("create", cls=Command, help=kind.create)
    @stacked([*argument, *kind.new, *kind.options, UUID_OPTION])
    @pass_state
    def create(state: State, /, **fields: Any) -> None:
        client = state.client
        state.output.mapping(client.post(kind.path(), kind.values(client, fields)))

    return create


def _list(kind: Kind) -> click.Command:
    @click.command("list", cls=Command, help=f"List {kind.plural}.")
    @stacked([*kind.filters, *listing_options(kind.listed)])
    @pass_state
    def list_(state: State, /, **more: Any) -> None:
        show_list(
            state,
            kind.path(),
            kind.place,
            f"no {kind.plural}",
            f"`deploysteps {kind.name} create` makes one",
            **more,
        )

    return list_


def _show(kind: Kind) -> click.Command:
    @click.command("show", cls=Command, help="Show one, by its uuid, or by its name if it has one.")
    @_ident(kind)
    @pass_state
    def show(state: State, ident: str) -> None:
        state.output.mapping(state.client.get(kind.path(ident)))

    return show


def _set(kind: Kind) -> click.Command:
    renamed = (click.option(f"--{kind.first}", help=f"Another {kind.first}."),)

    @click.command("set", cls=Command, help=f"Change a {kind.name}, and show it.")
    @_ident(kind)
    @stacked([*(renamed if kind.first else ()), *kind.changed, *kind.options])
    @pass_state
    def set_(state: State, /, ident: str, **fields: Any) -> None:
        client = state.client
        patch = changes(kind.values(client, fields))
        if not patch:
            raise click.UsageError("nothing to change was given")
        state.output.mapping(client.patch(kind.path(ident), patch))

    return set_


def _unset(kind: Kind) -> click.Command:
    @click.command("unset", cls=Command, help="Empty fields, or take members out of them.")
    @_ident(kind)
    @click.argument("fields", nargs=-1, required=True, metavar="FIELD[/KEY]...")
    @pass_state
    def unset(state: State, ident: str, fields: tuple[str, ...]) -> None:
        state.output.mapping(state.client.patch(kind.path(ident), removals(fields)))

    return unset


def _delete(kind: Kind) -> click.Command:
    @click.command("delete", cls=Command, help=kind.delete)
    @click.argument("idents", nargs=-1, required=True, metavar=f"{kind.name.upper()}...")
    @pass_state
    def delete(state: State, idents: tuple[str, ...]) -> None:
        delete_all(state, idents, kind.path)

    return delete


def _ident(kind: Kind) -> Decorator:
    return click.argument("ident", metavar=kind.name.upper())


def listing_options(columns: Sequence[str]) -> tuple[Decorator, ...]:
    """Return what every list can be asked for."""
    return (
        click.option("--fields", default=",".join(columns), show_default=True, help="Columns."),
        click.option("--sort-key", metavar="FIELD", help="Sort by this field."),
        click.option("--sort-dir", type=click.Choice(["asc", "desc"]), help="By default asc."),
        limit_option(),
    )


def show_list(
    state: State,
    path: str,
    key: str,
    none: str,
    advice: str,
    /,
    *,
    fields: str,
    limit: int | None,
    sort_key: str | None,
    sort_dir: str | None,
    **filters: Any,
) -> None:
    """Print a list; ``advice`` follows where there is ``none`` at all."""
    columns = [name.strip() for name in fields.split(",") if name.strip()]
    if not columns:
        raise click.UsageError("--fields names no field")
    narrowed = given(filters)
    found = state.client.list(
        path,
        key,
        limit,
        fields=",".join(columns),
        limit=limit,
        sort_key=sort_key,
        sort_dir=sort_dir,
        **narrowed,
    )
    rows = [[item.get(name) for name in columns] for item in found]
    empty = f"{none} that fit" if narrowed else f"{none}; {advice}"
    state.output.rows(columns, rows, found, empty)


def delete_all(state: State, idents: Sequence[str], path: Callable[[str], str]) -> None:
    """Remove each; one that cannot be removed does not keep the others.

    :raises CommandError: naming what was not removed, with the code of the first.
    """
    client, deleted = state.client, list[str]()
    failed: list[CommandError] = []
    left: Sequence[str] = ()
    for number, ident in enumerate(idents):
        try:
            client.delete(path(ident))
            deleted.append(ident)
        except CommandError as exc:
            failed.append(exc)
            if exc.code == ExitCode.UNREACHABLE:
                left = idents[number + 1 :]
                break
    if deleted or state.as_json:
        state.output.report(f"deleted {', '.join(deleted)}", {"deleted": deleted})
    if failed:
        told = [exc.message for exc in failed]
        told += [f"not tried: {', '.join(left)}"] if left else []
        raise CommandError("; ".join(told), failed[0].code)
