"""Deploy interfaces that work through the agent: ``custom-agent`` and ``direct``.

Their steps and priorities are those of the field. The agent is booted before
the first step and tells its own, which run among them by their priorities.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from deploysteps import exceptions, protocols, states, steps
from deploysteps.conf import CONF
from deploysteps.drivers.agent import configdrive, images, logs, share
from deploysteps.drivers.agent.client import AgentClient
from deploysteps.drivers.agent.errors import CommandFailed
from deploysteps.drivers.agent.record import KEY, Record
from deploysteps.drivers.agent.stepping import AgentSteps, booting, ramdisk_params
from deploysteps.drivers.contract import wait_state
from deploysteps.drivers.declare import deploy_step

LOG = logging.getLogger(__name__)

_ENDS = "tear_down_agent"
_FIRST_LOOK = 0.2
"""Seconds until the power state is looked at first, when the agent shuts its machine down."""


class CustomAgentDeploy(AgentSteps):
    """Deploys by steps alone: what is put on the machine, and how, is in steps of the agent."""

    def get_properties(self) -> dict[str, str]:
        """Nothing of ``driver_info``: the agent says where it is."""
        return {}

    def validate(self, task: protocols.Task) -> None:
        """Check that the machine can be booted."""
        task.driver.boot.validate(task)

    def get_deploy_steps(self, task: protocols.Task) -> list[steps.StepDict]:
        """Return the steps of the class; the one that ends the agent says so."""
        found = super().get_deploy_steps(task)
        return [{**step, "ends_agent": True} if step["step"] == _ENDS else step for step in found]

    # --- before the steps, and after a failure ----------------------------------------

    def prepare(self, task: protocols.Task) -> str | None:
        """Boot the agent in the provisioning network."""
        return self._boot_agent(task, task.driver.network.add_provisioning_network)

    def clean_up(self, task: protocols.Task) -> None:
        """Keep the machine's logs, and switch it off."""
        if not Record(task.node, task.node.deploy_step or {}).get("logs"):
            logs.collect(task, failed=True)
        self._put_away(task, task.driver.network.remove_provisioning_network)

    def tear_down(self, task: protocols.Task) -> str | None:
        """Switch the machine off and take it out of its tenant's networks."""
        task.switch_power(states.POWER_OFF)
        task.driver.boot.clean_up_instance(task)
        task.driver.network.unconfigure_tenant_networks(task)
        return states.DELETED

    def take_over(self, task: protocols.Task) -> None:
        """Nothing to do: the machine boots from its disk."""

    def prepare_cleaning(self, task: protocols.Task) -> str | None:
        """Boot the agent in the cleaning network."""
        return self._boot_agent(task, task.driver.network.add_cleaning_network)

    def tear_down_cleaning(self, task: protocols.Task) -> None:
        """Switch the machine off."""
        logs.collect(task, failed=False)
        self._put_away(task, task.driver.network.remove_cleaning_network)

    def prepare_service(self, task: protocols.Task) -> str | None:
        """Boot the agent in the servicing network."""
        return self._boot_agent(task, task.driver.network.add_servicing_network)

    def tear_down_service(self, task: protocols.Task) -> None:
        """Boot the instance again."""
        logs.collect(task, failed=False)
        self._put_away(task, task.driver.network.remove_servicing_network)
        task.driver.network.configure_tenant_networks(task)
        task.driver.boot.prepare_instance(task)
        _start(task)

    def _boot_agent(
        self, task: protocols.Task, add_network: Callable[[protocols.Task], None]
    ) -> str:
        task.node.del_driver_internal_info(KEY)
        task.switch_power(states.POWER_OFF)
        add_network(task)
        task.driver.boot.prepare_ramdisk(task, ramdisk_params())
        _start(task)
        return booting(task)

    def _put_away(
        self, task: protocols.Task, remove_network: Callable[[protocols.Task], None]
    ) -> None:
        task.node.del_driver_internal_info(KEY)
        task.switch_power(states.POWER_OFF)
        task.driver.boot.clean_up_ramdisk(task)
        remove_network(task)

    # --- the steps ----------------------------------------------------------------------

    @deploy_step(priority=100, repeatable=True)
    def deploy(self, task: protocols.Task) -> str | None:
        """Make sure that the agent runs: a step before this one may have rebooted the machine."""
        if task.node.driver_internal_info.get("agent_url"):
            return None
        self._reboot(task, Record(task.node, task.node.deploy_step or {}))
        return booting(task)

    @deploy_step(priority=60, repeatable=True)
    def prepare_instance_boot(self, task: protocols.Task) -> None:
        """Let the machine boot the instance from now on."""
        task.driver.boot.prepare_instance(task)

    @deploy_step(priority=40, repeatable=True)
    def tear_down_agent(self, task: protocols.Task) -> str | None:
        """Let the agent shut its machine down; what it has written is on the disk before.

        :raises CommandFailed: it says that it is not.
        """
        # Outside of what is done when it does not shut down: with no room it is asked later.
        with share.room(task.node):
            shuts_down = self._shut_down(task)
        if not shuts_down:
            task.node.del_driver_internal_info(KEY)
            task.switch_power(states.POWER_OFF)
            return None
        Record(task.node, task.node.deploy_step or {}).note(power_off_since=time.time())
        task.report_progress(None, "the machine is to switch itself off")
        longest = max(_FIRST_LOOK, CONF.agent.post_deploy_get_power_state_retry_interval)
        return states.wait(wait_state(task), poll=_FIRST_LOOK, at_most=longest)

    def _shut_down(self, task: protocols.Task) -> bool:
        """Let the agent write what it holds, and shut down; tell whether it does."""
        logs.collect(task, failed=False)
        try:
            client = AgentClient.of(task.node)
            client.run("standby.sync", {}, attempts=1)
            if task.node.disable_power_off:  # the step that boots the instance ends the agent
                return False
            client.start("standby.power_off", {})
        except CommandFailed:
            raise  # a disk that does not take what was written is no good end (F74)
        except exceptions.DeployStepsException as exc:
            task.keep_evidence("agent_shutdown", f"it does not shut down: {exc}")
            LOG.warning(
                "Node %s: the agent does not shut down, the machine is switched off: %s",
                task.node.uuid,
                exc,
            )
            states.asked_to_wait.set(None)
            return False
        return True

    @deploy_step(priority=30, repeatable=True)
    def switch_to_tenant_network(self, task: protocols.Task) -> None:
        """Move the machine from the provisioning network to its tenant's."""
        task.driver.network.remove_provisioning_network(task)
        task.driver.network.configure_tenant_networks(task)

    @deploy_step(priority=20, repeatable=True)
    def boot_instance(self, task: protocols.Task) -> None:
        """Boot the instance."""
        _start(task)

    def check_step(self, task: protocols.Task, step: Mapping[str, Any]) -> states.StepStatus:
        """Tell whether the machine is off yet, or what became of a command."""
        record = Record(task.node, step)
        since = record.get("power_off_since")
        if since is None:
            return super().check_step(task, step)
        conf = CONF.agent
        patience = (
            conf.post_deploy_get_power_state_retries
            * conf.post_deploy_get_power_state_retry_interval
        )
        if not self._is_off(task) and time.time() - since < patience:
            return states.StepStatus.RUNNING
        task.node.del_driver_internal_info(KEY)
        # Also when it is off: from here on its agent is not listened to.
        task.switch_power(states.POWER_OFF)
        return states.StepStatus.DONE

    def _is_off(self, task: protocols.Task) -> bool:
        try:
            return bool(task.driver.power.get_power_state(task) == states.POWER_OFF)
        except exceptions.DeployStepsException as exc:
            # Its controller may be busy with the shutdown; the wait is bounded.
            LOG.info("Node %s: its power state is not known: %s", task.node.uuid, exc)
            return False


def _start(task: protocols.Task) -> None:
    """Boot a machine that was switched off, or is never: then it is on still."""
    task.switch_power(states.REBOOT if task.node.disable_power_off else states.POWER_ON)


class DirectDeploy(CustomAgentDeploy):
    """Lets the agent write a whole-disk image, and what ``custom-agent`` does."""

    agent_commands: ClassVar[Mapping[str, str]] = {"write_image": "prepare_image"}

    def validate(self, task: protocols.Task) -> None:
        """Check the image as well."""
        super().validate(task)
        images.check(task.node.instance_info)
        configdrive.check(task.node.instance_info.get("configdrive"))

    @deploy_step(priority=80)
    def write_image(self, task: protocols.Task) -> str | None:
        """Let the agent write the image, and the configuration drive."""
        if not task.driver.storage.should_write_image(task):
            return None
        node = task.node
        params = {
            "image_info": images.image_info(node.uuid, node.instance_info),
            "configdrive": configdrive.for_agent(node.instance_info.get("configdrive")),
        }
        step = node.deploy_step or {"interface": "deploy", "step": "write_image"}
        return self.execute_command(task, step, "standby.prepare_image", params)
