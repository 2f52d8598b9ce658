"""The arithmetic of the benchmark's table."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from benchmarks import report
from benchmarks.report import Measurement, Row


def measured(label: str, kind: str, *rates: float, statements: float = 3.0) -> Row:
    return Row(label, kind, [Measurement(100, 100 / r, statements, 1.0, "1.0") for r in rates])


def line(**changes: object) -> str:
    data: dict[str, object] = {
        "peer": "x",
        "version": "2.0",
        "kind": "sync",
        "steps": 50,
        "seconds": 0.5,
        "statements_per_step": 7.5,
        "commits_per_step": 1.1,
        "settings": {"journal_mode": "wal"},
    }
    return json.dumps(data | changes)


def test_last_line_is_read_and_chatter_before_it_is_not() -> None:
    found = report.parse_line("starting\n{}\n" + line() + "\n\n")
    assert found.rate == 100.0
    assert found.statements_per_step == 7.5
    assert found.settings == {"journal_mode": "wal"}


@pytest.mark.parametrize(
    "output",
    ["", "\n", "no json", "[1]", "{}", line(steps=0), line(seconds=0), line(seconds="soon")],
)
def test_anything_else_is_not_a_measurement(output: str) -> None:
    with pytest.raises(ValueError, match=r"it |its "):
        report.parse_line(output)


def test_ratio_is_the_median_of_the_rounds_own_ratios() -> None:
    # The slow second round hits both, so it does not move the ratio.
    assert report.ratio([100, 10, 100], [50, 5, 50]) == 2.0
    assert report.ratio([100, 10, 90], [50, 5, 30]) == 2.0


def test_ratio_of_nothing_is_nothing() -> None:
    assert report.ratio([], [1.0]) is None


def test_ratio_to_takes_our_row_of_the_same_kind() -> None:
    ironic = measured("ironic", "resume", 10)
    rows = [measured("deploysteps", "sync", 1000), measured("deploysteps", "resume", 200), ironic]
    assert report.ratio_to(rows, ironic, "resume") == pytest.approx(20.0)


def test_the_floor_is_compared_with_every_kind() -> None:
    floor = measured("floor", "sync", 1000)
    rows = [floor, measured("deploysteps", "sync", 500), measured("deploysteps", "resume", 250)]
    assert report.ratio_to(rows, floor, "sync") == pytest.approx(0.5)
    assert report.ratio_to(rows, floor, "resume") == pytest.approx(0.25)
    assert [row.label for row in report.rows_of_kind(rows, "resume")] == ["floor", "deploysteps"]


def test_no_ratio_without_our_own_measurement_or_to_ourselves() -> None:
    floor = measured("floor", "sync", 1000)
    ours = measured("deploysteps", "sync", 500)
    assert report.ratio_to([floor], floor, "sync") is None
    assert report.ratio_to([floor, ours], ours, "sync") is None


def test_a_row_that_failed_in_a_later_round_counts_as_not_measured() -> None:
    ours = measured("deploysteps", "sync", 500)
    broken = measured("dbos", "sync", 100)
    broken.reason = "exit 1"
    assert not broken.measured
    assert report.ratio_to([ours, broken], broken, "sync") is None
    entry = report.as_data([ours, broken], ["sync"])[1]
    assert entry["not_measured"] == "exit 1"
    assert entry["steps_per_second"] is None


def test_data_has_medians_and_ratios() -> None:
    rows = [measured("deploysteps", "sync", 300, 500, 400), measured("dbos", "sync", 100, 100, 100)]
    ours, theirs = report.as_data(rows, ["sync"])
    assert ours["steps_per_second"] == pytest.approx(400)
    assert ours["ours_is_times_as_fast"] is None
    assert theirs["ours_is_times_as_fast"] == pytest.approx(4.0)
    json.dumps([ours, theirs])


@pytest.mark.parametrize(
    ("value", "text"), [(None, "-"), (0.4567, "0.46x"), (9.994, "9.99x"), (12.34, "12.3x")]
)
def test_ratios_are_written_with_about_three_digits(value: float | None, text: str) -> None:
    assert report.format_ratio(value) == text


def test_table_shows_numbers_and_names_what_is_missing() -> None:
    broken = Row("dbos", "sync", reason="exit 1: [boom]")
    rows = [measured("floor", "sync", 1000), measured("deploysteps", "sync", 500), broken]
    out = io.StringIO()
    Console(file=out, width=120).print(report.table(rows, "sync", "title"))
    text = out.getvalue()
    assert "0.50x" in text
    assert "not measured" in text
