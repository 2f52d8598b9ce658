"""One bash for the console blocks of a page, so that variables and jobs live as for a reader."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

_END = "@@-end-of-command-@@"


class Shell:
    """``with Shell(folder, environment) as shell: shell.run("ls")``."""

    def __init__(self, folder: Path, environment: dict[str, str]) -> None:
        self._folder = folder
        programs = str(Path(sys.executable).parent)
        plain = {
            name: value
            for name, value in os.environ.items()
            if not (name.startswith("OS_") and "__" in name) and name != "OS_ENDPOINT"
        }
        self._environment = plain | {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "COLUMNS": "200",
            **environment,
        }
        self._groups: list[int] = []
        self._bash = self._start(["bash"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def _start(self, command: list[str], **streams: int) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            command,
            cwd=self._folder,
            env=self._environment,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
            **streams,
        )
        self._groups.append(process.pid)
        return process

    def __enter__(self) -> Shell:
        return self

    def __exit__(self, *exc: object) -> None:
        for group in self._groups:
            try:
                os.killpg(group, signal.SIGKILL)
            except ProcessLookupError:
                continue
        self._bash.wait()

    def run(self, command: str, timeout: float = 90) -> tuple[int, str]:
        """Return the exit code of a command, and what it printed."""
        assert self._bash.stdin and self._bash.stdout
        watchdog = threading.Timer(timeout, os.killpg, (self._bash.pid, signal.SIGKILL))
        watchdog.start()
        try:
            self._bash.stdin.write(f"{command}\nprintf '\\n{_END} %d\\n' $?\n")
            self._bash.stdin.flush()
            lines: list[str] = []
            for line in self._bash.stdout:
                if line.startswith(_END):
                    return int(line.split()[1]), "".join(lines).removesuffix("\n")
                lines.append(line)
        finally:
            watchdog.cancel()
        raise AssertionError(f"no end of {command!r} after {timeout} s: {''.join(lines)}")

    def background(self, command: str) -> None:
        """Begin a command as in another terminal."""
        self._start(["bash", "-c", command], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)

    def export(self, name: str, value: str) -> None:
        """Set a variable for what follows."""
        self._environment[name] = value
        self.run(f"export {name}='{value}'")
