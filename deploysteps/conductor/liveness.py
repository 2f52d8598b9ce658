"""Which of the other conductors live, also by a clock that is wrong."""

from __future__ import annotations

import datetime
import logging
import time
from collections.abc import Collection

from deploysteps.conductor.runtime import Runtime
from deploysteps.db import conductors
from deploysteps.db.models import Conductor

LOG = logging.getLogger(__name__)


class Liveness:
    """Judges by the times of signs of life, as long as this machine's clock can be trusted.

    A clock that is ahead makes every other conductor look dead. One that is far from the database
    server's judges nobody: then a conductor is dead that was seen to give no sign for as long.
    """

    def __init__(self, runtime: Runtime) -> None:
        """Make it; nobody was seen yet."""
        self._runtime = runtime
        self._seen: dict[str, tuple[datetime.datetime, float]] = {}
        self._told = False

    def alive(self, others: Collection[Conductor]) -> set[str]:
        """Return the names of those that live, of all other conductors."""
        timeout, now = self._runtime.conf.conductor.heartbeat_timeout, time.monotonic()
        before = self._seen
        self._seen = {
            one.hostname: seen
            if (seen := before.get(one.hostname)) is not None and seen[0] == one.updated_at
            else (one.updated_at, now)
            for one in others
        }
        if not self._is_clock_off():
            return {one.hostname for one in others if conductors.is_alive(one, timeout)}
        return {
            one.hostname
            for one in others
            if one.online and now - self._seen[one.hostname][1] <= timeout
        }

    def _is_clock_off(self) -> bool:
        conf = self._runtime.conf.conductor
        ahead = conductors.clock_ahead(self._runtime.database)
        # Another may be off by as much to the other side.
        off = bool(abs(ahead) > (conf.heartbeat_timeout - conf.heartbeat_interval) / 2)
        if off and not self._told:
            LOG.error(
                "The clocks of this machine and of the database server differ by %.0f s: set them "
                "right. Times that are told, and time-outs, are wrong until then",
                abs(ahead),
            )
        self._told = off
        return off
