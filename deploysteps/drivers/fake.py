"""Hardware that is not there: for trying things, for tests and for load.

Every interface takes as long, and fails, as the node's ``driver_info`` or the
configuration says; see :mod:`deploysteps.drivers.fake_base`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deploysteps import exceptions, protocols, states
from deploysteps.drivers import compat_exceptions, hardware_type, interfaces, noop
from deploysteps.drivers.agent.deploy import CustomAgentDeploy, DirectDeploy
from deploysteps.drivers.contract import BaseInterface
from deploysteps.drivers.declare import deploy_step, verify_step
from deploysteps.drivers.fake_base import Fake
from deploysteps.drivers.fake_management import FakeManagement as FakeManagement
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


class FakeBoot(Fake, noop.NoopBoot):
    """Boots nothing."""

    @deploy_step(priority=0, repeatable=True)
    def prepare_image(self, task: protocols.Task) -> None:
        """Make ready what is not booted."""
        self.act(task, "prepare_image")


class FakeNetwork(Fake, noop.NoopNetwork):
    """Networks that are not there; virtual interfaces are kept with the node."""

    def vif_list(self, task: protocols.Task) -> list[dict[str, Any]]:
        """Return the virtual interfaces that were attached."""
        return [{"id": vif} for vif in task.node.driver_internal_info.get("fake_vifs", [])]

    def vif_attach(self, task: protocols.Task, vif_info: Mapping[str, Any]) -> None:
        """Keep the virtual interface.

        :raises VifAlreadyAttached: it was attached before.
        """
        self.act(task, "vif_attach")
        vifs, vif = task.node.driver_internal_info.get("fake_vifs", []), vif_info["id"]
        if vif in vifs:
            raise compat_exceptions.VifAlreadyAttached(
                vif=vif, object_type="node", object_uuid=task.node.uuid
            )
        task.node.set_driver_internal_info("fake_vifs", [*vifs, vif])

    def vif_detach(self, task: protocols.Task, vif_id: str) -> None:
        """Forget the virtual interface.

        :raises VifNotAttached: it was not attached.
        """
        self.act(task, "vif_detach")
        vifs = task.node.driver_internal_info.get("fake_vifs", [])
        if vif_id not in vifs:
            raise compat_exceptions.VifNotAttached(vif=vif_id, node=task.node.uuid)
        task.node.set_driver_internal_info("fake_vifs", [vif for vif in vifs if vif != vif_id])

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
        task.keep_inventory(
            {
                "cpu": {"count": found["cpus"], "architecture": found["cpu_arch"]},
                "memory": {"physical_mb": found["memory_mb"]},
                "disks": [{"name": "/dev/sda", "size": 100 * 2**30}],
                "interfaces": [
                    {"name": f"eth{number}", "mac_address": port.address}
                    for number, port in enumerate(task.ports)
                ],
            }
        )
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
    supported_deploy_interfaces = _supported(
        FakeDeploy, noop.NoopDeploy, CustomAgentDeploy, DirectDeploy
    )
    supported_firmware_interfaces = _supported(FakeFirmware, noop.NoFirmware)
    supported_inspect_interfaces = _supported(FakeInspect, noop.NoInspect)
    supported_management_interfaces = _supported(FakeManagement, noop.NoopManagement)
    supported_network_interfaces = _supported(noop.NoopNetwork, FakeNetwork)
    supported_power_interfaces = _supported(FakePower, noop.NoopPower)
    supported_raid_interfaces = _supported(FakeRAID, noop.NoRAID)
    supported_rescue_interfaces = _supported(FakeRescue, noop.NoRescue)
    supported_storage_interfaces = _supported(noop.NoopStorage, FakeStorage)
    supported_vendor_interfaces = _supported(FakeVendor, noop.NoVendor)
