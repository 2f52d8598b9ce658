"""The HTTP server: binding, bodies, stopping, and room for operators."""

from __future__ import annotations

import concurrent.futures
import contextlib
import json
import socket
import threading
import time
from collections import Counter
from http.client import HTTPConnection

import pytest
import requests

from deploysteps import exceptions, states
from deploysteps.api import wire
from deploysteps.api.app import create_app
from deploysteps.api.server import Server
from deploysteps.db import migration
from deploysteps.db.engine import Database
from tests import support
from tests.support_api import Refusing


def simple(environ, start_response):
    start_response("200 OK", [("Content-Length", "2")])
    return [b"ok"]


def listening(conf, app=simple, port=0):
    conf.set_override("port", port, group="api")
    server = Server(conf, app)
    server.start()
    return server


def test_an_address_that_is_taken_is_refused_by_name(conf):
    first = listening(conf)
    port = int(first.address.rpartition(":")[2])
    conf.set_override("port", port, group="api")
    with pytest.raises(exceptions.ConfigurationError, match=f"127.0.0.1:{port}"):
        Server(conf, simple).start()
    first.stop()
    again = listening(conf, port=port)
    assert requests.get(again.address, timeout=60).text == "ok"
    again.stop()
    again.stop()


def test_a_host_that_is_not_here_is_refused_by_name(conf):
    conf.set_override("host_ip", "192.0.2.1", group="api")
    with pytest.raises(exceptions.ConfigurationError, match="192.0.2.1:6385"):
        Server(conf, simple).start()


def test_ipv6(conf):
    if not socket.has_ipv6:
        pytest.skip("no IPv6 here")
    conf.set_override("host_ip", "::1", group="api")
    try:
        server = listening(conf)
    except exceptions.ConfigurationError as exc:
        pytest.skip(str(exc))
    assert server.address.startswith("http://[::1]:")
    assert requests.get(server.address, timeout=60).text == "ok"
    server.stop()


def test_stopping_lets_a_request_in_flight_finish(conf):
    inside, go = threading.Event(), threading.Event()

    def slow(environ, start_response):
        inside.set()
        assert go.wait(60)
        return simple(environ, start_response)

    server = listening(conf, slow)
    with concurrent.futures.ThreadPoolExecutor() as pool:
        answer = pool.submit(requests.get, server.address, timeout=60)
        assert inside.wait(60)
        stopped = pool.submit(server.stop)
        time.sleep(0.3)
        go.set()
        assert answer.result().text == "ok"
        stopped.result(timeout=60)
    with pytest.raises(requests.ConnectionError):
        requests.get(server.address, timeout=60)


def test_what_goes_wrong_below_the_application_is_logged(conf, caplog):
    def broken(environ, start_response):
        raise ZeroDivisionError

    server = listening(conf, broken)
    assert requests.get(server.address, timeout=60).status_code == 500
    server.stop()
    assert "ZeroDivisionError" in caplog.text and "Traceback" in caplog.text


def test_the_socket_way_there_and_back(http):
    answer = http("POST", "/v1/nodes/", {"driver": "test-hardware", "name": "n1"})
    assert answer.status_code == 201
    assert answer.headers["Location"].startswith(http.server.address)
    assert answer.headers["Content-Type"] == "application/json"
    deleted = http("DELETE", "/v1/nodes/n1")
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert http("GET", "/v1/nodes").json() == {"nodes": []}


def test_a_large_body_is_answered_in_words_over_a_socket(conf, http):
    """F14: the client sends all of it before it looks at the answer."""
    conf.set_override("max_request_body_bytes", 100_000, group="api")
    answer = http("POST", "/v1/nodes", data=b'"' + b"x" * 20_000_000 + b'"')
    assert answer.status_code == 413
    assert "100000 bytes" in answer.json()["error_message"]


def test_a_body_larger_than_any_patience_is_cut_off(http):
    """F14: the announced length alone is enough."""
    place = http.server.address.removeprefix("http://")
    connection = HTTPConnection(place, timeout=60)
    connection.putrequest("POST", "/v1/nodes")
    connection.putheader("Content-Length", str(10**12))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()


@pytest.mark.parametrize("size", [10, 200_000])
def test_chunked_bodies_are_read_and_limited(conf, http, size):
    conf.set_override("max_request_body_bytes", 100_000, group="api")
    body = json.dumps({"driver": "test-hardware", "description": "x" * size}).encode()
    pieces = (body[at : at + 1000] for at in range(0, len(body), 1000))
    assert http("POST", "/v1/nodes", data=pieces).status_code == (201 if size == 10 else 413)


@pytest.mark.parametrize(
    "chunks",
    [
        b"zz\r\nabc\r\n0\r\n\r\n",
        b"5\r\n%s\r\n0\r\n\r\n",
        b"-5\r\n%s\r\n0\r\n\r\n",
        b"0x1a\r\n%s\r\n0\r\n\r\n",
        b"+1a\r\n%s\r\n0\r\n\r\n",
        b"1_a\r\n%s\r\n0\r\n\r\n",
        b" 1a\r\n%s\r\n0\r\n\r\n",
        b"1a\n%s\r\n0\r\n\r\n",
        b"1a\r\n%s\r\n-0\r\n\r\n",
        b"1a\r\n%s\r\n",
    ],
)
def test_broken_chunks_are_the_clients_mistake(http, chunks):
    """F15: what Python takes for a number is none to the proxy in front."""
    head = b"POST /v1/nodes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    assert len(WHOLE) == 0x1A
    assert statuses(http, head + chunks.replace(b"%s", WHOLE)) == [400]
    assert http("GET", "/v1/nodes").json() == {"nodes": []}
    good = b"1A;note=x\r\n" + WHOLE + b"\r\n0\r\n\r\n"
    assert statuses(http, head + good) == [201]


WHOLE = b'{"driver":"test-hardware"}'


@pytest.mark.parametrize(
    ("length", "sent"), [(99, b'{"a": 1'), (99, WHOLE), (40, b""), (27, WHOLE)]
)
def test_a_body_that_is_cut_off_is_the_clients_mistake(http, length, sent):
    """F15: not even where what came is JSON, or may be left out."""
    head = f"POST /v1/nodes HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"
    assert statuses(http, head.encode() + sent) == [400]
    assert http("GET", "/v1/nodes").json() == {"nodes": []}


def test_a_request_whose_client_has_gone_amid_its_body_does_nothing(http):
    """A verb that needs no body was done without what the body would have said."""
    assert http("POST", "/v1/nodes", {"driver": "test-hardware", "name": "n1"}).status_code == 201
    head = b"PUT /v1/nodes/n1/maintenance HTTP/1.1\r\nHost: x\r\nContent-Length: 40\r\n\r\n"
    assert statuses(http, head) == [400]
    assert http("GET", "/v1/nodes/n1").json()["maintenance"] is False


def statuses(http, sent):
    """Send this and no more, and return the status of each answer."""
    with begun(http.server, sent) as line:
        line.shutdown(socket.SHUT_WR)
        got = b""
        with contextlib.suppress(ConnectionError):
            while piece := line.recv(65536):
                got += piece
    return [int(rest[:3]) for rest in got.split(b"HTTP/1.1 ")[1:]]


def test_headers_without_end_are_cut_off(http):
    answer = http("GET", "/v1/nodes", headers={"X-Long": "x" * 300_000})
    assert 400 <= answer.status_code < 500


def begun(server, sent):
    """A connection on which a part of a request was sent."""
    host, _, port = server.address.removeprefix("http://").rpartition(":")
    line = socket.create_connection((host, int(port)), timeout=60)
    line.sendall(sent)
    return line


HEADERS = b"POST /v1/nodes HTTP/1.1\r\nHost: x\r\nX-More: "
BODY = b'POST /v1/nodes HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"a": '
CHUNKS = b'POST /v1/nodes HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n3e8\r\n{"a": '


class Dripping:
    """Clients that send a byte now and then, and never end."""

    def __init__(self, server, sent, count=1):
        self.lines = [begun(server, sent) for _ in range(count)]
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._drip)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *exc):
        self._stop.set()
        self._thread.join()
        for line in self.lines:
            line.close()

    def _drip(self):
        while not self._stop.wait(0.2):
            for line in self.lines:
                with contextlib.suppress(OSError):
                    line.sendall(b" ")


@pytest.mark.parametrize("sent", [HEADERS, BODY, CHUNKS])
def test_a_request_that_drips_in_is_cut_off_after_its_time(conf, http_of, sent):
    """F24: each byte in time is not enough."""
    conf.set_override("request_timeout", 1.5, group="api")
    begin = time.monotonic()
    with Dripping(http_of().server, sent) as dripping:
        answer = dripping.lines[0].recv(65536)
    assert answer.startswith(b"HTTP/1.1 408")
    assert 1 < time.monotonic() - begin < 30


def test_a_client_that_does_not_take_its_answer_is_cut_off(conf):
    """F24: so does one that reads a byte now and then."""
    conf.set_override("request_timeout", 1.5, group="api")
    ended = threading.Event()

    class Body(list):
        def close(self):
            ended.set()

    def large(environ, start_response):
        start_response("200 OK", [("Content-Length", str(2**26))])
        return Body([b"x" * 2**26])

    server = listening(conf, large)
    with begun(server, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n") as line:
        until = time.monotonic() + 30
        while not ended.is_set() and time.monotonic() < until:
            line.recv(1)
            time.sleep(0.05)
        assert ended.is_set()
    server.stop()


@pytest.mark.parametrize("sent", [HEADERS, BODY, CHUNKS])
def test_slow_clients_leave_room_for_the_others(conf, http_of, sent, monkeypatch):
    """F24: more of them than threads, long before their time is over."""
    monkeypatch.setattr(wire, "BRISK", 0.5)
    conf.set_override("threads", 4, group="api")
    http = http_of()
    with Dripping(http.server, sent, 6):
        time.sleep(0.1)
        begin = time.monotonic()
        assert http("GET", "/v1").status_code == 200
        assert time.monotonic() - begin < 30, "the time of a request is twice that"
        assert http("GET", "/v1").status_code == 200


def test_a_slow_client_is_served_when_there_is_room(monkeypatch, http):
    monkeypatch.setattr(wire, "BRISK", 0.2)
    body = json.dumps({"driver": "test-hardware", "name": "slow"}).encode()
    head = f"POST /v1/nodes HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
    for _ in range(12):  # more often than there are places
        with begun(
            http.server, head.encode() + b"X-OpenStack-Ironic-API-Version: 1.115\r\n"
        ) as line:
            time.sleep(0.3)
            line.sendall(b"\r\n" + body)
            assert line.recv(100).split()[1] in (b"201", b"409")


@pytest.mark.parametrize("sent", [HEADERS, BODY])
def test_stopping_does_not_wait_for_slow_clients(conf, http_of, sent):
    """F49: nor for those behind them that wait for a thread."""
    conf.set_override("threads", 4, group="api")
    conf.set_override("graceful_shutdown_timeout", 1, group="conductor")
    server = http_of().server
    with Dripping(server, sent, 7):
        time.sleep(0.3)
        begin = time.monotonic()
        assert server.stop()
        assert time.monotonic() - begin < 30, "the time of a request is twice that"


def test_no_request_is_lost_when_one_of_two_servers_stops(conf, monkeypatch):
    """F49: who is refused a connection takes the other server; who has one is answered."""
    monkeypatch.setattr(wire, "_HEARD", 30)  # clients may be kept from running between two calls

    def working(environ, start_response):
        time.sleep(0.005)
        return simple(environ, start_response)

    staying, leaving = listening(conf, working), listening(conf, working)
    places = [one.address.removeprefix("http://") for one in (leaving, staying)]
    stop, answered, lost = threading.Event(), Counter(), []

    def client():
        while not stop.wait(0.02):
            for place in places:
                connection = HTTPConnection(place, timeout=60)
                try:
                    connection.connect()
                except ConnectionRefusedError:
                    continue
                try:
                    connection.request("GET", "/")
                    assert connection.getresponse().read() == b"ok"
                    answered[place] += 1
                except Exception as exc:
                    lost.append(exc)
                finally:
                    connection.close()
                break

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        clients = [pool.submit(client) for _ in range(4)]
        support.until(lambda: answered[places[0]] >= 50)
        assert leaving.stop()
        before = answered[places[1]]
        support.until(lambda: answered[places[1]] >= before + 50)
        stop.set()
        for one in clients:
            one.result(60)
    staying.stop()
    assert not lost


def test_stopping_does_not_wait_for_a_request_without_end(conf):
    inside, go = threading.Event(), threading.Event()

    def endless(environ, start_response):
        inside.set()
        assert go.wait(60)
        return simple(environ, start_response)

    conf.set_override("graceful_shutdown_timeout", 0.2, group="conductor")
    server = listening(conf, endless)
    with begun(server, b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"):
        assert inside.wait(60)
        begin = time.monotonic()
        assert not server.stop()
        assert time.monotonic() - begin < 30
        go.set()


def test_what_follows_a_chunked_body_is_no_request(http):
    """Nobody's bytes become a request because those before were not read."""
    inner = b"GET /v1/conductors HTTP/1.1\r\nHost: y\r\n\r\n"
    size = b"%x" % len(inner)
    head = b"POST /v1/nope HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    with begun(http.server, head + size + b"\r\n" + inner + b"\r\n0\r\n\r\n") as line:
        answer = b""
        with contextlib.suppress(ConnectionError):
            while piece := line.recv(65536):
                answer += piece
    assert answer.count(b"HTTP/1.1 ") == 1 and answer.startswith(b"HTTP/1.1 404")


def test_a_driver_that_wants_to_exit_does_not_stop_the_server(conf):
    """F51."""
    refusing = Refusing(SystemExit(3))
    database = Database(f"sqlite:///{conf.state_path}/exit.sqlite")
    migration.ensure(database)
    server = listening(conf, create_app(conf, database, refusing))
    body = {"driver": "x"}
    for _ in range(2):
        assert requests.post(f"{server.address}/v1/nodes", json=body, timeout=60).status_code == 500
    assert requests.get(f"{server.address}/v1/nodes", timeout=60).status_code == 200
    server.stop()
    database.dispose()


def test_an_abort_is_answered_soon_amid_heartbeats(http, service):
    """F24: saturated with beats, an operator's request finds a thread."""
    node = support.enrolled(service, name="n1")
    provision = f"/v1/nodes/{node.uuid}/states/provision"
    assert http("PUT", provision, {"target": "active"}).status_code == 202
    support.settle(service.database, node.uuid, states.DEPLOYWAIT)
    stop = threading.Event()
    body = {"callback_url": "http://192.0.2.1/", "agent_token": "x" * 43}
    seen = set()

    def agent():
        with requests.Session() as session:
            while not stop.is_set():
                url = f"{http.server.address}/v1/heartbeat/{node.uuid}"
                headers = {"X-OpenStack-Ironic-API-Version": "1.68"}
                seen.add(session.post(url, json=body, headers=headers, timeout=60).status_code)

    agents = [threading.Thread(target=agent) for _ in range(16)]
    for thread in agents:
        thread.start()
    time.sleep(0.5)
    begun = time.monotonic()
    answer = http("PUT", provision, {"target": "abort"})
    took = time.monotonic() - begun
    stop.set()
    for thread in agents:
        thread.join()
    assert answer.status_code == 202
    assert took < 10
    assert seen <= {400, 503}
