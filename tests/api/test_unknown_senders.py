"""What senders without a password cost: over a real socket (F14, issue 4, 3)."""

from __future__ import annotations

import http.client
import tracemalloc

import bcrypt
import pytest

from deploysteps.api.app import create_app
from deploysteps.api.server import Server
from tests.support_api import Recording

MIB = 2**20


@pytest.fixture
def address(conf, sqlite, tmp_path):
    users = tmp_path / "htpasswd"
    users.write_text(f"alice:{bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode()}\n")
    conf.set_override("auth_strategy", "http_basic")
    conf.set_override("http_basic_auth_user_file", str(users))
    conf.set_override("port", 0, group="api")
    server = Server(conf, create_app(conf, sqlite, Recording()))
    server.start()
    yield server.address.removeprefix("http://")
    server.stop()


def test_a_large_body_without_a_password_is_read_away_and_not_kept(address):
    """The client sees the refusal, the connection goes on, and memory does not grow with it."""
    connection = http.client.HTTPConnection(address, timeout=60)
    body = b" " * (40 * MIB)
    tracemalloc.start()
    try:
        connection.request("POST", "/v1/nodes", body)
        answer = connection.getresponse()
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert answer.status == 401 and answer.read()
    assert most < 20 * MIB
    connection.request("GET", "/")
    assert connection.getresponse().status == 200
    connection.close()


def test_a_body_beyond_all_limits_is_refused_before_anything_is_asked(address):
    connection = http.client.HTTPConnection(address, timeout=60)
    connection.putrequest("POST", "/v1/nodes")
    connection.putheader("Content-Length", str(10**12))
    connection.endheaders()
    assert connection.getresponse().status == 413
    connection.close()
