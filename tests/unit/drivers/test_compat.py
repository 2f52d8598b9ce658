"""What drivers written for Ironic import, and three drivers in that style."""

from __future__ import annotations

import inspect

import pytest

from deploysteps import exceptions, states, steps
from deploysteps.drivers import base, compat, noop, testing
from deploysteps.drivers.compat import exception
from examples.ported import agent, bmc, controller, ipmi
from tests import support_examples

WAITING_FLOWS = [flow for flow in steps.FLOWS.values() if flow.waiting]
BY_NAME = [flow.name for flow in WAITING_FLOWS]


# --- the names ----------------------------------------------------------------------


@pytest.mark.parametrize("flow", WAITING_FLOWS, ids=BY_NAME)
def test_the_async_flags_are_those_of_the_nodes_flow(flow):
    task = testing.FakeTask(provision_state=flow.running)
    compat.set_async_step_flags(task.node, reboot=True, skip_current_step=False, polling=True)
    assert task.node.driver_internal_info == {
        flow.flags.reboot: True,
        flow.flags.skip: False,
        flow.flags.polling: True,
    }
    assert task.node.saves == 1
    assert compat.get_async_step_return_state(task.node) == flow.waiting


def test_flags_that_nobody_named_stay_as_they_are():
    task = testing.FakeTask()
    compat.set_async_step_flags(task.node, reboot=True)
    compat.set_async_step_flags(task.node, reboot=False, polling=True)
    assert task.node.driver_internal_info == {
        "deployment_reboot": False,
        "deployment_polling": True,
    }


@pytest.mark.parametrize("state", [states.VERIFYING, states.ACTIVE])
def test_where_nothing_can_wait_that_is_said(state):
    node = testing.FakeNode(provision_state=state)
    with pytest.raises(exceptions.DeployStepsException):
        compat.set_async_step_flags(node, reboot=True)
    with pytest.raises(exceptions.DeployStepsException):
        compat.get_async_step_return_state(node)
    assert node.driver_internal_info == {} and node.saves == 0


@pytest.mark.parametrize("flow", WAITING_FLOWS, ids=BY_NAME)
def test_a_resume_completes_the_step_of_its_own_flow_only(flow, caplog):
    """A late or a wrong one changes nothing, and is told."""
    resume = getattr(compat, f"notify_conductor_resume_{flow.name}")
    task = testing.FakeTask(provision_state=flow.waiting)
    resume(task)
    compat.notify_conductor_resume_operation(task, flow.name)
    assert task.events == [("complete_step",)] * 2
    for state in {states.ACTIVE, *(other.waiting for other in WAITING_FLOWS)} - {flow.waiting}:
        task = testing.FakeTask(provision_state=state)
        resume(task)
        assert task.events == []
        assert f"its {flow.name} goes on changes nothing" in caplog.text


@pytest.mark.parametrize(
    ("name", "flow"),
    [("deploying", steps.DEPLOY), ("cleaning", steps.CLEAN), ("servicing", steps.SERVICE)],
)
def test_an_error_handler_fails_the_step(name, flow):
    handler = getattr(compat, f"{name}_error_handler")
    task = testing.FakeTask(provision_state=flow.waiting)
    handler(task, "for the log", errmsg="for people", traceback=True)
    handler(task, "for both")
    assert task.events == [("fail_step", "for people"), ("fail_step", "for both")]
    assert handler.__doc__
    task.node.provision_state = flow.running
    with pytest.raises(flow.error, match="for people"):
        handler(task, "for the log", "for people")


@pytest.mark.parametrize("flow", WAITING_FLOWS)
def test_one_error_handler_serves_every_flow(flow):
    task = testing.FakeTask(provision_state=flow.waiting)
    compat.step_error_handler(task, "for the log", errmsg="for people")
    assert task.events == [("fail_step", "for people")]
    task.node.provision_state = flow.running
    with pytest.raises(flow.error, match="for both"):
        compat.step_error_handler(task, "for both")
    task.node.provision_state = states.ACTIVE
    with pytest.raises(exceptions.InvalidState):
        compat.step_error_handler(task, "for the log")


@pytest.mark.parametrize("flow", WAITING_FLOWS)
def test_whether_there_is_a_ramdisk_is_told_of_the_nodes_flow(flow):
    node = testing.FakeTask(provision_state=flow.running).node
    assert not compat.is_ramdisk_disabled(node)
    for other in WAITING_FLOWS:
        if other.no_ramdisk:
            node.set_driver_internal_info(other.no_ramdisk, True)
    assert compat.is_ramdisk_disabled(node) is (flow is not steps.DEPLOY)
    node.provision_state = states.ACTIVE
    assert not compat.is_ramdisk_disabled(node)


def test_what_is_missing_is_named():
    compat.check_for_missing_params({"kernel": "k"}, "No image")
    with pytest.raises(exceptions.MissingParameterValue, match=r"No image\. Missing.*'info\.disk'"):
        compat.check_for_missing_params({"kernel": "k", "disk": ""}, "No image", "info.")


def test_power_is_switched_through_the_task():
    task = testing.FakeTask()
    compat.node_power_action(task, states.REBOOT, timeout=5)
    assert task.events == [("switch_power", states.REBOOT)]
    assert task.node.power_state == states.POWER_ON


def test_an_exclusive_lock_is_required_of_functions_and_methods():
    @compat.require_exclusive_lock
    def function(task, more=None):
        return more

    class Thing:
        @compat.require_exclusive_lock
        def method(self, task):
            return "ran"

    task = testing.FakeTask()
    assert function(task, 5) == 5
    assert Thing().method(task) == Thing().method(task=task) == "ran"
    task.shared = True
    for call in (lambda: function(task), lambda: Thing().method(task), lambda: function(task=task)):
        with pytest.raises(exceptions.ExclusiveLockRequired):
            call()
    assert str(inspect.signature(function)) == "(task, more=None)"


def test_measurements_come_to_nothing():
    metrics = compat.get_metrics_logger(__name__)

    @metrics.timer("a")
    @compat.METRICS.counter("b", sample_rate=0.5)
    def function():
        return 1

    with metrics.timer("c"), metrics.gauge("d"):
        assert function() == 1
    metrics.send_counter("e", 1)
    metrics.send_timer("f", 1)
    metrics.send_gauge("g", 1)


def test_a_timer_above_or_below_a_decorator_loses_no_step():
    class Timed(base.VendorInterface):
        get_properties = validate = lambda self, *args: {}

        @compat.METRICS.timer("above")
        @base.deploy_step(1)
        @compat.METRICS.timer("below")
        def go(self, task):
            pass

    assert list(Timed.declared_steps["deploy"]) == ["go"]


def test_exceptions_have_the_fields_names_and_arguments():
    assert exception.IronicException is exceptions.DeployStepsException
    for name in exception.__all__:
        assert issubclass(getattr(exception, name), exception.IronicException)
    assert str(exception.IPMIFailure(cmd="power on")) == "IPMI call failed: power on."
    assert str(exception.InvalidParameterValue("words")) == "words"
    assert "no answer" in str(exception.RedfishConnectionError(node="n", error="no answer"))


def test_texts_are_what_they_are():
    assert compat._("words %s") == "words %s"


def test_what_is_not_offered_is_said_with_what_to_use():
    assert not hasattr(compat, "prepare_agent_boot")
    assert "``prepare_agent_boot`` is not offered" in compat.__doc__
    assert "prepare_ramdisk" in compat.__doc__


# --- an IPMI-like power driver --------------------------------------------------------


@pytest.fixture
def ipmitool(tmp_path, monkeypatch):
    """An ipmitool that talks to a file."""
    return support_examples.Ipmitool(tmp_path, monkeypatch)


def ipmi_task(**info):
    return testing.FakeTask(ipmi.IPMIPower(), driver_info={**support_examples.IPMI_INFO, **info})


def test_ipmi_power_is_read_and_switched(ipmitool):
    task = ipmi_task()
    power = task.driver.power
    assert power.get_power_state(task) == states.POWER_OFF
    power.verify(task)
    assert task.node.power_state == states.POWER_OFF
    for target in power.get_supported_power_states(task):
        task.switch_power(target)
        assert power.get_power_state(task) == states.POWER_TARGETS[target]
    assert ipmitool.switched == ["on", "off", "soft", "on"]
    ipmitool.set("on")
    power.reboot(task)
    assert ipmitool.switched[-2:] == ["off", "on"]


def test_a_machine_that_does_not_follow_is_a_failure(ipmitool):
    ipmitool.set("stuck")
    task = ipmi_task()
    with pytest.raises(exception.PowerStateFailure, match="power on"):
        task.switch_power(states.POWER_ON, timeout=0.01)
    assert task.driver.power.get_power_state(task) is None
    with pytest.raises(exception.IPMIFailure, match="power status"):
        task.driver.power.get_power_state(ipmi_task(ipmi_password="other"))
    with pytest.raises(exception.InvalidParameterValue, match="sideways"):
        task.driver.power.set_power_state(task, "sideways")


def test_switching_needs_the_lock_and_reading_does_not(ipmitool):
    task = ipmi_task()
    task.shared = True
    assert task.driver.power.get_power_state(task) == states.POWER_OFF
    with pytest.raises(exception.ExclusiveLockRequired):
        task.driver.power.set_power_state(task, states.POWER_ON)


def test_ipmi_says_what_is_missing():
    with pytest.raises(exception.MissingParameterValue, match="ipmi_address"):
        ipmi.IPMIPower().validate(testing.FakeTask())
    with pytest.raises(exception.InvalidParameterValue, match="ipmi_port"):
        ipmi.IPMIPower().validate(ipmi_task(ipmi_port="x"))
    assert set(support_examples.IPMI_INFO) < set(ipmi.IPMIPower().get_properties())


# --- a driver of controller jobs ---------------------------------------------------------

DISKS = [
    {"size_gb": 10, "raid_level": "1", "is_root_volume": True},
    {"size_gb": 20, "raid_level": "5"},
]


@pytest.fixture
def bmc_task(monkeypatch):
    """A task on a node whose controller answers at once."""
    monkeypatch.setattr(controller, "JOB_SECONDS", 0)
    monkeypatch.setattr(controller, "_controllers", {})
    task = testing.FakeTask(
        bmc.BMCPower(), bmc.BMCRAID(), bmc.BMCBIOS(), driver_info={"bmc_address": "10.0.0.2"}
    )
    task.node.target_raid_config = {"logical_disks": DISKS}
    return task


def look(task, interface, method):
    """Do what the conductor does for a periodic method."""
    declared = interface.declared_periodics[method]
    if not declared.predicate(task.node):
        return
    task.shared = declared.shared_task
    getattr(interface, method)(task, None, None)


@pytest.mark.parametrize("flow", WAITING_FLOWS, ids=BY_NAME)
def test_a_raid_job_waits_for_the_periodic_method_in_every_flow(bmc_task, flow):
    raid, board = bmc_task.driver.raid, controller.at("10.0.0.2")
    answer = testing.run_step(bmc_task, "raid.create_configuration", flow=flow)
    assert answer == flow.waiting
    assert [job.settings for job in board.jobs.values()] == DISKS
    info = bmc_task.node.driver_internal_info
    assert info[flow.flags.reboot] and info[flow.flags.polling] and info[flow.flags.skip]
    assert info["raid_config_job_ids"] == list(board.jobs)
    assert ("switch_power", states.REBOOT) in bmc_task.events and board.boots == 1
    bmc_task.node.provision_state, bmc_task.events[:] = flow.waiting, []
    look(bmc_task, raid, "_query_raid_config_job_status")
    assert bmc_task.events == [("complete_step",)]
    assert bmc_task.shared is False, "it has taken the lock"
    assert "raid_config_job_ids" not in info, "F66: no residue"
    look(bmc_task, raid, "_query_raid_config_job_status")
    assert len(bmc_task.events) == 1, "a second look finds nothing to do"


def test_a_job_that_goes_on_is_left_alone(bmc_task, monkeypatch):
    monkeypatch.setattr(controller, "JOB_SECONDS", 60)
    testing.run_step(bmc_task, "raid.delete_configuration", flow=steps.CLEAN)
    bmc_task.events.clear()
    look(bmc_task, bmc_task.driver.raid, "_query_raid_config_job_status")
    assert bmc_task.events == [] and bmc_task.shared


def test_a_failed_raid_job_fails_the_node_with_the_controllers_words(bmc_task):
    """F41."""
    controller.at("10.0.0.2").fail_next = "disk 3 is gone"
    testing.run_step(bmc_task, "raid.delete_configuration")
    bmc_task.node.provision_state, bmc_task.events[:] = states.DEPLOYWAIT, []
    look(bmc_task, bmc_task.driver.raid, "_query_raid_config_job_status")
    assert bmc_task.events == [("process_event", "fail")]
    assert "disk 3 is gone" in bmc_task.node.last_error


@pytest.mark.parametrize("flow", WAITING_FLOWS, ids=BY_NAME)
@pytest.mark.parametrize("fail", [None, "no such setting"])
def test_a_bios_job_ends_well_or_not(bmc_task, flow, fail):
    controller.at("10.0.0.2").fail_next = fail
    settings = {"settings": [{"name": "sriov", "value": "on"}]}
    answer = testing.run_step(bmc_task, "bios.apply_configuration", settings, flow=flow)
    assert answer == flow.waiting
    bmc_task.node.provision_state, bmc_task.events[:] = flow.waiting, []
    look(bmc_task, bmc_task.driver.bios, "_query_bios_config_job_status")
    failed = ("fail_step", f"Failed BIOS configuration: {fail}")
    assert bmc_task.events == [failed if fail else ("complete_step",)]


def test_the_flags_and_the_jobs_belong_to_one_interface_each(bmc_task):
    """F16: the one's periodic method does not end the other's wait."""
    testing.run_step(bmc_task, "bios.factory_reset")
    bmc_task.node.provision_state, bmc_task.events[:] = states.DEPLOYWAIT, []
    look(bmc_task, bmc_task.driver.raid, "_query_raid_config_job_status")
    assert bmc_task.events == []


def test_what_the_jobs_need_is_checked(bmc_task):
    assert "bmc_address" in bmc_task.driver.raid.get_properties()
    del bmc_task.node.driver_info["bmc_address"]
    for interface in (bmc_task.driver.power, bmc_task.driver.bios):
        with pytest.raises(exception.MissingParameterValue, match="bmc_address"):
            interface.validate(bmc_task)
    with pytest.raises(exceptions.InvalidParameterValue, match="settings"):
        testing.run_step(bmc_task, "bios.apply_configuration")
    bmc_task.node.target_raid_config = {}
    with pytest.raises(exception.MissingParameterValue, match="target_raid_config"):
        testing.run_step(bmc_task, "raid.create_configuration")


def test_the_controller_switches_the_machine(bmc_task):
    power = bmc_task.driver.power
    for target, reached in (
        (states.POWER_ON, states.POWER_ON),
        (states.REBOOT, states.POWER_ON),
        (states.POWER_OFF, states.POWER_OFF),
    ):
        power.set_power_state(bmc_task, target)
        assert power.get_power_state(bmc_task) == reached


# --- an agent driver that overrides heartbeat ---------------------------------------------


@pytest.fixture
def machine():
    """A machine whose agent listens, and takes the token ``token``."""
    with support_examples.machine() as found:
        found.token = "token"
        yield found


def agent_task(machine, **node):
    return testing.FakeTask(
        agent.AgentDeploy(),
        noop.NoopPower(),
        noop.NoopBoot(),
        noop.NoopNetwork(),
        instance_info={"image_source": "http://images/one.img"},
        driver_internal_info={"agent_url": machine.url, "agent_secret_token": "token"},
        **node,
    )


def heartbeat(task, state):
    task.node.provision_state, task.events[:] = state, []
    task.driver.deploy.heartbeat(task, task.node.driver_internal_info["agent_url"], "11.0")
    return task.events


def test_the_agent_is_booted_and_waited_for(machine):
    task = agent_task(machine)
    deploy = task.driver.deploy
    assert deploy.prepare(task) == states.DEPLOYWAIT
    assert task.events == [("switch_power", states.REBOOT)]
    task.node.provision_state = states.CLEANING
    assert deploy.prepare_cleaning(task) == states.CLEANWAIT
    for state in (states.DEPLOYWAIT, states.CLEANWAIT):
        assert heartbeat(task, state) == [("complete_step",)], "it beats: it has booted"
    assert machine.commands == []


@pytest.mark.parametrize(
    ("flow", "step", "command"),
    [
        (steps.DEPLOY, "write_image", "standby.prepare_image"),
        (steps.CLEAN, "erase_devices", "clean.execute_clean_step"),
    ],
)
def test_a_step_of_the_agent_goes_on_until_its_command_is_done(machine, flow, step, command):
    task = agent_task(machine)
    assert testing.run_step(task, step, flow=flow) == flow.waiting
    (begun,) = machine.commands
    assert begun["command_name"] == command
    assert heartbeat(task, flow.waiting) == []
    machine.end("SUCCEEDED")
    assert heartbeat(task, flow.waiting) == [("complete_step",)]
    begun.update(command_status="FAILED", command_error={"message": "no space"})
    ((event, why),) = heartbeat(task, flow.waiting)
    assert event == "fail_step" and "no space" in why and step in why


def test_the_other_steps_are_done_at_once(machine):
    task = agent_task(machine)
    for step in ("deploy", "tear_down_agent", "boot_instance"):
        assert testing.run_step(task, step) is None
    assert task.node.power_state == states.POWER_ON
    assert machine.commands == []
    order = sorted(agent.AgentDeploy().deploy_steps, key=lambda step: -step["priority"])
    assert [step["step"] for step in order] == [
        "deploy",
        "write_image",
        "tear_down_agent",
        "boot_instance",
    ]


def test_what_the_agent_answers_is_told(machine):
    task = agent_task(machine)
    task.node.driver_internal_info["agent_secret_token"] = "other"
    with pytest.raises(exception.AgentAPIError, match="401.*who"):
        testing.run_step(task, "write_image")
    task.node.driver_internal_info["agent_url"] = "http://127.0.0.1:1"
    with pytest.raises(exception.AgentConnectionFailed, match="refused"):
        testing.run_step(task, "write_image")
    del task.node.driver_internal_info["agent_url"]
    with pytest.raises(exception.AgentConnectionFailed, match="not beaten"):
        testing.run_step(task, "write_image")


def test_putting_away_and_what_is_needed(machine):
    task = agent_task(machine)
    deploy = task.driver.deploy
    assert deploy.get_properties() == {}
    deploy.take_over(task)
    deploy.clean_up(task)
    deploy.tear_down_cleaning(task)
    assert deploy.tear_down(task) == states.DELETED
    assert task.node.power_state == states.POWER_OFF
    assert heartbeat(task, states.ACTIVE) == []
    task.node.instance_info = {}
    with pytest.raises(exception.MissingParameterValue, match="image_source"):
        deploy.validate(task)
