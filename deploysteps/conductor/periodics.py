"""Calls the periodic methods of drivers: see ``base.node_periodic``.

Which nodes a method is called for is one query, whose rows are copied out; no
session is held while a method runs. A method that raises for one node fails
the step of its interface that waits by callback there, and is called for the
others all the same.
"""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import futurist
from futurist import periodics
from oslo_context.context import get_admin_context

from deploysteps import exceptions
from deploysteps.conductor import task_manager, words
from deploysteps.conductor.charge import Charge
from deploysteps.conductor.runtime import Runtime
from deploysteps.conductor.task_manager import TaskManager
from deploysteps.conductor.trouble import Trouble
from deploysteps.db import nodes, runs, sweeps
from deploysteps.db.sweeps import User
from deploysteps.drivers.base import BaseInterface
from deploysteps.drivers.periodic import Periodic
from deploysteps.steps import INTERFACE_TYPES

LOG = logging.getLogger(__name__)

_THREADS = 8
"""How many methods run at once: a slow one does not keep the others waiting."""
_LONG_CALL = 60.0
"""Seconds after which a call is left to itself, and the method is called for other nodes."""
_MOST_HANGING = 16
"""How many calls of a method that do not come back are borne."""
_NOT_THE_DRIVERS = (
    exceptions.NodeLocked,
    exceptions.ForeignConductorGroup,
    exceptions.LockLost,
    exceptions.DatabaseUnavailable,
)
"""What comes out of a method and is no failure of its author's."""


@dataclasses.dataclass
class Job:
    """One periodic method of one interface."""

    instance: BaseInterface
    kind: str
    """The interface's type."""
    method: str
    declared: Periodic
    names: dict[str, list[str | None]]
    """Hardware type -> the interface's names there; None: nodes that name none."""
    last: int = 0
    """Row id of the node that a limit stopped at."""
    hanging: dict[str, threading.Thread] = dataclasses.field(default_factory=dict)
    """uuid of each node whose call has not come back."""

    @property
    def label(self) -> str:
        """What it is called in logs and errors."""
        cls = type(self.instance)
        return f"{cls.__module__}.{cls.__qualname__}.{self.method}"


class Periodics:
    """The periodic methods of the interfaces that a conductor offers.

    :param manager: what a method is given as ``manager``.
    :raises ConfigurationError: for a filter or a field that no node has,
        naming the class and the method.
    """

    def __init__(self, runtime: Runtime, manager: Any) -> None:
        """Find and check them; :meth:`start` begins."""
        self._runtime = runtime
        self._manager = manager
        self._worker: periodics.PeriodicWorker | None = None
        self._stopped = threading.Event()
        self.jobs = list(_jobs(runtime.registry))
        for job in self.jobs:
            _check(job)

    def start(self) -> None:
        """Begin to call them, each after its first pause."""
        if not self.jobs:
            return
        self._worker = periodics.PeriodicWorker(
            [
                (periodics.periodic(job.declared.spacing)(self._guarded(job)), (), {})
                for job in self.jobs
            ],
            executor_factory=lambda: futurist.ThreadPoolExecutor(
                max_workers=min(_THREADS, len(self.jobs))
            ),
        )
        threading.Thread(target=self._worker.start, name="driver-periodics", daemon=True).start()

    def stop(self, timeout: float = 0) -> None:
        """Call nothing more, and wait for what runs as long as that."""
        self._stopped.set()
        if self._worker is not None:
            self._worker.stop()
            self._worker.wait(timeout)

    def _guarded(self, job: Job) -> Callable[[], None]:
        """Return a call of :meth:`run` that goes on."""
        trouble = Trouble(LOG, job.label)

        def run() -> None:
            with trouble.kept_going():  # a database that is away must not end the clock
                self.run(job)

        return run

    def run(self, job: Job) -> int:
        """Call a method for the nodes that it is for; returns how many."""
        declared = job.declared
        found = sweeps.users(
            self._runtime.database,
            job.kind,
            job.names,
            declared.filters,
            declared.predicate_extra_fields,
        )
        called = 0
        job.hanging = {uuid: call for uuid, call in job.hanging.items() if call.is_alive()}
        for user in self._mine(job, [user for user in found if _wanted(job, user)]):
            if self._stopped.is_set() or self._runtime.stopping.is_set():
                break
            if len(job.hanging) >= _MOST_HANGING:
                LOG.warning(
                    "%s: %d calls do not come back; it is called no more until one does",
                    job.label,
                    len(job.hanging),
                )
                break
            called += self._call(job, user)
            if called == declared.limit:
                job.last = user.node.id
                break
        return called

    def _mine(self, job: Job, found: list[User]) -> list[User]:
        """Return the nodes that fall to this conductor, those not seen last time first."""
        if found:
            charge = Charge(self._runtime)
            found = [user for user in found if charge.mine(user.node)]
        return sorted(found, key=lambda user: (user.node.id <= job.last, user.node.id))

    def _call(self, job: Job, user: User) -> bool:
        """Call a method for one node, for so long as it may take; False when it was left out."""
        if user.node.uuid in job.hanging:
            return False
        answers: list[bool | exceptions.DatabaseUnavailable] = []

        def called() -> None:
            try:
                answers.append(self._called(job, user))
            except exceptions.DatabaseUnavailable as exc:
                answers.append(exc)

        call = threading.Thread(target=called, name=job.label, daemon=True)
        call.start()
        call.join(_LONG_CALL)
        if not call.is_alive():
            for answer in answers:
                if isinstance(answer, exceptions.DatabaseUnavailable):
                    raise answer  # for the other nodes, too, it is away
            return any(answers)
        LOG.warning(
            "Node %s: %s has not come back for %g s; meanwhile it is called for other nodes",
            user.node.uuid,
            job.label,
            _LONG_CALL,
        )
        job.hanging[user.node.uuid] = call
        return True

    def _called(self, job: Job, user: User) -> bool:
        """Call a method for one node; False when it was left out.

        :raises DatabaseUnavailable: for whatever node.
        """
        declared = job.declared
        try:
            with task_manager.acquire(
                get_admin_context(),
                user.node.id,
                shared=declared.shared_task,
                purpose=declared.purpose,
                retry=False,
                runtime=self._runtime,
            ) as task:
                if getattr(task.driver, job.kind) is not job.instance:
                    return False  # it was given another interface meanwhile
                task.speaks_for = job.kind
                self._call_task(job, task)
        except task_manager.NOT_NOW as exc:
            LOG.debug("%s leaves node %s out this time: %s", job.label, user.node.uuid, exc)
            return False
        except exceptions.LockLost as exc:
            LOG.warning("%s on node %s stops: %s", job.label, user.node.uuid, exc)
        except exceptions.DatabaseUnavailable:
            raise
        except BaseException:
            LOG.exception("%s could not be called for node %s", job.label, user.node.uuid)
        return True

    def _call_task(self, job: Job, task: TaskManager) -> None:
        given = {1: (), 2: (task.context,), 3: (self._manager, task.context)}
        try:
            getattr(job.instance, job.method)(task, *given[job.declared.takes])
            if lost := sorted(task.node.changes()):
                LOG.warning(
                    "Node %s: %s changed %s and did not save it, so it is lost: task.node.save()",
                    task.node.uuid,
                    job.label,
                    ", ".join(lost),
                )
        except _NOT_THE_DRIVERS:
            raise
        except BaseException as exc:  # an author's code; SystemExit ends it, not the conductor
            mask = task.masker()
            LOG.error("Node %s: %s failed\n%s", task.node.uuid, job.label, words.traced(exc, mask))
            attempt = task.attempt
            if (
                attempt is not None
                and (attempt.state, attempt.owner) == (runs.WAITING, "callback")
                and attempt.interface == job.kind
            ):
                why = f"{job.method}() failed: {words.text_of(exc)}"
                task.fail_step(words.shown(why, mask, words.LAST_ERROR_BYTES))


def _jobs(registry: Any) -> Iterator[Job]:
    """Yield the methods of every interface that is offered, each instance once."""
    names: dict[tuple[str, int], dict[str, list[str | None]]] = {}
    instances: dict[tuple[str, int], BaseInterface] = {}
    for driver in registry.hardware_types:
        for kind in INTERFACE_TYPES:
            default = registry.default_interface(driver, kind)
            for name, instance in registry.interfaces(driver, kind).items():
                key = kind, id(instance)
                instances[key] = instance
                known = names.setdefault(key, {}).setdefault(driver, [])
                known.extend([name, None] if name == default else [name])
    for key, instance in instances.items():
        for method, declared in instance.declared_periodics.items():
            if declared.enabled:
                yield Job(instance, key[0], method, declared, names[key])


def _check(job: Job) -> None:
    try:
        for name, value in job.declared.filters.items():
            nodes.condition(name, value)
        sweeps.check_fields(job.declared.predicate_extra_fields)
    except exceptions.InvalidParameterValue as exc:
        raise exceptions.ConfigurationError(f"@node_periodic of {job.label}: {exc}") from exc


def _wanted(job: Job, user: User) -> bool:
    predicate = job.declared.predicate
    if predicate is None:
        return True
    node = user.node
    told = {"uuid": node.uuid, "driver": node.driver, "conductor_group": node.conductor_group}
    try:
        return bool(predicate(SimpleNamespace(**(told | user.fields))))
    except BaseException:  # an author's code; SystemExit would end the clock
        LOG.exception("The predicate of %s failed for node %s", job.label, user.node.uuid)
        return False
