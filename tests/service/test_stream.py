"""``GET /v1/events/stream`` over real connections (issue 4, section 1)."""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import ExitStack, closing, contextmanager

import pytest
import requests
import sqlalchemy as sa

from deploysteps import counts, exceptions, states
from deploysteps.api import middleware, streams
from deploysteps.api.app import create_app
from deploysteps.api.server import Server
from deploysteps.db import events, nodes
from deploysteps.db.engine import Database
from deploysteps.db.events import New
from deploysteps.db.models import Node
from deploysteps.steps import RUNS
from tests import support
from tests.conftest import SERVERS
from tests.support_access import LESSEE, OTHER, OWNER, keystone
from tests.support_sql import counting
from tests.support_tls import certificate

NODE = "11111111-1111-1111-1111-111111111111"


def tell(database, count=1, *, node=NODE, size=1):
    """Write events past the engine."""
    row = New(events.NODE_STATE, None, {"state": "x" * size})
    while count:
        some, count = min(count, 50), max(count - 50, 0)
        database.write(lambda c, some=some: events.write(c, node, [row] * some))


@pytest.fixture
def quick(conf):
    conf.set_override("port", 0, group="api")
    conf.set_override("threads", 2, group="api")
    conf.set_override("poll_interval", 0.05, group="events")
    conf.set_override("stream_heartbeat", 0.2, group="events")
    return conf


@pytest.fixture
def serve(quick):
    """Start servers over a database: ``serve(database)``."""
    started = []

    def begin(database, client=None, access=None):
        server = Server(quick, create_app(quick, database, client, access))
        server.app = server._server.wsgi_app
        server.start()
        started.append(server)
        return server

    yield begin
    for server in started:
        server.stop()


@pytest.fixture
def server(serve, sqlite):
    return serve(sqlite)


class Reader:
    """Reads a stream in a thread of its own."""

    def __init__(self, server, query="", verify=None, **headers):
        self.answer = requests.get(
            f"{server.address}/v1/events/stream{query}",
            headers={middleware.HEADER: "latest", **headers},
            stream=True,
            verify=verify,
            timeout=(60, 60),
        )
        self.messages, self.alive, self.ended = [], 0, False
        self._thread = threading.Thread(target=self._read, daemon=True)
        if self.answer.status_code == 200:
            self._thread.start()

    def _read(self):
        found = {}
        try:
            for line in self.answer.iter_lines(chunk_size=None, decode_unicode=True):
                if line.startswith(":"):
                    self.alive += 1
                elif line:
                    name, _, value = line.partition(": ")
                    found[name] = value
                else:
                    if "data" in found:
                        self.messages.append({**found, "data": json.loads(found["data"])})
                    found = {}
            self.ended = True
        except (requests.RequestException, AttributeError):
            self.ended = True

    @property
    def ids(self):
        return [int(one["id"]) for one in self.messages if "id" in one]

    def wait(self, count):
        support.until(lambda: len(self.messages) >= count)
        return self.messages


@contextmanager
def listening(server, query="", **headers):
    reader = Reader(server, query, **headers)
    assert reader.answer.status_code == 200, reader.answer.text
    with closing(reader.answer):
        yield reader


def test_a_browser_follows_a_node_by_its_name(serve, sqlite):
    """It cannot send the header with the version in which the field's paths know names."""
    node = nodes.insert(
        sqlite, {"name": "n1", "driver": "fake-hardware", "provision_state": "active"}
    )
    tell(sqlite, node=node.uuid)
    server = serve(sqlite)
    path = f"{server.address}/v1/events/stream?node=n1&last_event_id=0"
    with requests.get(path, stream=True, timeout=60) as answer:
        assert answer.status_code == 200
        assert (
            f"{node.uuid}" in next(line for line in answer.iter_lines() if b"data" in line).decode()
        )


def test_what_happens_is_told_as_it_happens(serve, start, sqlite):
    service = start(sqlite)
    server = serve(sqlite, service.client)
    node = support.enrolled(service, name="n1")
    with listening(server, "?node=n1&flow=deploy") as reader:
        assert reader.answer.headers["Content-Type"] == "text/event-stream"
        assert "no-cache" in reader.answer.headers["Cache-Control"]
        service.manager.do_node_deploy(None, node.uuid)
        support.settle(sqlite, node.uuid, states.ACTIVE)
        found = reader.wait(len(events.after(sqlite, 0, 100, node=node.uuid)))
    assert [one["event"] for one in found][:2] == ["run.started", "step.started"]
    assert found[-1]["event"] == "node.state" and found[-1]["data"]["state"] == "active"
    for one in found:
        assert int(one["id"]) == one["data"]["id"] and one["event"] == one["data"]["type"]
        assert one["data"]["node"] == node.uuid and one["data"]["run"]


@pytest.mark.parametrize("way", ["header", "query"])
def test_it_goes_on_after_the_last_event_that_was_heard(server, sqlite, way):
    tell(sqlite, 1000)
    query, headers = ("", {"Last-Event-ID": "10"}) if way == "header" else ("?last_event_id=10", {})
    with listening(server, query, **headers) as reader:
        reader.wait(990)
        tell(sqlite, 2)
        reader.wait(992)
    assert reader.ids == list(range(11, 1003))


def test_without_one_only_what_comes_is_told(server, sqlite):
    tell(sqlite, 5)
    with listening(server) as reader:
        tell(sqlite)
        reader.wait(1)
    assert reader.ids == [6]


@pytest.mark.parametrize("others", [0, 1])
def test_all_is_told_that_happens_once_a_reader_is_answered(server, sqlite, monkeypatch, others):
    """However long it is until the thread takes up its stream."""
    free, real = threading.Event(), streams.Streams._turn
    free.set()
    monkeypatch.setattr(streams.Streams, "_turn", lambda self: free.wait(60) and real(self))
    tell(sqlite, 5)
    with ExitStack() as held:
        for _ in range(others):
            held.enter_context(listening(server))
        free.clear()
        reader = held.enter_context(listening(server))
        tell(sqlite, 2)
        free.set()
        reader.wait(2)
        assert reader.ids == [6, 7]


def test_filters_hold_for_what_was_and_for_what_comes(serve, start, sqlite):
    service = start(sqlite)
    server = serve(sqlite, service.client)
    node = support.enrolled(service, name="n1")
    tell(sqlite, 300, node=node.uuid)
    tell(sqlite, 300)
    tell(sqlite, 1, node=node.uuid)
    with listening(server, "?node=n1&last_event_id=1") as reader:
        reader.wait(300)
        tell(sqlite)
        tell(sqlite, node=node.uuid)
        reader.wait(301)
    assert reader.ids == [*range(2, 301), 601, 603]
    with listening(server, "?flow=clean&last_event_id=1") as reader:
        support.until(lambda: reader.alive > 1)
    assert reader.ids == []


@pytest.mark.parametrize(
    ("query", "header", "status"),
    [
        ("?node=nobody", None, 404),
        ("?flow=nothing", None, 400),
        ("?other=1", None, 400),
        ("?last_event_id=x", None, 400),
        ("", "-1", 400),
        ("", "9" * 30, 400),
    ],
)
def test_what_makes_no_sense_is_refused(server, query, header, status):
    """Promise 13: nothing is begun, and no room is taken."""
    headers = {} if header is None else {"Last-Event-ID": header}
    assert Reader(server, query, **headers).answer.status_code == status
    assert server.app.streams.count == 0


@pytest.mark.parametrize("flow", RUNS)
def test_every_kind_of_run_can_be_listened_to(server, flow):
    """Also those that have no steps: their events name them."""
    with listening(server, f"?flow={flow}") as reader:
        assert reader.answer.status_code == 200


def test_what_is_not_kept_any_more_is_said(server, sqlite):
    tell(sqlite, 20)
    events.prune(sqlite, hours=0, rows=5)
    with listening(server, "?last_event_id=3") as reader:
        found = reader.wait(6)
    assert found[0]["event"] == "reset" and "id" not in found[0]
    assert found[0]["data"] == {"last_event_id": 3, "oldest": 16, "newest": 20}
    assert reader.ids == [16, 17, 18, 19, 20]
    with listening(server, "?last_event_id=15") as reader:
        assert reader.wait(5)[0]["event"] == "node.state"


def test_what_is_removed_before_a_slow_reader_had_it_is_said(server, sqlite, monkeypatch):
    """Else a stream with a gap would pass for a whole one."""
    monkeypatch.setattr(streams, "_PAGE", 10)
    tell(sqlite, 30)
    real, cut = events.after, []

    def after(database, cursor, limit, **asked):
        if cursor == 10 and not cut and asked:
            cut.append(events.prune(database, hours=0, rows=5))
        return real(database, cursor, limit, **asked)

    monkeypatch.setattr(events, "after", after)
    with listening(server, "?last_event_id=0") as reader:
        reader.wait(16)
    assert cut == [25] and reader.ids == [*range(1, 11), *range(26, 31)]
    assert reader.messages[10]["event"] == "reset"
    assert reader.messages[10]["data"] == {"last_event_id": 10, "oldest": 26, "newest": 30}


def test_what_is_removed_while_the_database_is_away_is_said(server, sqlite, monkeypatch):
    real = events.settled

    def settled(database, cursor, limit):
        if cursor == 3 and events.edges(database).oldest < 9:
            raise OSError("away")
        return real(database, cursor, limit)

    monkeypatch.setattr(streams, "_AFTER_ERROR", 0.05)
    monkeypatch.setattr(events, "settled", settled)
    with listening(server) as reader:
        support.until(lambda: reader.alive)
        tell(sqlite, 3)
        reader.wait(3)
        tell(sqlite, 7)
        events.prune(sqlite, hours=0, rows=2)
        reader.wait(6)
    assert reader.ids == [1, 2, 3, 9, 10]
    assert reader.messages[3]["event"] == "reset"


def test_an_id_that_was_never_given_is_said_too(server, sqlite):
    """The database was made anew, say: what comes is told all the same."""
    tell(sqlite, 3)
    with listening(server, "?last_event_id=70") as reader:
        assert reader.wait(1)[0]["event"] == "reset"
        tell(sqlite)
        reader.wait(2)
    assert reader.ids == [4]


def test_it_says_that_it_lives(server):
    with listening(server) as reader:
        support.until(lambda: reader.alive >= 3)


def test_streams_take_none_of_the_servers_threads(server, sqlite):
    """Two threads serve requests; ten streams are open."""
    readers = [Reader(server) for _ in range(10)]
    for _ in range(10):
        assert requests.get(f"{server.address}/healthz", timeout=60).status_code == 200
    tell(sqlite)
    for reader in readers:
        assert reader.wait(1)
        reader.answer.close()


def test_one_query_looks_for_all_streams(server, sqlite, monkeypatch):
    looks, look = [], streams.Streams._look
    monkeypatch.setattr(streams.Streams, "_look", lambda self: looks.append(1) or look(self))
    readers = [Reader(server) for _ in range(8)]
    support.until(lambda: all(reader.alive for reader in readers))
    with counting(sqlite) as sent:
        before = len(looks)
        support.until(lambda: len(looks) >= before + 10)
    assert sent.statements <= len(looks) - before + 1 and sent.commits == 0
    for reader in readers:
        reader.answer.close()
    support.until(lambda: server.app.streams.count == 0)
    time.sleep(0.1)
    with counting(sqlite) as sent:
        time.sleep(0.3)
    assert sent.statements == 0, "nobody listens"


def test_there_are_so_many_streams_and_no_more(server, quick):
    quick.set_override("max_streams", 3, group="events")
    readers = [Reader(server) for _ in range(4)]
    assert [reader.answer.status_code for reader in readers] == [200, 200, 200, 503]
    assert int(readers[3].answer.headers["Retry-After"]) > 0
    readers[0].answer.close()
    support.until(lambda: server.app.streams.count == 2)
    assert Reader(server).answer.status_code == 200
    quick.set_override("max_streams", 0, group="events")
    assert Reader(server).answer.status_code == 503


def raw(server, request, receive=None):
    """Open a connection with a request as it stands."""
    host, port = server.address.removeprefix("http://").split(":")
    sock = socket.socket()
    if receive:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive)
    sock.settimeout(60)
    sock.connect((host, int(port)))
    sock.sendall(request)
    return sock


PLAIN = b"GET /v1/events/stream HTTP/1.0\r\nHost: localhost\r\n\r\n"
NEWER = b"GET /v1/events/stream?last_event_id=0 HTTP/1.1\r\nHost: localhost\r\n\r\n"


def test_a_reader_that_does_not_keep_up_is_cut_off(server, sqlite, monkeypatch):
    """It is not buffered for without end, and the others hear all."""
    monkeypatch.setattr(streams, "_MOST_BUFFERED", 200_000)
    before = counts.STREAMS_DROPPED.shown().get(("slow",), 0)
    with raw(server, PLAIN, receive=4096), listening(server) as good:
        support.until(lambda: server.app.streams.count == 2)
        support.until(lambda: good.alive)
        for _ in range(400):
            tell(sqlite, size=20_000)
            if server.app.streams.count == 1:
                break
            time.sleep(0.02)
        support.until(lambda: server.app.streams.count == 1)
        support.until(lambda: counts.STREAMS_DROPPED.shown().get(("slow",), 0) == before + 1)
        good.wait(events.edges(sqlite).newest)
    assert good.ids == list(range(1, events.edges(sqlite).newest + 1))


def test_a_reader_that_stalls_is_cut_off(server, sqlite, monkeypatch):
    monkeypatch.setattr(streams, "_STALL", 0.3)
    before = counts.STREAMS_DROPPED.shown().get(("slow",), 0)
    tell(sqlite, 200, size=40_000)
    with raw(server, NEWER, receive=4096):
        support.until(lambda: counts.STREAMS_DROPPED.shown().get(("slow",), 0) == before + 1)
        assert server.app.streams.count == 0


def test_an_old_client_gets_what_it_can_read(server, sqlite):
    with raw(server, PLAIN) as sock:
        support.until(lambda: server.app.streams.count == 1)
        tell(sqlite)
        got = b""
        while b"event: node.state" not in got:
            got += sock.recv(4096)
    assert b"chunked" not in got.lower() and b"retry: 2000\n\n" in got


def test_a_stream_lasts_only_so_long_and_ends_well(server, sqlite, monkeypatch):
    """Who listens is asked again who he is; he goes on where he was."""
    monkeypatch.setattr(streams, "_LONGEST", 0.3)
    with listening(server) as reader:
        support.until(lambda: reader.ended)
    with raw(server, NEWER) as sock:
        got = b""
        while piece := sock.recv(4096):
            got += piece
    assert got.endswith(b"0\r\n\r\n")


def test_a_stream_over_tls(quick, serve, sqlite, tmp_path):
    """Its clock is not that of a request: it says nothing for longer, and goes on."""
    cert, key = certificate(tmp_path)
    for name, value in {"enable_ssl_api": True, "cert_file": cert, "key_file": key}.items():
        quick.set_override(name, str(value) if value is not True else True, group="api")
    server = serve(sqlite)
    assert server.address.startswith("https://")
    reader = Reader(server, verify=str(cert))
    with closing(reader.answer):
        support.until(lambda: reader.alive > 1)
        tell(sqlite, 200, size=20_000)
        reader.wait(200)
    assert reader.ids == list(range(1, 201))
    support.until(lambda: server.app.streams.count == 0)
    again = Reader(server, verify=str(cert))
    support.until(lambda: again.alive)
    assert server.stop()
    support.until(lambda: again.ended)


def test_several_processes_serve_from_the_database(serve, sqlite):
    other = Database(str(sqlite.url))
    one, two = serve(sqlite), serve(other)
    with listening(one) as here, listening(two) as there:
        support.until(lambda: here.alive and there.alive)
        tell(sqlite, 3)
        tell(other, 3)
        here.wait(6), there.wait(6)
    assert here.ids == there.ids == [1, 2, 3, 4, 5, 6]
    other.dispose()


@pytest.mark.parametrize("kind", SERVERS, indirect=True)  # SQLite has one writer at a time
def test_an_event_that_is_committed_late_is_heard(serve, database):
    """Ids are given in another order than transactions commit in, on a server."""
    database.idle_transaction_timeout = 0  # at first: what earlier tests left is no gap
    tell(database, 1)
    time.sleep(0.1)
    server = serve(database)
    row = New(events.NODE_STATE, None, {"state": "late"})
    with listening(server, f"?last_event_id={events.edges(database).newest}") as reader:
        support.until(lambda: reader.alive)
        database.idle_transaction_timeout = 30
        with database.engine.connect() as slow:
            transaction = slow.begin()
            events.write(slow, NODE, [row])
            tell(database, 2)
            seen = reader.alive
            support.until(lambda: reader.alive > seen + 2)
            assert reader.ids == []
            transaction.commit()
        found = reader.wait(3)
    assert [one["data"]["state"] for one in found] == ["late", "x", "x"]
    assert reader.ids == sorted(reader.ids)


def test_a_database_that_is_away_ends_no_stream_and_is_told_once(
    server, sqlite, monkeypatch, caplog
):
    caplog.set_level("INFO", streams.__name__)
    monkeypatch.setattr(streams, "_AFTER_ERROR", 0.05)
    real, broken = events.settled, True

    def settled(*args):
        if broken:
            raise exceptions.DatabaseUnavailable(reason="gone")
        return real(*args)

    monkeypatch.setattr(events, "settled", settled)
    with listening(server) as reader:
        support.until(lambda: reader.alive > 2)
        tell(sqlite)
        broken = False
        reader.wait(1)
    assert [r.getMessage() for r in caplog.records if r.name == streams.__name__] == [
        "Looking for new events failed; it is tried again: The database does not answer: gone",
        "Looking for new events: the database is back",
    ]


def test_a_server_stops_with_open_streams(serve, sqlite, quick):
    quick.set_override("graceful_shutdown_timeout", 60, group="conductor")
    server = serve(sqlite)
    readers = [Reader(server) for _ in range(5)]
    support.until(lambda: server.app.streams.count == 5)
    began = time.monotonic()
    assert server.stop()
    assert time.monotonic() - began < 30
    support.until(lambda: all(reader.ended for reader in readers))
    assert server.app.streams.count == 0
    assert not [t for t in threading.enumerate() if t.name == "streams" and t.is_alive()]


def test_another_server_says_that_it_cannot(quick, sqlite):
    from tests.support_api import Api

    answer = Api(quick, sqlite, None).get("/v1/events/stream")
    assert answer.status == 501 and "deploysteps serve" in answer.fault


# --- who hears what -----------------------------------------------------------------


def owned(database, owner=None, lessee=None):
    values = {"driver": "fake-hardware", "owner": owner, "lessee": lessee}
    return nodes.insert(database, {**values, "provision_state": "active"}).uuid


def all_kinds(database, node):
    """Write an event of each kind that tells something of its own."""
    told = [
        New(events.RUN_STARTED, None, {"requested_by": "somebody"}),
        New(events.STEP_STARTED, None, {"conductor": "the-conductor"}),
        New(events.STEP_FAILED, None, {"error": "the-error"}),
        New(events.NODE_STATE, None, {"state": "deploy failed"}),
    ]
    database.write(lambda c: events.write(c, node, told))


@pytest.fixture
def shared(serve, quick, sqlite):
    """A server that asks who is there, a node of each project, and one of nobody."""
    server = serve(sqlite, access=keystone(quick))
    server.nodes = {
        "owner": owned(sqlite, OWNER, LESSEE),
        "other": owned(sqlite, OTHER),
        "nobody": owned(sqlite),
    }
    return server


def heard(server, query="", wait=0, **headers):
    """Return the events of a stream once it has all of them, by the name of their node."""
    names = {uuid: name for name, uuid in server.nodes.items()}
    with listening(server, query, **headers) as reader:
        reader.wait(wait)
        seen = reader.alive
        support.until(lambda: reader.alive > seen + 1)
    return [(names.get(one["data"]["node"], "gone"), one["event"]) for one in reader.messages]


KINDS = ["run.started", "step.started", "step.failed", "node.state"]
EVERY = [(name, kind) for name in ("owner", "other", "nobody") for kind in KINDS]


@pytest.mark.parametrize(
    ("who", "names", "kinds"),
    [
        ("system:reader", ["owner", "other", "nobody"], KINDS),
        ("owner:reader", ["owner"], KINDS),
        ("lessee:admin", ["owner"], KINDS),
        ("lessee:reader", ["owner"], ["node.state"]),
        ("other:admin", ["other"], KINDS),
    ],
)
@pytest.mark.parametrize("way", ["resumed", "as it happens"])
def test_a_project_hears_of_the_nodes_that_it_sees_and_as_it_sees_their_runs(
    shared, sqlite, who, names, kinds, way
):
    """Of those that it owns or leases; runs and steps are for those who may list runs."""
    wanted = [one for one in EVERY if one[0] in names and one[1] in kinds]
    headers = {"X-Auth-Token": who}
    if way == "resumed":
        for node in shared.nodes.values():
            all_kinds(sqlite, node)
        resumed = {"Last-Event-ID": "0", **headers}
        assert heard(shared, wait=len(wanted), **resumed) == wanted
        return
    with listening(shared, **headers) as reader:
        support.until(lambda: reader.alive)
        for node in shared.nodes.values():
            all_kinds(sqlite, node)
        reader.wait(len(wanted))
        seen = reader.alive
        support.until(lambda: reader.alive > seen + 1)
    assert [one["event"] for one in reader.messages] == [kind for _name, kind in wanted]


def test_what_is_kept_back_of_a_node_is_of_its_events_too(shared, sqlite):
    """As in runs: a lessee is not told errors, nor which conductor works."""
    all_kinds(sqlite, shared.nodes["owner"])
    found = {}
    for who in ("owner:reader", "lessee:admin"):
        with listening(shared, "?last_event_id=0", **{"X-Auth-Token": who}) as reader:
            found[who] = {one["event"]: one["data"] for one in reader.wait(4)}
    assert found["owner:reader"]["step.failed"]["error"] == "the-error"
    assert found["owner:reader"]["step.started"]["conductor"] == "the-conductor"
    for kind, name in (("step.failed", "error"), ("step.started", "conductor")):
        assert found["lessee:admin"][kind][name].startswith("** Redacted - requires")
    assert "the-error" not in str(found["lessee:admin"])


def test_a_node_that_is_not_there_for_a_caller_cannot_be_listened_to(shared, sqlite):
    all_kinds(sqlite, shared.nodes["owner"])
    query = f"?node={shared.nodes['owner']}&last_event_id=0"
    refused = Reader(shared, query, **{"X-Auth-Token": "other:admin"})
    assert refused.answer.status_code == 404
    with listening(shared, query, **{"X-Auth-Token": "owner:member"}) as reader:
        reader.wait(4)
    assert Reader(shared, **{"X-Auth-Token": "owner:none"}).answer.status_code == 403


def test_whose_a_node_is_counts_when_it_is_told(shared, sqlite):
    """Also in a stream that began before; and what is deleted is only for those who see all."""
    node = nodes.get(sqlite, shared.nodes["owner"])
    with listening(shared, **{"X-Auth-Token": "owner:admin"}) as reader:
        support.until(lambda: reader.alive)
        all_kinds(sqlite, node.uuid)
        reader.wait(4)
        nodes.set_unlocked(sqlite, node.id, {"owner": OTHER})
        all_kinds(sqlite, node.uuid)
        seen = reader.alive
        support.until(lambda: reader.alive > seen + 1)
        assert len(reader.messages) == 4
    resumed = {"Last-Event-ID": "0"}
    assert heard(shared, **{"X-Auth-Token": "owner:admin"}, **resumed) == []
    assert len(heard(shared, wait=8, **{"X-Auth-Token": "other:admin"}, **resumed)) == 8
    with sqlite.engine.begin() as connection:
        connection.execute(sa.delete(Node).where(Node.id == node.id))
    del shared.nodes["owner"]
    assert heard(shared, **{"X-Auth-Token": "other:admin"}, **resumed) == []
    assert heard(shared, wait=8, **{"X-Auth-Token": "system:reader"}, **resumed) == [
        ("gone", kind) for kind in KINDS * 2
    ]


def test_whose_the_nodes_are_is_asked_once_for_all_streams_and_events(shared, sqlite):
    readers = [
        Reader(shared, **{"X-Auth-Token": who})
        for who in ("owner:admin", "lessee:reader", "other:reader", "system:reader") * 2
    ]
    support.until(lambda: all(reader.alive for reader in readers))
    with counting(sqlite) as sent:
        with sqlite.engine.begin() as connection:
            for node in list(shared.nodes.values()) * 20:
                events.write(connection, node, [New(events.NODE_STATE, None, {"state": "x"})])
        support.until(lambda: all(len(reader.messages) == 20 for reader in readers[:3]))
    asked = [text for text in sent.texts if "nodes.owner" in text]
    assert len(asked) == 1
    for reader in readers:
        reader.answer.close()


def test_projects_leave_places_to_others_and_to_each_other(shared, quick):
    """A quarter for one project, half for all of them."""
    quick.set_override("max_streams", 8, group="events")

    def opened(who, count):
        found = [Reader(shared, **{"X-Auth-Token": who}) for _ in range(count)]
        return found, [reader.answer.status_code for reader in found]

    mine, answers = opened("owner:reader", 3)
    assert answers == [200, 200, 503]
    assert opened("lessee:admin", 3)[1] == [200, 200, 503]
    assert opened("other:reader", 1)[1] == [503]
    assert opened("system:reader", 5)[1] == [200, 200, 200, 200, 503]
    mine[0].answer.close()
    support.until(lambda: shared.app.streams.count == 7)
    assert opened("owner:reader", 1)[1] == [200]
