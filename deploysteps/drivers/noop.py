"""Interfaces for machines that lack something.

``noop`` ones do nothing and say that it went well: there is nothing to do.
``no-<type>`` ones refuse: somebody asked for what is not there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deploysteps import protocols, states
from deploysteps.drivers import interfaces
from deploysteps.drivers.contract import BaseInterface, unsupported


class _Nothing:
    """Needs nothing of a node."""

    def get_properties(self) -> dict[str, str]:
        return {}

    def validate(self, task: protocols.Task) -> None:
        return None


class _Refuses:
    """Needs nothing of a node and is not there."""

    interface_type: Any

    def get_properties(self) -> dict[str, str]:
        return {}

    def validate(self, task: protocols.Task, *args: Any, **kwargs: Any) -> None:
        raise unsupported(task, str(self.interface_type))


class NoopPower(_Nothing, interfaces.PowerInterface):
    """Somebody presses the button; what was asked for is taken as done."""

    def get_power_state(self, task: protocols.Task) -> str | None:
        """Return what was asked for last."""
        return task.node.power_state

    def set_power_state(
        self, task: protocols.Task, power_state: str, timeout: float | None = None
    ) -> None:
        """Believe that it is so."""

    def reboot(self, task: protocols.Task, timeout: float | None = None) -> None:
        """Believe that it was done."""

    def supports_power_sync(self, task: protocols.Task) -> bool:
        """Nobody looks at the machine."""
        return False


class NoopDeploy(_Nothing, interfaces.DeployInterface):
    """Has no step of its own: only what other interfaces have is run."""

    def prepare(self, task: protocols.Task) -> None:
        """Nothing to do."""

    def clean_up(self, task: protocols.Task) -> None:
        """Nothing to do."""

    def tear_down(self, task: protocols.Task) -> str | None:
        """Nothing to do."""
        return states.DELETED

    def take_over(self, task: protocols.Task) -> None:
        """Nothing to do."""


class NoopBoot(_Nothing, interfaces.BootInterface):
    """The machine boots what it boots."""

    def prepare_ramdisk(self, task: protocols.Task, ramdisk_params: Mapping[str, Any]) -> None:
        """Nothing to do."""

    def clean_up_ramdisk(self, task: protocols.Task) -> None:
        """Nothing to do."""

    def prepare_instance(self, task: protocols.Task) -> None:
        """Nothing to do."""

    def clean_up_instance(self, task: protocols.Task) -> None:
        """Nothing to do."""

    def validate_rescue(self, task: protocols.Task) -> None:
        """Nothing to check."""

    def validate_inspection(self, task: protocols.Task) -> None:
        """Nothing to check."""


class NoopManagement(_Nothing, interfaces.ManagementInterface):
    """The machine boots from what its firmware says."""

    def get_supported_boot_devices(self, task: protocols.Task) -> list[str]:
        """Return the field's usual devices: all are taken, none is set."""
        return ["pxe", "disk", "cdrom"]

    def set_boot_device(self, task: protocols.Task, device: str, persistent: bool = False) -> None:
        """Nothing to do."""

    def get_boot_device(self, task: protocols.Task) -> dict[str, Any]:
        """Return that it is unknown."""
        return {"boot_device": None, "persistent": None}

    def get_sensors_data(self, task: protocols.Task) -> dict[str, Any]:
        """Return nothing."""
        return {}


class NoopNetwork(_Nothing, interfaces.NetworkInterface):
    """The machine's networks are as they are."""

    def port_changed(self, task: protocols.Task, port_obj: protocols.Port) -> None:
        """Nothing to do."""

    def vif_attach(self, task: protocols.Task, vif_info: Mapping[str, Any]) -> None:
        """Nothing to do."""

    def vif_detach(self, task: protocols.Task, vif_id: str) -> None:
        """Nothing to do."""

    def vif_list(self, task: protocols.Task) -> list[dict[str, Any]]:
        """Return nothing."""
        return []

    def get_current_vif(self, task: protocols.Task, p_obj: protocols.Port) -> str | None:
        """Return that there is none."""
        return None

    def _nothing(self, task: protocols.Task) -> None:
        """Nothing to do."""

    add_provisioning_network = remove_provisioning_network = _nothing
    configure_tenant_networks = unconfigure_tenant_networks = _nothing
    add_cleaning_network = remove_cleaning_network = _nothing
    add_inspection_network = remove_inspection_network = _nothing
    add_rescuing_network = remove_rescuing_network = _nothing
    add_servicing_network = remove_servicing_network = _nothing
    validate_rescue = validate_inspection = _nothing


class NoopStorage(_Nothing, interfaces.StorageInterface):
    """The machine has its own disks."""

    def attach_volumes(self, task: protocols.Task) -> None:
        """Nothing to do."""

    def detach_volumes(self, task: protocols.Task) -> None:
        """Nothing to do."""

    def should_write_image(self, task: protocols.Task) -> bool:
        """The image goes to a disk of the machine."""
        return True


class NoBIOS(_Refuses, interfaces.BIOSInterface):
    """The firmware's settings are out of reach."""


class NoFirmware(_Refuses, interfaces.FirmwareInterface):
    """Updates of firmware are out of reach."""


class NoRAID(_Refuses, interfaces.RAIDInterface):
    """There is no RAID controller."""

    def validate_raid_config(self, task: protocols.Task, raid_config: Mapping[str, Any]) -> None:
        """Refuse."""
        raise unsupported(task, "validate_raid_config")


class NoConsole(_Refuses, interfaces.ConsoleInterface):
    """There is no console."""

    def start_console(self, task: protocols.Task) -> None:
        """Refuse."""
        raise unsupported(task, "start_console")

    def stop_console(self, task: protocols.Task) -> None:
        """Refuse."""
        raise unsupported(task, "stop_console")

    def get_console(self, task: protocols.Task) -> dict[str, Any]:
        """Refuse."""
        raise unsupported(task, "get_console")


class NoInspect(_Refuses, interfaces.InspectInterface):
    """Nothing can look into the machine."""

    def inspect_hardware(self, task: protocols.Task) -> str | None:
        """Refuse."""
        raise unsupported(task, "inspect_hardware")


class NoRescue(_Refuses, interfaces.RescueInterface):
    """There is no rescue system."""

    def rescue(self, task: protocols.Task) -> str | None:
        """Refuse."""
        raise unsupported(task, "rescue")

    def unrescue(self, task: protocols.Task) -> str | None:
        """Refuse."""
        raise unsupported(task, "unrescue")


class NoVendor(_Refuses, interfaces.VendorInterface):
    """The maker offers nothing more."""


NOOP: Mapping[str, Sequence[type[BaseInterface]]] = {
    "bios": (NoBIOS,),
    "boot": (NoopBoot,),
    "console": (NoConsole,),
    "deploy": (NoopDeploy,),
    "firmware": (NoFirmware,),
    "inspect": (NoInspect,),
    "management": (NoopManagement,),
    "network": (NoopNetwork,),
    "power": (NoopPower,),
    "raid": (NoRAID,),
    "rescue": (NoRescue,),
    "storage": (NoopStorage,),
    "vendor": (NoVendor,),
}
"""Interface type -> what a hardware type without a better one composes."""
