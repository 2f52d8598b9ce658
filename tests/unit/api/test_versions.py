"""The version table, against what the field's server was seen to do at every version."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from deploysteps import releases, states
from deploysteps.api import middleware, schemas, versions
from deploysteps.db import conductors, nodes, runbooks, templates
from tests.support_api import Api, Recording

SEEN = json.loads(
    (Path(__file__).parents[2] / "data" / "field-first-version.json").read_text("utf-8")
)


def first_seen(what: str) -> dict[str, int]:
    return dict(SEEN[what]["first_seen"])


NODE, ITEM, PORT = first_seen("node detail"), first_seen("node list item"), first_seen("port")
FILTERS = {
    name.removeprefix("list ?"): next(first for first, status in seen["status_changes"][-1:])
    for name, seen in SEEN.items()
    if name.startswith("list ?")
}
ARGUMENTS = {name: FILTERS.pop(name) for name in ("fields", "detail")}


def around(first: int) -> list[int]:
    return [v for v in (first - 1, first, first + 1) if versions.MIN <= v <= versions.MAX]


def test_the_node_table_is_the_fields():
    assert versions.NODE_FIELDS == NODE


def test_the_other_tables_are_the_fields():
    assert first_seen("node states") == versions.STATES_FIELDS
    assert versions.PORT_FIELDS == PORT
    assert first_seen("driver") == versions.DRIVER_FIELDS
    assert set(versions.DRIVER_ITEM) == set(first_seen("driver list item"))
    assert set(versions.NODE_ITEM) == set(ITEM)


def test_endpoints_came_when_the_field_had_them():
    root = first_seen("v1 root")
    assert all(root[name] == first for name, first in versions.ENDPOINTS.items())


def test_filters_came_when_the_field_had_them():
    assert ARGUMENTS == {"fields": versions.LIST_FIELDS, "detail": versions.LIST_DETAIL}
    assert {name: versions.NODE_FILTERS[name] for name in FILTERS} == FILTERS


@pytest.mark.parametrize("field", NODE)
def test_a_node_field_is_in_answers_from_its_version_on(api, node, field):
    """F84: at v-1, v and v+1, in what is answered and in what is asked for."""
    for version in around(NODE[field]):
        there = version >= NODE[field]
        path = f"/v1/nodes/{node.uuid}"
        assert (field in api.get(path, version=version).body) == there
        assert (field in api.get("/v1/nodes/detail", version=version).body["nodes"][0]) == there
        asked = api.get(f"{path}?fields={field}", version=version)
        if version < versions.LIST_FIELDS:
            assert asked.status == 406
        else:
            assert asked.status == (200 if there else 406)
            if there:
                assert set(asked.body) == {field, "links"}


@pytest.mark.parametrize("version", [1, 4, 5, 6, 115])
def test_a_list_item_is_short(api, node, version):
    expected = {name for name, first in ITEM.items() if first <= version}
    assert set(api.get("/v1/nodes", version=version).body["nodes"][0]) == expected


@pytest.mark.parametrize("field", PORT)
def test_a_port_field_is_in_answers_from_its_version_on(api, port, field):
    """F84, for ports."""
    for version in around(PORT[field]):
        there = version >= PORT[field]
        assert (field in api.get(f"/v1/ports/{port.uuid}", version=version).body) == there
        assert (field in api.get("/v1/ports/detail", version=version).body["ports"][0]) == there


@pytest.mark.parametrize("field", first_seen("node states"))
def test_a_field_of_the_states_is_in_answers_from_its_version_on(api, node, field):
    first = first_seen("node states")[field]
    for version in around(first):
        body = api.get(f"/v1/nodes/{node.uuid}/states", version=version).body
        assert (field in body) == (version >= first)


@pytest.mark.parametrize("field", first_seen("driver"))
def test_a_driver_field_is_in_answers_from_its_version_on(api, sqlite, field):
    offers = [
        conductors.Offer("fake-hardware", kind, "fake", True) for kind in versions.DRIVER_INTERFACES
    ]
    conductors.register(sqlite, "c1", "b1", offers)
    first = first_seen("driver")[field]
    for version in around(first):
        body = api.get("/v1/drivers/fake-hardware", version=version).body
        assert (field in body) == (version >= first)


@pytest.mark.parametrize("name", FILTERS)
def test_a_filter_is_taken_from_its_version_on(api, name):
    named = {"provision_state": "available", "retired": "false", "fault": "power failure"}
    value = named.get(name, "x")
    for version in around(versions.NODE_FILTERS[name]):
        status = api.get(f"/v1/nodes?{name}={value}", version=version).status
        assert status == (200 if version >= versions.NODE_FILTERS[name] else 406)


@pytest.mark.parametrize(
    ("query", "first"),
    [
        ("nodes?include_children=True", 83),
        ("nodes?parent_node=x", 83),
        ("ports?shard=x", 82),
        ("portgroups?shard=x", 106),
    ],
)
def test_filters_that_were_not_recorded(api, query, first):
    """As the field documents them."""
    for version in around(first):
        status = api.get(f"/v1/{query}", version=version).status
        assert status == (200 if version >= first else 406)


@pytest.mark.parametrize(("version", "status"), [(42, 400), (43, 200)])
def test_detail_is_an_unknown_argument_before_its_version(api, version, status):
    answer = api.get("/v1/nodes?detail=True", version=version)
    assert answer.status == status
    if status == 400:
        assert answer.fault == "Unexpected arguments: detail"


@pytest.mark.parametrize("path", ["/v1/lookup?node_uuid=x", "/v1/heartbeat/x", "/v1/conductors"])
def test_an_endpoint_newer_than_the_request_is_not_found(api, path):
    first = versions.ENDPOINTS[path.split("/")[2].split("?")[0]]
    method = "POST" if "heartbeat" in path else "GET"
    assert api(method, path, version=first - 1).status == 404
    if "conductors" in path:
        assert api(method, path, version=first).status == 200


ORDERED = [{"interface": "bios", "step": "x"}]
NEEDED = {
    "clean": {"clean_steps": ORDERED},
    "service": {"service_steps": ORDERED},
    "rescue": {"rescue_password": "let me in"},
}
"""What a target cannot do without."""


@pytest.mark.parametrize(("target", "first"), versions.TARGETS.items())
def test_a_target_is_taken_from_its_version_on(api, node, conductor, target, first):
    """F84, for verbs."""
    for version in around(first):
        conductor.calls.clear()
        body = {"target": target, **NEEDED.get(target, {})}
        answer = api.put(f"/v1/nodes/{node.uuid}/states/provision", body, version=version)
        if version < first:
            assert answer.status == 406
        else:
            assert (answer.status, len(conductor.calls)) == (202, 1)
        if answer.status != 202:
            assert conductor.calls == []


@pytest.mark.parametrize(("target", "first"), versions.POWER_TARGETS.items())
def test_a_power_target_is_taken_from_its_version_on(api, node, conductor, target, first):
    for version in around(first):
        path = f"/v1/nodes/{node.uuid}/states/power"
        status = api.put(path, {"target": target}, version=version).status
        assert status == (202 if version >= first else 406)


def sample(schema: dict[str, object]) -> object:
    """Return a value that a member of a body may have."""
    if "object" in schema["type"]:
        return {}
    if "boolean" in schema["type"]:
        return True
    return "c2ab0b1e-1f7b-4c1e-9d7a-1a53d7b3f60a" if schema is schemas.UUID else "x"


WRITABLE = [
    name
    for name, member in schemas.NODE["properties"].items()
    if not member.get("readOnly") and name != "chassis_uuid"
]


@pytest.mark.parametrize("field", WRITABLE)
def test_a_member_of_a_request_is_taken_from_its_version_on(conf, sqlite, node, field):
    """F84, on request: 406 below, for a new node and in a patch."""
    api = Api(conf, sqlite, Recording(create_node=node, update_node=node))
    value = "n1" if field == "parent_node" else sample(schemas.NODE["properties"][field])
    for version in around(NODE[field]):
        answer = api.post("/v1/nodes", {"driver": "fake-hardware", field: value}, version=version)
        assert answer.status == (201 if version >= NODE[field] else 406)
        patch = [{"op": "add", "path": f"/{field}", "value": value}]
        answer = api.patch(f"/v1/nodes/{node.uuid}", patch, version=version)
        assert answer.status == (200 if version >= NODE[field] else 406)


def test_names_are_no_nodes_before_1_5(api, node):
    assert api.get("/v1/nodes/n1", version=4).status == 404
    assert api.get("/v1/nodes/n1", version=5).status == 200


@pytest.mark.parametrize(("version", "shown"), [(1, None), (2, "available")])
def test_available_was_null_in_1_1(api, node, version, shown):
    assert api.get("/v1/nodes", version=version).body["nodes"][0]["provision_state"] == shown
    path = f"/v1/nodes/{node.uuid}/states"
    assert api.get(path, version=version).body["provision_state"] == shown


@pytest.mark.parametrize(
    ("version", "state"), [(1, "available"), (10, "available"), (11, "enroll")]
)
def test_a_new_node_is_enroll_from_1_11_on(conf, sqlite, node, version, state):
    conductor = Recording(create_node=node)
    Api(conf, sqlite, conductor).post("/v1/nodes", {"driver": "fake-hardware"}, version=version)
    ((_, (values,), _),) = conductor.calls
    assert values["provision_state"] == state


@pytest.mark.parametrize("state", sorted(versions.ABORT_FROM))
def test_abort_came_late_to_some_states(api, sqlite, node, state):
    nodes.set_unlocked(sqlite, node.id, {"provision_state": state})
    path = f"/v1/nodes/{node.uuid}/states/provision"
    for version in around(versions.ABORT_FROM[state]):
        status = 202 if version >= versions.ABORT_FROM[state] else 406
        assert api.put(path, {"target": "abort"}, version=version).status == status


def test_deploy_entries_of_driver_internal_info_are_shown_at_every_version(api, sqlite, node):
    nodes.set_unlocked(
        sqlite, node.id, {"deploy_steps_column": [{"step": "a"}], "deploy_step_index_column": 0}
    )
    for version in (3, 43, 44, 115):
        info = api.get(f"/v1/nodes/{node.uuid}", version=version).body["driver_internal_info"]
        assert info["deploy_steps"] == [{"step": "a"}]
        assert info["deploy_step_index"] == 0


MEMBERS = [
    pytest.param(member, target, first, id=f"{member}-{target}")
    for member, targets in versions.PROVISION_MEMBERS.items()
    for target, first in targets.items()
    if target in states.VERBS and member != "configdrive"
]
VALUES = {
    "deploy_steps": [{"interface": "bios", "step": "x", "args": {}, "priority": 1}],
    "clean_steps": ORDERED,
    "service_steps": ORDERED,
    "runbook": "CUSTOM_R",
    "rescue_password": "let me in",
    "disable_ramdisk": True,
    "resume": True,
    "resume_after": True,
}


@pytest.mark.parametrize(("member", "target", "first"), MEMBERS)
def test_a_member_of_a_provision_request_is_taken_from_its_version_on(
    api, sqlite, node, member, target, first
):
    """F84: at v-1, v and v+1; a value that says nothing is taken at every version."""
    runbooks.insert(sqlite, {"name": "CUSTOM_R", "steps": []})
    path, known = f"/v1/nodes/{node.uuid}/states/provision", versions.TARGETS[target]
    needed = NEEDED.get(target, {}) if member == "disable_ramdisk" else {}
    for version in around(first):
        body = {"target": target, **needed, member: VALUES[member]}
        answer = api.put(path, body, version=version)
        assert answer.status == (202 if version >= max(first, known) else 406), answer
        empty = {"target": target, **NEEDED.get(target, {}), member: None}
        if member not in NEEDED.get(target, {}):
            status = api.put(path, empty, version=version).status
            assert status == (202 if version >= known else 406)


SAVED = {
    "deploy_templates": versions.DEPLOY_TEMPLATE_FIELDS,
    "runbooks": versions.RUNBOOK_FIELDS,
}


@pytest.mark.parametrize(
    ("place", "field"), [(place, field) for place, fields in SAVED.items() for field in fields]
)
def test_a_field_of_templates_and_runbooks_is_there_from_its_version_on(conf, sqlite, place, field):
    """F84."""
    kind = {"deploy_templates": templates, "runbooks": runbooks}[place]
    kind.insert(sqlite, {"name": "CUSTOM_A", "steps": []})
    api = Api(conf, sqlite, Recording(get_secret_arguments={}))
    for version in around(SAVED[place][field]):
        there = version >= SAVED[place][field]
        shown = api.get(f"/v1/{place}/CUSTOM_A", version=version)
        listed = api.get(f"/v1/{place}?detail=True", version=version)
        asked = api.get(f"/v1/{place}/CUSTOM_A?fields={field}", version=version)
        if version < versions.ENDPOINTS[place]:
            assert (shown.status, listed.status, asked.status) == (404, 404, 404)
            continue
        assert (field in shown.body) == (field in listed.body[place][0]) == there
        assert asked.status == (200 if there else 406)
        if there:
            assert set(asked.body) == {field, "links"}


@pytest.mark.parametrize("method", ["GET", "POST", "PATCH", "DELETE"])
@pytest.mark.parametrize("place", SAVED)
def test_templates_and_runbooks_are_not_found_before_their_version(api, method, place):
    first = versions.ENDPOINTS[place]
    path = f"/v1/{place}" if method in ("GET", "POST") else f"/v1/{place}/CUSTOM_A"
    assert api(method, path, [], version=first - 1).status == 404
    assert api(method, path, [], version=first).status in (200, 400, 404)


@pytest.mark.parametrize(("version", "status"), [(36, 406), (37, 200), (38, 200)])
def test_traits_are_not_acceptable_before_their_version(api, node, version, status):
    """F84; the field says 406 here, and not 404."""
    path = f"/v1/nodes/{node.uuid}/traits"
    done = 204 if status == 200 else status
    assert api.get(path, version=version).status == status
    assert api.put(path, {"traits": []}, version=version).status == done
    assert api.delete(path, version=version).status == done
    assert api.put(f"{path}/CUSTOM_A", version=version).status == done
    assert api.delete(f"{path}/CUSTOM_A", version=version).status == done


# --- a process that is pinned to an older release --------------------------------------------


@pytest.mark.parametrize(("pin", "release"), [*releases.RELEASES.items(), (None, None)])
def test_the_newest_version_is_that_of_the_pin(conf, sqlite, node, pin, release):
    newest = versions.MAX if release is None else release.api
    conf.set_override("pin_release_version", pin)
    api = Api(conf, sqlite, Recording())
    for path, of in (("/", lambda b: b["default_version"]), ("/v1", lambda b: b["version"])):
        assert of(api.get(path, version=None).body)["version"] == f"1.{newest}"
    latest = api.get("/v1/nodes/n1", version=None, headers={middleware.HEADER: "latest"})
    assert latest.headers[middleware.HEADER.lower()] == f"1.{newest}"
    assert latest.headers[middleware.MAX_HEADER.lower()] == f"1.{newest}"
    assert ("deploy_step" in latest.body) == (newest >= 44)
    assert api.get("/v1/nodes/n1", version=newest).status == 200
    refused = api.get("/v1/nodes/n1", version=newest + 1)
    assert refused.status == 406
    assert refused.headers[middleware.MAX_HEADER.lower()] == f"1.{newest}"
    assert f"[1.1, 1.{newest}]" in refused.text


def test_the_oldest_release_is_one_that_does_not_know_deploy_steps(conf, sqlite, node):
    """The specification: pinned below, nobody sees ``deploy_step`` or sends steps."""
    conf.set_override("pin_release_version", next(iter(releases.RELEASES)))
    api = Api(conf, sqlite, Recording())
    body = api.get("/v1/nodes/n1", version=43).body
    assert "deploy_step" not in body and "traits" in body
    assert api.get("/v1/nodes/n1?fields=deploy_step", version=43).status == 406
    asked = {"target": "active", "deploy_steps": VALUES["deploy_steps"]}
    assert api.put("/v1/nodes/n1/states/provision", asked, version=43).status == 406
    assert api.get("/v1/deploy_templates", version=43).status == 404
