"""The configuration drive, as the agent takes it: a URL, or a gzipped ISO in base64.

A request may also give an object; of that the ISO is made here, by whichever
of the usual programs is installed.
"""

from __future__ import annotations

import base64
import gzip
import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from typing import Any

from deploysteps import exceptions

PROGRAMS = ("genisoimage", "mkisofs", "xorrisofs")
"""Programs that make an ISO 9660 file and take the same arguments."""
_TIMEOUT = 60
_FILES = {"meta_data": "meta_data.json", "network_data": "network_data.json"}
_FILES.update({"user_data": "user_data", "vendor_data": "vendor_data2.json"})


_GZIPPED = "H4sI"
"""How gzipped data begins in base64."""


def check(drive: Any) -> None:
    """Check that a configuration drive can be given to an agent.

    :raises InvalidParameterValue: it cannot.
    """
    if isinstance(drive, str) and drive:
        well = drive.lower().startswith(("http://", "https://")) or drive.strip()[:4] == _GZIPPED
        if not well:
            raise exceptions.InvalidParameterValue(
                "the configdrive has to be the URL of one (http, https), or a gzipped and "
                "base64-encoded ISO"
            )
    if isinstance(drive, Mapping):
        _check_object(drive)
    if isinstance(drive, Mapping) and _program() is None:
        raise exceptions.InvalidParameterValue(
            "a configdrive that is an object needs a program that makes an ISO file: install one "
            f"of {', '.join(PROGRAMS)} beside the conductor, or give the configdrive as a URL or "
            "as a gzipped and base64-encoded ISO. A request without one uses that of the node's "
            "instance_info"
        )


def _check_object(drive: Mapping[str, Any]) -> None:
    for key, value in drive.items():
        if key not in _FILES:
            raise exceptions.InvalidParameterValue(
                f"a configdrive that is an object has {', '.join(_FILES)}; not {str(key)[:80]!r}"
            )
        objects = Mapping if key != "user_data" else Mapping | list | str
        if value is not None and not isinstance(value, objects):
            kind = "an object" if key != "user_data" else "a text, an object or a list"
            raise exceptions.InvalidParameterValue(f"configdrive/{key} has to be {kind}")


def for_agent(drive: Any) -> str | None:
    """Return what the agent is given; None when there is no configuration drive.

    :raises InvalidParameterValue: see :func:`check`.
    :raises DriverOperationError: the ISO cannot be made.
    """
    if not drive:
        return None
    if isinstance(drive, str):
        return drive
    check(drive)
    return _built(drive)


def _program() -> str | None:
    return next((path for name in PROGRAMS if (path := shutil.which(name))), None)


def _built(drive: Mapping[str, Any]) -> str:
    with tempfile.TemporaryDirectory(prefix="configdrive-") as folder:
        content = os.path.join(folder, "content", "openstack", "latest")
        os.makedirs(content)
        for key, name in _FILES.items():
            value = drive.get(key)
            if value is None and key != "meta_data":
                continue
            text = value if isinstance(value, str) else json.dumps(value or {})
            with open(os.path.join(content, name), "w", encoding="utf-8") as file:
                file.write(text)
        target = os.path.join(folder, "drive.iso")
        command = [str(_program()), "-o", target, "-ldots", "-allow-lowercase"]
        command += ["-allow-multidot", "-l", "-publisher", "deploysteps", "-quiet", "-J", "-r"]
        command += ["-V", "config-2", os.path.join(folder, "content")]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=_TIMEOUT)
            with open(target, "rb") as file:
                return base64.b64encode(gzip.compress(file.read())).decode()
        except (OSError, subprocess.SubprocessError) as exc:
            raise exceptions.DriverOperationError(
                f"the configuration drive cannot be made: {type(exc).__name__}"
            ) from None
