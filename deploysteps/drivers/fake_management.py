"""A management controller that is not there; what it is told is kept with the node."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any

from deploysteps import exceptions, protocols
from deploysteps.drivers import noop
from deploysteps.drivers.declare import verify_step
from deploysteps.drivers.fake_base import Fake
from deploysteps.drivers.fake_steps import on_request

BOOT_MODES = ("uefi", "bios")
MEDIA = ("cdrom", "disk", "floppy")
_LIGHTS: dict[str, dict[str, dict[str, Any]]] = {
    "chassis": {"led-0": {"readonly": True, "states": ["off", "on"]}},
    "system": {"led": {"readonly": False, "states": ["blinking", "off", "on"]}},
}


class FakeManagement(Fake, noop.NoopManagement):
    """Has a boot device, a boot mode, secure boot, indicator lights and virtual drives."""

    def set_boot_device(self, task: protocols.Task, device: str, persistent: bool = False) -> None:
        """Keep the device.

        :raises InvalidParameterValue: for a device that does not exist.
        """
        _one_of(device, self.get_supported_boot_devices(task), "boot device")
        self.act(task, "set_boot_device")
        task.node.set_driver_internal_info(
            "fake_boot_device", {"boot_device": device, "persistent": persistent}
        )

    def get_boot_device(self, task: protocols.Task) -> dict[str, Any]:
        """Return the device that was set; at first it is the network, as in the field."""
        self.act(task, "get_boot_device")
        first = {"boot_device": "pxe", "persistent": False}
        return dict(task.node.driver_internal_info.get("fake_boot_device", first))

    def get_supported_boot_modes(self, task: protocols.Task) -> list[str]:
        """Return both modes."""
        return list(BOOT_MODES)

    def set_boot_mode(self, task: protocols.Task, mode: str) -> None:
        """Keep the mode.

        :raises InvalidParameterValue: for a mode that does not exist.
        """
        _one_of(mode, BOOT_MODES, "boot mode")
        self.act(task, "set_boot_mode")
        task.node.set_driver_internal_info("fake_boot_mode", mode)

    def get_boot_mode(self, task: protocols.Task) -> str | None:
        """Return the mode that was set."""
        self.act(task, "get_boot_mode")
        mode: str | None = task.node.driver_internal_info.get("fake_boot_mode")
        return mode

    def set_secure_boot_state(self, task: protocols.Task, state: bool) -> None:
        """Keep the state."""
        self.act(task, "set_secure_boot_state")
        task.node.set_driver_internal_info("fake_secure_boot", state)

    def get_secure_boot_state(self, task: protocols.Task) -> bool:
        """Return the state that was set; at first it is off."""
        self.act(task, "get_secure_boot_state")
        return bool(task.node.driver_internal_info.get("fake_secure_boot", False))

    def inject_nmi(self, task: protocols.Task) -> None:
        """Interrupt nothing."""
        self.act(task, "inject_nmi")

    def get_supported_indicators(
        self, task: protocols.Task, component: str | None = None
    ) -> dict[str, Any]:
        """Return the field's two lights."""
        self.act(task, "get_supported_indicators")
        return {
            name: copy.deepcopy(lights)
            for name, lights in _LIGHTS.items()
            if component in (None, name)
        }

    def get_indicator_state(self, task: protocols.Task, component: str, indicator: str) -> str:
        """Return the state that was set; at first it is off.

        :raises InvalidParameterValue: for a light that does not exist.
        """
        self.act(task, "get_indicator_state")
        self._light(component, indicator)
        lights: Mapping[str, str] = task.node.driver_internal_info.get("fake_indicators", {})
        return lights.get(f"{indicator}@{component}", "off")

    def set_indicator_state(
        self, task: protocols.Task, component: str, indicator: str, state: str
    ) -> None:
        """Keep the state.

        :raises InvalidParameterValue: for a light that does not exist, or cannot be switched so.
        """
        light = self._light(component, indicator)
        if light["readonly"]:
            raise exceptions.InvalidParameterValue(f"Indicator {indicator} can only be read.")
        _one_of(state, light["states"], "indicator state")
        self.act(task, "set_indicator_state")
        lights = dict(task.node.driver_internal_info.get("fake_indicators", {}))
        lights[f"{indicator}@{component}"] = state
        task.node.set_driver_internal_info("fake_indicators", lights)

    def _light(self, component: str, indicator: str) -> dict[str, Any]:
        _one_of(component, list(_LIGHTS), "component")
        _one_of(indicator, list(_LIGHTS[component]), "indicator")
        return _LIGHTS[component][indicator]

    def get_virtual_media(self, task: protocols.Task) -> list[dict[str, Any]]:
        """Return the three drives, and what was put into them."""
        self.act(task, "get_virtual_media")
        held: Mapping[str, str] = task.node.driver_internal_info.get("fake_media", {})
        return [
            {"media_types": [kind], "inserted": kind in held, "image": held.get(kind, "")}
            for kind in MEDIA
        ]

    def attach_virtual_media(self, task: protocols.Task, device_type: str, image_url: str) -> None:
        """Keep where the image is.

        :raises InvalidParameterValue: for a drive that does not exist.
        """
        _one_of(device_type, MEDIA, "device type")
        self.act(task, "attach_virtual_media")
        held = dict(task.node.driver_internal_info.get("fake_media", {}))
        held[device_type] = image_url
        task.node.set_driver_internal_info("fake_media", held)

    def detach_virtual_media(
        self, task: protocols.Task, device_types: Sequence[str] | None = None
    ) -> None:
        """Forget what was put into these drives, or into all of them."""
        self.act(task, "detach_virtual_media")
        gone = MEDIA if device_types is None else device_types
        held = dict(task.node.driver_internal_info.get("fake_media", {}))
        left = {kind: url for kind, url in held.items() if kind not in gone}
        task.node.set_driver_internal_info("fake_media", left)

    @verify_step(priority=10, repeatable=True)
    def check_bmc(self, task: protocols.Task) -> None:
        """Reach the controller that is not there."""
        self.act(task, "check_bmc")

    @on_request(repeatable=True)
    def reset_bmc(self, task: protocols.Task) -> None:
        """Reset the controller that is not there."""
        self.act(task, "reset_bmc")


def _one_of(value: str, known: Sequence[str], what: str) -> None:
    if value not in known:
        raise exceptions.InvalidParameterValue(
            f"Invalid {what} {value} specified. There are {', '.join(known)}."
        )
