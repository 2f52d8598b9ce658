"""Run the benchmark: ``python -m benchmarks``."""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from benchmarks import environments, report, rest, services, versus
from benchmarks.measuring import SETTINGS

PEERS = ("ironic", "dbos", "taskflow")
PARTS = ("steps", "http")
TITLES = {
    "sync": "Synchronous steps: each returns at once",
    "resume": "Waiting steps: each is finished by a heartbeat, which starts the next",
}
RUN_SECONDS = 300


@dataclass(frozen=True)
class Entry:
    """What to run for one row of the table."""

    label: str
    peer: str
    kind: str
    as_shipped: bool = False


def entries_for(peers: list[str]) -> list[Entry]:
    """Return what to run in a round, in order."""
    entries = [
        Entry(report.FLOOR, "floor", "sync"),
        Entry(report.OURS, "own", "sync"),
        Entry(report.OURS, "own", "resume"),
    ]
    if "ironic" in peers:
        entries += [
            Entry(label, "ironic", kind, as_shipped)
            for label, as_shipped in (("ironic", False), ("ironic, as shipped", True))
            for kind in ("sync", "resume")
        ]
    entries += [Entry(peer, peer, "sync") for peer in ("dbos", "taskflow") if peer in peers]
    return entries


def measure(
    entry: Entry, python: Path, steps: int, directory: Path, log: Path
) -> report.Measurement:
    """Run one row once, in a process and a database of its own.

    Raises:
        NotAvailable: if it fails, or did not run on the settings the row promises.
    """
    here = Path(__file__).resolve().parent
    environment = dict(os.environ)
    if entry.peer in PEERS:
        # By its path, so that the peer sees this folder and not the project's own packages.
        what = [str(here / f"peer_{entry.peer}.py")]
        environment.pop("PYTHONPATH", None)
    else:
        what = ["-m", f"benchmarks.{entry.peer}"]
    command = [str(python), *what, "--kind", entry.kind, "--steps", str(steps)]
    command += ["--directory", str(directory)]
    if entry.as_shipped:
        command.append("--as-shipped")
    with log.open("w") as errors:
        try:
            done = subprocess.run(
                command,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                timeout=RUN_SECONDS,
                check=False,
                cwd=here.parent,
                env=environment,
            )
        except (OSError, subprocess.TimeoutExpired) as exc:
            raise environments.NotAvailable(str(exc)) from exc
    if done.returncode:
        said = [line for line in log.read_text().splitlines() if line.strip()]
        last = said[-1] if said else "it said nothing"
        raise environments.NotAvailable(f"exit {done.returncode}: {last} (all of it: {log})")
    try:
        found = report.parse_line(done.stdout)
    except ValueError as exc:
        raise environments.NotAvailable(str(exc)) from exc
    if not entry.as_shipped and found.settings != SETTINGS:
        raise environments.NotAvailable(f"it ran with other settings: {found.settings}")
    return found


def run_rounds(options: argparse.Namespace, console: Console) -> list[report.Row]:
    """Run all rounds, one row after another in each, and return the rows.

    Rounds are interleaved so that a slow minute of the machine does not fall on one row, and
    every other round goes backwards so that no row always follows the same neighbour. A row
    that fails is not tried again: its reason stands in the table.
    """
    entries = entries_for(options.peers)
    rows = {entry: report.Row(entry.label, entry.kind) for entry in entries}
    pythons: dict[str, Path] = {"floor": Path(sys.executable), "own": Path(sys.executable)}
    for peer in options.peers:
        try:
            pythons[peer] = environments.python_of(peer, console.print)
        except environments.NotAvailable as exc:
            for entry in entries:
                if entry.peer == peer:
                    rows[entry].reason = str(exc)
    bench = environments.bench_directory()
    logs = bench / "logs"
    logs.mkdir(exist_ok=True)
    for number in range(options.rounds):
        for entry in entries if number % 2 == 0 else entries[::-1]:
            row = rows[entry]
            if row.reason is not None:
                continue
            steps = options.steps if entry.kind == "sync" else options.resumes
            log = logs / f"{entry.label.replace(', ', '-').replace(' ', '-')}-{entry.kind}.log"
            directory = Path(tempfile.mkdtemp(prefix="run-", dir=bench))
            says = f"round {number + 1}: {entry.label}, {entry.kind}: "
            try:
                found = measure(entry, pythons[entry.peer], steps, directory, log)
                row.measurements.append(found)
                console.print(f"{says}{found.rate:.0f} steps/s", highlight=False)
            except environments.NotAvailable as exc:
                row.reason = str(exc)
                console.print(f"{says}[bold red]not measured: {escape(row.reason)}")
            finally:
                shutil.rmtree(directory, ignore_errors=True)
    return list(rows.values())


def run_http(options: argparse.Namespace, console: Console) -> versus.Rows:
    """Measure both services over HTTP; return the rows."""

    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    pythons = {versus.OURS: services.own_python()}
    reason = None
    try:
        pythons[versus.THEIRS] = environments.python_of("ironic", say)
    except environments.NotAvailable as exc:
        reason = str(exc)
    bench = environments.bench_directory()
    directory = Path(tempfile.mkdtemp(prefix="http-", dir=bench))
    rows = rest.run(pythons, directory, options.rounds, say)
    if reason is not None:
        rows.missing[versus.THEIRS] = reason
    if not rows.missing:  # else what they said is kept, for who looks for the reason
        shutil.rmtree(directory, ignore_errors=True)
    return rows


def tell_http(rows: versus.Rows, console: Console) -> list[dict[str, object]]:
    """Print the table of the services; return it as data."""
    console.print()
    console.print(versus.table(rows, "Both services over HTTP"))
    console.print(
        "times as good: as fast, or as little time or memory (median of the rounds' own ratios)."
        "\nSQLite file in WAL mode; a process each, with its children; one runs at a time.",
        highlight=False,
    )
    for name, why in rows.missing.items():
        console.print(f"[bold red]not measured: {name}: {escape(why)}", soft_wrap=True)
    return versus.as_data(rows)


def machine() -> dict[str, object]:
    """Return what a reader needs to know of the machine, and nothing that names it."""
    return {
        "system": platform.system(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
        "load": round(os.getloadavg()[0], 2),
    }


def peer_list(text: str) -> list[str]:
    """Parse ``--peers``."""
    names = [] if text == "none" else [name.strip() for name in text.split(",") if name.strip()]
    if unknown := set(names) - set(PEERS):
        raise argparse.ArgumentTypeError(f"unknown: {', '.join(sorted(unknown))}")
    return names


def positive(text: str) -> int:
    """Parse a number that is at least one."""
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Two parts. steps: steps per second, statements and commits per step of "
        "deploysteps, the floor (one UPDATE and COMMIT per step), Ironic, DBOS and TaskFlow. "
        "http: deploysteps and Ironic as processes, side by side: start, memory, lists, "
        "deployments, heartbeats. All on SQLite.",
        epilog="Exits with 1 if anything asked for could not be measured.",
    )
    parser.add_argument(
        "--steps", type=positive, default=200, help="synchronous steps in a run (%(default)s)"
    )
    parser.add_argument(
        "--resumes",
        type=positive,
        default=50,
        help="heartbeat-resumed steps in a run (%(default)s)",
    )
    parser.add_argument(
        "--rounds", type=positive, default=3, help="runs of each row; medians count (%(default)s)"
    )
    parser.add_argument(
        "--peers",
        type=peer_list,
        default=list(PEERS),
        help=f"of {','.join(PEERS)}, or none (default: all)",
    )
    parser.add_argument(
        "--only", choices=PARTS, help="one part (default: both; http needs ironic among the peers)"
    )
    parser.add_argument(
        "--json", type=Path, help="write the results here (benchmarks/results/DATE.json)"
    )
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> int:
    """Run, print the tables, write the file; return the exit code."""
    options = parse(arguments)
    # A wide line for files and pipes, where a reason must not be folded into nothing.
    console = Console(width=None if sys.stdout.isatty() else 120)
    now = datetime.now(UTC)
    facts = machine()
    data: dict[str, object] = {
        "date": now.isoformat(timespec="seconds"),
        "machine": facts,
        "rounds": options.rounds,
    }
    missing = False
    if options.only != "http":
        rows = run_rounds(options, console)
        missing = tell_steps(rows, console)
        data |= {
            "steps": {"sync": options.steps, "resume": options.resumes},
            "settings": SETTINGS,
            "rows": report.as_data(rows, TITLES),
        }
    if options.only != "steps" and "ironic" in options.peers:
        compared = run_http(options, console)
        data["http"] = tell_http(compared, console)
        missing = missing or bool(compared.missing)
    console.print(
        "on: " + ", ".join(f"{name} {value}" for name, value in facts.items()), highlight=False
    )
    path = options.json or (
        environments.ROOT / "benchmarks" / "results" / f"{now:%Y-%m-%dT%H%M%SZ}.json"
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(data, indent=2) + "\n")
    console.print(f"written: {path}", soft_wrap=True, highlight=False)
    return 1 if missing else 0


def tell_steps(rows: list[report.Row], console: Console) -> bool:
    """Print the tables of the steps; return whether something was not measured."""
    for kind, title in TITLES.items():
        console.print()
        console.print(report.table(rows, kind, title))
    console.print(
        "deploysteps is: how many times as many steps per second it does (median of the rounds' "
        "own ratios).\nSQLite file, WAL, synchronous=FULL, foreign keys on; 'as shipped': "
        "Ironic's own default, the rollback journal (delete).",
        highlight=False,
    )
    missing = [row for row in rows if not row.measured]
    for row in missing:
        console.print(
            f"[bold red]not measured: {row.label}, {row.kind}: {escape(row.reason or '')}",
            soft_wrap=True,
        )
    return bool(missing)


if __name__ == "__main__":
    sys.exit(main())
