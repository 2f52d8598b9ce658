"""Power by IPMI, through ``ipmitool``."""

from __future__ import annotations

import logging
import os
import subprocess
import time

from deploysteps import states
from deploysteps.drivers import base
from deploysteps.drivers import compat as task_manager
from deploysteps.drivers.compat import METRICS, _, exception

LOG = logging.getLogger(__name__)

REQUIRED_PROPERTIES = {
    "ipmi_address": _("IP address or hostname of the node. Required."),
}
OPTIONAL_PROPERTIES = {
    "ipmi_username": _("username; default is NULL user. Optional."),
    "ipmi_password": _("password. Optional."),
    "ipmi_port": _("remote IPMI RMCP port. Optional."),
}
COMMON_PROPERTIES = {**REQUIRED_PROPERTIES, **OPTIONAL_PROPERTIES}

COMMAND_TIMEOUT = 60
"""Seconds that one call of ipmitool may take."""

POWER_TIMEOUT = 60
"""Seconds that a change of power may take."""

INTERVAL = 1.0
"""Seconds between two looks at the power state."""

_COMMANDS = {
    states.POWER_ON: "on",
    states.POWER_OFF: "off",
    states.SOFT_POWER_OFF: "soft",
}


def _parse_driver_info(node):
    """Return what ipmitool needs of a node.

    :raises MissingParameterValue: when something required is not there.
    :raises InvalidParameterValue: when something makes no sense.
    """
    info = node.driver_info or {}
    missing = [key for key in REQUIRED_PROPERTIES if not info.get(key)]
    if missing:
        raise exception.MissingParameterValue(
            _("Missing the following IPMI credentials in node's driver_info: %s.") % missing
        )
    port = info.get("ipmi_port", 623)
    try:
        port = int(port)
    except (TypeError, ValueError):
        raise exception.InvalidParameterValue(_("ipmi_port is no port number.")) from None
    return {
        "address": info["ipmi_address"],
        "username": info.get("ipmi_username"),
        "password": info.get("ipmi_password"),
        "port": port,
    }


def _exec_ipmitool(driver_info, command):
    """Run ipmitool and return what it says.

    The password goes through the environment: arguments can be seen by all.

    :raises IPMIFailure: it failed or took too long.
    """
    args = ["ipmitool", "-I", "lanplus", "-H", driver_info["address"], "-p"]
    args += [str(driver_info["port"]), "-E"]
    if driver_info["username"]:
        args += ["-U", driver_info["username"]]
    env = {**os.environ, "IPMITOOL_PASSWORD": driver_info["password"] or ""}
    try:
        done = subprocess.run(
            [*args, *command.split()],
            env=env,
            capture_output=True,
            text=True,
            timeout=COMMAND_TIMEOUT,
            check=True,
        )
    except (OSError, subprocess.SubprocessError) as exc:
        LOG.warning("IPMI error at %s: %s", driver_info["address"], exc)
        raise exception.IPMIFailure(cmd=command) from exc
    return done.stdout


def _power_status(driver_info):
    """Return the power state, or None when ipmitool says neither."""
    out = _exec_ipmitool(driver_info, "power status").strip()
    return {
        "Chassis Power is on": states.POWER_ON,
        "Chassis Power is off": states.POWER_OFF,
    }.get(out)


def _set_and_wait(task, power_action, driver_info, timeout=None):
    """Change the power and return when it is changed.

    :raises PowerStateFailure: it was not, in time.
    """
    wanted = states.POWER_ON if power_action == states.POWER_ON else states.POWER_OFF
    _exec_ipmitool(driver_info, "power " + _COMMANDS[power_action])
    until = time.monotonic() + (timeout or POWER_TIMEOUT)
    while _power_status(driver_info) != wanted:
        if time.monotonic() > until:
            LOG.error("Node %s did not reach the state %r", task.node.uuid, wanted)
            raise exception.PowerStateFailure(pstate=power_action)
        time.sleep(INTERVAL)


class IPMIPower(base.PowerInterface):
    """Switches a machine by IPMI."""

    def get_properties(self):
        """Return what may be set in driver_info."""
        return COMMON_PROPERTIES

    @METRICS.timer("IPMIPower.validate")
    def validate(self, task):
        """Check that there is what ipmitool needs."""
        _parse_driver_info(task.node)

    @METRICS.timer("IPMIPower.get_power_state")
    def get_power_state(self, task):
        """Ask the controller."""
        return _power_status(_parse_driver_info(task.node))

    @METRICS.timer("IPMIPower.set_power_state")
    @task_manager.require_exclusive_lock
    def set_power_state(self, task, power_state, timeout=None):
        """Switch the machine.

        :raises InvalidParameterValue: an unknown state.
        :raises PowerStateFailure: the state was not reached.
        """
        driver_info = _parse_driver_info(task.node)
        if power_state == states.REBOOT:
            self.reboot(task, timeout)
        elif power_state in _COMMANDS:
            _set_and_wait(task, power_state, driver_info, timeout)
        else:
            raise exception.InvalidParameterValue(
                _("set_power_state called with invalid power state %s.") % power_state
            )

    @METRICS.timer("IPMIPower.reboot")
    @task_manager.require_exclusive_lock
    def reboot(self, task, timeout=None):
        """Switch the machine off, and on again."""
        driver_info = _parse_driver_info(task.node)
        if _power_status(driver_info) != states.POWER_OFF:
            _set_and_wait(task, states.POWER_OFF, driver_info, timeout)
        _set_and_wait(task, states.POWER_ON, driver_info, timeout)

    def get_supported_power_states(self, task):
        """Return what set_power_state takes."""
        return [*_COMMANDS, states.REBOOT]
