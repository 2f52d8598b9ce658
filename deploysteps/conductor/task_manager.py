"""One unit of work on one node: its lock, the node and its driver."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import sqlalchemy as sa
import tenacity
from oslo_context.context import RequestContext

from deploysteps import counts, exceptions, secrets
from deploysteps.conductor import charge, telling
from deploysteps.conductor import runtime as runtimes
from deploysteps.conductor.keeping import Keeping
from deploysteps.conductor.patience import Patience
from deploysteps.conductor.runtime import Runtime
from deploysteps.conductor.state_events import StateEvents
from deploysteps.conductor.step_work import StepWork
from deploysteps.conductor.workers import Slot
from deploysteps.db import locks, nodes, ports, runs, transitions
from deploysteps.db.events import New
from deploysteps.db.locks import Also, Lock
from deploysteps.db.models import Node, Port, StepAttempt
from deploysteps.db.node import LOCK_KEYS
from deploysteps.steps import FLOWS, NO_DRIVERS_TO_END, flow_of_state

LOG = logging.getLogger(__name__)


_NOT_A_DRIVERS = LOCK_KEYS | {
    "run_id",
    "provision_state",
    "target_provision_state",
    "provision_updated_at",
}
"""What ``node.save()`` leaves alone: the lock's, the engine's, and the state, which
moves by events and so that the table and the endings are kept to."""


_NAMES = ("id", "uuid")
"""What a node is known by, here and by everybody else."""


NOT_NOW = (exceptions.NodeLocked, exceptions.NodeNotFound, exceptions.ForeignConductorGroup)
"""Why a clock leaves a node out this time: somebody is at work on it, or it was taken away or
moved since it was chosen."""


class TaskManager(StepWork, Keeping, StateEvents):
    """See :class:`deploysteps.protocols.Task` for what drivers rely on.

    Use as a context manager: leaving the block frees the lock, or hands it
    to the worker that :meth:`spawn_after` asked for.
    """

    def __init__(
        self,
        runtime: Runtime,
        context: Any,
        node: Node,
        lock: Lock | None,
        purpose: str,
        attempt: StepAttempt | None = None,
    ) -> None:
        """Made by :func:`acquire`; ``lock`` is None for a shared task."""
        self.runtime = runtime
        self.context = context
        self.node = node
        self.lock = lock
        self.purpose = purpose
        self.attempt = attempt
        """The attempt that is current: it runs, or it waits."""
        self.waiting_step: dict[str, Any] | None = None
        """The step that a heartbeat or poll being worked on may complete."""
        self.overheard = False
        """Whether a driver is told of a beat that may not end the wait."""
        self.speaks_for: str | None = None
        """The one interface whose waits this task may end; None: whichever waits."""
        self.answer: tuple[bool, str | None] | None = None
        self.lost = False
        """Whether the lock was found to be taken away."""
        held = (*secrets.values(node.driver_info), *secrets.values(node.instance_info))
        self.progress_of, self.progress_at = None, 0.0
        self._held = {"secret": [*held, node.agent_secret_token]}
        self._names = {name: getattr(node, name) for name in _NAMES}
        self._driver: Any = None
        self._ports: Sequence[Port] | None = None
        self._spawn: tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]] | None = None
        self._spawn_error: tuple[Callable[..., Any], tuple[Any, ...]] | None = None
        self._patience: Patience | None = None
        node._writer = self._save
        node._reader = self._reread

    @property
    def shared(self) -> bool:
        """Whether this task has no lock of its own."""
        return self.lock is None

    @property
    def ended(self) -> bool:
        """Whether this task had a lock and gave it back: its work is over."""
        return self.lock is not None and self.lock.token is None

    @property
    def attempt_runs(self) -> bool:
        """Whether the code of the current attempt runs."""
        return self.attempt is not None and self.attempt.state == runs.RUNNING

    def conceal(self, value: Any) -> None:
        """Mask what is secret in ``value`` too, in all that is told of this task."""
        self._held["secret"].extend(secrets.values(value))

    def masker(self) -> secrets.Masker:
        """Return what masks the secrets that the node holds, or held when this began."""
        node = self.node
        return secrets.Masker(
            self._held,
            node.driver_info,
            node.instance_info,
            node.extra,
            node.properties,
            node.driver_internal_info,
            *(getattr(node, flow.step_field) for flow in FLOWS.values()),
        )

    @property
    def user(self) -> str | None:
        """Who asked for the work."""
        return getattr(self.context, "user_id", None) or getattr(self.context, "user", None)

    @property
    def project(self) -> str | None:
        """The project of who asked for the work."""
        return getattr(self.context, "project_id", None)

    @property
    def driver(self) -> Any:
        """The node's interfaces; built when first asked for.

        So that a node whose driver is broken can still be read, mended and
        deleted.
        """
        if self._driver is None:
            self._driver = self.runtime.registry.build(self.node)
        return self._driver

    @property
    def ports(self) -> Sequence[Port]:
        """The node's ports; read once."""
        if self._ports is None:
            self._ports = ports.of_node(self.runtime.database, self.node.id)
        return self._ports

    # --- writing ---------------------------------------------------------------

    def write(
        self,
        values: Mapping[str, Any],
        also: Sequence[Also] = (),
        *,
        unlock: bool = False,
        unless_abort_of: int | None = None,
        then: Callable[[sa.Connection], Any] | None = None,
        tells: Callable[[Any], Sequence[New]] | None = None,
    ) -> Any:
        """Write under the lock; see :func:`deploysteps.db.locks.write`.

        :param tells: is given what ``then`` returned, and returns what watchers
            are told besides what ``also`` and ``values`` tell.

        :raises LockLost: nothing was written and the work must stop.
        :raises ExclusiveLockRequired: this task has no lock.
        """
        lock = self._exclusive()
        token = lock.token
        if changed := self.undo_renaming():
            LOG.warning("Node %s: a driver has changed its %s; undone", self.node.uuid, changed)
        # The lock's own columns are written by what the lock does, never as values.
        kept = LOCK_KEYS.union(_NAMES)
        values = {name: value for name, value in values.items() if name not in kept}
        told: list[New] = []
        enabled = self.runtime.conf.events.enabled

        def tell(result: Any) -> Sequence[New]:
            more = tells(result) if tells is not None else ()
            told[:] = telling.of_write(self.node, values, also, more)
            return told if enabled else ()

        try:
            result = locks.write(
                self.runtime.database,
                lock,
                values,
                also,
                unlock=unlock,
                unless_abort_of=unless_abort_of,
                then=then,
                tells=tell,
                patience=self._patience,
            )
        except exceptions.LockLost:
            self.lost = True
            raise
        if self._patience is not None:
            self._patience.over()
        if told:
            before = self.node.was("provision_state")
            telling.count(told, self.runtime.registry, before, self.node.provision_state)
        self.node.stored({**values, **locks.FREE} if unlock else values)
        if unlock and token is not None:
            self.runtime.active.discard(token)
        return result

    def delete_node(self) -> None:
        """Remove the node, and with it the lock.

        :raises LockLost: nothing was removed.
        """
        lock = self._exclusive()
        token = lock.token
        locks.delete_node(self.runtime.database, lock)
        self.runtime.active.discard(str(token))

    def _exclusive(self) -> Lock:
        if self.lock is None:
            raise exceptions.ExclusiveLockRequired
        return self.lock

    def undo_renaming(self) -> str:
        """Give the node back what it is known by, and return what a driver had changed of it."""
        changed = [name for name, value in self._names.items() if getattr(self.node, name) != value]
        for name in changed:
            setattr(self.node, name, self._names[name])
        return " and ".join(changed)

    def _save(self, node: Node) -> None:
        if changed := self.undo_renaming():
            raise exceptions.InvalidParameterValue(
                f"a driver may not change a node's {changed}; it was left as it is"
            )
        changes = node.changes()
        for name in _NOT_A_DRIVERS:
            changes.pop(name, None)
        if self.lock is None:
            for name in nodes.STEP_KEYS:
                changes.pop(name, None)
            if changes:
                nodes.set_unlocked(self.runtime.database, node.id, changes)
                node.stored(changes)
        elif changes:
            self.write(changes, self.changed_plan(changes))

    def changed_plan(self, changes: Mapping[str, Any]) -> list[Also]:
        """Return what keeps, with the run, a plan that a step has changed."""
        if self.node.run_id is None:
            return []
        return [
            transitions.save_plan(self.node.run_id, changes[column])
            for flow in FLOWS.values()
            if changes.get(column := f"{flow.list_field}_column") is not None
        ]

    def _reread(self, node: Node) -> Node:
        return nodes.get(self.runtime.database, node.id)

    # --- the field's methods -----------------------------------------------------

    def upgrade_lock(self, purpose: str | None = None, retry: bool = True) -> None:
        """Turn a shared task into an exclusive one and re-read the node.

        :raises NodeLocked: another operation holds it.
        :raises ForeignConductorGroup: other conductors work on it by now.
        """
        if self.lock is not None:
            return
        self.purpose = purpose or self.purpose
        self.lock, fresh = _grant(self.runtime, self.node.id, self.purpose, retry)
        self.node._reader = lambda _node: fresh
        self.node.refresh()
        self.node._reader = self._reread

    def complete_step(self) -> None:
        """The step that waited when this task began is done; the engine goes on.

        A second call, a late or a wrong one changes nothing.
        """
        self._tell(True, None)

    def fail_step(self, why: str) -> None:
        """The step that waited when this task began failed, and this is why."""
        self._tell(False, str(why))

    def _tell(self, good: bool, why: str | None) -> None:
        if self.waiting_step is not None and self.lock is not None:
            # The engine asked: it acts on the answer when the driver returns.
            self.answer = self.answer or (good, why)
            return
        attempt = self.attempt
        if not good and self.lock is not None and self.attempt_runs:
            self.answer = (False, why)  # the engine fails the step when its code returns
            return
        if attempt is None or attempt.state != runs.WAITING:
            LOG.warning("Node %s: no step waited; its completion is ignored", self.node.uuid)
            return
        foreign = self.speaks_for is not None and (
            attempt.interface != self.speaks_for or attempt.owner == "poller"
        )
        if self.overheard or foreign or attempt.owner in NO_DRIVERS_TO_END:
            LOG.warning(
                "Node %s: %s.%s waits for its %s; what else says that it is done changes nothing",
                self.node.uuid,
                attempt.interface,
                attempt.step,
                attempt.owner,
            )
            return
        kind = "done" if good else "fail"
        sent = transitions.send_signal(
            self.runtime.database,
            transitions.key_of(attempt),
            kind,
            why,
            since=attempt.waiting_since,
        )
        if not sent:
            LOG.info(
                "Node %s: %s.%s had ended before it was told to; nothing changed",
                self.node.uuid,
                attempt.interface,
                attempt.step,
            )
        self.runtime.wake()

    def spawn_after(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Run ``call`` in a worker, with the lock, once this block ends."""
        self._spawn = (call, args, kwargs)

    def set_spawn_error_hook(self, call: Callable[..., Any], *args: Any) -> None:
        """Call ``call(exception, *args)`` when no worker was free."""
        self._spawn_error = (call, args)

    def release_resources(self) -> None:
        """Free the lock; a second call does nothing."""
        if self.lock is not None:
            _release(self.runtime, self.lock)

    def abandon(self) -> None:
        """Leave the lock in place as a crash would: the recovery loop finds it."""
        if self.lock is not None and self.lock.token is not None:
            self.runtime.active.discard(self.lock.token)
            self.lock.token = None

    def hand_over(self, slot: Slot, work: Callable[..., Any], *args: Any) -> None:
        """Run ``work(task, *args)`` in a worker that gives the lock back."""
        self._patience = Patience(self.node.uuid, self.runtime.stopping)

        def run() -> None:
            if isinstance(self.context, RequestContext):
                self.context.update_store()  # what this thread logs is of this request
            with self:
                work(self, *args)

        try:
            slot.run(run)
        except BaseException:
            self.abandon()
            raise

    def __enter__(self) -> TaskManager:
        """Give the task."""
        return self

    def __exit__(self, kind: Any, exc: BaseException | None, traceback: Any) -> None:
        """Free the lock, or hand it on."""
        spawn, self._spawn = self._spawn, None
        if spawn is None or exc is not None:
            self.release_resources()
            return
        call, args, kwargs = spawn
        try:
            slot = self.runtime.workers.reserve()
        except exceptions.DeployStepsException as no_worker:
            if self._spawn_error is not None:
                hook, hook_args = self._spawn_error
                with suppress(exceptions.LockLost):
                    hook(no_worker, *hook_args)
            self.release_resources()
            raise
        self.hand_over(slot, self.runtime.guard(lambda _task: call(*args, **kwargs)))


def acquire(
    context: Any,
    node_id: str | int | Node,
    shared: bool = False,
    purpose: str = "unspecified action",
    *,
    retry: bool = True,
    any_group: bool = False,
    runtime: Runtime | None = None,
) -> TaskManager:
    """Return a task on a node, holding its lock unless ``shared``.

    :param node_id: uuid, name, row id, or a node.
    :param retry: try again as ``node_locked_retry_attempts`` says.
    :param any_group: for what only changes records: also on nodes of other conductor groups.
    :raises NodeNotFound: there is no such node.
    :raises NodeLocked: naming the holder.
    :raises ForeignConductorGroup: other conductors work on it, also where that is so only since
        this waited for the lock.
    """
    runtime = runtime or runtimes.current()
    node = node_id if isinstance(node_id, Node) else nodes.get(runtime.database, node_id)
    if not any_group:
        charge.refuse_foreign(runtime, node)
    lock = None
    if not shared:
        lock, node = _grant(runtime, node.id, purpose, retry, any_group)
    return adopt(runtime, context, node, lock, purpose)


def adopt(
    runtime: Runtime, context: Any, node: Node, lock: Lock | None, purpose: str
) -> TaskManager:
    """Return a task for a lock that was granted already."""
    attempt = None
    try:
        if node.run_id is not None:
            attempt = runs.last_attempt(runtime.database, node.run_id)
    except BaseException:
        # Nobody will work under the lock: the recovery loop has to find it.
        if lock is not None and lock.token is not None:
            runtime.active.discard(lock.token)
        raise
    _name_current(node, attempt)
    if attempt is not None and attempt.state == runs.FINISHED:
        attempt = None
    return TaskManager(runtime, context, node, lock, purpose, attempt)


def _name_current(node: Node, attempt: StepAttempt | None) -> None:
    """Set the current step of a flow that has no column for it: its last attempt names it."""
    flow = flow_of_state(node.provision_state)
    if flow is None or attempt is None or getattr(node, flow.step_field) is not None:
        return
    for entry in node.driver_internal_info.get(flow.list_field) or ():
        if attempt.step_id is not None and entry.get("id") == attempt.step_id:
            setattr(node, flow.step_field, entry)


def _grant(
    runtime: Runtime, node_id: int, purpose: str, retry: bool, any_group: bool = False
) -> tuple[Lock, Node]:
    lock, node = _granted(runtime, node_id, purpose, retry)
    if not any_group:
        try:
            charge.refuse_foreign(runtime, node)  # it may have been moved before the lock was free
        except BaseException:
            _release(runtime, lock)
            raise
    return lock, node


def _granted(runtime: Runtime, node_id: int, purpose: str, retry: bool) -> tuple[Lock, Node]:
    conf = runtime.conf.conductor
    tries = tenacity.Retrying(
        retry=tenacity.retry_if_exception_type(exceptions.NodeLocked),
        stop=tenacity.stop_after_attempt(1 + (conf.node_locked_retry_attempts if retry else 0)),
        wait=tenacity.wait_fixed(conf.node_locked_retry_interval),
        reraise=True,
    )
    began = time.monotonic()
    try:
        return tries(
            locks.grant, runtime.database, node_id, runtime.host, purpose, active=runtime.active
        )
    except exceptions.NodeLocked:
        counts.LOCK_REFUSALS.add()
        raise
    finally:
        counts.LOCK_SECONDS.add(seconds=time.monotonic() - began)


def _release(runtime: Runtime, lock: Lock) -> None:
    """Free a lock; a second call does nothing."""
    token = lock.token
    if token is None:
        return
    try:
        if not locks.release(runtime.database, lock):
            LOG.warning("Node %s: the lock was lost before it was freed", lock.node_uuid)
    finally:
        runtime.active.discard(token)
