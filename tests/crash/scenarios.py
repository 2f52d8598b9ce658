"""What the crash matrix runs: nodes with steps of every kind, and what people do to them."""

from __future__ import annotations

import dataclasses
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

from deploysteps import exceptions, states
from deploysteps.db.models import Node, StepAttempt
from deploysteps.drivers import base
from tests import support
from tests.crash.stepwise import Stepwise, World, nothing_else, points


class Journal:
    """What really happened, out of the database's reach: a file that is appended to."""

    path = Path(os.devnull)
    fatal = ""
    """A step whose code kills the process."""

    def note(self, what: str, step: str) -> None:
        """Append one line, in one write, and pass a point of the process."""
        points()
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, f"{what} {step}\n".encode())
        finally:
            os.close(file)
        if step == self.fatal:
            os.kill(os.getpid(), signal.SIGKILL)
        points()

    def lines(self) -> list[tuple[str, str]]:
        """Return (what, step) of each line."""
        if not self.path.exists():
            return []
        pairs = (line.split(" ", 1) for line in self.path.read_text().splitlines())
        return [(what, step) for what, step in pairs]

    def count(self, what: str, step: str) -> int:
        """Return how often this was noted."""
        return self.lines().count((what, step))

    def runs(self) -> list[str]:
        """Return the steps whose code did its work, in order."""
        return [step for what, step in self.lines() if what == "run"]


journal = Journal()


class Deploy(support.Deploy):
    """No steps; tells that it prepared and tidied up."""

    def get_deploy_steps(self, task: Any) -> list[dict[str, Any]]:
        return []

    def prepare(self, task: Any) -> None:
        journal.note("run", "prepare")

    def clean_up(self, task: Any) -> None:
        journal.note("clean", "up")

    def tear_down(self, task: Any) -> None:
        journal.note("tear", "down")


class Kinds(support.Vendor):
    """A method for each kind of step; the classes below declare them."""

    def _sync(self, task, name):
        journal.note("run", name)

    def _agent(self, task, name):
        journal.note("run", name)
        return states.DEPLOYWAIT

    def _polled(self, task, name):
        journal.note("run", name)
        return states.wait(states.DEPLOYWAIT, poll=0)

    def _unready(self, task, name, after):
        """Ask once to be entered again; the work is done after that."""
        if journal.count("enter", name) == 0:
            journal.note("enter", name)
            raise exceptions.StepNotReady("not yet", after=after)
        journal.note("run", name)

    def _failing_once(self, task, name):
        journal.note("run", name)
        if journal.count("run", name) == 1:
            raise exceptions.DeployStepFailed("the first time it fails")

    def check_step(self, task, step):
        journal.note("check", step["step"])
        done = journal.count("check", step["step"]) > 1
        return states.StepStatus.DONE if done else states.StepStatus.RUNNING


class Safe(Kinds):
    """Steps that may be run again."""

    @base.deploy_step(priority=90, repeatable=True)
    def sync(self, task):
        return self._sync(task, "sync")

    @base.deploy_step(priority=80, repeatable=True)
    def agent(self, task):
        return self._agent(task, "agent")

    @base.deploy_step(priority=70, repeatable=True)
    def polled(self, task):
        return self._polled(task, "polled")

    @base.deploy_step(priority=60, repeatable=True, retries=1, retry_delay=0.001)
    def retried(self, task):
        return self._failing_once(task, "retried")

    @base.deploy_step(priority=50, repeatable=True, retries=1)
    def retried_at_once(self, task):
        return self._failing_once(task, "retried_at_once")

    @base.deploy_step(priority=40, repeatable=True)
    def unready(self, task):
        return self._unready(task, "unready", after=0)

    @base.deploy_step(priority=30, repeatable=True)
    def unready_agent(self, task):
        return self._unready(task, "unready_agent", after=None)

    @base.deploy_step(priority=20, repeatable=True)
    def grows(self, task):
        """Lengthen the plan in flight, once."""
        self._sync(task, "grows")
        plan = task.node.driver_internal_info["deploy_steps"]
        if all(entry["step"] != "grown" for entry in plan):
            here = [entry["step"] for entry in plan].index("grows")
            entry = {**plan[here], "id": "grown", "step": "grown"}
            task.node.driver_internal_info["deploy_steps"] = [
                *plan[: here + 1],
                entry,
                *plan[here + 1 :],
            ]
            task.node.save()

    @base.deploy_step(priority=0, repeatable=True)
    def grown(self, task):
        return self._sync(task, "grown")

    @base.deploy_step(priority=10, repeatable=True)
    def last(self, task):
        return self._sync(task, "last")


class Once(Kinds):
    """Steps that must not be run twice."""

    @base.deploy_step(priority=90)
    def sync(self, task):
        task.node.set_driver_internal_info("mark", {"nested": ["sync"]})
        return self._sync(task, "sync")

    @base.deploy_step(priority=80)
    def agent(self, task):
        return self._agent(task, "agent")

    @base.deploy_step(priority=75)
    def agent_again(self, task):
        return self._agent(task, "agent_again")

    @base.deploy_step(priority=70)
    def polled(self, task):
        return self._polled(task, "polled")

    @base.deploy_step(priority=60)
    def unready(self, task):
        return self._unready(task, "unready", after=0)

    @base.deploy_step(priority=50, repeatable=True)
    def safe(self, task):
        return self._sync(task, "safe")

    @base.deploy_step(priority=10)
    def last(self, task):
        return self._agent(task, "last")


class Failing(Kinds):
    """The second step fails for good."""

    @base.deploy_step(priority=90)
    def first(self, task):
        return self._sync(task, "first")

    @base.deploy_step(priority=80, repeatable=True, retries=1)
    def broken(self, task):
        journal.note("run", "broken")
        raise exceptions.DeployStepFailed("it is broken")

    @base.deploy_step(priority=70)
    def never(self, task):
        return self._sync(task, "never")


class Waiting(Kinds):
    """Two waits, for what may happen to a node that waits."""

    @base.deploy_step(priority=90)
    def first(self, task):
        return self._agent(task, "first")

    @base.deploy_step(priority=80)
    def second(self, task):
        return self._agent(task, "second")


class Impatient(Waiting):
    """The second wait is over as soon as it is looked at."""

    @base.deploy_step(priority=80, timeout=0.001)
    def second(self, task):
        return self._agent(task, "second")


class Stopping(Kinds):
    """A conductor that is told to stop while a step runs."""

    @base.deploy_step(priority=90)
    def first(self, task):
        self._sync(task, "first")
        if journal.count("stop", "asked") == 0:
            journal.note("stop", "asked")
            task.runtime.stopping.set()

    @base.deploy_step(priority=80)
    def second(self, task):
        return self._sync(task, "second")


class Aborted(Kinds):
    """A run whose end is asked for while a step's code runs, and while one waits."""

    @base.deploy_step(priority=90)
    def first(self, task):
        return self._agent(task, "first")

    @base.deploy_step(priority=80)
    def second(self, task):
        self._sync(task, "second")
        if task.node.extra.get("abort") == "running":
            _operator_aborts(task.runtime, task.node)

    @base.deploy_step(priority=70)
    def third(self, task):
        return self._agent(task, "third")


def _operator_aborts(runtime: Any, node: Any) -> None:
    from deploysteps.conductor.manager import ConductorManager

    ConductorManager(runtime).do_provisioning_action(None, node.uuid, states.ABORT)
    journal.note("abort", "asked")


@dataclasses.dataclass(frozen=True)
class Scenario:
    """One story. It is told until it ends, then until each of its points."""

    name: str
    vendor: type[Kinds]
    begin: Callable[[Stepwise, Node], None]
    """What someone asks for; asked again when a crash lost the question."""
    goal: str = states.ACTIVE
    """The state it ends in when nothing is lost."""
    world: World = nothing_else
    at: str = states.AVAILABLE
    """The state that the node has before."""
    values: dict[str, Any] = dataclasses.field(default_factory=dict)
    steps: bool = True
    """Whether it is a run of steps, whose history has to be complete."""


def deploy(conductor: Stepwise, node: Node) -> None:
    conductor.manager.do_node_deploy(None, node.uuid)


def tear_down(conductor: Stepwise, node: Node) -> None:
    conductor.manager.do_node_tear_down(None, node.uuid)


def manage(conductor: Stepwise, node: Node) -> None:
    conductor.manager.do_provisioning_action(None, node.uuid, states.MANAGE)


def power_off(conductor: Stepwise, node: Node) -> None:
    conductor.manager.change_node_power_state(None, node.uuid, states.POWER_OFF)


def _aborts_third(conductor: Stepwise, node: Node, attempt: StepAttempt) -> bool:
    """Abort the third step's wait; the agent is silent by then."""
    if attempt.step != "third":
        return False
    if attempt.signal != "abort":
        _operator_aborts(conductor.runtime, node)
    conductor.sweeper.sweep()
    return True


def _silent_second(conductor: Stepwise, node: Node, attempt: StepAttempt) -> bool:
    """Let the second step's wait time out."""
    if attempt.step != "second":
        return False
    conductor.sweeper.sweep()
    return True


def _undeploys_second(conductor: Stepwise, node: Node, attempt: StepAttempt) -> bool:
    if attempt.step != "second":
        return False
    tear_down(conductor, node)
    return True


def _told(conductor: Stepwise, node: Node, attempt: StepAttempt) -> bool:
    """Complete the first wait by a callback and fail the second."""
    from deploysteps.conductor import task_manager

    if attempt.signal is None:
        with task_manager.acquire(None, node.uuid, shared=True, runtime=conductor.runtime) as task:
            if attempt.step == "first":
                task.complete_step()
            else:
                task.fail_step("the callback said so")
    conductor.sweeper.sweep()
    return True


SCENARIOS: dict[str, Scenario] = {
    found.name: found
    for found in (
        Scenario("repeatable", Safe, deploy),
        Scenario("once", Once, deploy),
        Scenario("failing", Failing, deploy, states.DEPLOYFAIL),
        Scenario("stopping", Stopping, deploy),
        Scenario(
            "aborted-running",
            Aborted,
            deploy,
            states.DEPLOYFAIL,
            values={"extra": {"abort": "running"}},
        ),
        Scenario("aborted-waiting", Aborted, deploy, states.DEPLOYFAIL, _aborts_third),
        Scenario("timed-out", Impatient, deploy, states.DEPLOYFAIL, _silent_second),
        Scenario("told", Waiting, deploy, states.DEPLOYFAIL, _told),
        Scenario("undeployed-waiting", Waiting, deploy, states.AVAILABLE, _undeploys_second),
        Scenario("undeployed", Waiting, tear_down, states.AVAILABLE, at=states.ACTIVE, steps=False),
        Scenario("managed", Waiting, manage, states.MANAGEABLE, at=states.ENROLL, steps=False),
        Scenario("powered", Waiting, power_off, states.ACTIVE, at=states.ACTIVE, steps=False),
    )
}
