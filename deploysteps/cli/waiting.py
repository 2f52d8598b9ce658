"""Following a node until what was asked of it has ended."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from deploysteps import states
from deploysteps.cli.client import Client, Unreachable, node_path
from deploysteps.cli.errors import CommandError, ExitCode

PATIENCE = 60.0
"""Seconds that a service which was there may be away, e.g. to be restarted."""


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """A node and the run that is looked at, as the service told them."""

    node: dict[str, Any]
    run: dict[str, Any] | None

    @property
    def name(self) -> str:
        """The node's name, or its uuid."""
        return str(self.node.get("name") or self.node["uuid"])

    @property
    def state(self) -> str:
        """The node's provision state."""
        return state_of(self.node)

    @property
    def settled(self) -> bool:
        """Whether nothing goes on."""
        over = self.run is None or self.run["finished_at"] is not None
        return over and self.state in states.STABLE_STATES


def state_of(node: Mapping[str, Any]) -> str:
    """Return a node's provision state."""
    return str(node["provision_state"] or states.AVAILABLE)


def goal(event: str, state: str | None = None, target: str | None = None) -> str:
    """Return the stable state that a verb's event leads to when all goes well.

    :param state: the node's state before it; without it, or when the node has
        moved on since, the first state that has the event decides.
    :param target: its ``target_provision_state``, which some flows keep.
    """
    starts = [move.start for move in states.TRANSITIONS if move.event == event]
    start = state if state in starts else starts[0]
    end = states.next_state(start, event)
    if end in states.STABLE_STATES:
        return end
    return states.target_after(start, event, target if start == state else None) or end


def newest_run(client: Client, node: str) -> str | None:
    """Return the uuid of a node's newest run, None when it has none."""
    runs = client.get(node_path(node, "runs"), limit=1)["runs"]
    return str(runs[0]["uuid"]) if runs else None


def snapshot(client: Client, node: str, run_uuid: str | None = None) -> Snapshot:
    """Read a node and one of its runs: the newest, unless a uuid names another."""
    found = client.get(node_path(node))
    runs = client.get(node_path(found["uuid"], "runs"), limit=20 if run_uuid else 1)["runs"]
    if run_uuid is not None:
        runs = [run for run in runs if run["uuid"] == run_uuid]
    return Snapshot(found, runs[0] if runs else None)


class _Patience:
    """Bears that the service is away for a while."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        self._tell = tell
        self._missed_since: float | None = None

    def missed(self, exc: Unreachable) -> None:
        """Tell it when it is missed first.

        :raises Unreachable: it is away for too long.
        """
        if self._missed_since is None:
            self._missed_since = time.monotonic()
            self._tell(f"{exc.message} - trying again for {PATIENCE:g} s")
        elif time.monotonic() - self._missed_since > PATIENCE:
            raise exc

    def met(self) -> None:
        """Tell it when it is back."""
        if self._missed_since is not None:
            self._tell("the service is back")
        self._missed_since = None


def follow(
    client: Client,
    node: str,
    *,
    interval: float = 1.0,
    timeout: float = 0,
    after: str | None = None,
    tell: Callable[[str], None] = lambda text: None,
) -> Iterator[Snapshot]:
    """Yield snapshots until the node has settled; the last one is the result.

    A service that goes away meanwhile is waited for; ``tell`` is given a line
    when it is missed first and one when it is back. The run is the one that is
    found going on first, even when another one follows it.

    :param after: the run that was the newest before: it is not of interest.
    :raises CommandError: after ``timeout`` seconds, unless it is 0.
    """
    until = time.monotonic() + timeout if timeout else None
    patience = _Patience(tell)
    run_uuid: str | None = None
    seen = False
    while True:
        try:
            found = snapshot(client, node, run_uuid)
        except Unreachable as exc:
            if not seen:
                raise
            patience.missed(exc)
        else:
            patience.met()
            seen = True
            if found.run is not None and found.run["uuid"] == after:
                found = dataclasses.replace(found, run=None)
            if found.run is not None and found.run["finished_at"] is None:
                run_uuid = found.run["uuid"]
            yield found
            if found.settled:
                return
        if until is not None and time.monotonic() >= until:
            raise CommandError(
                f"node {node} is still going on after {timeout:g} s; "
                f"`deploysteps node watch {node}` shows how",
                ExitCode.CONFLICT,
            )
        time.sleep(interval)


def judge(found: Snapshot, wanted: str) -> None:
    """Return when the node is in the state that was wanted.

    :raises CommandError: with the state it is in, and the node's own reason.
    """
    if found.state != wanted:
        raise CommandError(
            f"node {found.name} is {found.state!r}, not {wanted!r}: "
            f"{found.node.get('last_error') or 'no reason was recorded'}"
        )


def until_power_settled(
    client: Client, node: str, wanted: str, timeout: float, tell: Callable[[str], None]
) -> dict[str, Any]:
    """Wait until no power action goes on and return the node's states.

    A service that goes away meanwhile is waited for, as :func:`follow` does.

    :param wanted: the power state that it is on its way to.
    :raises CommandError: after ``timeout`` seconds, unless it is 0.
    """
    until = time.monotonic() + timeout if timeout else None
    patience = _Patience(tell)
    while True:
        try:
            found: dict[str, Any] = client.get(node_path(node, "states"))
        except Unreachable as exc:
            patience.missed(exc)
        else:
            patience.met()
            if found["target_power_state"] is None:
                return found
        if until is not None and time.monotonic() >= until:
            raise CommandError(f"node {node} is still on its way to {wanted!r}", ExitCode.CONFLICT)
        time.sleep(0.5)
