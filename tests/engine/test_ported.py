"""The drivers of ``examples/ported`` on the engine: they deploy, clean and service nodes."""

from __future__ import annotations

from typing import Any

import pytest

from deploysteps import states
from deploysteps.conductor.periodics import Periodics
from deploysteps.db import nodes
from deploysteps.drivers import noop
from examples.ported import agent, bmc, controller, ipmi
from tests import support, support_examples
from tests.engine.test_runs import assert_no_residue

DISKS = [
    {"size_gb": 10, "raid_level": "1", "is_root_volume": True},
    {"size_gb": 20, "raid_level": "5"},
]

BMC = {"power": bmc.BMCPower, "raid": bmc.BMCRAID, "bios": bmc.BMCBIOS, "deploy": noop.NoopDeploy}
RAID = {"interface": "raid", "step": "create_configuration", "priority": 90, "args": {}}
BIOS = {
    **{"interface": "bios", "step": "apply_configuration", "priority": 80},
    "args": {"settings": [{"name": "sriov", "value": "on"}]},
}


@pytest.fixture
def board(monkeypatch: Any) -> Any:
    """The controller of the node under test; its jobs are quick."""
    monkeypatch.setattr(controller, "JOB_SECONDS", 0.05)
    monkeypatch.setattr(controller, "_controllers", {})
    return controller.at("10.0.0.2")


def enrolled(service: Any, **values: Any) -> Any:
    return support.enrolled(
        service,
        driver_info={"bmc_address": "10.0.0.2"},
        target_raid_config={"logical_disks": DISKS},
        **values,
    )


def looked_after(service: Any, database: Any, node: Any, *wanted: str) -> Any:
    """Call the periodic methods, as the conductor does, until the node is in a state."""
    periodics = Periodics(service.runtime, service.manager)

    def there() -> bool:
        for job in periodics.jobs:
            periodics.run(job)
        found = nodes.get(database, node.uuid)
        return found.provision_state in wanted and found.reservation is None

    support.until(there)
    return nodes.get(database, node.uuid)


def test_jobs_of_a_controller_deploy_a_node(start, database, board):
    """RAID, then BIOS: each reboots the machine, and is ended by its periodic method."""
    service = start(database, **BMC)
    node = enrolled(service)
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=[RAID, BIOS])
    waiting = support.settle(database, node.uuid, states.DEPLOYWAIT)
    assert waiting.deploy_step["step"] == "create_configuration"
    attempt = support.attempts(database, waiting)[-1]
    assert attempt.owner == "callback", "the async flags became the attempt's fields"
    assert not {"deployment_polling", "deployment_reboot"} & set(waiting.driver_internal_info)
    done = looked_after(service, database, node, states.ACTIVE)
    assert support.outcomes(database, done) == [
        ("create_configuration", 1, "success"),
        ("apply_configuration", 1, "success"),
    ]
    assert [job.name for job in board.jobs.values()] == [
        "create volume",
        "create volume",
        "BIOS settings",
    ]
    assert board.boots == 2
    assert done.power_state == states.POWER_ON
    assert_no_residue(database, done)


@pytest.mark.parametrize("step", [RAID, BIOS], ids=["raid", "bios"])
def test_a_failed_job_fails_the_deployment_with_the_controllers_words(start, database, board, step):
    """F41: now, not by a time-out; one driver fires the event itself, the other says why."""
    service = start(database, **BMC)
    node = enrolled(service)
    board.fail_next = "disk 3 is gone"
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=[step])
    failed = looked_after(service, database, node, states.DEPLOYFAIL)
    assert "disk 3 is gone" in failed.last_error
    assert failed.deploy_step["step"] == step["step"]
    assert_no_residue(database, failed)


def in_order(step: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in step.items() if key != "priority"}


def test_the_same_methods_clean_and_service_it(start, database, board):
    """One method, several decorators; it waits in the flow that it runs in."""
    service = start(database, **BMC)
    node = enrolled(service, provision_state=states.MANAGEABLE)
    asked = [in_order(BIOS), in_order(RAID)]
    service.manager.do_node_clean(None, node.uuid, clean_steps=asked)
    support.settle(database, node.uuid, states.CLEANWAIT, states.CLEANING, locked=True)
    done = looked_after(service, database, node, states.MANAGEABLE)
    assert [step for step, _, _ in support.outcomes(database, done)] == [
        "apply_configuration",
        "create_configuration",
    ]
    node = enrolled(service, provision_state=states.ACTIVE)
    service.manager.do_node_service(None, node.uuid, service_steps=[in_order(BIOS)])
    support.settle(database, node.uuid, states.SERVICEWAIT, states.SERVICING, locked=True)
    looked_after(service, database, node, states.ACTIVE)


def test_a_heartbeat_does_not_end_what_a_job_is_to_end(start, database, board, monkeypatch):
    """Who may complete a waiting step is stored with the attempt."""
    monkeypatch.setattr(controller, "JOB_SECONDS", 3600)
    service = start(database, **BMC)
    node = enrolled(service)
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=[RAID])
    support.settle(database, node.uuid, states.DEPLOYWAIT)
    support.beat(service, node, support.token(service, node))
    assert (
        support.settle(database, node.uuid, states.DEPLOYWAIT).deploy_step["step"] == RAID["step"]
    )
    assert support.attempts(database, node)[-1].state == "waiting"


AGENT = {"deploy": agent.AgentDeploy, "power": noop.NoopPower}


@pytest.fixture
def machine() -> Any:
    """A machine whose agent listens."""
    with support_examples.machine() as found:
        yield found


def beats(service: Any, database: Any, node: Any, machine: Any, ends: str, *wanted: str) -> Any:
    """Beat as the machine's agent, whose commands end so, until the node is in a state."""

    def there() -> bool:
        found = nodes.get(database, node.uuid)
        if found.reservation is not None:
            return False
        if found.provision_state in states.WAIT_STATES:
            machine.end(ends)
            token = found.agent_secret_token or support.token(service, node)
            support.beat(service, node, token, callback_url=machine.url)
        return found.provision_state in wanted

    support.until(there)
    return nodes.get(database, node.uuid)


@pytest.mark.parametrize("ends", ["SUCCEEDED", "FAILED"])
def test_an_agent_driver_that_overrides_heartbeat_deploys_a_node(start, database, machine, ends):
    service = start(database, **AGENT)
    node = support.enrolled(service, instance_info={"image_source": "http://images/one.img"})
    service.manager.do_node_deploy(None, node.uuid)
    booted = support.settle(database, node.uuid, states.DEPLOYWAIT)
    assert booted.deploy_step is None, "it waits for the agent that prepare() has booted"
    if ends == "FAILED":
        failed = beats(service, database, node, machine, ends, states.DEPLOYFAIL)
        assert "Agent returned error for write_image" in failed.last_error
        assert failed.deploy_step["step"] == "write_image"
        return
    done = beats(service, database, node, machine, ends, states.ACTIVE)
    assert [step for step, _, _ in support.outcomes(database, done)] == [
        "deploy",
        "write_image",
        "tear_down_agent",
        "boot_instance",
    ]
    assert [command["command_name"] for command in machine.commands] == ["standby.prepare_image"]
    assert_no_residue(database, done)


def test_and_cleans_one(start, database, machine):
    service = start(database, **AGENT)
    node = support.enrolled(service, provision_state=states.MANAGEABLE)
    service.manager.do_provisioning_action(None, node.uuid, "provide")
    done = beats(service, database, node, machine, "SUCCEEDED", states.AVAILABLE)
    assert [step for step, _, _ in support.outcomes(database, done)] == ["erase_devices"]
    assert [command["command_name"] for command in machine.commands] == ["clean.execute_clean_step"]


def test_a_power_driver_verifies_a_node_and_does_reserved_steps(
    start, sqlite, tmp_path, monkeypatch
):
    """The conductor switches the machine through the driver, and keeps what is true of it."""
    tool = support_examples.Ipmitool(tmp_path, monkeypatch)
    tool.set("on")
    service = start(sqlite, power=ipmi.IPMIPower)
    node = support.enrolled(
        service, driver_info=support_examples.IPMI_INFO, provision_state=states.ENROLL
    )
    service.manager.do_provisioning_action(None, node.uuid, "manage")
    node = support.settle(sqlite, node.uuid, states.MANAGEABLE, states.ENROLL)
    assert (node.power_state, node.last_error) == (states.POWER_ON, None)
    asked = [{"interface": "power", "step": name} for name in ("power_off", "reboot")]
    service.manager.do_node_clean(None, node.uuid, clean_steps=asked)
    support.until(lambda: support.last_run(sqlite, node).flow == "clean")
    node = support.settle(sqlite, node.uuid, states.MANAGEABLE, states.CLEANFAIL)
    assert (node.provision_state, node.power_state) == (states.MANAGEABLE, states.POWER_ON)
    assert tool.switched == ["off", "on"]
    tool.set("stuck")
    monkeypatch.setattr(ipmi, "POWER_TIMEOUT", 0)
    service.manager.do_node_clean(None, node.uuid, clean_steps=asked[:1])
    node = support.settle(sqlite, node.uuid, states.CLEANFAIL)
    assert "Failed to set node power state to power off" in node.last_error
