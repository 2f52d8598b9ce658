"""Conductors without threads that live and die in one process, over one clock.

A conductor that has died does nothing more: each statement, each COMMIT and
each step's code of its raises, so that the database stays as a kill -9 leaves
it. What it would have written is rolled back, what it had committed stays.
"""

from __future__ import annotations

import copy
import datetime
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import sqlalchemy as sa
from oslo_config import cfg
from sqlalchemy import event

from deploysteps import conf as configuration
from deploysteps import states
from deploysteps.conductor import runtime as runtimes
from deploysteps.conductor.attend import guarded
from deploysteps.db import types
from deploysteps.db.engine import Database
from deploysteps.db.models import Conductor, Node, table
from deploysteps.steps import flow_of_state
from tests.crash.stepwise import Stepwise

_NODE = table(Node)


MEMORY = Path("/dev/shm")


def folder() -> tempfile.TemporaryDirectory[str]:
    """Return a folder in memory, where there is such a place: no power is cut here."""
    place = str(MEMORY) if os.access(MEMORY, os.W_OK) else None
    return tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True)


def settings(path: str) -> cfg.ConfigOpts:
    """Return a configuration with default settings, but that a lock is not waited for."""
    found = cfg.ConfigOpts()
    configuration.register(found)
    configuration.setup(config_files=[], conf=found)
    found.set_override("state_path", path)
    found.set_override("node_locked_retry_attempts", 0, group="conductor")
    return found


class Died(BaseException):
    """The conductor's process is no more."""


class Mortal(Stepwise):
    """A conductor that may die at any point; its connections are its world's."""

    def __init__(self, world: World, host: str) -> None:
        database = copy.copy(world.database)
        database.engine = world.database.engine.execution_options(mortal=self)
        database._readers = world.database._readers.execution_options(mortal=self)
        super().__init__(database, world.conf, world.registry, host)
        self.dead = False
        self.left: int | None = None
        """Points that it still passes; None: it lives on."""
        self.runtime.guard = guarded

    def point(self) -> None:
        """Pass a point between two things that a conductor does, or die there."""
        if self.left is not None and not self.dead:
            self.left -= 1
            self.dead = self.left < 0
        if self.dead:
            raise Died

    def start(self) -> None:
        """Begin to serve, as the only conductor that this process knows."""
        runtimes.set_current(self.runtime)
        super().start()

    def kill(self) -> None:
        """Let it be dead from now on."""
        self.dead = True


class Change(NamedTuple):
    """A change of state that was seen in the database."""

    before: str
    after: str
    target_before: str | None
    target: str | None


class World:
    """One database, one clock, and the conductors over it."""

    def __init__(self, database: Database, conf: Any, registry: Any) -> None:
        self.database, self.conf, self.registry = database, conf, registry
        self.ahead = 0.0
        """Seconds that have passed."""
        self.began = datetime.datetime.now(datetime.UTC)
        self.lives: dict[str, Mortal] = {}
        self.changes: list[Change] = []
        self._last: dict[str, tuple[str, str | None]] = {}
        self._at_work: Mortal | None = None
        """Whose statement was the last one."""
        self._watch()

    def _watch(self) -> None:
        engine = self.database.engine

        @event.listens_for(engine, "before_cursor_execute")
        def before(connection: Any, *_: Any) -> None:
            self._at_work = connection.get_execution_options().get("mortal")
            if self._at_work is not None:
                self._at_work.point()

        commit = engine.dialect.do_commit

        def do_commit(connection: Any) -> None:
            at_work = self._at_work
            if at_work is not None:
                at_work.point()
            commit(connection)
            if at_work is not None:
                self.observe()
                at_work.point()

        engine.dialect.do_commit = do_commit  # type: ignore[method-assign]

    def now(self) -> datetime.datetime:
        """Return the time of this world, which passes by what is done in it."""
        self.ahead += 1e-6
        return self.began + datetime.timedelta(seconds=self.ahead)

    @contextmanager
    def clock(self, patch: Any) -> Iterator[None]:
        """Let everything read this world's clock."""
        with patch.context() as patched:
            patched.setattr(types, "utcnow", self.now)
            yield

    def conductor(self, host: str) -> Mortal:
        """Start a conductor; one of this name that lived is dead now."""
        if host in self.lives:
            self.lives[host].kill()
        self.lives[host] = born = Mortal(self, host)
        born.start()
        return born

    def of(self, task: Any) -> Mortal:
        """Return the conductor that a step's code runs in."""
        return next(one for one in self.lives.values() if one.runtime is task.runtime)

    def end(self) -> None:
        """End every conductor."""
        for one in self.lives.values():
            one.kill()
        self.lives.clear()
        runtimes.set_current(None)

    def silence(self, host: str) -> None:
        """Let a conductor not have been heard of for a day."""
        rows = table(Conductor)
        with self.database.engine.begin() as connection:
            connection.execute(
                sa.update(rows)
                .where(rows.c.hostname == host)
                .values(updated_at=self.now() - datetime.timedelta(days=1))
            )

    def observe(self) -> None:
        """Note which nodes are in another state than when last looked at."""
        query = sa.select(_NODE.c.uuid, _NODE.c.provision_state, _NODE.c.target_provision_state)
        with self.database.reading() as connection:
            now = {row[0]: (row[1], row[2]) for row in connection.execute(query)}
        for uuid, (state, target) in now.items():
            before, aim = self._last.get(uuid, (state, target))
            if (before, aim) != (state, target):
                self.changes.append(Change(before, state, aim, target))
        self._last = now


def is_path(change: Change) -> bool:
    """Tell whether the table leads from a state to another, and to the target shown there.

    A wait may end, and the run go on, in one write; else a write is one transition.
    """
    starts = [change.before]
    flow = flow_of_state(change.before)
    if flow is not None:
        starts.append(flow.running)
    reached = {
        (states.next_state(start, move), states.target_after(start, move, change.target_before))
        for start in starts
        for move in states.events(start)
    }
    return (change.after, change.target) in reached
