"""Ports."""

from __future__ import annotations

import pytest

from deploysteps import exceptions
from deploysteps.db import nodes, ports
from tests.support_api import Api, Recording, Refusing
from tests.support_sql import counting

MAC = "52:54:00:00:00:01"
OTHER = "c2ab0b1e-1f7b-4c1e-9d7a-1a53d7b3f60a"


@pytest.fixture
def api(conf, sqlite, conductor, port):
    conductor._answers.update(create_port=port, update_port=port)
    return Api(conf, sqlite, conductor)


def test_a_new_port_is_answered_with_its_place(api, conductor, node, port):
    answer = api.post("/v1/ports", {"address": "52:54:00:AA:00:01", "node_uuid": node.uuid})
    assert answer.status == 201
    assert answer.headers["location"].endswith(f"/v1/ports/{port.uuid}")
    assert conductor.calls == [("create_port", (node.uuid, {"address": "52:54:00:aa:00:01"}), {})]
    assert answer.body["extra"] == answer.body["local_link_connection"] == {}
    assert answer.body["pxe_enabled"] is True and answer.body["is_smartnic"] is False


@pytest.mark.parametrize(
    "change",
    [
        {"address": "zz:54"},
        {"address": MAC + "\n"},
        {"address": None},
        {"address": "52-54-00-00-00-01"},
        {"node_uuid": "n/1"},
        {"node_uuid": None},
        {"zzz": 1},
        {"extra": []},
        {"pxe_enabled": "maybe"},
        {"name": "no good"},
        {"portgroup_uuid": "x"},
        {"physical_network": "x" * 65},
        {"internal_info": {}},
    ],
)
def test_a_mistake_in_a_new_port_is_400(api, conductor, node, change):
    body = {"address": MAC, "node_uuid": node.uuid, **change}
    assert api.post("/v1/ports", body).status == 400
    assert conductor.calls == []


@pytest.mark.parametrize("missing", ["address", "node_uuid"])
def test_a_port_needs_an_address_and_a_node(api, node, missing):
    body = {"address": MAC, "node_uuid": node.uuid}
    del body[missing]
    assert f"'{missing}' is a required property" in api.post("/v1/ports", body).fault


def test_a_member_newer_than_the_request_is_406(api, node):
    body = {"address": MAC, "node_uuid": node.uuid, "category": "x"}
    assert api.post("/v1/ports", body, version=100).status == 406
    assert api.post("/v1/ports", body, version=101).status == 201


def test_an_unknown_node_in_a_body_is_400(conf, sqlite):
    api = Api(conf, sqlite, Refusing(exceptions.NodeNotFound(node=OTHER)))
    answer = api.post("/v1/ports", {"address": MAC, "node_uuid": OTHER})
    assert answer.status == 400
    assert OTHER in answer.fault


def test_a_taken_address_is_409(conf, sqlite, node):
    api = Api(conf, sqlite, Refusing(exceptions.MACAlreadyExists(mac=MAC)))
    answer = api.post("/v1/ports", {"address": MAC, "node_uuid": node.uuid})
    assert (answer.status, answer.fault) == (409, f"A port with MAC address {MAC} already exists.")


@pytest.mark.parametrize(
    ("query", "count"),
    [
        ("", 1),
        (f"?address={MAC}", 1),
        (f"?address={MAC.upper()}", 1),
        ("?address=52:54:00:00:00:99", 0),
        ("?node=n1", 1),
        ("?node_uuid={node}", 1),
        ("?node={other}", 0),
    ],
)
@pytest.mark.parametrize("path", ["/v1/ports", "/v1/ports/", "/v1/ports/detail"])
def test_lists_are_narrowed(api, sqlite, node, path, query, count):
    other = nodes.insert(sqlite, {"driver": "x", "provision_state": "enroll"})
    found = api.get(path + query.format(node=node.uuid, other=other.uuid))
    assert found.status == 200
    assert len(found.body["ports"]) == count


def test_the_ports_of_a_node_are_where_its_links_lead(api, sqlite, node, port):
    other = nodes.insert(sqlite, {"driver": "x", "provision_state": "enroll", "name": "o1"})
    href = api.get("/v1/nodes/n1").body["ports"][0]["href"]
    body = api.get(href.removeprefix("http://falconframework.org")).body
    assert [item["uuid"] for item in body["ports"]] == [port.uuid]
    assert api.get(f"/v1/nodes/{other.uuid}/ports").body == {"ports": []}
    assert api.get(f"/v1/nodes/n1/ports?address={MAC}&fields=uuid").status == 200
    assert api.get("/v1/nodes/n1/ports?node=n1").status == 400


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("address=zz", 400),
        ("node=nope", 404),
        (f"node_uuid={OTHER}", 404),
        (f"marker={OTHER}", 404),
        ("limit=-1", 400),
        ("sort_key=extra", 400),
        ("fields=zzz", 400),
        ("zzz=1", 400),
    ],
)
def test_a_mistake_in_a_query_is_4xx(api, query, status):
    assert api.get(f"/v1/ports?{query}").status == status


def test_pages(api, sqlite, node):
    for number in range(2, 6):
        address = f"52:54:00:00:00:0{number}"
        ports.insert(sqlite, {"node_id": node.id, "node_uuid": node.uuid, "address": address})
    path, found = "/v1/ports?limit=2&fields=address&node=n1", []
    while path:
        body = api.get(path).body
        found += [item["address"] for item in body["ports"]]
        path = body.get("next", "").removeprefix("http://falconframework.org")
    assert found == [f"52:54:00:00:00:0{number}" for number in range(1, 6)]


def test_a_page_costs_the_same_queries_whatever_its_length(api, sqlite, node):
    """F86."""
    with counting(sqlite) as few:
        api.get("/v1/ports/detail")
    for number in range(10, 40):
        address = f"52:54:00:00:00:{number}"
        ports.insert(sqlite, {"node_id": node.id, "node_uuid": node.uuid, "address": address})
    with counting(sqlite) as many:
        assert len(api.get("/v1/ports/detail").body["ports"]) == 31
    assert many.statements == few.statements


def test_show_patch_and_delete(api, conductor, port):
    path = f"/v1/ports/{port.uuid}"
    assert set(api.get(f"{path}?fields=address").body) == {"address", "links"}
    patch = [
        {"op": "add", "path": "/address", "value": "52:54:00:AA:00:09"},
        {"op": "add", "path": "/extra/a", "value": 1},
        {"op": "replace", "path": "/pxe_enabled", "value": "False"},
    ]
    assert api.patch(path, patch).status == 200
    assert api.patch(path, []).status == 200
    answer = api.delete(path)
    assert (answer.status, answer.text) == (204, "")
    assert conductor.calls == [
        (
            "update_port",
            (
                port.uuid,
                {"address": "52:54:00:aa:00:09", "extra": {"a": 1}, "pxe_enabled": False},
                {"extra": {}},  # what the new object was made from
            ),
            {},
        ),
        ("destroy_port", (port.uuid,), {}),
    ]


@pytest.mark.parametrize(
    "operation",
    [
        {"op": "add", "path": "/node_uuid", "value": OTHER},
        {"op": "add", "path": "/uuid", "value": OTHER},
        {"op": "add", "path": "/internal_info/a", "value": 1},
        {"op": "add", "path": "/address", "value": "zz"},
        {"op": "remove", "path": "/address"},
        {"op": "add", "path": "/portgroup_uuid", "value": "x"},
    ],
)
def test_a_patch_that_is_wrong_is_400(api, conductor, port, operation):
    assert api.patch(f"/v1/ports/{port.uuid}", [operation]).status == 400
    assert conductor.calls == []


@pytest.mark.parametrize(
    ("named", "version", "status"),
    [("n2", 93, 400), ("n2", 94, 200), ("uuid", 93, 200), ("n1", 93, 400)],
)
def test_the_node_that_a_port_is_given_to_has_a_name_from_1_94_on(
    api, sqlite, conductor, port, named, version, status
):
    """As that of a new port."""
    other = nodes.insert(sqlite, {"name": "n2", "driver": "x", "provision_state": "enroll"})
    value = other.uuid if named == "uuid" else named
    patch = [{"op": "replace", "path": "/node_uuid", "value": value}]
    assert api.patch(f"/v1/ports/{port.uuid}", patch, version=version).status == status
    if status == 200:
        assert conductor.calls[0][1][1] == {"node_uuid": other.uuid}
    body = {"address": MAC, "node_uuid": value}
    assert api.post("/v1/ports", body, version=version).status == (201 if status == 200 else 400)


@pytest.mark.parametrize("ident", [OTHER, "nope", "%00", MAC])
def test_an_unknown_port_is_404(conf, sqlite, ident):
    api = Api(conf, sqlite, Recording())
    for method in ("GET", "PATCH", "DELETE"):
        assert api(method, f"/v1/ports/{ident}", []).status == 404


def test_a_port_is_found_in_capitals(api, port):
    assert api.get(f"/v1/ports/{port.uuid.upper()}").status == 200


@pytest.mark.parametrize(("version", "status"), [(87, 404), (88, 200), (89, 200)])
def test_a_port_is_found_by_its_name_from_1_88_on(api, sqlite, port, version, status):
    ports.update(sqlite, port.uuid, {"name": "prt"})
    assert api.get("/v1/ports/prt", version=version).status == status
    assert api.get(f"/v1/ports/{port.uuid.upper()}", version=version).status == 200


def test_a_port_is_changed_and_deleted_by_its_name(api, conductor, sqlite, port):
    ports.update(sqlite, port.uuid, {"name": "prt"})
    assert api.patch("/v1/ports/prt", [{"op": "add", "path": "/extra", "value": {}}]).status == 200
    assert api("DELETE", "/v1/ports/prt").status == 204
    assert [call[1][0] for call in conductor.calls] == [port.uuid, port.uuid]
    for wrong in ("nobody", "no%20name", "1"):
        assert api.get(f"/v1/ports/{wrong}").status == 404
