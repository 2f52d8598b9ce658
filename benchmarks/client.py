"""A small HTTP client that keeps its connection, and costs much less than what it measures."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

VERSION = "1.115"
_TIMEOUT = 120


class Unanswered(Exception):
    """The answer was not the one that the measurement needs."""


class Client:
    """One connection to a service on this machine."""

    def __init__(self, port: int) -> None:
        """Connect on first use."""
        self._port = port
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT)

    def request(self, method: str, path: str, body: Any = None) -> tuple[int, bytes]:
        """Send a request; return the status and the whole body."""
        headers = {
            "Accept": "application/json",
            "OpenStack-API-Version": f"baremetal {VERSION}",
            "X-OpenStack-Ironic-API-Version": VERSION,
        }
        data = None
        if body is not None:
            data = json.dumps(body)
            headers["Content-Type"] = "application/json"
        try:
            self._connection.request(method, path, data, headers)
            answer = self._connection.getresponse()
            return answer.status, answer.read()
        except (http.client.HTTPException, OSError):
            self._connection.close()
            raise

    def get(self, path: str) -> Any:
        """Return an answer's document.

        :raises Unanswered: for any status but 200.
        """
        status, body = self.request("GET", path)
        if status != 200:
            raise Unanswered(f"GET {path}: {status} {body[:300]!r}")
        return json.loads(body)

    def timed(self, path: str) -> tuple[float, Any]:
        """Return the seconds until an answer was read whole, and its document."""
        began = time.perf_counter()
        status, body = self.request("GET", path)
        seconds = time.perf_counter() - began
        if status != 200:
            raise Unanswered(f"GET {path}: {status} {body[:300]!r}")
        return seconds, json.loads(body)

    def pages(self, path: str) -> Iterator[tuple[float, Any]]:
        """Yield a list's pages, timed, following ``next`` to the end."""
        at: str | None = path
        while at is not None:
            seconds, document = self.timed(at)
            yield seconds, document
            onward = document.get("next")
            parts = urlsplit(onward) if onward else None
            at = f"{parts.path}?{parts.query}" if parts else None

    def send(self, method: str, path: str, body: Any, *, wanted: int) -> bytes:
        """Send what has to be answered with ``wanted``.

        :raises Unanswered: it is not.
        """
        status, answer = self.request(method, path, body)
        if status != wanted:
            raise Unanswered(f"{method} {path}: {status} {answer[:300]!r}")
        return answer
