"""Keeps what is recorded of the machines' power true.

One clock compares nodes at rest with their machines; the other looks after
nodes whose machine had gone silent. Neither writes anything about a machine
that is as recorded, nor ever touches ``last_error``: what went wrong is in
``maintenance_reason`` and in the history.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from typing import Any

from deploysteps import exceptions, states
from deploysteps.conductor import words
from deploysteps.conductor.rounds import Rounds
from deploysteps.conductor.runtime import Runtime
from deploysteps.conductor.task_manager import TaskManager
from deploysteps.db import locks, nodes, power, transitions
from deploysteps.db.models import Node

LOG = logging.getLogger(__name__)


class PowerSync(Rounds):
    """Compares nodes at rest with their machines."""

    purpose = "power state sync"

    def __init__(self, runtime: Runtime) -> None:
        """Make it with the configured interval."""
        super().__init__(runtime, runtime.conf.conductor.sync_power_state_interval)

    def wanted(self, drivers: Collection[str], after: int, limit: int) -> list[Node]:
        """Return nodes at rest that nobody works on."""
        return power.to_sync(self._runtime.database, drivers, after, limit)

    def must_validate(self, node: Node) -> bool:
        """Ask no machine that was never known, unless its settings make sense."""
        return node.power_state is None

    def silent(self, node: Node, why: str) -> None:
        """Count it; after too many the node goes into maintenance."""
        if self.failed(node, why) <= self._retries:
            return
        with self.locked(node) as task:
            if power.may_be_synced(task.node):
                self._give_up(task, None, why)

    def spoke(self, node: Node, before: str | None, found: str) -> None:
        """Bring the machine and its record together, if they differ."""
        if found == before:
            self.is_well(node)
            return
        with self.locked(node) as task:
            # What was read without the lock may be over by now.
            if not power.may_be_synced(task.node) or task.node.power_state != before:
                return
            if before not in (states.POWER_ON, states.POWER_OFF):
                self.is_well(node)
                self._record(task, found, f"the machine is {found!r}; nothing was known of it")
                return
            why = f"the machine is {found!r}, and {before!r} is recorded"
            if self.failed(node, why) > self._retries:
                self._give_up(task, found, why)
            elif self._forces(task):
                self._switch(task, str(before), why)
            else:
                self._record(task, found, f"{why}: recorded as found", "WARNING")

    @property
    def _retries(self) -> int:
        return int(self._runtime.conf.conductor.power_state_sync_max_retries)

    def _forces(self, task: TaskManager) -> bool:
        if not self._runtime.conf.conductor.force_power_state_during_sync:
            return False
        if task.node.disable_power_off:
            return False
        return bool(task.driver.power.supports_power_sync(task))

    def _record(self, task: TaskManager, found: str, event: str, severity: str = "INFO") -> None:
        task.node.power_state = found
        write(task, event, severity)

    def _switch(self, task: TaskManager, wanted: str, why: str) -> None:
        """Switch the machine to what is recorded; the next round sees whether it helped."""
        node = task.node
        node.target_power_state = wanted
        task.write(node.changes())
        event = f"{why}: switched to what is recorded"
        try:
            task.switch_power(wanted)
        except BaseException as exc:  # whatever a driver raises, the lock is given back
            if task.lost:
                raise
            event = f"{why}; switching it to what is recorded failed: {words.text_of(exc)}"
        node.power_state = wanted
        node.target_power_state = None
        write(task, event, "WARNING")

    def _give_up(self, task: TaskManager, found: str | None, why: str) -> None:
        """Set the node to maintenance, and record what its machine has."""
        node = task.node
        count = self._retries + 1
        event = f"power state sync failed {count} times in a row, the last time: {why}"
        node.power_state = found
        reason = words.shown(event, task.masker(), words.LAST_ERROR_BYTES)
        also = power.found_faulty(node.id, reason)
        write(task, f"{event}; the node is in maintenance now", "ERROR", also)
        self.is_well(node)


class PowerRecovery(Rounds):
    """Takes nodes out of maintenance whose machine tells its power again."""

    purpose = "power failure recovery"

    def __init__(self, runtime: Runtime) -> None:
        """Make it with the configured interval."""
        super().__init__(runtime, runtime.conf.conductor.power_failure_recovery_interval)

    def wanted(self, drivers: Collection[str], after: int, limit: int) -> list[Node]:
        """Return nodes with this fault that nobody works on."""
        return power.to_recover(self._runtime.database, drivers, after, limit)

    def must_validate(self, node: Node) -> bool:
        """Check the settings: mending them may have been what the node waits for."""
        return True

    def silent(self, node: Node, why: str) -> None:
        """Leave it alone, for longer each time."""
        self.failed(node, why)

    def spoke(self, node: Node, before: str | None, found: str) -> None:
        """Clear the fault, and record what the machine has."""
        with self.locked(node) as task:
            if not power.may_recover(task.node):
                return
            task.node.power_state = found
            event = f"the machine tells its power again: {found!r}; out of maintenance"
            write(task, event, "INFO", power.found_well(task.node.id))
        self.is_well(node)


def write(task: Any, event: str, severity: str, also: locks.Also | None = None) -> None:
    """Write the node and an entry of its history, and give the lock back, in one go.

    :param also: what has to be so for that; where it is not, nothing is written.
    """
    shown = words.shown(event, task.masker(), words.LAST_ERROR_BYTES)
    row = nodes.history_row(
        task.node,
        shown,
        event_type="power state",
        severity=severity,
        conductor=task.runtime.host,
    )
    try:
        more = [also] if also is not None else []
        task.write(task.node.changes(), [*more, transitions.history(row)], unlock=True)
    except locks.Stale:
        # An operator has set or ended maintenance meanwhile, which needs no lock.
        LOG.info("Node %s: its maintenance is an operator's; left alone", task.node.uuid)
        return
    except exceptions.LockLost:
        LOG.warning("Node %s: its lock was lost; nothing is written: %s", task.node.uuid, shown)
        raise
    LOG.log(logging.getLevelName(severity), "Node %s: %s", task.node.uuid, shown)
