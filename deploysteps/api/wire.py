"""Cheroot, with what it lacks: limits on how long a client may take, and an end to waiting.

Cheroot gives a client time for each piece that it sends; one that sends a
byte now and then would hold a thread for ever. Here a request as a whole has
to arrive in time, and its answer has to be taken in time.
"""

from __future__ import annotations

import logging
import socket
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

from cheroot import server, wsgi
from cheroot.makefile import MakeFile

from deploysteps.api import errors

LOG = logging.getLogger(__name__)
T = TypeVar("T")

BRISK = 2.0
"""Seconds; what takes longer is slow, and half of the threads are for what is slow."""


class Line(socket.socket):
    """A client's socket, whose transfers have to be done in time."""

    def __init__(self, plain: socket.socket, owner: HttpServer) -> None:
        """Take over a socket."""
        super().__init__(fileno=plain.detach())
        self.settimeout(owner.timeout)
        self._owner = owner
        self._way = ""
        self._begun = 0.0
        self._slow = False
        self.late = False
        """Whether the client took too long: what is left of its request will not be read."""

    def begin(self) -> None:
        """Start the clock, once a thread is there for the next request."""
        self._way = ""

    def end(self) -> None:
        """Make room for another slow client."""
        if self._slow:
            self._slow = False
            self._owner.slow.release()

    def recv_into(self, *args: Any) -> int:
        """Receive, in time."""
        return self._in_time("receive", super().recv_into, *args)

    def send(self, *args: Any) -> int:
        """Send, in time."""
        return self._in_time("send", super().send, *args)

    def _in_time(self, way: str, transfer: Callable[..., T], *args: Any) -> T:
        """Transfer a piece.

        :raises TimeoutError: the client took too long, for this piece or in all.
        """
        now = time.monotonic()
        if way != self._way:  # both ways have their time: what the work takes is not the client's
            self._way, self._begun = way, now
        stalled = now + self._owner.timeout
        while (left := min(stalled, self._ends) - now) > 0 or self._may_be_slow(stalled):
            self.settimeout(max(left, 0.001))
            try:
                return transfer(*args)
            except TimeoutError:
                now = time.monotonic()
            finally:
                self.settimeout(self._owner.timeout)
        self.late = True
        raise TimeoutError("timed out")  # the words that cheroot knows

    @property
    def _ends(self) -> float:
        patience = self._owner.patience
        return self._begun + (patience if self._slow else min(BRISK, patience))

    def _may_be_slow(self, stalled: float) -> bool:
        """Ask for more time, if there is a thread to spare."""
        if self._slow or self._ends >= stalled or not self._owner.slow.acquire(blocking=False):
            return False
        self._slow = True
        return True


class _Request(server.HTTPRequest):
    def send_headers(self) -> None:
        """Answer; close the connection where it is not sure where the next request begins."""
        if self.chunked_read or self.conn.socket.late:
            self.close_connection = True
        super().send_headers()


class _Connection(server.HTTPConnection):
    RequestHandlerClass = _Request

    def __init__(self, owner: HttpServer, sock: socket.socket, makefile: Any = MakeFile) -> None:
        super().__init__(owner, Line(sock, owner), makefile)

    def communicate(self) -> bool:
        """Answer one request; return whether the connection is kept."""
        if not self.server.enter(self):
            return False
        self.socket.begin()
        try:
            return bool(super().communicate())  # type: ignore[no-untyped-call]
        finally:
            self.socket.end()
            self.server.leave(self)


class HttpServer(wsgi.Server):
    """Cheroot, telling its own errors to the log."""

    ConnectionClass = _Connection

    def __init__(
        self,
        address: tuple[str, int],
        app: Callable[..., Any],
        *,
        patience: float,
        numthreads: int,
        **more: Any,
    ) -> None:
        """Make it.

        :param patience: seconds for a whole request to arrive, and for its answer to be taken.
        """
        super().__init__(address, app, numthreads, **more)
        self.patience = patience
        self.slow = threading.BoundedSemaphore(max(1, numthreads // 2))
        self._served: set[_Connection] = set()
        self._cut = False
        self._lock = threading.Lock()

    def enter(self, connection: _Connection) -> bool:
        """Note who is served; False when nobody is any more."""
        with self._lock:
            if not self._cut:
                self._served.add(connection)
            return not self._cut

    def leave(self, connection: _Connection) -> None:
        """Note that a connection waits for its next request, or ends."""
        with self._lock:
            self._served.discard(connection)

    def cut_off(self) -> None:
        """End every connection, whatever its client still sends or wants."""
        with self._lock:
            self._cut = True
            for connection in self._served:
                with suppress(OSError):
                    connection.socket.shutdown(socket.SHUT_RDWR)

    def error_log(self, msg: str = "", level: int = logging.INFO, traceback: bool = False) -> None:
        """Log what cheroot has to say."""
        exc = sys.exc_info()[1] if traceback else None
        LOG.log(level, "%s", errors.traced(msg, exc))
