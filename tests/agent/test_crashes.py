"""The conductor's process is killed around a command of the agent, and started again.

F34, promise 10: what the agent executes goes on and is found again; nothing is
executed twice that did not say it may be.
"""

from __future__ import annotations

import threading
import time

import pytest

from deploysteps.cli.client import node_path
from deploysteps.cli.errors import CommandError, ExitCode
from deploysteps.cli.local_service import LocalService
from tests import support
from tests.agent.fake_agent import FakeAgent, runs_for, says, step

pytestmark = pytest.mark.process

MAC = "52:54:00:00:00:01"
SETTINGS = {
    "conductor": {"recovery_interval": 0.5, "step_poll_interval": 0.2},
    "agent": {
        "require_tls": "false",
        "post_deploy_get_power_state_retry_interval": 0.1,
        "post_deploy_get_power_state_retries": 1,
    },
}


def _retried(call):
    def answered():
        try:
            return call() or True
        except CommandError as exc:
            assert exc.code == ExitCode.CONFLICT, exc
            return None

    return support.until(answered)


class Running:
    """A service with one node, and the agent of its machine."""

    def __init__(self, service: LocalService, agent: FakeAgent) -> None:
        self.service, self.agent, self.client = service, agent, service.client
        self.booted = threading.Event()

    def begin(self) -> None:
        """Deploy until the agent has booted."""
        self.client.post(
            "/v1/nodes",
            {"driver": "fake-hardware", "name": "n", "deploy_interface": "custom-agent"},
        )
        uuid = self.node["uuid"]
        self.client.post("/v1/ports", {"address": MAC, "node_uuid": uuid})
        self.client.patch(
            node_path("n"), [{"op": "add", "path": "/automated_clean", "value": False}]
        )
        for target, state in (("manage", "manageable"), ("provide", "available")):
            self.ask(target)
            self.settle(state)
        self.ask("active")
        self.settle("wait call-back")
        self.boot()

    def boot(self) -> None:
        """Look the node up and beat, again while it is locked, as agents do."""
        uuid = self.node["uuid"]
        found = _retried(lambda: self.client.get("/v1/lookup", node_uuid=uuid))
        self.agent.reboot(found["config"]["agent_token"])
        body = {"callback_url": self.agent.url, "agent_token": self.agent.token}
        self.booted.clear()
        _retried(lambda: self.client.post(f"/v1/heartbeat/{uuid}", body))
        self.booted.set()

    def kill(self) -> None:
        """Kill the service, but not before the beat that brought it to that was answered."""
        assert self.booted.wait(60)
        self.service.kill()

    @property
    def node(self):
        return self.client.get(node_path("n"))

    def ask(self, target):
        self.client.put(node_path("n", "states", "provision"), {"target": target})

    def settle(self, *states):
        def there():
            node = self.node
            done = node["provision_state"] in states and node["reservation"] is None
            failed = node["provision_state"].endswith("failed") and node["reservation"] is None
            assert not failed or done, node["last_error"]
            return node if done else None

        return support.until(there, 60)

    def attempts(self):
        run = self.client.get(node_path("n", "runs"))["runs"][0]
        return [(a["step"], a["attempt"], a["outcome"]) for a in run["attempts"]]


@pytest.fixture
def running(tmp_path):
    with FakeAgent(step("mark", 90)) as agent:
        service = LocalService(tmp_path, SETTINGS)
        service.start()
        yield Running(service, agent)
        service.kill()


def test_killed_while_the_agent_executes_the_step(running):
    running.agent.on["mark"] = says("RUNNING")
    running.begin()
    support.until(lambda: running.agent.executed and running.node["reservation"] is None)
    running.service.kill()
    running.agent.commands[-1].status = "SUCCEEDED"  # meanwhile
    running.service.start()
    running.settle("active")
    assert running.agent.executed == ["mark"]
    assert ("mark", 1, "success") in running.attempts()


@pytest.mark.parametrize("seconds", [0, 3])
def test_killed_when_the_agent_has_begun_and_the_conductor_does_not_know(running, seconds):
    """Between the command and the write that the step waits: the command is found, not repeated."""

    def begun(command):
        running.kill()
        runs_for(seconds)(command)

    running.agent.on["mark"] = begun
    running.begin()
    support.until(lambda: running.service.pid is None)
    running.service.start()
    running.settle("active")
    assert running.agent.executed == ["mark"]
    assert ("mark", 1, "success") in running.attempts()


def test_killed_before_the_agent_was_told(running):
    """The agent lists no command: a step that is not repeatable fails, and says why."""
    running.agent.before["POST deploy.execute_deploy_step"] = running.kill
    running.begin()
    support.until(lambda: running.service.pid is None)
    running.agent.before.clear()
    running.service.start()
    node = running.settle("deploy failed")
    assert "deploy.mark" in node["last_error"]
    assert "not declared repeatable" in node["last_error"]
    assert running.agent.executed == []


def test_killed_before_the_agent_was_told_of_a_step_that_may_be_repeated(running):
    running.agent.steps = [step("mark", 90, repeatable=True)]
    running.agent.before["POST deploy.execute_deploy_step"] = running.kill
    running.begin()
    support.until(lambda: running.service.pid is None)
    running.agent.before.clear()
    running.service.start()
    running.settle("active")
    assert running.agent.executed == ["mark"]
    assert ("mark", 1, "interrupted") in running.attempts()
    assert ("mark", 2, "success") in running.attempts()


def test_killed_and_the_agent_cannot_be_asked_at_once(running):
    """Whether the step goes on is found out when the agent answers again."""
    running.agent.on["mark"] = lambda command: running.kill()
    running.begin()
    support.until(lambda: running.service.pid is None)
    running.agent.broken_paths["GET list"] = "503"
    running.service.start()
    support.until(lambda: ("GET", "/v1/commands/") in running.agent.requests)
    time.sleep(1)
    assert running.node["provision_state"] == "wait call-back"
    running.agent.broken_paths.clear()
    running.agent.commands[-1].status = "SUCCEEDED"
    running.settle("active")
    assert running.agent.executed == ["mark"]


def test_killed_while_the_machine_reboots_for_a_step(running):
    running.agent.steps = [step("mark", 90, reboot_requested=True)]
    running.begin()
    support.until(lambda: running.node["driver_internal_info"].get("agent_command"))
    support.until(
        lambda: running.node["driver_internal_info"]["agent_command"].get("rebooting") == "done"
    )
    running.service.kill()
    running.service.start()
    running.boot()
    running.settle("active")
    assert ("mark", 1, "success") in running.attempts()
