"""One exchange with an agent: what is trusted, what is read, what is said."""

from __future__ import annotations

import contextlib
import json
import resource
import socket
import threading
import time
import zlib

import pytest

from deploysteps.conf import CONF
from deploysteps.drivers.agent import client, transport
from deploysteps.drivers.agent.client import AgentClient
from deploysteps.drivers.agent.errors import Busy, Gone, Refused, Unreachable
from tests.agent.fake_agent import DATA, PEM, FakeAgent, says, step

TOKEN = "planted-token-of-the-agent"
NODE = {"node": {"uuid": "1"}, "ports": []}


@pytest.fixture
def agent():
    with FakeAgent(step("mark", 50), token=TOKEN) as found:
        yield found


@pytest.fixture
def secure():
    with FakeAgent(step("mark", 50), token=TOKEN, tls=True) as found:
        yield found


def recorded():
    found = json.loads((DATA / "agent-rest-api.json").read_text())["exchanges"]
    broken_for_good = 22  # the list, after wrong params to a sync command
    return [
        e
        for e in found
        if e["request"]["path"].startswith("/v1/commands/")
        and isinstance(e["request"]["body"], dict | None)
        and e["n"] != broken_for_good
    ]


@pytest.mark.parametrize("exchange", recorded(), ids=lambda e: f"{e['n']}")
def test_the_fake_agent_answers_as_the_real_one_did(exchange):
    """Status and shape of what ironic-python-agent 13.0.0 answered to the same request."""
    request, answer = exchange["request"], exchange["response"]
    known = "AGENT-TOKEN-03-xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"
    names = ("peer_mark", "peer_sleep", "peer_fail", "peer_reboot")
    with FakeAgent(*(step(name) for name in names), token=known) as fake:
        fake.on["peer_sleep"] = says("RUNNING")
        body = request["body"]
        if answer["status"] == 409:
            fake.busy_with = "execute_deploy_step"
            fake.spared = ()
        connection = socket.create_connection(("127.0.0.1", fake.port), 5)
        raw = json.dumps(body).encode() if body is not None else b""
        head = f"{request['method']} {request['path']} HTTP/1.1\r\nHost: x\r\n"
        head += f"Connection: close\r\nContent-Length: {len(raw)}\r\n\r\n"
        connection.sendall(head.encode() + raw)
        with connection, connection.makefile("rb") as file:
            status, _, content = file.read().partition(b"\r\n\r\n")
    assert int(status.split()[1]) == answer["status"]
    assert json.loads(content).keys() == answer["body"].keys()
    wanted = answer["body"].get("command_status")
    assert json.loads(content).get("command_status") == wanted


def test_commands(agent):
    speaks = AgentClient(agent.url, TOKEN)
    told = speaks.run("deploy.get_deploy_steps", NODE)
    assert told["deploy_steps"]["PeerManager"][0]["step"] == "mark"
    agent.on["mark"] = says("RUNNING")
    begun = speaks.start("deploy.execute_deploy_step", {**NODE, "step": {"step": "mark"}})
    assert begun.status == "RUNNING" and speaks.command(begun.id) == begun
    assert [c.name for c in speaks.commands()] == ["get_deploy_steps", "execute_deploy_step"]
    with pytest.raises(Busy, match="Agent is busy"):
        speaks.run("clean.get_clean_steps", NODE)
    with pytest.raises(Gone):
        speaks.command("nope")


def test_the_path_keeps_its_slash_and_the_token_is_in_the_query_only(agent):
    AgentClient(f"{agent.url}/", TOKEN).commands()
    assert agent.requests == [("GET", "/v1/commands/")]
    with pytest.raises(Refused) as refused:
        AgentClient(agent.url, "another-token").commands()
    assert "401" in str(refused.value) and "another-token" not in str(refused.value)


@pytest.mark.parametrize("how", ["drop", "500", "503"])
def test_what_is_safe_to_send_again_is_sent_again(agent, how, monkeypatch):
    """F42: counted."""
    monkeypatch.setattr(client, "_TRY_PAUSE", 0.01)
    agent.broken_paths["POST deploy.get_deploy_steps"] = how
    with pytest.raises(Unreachable) as failed:
        AgentClient(agent.url, TOKEN).run("deploy.get_deploy_steps", NODE)
    assert agent.requests.count(("POST", "/v1/commands/")) == 3
    assert CONF.agent.max_command_attempts == 3
    assert TOKEN not in str(failed.value)


def test_a_command_that_goes_on_is_sent_once(agent):
    agent.broken_paths["POST deploy.execute_deploy_step"] = "drop"
    with pytest.raises(Unreachable) as failed:
        AgentClient(agent.url, TOKEN).start("deploy.execute_deploy_step", NODE)
    assert len(agent.requests) == 1 and failed.value.taken


def test_a_refused_connection_was_not_taken(agent):
    agent.stop()
    with pytest.raises(Unreachable, match="refuses connections") as failed:
        AgentClient(agent.url, TOKEN).commands()
    assert not failed.value.taken and TOKEN not in str(failed.value)


def test_tls_trusts_what_the_agent_sent(secure):
    speaks = AgentClient(secure.url, TOKEN, secure.pem)
    assert speaks.commands() == [] == speaks.commands()


def test_tls_trusts_nothing_else(secure):
    for pem in ((DATA / "other-cert.pem").read_text(), "no certificate", "é"):
        with pytest.raises(Refused, match="cannot be trusted|cannot be read"):
            AgentClient(secure.url, TOKEN, pem).commands()
        with pytest.raises(Refused, match="cannot be trusted|cannot be read"):
            AgentClient(secure.url, TOKEN, pem).commands()
    assert secure.requests == []


def test_the_address_has_to_be_the_certificates(secure):
    with pytest.raises(Refused, match="cannot be trusted"):
        AgentClient(f"https://localhost:{secure.port}", TOKEN, secure.pem).commands()


def test_no_public_certificate_is_ever_trusted(secure):
    """``requests`` would load its bundle into the context with the first request."""
    AgentClient(secure.url, TOKEN, secure.pem).commands()
    (session,) = [s for (url, _), s in transport._SESSIONS.items() if url == secure.url]
    (adapter,) = session.adapters.values()
    assert adapter._context.cert_store_stats()["x509"] == 1
    assert adapter._context.check_hostname


def test_connections_are_kept_for_a_bounded_number_of_agents(monkeypatch):
    monkeypatch.setattr(transport, "_MOST_SESSIONS", 2)
    for _ in range(4):
        with FakeAgent(token=TOKEN) as one:
            AgentClient(one.url, TOKEN).commands()
    assert len(transport._SESSIONS) == 2


@pytest.mark.parametrize("how", ["redirect", "huge", "text"])
def test_odd_answers_are_refused(agent, how):
    agent.broken_paths["GET list"] = how
    with pytest.raises(Refused) as refused:
        AgentClient(agent.url, TOKEN).commands()
    assert TOKEN not in str(refused.value)
    assert len(agent.requests) == 1


@contextlib.contextmanager
def answering(raw):
    """Give the URL of what answers one request with these bytes."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.recv(65536)
                connection.sendall(raw)

        threading.Thread(target=serve, daemon=True).start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


@pytest.mark.parametrize("raw", [b"", b"HTTP/1.1 200 OK\r\n\r\n[]", b"nonsense\r\n\r\n"])
def test_what_speaks_no_http_or_no_object(raw):
    with answering(raw) as url, pytest.raises((Unreachable, Refused)) as failed:
        AgentClient(url, TOKEN).commands()
    assert TOKEN not in str(failed.value)


@pytest.mark.parametrize("where", [b"http://[", b"http://\xff\xfe/", b"/elsewhere"])
def test_where_a_redirect_leads_is_nobodys_business(where):
    """Whatever stands there: it is refused as any other is."""
    raw = b"HTTP/1.1 302 Found\r\nContent-Length: 0\r\nLocation: " + where + b"\r\n\r\n"
    with answering(raw) as url, pytest.raises(Refused, match="which is not followed"):
        AgentClient(url, TOKEN).commands()


def test_a_redirect_that_is_a_bomb_is_not_unpacked():
    """F14: an answer of any kind takes bounded memory."""
    packer = zlib.compressobj(1, wbits=16 + zlib.MAX_WBITS)
    body = b"".join(packer.compress(bytes(2**20)) for _ in range(256)) + packer.flush()
    head = f"HTTP/1.1 302 Found\r\nLocation: /\r\nContent-Length: {len(body)}\r\n"
    raw = f"{head}Content-Encoding: gzip\r\n\r\n".encode() + body
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with answering(raw) as url, pytest.raises(Refused, match="which is not followed"):
        AgentClient(url, TOKEN).command("c1")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 64 * 1024, "kilobytes"


def test_an_answer_that_drips_ends_in_time():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve():
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n")
                for _ in range(600):
                    try:
                        connection.sendall(b" ")
                    except OSError:
                        return
                    time.sleep(0.1)

        threading.Thread(target=serve, daemon=True).start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(Unreachable):
            transport.exchange(
                "GET",
                f"{url}/v1/commands/",
                query={},
                connect_timeout=5,
                read_timeout=0.5,
                largest=10_000,
            )
        assert time.monotonic() - began < 30, "it drips for a minute"


def test_one_that_is_not_there_is_not_waited_for_as_one_at_work(monkeypatch):
    """F24: [agent] command_timeout is for one that answers."""
    monkeypatch.setattr(client, "QUICK", client.Patience(0.2, 0.2))
    with socket.create_server(("127.0.0.1", 0)) as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}"
        began = time.monotonic()
        with pytest.raises(Unreachable, match="did not answer in time"):
            AgentClient(url, TOKEN).run("deploy.get_deploy_steps", NODE, attempts=1)
        assert time.monotonic() - began < 30 < CONF.agent.command_timeout


def test_one_without_the_question_is_there(agent):
    """An agent that refuses to say how it is has answered."""
    agent.broken_paths["GET status"] = "404"
    AgentClient(agent.url, TOKEN).run("deploy.get_deploy_steps", NODE)
    assert agent.requests == [("GET", "/v1/status"), ("POST", "/v1/commands/")]


def test_what_a_library_logs_has_no_token(agent, caplog):
    """F76: urllib3 logs the whole URL at DEBUG."""
    with caplog.at_level("DEBUG", "urllib3"):
        AgentClient(agent.url, TOKEN).commands()
    assert "/v1/commands/" in caplog.text and TOKEN not in caplog.text


def test_the_certificate_of_the_tests_is_one():
    assert transport.context_of(PEM.read_text()).cert_store_stats()["x509"] == 1


SLOWLY = {
    "status line": (b"", b"H"),
    "header": (b"HTTP/1.1 200 OK\r\nX-A: ", b"a"),
    "interim answers": (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "size of a chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1;", b"a"),
    "trailers": (
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n",
        b"X-T: y\r\n",
    ),
}


@pytest.mark.parametrize("where", SLOWLY)
def test_an_exchange_ends_in_time_wherever_the_other_side_is_slow(where):
    """F22, F24: a machine must not hold a worker, and its node's lock, for ever."""
    first, rest = SLOWLY[where]
    listener = socket.create_server(("127.0.0.1", 0))

    def talk():
        with listener, listener.accept()[0] as connection:
            connection.recv(65536)
            try:
                connection.sendall(first)
                while True:
                    connection.sendall(rest)
                    time.sleep(0.05)
            except OSError:
                return

    threading.Thread(target=talk, daemon=True).start()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}/v1/commands/"
    begun = time.monotonic()
    with pytest.raises(Unreachable):
        transport.exchange(
            "GET",
            url,
            query={"agent_token": TOKEN},
            connect_timeout=0.2,
            read_timeout=0.4,
            largest=1000,
        )
    assert time.monotonic() - begun < 30
