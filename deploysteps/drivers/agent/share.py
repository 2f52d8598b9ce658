"""How many agents that may be slow are asked at once, so that others find a worker.

An agent that answers costs milliseconds. One that does not holds a worker until
a time-out, and is asked again; some such machines would hold all workers.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from deploysteps import exceptions
from deploysteps.conf import CONF

_PAUSE = 1.0
"""Seconds until one that finds no room is tried again."""

_lock = threading.Lock()
_busy = 0


@contextmanager
def taken(silent: bool) -> Iterator[None]:
    """Take a place among the agents that may be slow.

    They have half of the workers, and those that did not answer before only the
    first quarter, so that one that was just booted has room.

    :param silent: it did not answer when it was asked last.
    :raises StepNotReady: there is none just now.
    """
    global _busy
    most = max(1, CONF.conductor.workers_pool_size // (4 if silent else 2))
    with _lock:
        if _busy >= most:
            raise exceptions.StepNotReady(
                "as many agents as may be slow at once are being asked", after=_PAUSE
            )
        _busy += 1
    try:
        yield
    finally:
        with _lock:
            _busy -= 1
