"""The verbs about a machine itself: what a driver says is told, and no lock stays behind."""

from __future__ import annotations

import threading

import pytest

from deploysteps import exceptions, states
from deploysteps.conductor.task_manager import acquire
from deploysteps.db import inventories, locks, machine_parts, nodes
from deploysteps.drivers import base, compat_exceptions, fake, noop
from deploysteps.drivers.fake_management import FakeManagement
from tests.support import Vendor, enrolled, settle, until

PLANTED = "hunter2-planted"


class Odd(Exception):
    """What a driver's library raises."""


RAISED = {
    "unsupported": (exceptions.UnsupportedDriverExtension(driver="d", extension="this"), 400),
    "mistake": (exceptions.InvalidParameterValue("it is the caller's"), 400),
    "conflict": (exceptions.Conflict("something is in the way"), 409),
    "busy": (exceptions.DeployStepsException("all lines are busy", code=503), 503),
    "missing": (exceptions.NotFound("there is no such thing"), 400),
    "own": (exceptions.DriverOperationError(reason="the BMC is broken"), 500),
    "odd": (Odd("the BMC is broken"), 500),
    "exit": (SystemExit("the driver wants to go"), 500),
}


def raising(base_class, exc, *methods):
    """Return a class whose methods raise; ``exc`` is an exception, or a list with one."""

    def fail(self, task, *args, **kwargs):
        raise exc[0] if isinstance(exc, list) else exc

    return type("Raising", (base_class,), dict.fromkeys(methods, fail))


def free(database, node):
    return nodes.get(database, node.id).reservation is None


SYNC = {
    "get_boot_device": ("management", FakeManagement, ()),
    "get_supported_boot_devices": ("management", FakeManagement, ()),
    "set_boot_device": ("management", FakeManagement, ("pxe",)),
    "inject_nmi": ("management", FakeManagement, ()),
    "get_supported_indicators": ("management", FakeManagement, ()),
    "get_indicator_state": ("management", FakeManagement, ("system", "led")),
    "set_indicator_state": ("management", FakeManagement, ("system", "led", "on")),
    "get_virtual_media": ("management", FakeManagement, ()),
    "vif_list": ("network", fake.FakeNetwork, ()),
    "vif_attach": ("network", fake.FakeNetwork, ({"id": "a"},)),
    "vif_detach": ("network", fake.FakeNetwork, ("a",)),
}


@pytest.mark.parametrize("verb", SYNC)
def test_what_a_driver_raises_is_told_and_the_lock_is_free(sqlite, start, verb):
    """F92: 4xx in the driver's own words, 5xx for its mistakes, never a lock that stays."""
    kind, base_class, args = SYNC[verb]
    raised = [None]
    service = start(sqlite, **{kind: raising(base_class, raised, verb)})
    node = enrolled(service)
    for name, (exc, code) in RAISED.items():
        raised[0] = exc
        with pytest.raises(exceptions.DeployStepsException) as told:
            getattr(service.manager, verb)(None, node.uuid, *args)
        assert told.value.code == code, name
        own = str(told.value)
        assert (own == str(exc)) if code < 500 or name == "busy" else (str(exc) in own)
        assert free(sqlite, node)


@pytest.mark.parametrize("verb", ["get_boot_device", "set_boot_device", "vif_list"])
def test_an_interface_that_is_not_ready_is_not_asked(sqlite, start, verb):
    kind, base_class, args = SYNC[verb]
    wrong = exceptions.MissingParameterValue("address is missing")
    service = start(sqlite, **{kind: raising(base_class, wrong, "validate")})
    node = enrolled(service)
    with pytest.raises(exceptions.InvalidParameterValue, match="^address is missing$"):
        getattr(service.manager, verb)(None, node.uuid, *args)
    assert free(sqlite, node)


@pytest.mark.parametrize(
    ("verb", "answer"),
    [
        ("get_boot_device", None),
        ("get_boot_device", {"boot_device": {1, 2}}),
        ("get_supported_boot_devices", "pxe"),
        ("get_indicator_state", True),
        ("get_virtual_media", float("nan")),
    ],
)
def test_an_answer_that_is_none_is_the_driver_s_mistake(sqlite, start, verb, answer):
    kind, base_class, args = SYNC[verb]
    own = type("Own", (base_class,), {verb: lambda self, task, *given: answer})
    service = start(sqlite, **{kind: own})
    node = enrolled(service)
    with pytest.raises(exceptions.DriverOperationError, match=f"{kind}.{verb} returned"):
        getattr(service.manager, verb)(None, node.uuid, *args)


def test_what_is_set_is_kept_and_read(sqlite, start):
    service = start(sqlite, network=fake.FakeNetwork)
    node, manager = enrolled(service), service.manager
    manager.set_boot_device(None, node.uuid, "disk", persistent=True)
    assert manager.get_boot_device(None, node.uuid) == {"boot_device": "disk", "persistent": True}
    manager.set_indicator_state(None, node.uuid, "system", "led", "blinking")
    assert manager.get_indicator_state(None, node.uuid, "system", "led") == "blinking"
    with pytest.raises(exceptions.InvalidParameterValue, match="can only be read"):
        manager.set_indicator_state(None, node.uuid, "chassis", "led-0", "on")
    manager.vif_attach(None, node.uuid, {"id": "a"})
    with pytest.raises(compat_exceptions.Invalid, match="already attached"):
        manager.vif_attach(None, node.uuid, {"id": "a"})
    assert manager.vif_list(None, node.uuid) == [{"id": "a"}]
    manager.vif_detach(None, node.uuid, "a")
    with pytest.raises(compat_exceptions.Invalid, match="not attached"):
        manager.vif_detach(None, node.uuid, "a")
    events = [entry.event for entry in nodes.history_of(sqlite, node.id)]
    assert events[0].startswith("Failed to detach VIF a: ")
    assert events[1].startswith("Failed to attach VIF a: ")
    assert nodes.get(sqlite, node.id).last_error is None


def test_what_is_read_needs_no_lock_and_what_is_set_does(sqlite, start):
    """F61."""
    service = start(sqlite)
    node, manager = enrolled(service), service.manager
    with acquire(None, node.uuid, purpose="test", runtime=service.runtime):
        assert manager.get_boot_device(None, node.uuid)
        assert manager.get_node_vendor_passthru_methods(None, node.uuid)
        for verb, args in (
            ("set_boot_device", ("pxe",)),
            ("change_node_boot_mode", ("uefi",)),
            ("set_console_mode", (True,)),
            ("attach_virtual_media", ("cdrom", "http://x/y")),
            ("set_target_raid_config", ({},)),
            ("vendor_passthru", ("third_method_sync", "POST", {"bar": 1})),
        ):
            with pytest.raises(exceptions.NodeLocked):
                getattr(manager, verb)(None, node.uuid, *args)
    assert free(sqlite, node) and service.runtime.workers.busy == 0


# --- what a worker does -----------------------------------------------------------------------

BEGUN = {
    "change_node_boot_mode": ("management", FakeManagement, "set_boot_mode", ("uefi",)),
    "change_node_secure_boot": ("management", FakeManagement, "set_secure_boot_state", (True,)),
    "set_console_mode": ("console", fake.FakeConsole, "start_console", (True,)),
    "attach_virtual_media": (
        "management",
        FakeManagement,
        "attach_virtual_media",
        ("cdrom", f"http://user:{PLANTED}@images/x.iso"),
    ),
    "detach_virtual_media": ("management", FakeManagement, "detach_virtual_media", (None,)),
}


@pytest.mark.parametrize("verb", BEGUN)
def test_a_worker_that_fails_says_so_and_frees_the_lock(sqlite, start, verb):
    """F92. The recorded server answers 202 as well, and tells later."""
    kind, base_class, method, args = BEGUN[verb]
    raised = [None]
    service = start(sqlite, **{kind: raising(base_class, raised, method)})
    node = enrolled(service)
    for exc, _ in RAISED.values():
        raised[0] = exc
        getattr(service.manager, verb)(None, node.uuid, *args)
        node = settle(sqlite, node.id, node.provision_state)
        assert "failed to " in node.last_error and str(exc) in node.last_error
        (entry, *_) = nodes.history_of(sqlite, node.id)
        assert (entry.severity, entry.event_type, entry.event) == ("ERROR", kind, node.last_error)
    assert (node.boot_mode, node.secure_boot, node.console_enabled) == (None, None, False)


@pytest.mark.parametrize("verb", BEGUN)
def test_nothing_begins_that_cannot(sqlite, start, verb):
    kind, base_class, _, args = BEGUN[verb]
    cannot = exceptions.UnsupportedDriverExtension(driver="d", extension=kind)
    service = start(sqlite, **{kind: raising(base_class, cannot, "validate")})
    node = enrolled(service)
    with pytest.raises(exceptions.UnsupportedDriverExtension, match="disabled or not implemented"):
        getattr(service.manager, verb)(None, node.uuid, *args)
    assert free(sqlite, node) and service.runtime.workers.busy == 0


def test_boot_mode_and_secure_boot_become_what_was_asked_for(sqlite, start):
    calls = []

    class Management(FakeManagement):
        def set_boot_mode(self, task, mode):
            calls.append(mode)
            super().set_boot_mode(task, mode)

    service = start(sqlite, management=Management)
    node, manager = enrolled(service, last_error="old"), service.manager
    for _ in range(2):
        manager.change_node_boot_mode(None, node.uuid, "uefi")
        found = settle(sqlite, node.id, node.provision_state)
        assert (found.boot_mode, found.last_error) == ("uefi", None)
    assert calls == ["uefi"], "what is so already is not set again"
    for on in (True, False):
        manager.change_node_secure_boot(None, node.uuid, on)
        assert settle(sqlite, node.id, node.provision_state).secure_boot is on


def test_a_mode_that_cannot_be_read_is_set_anyhow(sqlite, start):
    service = start(sqlite, management=raising(FakeManagement, Odd("no"), "get_boot_mode"))
    node = enrolled(service)
    service.manager.change_node_boot_mode(None, node.uuid, "bios")
    assert settle(sqlite, node.id, node.provision_state).boot_mode == "bios"


def test_the_reason_of_a_failed_state_stays_told(sqlite, start):
    """F71: what goes well afterwards does not make a failed deployment unexplained."""
    service = start(sqlite)
    node = enrolled(service, provision_state=states.DEPLOYFAIL, last_error="why it failed")
    service.manager.change_node_boot_mode(None, node.uuid, "uefi")
    found = settle(sqlite, node.id, states.DEPLOYFAIL)
    assert (found.boot_mode, found.last_error) == ("uefi", "why it failed")


@pytest.mark.parametrize("state", [states.CLEANWAIT, states.DEPLOYWAIT, states.DEPLOYING])
def test_a_node_on_its_way_keeps_its_boot_mode(sqlite, start, state):
    service = start(sqlite)
    node = enrolled(service)
    nodes.set_unlocked(sqlite, node.id, {"provision_state": state})
    for verb, target in (("change_node_boot_mode", "uefi"), ("change_node_secure_boot", True)):
        with pytest.raises(exceptions.Conflict, match="goes on by itself"):
            getattr(service.manager, verb)(None, node.uuid, target)
    assert free(sqlite, node)


def test_a_console_is_started_once_and_stopped(sqlite, start):
    calls = []

    class Console(fake.FakeConsole):
        def start_console(self, task):
            calls.append("start")

        def stop_console(self, task):
            calls.append("stop")

    service = start(sqlite, console=Console)
    node, manager = enrolled(service), service.manager
    assert manager.get_console_information(None, node.uuid) is None
    for on in (False, True, True):
        manager.set_console_mode(None, node.uuid, on)
        settle(sqlite, node.id, node.provision_state)
    assert manager.get_console_information(None, node.uuid)["type"] == "fake"
    manager.set_console_mode(None, node.uuid, False)
    assert settle(sqlite, node.id, node.provision_state).console_enabled is False
    assert calls == ["start", "stop"]


def test_media_come_and_go_and_their_secrets_are_not_told(sqlite, start, caplog):
    """F77: the image's address arrives intact at the driver."""
    got = []

    class Management(FakeManagement):
        def attach_virtual_media(self, task, device_type, image_url):
            got.append(image_url)
            raise Odd(f"cannot fetch {image_url}, {PLANTED}")

    service = start(sqlite, management=Management)
    node, url = enrolled(service), f"http://user:{PLANTED}@images/x.iso"
    service.manager.attach_virtual_media(None, node.uuid, "cdrom", url)
    found = settle(sqlite, node.id, node.provision_state)
    assert got == [url] and "cannot fetch" in found.last_error
    told = found.last_error + caplog.text + nodes.history_of(sqlite, node.id)[0].event
    assert PLANTED not in told


def test_drives_are_filled_and_emptied(sqlite, start):
    service = start(sqlite)
    node, manager = enrolled(service), service.manager
    for kind in ("cdrom", "disk", "floppy"):
        manager.attach_virtual_media(None, node.uuid, kind, "http://images/x.iso")
        settle(sqlite, node.id, node.provision_state)
    for gone, left in ((["cdrom"], {"disk", "floppy"}), (None, set())):
        manager.detach_virtual_media(None, node.uuid, gone)
        settle(sqlite, node.id, node.provision_state)
        held = manager.get_virtual_media(None, node.uuid)
        assert {one["media_types"][0] for one in held if one["inserted"]} == left


def test_a_raid_configuration_is_checked_and_kept(sqlite, start):
    service = start(sqlite)
    node, manager = enrolled(service), service.manager
    wanted = {"logical_disks": [{"size_gb": 10, "raid_level": "1"}]}
    manager.set_target_raid_config(None, node.uuid, wanted)
    assert nodes.get(sqlite, node.id).target_raid_config == wanted
    with pytest.raises(exceptions.InvalidParameterValue, match="raid_level"):
        manager.set_target_raid_config(None, node.uuid, {"logical_disks": [{"size_gb": 1}]})
    assert nodes.get(sqlite, node.id).target_raid_config == wanted and free(sqlite, node)
    manager.set_target_raid_config(None, node.uuid, {})
    assert nodes.get(sqlite, node.id).target_raid_config == {}
    assert "size_gb" in manager.get_raid_logical_disk_properties(None, "test-hardware")
    with pytest.raises(exceptions.DriverNotFound):
        manager.get_raid_logical_disk_properties(None, "nope")


def test_without_a_raid_controller_there_is_nothing_to_configure(sqlite, start):
    service = start(sqlite, raid=noop.NoRAID)
    node = enrolled(service)
    with pytest.raises(exceptions.UnsupportedDriverExtension):
        service.manager.set_target_raid_config(None, node.uuid, {"logical_disks": []})
    service.manager.set_target_raid_config(None, node.uuid, {})


# --- what is read of a machine, and when ---------------------------------------------------------


def names(database, node):
    return {one.name: one.value for one in machine_parts.settings_of(database, node.id)}


def test_settings_and_firmware_are_read_when_a_node_is_verified(sqlite, start):
    service = start(sqlite)
    node = enrolled(service, provision_state=states.ENROLL)
    service.manager.do_provisioning_action(None, node.uuid, "manage")
    settle(sqlite, node.id, states.MANAGEABLE)
    assert names(sqlite, node)["sriov"] == "Disabled"
    assert {one.component for one in machine_parts.components_of(sqlite, node.id)} == {
        "bmc",
        "bios",
    }


def test_settings_and_firmware_are_read_again_after_their_steps(sqlite, start):
    service = start(sqlite)
    node = enrolled(service, provision_state=states.MANAGEABLE)
    wanted = [{"name": "sriov", "value": "Enabled"}, {"name": "more", "value": 5}]
    update = {"settings": [{"component": "bmc", "url": "http://f/2.0"}], "seconds": 0.2}
    service.manager.do_node_clean(
        None,
        node.uuid,
        clean_steps=[
            {"interface": "bios", "step": "apply_configuration", "args": {"settings": wanted}},
            {"interface": "firmware", "step": "update", "args": update},
        ],
    )
    settle(sqlite, node.id, states.MANAGEABLE)
    found = names(sqlite, node)
    assert (found["sriov"], found["more"]) == ("Enabled", "5")
    found = {one.component: one for one in machine_parts.components_of(sqlite, node.id)}
    assert found["bmc"].current_version == "2.0", "read when the update was done, not begun"


def test_what_reading_raises_fails_nothing(sqlite, start, caplog):
    """The step has ended well; what is known of the machine only grows older."""
    raised = [None]
    service = start(sqlite, bios=raising(fake.FakeBIOS, raised, "cache_bios_settings"))
    node = enrolled(service, provision_state=states.MANAGEABLE)
    for name, (exc, _) in RAISED.items():
        raised[0] = exc
        caplog.clear()
        service.manager.do_node_clean(
            None, node.uuid, clean_steps=[{"interface": "bios", "step": "factory_reset"}]
        )
        assert settle(sqlite, node.id, states.MANAGEABLE).last_error is None
        assert ("cache_bios_settings failed" in caplog.text) is (name != "unsupported")


def test_settings_that_are_none_fail_nothing(sqlite, start, caplog):
    class BIOS(fake.FakeBIOS):
        def cache_bios_settings(self, task):
            task.keep_bios_settings([{"nmae": "x"}])

    service = start(sqlite, bios=BIOS)
    node = enrolled(service, provision_state=states.MANAGEABLE)
    service.manager.do_node_clean(
        None, node.uuid, clean_steps=[{"interface": "bios", "step": "factory_reset"}]
    )
    settle(sqlite, node.id, states.MANAGEABLE)
    assert "bios_settings[0] has nmae" in caplog.text


def test_what_an_inspection_found_is_kept_under_the_lock(sqlite, start):
    service = start(sqlite)
    node = enrolled(service)
    with acquire(None, node.uuid, purpose="test", runtime=service.runtime) as task:
        task.keep_inventory({"cpu": {"count": 4}}, {"raw": 1})
    kept = {"inventory": {"cpu": {"count": 4}}, "plugin_data": {"raw": 1}}
    assert inventories.get(sqlite, node.id) == kept
    with acquire(None, node.uuid, shared=True, purpose="test", runtime=service.runtime) as task:
        for keep in (task.keep_inventory, task.keep_bios_settings):
            with pytest.raises(exceptions.ExclusiveLockRequired):
                keep({})
    assert inventories.get(sqlite, node.id) == kept


# --- vendor methods ----------------------------------------------------------------------------


class Vendors(Vendor):
    """One method of each kind."""

    calls: list = []  # noqa: RUF012 - emptied by the fixture
    gate = threading.Event()

    def validate(self, task, method=None, **kwargs):
        if kwargs.get("wrong"):
            raise exceptions.InvalidParameterValue(f"wrong is {kwargs['wrong']}")

    def driver_validate(self, method, **kwargs):
        self.validate(None, method, **kwargs)

    def _do(self, where, http_method, args):
        self.calls.append((where, http_method, args))
        if args.get("fail"):
            raise args["fail"]
        return args.get("returns")

    @base.passthru(["post", "GET"], async_call=False, description="Do it")
    def at_once(self, task, http_method, **args):
        assert not task.shared
        task.node.set_driver_internal_info("done", True)
        return self._do("at once", http_method, args)

    @base.passthru(["POST"])
    def later(self, task, http_method, **args):
        assert not task.shared
        task.node.set_driver_internal_info("later", True)
        self._do("later", http_method, args)

    @base.passthru(["POST"], require_exclusive_lock=False)
    def unlocked(self, task, http_method, **args):
        assert task.shared
        self.gate.wait(60)
        self._do("unlocked", http_method, args)

    @base.passthru(["GET"], async_call=False, require_exclusive_lock=False, method="look")
    def looks(self, task, http_method):
        assert task.shared
        return self._do("look", http_method, {})

    @base.passthru(["GET"], async_call=False, attach=True)
    def raw(self, task, http_method, **args):
        return self._do("raw", http_method, {"returns": b"\0raw", **args})

    @base.driver_passthru(["GET"], async_call=False)
    def models(self, context, http_method, **args):
        return self._do("models", http_method, args)

    @base.driver_passthru(["POST"])
    def learn(self, context, http_method, **args):
        self._do("learn", http_method, args)


@pytest.fixture
def vendor(sqlite, start):
    Vendors.calls.clear()
    Vendors.gate.clear()
    service = start(sqlite, vendor=Vendors)
    yield service
    Vendors.gate.set()


def test_vendor_methods_are_listed_in_the_field_s_words(vendor):
    node = enrolled(vendor)
    found = vendor.manager.get_node_vendor_passthru_methods(None, node.uuid)
    assert found["at_once"] == {
        "http_methods": ["POST", "GET"],
        "async": False,
        "description": "Do it",
        "attach": False,
        "require_exclusive_lock": True,
    }
    assert set(found) == {"at_once", "later", "unlocked", "look", "raw"}
    found = vendor.manager.get_driver_vendor_passthru_methods(None, "test-hardware")
    assert set(found) == {"models", "learn"} and "require_exclusive_lock" not in found["models"]
    with pytest.raises(exceptions.DriverNotFound):
        vendor.manager.get_driver_vendor_passthru_methods(None, "nope")


def test_vendor_methods_are_called(vendor, sqlite):
    node, manager = enrolled(vendor), vendor.manager
    answer = manager.vendor_passthru(None, node.uuid, "at_once", "GET", {"a": 1, "returns": [1]})
    assert answer == {"return": [1], "async": False, "attach": False}
    assert nodes.get(sqlite, node.id).driver_internal_info["done"] is True
    answer = manager.vendor_passthru(None, node.uuid, "raw", "GET", {})
    assert answer == {"return": b"\0raw", "async": False, "attach": True}
    assert manager.vendor_passthru(None, node.uuid, "look", "GET", {})["return"] is None
    answer = manager.vendor_passthru(None, node.uuid, "later", "POST", {"a": {"deep": 1}})
    assert answer == {"return": None, "async": True, "attach": False}
    found = settle(sqlite, node.id, node.provision_state)
    assert found.driver_internal_info["later"] is True
    assert Vendors.calls == [
        ("at once", "GET", {"a": 1, "returns": [1]}),
        ("raw", "GET", {"returns": b"\0raw"}),
        ("look", "GET", {}),
        ("later", "POST", {"a": {"deep": 1}}),
    ]
    for name, method, args, answer in (
        ("models", "GET", {"returns": {"m": 1}}, {"m": 1}),
        ("learn", "POST", {"b": 2}, None),
    ):
        found = manager.driver_vendor_passthru(None, "test-hardware", name, method, args)
        assert found["return"] == answer
    until(lambda: Vendors.calls[-1] == ("learn", "POST", {"b": 2}))


def test_a_method_without_lock_works_beside_one_with_it(vendor, sqlite):
    node = enrolled(vendor)
    vendor.manager.vendor_passthru(None, node.uuid, "unlocked", "POST", {})
    assert free(sqlite, node), "it runs, and does not hold the lock"
    with acquire(None, node.uuid, purpose="test", runtime=vendor.runtime):
        vendor.manager.vendor_passthru(None, node.uuid, "look", "GET", {})
        Vendors.gate.set()
        until(lambda: Vendors.calls[-1][0] == "unlocked")


REFUSED = [
    ("nope", "POST", {}, "No handler for method nope; there are at_once"),
    ("at_once", "DELETE", {}, "does not support HTTP DELETE; it does POST, GET"),
    ("looks", "GET", {}, "No handler for method looks"),
    ("look", "GET", {"bar": 1}, "look: got an unexpected keyword argument 'bar'"),
    ("at_once", "POST", {"wrong": "so"}, "^wrong is so$"),
    *(
        ("at_once", "POST", {name: 1}, f"the argument '{name}' is not the caller's")
        for name in ("task", "method", "http_method", "self", "context")
    ),
]


def test_a_call_that_makes_no_sense_is_refused(vendor, sqlite):
    node = enrolled(vendor)
    for name, method, args, why in REFUSED:
        with pytest.raises(exceptions.InvalidParameterValue, match=why):
            vendor.manager.vendor_passthru(None, node.uuid, name, method, args)
    assert Vendors.calls == [] and free(sqlite, node) and vendor.runtime.workers.busy == 0


def test_a_call_of_a_driver_that_makes_no_sense_is_refused(vendor):
    for name, method, args in (
        ("nope", "GET", {}),
        ("models", "POST", {}),
        ("models", "GET", {"wrong": 1}),
        ("models", "GET", {"context": 1}),
    ):
        with pytest.raises(exceptions.InvalidParameterValue):
            vendor.manager.driver_vendor_passthru(None, "test-hardware", name, method, args)
    with pytest.raises(exceptions.DriverNotFound):
        vendor.manager.driver_vendor_passthru(None, "nope", "models", "GET", {})
    assert Vendors.calls == []


def test_what_a_vendor_method_raises_is_told(vendor, sqlite):
    Vendors.gate.set()
    for exc, code in RAISED.values():
        _raises(vendor, sqlite, exc, code)


def _raises(vendor, sqlite, exc, code):
    node, manager = enrolled(vendor), vendor.manager
    for call in (
        lambda: manager.vendor_passthru(None, node.uuid, "at_once", "POST", {"fail": exc}),
        lambda: manager.driver_vendor_passthru(
            None, "test-hardware", "models", "GET", {"fail": exc}
        ),
    ):
        with pytest.raises(exceptions.DeployStepsException) as told:
            call()
        assert told.value.code == code and str(exc) in str(told.value)
    assert free(sqlite, node)
    manager.vendor_passthru(None, node.uuid, "later", "POST", {"fail": exc})
    found = settle(sqlite, node.id, node.provision_state)
    assert str(exc) in found.last_error and "later" not in found.driver_internal_info
    manager.vendor_passthru(None, node.uuid, "unlocked", "POST", {"fail": exc})
    manager.driver_vendor_passthru(None, "test-hardware", "learn", "POST", {"fail": exc})
    until(lambda: vendor.runtime.workers.busy == 0)


def test_what_cannot_be_sent_is_the_driver_s_mistake(vendor, sqlite):
    node = enrolled(vendor)
    for name, method, returns in (("at_once", "POST", {1, 2}), ("raw", "GET", 5)):
        with pytest.raises(exceptions.DriverOperationError, match=f"{name} returned"):
            vendor.manager.vendor_passthru(None, node.uuid, name, method, {"returns": returns})
    assert free(sqlite, node)


def test_a_secret_argument_of_a_vendor_method_is_not_told(vendor, sqlite, caplog):
    """F77."""
    node = enrolled(vendor)
    args = {"password": PLANTED, "fail": Odd(f"login with {PLANTED} failed")}
    with pytest.raises(exceptions.DriverOperationError) as told:
        vendor.manager.vendor_passthru(None, node.uuid, "at_once", "POST", args)
    vendor.manager.vendor_passthru(None, node.uuid, "later", "POST", args)
    found = settle(sqlite, node.id, node.provision_state)
    Vendors.gate.set()
    vendor.manager.vendor_passthru(None, node.uuid, "unlocked", "POST", args)
    vendor.manager.driver_vendor_passthru(None, "test-hardware", "learn", "POST", args)
    until(lambda: vendor.runtime.workers.busy == 0)
    assert "failed" in found.last_error and "learn of test-hardware failed" in caplog.text
    events = "".join(entry.event for entry in nodes.history_of(sqlite, node.id))
    assert PLANTED not in str(told.value) + found.last_error + events + caplog.text
    assert {call[2]["password"] for call in Vendors.calls} == {PLANTED}


def test_a_method_that_spoils_the_node_ends_no_run(sqlite, start):
    """A run that waits is not the vendor method's to end, whatever the method leaves behind."""

    class Spoiling(Vendor):
        @base.passthru(["POST"])
        def spoil(self, task, http_method):
            task.node.set_driver_internal_info("odd", {1, 2})

        @base.deploy_step(priority=10)
        def wait(self, task):
            return states.DEPLOYWAIT

    service = start(sqlite, vendor=Spoiling)
    node = enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    settle(sqlite, node.id, states.DEPLOYWAIT)
    service.manager.vendor_passthru(None, node.uuid, "spoil", "POST", {})
    until(lambda: service.runtime.workers.busy == 0)
    found = settle(sqlite, node.id, states.DEPLOYWAIT)
    assert "not JSON" in found.last_error and "odd" not in found.driver_internal_info


def test_power_is_not_switched_under_a_cleaning_nor_where_it_may_not_go_off(sqlite, start):
    service = start(sqlite)
    node = enrolled(service, disable_power_off=True)
    for target in (states.POWER_OFF, states.SOFT_POWER_OFF):
        with pytest.raises(exceptions.InvalidParameterValue, match="disable_power_off"):
            service.manager.change_node_power_state(None, node.uuid, target)
    service.manager.change_node_power_state(None, node.uuid, states.REBOOT)
    settle(sqlite, node.id, node.provision_state)
    nodes.set_unlocked(sqlite, node.id, {"provision_state": states.CLEANWAIT})
    with pytest.raises(exceptions.InvalidStateRequested, match="clean wait"):
        service.manager.change_node_power_state(None, node.uuid, states.REBOOT)
    assert free(sqlite, node)


def test_a_lock_that_was_taken_away_is_not_written_under(sqlite, start):
    """F46: fencing, here as elsewhere."""
    service = start(sqlite)
    node = enrolled(service)

    class Management(FakeManagement):
        def set_boot_device(self, task, device, persistent=False):
            locks.grant(sqlite, node.id, "other", "taken", held=task.lock.token)
            super().set_boot_device(task, device, persistent)

    service.manager.runtime.registry.build(node).interfaces["management"].__class__ = Management
    with pytest.raises(exceptions.LockLost):
        service.manager.set_boot_device(None, node.uuid, "disk")
    found = nodes.get(sqlite, node.id)
    assert found.reservation == "other" and "fake_boot_device" not in found.driver_internal_info
