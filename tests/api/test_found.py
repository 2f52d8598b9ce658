"""Below the application: how requests are framed, what heads they have, and who waits."""

from __future__ import annotations

import contextlib
import socket
import time

import pytest

from deploysteps.api.server import Server


def simple(environ, start_response):
    start_response("200 OK", [("Content-Length", "2")])
    environ["wsgi.input"].read()
    SEEN.append({name: value for name, value in environ.items() if name.startswith("HTTP_X_")})
    return [b"ok"]


SEEN = []


@pytest.fixture
def server(conf):
    """A server with two threads."""
    conf.set_override("host_ip", "127.0.0.1", group="api")
    conf.set_override("port", 0, group="api")
    conf.set_override("threads", 2, group="api")
    made = Server(conf, simple)
    made.start()
    yield made
    made.stop()


def line(server):
    host, _, port = server.address.removeprefix("http://").rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def answered(server, sent):
    """Return all that comes back until the connection ends."""
    with line(server) as sock:
        sock.sendall(sent)
        sock.settimeout(60)
        got = b""
        with contextlib.suppress(TimeoutError):
            while more := sock.recv(65536):
                got += more
        return got


def asked(server):
    """Return how many seconds an ordinary request takes."""
    begun = time.monotonic()
    got = answered(server, b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 200")
    return time.monotonic() - begun


INNER = b"GET /smuggled HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
HOST = b"Host: x\r\n"


@pytest.mark.parametrize(
    "headers",
    [
        HOST + b"Content-Length: +2\r\n",
        HOST + b"Content-Length: 0_2\r\n",
        HOST + b"Content-Length: -1\r\n",
        HOST + b"Content-Length: 0x2\r\n",
        HOST + b"Content-Length: 2, 2\r\n",
        HOST + b"Content-Length: \r\n",
        HOST + b"Content-Length : 2\r\n",
        HOST + b"Content-Length: 2\r\nContent-Length: 59\r\n",
        HOST + b"Content-Length: 2\r\ncontent-length: 2\r\n",
        HOST + b"X: a\r\n b\r\nContent-Length: 2\r\n",
        HOST + b"Content-Length: 0\r\n\t2\r\n",
        HOST + b"X: a\rContent-Length: 2\r\n",
        HOST + b"X: a\0\r\nContent-Length: 2\r\n",
        HOST + b"Transfer-Encoding : chunked\r\n",
        HOST + b"Transfer-Encoding: chunked\r\nContent-Length: 2\r\n",
        HOST + b"Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        HOST + b"Transfer-Encoding: \r\nContent-Length: 2\r\n",
        HOST + b"Transfer-Encoding: ,\r\n",
        HOST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
        HOST + b"X(: a\r\nContent-Length: 2\r\n",
        HOST + b": a\r\nContent-Length: 2\r\n",
        HOST + HOST + b"Content-Length: 2\r\n",
        HOST + b"Authorization: Basic eDp5\r\nAuthorization: Basic eDp6\r\nContent-Length: 2\r\n",
        b"Content-Length: 2\r\n",
    ],
)
def test_a_doubtful_head_is_refused_and_nothing_is_read_after_it(server, headers):
    """Behind a proxy that reads it in another way, what follows would be another's request."""
    got = answered(server, b"POST / HTTP/1.1\r\n" + headers + b"\r\n{}" + INNER)
    assert got.startswith(b"HTTP/1.1 400") and got.count(b"HTTP/1.1 ") == 1, got


@pytest.mark.parametrize("protocol", [b"HTTP/1.0", b"HTTP/1.01"])
def test_only_a_request_of_http_1_1_comes_in_chunks(server, protocol):
    """To cheroot it has no body, and the first chunk begins the next request."""
    head = b"POST / " + protocol + b"\r\nHost: x\r\nConnection: Keep-Alive\r\n"
    got = answered(server, head + b"Transfer-Encoding: chunked\r\n\r\n" + INNER)
    assert b"400 Bad Request" in got and got.count(b"HTTP/1.1 ") == 1, got


def test_an_ordinary_head_is_none_of_these(server):
    sent = b"POST / HTTP/1.1\r\nHost: x\r\nAccept: a\r\nAccept: b\r\nX-Long: a b\tc\r\n"
    got = answered(server, sent + b"Content-Length: 2\r\n\r\n{}" + INNER)
    assert got.count(b"HTTP/1.1 200") == 2
    assert answered(server, b"GET / HTTP/1.0\r\n\r\n").startswith(b"HTTP/1.1 200")


def test_a_header_with_an_underscore_is_not_the_one_of_the_proxy(server):
    """For WSGI both have the same name, and the last one counted."""
    sent = b"GET / HTTP/1.1\r\nHost: x\r\nX-Forwarded-Host: a\r\nX_Forwarded_Host: evil\r\n"
    got = answered(server, sent + b"X_Forwarded_Proto: https\r\nConnection: close\r\n\r\n")
    assert got.startswith(b"HTTP/1.1 200") and SEEN[-1] == {"HTTP_X_FORWARDED_HOST": "a"}


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: x\r\nX: "])
def test_who_has_not_asked_yet_holds_no_thread(server, sent):
    """F24: two hundred connections kept everybody out for half a minute."""
    with contextlib.ExitStack() as open_lines:
        for _ in range(100):
            sock = open_lines.enter_context(line(server))
            sock.sendall(sent)
        time.sleep(0.2)
        assert max(asked(server) for _ in range(5)) < 25
        sock.sendall(b"\r\n\r\n" if sent else b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 200")


def test_there_are_always_files_left(server):
    """Without one to accept with, those that wait would not even be let go after their time."""
    server._server.keep_alive_conn_limit = 5
    with contextlib.ExitStack() as open_lines:
        lines = [open_lines.enter_context(line(server)) for _ in range(8)]
        lines[-1].settimeout(60)
        assert lines[-1].recv(1) == b""
    time.sleep(0.7)
    assert asked(server) < 25


def test_a_head_may_come_in_pieces(server):
    with line(server) as sock:
        for _ in range(2):
            for piece in (b"GET / HT", b"TP/1.1\r\nHo", b"st: x\r", b"\n", b"\r\n"):
                sock.sendall(piece)
                time.sleep(0.05)
            assert sock.recv(4096).startswith(b"HTTP/1.1 200")


def test_who_leaves_in_the_middle_of_a_head_is_let_go(server):
    got = []
    with line(server) as sock:
        sock.sendall(b"GET / HTTP/1.1\r\nHos")
        sock.shutdown(socket.SHUT_WR)
        got.append(sock.recv(100))
    assert got[0] == b"" or got[0].startswith(b"HTTP/1.1 400")
    assert asked(server) < 25


def test_slow_bodies_do_not_keep_others_waiting(server):
    """F24: while others wait for a thread, a body has a quarter of a second."""
    head = b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"
    with contextlib.ExitStack() as open_lines:
        for _ in range(8):
            open_lines.enter_context(line(server)).sendall(head)
        time.sleep(0.1)
        assert asked(server) < 25
