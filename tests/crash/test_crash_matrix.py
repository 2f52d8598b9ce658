"""A process is killed (SIGKILL) at every point between two SQL statements (F34, F43-F54, F63).

``make crash`` tries every point of every story on every database, with three
sequels: the same conductor starts again, another takes over, and the one that
starts again is killed as well. ``make test`` tries a sample.
"""

from __future__ import annotations

import gc
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploysteps.db.engine import Database
from tests.crash.scenarios import SCENARIOS
from tests.crash.stage import HOST, OTHER, Stage
from tests.crash.stepwise import KILLED, forked


@pytest.fixture
def stage(database: Database, conf: Any, tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    """Make a stage for a story."""
    made: list[Stage] = []

    def make(name: str, *, served: bool = False) -> Stage:
        database.dispose()
        made.append(Stage(database, conf, SCENARIOS[name], tmp_path / "journal", served=served))
        made[0].warm_up()
        return made[0]

    with warnings.catch_warnings():
        # The threads of the test runner do not matter to what a fork does here.
        warnings.simplefilter("ignore", DeprecationWarning)
        yield make
    for found in made:
        found.database.dispose()
    gc.unfreeze()


@pytest.fixture
def tried(record_property: Callable[..., None]) -> Callable[..., None]:
    """Note how many points were tried; the summary of the test run lists them."""

    def note(killed: int, *, of: str, on: str) -> None:
        record_property(KILLED, f"{killed} kill points on {on}: {of}")
        assert killed > 2

    return note


def restarted(stage: Stage, at: int) -> None:
    forked(lambda: stage.next_life(HOST))


def taken_over(stage: Stage, at: int) -> None:
    forked(lambda: stage.next_life(OTHER))


def killed_again(stage: Stage, at: int) -> None:
    """Kill the recovery as well, at another point each time, then let it be."""
    second = 1 + at * 7 % 60
    if forked(lambda: stage.next_life(HOST, second)).killed:
        forked(lambda: stage.next_life(HOST))


SEQUELS: dict[str, tuple[Callable[[Stage, int], None], int, int]] = {
    # what follows a kill, and every how many-th point it is tried at: on SQLite, on servers
    "restarted": (restarted, 1, 1),
    "taken_over": (taken_over, 2, 4),
    "killed_again": (killed_again, 2, 4),
}


def tell_until_every_point(stage: Stage, sequel: Callable[[Stage, int], None], step: int) -> int:
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
def test_nothing_is_lost_run_twice_or_stuck_wherever_it_is_killed(stage, name, sequel, kind, tried):
    """F34, F43, F54, F63; F46 and F47 where another conductor takes over."""
    call, on_sqlite, on_servers = SEQUELS[sequel]
    step = on_sqlite if kind == "sqlite" else on_servers
    tried(tell_until_every_point(stage(name), call, step), of=f"{name}, {sequel}", on=kind)


@pytest.mark.crash
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["repeatable", "once"])
def test_nothing_is_lost_when_a_whole_service_is_killed(stage, name, kind, tried):
    """F34, F54: with all its threads; each eleventh point, since their order varies."""
    found = stage(name, served=True)
    tried(tell_until_every_point(found, restarted, 11), of=f"{name}, a service", on=kind)


@pytest.mark.parametrize("kind", ["sqlite"])
@pytest.mark.parametrize("name", ["repeatable", "aborted-waiting", "stopping"])
def test_a_sample_of_the_crash_matrix(stage, name, kind, tried):
    """F34, F54: some points of some stories; ``make crash`` tries them all."""
    tried(tell_until_every_point(stage(name), restarted, 7), of=f"{name}, a sample", on=kind)
