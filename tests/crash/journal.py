"""What really happened, out of the database's reach."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any, NamedTuple

from tests.crash.stepwise import points


class Line(NamedTuple):
    """One line of the journal."""

    what: str
    step: str
    run: str
    """Row id of the run whose code wrote it; ``-`` where nobody said."""


class Journal:
    """A file that is appended to."""

    path = Path(os.devnull)
    fatal = ""
    """A step whose code kills the process."""

    def note(self, what: str, step: str, task: Any = None) -> None:
        """Append one line, in one write, and pass a point of the process."""
        points()
        run = task.node.run_id if task is not None else "-"
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, f"{what} {step} {run}\n".encode())
        finally:
            os.close(file)
        if step == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        points()

    def all(self) -> list[Line]:
        """Return every line."""
        if not self.path.exists():
            return []
        return [Line(*line.split(" ")) for line in self.path.read_text().splitlines()]

    def lines(self) -> list[tuple[str, str]]:
        """Return (what, step) of each line."""
        return [line[:2] for line in self.all()]

    def count(self, what: str, step: str, task: Any = None) -> int:
        """Return how often this was noted, in the task's run if there is one."""
        runs = None if task is None else {str(task.node.run_id)}
        return sum(
            line[:2] == (what, step) and (runs is None or line.run in runs) for line in self.all()
        )

    def runs(self, run_id: int | None = None) -> list[str]:
        """Return the steps whose code did its work, in order, those of one run if it is named."""
        return [
            line.step
            for line in self.all()
            if line.what == "run" and run_id in (None, int(line.run) if line.run != "-" else None)
        ]


journal = Journal()
"""The journal of this process."""
