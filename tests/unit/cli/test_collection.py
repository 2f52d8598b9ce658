"""What the groups for collections share, and what each of them has of its own."""

import json

import pytest

from deploysteps.cli.errors import ExitCode

NODE = "5d1a5b2c-6f1a-4b8a-9d51-000000000001"


@pytest.fixture
def one(stub, made):
    stub.on("GET", "/v1/nodes/n", made.node())
    for place in ("ports", "portgroups", "chassis", "allocations"):
        stub.on("POST", f"/v1/{place}", {"uuid": "u"}, status=201)
        stub.on("PATCH", f"/v1/{place}/u", {"uuid": "u"})
    return stub


@pytest.mark.parametrize(
    ("command", "body"),
    [
        (
            ("port", "create", "52:54:00:00:00:01", "--node", "n", "--name", "eth0",
             "--pxe-enabled", "false", "--local-link", "port_id=e1"),
            {"address": "52:54:00:00:00:01", "node_uuid": NODE, "name": "eth0",
             "pxe_enabled": False, "local_link_connection": {"port_id": "e1"}},
        ),
        (
            ("portgroup", "create", "--node", "n", "--mode", "802.3ad", "--property", "miimon=100"),
            {"node_uuid": NODE, "mode": "802.3ad", "properties": {"miimon": 100}},
        ),
        (("chassis", "create"), {}),
        (("chassis", "create", "--description", "rack 1"), {"description": "rack 1"}),
        (
            ("allocation", "create", "--node", "n", "--owner", "me", "--extra", "a=1"),
            {"node": "n", "owner": "me", "extra": {"a": 1}},
        ),
    ],
)  # fmt: skip
def test_what_is_made_has_what_was_given(one, ok, command, body):
    ok(*command)
    assert one.last("POST")["body"] == body


def test_a_port_is_given_to_another_machine_by_its_name(one, ok):
    ok("port", "set", "u", "--node", "n", "--address", "52:54:00:00:00:02", "--extra", "a/b=x")
    assert one.last("PATCH")["body"] == [
        {"op": "add", "path": "/address", "value": "52:54:00:00:00:02"},
        {"op": "add", "path": "/extra/a~1b", "value": "x"},
        {"op": "add", "path": "/node_uuid", "value": NODE},
    ]


def test_fields_are_emptied(one, ok):
    ok("chassis", "unset", "u", "description", "extra/a")
    assert one.last("PATCH")["body"] == [
        {"op": "remove", "path": "/description"},
        {"op": "remove", "path": "/extra/a"},
    ]


def test_a_list_is_narrowed_sorted_and_cut(stub, ok):
    first = {"portgroups": [{"uuid": "u", "name": "g"}], "next": "http://x/v1/portgroups?marker=u"}
    stub.on("GET", "/v1/portgroups", first)
    told = ok("portgroup", "list", "--node", "n", "--fields", "uuid, name", "--limit", "1",
              "--sort-key", "name", "--sort-dir", "desc")  # fmt: skip
    assert told.stdout.split() == ["UUID", "NAME", "u", "g"] and "--limit" in told.stderr
    assert stub.last("GET")["query"] == {
        "node": "n", "fields": "uuid,name", "limit": "1", "sort_key": "name", "sort_dir": "desc",
    }  # fmt: skip


def test_an_empty_list_that_was_narrowed_does_not_say_that_there_are_none(stub, ok):
    stub.on("GET", "/v1/nodes", {"nodes": []})
    assert "no nodes that fit" in ok("node", "list", "--owner", "me").stdout
    assert "node create" in ok("node", "list").stdout


def test_a_list_without_columns_is_refused(stub, failing):
    assert failing("chassis", "list", "--fields", ",")[0] == ExitCode.USAGE
    assert stub.asked == []


def test_what_cannot_be_removed_does_not_keep_the_others(stub, run):
    stub.on_error("DELETE", "/v1/nodes/a", 409, "a is locked")
    stub.on("DELETE", "/v1/nodes/b", status=204)
    stub.on_error("DELETE", "/v1/nodes/c", 404, "c is not there")
    ended = run("node", "delete", "a", "b", "c")
    assert ended.stdout == "deleted b\n" and ended.exit_code == ExitCode.CONFLICT
    assert ended.stderr == "Error: a is locked (HTTP 409); c is not there (HTTP 404)\n"
    ended = run("node", "delete", "a", "--json")
    assert json.loads(ended.stdout) == {"deleted": []}


def test_a_service_that_goes_away_is_asked_for_no_more_removals(stub, run):
    stub.on("DELETE", "/v1/ports/a", status=204)
    stub.on("DELETE", "/v1/ports/b", ConnectionError)
    ended = run("port", "delete", "a", "b", "c")
    assert ended.stdout == "deleted a\n" and ended.exit_code == ExitCode.UNREACHABLE
    assert [asked["path"] for asked in stub.asked if asked["method"] == "DELETE"][-1] != (
        "/v1/ports/c"
    )
    assert ended.stderr.endswith("; not tried: c\n")


def test_a_service_that_refuses_one_for_now_is_asked_to_remove_the_others(stub, run):
    stub.on_error("DELETE", "/v1/nodes/a", 503, "The database does not answer; try again.")
    stub.on("DELETE", "/v1/nodes/b", status=204)
    ended = run("node", "delete", "a", "b")
    assert ended.stdout == "deleted b\n" and ended.exit_code == ExitCode.CONFLICT


def test_another_hardware_type_brings_its_interfaces(stub, ok, made):
    stub.on("PATCH", "/v1/nodes/n", made.node())
    ok("node", "set", "n", "--driver", "rack", "--reset-interfaces")
    assert stub.last("PATCH")["query"] == {"reset_interfaces": "True"}
    ok("node", "set", "n", "--network-data", "links=[]", "--conductor-group", "a")
    assert stub.last("PATCH")["query"] == {}
    assert stub.last("PATCH")["body"] == [
        {"op": "add", "path": "/network_data/links", "value": []},
        {"op": "add", "path": "/conductor_group", "value": "a"},
    ]
