"""Real ironic-python-agents do in-band steps, and are killed, and the conductor is."""

from __future__ import annotations

import re
from datetime import datetime

import pytest

from deploysteps.cli.client import node_path
from tests.peers.nodes import Node, again, step


@pytest.fixture(scope="module")
def two(machines) -> list[Node]:
    """Two machines on one service: one with automatic TLS, one without."""
    return machines({}, True, False)


def test_two_at_once(two):
    """Steps of the agent's, by the request's priorities, and the agent's own default."""
    steps = [step("peer_sleep", 90, seconds=1), step("peer_mark_1", 70), step("peer_mark_0", 80)]
    for node in two:
        node.ask("active", deploy_steps=steps)
    for node in two:
        node.reach("active")
        assert node.machine.done == ["peer_sleep", "peer_mark_0", "peer_mark_1", "peer_mark"]
        assert {outcome for _, outcome in node.attempts()} == {"success"}
        assert node.get()["power_state"] == "power on"
    secure, plain = two
    assert "https://127.0.0.1" in secure.machine.log
    assert "http://127.0.0.1" in plain.machine.log


def test_a_failing_step(two):
    """F72, F74: the agent's words are the node's last error, and are kept with the attempt."""
    node = two[0]
    again(node)
    node.ask("active", deploy_steps=[step("peer_fail", 90), step("peer_mark_0", 80)])
    told = node.reach("deploy failed")["last_error"]
    assert "deploy.peer_fail failed" in told and "peer was told to fail" in told
    assert node.machine.done == ["peer_fail"]
    (failed,) = [one for one in node.run()["attempts"] if one["step"] == "peer_fail"]
    assert failed["outcome"] == "failed"
    assert failed["evidence"]["command_error"]["type"] == "DeploymentError"
    assert node.get()["target_provision_state"] == "active"


def test_a_step_that_asks_for_a_reboot(two):
    """The agent's ``reboot_requested`` counts although the request lists the step."""
    node = two[1]
    again(node)
    boots = node.machine.boots
    steps = [step("peer_mark_0", 95), step("peer_reboot", 90), step("peer_mark_1", 85)]
    node.ask("active", deploy_steps=steps)
    node.reach("active")
    assert node.machine.done == ["peer_mark_0", "peer_reboot", "peer_mark_1", "peer_mark"]
    assert node.machine.boots - boots == 3  # the agent, the agent again, the instance


def test_servicing(two):
    node = two[1]
    node.ask("service", service_steps=[{"interface": "deploy", "step": "peer_mark_2"}])
    node.reach("active")
    assert node.machine.done[-1] == "peer_mark_2"
    assert ("peer_mark_2", "success") in node.attempts()


def test_steps_of_any_interface_until_the_agent_is_shut_down(two):
    """One with the priority of the step that shuts the agent down runs before it."""
    node = two[1]
    again(node)
    raid = {"interface": "raid", "step": "peer_raid", "args": {}, "priority": 60}
    node.ask("active", deploy_steps=[step("peer_mark_0", 40), raid])
    node.reach("active")
    assert node.machine.done == ["peer_raid", "peer_mark", "peer_mark_0"]
    again(node)
    node.ask("active", deploy_steps=[step("peer_mark_0", 39)])
    told = node.reach("deploy failed")["last_error"]
    assert "peer_mark_0" in told and "tear_down_agent" in told
    assert node.machine.done == []


def test_hardware_managers_that_change_on_the_way(two):
    """The agent refuses steps of another version: it tells its steps anew, and they begin again."""
    node = two[0]
    again(node)
    node.ask("active", deploy_steps=[step("peer_update", 90), step("peer_mark_0", 80)])
    node.reach("active")
    assert node.machine.done == ["peer_update", "peer_update", "peer_mark_0", "peer_mark"]
    assert [outcome for name, outcome in node.attempts() if name == "peer_mark_0"] == [
        "failed",
        "success",
    ]


def test_a_step_that_may_not_be_cut_short_ends_by_its_operator(two):
    """F68: an abort waits for it; in maintenance it does not."""
    node = two[1]
    again(node)
    node.ask("manage")
    node.reach("manageable")
    sleeps = {"interface": "deploy", "step": "peer_sleep", "args": {"seconds": 300}}
    node.ask("clean", clean_steps=[sleeps])
    node.begun("peer_sleep")
    node.reach("clean wait")
    node.ask("abort")
    client = node.service.client
    (told,) = [
        entry["event"]
        for entry in client.get(node_path(node.name, "history"), detail=True)["history"]
        if entry["event_type"] == "abort pending"
    ]
    assert "deploy.peer_sleep is not abortable" in told and "maintenance" in told
    assert node.get()["provision_state"] == "clean wait"
    client.put(node_path(node.name, "maintenance"), {"reason": "it hangs"})
    node.ask("abort")
    assert "deploy.peer_sleep failed: aborted" in node.reach("clean failed")["last_error"]
    assert node.get()["power_state"] == "power off"
    client.delete(node_path(node.name, "maintenance"))


def test_cleaning(two):
    node = two[0]
    again(node)
    node.ask("manage")
    node.reach("manageable")
    steps = [
        {"interface": "deploy", "step": "peer_sleep", "args": {"seconds": 1}},
        {"interface": "deploy", "step": "peer_mark"},
    ]
    node.ask("clean", clean_steps=steps)
    node.reach("manageable")
    assert node.machine.done == ["peer_sleep", "peer_mark"]
    assert node.get()["power_state"] == "power off"
    node.ask("clean", clean_steps=[{"interface": "deploy", "step": "peer_fail"}])
    found = node.reach("clean failed")
    assert "peer was told to fail" in found["last_error"]
    assert (found["maintenance"], found["fault"]) == (True, "clean failure")
    node.service.client.delete(node_path(node.name, "maintenance"))
    node.ask("manage")
    node.reach("manageable")
    node.ask("provide")
    node.reach("available")


@pytest.mark.parametrize("number", [0, 1], ids=["tls", "plain"])
def test_the_conductor_is_killed_while_a_step_runs(two, number):
    """F28, F34: the agent goes on, and the step is not begun twice."""
    node = two[number]
    again(node)
    node.ask("active", deploy_steps=[step("peer_sleep", 90, seconds=4), step("peer_mark_0", 80)])
    node.begun("peer_sleep")
    node.service.kill()
    node.service.start()
    node.reach("active")
    assert node.machine.done == ["peer_sleep", "peer_mark_0", "peer_mark"]


def test_the_conductor_is_killed_while_the_machine_boots(two):
    node = two[0]
    again(node)
    node.ask("active", deploy_steps=[step("peer_mark_0", 80)])
    node.reach("wait call-back")
    node.service.kill()
    node.service.start()
    node.reach("active")
    assert node.machine.done == ["peer_mark_0", "peer_mark"]


def test_the_agent_is_killed_while_its_step_runs(two):
    """The machine comes up again by its operator; the agent knows nothing of the step."""
    node = two[0]
    again(node)
    node.ask("active", deploy_steps=[step("peer_sleep", 90, seconds=60), step("peer_mark_0", 80)])
    node.begun("peer_sleep")
    node.machine.crash()
    node.power("rebooting")
    told = node.reach("deploy failed", 60)["last_error"]
    assert "deploy.peer_sleep failed" in told and "restarted" in told
    assert node.machine.done == ["peer_sleep"]


def test_the_agent_is_killed_between_two_steps(two):
    """What is left runs on the agent that comes after it."""
    node = two[1]
    again(node)
    hold = {"interface": "power", "step": "hold", "args": {}, "priority": 90}
    node.ask("active", deploy_steps=[step("peer_mark_0", 95), hold, step("peer_mark_1", 85)])
    node.reach("deploy hold")
    node.machine.crash()
    node.power("rebooting")
    node.ask("unhold")
    node.reach("active")
    assert node.machine.done == ["peer_mark_0", "peer_mark_1", "peer_mark"]


def test_no_token_is_logged(two):
    """F76: the agents log the tokens that they are given; the service does not, with ``debug``."""
    log = two[0].service.log.read_text()
    tokens = {
        found for node in two for found in re.findall(r"agent_token=([\w-]{32,})", node.machine.log)
    }
    assert len(tokens) > 5 and "DEBUG" in log
    assert not [token for token in tokens if token in log]


def cost(node: Node, names: list[str]) -> float:
    """Return the seconds that one in-band step took, in the mean."""
    steps = [step(name, 90 - number) for number, name in enumerate(names)]
    node.ask("active", deploy_steps=steps)
    node.reach("active", 150)
    found = {one["step"]: one for one in node.run()["attempts"]}
    begun, ended = found[names[0]]["started_at"], found[names[-1]]["finished_at"]
    span = datetime.fromisoformat(ended) - datetime.fromisoformat(begun)
    return span.total_seconds() / len(names)


def test_what_a_step_costs(two, machines, capsys):
    """Asking the agent for its result costs a small part of waiting for its heartbeat."""
    again(two[1])
    asking = cost(two[1], [f"peer_mark_{number}" for number in range(10)])
    never = {"agent": {"command_poll_first": 3600, "command_poll_longest": 3600}}
    (node,) = machines(never, True)
    waiting = cost(node, [f"peer_mark_{number}" for number in range(3)])
    with capsys.disabled():
        print(
            f"\nan in-band step costs {asking * 1000:.0f} ms when the agent is asked, "
            f"{waiting * 1000:.0f} ms when its heartbeat is waited for: "
            f"{waiting / asking:.0f} times as long"
        )
    assert asking < 0.5 and waiting > 10 * asking
