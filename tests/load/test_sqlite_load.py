"""Many agents and pollers on one SQLite file, over HTTP (`make load`)."""

from __future__ import annotations

import os
import statistics
import threading
import time
from pathlib import Path
from typing import Any

import pytest
import requests

from deploysteps.cli.local_service import LocalService

SECONDS = float(os.environ.get("DEPLOYSTEPS_LOAD_SECONDS", "60"))
AGENTS, POLLED, SENDERS = 50, 4, 10
LATEST = {"X-OpenStack-Ironic-API-Version": "latest"}


class Fleet:
    """Nodes of a running service, and what was answered."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.answers: dict[int, int] = {}
        self.patches: list[float] = []
        self.tokens: dict[str, str] = {}
        self._lock = threading.Lock()
        self._local = threading.local()

    def call(self, method: str, path: str, body: Any = None) -> requests.Response:
        """Send a request on this thread's connection and count the answer's status."""
        if not hasattr(self._local, "session"):
            self._local.session = requests.Session()
            self._local.session.headers.update(LATEST)
        answer = self._local.session.request(method, self.endpoint + path, json=body, timeout=60)
        with self._lock:
            self.answers[answer.status_code] = self.answers.get(answer.status_code, 0) + 1
        return answer

    def make(self, name: str, step: dict[str, Any]) -> None:
        """Enrol a node and start a deployment that goes on waiting."""
        self.call("POST", "/v1/nodes", {"driver": "fake-hardware", "name": name})
        for target, state in (("manage", "manageable"), ("provide", "available")):
            self.put(name, {"target": target})
            self.until(name, state)
        self.put(name, {"target": "active", "deploy_steps": [{**step, "priority": 200}]})
        self.until(name, "wait call-back")

    def put(self, name: str, body: dict[str, Any]) -> None:
        answer = self.call("PUT", f"/v1/nodes/{name}/states/provision", body)
        assert answer.status_code == 202, answer.text

    def until(self, name: str, state: str) -> None:
        end = time.monotonic() + 120
        while self.call("GET", f"/v1/nodes/{name}").json()["provision_state"] != state:
            assert time.monotonic() < end
            time.sleep(0.02)

    def look_up(self, name: str) -> None:
        """Get the agent's token; a poller may hold the node just now."""
        uuid = self.call("GET", f"/v1/nodes/{name}").json()["uuid"]
        while True:
            answer = self.call("GET", f"/v1/lookup?node_uuid={uuid}")
            if answer.status_code == 200:
                self.tokens[name] = answer.json()["config"]["agent_token"]
                return
            assert answer.status_code == 409, answer.text
            time.sleep(0.05)

    def beat(self, name: str) -> None:
        body = {
            "callback_url": "http://127.0.0.1:9999/",
            "agent_token": self.tokens[name],
            "agent_version": "11.0.0",
        }
        self.call("POST", f"/v1/heartbeat/{name}", body)

    def patch(self, name: str, number: int) -> None:
        begun = time.monotonic()
        change = [{"op": "add", "path": "/extra/seen", "value": number}]
        self.call("PATCH", f"/v1/nodes/{name}", change)
        self.patches.append(time.monotonic() - begun)


def every_second(fleet: Fleet, names: list[str], end: float) -> None:
    """Beat once a second for each name, spread over the second."""
    while (begun := time.monotonic()) < end:
        for place, name in enumerate(names):
            time.sleep(max(begun + place / len(names) - time.monotonic(), 0))
            fleet.beat(name)
        time.sleep(max(begun + 1 - time.monotonic(), 0))


@pytest.mark.load
@pytest.mark.timeout(SECONDS + 180)
def test_fifty_agents_and_four_pollers_share_one_file(tmp_path: Path) -> None:
    """F56: no "database is locked", no 5xx; the times of PATCH are printed, not judged."""
    with LocalService(tmp_path, {"conductor": {"step_poll_interval": 0.5}}) as service:
        fleet = Fleet(service.client.endpoint)
        agents = [f"agent-{n}" for n in range(AGENTS)]
        long = {"interface": "deploy", "step": "poll", "args": {"seconds": 3600}}
        for name in (*agents, *(f"polled-{n}" for n in range(POLLED))):
            fleet.make(name, long)
        for name in agents:
            fleet.look_up(name)
        idle = "idle"
        fleet.call("POST", "/v1/nodes", {"driver": "fake-hardware", "name": idle})
        fleet.answers.clear()
        end = time.monotonic() + SECONDS
        threads = [
            threading.Thread(target=every_second, args=(fleet, agents[n::SENDERS], end))
            for n in range(SENDERS)
        ]
        for thread in threads:
            thread.start()
        number = 0
        while time.monotonic() < end:
            number += 1
            fleet.patch(idle, number)
            time.sleep(0.1)
        for thread in threads:
            thread.join()
        log = service.log.read_text()
    centiles = statistics.quantiles(fleet.patches, n=100)
    print(
        f"answers {dict(sorted(fleet.answers.items()))}, "
        f"PATCH p50 {centiles[49] * 1000:.0f} ms, p99 {centiles[98] * 1000:.0f} ms"
    )
    assert "database is locked" not in log
    assert "Traceback" not in log
    # 409: the beat met a poller that held the node; the agent is told, and sends it again.
    assert set(fleet.answers) <= {200, 202, 409}
    assert fleet.answers[202] >= 4 * fleet.answers[409]
