"""What the configuration enables of the installed hardware types and interfaces."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Collection, Iterator, Mapping

from oslo_config import cfg

from deploysteps import exceptions, steps
from deploysteps.drivers import discovery
from deploysteps.drivers.contract import BaseInterface, did_you_mean
from deploysteps.drivers.discovery import Plugin
from deploysteps.drivers.hardware_type import AbstractHardwareType, Classes, supported, unfit

LOG = logging.getLogger(__name__)

Find = Callable[[str], Mapping[str, Plugin]]
"""Entry points' group -> its plugins by name."""


@dataclasses.dataclass
class Catalog:
    """What this process offers."""

    hardware_types: dict[str, AbstractHardwareType] = dataclasses.field(default_factory=dict)
    """Entry-point name -> instance, of all that are enabled and sound."""
    offered: dict[tuple[str, str], dict[str, BaseInterface]] = dataclasses.field(
        default_factory=dict
    )
    """(hardware type, interface type) -> name -> instance, in order of preference."""
    defaults: dict[tuple[str, str], str] = dataclasses.field(default_factory=dict)
    """(hardware type, interface type) -> name of what a node gets that names none."""
    broken: dict[tuple[str, str], str] = dataclasses.field(default_factory=dict)
    """(group, name) -> why something enabled is left out."""


def make(conf: cfg.ConfigOpts, find: Find = discovery.plugins) -> Catalog:
    """Load what is enabled.

    :param conf: ``enabled_hardware_types``, ``enabled_<type>_interfaces``,
        ``default_<type>_interface`` and ``skip_broken_drivers`` are read.
    :param find: returns the installed plugins of a group.
    :raises ConfigurationError: when something is enabled that is not
        installed, or a hardware type is left without an interface.
    :raises DriverLoadError: when something enabled cannot be loaded, unless
        ``skip_broken_drivers`` says to go on without it.
    """
    return _Maker(conf, find).make()


class _Maker:
    def __init__(self, conf: cfg.ConfigOpts, find: Find) -> None:
        self._conf = conf
        self._find = find
        self._made = Catalog()
        self._instances: dict[type[BaseInterface], BaseInterface] = {}

    def make(self) -> Catalog:
        """Load hardware types first: they say which interfaces matter."""
        self._load_hardware_types()
        for kind in steps.INTERFACE_TYPES:
            self._load_interfaces(kind)
        return self._made

    def _load_hardware_types(self) -> None:
        enabled = list(self._conf.enabled_hardware_types)
        installed = self._find(discovery.TYPES)
        _tell_unused(installed, enabled)
        for name in enabled:
            plugin = self._enabled(discovery.TYPES, name, "enabled_hardware_types")
            if plugin is None:
                continue
            try:
                self._made.hardware_types[name] = _hardware_type(plugin)
            except exceptions.DriverLoadError as exc:
                self._leave_out(discovery.TYPES, name, exc)

    def _load_interfaces(self, kind: str) -> None:
        option = f"enabled_{kind}_interfaces"
        enabled = self._conf[option]
        available = dict(
            self._all_sound(kind) if enabled is None else self._named(kind, option, enabled)
        )
        default = self._conf[f"default_{kind}_interface"]
        left_out = (discovery.namespace(kind), default) in self._made.broken
        if default is not None and default not in available and not left_out:
            raise exceptions.ConfigurationError(
                f"[DEFAULT] default_{kind}_interface is {default!r}, which is not among the "
                f"enabled {kind} interfaces{did_you_mean(default, available)}"
            )
        used: set[str] = set()
        for name in tuple(self._made.hardware_types):
            try:
                used.update(self._offer(name, kind, available, default))
            except exceptions.DeployStepsException as exc:
                self._leave_out(discovery.TYPES, name, exc)
        for idle in sorted(set(available) - used) if enabled is not None else ():
            LOG.warning(
                "[DEFAULT] %s names %r, which no enabled hardware type supports", option, idle
            )

    def _all_sound(self, kind: str) -> Iterator[tuple[str, type[BaseInterface]]]:
        """Yield every installed implementation that can be loaded."""
        installed = self._find(discovery.namespace(kind))
        _tell_unused(installed, ())
        for plugin in installed.values():
            if plugin.problem is not None:
                continue
            problem = unfit(plugin.value, kind)
            if problem is None:
                yield plugin.name, plugin.value
            else:
                LOG.warning("entry point %s is ignored: it is %s", plugin.origin, problem)

    def _named(
        self, kind: str, option: str, enabled: Collection[str]
    ) -> Iterator[tuple[str, type[BaseInterface]]]:
        """Yield the implementations that the configuration names."""
        group = discovery.namespace(kind)
        _tell_unused(self._find(group), enabled)
        for name in enabled:
            plugin = self._enabled(group, name, option)
            if plugin is None:
                continue
            problem = unfit(plugin.value, kind)
            if problem is None:
                yield name, plugin.value
            else:
                self._leave_out(group, name, _load_error(plugin, f"it is {problem}"))

    def _offer(
        self,
        name: str,
        kind: str,
        available: Mapping[str, type[BaseInterface]],
        default: str | None,
    ) -> Collection[str]:
        """Note what a hardware type offers of one type; return the names."""
        try:
            classes = supported(self._made.hardware_types[name], kind)
            offered = {
                known: self._instance(cls)
                for wanted in classes
                for known, cls in available.items()
                if cls is wanted
            }
        except exceptions.DriverLoadError:
            raise
        except Exception as exc:
            plugin = self._find(discovery.TYPES)[name]
            problem = f"its {kind} interfaces cannot be used: {discovery.reason(exc)}"
            raise _load_error(plugin, problem) from exc
        if not offered:
            raise exceptions.ConfigurationError(
                f"hardware type {name!r} has no {kind} interface: it supports "
                f"{', '.join(self._names(kind, classes)) or 'none'}, and enabled are "
                f"{', '.join(available) or 'none'}; {self._advice(kind, classes)}, or take "
                f"{name} out of enabled_hardware_types"
            )
        self._made.offered[name, kind] = offered
        self._made.defaults[name, kind] = default if default in offered else next(iter(offered))
        return offered.keys()

    def _names(self, kind: str, classes: Classes) -> list[str]:
        installed = self._find(discovery.namespace(kind)).values()
        return [
            next(
                (plugin.name for plugin in installed if plugin.value is cls),
                f"{cls.__module__}.{cls.__qualname__} (which has no entry point)",
            )
            for cls in classes
        ]

    def _advice(self, kind: str, classes: Classes) -> str:
        """Return how a hardware type comes by an interface of a kind."""
        group = discovery.namespace(kind)
        installed = [plugin.value for plugin in self._find(group).values()]
        if not classes or any(cls in installed for cls in classes):
            return f"add one to [DEFAULT] enabled_{kind}_interfaces"
        first = classes[0]
        return (
            f"give it an entry point ({group}: a name = {first.__module__}:{first.__qualname__}), "
            f"install its package again, and add that name to [DEFAULT] enabled_{kind}_interfaces"
        )

    def _instance(self, cls: type[BaseInterface]) -> BaseInterface:
        if cls not in self._instances:
            self._instances[cls] = cls()
        return self._instances[cls]

    def _enabled(self, group: str, name: str, option: str) -> Plugin | None:
        """Return an enabled plugin, or None when it is broken and left out."""
        installed = self._find(group)
        plugin = installed.get(name)
        if plugin is None:
            raise exceptions.ConfigurationError(
                f"[DEFAULT] {option} names {name!r}, which is not installed: no distribution "
                f"registers it in {group}{did_you_mean(name, installed)}"
            )
        if plugin.problem is None:
            return plugin
        self._leave_out(group, name, _load_error(plugin, plugin.problem))
        return None

    def _leave_out(self, group: str, name: str, error: exceptions.DeployStepsException) -> None:
        """Go on without something enabled, if that is what the operator wants."""
        if not self._conf.skip_broken_drivers:
            raise error
        LOG.error("going on without %r, as skip_broken_drivers is set: %s", name, error)
        self._made.broken[group, name] = str(error)
        if group == discovery.TYPES:
            self._made.hardware_types.pop(name, None)
            for kind in steps.INTERFACE_TYPES:
                self._made.offered.pop((name, kind), None)
                self._made.defaults.pop((name, kind), None)


def _tell_unused(installed: Mapping[str, Plugin], enabled: Collection[str]) -> None:
    for plugin in installed.values():
        if plugin.problem is not None and plugin.name not in enabled:
            LOG.warning("entry point %s is ignored: %s", plugin.origin, plugin.problem)


def _hardware_type(plugin: Plugin) -> AbstractHardwareType:
    cls, base = plugin.value, AbstractHardwareType
    if not isinstance(cls, type) or not issubclass(cls, base):
        raise _load_error(plugin, f"it is no hardware type; derive it from {base.__name__}")
    try:
        return cls()
    except Exception as exc:
        raise _load_error(plugin, discovery.reason(exc)) from exc


def _load_error(plugin: Plugin, problem: str) -> exceptions.DriverLoadError:
    return exceptions.DriverLoadError(
        f"entry point {plugin.origin} is enabled and cannot be loaded: {problem}"
    )
