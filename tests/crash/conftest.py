"""Fixtures of the crash and race tests, and the summary of what was tried."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.crash.stepwise import KILLED


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Make a proof of what kills and races processes; a sample of the matrix stays in the suite."""
    for item in items:
        if Path(__file__).parent not in item.path.parents or "sample" in item.name:
            continue
        if not (item.get_closest_marker("crash") or item.get_closest_marker("proof")):
            item.add_marker(pytest.mark.proof)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Log nothing: here every second line would be the warning of a crash."""
    logger = logging.getLogger("deploysteps")
    before = logger.level
    logger.setLevel(logging.CRITICAL)
    yield
    logger.setLevel(before)


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
