"""The real ``openstack baremetal`` command against a real service."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from typing import Any

import pytest

from deploysteps.cli.client import node_path
from tests.peers.conftest import OpenStack

BIOS = {"settings": [{"name": "LogicalProc", "value": "Enabled"}]}
STEPS = [{"interface": "bios", "step": "apply_configuration", "args": BIOS, "priority": 150}]
POLL = [{"interface": "deploy", "step": "poll", "args": {"seconds": 60}, "priority": 150}]
DRIVE = {"meta_data": {"hostname": "node-1"}, "user_data": "#!/bin/sh\necho"}


def until(condition: Callable[[], Any], seconds: float = 60) -> Any:
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, "it did not become true in time"
        time.sleep(0.05)
    return value


def show(openstack: OpenStack, name: str, *fields: str) -> dict[str, Any]:
    wanted = ["--fields", *fields] if fields else []
    return dict(openstack.json("node", "show", name, *wanted))


def state(openstack: OpenStack, name: str) -> str:
    """Return the node's state as the service tells it, without the client."""
    return str(openstack.service.get(node_path(name))["provision_state"])


def create(openstack: OpenStack, name: str, *more: str) -> dict[str, Any]:
    made = openstack.json("node", "create", "--driver", "fake-hardware", "--name", name, *more)
    return dict(made)


def reach(openstack: OpenStack, name: str, wanted: str) -> None:
    until(lambda: state(openstack, name) == wanted)


def available(openstack: OpenStack, name: str, *more: str) -> dict[str, Any]:
    """Create a node and provide it, without the client's ten seconds between two looks."""
    made = create(openstack, name, *more)
    for verb, wanted in (("manage", "manageable"), ("provide", "available")):
        openstack("node", verb, name)
        reach(openstack, name, wanted)
    return made


def test_a_life_by_the_program_itself(openstack):
    """Each command in a process of its own, as an operator runs it."""
    for arguments, wanted in (
        (["create", "--driver", "fake-hardware", "--name", "own"], "enroll"),
        (["manage", "own", "--wait", "60"], "manageable"),
        (["provide", "own"], "available"),
        (["deploy", "own", "--wait", "60", "--deploy-steps", json.dumps(STEPS)], "active"),
    ):
        done = openstack.execute("node", *arguments)
        assert done.returncode == 0, done.stderr
        reach(openstack, "own", wanted)
    done = openstack.execute("node", "show", "own", "-f", "json")
    node = json.loads(done.stdout)
    assert (node["provision_state"], node["target_provision_state"]) == ("active", None)
    done = openstack.execute("node", "provide", "own")
    assert done.returncode == 1
    assert '"provide"' in done.stderr and '"active"' in done.stderr and "HTTP 400" in done.stderr


def test_everything_that_can_be_said_at_enrolment(openstack):
    uuid = "5e1f3d64-9a4f-4b57-9c6f-7a5a8b1f0c01"
    network_data: dict[str, Any] = {"links": [], "networks": [], "services": []}
    made = create(
        openstack,
        "rich",
        *("--uuid", uuid, "--driver-info", "a=b", "--driver-info", "nested={'no': 'json'}"),
        *("--property", "cpus=2", "--property", "cpu_arch=x86_64", "--extra", "k=v"),
        *("--resource-class", "baremetal", "--conductor-group", "", "--owner", "me"),
        *("--lessee", "you", "--description", "a machine", "--no-automated-clean"),
        *("--deploy-interface", "fake", "--raid-interface", "no-raid", "--shard", "s1"),
        *("--network-data", json.dumps(network_data), "--disable-power-off"),
    )
    assert made["uuid"] == uuid and made["provision_state"] == "enroll"
    assert made["properties"] == {"cpus": 2, "cpu_arch": "x86_64"}
    assert made["driver_info"]["a"] == "b" and made["extra"] == {"k": "v"}
    assert made["network_data"] == network_data
    assert made["automated_clean"] is False and made["disable_power_off"] is True
    assert made["raid_interface"] == "no-raid" and made["bios_interface"] == "fake"
    assert [made[name] for name in ("owner", "lessee", "shard")] == ["me", "you", "s1"]
    assert show(openstack, uuid) == show(openstack, "rich")


def test_set_and_unset(openstack):
    create(openstack, "changed")
    openstack(
        *("node", "set", "changed", "--name", "renamed", "--description", "text"),
        *("--property", "memory_mb=1024", "--extra", "note=hello", "--driver-info", "B1=1"),
        *("--resource-class", "gold", "--owner", "me", "--instance-uuid"),
        *("22222222-2222-2222-2222-222222222222", "--instance-info", "a=1"),
        *("--retired", "--retired-reason", "old", "--automated-clean"),
    )
    node = show(openstack, "renamed")
    assert node["properties"] == {"memory_mb": 1024} and node["extra"] == {"note": "hello"}
    assert node["retired"] is True and node["retired_reason"] == "old"
    assert node["instance_uuid"] == "22222222-2222-2222-2222-222222222222"
    by_instance = openstack.json("node", "show", "--instance", node["instance_uuid"])
    assert by_instance["uuid"] == node["uuid"]
    openstack(
        *("node", "unset", "renamed", "--description", "--property", "memory_mb", "--retired"),
        *("--extra", "note", "--driver-info", "B1", "--resource-class", "--owner"),
        *("--instance-uuid", "--instance-info", "a", "--automated-clean"),
    )
    node = show(openstack, "renamed")
    emptied = ("description", "resource_class", "owner", "instance_uuid", "automated_clean")
    assert [node[name] for name in emptied] == [None] * len(emptied)
    assert [node[name] for name in ("properties", "extra", "driver_info")] == [{}, {}, {}]
    assert node["retired"] is False
    assert "extra/note" in openstack.refusal("node", "unset", "renamed", "--extra", "note")
    openstack("node", "set", "renamed", "--driver", "fake-hardware", "--reset-interfaces")
    openstack("node", "set", "renamed", "--raid-interface", "no-raid")
    openstack("node", "unset", "renamed", "--raid-interface")
    assert show(openstack, "renamed", "raid_interface")["raid_interface"] == "fake"
    openstack("node", "delete", "renamed")
    assert "HTTP 404" in openstack.refusal("node", "show", "renamed")


class TestLists:
    @pytest.fixture(scope="class")
    @staticmethod
    def three(openstack) -> list[str]:
        create(openstack, "list-a", "--resource-class", "lists", "--owner", "o1")
        create(openstack, "list-b", "--resource-class", "lists", "--description", "the second")
        available(openstack, "list-c", "--resource-class", "lists", "--shard", "sh")
        openstack("node", "maintenance", "set", "list-b")
        instance = "33333333-3333-3333-3333-333333333333"
        openstack("node", "set", "list-c", "--instance-uuid", instance, "--instance-name", "inst")
        openstack("node", "set", "list-a", "--retired")
        return ["list-a", "list-b", "list-c"]

    @pytest.mark.parametrize(
        ("options", "wanted"),
        [
            ((), "abc"),
            (("--maintenance",), "b"),
            (("--no-maintenance",), "ac"),
            (("--associated",), "c"),
            (("--unassociated",), "ab"),
            (("--retired",), "a"),
            (("--no-retired",), "bc"),
            (("--provision-state", "available"), "c"),
            (("--provision-state", "enroll"), "ab"),
            (("--driver", "fake-hardware"), "abc"),
            (("--driver", "other"), ""),
            (("--owner", "o1"), "a"),
            (("--description-contains", "second"), "b"),
            (("--conductor-group", ""), "abc"),
            (("--conductor", "demo"), "abc"),
            (("--sharded",), "c"),
            (("--shards", "sh"), "c"),
            (("--unsharded",), "ab"),
            (("--instance-name", "inst"), "c"),
            (("--fault", "power failure"), ""),
        ],
    )
    def test_filters(self, openstack, three, options, wanted):
        names = [f"list-{letter}" for letter in wanted]
        found = openstack.json(
            "node", "list", "--resource-class", "lists", *options, "--sort", "name:asc"
        )
        assert [one["name"] for one in found] == names

    def test_what_is_shown(self, openstack, three):
        short = openstack.json("node", "list", "--resource-class", "lists")
        columns = {"uuid", "name", "instance_uuid", "power_state", "provision_state"}
        assert set(short[0]) == columns | {"maintenance"}
        long = openstack.json("node", "list", "--resource-class", "lists", "--long")
        assert set(short[0]) < set(long[0]) < set(show(openstack, "list-a"))
        some = openstack.json(
            *("node", "list", "--resource-class", "lists"),
            *("--fields", "name", "provision_state", "deploy_step", "--sort", "name:desc"),
        )
        assert [one["name"] for one in some] == three[::-1]
        assert {tuple(one) for one in some} == {("name", "provision_state", "deploy_step")}
        for form in ("table", "csv", "value", "yaml"):
            out = openstack("node", "list", "--resource-class", "lists", "-f", form)
            assert "list-a" in out and "list-c" in out

    def test_pages(self, openstack, three):
        """``--limit`` is the size of a page for the server, and of the list for the client."""
        first = openstack.json("node", "list", "--limit", "1", "--resource-class", "lists")
        rest = openstack.json(
            "node", "list", "--marker", first[0]["uuid"], "--resource-class", "lists"
        )
        assert len(first) == 1 and len(rest) == 2
        everything = openstack.json("node", "list", "--limit", "0", "--resource-class", "lists")
        assert [one["uuid"] for one in everything] == [one["uuid"] for one in first + rest]
        by_key = openstack.json("node", "list", "--resource-class", "lists", "--sort", "name:desc")
        assert [one["name"] for one in by_key] == three[::-1]

    def test_refusals(self, openstack, three):
        assert "HTTP 404" in openstack.refusal("node", "list", "--marker", "list-nope")
        told = openstack.refusal("node", "list", "--provision-state", "frobnicated")
        assert "provision_state 'frobnicated'" in told and "HTTP 400" in told


def test_deploy_and_rebuild_and_undeploy(openstack, tmp_path):
    available(openstack, "life")
    steps = tmp_path / "steps.json"
    steps.write_text(json.dumps(STEPS))
    openstack(
        *("node", "deploy", "life", "--wait", "60"),
        *("--deploy-steps", str(steps), "--config-drive", json.dumps(DRIVE)),
    )
    node = show(openstack, "life")
    assert (node["provision_state"], node["deploy_step"]) == ("active", None)
    assert node["instance_info"]["configdrive"] == "******"
    openstack("node", "rebuild", "life", "--wait", "60", "--config-drive", json.dumps(DRIVE))
    openstack("node", "undeploy", "life", "--wait", "60")
    assert state(openstack, "life") == "available"


def test_waiting_for_what_fails(openstack):
    """The client tells the state in which it ended, and why."""
    create(openstack, "failing", "--driver-info", 'fake_fail=["deploy.deploy"]')
    openstack("node", "manage", "failing", "--wait", "60")
    openstack("node", "provide", "failing")
    reach(openstack, "failing", "available")
    told = openstack.refusal("node", "deploy", "failing", "--wait", "60")
    assert "deploy failed" in told and "deploy.deploy" in told
    node = show(openstack, "failing", "last_error", "target_provision_state")
    assert "deploy.deploy" in node["last_error"] and node["target_provision_state"] == "active"
    openstack("node", "undeploy", "failing")
    reach(openstack, "failing", "available")


def test_a_running_deployment(openstack):
    """What is shown of it, what is refused meanwhile, and its abort."""
    available(openstack, "busy")
    openstack("node", "deploy", "busy", "--deploy-steps", json.dumps(POLL))
    reach(openstack, "busy", "wait call-back")
    node = show(openstack, "busy")
    assert node["target_provision_state"] == "active"
    assert node["deploy_step"]["step"] == "poll" and node["deploy_step"]["priority"] == 150
    assert "HTTP 400" in openstack.refusal("node", "deploy", "busy")
    openstack("node", "abort", "busy")
    reach(openstack, "busy", "deploy failed")
    assert "abort" in show(openstack, "busy", "last_error")["last_error"].lower()
    openstack("node", "abort", "busy")  # F70: a second one changes nothing
    openstack("node", "undeploy", "busy")
    reach(openstack, "busy", "available")
    old = ("--os-baremetal-api-version", "1.109")
    openstack("node", "deploy", "busy", "--deploy-steps", json.dumps(POLL))
    reach(openstack, "busy", "wait call-back")
    told = openstack.refusal("node", "abort", "busy", before=old)
    assert "Requested API version 1.109 is not supported" in told
    openstack("node", "abort", "busy")


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ([{"interface": "deploy", "step": "deploy"}], "args"),
        ([{**STEPS[0], "interface": "xx"}], "interface"),
        ([{**STEPS[0], "priority": -1}], "priority"),
        ([{**STEPS[0], "zzz": 1}], "zzz"),
        ([{**STEPS[0], "args": {"nope": 1}}], "bios.apply_configuration"),
        ([{**STEPS[0], "step": "nope"}], "nope"),
        ([{"interface": "deploy", "step": "deploy", "args": {}, "priority": 50}], "deploy.deploy"),
    ],
)
def test_refused_deploy_steps(openstack, available_node, steps, told):
    """F9, F15: by name, before anything runs."""
    text = openstack.refusal("node", "deploy", available_node, "--deploy-steps", json.dumps(steps))
    assert told in text and "HTTP 400" in text
    assert state(openstack, available_node) == "available"


@pytest.fixture(scope="module")
def available_node(openstack) -> str:
    available(openstack, "spare", "--resource-class", "spare")
    return "spare"


def test_clean_and_service(openstack):
    available(openstack, "washed")
    steps = json.dumps([{"interface": "bios", "step": "factory_reset"}])
    assert "HTTP 400" in openstack.refusal("node", "clean", "washed", "--clean-steps", steps)
    openstack("node", "manage", "washed", "--wait", "60")
    openstack("node", "clean", "washed", "--wait", "60", "--clean-steps", steps)
    assert state(openstack, "washed") == "manageable"
    openstack("node", "clean", "washed", "--clean-steps", steps, "--disable-ramdisk")
    reach(openstack, "washed", "manageable")
    long = json.dumps([{"interface": "deploy", "step": "poll", "args": {"seconds": 60}}])
    openstack("node", "clean", "washed", "--clean-steps", long)
    reach(openstack, "washed", "clean wait")
    assert show(openstack, "washed", "clean_step")["clean_step"]["step"] == "poll"
    openstack("node", "abort", "washed")
    reach(openstack, "washed", "clean failed")
    openstack("node", "manage", "washed", "--wait", "60")
    unknown = json.dumps([{"interface": "bios", "step": "nope"}])
    assert "nope" in openstack.refusal("node", "clean", "washed", "--clean-steps", unknown)
    assert state(openstack, "washed") == "manageable"
    openstack("node", "provide", "washed")
    reach(openstack, "washed", "available")
    openstack("node", "deploy", "washed")
    reach(openstack, "washed", "active")
    openstack("node", "service", "washed", "--wait", "60", "--service-steps", steps)
    assert state(openstack, "washed") == "active"


def test_hold_and_unhold(openstack):
    available(openstack, "held")
    hold = [{"interface": "power", "step": "hold", "args": {}, "priority": 150}]
    openstack("node", "deploy", "held", "--deploy-steps", json.dumps(hold))
    reach(openstack, "held", "deploy hold")
    openstack("node", "unhold", "held")
    reach(openstack, "held", "active")


def test_power(openstack):
    available(openstack, "switched")

    def power() -> str:
        node = show(openstack, "switched", "power_state", "target_power_state")
        return node["power_state"] if node["target_power_state"] is None else "changing"

    for command, wanted in (
        (("power", "on"), "power on"),
        (("power", "off", "--soft", "--power-timeout", "30"), "power off"),
        (("reboot",), "power on"),
        (("reboot", "--soft"), "power on"),
        (("power", "off"), "power off"),
    ):
        openstack("node", *command, "switched")
        until(lambda wanted=wanted: power() == wanted)


def test_maintenance(openstack):
    available(openstack, "broken")
    openstack("node", "maintenance", "set", "broken", "--reason", "a fan")
    node = show(openstack, "broken", "maintenance", "maintenance_reason")
    assert node == {"maintenance": True, "maintenance_reason": "a fan"}
    assert "maintenance" in openstack.refusal("node", "deploy", "broken")
    openstack("node", "maintenance", "unset", "broken")
    node = show(openstack, "broken", "maintenance", "maintenance_reason")
    assert node == {"maintenance": False, "maintenance_reason": None}


def test_validate(openstack, available_node):
    found = {one["Interface"]: one for one in openstack.json("node", "validate", available_node)}
    assert {"boot", "deploy", "power", "management"} <= set(found)
    assert found["deploy"]["Result"] is True and found["power"]["Result"] is True


def test_traits(openstack):
    create(openstack, "traits")
    openstack("node", "add", "trait", "traits", "CUSTOM_A", "CUSTOM_B", "HW_CPU_X86_VMX")
    listed = openstack.json("node", "trait", "list", "traits")
    assert sorted(one["traits"] for one in listed) == ["CUSTOM_A", "CUSTOM_B", "HW_CPU_X86_VMX"]
    openstack("node", "trait", "remove", "traits", "CUSTOM_A")
    assert sorted(show(openstack, "traits")["traits"]) == ["CUSTOM_B", "HW_CPU_X86_VMX"]
    openstack("node", "remove", "trait", "traits", "--all")
    assert openstack.json("node", "trait", "list", "traits") == []
    assert "Failed to add trait" in openstack.refusal("node", "trait", "add", "traits", "lower")


def test_templates(openstack):
    made = openstack.json(
        *("deploy", "template", "create", "CUSTOM_HYPER"),
        *("--steps", json.dumps(STEPS), "--extra", "a=b"),
    )
    assert made["name"] == "CUSTOM_HYPER" and made["extra"] == {"a": "b"}
    assert [one["name"] for one in openstack.json("deploy", "template", "list")] == ["CUSTOM_HYPER"]
    assert openstack.json("deploy", "template", "list", "--long")[0]["steps"] == STEPS
    openstack("deploy", "template", "set", "CUSTOM_HYPER", "--extra", "c=d")
    openstack("deploy", "template", "unset", "CUSTOM_HYPER", "--extra", "a")
    assert openstack.json("deploy", "template", "show", made["uuid"])["extra"] == {"c": "d"}
    available(openstack, "templated")
    openstack("node", "trait", "add", "templated", "CUSTOM_HYPER")
    openstack("node", "set", "templated", "--instance-info", 'traits=["CUSTOM_HYPER"]')
    openstack("node", "deploy", "templated")
    reach(openstack, "templated", "active")
    assert "a" not in openstack.json("deploy", "template", "show", "CUSTOM_HYPER")["extra"]
    openstack("deploy", "template", "delete", "CUSTOM_HYPER")
    refused = ("deploy", "template", "create")
    assert "name" in openstack.refusal(*refused, "bad-name", "--steps", json.dumps(STEPS))
    assert "steps" in openstack.refusal(*refused, "CUSTOM_X", "--steps", "[]")


def test_runbooks(openstack):
    steps = [{"interface": "bios", "step": "factory_reset", "args": {}, "order": 1}]
    made = openstack.json("runbook", "create", "--name", "CUSTOM_RB", "--steps", json.dumps(steps))
    assert made["name"] == "CUSTOM_RB" and made["public"] is False
    assert [one["name"] for one in openstack.json("runbook", "list")] == ["CUSTOM_RB"]
    openstack("runbook", "set", "CUSTOM_RB", "--description", "resets", "--public", "true")
    assert openstack.json("runbook", "show", "CUSTOM_RB")["description"] == "resets"
    create(openstack, "by-book")
    openstack("node", "manage", "by-book", "--wait", "60")
    assert "CUSTOM_RB" in openstack.refusal("node", "clean", "by-book", "--runbook", "CUSTOM_RB")
    openstack("node", "trait", "add", "by-book", "CUSTOM_RB")
    openstack("node", "clean", "by-book", "--runbook", "CUSTOM_RB")
    reach(openstack, "by-book", "manageable")
    openstack("runbook", "unset", "CUSTOM_RB", "--description")
    openstack("runbook", "trait", "add", "CUSTOM_RB", "CUSTOM_OTHER")
    traits = openstack.json("runbook", "trait", "list", "CUSTOM_RB")
    assert "CUSTOM_OTHER" in [one["traits"] for one in traits]
    openstack("runbook", "delete", "CUSTOM_RB")


def test_history(openstack):
    available(openstack, "old")
    openstack("node", "deploy", "old")
    reach(openstack, "old", "active")
    listed = openstack.json("node", "history", "list", "old")
    assert listed and {"uuid", "created_at", "severity", "event"} <= set(listed[0])
    long = openstack.json("node", "history", "list", "old", "--long")
    assert set(listed[0]) < set(long[0])
    one = openstack.json("node", "history", "get", "old", listed[0]["uuid"])
    assert one["uuid"] == listed[0]["uuid"]


def test_ports(openstack):
    node = create(openstack, "ported")["uuid"]
    mac = "52:54:00:AA:BB:01"
    made = openstack.json("port", "create", mac, "--node", node, "--extra", "a=1")
    assert made["address"] == mac.lower() and made["node_uuid"] == node
    for options in (("--node", "ported"), ("--address", mac), ("--node", node, "--long")):
        found = openstack.json("port", "list", *options)
        assert [one["uuid"] for one in found] == [made["uuid"]]
    assert openstack.json("port", "show", "--address", mac.lower())["uuid"] == made["uuid"]
    openstack("port", "set", made["uuid"], "--pxe-disabled", "--physical-network", "p1")
    openstack("port", "unset", made["uuid"], "--extra", "a", "--physical-network")
    after = openstack.json("port", "show", made["uuid"])
    assert (after["pxe_enabled"], after["extra"], after["physical_network"]) == (False, {}, None)
    fields = openstack.json("port", "list", "--fields", "uuid", "address", "--node", "ported")
    assert list(fields[0]) == ["uuid", "address"]
    assert "HTTP 400" in openstack.refusal("port", "create", "zz:54", "--node", node)
    openstack("port", "delete", made["uuid"])
    assert openstack.json("port", "list", "--node", "ported") == []


def test_drivers_and_conductors(openstack):
    assert "fake-hardware" in [one["name"] for one in openstack.json("driver", "list")]
    openstack("driver", "list", "--long")
    assert openstack.json("driver", "show", "fake-hardware")["name"] == "fake-hardware"
    properties = openstack.json("driver", "property", "list", "fake-hardware")
    assert "fake_delay" in [one["property"] for one in properties]
    listed = openstack.json("conductor", "list")
    assert [one["hostname"] for one in listed] == ["demo"] and listed[0]["alive"] is True
    assert "fake-hardware" in openstack.json("conductor", "show", "demo")["drivers"]


def test_boot_device(openstack, available_node):
    openstack("node", "boot", "device", "set", available_node, "pxe", "--persistent")
    found = openstack.json("node", "boot", "device", "show", available_node)
    assert found == {"boot_device": "pxe", "persistent": True}
    supported = openstack.json("node", "boot", "device", "show", available_node, "--supported")
    assert "pxe" in supported["supported_boot_devices"]
    told = openstack.refusal("node", "boot", "device", "set", available_node, "wanboot")
    assert "HTTP 400" in told


def test_inspect_and_what_is_found(openstack):
    create(openstack, "inspected")
    openstack("node", "manage", "inspected", "--wait", "60")
    openstack("node", "inspect", "inspected", "--wait", "60")
    assert show(openstack, "inspected")["properties"]["cpu_arch"] == "x86_64"
    assert "cpu" in json.loads(openstack("node", "inventory", "save", "inspected"))["inventory"]
    assert openstack.json("node", "bios", "setting", "list", "inspected")
    assert openstack.json("node", "firmware", "list", "inspected")
    openstack("node", "boot", "mode", "set", "inspected", "uefi")
    openstack("node", "secure", "boot", "on", "inspected")
    modes = {"boot_mode": "uefi", "secure_boot": True}
    until(lambda: show(openstack, "inspected", "boot_mode", "secure_boot") == modes)
    openstack("node", "inject", "nmi", "inspected")
    assert openstack.json("node", "console", "show", "inspected")["console_enabled"] is False
    assert openstack.json("node", "passthru", "list", "inspected")
    raid = '{"logical_disks": [{"size_gb": 10, "raid_level": "1"}]}'
    openstack("node", "set", "inspected", "--target-raid-config", raid)
    assert show(openstack, "inspected")["target_raid_config"] == json.loads(raid)
    assert openstack.json("driver", "raid", "property", "list", "fake-hardware")
    told = openstack.refusal("node", "bios", "setting", "show", "inspected", "nope")
    assert "HTTP 404" in told


def test_adopt_and_rescue(openstack):
    create(openstack, "adopted")
    openstack("node", "manage", "adopted", "--wait", "60")
    openstack("node", "adopt", "adopted", "--wait", "60")
    openstack("node", "rescue", "adopted", "--rescue-password", "hunter2-planted")
    reach(openstack, "adopted", "rescue")
    assert "hunter2-planted" not in openstack("node", "show", "adopted")
    openstack("node", "unrescue", "adopted")
    reach(openstack, "adopted", "active")


def test_vifs(openstack, available_node):
    vif = "33333333-3333-3333-3333-333333333333"
    openstack("node", "vif", "attach", available_node, vif)
    openstack("node", "vif", "list", available_node)
    openstack("node", "vif", "detach", available_node, vif)


def test_groups(openstack):
    chassis = openstack.json("chassis", "create", "--description", "c")
    node = create(openstack, "grouped", "--chassis-uuid", chassis["uuid"], "--shard", "s9")
    assert node["chassis_uuid"] == chassis["uuid"]
    listed = openstack.json("node", "list", "--chassis", chassis["uuid"])
    assert [one["name"] for one in listed] == ["grouped"]
    create(openstack, "child", "--parent-node", node["uuid"])
    assert openstack.json("node", "children", "list", "grouped")
    assert "s9" in [one["name"] for one in openstack.json("shard", "list")]
    group = openstack.json("port", "group", "create", "--node", node["uuid"], "--name", "bond")
    mac = "52:54:00:aa:bb:09"
    port = openstack.json(
        "port", "create", mac, "--node", node["uuid"], "--port-group", group["uuid"]
    )
    found = openstack.json("port", "list", "--port-group", "bond")
    assert [one["uuid"] for one in found] == [port["uuid"]]
    openstack("port", "delete", port["uuid"])
    openstack("port", "group", "delete", "bond")
    openstack("node", "delete", "child", "grouped")
    openstack("chassis", "delete", chassis["uuid"])


def test_what_is_not_offered_is_not_found(openstack):
    for command in (("inspection", "rule"), ("volume", "connector"), ("volume", "target")):
        assert "HTTP 404" in openstack.refusal(*command, "list")


def test_allocations(openstack):
    node = available(openstack, "wanted", "--resource-class", "alloc")["uuid"]
    openstack("node", "trait", "add", "wanted", "CUSTOM_FAST")
    made = openstack.json(
        *("allocation", "create", "--resource-class", "alloc", "--name", "al1", "--wait", "60"),
        *("--trait", "CUSTOM_FAST"),
    )
    assert (made["state"], made["node_uuid"]) == ("active", node)
    shown = show(openstack, "wanted")
    assert (shown["allocation_uuid"], shown["instance_uuid"]) == (made["uuid"], made["uuid"])
    assert [one["name"] for one in openstack.json("allocation", "list")] == ["al1"]
    assert openstack.json("allocation", "show", "al1")["uuid"] == made["uuid"]
    openstack("allocation", "delete", "al1")
    assert show(openstack, "wanted")["allocation_uuid"] is None
    told = openstack.refusal(
        "allocation", "create", "--resource-class", "nowhere", "--name", "al2", "--wait", "60"
    )
    assert "no" in told and "nowhere" in told
    openstack("allocation", "delete", "al2")


class TestRefusals:
    @pytest.mark.parametrize(
        ("arguments", "told"),
        [
            (("node", "show", "nope"), "Node nope could not be found"),
            (("node", "show", "11111111-1111-1111-1111-111111111111"), "HTTP 404"),
            (("node", "create", "--driver", "nope"), "nope"),
            (("node", "create", "--driver", "fake-hardware", "--deploy-interface", "no"), "no"),
            (("node", "create", "--driver", "fake-hardware", "--name", "bad name!"), "name"),
            (("port", "show", "11111111-1111-1111-1111-111111111111"), "HTTP 404"),
            (("driver", "show", "nope"), "HTTP 404"),
            (("conductor", "show", "nope"), "HTTP 404"),
            (("deploy", "template", "show", "CUSTOM_NOPE"), "HTTP 404"),
            (("runbook", "show", "CUSTOM_NOPE"), "HTTP 404"),
        ],
    )
    def test_of_what_is_not_there(self, openstack, arguments, told):
        text = openstack.refusal(*arguments)
        assert told in text
        assert re.search(r"Request-ID: req-[0-9a-f-]{36}", text)

    def test_of_verbs_that_do_not_fit(self, openstack, available_node):
        for verb in ("provide", "undeploy", "rebuild", "abort", "unhold"):
            text = openstack.refusal("node", verb, available_node)
            assert 'while it is in state "available"' in text and "HTTP 400" in text
        text = openstack.refusal("node", "set", available_node, "--driver-info", "a/b=1")
        assert "HTTP 400" in text

    def test_of_a_name_that_is_taken(self, openstack, available_node):
        """The client tries a 409 again, five times; in the end it tells it."""
        text = openstack.refusal(
            "node", "create", "--driver", "fake-hardware", "--name", available_node
        )
        assert "already exists" in text and "HTTP 409" in text

    def test_of_a_delete_in_a_wrong_state(self, openstack):
        available(openstack, "kept")
        openstack("node", "deploy", "kept")
        reach(openstack, "kept", "active")
        openstack("node", "set", "kept", "--protected")
        text = openstack.refusal("node", "undeploy", "kept")
        assert "protected" in text
        openstack("node", "unset", "kept", "--protected")


class TestVersions:
    @pytest.mark.parametrize("version", ["1.1", "1.5", "1.31", "1.72", "1.95", "1.115"])
    def test_fixed_ones_work(self, openstack, available_node, version):
        before = ("--os-baremetal-api-version", version)
        uuid = show(openstack, available_node)["uuid"]
        assert openstack.json("node", "show", uuid, before=before)["uuid"] == uuid
        assert openstack.json("node", "list", before=before)

    def test_one_that_is_too_new(self, openstack):
        before = ("--os-baremetal-api-version", "1.999")
        code, _, err = openstack.run("node", "list", before=before)
        assert code and "1.999" in err

    def test_fields_newer_than_the_version(self, openstack, available_node):
        before = ("--os-baremetal-api-version", "1.43")
        code, _, err = openstack.run(
            "node", "show", available_node, "--fields", "deploy_step", before=before
        )
        assert code == 1 and "Supported version range is 1.1 to" in err
