"""The interface classes, hardware types and no-op interfaces."""

from __future__ import annotations

import inspect
import subprocess
import sys

import pytest

from deploysteps import exceptions, states, steps
from deploysteps.drivers import base, hardware_type, noop, testing

FORBIDDEN = (
    "alembic",
    "cheroot",
    "falcon",
    "flask",
    "oslo_db",
    "oslo_messaging",
    "requests",
    "sqlalchemy",
    "sushy",
    "urllib3",
    "deploysteps.api",
    "deploysteps.conductor",
    "deploysteps.db",
)


@pytest.mark.parametrize("module", ["base", "hardware_type", "testing"])
def test_what_an_author_imports_pulls_in_no_web_rpc_or_hardware_library(module):
    """The installed core stays small."""
    code = f"import sys, deploysteps.drivers.{module}; print(*sys.modules, sep='\\n')"
    loaded = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    assert f"deploysteps.drivers.{module}" in loaded
    heavy = [
        name for name in loaded if any(name == no or name.startswith(f"{no}.") for no in FORBIDDEN)
    ]
    assert heavy == []


def test_there_is_one_class_for_each_type():
    assert tuple(sorted(base.INTERFACES)) == steps.INTERFACE_TYPES
    for kind, cls in base.INTERFACES.items():
        assert cls.interface_type == kind
        assert getattr(base, cls.__name__) is cls
        assert issubclass(cls, base.BaseInterface)
        assert dict(cls.declared_steps["deploy"]) == {}


ABSTRACT = {
    "bios": {"get_properties", "validate"},
    "boot": {
        "get_properties",
        "validate",
        "prepare_ramdisk",
        "clean_up_ramdisk",
        "prepare_instance",
        "clean_up_instance",
    },
    "deploy": {"get_properties", "validate", "prepare", "clean_up", "tear_down", "take_over"},
    "power": {"get_properties", "validate", "get_power_state", "set_power_state", "reboot"},
    "raid": set(),
    "vendor": {"get_properties", "validate"},
}


@pytest.mark.parametrize("kind", sorted(ABSTRACT))
def test_abstract_is_what_makes_no_sense_without_an_answer(kind):
    assert set(base.INTERFACES[kind].__abstractmethods__) == ABSTRACT[kind]


@pytest.mark.parametrize("kind", steps.INTERFACE_TYPES)
def test_heartbeat_check_step_and_step_methods_are_never_abstract(kind):
    never = {"heartbeat", "check_step", "get_deploy_steps", "execute_deploy_step"}
    assert not never & set(base.INTERFACES[kind].__abstractmethods__)


SIGNATURES = {
    "power.set_power_state": "(self, task, power_state, timeout=None)",
    "power.reboot": "(self, task, timeout=None)",
    "power.get_supported_power_states": "(self, task)",
    "deploy.heartbeat": "(self, task, callback_url, agent_version, agent_verify_ca=None, "
    "agent_status=None, agent_status_message=None)",
    "boot.prepare_ramdisk": "(self, task, ramdisk_params)",
    "management.set_boot_device": "(self, task, device, persistent=False)",
    "management.get_indicator_state": "(self, task, component, indicator)",
    "network.vif_attach": "(self, task, vif_info)",
    "network.port_changed": "(self, task, port_obj)",
    "bios.apply_configuration": "(self, task, settings)",
    "raid.create_configuration": "(self, task, create_root_volume=True, "
    "create_nonroot_volumes=True, delete_existing=True)",
    "firmware.update": "(self, task, settings)",
    "inspect.inspect_hardware": "(self, task)",
    "console.get_console": "(self, task)",
    "rescue.rescue": "(self, task)",
    "storage.should_write_image": "(self, task)",
    "vendor.validate": "(self, task, method=None, **kwargs)",
    "vendor.driver_validate": "(self, method, **kwargs)",
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_methods_keep_the_fields_signatures(name):
    kind, method = name.split(".")
    signature = inspect.signature(getattr(base.INTERFACES[kind], method))
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    assert str(inspect.Signature(plain)) == SIGNATURES[name]


def complete(cls):
    """Fill in what is abstract, so that the rest can be called."""
    made = {name: lambda self, *args, **kwargs: None for name in cls.__abstractmethods__}
    return type(f"Complete{cls.__name__}", (cls,), made)()


OPTIONAL = [
    (kind, name)
    for kind, cls in base.INTERFACES.items()
    for name, method in inspect.getmembers(cls, inspect.isfunction)
    if "unsupported(task" in inspect.getsource(method)
]


@pytest.mark.parametrize(("kind", "name"), OPTIONAL)
def test_what_hardware_may_lack_says_so_by_name(kind, name):
    method = getattr(complete(base.INTERFACES[kind]), name)
    needed = [p.name for p in inspect.signature(method).parameters.values() if p.default is p.empty]
    task = testing.FakeTask(driver="my-hardware")
    with pytest.raises(exceptions.UnsupportedDriverExtension, match=f"my-hardware.*{name}"):
        method(**dict.fromkeys(needed, task))


def test_the_optional_methods_are_many():
    assert len(OPTIONAL) > 25


DEFAULTS = [
    ("power", "get_supported_power_states", [states.POWER_ON, states.POWER_OFF, states.REBOOT]),
    ("power", "supports_power_sync", True),
    ("deploy", "prepare_cleaning", None),
    ("deploy", "tear_down_cleaning", None),
    ("deploy", "prepare_service", None),
    ("deploy", "tear_down_service", None),
    ("network", "need_power_on", False),
    ("network", "get_node_network_data", {}),
    ("rescue", "clean_up", None),
    ("vendor", "driver_validate", None),
    ("raid", "validate", None),
]


@pytest.mark.parametrize(("kind", "name", "answer"), DEFAULTS)
def test_other_methods_have_a_plain_default(kind, name, answer):
    assert getattr(complete(base.INTERFACES[kind]), name)(testing.FakeTask()) == answer


class Waits(base.BIOSInterface):
    get_properties = validate = lambda self, task=None: {}
    answer = states.StepStatus.DONE

    @base.deploy_step(0)
    def flash(self, task):
        return states.DEPLOYWAIT

    def check_step(self, task, step):
        assert step["step"] == "flash"
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


def beat(answer, waiting=True):
    bios = Waits()
    bios.answer = answer
    deploy = noop.NoopDeploy()
    task = testing.FakeTask(deploy, bios)
    task.waiting_step = {"interface": "bios", "step": "flash"} if waiting else None
    deploy.heartbeat(task, "http://10.0.0.1:9999", "11.0", agent_status="end")
    return task.events


def test_a_beat_completes_the_step_that_its_interface_says_is_done():
    """How a waiting step ends."""
    assert beat(states.StepStatus.DONE) == [("complete_step",)]


def test_a_beat_leaves_a_step_that_goes_on():
    assert beat(states.StepStatus.RUNNING) == []


def test_a_beat_that_nothing_waits_for_means_nothing():
    """F17: the waiting step is the agent's, or the beat means nothing."""
    assert beat(AssertionError("must not be asked"), waiting=False) == []


def test_what_check_step_raises_is_for_the_engine():
    """F41: an error while looking fails the step now."""
    with pytest.raises(ZeroDivisionError):
        beat(ZeroDivisionError())


@pytest.mark.parametrize("answer", [None, True, "done", "running", 1])
def test_an_odd_answer_of_check_step_is_a_failure_with_words(answer):
    """F74: fail closed; the answer's type and interface are named."""
    with pytest.raises(exceptions.DeployStepFailed, match=r"bios interface Waits returned a"):
        beat(answer)


def test_raid_configurations_are_checked_by_schema():
    """F9."""
    raid = complete(base.RAIDInterface)
    task = testing.FakeTask()
    assert raid.get_properties() == {}
    raid.validate_raid_config(task, {"logical_disks": [{"size_gb": "MAX", "raid_level": "1+0"}]})
    for wrong, words in (
        ({}, "logical_disks"),
        ({"logical_disks": [{"size_gb": 0, "raid_level": "1"}]}, "size_gb"),
        ({"logical_disks": [{"size_gb": 5, "raid_level": "7"}]}, "must be one of"),
        ({"logical_disks": [{"size_gb": 5, "raid_levle": "1"}]}, "raid_levle"),
    ):
        with pytest.raises(exceptions.InvalidParameterValue, match=words):
            raid.validate_raid_config(task, wrong)
        task.node.target_raid_config = wrong
        if wrong:
            with pytest.raises(exceptions.InvalidParameterValue, match=words):
                raid.validate(task)
    assert "size_gb" in raid.get_logical_disk_properties()


# --- hardware types ----------------------------------------------------------


class Mine(hardware_type.GenericHardware):
    @property
    def supported_bios_interfaces(self):
        return [Waits, noop.NoBIOS]


def test_generic_hardware_has_a_no_op_interface_for_every_type():
    generic = hardware_type.GenericHardware()
    for kind in steps.INTERFACE_TYPES:
        (cls,) = hardware_type.supported(generic, kind)
        assert cls is noop.NOOP[kind][0]
        assert cls().get_deploy_steps(None) == []
        assert cls().get_properties() == {}


def test_what_a_hardware_type_overrides_is_preferred():
    assert hardware_type.supported(Mine(), "bios") == (Waits, noop.NoBIOS)
    assert hardware_type.supported(Mine(), "raid") == (noop.NoRAID,)


def test_an_abstract_hardware_type_must_say_the_four_that_matter():
    assert hardware_type.AbstractHardwareType.__abstractmethods__ == {
        "supported_boot_interfaces",
        "supported_deploy_interfaces",
        "supported_management_interfaces",
        "supported_power_interfaces",
    }


def test_properties_are_those_of_the_preferred_interfaces():
    class Told(Waits):
        def get_properties(self):
            return {"address": "where it is. Required."}

    class Hardware(hardware_type.GenericHardware):
        supported_bios_interfaces = property(lambda self: [Told])

    assert Hardware().get_properties() == {"address": "where it is. Required."}


class Untyped(base.BaseInterface):
    @base.deploy_step(10)
    def go(self, task):
        pass


class Bare(base.BaseInterface):
    interface_type = "bios"


class Unfinished(base.PowerInterface):
    interface_type = "power"


@pytest.mark.parametrize(
    ("kind", "composed", "words"),
    [
        ("bios", Untyped, r"Untyped, which has no interface_type; derive it from BIOSInterface"),
        ("bios", noop.NoRAID, r"NoRAID, which is no bios interface"),
        ("bios", Bare, r"Bare, which is no bios interface; derive it from BIOSInterface"),
        ("bios", dict, r"dict, which is no bios interface"),
        ("bios", Waits(), r"which is no class; list classes, not their instances"),
        ("bios", None, r"None, which is no class"),
        ("power", Unfinished, r"Unfinished, which lacks get_power_state, get_properties, reboot"),
    ],
)
def test_what_does_not_fit_is_refused_where_it_is_composed(kind, composed, words):
    """Table row: interface_type not set; F89: class with wrong base."""

    def classes(self):
        return [composed]

    made = type(
        "Bad", (hardware_type.GenericHardware,), {f"supported_{kind}_interfaces": property(classes)}
    )
    with pytest.raises(exceptions.DriverLoadError, match=rf"Bad.*supported_{kind}.*{words}"):
        hardware_type.supported(made(), kind)


# --- no-op interfaces ----------------------------------------------------------


REFUSING = ["bios", "console", "firmware", "inspect", "raid", "rescue", "vendor"]


@pytest.mark.parametrize("kind", sorted(noop.NOOP))
def test_no_op_interfaces_do_nothing_or_refuse(kind):
    """A missing thing says so; where there is nothing to do, that goes well."""
    interface = noop.NOOP[kind][0]()
    task = testing.FakeTask(interface)
    for name in sorted({*base.INTERFACES[kind].__abstractmethods__, "validate"}):
        if name == "get_properties":
            continue
        method = getattr(interface, name)
        needed = [
            p.name
            for p in inspect.signature(method).parameters.values()
            if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD
        ]
        if kind in REFUSING:
            with pytest.raises(exceptions.UnsupportedDriverExtension):
                method(**dict.fromkeys(needed, task))
        else:
            method(**dict.fromkeys(needed, task))


def test_no_op_power_believes_what_it_was_told():
    power = noop.NoopPower()
    task = testing.FakeTask(power, power_state=states.POWER_ON)
    assert power.get_power_state(task) == states.POWER_ON
    assert power.supports_power_sync(task) is False


def test_no_op_networks_of_every_kind_go_well():
    network, boot = noop.NoopNetwork(), noop.NoopBoot()
    task = testing.FakeTask(network)
    for name in ("inspection", "rescuing", "servicing", "cleaning", "provisioning"):
        assert getattr(network, f"add_{name}_network")(task) is None
        assert getattr(network, f"remove_{name}_network")(task) is None
    for interface in (network, boot):
        assert interface.validate_rescue(task) is None
        assert interface.validate_inspection(task) is None


def test_the_arguments_of_a_raid_step_need_not_be_written_out():
    """The field's name, which its drivers import."""

    class OwnRAID(base.RAIDInterface):
        @base.deploy_step(priority=0, argsinfo=base.RAID_APPLY_CONFIGURATION_ARGSINFO)
        def apply_configuration(self, task, raid_config, create_root_volume=True,
                                create_nonroot_volumes=True, delete_existing=True):  # fmt: skip
            return None

    task = testing.FakeTask(OwnRAID())
    with pytest.raises(exceptions.InvalidParameterValue, match="raid_config"):
        testing.run_step(task, "apply_configuration")
    disks = {"logical_disks": [{"size_gb": 1, "raid_level": "1"}]}
    given = {"raid_config": disks, "delete_existing": False}
    assert testing.run_step(task, "apply_configuration", given) is None
