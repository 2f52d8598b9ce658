"""``/v1/nodes/<id>/history``: what happened to a node, for people."""

import pytest

from deploysteps.db import locks, nodes, transitions

FIELDS = {
    "uuid", "created_at", "severity", "event", "event_type", "conductor", "user", "links",
}  # fmt: skip


@pytest.fixture
def entries(sqlite, node):
    """A node with three entries in its history."""
    lock, _ = locks.grant(sqlite, node.id, "me", "test")
    rows = [
        nodes.history_row(node.id, f"event {n}", event_type="deploy success", user="ann")
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


@pytest.mark.parametrize("more", ["/nope", "?marker=nope", "?limit=-1", "?what=1"])
def test_what_is_not_there_is_refused(api, entries, more):
    assert api.get(f"/v1/nodes/{entries.uuid}/history{more}").status in (400, 404)
