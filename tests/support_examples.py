"""What the example drivers talk to: a machine's agent, and ``ipmitool``."""

from __future__ import annotations

import http.server
import json
import threading
import urllib.parse
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Machine(http.server.ThreadingHTTPServer):
    """A machine whose agent listens; what it was told stands in ``commands``."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.token: str | None = None
        """The token that it takes; None: any."""
        self.commands: list[dict[str, Any]] = []

    def end(self, status: str, **more: Any) -> None:
        """Let every command that runs end: ``SUCCEEDED`` or ``FAILED``."""
        for command in self.commands:
            if command["command_status"] == "RUNNING":
                command.update(command_status=status, **more)


class _Handler(http.server.BaseHTTPRequestHandler):
    server: Machine

    def do_GET(self) -> None:
        self._answer({"commands": self.server.commands})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        command = {"command_name": body["name"], "params": body["params"]}
        self.server.commands.append({**command, "command_status": "RUNNING"})
        self._answer(self.server.commands[-1])

    def _answer(self, value: Any) -> None:
        query = urllib.parse.parse_qs(urllib.parse.urlsplit(self.path).query)
        known = self.server.token in (None, *query["agent_token"])
        self.send_response(200 if known else 401)
        self.end_headers()
        self.wfile.write(json.dumps(value if known else {"faultstring": "who?"}).encode())

    def log_message(self, *args: Any) -> None:
        pass


@contextmanager
def machine() -> Iterator[Machine]:
    """A machine whose agent listens until the block ends."""
    server = Machine()
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


_IPMITOOL = """#!/bin/sh
# Keeps the power state in a file, and refuses a wrong password.
[ "$IPMITOOL_PASSWORD" = planted ] || { echo "wrong password" >&2; exit 1; }
case "$*" in *planted*) echo "the password can be seen by all" >&2; exit 1;; esac
state=$(cat "$IPMI_STATE")
for last; do :; done
case "$last" in
  status) echo "Chassis Power is $state";;
  on) [ "$state" = stuck ] || echo on > "$IPMI_STATE";;
  off|soft) [ "$state" = stuck ] || echo off > "$IPMI_STATE";;
esac
echo "$last" >> "$IPMI_STATE.calls"
"""

IPMI_INFO = {"ipmi_address": "10.0.0.1", "ipmi_username": "root", "ipmi_password": "planted"}


class Ipmitool:
    """An ``ipmitool`` on the path that talks to a file."""

    def __init__(self, folder: Path, monkeypatch: Any) -> None:
        program, self._state = folder / "ipmitool", folder / "state"
        program.write_text(_IPMITOOL)
        program.chmod(0o755)
        self.set("off")
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        monkeypatch.setenv("IPMI_STATE", str(self._state))
        monkeypatch.setattr("examples.ported.ipmi.INTERVAL", 0)

    def set(self, state: str) -> None:
        """Bring the machine into a state: on, off, or stuck."""
        self._state.write_text(f"{state}\n")

    @property
    def switched(self) -> list[str]:
        """How the machine was switched so far."""
        calls = self._state.with_suffix(".calls")
        found = calls.read_text().split() if calls.exists() else []
        return [call for call in found if call != "status"]
