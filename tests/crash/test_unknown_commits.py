"""The connection breaks at COMMIT: it may have happened or not (promise 4).

Whatever the answer is, no step is run twice, none is skipped, and nobody who
asked for something is told that it went wrong.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from sqlalchemy import event

from deploysteps import states
from deploysteps.db import engine, nodes
from deploysteps.db.engine import Database
from tests import support
from tests.crash import checks
from tests.crash.journal import journal
from tests.crash.scenarios import DENSE, ELSEWHERE, IN_DEPLOY, SCENARIOS
from tests.crash.stage import HOST, Stage
from tests.crash.stepwise import drive

Commit = Callable[[Any], None]


class Breaking:
    """Breaks the connections of a database at COMMIT, as ``choose`` says."""

    def __init__(self, database: Database) -> None:
        self.dialect = database.engine.dialect
        self.commit: Commit = self.dialect.do_commit
        self.breaks = 0
        self.choose: Callable[[], Commit] = lambda: self.commit
        self._spared: list[Any] = []
        self.away = 0
        """How many attempts to connect fail from now on."""
        event.listen(database.engine, "do_connect", self._connect)
        self.dialect.do_commit = lambda connection: self.choose()(connection)

    def _connect(self, dialect: Any, *_: Any) -> None:
        if self.away > 0:
            self.away -= 1
            raise dialect.dbapi.OperationalError(2003, "the database is away")

    def before(self, connection: Any) -> None:
        """Break it before the COMMIT is sent: nothing happened."""
        self.breaks += 1
        connection.dbapi_connection.close()
        self.commit(connection)

    def after(self, connection: Any) -> None:
        """Break it before the answer is heard: it happened."""
        self.commit(connection)
        self.before(connection)

    def toggling(self, broken: Commit) -> Callable[[], Commit]:
        """Break the first try of each transaction; the second is let through."""
        state = [False]

        def choose() -> Commit:
            state[0] = not state[0]
            return broken if state[0] else self.commit

        return choose

    def some(self, seed: int) -> Callable[[], Commit]:
        """Break half of them, one way or the other."""
        source = random.Random(seed)
        return lambda: source.choice([self.commit, self.commit, self.before, self.after])

    def late(self, pause: float) -> Commit:
        """Break it while the server has the COMMIT still to do; it does it after a pause."""

        def commit(connection: Any) -> None:
            self.breaks += 1
            raw = connection.dbapi_connection
            self._spare(raw)
            threading.Timer(pause, lambda: (raw.commit(), raw.close())).start()
            raise self._gone()

        return commit

    def _spare(self, raw: Any) -> None:
        """Keep the pool from closing a connection that only seems to be broken."""
        self._spared.append(raw)
        for name in ("do_close", "do_terminate"):
            close = getattr(self.dialect, name)
            setattr(
                self.dialect,
                name,
                lambda one, close=close: None if one in self._spared else close(one),
            )

    def _gone(self) -> Exception:
        dialect: Any = self.dialect
        error = dialect.dbapi.OperationalError(2013, "Lost connection during query")
        known = dialect.is_disconnect
        dialect.is_disconnect = lambda exc, *more: exc is error or known(exc, *more)
        return error  # type: ignore[no-any-return]


@pytest.fixture
def stage(database: Database, conf: Any, tmp_path: Any) -> Iterator[Callable[..., Stage]]:
    """A stage in this process, and what breaks its connections."""
    made: list[Stage] = []

    def make(name: str) -> Stage:
        made.append(Stage(database, conf, SCENARIOS[name], tmp_path / "journal", served=False))
        made[0].set_up()
        return made[0]

    yield make
    made[0].database.dispose()


def told_to_its_end(stage: Stage) -> None:
    """Tell a story that loses nothing, so that it has to reach its goal."""
    conductor = stage.conductor(HOST)
    conductor.start()
    stage.node(conductor)
    before = checks.Before(stage.eyes, stage.uuid)
    stage.live(HOST)
    checks.check(stage.eyes, stage.scenario, before, stage.uuid)


HOW = {
    "before it happened": lambda breaking: breaking.toggling(breaking.before),
    "after it happened": lambda breaking: breaking.toggling(breaking.after),
    "now and then": lambda breaking: breaking.some(3),
}


SERVERS = pytest.mark.parametrize("kind", ["postgresql", "mysql"])


EACH_WAY = [(name, how) for name in IN_DEPLOY for how in HOW]
"""Each story of a deployment, in each way."""
ONE_WAY = [(name, "now and then") for name in ELSEWHERE]
"""The same stories in the other flows."""


@pytest.mark.parametrize("kind", ["sqlite"])
@pytest.mark.parametrize(("name", "how"), EACH_WAY + ONE_WAY)
def test_no_step_is_lost_or_run_twice_when_connections_break_at_commit(stage, name, how):
    """F16, F28, F34, F54: every transition of every story, broken at its COMMIT."""
    found = stage(name)
    breaking = Breaking(found.database)
    breaking.choose = HOW[how](breaking)
    told_to_its_end(found)
    assert breaking.breaks > 3


@pytest.mark.crash
@SERVERS
@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("name", DENSE)
def test_no_step_is_lost_or_run_twice_when_a_servers_connections_break(stage, name, how):
    """F16, F28, F34, F54: the same on servers."""
    test_no_step_is_lost_or_run_twice_when_connections_break_at_commit(stage, name, how)


@pytest.mark.parametrize("name", ["once", "aborted-waiting"])
def test_a_database_that_is_away_for_a_moment_after_a_commit_costs_no_step(stage, name, kind):
    """F16, F52: what is to be looked up cannot be looked up at once."""
    found = stage(name)
    breaking, count = Breaking(found.database), [0]

    def commit(connection: Any) -> None:
        count[0] += 1
        if count[0] % 3:
            breaking.commit(connection)
            return
        breaking.away = 3
        (breaking.after if count[0] % 2 else breaking.before)(connection)

    breaking.choose = lambda: commit
    told_to_its_end(found)
    assert breaking.breaks > 3


@pytest.mark.parametrize("is_stopped", [False, True])
@pytest.mark.parametrize("how", ["before", "after"])
def test_a_database_that_is_away_for_long_costs_no_step_unless_the_conductor_is_stopped(
    stage, monkeypatch, how, is_stopped
):
    """F43, F52: what was done is kept for it; a conductor that stops leaves it as a crash does."""
    monkeypatch.setattr(engine, "_TRIES", 2)
    monkeypatch.setattr(engine, "_LONGEST_PAUSE", 0.01)
    found = stage("repeatable")
    breaking = Breaking(found.database)
    conductor = found.conductor(HOST)
    conductor.start()
    node = found.node(conductor)

    def commit(connection: Any) -> None:
        if journal.count("run", "sync") == 0:
            breaking.commit(connection)
            return
        breaking.choose = lambda: breaking.commit
        breaking.away = 50
        if is_stopped:
            conductor.runtime.stopping.set()
        getattr(breaking, how)(connection)

    breaking.choose = lambda: commit
    conductor.manager.do_node_deploy(None, node.uuid)
    assert (breaking.away > 0) is is_stopped
    breaking.away = 0
    if is_stopped:
        assert nodes.get(found.eyes, node.uuid).provision_state == states.DEPLOYING
        conductor.runtime.stopping.clear()
        conductor.recovery.sweep()
    drive(conductor, found.eyes, node.uuid)
    node = nodes.get(found.eyes, node.uuid)
    assert node.provision_state == states.ACTIVE, node.last_error
    assert journal.count("run", "sync") == (2 if is_stopped and how == "before" else 1)
    checks.history_is_complete(found.eyes, node, support.last_run(found.eyes, node))


@SERVERS
@pytest.mark.parametrize("name", ["once", "aborted-waiting"])
def test_a_commit_that_is_still_on_its_way_is_waited_for(stage, name):
    """F16: the look-up must not say "no" of what happens a moment later."""
    found = stage(name)
    told_to_its_end(found)
    found.set_up()
    breaking = Breaking(found.database)
    late, count = breaking.late(0.1), [0]

    def each_third() -> Commit:
        count[0] += 1
        return late if count[0] % 3 == 0 else breaking.commit

    breaking.choose = each_third
    told_to_its_end(found)
    assert breaking.breaks > 3
    time.sleep(0.2)  # the last of them
    assert journal.count("run", "second" if name == "aborted-waiting" else "sync") == 1


def killed_by_the_server(stage: Stage, other: Database) -> Callable[[Any], None]:
    """Return what ends a connection from the server's side."""

    def kill(connection: Any) -> None:
        raw = connection.dbapi_connection
        if other.dialect == "postgresql":
            order = f"SELECT pg_terminate_backend({raw.info.backend_pid})"
        else:
            order = f"KILL {raw.thread_id()}"
        with other.engine.connect() as admin:
            admin.execute(sa.text(order))

    return kill


@SERVERS
@pytest.mark.parametrize("name", ["once", "failing", "aborted-waiting"])
def test_a_server_that_ends_connections_at_commit_costs_no_step(stage, name, database):
    """F16, F52: ``pg_terminate_backend`` and ``KILL``, just before each third COMMIT."""
    found = stage(name)
    breaking, count = Breaking(found.database), [0]
    kill = killed_by_the_server(found, database)

    def commit(connection: Any) -> None:
        count[0] += 1
        if count[0] % 3 == 0:
            breaking.breaks += 1
            kill(connection)
        breaking.commit(connection)

    breaking.choose = lambda: commit
    told_to_its_end(found)
    assert breaking.breaks > 3
