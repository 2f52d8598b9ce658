"""The threads that answer requests: made when there is something for them to do."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from cheroot.workers import threadpool


class Threads(threadpool.ThreadPool):
    """Cheroot's pool, which would make all its threads at the start and wait for them.

    One is made when more requests are under way than there are threads, up to the most that
    there may be; none ends before the server does.
    """

    _threads: list[threading.Thread]
    _spawn_worker: Callable[[], threading.Thread]
    _clear_dead_threads: Callable[[], None]

    def __init__(self, server: Any, most: int) -> None:
        """Make it without threads."""
        super().__init__(server, min=1, max=most)
        self._lock = threading.Lock()
        self._under_way = 0

    def put(self, obj: Any) -> None:
        """Give a connection with a request to a thread, once one is free."""
        self._clear_dead_threads()
        with self._lock:
            self._under_way += 1
            needed = self._under_way > len(self._threads)
        if needed:
            self.grow(1)
        try:
            super().put(obj)
        except BaseException:
            self.done()
            raise

    @property
    def is_crowded(self) -> bool:
        """Whether requests wait for a thread, of which there may be no more."""
        return self._under_way > int(self.max)

    def done(self) -> None:
        """Note that a thread has done with a connection that was put."""
        with self._lock:
            self._under_way -= 1

    def grow(self, amount: int) -> None:
        """Make threads, no more than there may be, and do not wait until they run."""
        for _ in range(min(amount, int(self.max) - len(self._threads))):
            self._threads.append(self._spawn_worker())
