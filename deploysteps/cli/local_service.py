"""A service of its own in a folder of its own, that can be killed and started again."""

from __future__ import annotations

import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType

from deploysteps.cli.client import Client, Unreachable
from deploysteps.cli.errors import CommandError

_START_SECONDS, _STOP_SECONDS = 60, 60
_PORTS = 15_000, 32_000
"""Below those of outgoing connections, on every common system."""


class LocalService:
    """``deploysteps serve`` as a child process; leaving the ``with`` block ends it."""

    def __init__(self, folder: Path, settings: Mapping[str, Mapping[str, object]]) -> None:
        """Write the configuration; nothing is started yet.

        :param settings: group -> option -> value, beside address and state path.
        """
        self.log = folder / "service.log"
        self._config = folder / "deploysteps.conf"
        port = free_port()
        self.client = Client(f"http://127.0.0.1:{port}")
        own: dict[str, dict[str, object]] = {
            "DEFAULT": {"state_path": folder / "var", "host": "demo"},
            "api": {"host_ip": "127.0.0.1", "port": port},
        }
        for group, options in settings.items():
            own.setdefault(group, {}).update(options)
        self._config.write_text(
            "".join(
                f"[{group}]\n" + "".join(f"{name} = {value}\n" for name, value in options.items())
                for group, options in own.items()
            )
        )
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> LocalService:
        """Start."""
        try:
            self.start()
        except BaseException:
            self.stop()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Stop."""
        self.stop()

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return self._process.pid if self._process else None

    def start(self) -> None:
        """Start, and wait until a conductor offers hardware types.

        :raises CommandError: when it ends, or does not answer for a minute.
        """
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "deploysteps.cli", "--config-file", self._config, "serve"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=_environment(),
                # Ctrl-C is for the demo, which then ends the service itself.
                start_new_session=True,
            )
        until = time.monotonic() + _START_SECONDS
        while time.monotonic() < until:
            if self._process.poll() is not None:
                raise CommandError(f"the service ended at start: {self.last_line()}")
            try:
                if self.client.get("/v1/drivers")["drivers"]:
                    return
            except (Unreachable, CommandError):
                pass
            time.sleep(0.1)
        raise CommandError(f"the service did not answer within {_START_SECONDS} s")

    def kill(self) -> None:
        """End it as a power cut would."""
        if self._process is not None:
            self._process.send_signal(signal.SIGKILL)
            self._process.wait()
            self._process = None

    def stop(self) -> None:
        """End it gracefully, or at once when it takes long."""
        if self._process is None:
            return
        self._process.terminate()
        try:
            self._process.wait(_STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
        self._process = None

    def last_line(self) -> str:
        """Return the last line of the log."""
        lines = self.log.read_text(errors="replace").strip().splitlines()
        return lines[-1] if lines else "it said nothing"


def free_port() -> int:
    """Return a port that nothing listens on, and that is free still after a restart.

    So none of those that the kernel gives to whoever connects somewhere meanwhile.
    """
    chosen = random.SystemRandom()
    while True:
        port = chosen.randrange(*_PORTS)
        with socket.socket() as probe, suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def _environment() -> dict[str, str]:
    """Return this process's environment without settings meant for another service."""
    return {
        name: value
        for name, value in os.environ.items()
        if not (name.startswith("OS_") and "__" in name)
    }
