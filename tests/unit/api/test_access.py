"""Who asks, and what of nodes, ports and runbooks is there for him (issue 4, 3)."""

from __future__ import annotations

import base64
import contextlib
import json
import logging
import threading
import time
from typing import ClassVar
from uuid import uuid4

import bcrypt
import falcon
import pytest
from falcon import testing
from oslo_policy import _checks

from deploysteps import exceptions
from deploysteps.access.rules import list_rules
from deploysteps.api import access, access_basic, call, errors, hosts
from deploysteps.api.app import create_app
from deploysteps.api.operations import Operation
from deploysteps.db import chassis, conductors, nodes, ports, runbooks
from deploysteps.steps import INTERFACE_TYPES
from tests.support_access import LESSEE, OTHER, OWNER, keystone, token
from tests.support_api import Answer
from tests.support_sql import counting


class Door:
    """The application behind a door."""

    def __init__(self, conf, database, conductor, entrance=None):
        self.app = create_app(conf, database, conductor, entrance)
        self._client = testing.TestClient(self.app)

    def __call__(self, method, path, body=None, **headers):
        path, _, query = path.partition("?")
        sent = {"X-OpenStack-Ironic-API-Version": "latest"}
        sent |= {name.replace("_", "-"): value for name, value in headers.items()}
        return Answer(
            self._client.simulate_request(
                method,
                path,
                query_string=query,
                body=None if body is None else json.dumps(body),
                headers=sent,
            )
        )


def basic(user, password):
    pair = f"{user}:{password}".encode()
    return {"Authorization": f"Basic {base64.b64encode(pair).decode()}"}


def hashed(password, cost=4):
    return bcrypt.hashpw(password.encode(), bcrypt.gensalt(cost, b"2a")).decode()


@pytest.fixture
def users(tmp_path, conf):
    """The file of users: alice, whose password is secret."""
    path = tmp_path / "htpasswd"
    path.write_text(f"# people\n\nalice:{hashed('secret')}\n")
    conf.set_override("auth_strategy", "http_basic")
    conf.set_override("http_basic_auth_user_file", str(path))
    return path


# --- noauth -------------------------------------------------------------------------


def test_without_authentication_everybody_is_an_admin_and_tokens_are_ignored(api, node, conductor):
    """The field's clients send the word 'notused' as their token."""
    answer = api.delete("/v1/nodes/n1", headers={"X-Auth-Token": "notused", "X-Roles": "reader"})
    assert answer.status == 204 and conductor.calls[0][0] == "destroy_node"


# --- http_basic ---------------------------------------------------------------------


def test_a_user_is_known_by_his_password(users, conf, sqlite, conductor, node):
    door = Door(conf, sqlite, conductor)
    assert door("GET", "/v1/nodes/n1", **basic("alice", "secret")).status == 200
    for wrong in (basic("alice", "Secret"), basic("bob", "secret"), basic("", ""), {}):
        answer = door("GET", "/v1/nodes/n1", **wrong)
        assert answer.status == 401 and answer.fault
        assert answer.headers["www-authenticate"].startswith('Basic realm="')
    assert "Incorrect username or password" in door("GET", "/v1/nodes", **basic("bob", "x")).fault


@pytest.mark.parametrize(
    "header",
    ["", "Basic", "Basic !!!", "Basic " + "A" * 99, "Bearer abc", "Basic /w==", "Basic Zm9v"],
)
def test_credentials_that_cannot_be_read_are_401(users, conf, sqlite, conductor, header):
    assert Door(conf, sqlite, conductor)("GET", "/v1/nodes", Authorization=header).status == 401


def test_the_last_error_is_the_same_for_a_wrong_user_and_a_wrong_password(
    users, conf, sqlite, conductor
):
    door = Door(conf, sqlite, conductor)
    told = {door("GET", "/v1/nodes", **basic(*who)).fault for who in (("alice", "x"), ("b", "x"))}
    assert len(told) == 1


def test_an_unknown_user_takes_as_long_as_a_wrong_password(users, conf, monkeypatch):
    """The same check is made, by a hash that costs as much."""
    users.write_text(f"alice:{hashed('secret', 6)}\nbob:{hashed('secret', 5)}\n")
    asked = []
    real = bcrypt.checkpw
    found = access_basic.Users(str(users), 20)
    monkeypatch.setattr(bcrypt, "checkpw", lambda p, h: asked.append(h[4:6]) or real(p, h))
    assert not found.check("nobody", b"secret", "a")
    assert not found.check("alice", b"wrong", "a")
    assert asked == [b"06", b"06"]


def test_who_is_known_is_not_checked_again_for_a_while(users, monkeypatch):
    asked = []
    real = bcrypt.checkpw
    found = access_basic.Users(str(users), 20)
    monkeypatch.setattr(bcrypt, "checkpw", lambda p, h: asked.append(1) or real(p, h))
    now = time.monotonic()
    monkeypatch.setattr(access_basic.time, "monotonic", lambda: now)
    assert all(found.check("alice", b"secret", "a") for _ in range(9)) and len(asked) == 1
    assert not any(found.check("alice", b"wrong", "a") for _ in range(9)) and len(asked) == 2
    now += access_basic.REFUSED_SECONDS + 1
    assert not found.check("alice", b"wrong", "a") and len(asked) == 3
    assert found.check("alice", b"secret", "a") and len(asked) == 3
    now += access_basic.KNOWN_SECONDS
    assert found.check("alice", b"secret", "a") and len(asked) == 4


def test_what_is_remembered_is_bounded_and_holds_no_password(users):
    found = access_basic.Users(str(users), 20)
    assert found.check("alice", b"secret", "a")
    for number in range(access_basic.REMEMBERED + 50):
        found._remember(number.to_bytes(4, "big"), False)
    assert len(found._answers) == access_basic.REMEMBERED
    assert found._remembered(next(k for k, v in found._answers.items() if v[1])) is True
    assert not any(b"secret" in key for key in found._answers)


def test_the_file_is_read_again_when_it_changes(users, caplog):
    found = access_basic.Users(str(users), 20)
    assert found.check("alice", b"secret", "a")
    users.write_text(f"alice:{hashed('other')}\nbob:{hashed('b')}\n")
    assert not found.check("alice", b"secret", "a"), "a password of before"
    assert found.check("alice", b"other", "a") and found.check("bob", b"b", "a")
    users.write_text("alice")
    assert found.check("alice", b"other", "a"), "a broken file changes nothing"
    assert "The users of before stay" in caplog.text and str(users) in caplog.text
    users.unlink()
    assert found.check("alice", b"other", "a"), "nor does one that is gone"
    users.write_text(f"bob:{hashed('b')}\n")
    assert not found.check("alice", b"other", "a"), "who was taken out is out at once"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (None, "cannot be read (No such file or directory)"),
        ("", "has no users"),
        ("alice", "line 1"),
        ("# a\nalice:secret", "line 2"),
        ("alice:$apr1$abc$def", "bcrypt"),
        ("alice:$2y$05$tooshort", "bcrypt"),
        ("alice:$2y$99$" + "a" * 53, "bcrypt"),
        (f":{'$2y$05$'}{'a' * 53}", "NAME:HASH"),
        (f"a:{hashed('x')}\na:{hashed('y')}", "twice"),
        (b"\xff\xfe:", "UTF-8"),
    ],
)
def test_a_file_that_cannot_be_used_stops_the_start(users, conf, text, told):
    """Field: a missing file is found out at the first request."""
    users.unlink()
    if text is not None:
        users.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(exceptions.ConfigurationError) as refused:
        access.Access.of(conf)
    assert told in refused.value.message and str(users) in refused.value.message
    assert "htpasswd -nbB" in refused.value.message or told == "twice"


@pytest.mark.parametrize("prefix", ["$2y$", "$2a$", "$2b$"])
def test_every_spelling_of_bcrypt_is_taken(users, prefix):
    users.write_text(f"alice:{prefix}{hashed('secret')[4:]}\n")
    assert access_basic.Users(str(users), 20).check("alice", b"secret", "a")


def test_long_passwords_and_strange_bytes_are_no_error(users):
    users.write_text(f"alice:{hashed('p' * 72)}\n")
    found = access_basic.Users(str(users), 20)
    assert found.check("alice", b"p" * 100, "a"), "bcrypt reads 72 bytes, as htpasswd's does"
    assert not found.check("alice", b"\0", "a")
    assert not found.check("\udcff".encode("utf-8", "surrogatepass").decode("latin-1"), b"x", "a")


@pytest.fixture
def guessed(users, monkeypatch):
    """Begin checks that do not end; gives (the users, how to begin one)."""
    found = access_basic.Users(str(users), 16)  # 4 at a time: 2 of an address, 3 of a user
    assert found.check("alice", b"secret", "10.0.0.1")
    going, go_on, threads = threading.Semaphore(0), threading.Event(), []

    def slow(password, wanted):
        going.release()
        go_on.wait(60)
        return False

    def begin(*guess):
        threads.append(threading.Thread(target=found.check, args=guess, daemon=True))
        threads[-1].start()
        assert going.acquire(timeout=60)

    monkeypatch.setattr(bcrypt, "checkpw", slow)
    yield found, begin
    go_on.set()
    for thread in threads:
        thread.join(60)
    assert not found._gate._running


def test_guessing_passwords_takes_a_part_of_the_threads(guessed):
    """Who floods is told to come later, one address, or one user, sooner than all."""
    found, begin = guessed
    begin("alice", b"1", "a")
    begin("mallory", b"2", "a")
    with pytest.raises(errors.Busy):
        found.check("bob", b"5", "a")
    begin("alice", b"3", "b")
    begin("bob", b"4", "b")
    with pytest.raises(errors.Busy):
        found.check("carol", b"5", "d")
    assert found.check("alice", b"secret", "a"), "who is known does not wait"


def test_guessing_for_one_user_from_many_addresses_leaves_room_for_others(guessed):
    found, begin = guessed
    for number in range(3):
        begin("alice", b"%d" % number, f"10.0.0.{number}")
    with pytest.raises(errors.Busy):
        found.check("alice", b"5", "10.0.0.9")
    begin("bob", b"5", "10.0.0.9")


@pytest.mark.parametrize(
    ("mine", "hers"),
    [
        (("10.0.0.1", "::ffff:10.0.0.1"), "10.0.0.2"),
        (("2001:db8::1", "2001:db8::ffff:1"), "2001:db8:0:1::1"),
    ],
)
def test_nobody_keeps_a_user_out_elsewhere_by_guessing_her_password(guessed, mine, hers):
    """Whatever part of a network he has: she is checked, and not told to come later."""
    found, begin = guessed
    begin("alice", b"1", mine[0])
    begin("alice", b"2", mine[1])
    for address in mine:
        with pytest.raises(errors.Busy):
            found.check("alice", b"3", address)
    begin("alice", b"her own", hers)


@pytest.mark.parametrize("threads", [1, 2, 4, 7, 8, 12, 15, 20, 100, 1000])
def test_one_address_never_fills_the_gate(threads):
    """However few threads there are; nor do those from there who wait hold all of them."""
    gate = access_basic.Gate(threads)
    with contextlib.ExitStack() as inside:
        with pytest.raises(errors.Busy):
            for number in range(threads + 2):
                inside.enter_context(gate(b"%d" % number, "alice", "a"))
        inside.enter_context(gate(b"hers", "alice", "b"))
        assert gate._has_room(None, "bob", "c") == (threads >= 12)
        waiting = gate._running[b"0"].waiting
        waiting += ["a"] * threads
        assert not gate._has_room(gate._running[b"0"], "alice", "a")
        assert not gate._has_room(gate._running[b"hers"], "alice", "a")
        del waiting[1:]
    assert not gate._running


def test_a_name_with_a_role_that_the_file_does_not_have_is_told_at_the_start(conf, users, caplog):
    """Whoever was meant is an admin."""
    conf.set_override("http_basic_auth_user_file", str(users))
    roles = {"alise": "reader", "alice": "member", "*": "none"}
    conf.set_override("http_basic_roles", roles, group="api")
    access_basic.HttpBasic(conf)
    (told,) = [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]
    assert "no 'alise' (did you mean 'alice'?)" in told and "the role none" in told


@pytest.mark.parametrize(
    ("proxied", "told", "wanted"),
    [
        (False, "10.0.0.9", "127.0.0.1"),
        (True, "10.0.0.9", "10.0.0.9"),
        (True, "10.6.6.6, 10.0.0.9", "10.0.0.9"),
        (True, "nonsense", "127.0.0.1"),
        (True, None, "127.0.0.1"),
    ],
)
def test_behind_a_proxy_an_address_is_the_clients(proxied, told, wanted):
    """What the nearest proxy has written, if the operator says that there is one."""
    headers = {} if told is None else {"X-Forwarded-For": told}
    assert hosts.sender(testing.create_req(headers=headers), proxied) == wanted


def test_many_requests_with_the_same_password_are_one_check(users, monkeypatch):
    found = access_basic.Users(str(users), 20)
    asked, real = [], bcrypt.checkpw

    def slow(password, wanted):
        asked.append(1)
        time.sleep(0.2)
        return real(password, wanted)

    monkeypatch.setattr(bcrypt, "checkpw", slow)
    answers = []
    threads = [
        threading.Thread(target=lambda: answers.append(found.check("alice", b"secret", "a")))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert answers == [True] * 8 and len(asked) == 1


def test_roles_of_users_are_the_operators_to_say(users, conf, sqlite, conductor, node):
    """By default every user may do all, as in the field."""
    users.write_text("".join(f"{name}:{hashed('p')}\n" for name in ("a", "m", "r", "n", "x")))
    door = Door(conf, sqlite, conductor)
    assert door("DELETE", "/v1/nodes/n1", **basic("x", "p")).status == 204
    conf.set_override(
        "http_basic_roles", {"a": "admin", "m": "member", "r": "reader", "*": "none"}, group="api"
    )
    door = Door(conf, sqlite, conductor)
    power = {"target": "power on"}

    def statuses(user):
        return [
            door("GET", "/v1/nodes/n1", **basic(user, "p")).status,
            door("PUT", "/v1/nodes/n1/states/power", power, **basic(user, "p")).status,
            door("DELETE", "/v1/nodes/n1", **basic(user, "p")).status,
        ]

    assert statuses("a") == [200, 202, 204]
    assert statuses("m") == [200, 202, 403]
    assert statuses("r") == [200, 403, 403]
    assert statuses("n") == [404, 404, 404]


def test_nothing_is_read_of_a_body_before_it_is_known_who_sends_it(users, conf, sqlite, conductor):
    """F14: a body that is too large, or too deep, costs nothing without a password."""
    door = Door(conf, sqlite, conductor)
    client = testing.TestClient(door.app)
    deep = b"[" * 100_000

    class Untouched:
        def read(self, *args):
            raise AssertionError("the body was read")

    def middleware_of(app):
        def wrapped(env, start_response):
            env["wsgi.input"] = Untouched()
            return app(env, start_response)

        return wrapped

    refused = testing.TestClient(middleware_of(door.app)).simulate_post("/v1/nodes", body=deep)
    assert refused.status_code == 401
    let_in = client.simulate_post("/v1/nodes", body=deep, headers=basic("alice", "secret"))
    assert let_in.status_code == 400 and "deeper" in let_in.text


# --- keystone -----------------------------------------------------------------------


def test_keystone_that_is_not_installed_is_told_with_its_remedy(conf, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "keystonemiddleware", None)
    conf.set_override("auth_strategy", "keystone")
    with pytest.raises(exceptions.ConfigurationError) as refused:
        access.Access.of(conf)
    assert "pip install 'deploysteps[keystone]'" in refused.value.message


def test_an_identity_service_that_does_not_answer_is_503(conf, sqlite, conductor):
    def broken(application):
        def validate(env, start_response):
            start_response("503 Service Unavailable", [("Content-Type", "text/html")])
            return [b"<html>"]

        return validate

    service = access.Keystone(conf, broken)
    entrance = access.Access(
        access.Enforcer(conf), lambda req, context: service.context(req.env, "req-1")
    )
    answer = Door(conf, sqlite, conductor, entrance)("GET", "/v1/nodes")
    assert answer.status == 503 and "Identity service" in answer.fault


def test_the_context_has_who_asks_and_the_id_of_the_request(conf, sqlite, conductor, node):
    nodes.set_unlocked(sqlite, node.id, {"owner": OWNER})
    contexts = []
    conductor.destroy_node = lambda context, *args: contexts.append(context)
    door = Door(conf, sqlite, conductor, keystone(conf))
    answer = door("DELETE", "/v1/nodes/n1", **token("owner", "admin"))
    (context,) = contexts
    assert answer.status == 204
    assert context.user_id == "admin-of-owner" and context.project_id == OWNER
    assert context.request_id == answer.headers["openstack-request-id"]


# --- what is there for whom ---------------------------------------------------------


@pytest.fixture
def house(conf, sqlite, conductor):
    """Nodes of three projects, each with a port; and runbooks."""
    for name, owner, lessee in (
        ("owned", OWNER, None),
        ("lent", OWNER, LESSEE),
        ("foreign", OTHER, None),
        ("free", None, None),
    ):
        item = nodes.insert(
            sqlite,
            {
                "name": name,
                "driver": "fake-hardware",
                "provision_state": "active",
                "owner": owner,
                "lessee": lessee,
                "last_error": "it failed",
                "reservation": "conductor-1",
                "driver_info": {"address": "10.0.0.1", "password": "hunter2"},
                "instance_info": {"image": "x", "admin_password": "hunter2"},
                "driver_internal_info": {"agent_url": "http://10.0.0.2"},
            },
        )
        address = f"52:54:00:00:00:{item.id:02x}"
        ports.insert(sqlite, {"node_id": item.id, "node_uuid": item.uuid, "address": address})
    step = {"interface": "deploy", "step": "s", "args": {}, "order": 1}
    for name, owner, public in (("CUSTOM_A", OWNER, False), ("CUSTOM_B", None, True)):
        values = {"name": name, "owner": owner, "public": public, "steps": [step], "extra": {}}
        runbooks.insert(sqlite, values)
    return Door(conf, sqlite, conductor, keystone(conf))


@pytest.mark.parametrize(
    ("scope", "wanted"),
    [
        ("system", {"owned", "lent", "foreign", "free"}),
        ("owner", {"owned", "lent"}),
        ("lessee", {"lent"}),
        ("other", {"foreign"}),
    ],
)
def test_lists_have_what_a_caller_sees(house, scope, wanted):
    who = token(scope, "reader")
    for path in ("/v1/nodes", "/v1/nodes/detail", "/v1/nodes?limit=1000&sort_key=name"):
        assert {item["name"] for item in house("GET", path, **who).body["nodes"]} == wanted
    assert len(house("GET", "/v1/ports", **who).body["ports"]) == len(wanted)
    assert len(house("GET", "/v1/ports/detail", **who).body["ports"]) == len(wanted)
    by_owner = house("GET", f"/v1/nodes?owner={OTHER}", **who).body["nodes"]
    assert {item["name"] for item in by_owner} == wanted & {"foreign"}
    for name in ("owned", "lent", "foreign", "free"):
        status = 200 if name in wanted else 404
        assert house("GET", f"/v1/nodes/{name}", **who).status == status
        assert house("GET", f"/v1/ports?node={name}", **who).status == status
        assert house("GET", f"/v1/nodes/{name}/ports", **who).status == status


def test_pages_of_a_filtered_list_are_full_and_end(house):
    """The filter is the database's: no page is short, and none tells of what is left out."""
    who, seen, path = token("owner", "reader"), [], "/v1/nodes?limit=1"
    while path:
        page = house("GET", path, **who).body
        seen += [item["name"] for item in page["nodes"]]
        path = page.get("next", "").partition("falconframework.org")[2]
    assert seen == ["owned", "lent"]


def test_a_marker_that_a_caller_does_not_see_is_none(house, sqlite):
    hidden, who = nodes.get(sqlite, "foreign"), token("owner", "reader")
    (port,) = ports.of_node(sqlite, hidden.id)
    for path, marker in (("nodes", hidden.uuid), ("ports", port.uuid)):
        answer = house("GET", f"/v1/{path}?marker={marker}", **who)
        assert (answer.status, answer.fault) == (404, f"Marker {marker} could not be found.")
        assert house("GET", f"/v1/{path}?marker={marker}", **token("other", "reader")).status == 200


def test_a_parent_that_a_caller_does_not_see_is_none(house, sqlite):
    hidden = nodes.get(sqlite, "foreign").uuid
    body = {"driver": "fake-hardware", "parent_node": hidden}
    answer = house("POST", "/v1/nodes", body, **token("owner", "admin"))
    assert answer.status == 400 and "there is no such node" in answer.fault


def test_a_lessee_makes_no_child_of_the_owners_node(house, sqlite, conductor):
    """It would keep the owner from deleting his node."""
    leased = next(one for one in nodes.listing(sqlite) if one.lessee == LESSEE)
    body = {"driver": "fake-hardware", "parent_node": leased.uuid}
    assert house("POST", "/v1/nodes", body, **token("lessee", "admin")).status == 400
    conductor._answers.update(create_node=leased)
    assert house("POST", "/v1/nodes", body, **token("owner", "admin")).status == 201


def test_a_port_is_given_only_to_a_node_that_the_caller_may_give_ports(house, sqlite):
    mine = next(one for one in nodes.listing(sqlite) if one.owner == OWNER)
    (port,) = ports.of_node(sqlite, mine.id)
    hidden = nodes.get(sqlite, "foreign").uuid
    for named in (hidden, "nobody"):
        patch = [{"op": "replace", "path": "/node_uuid", "value": named}]
        answer = house("PATCH", f"/v1/ports/{port.uuid}", patch, **token("owner", "admin"))
        assert (answer.status, answer.fault) == (400, f"Node {named} could not be found.")


def test_a_chassis_that_a_caller_may_not_see_is_as_one_that_is_not_there(house, sqlite):
    case = chassis.insert(sqlite, {"extra": {}}).uuid
    who = token("other", "reader")
    for named in (case, str(uuid4())):
        assert house("GET", f"/v1/chassis/{named}/nodes", **who).body == {"nodes": []}
    assert house("GET", f"/v1/chassis/{uuid4()}/nodes", **token("system", "reader")).status == 404


def test_statements_of_a_filtered_list_do_not_grow(house, sqlite):
    """F86: neither with the nodes nor with the rules that are asked about each."""
    who = token("lessee", "reader")
    values = {"driver": "fake-hardware", "provision_state": "active"}
    for path in ("/v1/nodes/detail", "/v1/ports/detail"):
        counts = []
        for _ in range(2):
            with counting(sqlite) as count:
                assert house("GET", path, **who).status == 200
            counts.append(count.statements)
            for _ in range(20):
                nodes.insert(sqlite, {**values, "lessee": LESSEE})
        assert counts[0] == counts[1]


def test_runbooks_of_others_are_not_there_and_public_ones_are(house):
    def names(scope):
        found = house("GET", "/v1/runbooks", **token(scope, "reader")).body["runbooks"]
        return {item["name"] for item in found}

    assert names("owner") == names("system") == {"CUSTOM_A", "CUSTOM_B"}
    assert names("other") == {"CUSTOM_B"}


def test_a_lessee_does_not_see_what_is_inside_of_the_infrastructure(house):
    """As in the field: address of the BMC, conductor, errors and the agent's address."""
    lessee = house("GET", "/v1/nodes/lent", **token("lessee", "admin")).body
    for name in ("driver_info", "driver_internal_info"):
        assert list(lessee[name]) == ["content"] and name in lessee[name]["content"]
    for name in ("last_error", "reservation"):
        assert lessee[name].startswith("** Redacted") and name in lessee[name]
    states = house("GET", "/v1/nodes/lent/states", **token("lessee", "admin")).body
    assert states["last_error"].startswith("** Redacted")
    owner = house("GET", "/v1/nodes/lent", **token("owner", "reader")).body
    assert owner["driver_info"]["address"] == "10.0.0.1" and owner["last_error"] == "it failed"
    listed = house("GET", "/v1/nodes/detail", **token("lessee", "reader")).body["nodes"]
    assert "10.0.0" not in json.dumps(listed) and "it failed" not in json.dumps(listed)


def test_a_lessee_is_not_told_by_another_field_who_works_on_the_node(house, sqlite):
    """``conductor`` is of the lock's holder; to him it is the one that the node falls to."""
    offered = [conductors.Offer("fake-hardware", kind, "fake", True) for kind in INTERFACE_TYPES]
    conductors.register(sqlite, "falls-to", "b", offered)

    def told(scope):
        asked = {
            "one": house("GET", "/v1/nodes/lent?fields=conductor", **token(scope, "admin")),
            "all": house("GET", "/v1/nodes?fields=name,conductor", **token(scope, "admin")),
        }
        listed = {item["name"]: item["conductor"] for item in asked["all"].body["nodes"]}
        assert asked["one"].body["conductor"] == listed["lent"]
        return listed["lent"]

    def by(scope, host):
        path = f"/v1/nodes?fields=name&conductor={host}"
        return {n["name"] for n in house("GET", path, **token(scope, "admin")).body["nodes"]}

    assert told("owner") == told("system") == "conductor-1" and told("lessee") == "falls-to"
    assert "lent" in by("owner", "conductor-1") and by("owner", "falls-to") == set()
    assert by("lessee", "conductor-1") == set() and by("lessee", "falls-to") == {"lent"}


def test_answers_of_all_verbs_hide_the_same(house, sqlite, conductor):
    """F78."""
    item = nodes.get(sqlite, "lent")
    conductor._answers["update_node"] = item
    body = [{"op": "add", "path": "/extra", "value": {}}]
    answer = house("PATCH", "/v1/nodes/lent", body, **token("lessee", "admin"))
    assert answer.status == 200 and "10.0.0" not in answer.text


def test_who_may_not_change_a_part_changes_nothing(house, conductor):
    body = [
        {"op": "add", "path": "/description", "value": "d"},
        {"op": "add", "path": "/driver_info/address", "value": "10.9.9.9"},
    ]
    answer = house("PATCH", "/v1/nodes/lent", body, **token("lessee", "admin"))
    assert answer.status == 403 and "baremetal:node:update:driver_info" in answer.fault
    assert not conductor.calls


def test_a_projects_admin_creates_nodes_of_his_project_only(house, conductor, sqlite):
    conductor._answers["create_node"] = nodes.get(sqlite, "owned")
    who, driver = token("owner", "admin"), {"driver": "fake-hardware"}
    assert house("POST", "/v1/nodes", driver, **who).status == 201
    assert conductor.calls[-1][1][0]["owner"] == OWNER
    assert house("POST", "/v1/nodes", {**driver, "owner": OWNER}, **who).status == 201
    refused = house("POST", "/v1/nodes", {**driver, "owner": OTHER}, **who)
    assert refused.status == 400 and "owner" in refused.fault
    assert house("POST", "/v1/nodes", driver, **token("system", "admin")).status == 201
    assert "owner" not in conductor.calls[-1][1][0]


def test_a_projects_runbook_is_its_own_and_not_public(house, conductor, sqlite):
    conductor._answers |= {
        "create_runbook": runbooks.get(sqlite, "CUSTOM_A"),
        "get_secret_arguments": {},
    }
    step = {"interface": "deploy", "step": "s", "args": {}, "order": 1}
    book, who = {"name": "CUSTOM_N", "steps": [step]}, token("owner", "admin")
    assert house("POST", "/v1/runbooks", book, **who).status == 201
    made = [args for name, args, _ in conductor.calls if name == "create_runbook"]
    assert made[-1][0]["owner"] == OWNER
    assert house("POST", "/v1/runbooks", {**book, "owner": OTHER}, **who).status == 400
    assert house("POST", "/v1/runbooks", {**book, "public": True}, **who).status == 400


# --- the rules ----------------------------------------------------------------------


@pytest.fixture
def policy(tmp_path, conf):
    """Writes the policy file."""
    path = tmp_path / "policy.yaml"
    conf.set_override("policy_file", str(path), group="oslo_policy")

    def write(**rules):
        path.write_text("".join(f'"{name}": "{check}"\n' for name, check in rules.items()))
        return path

    write()
    return write


def test_the_policy_file_changes_rules(house, policy, conf, sqlite, conductor):
    policy(**{"baremetal:node:get_states": "!", "show_password": "role:admin"})
    door = Door(conf, sqlite, conductor, keystone(conf))
    refused = door("GET", "/v1/nodes/owned/states", **token("system", "admin"))
    assert refused.status == 403 and "baremetal:node:get_states" in refused.fault
    shown = door("GET", "/v1/nodes/owned", **token("system", "admin")).body
    assert shown["driver_info"]["password"] == "hunter2"
    assert shown["instance_info"]["admin_password"] == "******", "another rule's to say"
    shown = door("GET", "/v1/nodes/owned", **token("system", "member")).body
    assert shown["driver_info"]["password"] == "******"


def test_a_changed_policy_file_counts_soon_and_a_broken_one_does_not(
    house, policy, conf, sqlite, conductor, monkeypatch, caplog
):
    policy()
    entrance = keystone(conf)
    door = Door(conf, sqlite, conductor, entrance)

    def status():
        entrance.enforcer._looked = 0.0
        return door("GET", "/v1/nodes/owned/states", **token("system", "reader")).status

    assert status() == 200
    path = policy(**{"baremetal:node:get_states": "role:nobody"})
    assert status() == 403
    path.write_text('"baremetal:node:get_states": "role:a and and"')
    assert status() == 403 and "The rules of before stay in force" in caplog.text
    path.write_text("")
    assert status() == 200


@pytest.mark.parametrize("check", ["opa:x", "rule:ours", "not (role:nobody or not opa:x)"])
def test_a_rule_that_asks_elsewhere_is_asked_each_time(
    house, policy, conf, sqlite, conductor, monkeypatch, check
):
    """What oslo.policy has by plugins, like ``http:``, may answer otherwise the next time."""
    answers = [True, False, True]

    class Elsewhere(_checks.Check):
        def __call__(self, target, creds, enforcer, current_rule=None):
            return answers.pop(0)

    monkeypatch.setattr(_checks, "extension_checks", {"opa": Elsewhere})
    policy(**{"baremetal:node:get_states": check, "ours": "opa:x"})
    door = Door(conf, sqlite, conductor, keystone(conf))
    states = [
        door("GET", "/v1/nodes/owned/states", **token("system", "admin")).status for _ in range(3)
    ]
    assert states == [200, 403, 200]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[1, 2", "cannot be read"),
        ('"a": {"b": 1}', "cannot be"),
        ("just words", "cannot be read"),
        ('"baremetal:node:get": "role:a and"', "cannot be understood"),
        ('"baremetal:node:get": "rule:nothing"', "asks for rule:nothing, which is not there"),
        ('"a": "rule:b"\n"b": "rule:a"', "asks for itself"),
        ('"baremetal:step:execute:radi.create": "!"', "is the rule of no step"),
        ('"baremetal:step:execute:raid": "!"', "is the rule of no step"),
    ],
)
def test_a_policy_file_that_cannot_be_used_stops_the_start(policy, conf, text, told):
    path = policy()
    path.write_text(text)
    with pytest.raises(exceptions.ConfigurationError) as refused:
        access.Access.of(conf)
    assert told in refused.value.message and str(path) in refused.value.message


def test_a_policy_file_that_is_named_has_to_be_there(conf, tmp_path):
    conf.set_override("policy_file", str(tmp_path / "nothing.yaml"), group="oslo_policy")
    with pytest.raises(exceptions.ConfigurationError, match="no such file"):
        access.Access.of(conf)


def test_a_rule_that_there_is_none_of_is_told(policy, conf, caplog):
    policy(**{"baremetal:node:gett": "!"})
    access.Access.of(conf)
    assert "there is no rule 'baremetal:node:gett'" in caplog.text


def test_metrics_are_open_to_everybody_when_a_rule_says_so(policy, conf, sqlite, conductor):
    assert Door(conf, sqlite, conductor, keystone(conf))("GET", "/metrics").status == 401
    policy(**{"baremetal:metrics:get": "@", "baremetal:node:list": "@"})
    door = Door(conf, sqlite, conductor, keystone(conf))
    assert door("GET", "/metrics").status == 200
    assert door("GET", "/v1/nodes").status == 401, "only agents and metrics can be opened so"


def test_rules_have_words(conf):
    for rule in list_rules():
        assert rule.description and rule.description.endswith((".", "too.")), rule.name


# --- nothing is forgotten -----------------------------------------------------------


class Forgetful(call.Resource):
    """A resource that forgets to ask about the node, and one method that it does not declare."""

    operations: ClassVar = {
        "GET": Operation(summary="s", rule="baremetal:node:get", answers={200: None}),
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Answer."""
        resp.text = "what nobody may see"

    def on_put(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Answer."""
        resp.text = "what nobody may do"


def test_an_answer_of_which_no_rule_was_asked_is_kept_back(conf, sqlite, conductor, caplog):
    door = Door(conf, sqlite, conductor, keystone(conf))
    resource = Forgetful(call.Services(conf, sqlite, conductor))
    door.app.add_route("/nodes/{ident}/forgetful", resource)
    for scope in ("system", "other"):
        answer = door("GET", "/nodes/n1/forgetful", **token(scope, "admin"))
        assert answer.status == 500 and "nobody" not in answer.text
    assert "was answered without asking a rule" in caplog.text
    assert door("PUT", "/nodes/n1/forgetful", **token("system", "admin")).status == 403


def test_requests_are_logged_with_id_user_and_duration(users, conf, sqlite, conductor, caplog):
    caplog.set_level(logging.INFO)
    door = Door(conf, sqlite, conductor)
    answer = door("GET", "/v1/nodes", **basic("alice", "secret"))
    request_id = answer.headers["openstack-request-id"]
    (record,) = [r for r in caplog.records if getattr(r, "context", None) is not None]
    assert record.context.request_id == request_id
    line = record.getMessage()
    assert line.startswith("alice GET /v1/nodes 200 ") and line.endswith(" s")
    door("GET", "/v1/nodes", **basic("alice", "wrong-secret"))
    assert "wrong-secret" not in caplog.text and "c2VjcmV0" not in caplog.text
    assert basic("alice", "secret")["Authorization"] not in caplog.text
