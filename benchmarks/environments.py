"""A virtual environment for each peer, made on first use from pinned versions.

They lie under ``.bench/`` at the root of the repository, which ignores itself in git. An
environment is made again when its list of versions or the version of Python changes.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
BENCH = ROOT / ".bench"
REQUIREMENTS = Path(__file__).resolve().parent / "requirements"

INSTALL_SECONDS = 900


class NotAvailable(Exception):
    """A peer cannot be measured; the text says why in one line."""


def bench_directory() -> Path:
    """Return ``.bench/``, made if need be so that git never sees what is in it."""
    BENCH.mkdir(exist_ok=True)
    ignore = BENCH / ".gitignore"
    if not ignore.exists():
        ignore.write_text("*\n")
    return BENCH


def python_of(peer: str, say: Callable[[str], None]) -> Path:
    """Return the peer's Python, making its environment first where there is none.

    Raises:
        NotAvailable: if the environment cannot be made.
    """
    requirements = REQUIREMENTS / f"{peer}.txt"
    directory = bench_directory() / peer
    python = directory / "bin" / "python"
    stamp = directory / "made-from.txt"
    wanted = f"# {sys.version}\n{requirements.read_text()}"
    if python.exists() and stamp.exists() and stamp.read_text() == wanted:
        return python
    say(f"making an environment for {peer} (once)")
    shutil.rmtree(directory, ignore_errors=True)
    _run([sys.executable, "-m", "venv", str(directory)])
    _run([str(python), "-m", "pip", "install", "--quiet", "-r", str(requirements)])
    stamp.write_text(wanted)  # last, so that a broken environment is never taken for a whole one
    return python


def _run(command: list[str]) -> None:
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=INSTALL_SECONDS, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as exc:
        raise NotAvailable(f"cannot be installed: {exc}") from exc
    if done.returncode:
        lines = [line for line in (done.stderr + done.stdout).splitlines() if line.strip()]
        errors = [line for line in lines if line.startswith("ERROR")] or lines or ["no output"]
        raise NotAvailable(f"cannot be installed: {errors[-1]}")
