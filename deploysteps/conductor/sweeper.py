"""The clock of waiting steps: one thread that looks which are due.

It asks one query each time, holds no session while work is done, and sleeps
until the next wait is due, a signal comes, or ``step_poll_interval`` is over.
"""

from __future__ import annotations

import datetime
import logging
import threading

from deploysteps import exceptions
from deploysteps.conductor import attend
from deploysteps.conductor.runtime import Runtime
from deploysteps.conductor.trouble import Trouble
from deploysteps.db import sweeps, types

LOG = logging.getLogger(__name__)

_BATCH = 200
_BUSY_PAUSE = 0.05
"""Seconds before a node that was locked, or a full pool, is tried again."""


class Sweeper:
    """Brings due waits to the workers."""

    def __init__(self, runtime: Runtime) -> None:
        """Make it; :meth:`start` starts the thread."""
        self._runtime = runtime
        self._woken = threading.Event()
        self._stopped = False
        self._thread = threading.Thread(target=self._run, name="sweeper", daemon=True)

    def start(self) -> None:
        """Start looking."""
        self._runtime.wake = self._woken.set
        self._thread.start()

    def stop(self) -> None:
        """Stop looking."""
        self._stopped = True
        self._woken.set()
        if self._thread.is_alive():
            self._thread.join(timeout=10)

    def _run(self) -> None:
        trouble = Trouble(LOG, "Looking for due steps")
        while not self._stopped:
            pause = self._interval
            with trouble.kept_going():  # what is due stays due
                pause = self.sweep()
            self._woken.wait(pause)
            self._woken.clear()

    @property
    def _interval(self) -> float:
        return float(self._runtime.conf.conductor.step_poll_interval)

    def sweep(self) -> float:
        """Attend to what is due; returns the seconds until the next look."""
        runtime = self._runtime
        now = types.utcnow()
        until = now + datetime.timedelta(seconds=self._interval)
        pause = self._interval
        for due in sweeps.due(runtime.database, runtime.host, until, _BATCH):
            if due.due_at > now:
                return min(pause, max((due.due_at - types.utcnow()).total_seconds(), 0.0))
            try:
                slot = runtime.workers.reserve()
            except (exceptions.NoFreeConductorWorker, exceptions.NotStarted):
                return _BUSY_PAUSE
            if not attend.look_after(runtime, due.node_id, due.key, slot):
                pause = _BUSY_PAUSE
        return pause
