"""What the machine's agent asks: lookup and heartbeat."""

from __future__ import annotations

import threading
from collections import Counter

import pytest

from deploysteps import exceptions
from deploysteps.api import agents
from tests.support_api import Api, Recording, Refusing
from tests.support_sql import counting

URL = "http://192.0.2.1:9999"
TOKEN = "t" * 43


@pytest.fixture
def api(conf, sqlite, conductor, node):
    conductor._answers.update(lookup=(node, TOKEN))
    return Api(conf, sqlite, conductor)


def test_a_heartbeat_is_answered_202_without_a_body(api, conductor, node):
    body = {"callback_url": URL, "agent_token": TOKEN, "agent_version": "13.0.0"}
    answer = api.post(f"/v1/heartbeat/{node.uuid}", body, version=68)
    assert (answer.status, answer.text) == (202, "")
    assert conductor.calls == [("heartbeat", (node.uuid,), body)]


def test_a_heartbeat_may_name_the_node(api, conductor, node):
    assert api.post("/v1/heartbeat/n1", {"callback_url": URL}).status == 202
    assert conductor.calls[0][1] == ("n1",)


@pytest.mark.parametrize(
    "more",
    [
        {"agent_version": "99"},
        {"agent_verify_ca": "-----BEGIN CERTIFICATE-----\nx\n"},
        {"agent_status": "start", "agent_status_message": "m"},
        {"agent_status": "error"},
        {"agent_status": None, "agent_version": None},
        {"callback_url": ""},
        {"callback_url": "https://[2001:db8::1]:9999/"},
    ],
)
def test_what_a_heartbeat_may_have(api, more):
    """F83: an agent of any version."""
    assert api.post("/v1/heartbeat/n1", {"callback_url": URL, **more}).status == 202


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, "'callback_url' is a required property"),
        ({"callback_url": "nourl"}, "callback_url must be an http or https URL"),
        ({"callback_url": "file:///etc/passwd"}, "callback_url must be an http or https URL"),
        ({"callback_url": "ftp://h/"}, "callback_url must be an http or https URL"),
        ({"callback_url": "http://"}, "callback_url must be an http or https URL"),
        ({"callback_url": "http:///x"}, "callback_url must be an http or https URL"),
        ({"callback_url": "http://a b/"}, "callback_url must be an http or https URL"),
        ({"callback_url": "http://[::1"}, "callback_url"),
        ({"callback_url": "http://:80/"}, "callback_url"),
        ({"callback_url": "http://h:99999/"}, "callback_url"),
        ({"callback_url": None}, "callback_url must be of type string"),
        ({"callback_url": 5}, "callback_url must be of type string"),
        ({"callback_url": URL, "zzz": 1}, "('zzz' was unexpected)"),
        ({"callback_url": URL, "agent_status": "bogus"}, "one of start, end, error"),
        ({"callback_url": URL, "agent_token": 5}, "agent_token must be of type string"),
        ({"callback_url": URL, "agent_token": "x" * 129}, "agent_token must have at most 128"),
        ([], "the body must be of type object"),
    ],
)
def test_a_heartbeat_that_is_wrong_is_400_and_reaches_nobody(api, conductor, body, told):
    """F30: the scheme is checked; F83: a member that nobody knows is refused, as in the field."""
    answer = api.post("/v1/heartbeat/n1", body)
    assert answer.status == 400
    assert told in answer.fault
    assert conductor.calls == []


@pytest.mark.parametrize(
    ("name", "value", "first"),
    [
        ("agent_version", "1", 36),
        ("agent_verify_ca", "x", 68),
        ("agent_status", "start", 72),
        ("agent_status_message", "x", 72),
    ],
)
def test_a_member_newer_than_the_request_is_400(api, name, value, first):
    """F84."""
    for version in (first - 1, first, first + 1):
        answer = api.post("/v1/heartbeat/n1", {"callback_url": URL, name: value}, version=version)
        assert answer.status == (202 if version >= first else 400)
        if version < first:
            assert f'Field "{name}" not recognised' in answer.fault


def test_a_heartbeat_is_not_looked_up_before_the_conductor_does(api, sqlite, node):
    with counting(sqlite) as sent:
        assert api.post(f"/v1/heartbeat/{node.uuid}", {"callback_url": URL}).status == 202
    assert sent.statements == 0


def test_a_heartbeat_of_an_unknown_node_is_404_and_a_get_is_405(conf, sqlite, api, conductor):
    unknown = Api(conf, sqlite, Refusing(exceptions.NodeNotFound(node="nope")))
    assert unknown.post("/v1/heartbeat/nope", {"callback_url": URL}).status == 404
    assert api.post("/v1/heartbeat/no%20name", {"callback_url": URL}).status == 404
    assert conductor.calls == []
    answer = api.get("/v1/heartbeat/n1")
    assert (answer.status, answer.headers["allow"]) == (405, "POST, OPTIONS")


def test_a_heartbeat_that_was_not_recorded_is_409(conf, sqlite, node):
    """F21, F23: the sender must know."""
    api = Api(conf, sqlite, Refusing(exceptions.NodeLocked(node="n1", host="c1")))
    answer = api.post("/v1/heartbeat/n1", {"callback_url": URL})
    assert answer.status == 409
    assert "locked by host c1" in answer.fault


# --- lookup -------------------------------------------------------------------------------


def test_a_lookup_tells_node_settings_and_token(api, node):
    api.conf.set_override("ramdisk_heartbeat_timeout", 120, group="api")
    answer = api.get("/v1/lookup?addresses=52%3A54%3A00%3A00%3A00%3A01", version=62)
    assert answer.status == 200
    assert set(answer.body["node"]) == {
        "uuid", "properties", "instance_info", "driver_internal_info", "links",
    }  # fmt: skip
    config = answer.body["config"]
    assert config["agent_token"] == TOKEN
    assert config["heartbeat_timeout"] == 120
    assert config["agent_token_required"] is True
    assert set(config) == {
        "metrics", "metrics_statsd", "heartbeat_timeout", "agent_containers", "agent_token",
        "agent_token_required", "agent_md5_checksum_enable", "disable_deep_image_inspection",
        "permitted_image_formats", "agent_skip_bmc_detect", "enable_bios_bootloader_install",
        "tls_min_version", "tls_cipher_suites",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("query", "addresses", "uuid"),
    [
        ("addresses=52:54:00:AA:00:01,zz,52:54:00:00:00:02", 2, None),
        ("addresses=52:54:00:00:00:01&addresses=52:54:00:00:00:02", 2, None),
        ("node_uuid=c2ab0b1e-1f7b-4c1e-9d7a-1a53d7b3f60a", 0, "c2ab"),
        ("node_uuid=c2ab0b1e-1f7b-4c1e-9d7a-1a53d7b3f60a&addresses=52:54:00:00:00:01", 1, "c2ab"),
        ("node_uuid=&addresses=52:54:00:00:00:01", 1, None),
    ],
)
def test_malformed_addresses_are_ignored(api, conductor, query, addresses, uuid):
    assert api.get(f"/v1/lookup?{query}").status == 200
    _, (found, named), _ = conductor.calls[0]
    assert len(found) == addresses and all(a == a.lower() for a in found)
    assert (named or "")[:4] == (uuid or "")


@pytest.mark.parametrize("query", ["", "addresses=", "addresses=zz", "node_uuid=", "node_uuid=zz"])
def test_a_lookup_without_anything_to_look_for_is_400(api, conductor, query):
    assert api.get(f"/v1/lookup?{query}").status == 400
    assert conductor.calls == []


def test_a_lookup_of_a_locked_node_is_409(conf, sqlite):
    api = Api(conf, sqlite, Refusing(exceptions.NodeLocked(node="n1", host="c1")))
    assert api.get("/v1/lookup?addresses=52:54:00:00:00:01").status == 409


# --- agents leave room for operators ----------------------------------------------------------


class Slow(Recording):
    """A conductor in which heartbeats hang until they are let go."""

    def __init__(self):
        super().__init__()
        self.inside = threading.Semaphore(0)
        self.go = threading.Event()

    def heartbeat(self, *args, **kwargs):
        self.inside.release()
        assert self.go.wait(60)


def test_heartbeats_take_half_of_the_threads_and_the_rest_is_told_at_once(conf, sqlite, node):
    """F24, F20: operators find a thread; agents are told when to come back."""
    conf.set_override("threads", 4, group="api")
    slow = Slow()
    api = Api(conf, sqlite, slow)
    statuses = []

    def beat():
        statuses.append(api.post("/v1/heartbeat/n1", {"callback_url": URL}).status)

    threads = [threading.Thread(target=beat) for _ in range(2)]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert slow.inside.acquire(timeout=60)
    refused = api.post("/v1/heartbeat/n1", {"callback_url": URL})
    assert refused.status == 503
    assert 1 <= int(refused.headers["retry-after"]) <= 60
    assert api.put("/v1/nodes/n1/states/provision", {"target": "abort"}).status == 202
    slow.go.set()
    for thread in threads:
        thread.join()
    assert statuses == [202, 202]
    assert api.post("/v1/heartbeat/n1", {"callback_url": URL}).status == 202


def test_those_refused_together_are_told_to_return_apart(conf, sqlite, node):
    """F20: a thousand at once are spread over all the seconds that there are."""
    api = Api(conf, sqlite, Refusing(exceptions.NoFreeConductorWorker()))
    told = Counter()
    for _ in range(1000):
        answer = api.post("/v1/heartbeat/n1", {"callback_url": URL})
        assert answer.status == 503
        told[int(answer.headers["retry-after"])] += 1
    assert set(told) == set(range(min(told), max(told) + 1)) and len(told) >= 9
    assert max(told.values()) < 2 * 1000 / len(told)


def test_the_gate_opens_again_after_an_error():
    gate = agents.Gate(1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), gate():
            raise ZeroDivisionError
    with gate():
        pass
