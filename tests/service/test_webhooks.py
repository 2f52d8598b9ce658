"""Signed webhooks: at least once, in order, by one process at a time (issue 4, section 1)."""

from __future__ import annotations

import datetime
import hashlib
import hmac
import http.server
import itertools
import json
import logging
import socket
import threading
import time

import pytest
import sqlalchemy as sa
from click.testing import CliRunner

from deploysteps import conf as configuration
from deploysteps import exceptions, states
from deploysteps.cli.app import cli
from deploysteps.cli.local_service import LocalService
from deploysteps.conductor import webhooks as sending
from deploysteps.conductor.recovery import Recovery
from deploysteps.db import conductors, events, types, webhooks
from deploysteps.db.engine import Database
from deploysteps.db.event_models import Event, WebhookDelivery, WebhookEndpoint
from deploysteps.db.events import New
from tests import support
from tests.service.test_serve import deploy, enrol, wait_for
from tests.support_sql import counting

SECRET = "a-secret-that-is-long-enough"
NODES = [f"{n}1111111-1111-1111-1111-111111111111" for n in range(1, 4)]


class Receiver:
    """Takes webhooks, and answers as the test says."""

    def __init__(self):
        self.got, self.answer, self.headers, self.pause = [], 204, {}, 0.0
        self.busy = self.most_busy = 0
        receiver = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                receiver.busy += 1
                receiver.most_busy = max(receiver.most_busy, receiver.busy)
                time.sleep(receiver.pause)
                receiver.got.append((self.path, dict(self.headers), body))
                answer = receiver.answer
                answer = answer(json.loads(body)) if callable(answer) else answer
                receiver.busy -= 1
                self.send_response(answer)
                for name, value in receiver.headers.items():
                    self.send_header(name, value)
                self.end_headers()

            do_GET = do_POST

            def log_message(self, *args):
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}/hooks/T0PSECRET"

    @property
    def events(self):
        return [json.loads(body) for _path, _headers, body in self.got]

    @property
    def ids(self):
        return [event["id"] for event in self.events]

    def close(self):
        self._server.shutdown()
        self._server.server_close()


@pytest.fixture
def receiver():
    found = Receiver()
    yield found
    found.close()


@pytest.fixture
def hooked(conf, receiver):
    """A configuration that sends everything to the receiver, quickly."""
    for name, value in {
        "url": [receiver.url],
        "secret": SECRET,
        "first_pause": 0.02,
        "longest_pause": 0.1,
        "timeout": 10,
        "max_tries": 4,
    }.items():
        conf.set_override(name, value, group="webhooks")
    conf.set_override("poll_interval", 0.05, group="events")
    return conf


def tell(database, count=1, *, node=NODES[0], state="x"):
    row = New(events.NODE_STATE, None, {"state": state})
    for _ in range(count):
        database.write(lambda c: events.write(c, node, [row]))


def test_what_happens_is_sent_signed_and_in_order(hooked, start, database, receiver):
    database.idle_transaction_timeout = 0
    service = start(database)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(database, node.uuid, states.ACTIVE)
    written = [events.document(e) for e in events.after(database, 0, 100, node=node.uuid)]
    support.until(lambda: len(receiver.got) >= len(written))
    support.until(lambda: webhooks.listing(database, None, 10) == [])
    assert receiver.events == written
    for path, headers, body in receiver.got:
        assert path == "/hooks/T0PSECRET" and headers["Content-Type"] == "application/json"
        signed = headers["X-Deploysteps-Timestamp"].encode() + b"." + body
        digest = hmac.new(SECRET.encode(), signed, hashlib.sha256).hexdigest()
        assert headers["X-Deploysteps-Signature"] == f"sha256={digest}"
        assert abs(int(headers["X-Deploysteps-Timestamp"]) - time.time()) < 600
        event = json.loads(body)
        assert headers["X-Deploysteps-Event-Id"] == str(event["id"])
        assert headers["X-Deploysteps-Event"] == event["type"]


def test_only_the_types_that_are_asked_for_are_sent(hooked, start, sqlite, receiver):
    hooked.set_override("events", ["run.finished", "step.failed"], group="webhooks")
    service = start(sqlite)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    support.until(lambda: receiver.got)
    time.sleep(0.3)
    assert [event["type"] for event in receiver.events] == ["run.finished"]


def test_what_was_before_a_receiver_was_named_is_not_sent(hooked, start, sqlite, receiver):
    tell(sqlite, 3)
    start(sqlite)
    tell(sqlite)
    support.until(lambda: receiver.got)
    assert receiver.ids == [4]


def test_all_is_sent_that_happens_once_a_service_has_started(
    hooked, start, sqlite, receiver, monkeypatch
):
    """However long it is until the thread that sends begins."""
    free, real = threading.Event(), sending.Receiver._run
    monkeypatch.setattr(sending.Receiver, "_run", lambda self: free.wait(60) and real(self))
    start(sqlite)
    tell(sqlite, 2)
    free.set()
    support.until(lambda: len(receiver.got) == 2)
    assert receiver.ids == [1, 2]


def test_what_a_start_does_is_sent_to_a_receiver_that_is_new(
    hooked, start, sqlite, receiver, monkeypatch
):
    """A run of an earlier life that ends by it, say."""
    sweep = Recovery.sweep

    def swept(self, **how):
        if how:
            tell(sqlite)
        return sweep(self, **how)

    monkeypatch.setattr(Recovery, "sweep", swept)
    start(sqlite)
    support.until(lambda: receiver.got)
    assert receiver.ids == [1]


def test_a_refusal_is_tried_again_and_what_follows_of_the_node_waits(
    hooked, start, sqlite, receiver
):
    """Growing, jittered pauses; other nodes go on."""
    tries = []

    def answer(event):
        if event["id"] != 1:
            return 200
        tries.append(time.monotonic())
        return 500 if len(tries) < 4 else 200

    receiver.answer = answer
    start(sqlite)
    tell(sqlite, 3)
    tell(sqlite, 1, node=NODES[1])
    support.until(lambda: len(receiver.got) >= 7)
    mine = [event["id"] for event in receiver.events if event["node"] == NODES[0]]
    assert mine == [1, 1, 1, 1, 2, 3]
    assert receiver.ids.index(4) < 6
    gaps = [after - before for before, after in itertools.pairwise(tries)]
    assert gaps[0] >= 0.01 and gaps[2] >= 0.04, gaps


def test_a_receiver_that_never_takes_it_makes_it_dead_and_a_command_revives_it(
    hooked, start, sqlite, receiver, tmp_path, caplog
):
    caplog.set_level(logging.DEBUG)
    receiver.answer = lambda event: 503 if event["id"] == 1 else 200
    start(sqlite)
    tell(sqlite, 2)
    support.until(lambda: 2 in receiver.ids)
    assert receiver.ids == [1, 1, 1, 1, 2], "what follows is sent when the one before is dead"
    (dead,) = webhooks.listing(sqlite, "dead", 10)
    assert dead.tries == 4 and dead.last_error == "it answered 503" and dead.event_id == 1
    config = tmp_path / "c.conf"
    config.write_text(f"[database]\nconnection = {sqlite.url}\n")

    def run(*args, code=0):
        result = CliRunner().invoke(cli, ["--config-file", str(config), "webhooks", *args])
        assert result.exit_code == code, result.output
        return result.output

    told = run("list")
    assert "dead" in told and "it answered 503" in told and "T0PSECRET" not in told
    listed = json.loads(run("list", "--state", "dead", "--json"))
    assert [one["event_id"] for one in listed] == [1]
    run("retry", code=2)
    run("retry", "77", code=3)
    receiver.answer = 200
    assert "1 is sent again" in run("retry", str(listed[0]["id"]))
    support.until(lambda: receiver.ids[-1] == 1)
    support.until(lambda: "every webhook was taken" in run("list"))
    assert json.loads(run("retry", "--all", "--json")) == {"again": 0}
    # urllib3 tells paths at DEBUG; the service lets it speak of warnings only.
    assert any(level.startswith("urllib3=") for level in configuration.LOG_LEVELS)
    logged = " ".join(r.getMessage() for r in caplog.records if r.name.startswith("deploysteps"))
    for secret in (SECRET, "T0PSECRET"):
        assert secret not in logged


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(hooked, start, sqlite, receiver, status):
    """Else a receiver could have requests sent anywhere."""
    other = Receiver()
    receiver.answer, receiver.headers = status, {"Location": other.url}
    hooked.set_override("max_tries", 1, group="webhooks")
    start(sqlite)
    tell(sqlite)
    (dead,) = support.until(lambda: webhooks.listing(sqlite, "dead", 10))
    assert dead.last_error == f"it answered {status}, and redirects are not followed"
    assert other.got == []
    other.close()


def test_the_environment_names_no_proxy(hooked, start, sqlite, receiver, monkeypatch):
    proxy = Receiver()
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy.url)
    start(sqlite)
    tell(sqlite)
    support.until(lambda: receiver.got)
    assert proxy.got == []
    proxy.close()


def test_what_hangs_or_is_not_there_is_a_failure_in_words(hooked, start, sqlite, caplog):
    """The address, whose path may be secret, is in no text."""
    with socket.socket() as deaf, socket.socket() as nobody:
        deaf.bind(("127.0.0.1", 0))
        deaf.listen()
        nobody.bind(("127.0.0.1", 0))
        urls = [f"http://127.0.0.1:{s.getsockname()[1]}/T0PSECRET" for s in (deaf, nobody)]
        hooked.set_override("url", urls, group="webhooks")
        hooked.set_override("max_tries", 1, group="webhooks")
        hooked.set_override("timeout", 0.3, group="webhooks")
        start(sqlite)
        tell(sqlite)
        dead = support.until(
            lambda: len(found := webhooks.listing(sqlite, "dead", 10)) == 2 and found
        )
    assert sorted(one.last_error for one in dead) == [
        "ConnectionError: Connection refused",
        "ReadTimeout",
    ]
    assert "T0PSECRET" not in caplog.text + str(dead)


def receiver_of(database, start, url, host):
    """Return what serves a receiver as a conductor, without its thread."""
    runtime = start(database, host=host).runtime
    return sending.Receiver(runtime, url, webhooks.holder_of(host, runtime.boot_id))


def test_one_process_at_a_time_sends(conf, start, sqlite, receiver):
    """Several conductors: a lease; the next takes over when it is over, or given back."""
    conf.set_override("secret", SECRET, group="webhooks")
    one, two = (receiver_of(sqlite, start, receiver.url, name) for name in ("a", "b"))
    assert one.round() == one._every
    tell(sqlite, 3)
    assert two.round() == sending._STANDBY and receiver.got == []
    until = time.monotonic() + 60
    while len(receiver.got) < 3 and time.monotonic() < until:
        one.round()
        two.round()
        time.sleep(0.02)
    assert receiver.ids == [1, 2, 3]
    webhooks.give_back(sqlite, one._holder)
    tell(sqlite)
    support.until(lambda: two.round() is not None and len(receiver.got) == 4)
    assert receiver.ids == [1, 2, 3, 4]
    one._lease_ends = 0.0
    assert one.round() == sending._STANDBY


def test_a_conductor_that_is_started_again_takes_up_what_it_had_at_once(database):
    """A killed process gives no lease back; others wait for its end, or for that start."""
    endpoint = webhooks.known(database, "http://receiver/").id
    mine, others = (webhooks.holder_of(*one) for one in (("h" * 50, "a1" * 16), ("g", "b2" * 16)))

    def lease(holder):
        return webhooks.lease(database, endpoint, holder, 50)

    conductors.register(database, "h" * 50, "a1" * 16, ())
    conductors.register(database, "g", "b2" * 16, ())
    assert lease(mine) and lease(mine)
    assert not lease(others), "it may still live"
    conductors.register(database, "h" * 50, "c3" * 16, ())
    again = webhooks.holder_of("h" * 50, "c3" * 16)
    assert lease(again)
    assert not lease(mine) and not lease(others)
    conductors.register(database, "h" * 50, "d4" * 16, ())
    assert lease(others), "whose holder is gone for sure is anybody's"
    assert not lease(webhooks.holder_of("h" * 50, "d4" * 16))


@pytest.mark.parametrize("at_once", [1, 3, 500])
def test_the_oldest_of_each_node_is_due_whatever_the_servers_statistics_say(
    database, monkeypatch, at_once
):
    """One statement for what is first of each node, and one for each so many of these."""
    monkeypatch.setattr(webhooks, "_AT_ONCE", at_once)
    endpoint = webhooks.known(database, "http://receiver/").id
    now = types.utcnow()
    rows = [
        {
            "endpoint_id": endpoint,
            "event_id": n,
            "node_uuid": f"n{n % 4}",
            "state": "dead" if n == 3 else "pending",
            "body": "{}",
            "created_at": now,
            "tries": 0,
            "next_try_at": now + datetime.timedelta(hours=n == 1),
        }
        for n in range(200)
    ]
    with database.engine.begin() as connection:
        connection.execute(sa.insert(WebhookDelivery), rows)
    with counting(database) as sent:
        assert [one.event_id for one in webhooks.due(database, endpoint, 10)] == [0, 2, 7]
    assert sent.statements <= 1 + max(4 // at_once, 1) + 1
    assert [one.event_id for one in webhooks.due(database, endpoint, 2)] == [0, 2]
    assert webhooks.due(database, endpoint + 1, 2) == []


@pytest.mark.parametrize("kept", [0, 1])
def test_no_id_is_given_again(sqlite, kept):
    """SQLite gives the id of the newest row again, unless it is told not to (promise 13)."""
    given = set()
    for _ in range(3):
        endpoint = webhooks.known(sqlite, "http://receiver/")
        assert webhooks.lease(sqlite, endpoint.id, "me", 50)
        tell(sqlite)
        (event,) = events.after(sqlite, endpoint.cursor, 10)
        ready = [webhooks.Ready(event, "{}")]
        assert webhooks.take(sqlite, endpoint.id, "me", endpoint.cursor, event.id, ready)
        (delivery,) = webhooks.listing(sqlite, None, 10)
        new = {("event", event.id), ("delivery", delivery.id), ("endpoint", endpoint.id)}
        assert not given & new
        given |= new
        with sqlite.engine.begin() as connection:
            connection.execute(sa.delete(WebhookEndpoint))
            connection.execute(sa.delete(WebhookDelivery))
            if not kept:
                connection.execute(sa.delete(Event))


def test_two_conductors_deliver_each_event_once_while_they_live(hooked, start, database, receiver):
    database.idle_transaction_timeout = 0
    receiver.pause = 0.01
    start(database, host="c-1"), start(database, host="c-2")
    for node in NODES:
        tell(database, 10, node=node)
    support.until(lambda: len(receiver.got) >= 30)
    time.sleep(0.3)
    assert len(receiver.got) == 30
    for node in NODES:
        mine = [event["id"] for event in receiver.events if event["node"] == node]
        assert mine == sorted(mine) and len(mine) == 10


def test_what_was_sent_and_could_not_be_noted_is_sent_again(
    hooked, start, sqlite, receiver, monkeypatch
):
    """At least once: receivers tell a second one by its id."""
    monkeypatch.setattr(sending, "_AFTER_ERROR", 0.05)
    real, broken = webhooks.delivered, [True]

    def delivered(*args):
        if broken:
            broken.pop()
            raise exceptions.DatabaseUnavailable(reason="gone")
        return real(*args)

    monkeypatch.setattr(webhooks, "delivered", delivered)
    start(sqlite)
    tell(sqlite, 2)
    support.until(lambda: 2 in receiver.ids)
    assert receiver.ids == [1, 1, 2]


def test_so_many_requests_are_on_their_way_and_no_more(hooked, start, sqlite, receiver):
    hooked.set_override("workers", 2, group="webhooks")
    receiver.pause = 0.05
    start(sqlite)
    for n in range(10):
        tell(sqlite, node=f"node-{n}")
    support.until(lambda: len(receiver.got) == 10)
    assert receiver.most_busy == 2


def test_events_wait_in_their_table_while_a_receiver_has_too_many(
    hooked, start, sqlite, receiver, monkeypatch
):
    monkeypatch.setattr(sending, "_MOST_PENDING", 5)
    monkeypatch.setattr(sending, "_BATCH", 5)
    hooked.set_override("max_tries", 1000, group="webhooks")
    receiver.answer = 500
    start(sqlite)
    tell(sqlite, 20)
    time.sleep(0.5)
    # Fewer than the most are topped up by one batch; how many were there at the first look varies.
    assert 5 <= len(webhooks.listing(sqlite, None, 100)) < 5 + 5
    receiver.answer = 200
    support.until(lambda: 20 in receiver.ids)
    assert sorted(set(receiver.ids)) == list(range(1, 21))


def test_events_that_are_gone_before_they_were_sent_are_told(
    hooked, start, sqlite, receiver, caplog
):
    webhooks.known(sqlite, receiver.url)
    tell(sqlite, 10)
    events.prune(sqlite, hours=0, rows=3)
    start(sqlite)
    support.until(lambda: len(receiver.got) == 3)
    assert receiver.ids == [8, 9, 10]
    assert "up to 7 events were removed before they were sent" in caplog.text


def test_old_dead_ones_and_receivers_that_nobody_serves_go(sqlite, start, hooked, receiver):
    endpoint = webhooks.known(sqlite, receiver.url)
    assert webhooks.lease(sqlite, endpoint.id, "me", -10)
    tell(sqlite)
    (event,) = events.after(sqlite, 0, 10)
    ready = [webhooks.Ready(event, "{}")]
    assert webhooks.take(sqlite, endpoint.id, "me", 0, 1, ready)
    assert not webhooks.take(sqlite, endpoint.id, "me", 0, 1, ready), "the cursor has moved"
    assert not webhooks.take(sqlite, endpoint.id, "you", 1, 2, []), "another has the lease"
    (delivery,) = webhooks.due(sqlite, endpoint.id, 10)
    webhooks.failed(sqlite, delivery, "you", "x", None)
    assert webhooks.queue(sqlite) == {"pending": 1}, "what another writes is not written"
    webhooks.failed(sqlite, delivery, "me", "x", None)
    assert webhooks.queue(sqlite) == {"dead": 1}
    assert webhooks.prune(sqlite, event.at.replace(year=2020)) == 0
    assert webhooks.prune(sqlite, event.at.replace(year=2100)) == 2
    assert webhooks.queue(sqlite) == {}


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"url": ["http://h/"]}, "[webhooks] secret must have at least 16 characters"),
        ({"url": ["http://h/"], "secret": "short"}, "[webhooks] secret must have"),
        ({"events": ["run.done"]}, "there is no type 'run.done'; there are run.started"),
    ],
)
def test_settings_that_make_no_sense_are_refused(conf, settings, told):
    for name, value in settings.items():
        conf.set_override(name, value, group="webhooks")
    with pytest.raises(exceptions.ConfigurationError) as refused:
        configuration.check(conf)
    assert told in str(refused.value)


def test_an_address_that_is_none_is_not_repeated(conf, monkeypatch):
    """Its path may be secret."""
    monkeypatch.setenv("OS_WEBHOOKS__URL", "ftp://host/T0PSECRET")
    with pytest.raises(exceptions.ConfigurationError) as refused:
        configuration.check(conf)
    assert "[webhooks] url" in str(refused.value) and "T0PSECRET" not in str(refused.value)


def test_a_process_that_is_killed_has_lost_nothing(receiver, tmp_path):
    """kill -9, twice, while it sends: every event comes, in its node's order."""
    receiver.pause = 0.02
    settings = {
        "conductor": {"recovery_interval": 0.5},
        "events": {"poll_interval": 0.05},
        "webhooks": {
            "url": receiver.url,
            "secret": SECRET,
            "timeout": 30,  # a lease of two minutes, which nobody waits for
            "first_pause": 0.05,
        },
    }
    service = LocalService(tmp_path, settings)
    with service:
        enrol(service.client)
        for round_ in range(2):
            deploy(service.client)
            wait_for(lambda: receiver.got, "something is sent")
            time.sleep(0.1 + 0.15 * round_)
            service.kill()
            service.start()
            wait_for(
                lambda: (
                    service.client.get("/v1/nodes/n")["provision_state"]
                    in ("active", "deploy failed")
                ),
                "an end",
            )
            service.client.put("/v1/nodes/n/states/provision", {"target": "deleted"})
            wait_for(
                lambda: service.client.get("/v1/nodes/n")["provision_state"] == "available",
                "available",
            )
        database = Database(f"sqlite:///{tmp_path}/var/deploysteps.sqlite")
        newest = events.edges(database).newest
        wait_for(lambda: newest in receiver.ids, "the last event is sent")
        database.dispose()
    assert sorted(set(receiver.ids)) == list(range(1, newest + 1))
    first_time = list(dict.fromkeys(receiver.ids))
    assert first_time == sorted(first_time)
