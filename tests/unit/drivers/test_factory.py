"""Plugins: found, loaded, enabled, composed; and what is said when they are not."""

from __future__ import annotations

import importlib.metadata
import json
import logging
import subprocess
import sys
import textwrap
import types

import pytest
from oslo_config import cfg

from deploysteps import conf as conf_module
from deploysteps import exceptions, steps
from deploysteps.drivers import catalog, discovery, factory, fake, noop
from deploysteps.drivers.hardware_type import GenericHardware

MODULE = "unit_plugins_of_factory"


@pytest.fixture
def plugins(monkeypatch):
    """A module that entry points of the tests lead to."""
    module = types.ModuleType(MODULE)

    class Bios(noop.NoBIOS):
        pass

    class Second(noop.NoBIOS):
        pass

    class Unregistered(noop.NoBIOS):
        pass

    class Hardware(GenericHardware):
        supported_bios_interfaces = property(lambda self: [Bios, Second])

    class Broken(GenericHardware):
        def __init__(self):
            raise RuntimeError("no license")

    class BrokenProperty(GenericHardware):
        supported_raid_interfaces = property(lambda self: 1 / 0)

    class Composes(GenericHardware):
        supported_raid_interfaces = property(lambda self: [Bios])

    class Lonely(GenericHardware):
        supported_bios_interfaces = property(lambda self: [Unregistered])

    class Explodes(noop.NoBIOS):
        def __init__(self):
            raise RuntimeError("cannot be made")

    class UsesExplodes(GenericHardware):
        supported_bios_interfaces = property(lambda self: [Explodes])

    for value in dict(locals()).values():
        if isinstance(value, type):
            setattr(module, value.__name__, value)
    monkeypatch.setitem(sys.modules, MODULE, module)
    return module


class Installed:
    """The real entry points and those that a test adds, each loaded once."""

    def __init__(self):
        self.more = {}
        self.loads = 0
        self.cache = {}

    def add(self, group, name, value, dist="plugin 1.0"):
        group = group if "." in group else discovery.namespace(group)
        self.more.setdefault(group, []).append((name, value, dist))
        return self

    def __call__(self, group):
        if group not in self.cache:
            self.loads += 1
            points = list(discovery.entry_points(group))
            origins = dict(discovery.distributions(group))
            for name, value, dist in self.more.get(group, ()):
                points.append(importlib.metadata.EntryPoint(name, value, group))
                origins.setdefault((name, value), []).append(dist)
            self.cache[group] = discovery.load(points, origins)
        return self.cache[group]


def conf_of(**options):
    conf = cfg.ConfigOpts()
    conf_module.register(conf)
    conf([], default_config_files=[], default_config_dirs=[])
    for name, value in options.items():
        conf.set_override(name, value)
    return conf


@pytest.fixture
def installed(plugins):
    found = Installed()
    found.add(discovery.TYPES, "mine", f"{MODULE}:Hardware")
    found.add("bios", "first", f"{MODULE}:Bios")
    found.add("bios", "second", f"{MODULE}:Second")
    return found


def registry(installed, **options):
    return factory.Registry(conf_of(**options), installed)


def refused(error, installed, *words, **options):
    with pytest.raises(error) as caught:
        registry(installed, **options)
    for word in words:
        assert word in str(caught.value)
    return caught.value


# --- what comes along ----------------------------------------------------------


def test_the_default_configuration_offers_fake_hardware():
    made = factory.Registry(conf_of())
    assert list(made.hardware_types) == ["fake-hardware"]
    offers = made.offers()
    for kind in steps.INTERFACE_TYPES:
        of_kind = [offer for offer in offers if offer.interface_type == kind]
        assert {offer.hardware_type for offer in of_kind} == {"fake-hardware"}
        names = [offer.interface_name for offer in of_kind]
        assert "fake" in names
        assert any(name in ("noop", f"no-{kind}") for name in names)
        more = ["custom-agent", "direct"] if kind == "deploy" else []
        assert len(names) == 2 + len(more) and set(more) <= set(names)
        assert [offer.interface_name for offer in of_kind if offer.default] == [names[0]]


def test_a_node_gets_what_it_names_or_the_default():
    made = factory.Registry(conf_of())
    node = types.SimpleNamespace(
        driver="fake-hardware", raid_interface="no-raid", bios_interface=""
    )
    driver = made.build(node)
    assert type(driver.raid) is noop.NoRAID
    assert type(driver.bios) is fake.FakeBIOS
    assert type(driver.network) is noop.NoopNetwork
    assert driver.names["raid"] == "no-raid"
    assert driver.name == "fake-hardware"
    assert type(driver.hardware_type) is fake.FakeHardware
    assert list(driver.interfaces) == list(steps.INTERFACE_TYPES)


def test_instances_and_drivers_are_shared():
    made = factory.Registry(conf_of())
    one, two = made.compose("fake-hardware"), made.compose("fake-hardware", {"raid": "no-raid"})
    assert made.compose("fake-hardware") is one
    assert one is not two
    assert one.power is two.power


def test_a_driver_has_its_interfaces_and_nothing_else():
    driver = factory.Registry(conf_of()).compose("fake-hardware")
    with pytest.raises(AttributeError, match="no 'powr'"):
        _ = driver.powr
    assert not hasattr(factory.Driver.__new__(factory.Driver), "power")


def test_properties_are_those_of_the_default_interfaces(installed, plugins):
    made = factory.Registry(conf_of())
    assert set(made.properties("fake-hardware")) == {"fake_delay", "fake_fail"}
    plugins.Hardware.get_properties = lambda self: {"address": "where"}
    assert registry(installed, enabled_hardware_types=["mine"]).properties("mine") == {
        "address": "where"
    }


# --- which interfaces are enabled -------------------------------------------------


def test_unset_means_all_that_the_enabled_hardware_types_support(installed):
    made = registry(installed, enabled_hardware_types=["mine", "fake-hardware"])
    assert list(made.interfaces("mine", "bios")) == ["first", "second"]
    assert list(made.interfaces("fake-hardware", "bios")) == ["fake", "no-bios"]


def test_the_default_is_the_first_supported_and_enabled(installed):
    options = {"enabled_hardware_types": ["mine"]}
    assert registry(installed, **options).default_interface("mine", "bios") == "first"
    options["enabled_bios_interfaces"] = ["second"]
    assert registry(installed, **options).default_interface("mine", "bios") == "second"
    options["enabled_bios_interfaces"] = ["second", "first"]
    made = registry(installed, **options)
    assert made.default_interface("mine", "bios") == "first", "the hardware type's preference"


def test_a_configured_default_wins_where_it_is_supported(installed):
    made = registry(
        installed,
        enabled_hardware_types=["mine", "fake-hardware"],
        default_bios_interface="second",
    )
    assert made.default_interface("mine", "bios") == "second"
    assert made.resolve("mine")["bios"] == "second"
    assert made.default_interface("fake-hardware", "bios") == "fake"


def test_a_configured_default_must_be_enabled(installed):
    refused(
        exceptions.ConfigurationError,
        installed,
        "default_bios_interface is 'secnod'",
        "did you mean 'second'?",
        enabled_hardware_types=["mine"],
        default_bios_interface="secnod",
    )


def test_an_enabled_interface_that_nothing_supports_is_told(installed, caplog):
    registry(installed, enabled_bios_interfaces=["fake", "first"])
    assert "'first', which no enabled hardware type supports" in caplog.text


def test_a_hardware_type_without_an_interface_stops_the_start(installed):
    refused(
        exceptions.ConfigurationError,
        installed,
        "'mine' has no bios interface",
        "supports first, second",
        "enabled are fake",
        "enabled_bios_interfaces",
        enabled_hardware_types=["mine"],
        enabled_bios_interfaces=["fake"],
    )


def test_a_class_without_entry_point_is_named(installed):
    installed.add(discovery.TYPES, "lonely", f"{MODULE}:Lonely")
    refused(
        exceptions.ConfigurationError,
        installed,
        "Unregistered (which has no entry point)",
        ".Unregistered), install its package again, and add that name to [DEFAULT] enabled_bios",
        enabled_hardware_types=["lonely"],
    )


# --- four causes, four messages (F90) -----------------------------------------------


def test_not_installed_installed_but_not_enabled_and_no_such_name(installed):
    """F90."""
    made = registry(installed)
    with pytest.raises(exceptions.DriverNotInstalled, match=r"not installed; did you mean 'mine'"):
        made.build(types.SimpleNamespace(driver="mien"))
    for name in ("redfish", None, 5):
        with pytest.raises(exceptions.DriverNotInstalled, match="there are fake-hardware, mine"):
            made.hardware_type(name)
    with pytest.raises(
        exceptions.DriverNotEnabled, match=r"'mine' is installed but not enabled; add it to"
    ) as caught:
        made.properties("mine")
    assert caught.value.code == 404


def test_a_disabled_and_broken_one_says_both(installed):
    """F90."""
    installed.add(discovery.TYPES, "vendor-x", "no_such_module:Hardware")
    made = registry(installed)
    with pytest.raises(exceptions.DriverNotEnabled, match="not enabled .*No module named"):
        made.hardware_type("vendor-x")


def test_interfaces_are_told_apart_too(installed):
    """F90 for interfaces."""
    installed.add("bios", "broken", "no_such_module:Bios")
    made = registry(
        installed,
        enabled_hardware_types=["mine", "fake-hardware"],
        enabled_bios_interfaces=["fake", "first"],
    )
    for name, error, words in (
        ("frist", exceptions.InterfaceNotFound, "not installed; did you mean 'first'"),
        ("second", exceptions.InterfaceNotFound, "installed but not enabled; add it to"),
        ("fake", exceptions.IncompatibleInterface, "not supported by hardware type 'mine'"),
        ("broken", exceptions.InterfaceNotFound, "cannot be loaded: ModuleNotFoundError"),
    ):
        with pytest.raises(error, match=words) as caught:
            made.resolve("mine", {"bios": name})
        assert caught.value.code == 400


@pytest.mark.parametrize("option", ["enabled_hardware_types", "enabled_bios_interfaces"])
def test_enabling_what_is_not_installed_stops_the_start(installed, option):
    """F89: its entry point was removed."""
    refused(
        exceptions.ConfigurationError,
        installed,
        option,
        "'frist', which is not installed",
        **{option: ["frist"]},
    )


# --- broken plugins (F89) -----------------------------------------------------------


BROKEN = [
    ("no_such_module_anywhere:Thing", "ModuleNotFoundError: No module named"),
    (f"{MODULE}:Missing", "AttributeError"),
    (f"{MODULE}_exits:Thing", "SystemExit: license expired"),
    (f"{MODULE}_raises:Thing", "ZeroDivisionError"),
    (f"{MODULE}_mute:Thing", "Mute"),
    ("json:dumps", "is no hardware type|which is no class"),
    ("json:JSONDecoder", "is no hardware type|which is no bios interface"),
]


@pytest.fixture
def modules(tmp_path, monkeypatch):
    """Modules that do something else than be imported."""
    monkeypatch.syspath_prepend(tmp_path)
    for name, text in (
        ("exits", "raise SystemExit('license expired')"),
        ("raises", "1 / 0"),
        (
            "mute",
            "class Mute(Exception):\n def __str__(self): raise RuntimeError\nraise Mute()",
        ),
    ):
        (tmp_path / f"{MODULE}_{name}.py").write_text(text)


@pytest.mark.parametrize(("value", "words"), BROKEN)
@pytest.mark.parametrize("kind", ["types", "bios"])
def test_a_broken_plugin_that_is_enabled_stops_the_start(installed, modules, kind, value, words):
    """F89: missing module, missing attribute, wrong base, raising or exiting at import."""
    group, option, others = {
        "types": (discovery.TYPES, "enabled_hardware_types", ["fake-hardware"]),
        "bios": ("bios", "enabled_bios_interfaces", ["fake"]),
    }[kind]
    installed.add(group, "broken", value, dist="acme-drivers 2.1")
    error = refused(
        exceptions.DriverLoadError,
        installed,
        f"broken = {value}",
        "acme-drivers 2.1",
        **{option: [*others, "broken"]},
    )
    assert any(word in str(error) for word in words.split("|"))


@pytest.mark.parametrize(("value", "words"), BROKEN)
@pytest.mark.parametrize("kind", ["types", "bios"])
def test_a_broken_plugin_that_is_not_enabled_is_only_named(
    installed, modules, caplog, kind, value, words
):
    """F89: one broken plugin does not stop the others."""
    group = discovery.TYPES if kind == "types" else "bios"
    installed.add(group, "broken", value)
    made = registry(installed)
    assert made.default_interface("fake-hardware", "bios") == "fake"
    if not (kind == "types" and value.startswith("json")):
        assert f"broken = {value}" in caplog.text
        assert any(word in caplog.text for word in words.split("|"))


@pytest.mark.parametrize(("value", "words"), BROKEN)
def test_skip_broken_drivers_starts_without_it(installed, modules, caplog, value, words):
    """F89: option to start without it; the reason stays known."""
    installed.add(discovery.TYPES, "broken", value)
    installed.add("bios", "broken", value)
    caplog.set_level(logging.ERROR)
    made = registry(
        installed,
        enabled_hardware_types=["broken", "fake-hardware"],
        enabled_bios_interfaces=["fake", "broken"],
        default_bios_interface="broken",
        skip_broken_drivers=True,
    )
    assert list(made.hardware_types) == ["fake-hardware"]
    assert {offer.hardware_type for offer in made.offers()} == {"fake-hardware"}
    assert made.default_interface("fake-hardware", "bios") == "fake"
    assert "going on without 'broken'" in caplog.text
    for ask in (
        lambda: made.hardware_type("broken"),
        lambda: made.resolve("fake-hardware", {"bios": "broken"}),
    ):
        with pytest.raises(exceptions.DriverLoadError, match=words):
            ask()


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("Broken", "RuntimeError: no license"),
        ("BrokenProperty", "its raid interfaces cannot be used: ZeroDivisionError"),
        ("Composes", "supported_raid_interfaces has .*Bios, which is no raid interface"),
        ("UsesExplodes", "its bios interfaces cannot be used: RuntimeError: cannot be made"),
    ],
)
def test_a_hardware_type_that_breaks_later_is_broken_too(installed, name, words):
    """F89."""
    installed.add(discovery.TYPES, "odd", f"{MODULE}:{name}")
    installed.add("bios", "explodes", f"{MODULE}:Explodes")
    with pytest.raises(exceptions.DriverLoadError, match=words):
        registry(installed, enabled_hardware_types=["odd"])
    made = registry(
        installed, enabled_hardware_types=["odd", "fake-hardware"], skip_broken_drivers=True
    )
    assert list(made.hardware_types) == ["fake-hardware"]
    assert {offer.hardware_type for offer in made.offers()} == {"fake-hardware"}


def test_a_keyboard_interrupt_is_not_a_broken_plugin():
    point = types.SimpleNamespace(
        name="x", value="y:z", load=lambda: (_ for _ in ()).throw(KeyboardInterrupt)
    )
    with pytest.raises(KeyboardInterrupt):
        discovery.load([point], {})


@pytest.mark.parametrize("group", [discovery.TYPES, "bios"])
def test_two_distributions_with_one_name_are_refused_and_both_named(installed, group):
    """F4, F89."""
    name = "fake-hardware" if group == discovery.TYPES else "fake"
    installed.add(group, name, f"{MODULE}:Bios", dist="impostor 0.1")
    options = {} if group == discovery.TYPES else {"enabled_bios_interfaces": ["fake"]}
    refused(
        exceptions.DriverLoadError,
        installed,
        "impostor 0.1",
        "deploysteps 0.1.0",
        "registered more than once",
        **options,
    )


def test_plugins_are_loaded_once_for_all_questions(installed):
    """F94."""
    made = registry(installed)
    loads = installed.loads
    assert loads == len(steps.INTERFACE_TYPES) + 1
    for _ in range(3):
        made.compose("fake-hardware")
        with pytest.raises(exceptions.DriverNotFound):
            made.compose("nothing")
    assert installed.loads == loads
    assert discovery.plugins(discovery.TYPES) is discovery.plugins(discovery.TYPES)


def test_the_catalog_is_plain_data(installed):
    made = catalog.make(conf_of(), installed)
    assert made.broken == {}
    assert made.defaults["fake-hardware", "power"] == "fake"


# --- real distributions ----------------------------------------------------------------


def distribution(folder, name, version, entries):
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    (info / "entry_points.txt").write_text(
        "".join(f"[{group}]\n{line}\n" for group, line in entries)
    )


def test_distributions_are_found_and_named_in_a_fresh_process(tmp_path):
    """F4, F89, F90 through real metadata: one good plugin, one broken, two of one name."""
    (tmp_path / "acme.py").write_text(
        textwrap.dedent(
            """
            from deploysteps.drivers import base, hardware_type, noop

            class AcmeBIOS(noop.NoBIOS):
                @base.deploy_step(90)
                def tune(self, task):
                    pass

            class Acme(hardware_type.GenericHardware):
                @property
                def supported_bios_interfaces(self):
                    return [AcmeBIOS]
            """
        )
    )
    types_group, bios = discovery.TYPES, discovery.namespace("bios")
    distribution(
        tmp_path,
        "acme",
        "1.0",
        [(types_group, "acme = acme:Acme"), (bios, "acme = acme:AcmeBIOS"), (bios, "x = acme:A")],
    )
    distribution(tmp_path, "rival", "2.0", [(bios, "x = rival:B")])
    code = textwrap.dedent(
        """
        import json
        from deploysteps import conf, exceptions
        from deploysteps.drivers import factory
        conf.setup([])
        conf.CONF.set_override("enabled_hardware_types", ["acme"])
        made = factory.Registry(conf.CONF)
        found = made.compose("acme").bios.get_deploy_steps(None)
        conf.CONF.set_override("enabled_bios_interfaces", ["acme", "x"])
        try:
            factory.Registry(conf.CONF)
        except exceptions.DriverLoadError as exc:
            print(json.dumps([[step["step"] for step in found], str(exc)]))
        """
    )
    answer = subprocess.run(
        [sys.executable, "-c", code],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={"PYTHONPATH": str(tmp_path), "HOME": str(tmp_path), "PATH": ""},
    ).stdout
    found, error = json.loads(answer)
    assert found == ["tune"]
    for words in ("x = acme:A (acme 1.0)", "x = rival:B (rival 2.0)", "registered more than once"):
        assert words in error
