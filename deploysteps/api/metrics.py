"""``/metrics`` for Prometheus: what this process counts, and what the database tells."""

from __future__ import annotations

import importlib.metadata
import logging
import threading
import time
from collections.abc import Iterator
from typing import Any, ClassVar

import falcon

from deploysteps import counts, exceptions
from deploysteps.api import call, streams
from deploysteps.api.operations import Operation
from deploysteps.api.query import Query
from deploysteps.conductor import runtime as runtimes
from deploysteps.db import metrics as rows
from deploysteps.db import types
from deploysteps.db.engine import Database

LOG = logging.getLogger(__name__)

_PREFIX = "deploysteps_"
_FRESH = 5.0
"""Seconds that what the database told is told again."""
_METHODS = ("GET", "PUT", "POST", "PATCH", "DELETE", "HEAD", "OPTIONS")
_HEARTBEAT = "/heartbeat/{ident}"
_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Counting:
    """Counts requests by what they were routed to, so that labels are few."""

    def process_response(
        self, req: falcon.Request, resp: falcon.Response, resource: object, req_succeeded: bool
    ) -> None:
        """Count one."""
        route, status = req.uri_template or "none", str(resp.status_code)
        method = req.method if req.method in _METHODS else "other"
        counts.REQUESTS.add(method, route, status)
        if route.endswith(_HEARTBEAT):
            counts.HEARTBEATS.add(status)


class Metrics(call.Resource):
    """``/metrics``."""

    operations: ClassVar = {
        "GET": Operation(
            summary="Show metrics, for Prometheus",
            rule="baremetal:metrics:get",
            answers={200: {"type": "string", "contentMediaType": "text/plain"}},
        )
    }

    def __init__(self, services: call.Services, known: streams.Streams) -> None:
        """Tell of these streams as well."""
        super().__init__(services)
        self._service = _Service(services.database, known)
        self._lock = threading.Lock()
        self._registry: Any = None

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Show them."""
        Query(req).finish()
        from prometheus_client import exposition  # it is heavy: who is not scraped does without

        resp.content_type = _TYPE
        resp.data = exposition.generate_latest(self._known())

    def _known(self) -> Any:
        with self._lock:
            if self._registry is None:
                from prometheus_client import CollectorRegistry, ProcessCollector

                self._registry = CollectorRegistry()
                ProcessCollector(registry=self._registry)
                self._registry.register(self._service)
            return self._registry


class _Service:
    """A collector of Prometheus's."""

    def __init__(self, database: Database, known: streams.Streams) -> None:
        self._database, self._streams = database, known
        self._lock = threading.Lock()
        self._read_at, self._last = 0.0, rows.Found()
        self._up = False

    def describe(self) -> list[Any]:
        """Tell nothing beforehand; what there is, :meth:`collect` tells."""
        return []

    def collect(self) -> Iterator[Any]:
        """Yield every family."""
        from prometheus_client import core

        for counter in counts.COUNTERS:
            family = core.CounterMetricFamily(
                _PREFIX + counter.name, counter.help, labels=counter.labels
            )
            for values, count in counter.shown().items():
                family.add_metric(values, count)
            yield family
        for histogram in counts.HISTOGRAMS:
            shown = core.HistogramMetricFamily(
                _PREFIX + histogram.name, histogram.help, labels=histogram.labels
            )
            for values, (buckets, total) in histogram.shown().items():
                shown.add_metric(values, _cumulated(buckets), total)
            yield shown
        for name, help, label, found in self._gauges():
            gauge = core.GaugeMetricFamily(_PREFIX + name, help, labels=(label,) if label else ())
            for value, number in found.items():
                gauge.add_metric((value,) if label else (), number)
            yield gauge

    def _gauges(self) -> Iterator[tuple[str, str, str, dict[str, float]]]:
        version = importlib.metadata.version("deploysteps")
        yield "info", "The program", "version", {version: 1}
        yield "event_streams", "Streams of events", "", {"": self._streams.count}
        try:
            workers = runtimes.current().workers
        except exceptions.NotStarted:  # no conductor in this process
            pass
        else:
            busy = workers.busy
            told: dict[str, float] = {"busy": busy, "free": workers.size - busy}
            yield "workers", "Workers of the conductor in this process", "state", told
        now = self._read()
        yield "database_up", "Whether the database answered", "", {"": float(self._up)}
        if not self._up:
            return
        yield "nodes", "Nodes by provision state", "state", {**now.nodes}
        yield "nodes_locked", "Nodes that something works on", "", {"": now.locked}
        yield "waits", "Waiting steps by who ends the wait", "owner", {**now.waits}
        yield "waits_due", "Waiting steps in line: due and not taken on yet", "", {"": now.due}
        yield "webhooks", "Webhooks that were not taken", "state", {**now.webhooks}
        lag = (types.utcnow() - now.oldest).total_seconds() if now.oldest else 0.0
        yield "webhook_lag_seconds", "Age of the oldest that is to be sent", "", {"": max(lag, 0)}

    def _read(self) -> rows.Found:
        """Ask the database, unless it was asked just now or is asked at this moment."""
        if time.monotonic() - self._read_at < _FRESH or not self._lock.acquire(blocking=False):
            return self._last
        try:
            self._last, self._up = rows.found(self._database), True
        except Exception as exc:
            # What the process counts is told all the same.
            LOG.warning("Metrics: the database does not answer: %s", type(exc).__name__)
            self._up = False
        finally:
            self._read_at = time.monotonic()
            self._lock.release()
        return self._last


def _cumulated(buckets: list[int]) -> list[tuple[str, float]]:
    found, total = [], 0
    for bound, count in zip((*counts.BOUNDS, float("inf")), buckets, strict=True):
        total += count
        found.append(("+Inf" if bound == float("inf") else f"{bound:g}", float(total)))
    return found
