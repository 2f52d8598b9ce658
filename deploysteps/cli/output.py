"""How commands print: tables for terminals, plain columns for pipes, JSON."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:  # loaded with the first table: ``serve`` starts sooner without it
    from rich.console import Console
    from rich.text import Text

STYLES: Mapping[str, str] = {
    "success": "green",
    "active": "green",
    "running": "cyan",
    "waiting": "yellow",
    "held": "yellow",
    "aborting": "red",
    "planned": "dim",
    "failed": "bold red",
    "aborted": "red",
    "timeout": "red",
    "interrupted": "red",
    "undeployed": "dim",
}
"""How words in tables are coloured; a state that ends in one of them takes it."""


def clean(value: object) -> str:
    """Return text for a terminal: what a far side sent may not steer the cursor."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return "".join(c if c.isprintable() else " " for c in text)


def styled(value: object) -> Text:
    """Return a cell, coloured when its last word has a colour."""
    from rich.text import Text

    text = clean(value)
    last = text.rsplit(" ", 1)[-1]
    return Text(text, style=STYLES.get(last, ""))


class Output:
    """Prints what a command found, in the form that was asked for."""

    def __init__(self, as_json: bool = False) -> None:
        """``as_json``: print nothing but JSON on stdout."""
        self.as_json = as_json

    @cached_property
    def console(self) -> Console:
        """Where tables are drawn."""
        from rich.console import Console

        return Console(highlight=False)

    @property
    def live(self) -> bool:
        """Whether a table may be redrawn in place."""
        return not self.as_json and self.console.is_terminal

    def say(self, text: str) -> None:
        """Print lines for people; nothing when JSON was asked for."""
        for line in [] if self.as_json else text.splitlines() or [""]:
            click.echo(clean(line))

    def data(self, value: Any) -> None:
        """Print JSON."""
        click.echo(json.dumps(value, indent=2, ensure_ascii=False, default=str))

    def report(self, text: str, data: Any) -> None:
        """Print a line, or ``data`` when JSON was asked for."""
        if self.as_json:
            self.data(data)
        else:
            self.say(text)

    def rows(
        self, columns: Sequence[str], rows: Sequence[Sequence[object]], data: Any, empty: str = ""
    ) -> None:
        """Print rows, or ``data`` when JSON was asked for."""
        if self.as_json:
            self.data(data)
        elif not rows:
            self.say(empty or "nothing found")
        elif self.console.is_terminal:
            from deploysteps.cli.tables import table

            self.console.print(table(columns, rows, self.console.width))
        else:
            click.echo(plain(columns, rows))

    def mapping(self, value: Mapping[str, Any]) -> None:
        """Print an object, a line a member and without its links, or as JSON."""
        shown = [(k, v) for k, v in value.items() if k != "links" and not _is_links(v)]
        self.rows(("field", "value"), shown, value)


def _is_links(value: Any) -> bool:
    return isinstance(value, list) and any(isinstance(i, dict) and "href" in i for i in value)


def plain(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Return aligned columns of full width, for pipes: nothing is cut off."""
    cells = [[column.upper() for column in columns], *([clean(c) for c in row] for row in rows)]
    widths = [max(len(row[i]) for row in cells) for i in range(len(columns))]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )
