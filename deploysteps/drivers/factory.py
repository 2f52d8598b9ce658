"""Composes a node's driver from what this process offers."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, NamedTuple

from oslo_config import cfg

from deploysteps import exceptions, steps
from deploysteps.drivers import catalog, discovery
from deploysteps.drivers.base import DeployInterface
from deploysteps.drivers.contract import BaseInterface, did_you_mean
from deploysteps.drivers.hardware_type import AbstractHardwareType, supported


class Offer(NamedTuple):
    """One implementation that nodes of a hardware type may use here."""

    hardware_type: str
    interface_type: str
    interface_name: str
    default: bool


@dataclasses.dataclass(frozen=True)
class Driver:
    """A hardware type composed for a node; ``driver.power`` and so on are its parts."""

    name: str
    hardware_type: AbstractHardwareType
    interfaces: Mapping[str, BaseInterface]
    """Interface type -> the instance, shared by all nodes that use it."""
    names: Mapping[str, str]
    """Interface type -> the implementation's entry-point name."""

    def __getattr__(self, name: str) -> Any:
        """Return an interface by its type."""
        try:
            return self.__dict__["interfaces"][name]
        except KeyError:
            raise AttributeError(f"a driver has no {name!r}") from None


class Registry:
    """The hardware types and interfaces of this process.

    :param conf: see :func:`deploysteps.drivers.catalog.make`, which also
        tells what is raised.
    :param find: returns the installed plugins of a group.
    """

    def __init__(self, conf: cfg.ConfigOpts, find: catalog.Find = discovery.plugins) -> None:
        """See the class."""
        self._enabled = tuple(conf.enabled_hardware_types)
        self._find = find
        self._catalog = catalog.make(conf, find)
        self._drivers: dict[tuple[str, ...], Driver] = {}

    @property
    def hardware_types(self) -> Mapping[str, AbstractHardwareType]:
        """Entry-point name -> instance, of all that are offered."""
        return self._catalog.hardware_types

    def build(self, node: Any) -> Driver:
        """Return the driver of a node: ``driver`` and ``<type>_interface`` are read.

        An interface that the node does not name is the default one.

        :raises DriverNotFound: when the hardware type is not offered here;
            the message tells apart why.
        :raises InvalidParameterValue: when an interface is not.
        """
        named = {kind: getattr(node, f"{kind}_interface", None) for kind in steps.INTERFACE_TYPES}
        return self.compose(node.driver, named)

    def compose(self, driver: str, named: Mapping[str, str | None] | None = None) -> Driver:
        """Return a hardware type with the named interfaces; errors as :meth:`build`."""
        names = self.resolve(driver, named)
        key = (driver, *names.values())
        if key not in self._drivers:
            offered = self._catalog.offered
            self._drivers[key] = Driver(
                name=driver,
                hardware_type=self.hardware_types[driver],
                interfaces={kind: offered[driver, kind][name] for kind, name in names.items()},
                names=names,
            )
        return self._drivers[key]

    def resolve(self, driver: str, named: Mapping[str, str | None] | None = None) -> dict[str, str]:
        """Return an interface name for each type: what is named, or the default.

        Errors as :meth:`build`.
        """
        self.hardware_type(driver)
        given = named or {}
        return {
            kind: self._checked(driver, kind, given.get(kind)) for kind in steps.INTERFACE_TYPES
        }

    def hardware_type(self, name: str) -> AbstractHardwareType:
        """Return an enabled hardware type.

        :raises DriverNotInstalled: when no distribution registers the name.
        :raises DriverNotEnabled: when the configuration does not enable it.
        :raises DriverLoadError: when it is enabled and broken.
        """
        if name in self.hardware_types:
            return self.hardware_types[name]
        self._refuse_broken(discovery.TYPES, name)
        installed = self._find(discovery.TYPES)
        if name not in installed:
            raise exceptions.DriverNotInstalled(
                f"hardware type {name!r} is not installed{did_you_mean(name, installed)}"
            )
        problem = installed[name].problem
        also = f" (and it cannot be loaded: {problem})" if problem else ""
        raise exceptions.DriverNotEnabled(
            f"hardware type {name!r} is installed but not enabled{also}; add it to [DEFAULT] "
            f"enabled_hardware_types, which has {', '.join(self._enabled)}"
        )

    def default_interface(self, driver: str, interface_type: str) -> str:
        """Return the interface of a node that names none."""
        self.hardware_type(driver)
        return self._catalog.defaults[driver, interface_type]

    def interfaces(self, driver: str, interface_type: str) -> Mapping[str, BaseInterface]:
        """Return name -> instance of what a driver may use, in order of preference."""
        self.hardware_type(driver)
        return self._catalog.offered[driver, interface_type]

    def declared_steps(self) -> set[str]:
        """Return every step that an enabled interface declares, as ``<interface>.<step>``."""
        return {
            f"{kind}.{step}"
            for (_driver, kind), offered in self._catalog.offered.items()
            for instance in offered.values()
            for declarations in instance.declared_steps.values()
            for step in declarations
        }

    def brings_agents_steps(self) -> bool:
        """Tell whether an enabled interface speaks with agents that have steps of their own."""
        return any(
            isinstance(instance, DeployInterface)
            and type(instance).agent_steps is not DeployInterface.agent_steps
            for offered in self._catalog.offered.values()
            for instance in offered.values()
        )

    def offers(self) -> list[Offer]:
        """Return all that this process offers, for the conductors' table."""
        defaults = self._catalog.defaults
        return [
            Offer(driver, kind, name, name == defaults[driver, kind])
            for (driver, kind), offered in self._catalog.offered.items()
            for name in offered
        ]

    def properties(self, driver: str) -> dict[str, str]:
        """Return what may be set in ``driver_info`` with the default interfaces."""
        kind = self.hardware_type(driver)
        properties: dict[str, str] = {}
        for interface in self.compose(driver).interfaces.values():
            properties.update(interface.get_properties())
        if type(kind).get_properties is not AbstractHardwareType.get_properties:
            properties.update(kind.get_properties())
        return properties

    def _refuse_broken(self, group: str, name: str) -> None:
        if (group, name) in self._catalog.broken:
            raise exceptions.DriverLoadError(self._catalog.broken[group, name])

    def _checked(self, driver: str, kind: str, name: str | None) -> str:
        """Return a name that the driver offers, or say why it does not."""
        if not name:
            return self._catalog.defaults[driver, kind]
        offered = self._catalog.offered[driver, kind]
        if name in offered:
            return name
        group = discovery.namespace(kind)
        self._refuse_broken(group, name)
        installed = self._find(group)
        if name not in installed:
            raise exceptions.InterfaceNotFound(
                f"{kind} interface {name!r} is not installed{did_you_mean(name, installed)}"
            )
        problem = installed[name].problem
        if problem is not None:
            raise exceptions.InterfaceNotFound(
                f"{kind} interface {name!r} is installed but cannot be loaded: {problem}; use one "
                f"of {', '.join(offered)}"
            )
        if installed[name].value in supported(self.hardware_types[driver], kind):
            raise exceptions.InterfaceNotFound(
                f"{kind} interface {name!r} is installed but not enabled; add it to [DEFAULT] "
                f"enabled_{kind}_interfaces, or use one of {', '.join(offered)}"
            )
        raise exceptions.IncompatibleInterface(
            f"{kind} interface {name!r} is not supported by hardware type {driver!r}; use one of "
            f"{', '.join(offered)}"
        )
