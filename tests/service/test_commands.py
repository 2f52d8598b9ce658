"""Every command against the real service, in one story."""

import json

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


def test_a_node_through_its_life(run):
    assert "no nodes" in run("node", "list")
    made = json.loads(run("node", "create", "--driver", "fake-hardware", "--name", "one", "--json"))
    assert made["provision_state"] == "enroll"
    run("node", "create", "--driver", "fake-hardware", "--name", "one", code=4)
    run("node", "create", "--driver", "nope", code=2)
    run("port", "create", "52:54:00:00:00:01", "--node", "one")
    assert "52:54:00:00:00:01" in run("port", "list", "--node", "one")
    run("node", "watch", "one", code=3)
    assert "one is manageable" in run("node", "manage", "one", "--wait")
    assert "one is available" in run("node", "provide", "one", "--wait")
    run("node", "validate", "one")
    assert "wait_for_agent" in run("node", "steps", "one")

    poll = [{"interface": "deploy", "step": "poll", "priority": 50, "args": {"seconds": 0.5}}]
    told = run("node", "deploy", "one", "--wait", "--deploy-steps", json.dumps(poll))
    assert "deploy.poll success" in told and told.strip().endswith("one is active")
    assert "deploy.poll success" in run("node", "watch", "one")
    assert "success" in run("node", "runs", "one")
    run("node", "deploy", "one", code=2)
    run("node", "delete", "one", code=4)

    run("node", "set", "one", "--driver-info", "fake_fail=deploy.deploy")
    told = run("node", "rebuild", "one", "--wait", code=1)
    assert "deploy.deploy failed: " in told and "(attempt 1, after" in told
    run("node", "watch", "one", code=1)
    run("node", "unset", "one", "driver_info/fake_fail")
    assert "one is active" in run("node", "rebuild", "one", "--wait")

    assert "one is available" in run("node", "undeploy", "one", "--wait")
    wait = [{"interface": "deploy", "step": "wait_for_agent", "priority": 50, "args": {}}]
    run("node", "deploy", "one", "--deploy-steps", json.dumps(wait))
    run("node", "deploy", "one", "--wait", "--timeout", "1", code=2)
    run("node", "abort", "one", "--wait")
    run("node", "watch", "one", code=1)
    run("node", "undeploy", "one", "--wait")

    assert "power on" in run("node", "power", "one", "on", "--wait")
    run("node", "maintenance", "one", "on", "--reason", "fan")
    assert json.loads(run("node", "show", "one", "--json"))["maintenance_reason"] == "fan"
    run("node", "deploy", "one", code=2)
    run("node", "maintenance", "one", "off")
    run("node", "delete", "one")
    run("node", "show", "one", code=3)


def test_what_the_service_offers(run):
    assert "fake-hardware" in run("driver", "list")
    assert "fake_delay" in run("driver", "properties", "fake-hardware")
    run("driver", "properties", "nope", code=3)
    assert "demo" in run("conductor", "list")
