"""The image that ``direct`` lets the agent write: from ``instance_info`` to ``image_info``.

Whole-disk images. The keys are the field's: ``image_source`` (a URL),
``image_checksum``, ``image_os_hash_algo`` and ``image_os_hash_value``,
``image_disk_format``, ``image_container_format``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from deploysteps import exceptions

_SCHEMES = ("http", "https", "file")
_PARTITIONS = ("kernel", "ramdisk", "root_gb")
_FORMATS = ("raw", "gpt", "qcow2", "iso", "ploop", "vdi", "vhd", "vhdx", "vmdk")
_CHECKSUMS = {32: "md5", 64: "sha256", 128: "sha512"}
"""Lengths by which the agent tells what a bare ``image_checksum`` is."""
_CHECKSUM = f"{', '.join(_CHECKSUMS.values())}, or the URL of a file with it"
_HEX = re.compile(r"[0-9A-Fa-f]+")


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
            f"image_os_hash_value, or image_checksum ({_CHECKSUM})"
        )
    _check_checksums(instance_info)
    for key, known in (("image_disk_format", _FORMATS), ("image_container_format", None)):
        value = instance_info.get(key)
        if value is not None and not (isinstance(value, str) and value in (known or [value])):
            told = f"one of {', '.join(known)}" if known else "a text"
            raise exceptions.InvalidParameterValue(f"instance_info/{key} has to be {told}")
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


def _check_checksums(instance_info: Mapping[str, Any]) -> None:
    """Check the form of what the image will be compared with.

    :raises InvalidParameterValue: naming the key.
    """
    given = instance_info.get("image_checksum")
    if given and not (_is_url(given) or (_HEX.fullmatch(given) and len(given) in _CHECKSUMS)):
        raise exceptions.InvalidParameterValue(
            f"instance_info/image_checksum has to be {_CHECKSUM}"
        )
    algorithm, value = (instance_info.get(f"image_os_hash_{part}") for part in ("algo", "value"))
    if not algorithm or not value:
        return
    if algorithm not in hashlib.algorithms_guaranteed or algorithm.startswith("shake"):
        raise exceptions.InvalidParameterValue(
            "instance_info/image_os_hash_algo has to be a hash function such as sha256 or sha512"
        )
    length = 2 * hashlib.new(algorithm, usedforsecurity=False).digest_size
    if not _HEX.fullmatch(value) or len(value) != length:
        raise exceptions.InvalidParameterValue(
            f"instance_info/image_os_hash_value has to be {length} hexadecimal digits, by "
            f"{algorithm}"
        )


def image_info(node_uuid: str, instance_info: Mapping[str, Any]) -> dict[str, Any]:
    """Return what ``standby.prepare_image`` is told of the image."""
    source = str(instance_info["image_source"])
    found: dict[str, Any] = {
        # Without a query: it may be a signature, and the agent repeats the name in its words.
        "id": urlsplit(source).path.rsplit("/", 1)[-1] or "image",
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
            value = instance_info[key]
            # The agent compares signs, not numbers.
            found[name] = value.lower() if _HEX.fullmatch(value) else value
    return found


def _check_url(key: str, value: Any) -> None:
    if not _is_url(value):
        raise exceptions.InvalidParameterValue(
            f"instance_info/{key} has to be a URL ({', '.join(_SCHEMES)})"
        )


def _is_url(value: Any) -> bool:
    try:
        parts = urlsplit(value) if isinstance(value, str) else None
    except ValueError:
        return False
    return parts is not None and parts.scheme in _SCHEMES and bool(parts.hostname or parts.path)
