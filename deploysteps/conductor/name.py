"""A conductor's name, held by one process of a machine at a time.

Two of one name would take each other's locks for those of an earlier life.
The kernel frees the lock when the process ends, however it ends, so that a
killed conductor can start again at once.
"""

from __future__ import annotations

import fcntl
import os
from pathlib import Path
from urllib.parse import quote

from deploysteps import exceptions


class NameLock:
    """A lock file under ``state_path``."""

    def __init__(self, state_path: str, host: str) -> None:
        """Name the file; nothing is touched yet."""
        self._host = host
        self._path = Path(state_path) / f"conductor-{quote(host, safe='')}.lock"
        self._file: int | None = None

    def take(self) -> None:
        """Hold the name.

        :raises ConfigurationError: a running process holds it, or the file
            cannot be made; with the remedy.
        """
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(self._path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as exc:
            raise exceptions.ConfigurationError(
                f"cannot make {self._path}: {exc.strerror}; set [DEFAULT] state_path to a folder "
                "that can be written to"
            ) from exc
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as exc:
            pid = os.read(file, 32).decode(errors="replace").strip() or "unknown"
            os.close(file)
            raise exceptions.ConfigurationError(
                f"a conductor named {self._host!r} is running here (process {pid}, "
                f"{self._path}); stop it, or give this one a [DEFAULT] host of its own"
            ) from exc
        os.ftruncate(file, 0)
        os.write(file, f"{os.getpid()}\n".encode())
        self._file = file

    def release(self) -> None:
        """Let the name go; the file stays, for it cannot be removed without a race."""
        if self._file is not None:
            os.close(self._file)
            self._file = None
