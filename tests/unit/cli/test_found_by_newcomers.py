"""What somebody who met the commands for the first time stumbled over."""

import time

import pytest

from deploysteps.cli import runs, watch
from deploysteps.cli.errors import ExitCode
from tests.unit.cli.conftest import UUID

LEFT = {
    "interface": "deploy",
    "step": "erase_devices",
    "priority": 10,
    "source": "driver",
    "why": "[conductor] automated_clean is off",
}
WAITS = {"waits_for": "agent", "deadline": "2026-01-02T04:04:05.000000+00:00"}


@pytest.fixture
def policy(tmp_path, monkeypatch):
    """Write a policy file and name it."""
    path = tmp_path / "policy.yaml"
    monkeypatch.setenv("OS_OSLO_POLICY__POLICY_FILE", str(path))
    return path.write_text


def listed(stub, node, run):
    stub.on("GET", "/v1/nodes/n/runs", {"runs": [run]})
    stub.on("GET", f"/v1/nodes/n/runs/{run['uuid']}", run | {"node_uuid": UUID, "plan": []})
    stub.on("GET", "/v1/nodes/n", node)


# --- runs --------------------------------------------------------------------------------


def test_a_cleaning_that_did_nothing_does_not_pass_for_an_erasure(ok, stub, made):
    """An auditor reads `clean success`; that the disks were not erased has to stand there."""
    listed(stub, made.node(), made.run(flow="clean", outcome="success", left_out=[LEFT]))
    told = ok("node", "runs", "n").stdout
    assert (
        "nothing was done; left out: deploy.erase_devices ([conductor] automated_clean is" in told
    )
    told = ok("node", "run", "n").stdout
    assert "nothing was done" in told and "automated_clean is off" in told


def test_a_run_that_did_something_is_told_as_before(ok, stub, made):
    listed(stub, made.node(), made.run(made.attempt("deploy.a"), outcome="success"))
    assert "nothing was done" not in ok("node", "runs", "n").stdout


@pytest.mark.parametrize(
    ("info", "heard"),
    [
        ({}, "never called"),
        ({"agent_last_heartbeat": "2026-01-02T03:30:00.000000+00:00"}, "last heard 2026-01-02"),
    ],
)
@pytest.mark.parametrize("command", ["runs", "run", "watch"])
def test_a_wait_says_for_whom_and_until_when(ok, stub, made, follows, command, info, heard):
    waiting = made.run(made.attempt("deploy.x", "waiting", **WAITS))
    node = made.node("deploy wait", driver_internal_info=info)
    listed(stub, node, waiting)
    if command == "watch":
        over = made.run(made.attempt("deploy.x"), outcome="success")
        follows((node, waiting), (made.node("active"), over))
    told = ok("node", command, "n").stdout
    assert f"waits for the agent ({heard}" in told and "fails at 2026-01-02" in told


def test_a_wait_for_the_agent_tells_until_when_it_may_be_silent(ok, stub, made):
    """Its deadline is a week away, and half an hour of silence ends it."""
    silent = {"silent_at": "2026-01-02T03:34:05.000000+00:00"}
    listed(stub, made.node(), made.run(made.attempt("deploy.x", "waiting", **WAITS, **silent)))
    told = ok("node", "run", "n").stdout
    assert f"fails at {watch.clock(silent['silent_at'])} if it is silent until then" in told
    assert watch.clock(WAITS["deadline"]) not in told


@pytest.mark.parametrize("silent", ["2026-01-02T04:34:05.000000+00:00", WAITS["deadline"], None])
def test_a_wait_that_ends_before_silence_would_end_it_tells_that(ok, stub, made, silent):
    """A step may have less time than the agent has to be silent."""
    attempt = made.attempt("deploy.x", "waiting", **WAITS, silent_at=silent)
    listed(stub, made.node(), made.run(attempt))
    told = ok("node", "run", "n").stdout
    assert f"fails at {watch.clock(WAITS['deadline'])}" in told and "silent" not in told


def test_a_wait_that_is_over_is_not_told(ok, stub, made):
    over = made.attempt("deploy.x", "finished", **WAITS)
    listed(stub, made.node(), made.run(over, outcome="success"))
    assert "waits" not in ok("node", "run", "n").stdout.replace("waits_for", "")


def test_a_plan_that_is_refused_is_told_by_its_reason_alone(run, stub):
    found = {"flow": "deploy", "steps": [], "left_out": [], "unknown": [], "note": None}
    stub.on("POST", "/v1/nodes/n/plan", found | {"problem": "policy forbids raid.create"})
    ended = run("node", "plan", "n")
    assert ended.exit_code == ExitCode.FAILED and "policy forbids raid.create" in ended.stderr
    assert "no step would run" not in ended.stdout


@pytest.mark.parametrize("flow", ["inspect", "adopt", "rescue", "unrescue"])
def test_events_of_work_without_steps_can_be_followed(ok, stub, flow):
    event = {"at": "2026-01-02T03:04:05+00:00", "id": 1, "node": UUID, "flow": flow, "type": "x"}
    import json

    stub.on("GET", "/v1/events/stream", f"id: 1\nevent: x\ndata: {json.dumps(event)}\n\n".encode())
    ok("events", "--flow", flow, "--after", "0", "--count", "1")
    assert stub.last("GET")["query"]["flow"] == flow


# --- who asks, and how -----------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "told", "not_told"),
    [
        ('Basic realm="deploysteps"', "OS_AUTH_TYPE=http_basic", "OS_TOKEN"),
        ("Keystone uri='https://id.example.org'", "OS_AUTH_TYPE=v3token", "OS_PASSWORD"),
    ],
)
def test_a_user_that_was_not_sent_is_told_of(failing, stub, monkeypatch, asked, told, not_told):
    """OS_USERNAME alone sends nobody; the refusal says what to set, by what the service takes."""
    monkeypatch.setattr(stub, "headers", {"WWW-Authenticate": asked})
    stub.on_error("GET", "/v1/nodes/n", 401, "no")
    env = {"OS_USERNAME": "u", "OS_PASSWORD": "p"}
    code, line = failing("node", "show", "n", env=env)
    assert code == ExitCode.USAGE and told in line and not_told not in line
    line = failing("node", "show", "n", env=env | {"OS_AUTH_TYPE": "http_basic"})[1]
    assert "was sent" not in line


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("login", [{}, {"OS_AUTH_TYPE": "v3token", "OS_TOKEN": "t"}])
@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("https://metal.example.org/v1/nodes/n?x=1", "leads to https://metal.example.org (HTTP"),
        ("https://u:hunter2@metal.example.org/bm/v1/nodes/n", "@metal.example.org/bm (HTTP"),
        ("/login", "/login (HTTP"),
    ],
)
@pytest.mark.parametrize("command", [("show", "n"), ("watch", "n"), ("set", "n", "--name", "m")])
def test_an_endpoint_that_leads_elsewhere_is_not_followed_but_told(
    failing, stub, monkeypatch, status, login, place, told, command
):
    """A token would go along, and a change would become a question; no service is away."""
    monkeypatch.setattr(stub, "headers", {"Location": place})
    for method in ("GET", "PATCH"):
        stub.on(method, "/v1/nodes/n", None, status=status)
    code, line = failing("node", *command, env=login)
    assert code == ExitCode.USAGE and told in line and "set OS_ENDPOINT" in line
    assert "serve" not in line.replace("the service", "") and "hunter2" not in line


@pytest.mark.parametrize("kind", ["v3token", "token", "admin_token"])
def test_a_token_of_the_identity_service_is_sent(ok, stub, kind):
    """With keystone, too, the commands that the field does not have are of use."""
    stub.on("GET", "/v1/nodes/n", {"uuid": UUID})
    ok("node", "show", "n", env={"OS_AUTH_TYPE": kind, "OS_TOKEN": "gAAA-tok"})
    assert stub.last("GET")["headers"]["X-Auth-Token"] == "gAAA-tok"


@pytest.mark.parametrize("env", [{}, {"OS_TOKEN": ""}, {"OS_TOKEN": "a\nb"}])
def test_a_token_that_is_missing_is_asked_for(failing, env):
    code, told = failing("node", "show", "n", env={"OS_AUTH_TYPE": "v3token", **env})
    assert code == ExitCode.USAGE and "openstack token issue" in told


def test_a_kind_of_login_that_is_not_known_says_how_with_keystone(failing):
    code, told = failing("node", "show", "n", env={"OS_AUTH_TYPE": "password"})
    assert code == ExitCode.USAGE and "OS_AUTH_TYPE=v3token" in told


def test_a_token_without_a_word_that_it_is_for_this_service_is_sent_to_nobody(ok, stub):
    stub.on("GET", "/v1/nodes/n", {"uuid": UUID})
    ok("node", "show", "n", env={"OS_TOKEN": "gAAA-tok"})
    assert "X-Auth-Token" not in stub.last("GET")["headers"]


def test_https_to_a_service_without_tls_is_no_question_of_trust(failing, stub):
    endpoint = stub.endpoint.replace("http:", "https:")
    code, told = failing("node", "show", "n", env={"OS_ENDPOINT": endpoint})
    assert code == ExitCode.UNREACHABLE
    assert "speaks no TLS" in told and "trusted" not in told and "]" not in told


def test_a_file_without_certificates_is_told_of_as_such(failing, tmp_path):
    path = tmp_path / "ca.pem"
    path.write_text("nothing\n")
    code, told = failing("node", "show", "n", "--json", env={"OS_CACERT": str(path)})
    assert code == ExitCode.USAGE and str(path) in told and "BEGIN CERTIFICATE" in told
    assert "]" not in told


# --- files -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('"baremetal:node:gett": "!"', "did you mean 'baremetal:node:get'?"),
        ('"baremetal:node:get": "rle:admin"', "no check 'rle': there are role, rule"),
        ('"baremetal:node:get": "not rle:admin"', "no check 'rle'"),
        ('"baremetal:node:get": "role:admin and"', "cannot be understood"),
        ('"baremetal:node:get": "rule:foo"', "rule:foo, which is not there"),
    ],
)
def test_a_policy_file_that_does_nothing_or_locks_out_is_not_good(failing_last, policy, text, told):
    policy(text)
    line = failing_last("policy", "check")
    assert told in line and "Check logs" not in line


@pytest.fixture
def failing_last(run):
    def invoke(*args):
        ended = run(*args)
        assert ended.exit_code == ExitCode.CONFIGURATION, ended.output
        assert "Traceback" not in ended.stderr and "good" not in ended.stdout
        return ended.stderr.strip().splitlines()[-1]

    return invoke


def test_a_rule_of_a_step_that_nobody_has_is_told(failing_last, ok, policy, monkeypatch):
    policy('"baremetal:step:execute:deploy.deply": "!"')
    ended = ok("policy", "check")
    assert "agent may bring it; did you mean deploy.deploy?" in ended.stderr
    assert "good" not in ended.stdout
    monkeypatch.setenv("OS_DEFAULT__ENABLED_DEPLOY_INTERFACES", "fake")
    assert "did you mean deploy.deploy?" in failing_last("policy", "check")


@pytest.mark.parametrize(
    "text",
    [
        '"baremetal:node:get": "role:nobody_has_it"',
        '"mine": "role:a"\n"baremetal:node:get": "rule:mine"',
        '"baremetal:node:get": "project_id:%(node.owner)s or \'a\':%(node.lessee)s"',
        '"baremetal:node:get": [["role:a", "system_scope:all"]]',
        '"baremetal:step:execute:deploy.deploy": "!"',
    ],
)
def test_a_policy_file_that_says_something_is_good(ok, policy, text):
    policy(text)
    told = ok("policy", "check").stdout
    assert "good" in told and "1 rules" not in told


def test_an_option_in_the_wrong_group_is_told_with_its_group(failing_last, run, tmp_path):
    path = tmp_path / "c.conf"
    path.write_text("[api]\nauth_strategy = noauth\n")
    ended = run("--config-file", str(path), "config", "check")
    assert ended.exit_code == ExitCode.CONFIGURATION
    assert "did you mean [DEFAULT] auth_strategy?" in ended.stderr


def test_config_check_tells_all_that_is_wrong_at_once_a_line_for_each(run, tmp_path):
    path = tmp_path / "c.conf"
    path.write_text(
        "[conductor]\nworkers_pool_size = lots\nautomated_clean = maybe\n[databse]\na = b\n"
    )
    ended = run("--config-file", str(path), "config", "check")
    assert ended.exit_code == ExitCode.CONFIGURATION
    told = ended.stderr.splitlines()
    assert len(told) == 3 and all(line.startswith("Error: ") for line in told)
    assert "Error: [conductor] workers_pool_size: 'lots' is no number; allowed: integer" in (
        ended.stderr
    )
    assert told[2].endswith("did you mean database?")


def test_config_check_tells_a_misspelt_name_also_when_a_driver_is_not_there(run, tmp_path):
    path = tmp_path / "c.conf"
    path.write_text(
        "[DEFAULT]\nenabled_hardware_types = fake-hardwear\n[conductor]\nautomated_cleen = true\n"
    )
    ended = run("--config-file", str(path), "config", "check")
    assert ended.exit_code == ExitCode.CONFIGURATION
    driver, name = ended.stderr.splitlines()
    assert "'fake-hardwear'" in driver and name.endswith("did you mean automated_clean?")


def test_an_address_of_a_webhook_says_what_it_begins_with(run, tmp_path):
    path = tmp_path / "c.conf"
    path.write_text("[webhooks]\nurl = localhost:99\nsecret = 0123456789abcdef\n")
    ended = run("--config-file", str(path), "config", "check")
    assert ended.exit_code == ExitCode.CONFIGURATION
    assert "begin with http:// or https://" in ended.stderr and "localhost" not in ended.stderr


def test_a_folder_is_made_for_the_own_place_alone(run, tmp_path):
    path, far = tmp_path / "c.conf", tmp_path / "no" / "such" / "x.sqlite"
    path.write_text(
        f"[DEFAULT]\nstate_path={tmp_path}/var\n[database]\nconnection=sqlite:///{far}\n"
    )
    ended = run("--config-file", str(path), "db", "upgrade")
    assert ended.exit_code == ExitCode.CONFIGURATION, ended.output
    assert f"there is no folder {far.parent}" in ended.stderr and not far.parent.parent.exists()
    path.write_text(f"[DEFAULT]\nstate_path={tmp_path}/var\n")
    assert run("--config-file", str(path), "db", "upgrade").exit_code == 0
    listing = run("--config-file", str(path), "webhooks", "list")
    assert "no [webhooks] url is set" in listing.stdout and "var/deploysteps" in listing.stderr
    retried = run("--config-file", str(path), "webhooks", "retry", "1", "2")
    assert "2 of the 2 are not dead, or not there; 0 are sent again" in retried.stderr


def test_a_warning_of_the_service_is_shown(ok, stub, monkeypatch):
    saved = {"uuid": UUID, "name": "CUSTOM_X", "steps": []}
    stub.on("POST", "/v1/deploy_templates", saved)
    monkeypatch.setattr(stub, "headers", {"Warning": '299 deploysteps "no driver has raid.creat"'})
    ended = ok("template", "create", "CUSTOM_X", "--steps", "[]", "--json")
    assert "Warning: no driver has raid.creat" in ended.stderr and "Warning" not in ended.stdout


# --- what failed, and what now -----------------------------------------------------------


def test_a_failed_run_says_why_once_what_did_not_run_and_what_to_do(ok, stub, made):
    why = "deploy.b failed: the disk is full"
    failed = made.attempt("deploy.b", outcome="failed", error=why, evidence={"a": 1})
    run = made.run(made.attempt("deploy.a"), failed, outcome="failed", error=why)
    plan = [{"interface": "deploy", "step": name} for name in ("a", "b", "c", "d")]
    listed(stub, made.node("deploy failed"), run)
    stub.on(
        "GET",
        f"/v1/nodes/n/runs/{run['uuid']}",
        run | {"node_uuid": UUID, "plan": plan, "mechanism": "steps"},
    )
    told = ok("node", "run", "n").stdout
    assert told.count("the disk is full") == 1 and "mechanism" not in told and UUID not in told
    assert told.split("Did not run any more:")[1].split()[:3] == ["STEP", "deploy.c", "deploy.d"]
    assert "`deploysteps node resume n` goes on with the step that failed (--skip" in told
    assert "`deploysteps node run n --json` has the evidence of deploy.b" in told


def test_only_what_stands_above_is_told_as_above(ok, stub, made):
    """A run that goes on, and one that ended well, has no error that its attempts could share."""
    waiting = made.run(
        made.attempt("deploy.a"), made.attempt("deploy.x", "waiting", waits_for="operator")
    )
    listed(stub, made.node("deploy hold"), waiting)
    told = ok("node", "run", "n").stdout
    assert "as above" not in told and told.count("held; `deploysteps node unhold n` goes on") == 2
    listed(stub, made.node("active"), made.run(made.attempt("deploy.a"), outcome="success"))
    assert "as above" not in ok("node", "run", "n").stdout


@pytest.mark.parametrize(
    ("plan", "attempts", "left"),
    [
        ([("a", "done before, see run 1"), ("b", None)], [("b", 1)], []),
        ([("a", None), ("b", "skipped on request"), ("c", None)], [("a", 1)], ["c"]),
        ([("x", None), ("y", None), ("x", None)], [("x", 1)], ["y", "x"]),
        ([("x", None), ("y", None), ("x", None)], [("x", 1), ("x", 2)], ["y", "x"]),
        ([("x", None), ("x", None)], [("x", 1), ("x", 2), ("x", 1)], []),
        ([("a", None), ("b", None)], [("a", 1), ("b", 2)], []),  # another plan, from there on
    ],
)
def test_what_did_not_run_are_the_steps_that_were_to_run(plan, attempts, left):
    steps = [{"interface": "deploy", "step": name, "skip": skip} for name, skip in plan]
    begun = [{"interface": "deploy", "step": name, "attempt": n} for name, n in attempts]
    found = runs._did_not_run({"finished_at": "x", "plan": steps, "attempts": begun})
    assert [step["step"] for step in found] == left


@pytest.mark.parametrize("state", ["active", "clean failed"])
def test_a_run_that_cannot_be_resumed_does_not_say_so(ok, stub, made, state):
    flow = "clean" if state == "clean failed" else "deploy"
    listed(stub, made.node(state), made.run(made.attempt("x.y"), outcome="failed", flow=flow))
    assert "resume" not in ok("node", "run", "n").stdout


@pytest.mark.parametrize(
    ("zone", "shown"),
    [
        ("UTC", "2026-01-02 03:04:05 "),
        ("America/New_York", "2026-01-01 22:04:05-05:00"),
        ("Asia/Kolkata", "2026-01-02 08:34:05+05:30"),
    ],
)
@pytest.mark.parametrize("command", ["runs", "run"])
def test_times_that_are_not_utc_say_so(ok, stub, made, monkeypatch, zone, shown, command):
    """Who compares them with the log of a conductor elsewhere has to know."""
    monkeypatch.setenv("TZ", zone)
    time.tzset()
    try:
        listed(stub, made.node(), made.run(made.attempt("deploy.a"), outcome="success"))
        assert shown in ok("node", command, "n").stdout
    finally:
        monkeypatch.undo()
        time.tzset()
