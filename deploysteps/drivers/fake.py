"""Hardware that is not there: for trying things, for tests and for load.

Every interface takes as long, and fails, as the node's ``driver_info`` or the
configuration says; see :mod:`deploysteps.drivers.fake_base`.
"""

from __future__ import annotations

from typing import Any

from deploysteps import exceptions, protocols, states
from deploysteps.drivers import hardware_type, interfaces, noop
from deploysteps.drivers.contract import BaseInterface
from deploysteps.drivers.declare import deploy_step, verify_step
from deploysteps.drivers.fake_base import Fake
from deploysteps.drivers.fake_steps import (
    FakeBIOS,
    FakeDeploy,
    FakeFirmware,
    FakeRAID,
    FakeVendor,
    on_request,
)


class FakePower(Fake, interfaces.PowerInterface):
    """A switch that is kept with the node."""

    def get_power_state(self, task: protocols.Task) -> str | None:
        """Return the switch's position; a new node is off."""
        self.act(task, "get_power_state", "power_delay")
        return task.node.power_state or states.POWER_OFF

    def set_power_state(
        self, task: protocols.Task, power_state: str, timeout: float | None = None
    ) -> None:
        """Turn the switch.

        :raises InvalidParameterValue: for a state that does not exist.
        """
        if power_state not in states.POWER_TARGETS:
            raise exceptions.InvalidParameterValue(
                f"fake power cannot do {power_state!r}; it can {', '.join(states.POWER_TARGETS)}"
            )
        self.act(task, "set_power_state", "power_delay")
        task.node.power_state = states.POWER_TARGETS[power_state]

    def reboot(self, task: protocols.Task, timeout: float | None = None) -> None:
        """Turn the switch off and on."""
        self.act(task, "reboot", "power_delay")
        task.node.power_state = states.POWER_ON

    def get_supported_power_states(self, task: protocols.Task) -> list[str]:
        """Return all states that there are."""
        return list(states.POWER_TARGETS)

    @verify_step(priority=0, repeatable=True)
    def check_sensors(self, task: protocols.Task) -> None:
        """Look at the power supplies that are not there."""
        self.act(task, "check_sensors")

    @on_request(repeatable=True)
    def power_cycle(self, task: protocols.Task) -> None:
        """Reboot as a step."""
        self.reboot(task)


class FakeManagement(Fake, noop.NoopManagement):
    """A boot device that is kept with the node."""

    def set_boot_device(self, task: protocols.Task, device: str, persistent: bool = False) -> None:
        """Keep the device.

        :raises InvalidParameterValue: for a device that does not exist.
        """
        if device not in self.get_supported_boot_devices(task):
            raise exceptions.InvalidParameterValue(
                f"fake management cannot boot from {device!r}; it can from "
                f"{', '.join(self.get_supported_boot_devices(task))}"
            )
        self.act(task, "set_boot_device")
        task.node.set_driver_internal_info(
            "fake_boot_device", {"boot_device": device, "persistent": persistent}
        )

    def get_boot_device(self, task: protocols.Task) -> dict[str, Any]:
        """Return the device that was set."""
        unknown = super().get_boot_device(task)
        return dict(task.node.driver_internal_info.get("fake_boot_device", unknown))

    @verify_step(priority=10, repeatable=True)
    def check_bmc(self, task: protocols.Task) -> None:
        """Reach the controller that is not there."""
        self.act(task, "check_bmc")

    @on_request(repeatable=True)
    def reset_bmc(self, task: protocols.Task) -> None:
        """Reset the controller that is not there."""
        self.act(task, "reset_bmc")


class FakeBoot(Fake, noop.NoopBoot):
    """Boots nothing."""

    @deploy_step(priority=0, repeatable=True)
    def prepare_image(self, task: protocols.Task) -> None:
        """Make ready what is not booted."""
        self.act(task, "prepare_image")


class FakeNetwork(Fake, noop.NoopNetwork):
    """Networks that are not there."""

    @deploy_step(priority=0, repeatable=True)
    def configure_switch(self, task: protocols.Task) -> None:
        """Configure the switch that is not there."""
        self.act(task, "configure_switch")


class FakeStorage(Fake, noop.NoopStorage):
    """Volumes that are not there."""

    @deploy_step(priority=0, repeatable=True)
    def attach(self, task: protocols.Task) -> None:
        """Attach the volumes as a step."""
        self.act(task, "attach")


class FakeInspect(Fake, interfaces.InspectInterface):
    """Finds what every fake machine has."""

    def inspect_hardware(self, task: protocols.Task) -> str | None:
        """Fill the node's properties."""
        self.act(task, "inspect_hardware")
        found = {"cpus": 4, "cpu_arch": "x86_64", "memory_mb": 8192, "local_gb": 100}
        task.node.properties = {**found, **task.node.properties}
        return states.MANAGEABLE

    @deploy_step(priority=0, repeatable=True)
    def compare(self, task: protocols.Task) -> None:
        """Compare the machine with what is known of it."""
        self.act(task, "compare")


class FakeConsole(Fake, interfaces.ConsoleInterface):
    """A console that leads nowhere."""

    def start_console(self, task: protocols.Task) -> None:
        """Take as long, or fail, as asked."""
        self.act(task, "start_console")

    def stop_console(self, task: protocols.Task) -> None:
        """Take as long, or fail, as asked."""
        self.act(task, "stop_console")

    def get_console(self, task: protocols.Task) -> dict[str, Any]:
        """Return where it would be."""
        return {"type": "fake", "url": f"fake://{task.node.uuid}"}

    @deploy_step(priority=0, repeatable=True)
    def record(self, task: protocols.Task) -> None:
        """Record what nobody says."""
        self.act(task, "record")


class FakeRescue(Fake, interfaces.RescueInterface):
    """A rescue system that is not there."""

    def rescue(self, task: protocols.Task) -> str | None:
        """Take as long, or fail, as asked."""
        self.act(task, "rescue")
        return states.RESCUE

    def unrescue(self, task: protocols.Task) -> str | None:
        """Take as long, or fail, as asked."""
        self.act(task, "unrescue")
        return states.ACTIVE

    @deploy_step(priority=0, repeatable=True)
    def store_image(self, task: protocols.Task) -> None:
        """Put the rescue system where it would be found."""
        self.act(task, "store_image")


def _supported(*classes: type[BaseInterface]) -> property:
    return property(lambda self: classes)


class FakeHardware(hardware_type.GenericHardware):
    """Fake interfaces, and the no-op ones beside them.

    Network and storage are no-op at first, as in the field.
    """

    supported_bios_interfaces = _supported(FakeBIOS, noop.NoBIOS)
    supported_boot_interfaces = _supported(FakeBoot, noop.NoopBoot)
    supported_console_interfaces = _supported(FakeConsole, noop.NoConsole)
    supported_deploy_interfaces = _supported(FakeDeploy, noop.NoopDeploy)
    supported_firmware_interfaces = _supported(FakeFirmware, noop.NoFirmware)
    supported_inspect_interfaces = _supported(FakeInspect, noop.NoInspect)
    supported_management_interfaces = _supported(FakeManagement, noop.NoopManagement)
    supported_network_interfaces = _supported(noop.NoopNetwork, FakeNetwork)
    supported_power_interfaces = _supported(FakePower, noop.NoopPower)
    supported_raid_interfaces = _supported(FakeRAID, noop.NoRAID)
    supported_rescue_interfaces = _supported(FakeRescue, noop.NoRescue)
    supported_storage_interfaces = _supported(noop.NoopStorage, FakeStorage)
    supported_vendor_interfaces = _supported(FakeVendor, noop.NoVendor)
