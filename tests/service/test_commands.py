"""Every command against the real service, in one story."""

import json

import pytest
from click.testing import CliRunner

from deploysteps.cli.app import cli
from deploysteps.cli.local_service import LocalService
from tests.service.test_serve import wait_for


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
    wait_for(
        lambda: (
            json.loads(run("node", "show", "one", "--json"))["provision_state"] == "wait call-back"
        ),
        "it waits",
    )
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


def test_where_a_machine_stands_and_what_it_is_told(run):
    run("node", "create", "--driver", "fake-hardware", "--name", "two", "--shard", "a")
    made = json.loads(run("chassis", "create", "--description", "rack 1", "--json"))
    run("node", "set", "two", "--chassis-uuid", made["uuid"])
    assert "two" in run("node", "list", "--chassis-uuid", made["uuid"], "--shard", "a,b")
    assert run("shard", "list").split()[-2:] == ["a", "1"]
    group = json.loads(run("portgroup", "create", "--node", "two", "--name", "bond", "--json"))
    run("port", "create", "52:54:00:00:00:02", "--node", "two", "--name", "eth0")
    run("port", "set", "eth0", "--portgroup-uuid", group["uuid"], "--pxe-enabled", "false")
    assert "52:54:00:00:00:02" in run("port", "list", "--portgroup", "bond")
    run("portgroup", "delete", "bond", code=2)
    run("port", "unset", "eth0", "portgroup_uuid")
    run("portgroup", "delete", "bond")

    run("node", "manage", "two", "--wait")
    assert "sriov" in run("node", "bios", "two") and "bmc" in run("node", "firmware", "two")
    run("node", "inventory", "two", code=3)
    run("node", "boot-device", "two", "disk", "--persistent")
    assert json.loads(run("node", "boot-device", "two", "--json"))["boot_device"] == "disk"
    run("node", "indicator", "two", "led@system", "on")
    assert "on" in run("node", "indicator", "two", "led@system")
    run("node", "raid", "two", '{"logical_disks": []}')
    assert "logical_disks" in run("node", "raid", "two")
    run("node", "nmi", "two")
    assert "first_method" in run("node", "vendor", "list", "two")
    assert "true" in run("node", "vendor", "call", "two", "third_method_sync", "--arg", "bar=meow")
    run("node", "traits", "remove", "two", "..", code=2)
    run("node", "set", "two", "--driver", "fake-hardware", "--reset-interfaces")
    run("node", "delete", "two")
    run("chassis", "delete", made["uuid"])
