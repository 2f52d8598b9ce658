"""How many workers may be held by talk with agents, so that all other work finds one.

An agent that answers costs milliseconds. One that does not holds a worker until
a time-out, and is asked again; some such machines would hold all workers.
"""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from deploysteps import exceptions, protocols
from deploysteps.conf import CONF
from deploysteps.drivers.agent import record

_changed = threading.Condition()
_busy = 0
_mine: contextvars.ContextVar[bool] = contextvars.ContextVar("_mine", default=False)
"""Whether this thread has a place: one is enough for all that it asks meanwhile."""


def places(silent: bool) -> int:
    """Return how many may be taken when an agent asks for one.

    All of them are half of the workers, and for those that did not answer before the first
    quarter, so that each of the others finds one.
    """
    size: int = CONF.conductor.workers_pool_size
    few = max(1, size // 4)
    return few if silent else max(few + 1, size // 2)


def crowded() -> bool:
    """Tell whether so many are being asked that each of them has to be quick."""
    return 2 * _busy > places(silent=False)


@contextmanager
def room(node: protocols.Node, wait: float = 0.0) -> Iterator[None]:
    """Take a place in which a node's agent is asked.

    :param wait: seconds to wait for one.
    :raises StepNotReady: there is none.
    """
    global _busy
    if _mine.get():
        yield
        return
    most = places(record.is_silent(node))
    with _changed:
        if not _changed.wait_for(lambda: _busy < most, wait):
            raise exceptions.StepNotReady(
                "as many agents as may be slow at once are being asked",
                after=record.pause(node),
            )
        _busy += 1
    token = _mine.set(True)
    try:
        yield
    finally:
        _mine.reset(token)
        with _changed:
            _busy -= 1
            _changed.notify_all()
