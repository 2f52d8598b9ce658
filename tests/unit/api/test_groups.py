"""Chassis, portgroups, shards, children, and the events of network services."""

from __future__ import annotations

from uuid import uuid4

import pytest

from deploysteps.api import versions
from deploysteps.api.query import MOST_NAMES
from deploysteps.db import chassis, nodes, portgroups, ports
from tests.support_api import Api, Recording

UUID = "c2ab0b1e-1f7b-4c1e-9d7a-1a53d7b3f60a"


@pytest.fixture
def case(sqlite):
    return chassis.insert(sqlite, {"description": "rack 1"})


@pytest.fixture
def group(sqlite, node):
    values = {"node_id": node.id, "node_uuid": node.uuid, "mode": "802.3ad"}
    return portgroups.insert(sqlite, {"name": "pg1", "address": "52:54:00:00:00:aa", **values})


@pytest.fixture
def api(conf, sqlite, case, group):
    answers = {
        f"{verb}_{what}": item
        for what, item in (("chassis", case), ("portgroup", group))
        for verb in ("create", "update")
    }
    return Api(conf, sqlite, Recording(**answers))


PLACES = {"chassis": versions.CHASSIS_FIELDS, "portgroups": versions.PORTGROUP_FIELDS}
ONE = {"chassis": lambda case, group: case.uuid, "portgroups": lambda case, group: "pg1"}


@pytest.mark.parametrize(
    ("place", "field"), [(place, field) for place, table in PLACES.items() for field in table]
)
def test_a_field_is_there_from_its_version_on(api, case, group, place, field):
    """F84: at v-1, v and v+1, of one and of a list with details."""
    first = PLACES[place][field]
    for version in (first - 1, first, first + 1):
        if version < max(versions.ENDPOINTS[place], 1):
            continue
        there = version >= first
        path = f"/v1/{place}/{ONE[place](case, group)}"
        assert (field in api.get(path, version=version).body) == there
        listed = api.get(f"/v1/{place}/detail", version=version).body[place][0]
        assert (field in listed) == there


@pytest.mark.parametrize(
    ("path", "first"),
    [
        ("/v1/portgroups", 23),
        ("/v1/portgroups/detail", 23),
        ("/v1/portgroups/pg1", 23),
        ("/v1/portgroups/pg1/ports", 24),
        ("/v1/nodes/n1/portgroups", 24),
        ("/v1/nodes/n1/children", 83),
        ("/v1/shards", 82),
    ],
)
def test_a_path_is_there_from_its_version_on(api, node, path, first):
    """F84, and no 500 for children at older versions (api-surface 1.5)."""
    for version, status in ((first - 1, 404), (first, 200), (first + 1, 200)):
        assert api.get(path, version=version).status == status, version


def test_a_list_is_short_unless_details_are_asked_for(api, case):
    assert set(api.get("/v1/chassis").body["chassis"][0]) == {"uuid", "description", "links"}
    short = api.get("/v1/portgroups").body["portgroups"][0]
    assert set(short) == {"uuid", "address", "name", "links"}
    whole = api.get("/v1/portgroups?detail=True").body["portgroups"][0]
    assert set(whole) == set(versions.PORTGROUP_FIELDS)
    assert whole["standalone_ports_supported"] is True and whole["mode"] == "802.3ad"


def test_what_belongs_to_a_chassis_is_listed(api, sqlite, node, case):
    nodes.set_unlocked(sqlite, node.id, {"chassis_uuid": case.uuid})
    found = api.get(f"/v1/chassis/{case.uuid}/nodes").body["nodes"]
    assert [item["uuid"] for item in found] == [node.uuid]
    assert api.get(f"/v1/nodes?chassis_uuid={case.uuid}").body["nodes"] == found
    assert api.get(f"/v1/chassis/{UUID}/nodes").status == 404


def test_what_belongs_to_a_portgroup_is_listed(api, sqlite, node, group):
    values = {"node_id": node.id, "node_uuid": node.uuid}
    inside = ports.insert(
        sqlite, {"address": "52:54:00:00:00:01", "portgroup_uuid": group.uuid, **values}
    )
    ports.insert(sqlite, {"address": "52:54:00:00:00:02", **values})
    for path in ("/v1/portgroups/pg1/ports", "/v1/ports?portgroup=pg1"):
        assert [item["uuid"] for item in api.get(path).body["ports"]] == [inside.uuid]
    assert api.get("/v1/ports?portgroup=nope").status == 404
    assert api.get("/v1/ports?portgroup=pg1", version=23).status == 406
    for query in ("node=n1", "address=52:54:00:00:00:AA"):
        assert len(api.get(f"/v1/portgroups?{query}").body["portgroups"]) == 1
    assert len(api.get("/v1/nodes/n1/portgroups").body["portgroups"]) == 1
    assert api.get("/v1/portgroups?address=zz").status == 400
    assert api.get("/v1/portgroups?node=nope").status == 404


@pytest.mark.parametrize(
    ("path", "body", "verb", "args"),
    [
        ("/v1/chassis", {"description": "d"}, "create_chassis", ({"description": "d"},)),
        (
            "/v1/portgroups",
            {"node_uuid": "NODE", "address": "AA:BB:CC:DD:EE:FF"},
            "create_portgroup",
            ("NODE", {"address": "AA:BB:CC:DD:EE:FF"}),
        ),
    ],
)
def test_a_new_one_is_a_verb_of_the_conductor(api, node, path, body, verb, args):
    body = {k: node.uuid if v == "NODE" else v for k, v in body.items()}
    args = tuple(node.uuid if arg == "NODE" else arg for arg in args)
    answer = api.post(path, body)
    assert answer.status == 201
    assert answer.headers["location"].endswith(f"{path}/{answer.body['uuid']}")
    assert [call[:2] for call in api.client.calls] == [(verb, args)]


def test_they_are_changed_and_removed(api, case, group):
    patch = [{"op": "add", "path": "/extra/a", "value": 1}]
    assert api.patch(f"/v1/chassis/{case.uuid}", patch).status == 200
    assert api.patch("/v1/portgroups/pg1", patch).status == 200
    assert api.delete(f"/v1/chassis/{case.uuid}").status == 204
    assert api.delete("/v1/portgroups/pg1").status == 204
    assert [call[:2] for call in api.client.calls] == [
        ("update_chassis", (case.uuid, {"extra": {"a": 1}}, {"extra": {}})),
        ("update_portgroup", (group.uuid, {"extra": {"a": 1}}, {"extra": {}})),
        ("destroy_chassis", (case.uuid,)),
        ("destroy_portgroup", (group.uuid,)),
    ]


@pytest.mark.parametrize(
    ("method", "path", "body", "version", "status"),
    [
        ("POST", "/v1/chassis", {"description": "x" * 256}, 115, 400),
        ("POST", "/v1/chassis", {"name": "x"}, 115, 400),
        ("GET", "/v1/chassis/x", None, 115, 404),
        ("GET", f"/v1/chassis/{UUID}", None, 115, 404),
        ("GET", "/v1/chassis?sort_key=extra", None, 115, 400),
        ("POST", "/v1/portgroups", {}, 115, 400),
        ("POST", "/v1/portgroups", {"node_uuid": UUID}, 115, 400),
        ("POST", "/v1/portgroups", {"node_uuid": "NODE", "mode": "x"}, 25, 406),
        ("POST", "/v1/portgroups", {"node_uuid": "NODE", "mode": "x"}, 26, 201),
        ("POST", "/v1/portgroups", {"node_uuid": "NODE", "category": "x"}, 102, 406),
        ("POST", "/v1/portgroups", {"node_uuid": "NODE", "address": "x"}, 115, 400),
        ("POST", "/v1/portgroups", {"node_uuid": "NODE", "dynamic_portgroup": True}, 115, 400),
        ("PATCH", "/v1/portgroups/pg1", [{"op": "remove", "path": "/node_uuid"}], 115, 400),
        ("DELETE", "/v1/portgroups/nope", None, 115, 404),
        ("GET", "/v1/shards?x=1", None, 115, 400),
        ("GET", "/v1/nodes/nope/children", None, 115, 404),
    ],
)
def test_what_is_refused_and_what_is_not(api, node, method, path, body, version, status):
    """Promise 13."""
    if isinstance(body, dict) and body.get("node_uuid") == "NODE":
        body = {**body, "node_uuid": node.uuid}
    answer = api(method, path, body, version=version)
    assert answer.status == status, answer
    assert bool(api.client.calls) == (status == 201)


def test_shards_are_counted(api, sqlite, node):
    for shard in ("a", "b", "b", "b"):
        values = {"driver": "x", "provision_state": "enroll", "shard": shard}
        nodes.insert(sqlite, values)
    assert api.get("/v1/shards").body == {
        "shards": [
            {"name": "b", "count": 3},
            {"name": "None", "count": 1},
            {"name": "a", "count": 1},
        ]
    }


def test_children_are_listed(api, sqlite, node):
    child = nodes.insert(
        sqlite, {"driver": "x", "provision_state": "enroll", "parent_node": node.uuid}
    )
    shown = api.get("/v1/nodes/n1/children").body
    assert shown["children"] == [child.uuid]
    assert shown["links"]["href"].endswith(f"/v1/nodes/?parent_node={node.uuid}")
    assert api.get(f"/v1/nodes/{child.uuid}/children").body["children"] == []


@pytest.mark.parametrize("path", ["nodes", "nodes/detail"])
def test_children_are_in_no_list_that_does_not_ask_for_them(api, sqlite, node, path):
    """A part of a machine is none that could be given to somebody."""
    child = nodes.insert(
        sqlite, {"driver": "x", "provision_state": "enroll", "parent_node": node.uuid}
    )

    def listed(query):
        return [one["uuid"] for one in api.get(f"/v1/{path}{query}").body["nodes"]]

    assert listed("") == listed("?include_children=False") == [node.uuid]
    assert listed("?include_children=True") == [node.uuid, child.uuid]
    assert listed(f"?parent_node={node.uuid}") == [child.uuid]
    assert listed(f"?parent_node={node.uuid}&include_children=True") == [child.uuid]


def test_a_parent_is_named_by_uuid_or_name(conf, sqlite, node):
    conductor = Recording(create_node=node)
    api = Api(conf, sqlite, conductor)
    body = {"driver": "fake-hardware", "parent_node": "n1"}
    assert api.post("/v1/nodes", body).status == 201
    assert conductor.calls[-1][1][0]["parent_node"] == node.uuid
    for named in ("nobody", str(uuid4())):
        refused = api.post("/v1/nodes", {**body, "parent_node": named})
        assert refused.status == 400 and "there is no such node" in refused.fault


@pytest.mark.parametrize("kind", ["nodes", "ports", "portgroups"])
@pytest.mark.parametrize(
    ("query", "status", "told"),
    [
        ("shard=%00", 400, "has a character that is not allowed"),
        ("shard=a&shard=b%00", 400, "has a character that is not allowed"),
        (f"shard={',' * MOST_NAMES}", 400, f"lists {MOST_NAMES + 1}; {MOST_NAMES} are allowed"),
        (f"shard={',' * (MOST_NAMES - 1)}", 200, ""),
    ],
)
def test_a_list_argument_holds_what_a_database_takes(api, kind, query, status, told):
    """PostgreSQL takes no NUL, and 65,535 parameters."""
    answer = api.get(f"/v1/{kind}?{query}")
    assert answer.status == status and told in answer.text


def test_ports_and_portgroups_of_shards(api, sqlite):
    made = []
    for n, shard in enumerate(("a", "b", None)):
        values = {"driver": "x", "provision_state": "enroll", "shard": shard}
        one = nodes.insert(sqlite, values)
        of = {"node_id": one.id, "node_uuid": one.uuid}
        made.append(
            (
                ports.insert(sqlite, {**of, "address": f"52:54:00:00:0a:0{n}"}).uuid,
                portgroups.insert(sqlite, of).uuid,
            )
        )
    for place, kind in enumerate(("ports", "portgroups")):
        for query, wanted in (("a", made[:1]), ("a,b,c", made[:2]), ("none", [])):
            found = api.get(f"/v1/{kind}?shard={query}").body[kind]
            assert [one["uuid"] for one in found] == [one[place] for one in wanted]


EVENT = {
    "event": "network.bind_port",
    "port_id": UUID,
    "mac_address": "52:54:00:00:00:01",
    "status": "ACTIVE",
}


@pytest.mark.parametrize(
    ("events", "version", "status"),
    [
        ([EVENT], 54, 204),
        ([EVENT], 53, 404),
        (
            [{**EVENT, "device_id": UUID, "binding:host_id": "h", "binding:vnic_type": None}],
            115,
            204,
        ),
        ([], 115, 400),
        ([{**EVENT, "event": "network.paint_port"}], 115, 400),
        ([{**EVENT, "mac_address": "x"}], 115, 400),
        ([{**EVENT, "more": 1}], 115, 400),
        ([{"event": "network.bind_port"}], 115, 400),
    ],
)
def test_what_a_network_service_tells(api, events, version, status):
    assert api.post("/v1/events", {"events": events}, version=version).status == status
