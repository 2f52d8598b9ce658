"""What a lost conductor left behind, brought to an end or going on.

Derived from the state table and run again and again: an error in one round,
or for one node, is mended by the next. A node is claimed by taking its lock
away by its old token: of several who try, one wins.
"""

from __future__ import annotations

import datetime
import logging

from deploysteps import exceptions, states
from deploysteps.conductor import attempts, endings, engine, policy, power, words
from deploysteps.conductor.attend import guarded
from deploysteps.conductor.charge import Charge, is_of_group, left_alone
from deploysteps.conductor.liveness import Liveness
from deploysteps.conductor.runtime import Runtime
from deploysteps.conductor.task_manager import TaskManager, adopt
from deploysteps.conductor.workers import Slot
from deploysteps.db import conductors, locks, nodes, runs, sweeps, transitions, types
from deploysteps.db.locks import Also, Lock
from deploysteps.db.models import Node
from deploysteps.db.sweeps import Orphan
from deploysteps.steps import StepFlow

LOG = logging.getLogger(__name__)

PURPOSE = "recovery"
MOST_INTERRUPTIONS = 10
"""How often one step is run again because its conductor was lost while it ran."""
_QUIET = 5.0
"""Seconds that an unlocked node in a transient state is left alone."""


class Recovery:
    """The loop's body: one round is :meth:`sweep`."""

    def __init__(self, runtime: Runtime, before: datetime.datetime | None = None) -> None:
        """Make it.

        :param before: when the conductor of this name was heard of last, in its life before.
        """
        self._runtime = runtime
        self._liveness = Liveness(runtime)
        self._warned: set[str] = set()
        self._began = types.utcnow()
        self._before = before
        self._heard: dict[str, datetime.datetime] = {}

    def sweep(self, *, starting: bool = False) -> int:
        """Recover what nobody looks after; returns how many nodes were taken on.

        :param starting: before serving: every lock in this conductor's name
            is from a life before, and nothing is in between two operations.
        """
        runtime = self._runtime
        others = [c for c in conductors.listing(runtime.database) if c.hostname != runtime.host]
        alive = self._liveness.alive(others)
        self._heard = {c.hostname: c.updated_at for c in others}
        if starting:
            self._pass_waits_on()
        taken = 0
        for orphan in self._orphans(alive, starting):
            if runtime.stopping.is_set():
                break
            try:
                taken += self._take(orphan, alive)
            except exceptions.NodeLocked:
                LOG.debug("Node %s: another conductor was faster", orphan.uuid)
            except exceptions.NoFreeConductorWorker:
                LOG.info("No free worker to recover nodes; the next round goes on")
                break
            except Exception:
                # One node's error must not cost the others theirs.
                LOG.exception("Node %s: recovery failed; the next round tries", orphan.uuid)
        self._adopt_waits(alive)
        return taken

    def _orphans(self, alive: set[str], starting: bool) -> list[Orphan]:
        runtime = self._runtime
        locked = sweeps.locked_nodes(runtime.database)
        self._warn_of_long_locks(locked)
        quiet = types.utcnow() - datetime.timedelta(seconds=0 if starting else _QUIET)
        return [
            *(
                orphan
                for orphan in locked
                if orphan.token not in runtime.active and orphan.holder not in alive
            ),
            *sweeps.gaps(runtime.database, quiet),
        ]

    def _warn_of_long_locks(self, locked: list[Orphan]) -> None:
        limit = self._runtime.conf.conductor.lock_warn_after
        held = {orphan.token for orphan in locked if orphan.token}
        self._warned &= held
        for orphan in locked:
            if not limit or orphan.since is None or orphan.token in self._warned:
                continue
            age = (types.utcnow() - orphan.since).total_seconds()
            if age > limit:
                self._warned.add(str(orphan.token))
                LOG.warning(
                    "Node %s: locked by %s for %d s; GET /v1/nodes/%s/runs shows what runs",
                    orphan.uuid,
                    orphan.holder,
                    age,
                    orphan.uuid,
                )

    def _take(self, orphan: Orphan, alive: set[str]) -> int:
        """Claim a node and bring it on its way; 0 if it is another's business."""
        runtime = self._runtime
        if not self._mine(orphan, alive):
            return 0
        slot = runtime.workers.reserve()
        try:
            lock, node = locks.grant(
                runtime.database,
                orphan.node_id,
                runtime.host,
                PURPOSE,
                held=orphan.token or ("" if orphan.holder else None),
                active=runtime.active,
            )
        except BaseException:
            slot.release()
            raise
        take_on(runtime, node, lock, slot, self._explained(orphan))
        return 1

    def _explained(self, orphan: Orphan) -> Orphan:
        """Say why nobody is at work: of a conductor that is gone, when it was heard of last.

        This process itself may have left it, as when the database was away.
        """
        if orphan.holder is None:
            return orphan
        own = orphan.holder == self._runtime.host
        if own and orphan.since is not None and orphan.since >= self._began:
            why = f"conductor {orphan.holder} could not go on (its log says why)"
        else:
            heard = self._before if own else self._heard.get(orphan.holder)
            at = f" (last heard of at {types.timestamp(heard)})" if heard else ""
            why = f"conductor {orphan.holder} was lost{at}"
        return orphan._replace(why=why)

    def _mine(self, orphan: Orphan, alive: set[str]) -> bool:
        """Tell whether this conductor offers what the node needs, or is all there is.

        What it held itself, and another offers by now, is passed on on the way.
        """
        runtime = self._runtime
        try:
            node = nodes.get(runtime.database, orphan.node_id)
        except exceptions.NodeNotFound:
            return False
        if not _is_ours(runtime, node, orphan):
            return False  # its group's conductors see to it; this one only to what it left
        try:
            runtime.registry.build(node)
        except exceptions.DeployStepsException as exc:
            if orphan.holder not in (None, runtime.host):
                LOG.warning(
                    "Node %s: its conductor %s is gone, and this one cannot take over: %s",
                    orphan.uuid,
                    orphan.holder,
                    exc,
                )
                return False
            # It was this conductor's own, which no longer has its driver:
            # ended without the driver's help it can be mended and deleted.
            self._pass_on(orphan, node, exc)
            return not alive
        return True

    def _pass_on(self, orphan: Orphan, node: Node, why: Exception) -> None:
        """Unlock what it was at work on in a life before, for another that has the driver."""
        runtime = self._runtime
        state = states.STATES.get(node.provision_state)
        if orphan.holder is None or state is None or state.kind is states.Kind.STABLE:
            return  # nothing is locked, or nobody would look for it
        other = Charge(runtime).host(node)
        if other in (None, runtime.host):
            return
        LOG.warning("Node %s: %s goes on with it: %s", node.uuid, other, why)
        held = orphan.token or ""
        lock, _ = locks.grant(runtime.database, node.id, runtime.host, PURPOSE, held=held)
        locks.release(runtime.database, lock)

    def _adopt_waits(self, alive: set[str]) -> None:
        """Look after the waits of conductors that are gone."""
        runtime = self._runtime
        for due in sweeps.foreign_waits(runtime.database, runtime.host, alive):
            try:
                node = nodes.get(runtime.database, due.node_id)
                if not is_of_group(runtime, node.conductor_group):
                    continue
                runtime.registry.build(node)
            except exceptions.DeployStepsException:
                continue  # another conductor offers its interfaces, or will
            sweeps.take_wait(runtime.database, due.key, runtime.host)
            runtime.wake()

    def _pass_waits_on(self) -> None:
        """Give waits of its own away that it offers no driver for any more, where another does.

        What it offers changes only with a start, as in the middle of a rolling upgrade.
        """
        runtime = self._runtime
        charge: Charge | None = None
        for due in sweeps.own_waits(runtime.database, runtime.host):
            try:
                node = nodes.get(runtime.database, due.node_id)
            except exceptions.NodeNotFound:
                continue
            try:
                runtime.registry.build(node)
            except exceptions.DeployStepsException as exc:
                charge = charge or Charge(runtime)
                other = charge.host(node)
                if other is None:
                    continue  # it is all there is: when the wait is due, it ends it
                LOG.warning(
                    "Node %s: %s looks after its wait from now on: %s", node.uuid, other, exc
                )
                sweeps.take_wait(runtime.database, due.key, other)


def _is_ours(runtime: Runtime, node: Node, orphan: Orphan) -> bool:
    """Tell whether the machine may be touched: its node is of this group, or was left here."""
    return orphan.holder == runtime.host or is_of_group(runtime, node.conductor_group)


def take_on(runtime: Runtime, node: Node, lock: Lock, slot: Slot, orphan: Orphan) -> None:
    """Recover a node whose lock was taken away, in a worker."""
    try:
        task = adopt(runtime, None, node, lock, PURPOSE)
    except BaseException:
        slot.release()
        raise
    task.hand_over(slot, guarded(recover), orphan)


def recover(task: TaskManager, orphan: Orphan) -> None:
    """Bring a claimed node to where somebody owes it something again."""
    node = task.node
    state = states.STATES.get(node.provision_state)
    who = orphan.why or "nobody was at work"
    LOG.warning("Node %s: recovered in state %s: %s", node.uuid, node.provision_state, who)
    if orphan.purpose == power.PURPOSE:
        power.interrupted(task, who)
    node.target_power_state = None
    flow = engine.flow_of(task)
    if state is None or state.kind is states.Kind.STABLE:
        task.write(node.changes(), [] if orphan.told else _told(task, orphan, who), unlock=True)
    elif flow is not None and not _is_ours(task.runtime, node, orphan):
        why = attempts.told(task, f"ended, and {left_alone(node)}: {who}")
        cut_off = endings.fail(why, clean_up=False, attempt_outcome=endings.INTERRUPTED)
        endings.end(task, flow, cut_off)
    elif state.kind in (states.Kind.WAIT, states.Kind.HOLD):
        _still_waits(task, flow)
    elif flow is None:
        _fail_job(task, f"{node.provision_state} was interrupted: {who}")
    else:
        _cut_off(task, flow, who)


def _told(task: TaskManager, orphan: Orphan, who: str) -> list[Also]:
    """Return the history entry about work that no state shows: who asked for it may look for it."""
    if not orphan.purpose:
        return []
    row = nodes.history_row(
        task.node,
        words.shown(
            f"{orphan.purpose} was interrupted: {who}", task.masker(), words.LAST_ERROR_BYTES
        ),
        event_type="interrupted",
        severity="WARNING",
        conductor=task.runtime.host,
    )
    return [transitions.history(row)]


def _still_waits(task: TaskManager, flow: StepFlow | None) -> None:
    """Let a wait go on; one that nothing will end is failed."""
    attempt = task.attempt
    if attempt is not None and attempt.state == runs.WAITING:
        task.write(task.node.changes(), unlock=True)
        task.runtime.wake()
        return
    reason = f"inconsistent: the node is in {task.node.provision_state!r} and no step waits"
    if flow is None:
        _fail_job(task, reason)
    else:
        endings.end(task, flow, endings.fail(reason, clean_up=_has_driver(task)))


def _fail_job(task: TaskManager, reason: str) -> None:
    """Fail what is no run of steps (verifying, deleting): the table says whereto."""
    task.node.last_error = words.shown(reason, task.masker(), words.LAST_ERROR_BYTES)
    task.fail_state()


def _cut_off(task: TaskManager, flow: StepFlow, who: str) -> None:
    """A step's code may have been running: repeat it if that is safe, else fail."""
    attempt = task.attempt
    clean_up = _has_driver(task)
    if attempt is None:
        last = None
        if task.node.run_id is not None:
            last = runs.last_attempt(task.runtime.database, task.node.run_id)
        if clean_up and last is not None and last.outcome == endings.SUCCESS:
            engine.go_on_after(task, flow, last)
        elif clean_up and last is None and engine.was_planned(task, flow):
            engine.run(task, flow, note=f"no {flow.name} step to run")
        else:
            reason = f"{flow.name} was interrupted before its first step: {who}"
            endings.end(task, flow, endings.fail(reason, clean_up=clean_up))
        return
    why = f"interrupted: {who} while it ran"
    if clean_up and attempt.position != attempts.PREPARE:
        entry = attempts.entry_of(task, flow)
        if engine.take_up(task, flow):
            sweeps.take_wait(task.runtime.database, transitions.key_of(attempt), task.runtime.host)
            task.runtime.wake()
            return
        lost = runs.interruptions(task.runtime.database, attempt.run_id, attempt.position)
        if not policy.of_step(task.driver, flow, entry).repeatable:
            why += ", and the step is not declared repeatable"
        elif lost >= MOST_INTERRUPTIONS:
            why += f", as it was {lost} times before: does it kill its conductor?"
        else:
            engine.repeat_interrupted(task, flow, why)
            return
    told = attempts.told(task, why)
    ending = endings.fail(told, clean_up=clean_up, attempt_outcome=endings.INTERRUPTED)
    endings.end(task, flow, ending)


def _has_driver(task: TaskManager) -> bool:
    """Tell whether the node's driver can be built here."""
    try:
        return task.driver is not None
    except exceptions.DeployStepsException as exc:
        LOG.error("Node %s: it is brought to an end without its driver: %s", task.node.uuid, exc)
        return False
