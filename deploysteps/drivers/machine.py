"""Interfaces to the machine itself: what can be switched, read and set on it.

Abstract is what makes no sense without an answer. What a machine may lack
raises ``UnsupportedDriverExtension`` until a driver overrides it.
"""

from __future__ import annotations

import abc
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from deploysteps import protocols, states
from deploysteps.drivers import passthru, raid_schema
from deploysteps.drivers.contract import BaseInterface, DescribedInterface, unsupported


class PowerInterface(DescribedInterface):
    """Switches the machine on and off."""

    interface_type = "power"

    @abc.abstractmethod
    def get_power_state(self, task: protocols.Task) -> str | None:
        """Return ``states.POWER_ON``, ``POWER_OFF``, or None when unknown."""

    @abc.abstractmethod
    def set_power_state(
        self, task: protocols.Task, power_state: str, timeout: float | None = None
    ) -> None:
        """Bring the machine into a power state and return when it is there.

        :param power_state: one of :meth:`get_supported_power_states`.
        :param timeout: seconds to try; None means the driver's default.
        :raises PowerStateFailure: when the state was not reached.
        """

    @abc.abstractmethod
    def reboot(self, task: protocols.Task, timeout: float | None = None) -> None:
        """Switch off and on again; a machine that is off is switched on."""

    def get_supported_power_states(self, task: protocols.Task) -> list[str]:
        """Return the states that :meth:`set_power_state` takes."""
        return [states.POWER_ON, states.POWER_OFF, states.REBOOT]

    def supports_power_sync(self, task: protocols.Task) -> bool:
        """Tell whether :meth:`get_power_state` says what the machine really does."""
        return True

    def verify(self, task: protocols.Task) -> None:
        """Check that the machine can be reached, and take down its power state.

        Runs before the verify steps of a node that becomes manageable.

        :raises Exception: any; the verification has failed for this reason.
        """
        self.validate(task)
        task.node.power_state = self.get_power_state(task)


class ManagementInterface(DescribedInterface):
    """Talks to the machine's management controller: boot device, sensors, ..."""

    interface_type = "management"

    @abc.abstractmethod
    def get_supported_boot_devices(self, task: protocols.Task) -> list[str]:
        """Return the devices that :meth:`set_boot_device` takes."""

    @abc.abstractmethod
    def set_boot_device(self, task: protocols.Task, device: str, persistent: bool = False) -> None:
        """Choose what the machine boots from, once or from now on."""

    @abc.abstractmethod
    def get_boot_device(self, task: protocols.Task) -> dict[str, Any]:
        """Return ``{'boot_device': ..., 'persistent': ...}``; None is unknown."""

    @abc.abstractmethod
    def get_sensors_data(self, task: protocols.Task) -> dict[str, Any]:
        """Return sensor type -> sensor name -> readings."""

    def get_supported_boot_modes(self, task: protocols.Task) -> list[str]:
        """Return the modes that :meth:`set_boot_mode` takes."""
        raise unsupported(task, "get_supported_boot_modes")

    def set_boot_mode(self, task: protocols.Task, mode: str) -> None:
        """Choose ``bios`` or ``uefi``."""
        raise unsupported(task, "set_boot_mode")

    def get_boot_mode(self, task: protocols.Task) -> str | None:
        """Return ``bios``, ``uefi`` or None when unknown."""
        raise unsupported(task, "get_boot_mode")

    def get_secure_boot_state(self, task: protocols.Task) -> bool:
        """Tell whether secure boot is on."""
        raise unsupported(task, "get_secure_boot_state")

    def set_secure_boot_state(self, task: protocols.Task, state: bool) -> None:
        """Switch secure boot on or off."""
        raise unsupported(task, "set_secure_boot_state")

    def inject_nmi(self, task: protocols.Task) -> None:
        """Send the machine a non-maskable interrupt."""
        raise unsupported(task, "inject_nmi")

    def get_supported_indicators(
        self, task: protocols.Task, component: str | None = None
    ) -> dict[str, Any]:
        """Return component -> indicator -> what is known of it."""
        raise unsupported(task, "get_supported_indicators")

    def get_indicator_state(self, task: protocols.Task, component: str, indicator: str) -> str:
        """Return ``on``, ``off``, ``blinking`` or ``unknown``."""
        raise unsupported(task, "get_indicator_state")

    def set_indicator_state(
        self, task: protocols.Task, component: str, indicator: str, state: str
    ) -> None:
        """Switch an indicator light."""
        raise unsupported(task, "set_indicator_state")

    def detect_vendor(self, task: protocols.Task) -> str | None:
        """Return the maker of the machine."""
        raise unsupported(task, "detect_vendor")

    def get_mac_addresses(self, task: protocols.Task) -> list[str]:
        """Return the addresses of the machine's network cards."""
        raise unsupported(task, "get_mac_addresses")

    def get_virtual_media(self, task: protocols.Task) -> list[dict[str, Any]]:
        """Return the machine's virtual drives and what is in them, as the machine tells it."""
        raise unsupported(task, "get_virtual_media")

    def attach_virtual_media(self, task: protocols.Task, device_type: str, image_url: str) -> None:
        """Put an image into a virtual drive.

        :param device_type: ``cdrom``, ``disk`` or ``floppy``.
        :param image_url: where the machine's controller finds the image.
        """
        raise unsupported(task, "attach_virtual_media")

    def detach_virtual_media(
        self, task: protocols.Task, device_types: Sequence[str] | None = None
    ) -> None:
        """Empty virtual drives; None means all of them."""
        raise unsupported(task, "detach_virtual_media")


class BIOSInterface(DescribedInterface):
    """Reads and writes the firmware's settings."""

    interface_type = "bios"

    def apply_configuration(self, task: protocols.Task, settings: Any) -> str | None:
        """Write settings: a list of ``{'name': ..., 'value': ...}``."""
        raise unsupported(task, "apply_configuration")

    def factory_reset(self, task: protocols.Task) -> str | None:
        """Bring all settings back to the maker's."""
        raise unsupported(task, "factory_reset")

    def cache_bios_settings(self, task: protocols.Task) -> None:
        """Read the settings and keep them with the node, by ``task.keep_bios_settings()``.

        Called when a node was verified, and after each step of this interface.
        What it raises is logged, and fails nothing.
        """
        raise unsupported(task, "cache_bios_settings")


class RAIDInterface(BaseInterface):
    """Makes and removes logical disks."""

    interface_type = "raid"

    def validate(self, task: protocols.Task) -> None:
        """Check the node's ``target_raid_config``, if it has one."""
        wanted = getattr(task.node, "target_raid_config", None)
        if wanted:
            self.validate_raid_config(task, wanted)

    def validate_raid_config(self, task: protocols.Task, raid_config: Mapping[str, Any]) -> None:
        """Check a RAID configuration.

        :raises InvalidParameterValue: naming what is wrong.
        """
        raid_schema.check(raid_config)

    def apply_configuration(
        self,
        task: protocols.Task,
        raid_config: Mapping[str, Any],
        create_root_volume: bool = True,
        create_nonroot_volumes: bool = True,
        delete_existing: bool = True,
    ) -> str | None:
        """Make the machine's logical disks those of ``raid_config``."""
        raise unsupported(task, "apply_configuration")

    def create_configuration(
        self,
        task: protocols.Task,
        create_root_volume: bool = True,
        create_nonroot_volumes: bool = True,
        delete_existing: bool = True,
    ) -> str | None:
        """Make the logical disks of the node's ``target_raid_config``."""
        raise unsupported(task, "create_configuration")

    def delete_configuration(self, task: protocols.Task) -> str | None:
        """Remove all logical disks."""
        raise unsupported(task, "delete_configuration")

    def get_logical_disk_properties(self) -> dict[str, str]:
        """Return the keys of a logical disk: name -> description."""
        return raid_schema.descriptions()


class FirmwareInterface(DescribedInterface):
    """Reads versions of the machine's firmware and updates it."""

    interface_type = "firmware"

    def update(self, task: protocols.Task, settings: Any) -> str | None:
        """Update components: a list of ``{'component': ..., 'url': ...}``."""
        raise unsupported(task, "update")

    def cache_firmware_components(self, task: protocols.Task) -> None:
        """Read the versions and keep them with the node, by ``task.keep_firmware_components()``.

        Called when a node was verified, and after each step of this interface.
        What it raises is logged, and fails nothing.
        """
        raise unsupported(task, "cache_firmware_components")


class ConsoleInterface(DescribedInterface):
    """Gives access to the machine's console."""

    interface_type = "console"

    @abc.abstractmethod
    def start_console(self, task: protocols.Task) -> None:
        """Start the console; nothing to do when it runs."""

    @abc.abstractmethod
    def stop_console(self, task: protocols.Task) -> None:
        """Stop the console; nothing to do when it does not run."""

    @abc.abstractmethod
    def get_console(self, task: protocols.Task) -> dict[str, Any]:
        """Return ``{'type': ..., 'url': ...}``."""


class VendorInterface(DescribedInterface):
    """What only one maker's machines do.

    Methods that carry ``@base.passthru`` or ``@base.driver_passthru`` can be
    called by their names over the API.
    """

    interface_type = "vendor"
    vendor_routes: ClassVar[Mapping[str, passthru.Route]] = {}
    """Name -> what ``@passthru`` declares."""
    driver_routes: ClassVar[Mapping[str, passthru.Route]] = {}
    """Name -> what ``@driver_passthru`` declares."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Collect the class's vendor methods as well as its steps."""
        super().__init_subclass__(**kwargs)
        cls.vendor_routes, cls.driver_routes = passthru.routes(cls)

    @abc.abstractmethod
    def validate(self, task: protocols.Task, method: str | None = None, **kwargs: Any) -> None:
        """Check a call of a vendor method, or the node when none is named.

        :param method: its name; ``kwargs`` has ``http_method`` and its arguments.
        :raises InvalidParameterValue: naming the argument.
        """

    def driver_validate(self, method: str, **kwargs: Any) -> None:
        """Check a call of a vendor method that is not about a node; as :meth:`validate`."""
