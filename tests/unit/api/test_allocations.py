"""``/v1/allocations`` and ``/v1/nodes/<id>/allocation``."""

from __future__ import annotations

import pytest

from deploysteps.api import versions
from deploysteps.db import allocations, nodes
from tests.support_api import Api, Recording

FIELDS = set(versions.ALLOCATION_FIELDS)


@pytest.fixture
def one(sqlite):
    return allocations.insert(sqlite, {"name": "al1", "resource_class": "big", "owner": "p"})


@pytest.fixture
def taken(sqlite, node, one):
    values = {"resource_class": "big", "power_state": "power off"}
    nodes.set_unlocked(sqlite, node.id, values)
    one.owner = None
    assert allocations.take(sqlite, one, allocations.candidates(sqlite, one)[0])
    return one


@pytest.fixture
def api(conf, sqlite, one):
    return Api(conf, sqlite, Recording(create_allocation=one, update_allocation=one))


def body(api, **more):
    api.client.calls.clear()
    answer = api.post("/v1/allocations", {"resource_class": "big", **more})
    return answer, [call[1][0] for call in api.client.calls]


def test_it_is_there_from_1_52(api, node):
    """F84; as a server that is older would answer."""
    for path in ("/v1/allocations", "/v1/allocations/al1", f"/v1/nodes/{node.uuid}/allocation"):
        assert api.get(path, version=51).status == 404
        assert api.delete(path, version=51).status in (404, 405)
    assert api.post("/v1/allocations", {"resource_class": "x"}, version=51).status == 404
    assert api.get("/v1/allocations", version=52).status == 200
    assert "allocations" in api.get("/v1", version=52).body
    assert "allocations" not in api.get("/v1", version=51).body


@pytest.mark.parametrize("field", versions.ALLOCATION_FIELDS)
def test_a_field_is_there_from_its_version_on(api, field):
    """F84: at v-1, v and v+1, of one and of a list, and when it is asked for."""
    first = versions.ALLOCATION_FIELDS[field]
    for version in (first - 1, first, first + 1):
        if version < 52:
            continue
        there = version >= first
        assert (field in api.get("/v1/allocations/al1", version=version).body) == there
        listed = api.get("/v1/allocations", version=version).body["allocations"][0]
        assert (field in listed) == there
        asked = api.get(f"/v1/allocations?fields={field}", version=version)
        assert asked.status == (200 if there else 406)


def test_what_one_looks_like(api, node, taken):
    shown = api.get("/v1/allocations/al1").body
    assert set(shown) == FIELDS
    assert (shown["state"], shown["node_uuid"], shown["traits"]) == ("active", node.uuid, [])
    assert shown["candidate_nodes"] == [] and shown["extra"] == {} and shown["last_error"] is None
    assert api.get(f"/v1/nodes/{node.uuid}/allocation").body == shown
    assert api.get("/v1/nodes/n1/allocation?fields=name").body.keys() == {"name", "links"}
    assert api.get("/v1/nodes/n1").body["allocation_uuid"] == taken.uuid
    assert api.get("/v1/nodes/detail").body["nodes"][0]["allocation_uuid"] == taken.uuid
    assert "allocation_uuid" not in api.get("/v1/nodes/n1", version=51).body


def test_a_node_without_one(api, node):
    assert api.get("/v1/nodes/n1").body["allocation_uuid"] is None
    answer = api.get("/v1/nodes/n1/allocation")
    assert answer.status == 404 and "Allocation for node n1 was not found" in answer.fault
    assert api.delete("/v1/nodes/n1/allocation").status == 404
    assert api.get("/v1/nodes/nope/allocation").status == 404


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ("resource_class=big", 1),
        ("resource_class=small", 0),
        ("state=allocating", 1),
        ("state=active", 0),
        ("owner=p", 1),
        ("owner=q", 0),
        ("node=n1", 0),
        ("limit=1", 1),
        ("sort_key=name&sort_dir=desc", 1),
    ],
)
def test_a_list_is_narrowed(api, node, query, found):
    assert len(api.get(f"/v1/allocations?{query}").body["allocations"]) == found


def test_a_list_by_its_node(api, node, taken):
    assert len(api.get("/v1/allocations?node=n1").body["allocations"]) == 1


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("node=nope", 400),
        ("state=busy", 400),
        ("sort_key=extra", 400),
        ("fields=nope", 400),
        ("what=1", 400),
        ("marker=nope", 404),
    ],
)
def test_a_mistake_in_a_query_is_told(api, query, status):
    assert api.get(f"/v1/allocations?{query}").status == status


def test_the_owner_is_no_filter_before_1_60(api):
    assert api.get("/v1/allocations?owner=p", version=59).status == 406
    assert api.get("/v1/allocations?owner=p", version=60).status == 200


def test_what_is_asked_for_reaches_the_conductor(api, sqlite, node):
    answer, (values,) = body(
        api, name="x", traits=["CUSTOM_A", "CUSTOM_A"], candidate_nodes=["n1"], extra={"a": 1}
    )
    assert answer.status == 201 and answer.headers["location"].endswith(answer.body["uuid"])
    assert values == {
        "resource_class": "big",
        "name": "x",
        "traits": ["CUSTOM_A"],
        "candidate_nodes": [node.uuid],
        "extra": {"a": 1},
    }


def test_a_node_that_is_told_of_afterwards(api, sqlite, node):
    instance = "11111111-1111-1111-1111-111111111111"
    nodes.set_unlocked(sqlite, node.id, {"resource_class": "big", "instance_uuid": instance})
    api.client.calls.clear()
    assert api.post("/v1/allocations", {"node": "n1"}).status == 201
    ((values,),) = [call[1] for call in api.client.calls]
    assert values == {
        "node_uuid": node.uuid,
        "resource_class": "big",
        "uuid": instance,
        "traits": [],
        "candidate_nodes": [],
    }
    assert api.post("/v1/allocations", {"node": "n1"}, version=57).status == 400


@pytest.mark.parametrize(
    ("asked", "version", "status"),
    [
        ({"resource_class": None}, 115, 400),
        ({"owner": "p"}, 59, 406),
        ({"owner": "p"}, 60, 201),
        ({"traits": ["custom"]}, 115, 400),
        ({"traits": "CUSTOM_A"}, 115, 400),
        ({"candidate_nodes": ["nope"]}, 115, 400),
        ({"node": "nope"}, 115, 400),
        ({"name": "a b"}, 115, 400),
        ({"uuid": "x"}, 115, 400),
        ({"state": "active"}, 115, 400),
        ({"extra": []}, 115, 400),
    ],
)
def test_what_is_refused_and_what_is_not(api, asked, version, status):
    """Promise 13."""
    api.client.calls.clear()
    answer = api.post("/v1/allocations", {"resource_class": "big", **asked}, version=version)
    assert answer.status == status, answer
    assert bool(api.client.calls) == (status == 201)


def patched(api, *operations, **more):
    return api.patch("/v1/allocations/al1", list(operations), **more)


def test_its_name_and_extra_may_be_changed_from_1_57(api, one):
    change = {"op": "add", "path": "/name", "value": "b"}
    assert patched(api, change, version=56).status == 405
    assert patched(api, change, version=57).status == 200
    name, args, _ = api.client.calls[-1]
    assert (name, args[:2]) == ("update_allocation", (one.uuid, {"name": "b"}))
    for path in ("owner", "resource_class", "traits", "candidate_nodes", "state", "uuid", "node"):
        assert patched(api, {"op": "add", "path": f"/{path}", "value": "x"}).status == 400


def test_it_is_given_up(api, node, one, taken):
    assert api.delete("/v1/allocations/al1").status == 204
    assert api.delete("/v1/nodes/n1/allocation").status == 204
    assert [call[:2] for call in api.client.calls] == [("destroy_allocation", (one.uuid,))] * 2
    assert api.delete("/v1/allocations/nope").status == 404
