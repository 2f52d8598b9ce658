"""What is stored when clients name things their own way, or change them at the same time."""

from __future__ import annotations

import json
import threading

import pytest

from deploysteps.db import ports
from tests import support
from tests.support_api import Api

UPPER = "AAAAAAAA-1111-4222-8333-BBBBBBBBBBBB"


def bodies_of(service):
    node = support.enrolled(service)
    return {
        "/v1/nodes": {"driver": "test-hardware"},
        "/v1/ports": {"node_uuid": node.uuid, "address": "52:54:00:aa:00:01"},
    }


@pytest.mark.parametrize("path", ["/v1/nodes", "/v1/ports"])
def test_a_uuid_in_capitals_is_the_same_uuid(api, service, path):
    """F15: what was stored as it came could not be found again, and was a 500."""
    made = api.post(path, {**bodies_of(service)[path], "uuid": UPPER})
    assert (made.status, made.body["uuid"]) == (201, UPPER.lower())
    assert made.headers["location"].endswith(f"{path}/{UPPER.lower()}")
    for uuid in (UPPER, UPPER.lower()):
        assert api.get(f"{path}/{uuid}").body["uuid"] == UPPER.lower()
    other = {**bodies_of(service)[path], "uuid": UPPER.lower()}
    if path == "/v1/ports":
        other["address"] = "52:54:00:aa:00:02"
    assert api.post(path, other).status == 409


@pytest.mark.parametrize("path", ["/v1/nodes", "/v1/ports"])
def test_a_uuid_that_is_null_is_made(api, service, path):
    """F15."""
    made = api.post(path, {**bodies_of(service)[path], "uuid": None})
    assert made.status == 201
    assert api.get(f"{path}/{made.body['uuid']}").status == 200


def test_of_two_changes_of_a_port_none_is_lost(conf, sqlite, start):
    """F33: both were made from the same value; the later one is refused, not applied."""
    service = start(sqlite)
    node = support.enrolled(service)
    port = ports.of_node(sqlite, node.id)[0]
    both = threading.Barrier(2)

    class Late:
        """A conductor that gets the changes when both clients have read the port."""

        def __getattr__(self, name):
            both.wait(60)
            return getattr(service.client, name)

    found = {}

    def change(key):
        patch = [{"op": "add", "path": f"/extra/{key}", "value": 1}]
        found[key] = Api(conf, sqlite, Late()).patch(f"/v1/ports/{port.uuid}", patch)

    threads = [threading.Thread(target=change, args=(key,)) for key in "ab"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(answer.status for answer in found.values()) == [200, 409]
    applied = {key: 1 for key, answer in found.items() if answer.status == 200}
    assert ports.get(sqlite, port.uuid).extra == applied
    refused = next(answer for answer in found.values() if answer.status == 409)
    assert "extra" in refused.fault and "read it again" in refused.fault


@pytest.mark.parametrize("count", [1_500_000, 4_000_000])
def test_what_is_larger_than_the_database_takes_is_refused_in_words(
    conf, database, start, kind, count
):
    """F59: MariaDB says so of a little more than a packet, and hangs up on much more."""
    service = start(database)
    node = support.enrolled(service)
    patch = [{"op": "add", "path": "/extra/x", "value": "\U0001f600" * count}]
    raw = json.dumps(patch, ensure_ascii=False).encode()
    api = Api(conf, database, service.client)
    answer = api("PATCH", f"/v1/nodes/{node.uuid}", raw=raw)
    assert answer.status == (413 if kind == "mysql" else 200)
    if answer.status == 413:
        assert "max_allowed_packet" in answer.fault
    assert api.patch(f"/v1/nodes/{node.uuid}", []).status == 200
