"""What a driver author imports.

::

    from deploysteps import states
    from deploysteps.drivers import base

    class MyBIOS(base.BIOSInterface):
        @base.deploy_step(priority=90)
        def enable_sriov(self, task):
            ...
"""

from deploysteps.drivers.args import validate_step_args
from deploysteps.drivers.contract import BaseInterface, overrides_check_step, wait_state
from deploysteps.drivers.declare import clean_step, deploy_step, service_step, verify_step
from deploysteps.drivers.interfaces import (
    INTERFACES,
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
from deploysteps.drivers.passthru import driver_passthru, passthru
from deploysteps.drivers.periodic import node_periodic
from deploysteps.drivers.raid_schema import RAID_APPLY_CONFIGURATION_ARGSINFO

__all__ = [
    "INTERFACES",
    "RAID_APPLY_CONFIGURATION_ARGSINFO",
    "BIOSInterface",
    "BaseInterface",
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
    "clean_step",
    "deploy_step",
    "driver_passthru",
    "node_periodic",
    "overrides_check_step",
    "passthru",
    "service_step",
    "validate_step_args",
    "verify_step",
    "wait_state",
]
