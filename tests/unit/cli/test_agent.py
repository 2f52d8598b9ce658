"""The simulated agent, against a service that answers as it is told."""

import time
from collections import Counter

import pytest

from deploysteps.cli import simulated_agent
from deploysteps.cli.simulated_agent import SimulatedAgent

MAC = "52:54:00:00:00:01"
NODE = "5d1a5b2c-6f1a-4b8a-9d51-000000000001"
TOKEN = "t" * 40


def found(token=TOKEN):
    return {
        "node": {"uuid": NODE},
        "config": {"agent_token": token, "heartbeat_timeout": 0.02},
    }


@pytest.fixture
def service(stub, monkeypatch):
    monkeypatch.setattr(simulated_agent, "_FIRST_PAUSE", 0.005)
    stub.on("GET", "/", {"default_version": {"version": "1.115"}})
    stub.on("GET", "/v1/lookup", found())
    stub.on("POST", f"/v1/heartbeat/{NODE}", status=202)
    return stub


@pytest.fixture
def boot(service):
    """Start an agent and stop it when it has told a text; returns all that it told."""
    started = []

    def run(text, **more):
        told = []
        agent = SimulatedAgent(service.endpoint + "/v1/", MAC, tell=told.append, **more)
        started.append(agent)
        agent.start()
        until = time.monotonic() + 60
        while not any(text in line for line in told):
            assert time.monotonic() < until, told
            time.sleep(0.005)
        agent.stop()
        assert not agent.is_alive()
        return agent, told

    yield run
    for agent in started:
        agent.stop()


def test_it_speaks_as_the_real_one_does(service, boot):
    agent, _ = boot("beat: accepted", node_uuid=NODE)
    versions = {
        asked["path"]: asked["headers"].get("X-OpenStack-Ironic-API-Version")
        for asked in service.asked
    }
    assert versions["/v1/lookup"] == "1.62"
    assert versions[f"/v1/heartbeat/{NODE}"] == "1.68"
    lookup = next(asked for asked in service.asked if asked["path"] == "/v1/lookup")
    assert lookup["query"] == {"addresses": MAC, "node_uuid": NODE}
    body = service.last("POST")["body"]
    assert body["agent_token"] == TOKEN and body["callback_url"].startswith("http")
    assert set(body) == {"agent_token", "agent_version", "callback_url"}
    assert agent.beats >= 1


def test_it_speaks_no_newer_version_than_the_service(service, boot):
    service.on("GET", "/", {"default_version": {"version": "1.36"}})
    boot("beat: accepted")
    assert service.last("POST")["headers"]["X-OpenStack-Ironic-API-Version"] == "1.36"


def test_it_waits_until_the_node_expects_it(service, boot):
    service.answers["GET", "/v1/lookup"] = [(404, {}), (409, {}), (200, found())]
    service.answers["GET", "/v1/lookup"][1:1] = [(404, {})]
    _, told = boot("looked itself up")
    assert [line for line in told if "no node has a port with this address yet" in line] == told[:1]
    assert len([a for a in service.asked if a["path"] == "/v1/lookup"]) >= 3


def test_it_does_not_beat_without_a_token(service, boot):
    service.on("GET", "/v1/lookup", found("******"))
    _, told = boot("another boot")
    assert f"`deploysteps node power {NODE} reboot`" in told[0]
    assert not [a for a in service.asked if a["method"] == "POST"]


def test_another_boot_is_told_once_until_the_machine_is_rebooted(service, boot):
    """F29."""
    service.answers["GET", "/v1/lookup"] = [*[(200, found("******"))] * 3, (200, found())]
    _, told = boot("beat: accepted")
    assert len([line for line in told if "another boot" in line]) == 1


def test_the_pace_is_the_services_unless_a_shorter_one_is_asked_for():
    free, capped = (SimulatedAgent("http://x", MAC, interval=pace) for pace in (None, 3))
    assert 90 <= free._pause(300) <= 180 and capped._pause(300) == 3
    assert capped._pause(4) <= 2.4


def test_a_lock_is_waited_out_with_the_same_token(service, boot):
    """F23: a beat that was not applied is sent again."""
    service.answers["POST", f"/v1/heartbeat/{NODE}"] = [(409, {}), (503, {}), (202, None)]
    boot("beat: accepted")
    beats = [a for a in service.asked if a["method"] == "POST"]
    assert len(beats) >= 3 and {beat["body"]["agent_token"] for beat in beats} == {TOKEN}


def test_a_token_that_is_refused_means_a_new_boot(service, boot):
    """F29: the next boot gets another token."""
    service.answers["GET", "/v1/lookup"] = [(200, found()), (200, found("n" * 40))]
    service.answers["POST", f"/v1/heartbeat/{NODE}"] = [(400, {}), (202, None)]
    _, told = boot("beat: accepted")
    assert service.last("POST")["body"]["agent_token"] == "n" * 40
    at = next(place for place, line in enumerate(told) if "refused (400)" in line)
    assert "looked itself up" in told[at + 1]


def test_a_service_that_is_away_is_asked_again(service, boot):
    service.answers["GET", "/v1/lookup"] = [
        (200, ConnectionError),
        (200, b"no json"),
        (200, found()),
    ]
    service.answers["GET", "/"] = [
        (200, ConnectionError),
        (200, {"default_version": {"version": "1.115"}}),
    ]
    _, told = boot("beat: accepted")
    assert any("no answer" in line for line in told)


def test_pauses_grow_and_are_never_the_same():
    """F20: agents do not come all at once after an outage."""
    pauses = simulated_agent._Pauses()
    first = [pauses.next() for _ in range(10)]
    assert max(first) <= simulated_agent._LONGEST_PAUSE * 1.5
    assert len(set(first)) == 10 and min(first[5:]) > first[0]


def test_a_thousand_agents_do_not_come_at_once_after_an_outage():
    """F20: the service is away for half a minute; who comes when, by the pauses of each."""
    outage, first = 30.0, Counter()
    for number in range(1000):
        pauses, now = simulated_agent._Pauses(), number / 1000  # all within its first second
        while now < outage:
            now += pauses.next()
        first[int((now - outage) * 10)] += 1
    assert sum(first.values()) == 1000
    assert max(first.values()) < 60, "in no tenth of a second, where an even share is 13 to 27"


@pytest.mark.parametrize("address", ["nonsense", "52:54:00:00:00", "52:54:00:00:00:0g", ""])
def test_an_address_that_is_none(service, failing, address):
    code, line = failing("agent", address)
    assert code == 2 and "is no MAC address" in line and not service.asked


def test_the_command_beats_until_it_is_interrupted(service, run, monkeypatch):
    def interrupted(self, timeout=None):
        if timeout == 1 and self.beats:
            raise KeyboardInterrupt

    monkeypatch.setattr(SimulatedAgent, "join", interrupted)
    result = run("agent", MAC, "--interval", "0.05")
    assert result.exit_code == 130
    assert f"{MAC}: beat: accepted; next beat in 0.0" in result.stdout
