"""An agent in the test's own process: the recorded protocol, and every way to break it.

What it answers is what ironic-python-agent 13.0.0 answered in
``tests/data/agent-rest-api.json``; ``test_recorded.py`` holds the two together.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import socket
import ssl
import tarfile
import threading
import time
import uuid
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

DATA = Path(__file__).resolve().parents[1] / "data"
PEM, KEY = DATA / "agent-cert.pem", DATA / "agent-key.pem"
FLOWS = ("deploy", "clean", "service")
BUSY = "Agent is busy: executing command %s"


def step(name: str, priority: int = 0, **more: Any) -> dict[str, Any]:
    """Return a step as hardware managers tell of one."""
    return {
        "step": name,
        "priority": priority,
        "interface": "deploy",
        "reboot_requested": False,
        **more,
    }


def failed(message: str, details: str = "", kind: str = "DeploymentError") -> dict[str, Any]:
    """Return a ``command_error``."""
    return {"type": kind, "code": 500, "message": message, "details": details}


class Command:
    """A command that was begun."""

    def __init__(self, name: str, params: dict[str, Any]) -> None:
        self.id = str(uuid.uuid4())
        self.full_name = name
        self.name = name.partition(".")[2]
        self.params = params
        self.status: Any = "RUNNING"
        self.error: dict[str, Any] | None = None
        self.result: Any = None
        self.ends_at: float | None = None

    def shown(self) -> dict[str, Any]:
        if self.ends_at is not None and self.status == "RUNNING" and time.time() >= self.ends_at:
            self.status = "SUCCEEDED"
        return {
            "id": self.id,
            "command_name": self.name,
            "command_status": self.status,
            "command_error": self.error,
            "command_result": self.result if self.status == "SUCCEEDED" else None,
        }


class FakeAgent:
    """An agent; ``with FakeAgent(...) as agent: agent.url``.

    :param steps: what it offers in every flow.
    :param tls: answer with TLS, by ``tests/data/agent-cert.pem``.
    """

    def __init__(self, *steps: dict[str, Any], tls: bool = False, token: str = "") -> None:
        self.steps = list(steps)
        self.versions: dict[str, str] = {"peer": "1"}
        self.token = token
        self.commands: list[Command] = []
        self.requests: list[tuple[str, str]] = []
        """Method and path, without the query, of each request."""
        self.on: dict[str, Callable[[Command], None]] = {}
        """Step or command name -> what happens when it is executed; else it succeeds at once."""
        self.broken_paths: dict[str, str] = {}
        """``METHOD name`` -> how such requests go wrong: ``drop``, ``lose``, ``redirect``,
        ``huge``, ``text`` or a status. The name of a GET is ``list``, ``status`` or ``one``."""
        self.break_first: dict[str, str] = {}
        """The same for the first such request only."""
        self.before: dict[str, Callable[[], None]] = {}
        """The same -> what happens before it is executed; the connection is lost then."""
        self.busy_with: str | None = None
        """Another command that goes on."""
        self.spared: tuple[str, ...] = ("deploy.get_deploy_steps",)
        """What is answered all the same."""
        self.logs: dict[str, bytes] | None = {"journal": b"the journal of the machine\n"}
        self.exclusive = threading.Lock()
        self._server = _Server(("127.0.0.1", 0), Handler)
        self._server.agent = self
        self.pem = PEM.read_text() if tls else None
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(PEM, KEY)
            self._server.socket = context.wrap_socket(
                self._server.socket, server_side=True, do_handshake_on_connect=False
            )
        self.port = self._server.server_address[1]
        self.url = f"{'https' if tls else 'http'}://127.0.0.1:{self.port}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True
        )

    def __enter__(self) -> FakeAgent:
        self._thread.start()
        return self

    def __exit__(self, *exc: Any) -> None:
        self.stop()

    def stop(self) -> None:
        """Be gone: connections are refused from now on."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join(5)
        self._server.server_close()

    def reboot(self, token: str) -> None:
        """Be the agent of the next boot: nothing of the last one is known."""
        self.token, self.commands = token, []

    @property
    def executed(self) -> list[str]:
        """Names of the steps that were executed, in order."""
        return [c.params["step"]["step"] for c in self.commands if c.name.startswith("execute_")]

    def named(self, name: str) -> list[Command]:
        """Return the commands of a name."""
        return [c for c in self.commands if c.name == name]

    # --- the commands -------------------------------------------------------------

    def execute(self, name: str, params: dict[str, Any]) -> Command:
        """Begin a command, as the agent does: one at a time."""
        with self.exclusive:
            if self.busy_with and name not in self.spared:
                raise Error(409, BUSY % self.busy_with)
            if self.commands and self.commands[-1].shown()["command_status"] == "RUNNING":
                raise Error(409, BUSY % self.commands[-1].name)
            extension, dot, short = name.partition(".")
            if not dot:
                raise Error(400, "Invalid command: Command name must be of the form <x>.<name>")
            if extension not in (*FLOWS, "standby", "log"):
                raise Error(404, f"Not found: Extension with id {extension} not found.")
            command = Command(name, params)
            if short.startswith("get_"):
                if not {"node", "ports"} <= params.keys():
                    raise Error(500, "Object of type TypeError is not JSON serializable")
                self._tell(command, extension)
            elif short.startswith("execute_"):
                self._step(command, extension)
            elif short == "collect_system_logs":
                self._collect(command)
            elif short in ("sync", "power_off", "prepare_image", "run_image"):
                self._end(command, short)
            else:
                raise Error(400, f"Invalid command: Unknown command: {short}")
            self.commands.append(command)
            return command

    def _tell(self, command: Command, flow: str) -> None:
        command.status = "SUCCEEDED"
        command.result = {
            f"{flow}_steps": {"PeerManager": list(self.steps)},
            "hardware_manager_version": dict(self.versions),
        }

    def _step(self, command: Command, flow: str) -> None:
        wanted = command.params.get(f"{flow}_version")
        if wanted is not None and wanted != self.versions:
            command.status = "CLEAN_VERSION_MISMATCH"
            command.error = {
                "type": "VersionMismatch",
                "code": 409,
                "message": "Hardware managers version mismatch",
                "details": f"Current versions: {self.versions}",
            }
            return
        asked = command.params["step"]
        command.result = {f"{flow}_result": None, f"{flow}_step": asked}
        if asked["step"] not in {known["step"] for known in self.steps}:
            command.status = "FAILED"
            command.error = failed("No HardwareManager found", asked["step"], "NotFound")
            return
        self._end(command, asked["step"])

    def _end(self, command: Command, name: str) -> None:
        if name in self.on:
            self.on[name](command)
        else:
            command.status = "SUCCEEDED"

    def _collect(self, command: Command) -> None:
        if self.logs is None:
            command.status, command.error = "FAILED", failed("Command execution failed")
            return
        command.status = "SUCCEEDED"
        raw = io.BytesIO()
        with tarfile.open(fileobj=raw, mode="w:gz") as archive:
            for name, content in self.logs.items():
                info = tarfile.TarInfo(name)
                info.size = len(content)
                archive.addfile(info, io.BytesIO(content))
        command.result = {"system_logs": base64.b64encode(raw.getvalue()).decode()}


def runs_for(seconds: float) -> Callable[[Command], None]:
    """The command ends well after a while."""

    def begin(command: Command) -> None:
        command.ends_at = time.time() + seconds

    return begin


def fails(message: str, details: str = "") -> Callable[[Command], None]:
    """The command fails at once."""

    def begin(command: Command) -> None:
        command.status, command.error = "FAILED", failed(message, details)

    return begin


def says(status: Any) -> Callable[[Command], None]:
    """The command has a status of its own."""

    def begin(command: Command) -> None:
        command.status = status

    return begin


class Error(Exception):
    """What the agent answers instead."""

    def __init__(self, status: int, text: str) -> None:
        self.status = status
        super().__init__(text)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True
    agent: FakeAgent

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that does not trust the certificate breaks off: no news."""


_NAMES = {"": "list", "status": "status"}


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: _Server
    protocol_version = "HTTP/1.1"

    def log_message(self, *args: Any) -> None:
        return None

    def do_GET(self) -> None:
        self._answer()

    def do_POST(self) -> None:
        self._answer()

    def _answer(self) -> None:
        agent = self.server.agent
        parts = urlsplit(self.path)
        size = int(self.headers.get("Content-Length") or 0)
        body = json.loads(self.rfile.read(size)) if size else None
        agent.requests.append((self.command, parts.path))
        name = (body or {}).get("name") or _NAMES.get(parts.path.rpartition("/")[2], "one")
        which = f"{self.command} {name}"
        how = agent.break_first.pop(which, None) or agent.broken_paths.get(which)
        if which in agent.before:
            agent.before[which]()
            how = "drop"
        if how == "drop":  # before it is executed
            self._drop()
            return
        try:
            query = parse_qs(parts.query)
            if query.get("agent_token") != [agent.token]:
                raise Error(401, "401 Unauthorized: Token invalid.")
            value = self._value(agent, parts.path, body)
        except Error as exc:
            kind = "Server" if exc.status >= 500 else "Client"
            self._send(exc.status, {"faultcode": kind, "faultstring": str(exc)})
            return
        if how == "lose":  # executed, and the answer is lost
            self._drop()
        elif how is not None:
            self._broken(how)
        else:
            self._send(200, value)

    def _value(self, agent: FakeAgent, path: str, body: Any) -> Any:
        if path == "/v1/commands/":
            if self.command == "GET":
                return {"commands": [command.shown() for command in agent.commands]}
            if not isinstance(body.get("params"), dict) or "name" not in body:
                raise Error(400, "400 Bad Request: Missing or invalid name or params")
            return agent.execute(body["name"], body["params"]).shown()
        if path == "/v1/status":
            return {"started_at": 1, "version": "13.0.0"}
        ident = path.rpartition("/")[2]
        found = next((c for c in agent.commands if c.id == ident), None)
        if found is None:
            raise Error(404, f"Not found: Command Result with id {ident} not found.")
        return found.shown()

    def _broken(self, how: str) -> None:
        if how == "redirect":
            self.send_response(308)
            self.send_header("Location", "http://127.0.0.1:1/v1/commands/")
            self.send_header("Content-Length", "0")
            self.end_headers()
        elif how == "huge":
            self.send_response(200)
            self.end_headers()
            with contextlib.suppress(OSError):
                for _ in range(2000):
                    self.wfile.write(b"x" * 65536)
            self.close_connection = True
        elif how == "text":
            self._send(200, "no object")
        else:
            self._send(int(how), {"faultcode": "Server", "faultstring": "out of order"})

    def _drop(self) -> None:
        self.close_connection = True
        with contextlib.suppress(OSError):
            self.connection.shutdown(socket.SHUT_RDWR)

    def _send(self, status: int, value: Any) -> None:
        raw = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)
