"""The live table of a run's steps."""

from __future__ import annotations

import contextlib
import datetime
import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

from rich.live import Live
from rich.table import Table

from deploysteps.cli.output import Output, clean, make_table
from deploysteps.cli.waiting import Snapshot

COLUMNS = ("step", "state", "try", "started", "took", "note")


class Row(NamedTuple):
    """One step of a run, all its attempts together."""

    step: str
    state: str
    tries: str
    started: str
    took: str
    note: str


_NO_ROW = Row(*[""] * len(Row._fields))


def rows(found: Snapshot, now: datetime.datetime | None = None) -> list[Row]:
    """Return the steps of a run: those begun, then those that are still planned."""
    now = now or datetime.datetime.now(datetime.UTC)
    listed: list[Row] = []
    begun: list[list[dict[str, Any]]] = []
    for attempt in (found.run or {}).get("attempts", ()):
        if attempt["attempt"] > 1 and begun:
            begun[-1].append(attempt)
        else:
            begun.append([attempt])
    for attempts in begun:
        listed.append(_row(attempts, now))
    return listed + [
        Row(f"{step['interface']}.{step['step']}", "planned", "", "", "", "")
        for step in _planned(found)
    ]


def _row(attempts: list[dict[str, Any]], now: datetime.datetime) -> Row:
    first, last = attempts[0], attempts[-1]
    started = _time(first["started_at"])
    end = _time(last["finished_at"]) or now
    return Row(
        step=f"{last['interface']}.{last['step']}",
        state=_word(last),
        tries=str(last["attempt"]) if last["attempt"] > 1 else "",
        started=started.astimezone().strftime("%H:%M:%S") if started else "",
        took=f"{max((end - started).total_seconds(), 0):.1f} s" if started else "",
        note=clean(last["error"] or last.get("progress") or attempts[-2:][0]["error"]),
    )


def _word(attempt: dict[str, Any]) -> str:
    if attempt["finished_at"] is None:
        return str(attempt["state"])
    return str(attempt["outcome"] or attempt["state"])


def _planned(found: Snapshot) -> list[dict[str, Any]]:
    """Return what the plan has after the current step; it is gone after the end."""
    info = found.node.get("driver_internal_info") or {}
    for name, steps in info.items():
        if name.endswith("_steps") and not name.startswith("user_") and isinstance(steps, list):
            index = info.get(f"{name.removesuffix('s')}_index")
            return steps[index + 1 :] if isinstance(index, int) else steps
    return []


def _time(text: str | None) -> datetime.datetime | None:
    return datetime.datetime.fromisoformat(text) if text else None


def table(nodes: Iterable[Snapshot]) -> Table:
    """Return one table of the runs of some nodes."""
    lines: list[tuple[object, ...]] = []
    for found in nodes:
        maintenance = ("maintenance",) if found.node.get("maintenance") else ()
        heads = (found.name, found.state, *maintenance)
        for head, row in itertools.zip_longest(heads, rows(found)):
            lines.append((head, *(row or _NO_ROW)))
    return make_table(("node", *COLUMNS), lines)


def show(output: Output, snapshots: Iterator[Snapshot]) -> Snapshot:
    """Show a run as it goes on, and return how it ended.

    A terminal gets a table that is redrawn; otherwise each change is a line.
    """
    last: Snapshot | None = None
    with screen(output) as draw:
        for last in snapshots:
            draw([last])
    if last is None:
        raise AssertionError("following a node yields at least once")
    return last


@contextlib.contextmanager
def screen(output: Output) -> Iterator[Callable[[list[Snapshot]], None]]:
    """Give a function that shows the runs of some nodes, whenever it is called."""
    if output.live:
        with Live(console=output.console, auto_refresh=False) as live:
            yield lambda found: live.update(table(found), refresh=True)
        return
    told: dict[tuple[str, int], tuple[str, str]] = {}

    def draw(found: list[Snapshot]) -> None:
        for one in found:
            _tell_changes(output, one, told)

    yield draw


def _tell_changes(
    output: Output, found: Snapshot, told: dict[tuple[str, int], tuple[str, str]]
) -> None:
    now = datetime.datetime.now().strftime("%H:%M:%S")
    lines = [(position, row) for position, row in enumerate(rows(found)) if row.state != "planned"]
    changed = [
        _sentence(row)
        for position, row in lines
        if told.get((found.name, position)) != (row.state, row.tries)
    ]
    told.update({(found.name, position): (row.state, row.tries) for position, row in lines})
    if told.get((found.name, _NODE)) != (found.state, ""):
        told[found.name, _NODE] = (found.state, "")
        # The node's state comes before what goes on in it, and after what ended in it.
        changed.insert(len(changed) if found.settled else 0, f"is {found.state}")
    for text in changed:
        output.say(f"{now} {found.name} {text}")


_NODE = -1
"""Stands for the node itself where positions of steps stand."""


def _sentence(row: Row) -> str:
    words = [row.step, row.state]
    if row.tries:
        words.append(f"(attempt {row.tries})")
    if row.state not in ("running", "waiting"):
        words.append(f"after {row.took}")
    if row.note:
        words.append(f"- {row.note}")
    return " ".join(words)
