"""The live table of a run's steps."""

from __future__ import annotations

import contextlib
import datetime
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from rich.console import RenderableType
from rich.live import Live

from deploysteps.cli import tables
from deploysteps.cli.output import Output, clean
from deploysteps.cli.waiting import Snapshot
from deploysteps.steps import RUNS

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
        listed.append(_row(attempts, now, found))
    left_out = (found.run or {}).get("left_out") or ()
    return [
        *listed,
        *(Row(name_of(step), "planned", "", "", "", "") for step in _planned(found)),
        *(Row(name_of(step), "left out", "", "", "", clean(step.get("why"))) for step in left_out),
    ]


def name_of(step: Mapping[str, Any]) -> str:
    """Return a step, or an attempt of it, as people call it."""
    return f"{step['interface']}.{step['step']}"


def word_of_run(run: Mapping[str, Any]) -> str:
    """Return what a run that has not ended does."""
    attempts = run["attempts"]
    held = bool(attempts) and _word(attempts[-1]) == HELD
    return HELD if held and run["state"] != "aborting" else str(run["state"])


HELD = "held"
"""Word for what waits for an operator."""


def note_of(attempt: Mapping[str, Any], node: str, machine: Mapping[str, Any] | None = None) -> str:
    """Return what there is to say of an attempt: its error, its progress, who has to do what.

    :param machine: the node, where it is known when its agent was heard last.
    """
    if attempt["error"]:
        return clean(attempt["error"])
    told = [_progress(attempt)]
    if _word(attempt) == HELD:
        told.append(f"held; `deploysteps node unhold {node}` goes on")
    elif attempt.get("reboot") and attempt["finished_at"] is None:
        told.append("the machine reboots")
    told += _waits(attempt, machine)
    return clean("; ".join(part for part in told if part))


_ENDS = {
    "agent": "waits for the agent",
    "poller": "waits, and looks again now and then",
    "timer": "pauses",
    "callback": "waits for the driver",
}
"""Who ends a wait -> what is said of it; an operator's is told as held."""


def _waits(attempt: Mapping[str, Any], machine: Mapping[str, Any] | None) -> Iterator[str]:
    """Yield what a step that waits waits for, and when it is given up."""
    if attempt["state"] != "waiting" or attempt["finished_at"] is not None:
        return
    owner = attempt.get("waits_for")
    if owner in _ENDS:
        heard = f" ({_heard(machine)})" if owner == "agent" and machine else ""
        yield _ENDS[owner] + heard
    silent, deadline = _time(attempt.get("silent_at")), _time(attempt.get("deadline"))
    if silent and (deadline is None or silent < deadline):
        yield f"fails at {clock(attempt['silent_at'])} if it is silent until then"
    elif deadline:
        yield f"fails at {clock(attempt['deadline'])}"


def _heard(machine: Mapping[str, Any]) -> str:
    """Return when a node's agent called last."""
    last = (machine.get("driver_internal_info") or {}).get("agent_last_heartbeat")
    return f"last heard {clock(last)}" if last else "never called"


def _progress(attempt: Mapping[str, Any]) -> str:
    progress = attempt.get("progress") or {}
    percent, text = progress.get("percent"), progress.get("text")
    if attempt["finished_at"] is not None and percent != 100:
        return ""  # the last that was told of the way there; it is over
    shown = f"{percent:g} %" if isinstance(percent, int | float) else ""
    return " ".join(str(part) for part in (shown, text) if part)


def _row(attempts: list[dict[str, Any]], now: datetime.datetime, found: Snapshot) -> Row:
    first, last = attempts[0], attempts[-1]
    step = name_of(last)
    # What an earlier attempt died of is of interest until a later one has ended.
    told = note_of(last, found.name, found.node)
    if last["finished_at"] is None and attempts[:-1]:
        told = "; ".join(one for one in (clean(attempts[-2]["error"]), told) if one)
    return Row(
        step=step,
        state=_word(last),
        tries=str(last["attempt"]) if last["attempt"] > 1 else "",
        started=clock(first["started_at"], now),
        took=duration(first["started_at"], last["finished_at"], now),
        note=told.removeprefix(f"{step} failed: "),
    )


def _word(attempt: Mapping[str, Any]) -> str:
    if attempt["finished_at"] is None:
        if attempt.get("waits_for") == "operator":
            return HELD
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


def clock(text: str | None, now: datetime.datetime | None = None) -> str:
    """Return a time of the service as this machine's clock shows it, the day if not today.

    Where that clock is not UTC, which the service's log and other answers have, its
    offset is told.
    """
    found = _time(text)
    if found is None:
        return ""
    local = found.astimezone()
    today = (now or datetime.datetime.now(datetime.UTC)).astimezone().date()
    day = "" if local.date() == today else f"{local.date()} "
    return day + local.timetz().isoformat("seconds").removesuffix("+00:00")


def duration(start: str | None, end: str | None, now: datetime.datetime | None = None) -> str:
    """Return how long something took, or takes so far."""
    begun = _time(start)
    if begun is None:
        return ""
    until = _time(end) or now or datetime.datetime.now(datetime.UTC)
    return f"{max((until - begun).total_seconds(), 0):.1f} s"


def table(nodes: Iterable[Snapshot], width: int, height: int | None = None) -> RenderableType:
    """Return one table of the runs of some nodes.

    :param height: how many lines there are; of a longer run, what goes on now is shown.
    """
    lines: list[tuple[object, ...]] = []
    for found in nodes:
        for head, row in itertools.zip_longest(_heads(found), rows(found)):
            lines.append((head, *(row or _NO_ROW)))
    return tables.table(("node", *COLUMNS), _in_view(lines, height), width)


_BEGUN = ("running", "waiting")
_AROUND = 4
"""Lines of a table that are no steps: its head, and what is told below one."""


def _in_view(lines: list[tuple[object, ...]], height: int | None) -> Sequence[tuple[object, ...]]:
    """Return the lines around the step that goes on, with how many are above and below."""
    room = max((height or 0) - _AROUND, 5)
    if height is None or len(lines) <= room:
        return lines
    now = next((i for i, line in enumerate(lines) if line[2] in (*_BEGUN, HELD)), len(lines))
    first = max(0, min(now - room // 2, len(lines) - room))
    shown = lines[first : first + room]
    above, below = first, len(lines) - first - room
    if above:
        shown[0] = ("", f"({above + 1} lines above)", *_NO_ROW[1:])
    if below:
        shown[-1] = ("", f"({below + 1} lines below)", *_NO_ROW[1:])
    return shown


def _heads(found: Snapshot) -> list[str]:
    """Return what is told of the node itself, line by line."""
    run = found.run or {}
    told = [found.name, found.state, *(["maintenance"] if found.node.get("maintenance") else [])]
    if run:
        told.append(f"{run['flow']} run")
    return [*told, *_words_of_run(run)]


def _words_of_run(run: Mapping[str, Any]) -> list[str]:
    words = ["aborting"] if run.get("state") == "aborting" else []
    if run.get("outcome") == "success" and not run["attempts"]:
        words.append("nothing was done")
    return words + ([f"{_GOES_ON} {run['resumes']}"] if run.get("resumes") else [])


_GOES_ON = "goes on with run"


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
        last: list[Snapshot] = []

        def redraw(found: list[Snapshot]) -> None:
            last[:] = found
            width, height = output.console.size
            live.update(table(found, width, height), refresh=True)

        with Live(console=output.console, auto_refresh=False) as live:
            try:
                yield redraw
            finally:
                live.update(table(last, output.console.width))  # shown whole, as it ends
        return
    told: dict[tuple[str, object], str] = {}

    def draw(found: list[Snapshot]) -> None:
        for one in found:
            _tell_changes(output, one, told)

    yield draw


def _tell_changes(output: Output, found: Snapshot, told: dict[tuple[str, object], str]) -> None:
    """Print what is new, in the order in which it happened, with its own time."""
    now = datetime.datetime.now(datetime.UTC)
    changed: list[dict[str, Any]] = []
    run = found.run or {}
    for position, attempt in enumerate(run.get("attempts", ())):
        # Of what has ended only the end is news, not the progress that it had.
        goes_on = attempt["finished_at"] is None
        word = f"{_word(attempt)} {_progress(attempt) if goes_on else ''}"
        key = (found.name, (run["uuid"], position))
        if told.get(key) != word:
            told[key] = word
            changed.append(attempt)
    lines = [_line(found, attempt, now) for attempt in changed]
    last = told.get((found.name, _NODE))
    if last != found.state:
        told[found.name, _NODE] = found.state
        # The state came after what had ended by then, and before what goes on in it.
        at = found.node.get("provision_updated_at") or now.isoformat()
        since = _time(at) or now
        ends = (_time(attempt["finished_at"]) for attempt in changed)
        before = sum(1 for _ in itertools.takewhile(lambda end: end and end <= since, ends))
        lines.insert(before, f"{clock(at, now)} {found.name} is {found.state}")
    lines = _begin(found, told, last, now) + lines
    for text in _about(found):
        if (found.name, text) not in told:
            told[found.name, text] = ""
            if text.startswith(_GOES_ON):  # before all else of the run
                lines.insert(0, f"{clock(run['started_at'], now)} {found.name} {text}")
            else:
                output.say(f"{clock(now.isoformat(), now)} {found.name} {text}")
    for text in lines:
        output.say(text)


def _begin(
    found: Snapshot,
    told: dict[tuple[str, object], str],
    before: str | None,
    now: datetime.datetime,
) -> list[str]:
    """Return the line of the state in which a run began, if it was over before one looked.

    :param before: the state in which the node was found last.
    """
    run = found.run or {}
    flow = RUNS.get(str(run.get("flow")))
    if flow is None or (found.name, run["uuid"]) in told:
        return []
    told[found.name, run["uuid"]] = ""
    if flow.running in (found.state, before):
        return []
    return [f"{clock(run['started_at'], now)} {found.name} is {flow.running}"]


def _about(found: Snapshot) -> Iterator[str]:
    """Yield what is told once of a run as a whole."""
    run = found.run or {}
    yield from _words_of_run(run)
    for step in run.get("left_out") or ():
        yield f"{name_of(step)} left out: {clean(step.get('why'))}"


_NODE = -1
"""Stands for the node itself where positions of attempts stand."""


def _line(found: Snapshot, attempt: dict[str, Any], now: datetime.datetime) -> str:
    row = _row([attempt], now, found)
    tries = f"attempt {row.tries}" if row.tries else ""
    at = attempt["finished_at"]
    if at is None:
        text = f"{row.step} {row.state} since {row.started}{tries and f' ({tries})'}"
        text += f" - {row.note}" if row.note else ""
    elif str(attempt["error"]).startswith(f"{row.step} "):
        text = clean(attempt["error"])  # it tells step, outcome, attempt and time by itself
    else:
        text = f"{row.step} {row.state} {tries and f'({tries}) '}after {row.took}"
        text += f" - {row.note}" if row.note else ""
    return f"{clock(at or now.isoformat(), now)} {found.name} {text}"
