"""What this process counts, for ``/metrics``: plain numbers, cheap to add to.

Nothing here knows of Prometheus; :mod:`deploysteps.api.metrics` shows it.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Sequence


class Counter:
    """Counts, for each combination of its labels' values."""

    def __init__(self, name: str, help: str, labels: Sequence[str] = ()) -> None:
        """Make it.

        :param labels: names; the values given for them must be few.
        """
        self.name, self.help, self.labels = name, help, tuple(labels)
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, ...], float] = {} if labels else {(): 0.0}

    def add(self, *values: str, by: float = 1) -> None:
        """Count one more, or ``by``."""
        with self._lock:
            self._counts[values] = self._counts.get(values, 0.0) + by

    def shown(self) -> dict[tuple[str, ...], float]:
        """Return label values -> count."""
        with self._lock:
            return dict(self._counts)


BOUNDS = (0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 900, 3600, 14400)
"""Seconds: upper bounds of a histogram's buckets."""


class Histogram:
    """How long something took, for each combination of its labels' values."""

    def __init__(self, name: str, help: str, labels: Sequence[str] = ()) -> None:
        """Make it; see :class:`Counter`."""
        self.name, self.help, self.labels = name, help, tuple(labels)
        self._lock = threading.Lock()
        self._found: dict[tuple[str, ...], tuple[list[int], float]] = {}
        if not labels:
            self._found[()] = self._empty()

    @staticmethod
    def _empty() -> tuple[list[int], float]:
        return [0] * (len(BOUNDS) + 1), 0.0

    def add(self, *values: str, seconds: float) -> None:
        """Note one more."""
        with self._lock:
            buckets, total = self._found.get(values) or self._empty()
            buckets[bisect_left(BOUNDS, seconds)] += 1
            self._found[values] = (buckets, total + seconds)

    def shown(self) -> dict[tuple[str, ...], tuple[list[int], float]]:
        """Return label values -> how many fell into each bucket, and the sum of seconds."""
        with self._lock:
            return {values: (list(b), total) for values, (b, total) in self._found.items()}


RUNS = Counter("runs", "Runs that ended here", ("flow", "outcome"))
STEPS = Counter("steps", "Attempts of steps that ended here", ("flow", "step", "outcome"))
STEP_SECONDS = Histogram(
    "step_duration_seconds", "From the begin of an attempt to its end", ("flow", "step")
)
LOCK_SECONDS = Histogram(
    "lock_wait_seconds", "How long work waited for the lock of a node, refused or not"
)
LOCK_REFUSALS = Counter("lock_refusals", "How often a node's lock was held by another")
HEARTBEATS = Counter("heartbeats", "Heartbeats of agents, by the answer's status", ("answer",))
REQUESTS = Counter("http_requests", "Requests that were answered", ("method", "route", "status"))
STATEMENTS = Counter("db_statements", "Statements that were sent to the database")
COMMITS = Counter("db_commits", "Transactions that were committed")
STREAMS_DROPPED = Counter("event_streams_dropped", "Streams that were ended here", ("why",))
WEBHOOKS = Counter("webhook_tries", "Webhooks that were sent, by what came of it", ("result",))

COUNTERS = (
    RUNS,
    STEPS,
    LOCK_REFUSALS,
    HEARTBEATS,
    REQUESTS,
    STATEMENTS,
    COMMITS,
    STREAMS_DROPPED,
    WEBHOOKS,
)
HISTOGRAMS = (STEP_SECONDS, LOCK_SECONDS)
