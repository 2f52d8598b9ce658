"""Nodes: what is accepted, what reaches the conductor, and what is shown."""

from __future__ import annotations

import json

import pytest

from deploysteps import exceptions
from deploysteps.api import versions
from deploysteps.db import conductors, locks, nodes, traits
from deploysteps.steps import FLOWS, INTERFACE_TYPES
from tests.support_api import Api, Recording, Refusing
from tests.support_sql import counting

MARK = "pLaNtEd-SeCrEt"


@pytest.fixture
def api(conf, sqlite, conductor, node):
    conductor._answers.update(create_node=node, update_node=node)
    return Api(conf, sqlite, conductor)


def patched(api, conductor, *operations, **more):
    """Return what a patch asks of the conductor."""
    conductor.calls.clear()
    answer = api.patch("/v1/nodes/n1", list(operations), **more)
    assert answer.status == 200, answer
    return {name: args[1:] for name, args, _ in conductor.calls}


def add(path, value):
    return {"op": "add", "path": path, "value": value}


# --- create ---------------------------------------------------------------------------


def test_a_new_node_is_answered_whole_with_its_place(api, conductor, node):
    body = {"driver": "fake-hardware", "name": "n2", "properties": {"cpus": 2}}
    answer = api.post("/v1/nodes", body)
    assert answer.status == 201
    assert answer.headers["location"].endswith(f"/v1/nodes/{node.uuid}")
    assert set(answer.body) == set(versions.NODE_FIELDS)
    assert conductor.calls[0][1] == ({**body, "provision_state": "enroll"},)


@pytest.mark.parametrize(
    ("body", "told"),
    [
        ({}, "'driver' is a required property"),
        ([], "the body must be of type object"),
        ("x", "the body must be of type object"),
        ({"driver": 5}, "driver must be of type string"),
        ({"driver": None}, "driver must be of type string"),
        ({"driver": ""}, "driver must not be empty"),
        ({"driver": "a\0b"}, "driver must be the name of a hardware type"),
        ({"driver": "x", "zzz": 1}, "('zzz' was unexpected)"),
        ({"driver": "x", "y": 1, "z": 1}, "('y', 'z' were unexpected)"),
        ({"driver": "x", "name": "bad name!"}, "name must be usable as a host name"),
        ({"driver": "x", "name": "a\n"}, "name must be usable as a host name"),
        ({"driver": "x", "name": ""}, "name must be usable as a host name"),
        ({"driver": "x", "name": "detail"}, "name must be usable as a host name"),
        ({"driver": "x", "name": "c2ab0b1e-1f7b-4c1e-9d7a-1a53d7b3f60a"}, "and not a UUID"),
        ({"driver": "x", "name": "x" * 256}, "name must have at most 255 characters"),
        ({"driver": "x", "uuid": "5"}, "uuid must be a UUID"),
        ({"driver": "x", "driver_info": []}, "driver_info must be of type object or null"),
        ({"driver": "x", "properties": "{}"}, "properties must be of type object or null"),
        ({"driver": "x", "protected": "maybe"}, "protected must be of type boolean or null"),
        ({"driver": "x", "protected": 1}, "protected must be of type boolean or null"),
        ({"driver": "x", "owner": "\ud800"}, "owner must be the id of a project"),
        ({"driver": "x", "resource_class": "x" * 81}, "resource_class must have at most 80"),
        ({"driver": "x", "provision_state": "active"}, "('provision_state' was unexpected)"),
        ({"driver": "x", "chassis_uuid": "c2"}, "chassis_uuid must be a UUID"),
    ],
)
def test_a_mistake_in_a_new_node_is_named_and_changes_nothing(api, conductor, body, told):
    """F15."""
    answer = api.post("/v1/nodes", body)
    assert answer.status == 400
    assert told in answer.fault
    assert conductor.calls == []


def test_a_wrong_value_is_not_told(api):
    """F76: the wrong value may be a secret."""
    answer = api.post("/v1/nodes", {"driver": "x", "driver_info": MARK, "protected": MARK})
    assert answer.status == 400
    assert MARK not in answer.text


@pytest.mark.parametrize(("text", "value"), [("True", True), ("false", False), ("1", True)])
def test_flags_may_be_texts(api, conductor, text, value):
    """Command-line clients send them so."""
    api.post("/v1/nodes", {"driver": "x", "retired": text})
    assert conductor.calls[0][1][0]["retired"] is value
    assert patched(api, conductor, add("/retired", text))["update_node"][0] == {"retired": value}


def test_null_means_the_default(api, conductor):
    api.post("/v1/nodes", {"driver": "x", "extra": None, "protected": None, "owner": None})
    values = conductor.calls[0][1][0]
    assert (values["extra"], values["protected"], values["owner"]) == ({}, False, None)


# --- patch ------------------------------------------------------------------------------


def test_a_patch_sends_only_what_it_touches(api, conductor, sqlite, node):
    nodes.set_unlocked(sqlite, node.id, {"extra": {"a": 1}, "driver_info": {"password": MARK}})
    asked = patched(api, conductor, add("/extra/b", 2), add("/driver_info/user", "u"))
    assert asked["update_node"] == (
        {"extra": {"a": 1, "b": 2}, "driver_info": {"password": MARK, "user": "u"}},
        False,
        {"extra": {"a": 1}, "driver_info": {"password": MARK}},
    )


@pytest.mark.parametrize(
    ("field", "empty"),
    [("extra", {}), ("description", None), ("protected", False), ("conductor_group", "")],
)
def test_removing_a_member_gives_its_default(api, conductor, field, empty):
    asked = patched(api, conductor, {"op": "remove", "path": f"/{field}"})
    assert asked["update_node"][0] == {field: empty}


def test_an_empty_patch_changes_nothing(api, conductor):
    assert patched(api, conductor) == {}


@pytest.mark.parametrize(
    "path",
    ["/uuid", "/provision_state", "/power_state", "/links", "/reservation", "/deploy_step",
     "/driver_internal_info/x", "/zzz", "/lock_token", "/id", "/maintenance_reason"],
)  # fmt: skip
def test_what_is_read_only_is_refused_and_what_is_not_is_listed(api, conductor, path):
    answer = api.patch("/v1/nodes/n1", [add(path, "x")])
    assert answer.status == 400
    assert "can not be changed" in answer.fault
    assert "/driver_info" in answer.fault
    assert conductor.calls == []


@pytest.mark.parametrize(
    "operations",
    [
        [add("/driver", 5)],
        [{"op": "remove", "path": "/driver"}],
        [add("/extra", [])],
        [add("/extra/a/b", 1)],
        [{"op": "remove", "path": "/extra/a"}],
        [{"op": "move", "path": "/extra", "from": "/driver"}],
        [add("/name", "no good")],
        [add("/chassis_uuid", "c2")],
        {"op": "add"},
        {},
    ],
)
def test_a_patch_that_is_wrong_changes_nothing(api, conductor, operations):
    answer = api.patch("/v1/nodes/n1", operations)
    assert answer.status == 400
    assert conductor.calls == []


def test_an_error_of_a_patch_tells_no_values(api, sqlite, node):
    """F76."""
    nodes.set_unlocked(sqlite, node.id, {"driver_info": {"password": MARK}})
    answer = api.patch("/v1/nodes/n1", [add("/driver_info/foo/bar", MARK)])
    assert answer.status == 400
    assert "/driver_info/foo/bar" in answer.fault
    assert MARK not in answer.text


def test_patches_cannot_nest_a_value_deeper_and_deeper(api, sqlite, node):
    """F14: each body is shallow, the sum of them is not."""
    deep, path = {}, "/extra"
    for _ in range(api.conf.api.max_json_depth - 1):
        deep, path = {"a": deep}, f"{path}/a"
    nodes.set_unlocked(sqlite, node.id, {"extra": deep})
    assert api.patch("/v1/nodes/n1", [add(f"{path}/b", 1)]).status == 200
    assert api.patch("/v1/nodes/n1", [add(f"{path}/b", {})]).status == 400


def test_maintenance_alone_in_a_patch_is_the_maintenance_verb(api, conductor):
    """With other fields it is one write, so that all is done or nothing."""
    asked = patched(api, conductor, add("/maintenance", "True"), add("/extra/a", 1))
    assert list(asked) == ["update_node"]
    assert asked["update_node"][0] == {"extra": {"a": 1}, "maintenance": True}
    assert list(patched(api, conductor, add("/maintenance", False))) == ["set_node_maintenance"]


@pytest.mark.parametrize(("version", "status"), [(44, 406), (45, 200), (115, 200)])
def test_reset_interfaces(api, conductor, version, status):
    path = "/v1/nodes/n1?reset_interfaces=True"
    assert api.patch(path, [add("/driver", "y")], version=version).status == status
    if status == 200:
        assert conductor.calls[-1][1][1:] == ({"driver": "y"}, True, {})


def test_reset_interfaces_goes_with_a_driver(api):
    answer = api.patch("/v1/nodes/n1?reset_interfaces=True", [add("/extra/a", 1)])
    assert answer.status == 400


# --- show ---------------------------------------------------------------------------------


def test_types_are_those_that_clients_decode(api, node):
    """Typed clients fail on a wrong type, and on ``{}`` no less than on null."""
    body = api.get("/v1/nodes/n1").body
    objects = ("driver_info", "driver_internal_info", "properties", "instance_info", "extra",
               "raid_config", "target_raid_config", "network_data")  # fmt: skip
    assert all(body[name] == {} for name in objects)
    assert [body[name] for name in ("deploy_step", "clean_step", "service_step")] == [None] * 3
    lists = ("traits", "links", "ports", "portgroups", "states", "volume")
    assert all(isinstance(body[name], list) for name in lists)
    flags = ("maintenance", "console_enabled", "protected", "retired", "disable_power_off")
    assert all(body[name] is False for name in flags)
    assert body["automated_clean"] is None and body["secure_boot"] is None
    assert body["conductor_group"] == ""
    assert body["created_at"].endswith("+00:00") and "." in body["created_at"]


def test_links_are_absolute_and_follow_the_public_endpoint(api, node):
    place = f"nodes/{node.uuid}"
    assert (
        api.get("/v1/nodes/n1").body["links"][0]["href"] == f"http://falconframework.org/v1/{place}"
    )
    api.conf.set_override("public_endpoint", "https://metal.example.org/", group="api")
    links = api.get("/v1/nodes/n1").body["links"]
    assert links == [
        {"href": f"https://metal.example.org/v1/{place}", "rel": "self"},
        {"href": f"https://metal.example.org/{place}", "rel": "bookmark"},
    ]


@pytest.mark.parametrize("flow", FLOWS.values(), ids=FLOWS)
def test_a_running_step_is_shown_without_its_secrets(api, sqlite, node, flow):
    """F77: masked for people, in every flow."""
    step = {
        "interface": "vendor",
        "step": "say",
        "priority": 1,
        "args": {"word": MARK, "text": "x"},
        "argsinfo": {"word": {"description": "d", "secret": True}},
    }
    values = {f"{flow.list_field}_column": [step], f"{flow.index_field}_column": 0}
    shown = flow.step_field in versions.NODE_FIELDS
    nodes.set_unlocked(sqlite, node.id, values | ({flow.step_field: step} if shown else {}))
    body = api.get("/v1/nodes/n1").body
    masked = {**step, "args": {"word": "******", "text": "x"}}
    assert body["driver_internal_info"] == {flow.list_field: [masked], flow.index_field: 0}
    if shown:
        assert body[flow.step_field] == masked
    assert MARK not in json.dumps(body)


def test_no_verb_tells_a_secret(conf, sqlite):
    """F78: a planted marker, all verbs."""
    secret = nodes.insert(
        sqlite,
        {
            "name": "s1",
            "driver": "fake-hardware",
            "provision_state": "wait call-back",
            "driver_info": {"ipmi_password": MARK, "redfish": {"address": f"http://u:{MARK}@h/"}},
            "instance_info": {"configdrive": MARK},
            "extra": {"secret_of_mine": MARK},
            "properties": {"x": {"api_key": MARK}},
            "network_data": {"token": MARK},
            "agent_token_column": MARK,
            "agent_url_column": f"http://h/?agent_token={MARK}",
            "driver_internal_column": {"some_password": MARK},
            "deploy_step": {"args": {"password": MARK}},
        },
    )
    api = Api(
        conf,
        sqlite,
        Recording(create_node=secret, update_node=secret, lookup=(secret, "the-token")),
    )
    answers = [
        api.get("/v1/nodes/s1"),
        api.get("/v1/nodes/detail"),
        api.get("/v1/nodes?fields=driver_info,instance_info,driver_internal_info,deploy_step"),
        api.patch("/v1/nodes/s1", []),
        api.patch("/v1/nodes/s1", [add("/extra/a", 1)]),
        api.post("/v1/nodes", {"driver": "fake-hardware"}),
        api.get("/v1/nodes/s1/states"),
        api.get("/v1/nodes/s1/runs"),
        api.get(f"/v1/lookup?node_uuid={secret.uuid}"),
    ]
    for answer in answers:
        assert answer.status in (200, 201)
        assert MARK not in answer.text
    info = answers[0].body["driver_internal_info"]
    assert info["agent_secret_token"] == "******"
    assert answers[0].body["driver_info"]["ipmi_password"] == "******"


def test_a_get_never_asks_a_conductor(conf, sqlite, node):
    """F61, F93: a GET takes no lock and builds no driver."""
    api = Api(conf, sqlite, Refusing(exceptions.NodeLocked(node="n1", host="h")))
    for path in ("", "/states", "/runs", "/ports"):
        assert api.get(f"/v1/nodes/n1{path}").status == 200
    assert api.get("/v1/nodes/detail").status == 200


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("fields=uuid", 200),
        ("fields=uuid,name,uuid", 200),
        ("fields=uuid&fields=name", 200),
        ("fields=zzz", 400),
        ("fields=", 400),
        ("fields=uuid,,name", 400),
        ("zzz=1", 400),
    ],
)
def test_fields_are_checked(api, query, status):
    assert api.get(f"/v1/nodes/n1?{query}").status == status
    assert api.get(f"/v1/nodes?{query}").status == status


@pytest.mark.parametrize(
    "ident",
    ["nope", "%00", "a%0Ab", "..", "%ff", "x" * 300, "c2ab0b1e-1f7b-4c1e-9d7a-1a53d7b3f60a"],
)
def test_an_unknown_node_is_not_found_by_any_verb(api, ident):
    for method, path, body in (
        ("GET", "", None),
        ("PATCH", "", []),
        ("DELETE", "", None),
        ("GET", "/states", None),
        ("GET", "/validate", None),
        ("GET", "/steps", None),
        ("GET", "/runs", None),
        ("GET", "/ports", None),
        ("PUT", "/maintenance", {}),
        ("PUT", "/states/power", {"target": "power on"}),
        ("PUT", "/states/provision", {"target": "active"}),
    ):
        answer = api(method, f"/v1/nodes/{ident}{path}", body)
        assert answer.status == 404, (method, path)


def test_a_uuid_is_found_in_capitals(api, node):
    assert api.get(f"/v1/nodes/{node.uuid.upper()}").status == 200


def test_delete_answers_without_a_body(api, conductor, node):
    answer = api.delete("/v1/nodes/n1")
    assert (answer.status, answer.text) == (204, "")
    assert conductor.calls == [("destroy_node", (node.uuid,), {})]


# --- lists ---------------------------------------------------------------------------------


@pytest.fixture
def many(sqlite):
    for number in range(7):
        nodes.insert(
            sqlite,
            {
                "name": f"m{number}",
                "driver": "fake-hardware" if number % 2 else "other",
                "provision_state": "active" if number < 5 else "enroll",
                "maintenance": number == 3,
                "fault": "power failure" if number == 3 else None,
                "shard": {1: "s1", 2: "s2"}.get(number),
                "resource_class": "gold" if number == 1 else None,
            },
        )


def names(answer):
    assert answer.status == 200, answer
    return [item["name"] for item in answer.body["nodes"]]


def test_pages_follow_next_to_the_end_with_their_filters(api, many):
    path, found, pages = "/v1/nodes/?limit=2&provision_state=active&sort_key=name", [], 0
    while path:
        answer = api.get(path)
        found += names(answer)
        pages += 1
        path = answer.body.get("next", "").removeprefix("http://falconframework.org")
        if path:
            assert "provision_state=active" in path and "limit=2" in path
    assert (found, pages) == (["m0", "m1", "m2", "m3", "m4"], 3)


def test_the_last_page_has_no_next_even_when_it_is_full(api, many):
    assert "next" not in api.get("/v1/nodes?limit=8").body
    assert "next" in api.get("/v1/nodes?limit=7").body


def test_a_list_is_cut_at_the_limit_of_the_server(api, many):
    api.conf.set_override("max_limit", 3, group="api")
    for query in ("", "?limit=100"):
        answer = api.get(f"/v1/nodes{query}")
        assert len(answer.body["nodes"]) == 3
        assert "limit=3" in answer.body["next"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("driver=other", ["m0", "m2", "m4", "m6"]),
        ("maintenance=true", ["m3"]),
        ("maintenance=False&driver=other", ["m0", "m2", "m4", "m6"]),
        ("resource_class=gold", ["m1"]),
        ("provision_state=enroll", ["m5", "m6"]),
        ("associated=True", []),
        ("instance_uuid=c2ab0b1e-1f7b-4c1e-9d7a-1a53d7b3f60a", []),
        ("shard=s1", ["m1"]),
        ("shard=s1,s2,s3", ["m1", "m2"]),
        ("shard=s1&shard=s2", ["m1", "m2"]),
        ("fault=power+failure", ["m3"]),
        ("fault=clean+failure", []),
        ("sort_key=name&sort_dir=desc&limit=1", ["n1"]),
        ("provision_state=active&sort_dir=desc&limit=2", ["m4", "m3"]),
    ],
)
def test_filters_and_order(api, many, query, expected):
    assert names(api.get(f"/v1/nodes?{query}")) == expected


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("limit=-1", 400),
        ("limit=0", 400),
        ("limit=x", 400),
        ("limit=1&limit=2", 400),
        ("limit=" + "9" * 30, 400),
        ("marker=c2ab0b1e-1f7b-4c1e-9d7a-1a53d7b3f60a", 404),
        ("marker=zzz", 404),
        ("marker=%00", 400),
        ("sort_key=zzz", 400),
        ("sort_key=driver_info", 400),
        ("sort_key=lock_token", 400),
        ("sort_key=conductor", 400),
        ("sort_dir=up", 400),
        ("provision_state=zzz", 400),
        ("fault=clean_failure", 400),
        ("chassis_uuid=zzz", 400),
        ("instance_uuid=zzz", 400),
        ("maintenance=maybe", 400),
        ("owner=%00", 400),
        ("detail=maybe", 400),
        ("detail=true&fields=uuid", 400),
        ("zzz=1", 400),
    ],
)
def test_a_mistake_in_a_query_is_4xx(api, query, status):
    """F15; a list with an unknown field was a 500 in the field."""
    assert api.get(f"/v1/nodes?{query}").status == status


@pytest.mark.parametrize("key", ["description", "last_error", "maintenance_reason"])
def test_lists_are_sorted_by_long_texts_too(api, sqlite, many, key):
    """The OpenAPI document offered these, and they were refused."""
    for name, text in (("m1", "b" * 300), ("m2", "a"), ("m4", "b" * 299)):
        nodes.set_unlocked(sqlite, nodes.get(sqlite, name).id, {key: text})
    found, path = [], f"/v1/nodes?sort_key={key}&limit=2"
    while path:
        answer = api.get(path)
        found += names(answer)
        path = answer.body.get("next", "").removeprefix("http://falconframework.org")
    assert found[:3] == ["m2", "m1", "m4"]
    assert sorted(found) == sorted(names(api.get("/v1/nodes")))


def test_the_sort_key_has_a_version_too(api):
    assert api.get("/v1/nodes?sort_key=owner", version=49).status == 406
    assert api.get("/v1/nodes?sort_key=owner", version=50).status == 200


@pytest.mark.parametrize("path", ["/v1/nodes", "/v1/nodes/detail", "/v1/nodes?fields=uuid,ports"])
def test_a_page_costs_the_same_queries_whatever_its_length(api, sqlite, path):
    """F86."""
    with counting(sqlite) as few:
        api.get(path)
    for number in range(30):
        item = nodes.insert(
            sqlite, {"driver": "x", "provision_state": "enroll", "name": f"q{number}"}
        )
        traits.replace(sqlite, item.id, ["CUSTOM_A", "CUSTOM_B"])
    with counting(sqlite) as many:
        assert len(api.get(path).body["nodes"]) == 31
    assert many.statements == few.statements <= 5


def test_the_conductor_in_charge_is_told_and_filtered_by(api, sqlite, node):
    """Of several that could, nodes fall to one each; a node that is worked on has its worker."""
    other = nodes.insert(sqlite, {"name": "o1", "driver": "other", "provision_state": "enroll"})
    offered = [
        [conductors.Offer(driver, kind, "fake", True) for kind in INTERFACE_TYPES]
        for driver in ("fake-hardware", "other")
    ]
    conductors.register(sqlite, "c1", "b1", offered[0])
    conductors.register(sqlite, "c2", "b2", [*offered[0], *offered[1]])
    conductors.register(sqlite, "c3", "b3", offered[1], "rack7")
    row = {"driver": "fake-hardware", "provision_state": "enroll"}
    for number in range(20):
        nodes.insert(sqlite, {**row, "name": f"q{number}"})
    listed = api.get("/v1/nodes?fields=name,conductor").body["nodes"]
    told = {item["name"]: item["conductor"] for item in listed}
    assert told["o1"] == "c2" == api.get(f"/v1/nodes/{other.uuid}").body["conductor"]
    assert set(told.values()) == {"c1", "c2"}
    assert told["n1"] == api.get("/v1/nodes/n1").body["conductor"]
    for host in ("c1", "c2"):
        mine = names(api.get(f"/v1/nodes?conductor={host}&fields=name"))
        assert sorted(mine) == sorted(name for name in told if told[name] == host)
    assert names(api.get("/v1/nodes?conductor=nobody")) == []
    nodes.insert(
        sqlite,
        {"name": "g1", "driver": "other", "provision_state": "x", "conductor_group": "RACK7"},
    )
    assert names(api.get("/v1/nodes?conductor=c3&fields=name")) == ["g1"]
    locks.grant(sqlite, other.id, "c9", "a test")
    assert names(api.get("/v1/nodes?conductor=c9&fields=name")) == ["o1"]
    conductors.leave(sqlite, "c1", "b1")
    conductors.leave(sqlite, "c2", "b2")
    assert api.get("/v1/nodes/n1").body["conductor"] is None
