"""A step that is not ready is entered again, the more rarely the longer it has waited."""

from __future__ import annotations

import datetime

import pytest

from deploysteps.conductor import waiting

NOW = datetime.datetime(2026, 11, 30, 12, tzinfo=datetime.UTC)
CLOCKS = waiting.Clocks(silence=60, default_limit=0, agent_limit=0)


def pause(after, waited):
    since = None if waited is None else NOW - datetime.timedelta(seconds=waited)
    columns = waiting.until_ready(after, None, NOW, since, None, CLOCKS)
    assert columns["reenter"] and columns["waiting_since"] == (since or NOW)
    return (columns["due_at"] - NOW).total_seconds()


@pytest.mark.parametrize(
    ("after", "waited", "wanted"),
    [(1, None, 1), (1, 20, 1), (1, 100, 4), (30, 100, 30), (1, 86_400, 60), (300, 86_400, 300)],
)
def test_a_pause_is_what_the_step_says_or_a_part_of_the_wait(after, waited, wanted):
    assert pause(after, waited) == wanted


def test_a_day_of_not_yet_is_told_some_hundred_times():
    """Each entry is a few events: one a second would be a hundred thousand."""
    waited, times = 0.0, 0
    while waited < 86_400:
        waited += pause(1, waited)
        times += 1
    assert times < 2000
