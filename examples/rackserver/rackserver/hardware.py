"""The hardware type: which interfaces fit together on this kind of machine."""

from __future__ import annotations

from collections.abc import Sequence

from deploysteps.drivers import base, hardware_type, noop
from rackserver.bios import RackBIOS
from rackserver.deploy import RackDeploy
from rackserver.firmware import RackFirmware
from rackserver.management import RackManagement
from rackserver.power import RackPower
from rackserver.raid import RackRAID

Classes = Sequence[type[base.BaseInterface]]


class RackServer(hardware_type.GenericHardware):
    """A rack server with a management controller.

    What is not named here has a no-op interface, by ``GenericHardware``. The
    first class of each list is what a node gets that names none.
    """

    @property
    def supported_bios_interfaces(self) -> Classes:
        """BIOS interface classes."""
        return [RackBIOS, noop.NoBIOS]

    @property
    def supported_deploy_interfaces(self) -> Classes:
        """Deploy interface classes."""
        return [RackDeploy]

    @property
    def supported_firmware_interfaces(self) -> Classes:
        """Firmware interface classes."""
        return [RackFirmware, noop.NoFirmware]

    @property
    def supported_management_interfaces(self) -> Classes:
        """Management interface classes."""
        return [RackManagement]

    @property
    def supported_power_interfaces(self) -> Classes:
        """Power interface classes."""
        return [RackPower]

    @property
    def supported_raid_interfaces(self) -> Classes:
        """RAID interface classes."""
        return [RackRAID, noop.NoRAID]
