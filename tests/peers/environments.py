"""The peers' own environments: made from PyPI when first asked for, kept until the pins change.

They stand in ``.peers/`` of the repository, or in the folder that ``DEPLOYSTEPS_PEERS`` names. The
versions are in ``pins.txt``; a folder's name ends in the hash of what it was made from, so a
changed pin makes a new one.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
PINS = HERE / "pins.txt"
PACKAGES = {
    "clients": ["python-openstackclient", "python-ironicclient", "openstacksdk"],
    "agent": ["ironic-python-agent"],
    "schemathesis": ["schemathesis"],
}
"""What is asked for by name; ``pins.txt`` says in which version."""


def folder() -> Path:
    """Return where the environments are."""
    named = os.environ.get("DEPLOYSTEPS_PEERS")
    return Path(named) if named else HERE.parents[1] / ".peers"


def programs(name: str) -> Path:
    """Return the folder of the environment's programs; make the environment if it is not there."""
    home = folder() / f"{name}-{_hash(name)}"
    home.parent.mkdir(parents=True, exist_ok=True)
    with (home.parent / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (home / "complete").exists():
            _make(name, home)
    return home / "bin"


def plain() -> dict[str, str]:
    """Return this process's environment without what concerns services and clients."""
    left_out = ("OS_", "COV_", "COVERAGE_", "PYTHON")
    return {name: value for name, value in os.environ.items() if not name.startswith(left_out)}


def _hash(name: str) -> str:
    made_from = [sys.version, *PACKAGES[name], PINS.read_text()]
    return hashlib.sha256("\n".join(made_from).encode()).hexdigest()[:12]


def _make(name: str, home: Path) -> None:
    for older in home.parent.glob(f"{name}-*"):
        shutil.rmtree(older)
    python = str(home / "bin" / "python")
    _run(sys.executable, "-m", "venv", str(home))
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    _run(*pip, "--constraint", str(PINS), *PACKAGES[name])
    (home / "complete").touch()


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
