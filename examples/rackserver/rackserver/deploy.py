"""Deploying: the agent is booted, writes the image, and is done with.

Two kinds of waiting meet here. ``prepare()`` waits until the agent is up: any
beat of it ends that. A step that the agent does waits until the agent has done
it: each beat has :meth:`RackDeploy.check_step` asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deploysteps import exceptions, protocols, states, steps
from deploysteps.drivers import base
from rackserver import client
from rackserver.jobs import JobSteps

_AGENT_STEPS: dict[str, list[dict[str, Any]]] = {
    "clean": [
        {
            "interface": "deploy",
            "step": "erase_devices",
            "priority": 10,
            "argsinfo": None,
            "abortable": True,
            "requires_ramdisk": True,
        }
    ]
}
"""What the agent answers when it is asked for its steps; a real one is asked over HTTP."""


class RackDeploy(JobSteps, client.Described, base.DeployInterface):
    """Writes an image by the agent and boots it."""

    def validate(self, task: protocols.Task) -> None:
        """Check the node, and that its instance has an image."""
        super().validate(task)
        if not task.node.instance_info.get("image_source"):
            raise exceptions.MissingParameterValue(
                "instance_info/image_source is missing; set it to the URL of an image"
            )

    # --- around the steps ------------------------------------------------------------

    def prepare(self, task: protocols.Task) -> str | None:
        """Boot the agent, and wait for it: the first step begins when it has beaten."""
        self.forget_job(task)
        task.driver.boot.prepare_ramdisk(task, {})
        task.driver.management.set_boot_device(task, "pxe")
        task.switch_power(states.REBOOT)
        return base.wait_state(task)

    def clean_up(self, task: protocols.Task) -> None:
        """Undo that; it may be called more than once, and after half of it."""
        self.forget_job(task)
        task.driver.boot.clean_up_ramdisk(task)
        task.driver.management.set_boot_device(task, "disk")

    def tear_down(self, task: protocols.Task) -> str | None:
        """Take the instance off the machine; cleaning erases its disks."""
        task.driver.boot.clean_up_instance(task)
        task.switch_power(states.POWER_OFF)
        return states.DELETED

    def take_over(self, task: protocols.Task) -> None:
        """Do nothing: what belongs to a node is with the node, not in this process."""

    def prepare_cleaning(self, task: protocols.Task) -> str | None:
        """Boot the agent, as for a deployment."""
        return self.prepare(task)

    def tear_down_cleaning(self, task: protocols.Task) -> None:
        """Leave the machine off."""
        self.clean_up(task)
        task.switch_power(states.POWER_OFF)

    def prepare_service(self, task: protocols.Task) -> str | None:
        """Boot the agent, as for a deployment; the disks stay as they are."""
        return self.prepare(task)

    def tear_down_service(self, task: protocols.Task) -> None:
        """Boot the instance again."""
        self.clean_up(task)
        task.switch_power(states.REBOOT)

    # --- deploy steps ------------------------------------------------------------------
    #
    # The priorities leave room: what a request adds for RAID, settings and firmware
    # belongs between 100 and 80, before there is anything on the disks.

    @base.deploy_step(priority=100, repeatable=True)
    def deploy(self, task: protocols.Task) -> None:
        """Check what the agent will be told, before anything is changed."""
        self.validate(task)

    @base.deploy_step(priority=80, timeout=3600)
    def write_image(self, task: protocols.Task) -> str:
        """Let the agent write the image to the root volume."""
        controller = client.connect(task.node)
        volumes = controller.read()["volumes"]
        root = next((disk for disk in volumes if disk.get("is_root_volume")), None)
        image = {
            "url": task.node.instance_info["image_source"],
            "volume": root["name"] if root else "first disk",
        }
        self.begin_job(task, "write_image", image)
        # Neither poll nor callback: the agent ends this wait. Its next beat after
        # the image is written does, since check_step() then says DONE.
        return base.wait_state(task)

    # Synchronous: done when it returns. It needs arguments, so its priority is 0
    # and a request or a deploy template gives it one, below that of write_image.
    @base.deploy_step(
        priority=0,
        argsinfo={
            "arguments": {
                "description": "arguments of the instance's kernel, such as console=ttyS0",
                "required": True,
                "schema": {
                    "type": "array",
                    "items": {"type": "string", "pattern": r"^[^\s]+$"},
                    "maxItems": 64,
                },
            }
        },
        repeatable=True,
    )
    def set_kernel_arguments(self, task: protocols.Task, arguments: list[str]) -> None:
        """Write the arguments of the kernel into the instance's boot loader."""
        controller = client.connect(task.node)
        if controller.read()["image"] is None:
            raise exceptions.DeployStepFailed(
                "there is no image yet whose boot loader could be changed; give this step a "
                "priority below that of deploy.write_image"
            )
        controller.change(kernel_arguments=list(arguments))

    @base.deploy_step(priority=20, repeatable=True)
    def boot_instance(self, task: protocols.Task) -> None:
        """Boot from the disk; the agent is gone with it."""
        task.driver.boot.clean_up_ramdisk(task)
        task.driver.boot.prepare_instance(task)
        task.driver.management.set_boot_device(task, "disk")
        task.switch_power(states.REBOOT)

    # --- steps of the agent --------------------------------------------------------------

    def agent_steps(self, task: protocols.Task, flow: str) -> list[steps.StepDict] | None:
        """Return what the agent offers; None while it is to come."""
        if flow not in _AGENT_STEPS:
            return []
        if "agent_url" not in task.node.driver_internal_info:
            return None
        return [dict(step) for step in _AGENT_STEPS[flow]]

    def execute_clean_step(self, task: protocols.Task, step: Mapping[str, Any]) -> Any:
        """Run a clean step of this class, or hand one of the agent's to the agent."""
        if not step.get("agent"):
            return super().execute_clean_step(task, step)
        self.begin_job(task, step["step"])
        return base.wait_state(task)
