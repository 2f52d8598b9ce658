"""Parameters that several commands have, and how their texts become values."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import click

from deploysteps import steps

Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]

OBJECTS: tuple[tuple[str, str, str], ...] = (
    ("--driver-info", "driver_info", "how to reach the machine's management controller"),
    ("--property", "properties", "what the machine is"),
    ("--instance-info", "instance_info", "what is to be deployed"),
    ("--network-data", "network_data", "the network that is configured without DHCP"),
    ("--extra", "extra", "anything else"),
)
"""Options that fill an object of the node, member by member."""


def key_value(text: str) -> tuple[str, Any]:
    """Split ``key=value``; the value is read as JSON when it is JSON."""
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise click.BadParameter(f"{text!r} is not key=value")
    try:
        return key, json.loads(value)
    except ValueError:
        return key, value


def given(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return what was given; what may be repeated becomes a list, or pairs an object."""
    kept = {name: value for name, value in fields.items() if value not in (None, ())}
    return {name: _joined(v) if isinstance(v, tuple) else v for name, v in kept.items()}


def _joined(values: tuple[Any, ...]) -> dict[str, Any] | list[Any]:
    return dict(values) if isinstance(values[0], tuple) else list(values)


def changes(values: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the JSON patch that sets fields; of an object, the members that are given."""
    paths: dict[str, Any] = {}
    for field, value in values.items():
        if isinstance(value, dict):
            paths |= {f"/{field}/{pointer(key)}": item for key, item in value.items()}
        else:
            paths[f"/{field}"] = value
    return [{"op": "add", "path": path, "value": value} for path, value in paths.items()]


def removals(fields: Iterable[str]) -> list[dict[str, Any]]:
    """Return the JSON patch that empties fields, or takes members out of them."""
    return [{"op": "remove", "path": f"/{field.lstrip('/')}"} for field in fields]


def pointer(key: str) -> str:
    """Return a member's name as it stands in the path of a JSON patch."""
    return key.replace("~", "~0").replace("/", "~1")


STEPS_HELP = (
    "Steps to add to, or change in, the driver's: a JSON list of objects with interface, step, "
    "priority and args, all four required (args may be {}). Priority 0 disables a step. @FILE "
    "reads the list from a file, - from stdin."
)
"""Help of ``--deploy-steps``."""

ORDERED_HELP = (
    "Steps to run, in this order: a JSON list of objects with interface and step, and args where "
    "the step takes some. @FILE reads the list from a file, - from stdin."
)
"""Help of the options with steps of flows that run them as they are listed."""


def json_or_file(text: str) -> Any:
    """Read JSON, ``@file`` that holds it, or ``-`` for stdin."""
    try:
        if text == "-":
            return json.load(sys.stdin)
        if text.startswith("@"):
            return json.loads(Path(text[1:]).read_text(encoding="utf-8"))
        return json.loads(text)
    except OSError as exc:
        raise click.BadParameter(f"cannot read {text[1:]}: {exc.strerror}") from exc
    except (ValueError, RecursionError) as exc:
        raise click.BadParameter(f"this is not JSON ({exc}); give JSON, @FILE or -") from exc


def step_list(text: str) -> list[Any]:
    """Read a JSON list of steps; what a step may be is the service's to judge."""
    found = json_or_file(text)
    if not isinstance(found, list):
        raise click.BadParameter(
            'steps are a JSON list of objects such as [{"interface": "deploy", '
            '"step": "deploy", "priority": 100, "args": {}}]; those that run in the order of the '
            "list have no priority"
        )
    return found


def steps_option(flow: steps.StepFlow) -> Decorator:
    """Return the option with the steps of a flow."""
    return click.option(
        f"--{flow.name}-steps",
        flow.list_field,
        type=step_list,
        metavar="JSON|@FILE|-",
        help=ORDERED_HELP if flow.in_order else STEPS_HELP,
    )


def stacked(decorators: Iterable[Decorator]) -> Decorator:
    """Return one decorator that applies several, so that help lists them in order."""
    listed = list(decorators)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        for decorator in reversed(listed):
            function = decorator(function)
        return function

    return decorate


class Seconds(click.FloatRange):
    """A range of seconds; ``nan`` is in none."""

    def convert(self, value: Any, param: Any, ctx: Any) -> Any:
        """Convert a text."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(f"{value!r} is no number of seconds", param, ctx)
        return number


Told = tuple[tuple[str, str], ...]
"""Names of fields, each with the help of its option."""

FLAGS: Told = (
    ("automated_clean", "Clean it by its driver's steps; without it the setting decides."),
    ("protected", "Refuse to undeploy, rebuild or delete it."),
    ("retired", "Refuse to provide it."),
    ("disable_power_off", "Never switch it off; it is rebooted instead."),
)
"""Switches of a node."""

TEXTS: Told = (
    ("resource_class", "The class of machine, for schedulers."),
    ("description", "A note."),
    ("owner", "The project whose it is."),
    ("lessee", "The project that uses it."),
    ("conductor_group", "The group of conductors that work on it."),
    ("shard", "The part of the nodes that it belongs to, for schedulers."),
    ("chassis_uuid", "The chassis that it stands in."),
    ("parent_node", "The node that it is a part of."),
    ("instance_uuid", "The instance that is on it."),
    ("instance_name", "What that instance is called."),
    ("protected_reason", "Why it is protected."),
    ("retired_reason", "Why it is retired."),
)
"""Fields of a node that are texts."""


def texts(told: Told) -> tuple[Decorator, ...]:
    """Return options that take a text."""
    return tuple(click.option(_option(name), name, help=text) for name, text in told)


def flags(told: Told) -> tuple[Decorator, ...]:
    """Return options that take true or false."""
    return tuple(click.option(_option(name), name, type=bool, help=text) for name, text in told)


def members(flag: str, name: str, told: str) -> Decorator:
    """Return the option that fills an object, member by member."""
    return click.option(
        flag,
        name,
        type=key_value,
        multiple=True,
        metavar="KEY=VALUE",
        help=f"{told.capitalize()}; may be repeated. VALUE is JSON, or else a text: "
        "1 is a number, '\"1\"' a text.",
    )


def _option(name: str) -> str:
    return f"--{name.replace('_', '-')}"


EXTRA = members("--extra", "extra", "anything else")


def limit_option(default: int | None = None) -> Decorator:
    """Return the option of lists that may be long."""
    return click.option(
        "--limit",
        type=click.IntRange(min=1),
        default=default,
        show_default=default is not None,
        help="At most so many.",
    )


node_fields = stacked(
    [
        click.option("--name", help="A name to call it by."),
        *(members(*one) for one in OBJECTS),
        *texts(TEXTS),
        *flags(FLAGS),
        *(
            click.option(f"--{kind}-interface", f"{kind}_interface", metavar="NAME")
            for kind in steps.INTERFACE_TYPES
        ),
    ]
)
"""What may be set when a node is created and later."""

by_runbook = stacked(
    [
        click.option("--runbook", help="Run the steps of this runbook, by uuid or name."),
        click.option(
            "--disable-ramdisk",
            is_flag=True,
            default=None,
            help="Do not boot the machine's agent; steps that need it are refused.",
        ),
    ]
)
"""For flows whose steps a runbook may list."""

waiting = stacked(
    [
        click.option("--wait", is_flag=True, help="Wait for the end; exit 1 when it failed."),
        click.option(
            "--timeout",
            type=Seconds(min=0),
            default=0,
            show_default=True,
            help="Seconds to wait at most (exit 4); 0: no limit.",
        ),
    ]
)
"""For commands that start something that goes on after they return."""
