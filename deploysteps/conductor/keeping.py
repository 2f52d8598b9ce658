"""What a driver has a task keep of the machine: settings, firmware, inventory."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deploysteps.db import inventories, machine_parts
from deploysteps.db.machine_models import BIOSSetting, FirmwareComponent
from deploysteps.db.models import Node


class Keeping:
    """Mixed into :class:`~deploysteps.conductor.task_manager.TaskManager`.

    Each call is one write under the node's lock.
    """

    node: Node
    write: Callable[..., Any]

    def keep_bios_settings(self, settings: Sequence[Mapping[str, Any]]) -> None:
        """Keep the settings of the machine's firmware, in place of those kept before.

        :raises InvalidParameterValue: naming what is none.
        :raises LockLost: nothing was written.
        """
        self._keep(BIOSSetting, settings)

    def keep_firmware_components(self, components: Sequence[Mapping[str, Any]]) -> None:
        """Keep what firmware the machine has, in place of what was kept before.

        :raises InvalidParameterValue: naming what is none.
        :raises LockLost: nothing was written.
        """
        self._keep(FirmwareComponent, components)

    def keep_inventory(
        self, inventory: Mapping[str, Any], plugin_data: Mapping[str, Any] | None = None
    ) -> None:
        """Keep what an inspection found, in place of what the last one did.

        :raises LockLost: nothing was written.
        """
        self.write({}, then=lambda c: inventories.keep(c, self.node.id, inventory, plugin_data))

    def _keep(
        self,
        model: type[BIOSSetting] | type[FirmwareComponent],
        given: Sequence[Mapping[str, Any]],
    ) -> None:
        rows = machine_parts.checked(model, given)
        self.write({}, then=lambda c: machine_parts.keep(c, model, self.node.id, rows))
