"""Vendor methods of nodes and of hardware types: what only one maker's machines do."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import click

from deploysteps.cli.app import Group, State, pass_state
from deploysteps.cli.params import Decorator, key_value

_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_COLUMNS = ("http_methods", "async", "description")


def group(path: Callable[..., str], owner: str) -> click.Group:
    """Return the commands for the vendor methods of an owner.

    :param path: gives the path below one of them.
    """
    argument: Decorator = click.argument("ident", metavar=owner)

    @click.group(
        "vendor", cls=Group, help="See and call methods that only one maker's machines have."
    )
    def made() -> None:
        pass

    @made.command("list", help="List the methods.")
    @argument
    @pass_state
    def list_(state: State, ident: str) -> None:
        found = state.client.get(path(ident, "vendor_passthru", "methods"))
        rows = [(name, *(item.get(c) for c in _COLUMNS)) for name, item in found.items()]
        state.output.rows(("method", *_COLUMNS), rows, found, f"{ident} has no vendor methods")

    @made.command("call", help="Call a method, and print what it returns.")
    @argument
    @click.argument("method")
    @click.option(
        "--http", type=click.Choice(_METHODS), default="POST", show_default=True, help="How."
    )
    @click.option(
        "--arg",
        "arguments",
        type=key_value,
        multiple=True,
        metavar="KEY=VALUE",
        help="An argument; may be repeated. VALUE is JSON, or else a text.",
    )
    @pass_state
    def call(
        state: State, ident: str, method: str, http: str, arguments: tuple[tuple[str, Any], ...]
    ) -> None:
        found = state.client.call(http, path(ident, "vendor_passthru", method), dict(arguments))
        if found is None:
            done = {"ident": ident, "method": method}
            state.output.report(f"{ident}: {method} has begun, or returned nothing", done)
        elif isinstance(found, bytes):
            click.echo(found, nl=False)
        else:
            state.output.data(found)

    return made
