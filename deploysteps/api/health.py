"""``/healthz`` and ``/readyz``: for those who start, stop and watch processes.

Anybody may ask. Answers say what is wrong in general words: neither
addresses, nor names, nor texts of errors.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import falcon

from deploysteps import exceptions
from deploysteps.api import call
from deploysteps.api.answers import send
from deploysteps.api.operations import Operation
from deploysteps.api.query import Query
from deploysteps.conductor import runtime as runtimes
from deploysteps.db import conductors, migration

LOG = logging.getLogger(__name__)

OK = "ok"
_FRESH = 1.0
"""Seconds that an answer is given again: who asks often must not keep the database busy."""

_READY = {
    "type": "object",
    "properties": {
        "ready": {"type": "boolean"},
        "checks": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "required": ["ready", "checks"],
}


class Healthz(call.Resource):
    """``/healthz``: the process lives, and answers."""

    operations: ClassVar = {
        "GET": Operation(
            summary="Tell that the process lives",
            rule=None,
            answers={
                200: {
                    "type": "object",
                    "properties": {"status": {"const": OK}},
                    "required": ["status"],
                }
            },
        )
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Say so; nothing else is asked."""
        Query(req).finish()
        send(resp, {"status": OK})


class Readyz(call.Resource):
    """``/readyz``: requests will be worked on."""

    operations: ClassVar = {
        "GET": Operation(
            summary="Tell whether the service is ready to work",
            rule=None,
            answers={200: _READY, 503: _READY},
        )
    }

    def __init__(self, services: call.Services) -> None:
        """Nothing is known yet."""
        super().__init__(services)
        self._lock = threading.Lock()
        self._asked_at = 0.0
        self._current = False
        self._last = {"database": "it is being asked"}

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Tell of each thing that it takes whether it is there."""
        Query(req).finish()
        asked = self._asked()
        found = {"conductor": self._conductor(asked), **asked}
        ready = all(told == OK for told in found.values())
        send(resp, {"ready": ready, "checks": found}, status=200 if ready else 503)

    def _asked(self) -> dict[str, str]:
        """Return what the database tells; one request at a time asks it, others do not wait."""
        if time.monotonic() - self._asked_at < _FRESH or not self._lock.acquire(blocking=False):
            return self._last
        try:
            self._last = self._ask()
        finally:
            self._asked_at = time.monotonic()
            self._lock.release()
        return self._last

    def _ask(self) -> dict[str, str]:
        checks: dict[str, Callable[[], str]] = {
            "database": self._schema,
            "interfaces": self._interfaces,
        }
        found: dict[str, str] = {}
        for name, check in checks.items():
            try:
                found[name] = check()
            except Exception as exc:
                # Whatever it is, the service is not ready; the log has it.
                LOG.warning("Not ready, %s: %s", name, type(exc).__name__)
                found[name] = "it does not answer" if name == "database" else "not known"
        return found

    def _conductor(self, asked: Mapping[str, str]) -> str:
        try:
            runtime = runtimes.current()
        except exceptions.NotStarted:  # others do what is asked here
            return OK if asked.get("interfaces") == OK else "none was started here"
        return "it stops" if runtime.stopping.is_set() else OK

    def _schema(self) -> str:
        if not self._current:
            try:
                migration.check(self.database)
            except exceptions.DatabaseVersionError:
                return "its schema is not this program's; run: deploysteps db upgrade"
            self._current = True  # a process that runs is not made for another one later
        elif migration.current(self.database) is None:
            return "it has no schema any more"
        return "it has no room" if self.database.is_full else OK

    def _interfaces(self) -> str:
        """Every enabled interface is registered by a conductor that lives."""
        offered = conductors.offers(self.database, self.conf.conductor.heartbeat_timeout)
        try:
            runtime = runtimes.current()
        except exceptions.NotStarted:
            known = {offer.hardware_type for offers in offered.values() for offer in offers}
            missing: Any = set(self.conf.enabled_hardware_types) - known
        else:
            mine = {tuple(offer)[:3] for offer in offered.get(runtime.host, ())}
            missing = {tuple(offer)[:3] for offer in runtime.registry.offers()} - mine
        return f"{len(missing)} are not registered by a conductor that lives" if missing else OK
