"""The image that ``direct`` lets the agent write: from ``instance_info`` to ``image_info``.

Whole-disk images. The keys are the field's: ``image_source`` (a URL),
``image_checksum``, ``image_os_hash_algo`` and ``image_os_hash_value``,
``image_disk_format``, ``image_container_format``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from deploysteps import exceptions

_SCHEMES = ("http", "https", "file")
_PARTITIONS = ("kernel", "ramdisk", "root_gb")


def check(instance_info: Mapping[str, Any]) -> None:
    """Check what a node says of its image.

    :raises MissingParameterValue, InvalidParameterValue: naming the key.
    """
    source = instance_info.get("image_source")
    if not source:
        raise exceptions.MissingParameterValue(
            "instance_info/image_source is not set: the URL of a whole-disk image"
        )
    _check_url("image_source", source)
    for key in ("image_checksum", "image_os_hash_algo", "image_os_hash_value"):
        value = instance_info.get(key)
        if value is not None and not (isinstance(value, str) and value):
            raise exceptions.InvalidParameterValue(f"instance_info/{key} has to be a text")
    hashed = [bool(instance_info.get(f"image_os_hash_{part}")) for part in ("algo", "value")]
    if any(hashed) and not all(hashed):
        raise exceptions.MissingParameterValue(
            "instance_info/image_os_hash_algo and image_os_hash_value belong together"
        )
    if not all(hashed) and not instance_info.get("image_checksum"):
        raise exceptions.MissingParameterValue(
            "instance_info has no checksum of the image: set image_os_hash_algo and "
            "image_os_hash_value, or image_checksum (sha256, sha512, or the URL of a file with it)"
        )
    if instance_info.get("image_type") == "partition" or any(
        instance_info.get(key) for key in _PARTITIONS[:2]
    ):
        raise exceptions.InvalidParameterValue(
            "deploy interface direct writes whole-disk images; this instance_info asks for a "
            "partition image (image_type, kernel, ramdisk)"
        )
    drive = instance_info.get("configdrive")
    if drive is not None and not isinstance(drive, str | Mapping):
        raise exceptions.InvalidParameterValue("instance_info/configdrive is no text and no object")


def image_info(node_uuid: str, instance_info: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``standby.prepare_image`` is told of the image."""
    source = str(instance_info["image_source"])
    found: dict[str, Any] = {
        "id": source.rsplit("/", 1)[-1] or source,
        "urls": [source],
        "disk_format": instance_info.get("image_disk_format"),
        "container_format": instance_info.get("image_container_format"),
        "stream_raw_images": True,
        "image_type": "whole-disk-image",
        "node_uuid": node_uuid,
    }
    keys = {"image_checksum": "checksum", "image_os_hash_algo": "os_hash_algo"}
    for key, name in {**keys, "image_os_hash_value": "os_hash_value"}.items():
        if instance_info.get(key):
            found[name] = instance_info[key]
    return found


def _check_url(key: str, value: Any) -> None:
    try:
        parts = urlsplit(value) if isinstance(value, str) else None
    except ValueError:
        parts = None
    well = parts is not None and parts.scheme in _SCHEMES and (parts.hostname or parts.path)
    if not well:
        raise exceptions.InvalidParameterValue(
            f"instance_info/{key} has to be a URL ({', '.join(_SCHEMES)})"
        )
