"""The steps of this driver, without hardware, database or conductor.

``testing.run_step`` does what the conductor does: it checks the arguments, runs
the step and checks its answer. What the step asked the task for stands in
``task.events``.
"""

from __future__ import annotations

import importlib.metadata
import tomllib
from pathlib import Path

import pytest

from deploysteps import exceptions, states, steps
from deploysteps.drivers import hardware_type, noop, testing
from deploysteps.drivers.hardware_type import supported
from rackserver import client, hardware, simulator

DISKS = [
    {"size_gb": 100, "raid_level": "1", "is_root_volume": True},
    {"size_gb": 900, "raid_level": "5"},
]
RAID = {"raid_config": {"logical_disks": DISKS}}
SETTINGS = {"settings": [{"name": "SriovEnabled", "value": True}]}
FIRMWARE = {"settings": [{"component": "bios", "url": "http://files/bios/2.1.bin"}]}
AGENT = {"agent_url": "http://10.0.0.9:9999"}
WAITING = [flow for flow in steps.FLOWS.values() if flow.waiting]


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """The simulated machine; its jobs are done at once."""
    monkeypatch.setattr(simulator, "PACE", 0)
    return simulator.Machine(tmp_path / "server.json")


@pytest.fixture
def task(machine, tmp_path):
    """A task on a node of this hardware type."""
    types = ("power", "management", "raid", "bios", "firmware", "deploy", "boot")
    kind = hardware.RackServer()
    return testing.FakeTask(
        *(supported(kind, name)[0]() for name in types),
        driver_info={
            "rackserver_address": f"sim://{tmp_path}/server.json",
            "rackserver_password": "planted",
        },
        instance_info={"image_source": "http://images/one.img"},
    )


def finished(task, name, args=None, flow=steps.DEPLOY):
    """Run a step that begins a job, and ask about it until it is done."""
    answer = testing.run_step(task, name, args, flow=flow)
    assert answer == flow.waiting
    interface, _, step = name.partition(".")
    owner = getattr(task.driver, interface)
    assert owner.check_step(task, {"step": step}) is states.StepStatus.DONE
    assert task.node.driver_internal_info.get("rackserver_job") is None, "nothing is left"
    return answer


# --- polled ---------------------------------------------------------------------------


@pytest.mark.parametrize("flow", WAITING, ids=lambda flow: flow.name)
def test_volumes_are_made_by_a_polled_job_in_every_flow(task, machine, flow):
    answer = finished(task, "raid.apply_configuration", RAID, flow)
    assert answer.poll == 0.5
    assert [disk["name"] for disk in machine.read()["volumes"]] == ["volume-1", "volume-2"]
    assert testing.run_step(task, "raid.apply_configuration", RAID, flow=flow) is None, (
        "they are there already"
    )


def test_run_again_after_a_crash_it_finds_its_job(task, machine, monkeypatch):
    monkeypatch.setattr(simulator, "PACE", 100)
    for _ in range(2):
        testing.run_step(task, "raid.apply_configuration", RAID)
    assert len(machine.read()["jobs"]) == 1
    check = task.driver.raid.check_step(task, {"step": "apply_configuration"})
    assert check is states.StepStatus.RUNNING
    assert ("report_progress", pytest.approx(0, abs=5), "create volumes") in task.events


def test_a_controller_that_is_busy_is_waited_for(task, monkeypatch):
    monkeypatch.setattr(simulator, "PACE", 100)
    testing.run_step(task, "raid.apply_configuration", RAID)
    other = {"raid_config": {"logical_disks": DISKS[:1]}}
    with pytest.raises(exceptions.StepNotReady, match="goes on") as caught:
        testing.run_step(task, "raid.apply_configuration", other)
    assert caught.value.after == 1


def test_a_job_that_fails_says_why(task, machine):
    machine.fail("create volumes", "disk 3 is gone")
    testing.run_step(task, "raid.apply_configuration", RAID)
    with pytest.raises(client.ControllerError, match="disk 3 is gone"):
        task.driver.raid.check_step(task, {"step": "apply_configuration"})
    assert "rackserver_job" not in task.node.driver_internal_info


def test_volumes_are_removed_where_there_are_some(task, machine):
    assert testing.run_step(task, "raid.delete_configuration") is None
    finished(task, "raid.apply_configuration", RAID)
    kept = {**RAID, "delete_existing": False, "create_nonroot_volumes": False}
    with pytest.raises(exceptions.DriverOperationError, match="delete_existing"):
        testing.run_step(task, "raid.apply_configuration", kept)
    finished(task, "raid.delete_configuration", flow=steps.CLEAN)
    assert machine.read()["volumes"] == []


def test_firmware_is_updated_also_in_service(task, machine):
    answer = finished(task, "firmware.update", FIRMWARE, steps.SERVICE)
    assert answer == states.SERVICEWAIT
    assert machine.read()["firmware"]["bios"] == "2.1"
    assert testing.run_step(task, "firmware.update", FIRMWARE) is None, "it is there already"
    (declared,) = task.driver.firmware.service_steps
    assert (declared["abortable"], declared["timeout"]) == (False, 1800)


# --- rebooting ------------------------------------------------------------------------


def test_settings_reboot_the_machine_and_wait_for_its_new_agent(task, machine):
    task.node.driver_internal_info.update(AGENT)
    answer = finished(task, "bios.apply_configuration", SETTINGS)
    assert (answer.reboot, answer.poll) == (True, None)
    assert ("switch_power", states.REBOOT) in task.events
    assert machine.read()["boots"] == 1
    assert machine.read()["settings"]["SriovEnabled"] is True
    task.events.clear()
    assert testing.run_step(task, "bios.apply_configuration", SETTINGS) is None
    assert task.events == [], "they are so already: no reboot"


def test_without_an_agent_the_controller_is_asked(task, machine):
    finished(task, "bios.apply_configuration", SETTINGS)
    answer = finished(task, "bios.factory_reset", flow=steps.CLEAN)
    assert answer.poll and not answer.reboot
    assert machine.read()["settings"]["SriovEnabled"] is False


# --- of the agent ---------------------------------------------------------------------


def test_the_agent_is_booted_and_waited_for(task, machine):
    task.node.set_driver_internal_info("rackserver_job", "of a step that was aborted")
    assert task.driver.deploy.prepare(task) == states.DEPLOYWAIT
    assert machine.read()["on"] and machine.read()["boot_device"] == "pxe"
    assert task.driver.deploy.check_step(task, {"step": "prepare"}) is states.StepStatus.DONE
    task.node.provision_state = states.CLEANING
    assert task.driver.deploy.prepare_cleaning(task) == states.CLEANWAIT
    task.node.provision_state = states.SERVICING
    assert task.driver.deploy.prepare_service(task) == states.SERVICEWAIT


def test_an_image_is_written_by_the_agent_to_the_root_volume(task, machine, monkeypatch):
    finished(task, "raid.apply_configuration", RAID)
    task.driver.deploy.prepare(task)
    answer = testing.run_step(task, "deploy.write_image")
    assert answer == states.DEPLOYWAIT and not isinstance(answer, states.Wait)
    # What the conductor does when the agent beats:
    task.waiting_step = {"interface": "deploy", "step": "write_image"}
    task.driver.deploy.heartbeat(task, "http://10.0.0.9:9999", "11.0")
    assert task.events[-1] == ("complete_step",)
    assert machine.read()["image"] == {"url": "http://images/one.img", "volume": "volume-1"}


def test_switched_off_the_agent_does_nothing_more(task, machine, monkeypatch):
    with pytest.raises(client.ControllerError, match="no agent"):
        testing.run_step(task, "deploy.write_image")
    monkeypatch.setattr(simulator, "PACE", 100)
    task.switch_power(states.POWER_ON)
    testing.run_step(task, "deploy.write_image")
    task.switch_power(states.POWER_OFF)
    with pytest.raises(client.ControllerError, match="was switched off"):
        task.driver.deploy.check_step(task, {"step": "write_image"})


def test_kernel_arguments_are_set_once_there_is_an_image(task, machine):
    arguments = {"arguments": ["console=ttyS0", "isolcpus=1-3"]}
    with pytest.raises(exceptions.DeployStepFailed, match="below that of deploy.write_image"):
        testing.run_step(task, "deploy.set_kernel_arguments", arguments)
    task.switch_power(states.POWER_ON)
    finished(task, "deploy.write_image")
    assert testing.run_step(task, "deploy.set_kernel_arguments", arguments) is None
    assert machine.read()["kernel_arguments"] == arguments["arguments"]
    with pytest.raises(exceptions.InvalidParameterValue, match="pattern"):
        testing.run_step(task, "deploy.set_kernel_arguments", {"arguments": ["two words"]})


def test_the_instance_is_booted_from_the_disk(task, machine):
    assert testing.run_step(task, "deploy.deploy") is None
    assert testing.run_step(task, "deploy.boot_instance") is None
    assert machine.read()["boot_device"] == "disk" and machine.read()["boots"] == 1


def test_the_agents_own_steps_are_offered_once_it_is_up(task, machine):
    deploy = task.driver.deploy
    assert deploy.agent_steps(task, "clean") is None, "it is to come"
    assert deploy.agent_steps(task, "deploy") == deploy.agent_steps(task, "verify") == []
    task.node.driver_internal_info.update(AGENT)
    (offered,) = deploy.agent_steps(task, "clean")
    assert (offered["interface"], offered["step"]) == ("deploy", "erase_devices")
    task.node.provision_state = states.CLEANING
    task.switch_power(states.POWER_ON)
    assert deploy.execute_clean_step(task, {**offered, "agent": True}) == states.CLEANWAIT
    assert deploy.check_step(task, offered) is states.StepStatus.DONE
    with pytest.raises(exceptions.CleanStepFailed, match="no clean step 'erase_devices'"):
        deploy.execute_clean_step(task, offered)


# --- the controller -----------------------------------------------------------------------


def test_a_node_is_verified_by_reaching_its_controller(task, machine):
    task.driver.power.verify(task)
    assert task.node.power_state == states.POWER_OFF
    assert testing.run_step(task, "check_controller", flow=steps.VERIFY) is None
    machine.change(firmware={"bmc": "0.9", "bios": "1.0"})
    with pytest.raises(exceptions.VerifyStepFailed, match="0.9"):
        testing.run_step(task, "check_controller", flow=steps.VERIFY)
    task.node.driver_info["rackserver_password"] = "another"
    with pytest.raises(client.ControllerError, match="password is wrong") as caught:
        testing.run_step(task, "check_controller", flow=steps.VERIFY)
    assert "another" not in str(caught.value) and "planted" not in str(caught.value)


def test_disks_are_erased_without_an_agent(task, machine):
    machine.change(image={"url": "x"})
    answer = finished(task, "management.secure_erase", flow=steps.CLEAN)
    assert answer.poll and machine.read()["image"] is None
    assert task.driver.management.clean_steps[0]["requires_ramdisk"] is False


@pytest.mark.parametrize(
    ("info", "words"),
    [
        ({}, "rackserver_address is missing"),
        ({"rackserver_address": 5}, "rackserver_address is missing"),
        ({"rackserver_address": "sim:///x"}, "rackserver_password is missing"),
        (
            {"rackserver_address": "http://10.0.0.1", "rackserver_password": "planted"},
            "rackserver_address must be sim://",
        ),
    ],
)
def test_what_a_node_lacks_is_named(task, info, words):
    task.node.driver_info = info
    for kind in ("power", "management", "bios", "firmware", "deploy"):
        with pytest.raises(exceptions.InvalidParameterValue, match=words) as caught:
            getattr(task.driver, kind).validate(task)
        assert "planted" not in str(caught.value)


def test_an_instance_needs_an_image(task):
    task.node.instance_info = {}
    with pytest.raises(exceptions.MissingParameterValue, match="image_source"):
        testing.run_step(task, "deploy.deploy")


def test_a_controller_that_does_not_answer_is_told(task, tmp_path):
    (tmp_path / "server.json").write_text("no JSON")
    with pytest.raises(client.ControllerError, match="controller at sim://"):
        task.driver.power.get_power_state(task)


def test_power_and_boot_devices(task, machine):
    power, management = task.driver.power, task.driver.management
    for target in power.get_supported_power_states(task):
        task.switch_power(target)
        assert power.get_power_state(task) == states.POWER_TARGETS[target]
    with pytest.raises(exceptions.InvalidParameterValue, match="sideways"):
        power.set_power_state(task, "sideways")
    for device in management.get_supported_boot_devices(task):
        management.set_boot_device(task, device)
        assert management.get_boot_device(task)["boot_device"] == device
    with pytest.raises(exceptions.InvalidParameterValue, match="floppy"):
        management.set_boot_device(task, "floppy")
    assert management.get_sensors_data(task) == {}


def test_putting_away(task, machine):
    deploy = task.driver.deploy
    deploy.take_over(task)
    deploy.tear_down_service(task)
    assert machine.read()["on"] and machine.read()["boot_device"] == "disk"
    deploy.tear_down_cleaning(task)
    assert not machine.read()["on"]
    assert deploy.tear_down(task) == states.DELETED


def test_the_hardware_type_is_complete():
    kind = hardware.RackServer()
    assert isinstance(kind, hardware_type.AbstractHardwareType)
    for interface_type in steps.INTERFACE_TYPES:
        assert supported(kind, interface_type)
    assert supported(kind, "boot") == (noop.NoopBoot,)
    assert set(kind.get_properties()) == set(client.PROPERTIES)
    task = testing.FakeTask()
    task.driver.bios = supported(kind, "bios")[0]()
    assert task.driver.bios.cache_bios_settings(task) is None
    assert supported(kind, "firmware")[0]().cache_firmware_components(task) is None


def test_the_machine_is_one_for_all_processes(machine, tmp_path):
    """A conductor that is started after another was killed finds the jobs."""
    machine.switch(True)
    job_id = machine.submit("write_image", {"url": "x"})
    again = simulator.Machine(tmp_path / "server.json")
    assert again.job(job_id)["done"]
    with pytest.raises(simulator.Refused, match="no job"):
        again.job("job-99")


def test_every_class_is_registered_under_a_name():
    """What a hardware type lists and no entry point names cannot be chosen for a node."""
    project = tomllib.loads((Path(hardware.__file__).parents[1] / "pyproject.toml").read_text())
    found = {
        group.rpartition(".")[2]: {importlib.metadata.EntryPoint("", value, "").load()}
        for group, ((_name, value),) in (
            (group, named.items()) for group, named in project["project"]["entry-points"].items()
        )
    }
    kind = hardware.RackServer()
    assert found.pop("types") == {hardware.RackServer}
    for interface_type in steps.INTERFACE_TYPES:
        own = {cls for cls in supported(kind, interface_type) if "rackserver" in cls.__module__}
        assert found.get(interface_type, set()) == own
