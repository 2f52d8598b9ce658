"""Starts and stops a conductor in any Python process."""

from __future__ import annotations

import datetime
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any

import futurist
from futurist import periodics
from oslo_config import cfg

from deploysteps import conf as configuration
from deploysteps import exceptions, reserved
from deploysteps.conductor import allocations, steps
from deploysteps.conductor import runtime as runtimes
from deploysteps.conductor.attend import guarded
from deploysteps.conductor.charge import group_of
from deploysteps.conductor.manager import ConductorManager
from deploysteps.conductor.name import NameLock
from deploysteps.conductor.periodics import Periodics
from deploysteps.conductor.power_sync import PowerRecovery, PowerSync
from deploysteps.conductor.recovery import Recovery
from deploysteps.conductor.rounds import Rounds
from deploysteps.conductor.rpc import Client, local
from deploysteps.conductor.runtime import Runtime
from deploysteps.conductor.sweeper import Sweeper
from deploysteps.conductor.trouble import Trouble
from deploysteps.conductor.workers import Workers
from deploysteps.db import conductors, events, migration, sweeps, types, webhooks
from deploysteps.db.engine import Database
from deploysteps.drivers.base import BaseInterface, DeployInterface
from deploysteps.drivers.factory import Registry
from deploysteps.steps import FLOWS, StepFlow

LOG = logging.getLogger(__name__)

_PRUNE_INTERVAL = 600.0
_FORGET_CONDUCTORS_AFTER = datetime.timedelta(days=7)


def database_of(conf: cfg.ConfigOpts) -> Database:
    """Return the configured database."""
    group = conf.database
    return Database(
        group.connection,
        busy_timeout=group.busy_timeout,
        max_pool_size=group.max_pool_size,
        max_overflow=group.max_overflow,
        pool_timeout=group.pool_timeout,
        connect_wait=group.connect_wait,
        own_folder=conf.state_path,
    )


class Service:
    """One conductor: ``start()``, use ``client`` or ``manager``, ``stop()``.

    As a context manager it does the first and the last by itself.
    """

    def __init__(
        self,
        conf: cfg.ConfigOpts,
        *,
        database: Database | None = None,
        registry: Registry | None = None,
    ) -> None:
        """Make it; nothing is touched before :meth:`start`.

        :param conf: as :func:`deploysteps.conf.setup` returns it.
        :param database: instead of the configured one.
        :param registry: drivers, instead of those that entry points name.
        """
        self._conf = conf
        self._registry = registry
        self.database = database or database_of(conf)
        self._owns_database = database is None
        self._name = NameLock(conf.state_path, conf.host)
        self.displaced = threading.Event()
        """Set when another process took this conductor's name: this one is to end."""
        self._runtime: Runtime | None = None
        self._manager: ConductorManager | None = None
        self._periodic: periodics.PeriodicWorker | None = None
        self._sweeper: Sweeper | None = None
        self._driver_periodics: Periodics | None = None
        self._rounds: list[Rounds] = []
        self._webhooks: Any = None
        """Its module brings an HTTP client: it is imported where there is a receiver."""

    def __enter__(self) -> Service:
        """Start."""
        self.start()
        return self

    def __exit__(self, kind: Any, exc: BaseException | None, traceback: Any) -> None:
        """Stop, letting running steps finish."""
        self.stop()

    @property
    def runtime(self) -> Runtime:
        """What the conductor's parts share, once started."""
        if self._runtime is None:
            raise exceptions.NotStarted(reason="start() was not called, or stop() was")
        return self._runtime

    @property
    def manager(self) -> ConductorManager:
        """The conductor's verbs, once started."""
        if self._manager is None:
            raise exceptions.NotStarted(reason="start() was not called, or stop() was")
        return self._manager

    @property
    def client(self) -> Client:
        """The verbs as the API calls them."""
        return local.client(self.manager)

    def start(self, cancelled: threading.Event | None = None) -> None:
        """Make the database ready, recover what an earlier life left, begin to work.

        Returns when requests may be taken: all interfaces are registered and
        no lock of an earlier life is left.

        :param cancelled: gives up waiting for the database when it is set.
        :raises ConfigurationError: a setting is wrong, or a process of this
            name is running.
        :raises DatabaseUnavailable, DatabaseVersionError: see there.
        :raises DriverLoadError: an enabled driver is broken.
        """
        conf = self._conf
        configuration.check(conf)
        registry = self._registry or Registry(conf)
        check_steps_named(conf, registry)
        self._name.take()
        try:
            self._start(registry, cancelled)
        except BaseException:
            self._name.release()
            raise

    def _start(self, registry: Registry, cancelled: threading.Event | None) -> None:
        conf = self._conf
        self.database.wait_ready(LOG.warning, cancelled)
        if self.database.in_memory:
            LOG.warning("The database is in memory: all is forgotten when this process ends")
        migration.ensure(self.database)
        runtime = Runtime(
            conf=conf,
            database=self.database,
            registry=registry,
            host=conf.host,
            workers=Workers(
                conf.conductor.workers_pool_size, conf.conductor.reserved_workers_pool_percentage
            ),
        )
        runtime.guard = guarded
        self._runtime, self._manager = runtime, ConductorManager(runtime)
        runtimes.set_current(runtime)
        self._sweeper = Sweeper(runtime)
        before = conductors.heard(self.database, runtime.host)
        recovery = Recovery(runtime, before)
        self._driver_periodics = Periodics(runtime, self._manager)
        self._rounds = [PowerSync(runtime), PowerRecovery(runtime)]
        _tell_others(self.database, conf)
        runtime.hearing.note(before, conductors.last_heard(self.database))
        conductors.register(
            self.database, runtime.host, runtime.boot_id, registry.offers(), group_of(runtime)
        )
        if conf.webhooks.url:
            from deploysteps.conductor.webhooks import Webhooks

            self._webhooks = Webhooks(runtime)
            self._webhooks.know()  # before anything happens that they are to be told
        recovery.sweep(starting=True)
        allocations.resume(runtime)
        self._sweeper.start()
        if self._webhooks is not None:
            self._webhooks.start()
        self._driver_periodics.start()
        for rounds in self._rounds:
            rounds.start()
        self._periodic = _Periodic(runtime, recovery, self.displaced).start()
        LOG.info("Conductor %s works on %r", runtime.host, self.database)

    def stop(self, graceful_timeout: float | None = None) -> bool:
        """Take nothing new, let running steps finish, leave.

        :param graceful_timeout: seconds; ``graceful_shutdown_timeout`` if None.
        :returns: False when something still runs: treat it as cut off, and
            end the process. The next start recovers it as after a crash.
        """
        if self._runtime is None:
            return True
        runtime = self._runtime
        if graceful_timeout is None:
            graceful_timeout = self._conf.conductor.graceful_shutdown_timeout
        until = time.monotonic() + graceful_timeout

        def left() -> float:  # of one time for all: what supervises the process has one, too
            return max(until - time.monotonic(), 0.0)

        runtime.stopping.set()
        if self._sweeper is not None:
            self._sweeper.stop()
        if self._driver_periodics is not None:
            self._driver_periodics.stop(left())
        for rounds in self._rounds:
            rounds.stop(left())
        idle = runtime.workers.close(left())
        if not idle:
            LOG.warning("Cut off what still runs; the next start recovers it")
        if self._periodic is not None:
            self._periodic.stop()
        if self._webhooks is not None:  # after the workers, whose last events it may send
            self._webhooks.stop(left())
            self._webhooks = None
        conductors.leave(self.database, runtime.host, runtime.boot_id)
        self._name.release()
        if idle and self._owns_database:
            self.database.dispose()
        if runtimes.is_current(runtime):
            runtimes.set_current(None)
        self._runtime = self._manager = None
        return idle


class _Periodic:
    """The conductor's slow clocks, each in a thread of its own."""

    def __init__(
        self, runtime: Runtime, recovery: Recovery, displaced: threading.Event | None = None
    ) -> None:
        self._displaced = displaced or threading.Event()
        self._runtime = runtime
        self._recovery = recovery

    def start(self) -> periodics.PeriodicWorker:
        conf = self._runtime.conf.conductor
        jobs = (
            ("Writing a sign of life", self._keep_alive, conf.heartbeat_interval),
            ("Recovering what was cut off", self._recover, conf.recovery_interval),
            ("Removing what is kept no longer", self._prune, _PRUNE_INTERVAL),
        )
        worker = periodics.PeriodicWorker(
            [(periodics.periodic(every)(job), (), {}) for job, every in map(_wrapped, jobs)],
            executor_factory=lambda: futurist.ThreadPoolExecutor(max_workers=len(jobs)),
        )
        threading.Thread(target=worker.start, name="periodic", daemon=True).start()
        return worker

    def _keep_alive(self) -> None:
        runtime = self._runtime
        if self._displaced.is_set():
            return
        before = conductors.last_heard(runtime.database)
        if conductors.touch(runtime.database, runtime.host, runtime.boot_id):
            runtime.hearing.note(before)
        elif not runtime.stopping.is_set():  # else it has left meanwhile
            LOG.critical(
                "Another process took the name %s; this one takes nothing new and is to end. "
                "Give each conductor a [DEFAULT] host of its own",
                runtime.host,
            )
            runtime.stopping.set()
            runtime.workers.close(0)
            self._displaced.set()

    def _recover(self) -> None:
        self._recovery.sweep()
        allocations.resume(self._runtime)

    def _prune(self) -> None:
        database, conf = self._runtime.database, self._runtime.conf.conductor
        sweeps.prune_runs(database, conf.runs_kept_per_node)
        sweeps.prune_history(database, conf.node_history_max_entries)
        kept = self._runtime.conf.events
        events.prune(database, hours=kept.keep_hours, rows=kept.keep_rows)
        days = self._runtime.conf.webhooks.dead_kept_days
        if days:
            gone = webhooks.prune(database, types.utcnow() - datetime.timedelta(days=days))
            if gone:
                LOG.warning(
                    "Webhooks: %d dead deliveries, and receivers that nobody has served with "
                    "what they had not taken, were removed after %g days",
                    gone,
                    days,
                )
        conductors.prune(database, types.utcnow() - _FORGET_CONDUCTORS_AFTER)


def _tell_others(database: Database, conf: cfg.ConfigOpts) -> None:
    """Tell of other conductors on the same SQLite file: one process at a time may use it."""
    if database.dialect != "sqlite":
        return
    others = conductors.alive_names(database, conf.conductor.heartbeat_timeout) - {conf.host}
    if others:
        LOG.warning(
            "%s is also used by conductor %s, or was until a moment ago: SQLite is for one process "
            "at a time; stop the other one, or use PostgreSQL or MySQL ([database] connection)",
            database.place,
            ", ".join(sorted(others)),
        )


def _wrapped(job: tuple[str, Any, float]) -> tuple[Any, float]:
    """Return a job that tells of its errors and is called again all the same."""
    what, call, every = job
    trouble = Trouble(LOG, what)

    def run() -> None:
        with trouble.kept_going():  # a database that is away must not end the clock
            call()

    return run, every


def check_steps_named(conf: cfg.ConfigOpts, registry: Registry) -> None:
    """Refuse a setting for a step that no enabled interface has; tell of it where an agent may.

    :raises ConfigurationError: naming the entry.
    """
    for flow in FLOWS.values():
        moved = steps.parse_overrides(conf.conductor[flow.overrides]) if flow.overrides else {}
        for option, keys in (
            (flow.overrides, moved),
            (flow.forbidden, steps.forbidden(conf.conductor, flow)),
        ):
            for key in keys:
                problem = _nobody_has(registry, flow, key)
                if not problem or (option == flow.forbidden and _need_not_be_declared(flow, key)):
                    continue
                if not any(map(_brings_agents_steps, _deploy_interfaces(registry))):
                    raise exceptions.ConfigurationError(f"[conductor] {option}: {problem}")
                LOG.warning("[conductor] %s: %s, unless an agent brings it", option, problem)


def _need_not_be_declared(flow: StepFlow, key: steps.Key) -> bool:
    """Tell whether a step may be there without a declaration: reserved, or a plain method."""
    named = {"interface": key[0], "step": key[1]}
    return reserved.is_reserved(named) or (flow.old_way and key == flow.core)


def _deploy_interfaces(registry: Registry) -> Iterator[Any]:
    for driver in registry.hardware_types:
        yield from registry.interfaces(driver, "deploy").values()


def _brings_agents_steps(instance: Any) -> bool:
    """Tell whether an interface speaks with agents that have steps of their own."""
    return (
        isinstance(instance, DeployInterface)
        and type(instance).agent_steps is not DeployInterface.agent_steps
    )


def _nobody_has(registry: Registry, flow: StepFlow, key: steps.Key) -> str | None:
    kind, step = key
    offering = [
        instance
        for driver in registry.hardware_types
        for instance in registry.interfaces(driver, kind).values()
    ]
    if any(_may_have(instance, flow, step) for instance in offering):
        return None
    known = sorted({s for i in offering for s in i.declared_steps[flow.name]})
    return (
        f"no enabled {kind} interface has a {flow.name} step {step!r}; there are "
        f"{', '.join(known) or 'none'}"
    )


def _may_have(instance: Any, flow: StepFlow, step: str) -> bool:
    """Tell whether an interface has a step; one that lists them per node may."""
    if step in instance.declared_steps[flow.name]:
        return True
    lists = getattr(type(instance), flow.collect)
    return lists is not getattr(BaseInterface, flow.collect) and not _brings_agents_steps(instance)
