"""The driver of ``examples/rackserver`` on the engine, as `make demo` uses it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Any

import pytest

from deploysteps import exceptions, states
from deploysteps.db import nodes
from rackserver import bios, deploy, firmware, management, power, raid, simulator
from tests import support
from tests.engine.test_runs import assert_no_residue

CLASSES = {
    "bios": bios.RackBIOS,
    "deploy": deploy.RackDeploy,
    "firmware": firmware.RackFirmware,
    "management": management.RackManagement,
    "power": power.RackPower,
    "raid": raid.RackRAID,
}
DISKS = [{"size_gb": 100, "raid_level": "1", "is_root_volume": True}]
FIRMWARE = {"settings": [{"component": "bios", "url": "http://files/2.1.bin"}]}
ASKED = [
    ("raid.apply_configuration", 95, {"raid_config": {"logical_disks": DISKS}}),
    ("bios.apply_configuration", 93, {"settings": [{"name": "BootMode", "value": "UEFI"}]}),
    ("firmware.update", 91, FIRMWARE),
    ("deploy.set_kernel_arguments", 70, {"arguments": ["console=ttyS0"]}),
]


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: Any) -> simulator.Machine:
    """The simulated machine; its jobs are quick."""
    monkeypatch.setattr(simulator, "PACE", 0.05)
    return simulator.Machine(tmp_path / "server.json")


def enrolled(service: Any, tmp_path: Path, **values: Any) -> Any:
    info = {
        "rackserver_address": f"sim://{tmp_path}/server.json",
        "rackserver_password": "planted",
    }
    image = {"image_source": "http://images/one.img"}
    return support.enrolled(service, driver_info=info, instance_info=image, **values)


def steps(*, priority: bool) -> list[dict[str, Any]]:
    """Return what is asked for; manual cleaning and servicing take no priorities."""
    found = []
    for name, place, args in ASKED:
        interface, _, step = name.partition(".")
        entry = {"interface": interface, "step": step, "args": args}
        found.append(entry | ({"priority": place} if priority else {}))
    return found


def beaten(service: Any, database: Any, node: Any, *wanted: str) -> tuple[Any, set[Any]]:
    """Beat as the machine's agent, which looks itself up anew after a reboot.

    :returns: the node, and (step, who ends its wait, whether by a new boot) as seen.
    """
    seen = set()

    def there() -> bool:
        found = nodes.get(database, node.uuid)
        if found.reservation is not None:
            return False
        if found.provision_state in states.WAIT_STATES:
            attempt = support.attempts(database, found)[-1]
            seen.add((attempt.step, attempt.owner, attempt.reboot))
            with contextlib.suppress(exceptions.InvalidParameterValue):  # it has rebooted since
                token = found.agent_secret_token or support.token(service, node)
                support.beat(service, node, token)
        return found.provision_state in wanted

    support.until(there, timeout=30)
    return nodes.get(database, node.uuid), seen


def test_every_kind_of_step_deploys_a_machine(start, database, machine, tmp_path):
    """RAID, settings, firmware, image, kernel arguments: polled, rebooting, of the agent."""
    service = start(database, **CLASSES)
    node = enrolled(service, tmp_path)
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=steps(priority=True))
    done, seen = beaten(service, database, node, states.ACTIVE)
    assert [(step, outcome) for step, _, outcome in support.outcomes(database, done)] == [
        ("deploy", "success"),
        ("apply_configuration", "success"),
        ("apply_configuration", "success"),
        ("update", "success"),
        ("write_image", "success"),
        ("set_kernel_arguments", "success"),
        ("boot_instance", "success"),
    ]
    found = machine.read()
    assert found["image"] == {"url": "http://images/one.img", "volume": "volume-1"}
    assert found["kernel_arguments"] == ["console=ttyS0"]
    assert found["settings"]["BootMode"] == "UEFI" and found["firmware"]["bios"] == "2.1"
    assert found["on"] and found["boot_device"] == "disk" and found["boots"] == 3
    assert {
        ("prepare", "agent", False),
        ("apply_configuration", "poller", False),
        ("apply_configuration", "agent", True),
        ("update", "poller", False),
        ("write_image", "agent", False),
    } <= seen
    assert done.power_state == states.POWER_ON
    assert "rackserver_job" not in done.driver_internal_info
    assert_no_residue(database, done)


def test_a_job_goes_on_while_no_conductor_runs(start, sqlite, machine, tmp_path, monkeypatch):
    """The next conductor finds the job of the last one, begun once."""
    monkeypatch.setattr(simulator, "PACE", 0.5)
    service = start(sqlite, **CLASSES)
    node = enrolled(service, tmp_path)
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=steps(priority=True)[:1])
    support.settle(sqlite, node.uuid, states.DEPLOYWAIT)
    support.beat(service, node, support.token(service, node))
    support.until(lambda: machine.read()["jobs"])
    support.settle(sqlite, node.uuid, states.DEPLOYWAIT)
    service.stop(5)
    service = start(sqlite, **CLASSES)
    beaten(service, sqlite, node, states.ACTIVE)
    kinds = [job["kind"] for job in machine.read()["jobs"].values()]
    assert kinds == ["create volumes", "write_image"]


def test_a_job_that_fails_fails_the_deployment_at_once(start, sqlite, machine, tmp_path):
    """F41."""
    machine.fail("create volumes", "disk 3 is gone")
    service = start(sqlite, **CLASSES)
    node = enrolled(service, tmp_path)
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=steps(priority=True))
    failed, _ = beaten(service, sqlite, node, states.DEPLOYFAIL)
    assert "disk 3 is gone" in failed.last_error and "planted" not in failed.last_error
    assert machine.read()["boot_device"] == "disk", "clean_up() has put away"
    assert "rackserver_job" not in failed.driver_internal_info
    assert_no_residue(sqlite, failed)


def test_a_machine_is_verified_and_cleaned_by_its_agent(start, sqlite, machine, tmp_path):
    """The agent's own step, which nobody knew before it was up."""
    service = start(sqlite, **CLASSES)
    node = enrolled(service, tmp_path, provision_state=states.ENROLL)
    service.manager.do_provisioning_action(None, node.uuid, "manage")
    node = support.settle(sqlite, node.uuid, states.MANAGEABLE, states.ENROLL)
    assert (node.provision_state, node.power_state) == (states.MANAGEABLE, states.POWER_OFF)
    assert [step for step, _, _ in support.outcomes(sqlite, node)] == ["check_controller"]
    machine.change(image={"url": "of the last one"})
    service.manager.do_provisioning_action(None, node.uuid, "provide")
    done, _ = beaten(service, sqlite, node, states.AVAILABLE, states.CLEANFAIL)
    assert (done.provision_state, done.last_error) == (states.AVAILABLE, None)
    assert [step for step, _, _ in support.outcomes(sqlite, done)] == ["erase_devices"]
    assert machine.read()["image"] is None and not machine.read()["on"]


def test_firmware_is_updated_in_service_without_the_ramdisk(start, sqlite, machine, tmp_path):
    service = start(sqlite, **CLASSES)
    node = enrolled(service, tmp_path, provision_state=states.ACTIVE)
    machine.switch(True)
    asked = [{"interface": "firmware", "step": "update", "args": FIRMWARE}]
    service.manager.do_node_service(None, node.uuid, service_steps=asked, disable_ramdisk=True)
    support.settle(sqlite, node.uuid, states.SERVICEWAIT)
    done = support.settle(sqlite, node.uuid, states.ACTIVE, states.SERVICEFAIL)
    assert (done.provision_state, done.last_error) == (states.ACTIVE, None)
    assert machine.read()["firmware"]["bios"] == "2.1" and machine.read()["boots"] == 1


def test_a_machine_is_erased_without_its_agent(start, sqlite, machine, tmp_path):
    service = start(sqlite, **CLASSES)
    node = enrolled(service, tmp_path, provision_state=states.MANAGEABLE)
    asked = [{"interface": "management", "step": "secure_erase"}]
    service.manager.do_node_clean(None, node.uuid, clean_steps=asked, disable_ramdisk=True)
    support.settle(sqlite, node.uuid, states.CLEANWAIT)
    support.settle(sqlite, node.uuid, states.MANAGEABLE)
    assert machine.read()["boots"] == 0
