"""The threads that work on nodes. A wait never holds one.

A slot is reserved before anything is written, so that "no free worker" is
said while nothing has happened yet. A share of the slots is only for what
operators ask for.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

import futurist
from futurist import rejection
from oslo_context.context import RequestContext, get_current

from deploysteps import exceptions

LOG = logging.getLogger(__name__)


class Slot:
    """The right to run one piece of work."""

    def __init__(self, workers: Workers) -> None:
        """Made by :meth:`Workers.reserve`."""
        self._workers: Workers | None = workers

    def run(self, work: Callable[..., Any], *args: Any) -> None:
        """Run ``work`` in a thread; the slot is free again when it ends."""
        workers, self._workers = self._workers, None
        if workers is None:
            raise RuntimeError("a slot runs one piece of work")
        workers._submit(work, *args)

    def release(self) -> None:
        """Give the slot back unused; after :meth:`run` this does nothing."""
        workers, self._workers = self._workers, None
        if workers is not None:
            workers._done()


class Workers:
    """A pool of at most ``size`` threads."""

    def __init__(self, size: int, reserved_percentage: int) -> None:
        """Make the pool.

        :param reserved_percentage: share of the slots for operators' requests.
        """
        self.size = size
        reserved = max(1, size * reserved_percentage // 100) if reserved_percentage else 0
        self._limits = {True: size, False: size - reserved}
        self._used = 0
        self._changed = threading.Condition()
        self._closed = False
        self._pool = futurist.ThreadPoolExecutor(
            max_workers=size, check_and_reject=rejection.reject_when_reached(size)
        )

    @property
    def busy(self) -> int:
        """How many slots are taken."""
        return self._used

    def reserve(self, *, operator: bool = False) -> Slot:
        """Reserve a slot.

        :param operator: may use the reserved share.
        :raises NoFreeConductorWorker: all are busy; nothing was changed.
        """
        with self._changed:
            if self._closed:
                raise exceptions.NotStarted(reason="it is stopping; retry in a few seconds")
            if self._used >= self._limits[operator]:
                raise exceptions.NoFreeConductorWorker
            self._used += 1
        return Slot(self)

    def close(self, timeout: float) -> bool:
        """Take nothing new and wait for what runs; False when some still does."""
        with self._changed:
            self._closed = True
            idle = self._changed.wait_for(lambda: self._used == 0, timeout)
        # Idle threads end by themselves; waiting for them costs a second.
        self._pool.shutdown(wait=False)
        return idle

    def _submit(self, work: Callable[..., Any], *args: Any) -> None:
        asked_by = get_current()

        def guarded() -> None:
            # What this thread logs is of who asks for this work, not for the work before.
            if asked_by is not None:
                asked_by.update_store()
            else:
                RequestContext(overwrite=True)
            try:
                work(*args)
            except BaseException:  # the work has its own last resort; this only tells
                LOG.exception("A worker's last resort failed as well")
            finally:
                self._done()

        try:
            self._pool.submit(guarded)
        except (futurist.RejectedSubmission, RuntimeError) as exc:
            self._done()
            raise exceptions.NoFreeConductorWorker from exc

    def _done(self) -> None:
        with self._changed:
            self._used -= 1
            self._changed.notify_all()
