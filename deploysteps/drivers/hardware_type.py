"""Hardware types: which interface classes fit together on one kind of machine."""

from __future__ import annotations

import abc
from collections.abc import Sequence

from deploysteps import exceptions, steps
from deploysteps.drivers import interfaces, noop
from deploysteps.drivers.contract import BaseInterface

Classes = Sequence[type[BaseInterface]]
"""Interface classes in order of preference."""


class AbstractHardwareType(abc.ABC):
    """Base of all hardware types.

    Each property returns the classes that the machine can use for one type of
    interface, in order of preference; each of them is registered as an entry
    point in ``deploysteps.hardware.interfaces.<type>``.
    """

    @property
    @abc.abstractmethod
    def supported_boot_interfaces(self) -> Classes:
        """Boot interface classes."""

    @property
    @abc.abstractmethod
    def supported_deploy_interfaces(self) -> Classes:
        """Deploy interface classes."""

    @property
    @abc.abstractmethod
    def supported_management_interfaces(self) -> Classes:
        """Management interface classes."""

    @property
    @abc.abstractmethod
    def supported_power_interfaces(self) -> Classes:
        """Power interface classes."""

    @property
    def supported_bios_interfaces(self) -> Classes:
        """BIOS interface classes."""
        return noop.NOOP["bios"]

    @property
    def supported_console_interfaces(self) -> Classes:
        """Console interface classes."""
        return noop.NOOP["console"]

    @property
    def supported_firmware_interfaces(self) -> Classes:
        """Firmware interface classes."""
        return noop.NOOP["firmware"]

    @property
    def supported_inspect_interfaces(self) -> Classes:
        """Inspect interface classes."""
        return noop.NOOP["inspect"]

    @property
    def supported_network_interfaces(self) -> Classes:
        """Network interface classes."""
        return noop.NOOP["network"]

    @property
    def supported_raid_interfaces(self) -> Classes:
        """RAID interface classes."""
        return noop.NOOP["raid"]

    @property
    def supported_rescue_interfaces(self) -> Classes:
        """Rescue interface classes."""
        return noop.NOOP["rescue"]

    @property
    def supported_storage_interfaces(self) -> Classes:
        """Storage interface classes."""
        return noop.NOOP["storage"]

    @property
    def supported_vendor_interfaces(self) -> Classes:
        """Vendor interface classes."""
        return noop.NOOP["vendor"]

    def get_properties(self) -> dict[str, str]:
        """Return what may be set in a node's ``driver_info``: name -> description.

        This one collects it from the preferred class of each type.
        """
        properties: dict[str, str] = {}
        for interface_type in steps.INTERFACE_TYPES:
            for preferred in supported(self, interface_type)[:1]:
                properties.update(preferred().get_properties())
        return properties


class GenericHardware(AbstractHardwareType):
    """A machine of which nothing is known: override what is.

    Every type that is not overridden has a no-op interface.
    """

    @property
    def supported_boot_interfaces(self) -> Classes:
        """Boot interface classes."""
        return noop.NOOP["boot"]

    @property
    def supported_deploy_interfaces(self) -> Classes:
        """Deploy interface classes."""
        return noop.NOOP["deploy"]

    @property
    def supported_management_interfaces(self) -> Classes:
        """Management interface classes."""
        return noop.NOOP["management"]

    @property
    def supported_power_interfaces(self) -> Classes:
        """Power interface classes."""
        return noop.NOOP["power"]


def supported(hardware_type: AbstractHardwareType, interface_type: str) -> Classes:
    """Return the classes of one type, each checked to be fit for it.

    :raises DriverLoadError: naming the hardware type, the class and the remedy.
    """
    classes = tuple(getattr(hardware_type, f"supported_{interface_type}_interfaces"))
    for cls in classes:
        problem = unfit(cls, interface_type)
        if problem:
            owner = type(hardware_type)
            raise exceptions.DriverLoadError(
                driver=f"{owner.__module__}.{owner.__qualname__}",
                reason=f"supported_{interface_type}_interfaces has {problem}",
            )
    return classes


def unfit(cls: object, interface_type: str) -> str | None:
    """Return why an object cannot be an interface class of this type, or None."""
    wanted = interfaces.INTERFACES[interface_type]
    if not isinstance(cls, type):
        return f"{cls!r}, which is no class; list classes, not their instances"
    name = f"{cls.__module__}.{cls.__qualname__}"
    if issubclass(cls, BaseInterface) and cls.interface_type is None:
        return f"{name}, which has no interface_type; derive it from {wanted.__name__}"
    if not issubclass(cls, wanted) or cls.interface_type != interface_type:
        return f"{name}, which is no {interface_type} interface; derive it from {wanted.__name__}"
    missing = getattr(cls, "__abstractmethods__", None)
    if missing:
        return f"{name}, which lacks {', '.join(sorted(missing))}; write them"
    return None
