"""Found by killing the conductor between what it notes of a reboot and the reboot (F34)."""

from __future__ import annotations

import pytest

from deploysteps.cli.client import node_path
from tests import support
from tests.agent.fake_agent import step
from tests.agent.test_crashes import Running
from tests.agent.test_crashes import running as running

pytestmark = pytest.mark.process

REBOOTS = 3.0
"""Seconds that a reboot takes here: the conductor is killed meanwhile."""


def rebooting(machine):
    return (machine.node["driver_internal_info"].get("agent_command") or {}).get("rebooting")


def killed_in_the_reboot(machine, name, body):
    """Begin, kill the conductor when the step has asked for a reboot, and start it again."""
    ask = machine.ask
    machine.ask = lambda target: (
        machine.client.put(node_path("n", "states", "provision"), {"target": target, **body})
        if target == "active"
        else ask(target)
    )
    machine.begin()
    support.until(
        lambda: (
            rebooting(machine) == "asked" and (machine.node["deploy_step"] or {})["step"] == name
        ),
        30,
    )
    machine.service.kill()
    machine.service.start()
    # Far sooner than the next look at a machine that boots: without a reboot no beat comes.
    support.until(lambda: rebooting(machine) == "done", 20)
    node = machine.settle("wait call-back")
    found = machine.client.get("/v1/lookup", node_uuid=node["uuid"])
    machine.agent.reboot(found["config"]["agent_token"])
    machine.client.post(
        f"/v1/heartbeat/{node['uuid']}",
        {"callback_url": machine.agent.url, "agent_token": machine.agent.token},
    )
    machine.settle("active")


@pytest.fixture
def slow(running):
    client = running.client
    original = client.post

    def post(path, body=None, **more):
        if path == "/v1/nodes":
            body = {**body, "driver_info": {"fake_delay": {"power.reboot": REBOOTS}}}
        return original(path, body, **more)

    client.post = post
    yield running
    del client.post


def test_killed_while_a_step_of_the_agents_has_its_machine_rebooted(slow: Running) -> None:
    slow.agent.steps = [step("mark", 90, reboot_requested=True)]
    killed_in_the_reboot(slow, "mark", {})
    assert ("mark", 1, "success") in slow.attempts()


def test_killed_while_the_agent_is_booted_again_for_the_deployment(slow: Running) -> None:
    """A step before it had rebooted the machine."""
    before = {"interface": "deploy", "step": "reboot", "args": {}, "priority": 110}
    killed_in_the_reboot(slow, "deploy", {"deploy_steps": [before]})
    assert ("deploy", 1, "success") in slow.attempts()
