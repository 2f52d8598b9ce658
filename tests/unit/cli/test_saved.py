"""Deploy templates, runbooks and traits."""

import json

import pytest

from deploysteps.cli.errors import ExitCode

STEPS = [{"interface": "raid", "step": "create", "args": {}, "priority": 5}]
TEXT = json.dumps(STEPS)
PLACES = {"template": "/v1/deploy_templates", "runbook": "/v1/runbooks"}


@pytest.fixture(params=PLACES)
def kind(request):
    return request.param


@pytest.fixture
def item():
    return {"uuid": "u-1", "name": "CUSTOM_A", "steps": STEPS, "extra": {}, "links": []}


@pytest.mark.parametrize("form", ["text", "file", "stdin"])
def test_create_sends_what_was_given_and_no_more(stub, ok, tmp_path, kind, item, form):
    stub.on("POST", PLACES[kind], item, status=201)
    (tmp_path / "steps.json").write_text(TEXT)
    argument = {"text": TEXT, "file": "@steps.json", "stdin": "-"}[form]
    told = ok(kind, "create", "CUSTOM_A", "--steps", argument, "--extra", "a=1", input=TEXT)
    body = {"name": "CUSTOM_A", "steps": STEPS, "extra": {"a": 1}}
    assert stub.last("POST")["body"] == body
    assert "CUSTOM_A" in told.stdout and "links" not in told.stdout


def test_a_runbook_has_more(stub, ok, item):
    stub.on("POST", "/v1/runbooks", item, status=201)
    stub.on("PATCH", "/v1/runbooks/CUSTOM_A", item)
    ok("runbook", "create", "CUSTOM_A", "--steps", TEXT, "--description", "d", "--owner", "me",
       "--public", "--disable-ramdisk")  # fmt: skip
    more = {"description": "d", "owner": "me", "public": True, "disable_ramdisk": True}
    assert stub.last("POST")["body"] == {"name": "CUSTOM_A", "steps": STEPS, **more}
    ok("runbook", "set", "CUSTOM_A", "--no-public", "--no-disable-ramdisk")
    assert stub.last("PATCH")["body"] == [
        {"op": "add", "path": "/public", "value": False},
        {"op": "add", "path": "/disable_ramdisk", "value": False},
    ]


def test_steps_are_needed(stub, failing, kind):
    for args in ((), ("--steps", "{}"), ("--steps", "[")):
        assert failing(kind, "create", "CUSTOM_A", *args)[0] == ExitCode.USAGE
    assert stub.asked == []


def test_list_show_set_delete(stub, ok, failing, kind, item):
    place = PLACES[kind]
    stub.on("GET", place, {place.removeprefix("/v1/"): [item]})
    assert "CUSTOM_A" in ok(kind, "list").stdout
    stub.on("GET", f"{place}/CUSTOM_A", item)
    assert json.loads(ok(kind, "show", "CUSTOM_A", "--json").stdout) == item
    stub.on("PATCH", f"{place}/CUSTOM_A", item)
    ok(kind, "set", "CUSTOM_A", "--name", "CUSTOM_B", "--steps", TEXT, "--extra", "a/b=1")
    assert stub.last("PATCH")["body"] == [
        {"op": "add", "path": "/name", "value": "CUSTOM_B"},
        {"op": "add", "path": "/steps", "value": STEPS},
        {"op": "add", "path": "/extra/a~1b", "value": 1},
    ]
    assert failing(kind, "set", "CUSTOM_A")[0] == ExitCode.USAGE
    for name in ("CUSTOM_A", "CUSTOM_B"):
        stub.on("DELETE", f"{place}/{name}", status=204)
    assert "deleted CUSTOM_A, CUSTOM_B" in ok(kind, "delete", "CUSTOM_A", "CUSTOM_B").stdout
    assert failing(kind, "delete", "../nodes")[0] == ExitCode.NOT_FOUND


def test_an_empty_list_says_what_to_do(stub, ok, kind):
    stub.on("GET", PLACES[kind], {PLACES[kind].removeprefix("/v1/"): []})
    assert f"{kind} create" in ok(kind, "list").stdout


def test_traits(stub, ok, failing):
    path = "/v1/nodes/n/traits"
    stub.on("GET", path, {"traits": ["CUSTOM_A"]})
    for method in ("PUT", "DELETE"):
        stub.on(method, path, status=204)
        stub.on(method, f"{path}/CUSTOM_A", status=204)
    assert ok("node", "traits", "list", "n").stdout.split() == ["TRAIT", "CUSTOM_A"]
    assert json.loads(ok("node", "traits", "add", "n", "CUSTOM_A", "--json").stdout) == ["CUSTOM_A"]
    assert (stub.last("PUT")["path"], stub.last("PUT")["body"]) == (f"{path}/CUSTOM_A", None)
    ok("node", "traits", "set", "n", "CUSTOM_B", "CUSTOM_A")
    assert stub.last("PUT")["body"] == {"traits": ["CUSTOM_B", "CUSTOM_A"]}
    ok("node", "traits", "remove", "n", "CUSTOM_A")
    assert stub.last("DELETE")["path"] == f"{path}/CUSTOM_A"
    ok("node", "traits", "clear", "n")
    assert stub.last("DELETE")["path"] == path
    stub.on("GET", path, {"traits": []})
    assert "no traits" in ok("node", "traits", "list", "n").stdout
    assert failing("node", "traits", "add", "n")[0] == ExitCode.USAGE
    assert failing("node", "traits", "remove", "n", "CUSTOM_X")[0] == ExitCode.NOT_FOUND
