"""Nodes whose machines are processes, and what tests ask of them."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deploysteps.cli.client import node_path
from deploysteps.cli.local_service import LocalService
from tests.peers.disks import Disk
from tests.peers.machines import Machine

CLOCKS = {
    "DEFAULT": {"enabled_hardware_types": "fake-hardware,peer-machine", "debug": True},
    "agent": {
        "require_tls": False,
        "post_deploy_get_power_state_retry_interval": 1,
    },
    "api": {"ramdisk_heartbeat_timeout": 20},
    "conductor": {
        "automated_clean": False,
        "heartbeat_interval": 1,
        "heartbeat_timeout": 5,
        "recovery_interval": 0.5,
        "step_poll_interval": 0.2,
    },
}


def step(name: str, priority: int = 90, **args: Any) -> dict[str, Any]:
    return {"interface": "deploy", "step": name, "args": args, "priority": priority}


class Node:
    """A node, its machine, and a service to ask about it."""

    def __init__(self, service: LocalService, machine: Machine, name: str) -> None:
        self.service, self.machine, self.name = service, machine, name

    def get(self) -> dict[str, Any]:
        return dict(self.service.client.get(node_path(self.name)))

    def ask(self, target: str, **more: Any) -> None:
        path = node_path(self.name, "states", "provision")
        self.service.client.put(path, {"target": target, **more})

    def power(self, target: str) -> None:
        self.service.client.put(node_path(self.name, "states", "power"), {"target": target})

    def reach(self, wanted: str, seconds: float = 90) -> dict[str, Any]:
        """Wait for a state; a failure on the way is told at once."""

        def there() -> dict[str, Any] | None:
            node = self.get()
            failed = node["provision_state"].endswith("failed")
            assert not failed or node["provision_state"] == wanted, self.told(node)
            return node if node["provision_state"] == wanted else None

        return until(there, f"{self.name} does not become {wanted}", seconds, self.told)

    def told(self, node: dict[str, Any] | None = None) -> str:
        node = node or self.get()
        parts = [node["provision_state"], str(node["last_error"]), str(self.attempts())]
        return "\n".join([*parts, self.machine.log[-3000:]])

    def run(self) -> dict[str, Any]:
        """Return the newest run."""
        return dict(self.service.client.get(node_path(self.name, "runs"))["runs"][0])

    def attempts(self) -> list[tuple[str, str]]:
        """Return step and outcome of each attempt of the newest run."""
        found = self.service.client.get(node_path(self.name, "runs"))["runs"]
        return [(one["step"], one["outcome"]) for one in found[0]["attempts"]] if found else []

    def begun(self, name: str, times: int = 1) -> None:
        """Wait until the agent has begun a step."""
        until(
            lambda: self.machine.done.count(name) >= times, f"{name} does not begin", 60, self.told
        )


def enrolled(
    service: LocalService, folder: Path, number: int, *, tls: bool, disk: Disk | None = None
) -> Node:
    """Make a machine and its node; one with a disk is deployed by ``direct``."""
    mac, name = f"52:54:00:00:00:{number:02x}", f"machine-{number}"
    machine = Machine(folder / name, service.client.endpoint, mac, tls=tls, disk=disk)
    node = service.client.post(
        "/v1/nodes",
        {
            "driver": "peer-machine",
            "name": name,
            "deploy_interface": "direct" if disk else "custom-agent",
            "driver_info": {"peer_folder": str(machine.folder)},
        },
    )
    service.client.post("/v1/ports", {"node_uuid": node["uuid"], "address": mac})
    return Node(service, machine, name)


def until(
    condition: Callable[[], Any], what: str, seconds: float, more: Callable[[], str] = str
) -> Any:
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, f"{what}\n{more()}"
        time.sleep(0.05)
    return value


def again(node: Node) -> None:
    """Make the node available again, wherever a test before has left it."""
    state = node.get()["provision_state"]
    if state in ("manageable", "clean failed"):
        node.ask("manage") if state == "clean failed" else None
        node.reach("manageable")
        node.ask("provide")
    elif state != "available":
        node.ask("deleted")
    node.reach("available")
    (node.machine.folder / "done").unlink(missing_ok=True)
