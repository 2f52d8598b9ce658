import http.server
import json
import threading
import time
import types
import urllib.parse

import pytest
from click.testing import CliRunner

from deploysteps.cli.app import cli

UUID = "5d1a5b2c-6f1a-4b8a-9d51-000000000001"


class Stub:
    """A service that answers as it is told and remembers what it was asked."""

    def __init__(self):
        self.answers = {}
        self.asked = []
        self.headers = {}
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def answer(self):
                outer.serve(self)

            do_GET = do_POST = do_PUT = do_PATCH = do_DELETE = answer

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.01,), daemon=True).start()

    def on(self, method, path, *answers, status=200):
        """The last answer is repeated; an exception class drops the connection."""
        self.answers[method, path] = [(status, answer) for answer in answers] or [(status, None)]

    def on_error(self, method, path, status, text):
        inner = json.dumps({"faultcode": "Client", "faultstring": text, "debuginfo": None})
        self.on(method, path, {"error_message": inner}, status=status)

    def serve(self, request):
        parts = urllib.parse.urlsplit(request.path)
        size = int(request.headers.get("Content-Length") or 0)
        raw = request.rfile.read(size)
        self.asked.append(
            {
                "method": request.command,
                "path": parts.path,
                "query": dict(urllib.parse.parse_qsl(parts.query)),
                "body": json.loads(raw) if raw else None,
                "headers": dict(request.headers),
            }
        )
        listed = self.answers.get((request.command, parts.path))
        if listed is None:
            listed = [(404, {"error_message": json.dumps({"title": "Not Found"})})]
        status, body = listed[0] if len(listed) == 1 else listed.pop(0)
        if body is ConnectionError:
            request.connection.close()
            return
        data = (
            body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        )
        request.send_response(status)
        request.send_header("Content-Length", str(len(data)))
        if data.startswith(b"id: "):
            request.send_header("Content-Type", "text/event-stream")
        for name, value in self.headers.items():
            request.send_header(name, value)
        request.end_headers()
        request.wfile.write(data)

    def last(self, method):
        return [asked for asked in self.asked if asked["method"] == method][-1]


@pytest.fixture
def stub():
    made = Stub()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture(autouse=True)
def quiet_folder(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    hurried = types.SimpleNamespace(monotonic=time.monotonic, sleep=lambda seconds: None)
    monkeypatch.setattr("deploysteps.cli.waiting.time", hurried)


@pytest.fixture
def run(stub):
    """Run a command against the stub; the result has exit_code, stdout and stderr."""

    def invoke(*args, env=None, **more):
        return CliRunner().invoke(
            cli, list(args), env={"OS_ENDPOINT": stub.endpoint} | (env or {}), **more
        )

    return invoke


@pytest.fixture
def ok(run):
    def invoke(*args, **more):
        result = run(*args, **more)
        assert result.exit_code == 0, result.output
        return result

    return invoke


@pytest.fixture
def failing(run):
    """Run a command that must fail with one line; returns (exit code, the line)."""

    def invoke(*args, **more):
        result = run(*args, **more)
        assert result.exit_code != 0, result.output
        lines = result.stderr.strip().splitlines()
        assert len(lines) == 1 and lines[0].startswith("Error: "), result.stderr
        assert "Traceback" not in result.output
        return result.exit_code, lines[0]

    return invoke


def node(state="available", **more):
    return {
        "uuid": UUID,
        "name": "node-1",
        "driver": "fake-hardware",
        "provision_state": state,
        "power_state": None,
        "maintenance": False,
        "last_error": None,
        "driver_internal_info": {},
        "links": [],
    } | more


def attempt(step, state="finished", number=1, **more):
    interface, name = step.split(".")
    over = state == "finished"
    return {
        "interface": interface,
        "step": name,
        "attempt": number,
        "state": state,
        "conductor": "c1",
        "started_at": "2026-01-02T03:04:05.000000+00:00",
        "finished_at": "2026-01-02T03:04:07.500000+00:00" if over else None,
        "outcome": "success" if over else None,
        "error": None,
        "progress": None,
    } | more


def step_run(*attempts, outcome=None, **more):
    return {
        "uuid": "5d1a5b2c-6f1a-4b8a-9d51-0000000000aa",
        "flow": "deploy",
        "state": "finished" if outcome else "running",
        "requested_by": None,
        "started_at": "2026-01-02T03:04:05.000000+00:00",
        "finished_at": "2026-01-02T03:05:05.000000+00:00" if outcome else None,
        "outcome": outcome,
        "error": None if outcome in (None, "success") else "deploy.deploy failed: because",
        "attempts": list(attempts),
    } | more


@pytest.fixture
def follows(stub):
    """The node (called n) goes through these (node, run) pairs, one at each look.

    ``before``: the node before it is asked for anything.
    """

    def script(*pairs, before=None):
        looks = [node for node, _ in pairs]
        stub.on("GET", "/v1/nodes/n/runs", {"runs": []})
        stub.on("GET", "/v1/nodes/n", *([before] if before else []), *looks)
        runs = ({"runs": [run] if run else []} for _, run in pairs)
        stub.on("GET", f"/v1/nodes/{UUID}/runs", *runs)

    return script


@pytest.fixture
def made():
    """Documents as the service gives them."""

    class Made:
        node = staticmethod(node)
        attempt = staticmethod(attempt)
        run = staticmethod(step_run)

    return Made
