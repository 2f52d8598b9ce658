"""The field's format of a RAID configuration, as one JSON Schema."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deploysteps.drivers import args

_LOGICAL_DISK: dict[str, dict[str, Any]] = {
    "size_gb": {
        "description": "size in GiB, or MAX for all that is left. Required.",
        "anyOf": [{"type": "integer", "minimum": 1}, {"const": "MAX"}],
    },
    "raid_level": {
        "description": "RAID level. Required.",
        "enum": ["JBOD", "0", "1", "2", "5", "6", "1+0", "5+0", "6+0"],
    },
    "is_root_volume": {
        "description": "whether the instance's image goes here. Default: false.",
        "type": "boolean",
    },
    "volume_name": {
        "description": "name of the volume; made up when it is not given.",
        "type": "string",
    },
    "share_physical_disks": {
        "description": "whether other logical disks may use the same disks. Default: false.",
        "type": "boolean",
    },
    "disk_type": {"description": "hdd or ssd.", "enum": ["hdd", "ssd"]},
    "interface_type": {
        "description": "sata, scsi or sas.",
        "enum": ["sata", "scsi", "sas"],
    },
    "number_of_physical_disks": {
        "description": "how many disks to use; the least possible when it is not given.",
        "type": "integer",
        "minimum": 1,
    },
    "controller": {
        "description": "the RAID controller's name; any when it is not given.",
        "type": "string",
    },
    "physical_disks": {
        "description": "names of the disks to use, or hints to find them.",
        "type": "array",
        "minItems": 1,
    },
}

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "logical_disks": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": _LOGICAL_DISK,
                "required": ["size_gb", "raid_level"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["logical_disks"],
    "additionalProperties": False,
}
"""Of ``target_raid_config`` and of the argument ``raid_config``."""

VOLUMES: dict[str, dict[str, Any]] = {
    "create_root_volume": {
        "description": "make the root volume",
        "schema": {"type": "boolean"},
    },
    "create_nonroot_volumes": {"description": "make the others", "schema": {"type": "boolean"}},
    "delete_existing": {"description": "remove what is there", "schema": {"type": "boolean"}},
}
"""What steps that make logical disks take, as ``argsinfo``."""

RAID_APPLY_CONFIGURATION_ARGSINFO: dict[str, dict[str, Any]] = {
    "raid_config": {
        "description": "the logical disks to make",
        "required": True,
        "schema": SCHEMA,
    },
    **VOLUMES,
}
"""What ``RAIDInterface.apply_configuration`` takes, as ``argsinfo`` of its step."""


def check(raid_config: Mapping[str, Any]) -> None:
    """Check a configuration.

    :raises InvalidParameterValue: naming what is wrong.
    """
    args.validate_step_args(
        {"raid_config": {"schema": SCHEMA, "required": True}},
        {"raid_config": raid_config},
        step="raid",
    )


def descriptions() -> dict[str, str]:
    """Return key of a logical disk -> description."""
    return {key: str(rule["description"]) for key, rule in _LOGICAL_DISK.items()}
