"""Fixtures: settings of the agent for a test, and a node whose machine runs a fake one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deploysteps import states
from deploysteps.conf import CONF
from deploysteps.db import nodes
from deploysteps.db.models import Node
from deploysteps.drivers.agent.deploy import CustomAgentDeploy
from deploysteps.drivers.agent.stepping import AgentSteps
from tests import support
from tests.agent.fake_agent import FakeAgent, step

WAITING = {"deploy": states.DEPLOYWAIT, "clean": states.CLEANWAIT, "service": states.SERVICEWAIT}


@pytest.fixture(autouse=True)
def settings() -> Iterator[Callable[..., None]]:
    """Change options of ``[agent]`` for one test."""
    changed: list[str] = []

    def change(**options: Any) -> None:
        for name, value in options.items():
            CONF.set_override(name, value, group="agent")
            changed.append(name)

    change(require_tls=False, post_deploy_get_power_state_retry_interval=0.05)
    yield change
    for name in set(changed):
        CONF.clear_override(name, group="agent")


class Machine:
    """A node, its conductor, and the agent of its machine."""

    def __init__(self, start: Any, database: Any, agent: FakeAgent, **classes: Any) -> None:
        classes.setdefault("deploy", CustomAgentDeploy)
        self.classes = classes
        self.start, self.database, self.agent = start, database, agent
        self.service = start(database, **classes)
        self.uuid = ""

    def enrol(self, **values: Any) -> Node:
        node = support.enrolled(self.service, **values)
        self.uuid = node.uuid
        return node

    def deploy(self, steps: Any = None, **values: Any) -> None:
        """Begin a deployment; it waits for the agent."""
        if not self.uuid:
            self.enrol(**values)
        self.service.manager.do_node_deploy(None, self.uuid, deploy_steps=steps)
        self.settle(states.DEPLOYWAIT)

    def boot(self, **more: Any) -> None:
        """The agent boots: it looks itself up and beats."""
        self.agent.reboot(support.token(self.service, self.node))
        self.beat(**more)

    def beat(self, token: str | None = None, **more: Any) -> None:
        if self.agent.pem:
            more.setdefault("agent_verify_ca", self.agent.pem)
        more.setdefault("callback_url", self.agent.url)
        support.beat(self.service, self.node, token or self.agent.token, **more)

    def run(self, steps: Any = None, *, ends: str = states.ACTIVE, **values: Any) -> Node:
        """Deploy to the end."""
        self.deploy(steps, **values)
        self.boot()
        return self.settle(ends)

    def settle(self, *wanted: str, **more: Any) -> Node:
        return support.settle(self.database, self.uuid, *wanted, **more)

    def until_step(self, name: str, flow: str = "deploy") -> Node:
        """Wait until the current step is this one, waits, and nobody is at work."""

        def there() -> Any:
            node = self.node
            at = getattr(node, f"{flow}_step") or {}
            waits = node.provision_state == WAITING[flow] and node.reservation is None
            return node if at.get("step") == name and waits else None

        found: Node = support.until(there)
        return found

    @property
    def node(self) -> Node:
        return nodes.get(self.database, self.uuid)

    def outcomes(self) -> list[tuple[str, int, str | None]]:
        return support.outcomes(self.database, self.node)

    def ran(self) -> list[str]:
        """Names of the steps that ended well, in order."""
        return [name for name, _, outcome in self.outcomes() if outcome == "success"]

    def evidence(self, name: str) -> dict[str, Any]:
        found = support.attempts(self.database, self.node)
        return dict(next(a.evidence or {} for a in reversed(found) if a.step == name))


@pytest.fixture
def machine(start: Any, sqlite: Any) -> Iterator[Callable[..., Machine]]:
    """Make a machine: ``machine(step("peer_mark", 50), tls=True)``."""
    made: list[FakeAgent] = []

    def make(*steps: Any, tls: bool = False, **classes: Any) -> Machine:
        agent = FakeAgent(*(steps or (step("mark", 50),)), tls=tls)
        made.append(agent)
        agent.__enter__()
        return Machine(start, sqlite, agent, **classes)

    yield make
    for agent in made:
        agent.stop()


assert issubclass(CustomAgentDeploy, AgentSteps)
