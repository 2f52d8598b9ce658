"""What of a node, its ports and a step the agent is sent, and what of its steps is kept.

The node is a plain dict, as the field sends it: with ``driver_internal_info``,
and with its secrets masked. The step's own arguments are sent as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deploysteps import exceptions, protocols, secrets
from deploysteps.drivers.agent.record import KEY
from deploysteps.steps import DEPLOY, FLOWS, INTERFACE_TYPES, StepFlow

_FIELDS = (
    "uuid",
    "name",
    "driver",
    "driver_info",
    "instance_info",
    "instance_uuid",
    "properties",
    "extra",
    "provision_state",
    "target_provision_state",
    "power_state",
    "maintenance",
    "resource_class",
    "raid_config",
    "target_raid_config",
    "deploy_step",
    "clean_step",
    "service_step",
    *(f"{kind}_interface" for kind in INTERFACE_TYPES),
)
_OURS = (KEY, "agent_verify_ca", *(f"agent_cached_{flow}_steps" for flow in FLOWS))
"""Keys of ``driver_internal_info`` that the agent has no use for."""
_STEP = ("interface", "step", "args", "priority", "abortable", "reboot_requested")


def node(task: protocols.Task) -> dict[str, Any]:
    """Return the node; the agent needs its ``uuid`` at least."""
    item = task.node
    found = {name: getattr(item, name, None) for name in _FIELDS}
    info = {key: value for key, value in item.driver_internal_info.items() if key not in _OURS}
    shown: dict[str, Any] = secrets.masked({**found, "driver_internal_info": info})
    return shown


def ports(task: protocols.Task) -> list[dict[str, Any]]:
    """Return the node's ports."""
    return [
        {
            "uuid": port.uuid,
            "address": port.address,
            "extra": secrets.masked(port.extra or {}),
            "local_link_connection": port.local_link_connection or {},
            "pxe_enabled": port.pxe_enabled,
        }
        for port in task.ports
    ]


def step(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return a step of the plan as the agent knows it, its arguments intact."""
    found = {name: entry[name] for name in _STEP if name in entry}
    return {**found, "args": dict(entry.get("args") or {})}


def offered(step: Any, flow: StepFlow) -> Any:
    """Return a step of the agent's as an interface offers one; the engine checks its shape."""
    if not isinstance(step, Mapping):
        raise exceptions.DriverOperationError(
            f"the agent offers a {type(step).__name__} among its {flow.name} steps"
        )
    found = {"argsinfo": None, "abortable": flow is DEPLOY, **step}
    return {**found, **({"requires_ramdisk": True} if flow.no_ramdisk else {})}
