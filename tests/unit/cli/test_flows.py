"""Cleaning, servicing, going on, holding, planning, unlocking: what is asked and what is told."""

import json

import pytest

from deploysteps import states
from deploysteps.cli import watch
from deploysteps.cli.errors import ExitCode
from deploysteps.cli.waiting import Snapshot
from deploysteps.steps import FLOWS
from tests.unit.cli.conftest import UUID

PROVISION = "/v1/nodes/n/states/provision"
STEPS = [{"interface": "raid", "step": "delete_configuration"}]
TEXT = json.dumps(STEPS)


@pytest.fixture
def accepted(stub, made):
    stub.on("PUT", PROVISION, status=202)
    stub.on("GET", "/v1/nodes/n", made.node("manageable"))


@pytest.mark.parametrize("verb", ["clean", "service"])
@pytest.mark.parametrize("form", ["text", "file", "stdin"])
def test_steps_come_as_text_file_or_stdin(accepted, stub, ok, tmp_path, verb, form):
    (tmp_path / "steps.json").write_text(TEXT)
    argument = {"text": TEXT, "file": "@steps.json", "stdin": "-"}[form]
    ok("node", verb, "n", f"--{verb}-steps", argument, input=TEXT)
    assert stub.last("PUT")["body"] == {"target": verb, f"{verb}_steps": STEPS}


@pytest.mark.parametrize("verb", ["clean", "service"])
def test_a_runbook_instead_of_steps(accepted, stub, ok, failing, verb):
    ok("node", verb, "n", "--runbook", "CUSTOM_R", "--disable-ramdisk")
    body = {"target": verb, "runbook": "CUSTOM_R", "disable_ramdisk": True}
    assert stub.last("PUT")["body"] == body
    asked = len(stub.asked)
    for wrong in ((), ("--runbook", "R", f"--{verb}-steps", TEXT), (f"--{verb}-steps", "[]")):
        code, line = failing("node", verb, "n", *wrong)
        assert code == ExitCode.USAGE and f"--{verb}-steps" in line and "--runbook" in line
    assert len(stub.asked) == asked


def test_a_cleaning_that_is_asked_for_ends_manageable(stub, ok, run, made, follows):
    stub.on("PUT", PROVISION, status=202)
    cleaned = made.run(made.attempt("raid.delete"), outcome="success", flow="clean")
    going = made.node("cleaning", target_provision_state="manageable")
    follows(
        (going, made.run(made.attempt("raid.delete", "running"), flow="clean")),
        (made.node("manageable"), cleaned),
        before=made.node("manageable"),
    )
    told = ok("node", "clean", "n", "--clean-steps", TEXT, "--wait").stdout
    assert told.splitlines()[-1].endswith("node-1 is manageable")
    failed = made.node("clean failed", last_error="no disk")
    follows((failed, made.run(outcome="failed")), before=made.node("manageable"))
    result = run("node", "clean", "n", "--clean-steps", TEXT, "--wait")
    assert result.exit_code == 1
    assert "'clean failed', not 'manageable': no disk" in result.stderr


@pytest.mark.parametrize(
    ("verb", "before"), [("provide", "manageable"), ("undeploy", "active"), ("undeploy", "error")]
)
def test_what_ends_in_cleaning_is_waited_for_until_it_is_available(
    stub, ok, made, follows, verb, before
):
    stub.on("PUT", PROVISION, status=202)
    going = made.run(made.attempt("raid.delete", "running"), flow="clean")
    follows(
        (made.node("deleting" if verb == "undeploy" else "cleaning"), None),
        (made.node("cleaning"), going),
        (made.node("clean wait"), going),
        (made.node("available"), made.run(outcome="success", flow="clean")),
        before=made.node(before),
    )
    told = ok("node", verb, "n", "--wait").stdout.splitlines()
    assert told[-1].endswith("node-1 is available")
    assert any("raid.delete running" in line for line in told)


def test_the_run_before_is_not_shown(stub, ok, made, follows):
    """What begins no run, and what begins one late, must not show an old one."""
    stub.on("PUT", PROVISION, status=202)
    old = made.run(made.attempt("deploy.deploy"), outcome="success")
    follows(
        (made.node("deleting"), old),
        (made.node("available"), old),
        before=made.node("active"),
    )
    stub.on("GET", "/v1/nodes/n/runs", {"runs": [old]})
    told = ok("node", "undeploy", "n", "--wait").stdout
    assert "deploy.deploy" not in told and "is available" in told
    shown = json.loads(ok("node", "undeploy", "n", "--wait", "--json").stdout)
    assert shown["run"] is None


def test_a_verification_ends_manageable(stub, ok, made, follows):
    stub.on("PUT", PROVISION, status=202)
    follows(
        (made.node("verifying"), made.run(made.attempt("power.verify", "running"), flow="verify")),
        (made.node("manageable"), made.run(outcome="success", flow="verify")),
        before=made.node("enroll"),
    )
    assert "is manageable" in ok("node", "manage", "n", "--wait").stdout


# --- going on ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("state", "target"), [("deploy failed", "active"), ("service failed", "service")]
)
def test_resume_goes_on_with_what_failed(stub, ok, made, state, target):
    stub.on("GET", "/v1/nodes/n", made.node(state))
    stub.on("PUT", PROVISION, status=202)
    ok("node", "resume", "n")
    assert stub.last("PUT")["body"] == {"target": target, "resume": True}
    ok("node", "resume", "n", "--skip")
    assert stub.last("PUT")["body"] == {"target": target, "resume_after": True}


@pytest.mark.parametrize(("status", "code"), [(400, ExitCode.USAGE), (409, ExitCode.CONFLICT)])
def test_resume_of_what_has_not_failed_is_refused_by_the_service(stub, failing, made, status, code):
    stub.on("GET", "/v1/nodes/n", made.node("active"))
    stub.on_error("PUT", PROVISION, status, 'not while it is in state "active".')
    found, line = failing("node", "resume", "n")
    assert found == code and 'in state "active"' in line and "possible now: rebuild" in line
    assert stub.last("PUT")["body"] == {"target": "active", "resume": True}


def test_resume_waits_for_a_run_of_its_own(stub, ok, made, follows):
    stub.on("PUT", PROVISION, status=202)
    old = made.run(outcome="failed", uuid="old")
    again = made.run(made.attempt("deploy.write"), outcome="success", resumes="old")
    failed = made.node("deploy failed")
    follows((failed, old), (made.node("active"), again), before=failed)
    stub.on("GET", "/v1/nodes/n", failed, failed, made.node("active"))
    stub.on("GET", f"/v1/nodes/{UUID}/runs", {"runs": [again]})
    stub.on("GET", "/v1/nodes/n/runs", {"runs": [old]})
    told = ok("node", "resume", "n", "--wait").stdout
    assert "goes on with run old" in told and "is active" in told


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("manageable", "provide, clean"),
        ("clean failed", "possible now: manage"),
        ("deploy failed", "resume"),
        ("service failed", "resume"),
        ("deploy hold", "unhold"),
        ("deleting", "possible now: to wait"),
        ("cleaning", "possible now: abort"),
    ],
)
def test_a_refusal_names_what_is_possible(stub, failing, made, state, told):
    text = (
        f'The requested action "x" can not be performed on node "n" while it is in state "{state}".'
    )
    stub.on_error("PUT", PROVISION, 400, text)
    _, line = failing("node", "provide", "n")
    assert told in line


# --- what is shown ----------------------------------------------------------------------------


def held(made, **more):
    return made.run(made.attempt("deploy.hold", "waiting", waits_for="operator"), **more)


def test_what_is_held_says_how_to_go_on(ok, made, follows, stub):
    follows(
        (made.node("deploy hold"), held(made)),
        (made.node("active"), made.run(made.attempt("deploy.hold"), outcome="success")),
    )
    told = ok("node", "watch", "n").stdout
    assert "deploy.hold held since" in told
    assert "held; `deploysteps node unhold node-1` goes on" in told
    stub.on("GET", "/v1/nodes/n/runs", {"runs": [held(made)]})
    row = ok("node", "runs", "n").stdout.splitlines()[1]
    assert "  held  " in row and "`deploysteps node unhold n` goes on" in row


def test_aborting_is_told_until_it_has_happened(ok, run, made, follows, stub):
    going = held(made, state="aborting")
    follows(
        (made.node("deploy hold"), going),
        (made.node("deploy failed"), made.run(outcome="aborted")),
    )
    lines = run("node", "watch", "n").stdout.splitlines()
    assert sum(line.endswith("node-1 aborting") for line in lines) == 1
    stub.on("GET", "/v1/nodes/n/runs", {"runs": [going]})
    assert "  aborting  " in ok("node", "runs", "n").stdout
    assert "aborting" in watch._heads(Snapshot(made.node("deploy hold"), going))


def test_progress_is_told_whenever_it_changes(ok, made, follows):
    def at(percent, text):
        progress = {"percent": percent, "text": text, "at": "2026-01-02T03:04:05+00:00"}
        return made.run(made.attempt("deploy.write", "running", progress=progress))

    done = made.run(
        made.attempt("deploy.write", progress={"percent": 100, "text": "all"}), outcome="success"
    )
    follows(
        (made.node("deploying"), at(10, "writing")),
        (made.node("deploying"), at(10, "writing")),
        (made.node("deploying"), at(60.5, "")),
        (made.node("active"), done),
    )
    told = [line.partition("node-1 deploy.write ")[2] for line in
            ok("node", "watch", "n").stdout.splitlines() if "deploy.write" in line]  # fmt: skip
    assert [line.partition(" - ")[2] for line in told] == ["10 % writing", "60.5 %", "100 % all"]


def test_what_is_over_has_no_progress_on_the_way(ok, made, follows):
    def at(percent):
        progress = {"percent": percent, "text": "writing", "at": "2026-01-02T03:04:05+00:00"}
        return made.run(made.attempt("deploy.write", progress=progress), outcome="success")

    follows((made.node("active"), at(40)))
    told = ok("node", "watch", "n").stdout
    assert "deploy.write success" in told and "40 %" not in told and "writing" not in told
    (row,) = watch.rows(Snapshot(made.node("active"), at(40)))
    assert row.note == ""


def test_steps_that_are_left_out_are_told_once_with_why(ok, made, follows, stub):
    why = "forbidden by [conductor] forbidden_clean_steps"
    left = [{"interface": "raid", "step": "create", "priority": 9, "source": "x", "why": why}]
    going = made.run(made.attempt("bios.a", "running"), flow="clean", left_out=left)
    over = made.run(made.attempt("bios.a"), flow="clean", left_out=left, outcome="success")
    follows(
        (made.node("cleaning"), going),
        (made.node("cleaning"), going),
        (made.node("available"), over),
    )
    assert ok("node", "watch", "n").stdout.count(f"raid.create left out: {why}") == 1
    listed = watch.rows(Snapshot(made.node("cleaning"), going))
    assert [(row.step, row.state, row.note) for row in listed][-1] == (
        "raid.create",
        "left out",
        why,
    )
    stub.on("GET", "/v1/nodes/n/runs", {"runs": [over]})
    row = ok("node", "runs", "n").stdout.splitlines()[1]
    assert "clean" in row and "left out: raid.create" in row


def test_the_flow_and_the_run_before_stand_beside_the_node(made):
    found = Snapshot(made.node("servicing"), made.run(flow="service", resumes="old"))
    assert watch._heads(found) == ["node-1", "servicing", "service run", "goes on with run old"]


@pytest.mark.parametrize("flow", FLOWS)
def test_planned_steps_are_shown_in_every_flow(made, flow):
    plan = [{"interface": "bios", "step": "a"}, {"interface": "raid", "step": "b"}]
    node = made.node(driver_internal_info={f"{flow}_steps": plan, f"{flow}_step_index": 0})
    assert [row.step for row in watch.rows(Snapshot(node, made.run(flow=flow)))] == ["raid.b"]


# --- plan and steps ---------------------------------------------------------------------------

PLAN = {
    "flow": "deploy",
    "steps": [
        {"interface": "raid", "step": "create", "priority": 120, "source": "request",
         "replaced": [{"source": "driver", "priority": 0},
                      {"source": "template CUSTOM_R", "priority": 90}]},
        {"interface": "deploy", "step": "deploy", "priority": 100, "source": "driver"},
    ],
    "left_out": [
        {"interface": "bios", "step": "reset", "priority": 0, "source": "driver",
         "why": "priority 0"},
    ],
    "unknown": [{"interface": "deploy", "step": "burn_in", "priority": 50, "source": "request"}],
    "problem": None,
}  # fmt: skip


def test_a_plan_is_a_table_in_the_order_of_the_run(stub, ok):
    stub.on("POST", "/v1/nodes/n/plan", PLAN)
    steps = [{"interface": "raid", "step": "create", "priority": 120, "args": {}}]
    lines = ok("node", "plan", "n", "--deploy-steps", json.dumps(steps)).stdout.splitlines()
    assert stub.last("POST")["body"] == {"flow": "deploy", "deploy_steps": steps}
    assert lines[0].split() == ["ORDER", "STEP", "PRIORITY", "SOURCE", "REPLACED"]
    assert lines[1].split(maxsplit=4) == [
        "1", "raid.create", "120", "request", "driver 0, template CUSTOM_R 90",
    ]  # fmt: skip
    assert lines[2].split() == ["2", "deploy.deploy", "100", "driver"]
    left = lines.index("Left out:")
    assert lines[left + 2].split(maxsplit=3) == ["bios.reset", "0", "driver", "priority 0"]
    unknown = next(n for n, line in enumerate(lines) if line.startswith("Unknown until"))
    assert left < unknown and "deploy.burn_in" in lines[unknown + 2]
    assert json.loads(ok("node", "plan", "n", "--json").stdout) == PLAN
    assert stub.last("POST")["body"] == {}


def test_a_plan_with_a_problem_exits_1_and_tells_it(stub, run):
    stub.on("POST", "/v1/nodes/n/plan", {**PLAN, "steps": [], "problem": "no step bios.x"})
    for more in ((), ("--json",)):
        result = run("node", "plan", "n", *more)
        assert result.exit_code == 1
        assert "would be refused: no step bios.x" in result.stderr
        assert len(result.stderr.splitlines()) == 1
    assert json.loads(result.stdout)["problem"] == "no step bios.x"


@pytest.mark.parametrize(
    ("args", "body"),
    [
        (("--flow", "clean", "--runbook", "R"), {"flow": "clean", "runbook": "R"}),
        (("--clean-steps", TEXT), {"flow": "clean", "clean_steps": STEPS}),
        (
            ("--service-steps", TEXT, "--disable-ramdisk"),
            {"flow": "service", "service_steps": STEPS, "disable_ramdisk": True},
        ),
        (("--flow", "verify"), {"flow": "verify"}),
    ],
)
def test_a_plan_of_another_flow(stub, ok, args, body):
    stub.on("POST", "/v1/nodes/n/plan", PLAN)
    ok("node", "plan", "n", *args)
    assert stub.last("POST")["body"] == body


def test_steps_of_a_flow(stub, ok, failing):
    stub.on("GET", "/v1/nodes/n/steps", {"steps": []})
    assert "no clean steps" in ok("node", "steps", "n", "--flow", "clean").stdout
    assert stub.last("GET")["query"] == {"flow": "clean"}
    assert "no deploy steps" in ok("node", "steps", "n").stdout
    assert stub.last("GET")["query"] == {}
    assert failing("node", "steps", "n", "--flow", "rescue")[0] == ExitCode.USAGE


def test_the_command_is_told_and_not_the_request(stub, failing):
    text = "no step raid.x; GET /v1/nodes/n/steps?flow=clean lists what there is"
    stub.on_error("PUT", PROVISION, 400, text)
    line = failing("node", "clean", "n", "--clean-steps", TEXT)[1]
    assert "`deploysteps node steps n --flow clean` lists what there is" in line


# --- unlock -----------------------------------------------------------------------------------

LOCK = {"holder": "c1", "purpose": "node deploy", "since": "2026-01-02T03:04:05.000000+00:00"}


def test_unlock_shows_the_lock_and_asks(stub, run, ok):
    """F65."""
    stub.on("GET", "/v1/nodes/n/runs", {"runs": [], "lock": LOCK})
    stub.on("DELETE", "/v1/nodes/n/lock", status=204)
    result = run("node", "unlock", "n", "--reason", "it hangs", input="n\n")
    assert result.exit_code == ExitCode.INTERRUPTED
    assert "locked by c1 since 2026-01-02" in result.stderr and "'node deploy'" in result.stderr
    assert result.stderr.endswith("Error: nothing was changed\n")
    assert all(asked["method"] == "GET" for asked in stub.asked)
    told = ok("node", "unlock", "n", "--reason", "it hangs", input="y\n").stdout
    assert "the lock is broken" in told
    # The lock that was shown is the one that is broken, and no other.
    told = {"reason": "it hangs", "since": "2026-01-02T03:04:05.000000+00:00"}
    assert stub.last("DELETE")["body"] == told
    asked = ok("node", "unlock", "n", "--reason", "x", "--yes", "--json")
    assert json.loads(asked.stdout) == {"node": "n", "lock": LOCK} and asked.stderr == ""


def test_unlock_of_what_is_not_locked(stub, ok, failing):
    stub.on("GET", "/v1/nodes/n/runs", {"runs": [], "lock": None})
    assert "not locked" in ok("node", "unlock", "n", "--reason", "x").stdout
    assert failing("node", "unlock", "n")[0] == ExitCode.USAGE


def test_every_event_that_people_ask_for_has_a_command():
    from deploysteps.cli.node import node

    words = {"active": "deploy", states.DELETED: "undeploy"}
    assert {words.get(verb, verb) for verb in states.VERBS} <= set(node.commands)
