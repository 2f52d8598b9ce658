"""The table of the two services side by side. Pure functions: no clock, no process."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from rich.table import Table

from benchmarks.report import format_ratio, ratio

OURS, THEIRS = "deploysteps", "ironic"


@dataclass(frozen=True)
class Subject:
    """What one row measures."""

    key: str
    title: str
    unit: str
    wanted: float
    """How many times as good as Ironic: 5 is five times as fast, or a fifth of the time."""
    more_is_better: bool = False
    counts: bool = True
    """Whether it is one of the numbers that are wanted; the others are told beside them."""


@dataclass
class Row:
    """A subject with what both services showed, one value a round."""

    subject: Subject
    values: dict[str, list[float]] = field(default_factory=lambda: {OURS: [], THEIRS: []})

    @property
    def gain(self) -> float | None:
        """How many times as good as Ironic: the median of the rounds' own ratios."""
        ours, theirs = self.values[OURS], self.values[THEIRS]
        if not self.subject.more_is_better:
            ours, theirs = theirs, ours
        return ratio(ours, theirs)

    @property
    def met(self) -> bool | None:
        """Whether what is wanted was reached; None when it was not measured or not wanted."""
        gain = self.gain
        return None if gain is None or not self.subject.counts else gain >= self.subject.wanted


class Rows:
    """All rows, filled round by round."""

    def __init__(self, subjects: Iterable[Subject]) -> None:
        """Begin without values."""
        self._rows = {subject.key: Row(subject) for subject in subjects}
        self.missing: dict[str, str] = {}
        """Service -> why it, or what of it, was not measured."""

    def __iter__(self) -> Any:
        return iter(self._rows.values())

    def add(self, service: str, found: Mapping[str, float]) -> None:
        """Take what a service showed in a round.

        :raises KeyError: for what is no subject.
        """
        for key, value in found.items():
            self._rows[key].values[service].append(value)


def as_data(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the table as data, for the file."""
    return [
        {
            "subject": row.subject.key,
            "title": row.subject.title,
            "unit": row.subject.unit,
            **{name: median(values) if values else None for name, values in row.values.items()},
            "rounds": {name: list(values) for name, values in row.values.items()},
            "times_as_good": row.gain,
            "wanted": row.subject.wanted if row.subject.counts else None,
            "met": row.met,
        }
        for row in rows
    ]


def format_value(values: Sequence[float]) -> str:
    """Write the median of some values with about three digits."""
    if not values:
        return "-"
    value = median(values)
    digits = 0 if value >= 100 else 1 if value >= 10 else 2
    return f"{value:,.{digits}f}"


def table(rows: Iterable[Row], title: str) -> Table:
    """Return the table for people."""
    out = Table(title=title, title_justify="left")
    out.add_column("over HTTP")
    for name in (OURS, THEIRS):
        out.add_column(name, justify="right")
    out.add_column("unit")
    out.add_column("times as good", justify="right")
    out.add_column("wanted", justify="right")
    out.add_column("")
    verdicts = {True: "[green]met", False: "[bold red]not met", None: ""}
    for row in rows:
        subject = row.subject
        out.add_row(
            subject.title,
            *(format_value(row.values[name]) for name in (OURS, THEIRS)),
            subject.unit,
            format_ratio(row.gain),
            format_ratio(subject.wanted) if subject.counts else "",
            verdicts[row.met] if row.gain is not None else "[bold red]not measured",
        )
    return out
