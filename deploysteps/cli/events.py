"""``deploysteps events``: what happens, line by line."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import click

from deploysteps.cli import watch
from deploysteps.cli.app import Command, State, pass_state
from deploysteps.cli.client import Client, Unreachable
from deploysteps.steps import RUNS

_SILENCE = 120.0
"""Seconds without a word, a sign of life included, after which a stream is begun anew."""
_PAUSE = 2.0
_PATIENCE = 60.0
"""Seconds that a service which does not answer any more is waited for."""


@click.command(cls=Command)
@click.option("--node", help="Only of this node, by UUID or name.")
@click.option("--flow", type=click.Choice(list(RUNS)), help="Only of runs of this kind.")
@click.option(
    "--after",
    type=click.IntRange(min=0),
    help="Begin with what followed this event; without it, with what happens from now on.",
)
@click.option("--count", type=click.IntRange(min=1), help="End after so many events.")
@pass_state
def events(
    state: State, node: str | None, flow: str | None, after: int | None, count: int | None
) -> None:
    """Show what happens to runs, steps and nodes, as it happens, until Ctrl-C.

    --json prints each event as one line of JSON. A service that is restarted
    meanwhile is waited for, and nothing is left out.
    """
    told = 0
    for kind, event in _followed(state.client, node, flow, after):
        if kind == "reset":
            click.echo(
                f"Events after {event['last_event_id']} are not kept any more; the oldest is "
                f"{event['oldest']}",
                err=True,
            )
            continue
        _show(state, event)
        told += 1
        if told == count:
            return


def _followed(
    client: Client, node: str | None, flow: str | None, after: int | None
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield type and data of events; goes on where it was when the service comes back."""
    heard, last = False, after
    lost_at = time.monotonic()
    while True:
        try:
            for ident, kind, data in _messages(client, node, flow, last):
                heard, lost_at = True, time.monotonic()
                last = ident if ident is not None else last
                if kind:
                    yield kind, data
        except Unreachable:
            if not heard or time.monotonic() - lost_at > _PATIENCE:
                raise
        time.sleep(_PAUSE)


def _messages(
    client: Client, node: str | None, flow: str | None, last: int | None
) -> Iterator[tuple[int | None, str, dict[str, Any]]]:
    """Yield id, type and data of what a stream has; a type of "" is a sign of life."""
    lines = client.lines("/v1/events/stream", _SILENCE, node=node, flow=flow, last_event_id=last)
    found: dict[str, str] = {}
    for line in lines:
        if line.startswith(":") or not line:
            ident = int(found["id"]) if "id" in found else None
            kind = found.get("event", "") if "data" in found else ""
            yield ident, kind, json.loads(found.get("data", "{}"))
            found = {}
        else:
            name, _, value = line.partition(":")
            found[name] = value.removeprefix(" ")


def _show(state: State, event: dict[str, Any]) -> None:
    if state.as_json:
        click.echo(json.dumps(event))
        return
    what = [f"{event['interface']}.{event['step']}"] if "step" in event else []
    if event.get("attempt", 1) > 1:
        what.append(f"(attempt {event['attempt']})")
    if event.get("previous"):
        what.append(f"{event['previous']} ->")
    what += [str(event[name]) for name in ("state", "outcome", "error", "note") if event.get(name)]
    if event.get("waits_for"):
        what.append(f"waits for {event['waits_for']}")
    clock = watch.clock(event["at"])
    state.output.say(
        f"{clock} {event['id']} {event['node']} {event['flow'] or '-'} {event['type']} "
        f"{' '.join(what)}".rstrip()
    )
