"""Ironic's own engine running no-op steps in this process. Runs in Ironic's environment.

The conductor is Ironic's ``ConductorManager``, started the way its service starts it, on a
schema made by Ironic, with a ``fake-hardware`` node. Periodic tasks are stopped, so that
nothing but the steps uses the database, and the worker pool is replaced by an executor that
runs work at once in the calling thread; both can only make Ironic faster.

``sync``
    The ``fake`` deploy interface, subclassed with N deploy steps that return at once. Timed:
    ``deployments.do_next_deploy_step(task, 0)`` under ``task_manager.acquire``, from taking
    the lock to the node being ``active`` and unlocked.

``resume``
    The unmodified ``custom-agent`` deploy interface with N steps that the agent offers. Timed:
    N calls of ``ConductorManager.heartbeat``, each of which finds the waiting step finished,
    starts the next and leaves the node waiting. Everything from the RPC method down is
    Ironic's; only the three requests it sends to the agent (list the steps, run one, ask how
    it went) are answered here instead of over HTTP, which again only saves it time.
"""

from __future__ import annotations

import os
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import futurist
import measuring
from ironic.common import context as ironic_context
from ironic.common import rpc, states
from ironic.common import service as ironic_service
from ironic.conf import CONF

# Nothing of Ironic's conductor is imported up here: its periodic tasks and its drivers read
# the configuration when they are imported, which is why its own entry point waits as well.

CONFIG = """\
[DEFAULT]
auth_strategy = noauth
host = bench
my_ip = 127.0.0.1
rpc_transport = none
state_path = {state}
log_file = {state}/ironic.log
enabled_hardware_types = fake-hardware
enabled_bios_interfaces = no-bios
enabled_boot_interfaces = fake
enabled_console_interfaces = no-console
enabled_deploy_interfaces = fake,custom-agent
enabled_firmware_interfaces = no-firmware
enabled_inspect_interfaces = no-inspect
enabled_management_interfaces = fake
enabled_network_interfaces = noop
enabled_power_interfaces = fake
enabled_raid_interfaces = no-raid
enabled_rescue_interfaces = no-rescue
enabled_storage_interfaces = noop
enabled_vendor_interfaces = no-vendor
[conductor]
automated_clean = false
[database]
connection = sqlite:///{state}/ironic.sqlite
[agent]
require_tls = false
[oslo_concurrency]
lock_path = {state}
[oslo_messaging_notifications]
driver = noop
[service_catalog]
auth_type = none
endpoint_override = http://127.0.0.1:6385
"""

AGENT_URL = "http://127.0.0.1:9999"
AGENT_VERSION = "11.0.0"


def start(state: Path, *, as_shipped: bool) -> Any:
    """Configure Ironic, create its schema and return a started conductor manager."""
    config = state / "ironic.conf"
    config.write_text(CONFIG.format(state=state))
    if not as_shipped:
        measuring.use_wal(state / "ironic.sqlite")
    # In a process of its own, as in any installation: it sets up logging in its own way.
    dbsync = Path(sys.executable).with_name("ironic-dbsync")
    subprocess.run([dbsync, "--config-file", config, "create_schema"], check=True)
    ironic_service.prepare_service("ironic", ["ironic", "--config-file", str(config)])

    from ironic.conductor import manager as conductor_manager

    manager = conductor_manager.ConductorManager(CONF.host, rpc.MANAGER_TOPIC)
    manager.prepare_host()
    manager.init_host(ironic_context.get_admin_context())
    manager._periodic_tasks.stop()
    manager._periodic_tasks.wait()
    manager._executor = futurist.SynchronousExecutor()
    return manager


def make_node(context: Any, deploy_interface: str) -> Any:
    """Create a node that is ready to be deployed."""
    from ironic import objects

    node = objects.Node(
        context,
        driver="fake-hardware",
        deploy_interface=deploy_interface,
        boot_interface="fake",
        bios_interface="no-bios",
        console_interface="no-console",
        firmware_interface="no-firmware",
        inspect_interface="no-inspect",
        management_interface="fake",
        network_interface="noop",
        power_interface="fake",
        raid_interface="no-raid",
        rescue_interface="no-rescue",
        storage_interface="noop",
        vendor_interface="no-vendor",
        provision_state=states.AVAILABLE,
        power_state=states.POWER_OFF,
    )
    node.create()
    return node


class StepsRun:
    """How many steps did their (absent) work; checked, so that a short run is not a fast one."""

    count = 0


def offer_sync_steps(steps: int) -> None:
    """Replace the ``fake`` deploy interface by a subclass that has only our steps.

    Its entry point names the class, so replacing the attribute before Ironic loads its drivers
    is enough.
    """
    from ironic.drivers import base
    from ironic.drivers.modules import fake

    def no_op(self: Any, task: Any) -> None:
        StepsRun.count += 1

    def make(name: str) -> Any:
        def step(self: Any, task: Any) -> None:
            no_op(self, task)

        step.__name__ = name
        return base.deploy_step(priority=50)(step)

    members = {f"step_{i:04}": make(f"step_{i:04}") for i in range(steps)}
    # The parent's one step is hidden by a plain method of the same name.
    members["deploy"] = lambda self, task: None
    fake.FakeDeploy = type("BenchDeploy", (fake.FakeDeploy,), members)


def answer_for_the_agent(steps: int) -> None:
    """Answer the conductor's requests to the agent here: every step succeeds at once."""
    from ironic.drivers.modules import agent_client

    last: dict[str, Any] = {}

    def get_deploy_steps(self: Any, node: Any, ports: Any) -> dict[str, Any]:
        offered = [
            {
                "interface": "deploy",
                "step": f"step_{i:04}",
                "priority": 50,
                "reboot_requested": False,
                "argsinfo": None,
            }
            for i in range(steps)
        ]
        result = {"deploy_steps": {"bench": offered}, "hardware_manager_version": {"bench": "1"}}
        last.update(name="get_deploy_steps", result=result)
        return {"command_status": "SUCCEEDED", "command_result": result}

    def execute_deploy_step(self: Any, step: Any, node: Any, ports: Any) -> dict[str, Any]:
        StepsRun.count += 1
        last.update(name="execute_deploy_step", result={"deploy_step": step})
        return {"command_status": "RUNNING"}

    def get_commands_status(self: Any, node: Any, **_kw: Any) -> list[dict[str, Any]]:
        return [
            {
                "command_name": last["name"],
                "command_status": "SUCCEEDED",
                "command_result": last["result"],
            }
        ]

    client = agent_client.AgentClient
    client.get_deploy_steps = get_deploy_steps
    client.execute_deploy_step = execute_deploy_step
    client.get_commands_status = get_commands_status


def run_sync(context: Any, counter: measuring.Counter) -> None:
    """Run a deployment, timing the engine's loop over the steps."""
    from ironic.conductor import deployments, task_manager
    from ironic.conductor import steps as conductor_steps

    node = make_node(context, "fake")
    with task_manager.acquire(context, node.uuid, purpose="plan") as task:
        task.process_event("deploy")
        conductor_steps.set_node_deployment_steps(task, skip_missing=True)
        task.node.save()
    with counter, task_manager.acquire(context, node.uuid, purpose="deploy") as task:
        deployments.do_next_deploy_step(task, 0)
    node.refresh()
    if node.provision_state != states.ACTIVE or node.reservation:
        raise RuntimeError(f"node ended {node.provision_state}: {node.last_error}")


def run_resume(manager: Any, context: Any, counter: measuring.Counter, steps: int) -> None:
    """Run a deployment up to the agent's first step, then time ``steps`` heartbeats."""
    from ironic.conductor import task_manager
    from ironic.conductor import utils as conductor_utils

    node = make_node(context, "custom-agent")
    manager.do_node_deploy(context, node.uuid)
    with task_manager.acquire(context, node.uuid, purpose="token") as task:
        # What the agent's lookup would have done.
        conductor_utils.add_secret_token(task.node)
        task.node.save()
        token = task.node.driver_internal_info["agent_secret_token"]

    def beat() -> None:
        manager.heartbeat(
            context, node.uuid, AGENT_URL, agent_version=AGENT_VERSION, agent_token=token
        )

    beat()  # the first one only fetches the agent's steps and starts the first of them
    with counter:
        for _ in range(steps):
            beat()
    node.refresh()
    if node.provision_state != states.DEPLOYWAIT or node.reservation:
        raise RuntimeError(f"node ended {node.provision_state}: {node.last_error}")


def main() -> None:
    """Measure one kind and print the line."""
    args = measuring.arguments(__doc__ or "", ("sync", "resume"))
    state = args.directory.resolve()
    # The last of the agent's steps is never finished: what follows it (taking the agent down,
    # waiting for the machine to go off) is not a step of the kind measured.
    offered = args.steps if args.kind == "sync" else args.steps + 1
    if args.kind == "sync":
        offer_sync_steps(offered)
    else:
        answer_for_the_agent(offered)
    manager = start(state, as_shipped=args.as_shipped)
    context = ironic_context.get_admin_context()
    counter = measuring.Counter()
    if args.kind == "sync":
        run_sync(context, counter)
    else:
        run_resume(manager, context, counter, args.steps)
    if StepsRun.count != offered:
        raise RuntimeError(f"{StepsRun.count} steps ran instead of {offered}")

    from oslo_db.sqlalchemy import enginefacade

    with enginefacade.writer.get_engine().connect() as connection:
        settings = measuring.settings_of(connection)
    measuring.report(
        peer="ironic",
        version=version("ironic"),
        kind=args.kind,
        steps=args.steps,
        counter=counter,
        settings=settings,
    )
    os._exit(0)  # threads of its pools are still there and would keep the process


if __name__ == "__main__":
    main()
