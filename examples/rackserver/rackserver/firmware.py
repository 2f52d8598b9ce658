"""Firmware updates: long jobs that tell how far they are."""

from __future__ import annotations

from typing import Any

from deploysteps import protocols
from deploysteps.drivers import base
from rackserver import client
from rackserver.jobs import JobSteps

_ARGUMENTS = {
    "settings": {
        "description": "the components to update",
        "required": True,
        "schema": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {
                    "component": {"enum": ["bios", "bmc"]},
                    "url": {"type": "string", "minLength": 1},
                },
                "required": ["component", "url"],
                "additionalProperties": False,
            },
        },
    }
}

_HALF_AN_HOUR = 1800


class RackFirmware(JobSteps, client.Described, base.FirmwareInterface):
    """Updates the firmware; also of a machine that is in service."""

    # abortable=False: an abort waits until the update is over, since half an
    # update is no firmware. timeout: seconds from the beginning of the wait.
    @base.service_step(
        0, False, _ARGUMENTS, requires_ramdisk=False, repeatable=True, timeout=_HALF_AN_HOUR
    )
    @base.clean_step(
        0, False, _ARGUMENTS, requires_ramdisk=False, repeatable=True, timeout=_HALF_AN_HOUR
    )
    @base.deploy_step(
        priority=0,
        argsinfo=_ARGUMENTS,
        abortable=False,
        repeatable=True,
        timeout=_HALF_AN_HOUR,
    )
    def update(self, task: protocols.Task, settings: Any) -> str | None:
        """Update components; ``check_step()`` tells how far it is."""
        # A real controller reads the version out of the image; here it is its name.
        wanted = {setting["component"]: _version(setting["url"]) for setting in settings}
        if wanted.items() <= client.connect(task.node).read()["firmware"].items():
            return None
        self.begin_job(task, "firmware", wanted)
        return self.polled(task)

    def cache_firmware_components(self, task: protocols.Task) -> None:
        """Keep nothing: the controller is asked when it matters."""


def _version(url: str) -> str:
    return url.rsplit("/", 1)[-1].removesuffix(".bin")
