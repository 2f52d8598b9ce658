"""Since when agents are heard: silence counts only while somebody listens."""

from __future__ import annotations

import datetime

from deploysteps.db import types


class Hearing:
    """What signs of life tell of the time in which heartbeats could be recorded.

    None was while every conductor was down, the database was away, this process was frozen, or in
    hours that a clock left out. An agent that called meanwhile was not silent.
    """

    def __init__(self, longest: float) -> None:
        """Make it; no break is known.

        :param longest: seconds between two signs of life that are no break.
        """
        self._longest = datetime.timedelta(seconds=longest)
        self._last: datetime.datetime | None = None
        self._since: datetime.datetime | None = None

    def note(self, before: datetime.datetime | None) -> None:
        """Take in a sign of life of this conductor.

        :param before: when any conductor was heard of last before it.
        """
        now = types.utcnow()
        if before is not None and now - before > self._longest:
            self._since = now
        self._last = now

    def since(self) -> datetime.datetime | None:
        """Return when heartbeats began to be recorded after a break; None: none is known."""
        now = types.utcnow()
        if self._last is not None and now - self._last > self._longest:
            return now  # it has not ended, or its end was not noted yet
        return self._since
