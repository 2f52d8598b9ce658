"""The arithmetic of the table and the table itself. Pure functions: no clock, no database."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from rich.table import Table

OURS = "deploysteps"
FLOOR = "floor"


@dataclass(frozen=True)
class Measurement:
    """One run of one row."""

    steps: int
    seconds: float
    statements_per_step: float
    commits_per_step: float
    version: str = ""
    settings: dict[str, str] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Steps per second."""
        return self.steps / self.seconds


@dataclass
class Row:
    """One engine doing one kind of step: its measurements, or why there are none."""

    label: str
    kind: str
    measurements: list[Measurement] = field(default_factory=list)
    reason: str | None = None

    @property
    def measured(self) -> bool:
        """Whether every round of it was measured."""
        return self.reason is None and bool(self.measurements)

    @property
    def rates(self) -> list[float]:
        """Steps per second, a round each."""
        return [m.rate for m in self.measurements]


def parse_line(output: str) -> Measurement:
    """Read a measured process's last line of output.

    Raises:
        ValueError: if it is not the expected JSON, or says nothing was done.
    """
    lines = [line for line in output.splitlines() if line.strip()]
    if not lines:
        raise ValueError("it printed nothing")
    try:
        data = json.loads(lines[-1])
        found = Measurement(
            steps=int(data["steps"]),
            seconds=float(data["seconds"]),
            statements_per_step=float(data["statements_per_step"]),
            commits_per_step=float(data["commits_per_step"]),
            version=str(data["version"]),
            settings=dict(data["settings"]),
        )
    except (KeyError, TypeError, ValueError) as exc:
        raise ValueError(f"its last line is not a measurement: {lines[-1][:200]}") from exc
    if found.steps <= 0 or found.seconds <= 0:
        raise ValueError(f"it says it did {found.steps} steps in {found.seconds} s")
    return found


def ratio(ours: Sequence[float], theirs: Sequence[float]) -> float | None:
    """Return how many times as many steps per second ``ours`` does: 2.0 is twice as fast.

    It is the median of the rounds' own ratios and not the ratio of the medians: the two runs of
    a round lie close together in time, so a slow minute of the machine hits both. None if there
    is no round that has both.
    """
    pairs = list(zip(ours, theirs, strict=False))
    return median(o / t for o, t in pairs) if pairs else None


def find(rows: Iterable[Row], label: str, kind: str) -> Row | None:
    """Return the row of that name and kind, if there is one that was measured."""
    for row in rows:
        if row.label == label and row.kind == kind and row.measured:
            return row
    return None


def ratio_to(rows: Iterable[Row], row: Row, kind: str) -> float | None:
    """Return our ratio to ``row`` in steps of ``kind``; None if either was not measured."""
    ours = find(rows, OURS, kind)
    if ours is None or not row.measured or row.label == OURS:
        return None
    return ratio(ours.rates, row.rates)


def rows_of_kind(rows: Iterable[Row], kind: str) -> list[Row]:
    """Return the rows of one kind. The floor is the same for every kind and leads each."""
    return [row for row in rows if row.kind == kind or row.label == FLOOR]


def as_data(rows: Sequence[Row], kinds: Iterable[str]) -> list[dict[str, Any]]:
    """Return the table as data, for the file."""
    return [
        {
            "kind": kind,
            "engine": row.label,
            "version": row.measurements[-1].version if row.measurements else None,
            "not_measured": row.reason,
            "steps_per_second": median(row.rates) if row.measured else None,
            "rounds": row.rates,
            "statements_per_step": (
                median(m.statements_per_step for m in row.measurements) if row.measured else None
            ),
            "commits_per_step": (
                median(m.commits_per_step for m in row.measurements) if row.measured else None
            ),
            "ours_is_times_as_fast": ratio_to(rows, row, kind),
            "settings": row.measurements[-1].settings if row.measurements else None,
        }
        for kind in kinds
        for row in rows_of_kind(rows, kind)
    ]


def format_ratio(value: float | None) -> str:
    """Write a ratio with about three digits."""
    if value is None:
        return "-"
    return f"{value:.2f}x" if value < 10 else f"{value:.1f}x"


def table(rows: Sequence[Row], kind: str, title: str) -> Table:
    """Return the table for one kind of step. Why a row was not measured is printed below it."""
    out = Table(title=title, title_justify="left")
    out.add_column("engine")
    out.add_column("steps/s", justify="right")
    out.add_column("min - max", justify="right")
    out.add_column("statements/step", justify="right")
    out.add_column("commits/step", justify="right")
    out.add_column("deploysteps is", justify="right")
    for row in rows_of_kind(rows, kind):
        if not row.measured:
            out.add_row(f"[bold red]{row.label}", "[bold red]not measured")
            continue
        last = row.measurements[-1]
        out.add_row(
            f"{row.label} [dim]{last.version}",
            f"{median(row.rates):.0f}",
            f"{min(row.rates):.0f} - {max(row.rates):.0f}",
            f"{median(m.statements_per_step for m in row.measurements):.1f}",
            f"{median(m.commits_per_step for m in row.measurements):.1f}",
            "1" if row.label == OURS else format_ratio(ratio_to(rows, row, kind)),
        )
    return out
