"""Access control and the masking of secrets, where one thing meets another."""

from __future__ import annotations

import json
import time
from uuid import uuid4

import pytest
import sqlalchemy as sa
from falcon import testing

from deploysteps import exceptions, secrets
from deploysteps.api import bodies, patch, schemas
from deploysteps.api.app import create_app
from deploysteps.api.masks import MISSING, Masks
from deploysteps.db import allocations, chassis, nodes, portgroups, ports, runbooks, templates
from deploysteps.db.models import StepAttempt, StepRun
from deploysteps.db.types import utcnow
from tests.support_access import LESSEE, OWNER, keystone, token
from tests.support_api import Answer, Api, Recording
from tests.support_sql import counting

MASK = "******"


@pytest.fixture
def policy(conf, tmp_path):
    """Write the policy file."""

    def written(**rules):
        path = tmp_path / "policy.yaml"
        path.write_text(json.dumps(rules))
        conf.set_override("policy_file", str(path), group="oslo_policy")

    return written


@pytest.fixture
def door(conf, sqlite, conductor):
    """Return what asks as somebody, of the rules that are in force then."""

    def asked(method, path, who, body=None, version="latest"):
        client = testing.TestClient(create_app(conf, sqlite, conductor, keystone(conf)))
        path, _, query = path.partition("?")
        sent = {"X-OpenStack-Ironic-API-Version": version, **token(*who.split(":"))}
        data = None if body is None else json.dumps(body)
        return Answer(
            client.simulate_request(method, path, query_string=query, body=data, headers=sent)
        )

    return asked


# --- what is kept back ----------------------------------------------------------------


def test_what_is_kept_back_is_kept_back_from_who_may_see_secrets(door, policy, sqlite, conductor):
    """F78: ``show_password`` opened what ``baremetal:node:get:driver_info`` keeps back."""
    policy(show_password="role:admin")
    held = {"ipmi_password": "hunter22", "address": "10.0.0.1"}
    made = {"name": "n1", "driver": "fake-hardware", "provision_state": "available"}
    node = nodes.insert(sqlite, {**made, "owner": OWNER, "lessee": LESSEE, "driver_info": held})
    conductor._answers["update_node"] = nodes.get(sqlite, node.id)
    patch = [{"op": "add", "path": "/extra/x", "value": 1}]
    seen = {
        who: [
            door("GET", "/v1/nodes/n1", who).body["driver_info"],
            door("GET", "/v1/nodes/n1?fields=driver_info", who).body["driver_info"],
            door("GET", "/v1/nodes/detail", who).body["nodes"][0]["driver_info"],
            door("GET", "/v1/nodes?fields=driver_info", who).body["nodes"][0]["driver_info"],
            door("PATCH", "/v1/nodes/n1", who, patch).body["driver_info"],
        ]
        for who in ("lessee:admin", "owner:admin", "owner:member")
    }
    assert seen["owner:admin"] == [held] * 5
    assert seen["owner:member"] == [{**held, "ipmi_password": MASK}] * 5
    for shown in seen["lessee:admin"]:
        assert list(shown) == ["content"] and "Redacted" in shown["content"]


# --- masks that come back -------------------------------------------------------------


def filled(new, stored, *path, hidden=None):
    """Return what is stored when a member is replaced by a whole new value."""
    masks = Masks(lambda: hidden or {})
    return masks.filled(new, stored, path or ("extra",), {})


STORED = {
    "ipmi_password": "p4ss",
    "ipmi_address": "10.0.0.1",
    "image": "https://u:p4ss@host/x",
    "log": "http://host/x?a=1&token=abc",
    "users": [{"name": "a", "password": "A"}, {"name": "b", "password": "B"}],
    "auth_token": {"deep": {"er": ["t1"]}},
    "note": MASK,
}
SHOWN = {
    "ipmi_password": MASK,
    "ipmi_address": "10.0.0.1",
    "image": f"https://{MASK}@host/x",
    "log": f"http://host/x?a=1&token={MASK}",
    "users": [{"name": "a", "password": MASK}, {"name": "b", "password": MASK}],
    "auth_token": MASK,
    "note": MASK,
}


def test_what_was_shown_comes_back_as_what_is_stored():
    assert filled(SHOWN, STORED) == STORED
    assert filled({**SHOWN, "ipmi_address": "x"}, STORED) == {**STORED, "ipmi_address": "x"}
    assert filled({**SHOWN, "ipmi_password": "n"}, STORED) == {**STORED, "ipmi_password": "n"}
    users = SHOWN["users"]
    for some in (users[1:], users[::-1], [users[1], {"name": "c", "password": "C"}]):
        names = {"a": "A", "b": "B", "c": "C"}
        expected = [{**one, "password": names[one["name"]]} for one in some]
        assert filled(some, STORED["users"], "extra", "users") == expected


@pytest.mark.parametrize(
    ("new", "stored", "named"),
    [
        ({"password": MASK}, {}, "/extra/password"),
        ({"password": MASK}, MISSING, "/extra/password"),
        ({"password": MASK}, {"password": None}, "/extra/password"),
        ({"password": MASK}, {"password": MASK}, "/extra/password"),
        ({"a": {"password": MASK}}, {"a": 5}, "/extra/a/password"),
        ({"token": {"x": [MASK]}}, {"token": "t"}, "/extra/token/x/0"),
        ({"u": f"http://{MASK}@other/"}, {"u": "http://u:p@host/"}, "/extra/u"),
        ({"u": f"http://h/?sig={MASK}"}, {}, "/extra/u"),
        ([{"n": 1, "password": MASK}], [{"n": 2, "password": "x"}], "/extra/0/password"),
        # Of two that are shown alike one is gone: nobody knows whose secret is meant.
        ([{"password": MASK}], [{"password": "x"}, {"password": "y"}], "/extra/0/password"),
    ],
)
def test_a_mask_that_stands_for_nothing_is_refused_by_its_place(new, stored, named):
    with pytest.raises(exceptions.Invalid, match="give the value itself") as caught:
        filled(new, stored)
    assert caught.value.message.startswith(f"{named} ")


SETTINGS = {"settings": [{"name": "admin_password", "value": "p"}, {"name": "Boot", "value": "U"}]}
SETTINGS_SHOWN = {"settings": [{"name": "admin_password", "value": MASK}, SETTINGS["settings"][1]]}


def test_the_value_of_a_setting_is_secret_by_the_name_beside_it(things):
    """The field's form for settings of a BIOS."""
    assert secrets.masked(SETTINGS) == SETTINGS_SHOWN
    assert filled(SETTINGS_SHOWN, SETTINGS) == SETTINGS
    api, _ = things
    steps = [{"interface": "bios", "step": "apply_configuration", "args": SETTINGS, "order": 1}]
    book = runbooks.insert(api.database, {"name": "CUSTOM_B", "steps": steps, "extra": SETTINGS})
    path, members = f"/v1/runbooks/{book.uuid}", api.get(f"/v1/runbooks/{book.uuid}").body
    assert members["extra"] == members["steps"][0]["args"] == SETTINGS_SHOWN
    api.client._answers["update_runbook"] = book
    for member, place in (("extra", "/extra"), ("steps", "/steps/0/args")):
        body = [{"op": "add", "path": f"/{member}", "value": members[member]}]
        assert api.patch(path, body).status == 200
        assert api.client.calls[-1][1][1] == {member: getattr(book, member)}
        value = [{"op": "replace", "path": f"{place}/settings/0/value", "value": MASK}]
        assert api.patch(path, value).status == 200
        assert api.client.calls[-1][1][1] == {member: getattr(book, member)}
        for op in ({"op": "replace", "value": "Boot"}, {"op": "remove"}):
            answer = api.patch(path, [{**op, "path": f"{place}/settings/0/name"}])
            assert answer.status == 400 and f"{place}/settings/0 as a whole" in answer.fault
        other = [{"op": "replace", "path": f"{place}/settings/1/name", "value": "Mode"}]
        assert api.patch(path, other).status == 200
        for name in ("v", "user_password"):
            renamed = {"name": name, "value": MASK}
            for where, value in (("/settings/0", renamed), ("/settings", [renamed])):
                answer = api.patch(path, [{"op": "replace", "path": place + where, "value": value}])
                assert answer.status == 400 and "/settings/0/value is or has" in answer.fault


def test_what_is_no_secret_may_be_six_asterisks():
    new = {"note": MASK, "l": [MASK], "text": f"x {MASK}@ y", "u": f"http://h/?b={MASK}"}
    assert filled(new, MISSING) == new


HIDDEN = {"deploy.say": ["word"]}
SAY = {"interface": "deploy", "step": "say", "args": {"word": "w1", "n": 1}, "priority": 5}
SAID = {**SAY, "args": {"word": MASK, "n": 1}}
OTHER = {"interface": "raid", "step": "x", "args": {"password": "p"}, "priority": 4}
TOLD = {**OTHER, "args": {"password": MASK}}


def test_of_steps_the_arguments_that_are_declared_secret_stay_with_their_step():
    def steps(new, stored):
        return filled(new, stored, "steps", hidden=HIDDEN)

    assert steps([TOLD, SAID], [SAY, OTHER]) == [OTHER, SAY]
    assert steps([{**SAID, "priority": 9}], [OTHER, SAY]) == [{**SAY, "priority": 9}]
    second = {**SAY, "args": {"word": "w2", "n": 1}}
    assert steps([SAID, SAID], [SAY, second]) == [SAY, second]
    for new, stored in (
        ([SAID], [SAY, second]),
        ([SAID], [OTHER]),
        ([{**TOLD, "step": "y"}], [OTHER]),
    ):
        with pytest.raises(exceptions.Invalid, match="/steps/0/args/"):
            steps(new, stored)


class Saver(Recording):
    """A conductor with a driver that declares an argument secret."""

    def get_secret_arguments(self, context):
        return HIDDEN


HELD = {"password": "p4ss", "a": 1}
WORD = {"nodes": "node", "ports": "port", "portgroups": "portgroup", "chassis": "chassis"}
WORD |= {"runbooks": "runbook", "deploy_templates": "deploy_template"}
PLACES = [*((place, "extra") for place in WORD), ("nodes", "driver_info"), ("nodes", "properties")]


@pytest.fixture
def things(sqlite, conf):
    """Return one of each thing that has a member for anything, and what asks for them."""
    made = {"name": "n1", "driver": "fake-hardware", "provision_state": "available"}
    node = nodes.insert(sqlite, {**made, "driver_info": HELD, "extra": HELD, "properties": HELD})
    of = {"node_id": node.id, "node_uuid": node.uuid, "extra": HELD}
    found = {
        "nodes": node,
        "ports": ports.insert(sqlite, {**of, "address": "52:54:00:00:00:01"}),
        "portgroups": portgroups.insert(sqlite, {**of, "name": "g"}),
        "chassis": chassis.insert(sqlite, {"extra": HELD}),
        "runbooks": runbooks.insert(
            sqlite, {"name": "CUSTOM_R", "steps": [ORDERED], "extra": HELD}
        ),
        "deploy_templates": templates.insert(
            sqlite, {"name": "CUSTOM_T", "steps": [SAY], "extra": HELD}
        ),
    }
    answers = {f"{verb}_{WORD[p]}": found[p] for p in found for verb in ("create", "update")}
    return Api(conf, sqlite, Saver(**answers)), found


ORDERED = {"interface": "deploy", "step": "say", "args": {"word": "w1", "n": 1}, "order": 5}


BOTH = ("add", "replace")
PATCHES = [
    (BOTH, "", {"password": MASK, "a": 2}, {"password": "p4ss", "a": 2}),
    (BOTH, "/password", MASK, HELD),
    (BOTH, "", {"password": "new", "a": 1}, {"password": "new", "a": 1}),
    (BOTH, "", {"b_password": MASK}, None),
    (("add",), "/b_password", MASK, None),
    (("add",), "/l", [{"password": MASK}], None),
]


@pytest.mark.parametrize(("place", "member"), PLACES)
@pytest.mark.parametrize(
    ("op", "path", "value", "after"), [(op, *rest) for ops, *rest in PATCHES for op in ops]
)
def test_a_patch_with_the_mask_keeps_the_secret(things, place, member, op, path, value, after):
    """F77, F78: who reads a thing and sends it back destroyed what he was not shown."""
    api, found = things
    body = [{"op": op, "path": f"/{member}{path}", "value": value}]
    answer = api.patch(f"/v1/{place}/{found[place].uuid}", body)
    if after is None:
        assert answer.status == 400 and f"/{member}/" in answer.fault, answer
        assert "give the value itself" in answer.fault and not api.client.calls
    else:
        assert answer.status == 200, answer
        (name, args, _), *_ = api.client.calls
        assert name == f"update_{WORD[place]}" and args[1] == {member: after}


NEW = {
    "nodes": {"driver": "fake-hardware"},
    "ports": {"address": "52:54:00:00:00:02", "node_uuid": "n1"},
    "portgroups": {},
    "chassis": {},
    "runbooks": {"name": "CUSTOM_N", "steps": [ORDERED]},
    "deploy_templates": {"name": "CUSTOM_N", "steps": [SAY]},
    "allocations": {"resource_class": "r"},
}


@pytest.mark.parametrize(("place", "member"), [*PLACES, ("allocations", "extra")])
def test_what_is_new_has_no_masks(things, place, member):
    api, found = things
    body = {**NEW[place], member: {"a": {"x_token": MASK}}}
    if place == "portgroups":
        body["node_uuid"] = found["nodes"].uuid
    answer = api.post(f"/v1/{place}", body)
    assert answer.status == 400 and f"/{member}/a/x_token" in answer.fault, answer
    assert not api.client.calls


@pytest.mark.parametrize(("place", "step"), [("deploy_templates", SAY), ("runbooks", ORDERED)])
def test_a_saved_list_that_comes_back_masked_keeps_its_arguments(things, place, step):
    api, found = things
    path = f"/v1/{place}/{found[place].uuid}"
    shown = api.get(path).body["steps"]
    assert shown[0]["args"] == {"word": MASK, "n": 1}
    more = {**step, "step": "x", "args": {}}
    body = [{"op": "replace", "path": "/steps", "value": [more, *shown]}]
    assert api.patch(path, body).status == 200
    assert api.client.calls[0][1][1] == {"steps": [more, step]}
    args = [{"op": "replace", "path": "/steps/0/args", "value": {"word": MASK, "n": 2}}]
    assert api.patch(path, args).status == 200
    expected = {"steps": [{**step, "args": {"word": "w1", "n": 2}}]}
    assert api.client.calls[1][1][1] == expected
    for path_of, value in (
        ("/steps/-", shown[0]),
        ("/steps/0/args/password", MASK),
        ("/steps/0/args", {"word": MASK, "password": MASK}),
        ("/steps/0/step", "cat"),
        ("/steps/0/interface", "raid"),
        ("/steps/0", {**shown[0], "args": {"word": MASK, "password": MASK}}),
    ):
        answer = api.patch(path, [{"op": "add", "path": path_of, "value": value}])
        assert answer.status == 400 and "/steps/" in answer.fault, (path_of, answer)
    posted = {"name": "CUSTOM_N", "steps": shown}
    answer = api.post(f"/v1/{place}", posted)
    assert answer.status == 400 and "/steps/0/args/word" in answer.fault


def test_a_request_to_run_something_has_no_masks(things):
    """A step must not run with asterisks for a password, nor a machine get them as its disk."""
    api, _ = things
    step = {"interface": "deploy", "step": "say", "args": {"word": MASK}}
    for body, named in (
        ({"target": "active", "configdrive": MASK}, "/configdrive"),
        ({"target": "active", "deploy_steps": [{**step, "priority": 5}]}, "/deploy_steps/0/args"),
        ({"target": "active", "deploy_steps": [TOLD]}, "/deploy_steps/0/args/password"),
    ):
        answer = api.put("/v1/nodes/n1/states/provision", body)
        assert answer.status == 400 and named in answer.fault, answer
    assert not api.client.calls


# --- a port's node by its name ----------------------------------------------------------


@pytest.mark.parametrize("member", ["node_uuid", "node_ident"])
def test_a_port_is_made_for_a_node_by_its_name_since_1_94(things, member):
    """F84: the field's ``node_ident``; and ``node_uuid``, which its clients send for --node."""
    api, found = things
    body = {"address": "52:54:00:00:00:02", member: "n1"}
    for version in (94, 95):
        assert api.post("/v1/ports", body, version=version).status == 201
        assert api.client.calls[-1][1][0] in ("n1", found["nodes"].uuid)
    answer = api.post("/v1/ports", body, version=93)
    assert answer.status == (400 if member == "node_uuid" else 406) and member in answer.fault
    by_uuid = {**body, member: found["nodes"].uuid}
    assert api.post("/v1/ports", by_uuid, version=94).status == 201
    for wrong in ({**by_uuid, member: "none"}, {**by_uuid, member: "a/b"}, {**by_uuid, member: 5}):
        assert api.post("/v1/ports", wrong).status == 400


def test_a_port_names_its_node_once(things):
    api, found = things
    uuid = found["nodes"].uuid
    both = {"address": "52:54:00:00:00:02", "node_uuid": uuid, "node_ident": uuid}
    answer = api.post("/v1/ports", both)
    assert answer.status == 400 and "not both" in answer.fault
    answer = api.post("/v1/ports", {"address": "52:54:00:00:00:02"})
    assert answer.status == 400 and "'node_uuid' is a required property" in answer.fault
    patch = [{"op": "add", "path": "/node_ident", "value": "n1"}]
    answer = api.patch(f"/v1/ports/{found['ports'].uuid}", patch)
    assert answer.status == 400 and "node_ident" in answer.fault


# --- what a request may cost --------------------------------------------------------------


def test_secrets_are_not_copied(things):
    """A few bytes for each mask must not become a copy of what it stands for."""
    big = {"password": "x" * 10_000}
    for new in ([{"password": MASK}] * 2, [{"password": MASK}] * 3):
        with pytest.raises(exceptions.Invalid, match="/extra/1/password"):
            filled(new, [big])
    with pytest.raises(exceptions.Invalid, match="/extra/2/password"):
        filled([{"password": MASK}] * 3, [{**big}, {**big}])
    assert filled([{"password": MASK}], [{**big}, {**big}]) == [big]


@pytest.mark.parametrize(
    "make",
    [
        lambda i: {"password": "a"},
        lambda i: {"k": i, "password": f"a{i}"},
        lambda i: {"interface": "a", "step": "b", "k": i, "password": f"a{i}"},
    ],
)
def test_long_lists_with_masks_take_time_by_their_length_only(make):
    """F14: of 20 000 items each was compared with each."""
    stored = [make(i) for i in range(20_000)]
    shown = [{**item, "password": MASK} for item in stored]
    begun = time.process_time()
    assert filled(shown, stored) == stored
    with pytest.raises(exceptions.Invalid):
        filled([*shown, {"password": MASK, "k": -1}], stored)
    assert time.process_time() - begun < 5


def test_a_patch_has_a_limit(things):
    """F14: each operation may move all that a list holds."""
    api, found = things
    one = {"op": "add", "path": "/extra/a", "value": 1}
    path = f"/v1/nodes/{found['nodes'].uuid}"
    assert api.patch(path, [one] * patch.MAX_OPERATIONS).status == 200
    answer = api.patch(path, [one] * (patch.MAX_OPERATIONS + 1))
    assert answer.status == 400 and "at most 1000 operations" in answer.fault
    assert schemas.PATCH["maxItems"] == patch.MAX_OPERATIONS


def test_a_heartbeat_is_small(api, conf):
    """F14, F24: anybody may send one; what is larger than any is not parsed."""
    body = {"callback_url": "http://a", "agent_token": "t", "agent_version": "1"}
    path, large = "/v1/heartbeat/n1", "x" * 128 * 2**10
    assert api.post(path, {**body, "agent_verify_ca": large[:60_000]}).status == 202
    for wrong in ({**body, "agent_verify_ca": large}, [[]] * 50_000):
        answer = api.post(path, wrong)
        assert answer.status == 413 and "131072" in answer.fault, answer
    conf.set_override("max_request_body_bytes", 10, group="api")
    answer = api.post(path, body)
    assert answer.status == 413 and "10 bytes ([api] max_request_body_bytes)" in answer.fault


@pytest.mark.parametrize(
    ("raw", "deep"),
    [
        (b"[" * 64 + b"]" * 64, False),
        (b"[" * 65 + b"]" * 65, True),
        (b"[[],[" * 32 + b"]]" * 32, False),
        (b"[[],[" * 33 + b"]]" * 33, True),
        (b'{"a":[' * 32 + b"]}" * 32, False),
        (b'{"a":[' * 33 + b"]}" * 33, True),
        (b"[1," + b"[" * 63 + b"]" * 63 + b",[[[[]]]]]", False),
        (b"]" * 100, False),
        (b"", False),
    ],
)
def test_depth_is_counted(raw, deep):
    """F14."""
    assert bodies._deeper(raw, 64) == deep


@pytest.mark.parametrize("piece", [b"[" * 63 + b"]" * 63, b"[" * 8_000_000, b"[]", b"[[][", b"]["])
def test_depth_is_found_out_in_time(piece):
    """F14: brackets went by pairs, sixty-four times through sixteen megabytes."""
    raw = (piece * (8_000_000 // len(piece)))[:8_000_000]
    begun = time.process_time()
    bodies._deeper(raw, 64)
    assert time.process_time() - begun < 4


def test_candidates_are_looked_up_together(conf, sqlite):
    """F86: each was looked up by itself, as often as it was named."""
    client = Recording()
    api = Api(conf, sqlite, client)
    made = {"driver": "fake-hardware", "provision_state": "available"}
    held = [nodes.insert(sqlite, {**made, "name": f"n{i}"}) for i in range(3)]
    client._answers["create_allocation"] = allocations.insert(
        sqlite, {"name": "a", "resource_class": "r", "state": "allocating"}
    )
    named = ["n0", held[1].uuid.upper(), held[0].uuid, "n2", *["n1"] * 990]
    with counting(sqlite) as many:
        body = {"resource_class": "r", "candidate_nodes": named}
        assert api.post("/v1/allocations", body).status == 201
    with counting(sqlite) as few:
        body = {"resource_class": "r", "candidate_nodes": ["n0"]}
        assert api.post("/v1/allocations", body).status == 201
    assert many.statements == few.statements
    order = [held[0].uuid, held[1].uuid, held[2].uuid]
    assert client.calls[0][1][0]["candidate_nodes"] == order
    for wrong in (["n0", "N1"], ["n0", "a/b"], ["n9"], [f"n{i}" for i in range(1001)]):
        answer = api.post("/v1/allocations", {"resource_class": "r", "candidate_nodes": wrong})
        assert answer.status == 400, answer


def test_candidates_are_the_callers(door, sqlite, conductor):
    made = {"driver": "fake-hardware", "provision_state": "available", "owner": OWNER}
    nodes.insert(sqlite, {**made, "name": "n1"})
    body = {"resource_class": "r", "candidate_nodes": ["n1"]}
    answer = door("POST", "/v1/allocations", "other:member", body)
    assert answer.status == 400 and "Node n1 could not be found" in answer.fault


# --- what others own ----------------------------------------------------------------------


@pytest.fixture
def hidden(sqlite):
    """Return things of a project that is not the caller's."""
    made = {"driver": "fake-hardware", "provision_state": "available", "owner": OWNER}
    node = nodes.insert(sqlite, {**made, "name": "n1"})
    of = {"node_id": node.id, "node_uuid": node.uuid}
    allocation = {"name": "a1", "resource_class": "r", "state": "active", "owner": OWNER}
    return {
        "nodes": node,
        "ports": ports.insert(sqlite, {**of, "address": "52:54:00:00:00:01"}),
        "portgroups": portgroups.insert(sqlite, {**of, "name": "g1"}),
        "allocations": allocations.insert(sqlite, allocation),
        "runbooks": runbooks.insert(
            sqlite, {"name": "CUSTOM_R", "steps": [ORDERED], "owner": OWNER}
        ),
    }


NAMES = {"nodes": "n1", "portgroups": "g1", "allocations": "a1", "runbooks": "CUSTOM_R"}
PLACES_OF_PROJECTS = ["nodes", "ports", "portgroups", "allocations", "runbooks"]


@pytest.mark.parametrize("place", PLACES_OF_PROJECTS)
@pytest.mark.parametrize("method", ["GET", "PATCH", "DELETE"])
def test_what_is_hidden_is_answered_as_what_is_not_there(door, hidden, place, method):
    """The text of the 404 gave away the uuid of what has the name."""
    uuid, body = hidden[place].uuid, [] if method == "PATCH" else None
    there = [uuid, uuid.upper(), NAMES.get(place, uuid)]
    gone = [str(uuid4()), str(uuid4()).upper(), "CUSTOM_N"]
    for ident, other in zip(there, gone, strict=True):
        if place == "ports" and ident == uuid == NAMES.get(place, uuid):
            other = gone[0]
        found = door(method, f"/v1/{place}/{ident}", "other:admin", body)
        missing = door(method, f"/v1/{place}/{other}", "other:admin", body)
        assert (found.status, missing.status) == (404, 404)
        say = [found.fault.replace(ident, "X").replace(ident.lower(), "X")]
        say.append(missing.fault.replace(other, "X").replace(other.lower(), "X"))
        assert say[0] == say[1]
        assert (ident in found.fault) == (other in missing.fault)
        if ident.lower() != uuid:
            assert uuid not in found.fault


@pytest.mark.parametrize("place", PLACES_OF_PROJECTS)
def test_a_marker_that_is_hidden_is_none(door, hidden, place):
    uuid, other = hidden[place].uuid, str(uuid4())
    found = door("GET", f"/v1/{place}?marker={uuid}", "other:reader")
    missing = door("GET", f"/v1/{place}?marker={other}", "other:reader")
    assert (found.status, missing.status) == (404, 404)
    assert found.fault.replace(uuid, other) == missing.fault
    for who in ("owner:reader", "system:reader"):
        assert door("GET", f"/v1/{place}?marker={uuid}", who).status == 200


def test_the_allocation_of_a_node_is_hidden_by_its_owner(door, sqlite):
    made = {"driver": "fake-hardware", "provision_state": "available", "owner": LESSEE}
    node = nodes.insert(sqlite, {**made, "name": "n1"})
    path = "/v1/nodes/n1/allocation"
    before = door("GET", path, "lessee:admin")
    kept = {"name": "a", "resource_class": "r", "state": "active", "owner": OWNER}
    allocations.insert(sqlite, {**kept, "node_id": node.id})
    after = door("GET", path, "lessee:admin")
    assert (before.status, after.status) == (404, 404) and before.fault == after.fault
    assert door("GET", path, "system:reader").status == 200


def test_a_plan_is_for_who_may_see_plans(door, policy, hidden, conductor):
    """The rule of POST .../plan, whose answer this is."""
    path = "/v1/nodes/n1/steps"
    for who, status in (("owner:reader", 403), ("owner:member", 200)):
        conductor._answers |= {"get_node_plan": {"steps": []}, "get_node_steps": []}
        assert door("GET", path, who).status == 200
        answer = door("GET", f"{path}?plan=true", who)
        assert answer.status == status
        posted = door("POST", "/v1/nodes/n1/plan", who, {})
        assert posted.status == status
    assert "baremetal:node:plan:get" in door("GET", f"{path}?plan=true", "owner:reader").fault


def test_what_is_kept_back_of_a_node_is_of_its_runs_and_its_lock(door, sqlite):
    """F78: the lessee's admin read last_error and reservation there."""
    made = {"driver": "fake-hardware", "provision_state": "deploy failed", "name": "n1"}
    made |= {"owner": OWNER, "lessee": LESSEE, "last_error": "bmc 10.9.8.7 said no"}
    node = nodes.insert(sqlite, {**made, "reservation": "conductor-7"})
    run = {"uuid": str(uuid4()), "node_id": node.id, "flow": "deploy", "state": "finished"}
    run |= {"outcome": "failed", "error": made["last_error"], "plan": [], "request": {}}
    now = utcnow()
    attempt = {"attempt": 1, "interface": "deploy", "step": "deploy", "state": "failed"}
    attempt |= {"conductor": "conductor-7", "error": made["last_error"], "started_at": now}
    attempt |= {"evidence": {"said": made["last_error"]}}
    with sqlite.engine.begin() as connection:
        columns = StepRun.__table__.c.keys()
        values = {k: v for k, v in {**run, "started_at": now}.items() if k in columns}
        key = connection.execute(sa.insert(StepRun).values(values)).inserted_primary_key[0]
        columns = StepAttempt.__table__.c.keys()
        values = {k: v for k, v in attempt.items() if k in columns}
        connection.execute(
            sa.insert(StepAttempt).values(
                run_id=key, node_id=node.id, step_id="1", position=1, **values
            )
        )
    for path in ("/v1/nodes/n1/runs", f"/v1/nodes/n1/runs/{run['uuid']}"):
        seen = door("GET", path, "owner:reader")
        assert seen.status == 200 and "10.9.8.7" in seen.text and "conductor-7" in seen.text
        kept = door("GET", path, "lessee:admin")
        assert kept.status == 200 and "requires baremetal:node:get:last_error" in kept.text
        assert "requires baremetal:node:get:reservation" in kept.text
        assert "10.9.8.7" not in kept.text and "conductor-7" not in kept.text


@pytest.mark.parametrize(
    ("member", "value", "rule"),
    [
        ("automated_clean", False, "disable_cleaning"),
        ("automated_clean", "False", "disable_cleaning"),
        ("shard", "s", "update:shard"),
        ("chassis_uuid", "3f1c9d52-7a60-4b8e-9a35-0d6e2c71b840", "update:chassis_uuid"),
        ("conductor_group", "g", "update:conductor_group"),
        ("disable_power_off", True, "update:disable_power_off"),
    ],
)
def test_a_new_node_has_nothing_that_its_owner_may_not_change(
    door, sqlite, hidden, conductor, member, value, rule
):
    """What PATCH refuses a project's admin is not his to give when he makes the node."""
    conductor._answers["create_node"] = hidden["nodes"]
    body = {"driver": "fake-hardware", member: value}
    answer = door("POST", "/v1/nodes", "owner:admin", body)
    assert answer.status == 403 and f"baremetal:node:{rule}" in answer.fault, answer
    assert not conductor.calls
    for more in ({}, {member: None}, {"lessee": LESSEE, "extra": {"a": 1}, "retired": True}):
        body = {"driver": "fake-hardware", "name": "n2", "driver_info": {"a": 1}, **more}
        assert door("POST", "/v1/nodes", "owner:admin", body).status == 201
    assert door("POST", "/v1/nodes", "system:admin", {**body, member: value}).status == 201


@pytest.mark.parametrize("place", ["nodes", "runbooks", "allocations"])
def test_a_project_does_not_end_with_a_blank(things, place):
    """To MariaDB "a " is "a": a list for the project "a" had what is the other's."""
    api, found = things
    for member in ("owner", "lessee") if place == "nodes" else ("owner",):
        for wrong in ("a ", " ", "a  b "):
            answer = api.post(f"/v1/{place}", {**NEW[place], member: wrong})
            assert answer.status == 400 and f"{member} must be the id of a project" in answer.fault
            if place != "allocations":
                patch = [{"op": "add", "path": f"/{member}", "value": wrong}]
                assert api.patch(f"/v1/{place}/{found[place].uuid}", patch).status == 400
        for right in ("a b", "\u00e4\U0001f600", "", None):
            assert api.post(f"/v1/{place}", {**NEW[place], member: right}).status != 400


@pytest.mark.parametrize("name", [".", ".."])
def test_a_name_that_no_path_can_have_is_refused(things, name):
    """Clients and proxies make /v1/ of /v1/nodes/.. before they send it."""
    api, found = things
    assert api.post("/v1/nodes", {"driver": "fake-hardware", "name": name}).status == 400
    patch = [{"op": "add", "path": "/name", "value": name}]
    for place in ("nodes", "portgroups", "ports"):
        assert api.patch(f"/v1/{place}/{found[place].uuid}", patch).status == 400
    assert api.post("/v1/allocations", {"resource_class": "r", "name": name}).status == 400


# --- pages of other sites -----------------------------------------------------------------


@pytest.fixture
def browser(conf, sqlite, conductor, hidden):
    """Ask as a browser does, of a server that listens for this machine only."""
    conductor._answers["create_node"] = hidden["nodes"]

    def asked(method, path="/v1/nodes", local=True, **headers):
        client = testing.TestClient(create_app(conf, sqlite, conductor))
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        body = json.dumps({"driver": "fake-hardware"}) if method == "POST" else None
        more = {"deploysteps.local_only": local}
        return Answer(client.simulate_request(method, path, headers=sent, body=body, extras=more))

    return asked


FOREIGN = [
    {"Origin": "http://evil.example", "Content_Type": "text/plain"},
    {"Origin": "null"},
    {"Origin": ""},
    {"Origin": "http://localhost:6386"},
    {"Sec_Fetch_Site": "cross-site"},
    {"Sec_Fetch_Site": "same-site"},
]


@pytest.mark.parametrize("headers", FOREIGN)
def test_a_page_of_another_site_changes_nothing(browser, conductor, conf, headers):
    """Without authentication, or with a password that the browser keeps, it is the operator."""
    for local in (True, False):
        answer = browser("POST", local=local, Host="localhost:6385", **headers)
        assert answer.status == 403 and "another site" in answer.fault
    assert not conductor.calls
    assert browser("GET", Host="localhost:6385", **headers).status == 200


def test_a_page_of_its_own_and_what_is_no_page_may(browser, conf):
    for headers in (
        {},
        {"Origin": "http://localhost:6385", "Sec_Fetch_Site": "same-origin"},
        {"Origin": "http://LOCALHOST:6385"},
        {"Sec_Fetch_Site": "none"},
    ):
        assert browser("POST", Host="localhost:6385", **headers).status == 201
    conf.set_override("allowed_hosts", ["localhost", "ui.example.org"], group="api")
    assert browser("POST", Host="localhost", Origin="https://ui.example.org:8443").status == 201
    assert browser("POST", Host="localhost", Origin="https://evil.example").status == 403


def test_a_name_that_leads_here_is_refused_where_nothing_else_guards(browser, conf):
    """DNS rebinding: the page's own name has this machine's address."""
    for host in ("evil.example", "evil.example:6385", "127.0.0.1.evil.example", "a.b."):
        answer = browser("GET", Host=host, Origin=f"http://{host}")
        assert answer.status == 400 and "[api] allowed_hosts" in answer.fault, host
        assert "evil" not in answer.text
    for host in ("localhost", "localhost:80", "a.localhost", "127.0.0.1:6385", "[::1]:6385", "me"):
        assert browser("GET", Host=host).status == 200, host
    assert browser("GET", local=False, Host="metal.example.org").status == 200
    conf.set_override("public_endpoint", "https://metal.example.org:8443", group="api")
    assert browser("GET", Host="metal.example.org").status == 200
    for host in ("evil.example", "example.org"):
        assert browser("GET", Host=host).status == 400, "a setting of links opens no door"


def test_probes_call_each_instance_by_its_address(browser, conf):
    conf.set_override("allowed_hosts", ["metal.example.org"], group="api")
    for path in ("/healthz", "/readyz"):
        assert browser("GET", path, Host="10.0.0.7:6385").status in (200, 503)
        assert browser("GET", path, Host="a/b").status == 400
    for path in ("/", "/v1", "/v1/nodes", "/metrics"):
        assert browser("GET", path, Host="10.0.0.7:6385").status == 400


def test_nodes_are_not_sorted_by_what_is_kept_back(door, hidden):
    """With a node of his own among them a lessee could find out what another's field holds."""
    for path in ("/v1/nodes", "/v1/nodes/detail"):
        answer = door("GET", f"{path}?sort_key=reservation", "other:admin")
        assert answer.status == 403 and "baremetal:node:get:reservation" in answer.fault
        assert door("GET", f"{path}?sort_key=reservation", "system:reader").status == 200
        assert door("GET", f"{path}?sort_key=name", "other:reader").status == 200
    for field in ("driver_info", "driver_internal_info", "last_error"):
        assert door("GET", f"/v1/nodes?sort_key={field}", "other:admin").status in (400, 403)
