"""``/v1/nodes/<id>/history``: what happened to a node, for people."""

import datetime

import pytest

from deploysteps.api import versions
from deploysteps.db import locks, nodes, transitions, types

FIELDS = {
    "uuid", "created_at", "severity", "event", "event_type", "conductor", "user", "links",
    "project", "state", "target_provision_state", "duration_seconds",
}  # fmt: skip


@pytest.fixture
def entries(sqlite, node):
    """A node with three entries in its history."""
    lock, held = locks.grant(sqlite, node.id, "me", "test")
    rows = [
        nodes.history_row(held, f"event {n}", event_type="deploy success", user="ann", project="p1")
        for n in range(3)
    ]
    locks.write(sqlite, lock, {}, [transitions.history(row) for row in rows], unlock=True)
    return node


@pytest.mark.parametrize(("version", "status"), [(77, 404), (78, 200), (79, 200)])
def test_a_history_is_there_from_1_78(api, entries, version, status):
    """F84."""
    assert api.get(f"/v1/nodes/{entries.uuid}/history", version=version).status == status
    assert api.get(f"/v1/nodes/{entries.uuid}/history/", version=version).status == status


def test_it_is_listed_newest_first_in_pages_and_shown_one_by_one(api, entries):
    path = f"/v1/nodes/{entries.uuid}/history"
    found = api.get(f"{path}?limit=2").body
    assert [entry["event"] for entry in found["history"]] == ["event 2", "event 1"]
    assert "event_type" not in found["history"][0]
    rest = api.get(f"{path}?detail=True&marker={found['history'][-1]['uuid']}").body
    assert [entry["event"] for entry in rest["history"]] == ["event 0"]
    assert set(rest["history"][0]) == FIELDS
    one = api.get(f"{path}/{rest['history'][0]['uuid']}").body
    assert one == rest["history"][0] and one["user"] == "ann"


@pytest.mark.parametrize("field", versions.HISTORY_FIELDS)
def test_a_field_is_there_from_its_version_on(api, entries, field):
    """F84: of an entry alone and in a list with details."""
    first = versions.HISTORY_FIELDS[field]
    path = f"/v1/nodes/{entries.uuid}/history"
    for version in (first, first + 1, *([first - 1] if first > versions.HISTORY else [])):
        if version > versions.MAX:
            continue
        listed = api.get(f"{path}?detail=True", version=version).body["history"][0]
        alone = api.get(f"{path}/{listed['uuid']}", version=version).body
        assert (field in listed, field in alone) == (version >= first,) * 2


def test_an_entry_tells_the_state_that_the_node_was_in(api, sqlite, node):
    """What was stored when it happened, not what the same write made of it; in whole seconds."""
    since = types.utcnow() - datetime.timedelta(seconds=90.5)
    nodes.set_unlocked(sqlite, node.id, {"provision_updated_at": since})
    lock, held = locks.grant(sqlite, node.id, "me", "test")
    held.provision_state, held.target_provision_state = "deploying", "active"
    row = nodes.history_row(held, "it begins", event_type="x", project="p" * 300)
    locks.write(sqlite, lock, held.changes(), [transitions.history(row)], unlock=True)
    entry = api.get(f"/v1/nodes/{node.uuid}/history?detail=True").body["history"][0]
    assert (entry["state"], entry["target_provision_state"]) == ("available", None)
    assert entry["duration_seconds"] == 90 and entry["project"] == "p" * 255


@pytest.mark.parametrize("more", ["/nope", "?marker=nope", "?limit=-1", "?what=1"])
def test_what_is_not_there_is_refused(api, entries, more):
    assert api.get(f"/v1/nodes/{entries.uuid}/history{more}").status in (400, 404)
