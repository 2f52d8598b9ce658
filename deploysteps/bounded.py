"""HTTP exchanges, by ``requests``, that are over in time whatever the other side does.

A time-out of a socket, and so of ``requests``, begins anew with every byte, and
an answer has many places to send bytes slowly: the status line, headers, any
number of ``100 Continue``, sizes of chunks, trailers. Here one moment counts for
all of it.
"""

from __future__ import annotations

import contextvars
import http.client
import io
import socket
import time
from typing import Any

import requests
import urllib3
from requests.adapters import HTTPAdapter
from urllib3.connection import HTTPConnection, HTTPSConnection

_until: contextvars.ContextVar[float] = contextvars.ContextVar("_until")
"""Monotonic time by which the exchange that goes on here has to be over."""


def within(seconds: float) -> None:
    """Say how long the exchange may take that this thread begins now.

    Without it an :class:`Adapter` reads no answer at all.
    """
    _until.set(time.monotonic() + seconds)


class _Bounded(io.RawIOBase):
    """Reads from a socket until the exchange's time is over."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._raw = sock.makefile("rb", buffering=0)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        left = _until.get() - time.monotonic()
        if left <= 0:
            raise TimeoutError("the answer did not end in time")
        self._sock.settimeout(left)
        return self._raw.readinto(buffer)

    def close(self) -> None:
        self._raw.close()
        super().close()


class _Answer(http.client.HTTPResponse):
    def __init__(self, sock: socket.socket, *args: Any, **kwargs: Any) -> None:
        super().__init__(sock, *args, **kwargs)
        self.fp.close()
        self.fp = io.BufferedReader(_Bounded(sock))


class _Http(HTTPConnection):
    response_class = _Answer


class _Https(HTTPSConnection):
    response_class = _Answer


class _HttpPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _Http


class _HttpsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _Https


class Adapter(HTTPAdapter):
    """Reads answers until the time given by :func:`within`, and no longer."""

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        """Make pools of connections whose answers are bounded."""
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = {"http": _HttpPool, "https": _HttpsPool}


class Session(requests.Session):
    """Leaves unread what it is not asked to read, of an answer that redirects too.

    Of such a one, also when it is not to follow it, ``requests`` takes all into memory, unpacked.
    """

    def get_redirect_target(self, resp: requests.Response) -> None:
        """Answers lead nowhere."""
