import json

import pytest

from deploysteps import states, steps
from deploysteps.cli import waiting, watch
from deploysteps.cli.errors import ExitCode
from tests.unit.cli.conftest import UUID

PROVISION = f"/v1/nodes/{UUID}/states/provision"


def test_create_sends_what_was_given_and_no_more(stub, ok, made):
    stub.on("POST", "/v1/nodes", made.node("enroll"), status=201)
    result = ok(
        *("node", "create", "--driver", "fake-hardware", "--name", "node-1"),
        *("--driver-info", "address=10.0.0.1", "--driver-info", "port=623"),
        *("--property", "cpus=2", "--extra", "a=b=c", "--deploy-interface", "fake"),
    )
    assert stub.last("POST")["body"] == {
        "driver": "fake-hardware",
        "name": "node-1",
        "driver_info": {"address": "10.0.0.1", "port": 623},
        "properties": {"cpus": 2},
        "extra": {"a": "b=c"},
        "deploy_interface": "fake",
    }
    assert "enroll" in result.stdout and "links" not in result.stdout


@pytest.mark.parametrize("kind", steps.INTERFACE_TYPES)
def test_every_interface_can_be_named(stub, ok, made, kind):
    stub.on("POST", "/v1/nodes", made.node(), status=201)
    ok("node", "create", "--driver", "d", f"--{kind}-interface", "x")
    assert stub.last("POST")["body"][f"{kind}_interface"] == "x"


def test_a_pair_without_an_equals_sign_is_refused(failing):
    code, line = failing("node", "create", "--driver", "d", "--extra", "oops")
    assert (code, "key=value" in line) == (2, True)


def test_list_follows_pages_wherever_the_links_point(stub, ok, made):
    stub.on(
        "GET",
        "/v1/nodes",
        {
            "nodes": [made.node(name="a")],
            "next": "https://public.example/v1/nodes?marker=m&limit=1",
        },
        {"nodes": [made.node(name="b", provision_state="deploy failed")]},
    )
    result = ok("node", "list", "--driver", "d", "--maintenance", "false")
    assert stub.asked[0]["query"]["driver"] == "d"
    assert stub.asked[0]["query"]["maintenance"] == "False"
    assert stub.asked[1]["query"] == {"marker": "m", "limit": "1"}
    head, *rows = result.stdout.splitlines()
    assert head.split() == [
        "UUID",
        "NAME",
        "DRIVER",
        "PROVISION_STATE",
        "POWER_STATE",
        "MAINTENANCE",
    ]
    assert len(rows) == 2 and "deploy failed" in rows[1]


def test_list_stops_at_the_limit(stub, ok, made):
    page = {"nodes": [made.node()] * 2, "next": "http://x/v1/nodes?marker=m"}
    stub.on("GET", "/v1/nodes", page)
    result = ok("node", "list", "--limit", "2", "--json")
    assert len(json.loads(result.stdout)) == 2 and len(stub.asked) == 1
    assert result.stderr == "there are more than these 2; see --limit\n"


@pytest.mark.parametrize(
    "name", ["resource_class", "owner", "fault", "conductor", "conductor_group"]
)
def test_a_list_is_narrowed_by(stub, ok, name):
    stub.on("GET", "/v1/nodes", {"nodes": []})
    ok("node", "list", f"--{name.replace('_', '-')}", "x")
    assert stub.last("GET")["query"][name] == "x"


def test_an_empty_list_says_what_to_do(stub, ok):
    stub.on("GET", "/v1/nodes", {"nodes": []})
    assert "node create" in ok("node", "list").stdout
    assert json.loads(ok("node", "list", "--json").stdout) == []


def test_a_name_is_one_part_of_the_path(stub, failing):
    failing("node", "show", "../drivers?x=1")
    assert stub.asked[0]["path"] == "/v1/nodes/..%2Fdrivers%3Fx%3D1"


def test_show_can_be_narrowed(stub, ok, made):
    stub.on("GET", "/v1/nodes/n", made.node())
    ok("node", "show", "n", "--fields", "uuid,name")
    assert stub.last("GET")["query"] == {"fields": "uuid,name"}


def test_set_and_unset_are_patches(stub, ok, made, failing):
    stub.on("PATCH", "/v1/nodes/n", made.node())
    ok("node", "set", "n", "--name", "new", "--driver-info", "a/b~c=1", "--bios-interface", "fake")
    assert stub.last("PATCH")["body"] == [
        {"op": "add", "path": "/name", "value": "new"},
        {"op": "add", "path": "/driver_info/a~1b~0c", "value": 1},
        {"op": "add", "path": "/bios_interface", "value": "fake"},
    ]
    ok("node", "unset", "n", "driver_info/address", "/name")
    assert [item["path"] for item in stub.last("PATCH")["body"]] == [
        "/driver_info/address",
        "/name",
    ]
    assert failing("node", "set", "n")[0] == ExitCode.USAGE


def test_delete_several(stub, ok, failing):
    stub.on("DELETE", "/v1/nodes/a", status=204)
    stub.on("DELETE", "/v1/nodes/b", status=204)
    assert "deleted a, b" in ok("node", "delete", "a", "b").stdout
    assert json.loads(ok("node", "delete", "a", "--json").stdout) == {"deleted": ["a"]}
    assert failing("node", "delete", "a", "missing")[0] == ExitCode.NOT_FOUND


def test_validate_fails_when_an_interface_does(stub, ok, run):
    good = {"power": {"result": True}, "raid": {"result": None, "reason": "not supported"}}
    stub.on("GET", "/v1/nodes/n/validate", good)
    assert "not supported" in ok("node", "validate", "n").stdout
    stub.on("GET", "/v1/nodes/n/validate", good | {"boot": {"result": False, "reason": "no x"}})
    result = run("node", "validate", "n")
    assert result.exit_code == 1 and "no x" in result.stdout and "boot" in result.stderr


@pytest.mark.parametrize(
    ("verb", "target"),
    [
        ("manage", "manage"),
        ("provide", "provide"),
        ("undeploy", "deleted"),
        ("abort", "abort"),
        ("deploy", "active"),
        ("rebuild", "rebuild"),
        ("unhold", "unhold"),
        ("inspect", "inspect"),
        ("adopt", "adopt"),
        ("unrescue", "unrescue"),
    ],
)
def test_verbs_ask_and_return(stub, ok, made, verb, target):
    stub.on("PUT", "/v1/nodes/n/states/provision", status=202)
    stub.on("GET", "/v1/nodes/n", made.node("deploying"))
    assert "watch n" in ok("node", verb, "n").stdout
    assert stub.last("PUT")["body"] == {"target": target}
    assert json.loads(ok("node", verb, "n", "--json").stdout) == {"node": "n", "target": target}


def test_a_rescue_asks_for_a_password(stub, ok, made, run):
    stub.on("PUT", "/v1/nodes/n/states/provision", status=202)
    stub.on("GET", "/v1/nodes/n", made.node("rescuing"))
    shown = ok("node", "rescue", "n", "--rescue-password", "let me in")
    assert stub.last("PUT")["body"] == {"target": "rescue", "rescue_password": "let me in"}
    assert "let me in" not in shown.stdout + shown.stderr


@pytest.mark.parametrize(
    ("event", "state", "target", "wanted"),
    [
        (states.INSPECT, "manageable", None, "manageable"),
        (states.ADOPT, "manageable", None, "active"),
        (states.TO_RESCUE, "active", None, "rescue"),
        (states.UNRESCUE, "rescue", None, "active"),
        (states.ABORT, "inspect wait", "manageable", "inspect failed"),
        (states.MANAGE, "enroll", None, "manageable"),
        (states.MANAGE, "clean failed", "manageable", "manageable"),
        (states.PROVIDE, "manageable", None, "available"),
        (states.CLEAN, "manageable", None, "manageable"),
        (states.DEPLOY, "available", None, "active"),
        (states.REBUILD, "active", None, "active"),
        (states.SERVICE, "active", None, "active"),
        (states.DELETE, "active", None, "available"),
        (states.DELETE, "service hold", "active", "available"),
        (states.ABORT, "wait call-back", "active", "deploy failed"),
        (states.ABORT, "clean wait", "manageable", "clean failed"),
        (states.ABORT, "servicing", "active", "service failed"),
        (states.ABORT, "verifying", "manageable", "enroll"),
        (states.UNHOLD, "deploy hold", "active", "active"),
        (states.UNHOLD, "clean hold", "manageable", "manageable"),
        (states.UNHOLD, "clean hold", "available", "available"),
        # without the node's state, or when it has moved on meanwhile
        (states.MANAGE, None, None, "manageable"),
        (states.PROVIDE, None, None, "available"),
        (states.DEPLOY, "active", None, "active"),
    ],
)
def test_where_a_verb_leads_is_read_from_the_state_table(event, state, target, wanted):
    assert waiting.goal(event, state, target) == wanted


STEPS = [{"interface": "deploy", "step": "deploy", "priority": 0, "args": {}}]


@pytest.mark.parametrize("form", ["text", "file", "stdin"])
@pytest.mark.parametrize("verb", ["deploy", "rebuild"])
def test_deploy_steps_come_as_text_file_or_stdin(stub, ok, tmp_path, verb, form):
    stub.on("PUT", "/v1/nodes/n/states/provision", status=202)
    text = json.dumps(STEPS)
    (tmp_path / "steps.json").write_text(text)
    argument = {"text": text, "file": "@steps.json", "stdin": "-"}[form]
    ok("node", verb, "n", "--deploy-steps", argument, "--config-drive", "c", input=text)
    assert stub.last("PUT")["body"]["deploy_steps"] == STEPS
    assert stub.last("PUT")["body"]["configdrive"] == "c"


@pytest.mark.parametrize(
    ("argument", "told"),
    [
        ("{", "not JSON"),
        ("{}", "JSON list"),
        ("@missing.json", "cannot read missing.json: No such file"),
        ("[" * 100_000, "not JSON"),
    ],
)
def test_deploy_steps_that_are_none(stub, failing, argument, told):
    code, line = failing("node", "deploy", "n", "--deploy-steps", argument)
    assert code == ExitCode.USAGE and told in line and not stub.asked


def test_deploy_waits_and_tells_each_change(stub, ok, made, follows):
    stub.on("PUT", "/v1/nodes/n/states/provision", status=202)
    erase, write = made.attempt("raid.erase"), made.attempt("deploy.write")
    follows(
        (made.node("deploying"), made.run(made.attempt("raid.erase", "running"))),
        (made.node("wait call-back"), made.run(erase, made.attempt("deploy.write", "waiting"))),
        (made.node("wait call-back"), made.run(erase, made.attempt("deploy.write", "waiting"))),
        (made.node("active"), made.run(erase, write, outcome="success")),
        before=made.node("available"),
    )
    lines = ok("node", "deploy", "n", "--wait").stdout.splitlines()
    begun, ended = (watch.clock(f"2026-01-02T03:04:0{second}+00:00") for second in (5, 7))
    assert [line.partition("node-1 ")[2] for line in lines] == [
        "is deploying",
        f"raid.erase running since {begun}",
        "raid.erase success after 2.5 s",
        "is wait call-back",
        f"deploy.write waiting since {begun}",
        "deploy.write success after 2.5 s",
        "is active",
    ]
    # What has ended is told with its own time, not with that of the look.
    assert lines[2].startswith(f"{ended} node-1") and lines[5].startswith(f"{ended} node-1")


def test_deploy_that_fails_says_why(stub, run, made, follows):
    stub.on("PUT", "/v1/nodes/n/states/provision", status=202)
    bad = made.attempt("deploy.write", outcome="failed", error="disk is dead", number=2)
    follows(
        (
            made.node("deploy failed", last_error="deploy.write failed: disk is dead"),
            made.run(
                made.attempt("deploy.write", outcome="failed", error="x"), bad, outcome="failed"
            ),
        )
    )
    result = run("node", "deploy", "n", "--wait")
    assert result.exit_code == 1
    assert "deploy.write failed after 2.5 s - x" in result.stdout
    assert "deploy.write failed (attempt 2) after 2.5 s - disk is dead" in result.stdout
    assert "'deploy failed', not 'active': deploy.write failed: disk is dead" in result.stderr


def test_deploy_refused_is_told_at_once(stub, failing, made, follows):
    follows((made.node(), None))
    stub.on_error("PUT", "/v1/nodes/n/states/provision", 409, "Node n is locked by host c1")
    code, line = failing("node", "deploy", "n", "--wait")
    assert code == ExitCode.CONFLICT and "locked by host c1" in line


def refused(state):
    return (
        f'The requested action "x" can not be performed on node "n" while it is in state "{state}".'
    )


@pytest.mark.parametrize(
    ("verb", "state", "told"),
    [
        ("deploy", "active", "possible now: rebuild, undeploy"),
        ("deploy", "enroll", "possible now: manage"),
        ("undeploy", "deleting", "possible now: to wait"),
        ("abort", "active", "there is nothing to abort: "),
    ],
)
def test_a_refusal_names_what_is_possible(stub, failing, made, verb, state, told):
    stub.on("GET", "/v1/nodes/n", made.node(state))
    stub.on_error("PUT", "/v1/nodes/n/states/provision", 400, refused(state))
    code, line = failing("node", verb, "n")
    assert code == ExitCode.USAGE and told in line and f'"{state}"' in line


def test_a_second_abort_says_that_there_is_nothing_to_abort(stub, ok, made):
    stub.on("GET", "/v1/nodes/n", made.node("deploy failed"))
    stub.on("PUT", "/v1/nodes/n/states/provision", status=202)
    told = ok("node", "abort", "n", "--wait").stdout
    assert told == "n: there is nothing to abort, it is 'deploy failed'\n"


MAINTENANCE_ON = "`deploysteps node maintenance n on`, and abort again"


@pytest.mark.parametrize(
    ("node_is", "maintenance", "fault", "abortable", "told"),
    [
        ("clean wait", False, None, False, MAINTENANCE_ON),
        ("clean wait", True, "clean failure", False, MAINTENANCE_ON),
        ("clean wait", True, None, False, None),
        ("cleaning", True, None, False, None),
        ("cleaning", False, None, False, f"wait, that can be ended at once: {MAINTENANCE_ON}"),
        ("clean wait", False, None, True, None),
        ("clean wait", False, None, None, None),
    ],
)
def test_an_abort_that_has_to_wait_says_how_it_need_not(
    stub, ok, made, node_is, maintenance, fault, abortable, told
):
    step = {"interface": "deploy", "step": "erase", "abortable": abortable}
    node = {**made.node(node_is), "maintenance": maintenance, "fault": fault, "clean_step": step}
    stub.on("GET", "/v1/nodes/n", node)
    stub.on("PUT", "/v1/nodes/n/states/provision", status=202)
    first, *more = ok("node", "abort", "n").stdout.splitlines()
    assert bool(more) == bool(told)
    if told:
        assert first.startswith("n: deploy.erase is not abortable, so the run ends when")
        assert first.endswith(told)


def test_an_error_names_the_command_and_not_the_request(stub, failing):
    for path, command in (("<node>/steps", "node steps NODE"), ("n1/runs", "node runs n1")):
        text = f"no step deploy.x; GET /v1/nodes/{path} lists what there is"
        stub.on_error("PUT", "/v1/nodes/n/states/provision", 400, text)
        line = failing("node", "deploy", "n")[1]
        assert f"no step deploy.x; `deploysteps {command}` lists what there is" in line


def test_a_state_that_is_none_is_told_with_those_that_are(failing, ok, stub):
    code, line = failing("node", "list", "--provision-state", "activ")
    assert code == ExitCode.USAGE and all(f"'{state}'" in line for state in states.STATES)
    stub.on("GET", "/v1/nodes", {"nodes": []})
    ok("node", "list", "--provision-state", "deploy failed")
    assert stub.last("GET")["query"]["provision_state"] == "deploy failed"


def test_manage_that_falls_back_fails(stub, failing, made, follows):
    stub.on("PUT", "/v1/nodes/n/states/provision", status=202)
    follows((made.node("verifying"), None), (made.node("enroll", last_error="no power"), None))
    assert "no power" in run_line(failing("node", "manage", "n", "--wait"))


def run_line(result):
    return result[1]


def test_waiting_has_a_limit(stub, run, made, follows):
    stub.on("PUT", "/v1/nodes/n/states/provision", status=202)
    follows((made.node("deploying"), made.run(made.attempt("deploy.deploy", "running"))))
    result = run("node", "deploy", "n", "--wait", "--timeout", "0.01")
    assert result.exit_code == ExitCode.CONFLICT
    assert "still going on" in result.stderr


def test_power(stub, ok, failing):
    stub.on("PUT", "/v1/nodes/n/states/power", status=202)
    assert "power on asked for" in ok("node", "power", "n", "on").stdout
    going = {"power_state": "power off", "target_power_state": "power on", "last_error": None}
    over = going | {"power_state": "power on", "target_power_state": None}
    stub.on("GET", "/v1/nodes/n/states", going, over)
    assert "n is power on" in ok("node", "power", "n", "reboot", "--wait", "--timeout", "9").stdout
    assert stub.last("PUT")["body"] == {"target": "rebooting", "timeout": 9}
    stub.on("GET", "/v1/nodes/n/states", over | {"last_error": "no BMC"})
    assert "no BMC" in failing("node", "power", "n", "off", "--wait")[1]
    stub.on("GET", "/v1/nodes/n/states", going)
    assert failing("node", "power", "n", "on", "--wait", "--timeout", "0.01")[0] == 4


def test_a_change_of_power_is_waited_for_while_the_service_is_restarted(stub, run, monkeypatch):
    stub.on("PUT", "/v1/nodes/n/states/power", status=202)
    over = {"power_state": "power on", "target_power_state": None, "last_error": None}
    stub.on("GET", "/v1/nodes/n/states", over)
    lost = [(200, ConnectionError), (502, b"<html>"), (503, {"error_message": {"title": "no"}})]
    stub.answers["GET", "/v1/nodes/n/states"][:0] = lost
    ended = run("node", "power", "n", "on", "--wait")
    away, back = ended.stderr.splitlines()
    assert ended.exit_code == 0 and "n is power on" in ended.stdout
    assert "trying again" in away and back == "the service is back"
    monkeypatch.setattr("deploysteps.cli.waiting.PATIENCE", 0.0)
    stub.answers["GET", "/v1/nodes/n/states"] = [(200, ConnectionError)]
    assert run("node", "power", "n", "on", "--wait").exit_code == 5


def test_maintenance(stub, ok, failing):
    stub.on("PUT", "/v1/nodes/n/maintenance", status=202)
    stub.on("DELETE", "/v1/nodes/n/maintenance", status=202)
    ok("node", "maintenance", "n", "on", "--reason", "fan")
    assert stub.last("PUT")["body"] == {"reason": "fan"}
    ok("node", "maintenance", "n", "on")
    assert stub.last("PUT")["body"] == {}
    assert "maintenance off" in ok("node", "maintenance", "n", "off").stdout
    assert failing("node", "maintenance", "n", "off", "--reason", "x")[0] == ExitCode.USAGE
