"""The HTTP server with TLS, over real sockets (issue 4, 3)."""

from __future__ import annotations

import socket
import ssl
import time

import pytest
import requests

from deploysteps import exceptions
from deploysteps.api import tls
from deploysteps.api.app import create_app
from deploysteps.api.server import Server
from tests.support_api import Recording
from tests.support_tls import certificate


@pytest.fixture(scope="module")
def pair(tmp_path_factory):
    return certificate(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def secure(conf, pair):
    """The configuration of a server with TLS."""
    conf.set_override("enable_ssl_api", True, group="api")
    for name, path in zip(("cert_file", "key_file"), pair, strict=True):
        conf.set_override(name, str(path), group="api")
    conf.set_override("port", 0, group="api")
    return conf


@pytest.fixture
def server(secure, sqlite):
    secure.set_override("threads", 4, group="api")
    found = Server(secure, create_app(secure, sqlite, Recording()))
    found.start()
    yield found
    found.stop()


def address_of(server):
    host, _, port = server.address.removeprefix("https://").rpartition(":")
    return host, int(port)


def test_it_answers_https_and_says_so_in_links(server, pair):
    answer = requests.get(f"{server.address}/v1/", verify=str(pair[0]), timeout=60)
    assert server.address.startswith("https://")
    assert answer.status_code == 200
    assert answer.json()["links"][0]["href"] == f"{server.address}/v1/"
    assert answer.headers["strict-transport-security"]


def test_a_connection_is_kept_for_many_requests(server, pair):
    with requests.Session() as session:
        session.verify, session.trust_env = str(pair[0]), False
        for _ in range(20):
            assert session.get(f"{server.address}/v1/nodes", timeout=60).status_code == 200
        big = {"driver": ["no name"], "extra": {"a": "x" * 3_000_000}}
        assert session.post(f"{server.address}/v1/nodes", json=big, timeout=60).status_code == 400
        assert session.get(f"{server.address}/v1/nodes", timeout=60).status_code == 200


def test_who_does_not_trust_the_certificate_says_so(server):
    with pytest.raises(requests.exceptions.SSLError):
        requests.get(server.address, timeout=60)


def test_clients_that_do_not_shake_hands_keep_nobody_out(server, pair):
    """Slow ones hold half of the threads at most, and the one that accepts is free."""
    silent = [socket.create_connection(address_of(server)) for _ in range(20)]
    try:
        begun = time.monotonic()
        for _ in range(5):
            answer = requests.get(f"{server.address}/", verify=str(pair[0]), timeout=60)
            assert answer.status_code == 200
        assert time.monotonic() - begun < 25
    finally:
        for one in silent:
            one.close()


@pytest.mark.parametrize("sent", [b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", b"\x00" * 100, b"\x16\x03"])
def test_what_is_no_handshake_ends_the_connection_and_nothing_else(server, pair, sent):
    with socket.create_connection(address_of(server), timeout=60) as plain:
        plain.sendall(sent)
        if sent.startswith(b"GET"):
            told = plain.recv(1000)
            assert told.startswith(b"HTTP/1.1 400 ") and told.endswith(b"https://")
    assert requests.get(server.address, verify=str(pair[0]), timeout=60).status_code == 200


def connected(server, **settings):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for name, value in settings.items():
        setattr(context, name, value)
    with (
        socket.create_connection(address_of(server), timeout=60) as plain,
        context.wrap_socket(plain) as line,
    ):
        return line.version()


def test_old_versions_are_refused(server):
    assert connected(server, maximum_version=ssl.TLSVersion.TLSv1_2) == "TLSv1.2"
    assert connected(server) == "TLSv1.3"
    with pytest.raises((ssl.SSLError, OSError)), pytest.warns(DeprecationWarning):
        connected(
            server,
            minimum_version=ssl.TLSVersion.TLSv1,
            maximum_version=ssl.TLSVersion.TLSv1_1,
        )


def test_the_oldest_version_is_the_operators_to_say(secure, sqlite):
    secure.set_override("server_tls_minimum_version", "1.3", group="api")
    server = Server(secure, create_app(secure, sqlite, Recording()))
    server.start()
    try:
        with pytest.raises((ssl.SSLError, OSError)):
            connected(server, maximum_version=ssl.TLSVersion.TLSv1_2)
        assert connected(server) == "TLSv1.3"
    finally:
        server.stop()


def test_it_stops_with_clients_connected(secure, sqlite, pair):
    server = Server(secure, create_app(secure, sqlite, Recording()))
    server.start()
    with requests.Session() as session:
        session.verify, session.trust_env = str(pair[0]), False
        assert session.get(server.address, timeout=60).status_code == 200
        begun = time.monotonic()
        assert server.stop()
        assert time.monotonic() - begun < 30


def test_a_request_cannot_choose_the_scheme_of_links(server, pair):
    """The first line may hold a whole address."""
    context = ssl.create_default_context(cafile=str(pair[0]))
    host, port = address_of(server)
    with (
        socket.create_connection((host, port), timeout=60) as plain,
        context.wrap_socket(plain, server_hostname=host) as line,
    ):
        head = f"GET http://{host}:{port}/v1/ HTTP/1.1\r\nHost: {host}:{port}\r\n"
        line.sendall(head.encode() + b"Connection: close\r\n\r\n")
        told = b"".join(iter(lambda: line.recv(65536), b""))
    assert b"http://" not in told.partition(b"\r\n\r\n")[2]


# --- what cannot be served with -----------------------------------------------------


def refused(conf):
    with pytest.raises(exceptions.ConfigurationError) as why:
        tls.context(conf)
    return why.value.message


def test_files_that_are_missing_are_named(secure, tmp_path):
    for name in ("cert_file", "key_file"):
        secure.set_override(name, str(tmp_path / "nothing"), group="api")
        assert f"[api] {name}" in (told := refused(secure)) and "No such file" in told
        secure.clear_override(name, group="api")
        assert f"[api] {name}" in refused(secure)
        secure.set_override(name, secure.config_file or __file__, group="api")


def test_a_key_of_another_certificate_is_told(secure, tmp_path):
    _, key = certificate(tmp_path, "other")
    secure.set_override("key_file", str(key), group="api")
    assert "is not the key of" in refused(secure)


def test_a_key_with_a_passphrase_is_told_and_nobody_is_asked(secure, tmp_path):
    cert, key = certificate(tmp_path, "hidden", passphrase="secret-words")
    secure.set_override("cert_file", str(cert), group="api")
    secure.set_override("key_file", str(key), group="api")
    assert "has a passphrase" in refused(secure)


@pytest.mark.parametrize("text", ["", "no PEM at all", "-----BEGIN CERTIFICATE-----\nAAAA\n"])
def test_files_that_are_no_pem_are_told(secure, tmp_path, text):
    path = tmp_path / "broken.pem"
    path.write_text(text)
    secure.set_override("cert_file", str(path), group="api")
    assert str(path) in refused(secure)


def test_without_the_setting_there_is_no_tls(conf):
    assert tls.context(conf) is None
