"""The threads of the server are made when there is something for them to do."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from cheroot.workers import threadpool

from deploysteps.api.threads import Threads

MOST = 3


class Server:
    """What a pool needs of a server."""

    def __init__(self) -> None:
        self.stats: dict[str, Any] = {"Enabled": False, "Worker Threads": {}}
        self.kept: list[Any] = []
        self.errors: list[str] = []

    def put_conn(self, connection: Any) -> None:
        self.kept.append(connection)

    def error_log(self, text: str = "", level: int = 20, traceback: bool = False) -> None:
        self.errors.append(text)


class Connection:
    """A request that takes until it is let go."""

    remote_addr, remote_port, rfile = "127.0.0.1", 1, None

    def __init__(self, pool: Threads, *, breaks: bool = False) -> None:
        self.pool, self.breaks = pool, breaks
        self.begun, self.go = threading.Event(), threading.Event()

    def communicate(self) -> bool:
        try:
            self.begun.set()
            assert self.go.wait(60)
            if self.breaks:
                raise ValueError("broken")
            return True
        finally:
            self.pool.done()

    def close(self) -> None:
        """Nothing is open."""


@pytest.fixture
def pool() -> Iterator[Threads]:
    server: Any = Server()
    made = Threads(server, MOST)
    server.requests = made
    made.start()
    yield made
    made.stop(5)


def threads(pool: Threads) -> int:
    return len(pool._threads)


def put(pool: Threads, **more: Any) -> Connection:
    made = Connection(pool, **more)
    pool.put(made)
    return made


def test_it_begins_with_one(pool: Threads) -> None:
    assert threads(pool) == 1


def test_one_request_after_the_other_needs_one_thread(pool: Threads) -> None:
    for _ in range(20):
        one = put(pool)
        one.go.set()
        assert one.begun.wait(60)
        until(lambda: pool._under_way == 0)
    assert threads(pool) == 1


def test_requests_at_once_get_a_thread_each_up_to_the_most(pool: Threads) -> None:
    """F24: one that takes long holds up no other."""
    held = [put(pool) for _ in range(MOST)]
    assert all(one.begun.wait(60) for one in held)
    assert threads(pool) == MOST
    waiting = put(pool)
    assert not waiting.begun.wait(0.1)
    assert threads(pool) == MOST
    held[0].go.set()
    assert waiting.begun.wait(60)
    for one in (*held, waiting):
        one.go.set()


def test_a_request_that_breaks_leaves_room_for_the_next(pool: Threads) -> None:
    for _ in range(MOST * 2):
        one = put(pool, breaks=True)
        one.go.set()
        until(lambda: pool._under_way == 0)
    last = put(pool)
    assert last.begun.wait(60)
    last.go.set()
    assert threads(pool) == 1


def test_a_thread_that_ended_is_replaced(pool: Threads) -> None:
    pool._queue.put(threadpool._SHUTDOWNREQUEST)
    pool._threads[0].join(60)
    one = put(pool)
    assert one.begun.wait(60)
    one.go.set()
    assert threads(pool) == 1


def test_what_cannot_be_queued_is_not_counted(
    pool: Threads, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_args: Any, **_more: Any) -> None:
        raise RuntimeError("full")

    monkeypatch.setattr(pool._queue, "put", full)
    with pytest.raises(RuntimeError, match="full"):
        put(pool)
    monkeypatch.undo()
    assert pool._under_way == 0


def until(condition: Any) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.002)
