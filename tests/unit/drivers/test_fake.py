"""Fake hardware: every path by setting and by driver_info."""

from __future__ import annotations

import time

import pytest

from deploysteps import exceptions, states, steps
from deploysteps.conf import CONF
from deploysteps.drivers import base, compat_exceptions, fake, hardware_type, testing

ALL = {
    kind: next(
        cls for cls in hardware_type.supported(fake.FakeHardware(), kind) if "Fake" in cls.__name__
    )
    for kind in steps.INTERFACE_TYPES
}


def task_of(*kinds, **node):
    return testing.FakeTask(*(ALL[kind]() for kind in kinds or ALL), **node)


def all_steps(flow=steps.DEPLOY):
    task = task_of()
    return [
        step for kind in ALL for step in getattr(getattr(task.driver, kind), flow.collect)(task)
    ]


def test_every_type_has_a_fake_and_a_no_op_interface():
    for kind in steps.INTERFACE_TYPES:
        classes = [
            cls
            for cls in hardware_type.supported(fake.FakeHardware(), kind)
            if not cls.__module__.startswith("deploysteps.drivers.agent.")
        ]
        assert len(classes) == 2
        assert len({cls.__module__ for cls in classes}) == 2


LEFT_ALONE = {
    "deploy": [("deploy", "deploy", 100)],
    "clean": [("deploy", "erase_devices", 10)],
    "verify": [("management", "check_bmc", 10)],
    "service": [],
}


@pytest.mark.parametrize("flow", steps.FLOWS.values(), ids=list(steps.FLOWS))
def test_left_alone_little_runs_and_quickly(monkeypatch, flow):
    """Promise 14: a deployment is one big step of priority 100. F5: each flow its own."""
    monkeypatch.setattr(time, "sleep", lambda seconds: pytest.fail("nobody asked for a delay"))
    by_itself = [
        (step["interface"], step["step"], step["priority"])
        for step in all_steps(flow)
        if step["priority"]
    ]
    assert by_itself == LEFT_ALONE[flow.name]
    for interface, step, _ in by_itself:
        assert testing.run_step(task_of(), f"{interface}.{step}", flow=flow) is None


def test_every_interface_has_a_step():
    assert {step["interface"] for step in all_steps()} == set(steps.INTERFACE_TYPES)


def test_there_are_steps_of_every_kind():
    found = all_steps()
    for key, value in (
        ("abortable", False),
        ("repeatable", True),
        ("retries", 3),
        ("timeout", 3600),
    ):
        assert any(step[key] == value for step in found), key
    assert any(info.get("secret") for step in found for info in (step["argsinfo"] or {}).values())


ARGS = {
    "deploy.retry": {"failures": 0},
    "deploy.not_ready": {"times": 0},
    "deploy.poll": {"seconds": 5},
    "bios.apply_configuration": {"settings": [{"name": "sriov", "value": True}]},
    "raid.apply_configuration": {
        "raid_config": {"logical_disks": [{"size_gb": 10, "raid_level": "1"}]}
    },
    "firmware.update": {"settings": [{"component": "bmc", "url": "http://x/y"}], "seconds": 5},
    "vendor.echo": {"message": "hello", "password": "x"},
}
RAID = {"target_raid_config": ARGS["raid.apply_configuration"]["raid_config"]}
WAITING = {"deploy.wait_for_agent", "deploy.wait_unabortable", "deploy.poll", "firmware.update"}
NAMES = {
    (flow.name, f"{step['interface']}.{step['step']}")
    for flow in steps.FLOWS.values()
    for step in all_steps(flow)
}


@pytest.mark.parametrize(("flow", "name"), sorted(NAMES))
def test_each_step_runs_and_waits_as_its_flow_does(flow, name):
    """A method that several flows share never answers with another flow's wait state."""
    flow = steps.FLOWS[flow]
    answer = testing.run_step(task_of(**RAID), name, ARGS.get(name), flow=flow)
    assert answer == (flow.waiting if name in WAITING else None)


def test_what_the_flows_share_is_one_method():
    for flow in ("clean", "service"):
        shared = {name for known, name in NAMES if known == flow}
        assert {*WAITING, "bios.apply_configuration", "raid.delete_configuration"} <= shared
    assert ("service", "deploy.erase_devices") not in NAMES


@pytest.mark.parametrize("flow", ["clean", "service"])
def test_steps_say_whether_they_need_the_ramdisk(flow):
    needs = {step["step"] for step in all_steps(steps.FLOWS[flow]) if step["requires_ramdisk"]}
    erasing = {"erase_devices", "erase_devices_metadata"} if flow == "clean" else set()
    assert needs == {"wait_for_agent", "wait_unabortable"} | erasing


@pytest.mark.parametrize(("flow", "name"), sorted(NAMES))
@pytest.mark.parametrize("style", ["full", "method", "list", "object"])
def test_each_step_fails_when_driver_info_says_so(flow, name, style):
    fail = {
        "full": name,
        "method": name.split(".")[1],
        "list": ["power.nothing", name],
        "object": {name: "the words"},
    }[style]
    with pytest.raises(exceptions.DeployStepsException) as caught:
        if name == "power.power_cycle":
            fail = {"full": "power.reboot", "method": "reboot", "list": ["reboot"]}.get(
                style, {"reboot": "the words"}
            )
        task = task_of(driver_info={"fake_fail": fail})
        testing.run_step(task, name, ARGS.get(name), flow=steps.FLOWS[flow])
    assert ("the words" if style == "object" else "fake_fail") in str(caught.value)


@pytest.mark.parametrize(
    "method",
    [
        *("prepare", "clean_up", "tear_down", "take_over"),
        *("prepare_cleaning", "tear_down_cleaning", "prepare_service", "tear_down_service"),
    ],
)
def test_what_runs_around_the_steps_can_fail_too(method):
    """F79: prepare and clean_up that raise can be tried by hand."""
    task = task_of("deploy", driver_info={"fake_fail": f"deploy.{method}"})
    with pytest.raises(exceptions.DriverOperationError):
        getattr(task.driver.deploy, method)(task)
    getattr(task.driver.deploy, method)(task_of("deploy"))


@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        (None, 0),
        (0.5, 0.5),
        ({"deploy.deploy": 2}, 2),
        ({"deploy": 3}, 3),
        ({"power.reboot": 3}, 0),
    ],
)
def test_delays_come_from_driver_info(monkeypatch, delay, expected):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    testing.run_step(task_of(driver_info={"fake_delay": delay}), "deploy.deploy")
    assert slept == ([expected] if expected else [])


def test_delays_come_from_the_configuration(monkeypatch):
    slept = []
    monkeypatch.setattr(time, "sleep", slept.append)
    CONF.set_override("step_delay", 7, group="fake")
    CONF.set_override("power_delay", 8, group="fake")
    try:
        testing.run_step(task_of(), "deploy.deploy")
        testing.run_step(task_of(), "power.power_cycle")
    finally:
        CONF.clear_override("step_delay", group="fake")
        CONF.clear_override("power_delay", group="fake")
    assert slept == [7, 8]


@pytest.mark.parametrize(
    "info",
    [
        {"fake_delay": -1},
        {"fake_delay": "1"},
        {"fake_delay": True},
        {"fake_delay": {"deploy": 10**9}},
        {"fake_delay": float("nan")},
        {"fake_delay": [1]},
        {"fake_fail": 5},
        {"fake_fail": {"deploy": 5}},
        {"fake_fail": [["deploy"]]},
    ],
)
def test_validate_refuses_settings_that_make_no_sense(info):
    """Promise 13: a 4xx with the field named."""
    for kind in ("deploy", "power", "vendor"):
        task = task_of(kind, driver_info=info)
        with pytest.raises(exceptions.InvalidParameterValue, match=next(iter(info))):
            getattr(task.driver, kind).validate(task)


def test_validate_accepts_what_works():
    task = task_of(driver_info={"fake_delay": {"deploy": 1}, "fake_fail": ["x"]})
    for kind in ALL:
        assert getattr(task.driver, kind).validate(task) is None
        assert "fake_delay" in getattr(task.driver, kind).get_properties()


def test_a_polled_step_is_done_when_its_time_has_passed(monkeypatch):
    now = time.time()
    task = task_of("deploy")
    deploy = task.driver.deploy
    monkeypatch.setattr(time, "time", lambda: now)
    answer = testing.run_step(task, "deploy.poll", {"seconds": 5})
    assert isinstance(answer, states.Wait)
    assert answer.poll == 1
    step = {"interface": "deploy", "step": "poll", "args": {"seconds": 5}}
    assert base.overrides_check_step(deploy)
    assert deploy.check_step(task, step) is states.StepStatus.RUNNING
    monkeypatch.setattr(time, "time", lambda: now + 5)
    assert deploy.check_step(task, step) is states.StepStatus.DONE
    assert task.node.driver_internal_info == {}, "F66: no residue"


def test_a_poller_that_raises_can_be_tried():
    """F41."""
    task = task_of("deploy", driver_info={"fake_fail": "check_step"})
    with pytest.raises(exceptions.DriverOperationError):
        task.driver.deploy.check_step(task, {"step": "poll"})


def test_a_beat_completes_the_wait_for_the_agent():
    task = task_of("deploy")
    task.waiting_step = {"interface": "deploy", "step": "wait_for_agent", "args": None}
    task.driver.deploy.heartbeat(task, "http://10.0.0.1", "1")
    assert task.events == [("complete_step",)]


def test_retry_fails_as_often_as_asked_and_then_works():
    """F42: failures are counted, not swallowed."""
    task = task_of("deploy")
    for failed in (1, 2):
        with pytest.raises(exceptions.DeployStepFailed, match=f"failure {failed} of 2"):
            testing.run_step(task, "deploy.retry")
    assert testing.run_step(task, "deploy.retry") is None
    assert task.node.driver_internal_info == {}, "F66: no residue"
    assert task.node.saves == 2


def test_not_ready_asks_to_be_entered_again():
    task = task_of("deploy")
    with pytest.raises(exceptions.StepNotReady) as caught:
        testing.run_step(task, "deploy.not_ready", {"times": 1, "after": 3})
    assert caught.value.after == 3
    assert testing.run_step(task, "deploy.not_ready", {"times": 1}) is None


def test_power_follows_its_switch():
    task = task_of("power")
    power = task.driver.power
    assert power.get_power_state(task) == states.POWER_OFF
    for wanted in power.get_supported_power_states(task):
        power.set_power_state(task, wanted)
        off = wanted in (states.POWER_OFF, states.SOFT_POWER_OFF)
        assert power.get_power_state(task) == (states.POWER_OFF if off else states.POWER_ON)
    power.set_power_state(task, states.POWER_OFF)
    power.reboot(task)
    assert power.get_power_state(task) == states.POWER_ON
    with pytest.raises(exceptions.InvalidParameterValue, match="sideways"):
        power.set_power_state(task, "sideways")


def test_the_boot_device_is_kept():
    task = task_of("management")
    management = task.driver.management
    assert management.get_boot_device(task) == {"boot_device": "pxe", "persistent": False}
    management.set_boot_device(task, "pxe", persistent=True)
    assert management.get_boot_device(task) == {"boot_device": "pxe", "persistent": True}
    with pytest.raises(exceptions.InvalidParameterValue, match="floppy"):
        management.set_boot_device(task, "floppy")


def test_the_controller_keeps_what_it_is_told():
    task = task_of("management")
    management, info = task.driver.management, task.node.driver_internal_info
    assert management.get_supported_boot_modes(task) == ["uefi", "bios"]
    assert management.get_boot_mode(task) is None
    assert management.get_secure_boot_state(task) is False
    management.set_boot_mode(task, "bios")
    management.set_secure_boot_state(task, True)
    assert management.get_boot_mode(task) == "bios"
    assert management.get_secure_boot_state(task) is True
    management.set_indicator_state(task, "system", "led", "on")
    assert management.get_indicator_state(task, "system", "led") == "on"
    assert management.get_indicator_state(task, "chassis", "led-0") == "off"
    assert set(management.get_supported_indicators(task)) == {"system", "chassis"}
    assert set(management.get_supported_indicators(task, "system")) == {"system"}
    management.attach_virtual_media(task, "cdrom", "http://images/x")
    assert info["fake_media"] == {"cdrom": "http://images/x"}
    management.detach_virtual_media(task)
    assert not any(drive["inserted"] for drive in management.get_virtual_media(task))


@pytest.mark.parametrize(
    ("method", "args"),
    [
        ("set_boot_mode", ("dos",)),
        ("get_indicator_state", ("cellar", "led")),
        ("get_indicator_state", ("system", "bulb")),
        ("set_indicator_state", ("system", "led", "dim")),
        ("set_indicator_state", ("chassis", "led-0", "on")),
        ("attach_virtual_media", ("tape", "http://images/x")),
    ],
)
def test_the_controller_refuses_what_is_not_there(method, args):
    task = task_of("management")
    with pytest.raises(exceptions.InvalidParameterValue):
        getattr(task.driver.management, method)(task, *args)
    assert task.node.driver_internal_info == {}


def test_virtual_interfaces_are_kept():
    task = task_of("network")
    network = task.driver.network
    assert network.vif_list(task) == []
    network.vif_attach(task, {"id": "a"})
    network.vif_attach(task, {"id": "b"})
    with pytest.raises(compat_exceptions.VifAlreadyAttached):
        network.vif_attach(task, {"id": "a"})
    network.vif_detach(task, "a")
    with pytest.raises(compat_exceptions.VifNotAttached):
        network.vif_detach(task, "a")
    assert network.vif_list(task) == [{"id": "b"}]


def test_what_the_machine_says_of_itself_follows_what_was_done_to_it():
    task = task_of("bios", "firmware")
    testing.run_step(task, "apply_configuration", ARGS["bios.apply_configuration"])
    testing.run_step(task, "update", ARGS["firmware.update"])
    task.driver.bios.cache_bios_settings(task)
    task.driver.firmware.cache_firmware_components(task)
    (_, settings), (_, components) = task.events
    assert {one["name"]: one["value"] for one in settings} == {
        "sriov": True,
        "boot_delay": "5",
        "asset_tag": "",
    }
    assert {one["component"]: one["current_version"] for one in components} == {
        "bmc": "y",
        "bios": "1.0.0",
    }


def test_bios_settings_are_kept_and_reset():
    task = task_of("bios")
    testing.run_step(task, "apply_configuration", ARGS["bios.apply_configuration"])
    assert task.node.driver_internal_info == {"fake_bios": {"sriov": True}}
    task.driver.bios.cache_bios_settings(task)
    testing.run_step(task, "factory_reset")
    assert task.node.driver_internal_info == {}


def test_logical_disks_are_kept_and_removed():
    root = {"size_gb": 10, "raid_level": "1", "is_root_volume": True}
    more = {"size_gb": 20, "raid_level": "0"}
    task = task_of("raid")
    config = {"raid_config": {"logical_disks": [root, more]}}
    testing.run_step(task, "apply_configuration", config | {"create_nonroot_volumes": False})
    assert task.node.driver_internal_info == {"fake_raid": [root]}
    testing.run_step(
        task,
        "apply_configuration",
        config | {"create_root_volume": False, "delete_existing": False},
    )
    assert task.node.driver_internal_info == {"fake_raid": [root, more]}
    assert task.node.raid_config == {"logical_disks": [root, more]}
    testing.run_step(task, "delete_configuration")
    assert task.node.driver_internal_info == task.node.raid_config == {}


def test_logical_disks_are_made_as_the_node_is_to_have_them():
    task = task_of("raid", **RAID)
    testing.run_step(task, "create_configuration")
    assert task.node.raid_config == RAID["target_raid_config"]
    with pytest.raises(exceptions.MissingParameterValue, match="no target_raid_config"):
        testing.run_step(task_of("raid"), "create_configuration")


def test_a_secret_argument_arrives_intact_and_is_not_kept():
    """F77."""
    task = task_of("vendor")
    testing.run_step(task, "echo", {"message": "hello", "password": "planted"})
    assert task.node.driver_internal_info == {
        "fake_echo": {"message": "hello", "with_password": True}
    }


@pytest.mark.parametrize(
    ("name", "args"),
    [
        ("bios.apply_configuration", {}),
        ("bios.apply_configuration", {"settings": [{"nmae": "x", "value": 1}]}),
        ("firmware.update", {"settings": []}),
        ("deploy.poll", {"seconds": -1}),
        ("deploy.retry", {"failures": 1.5}),
        ("deploy.deploy", {"image": "x"}),
    ],
)
def test_arguments_are_checked_by_schema(name, args):
    """F9, F10."""
    with pytest.raises(exceptions.InvalidParameterValue, match=name):
        testing.run_step(task_of(), name, args)


def test_the_rest_of_fake_hardware_answers():
    task = task_of(uuid="1be26c0b-03f2-4d2e-ae87-c02d7f33c781")
    driver = task.driver
    assert driver.console.get_console(task)["url"].endswith(task.node.uuid)
    assert driver.inspect.inspect_hardware(task) == states.MANAGEABLE
    assert task.node.properties["cpus"] == 4
    assert driver.rescue.rescue(task) == states.RESCUE
    assert driver.rescue.unrescue(task) == states.ACTIVE
    for call in (
        driver.console.start_console,
        driver.console.stop_console,
        driver.firmware.cache_firmware_components,
    ):
        assert call(task) is None
