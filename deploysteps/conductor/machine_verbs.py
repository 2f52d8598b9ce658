"""The verbs of a conductor that are about a machine itself; thin as the others."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deploysteps.conductor import machine, vendor
from deploysteps.conductor.runtime import Runtime


class MachineVerbs:
    """Mixed into :class:`~deploysteps.conductor.manager.ConductorManager`.

    What a driver says of a request is raised as a 4xx in its own words
    (``UnsupportedDriverExtension``, ``InvalidParameterValue``), any other failure
    of it as ``DriverOperationError``. A verb that begins something returns when
    its worker has the node's lock; what became of it is told by ``last_error``
    and the history. ``NodeLocked``: something is going on.
    """

    runtime: Runtime

    # --- management -------------------------------------------------------------------

    def get_boot_device(self, context: Any, node_id: str) -> dict[str, Any]:
        """Return ``{'boot_device': ..., 'persistent': ...}``; None is unknown."""
        found: dict[str, Any] = self._read(context, node_id, "management", "get_boot_device", dict)
        return found

    def get_supported_boot_devices(self, context: Any, node_id: str) -> list[str]:
        """Return the devices that :meth:`set_boot_device` takes."""
        found: list[str] = self._read(
            context, node_id, "management", "get_supported_boot_devices", list
        )
        return found

    def set_boot_device(
        self, context: Any, node_id: str, device: str, persistent: bool = False
    ) -> None:
        """Choose what the machine boots from, once or from now on."""
        self._do(context, node_id, "management", "set_boot_device", device, persistent=persistent)

    def inject_nmi(self, context: Any, node_id: str) -> None:
        """Send the machine a non-maskable interrupt."""
        self._do(context, node_id, "management", "inject_nmi")

    def get_supported_indicators(self, context: Any, node_id: str) -> dict[str, dict[str, Any]]:
        """Return component -> indicator -> ``{'readonly': ..., 'states': [...]}``."""
        found: dict[str, dict[str, Any]] = self._read(
            context, node_id, "management", "get_supported_indicators", dict
        )
        return found

    def get_indicator_state(
        self, context: Any, node_id: str, component: str, indicator: str
    ) -> str:
        """Return ``on``, ``off``, ``blinking`` or ``unknown``."""
        found: str = self._read(
            context, node_id, "management", "get_indicator_state", str, component, indicator
        )
        return found

    def set_indicator_state(
        self, context: Any, node_id: str, component: str, indicator: str, state: str
    ) -> None:
        """Switch an indicator light."""
        self._do(context, node_id, "management", "set_indicator_state", component, indicator, state)

    def change_node_boot_mode(self, context: Any, node_id: str, new_state: str) -> None:
        """Begin a change of the boot mode to ``bios`` or ``uefi``.

        :raises Conflict: the node is between two states.
        """
        machine.set_boot_mode(self.runtime, context, node_id, new_state)

    def change_node_secure_boot(self, context: Any, node_id: str, new_state: bool) -> None:
        """Begin to switch secure boot on or off; as :meth:`change_node_boot_mode`."""
        machine.set_secure_boot(self.runtime, context, node_id, new_state)

    def get_virtual_media(self, context: Any, node_id: str) -> Any:
        """Return the machine's virtual drives and what is in them, as its driver tells it."""
        return self._read(context, node_id, "management", "get_virtual_media", (list, dict))

    def attach_virtual_media(
        self, context: Any, node_id: str, device_type: str, image_url: str
    ) -> None:
        """Begin to put an image into a virtual drive."""
        machine.attach_media(self.runtime, context, node_id, device_type, image_url)

    def detach_virtual_media(
        self, context: Any, node_id: str, device_types: Sequence[str] | None = None
    ) -> None:
        """Begin to empty virtual drives; None means all of them."""
        machine.detach_media(self.runtime, context, node_id, device_types)

    # --- RAID, console, VIFs --------------------------------------------------------------

    def set_target_raid_config(
        self, context: Any, node_id: str, target_raid_config: Mapping[str, Any]
    ) -> None:
        """Keep the RAID configuration that a node is to have; an empty one asks for nothing."""
        machine.set_raid(self.runtime, context, node_id, target_raid_config)

    def get_raid_logical_disk_properties(self, context: Any, driver_name: str) -> dict[str, str]:
        """Return key of a logical disk -> description, of a hardware type.

        :raises DriverNotFound: it is not enabled here.
        """
        return machine.disk_properties(self.runtime, driver_name)

    def get_console_information(self, context: Any, node_id: str) -> dict[str, Any] | None:
        """Return how to reach the node's console; None when it is not started."""
        return machine.console_of(self.runtime, context, node_id)

    def set_console_mode(self, context: Any, node_id: str, enabled: bool) -> None:
        """Begin to start or to stop the node's console."""
        machine.set_console(self.runtime, context, node_id, enabled)

    def vif_list(self, context: Any, node_id: str) -> list[dict[str, Any]]:
        """Return the virtual interfaces of a node, each ``{'id': ...}``."""
        found: list[dict[str, Any]] = self._read(context, node_id, "network", "vif_list", list)
        return found

    def vif_attach(self, context: Any, node_id: str, vif_info: Mapping[str, Any]) -> None:
        """Attach a virtual interface; ``vif_info['id']`` names it."""
        failed = f"Failed to attach VIF {vif_info.get('id')}"
        self._do(context, node_id, "network", "vif_attach", dict(vif_info), failed=failed)

    def vif_detach(self, context: Any, node_id: str, vif_id: str) -> None:
        """Detach a virtual interface."""
        failed = f"Failed to detach VIF {vif_id}"
        self._do(context, node_id, "network", "vif_detach", vif_id, failed=failed)

    # --- vendor methods --------------------------------------------------------------------

    def vendor_passthru(
        self,
        context: Any,
        node_id: str,
        driver_method: str,
        http_method: str,
        info: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Call a vendor method for a node.

        :param info: its arguments.
        :returns: ``return``, ``async`` and ``attach``: what it returned, None when
            it runs in a worker; text or bytes when it is to be sent as it is.
        :raises InvalidParameterValue: there is no such method, not by this HTTP
            method, or not with these arguments.
        """
        return vendor.call_for_node(
            self.runtime, context, node_id, driver_method, http_method, info
        )

    def driver_vendor_passthru(
        self,
        context: Any,
        driver_name: str,
        driver_method: str,
        http_method: str,
        info: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Call a vendor method of a hardware type, without a node; as :meth:`vendor_passthru`.

        :raises DriverNotFound: it is not enabled here.
        """
        return vendor.call_for_driver(
            self.runtime, context, driver_name, driver_method, http_method, info
        )

    def get_node_vendor_passthru_methods(self, context: Any, node_id: str) -> dict[str, Any]:
        """Return name -> what is told of it, of a node's vendor methods."""
        return vendor.methods_of_node(self.runtime, context, node_id)

    def get_driver_vendor_passthru_methods(self, context: Any, driver_name: str) -> dict[str, Any]:
        """Return the same of a hardware type.

        :raises DriverNotFound: it is not enabled here.
        """
        return vendor.methods_of_driver(self.runtime, driver_name)

    # --- helpers -----------------------------------------------------------------------------

    def _read(
        self,
        context: Any,
        node_id: str,
        kind: str,
        method: str,
        kinds: type | tuple[type, ...],
        *args: Any,
    ) -> Any:
        return machine.read(self.runtime, context, node_id, kind, method, *args, kinds=kinds)

    def _do(
        self, context: Any, node_id: str, kind: str, method: str, *args: Any, **more: Any
    ) -> None:
        machine.do(self.runtime, context, node_id, kind, method, *args, **more)
