"""A process is killed (SIGKILL) at every point between two SQL statements (F34, F43-F54, F63).

``make crash`` tries every point of every story on every database, with three
sequels: the same conductor starts again, another takes over, and the one that
starts again is killed as well. ``make test`` tries a sample.
"""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploysteps import states
from deploysteps.db import nodes, runs
from deploysteps.db.engine import Database
from tests import support
from tests.crash import checks
from tests.crash.scenarios import SCENARIOS, Deploy, Scenario, journal, node_for
from tests.crash.stepwise import Stepwise, drive, forked, points, unconnected, watched

HOST, OTHER = "conductor-1", "conductor-2"


def _hasty(database: Database) -> str:
    """Return the database's URL, for commits that need to survive a process and no power cut."""
    url = database.url
    if url.get_backend_name() == "postgresql":
        url = url.update_query_dict({"options": "-c synchronous_commit=off"})
    return url.render_as_string(hide_password=False)


class Stage:
    """A warmed-up process that stories are told in, each in forks of it."""

    def __init__(self, database: Database, conf: Any, scenario: Scenario, path: Path) -> None:
        self.conf = conf
        self.scenario = scenario
        self.eyes = database
        self.database = watched(Database(_hasty(database), connect_wait=5))
        self.registry = support.registry(conf, vendor=scenario.vendor, deploy=Deploy)
        self.uuid = ""
        self._path = path

    def set_up(self) -> None:
        """Make a node and close every connection, so that no fork shares one."""
        journal.path = self._path
        self._path.unlink(missing_ok=True)
        conductor = self.conductor(HOST)
        self.uuid = node_for(conductor, self.scenario).uuid
        self.eyes.dispose()
        self.database.dispose()

    def conductor(self, host: str) -> Stepwise:
        return Stepwise(self.database, self.conf, self.registry, host)

    def tell(self, conductor: Stepwise) -> None:
        """Tell the story from where it is."""
        scenario = self.scenario
        node = nodes.get(self.eyes, self.uuid)
        if node.provision_state == scenario.at and not self._was_asked(node):
            scenario.begin(conductor, node)
        if scenario.stops and conductor.runtime.stopping.is_set():
            return
        drive(conductor, self.eyes, self.uuid, scenario.world)

    def _was_asked(self, node: Any) -> bool:
        if self.scenario.steps:
            return bool(runs.of_node(self.eyes, node.id, limit=1))
        return journal.path.exists() or node.last_error is not None

    def live(self, host: str) -> None:
        """Start as ``host`` and tell the story to its end; start again when it stops in it."""
        while True:
            conductor = self.conductor(host)
            conductor.start()
            self.tell(conductor)
            if not conductor.runtime.stopping.is_set():
                return

    def warm_up(self) -> None:
        """Tell it once in this process: what is compiled then is there in each fork."""
        self.set_up()
        self.live(HOST)
        self.set_up()
        gc.collect()
        gc.freeze()

    # --- in forks ---

    def first_life(self, at: int) -> int:
        """Live until the ``at``-th point; returns how many there were if it is beyond."""
        self._in_fork()
        conductor = self.conductor(HOST)
        conductor.start()
        points.arm(at)
        self.tell(conductor)
        return points.count

    def next_life(self, host: str, at: int = 0) -> str:
        """Recover as ``host``, tell the rest, check all; killed at a point if there is one."""
        self._in_fork()
        before = checks.Before(self.eyes, self.uuid)
        try:
            self._live_on(host, at, before)
        except BaseException as exc:
            node = nodes.get(self.eyes, self.uuid)
            exc.add_note(f"a crash {before}")
            exc.add_note(f"now {checks.Before(self.eyes, self.uuid)}, error {node.last_error}")
            raise
        return nodes.get(self.eyes, self.uuid).provision_state

    def _live_on(self, host: str, at: int, before: checks.Before) -> None:
        if host != HOST:
            self._is_left_alone_while_its_conductor_may_live(host, before)
            checks.aged(self.eyes, HOST)
        points.arm(at)
        self.live(host)
        points.arm(0)
        checks.check(self.eyes, self.scenario, before, self.uuid)

    def _is_left_alone_while_its_conductor_may_live(
        self, host: str, before: checks.Before
    ) -> None:
        node = before.node
        if node.reservation is None and node.provision_state in states.TRANSIENT_STATES:
            return  # left for anybody, by a conductor that stopped
        self.conductor(host).start()
        after = checks.Before(self.eyes, self.uuid)
        assert after.node.lock_token == node.lock_token, "it was taken from a conductor that lives"
        assert after.node.generation == node.generation
        if before.attempt is not None and after.attempt is not None:
            assert after.attempt.conductor == before.attempt.conductor == HOST

    def _in_fork(self) -> None:
        unconnected(self.eyes)
        unconnected(self.database)


@pytest.fixture
def stage(database: Database, conf: Any, tmp_path: Path) -> Iterator[Callable[[str], Stage]]:
    """Make a stage for a story."""
    made: list[Stage] = []

    def make(name: str) -> Stage:
        found = Stage(database, conf, SCENARIOS[name], tmp_path / "journal")
        made.append(found)
        found.warm_up()
        return found

    with warnings.catch_warnings():
        # The threads of the test runner do not matter to what a fork does here.
        warnings.simplefilter("ignore", DeprecationWarning)
        yield make
    for found in made:
        found.database.dispose()
    gc.unfreeze()


def restarted(stage: Stage, at: int) -> None:
    forked(lambda: stage.next_life(HOST))


def taken_over(stage: Stage, at: int) -> None:
    forked(lambda: stage.next_life(OTHER))


def killed_again(stage: Stage, at: int) -> None:
    """Kill the recovery as well, at another point each time, then let it be."""
    second = 1 + at * 7 % 60
    if forked(lambda: stage.next_life(HOST, second)).killed:
        forked(lambda: stage.next_life(HOST))


SEQUELS = {call.__name__: call for call in (restarted, taken_over, killed_again)}


def tell_until_every_point(stage: Stage, sequel: Any, step: int = 1) -> int:
    """Kill at each ``step``-th point until the story ends first; returns how many."""
    at, killed = 1, 0
    while True:
        stage.set_up()
        ended = forked(lambda at=at: stage.first_life(at))
        try:
            sequel(stage, at)
        except AssertionError as exc:
            exc.add_note(f"killed at point {at}")
            raise
        if not ended.killed:
            return killed
        killed += 1
        at += step


@pytest.mark.crash
@pytest.mark.timeout(900)
@pytest.mark.parametrize("sequel", SEQUELS)
@pytest.mark.parametrize("name", SCENARIOS)
def test_nothing_is_lost_run_twice_or_stuck_wherever_it_is_killed(
    stage, name, sequel, kind, record_property
):
    """F34, F43, F54, F63; F46 and F47 where another conductor takes over."""
    began = time.monotonic()
    killed = tell_until_every_point(stage(name), SEQUELS[sequel])
    record_property("kill_points", killed)
    print(f"{kind} {name} {sequel}: {killed} kill points, {time.monotonic() - began:.1f} s")
    assert killed > 5


def test_a_sample_of_the_crash_matrix(sqlite, conf, tmp_path):
    """F34, F54: each fifth point of a run; ``make crash`` tries them all."""
