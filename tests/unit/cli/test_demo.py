"""What the demo checks in the histories, and that it is not satisfied too easily."""

import pytest

from deploysteps.cli import demo, local_service
from deploysteps.cli.errors import CommandError
from deploysteps.cli.waiting import Snapshot

REPEATABLE = frozenset({"deploy.repeat", "deploy.retry", "bios.apply_configuration"})
LATE, POLLED, REPEATS = demo.MACHINES


def history(made, machine, upto=None):
    """The attempts of a run that went as planned, up to and with a step."""
    attempts = [made.attempt("deploy.prepare"), made.attempt("deploy.deploy")]
    for step in machine.steps:
        name = f"{step['interface']}.{step['step']}"
        if name == upto:
            return [*attempts, made.attempt(name, machine.cut_state)]
        if name == machine.cut_in and machine.cut_state == "running":
            attempts.append(made.attempt(name, outcome="interrupted"))
            attempts.append(made.attempt(name, number=2))
        else:
            attempts.append(made.attempt(name))
    return attempts


@pytest.fixture
def told(made):
    """Compare a changed history with the plan; returns the differences."""

    def compare(machine=LATE, *, state="active", change=lambda attempts: attempts, **run):
        before = Snapshot(
            made.node("wait call-back"), made.run(*history(made, machine, machine.cut_in))
        )
        attempts = change(history(made, machine))
        after = Snapshot(made.node(state), made.run(*attempts, **{"outcome": "success"} | run))
        return " / ".join(demo.differences(machine, REPEATABLE, before, after))

    return compare


@pytest.mark.parametrize("machine", demo.MACHINES, ids=lambda machine: machine.name)
def test_a_run_as_planned_has_no_difference(told, machine):
    assert told(machine) == ""


@pytest.mark.parametrize("found", [None, "/usr/bin/deploysteps"])
def test_what_to_try_next_can_be_typed_as_it_stands(monkeypatch, found):
    """After ``make demo`` the commands are in a folder that the shell does not look in."""
    monkeypatch.setattr(demo.shutil, "which", lambda name: found)
    monkeypatch.setattr(demo.sys, "executable", "/a b/bin/python")
    told = demo._next()
    assert ("  export PATH='/a b/bin':$PATH" in told) is (found is None)
    assert """'[{"interface": "deploy", "step": "poll", "priority": 50, "args": {"s""" in told


def test_the_machines_are_cut_in_every_kind_of_step():
    assert {(m.cut_in, m.cut_state) for m in demo.MACHINES} == {
        ("deploy.wait_for_agent", "waiting"),
        ("deploy.poll", "waiting"),
        ("deploy.repeat", "running"),
    }
    for machine in demo.MACHINES:
        names = {f"{s['interface']}.{s['step']}" for s in machine.steps}
        assert names >= {"deploy.wait_for_agent", "deploy.poll", "deploy.repeat"}
        assert machine.cut_in in names


def test_each_kind_of_difference_is_told(told, made):
    assert "not active" in told(state="deploy failed")
    assert "ended as failed" in told(outcome="failed")
    assert "not the one from before" in told(uuid="another")
    assert "the history has" in told(change=lambda attempts: attempts[:-1])
    assert "the history has" in told(change=lambda a: [*a[:2], a[3], a[2], *a[4:]])
    unfinished = made.attempt("deploy.repeat", "running")
    assert "has no end" in told(change=lambda attempts: [*attempts[:-1], unfinished])
    twice = made.attempt("deploy.poll", number=2)
    assert "deploy.poll ran twice" in told(change=lambda a: [*a[:5], twice, *a[5:]])
    assert "changed over the power cut" in told(
        change=lambda a: [a[0], {**a[1], "conductor": "other"}, *a[2:]]
    )
    assert "did not run again" in told(
        REPEATS, change=lambda a: [x for x in a if x["attempt"] == 1]
    )


def test_a_run_that_is_gone_is_told(made):
    gone = Snapshot(made.node("active"), None)
    assert "not the one" in " ".join(demo.differences(LATE, REPEATABLE, gone, gone))


def test_where_a_machine_is(made):
    found = Snapshot(made.node(), made.run(made.attempt("deploy.poll", "waiting")))
    assert demo._is_in(found, "deploy.poll", "waiting")
    assert not demo._is_in(found, "deploy.poll", "running")
    assert demo._current(found) == "deploy.poll (waiting)"
    assert demo._current(Snapshot(made.node(), None)) == "available"
    assert not demo._is_in(Snapshot(made.node(), made.run()), "deploy.poll", "waiting")


def test_a_service_that_does_not_start_is_told_with_its_last_words(tmp_path):
    broken = local_service.LocalService(tmp_path, {"DEFAULT": {"enabled_hardware_types": "nope"}})
    with pytest.raises(CommandError, match="ended at start: .*'nope'"), broken:
        pass
    assert broken.last_line()


def test_the_demos_failure_names_the_log(failing, monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)

    def broken(self):
        raise CommandError("node-1 is 'deploy failed'")

    monkeypatch.setattr(demo.Demo, "run", broken)
    code, line = failing("demo")
    assert code == 1
    assert "node-1 is 'deploy failed'; the service's log is" in line and str(tmp_path) in line
