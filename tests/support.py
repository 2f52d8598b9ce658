"""What tests of the conductor share: drivers made for a test, and waiting for states."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from deploysteps import exceptions, states
from deploysteps.conductor.service import Service
from deploysteps.db import nodes, runs, types
from deploysteps.db.engine import Database
from deploysteps.db.models import Node, StepAttempt, StepRun
from deploysteps.drivers import base, discovery, fake, hardware_type
from deploysteps.drivers.factory import Registry
from deploysteps.steps import INTERFACE_TYPES, RUNS

MAC = "52:54:00:00:00:01"
CALLBACK = "http://127.0.0.1:9999/"


class Deploy(fake.FakeDeploy):
    """A deploy interface with one step, ``deploy``, for tests to derive from."""


class Vendor(base.VendorInterface):
    """A vendor interface that needs nothing; a place for steps of tests."""

    def get_properties(self) -> dict[str, str]:
        return {}

    def validate(self, task: Any, *args: Any, **kwargs: Any) -> None:
        return None


def registry(conf: Any, **classes: type[base.BaseInterface]) -> Registry:
    """Return a registry whose ``test-hardware`` uses these classes: ``vendor=MyVendor``.

    What is not named is the fake interface of its type, without its steps
    getting in the way: they have priority 0, but for ``deploy.deploy``.
    """
    chosen = {kind: [classes.get(kind, _fake(kind))] for kind in INTERFACE_TYPES}
    members = {
        f"supported_{kind}_interfaces": property(lambda self, found=found: found)
        for kind, found in chosen.items()
    }
    hardware = type("TestHardware", (hardware_type.GenericHardware,), members)
    plugins = {
        discovery.TYPES: {
            "test-hardware": discovery.Plugin("test-hardware", "a test", hardware),
        },
        **{
            discovery.namespace(kind): {
                "test": discovery.Plugin("test", "a test", found[0]),
            }
            for kind, found in chosen.items()
        },
    }
    conf.set_override("enabled_hardware_types", ["test-hardware"])
    return Registry(conf, find=lambda group: plugins[group])


def _fake(kind: str) -> type[base.BaseInterface]:
    group = discovery.plugins(discovery.namespace(kind))
    return group["fake"].value


def enrolled(service: Service, **values: Any) -> Node:
    """Return a new node that is available, with a port."""
    node = service.manager.create_node(
        None, {"driver": "test-hardware", "provision_state": states.AVAILABLE, **values}
    )
    service.manager.create_port(None, node.uuid, {"address": _mac(node.id)})
    return node


def _mac(number: int) -> str:
    return f"52:54:00:00:{number // 256:02x}:{number % 256:02x}"


def token(service: Service, node: Node) -> str:
    """Look the node up as its agent does, and return the agent's token."""
    return retried(lambda: service.manager.lookup(None, [], node.uuid)[1])


def retried(call: Callable[[], Any]) -> Any:
    """Call, again while the node is locked: one that waits is looked at now and then."""
    until = time.monotonic() + 60
    while True:
        try:
            return call()
        except exceptions.NodeLocked:
            if time.monotonic() > until:
                raise
            time.sleep(0.01)


def beat(
    service: Service, node: Node, token: str, *, callback_url: str = CALLBACK, **more: Any
) -> None:
    """Send a heartbeat; one that is refused as locked is sent again, as agents do."""
    retried(
        lambda: service.manager.heartbeat(
            None, node.uuid, callback_url, agent_token=token, agent_version="1", **more
        )
    )


def settle(
    database: Database, ident: str | int, *wanted: str, timeout: float = 60, locked: bool = False
) -> Node:
    """Wait until the node is in one of these states and (unless said so) unlocked."""
    until = time.monotonic() + timeout
    while True:
        node = nodes.get(database, ident)
        if node.provision_state in wanted and (locked or node.reservation is None):
            return node
        if time.monotonic() > until:
            raise AssertionError(
                f"node is {node.provision_state!r} (error {node.last_error!r}, locked by "
                f"{node.reservation}), not {wanted}; attempts: {told(database, node)}"
            )
        time.sleep(0.01)


def until(condition: Callable[[], Any], timeout: float = 60) -> Any:
    """Wait until a condition holds, and return its value."""
    end = time.monotonic() + timeout
    while not (value := condition()):
        assert time.monotonic() < end, "it did not become true in time"
        time.sleep(0.01)
    return value


def age(database: Database, node: Node, seconds: float, *, heard: bool = True) -> None:
    """Make what waits on a node begin that much earlier.

    :param heard: the last beat of its agent came no later either.
    """
    earlier = types.utcnow() - datetime.timedelta(seconds=seconds)
    beat = {"agent_last_heartbeat": earlier} if heard else {}
    _change_wait(database, node, {"waiting_since": earlier, "due_at": earlier}, beat)


def let_limit_pass(database: Database, node: Node) -> None:
    """Make what waits on a node begin so early that its limit is over."""
    waits, past = attempts(database, node)[-1], types.utcnow() - datetime.timedelta(seconds=1)
    since = past - (waits.deadline_at - waits.waiting_since)
    _change_wait(database, node, {"waiting_since": since, "due_at": past, "deadline_at": past}, {})


def _change_wait(
    database: Database, node: Node, values: dict[str, Any], of_node: dict[str, Any]
) -> None:
    """Change both at once: a clock may look at what is due the moment that it is."""
    waits = sa.update(StepAttempt).where(
        StepAttempt.node_id == node.id, StepAttempt.state == "waiting"
    )
    with database.engine.begin() as connection:
        if of_node:
            connection.execute(sa.update(Node).where(Node.id == node.id).values(of_node))
        assert connection.execute(waits.values(values)).rowcount == 1


def last_run(database: Database, node: Node, flow: str | None = None) -> StepRun:
    """Return the node's newest run, of a flow if one is named."""
    found = runs.of_node(database, node.id)
    return next(run for run in found if flow in (None, run.flow))


def ends_told(database: Database, node: Node) -> list[str]:
    """Return which ends of runs the node's history tells of: ``deploy success`` and so on."""
    kinds = [entry.event_type.split() for entry in nodes.history_of(database, node.id)]
    return [" ".join(kind) for kind in kinds if kind[0] in RUNS and len(kind) == 2]


def attempts(database: Database, node: Node) -> list[StepAttempt]:
    """Return the attempts of the node's newest run."""
    run = last_run(database, node)
    return runs.attempts(database, [run.id])[run.id]


def told(database: Database, node: Node) -> list[tuple[Any, ...]]:
    """Return the newest run's attempts in short: (step, attempt, state, outcome)."""
    return [
        (f"{a.interface}.{a.step}", a.attempt, a.state, a.outcome) for a in attempts(database, node)
    ]


def outcomes(database: Database, node: Node) -> list[tuple[str, int, str | None]]:
    """Return (step, attempt, outcome) of the newest run, prepare left out."""
    return [(a.step, a.attempt, a.outcome) for a in attempts(database, node) if a.position > 0]
