"""A process is killed at every point of a deployment by the machine's agent, which lives on.

What the agent executes goes on and is found again; nothing is executed twice that did not
say it may be (F34, F54; promise 10).
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from deploysteps import states
from deploysteps.conf import CONF
from deploysteps.db import nodes, runs
from deploysteps.db.models import Node, StepAttempt
from deploysteps.drivers.agent.deploy import CustomAgentDeploy
from tests import support
from tests.agent.fake_agent import Command, FakeAgent, step
from tests.crash import checks, drivers
from tests.crash.deeds import INTERFACES, Deed
from tests.crash.journal import journal
from tests.crash.stepwise import Stepwise, drive


class Agent(FakeAgent):
    """An agent in the process that forks; the token of its boot is in a file beside the journal."""

    _booted = ""

    @property
    def token(self) -> str:
        """The token that the machine was booted with last."""
        file = journal.path.with_suffix(".token")
        now = file.read_text() if file.exists() else ""
        if now != self._booted:
            self._booted, self.commands = now, []
        return now

    @token.setter
    def token(self, token: str) -> None:
        """It is in the file."""


def _executes(name: str, seconds: float) -> None:
    def begin(command: Command) -> None:
        journal.note("run", name)
        command.ends_at = time.time() + seconds

    AGENT[0].on[name] = begin


AGENT: list[Agent] = []
ONCE = ("mark", "renews")
"""Steps that may not be executed twice."""


@pytest.fixture
def agent() -> Iterator[Agent]:
    options = {
        "require_tls": False,
        "post_deploy_get_power_state_retry_interval": 0.05,
        "post_deploy_get_power_state_retries": 1,
        "command_poll_first": 0.01,
    }
    for name, value in options.items():
        CONF.set_override(name, value, group="agent")
    offered = (
        step("mark", 50),
        step("safe", 49, repeatable=True),
        step("renews", 48, reboot_requested=True),
    )
    with Agent(*offered) as found:
        AGENT[:] = [found]
        for name in ("mark", "safe", "renews"):
            _executes(name, 0.01)
        yield found
    for name in options:
        CONF.clear_override(name, group="agent")


def _machine(conductor: Stepwise, node: Node, attempt: StepAttempt) -> bool:
    """Boot the agent when the machine was booted; ask after its commands when that is due."""
    info = node.driver_internal_info
    if "agent_url" not in info:
        token = node.agent_secret_token or conductor.manager.lookup(None, [], node.uuid)[1]
        journal.path.with_suffix(".token").write_text(token)
        conductor.manager.heartbeat(
            None, node.uuid, AGENT[0].url, agent_version="1", agent_token=token
        )
    conductor.sweeper.sweep()
    time.sleep(0.002)
    return True


def _forgets(conductor: Stepwise, node: Node) -> None:
    journal.path.with_suffix(".token").unlink(missing_ok=True)


def _deploys(conductor: Stepwise, node: Node) -> None:
    conductor.manager.do_node_deploy(None, node.uuid)
    drive(conductor, conductor.database, node.uuid, _machine)


def _went_on(conductor: Stepwise, node: Node) -> None:
    """It ends well, or failed at a step that was cut off and that the agent had not begun."""
    database = conductor.database
    if nodes.get(database, node.id).provision_state == states.AVAILABLE:
        _deploys(conductor, node)
    now = drive(conductor, database, node.uuid, _machine)
    last = support.last_run(database, now)
    executed = [name for what, name in journal.lines() if what == "run"]
    for name in ONCE:
        assert executed.count(name) <= 1, executed
    assert list(dict.fromkeys(executed)) == ["mark", "safe", "renews"][: len(set(executed))]
    if now.provision_state != states.ACTIVE:
        assert now.provision_state == states.DEPLOYFAIL
        cut_off = runs.last_attempt(database, last.id)
        assert cut_off is not None and cut_off.step in ("prepare", *ONCE), now.last_error
        assert cut_off.step not in executed, f"the agent had begun it: {now.last_error}"
        assert "lost" in (now.last_error or "")
    else:
        assert len(set(executed)) == 3
    checks.nothing_is_left(now, last)
    checks.history_is_complete(database, now, last)
    checks.each_end_is_told(database, now)
    checks.events_agree(database, now)


DEED = Deed(
    "agent's steps",
    states.AVAILABLE,
    _deploys,
    _went_on,
    _forgets,
    classes={**INTERFACES, "deploy": CustomAgentDeploy},
    vendor=drivers.Kinds,
    every=37,
)


@pytest.mark.crash
@pytest.mark.timeout(900)
def test_what_the_agent_does_is_found_again_wherever_the_conductor_is_killed(
    agent, telling, kind, tried
):
    """F34, F54: killed between every two statements, while the agent goes on."""
    found = telling(DEED)
    every = 9 if kind == "sqlite" else DEED.every
    tried(found.told(every), of="an agent's steps, in turn", on=kind)
