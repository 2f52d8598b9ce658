"""Following a node until what was asked of it has ended."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Iterator
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
        return str(self.node["provision_state"] or states.AVAILABLE)

    @property
    def settled(self) -> bool:
        """Whether nothing goes on."""
        over = self.run is None or self.run["finished_at"] is not None
        return over and self.state in states.STABLE_STATES


def goal(event: str) -> str:
    """Return the stable state that a verb's event leads to when all goes well."""
    ends = {end for _, found, end in states.TRANSITIONS if found == event}
    stable = {
        end if end in states.STABLE_STATES else states.next_state(end, states.DONE) for end in ends
    }
    return stable.pop()


def snapshot(
    client: Client, node: str, run_uuid: str | None = None, *, with_run: bool = True
) -> Snapshot:
    """Read a node and one of its runs: the newest, unless a uuid names another."""
    found = client.get(node_path(node))
    if not with_run:
        return Snapshot(found, None)
    runs = client.get(node_path(found["uuid"], "runs"), limit=20 if run_uuid else 1)["runs"]
    if run_uuid is not None:
        runs = [run for run in runs if run["uuid"] == run_uuid]
    return Snapshot(found, runs[0] if runs else None)


def follow(
    client: Client,
    node: str,
    *,
    interval: float = 1.0,
    timeout: float = 0,
    with_run: bool = True,
    tell: Callable[[str], None] = lambda text: None,
) -> Iterator[Snapshot]:
    """Yield snapshots until the node has settled; the last one is the result.

    A service that goes away meanwhile is waited for; ``tell`` is given a line
    when it is missed first and one when it is back. The run is the one that is
    found first, even when another one follows it.

    :raises CommandError: after ``timeout`` seconds, unless it is 0.
    """
    until = time.monotonic() + timeout if timeout else None
    missed_since: float | None = None
    run_uuid: str | None = None
    seen = False
    while True:
        try:
            found = snapshot(client, node, run_uuid, with_run=with_run)
        except Unreachable as exc:
            if not seen:
                raise
            if missed_since is None:
                missed_since = time.monotonic()
                tell(f"{exc.message} - trying again for {PATIENCE:g} s")
            elif time.monotonic() - missed_since > PATIENCE:
                raise
        else:
            if missed_since is not None:
                tell("the service is back")
            missed_since, seen = None, True
            run_uuid = run_uuid or (found.run["uuid"] if found.run else None)
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


def until_power_settled(client: Client, node: str, timeout: float) -> dict[str, Any]:
    """Wait until no power action goes on and return the node's states."""
    until = time.monotonic() + timeout if timeout else None
    while True:
        found: dict[str, Any] = client.get(node_path(node, "states"))
        if found["target_power_state"] is None:
            return found
        if until is not None and time.monotonic() >= until:
            raise CommandError(
                f"node {node} is still on its way to {found['target_power_state']!r}",
                ExitCode.CONFLICT,
            )
        time.sleep(0.5)
