"""The thirteen kinds of hardware interface, by type."""

from __future__ import annotations

from deploysteps.drivers.contract import BaseInterface
from deploysteps.drivers.machine import (
    BIOSInterface,
    ConsoleInterface,
    FirmwareInterface,
    ManagementInterface,
    PowerInterface,
    RAIDInterface,
    VendorInterface,
)
from deploysteps.drivers.provisioning import (
    BootInterface,
    DeployInterface,
    InspectInterface,
    NetworkInterface,
    RescueInterface,
    StorageInterface,
)

__all__ = [
    "INTERFACES",
    "BIOSInterface",
    "BootInterface",
    "ConsoleInterface",
    "DeployInterface",
    "FirmwareInterface",
    "InspectInterface",
    "ManagementInterface",
    "NetworkInterface",
    "PowerInterface",
    "RAIDInterface",
    "RescueInterface",
    "StorageInterface",
    "VendorInterface",
]

INTERFACES: dict[str, type[BaseInterface]] = {
    str(kind.interface_type): kind
    for kind in (
        BIOSInterface,
        BootInterface,
        ConsoleInterface,
        DeployInterface,
        FirmwareInterface,
        InspectInterface,
        ManagementInterface,
        NetworkInterface,
        PowerInterface,
        RAIDInterface,
        RescueInterface,
        StorageInterface,
        VendorInterface,
    )
}
"""Interface type -> the class that every implementation derives from."""
