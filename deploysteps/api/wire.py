"""Cheroot, with what it lacks: limits on how long a client may take, and an end to waiting.

Cheroot gives a client time for each piece that it sends; one that sends a
byte now and then would hold a thread for ever. Here a request as a whole has
to arrive in time, and its answer has to be taken in time.
"""

from __future__ import annotations

import functools
import logging
import resource
import socket
import ssl
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any, NamedTuple, TypeVar

from cheroot import server, wsgi
from cheroot.makefile import MakeFile

from deploysteps.addresses import is_loopback
from deploysteps.api import errors, heads
from deploysteps.api.hosts import LOCAL_ONLY
from deploysteps.api.threads import Threads

LOG = logging.getLogger(__name__)
T = TypeVar("T")

_PIECE = 64 * 2**10
BRISK = 2.0
"""Seconds; what takes longer is slow, and half of the threads are for what is slow."""
_CROWDED = 0.25
"""The same while others wait for a thread."""
_KEPT = 1000
"""Connections that wait for a request, or for the rest of its head, and are kept."""
_OTHERS = 256
"""Files that the process may open for other things."""
_LAST, _HEARD = 0.02, 0.5
"""Seconds at a stop: between two looks; for a first request to come of who is connected."""
_PEEKED = 16 * 2**10
"""Bytes of a head that are waited for without a thread."""


class _Timed(socket.socket):
    """A client's socket, whose transfers have to be done in time."""

    def own(self, owner: HttpServer) -> None:
        """Begin to serve it."""
        self.settimeout(owner.timeout)
        self._owner = owner
        self._way = ""
        self._begun = 0.0
        self._slow = False
        self._since: float | None = None
        """When the head of the next request began to arrive, while it does without a thread."""
        self._held = -1
        self.late = False
        """Whether the client took too long: what is left of its request will not be read."""

    def begin(self) -> None:
        """Start the clock, once a thread is there for the next request.

        What its head took to arrive before, without a thread, counts.
        """
        self._way, since, self._since = "", self._since, None
        if since is not None:
            self._way, self._begun = "receive", since

    def has_head(self) -> bool:
        """Tell whether the head of the next request is there; the selector waits for more.

        It is called again when there is more, or the client is gone, and only then.
        """
        now = time.monotonic()
        self._since = self._since or now
        self.setblocking(False)
        try:
            held = self.recv(_PEEKED, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True  # what is wrong is told where it is read
        finally:
            self.settimeout(self._owner.timeout)
        more = 0 < len(held) < _PEEKED and not heads.is_whole(held)
        late = now - self._since >= self._owner.patience
        waits = more and not late and self._held != len(held)
        self._held = len(held) if waits else -1
        self.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, len(held) + 1 if waits else 1)
        if not waits and not late:
            self._since = None
        return not waits

    def end(self) -> None:
        """Make room for another slow client."""
        if self._slow:
            self._slow = False
            self._owner.slow.release()

    def recv_into(self, *args: Any) -> int:
        """Receive, in time."""
        return self.in_time("receive", super().recv_into, *args)

    def send(self, *args: Any) -> int:
        """Send, in time."""
        return self.in_time("send", super().send, *args)

    def in_time(self, way: str, transfer: Callable[..., T], *args: Any) -> T:
        """Transfer a piece.

        :raises TimeoutError: the client took too long, for this piece or in all.
        """
        now = time.monotonic()
        if way != self._way:  # both ways have their time: what the work takes is not the client's
            self._way, self._begun = way, now
        stalled = now + self._owner.timeout
        while (left := min(stalled, self._ends) - now) > 0 or self._may_be_slow(stalled):
            self.settimeout(max(min(left, _CROWDED), 0.001))  # others may come meanwhile
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
        if self._slow:
            return self._begun + patience
        brisk = _CROWDED if self._owner.requests.is_crowded else BRISK
        return self._begun + min(brisk, patience)

    def _may_be_slow(self, stalled: float) -> bool:
        """Ask for more time, if there is a thread to spare."""
        if self._slow or self._ends >= stalled or not self._owner.slow.acquire(blocking=False):
            return False
        self._slow = True
        return True


class Line(_Timed):
    """A client's socket."""

    def __init__(self, plain: socket.socket, owner: HttpServer) -> None:
        """Take over a socket."""
        super().__init__(fileno=plain.detach())
        self.own(owner)


class SecureLine(_Timed, ssl.SSLSocket):
    """A client's socket with TLS.

    Cheroot would shake hands where it accepts connections: a client that is
    slow then would keep all others out. Here a thread does it that serves.
    """

    _shaken = False

    def shake(self) -> bool:
        """Shake hands, once; return whether it is done."""
        if self._shaken:
            return True
        try:
            self.in_time("receive", self.do_handshake)
        except (OSError, ValueError) as exc:  # ssl's own errors are kinds of them
            LOG.info("A client did not shake hands: %s", exc)
            if getattr(exc, "reason", None) == "HTTP_REQUEST":
                with suppress(OSError):
                    socket.socket.send(self, _ONLY_HTTPS)  # past TLS, as the client spoke
            return False
        self._shaken = True
        return True


_ONLY_HTTPS = (
    b"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: 43\r\n"
    b"Connection: close\r\n\r\nThis port speaks https; begin with https://"
)


TAKE_OVER = "deploysteps.take_over"
"""In the environment of a request: a function that is given who takes the connection over
when the head of a good answer was sent: see :meth:`_Connection.hand_over`."""


class Taken(NamedTuple):
    """A connection whose answer another goes on with."""

    sock: socket.socket
    send: Callable[[memoryview], int]
    chunked: bool
    """Whether the body is sent in chunks; else it ends with the connection."""


Taker = Callable[[Taken | None], None]
"""Is given None when there is no connection to be had: the answer was a refusal."""


class _Request(server.HTTPRequest):
    header_reader = heads.Reader()

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self.inheaders = heads.Headers()

    def read_request_headers(self) -> bool:
        """Read the headers; return whether the request can be answered."""
        if not super().read_request_headers():  # type: ignore[no-untyped-call]
            return False
        why = heads.doubt(self.inheaders, self.request_protocol)
        if why is not None:
            self.simple_response("400 Bad Request", why)
        return why is None

    def send_headers(self) -> None:
        """Answer; close the connection where it is not sure where the next request begins."""
        if self.chunked_read or self.conn.socket.late or self.server.leaving:
            self.close_connection = True
        if self.conn.taker is not None and int(self.status[:3]) == 200:
            self.conn.headed, self.close_connection = True, True
        if not (self.close_connection or self.chunked_read):
            self._drain()
        super().send_headers()

    def _drain(self) -> None:
        """Read away what a refused request still has, piece by piece: cheroot keeps all of it."""
        while getattr(self.rfile, "remaining", 0) > 0:
            if not self.rfile.read(min(self.rfile.remaining, _PIECE)):
                self.close_connection = True
                return


class _Gateway(wsgi.Gateway_10):
    def get_environ(self) -> Any:
        """Return the environment of a request, with the way to take its connection over."""
        if isinstance(self.req.rfile, server.ChunkedRFile):
            self.req.rfile.rfile = heads.ChunkSizes(self.req.rfile.rfile)
        environ: Any = super().get_environ()  # type: ignore[no-untyped-call]
        # The scheme is not the client's to say, as the first line of a request could.
        scheme = "http" if self.req.server.tls is None else "https"
        return {
            **environ,
            TAKE_OVER: self.req.conn.hand_over,
            LOCAL_ONLY: self.req.server.local_only,
            "wsgi.url_scheme": scheme,
        }

    def respond(self) -> None:
        """Answer; where another goes on with it, the last chunk is not cheroot's to send."""
        super().respond()
        if self.req.conn.headed:
            self.req.conn.chunked, self.req.chunked_write = self.req.chunked_write, False


class _Connection(server.HTTPConnection):
    RequestHandlerClass = _Request
    taker: Taker | None = None
    chunked = False
    greeted = False
    headed = False
    """Whether the head of the answer that the taker goes on with was begun."""

    def __init__(self, owner: HttpServer, sock: socket.socket, makefile: Any = MakeFile) -> None:
        super().__init__(owner, _line(sock, owner), makefile)

    def communicate(self) -> bool:
        """Answer one request; return whether the connection is kept."""
        try:
            return self._served()
        finally:
            self.server.requests.done()

    def _served(self) -> bool:
        if not self.server.enter(self):
            return False
        self.socket.begin()
        try:
            if isinstance(self.socket, SecureLine) and not self.socket.shake():
                return False
            kept = bool(super().communicate())  # type: ignore[no-untyped-call]
            return kept and not self.headed
        finally:
            self.socket.end()
            self.server.leave(self)
            self._give()

    def hand_over(self, taker: Taker) -> None:
        """Let another go on with the answer, once its head is sent: it holds no thread here."""
        self.taker = taker

    def _give(self) -> None:
        taker, self.taker = self.taker, None
        if taker is None:
            return
        if not self.headed:
            taker(None)
        elif isinstance(self.socket, ssl.SSLSocket):
            send = functools.partial(ssl.SSLSocket.send, self.socket)  # past this class's clock
            taker(Taken(self.socket, send, self.chunked))
        else:
            plain = socket.socket(fileno=self.socket.detach())
            taker(Taken(plain, plain.send, self.chunked))

    def close(self) -> None:
        """Close, unless it is another's now."""
        self.server._fresh.discard(self)
        if self.headed:
            self.rfile.close()
        else:
            super().close()


def _line(sock: socket.socket, owner: HttpServer) -> _Timed:
    if owner.tls is None:
        return Line(sock, owner)
    secure = owner.tls.wrap_socket(sock, server_side=True, do_handshake_on_connect=False)
    assert isinstance(secure, SecureLine)  # noqa: S101  # the context was told so
    secure.own(owner)
    return secure


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
        tls: ssl.SSLContext | None = None,
        **more: Any,
    ) -> None:
        """Make it.

        :param patience: seconds for a whole request to arrive, and for its answer to be taken.
        :param tls: serve https with it.
        """
        super().__init__(address, app, numthreads, **more)
        self.requests = Threads(self, numthreads)
        files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        known = files != resource.RLIM_INFINITY
        self.keep_alive_conn_limit = max(16, min(_KEPT, files - _OTHERS)) if known else _KEPT
        self.gateway = _Gateway
        self.local_only = is_loopback(address[0])
        self.patience = patience
        self.tls = tls
        if tls is not None:
            tls.sslsocket_class = SecureLine
        self.slow = threading.BoundedSemaphore(max(1, numthreads // 2))
        self._served: set[_Connection] = set()
        self._fresh: set[_Connection] = set()
        """Connections whose first request is still on its way."""
        self.leaving = False
        self._cut = False
        self._lock = threading.Lock()

    def process_conn(self, conn: _Connection) -> None:
        """Give a connection a thread, once the head of a request is there.

        With TLS, which cannot be looked into, once its client has begun to shake hands.
        """
        if not conn.greeted:
            if not self.can_add_keepalive_connection:
                conn.close()  # else there would soon be no file to accept another with
                return
            conn.greeted = True
            self._fresh.add(conn)
            self.put_conn(conn)  # comes back when there is something to read
        elif self.tls is None and not conn.rfile.has_data() and not conn.socket.has_head():
            self.put_conn(conn)
        else:
            super().process_conn(conn)

    def enter(self, connection: _Connection) -> bool:
        """Note who is served; False when nobody is any more."""
        with self._lock:
            self._fresh.discard(connection)
            if not self._cut:
                self._served.add(connection)
            return not self._cut

    def leave(self, connection: _Connection) -> None:
        """Note that a connection waits for its next request, or ends."""
        with self._lock:
            self._served.discard(connection)

    def stop(self) -> None:
        """Take nothing new, and let what is under way finish."""
        if self.ready and not self.leaving:
            self._leave()
        super().stop()

    def _leave(self) -> None:
        """Shut the door behind those who have come, and hear them out.

        Whoever is refused a connection takes another server; one that was made and is then broken
        may have done something or not. Cheroot would break those that wait in line, too.
        """
        self.leaving = True
        door, self.socket = self.socket, None
        manager: Any = self._connections  # type: ignore[attr-defined]
        manager._selector.unregister(door.fileno())
        time.sleep(_LAST)  # who is being let in just now
        door.settimeout(0)
        while (found := manager._from_server_socket(door)) is not None:
            self.process_conn(found)
        door.close()
        until = time.monotonic() + _HEARD
        while self._fresh and time.monotonic() < until:
            time.sleep(_LAST)

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
