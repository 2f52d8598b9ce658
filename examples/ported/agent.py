"""A deploy interface that has an agent on the machine do the work.

It decides itself what a heartbeat means: it asks the agent about its last
command, and ends the wait, or begins it again.
"""

from __future__ import annotations

import json
import logging
import urllib.error
import urllib.parse
import urllib.request

from deploysteps import states
from deploysteps.drivers import base
from deploysteps.drivers import compat as deploy_utils
from deploysteps.drivers import compat as manager_utils
from deploysteps.drivers.compat import METRICS, _, exception

LOG = logging.getLogger(__name__)

COMMAND_TIMEOUT = 60
"""Seconds that the agent may take to answer."""

REQUIRED_INSTANCE_INFO = {"image_source": _("URL of the image to write. Required.")}


class AgentClient:
    """Talks to the agent of one machine."""

    def get_commands_status(self, node):
        """Return the agent's commands, the oldest first."""
        return self._call(node, "GET")["commands"]

    def start(self, node, command, params):
        """Begin a command and return without waiting for it."""
        body = json.dumps({"name": command, "params": params}).encode()
        return self._call(node, "POST", body, wait="false")

    def _call(self, node, method, body=None, **query):
        info = node.driver_internal_info
        query["agent_token"] = info.get("agent_secret_token") or ""
        base_url = (info.get("agent_url") or "").rstrip("/")
        if not base_url.startswith(("http://", "https://")):
            raise exception.AgentConnectionFailed(reason=_("the agent has not beaten yet"))
        request = urllib.request.Request(  # noqa: S310 - the scheme was looked at
            f"{base_url}/v1/commands/?{urllib.parse.urlencode(query)}",
            data=body,
            method=method,
            headers={"Content-Type": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=COMMAND_TIMEOUT) as answer:  # noqa: S310
                return json.load(answer)
        except urllib.error.HTTPError as exc:
            raise exception.AgentAPIError(
                node=node.uuid, status=exc.code, error=exc.read().decode(errors="replace")
            ) from None
        except (OSError, ValueError) as exc:
            raise exception.AgentConnectionFailed(reason=exc) from None


class AgentDeploy(base.DeployInterface):
    """Writes an image by the agent, and boots it."""

    def __init__(self):
        """Make it; instances are shared by all nodes."""
        super().__init__()
        self._client = AgentClient()

    def get_properties(self):
        """Nothing is set in driver_info."""
        return {}

    @METRICS.timer("AgentDeploy.validate")
    def validate(self, task):
        """Check that the instance has an image."""
        missing = [key for key in REQUIRED_INSTANCE_INFO if not task.node.instance_info.get(key)]
        if missing:
            raise exception.MissingParameterValue(
                _("Missing in node's instance_info: %s.") % ", ".join(missing)
            )

    # --- booting the agent: what took prepare_agent_boot() there -------------------

    def _boot_agent(self, task):
        task.driver.boot.prepare_ramdisk(task, {})
        manager_utils.node_power_action(task, states.REBOOT)
        return deploy_utils.get_async_step_return_state(task.node)

    @METRICS.timer("AgentDeploy.prepare")
    def prepare(self, task):
        """Boot the agent, and wait for it."""
        task.driver.network.add_provisioning_network(task)
        return self._boot_agent(task)

    @METRICS.timer("AgentDeploy.clean_up")
    def clean_up(self, task):
        """Undo that."""
        task.driver.boot.clean_up_ramdisk(task)
        task.driver.network.remove_provisioning_network(task)

    @METRICS.timer("AgentDeploy.tear_down")
    def tear_down(self, task):
        """Switch the machine off."""
        manager_utils.node_power_action(task, states.POWER_OFF)
        return states.DELETED

    def take_over(self, task):
        """Nothing of a node is kept in this process."""

    @METRICS.timer("AgentDeploy.prepare_cleaning")
    def prepare_cleaning(self, task):
        """Boot the agent, and wait for it."""
        task.driver.network.add_cleaning_network(task)
        return self._boot_agent(task)

    @METRICS.timer("AgentDeploy.tear_down_cleaning")
    def tear_down_cleaning(self, task):
        """Undo that."""
        manager_utils.node_power_action(task, states.POWER_OFF)
        task.driver.network.remove_cleaning_network(task)

    # --- steps ---------------------------------------------------------------------

    @METRICS.timer("AgentDeploy.deploy")
    @base.deploy_step(priority=100)
    def deploy(self, task):
        """Check what the agent will be told; the agent is up."""
        self.validate(task)

    @METRICS.timer("AgentDeploy.write_image")
    @base.deploy_step(priority=80)
    def write_image(self, task):
        """Let the agent write the image."""
        image = {"urls": [task.node.instance_info["image_source"]], "id": "instance"}
        self._client.start(task.node, "standby.prepare_image", {"image_info": image})
        return deploy_utils.get_async_step_return_state(task.node)

    @METRICS.timer("AgentDeploy.tear_down_agent")
    @base.deploy_step(priority=40)
    def tear_down_agent(self, task):
        """Switch the machine off: the agent is not needed any more."""
        manager_utils.node_power_action(task, states.POWER_OFF)

    @METRICS.timer("AgentDeploy.boot_instance")
    @base.deploy_step(priority=20)
    def boot_instance(self, task):
        """Boot from the disk."""
        task.driver.boot.prepare_instance(task)
        manager_utils.node_power_action(task, states.POWER_ON)

    @METRICS.timer("AgentDeploy.erase_devices")
    @base.clean_step(priority=10, abortable=True)
    def erase_devices(self, task):
        """Let the agent erase the disks."""
        step = {"step": "erase_devices", "interface": "deploy", "priority": 10}
        self._client.start(task.node, "clean.execute_clean_step", {"step": step})
        return deploy_utils.get_async_step_return_state(task.node)

    # --- heartbeats ------------------------------------------------------------------

    @METRICS.timer("AgentDeploy.heartbeat")
    def heartbeat(
        self,
        task,
        callback_url,
        agent_version,
        agent_verify_ca=None,
        agent_status=None,
        agent_status_message=None,
    ):
        """Go on with the node when the agent's last command is done."""
        node = task.node
        if node.provision_state == states.DEPLOYWAIT:
            self._process_beat(task, node.deploy_step, manager_utils.deploying_error_handler)
        elif node.provision_state == states.CLEANWAIT:
            self._process_beat(task, node.clean_step, manager_utils.cleaning_error_handler)

    def _process_beat(self, task, step, error_handler):
        operation = "clean" if task.node.provision_state == states.CLEANWAIT else "deploy"
        if not step:
            LOG.debug("The agent of node %s has booted", task.node.uuid)
            manager_utils.notify_conductor_resume_operation(task, operation)
            return
        commands = self._client.get_commands_status(task.node)
        last = commands[-1] if commands else {"command_status": "SUCCEEDED"}
        if last["command_status"] == "RUNNING":
            return
        if last["command_status"] == "FAILED":
            message = _("Agent returned error for %(step)s: %(error)s.") % {
                "step": step["step"],
                "error": last.get("command_error"),
            }
            error_handler(task, message, errmsg=message)
            return
        manager_utils.notify_conductor_resume_operation(task, operation)
