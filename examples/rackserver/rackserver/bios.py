"""Firmware settings: steps that reboot the machine."""

from __future__ import annotations

from typing import Any

from deploysteps import protocols, states
from deploysteps.drivers import base
from rackserver import client
from rackserver.jobs import JobSteps

_ARGUMENTS = {
    "settings": {
        "description": "the settings to write",
        "required": True,
        "schema": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {
                    "name": {"type": "string", "minLength": 1},
                    "value": {"type": ["string", "integer", "boolean"]},
                },
                "required": ["name", "value"],
                "additionalProperties": False,
            },
        },
    }
}


class RackBIOS(JobSteps, client.Described, base.BIOSInterface):
    """Writes settings, which the machine takes over when it boots."""

    # Not repeatable: run again while the first try is still at work, it would
    # reboot the machine in the middle of writing its settings.
    @base.service_step(0, argsinfo=_ARGUMENTS, requires_ramdisk=False)
    @base.clean_step(0, argsinfo=_ARGUMENTS, requires_ramdisk=False)
    @base.deploy_step(priority=0, argsinfo=_ARGUMENTS)
    def apply_configuration(self, task: protocols.Task, settings: Any) -> str | None:
        """Write settings and boot with them."""
        wanted = {setting["name"]: setting["value"] for setting in settings}
        present = client.connect(task.node).read()["settings"]
        if wanted.items() <= present.items():
            return None  # they are so already: the reboot is spared
        self.begin_job(task, "bios settings", wanted)
        return self._rebooted(task)

    @base.clean_step(0, requires_ramdisk=False)
    @base.deploy_step(priority=0)
    def factory_reset(self, task: protocols.Task) -> str:
        """Bring all settings back to the maker's."""
        self.begin_job(task, "bios reset")
        return self._rebooted(task)

    def cache_bios_settings(self, task: protocols.Task) -> None:
        """Keep nothing: the controller is asked when it matters."""

    def _rebooted(self, task: protocols.Task) -> str:
        """Reboot, and return who ends the wait for it."""
        agent_runs = "agent_url" in task.node.driver_internal_info
        # Through the task, which keeps the node's power state true and does not
        # listen any more to the agent that the reboot ends.
        task.switch_power(states.REBOOT)
        if agent_runs:
            # What the agent of the old boot still sends does not count. When that
            # of the new boot beats, check_step() is asked.
            return states.wait(base.wait_state(task), reboot=True)
        # Cleaning or servicing without the ramdisk: nobody would beat.
        return self.polled(task)
