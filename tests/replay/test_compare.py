"""The comparison finds what it is there to find."""

from __future__ import annotations

import dataclasses
import json

import pytest

from tests.replay.compare import differences
from tests.replay.recordings import Exchange

NODE = {
    "name": "n",
    "provision_state": "active",
    "last_error": None,
    "deploy_step": {},
    "retired": False,
    "driver_info": {"password": "******", "a": 1},
    "traits": [],
    "links": [{"href": "h", "rel": "self"}],
}
HEADERS = {
    "location": "http://there/v1/nodes/n",
    "content-type": "application/json",
    "x-openstack-ironic-api-version": "1.99",
    "openstack-request-id": "req-",
}


@dataclasses.dataclass
class Came:
    """An answer of ours."""

    status: int
    headers: dict
    body: object


def told(answer=NODE, headers=HEADERS, status=200, recorded=NODE, recorded_status=200):
    exchange = Exchange(
        flow="f",
        n=1,
        label="l",
        method="GET",
        path="/v1/nodes/n",
        sent={},
        body=None,
        status=recorded_status,
        headers=HEADERS,
        answer=recorded,
    )
    return list(differences(exchange, Came(status, headers, answer)))


def without(mapping, name):
    return {key: value for key, value in mapping.items() if key != name}


def test_the_same_is_no_difference():
    assert told() == []


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"deploy_step": None}, "body.deploy_step: object -> null"),
        ({"retired": "False"}, "body.retired: boolean -> string"),
        ({"traits": None}, "body.traits: array -> null"),
        ({"traits": ["CUSTOM_A"]}, "body.traits: empty -> filled"),
        ({"links": [{"href": "h"}]}, "body.links.N.rel: missing"),
        ({"more": 1}, "body.more: added"),
        ({"provision_state": "error"}, "body.provision_state: 'active' -> 'error'"),
        ({"driver_info": {"password": "hunter2"}}, "body.driver_info.password: not masked"),
    ],
)
def test_another_shape(change, wanted):
    assert told({**NODE, **change}) == [wanted]


@pytest.mark.parametrize("change", [{"last_error": "text"}, {"driver_info": {"other": {}}}])
def test_other_values_are_no_difference(change):
    assert told({**NODE, **change}) == []


def test_a_missing_member():
    assert told(without(NODE, "traits")) == ["body.traits: missing"]


@pytest.mark.parametrize(
    ("headers", "wanted"),
    [
        (without(HEADERS, "location"), "header location: missing"),
        (HEADERS | {"location": "http://here/v1/nodes/m"}, "header location: "),
        (HEADERS | {"x-openstack-ironic-api-version": "1.98"}, "header x-openstack-ironic-api"),
        (HEADERS | {"x-openstack-ironic-api-maximum-version": "1"}, "header x-openstack-ironic"),
        (HEADERS | {"content-type": "text/html"}, "header content-type: "),
        (HEADERS | {"openstack-request-id": "7"}, "header openstack-request-id: "),
    ],
)
def test_other_headers(headers, wanted):
    (line,) = told(headers=headers)
    assert line.startswith(wanted)


def test_the_host_of_a_location_is_no_difference():
    assert told(headers=HEADERS | {"location": "http://here:1/v1/nodes/n"}) == []


def test_another_status():
    assert told(status=204) == ["status: 200 -> 204"]


def test_errors():
    def error(**inner):
        return {"error_message": json.dumps(inner)}

    client = error(faultcode="Client", faultstring="a", debuginfo=None)
    other = error(faultcode="Client", faultstring="b", debuginfo=None)
    both = {"status": 400, "recorded_status": 400, "recorded": client}
    assert told(other, **both) == []
    assert told({"error_message": {"faultcode": "Client"}}, **both) == ["body: another envelope"]
    assert told(error(code=400, title="t", description="d"), **both)


def test_what_a_refusal_names():
    def refused(verb, state):
        text = f'The requested action "{verb}" can not be performed while it is in state "{state}".'
        inner = {"faultcode": "Client", "faultstring": text, "debuginfo": None}
        return {"error_message": json.dumps(inner)}

    both = {"status": 400, "recorded_status": 400, "recorded": refused("active", "enroll")}
    assert told(refused("active", "enroll"), **both) == []
    assert told(refused("deploy", "enroll"), **both)
    assert told(refused("active", "error"), **both)
