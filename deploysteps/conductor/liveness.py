"""Which of the other conductors live, also by clocks that are wrong and after a break."""

from __future__ import annotations

import datetime
import logging
import time
from collections.abc import Collection
from typing import NamedTuple

from deploysteps.conductor.runtime import Runtime
from deploysteps.db import conductors
from deploysteps.db.models import Conductor

LOG = logging.getLogger(__name__)


class _Sign(NamedTuple):
    """A sign of life of another conductor."""

    at: datetime.datetime
    seen: float
    """When it was seen first, by this process's own time."""
    is_late: bool
    """It was new, and by its time long ago: the clock of who wrote it is behind."""


class Liveness:
    """Judges by the times of signs of life, as long as clocks can be trusted.

    A clock that is ahead makes every other conductor look dead. One that is far from the database
    server's judges nobody: then a conductor is dead that was seen to give no sign for as long. So
    is one whose own clock is behind. After a break each has that long to come back.
    """

    def __init__(self, runtime: Runtime) -> None:
        """Make it; nobody was seen yet."""
        self._runtime = runtime
        self._seen: dict[str, _Sign] = {}
        self._told = False

    def alive(self, others: Collection[Conductor]) -> set[str]:
        """Return the names of those that live, of all other conductors."""
        timeout, now = self._runtime.conf.conductor.heartbeat_timeout, time.monotonic()
        self._seen = {one.hostname: self._sign(one, now) for one in others}
        ahead = clock_off(self._runtime)
        self._tell(ahead)
        online = [one for one in others if one.online]
        if self._runtime.hearing.is_new():
            return {one.hostname for one in online}
        return {
            one.hostname
            for one in online
            if (
                now - sign.seen <= timeout
                if (sign := self._seen[one.hostname]).is_late or ahead
                else conductors.is_alive(one, timeout)
            )
        }

    def _sign(self, one: Conductor, now: float) -> _Sign:
        before = self._seen.get(one.hostname)
        if before is not None and before.at == one.updated_at:
            return before
        timeout = self._runtime.conf.conductor.heartbeat_timeout
        is_late = before is not None and one.updated_at < conductors.alive_since(timeout)
        return _Sign(one.updated_at, now, is_late)

    def _tell(self, ahead: float) -> None:
        if ahead and not self._told:
            LOG.error(
                "The clocks of this machine and of the database server differ by %.0f s: set them "
                "right. Times that are told, and time-outs, are wrong until then",
                abs(ahead),
            )
        self._told = bool(ahead)


def clock_off(runtime: Runtime) -> float:
    """Return the seconds by which this machine's clock is ahead; 0: it can be trusted."""
    conf = runtime.conf.conductor
    ahead = conductors.clock_ahead(runtime.database)
    # Another may be off by as much to the other side.
    return ahead if abs(ahead) > (conf.heartbeat_timeout - conf.heartbeat_interval) / 2 else 0.0


def can_tell(runtime: Runtime) -> bool:
    """Tell whether the times of signs of life show who is alive."""
    return not runtime.hearing.is_new() and not clock_off(runtime)
