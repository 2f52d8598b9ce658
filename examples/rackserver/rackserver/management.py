"""The controller itself: boot device, sensors, and erasing without an agent."""

from __future__ import annotations

from typing import Any

from deploysteps import exceptions, protocols
from deploysteps.drivers import base
from rackserver import client
from rackserver.jobs import JobSteps

_OLDEST = (1, 0)
"""The oldest firmware of the controller that this driver works with."""

_DEVICES = ["disk", "pxe"]


class RackManagement(JobSteps, client.Described, base.ManagementInterface):
    """Boot devices, a verify step, and a clean step that the controller does alone."""

    def get_supported_boot_devices(self, task: protocols.Task) -> list[str]:
        """Return what the machine boots from."""
        return list(_DEVICES)

    def set_boot_device(self, task: protocols.Task, device: str, persistent: bool = False) -> None:
        """Choose what the machine boots from.

        :raises InvalidParameterValue: for a device that it has not.
        """
        if device not in _DEVICES:
            raise exceptions.InvalidParameterValue(
                f"a rackserver cannot boot from {device!r}; it can from {', '.join(_DEVICES)}"
            )
        client.connect(task.node).change(boot_device=device)

    def get_boot_device(self, task: protocols.Task) -> dict[str, Any]:
        """Return what it boots from."""
        return {
            "boot_device": client.connect(task.node).read()["boot_device"],
            "persistent": True,
        }

    def get_sensors_data(self, task: protocols.Task) -> dict[str, Any]:
        """Return no readings."""
        return {}

    # A verify step runs when a node becomes manageable. It takes no arguments and
    # cannot wait; what it raises is what the operator reads. It only reads, so it
    # may be tried again.
    @base.verify_step(priority=50, repeatable=True, retries=2)
    def check_controller(self, task: protocols.Task) -> None:
        """Reach the controller, and refuse firmware that is too old for this driver."""
        version = client.connect(task.node).read()["firmware"]["bmc"]
        if tuple(map(int, version.split("."))) < _OLDEST:
            raise exceptions.VerifyStepFailed(
                f"the controller's firmware is {version}, and this driver needs "
                f"{'.'.join(map(str, _OLDEST))} or later; update it"
            )

    # No ramdisk is needed: the controller does it alone, also on a machine that
    # does not boot. Priority 0: an operator asks for it, or sets a priority.
    @base.clean_step(priority=0, requires_ramdisk=False)
    def secure_erase(self, task: protocols.Task) -> str:
        """Throw away the keys that all disks are encrypted with."""
        self.begin_job(task, "secure erase")
        return self.polled(task)
