"""What a machine is made of, and what it is told beside its steps."""

import json

import pytest

from deploysteps.cli.errors import ExitCode

N = "/v1/nodes/n"


def test_what_is_kept_of_a_machine(stub, ok):
    stub.on("GET", f"{N}/bios", {"bios": [{"name": "sriov", "value": "off", "links": []}]})
    stub.on("GET", f"{N}/bios/sriov", {"sriov": {"name": "sriov", "read_only": True}})
    stub.on("GET", f"{N}/inventory", {"inventory": {"cpu": {"count": 4}}, "plugin_data": {"a": 1}})
    stub.on("GET", f"{N}/firmware", {"firmware": [{"component": "bmc", "current_version": "2"}]})
    stub.on("GET", f"{N}/children", {"children": ["u-2"], "links": {}})
    assert ok("node", "bios", "n").stdout.split() == ["NAME", "VALUE", "sriov", "off"]
    assert "read_only  true" in ok("node", "bios", "n", "sriov").stdout
    told = ok("node", "inventory", "n").stdout
    assert '{"count": 4}' in told and "plugin_data" not in told
    assert json.loads(ok("node", "inventory", "n", "--json").stdout)["plugin_data"] == {"a": 1}
    assert ok("node", "firmware", "n").stdout.splitlines()[1].split() == ["bmc", "2"]
    assert ok("node", "children", "n").stdout.split() == ["UUID", "u-2"]
    for part in ("bios", "firmware", "children"):
        stub.on("GET", f"{N}/{part}", {part: []})
        assert "node n" in ok("node", part, "n").stdout


@pytest.mark.parametrize(
    ("command", "word", "path", "body"),
    [
        ("boot-mode", "uefi", "states/boot_mode", {"target": "uefi"}),
        ("secure-boot", "off", "states/secure_boot", {"target": False}),
        ("console", "on", "states/console", {"enabled": True}),
        ("raid", '{"a": 1}', "states/raid", {"a": 1}),
        ("boot-device", "pxe", "management/boot_device",
         {"boot_device": "pxe", "persistent": False}),
    ],
)  # fmt: skip
def test_what_is_set_when_a_value_is_given(stub, ok, command, word, path, body):
    stub.on("PUT", f"{N}/{path}", status=202)
    told = json.loads(ok("node", command, "n", word, "--json").stdout)
    assert told["node"] == "n" and stub.last("PUT")["body"] == body


def test_what_is_shown_when_none_is_given(stub, ok, failing):
    states = {"boot_mode": "uefi", "secure_boot": True, "power_state": "power on",
              "raid_config": {}, "target_raid_config": {"a": 1}}  # fmt: skip
    stub.on("GET", f"{N}/states", states)
    assert "uefi" in ok("node", "boot-mode", "n").stdout
    assert json.loads(ok("node", "secure-boot", "n", "--json").stdout) == {"secure_boot": True}
    assert "power" not in ok("node", "raid", "n").stdout
    stub.on("GET", f"{N}/states/console", {"console_enabled": False, "console_info": None})
    assert "console_enabled" in ok("node", "console", "n").stdout
    stub.on("GET", f"{N}/management/boot_device", {"boot_device": "pxe", "persistent": None})
    stub.on("GET", f"{N}/management/boot_device/supported", {"supported_boot_devices": ["disk"]})
    assert '["disk"]' in ok("node", "boot-device", "n").stdout
    assert failing("node", "boot-device", "n", "--persistent")[0] == ExitCode.USAGE
    assert failing("node", "boot-mode", "n", "both")[0] == ExitCode.USAGE


def test_what_is_attached(stub, ok):
    stub.on("POST", f"{N}/vifs", status=204)
    ok("node", "vifs", "attach", "n", "v", "--port-uuid", "p", "--info", "a=1", "--info", "id=w")
    assert stub.last("POST")["body"] == {"id": "v", "port_uuid": "p", "a": 1}
    stub.on("DELETE", f"{N}/vmedia", status=204)
    ok("node", "vmedia", "detach", "n", "cdrom", "disk")
    assert stub.last("DELETE")["query"] == {"device_types": "cdrom,disk"}
    ok("node", "vmedia", "detach", "n")
    assert stub.last("DELETE")["query"] == {}


def test_what_a_vendor_method_returns(stub, ok):
    path = f"{N}/vendor_passthru/m"
    stub.on("PUT", path, {"a": "b"})
    told = ok("node", "vendor", "call", "n", "m", "--http", "PUT", "--arg", "x=1").stdout
    assert json.loads(told) == {"a": "b"} and stub.last("PUT")["body"] == {"x": 1}
    stub.on("POST", path, status=202)
    assert "begun" in ok("node", "vendor", "call", "n", "m").stdout
    stub.headers["Content-Type"] = "application/octet-stream"
    stub.on("POST", path, b"\x00\xff")
    assert ok("node", "vendor", "call", "n", "m").stdout_bytes == b"\x00\xff"
