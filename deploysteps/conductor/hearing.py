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
        self._is_back = False

    def note(self, *before: datetime.datetime | None) -> None:
        """Take in a sign of life of this conductor.

        It is the first after a break, whatever another has written since that was over, also where
        only its own last one is long ago.

        :param before: when others, and a life before, were heard of last before it.
        """
        now = types.utcnow()
        if any(then is not None and now - then > self._longest for then in (*before, self._last)):
            self._since = now
            self._is_back = self._last is not None
        self._last = now

    def since(self) -> datetime.datetime | None:
        """Return when heartbeats began to be recorded after a break; None: none is known."""
        return types.utcnow() if self._is_away() else self._since

    def is_new(self) -> bool:
        """Tell whether a break in this life is so recent that no other can be called quiet since.

        One that ends with a start is none here: who starts looks at once for what others left.
        """
        if self._is_away():
            return True
        if self._since is None or not self._is_back:
            return False
        return types.utcnow() - self._since <= self._longest

    def _is_away(self) -> bool:
        """Tell whether a break has not ended, or its end was not noted yet."""
        return self._last is not None and types.utcnow() - self._last > self._longest
