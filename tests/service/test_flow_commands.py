"""Cleaning, servicing, holding, going on, planning: the commands against the real service."""

import json
import time

import pytest
from click.testing import CliRunner

from deploysteps.cli.app import cli
from deploysteps.cli.local_service import LocalService


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("service")
    quick = {"conductor": {"step_poll_interval": 0.1, "recovery_interval": 0.5}}
    with LocalService(folder, quick) as running:
        yield running


@pytest.fixture
def run(service):
    def invoke(*args, code=0):
        result = CliRunner().invoke(cli, list(args), env={"OS_ENDPOINT": service.client.endpoint})
        assert result.exit_code == code, result.output
        return result.output

    return invoke


@pytest.fixture
def node(run, request):
    """A manageable node, named as the test."""
    name = request.node.name.replace("_", "-")[:60]
    run("node", "create", "--driver", "fake-hardware", "--name", name)
    run("node", "manage", name, "--wait")
    return name


def steps(*names, **more):
    """Return steps as a command takes them; each name may have arguments."""
    listed = []
    for name in names:
        name, args = name if isinstance(name, tuple) else (name, {})
        interface, _, step = name.partition(".")
        listed.append({"interface": interface, "step": step, "args": args, **more})
    return json.dumps(listed)


def state(run, node):
    return json.loads(run("node", "show", node, "--json"))["provision_state"]


def until(run, node, wanted):
    end = time.monotonic() + 60
    while state(run, node) != wanted:
        assert time.monotonic() < end, state(run, node)
        time.sleep(0.1)


def test_cleaning_and_servicing(run, node):
    told = run("node", "clean", node, "--clean-steps", steps("deploy.repeat"), "--wait")
    assert "deploy.repeat success" in told and told.strip().endswith(f"{node} is manageable")
    run("node", "clean", node, code=2)
    run("node", "clean", node, "--clean-steps", steps("deploy.repeat", priority=1), code=2)
    run("node", "service", node, "--service-steps", steps("deploy.repeat"), code=2)
    told = run("node", "provide", node, "--wait")
    assert "deploy.erase_devices success" in told and f"{node} is available" in told
    run("node", "deploy", node, "--wait")
    told = run("node", "service", node, "--service-steps", steps("deploy.repeat"), "--wait")
    assert "deploy.repeat success" in told and told.strip().endswith(f"{node} is active")
    told = run("node", "undeploy", node, "--wait")
    assert "deploy.erase_devices success" in told and told.strip().endswith("is available")
    assert "deploy.repeat" not in told
    flows = [line.split()[1] for line in run("node", "runs", node).splitlines()[1:]]
    assert flows == ["clean", "service", "deploy", "clean", "clean", "verify"]
    run("node", "delete", node)


def test_a_hold_is_told_and_ended(run, node):
    run("node", "provide", node, "--wait")
    hold = steps("deploy.hold", priority=200)
    run("node", "deploy", node, "--deploy-steps", hold)
    until(run, node, "deploy hold")
    assert f"`deploysteps node unhold {node}` goes on" in run("node", "runs", node)
    told = run("node", "deploy", node, code=2)
    assert "unhold" in told and "abort" in told
    assert f"{node} is active" in run("node", "unhold", node, "--wait")
    run("node", "unhold", node, code=2)
    run("node", "rebuild", node, "--deploy-steps", hold)
    until(run, node, "deploy hold")
    run("node", "abort", node, "--wait")
    assert state(run, node) == "deploy failed"


def test_a_deployment_goes_on(run, node):
    run("node", "provide", node, "--wait")
    run("node", "set", node, "--driver-info", "fake_fail=deploy.repeat")
    asked = steps("deploy.repeat", priority=50)
    run("node", "deploy", node, "--deploy-steps", asked, "--wait", code=1)
    run("node", "unset", node, "driver_info/fake_fail")
    told = run("node", "resume", node, "--wait")
    assert "goes on with run" in told and "deploy.repeat success" in told
    assert "deploy.deploy" not in told and f"{node} is active" in told
    assert "goes on with" in run("node", "runs", node)
    run("node", "resume", node, code=2)
    run("node", "set", node, "--driver-info", "fake_fail=deploy.repeat")
    run("node", "rebuild", node, "--deploy-steps", asked, "--wait", code=1)
    assert f"{node} is active" in run("node", "resume", node, "--skip", "--wait")


def test_templates_runbooks_traits_and_plans(run, node):
    run("template", "create", "CUSTOM_T", "--steps", steps("raid.create_configuration"), code=2)
    made = steps("deploy.repeat", priority=150)
    run("template", "create", "CUSTOM_T", "--steps", made, "--extra", "a=1")
    assert "CUSTOM_T" in run("template", "list")
    run("template", "create", "CUSTOM_T", "--steps", made, code=4)
    run("template", "set", "CUSTOM_T", "--steps", steps("deploy.repeat", priority=160))
    shown = json.loads(run("template", "show", "CUSTOM_T", "--json"))
    assert (shown["steps"][0]["priority"], shown["extra"]) == (160, {"a": 1})
    run("runbook", "create", "CUSTOM_R", "--steps", steps("deploy.repeat", order=1), "--public")
    assert "CUSTOM_R" in run("runbook", "list")

    run("node", "clean", node, "--runbook", "CUSTOM_R", code=2)
    told = run("node", "traits", "add", node, "CUSTOM_R", "CUSTOM_T")
    assert told.split() == ["TRAIT", "CUSTOM_R", "CUSTOM_T"]
    told = run("node", "clean", node, "--runbook", "CUSTOM_R", "--wait")
    assert "deploy.repeat success" in told

    run("node", "set", node, "--instance-info", 'traits=["CUSTOM_T"]')
    lines = run("node", "plan", node).splitlines()
    assert lines[1].split() == ["1", "deploy.repeat", "160", "template", "CUSTOM_T", "driver", "0"]
    assert lines[2].split() == ["2", "deploy.deploy", "100", "driver"]
    off = run("node", "plan", node, "--deploy-steps", steps("deploy.deploy", priority=0))
    assert "deploy.deploy" in off.partition("Left out:")[2]
    told = run("node", "plan", node, "--deploy-steps", steps("bios.nope", priority=1), code=1)
    assert "would be refused" in told and "bios.nope" in told
    told = run("node", "plan", node, "--flow", "clean")
    assert "deploy.erase_devices" in told
    assert "check_bmc" in run("node", "steps", node, "--flow", "verify")
    run("node", "traits", "clear", node)
    run("template", "delete", "CUSTOM_T")
    run("runbook", "delete", "CUSTOM_R")
    run("runbook", "show", "CUSTOM_R", code=3)


def test_a_lock_is_broken(run, node):
    assert "not locked" in run("node", "unlock", node, "--reason", "x", "--yes")
    run("node", "provide", node, "--wait")
    run("node", "set", node, "--driver-info", 'fake_delay={"deploy.deploy": 20}')
    run("node", "deploy", node)  # the lock is held from the answer on
    told = run("node", "unlock", node, "--reason", "it hangs", "--yes")
    assert "locked by demo since" in told and "the lock is broken" in told
    until(run, node, "deploy failed")
    run("node", "watch", node, code=1)
