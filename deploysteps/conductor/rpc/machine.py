"""The verbs about a machine itself, as the API knows them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from oslo_context.context import RequestContext

Context = RequestContext | None
"""Who asks; None for the process itself."""


class MachineClient(Protocol):
    """A part of :class:`deploysteps.conductor.rpc.Client`, which tells of errors."""

    # --- management -------------------------------------------------------------------

    def get_boot_device(self, context: Context, node_id: str) -> dict[str, Any]:
        """Return ``{'boot_device': ..., 'persistent': ...}``; None is unknown."""

    def get_supported_boot_devices(self, context: Context, node_id: str) -> list[str]:
        """Return the devices that :meth:`set_boot_device` takes."""

    def set_boot_device(
        self, context: Context, node_id: str, device: str, persistent: bool = False
    ) -> None:
        """Choose what the machine boots from, once or from now on."""

    def inject_nmi(self, context: Context, node_id: str) -> None:
        """Send the machine a non-maskable interrupt."""

    def get_supported_indicators(self, context: Context, node_id: str) -> dict[str, dict[str, Any]]:
        """Return component -> indicator -> ``{'readonly': ..., 'states': [...]}``."""

    def get_indicator_state(
        self, context: Context, node_id: str, component: str, indicator: str
    ) -> str:
        """Return ``on``, ``off``, ``blinking`` or ``unknown``."""

    def set_indicator_state(
        self, context: Context, node_id: str, component: str, indicator: str, state: str
    ) -> None:
        """Switch an indicator light."""

    def change_node_boot_mode(self, context: Context, node_id: str, new_state: str) -> None:
        """Begin a change of the boot mode to ``bios`` or ``uefi``.

        :raises Conflict: the node is between two states.
        """

    def change_node_secure_boot(self, context: Context, node_id: str, new_state: bool) -> None:
        """Begin to switch secure boot on or off; as :meth:`change_node_boot_mode`."""

    def get_virtual_media(self, context: Context, node_id: str) -> Any:
        """Return the machine's virtual drives and what is in them, as its driver tells it."""

    def attach_virtual_media(
        self, context: Context, node_id: str, device_type: str, image_url: str
    ) -> None:
        """Begin to put an image into a virtual drive."""

    def detach_virtual_media(
        self, context: Context, node_id: str, device_types: Sequence[str] | None = None
    ) -> None:
        """Begin to empty virtual drives; None means all of them."""

    # --- RAID, console, VIFs --------------------------------------------------------------

    def set_target_raid_config(
        self, context: Context, node_id: str, target_raid_config: Mapping[str, Any]
    ) -> None:
        """Keep the RAID configuration that a node is to have; an empty one asks for nothing."""

    def get_raid_logical_disk_properties(
        self, context: Context, driver_name: str
    ) -> dict[str, str]:
        """Return key of a logical disk -> description, of a hardware type.

        :raises DriverNotFound: it is not enabled here.
        """

    def get_console_information(self, context: Context, node_id: str) -> dict[str, Any] | None:
        """Return how to reach the node's console; None when it is not started."""

    def set_console_mode(self, context: Context, node_id: str, enabled: bool) -> None:
        """Begin to start or to stop the node's console."""

    def vif_list(self, context: Context, node_id: str) -> list[dict[str, Any]]:
        """Return the virtual interfaces of a node, each ``{'id': ...}``."""

    def vif_attach(self, context: Context, node_id: str, vif_info: Mapping[str, Any]) -> None:
        """Attach a virtual interface; ``vif_info['id']`` names it."""

    def vif_detach(self, context: Context, node_id: str, vif_id: str) -> None:
        """Detach a virtual interface."""

    # --- vendor methods --------------------------------------------------------------------

    def vendor_passthru(
        self,
        context: Context,
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

    def driver_vendor_passthru(
        self,
        context: Context,
        driver_name: str,
        driver_method: str,
        http_method: str,
        info: Mapping[str, Any],
    ) -> dict[str, Any]:
        """Call a vendor method of a hardware type, without a node; as :meth:`vendor_passthru`.

        :raises DriverNotFound: it is not enabled here.
        """

    def get_node_vendor_passthru_methods(self, context: Context, node_id: str) -> dict[str, Any]:
        """Return name -> what is told of it, of a node's vendor methods."""

    def get_driver_vendor_passthru_methods(
        self, context: Context, driver_name: str
    ) -> dict[str, Any]:
        """Return the same of a hardware type.

        :raises DriverNotFound: it is not enabled here.
        """
