"""The arithmetic of the table that has both services side by side."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from benchmarks import versus
from benchmarks.versus import OURS, THEIRS, Subject

TIME = Subject("time", "a list", "ms", 5.0)
SPEED = Subject("speed", "deployments", "1/s", 10.0, more_is_better=True)
TOLD = Subject("told", "beside", "MB", 3.0, counts=False)


def filled(*rounds: dict[str, dict[str, float]]) -> versus.Rows:
    rows = versus.Rows([TIME, SPEED, TOLD])
    for one in rounds:
        for service, found in one.items():
            rows.add(service, found)
    return rows


def row(rows: versus.Rows, key: str) -> versus.Row:
    return next(row for row in rows if row.subject.key == key)


def test_less_time_and_more_speed_are_both_better() -> None:
    rows = filled(
        {OURS: {"time": 10, "speed": 100}, THEIRS: {"time": 60, "speed": 20}},
    )
    assert row(rows, "time").gain == pytest.approx(6)
    assert row(rows, "speed").gain == pytest.approx(5)
    assert row(rows, "time").met is True
    assert row(rows, "speed").met is False


def test_a_slow_round_hits_both_and_moves_no_ratio() -> None:
    rows = filled(
        {OURS: {"time": 10}, THEIRS: {"time": 50}},
        {OURS: {"time": 100}, THEIRS: {"time": 500}},
        {OURS: {"time": 11}, THEIRS: {"time": 50}},
    )
    assert row(rows, "time").gain == pytest.approx(5)


def test_what_is_exactly_wanted_is_met() -> None:
    assert row(filled({OURS: {"time": 10}, THEIRS: {"time": 50}}), "time").met is True


def test_what_is_not_wanted_has_no_verdict() -> None:
    rows = filled({OURS: {"told": 10}, THEIRS: {"told": 11}})
    assert row(rows, "told").gain == pytest.approx(1.1)
    assert row(rows, "told").met is None
    assert versus.as_data(rows)[2]["wanted"] is None


def test_what_one_of_them_did_not_show_is_not_measured() -> None:
    rows = filled({OURS: {"time": 10}})
    found = versus.as_data(rows)[0]
    assert found["times_as_good"] is None and found["met"] is None and found[THEIRS] is None
    assert found[OURS] == 10
    assert "not measured" in printed(rows)


def test_an_unknown_subject_is_refused() -> None:
    with pytest.raises(KeyError):
        filled({OURS: {"size": 1}})


def test_data_has_medians_rounds_and_verdicts() -> None:
    rows = filled(
        *({OURS: {"speed": ours}, THEIRS: {"speed": 10.0}} for ours in (100.0, 300.0, 200.0))
    )
    found = versus.as_data(rows)[1]
    assert (found[OURS], found[THEIRS], found["times_as_good"]) == (200.0, 10.0, 20.0)
    assert (found["wanted"], found["met"]) == (10.0, True)
    assert found["rounds"] == {OURS: [100.0, 300.0, 200.0], THEIRS: [10.0] * 3}
    json.dumps(versus.as_data(rows))


@pytest.mark.parametrize(
    ("values", "text"),
    [([], "-"), ([0.987], "0.99"), ([12.345], "12.3"), ([1234.5, 1, 99999], "1,234")],
)
def test_values_are_written_with_about_three_digits(values: list[float], text: str) -> None:
    assert versus.format_value(values) == text


def printed(rows: versus.Rows) -> str:
    out = io.StringIO()
    Console(file=out, width=140).print(versus.table(rows, "title"))
    return out.getvalue()


def test_the_table_tells_what_is_wanted_and_whether_it_is_met() -> None:
    text = printed(
        filled({OURS: {"time": 10, "speed": 1}, THEIRS: {"time": 60, "speed": 1}}),
    )
    assert "6.00x" in text and "5.00x" in text and " met" in text
    assert "not met" in text and "1.00x" in text
