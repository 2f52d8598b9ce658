"""What there is below ``nodes/<id>`` of the machine itself: statuses, bodies, headers, versions."""

from __future__ import annotations

import pytest

from deploysteps import exceptions
from deploysteps.api import versions
from deploysteps.api.middleware import HEADER
from deploysteps.db import inventories, locks, machine_parts
from deploysteps.db.machine_models import BIOSSetting, FirmwareComponent
from tests.support_api import Api, Recording, Refusing, quoted

NODE = "/v1/nodes/n1"
DEVICE = {"boot_device": "pxe", "persistent": False}
VIF = "33333333-3333-3333-3333-333333333333"
VMEDIA = {"device_type": "cdrom", "image_url": "http://images/x.iso"}

EMPTY = {
    "boot_device": ("PUT", "management/boot_device", DEVICE, 204, None),
    "inject_nmi": ("PUT", "management/inject_nmi", {}, 204, None),
    "indicator": ("PUT", "management/indicators/led@system", {"state": "on"}, 204, None),
    "boot_mode": ("PUT", "states/boot_mode", {"target": "uefi"}, 202, "states"),
    "secure_boot": ("PUT", "states/secure_boot", {"target": True}, 202, "states"),
    "raid": ("PUT", "states/raid", {"logical_disks": []}, 204, None),
    "console": ("PUT", "states/console", {"enabled": True}, 202, "states/console"),
    "vif": ("POST", "vifs", {"id": VIF}, 204, None),
    "no vif": ("DELETE", f"vifs/{VIF}", None, 204, None),
    "vmedia": ("POST", "vmedia", VMEDIA, 204, None),
    "no vmedia": ("DELETE", "vmedia", None, 204, None),
}
"""Requests whose answer has no body: (method, path, body, status, place told)."""

ASKED = {
    "boot_device": ("set_boot_device", ("pxe",), {"persistent": False}),
    "inject_nmi": ("inject_nmi", (), {}),
    "indicator": ("set_indicator_state", ("system", "led", "on"), {}),
    "boot_mode": ("change_node_boot_mode", ("uefi",), {}),
    "secure_boot": ("change_node_secure_boot", (True,), {}),
    "raid": ("set_target_raid_config", ({"logical_disks": []},), {}),
    "console": ("set_console_mode", (True,), {}),
    "vif": ("vif_attach", ({"id": VIF},), {}),
    "no vif": ("vif_detach", (VIF,), {}),
    "vmedia": ("attach_virtual_media", ("cdrom", "http://images/x.iso"), {}),
    "no vmedia": ("detach_virtual_media", (None,), {}),
}
FIRST = {
    "inject_nmi": 29,
    "indicator": 63,
    "boot_mode": 76,
    "secure_boot": 76,
    "raid": 12,
    "vif": 28,
    "no vif": 28,
    "vmedia": 89,
    "no vmedia": 89,
}
"""The version that each came with; the others were always there."""

METHODS = {"x": {"http_methods": ["GET"], "async": False, "description": "", "attach": False}}
READ = {
    "management/boot_device": ("get_boot_device", dict(DEVICE), dict(DEVICE), 1),
    "management/boot_device/supported": (
        "get_supported_boot_devices",
        ["pxe", "disk"],
        {"supported_boot_devices": ["pxe", "disk"]},
        1,
    ),
    "management/indicators/led@system": ("get_indicator_state", "on", {"state": "on"}, 63),
    "states/console": (
        "get_console_information",
        {"type": "shellinabox", "url": "http://c"},
        {"console_enabled": True, "console_info": {"type": "shellinabox", "url": "http://c"}},
        1,
    ),
    "vifs": ("vif_list", [{"id": VIF}], {"vifs": [{"id": VIF}]}, 28),
    "vmedia": ("get_virtual_media", [{"image": ""}], [{"image": ""}], 93),
    "vendor_passthru/methods": ("get_node_vendor_passthru_methods", METHODS, METHODS, 1),
}
"""Path -> verb, what it returns, what is answered, since when."""


@pytest.fixture(autouse=True)
def _node(node):
    return node


@pytest.mark.parametrize("name", EMPTY)
def test_what_is_set_is_asked_of_the_conductor(api, conductor, node, name):
    method, path, body, status, place = EMPTY[name]
    answer = api(method, f"{NODE}/{path}", body)
    assert (answer.status, answer.text) == (status, "")
    told = answer.headers.get("location")
    assert told is None if place is None else told.endswith(f"{NODE}/{place}")
    verb, args, named = ASKED[name]
    assert conductor.calls == [(verb, (node.uuid, *args), named)]


def _ident(api, node, version):
    return f"/v1/nodes/{node.uuid if version < versions.NODE_NAMES else 'n1'}"


@pytest.mark.parametrize("name", EMPTY)
def test_it_is_there_from_its_version_on(api, conductor, node, name):
    method, path, body, status, _ = EMPTY[name]
    first = FIRST.get(name, 1)
    for version in {first - 1, first, first + 1} - {0}:
        place = f"{_ident(api, node, version)}/{path}"
        there, conductor.calls = version >= first, []
        answer = api(method, place, body, version=version)
        assert answer.status == (status if there else 406 if name == "raid" else 404), version
        assert bool(conductor.calls) is there


@pytest.mark.parametrize("path", READ)
def test_what_is_read_comes_from_the_conductor(conf, sqlite, node, path):
    verb, returned, body, first = READ[path]
    api = Api(conf, sqlite, Recording(**{verb: returned}))
    for version in {first - 1, first, first + 1, versions.MAX} - {0}:
        answer = api.get(f"{_ident(api, node, version)}/{path}", version=version)
        there = version >= first
        assert answer.status == (200 if there else 404), version
        assert not there or answer.body == body


def test_a_console_that_is_not_started(conf, sqlite):
    api = Api(conf, sqlite, Recording(get_console_information=None))
    body = {"console_enabled": False, "console_info": None}
    assert api.get(f"{NODE}/states/console").body == body


def test_indicators_are_named_with_their_component(conf, sqlite, node):
    lights = {"system": {"led": {"readonly": False, "states": ["on"]}}, "chassis": {"x": {}}}
    api = Api(conf, sqlite, Recording(get_supported_indicators=lights))
    found = api.get(f"{NODE}/management/indicators").body["indicators"]
    assert [one["name"] for one in found] == ["led@system", "x@chassis"]
    assert found[0]["links"][0]["href"].endswith(
        f"/v1/nodes/{node.uuid}/management/indicators/led@system"
    )
    assert {key: found[0][key] for key in ("component", "readonly", "states")} == {
        "component": "system",
        "readonly": False,
        "states": ["on"],
    }
    assert (found[1]["readonly"], found[1]["states"]) == (True, [])
    assert api.get(f"{NODE}/management/indicators", version=62).status == 404


BAD = [
    ("PUT", "management/boot_device", [{}, [], {"boot_device": None}, {"boot_device": ""},
        {"boot_device": "pxe", "persistent": "perhaps"}, {"boot_device": "pxe", "zzz": 1},
        {"boot_device": "a\0"}, {"boot_device": "x" * 256}]),
    ("PUT", "management/inject_nmi", [{"zzz": 1}, []]),
    ("PUT", "management/indicators/led@system", [{}, {"state": "dim"}, {"state": None}]),
    ("PUT", "management/indicators/led", [{"state": "on"}]),
    ("PUT", "management/indicators/@system", [{"state": "on"}]),
    ("PUT", "states/boot_mode", [{}, {"target": "dos"}, {"target": None}, {"target": 1}]),
    ("PUT", "states/secure_boot", [{}, {"target": "perhaps"}, {"target": None}, {"target": 1}]),
    ("PUT", "states/raid", [[], "x", 5]),
    ("PUT", "states/console", [{}, {"enabled": None}, {"enabled": "perhaps"}]),
    ("POST", "vifs", [{}, {"id": None}, {"id": ""}, {"id": "a b"}, {"id": 5}, [],
        {"id": "a", "port_uuid": "x", "portgroup_uuid": "y"}]),
    ("POST", "vmedia", [{}, {**VMEDIA, "device_type": "tape"}, {"device_type": "cdrom"},
        {**VMEDIA, "image_url": "ftp://x/y"}, {**VMEDIA, "image_url": "x"},
        {**VMEDIA, "image_url": "http:///x"}, {**VMEDIA, "image_url": "http://x/ y"},
        {**VMEDIA, "image_download_source": "swift"}, {**VMEDIA, "zzz": 1}]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "body"), [(m, p, body) for m, p, bodies in BAD for body in bodies]
)
def test_a_body_that_is_wrong_is_400(api, conductor, method, path, body):
    assert api(method, f"{NODE}/{path}", body).status == 400
    assert conductor.calls == []


@pytest.mark.parametrize("name", EMPTY)
def test_what_is_not_known_is_refused(api, conductor, name):
    method, path, body, _, _ = EMPTY[name]
    assert api(method, f"{NODE}/{path}?zzz=1", body).status == 400
    assert api(method, f"/v1/nodes/nope/{path}", body).status == 404
    if body is not None:
        assert api(method, f"{NODE}/{path}", raw=b"{").status == 400
    assert conductor.calls == []


def test_words_that_mean_a_flag_are_taken(api, conductor):
    """The command-line client sends flags as texts."""
    api.put(f"{NODE}/states/secure_boot", {"target": "on"})
    api.put(f"{NODE}/states/console", {"enabled": "False"})
    api.put(f"{NODE}/management/boot_device", {"boot_device": "pxe", "persistent": "True"})
    api.put(f"{NODE}/management/boot_device", {"boot_device": "pxe", "persistent": None})
    told = [(args[1:], named) for _, args, named in conductor.calls]
    assert told == [
        ((True,), {}),
        ((False,), {}),
        (("pxe",), {"persistent": True}),
        (("pxe",), {"persistent": False}),
    ]


def test_a_request_without_a_body_is_an_interrupt_too(api):
    assert api.put(f"{NODE}/management/inject_nmi").status == 204


def test_a_raid_configuration_is_unset_by_an_empty_one(api, conductor, node):
    assert api.put(f"{NODE}/states/raid", {}).status == 204
    assert conductor.calls == [("set_target_raid_config", (node.uuid, {}), {})]


def test_virtual_drives_are_emptied_by_their_names(api, conductor, node):
    assert api.delete(f"{NODE}/vmedia?device_types=cdrom,floppy").status == 204
    assert conductor.calls == [("detach_virtual_media", (node.uuid, ["cdrom", "floppy"]), {})]
    assert "disk, cdrom, floppy" in api.delete(f"{NODE}/vmedia?device_types=tape").fault


def test_what_a_vif_says_beside_its_id_is_passed_on(api, conductor):
    body = {"id": "net-1", "port_uuid": "x", "portgroup_uuid": "y"}
    assert api.post(f"{NODE}/vifs", body, version=versions.VIF_PORT - 1).status == 204
    assert api.post(f"{NODE}/vifs", body, version=versions.VIF_PORT).status == 400
    body = {"id": "net-1", "physical_network": "a"}
    assert api.post(f"{NODE}/vifs", body, version=versions.VIF_PORT + 1).status == 204
    assert [args[1] for _, args, _ in conductor.calls] == [
        {"id": "net-1", "port_uuid": "x", "portgroup_uuid": "y"},
        body,
    ]


@pytest.mark.parametrize("vif", ["a b", "\ud800", "x" * 256, "a/b"])
def test_a_vif_that_no_one_can_name(api, conductor, vif):
    assert api.delete(f"{NODE}/vifs/{quoted(vif)}").status in (400, 404)
    assert conductor.calls == []


RECORDED = "Driver fake-hardware does not support inject_nmi (disabled or not implemented)."


@pytest.mark.parametrize("name", EMPTY)
def test_what_the_driver_does_not_do_is_told_in_the_field_s_words(conf, sqlite, name):
    """Recorded in cli-power-boot-maintenance: 400; RAID is not there at all, 404."""
    method, path, body, _, _ = EMPTY[name]
    cannot = exceptions.UnsupportedDriverExtension(driver="fake-hardware", extension="inject_nmi")
    answer = Api(conf, sqlite, Refusing(cannot))(method, f"{NODE}/{path}", body)
    assert (answer.status, answer.fault) == (404 if name == "raid" else 400, RECORDED)


@pytest.mark.parametrize("name", EMPTY)
def test_a_locked_node_is_409(conf, sqlite, node, name):
    method, path, body, _, _ = EMPTY[name]
    locked = exceptions.NodeLocked(node=node.uuid, host="h")
    assert Api(conf, sqlite, Refusing(locked))(method, f"{NODE}/{path}", body).status == 409


# --- what is kept --------------------------------------------------------------------------


def keep(database, model, node, given):
    lock, _ = locks.grant(database, node.id, "c", "test")
    rows = machine_parts.checked(model, given)
    locks.write(database, lock, {}, then=lambda c: machine_parts.keep(c, model, node.id, rows))
    locks.release(database, lock)


@pytest.fixture
def bios(sqlite, node):
    sriov = {"name": "sriov", "value": "on", "attribute_type": "Enumeration",
             "allowable_values": ["on", "off"], "read_only": False}  # fmt: skip
    keep(sqlite, BIOSSetting, node, [sriov, {"name": "delay", "value": "5", "upper_bound": 9}])


ALWAYS = {"created_at", "updated_at", "links"}
REGISTRY = {"attribute_type", "allowable_values", "lower_bound", "upper_bound", "min_length",
            "max_length", "read_only", "reset_required", "unique"}  # fmt: skip


def test_settings_are_listed(api, node, bios):
    found = api.get(f"{NODE}/bios").body["bios"]
    assert [(one["name"], one["value"]) for one in found] == [("delay", "5"), ("sriov", "on")]
    assert all(set(one) == {"name", "value"} | ALWAYS for one in found)
    assert found[0]["links"][0]["href"].endswith("/v1/nodes/n1/bios/delay")
    (first, second) = api.get(f"{NODE}/bios?detail=True").body["bios"]
    assert set(first) == {"name", "value"} | ALWAYS | REGISTRY
    assert (first["upper_bound"], second["allowable_values"]) == (9, ["on", "off"])
    found = api.get(f"{NODE}/bios?fields=value,read_only").body["bios"]
    assert all(set(one) == {"value", "read_only"} | ALWAYS for one in found)
    for query in ("fields=zzz", "fields=name&detail=True", "zzz=1", "limit=1"):
        assert api.get(f"{NODE}/bios?{query}").status == 400, query


def test_one_setting_is_shown(api, node, bios):
    ((name, shown),) = api.get(f"{NODE}/bios/sriov").body.items()
    assert name == "sriov" and set(shown) == {"name", "value"} | ALWAYS | REGISTRY
    missing = api.get(f"{NODE}/bios/nope")
    assert missing.status == 404
    assert missing.fault == f"Node {node.uuid} doesn't have a BIOS setting 'nope'"
    for odd in ("\0", "\ud800", "x" * 300, "Sriov"):
        assert api.get(f"{NODE}/bios/{quoted(odd)}").status == 404


def test_settings_by_version(api, node, bios):
    for version, status in ((39, 404), (40, 200), (41, 200)):
        assert api.get(f"{NODE}/bios", version=version).status == status
        assert api.get(f"{NODE}/bios/sriov", version=version).status == status
    for version, there in ((73, False), (74, True), (75, True)):
        shown = api.get(f"{NODE}/bios/sriov", version=version).body["sriov"]
        assert set(shown) == {"name", "value"} | ALWAYS | (REGISTRY if there else set())
        for query in ("detail=True", "fields=name"):
            answer = api.get(f"{NODE}/bios?{query}", version=version)
            assert answer.status == (200 if there else 400)


VERSIONS = {"component", "initial_version", "current_version", "last_version_flashed"}
TIMES = {"created_at", "updated_at"}
IDENTITY = {"vendor", "model", "serial_number"}


def test_firmware_by_version(api, sqlite, node):
    bmc = {"component": "bmc", "current_version": "1.0", "vendor": "A"}
    keep(sqlite, FirmwareComponent, node, [bmc, {"component": "bios", "current_version": "2"}])
    for version, status in ((85, 404), (86, 200), (87, 200)):
        assert api.get(f"{NODE}/firmware", version=version).status == status
    for version in (113, 114, 115):
        seen = IDENTITY if version >= 114 else set()
        for query in ("", "?detail=True"):
            found = api.get(f"{NODE}/firmware{query}", version=version).body["firmware"]
            assert [one["component"] for one in found] == ["bios", "bmc"]
            assert all(set(one) == VERSIONS | TIMES | seen for one in found)
        answer = api.get(f"{NODE}/firmware?fields=component,vendor", version=version)
        assert answer.status == (200 if seen else 406)
    assert [set(one) for one in answer.body["firmware"]] == [{"component", "vendor"} | TIMES] * 2
    for query in ("fields=zzz", "fields=component&detail=True", "zzz=1"):
        assert api.get(f"{NODE}/firmware?{query}").status == 400, query


def test_an_inventory_by_version(api, sqlite, node):
    """Recorded in openstacksdk: 404 while nothing is stored."""
    missing = api.get(f"{NODE}/inventory")
    assert missing.status == 404
    assert missing.fault == f"Node inventory record for node {node.uuid} could not be found."
    found = {"inventory": {"cpu": {"count": 4}, "bmc_password": "hunter2"}, "plugin_data": {}}
    inventories.store(sqlite, node.id, found["inventory"])
    for version, status in ((80, 404), (81, 200), (82, 200)):
        answer = api.get(f"{NODE}/inventory", version=version)
        assert answer.status == status
    assert answer.body["inventory"]["cpu"] == {"count": 4}
    assert "hunter2" not in answer.text


def test_no_secret_is_told(conf, sqlite, node):
    """F77: whatever a driver returns, what is secret by its key or in a URL is masked."""
    secret = {"url": "http://user:hunter2@c/?token=hunter2", "password": "hunter2"}
    found = dict.fromkeys(("get_console_information", "get_virtual_media"), secret)
    api = Api(conf, sqlite, Recording(**found))
    for path in ("states/console", "vmedia"):
        answer = api.get(f"{NODE}/{path}")
        assert answer.status == 200 and "hunter2" not in answer.text
    named = {"name": "AdminPassword", "value": "hunter2"}
    keep(sqlite, BIOSSetting, node, [{"name": "a", "value": secret["url"]}, named])
    for path in ("bios", "bios?detail=True", "bios?fields=value", "bios/AdminPassword"):
        assert "hunter2" not in api.get(f"{NODE}/{path}").text


# --- validate, and drivers ------------------------------------------------------------------

KEYS = {"bios", "boot", "console", "deploy", "firmware", "inspect", "management", "network",
        "power", "raid", "rescue", "storage"}  # fmt: skip


def test_the_node_to_validate_may_stand_in_the_query(conf, sqlite, node):
    """Recorded keys: cli-node-crud-list and openstacksdk; vendor is not among them."""
    found = {kind: {"result": True} for kind in (*KEYS, "vendor")}
    api = Api(conf, sqlite, Recording(validate_driver_interfaces=found))
    for path in (f"{NODE}/validate", "/v1/nodes/validate?node=n1",
                 f"/v1/nodes/validate?node={node.uuid}",
                 f"/v1/nodes/validate?node_uuid={node.uuid}",
                 "/v1/nodes/validate/?node=n1"):  # fmt: skip
        answer = api.get(path)
        assert answer.status == 200 and set(answer.body) == KEYS, path
    for query, status in (("", 400), ("?node=", 400), ("?node=nope", 404), ("?zzz=1", 400)):
        assert api.get(f"/v1/nodes/validate{query}").status == status
    assert api.get("/v1/nodes/validate?node=n1", version=4).status == 404
    assert api.post("/v1/nodes", {"driver": "x", "name": "validate"}).status == 400


def test_what_a_logical_disk_may_be(conf, sqlite):
    found = {"size_gb": "size in GiB"}
    conductor = Recording(get_raid_logical_disk_properties=found)
    api, path = (
        Api(conf, sqlite, conductor),
        "/v1/drivers/fake-hardware/raid/logical_disk_properties",
    )
    for version, status in ((11, 406), (12, 200), (13, 200)):
        assert api.get(path, version=version).status == status
    assert api.get(path).body == found
    assert conductor.calls[0] == ("get_raid_logical_disk_properties", ("fake-hardware",), {})
    assert api.get(f"{path}?zzz=1").status == 400


# --- vendor methods ---------------------------------------------------------------------------


def returning(conf, database, value=None, *, is_async=False, attach=False):
    answer = {"return": value, "async": is_async, "attach": attach}
    conductor = Recording(vendor_passthru=answer, driver_vendor_passthru=answer)
    return Api(conf, database, conductor), conductor


PLACES = (f"{NODE}/vendor_passthru", "/v1/drivers/fake-hardware/vendor_passthru")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("method", ["GET", "POST", "PUT", "PATCH", "DELETE"])
def test_a_vendor_method_is_called_as_it_is_asked_for(conf, sqlite, node, place, method):
    api, conductor = returning(conf, sqlite, {"found": [1]})
    body = {"bar": "baz", "deep": {"x": [1]}}
    for path in (f"{place}/do_it", f"{place}?method=do_it"):
        answer = api(method, path, body, version=1 if "drivers" in place else 5)
        assert (answer.status, answer.body) == (200, {"found": [1]})
        name = "driver_vendor_passthru" if "drivers" in place else "vendor_passthru"
        of = "fake-hardware" if "drivers" in place else node.uuid
        assert conductor.calls.pop() == (name, (of, "do_it", method, body), {})
    api(method, f"{place}/do_it")
    assert conductor.calls.pop()[1][3] == {}


@pytest.mark.parametrize("place", PLACES)
def test_what_a_vendor_method_returns_is_sent(conf, sqlite, place):
    for value in (None, True, 5, "text", [], {"a": None}):
        answer = returning(conf, sqlite, value)[0].post(f"{place}/do_it", {})
        assert (answer.status, answer.body) == (200, value)
        assert answer.headers["content-type"] == "application/json"
    answer = returning(conf, sqlite, is_async=True)[0].post(f"{place}/do_it", {})
    assert (answer.status, answer.text) == (202, "")
    for value in (b"raw text", "raw text"):
        api = returning(conf, sqlite, value, attach=True)[0]
        headers = {HEADER: f"1.{versions.MAX}"}
        result = api._client.simulate_post(f"{place}/do_it", headers=headers)
        assert (result.status_code, result.content) == (200, b"raw text")
        assert result.headers["content-type"] == "application/octet-stream"
    secret = {"password": "hunter2", "url": "http://a:hunter2@b"}
    assert "hunter2" not in returning(conf, sqlite, secret)[0].post(f"{place}/do_it", {}).text


@pytest.mark.parametrize("place", PLACES)
def test_a_call_that_is_none(conf, sqlite, place):
    api, conductor = returning(conf, sqlite)
    for body in ([], "x", 5):
        assert api.post(f"{place}/do_it", body).status == 400
    assert "named in the path" in api.post(place, {}).fault
    assert api.post(f"{place}/do_it?zzz=1", {}).status == 400
    assert api.post(f"{place}/do_it?method=x", {}).status == 400
    assert api.post(f"{place}/methods", {}).status == 405
    assert conductor.calls == []


def test_vendor_methods_of_a_driver_are_listed(conf, sqlite):
    api = Api(conf, sqlite, Recording(get_driver_vendor_passthru_methods=METHODS))
    assert api.get(f"{PLACES[1]}/methods", version=1).body == METHODS
