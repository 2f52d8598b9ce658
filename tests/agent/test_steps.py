"""Steps that the agent does, from the plan to the end of the run."""

from __future__ import annotations

import json
import logging
import time
from typing import Any

import pytest

from deploysteps import exceptions, states
from deploysteps.db import nodes
from deploysteps.drivers import base, discovery, fake
from deploysteps.drivers.agent.deploy import CustomAgentDeploy, DirectDeploy
from tests import support
from tests.agent.fake_agent import fails, runs_for, says, step
from tests.support_api import Api

OURS = [
    "deploy",
    "prepare_instance_boot",
    "tear_down_agent",
    "switch_to_tenant_network",
    "boot_instance",
]


def asked(name: str, priority: int = 90, interface: str = "deploy", **args: Any) -> dict[str, Any]:
    return {"interface": interface, "step": name, "args": args, "priority": priority}


def test_a_deployment_with_a_step_of_the_agent(machine):
    m = machine(step("mark", 50), step("off"))
    node = m.run()
    assert m.ran() == ["deploy", "prepare_instance_boot", "mark", *OURS[2:]]
    assert m.agent.executed == ["mark"]
    assert [c.full_name for c in m.agent.commands if "step" not in c.name] == [
        "standby.sync",
        "standby.power_off",
    ]
    assert node.power_state == states.POWER_ON and node.last_error is None
    info = node.driver_internal_info
    assert not {"agent_command", "agent_told_steps", "agent_secret_token"} & info.keys()
    assert info["hardware_manager_version"] == {"peer": "1"}
    cached = info["agent_cached_deploy_steps"]["deploy"]
    assert [offered["step"] for offered in cached] == ["mark", "off"]


def test_with_tls_and_exactly_the_certificate_that_the_agent_sent(machine, settings):
    settings(require_tls=True)
    m = machine(step("mark", 50), tls=True)
    m.run()
    assert m.agent.executed == ["mark"]


def test_the_step_gets_its_arguments_and_the_node_as_the_field_sends_them(machine):
    """F11, F77: arguments arrive as they were given, secrets of the node do not."""
    seconds = {"seconds": {"description": "how long", "required": True}}
    m = machine(step("nap", 0, argsinfo=seconds))
    m.run(
        [asked("nap", 90, seconds={"password": "intact", "n": [1]})],
        driver_info={"bmc_password": "planted-secret"},
        extra={"of": "a user"},
    )
    params = m.agent.named("execute_deploy_step")[0].params
    assert params["step"]["args"] == {"seconds": {"password": "intact", "n": [1]}}
    assert params["step"]["interface"] == "deploy" and params["step"]["priority"] == 90
    assert params["deploy_version"] == {"peer": "1"}
    assert params["node"]["uuid"] == m.uuid and params["node"]["extra"] == {"of": "a user"}
    assert params["node"]["driver_internal_info"]["hardware_manager_version"] == {"peer": "1"}
    assert "planted-secret" not in str(params) and m.agent.token not in str(params)
    assert [port["address"] for port in params["ports"]] == ["52:54:00:00:00:01"]


def test_a_step_of_any_interface_is_the_agents_when_it_offers_it(machine):
    m = machine(step("make", 70, interface="raid"), step("set", 65, interface="bios"))
    m.run()
    assert m.agent.executed == ["make", "set"]
    assert m.ran()[:3] == ["deploy", "make", "set"]


def test_a_chain_of_short_steps_takes_no_heartbeat(machine):
    """Faster than heartbeats: one beat, and no second one, for twenty steps."""
    m = machine(*(step(f"s{n}", 80 - n) for n in range(20)))
    for n in range(20):
        m.agent.on[f"s{n}"] = runs_for(0.005)
    m.run()
    assert m.agent.executed == [f"s{n}" for n in range(20)]


def test_a_step_that_goes_on_is_asked_after_with_growing_pauses(machine):
    m = machine(step("slow", 90))
    m.agent.on["slow"] = says("RUNNING")
    m.deploy()
    m.boot()
    m.until_step("slow")
    support.until(lambda: support.attempts(m.database, m.node)[-1].poll["pause"] == 2)
    ident = m.agent.commands[-1].id
    looks = [path for _, path in m.agent.requests if path.endswith(ident)]
    assert len(looks) >= 12, "from 0.02 s on 1.5 times as long after each"
    m.agent.commands[-1].status = "SUCCEEDED"
    m.settle(states.ACTIVE)


def test_while_a_step_goes_on_no_lock_and_no_worker_is_held(machine):
    """Promise 9: a wait costs a row."""
    m = machine(step("slow", 90))
    m.agent.on["slow"] = says("RUNNING")
    m.deploy()
    m.boot()
    m.until_step("slow")
    waiting = support.attempts(m.database, m.node)[-1]
    assert (waiting.owner, waiting.state) == ("agent", "waiting")
    assert waiting.poll["at_most"] == 2
    assert (waiting.deadline_at - waiting.waiting_since).days == 7, "[conductor] agent_step_timeout"
    m.agent.commands[-1].status = "SUCCEEDED"
    m.settle(states.ACTIVE)


def test_a_heartbeat_is_the_safety_net(machine, settings):
    """A beat asks the agent at once, where the next look would be far away."""
    settings(command_poll_first=600, command_poll_longest=600)
    m = machine(step("slow", 90))
    m.agent.on["slow"] = says("RUNNING")
    m.deploy()
    m.boot()
    m.until_step("slow")
    m.beat()
    m.until_step("slow")
    m.agent.commands[-1].status = "SUCCEEDED"
    m.beat()
    m.settle(states.ACTIVE)
    assert m.agent.executed == ["slow"]


def test_a_failing_step_keeps_what_the_agent_said_and_its_logs(machine):
    m = machine(step("bad", 90))
    m.agent.on["bad"] = fails("Deploy step failed", "the disk is on fire")
    node = m.run(ends=states.DEPLOYFAIL)
    assert "Deploy step failed: the disk is on fire" in node.last_error
    assert node.deploy_step["step"] == "bad" and node.power_state == states.POWER_OFF
    kept = m.evidence("bad")
    assert kept["command_error"]["details"] == "the disk is on fire"
    assert kept["agent_logs"] == {"journal": "the journal of the machine\n"}
    assert len(m.agent.named("collect_system_logs")) == 1


@pytest.mark.parametrize(("collect", "times"), [("never", 0), ("on_failure", 0), ("always", 1)])
def test_logs_of_a_good_deployment_are_kept_where_the_operator_wants_them(
    machine, settings, collect, times
):
    settings(deploy_logs_collect=collect)
    m = machine()
    m.run()
    assert len(m.agent.named("collect_system_logs")) == times
    assert ("agent_logs" in m.evidence("tear_down_agent")) == bool(times)


def test_logs_that_cannot_be_had_fail_nothing_more(machine):
    m = machine(step("bad", 90))
    m.agent.on["bad"], m.agent.logs = fails("no", "way"), None
    node = m.run(ends=states.DEPLOYFAIL)
    assert "no: way" in node.last_error
    assert "collect_system_logs failed" in m.evidence("bad")["agent_logs"]["error"]


class Breaks(support.Vendor):
    @base.deploy_step(priority=85)
    def breaks(self, task):
        raise exceptions.DeployStepFailed("not the agent's fault")


def test_logs_are_kept_when_a_step_of_the_conductor_fails(machine):
    m = machine(vendor=Breaks)
    m.run(ends=states.DEPLOYFAIL)
    assert m.evidence("breaks")["agent_logs"] == {"journal": "the journal of the machine\n"}


def test_a_step_that_reboots_ends_with_the_next_boot_only(machine):
    """F27: a late beat of the old boot counts for nothing, and neither does a look."""
    m = machine(step("turn", 90, reboot_requested=True), step("mark", 50))
    m.deploy()
    m.boot()
    node = m.until_step("turn")
    old = m.agent.token
    assert node.driver_internal_info["agent_command"]["rebooting"] == "done"
    with pytest.raises(exceptions.InvalidParameterValue, match="token"):
        m.beat(old)
    time.sleep(0.3)
    assert m.node.deploy_step["step"] == "turn"
    m.boot()
    m.settle(states.ACTIVE)
    assert m.agent.token != old and m.ran()[:2] == ["deploy", "turn"]


def test_a_slow_step_that_reboots(machine):
    m = machine(step("turn", 90, reboot_requested=True))
    m.agent.on["turn"] = runs_for(0.1)
    m.deploy()
    m.boot()
    support.until(lambda: m.node.driver_internal_info.get("agent_command", {}).get("rebooting"))
    m.until_step("turn")
    m.boot()
    m.settle(states.ACTIVE)
    assert m.ran()[:2] == ["deploy", "turn"]


def test_a_user_who_lists_a_step_does_not_take_its_reboot_away(machine):
    """The agent's reboot_requested stays, whoever gives the step another priority."""
    m = machine(step("turn", 0, reboot_requested=True))
    m.deploy([asked("turn", 85)])
    m.boot()
    node = m.until_step("turn")
    assert node.deploy_step["reboot_requested"] is True
    assert node.driver_internal_info["agent_command"]["rebooting"] == "done"
    m.boot()
    m.settle(states.ACTIVE)


def test_a_step_with_the_priority_of_the_agents_end_runs_before_it(machine):
    """The tie at 40: the agent still lives; also on an interface of a later rank."""
    m = machine(step("last", 40), step("later", 40, interface="raid"))
    m.run()
    assert m.ran() == ["deploy", "prepare_instance_boot", "last", "later", *OURS[2:]]


def test_a_step_that_would_come_when_the_agent_is_gone_is_refused_before_any_runs(machine):
    m = machine(step("late", 30))
    node = m.run(ends=states.DEPLOYFAIL)
    assert "deploy.late" in node.last_error and "tear_down_agent" in node.last_error
    assert m.ran() == ["prepare"] or m.ran() == []


def test_a_step_of_priority_0_does_not_run(machine):
    m = machine(step("off", 0))
    m.run()
    assert m.agent.executed == []


def test_a_step_that_nobody_knows_is_told_when_the_agent_has(machine):
    m = machine()
    node = m.run([asked("nonsense")], ends=states.DEPLOYFAIL)
    assert "deploy step deploy.nonsense" in node.last_error


def test_arguments_of_a_step_that_the_agent_has_not_told_are_secret(machine, conf):
    """F76: only the agent says which of them are, and it may never come to that."""
    info = {name: {"description": "any", "secret": name == "word"} for name in ("word", "how")}
    m = machine(step("wipe", argsinfo=info))
    m.enrol()
    wanted = [{**asked("wipe", 85), "args": {"word": "zQ7marker", "how": "gently"}}]
    api = Api(conf, m.database, m.service.client)
    plan = api.post(f"/v1/nodes/{m.uuid}/plan", {"deploy_steps": wanted}).body
    assert "zQ7marker" not in json.dumps(plan) and "wipe" in json.dumps(plan)
    m.deploy(wanted)
    paths = ("", "/runs?plan=true", "/history?detail=true")
    shown = "".join(json.dumps(api.get(f"/v1/nodes/{m.uuid}{path}").body) for path in paths)
    shown += json.dumps(api.get("/v1/nodes/detail").body)
    assert "zQ7marker" not in shown and "gently" not in shown and shown.count("wipe") >= 4
    m.boot()
    m.settle(states.ACTIVE)
    shown = json.dumps(api.get(f"/v1/nodes/{m.uuid}/runs?plan=true").body)
    assert "zQ7marker" not in shown and "gently" in shown
    (command,) = m.agent.named("execute_deploy_step")
    assert command.params["step"]["args"] == wanted[0]["args"]


def test_a_wrong_argument_is_found_before_any_step_runs(machine):
    """F9: arguments of the agent's steps are checked when it has told of them."""
    info = {"seconds": {"description": "how long", "required": True}}
    m = machine(step("nap", 0, argsinfo=info))
    node = m.run([asked("nap", 90)], ends=states.DEPLOYFAIL)
    assert "seconds" in node.last_error and m.agent.executed == []


def test_the_conductors_step_of_a_name_wins_and_the_plan_says_so(machine, caplog):
    """F4."""
    m = machine(step("boot_instance", 90), step("mark", 50))
    with caplog.at_level(logging.WARNING):
        m.run()
    assert m.agent.executed == ["mark"]
    plan = support.last_run(m.database, m.node).plan
    ours = next(entry for entry in plan if entry["step"] == "boot_instance")
    assert ours["priority"] == 20 and ours["replaced"] == [{"source": "agent", "priority": 90}]
    assert "deploy.boot_instance: the conductor's runs, not the agent's" in caplog.text


def test_the_plan_is_the_same_whether_the_agent_was_known_before_or_not(machine):
    """F3: also a step before the image is written is in both."""
    m = machine(step("early", 150), step("mark", 50))
    m.run()
    first = [entry["step"] for entry in support.last_run(m.database, m.node).plan]
    assert first[:2] == ["early", "deploy"]
    assert m.node.driver_internal_info["agent_cached_deploy_steps"]
    m.service.manager.do_node_deploy(None, m.uuid, rebuild=True)
    m.settle(states.DEPLOYWAIT)
    m.boot()
    m.settle(states.ACTIVE)
    assert [entry["step"] for entry in support.last_run(m.database, m.node).plan] == first
    assert m.ran()[0] == "early"


def test_cleaning_by_the_agents_own_priorities(machine):
    m = machine(step("erase", 10, abortable=True), step("off", 0))
    m.enrol(provision_state=states.MANAGEABLE)
    m.service.manager.do_provisioning_action(None, m.uuid, "provide")
    m.settle(states.CLEANWAIT)
    m.boot()
    node = m.settle(states.AVAILABLE)
    assert m.agent.executed == ["erase"] and node.power_state == states.POWER_OFF
    assert m.agent.named("execute_clean_step")[0].params["clean_version"] == {"peer": "1"}


@pytest.mark.parametrize(("allowed", "ends"), [(True, states.AVAILABLE), (False, states.CLEANFAIL)])
def test_automated_cleaning_without_an_enabled_step(machine, conf, allowed, ends):
    """F1: allowed by a setting, which is the field's; else it says why."""
    conf.set_override("allow_empty_cleaning", allowed, group="conductor")
    m = machine(step("off", 0))
    m.enrol(provision_state=states.MANAGEABLE)
    m.service.manager.do_provisioning_action(None, m.uuid, "provide")
    m.settle(states.CLEANWAIT)
    m.boot()
    node = m.settle(ends)
    assert node.power_state == states.POWER_OFF
    assert allowed or "no clean step" in node.last_error


def test_cleaning_on_request_in_its_order(machine):
    m = machine(step("mark", 50), step("nap"))
    m.enrol(provision_state=states.MANAGEABLE)
    names = ["nap", "mark", "nap"]
    listed = [{"interface": "deploy", "step": name} for name in names]
    m.service.manager.do_node_clean(None, m.uuid, listed)
    m.settle(states.CLEANWAIT)
    m.boot()
    m.settle(states.MANAGEABLE)
    assert m.agent.executed == names


def test_servicing(machine):
    m = machine(step("mark", 50))
    m.run()
    m.service.manager.do_node_service(None, m.uuid, [{"interface": "deploy", "step": "mark"}])
    m.settle(states.SERVICEWAIT)
    m.boot()
    node = m.settle(states.ACTIVE)
    assert m.agent.named("execute_service_step") and node.power_state == states.POWER_ON


def test_an_agent_that_shuts_the_machine_down_is_waited_for(machine, settings):
    class Power(fake.FakePower):
        looked = 0
        forced = False

        def get_power_state(self, task):
            Power.looked += 1
            return states.POWER_OFF if Power.looked > 3 else states.POWER_ON

        def set_power_state(self, task, power_state, timeout=None):
            Power.forced |= power_state == states.POWER_OFF and 0 < Power.looked <= 3
            super().set_power_state(task, power_state, timeout)

    settings(post_deploy_get_power_state_retry_interval=60)
    m = machine(power=Power)
    m.run()
    assert Power.looked == 4 and not Power.forced


def test_a_machine_that_does_not_go_off_is_switched_off(machine):
    m = machine()
    m.run()
    assert "tear_down_agent" in m.ran()


@pytest.mark.parametrize("what", ["standby.sync", "standby.power_off"])
def test_a_machine_whose_agent_cannot_shut_down_is_switched_off(machine, what):
    m = machine()
    m.agent.broken_paths[f"POST {what}"] = "500"
    m.run()
    assert m.ran()[-3:] == OURS[2:]


IMAGE = {
    "image_source": "http://images.example.org/disk.raw",
    "image_os_hash_algo": "sha256",
    "image_os_hash_value": "ab" * 32,
    "image_disk_format": "raw",
}


def test_direct_writes_the_image_and_the_configuration_drive(machine):
    m = machine(deploy=DirectDeploy)
    m.agent.on["prepare_image"] = runs_for(0.1)
    m.run(instance_info={**IMAGE, "configdrive": "H4sIAAA"})
    command = m.agent.named("prepare_image")[0]
    assert command.full_name == "standby.prepare_image"
    assert command.params["configdrive"] == "H4sIAAA"
    told = command.params["image_info"]
    assert told["urls"] == [IMAGE["image_source"]] and told["id"] == "disk.raw"
    assert told["os_hash_algo"] == "sha256" and told["os_hash_value"] == "ab" * 32
    assert told["disk_format"] == "raw" and told["node_uuid"] == m.uuid
    assert m.ran() == ["deploy", "write_image", "prepare_instance_boot", "mark", *OURS[2:]]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"image_source": None}, "image_source"),
        ({"image_source": "ftp://x/y"}, "image_source"),
        ({"image_source": 5}, "image_source"),
        ({"image_os_hash_value": None}, "belong together"),
        ({"image_os_hash_algo": None, "image_os_hash_value": None}, "no checksum"),
        ({"image_checksum": 7}, "image_checksum"),
        ({"image_checksum": "  "}, "image_checksum has to be md5, sha256, sha512, or the URL"),
        ({"image_checksum": "abc"}, "image_checksum has to be md5"),
        ({"image_os_hash_algo": "crc"}, "image_os_hash_algo has to be a hash function"),
        ({"image_os_hash_algo": "shake_128"}, "image_os_hash_algo has to be a hash function"),
        ({"image_os_hash_value": "xy" * 32}, "image_os_hash_value has to be 64 hexadecimal"),
        ({"image_os_hash_algo": "sha512"}, "has to be 128 hexadecimal digits, by sha512"),
        ({"image_disk_format": 5}, "image_disk_format has to be one of raw, gpt"),
        ({"image_disk_format": "nonsense"}, "image_disk_format has to be one of raw, gpt"),
        ({"image_container_format": 5}, "image_container_format has to be a text"),
        ({"configdrive": "not base64!!"}, "gzipped and base64-encoded ISO"),
        ({"configdrive": {"meta_data": 5}}, "configdrive/meta_data has to be an object"),
        ({"configdrive": {"user_data": 5}}, "configdrive/user_data has to be a text"),
        ({"configdrive": {"meta_dat": {}}}, "not 'meta_dat'"),
        ({"image_type": "partition"}, "partition"),
        ({"configdrive": 7}, "configdrive"),
    ],
)
def test_direct_refuses_an_image_that_it_cannot_write_before_anything_runs(machine, change, said):
    m = machine(deploy=DirectDeploy)
    m.enrol(instance_info={**IMAGE, **change})
    with pytest.raises(exceptions.Invalid, match=said):
        m.service.manager.do_node_deploy(None, m.uuid)
    assert nodes.get(m.database, m.uuid).provision_state == states.AVAILABLE


@pytest.mark.parametrize(
    "change",
    [
        {"image_os_hash_value": "AB" * 32},
        {"image_os_hash_algo": None, "image_os_hash_value": None, "image_checksum": "Ab" * 64},
    ],
)
def test_direct_tells_checksums_as_the_agent_compares_them(machine, change):
    m = machine(deploy=DirectDeploy)
    m.run(instance_info={**IMAGE, **change})
    told = m.agent.named("prepare_image")[0].params["image_info"]
    assert set(told.get("os_hash_value") or told["checksum"]) == set("ab")


@pytest.mark.parametrize(
    ("source", "name"),
    [
        ("http://i.example.org/a/disk.raw?temp_url_sig=very/secret", "disk.raw"),
        ("http://i.example.org?temp_url_sig=secret", "image"),
        ("file:///images/disk.raw", "disk.raw"),
    ],
)
def test_the_name_of_an_image_has_no_signature(machine, source, name):
    """F76: the agent repeats it in its errors and results."""
    m = machine(deploy=DirectDeploy)
    m.run(instance_info={**IMAGE, "image_source": source})
    told = m.agent.named("prepare_image")[0].params["image_info"]
    assert (told["id"], told["urls"]) == (name, [source])


def test_direct_takes_the_url_of_a_checksum(machine):
    m = machine(deploy=DirectDeploy)
    url = "http://images.example.org/SUMS"
    none = {"image_os_hash_algo": None, "image_os_hash_value": None}
    m.run(instance_info={**IMAGE, **none, "image_checksum": url})
    assert m.agent.named("prepare_image")[0].params["image_info"]["checksum"] == url


def test_a_failing_image_is_told(machine):
    m = machine(deploy=DirectDeploy)
    m.agent.on["prepare_image"] = fails("Image checksum error", "it is another one")
    node = m.run(instance_info=dict(IMAGE), ends=states.DEPLOYFAIL)
    assert "write_image failed" in node.last_error and "it is another one" in node.last_error


class Loses(support.Vendor):
    """A step of the conductor that reboots the machine before the image is written."""

    @base.deploy_step(priority=110)
    def loses(self, task):
        task.switch_power(states.REBOOT)


def test_the_agent_is_booted_again_when_a_step_has_rebooted_the_machine(machine):
    m = machine(vendor=Loses)
    m.deploy()
    m.boot()
    m.until_step("deploy")
    m.boot()
    m.settle(states.ACTIVE)
    assert m.agent.executed == ["mark"]


def test_a_step_of_the_agent_waits_for_the_agent_where_it_was_lost(machine):
    m = machine(step("early", 105), step("mark", 50), vendor=Loses)
    m.deploy()
    m.boot()
    m.until_step("early")
    m.boot()
    m.settle(states.ACTIVE)
    assert m.agent.executed == ["early", "mark"]


def test_both_interfaces_are_installed_for_fake_hardware():
    plugins = discovery.plugins(discovery.namespace("deploy"))
    assert plugins["custom-agent"].value is CustomAgentDeploy
    assert plugins["direct"].value is DirectDeploy
    supported = fake.FakeHardware().supported_deploy_interfaces
    assert CustomAgentDeploy in supported and DirectDeploy in supported
