"""What the parts of one conductor share."""

from __future__ import annotations

import dataclasses
import functools
import threading
from collections.abc import Callable
from typing import Any
from uuid import uuid4

from oslo_config import cfg

from deploysteps import exceptions
from deploysteps.access.enforcer import Enforcer
from deploysteps.conductor.hearing import Hearing
from deploysteps.conductor.workers import Workers
from deploysteps.db.engine import Database
from deploysteps.db.transitions import Key


@dataclasses.dataclass
class Runtime:
    """One conductor's database, drivers, workers and name."""

    conf: cfg.ConfigOpts
    database: Database
    registry: Any
    """:class:`deploysteps.drivers.factory.Registry`: what is offered here."""
    workers: Workers
    host: str
    boot_id: str = dataclasses.field(default_factory=lambda: uuid4().hex)
    active: set[str] = dataclasses.field(default_factory=set)
    """Tokens of the locks that this process is at work under. A lock in this
    conductor's name that is not among them was orphaned."""
    wake: Callable[[], None] = lambda: None
    """Look at the due waits now; set by the sweeper."""
    guard: Callable[[Callable[..., Any]], Callable[..., Any]] = lambda work: work
    """Gives work in a worker its last resort; set by the service."""
    stopping: threading.Event = dataclasses.field(default_factory=threading.Event)
    beats_refused: set[Key] = dataclasses.field(default_factory=set)
    """Waits in whose node's history it stands that heartbeats are refused."""
    allocating: dict[str, int] = dataclasses.field(default_factory=dict)
    """uuid of each allocation whose nodes are all locked -> how often it is still tried."""
    allocates: threading.Thread | None = None
    """Tries them; there is one while there are any."""

    @functools.cached_property
    def hearing(self) -> Hearing:
        """Since when agents are heard."""
        return Hearing(self.conf.conductor.heartbeat_timeout)

    @functools.cached_property
    def rules(self) -> Enforcer:
        """The policy rules, asked about the steps of requests."""
        return Enforcer(self.conf)


_current: Runtime | None = None


def set_current(runtime: Runtime | None) -> None:
    """Make a runtime the one that ``task_manager.acquire`` uses by default."""
    global _current
    _current = runtime


def current() -> Runtime:
    """Return the process's runtime.

    :raises NotStarted: no conductor was started here.
    """
    if _current is None:
        raise exceptions.NotStarted(
            reason="start one with deploysteps.conductor.service.Service(conf).start()"
        )
    return _current


def is_current(runtime: Runtime) -> bool:
    """Tell whether a runtime is the process's."""
    return _current is runtime
