"""The reference of the command line, from click."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

import click

from deploysteps.cli.app import cli


def global_options() -> str:
    """Return the options that stand before the command."""
    return "\n".join(_options(cli, click.Context(cli, info_name="deploysteps"), hide=()))


def reference() -> str:
    """Return every command with its arguments and options."""
    root = click.Context(cli, info_name="deploysteps")
    lines: list[str] = []
    for name, command in _members(cli, root):
        lines += _section(command, click.Context(command, root, info_name=name), depth=0)
    return "\n".join(lines)


def _members(group: click.Group, context: click.Context) -> Iterator[tuple[str, click.Command]]:
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None:
            yield name, command


def _section(command: click.Command, context: click.Context, depth: int) -> Iterator[str]:
    """Yield a command; that of a group is followed by its members."""
    path = context.command_path
    if depth == 0:
        yield from (path, "-" * len(path), "")
    if isinstance(command, click.Group):
        yield from (_told(command.help), "")
        for name, member in _members(command, context):
            yield from _section(member, click.Context(member, context, info_name=name), depth + 1)
        return
    usage = " ".join(command.collect_usage_pieces(context))
    yield from (f".. command:: {path}", "", f"   ``{path} {usage}``", "")
    yield from (f"   {line}" if line else "" for line in _told(command.help).splitlines())
    yield ""
    yield from (f"   {line}" if line else "" for line in _options(command, context))


_UNTOLD = "Which one, by its name."
_EVERYWHERE = ("--json", "--help")


def _options(
    command: click.Command, context: click.Context, hide: tuple[str, ...] = _EVERYWHERE
) -> Iterator[str]:
    for parameter in command.get_params(context):
        record = parameter.get_help_record(context)
        if record is None or set(parameter.opts) & set(hide):
            continue
        names, told = record
        if told or isinstance(parameter, click.Option):
            yield from (f"``{names}``", f"    {_told(told) or _UNTOLD}", "")


def _told(text: str | None) -> str:
    """Return a help text as reStructuredText: what stands in backticks is code."""
    plain = inspect.cleandoc(text or "").replace("\b", "").replace("*", "\\*").replace("|", "\\|")
    return plain.replace("`", "``").strip()
