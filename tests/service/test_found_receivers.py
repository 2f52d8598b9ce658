"""Found by trying to break it: receivers of webhooks that answer slowly, and what logs say."""

from __future__ import annotations

import logging
import socket
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from deploysteps import bounded, exceptions
from deploysteps.conductor import webhooks as sending
from deploysteps.db import webhooks
from tests import support
from tests.service.test_webhooks import SECRET, Receiver, tell


class Dripping:
    """Takes requests, and never ends the head of its answer: a byte now and then."""

    def __init__(self, begins: bytes, then: bytes):
        self.socket = socket.socket()
        self.socket.bind(("127.0.0.1", 0))
        self.socket.listen(20)
        self.begins, self.then, self.asked = begins, then, 0
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}/hooks/T0PSECRET"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:
                return
            self.asked += 1
            threading.Thread(target=self._drip, args=(connection,), daemon=True).start()

    def _drip(self, connection):
        try:
            connection.recv(65536)
            connection.sendall(self.begins)
            while True:
                time.sleep(0.1)
                connection.sendall(self.then)
        except OSError:
            connection.close()


@pytest.fixture(
    params=[
        (b"HTTP/1.1 2", b"0"),
        (b"HTTP/1.1 200 OK\r\nX: ", b"a"),
        (b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    ],
    ids=["status line", "header", "100 Continue"],
)
def dripping(request):
    found = Dripping(*request.param)
    yield found
    found.socket.close()


def hook(conf, url, **more):
    for name, value in {
        "url": [url],
        "secret": SECRET,
        "first_pause": 0.02,
        "longest_pause": 0.1,
        "timeout": 0.3,
        "max_tries": 2,
        **more,
    }.items():
        conf.set_override(name, value, group="webhooks")
    conf.set_override("poll_interval", 0.05, group="events")


def test_a_receiver_that_never_ends_its_answer_is_given_up(conf, start, sqlite, dripping):
    hook(conf, dripping.url)
    start(sqlite)
    tell(sqlite)
    support.until(lambda: webhooks.queue(sqlite) == {"dead": 1})
    support.until(lambda: dripping.asked == 2)
    assert "Timeout" in webhooks.listing(sqlite, "dead", 10)[0].last_error


def test_one_on_its_way_keeps_no_process(conf, start, sqlite, dripping):
    """Its thread is a daemon: what it has not taken is sent again after the next start."""
    hook(conf, dripping.url, timeout=60)
    service = start(sqlite)
    tell(sqlite)
    support.until(lambda: dripping.asked)
    sending = [t for t in threading.enumerate() if t.name == "webhook"]
    assert sending and all(thread.daemon for thread in sending)
    service._webhooks._receivers[0].leave()


def test_a_process_that_sends_ends(dripping, tmp_path):
    code = f"""
        import threading, requests
        from deploysteps import bounded
        def post():
            with requests.Session() as session:
                session.mount("http://", bounded.Adapter())
                bounded.within(1)
                try:
                    session.post({dripping.url!r}, data=b"x", timeout=(1, 1))
                except requests.RequestException as exc:
                    print(type(exc).__name__)
        thread = threading.Thread(target=post)
        thread.start()
        thread.join()
        """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "Timeout" in done.stdout, done.stderr


def test_without_a_time_no_answer_is_read():
    """Who forgets to say how long reads nothing, and not for ever."""
    import contextvars

    import requests

    receiver = Receiver()

    def ask():
        with requests.Session() as session:
            session.mount("http://", bounded.Adapter())
            session.get(receiver.url, timeout=60)

    with pytest.raises(LookupError):
        contextvars.Context().run(ask)
    receiver.close()


def test_a_database_that_is_away_is_told_when_it_goes_and_when_it_is_back(
    conf, start, sqlite, caplog, monkeypatch
):
    """F52, F76: not each second of each receiver; and what else goes wrong has no path in it."""
    monkeypatch.setattr(sending, "_AFTER_ERROR", 0.01)
    conf.set_override("poll_interval", 0.05, group="events")
    url = "http://127.0.0.1:9/hooks/T0PSECRET"
    away = exceptions.DatabaseUnavailable(reason="gone")
    goes_wrong = [away, away, away, None, ValueError(f"no such place: {url}"), None]

    class Watched(sending.Receiver):
        def round(self):
            if not goes_wrong:
                self.leave()
            elif (problem := goes_wrong.pop(0)) is not None:
                raise problem
            return 0.0

    receiver = Watched(start(sqlite).runtime, url, "holder")
    caplog.set_level("INFO", sending.__name__)
    receiver.start()
    assert receiver.ended(time.monotonic() + 60)
    what = f"Sending webhooks to {receiver.name}"
    assert [m for m in caplog.messages if m.startswith(what)] == [
        f"{what} failed; it is tried again: The database does not answer: gone",
        f"{what}: the database is back",
        f"{what} failed; it is tried again: ValueError",
    ]
    assert "T0PSECRET" not in caplog.text


def test_no_log_has_the_path_of_a_receiver(conf, start, sqlite, caplog):
    """F76: it may be what the receiver knows its senders by."""
    receiver = Receiver()
    hook(conf, receiver.url, timeout=60)
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, logger="urllib3"):
        start(sqlite)
        tell(sqlite)
        support.until(lambda: receiver.got)
        support.until(lambda: webhooks.queue(sqlite) == {})
    assert "T0PSECRET" not in caplog.text
    receiver.close()
