"""This project's engine running no-op steps in this process.

The conductor is the real :class:`~deploysteps.conductor.service.Service`, started the usual way
on its own schema, with a ``fake-hardware`` node; its clocks go on running. As for Ironic, the
worker pool is replaced by an executor that runs work at once in the calling thread, so that
all work of a step is timed and counted there, and its log goes to a file.

``sync``
    A deploy interface with N deploy steps that return at once. Timed: ``do_node_deploy``, the
    whole verb from validating and planning to the node being ``active`` and unlocked. That is
    more than what is timed for Ironic, where planning is left out.

``resume``
    The same with steps that return the wait state. Timed: N calls of ``heartbeat``, each of
    which finds the waiting step finished, starts the next and leaves the node waiting.
"""

from __future__ import annotations

import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import futurist
from oslo_log import log

from benchmarks import measuring
from deploysteps import conf, exceptions, states
from deploysteps.conductor.service import Service
from deploysteps.db import nodes
from deploysteps.drivers import base, fake, noop

CONFIG = """\
[DEFAULT]
host = bench
state_path = {state}
log_file = {state}/deploysteps.log
use_stderr = false
enabled_hardware_types = fake-hardware
[database]
connection = sqlite:///{state}/deploysteps.sqlite
"""

AGENT_URL = "http://127.0.0.1:9999"
AGENT_VERSION = "11.0.0"


class StepsRun:
    """How many steps did their (absent) work; checked, so that a short run is not a fast one."""

    count = 0


def offer_steps(steps: int, answer: str | None) -> None:
    """Put a deploy interface with only our steps in the place of the fake one.

    :param answer: what every step returns.
    """

    def make(name: str) -> Any:
        def step(self: Any, task: Any) -> str | None:
            StepsRun.count += 1
            return answer

        step.__name__ = name
        return base.deploy_step(priority=50)(step)

    members = {f"step_{i:04}": make(f"step_{i:04}") for i in range(steps)}
    bench: Any = type("BenchDeploy", (noop.NoopDeploy,), members)
    # Its entry point names the attribute, and it is loaded when the service starts.
    module: Any = fake
    module.FakeDeploy = bench
    module.FakeHardware.supported_deploy_interfaces = (bench,)


def start(state: Path) -> Service:
    """Configure and start a conductor."""
    config = state / "deploysteps.conf"
    config.write_text(CONFIG.format(state=state))
    settings = conf.setup(config_files=[str(config)])
    log.setup(settings, "deploysteps")
    service = Service(settings)
    service.start()
    pool: Any = futurist.SynchronousExecutor()
    service.runtime.workers._pool = pool
    return service


def make_node(service: Service) -> str:
    """Create a node that is ready to be deployed and return its uuid."""
    values = {"driver": "fake-hardware", "provision_state": states.AVAILABLE}
    return service.manager.create_node(None, values).uuid


def check(service: Service, uuid: str, state: str) -> None:
    """Refuse a run that did not end as it should."""
    node = nodes.get(service.database, uuid)
    if node.provision_state != state or node.reservation is not None:
        raise RuntimeError(f"node ended {node.provision_state}: {node.last_error}")


def run_sync(service: Service, counter: measuring.Counter) -> None:
    """Time one deployment."""
    uuid = make_node(service)
    with counter:
        service.manager.do_node_deploy(None, uuid)
    check(service, uuid, states.ACTIVE)


def run_resume(service: Service, counter: measuring.Counter, steps: int) -> None:
    """Run a deployment up to the first step, which waits, then time ``steps`` heartbeats."""
    uuid = make_node(service)
    service.manager.do_node_deploy(None, uuid)
    _node, token = service.manager.lookup(None, [], uuid)

    def beat() -> None:
        while True:
            try:
                service.manager.heartbeat(
                    None, uuid, AGENT_URL, agent_version=AGENT_VERSION, agent_token=token
                )
                return
            except exceptions.NodeLocked:
                pass  # the conductor's clock looks at the node just now: sent again, as agents do

    beat()  # as for Ironic, whose first one only fetches the agent's steps
    with counter:
        for _ in range(steps):
            beat()
    check(service, uuid, states.DEPLOYWAIT)


def main() -> None:
    """Measure one kind and print the line."""
    args = measuring.arguments(__doc__ or "", ("sync", "resume"))
    resume = args.kind == "resume"
    # The first two waiting steps are begun before the clock, and the last is never finished.
    expected = args.steps + 2 if resume else args.steps
    offer_steps(expected, states.DEPLOYWAIT if resume else None)
    service = start(args.directory.resolve())
    counter = measuring.Counter()
    if resume:
        run_resume(service, counter, args.steps)
    else:
        run_sync(service, counter)
    if StepsRun.count != expected:
        raise RuntimeError(f"{StepsRun.count} steps ran instead of {expected}")
    with service.database.engine.connect() as connection:
        settings = measuring.settings_of(connection)
    measuring.report(
        peer="deploysteps",
        version=version("deploysteps"),
        kind=args.kind,
        steps=args.steps,
        counter=counter,
        settings=settings,
    )
    os._exit(0)  # its clocks need not be waited for


if __name__ == "__main__":
    main()
