"""One HTTP exchange with an agent, trusting no more than it has to.

The agent's address came over the network. So: TLS against exactly the
certificate that the agent sent with its heartbeat, no proxy, netrc or CA
bundle of the environment, no redirect, a bounded answer and bounded time. The
token goes only into the query, and no error text has a query.
"""

from __future__ import annotations

import http.cookiejar
import json
import logging
import math
import re
import ssl
import threading
import time
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import requests
import urllib3
from requests.structures import CaseInsensitiveDict

from deploysteps import bounded, limits, secrets
from deploysteps.drivers.agent.errors import Busy, Gone, Refused, Unreachable

_HEADERS = {
    "Content-Type": "application/json",
    "Accept": "application/json",
    "Accept-Encoding": "identity",
    "User-Agent": "deploysteps",
}
_CHUNK = 64 * 1024
_MOST_DEEP = 2 * limits.MOST_DEEP
"""Levels of an answer: steps are some way inside it."""
_TOLD = 2000
"""Characters of an agent's error text that are repeated."""


class _WithoutTokens(logging.Filter):
    """Takes tokens out of what a library logs of the URLs that it fetches."""

    def filter(self, record: logging.LogRecord) -> bool:
        record.msg, record.args = secrets.masked_urls(record.getMessage()), ()
        return True


# It logs each request with its query at DEBUG, which an operator may switch on.
logging.getLogger("urllib3.connectionpool").addFilter(_WithoutTokens())


class _PinnedAdapter(bounded.Adapter):
    """Uses one SSL context and nothing that ``requests`` would add to it."""

    def __init__(self, context: ssl.SSLContext | None) -> None:
        self._context = context
        super().__init__(max_retries=0, pool_connections=1, pool_maxsize=1)

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, ssl_context=self._context, **kwargs)

    def build_connection_pool_key_attributes(
        self, request: Any, verify: Any, cert: Any = None
    ) -> Any:
        host, _ = super().build_connection_pool_key_attributes(request, verify, cert)
        return host, {"ssl_context": self._context} if host["scheme"] == "https" else {}

    def cert_verify(self, conn: Any, url: Any, verify: Any, cert: Any) -> None:
        """Leave the context alone: requests would load its bundle of public CAs into it."""


def context_of(pem: str | None) -> ssl.SSLContext:
    """Return a TLS client context that trusts what ``pem`` holds, and nothing else.

    :raises Refused: it holds no certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_verify_locations(cadata=pem or "")
    except (ssl.SSLError, ValueError, TypeError) as exc:  # a TypeError: not ASCII
        raise Refused(
            f"the agent's certificate (agent_verify_ca) cannot be read: {type(exc).__name__}"
        ) from None
    return context


def exchange(
    method: str,
    url: str,
    *,
    query: Mapping[str, str],
    body: Any = None,
    pem: str | None = None,
    connect_timeout: float,
    read_timeout: float,
    largest: int,
) -> Any:
    """Send a request and return the JSON of a 200 answer.

    :param url: without a query.
    :param query: has the token; it is repeated nowhere.
    :param pem: the certificate to trust, for an https URL.
    :param connect_timeout: seconds to reach the agent.
    :param read_timeout: seconds for the answer to begin, and for all of it.
    :param largest: bytes of an answer that is still read.
    :raises Unreachable: no answer, or a 5xx.
    :raises Busy, Gone, Refused: the agent said so.
    """
    whom = _whom(url)
    data = None if body is None else json.dumps(body).encode()
    session = _session_for(url, pem)
    bounded.within(connect_timeout + read_timeout)
    try:
        with session.request(
            method,
            url,
            params=dict(query),
            data=data,
            timeout=(connect_timeout, read_timeout),
            allow_redirects=False,
            stream=True,
        ) as response:
            status = response.status_code
            content = _read(response, whom, read_timeout, largest)
    except requests.exceptions.SSLError as exc:
        raise Refused(f"{whom} cannot be trusted: {_tls_reason(exc)}") from None
    except (requests.RequestException, urllib3.exceptions.HTTPError, OSError) as exc:
        raise _unreachable(whom, exc) from None
    return _judged(whom, status, content)


_SESSIONS: OrderedDict[tuple[str, str | None], requests.Session] = OrderedDict()
_SESSIONS_LOCK = threading.Lock()
_MOST_SESSIONS = 64
"""Agents to which a connection may be kept open: a chain of short steps then needs no
handshake for each question. The one that was used longest ago is closed."""


def _session_for(url: str, pem: str | None) -> requests.Session:
    """Return the session of an agent: its host and the certificate that it sent."""
    parts = urlsplit(url)
    key = (f"{parts.scheme}://{parts.netloc}", pem)
    with _SESSIONS_LOCK:
        session = _SESSIONS.get(key)
        if session is None:
            session = _SESSIONS[key] = _session(parts.scheme, pem)
        _SESSIONS.move_to_end(key)
        while len(_SESSIONS) > _MOST_SESSIONS:
            _SESSIONS.popitem(last=False)[1].close()
    return session


def _session(scheme: str, pem: str | None) -> requests.Session:
    """Return a session that speaks this scheme, by this certificate, and nothing else."""
    context = context_of(pem) if scheme == "https" else None
    session = bounded.Session()
    session.trust_env = False
    session.cookies.set_policy(http.cookiejar.DefaultCookiePolicy(allowed_domains=[]))
    session.headers = CaseInsensitiveDict(_HEADERS)
    session.adapters.clear()
    session.mount(f"{scheme}://", _PinnedAdapter(context))
    return session


def _read(response: requests.Response, whom: str, seconds: float, largest: int) -> bytes:
    """Read an answer of bounded size in bounded time."""
    until = time.monotonic() + seconds
    found = bytearray()
    # As it comes: an answer of single bytes with long pauses is seen to be one.
    while chunk := response.raw.read1(_CHUNK):
        found += chunk
        if len(found) > largest:
            raise Refused(f"{whom} sent an answer of more than {largest} bytes")
        if time.monotonic() > until:
            raise Unreachable(f"{whom} did not end its answer within {seconds:g} s")
    return bytes(found)


def _number(text: str) -> float | None:
    """Return a number, or None for what no JSON has: what else an answer says still counts."""
    found = float(text)
    return found if math.isfinite(found) else None


_NUMBERS: dict[str, Any] = {"parse_float": _number, "parse_constant": lambda _name: None}


def _judged(whom: str, status: int, content: bytes) -> Any:
    try:
        value = json.loads(content, **_NUMBERS) if content else None
    except (ValueError, RecursionError):
        value = None
    if limits.depth(value, _MOST_DEEP) > _MOST_DEEP:
        value = None
    if status == 200:
        if not isinstance(value, Mapping):
            raise Refused(
                f"{whom} answered what is no JSON object of at most {_MOST_DEEP} levels",
                status=status,
            )
        return value
    told = f"{whom} answered {status}{_fault(value)}"
    if status >= 500:
        raise Unreachable(told)
    if 300 <= status < 400:
        told = f"{whom} answered with a redirect ({status}), which is not followed"
    raise {404: Gone, 409: Busy}.get(status, Refused)(told, status=status)


def _fault(value: Any) -> str:
    """Return what the error body of an agent says."""
    text = value.get("faultstring") if isinstance(value, Mapping) else None
    return f": {text[:_TOLD]}" if isinstance(text, str) and text else ""


def _whom(url: str) -> str:
    parts = urlsplit(url)
    return f"the agent at {parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _unreachable(whom: str, exc: BaseException) -> Unreachable:
    """Return what to say of a request without an answer; no text of a library is repeated.

    Such texts have the URL, and with it the token.
    """
    if isinstance(exc, requests.exceptions.ConnectTimeout):
        return Unreachable(f"{whom} cannot be reached: no connection in time", taken=False)
    if isinstance(exc, requests.exceptions.ReadTimeout | urllib3.exceptions.ReadTimeoutError):
        return Unreachable(f"{whom} did not answer in time")
    cause: BaseException | None = exc
    for _ in range(8):  # requests wraps urllib3, which wraps the socket's own error
        if isinstance(cause, ConnectionRefusedError):
            return Unreachable(f"{whom} refuses connections", taken=False)
        if cause is None:
            break
        cause = _inner(cause)
    return Unreachable(f"{whom} broke the connection ({type(exc).__name__})")


def _inner(exc: BaseException) -> BaseException | None:
    named = [getattr(exc, "reason", None), *exc.args, exc.__cause__, exc.__context__]
    return next((inner for inner in named if isinstance(inner, BaseException)), None)


def _tls_reason(exc: BaseException) -> str:
    found = re.search(r"certificate verify failed: [\w '.,-]{1,120}", str(exc))
    return found[0] if found else "the TLS handshake failed"
