"""Fixtures of the crash and race tests, and the summary of what was tried."""

from __future__ import annotations

import contextlib
import gc
import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploysteps.db import conductors
from deploysteps.db.engine import Database
from tests.crash import checks
from tests.crash.deeds import LOST, Deed
from tests.crash.scenarios import SCENARIOS
from tests.crash.stage import HOST, Stage
from tests.crash.stepwise import KILLED
from tests.crash.telling import Telling


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Make a proof of what kills and races processes; a sample of the matrix stays in the suite."""
    for item in items:
        if Path(__file__).parent not in item.path.parents or "sample" in item.name:
            continue
        if not (item.get_closest_marker("crash") or item.get_closest_marker("proof")):
            item.add_marker(pytest.mark.proof)


@contextlib.contextmanager
def forking(stages: list[Stage]) -> Iterator[None]:
    """Let stages fork this process, and put it in order afterwards."""
    with warnings.catch_warnings():
        # The threads of the test runner do not matter to what a fork does here.
        warnings.simplefilter("ignore", DeprecationWarning)
        yield
    for found in stages:
        found.database.dispose()
    gc.unfreeze()
    gc.collect()
    gc.freeze()  # as tests/conftest.py does


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Log nothing: here every second line would be the warning of a crash."""
    logger = logging.getLogger("deploysteps")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)


@pytest.fixture
def stage(database: Database, conf: Any, tmp_path: Path) -> Iterator[Callable[..., Stage]]:
    """Make a stage for a story."""
    made: list[Stage] = []

    def make(name: str, *, served: bool = False) -> Stage:
        database.dispose()
        made.append(Stage(database, conf, SCENARIOS[name], tmp_path / "journal", served=served))
        made[0].warm_up()
        return made[0]

    with forking(made):
        yield make


@pytest.fixture
def telling(database: Database, conf: Any, tmp_path: Path) -> Iterator[Callable[[Deed], Telling]]:
    """Tell a deed once in this process, and return what kills it in others."""
    made: list[Stage] = []

    def make(deed: Deed) -> Telling:
        conductors.register(database, LOST, "x" * 32, [])
        checks.aged(database, LOST)
        database.dispose()
        made.append(Stage(database, conf, deed.story, tmp_path / "journal", served=False))
        found = Telling(made[0], deed)
        made[0].set_up()
        found.first_life(0)
        found.next_life(HOST)
        made[0].database.dispose()
        gc.collect()
        gc.freeze()
        return found

    with forking(made):
        yield make


@pytest.fixture
def tried(record_property: Callable[..., None]) -> Callable[..., None]:
    """Note how many points were tried; the summary of the test run lists them."""

    def note(killed: int, *, of: str, on: str) -> None:
        record_property(KILLED, f"{killed} kill points on {on}: {of}")
        assert killed

    return note


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Tell how many points a process was killed at, by story and database."""
    told = [
        (text, report.duration)
        for report in terminalreporter.getreports("passed")
        for name, text in report.user_properties
        if name == KILLED and report.when == "call"
    ]
    if told:
        terminalreporter.section("crash matrix")
        for text, seconds in sorted(told):
            terminalreporter.line(f"{text} ({seconds:.0f} s)")
        total = sum(int(text.split(" ", 1)[0]) for text, _ in told)
        terminalreporter.line(f"{total} kill points in all")
