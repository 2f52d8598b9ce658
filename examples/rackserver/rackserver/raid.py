"""Logical disks: polled steps, the same methods in three flows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deploysteps import exceptions, protocols
from deploysteps.drivers import base, raid_schema
from rackserver import client
from rackserver.jobs import JobSteps

# Arguments are checked against their schema before the first step of a run
# begins: a mistake is told to the person who made it, and nothing was changed.
_FLAG = {"type": "boolean"}
_ARGUMENTS: dict[str, dict[str, Any]] = {
    "raid_config": {
        "description": "the logical disks to make",
        "required": True,
        "schema": raid_schema.SCHEMA,
    },
    "create_root_volume": {"description": "make the root volume", "schema": _FLAG},
    "create_nonroot_volumes": {"description": "make the other volumes", "schema": _FLAG},
    "delete_existing": {"description": "remove the volumes that are there", "schema": _FLAG},
}


class RackRAID(JobSteps, client.Described, base.RAIDInterface):
    """Makes and removes volumes."""

    # Priority 0 everywhere: it needs arguments, so it runs when a request, a
    # deploy template or a runbook brings them. One method, three declarations: a
    # priority, and whether the ramdisk is needed, belong to the flow.
    #
    # repeatable: a conductor that starts after a crash may run it again, even
    # while the first try may still be at work. It is safe because submit() finds
    # the job that the first try began.
    @base.service_step(0, argsinfo=_ARGUMENTS, requires_ramdisk=False, repeatable=True)
    @base.clean_step(0, argsinfo=_ARGUMENTS, requires_ramdisk=False, repeatable=True)
    @base.deploy_step(priority=0, argsinfo=_ARGUMENTS, repeatable=True)
    def apply_configuration(
        self,
        task: protocols.Task,
        raid_config: Mapping[str, Any],
        create_root_volume: bool = True,
        create_nonroot_volumes: bool = True,
        delete_existing: bool = True,
    ) -> str | None:
        """Make the machine's volumes those of ``raid_config``."""
        wanted = [
            disk
            for disk in raid_config["logical_disks"]
            if (create_root_volume if disk.get("is_root_volume") else create_nonroot_volumes)
        ]
        present = [_without_name(disk) for disk in client.connect(task.node).read()["volumes"]]
        if present == wanted:
            return None  # done before: there is nothing to do
        if present and not delete_existing:
            raise exceptions.DriverOperationError(
                reason="the machine has other volumes; remove them first, or set delete_existing"
            )
        self.begin_job(task, "create volumes", wanted)
        return self.polled(task)

    @base.clean_step(0, requires_ramdisk=False, repeatable=True)
    @base.deploy_step(priority=0, repeatable=True)
    def delete_configuration(self, task: protocols.Task) -> str | None:
        """Remove all volumes."""
        if not client.connect(task.node).read()["volumes"]:
            return None
        self.begin_job(task, "delete volumes")
        return self.polled(task)


def _without_name(disk: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in disk.items() if key != "name"}
