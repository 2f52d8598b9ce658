"""Interfaces with steps of every kind, each a step of every flow that can have it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from deploysteps import exceptions, states
from deploysteps.drivers import base, fake, noop
from deploysteps.steps import FLOWS, INTERFACE_TYPES, flow_of_state
from tests import support
from tests.crash.journal import journal

Method = TypeVar("Method", bound=Callable[..., Any])

TOP = 100
"""Above every priority here. Servicing has them upside down: there the request's order counts."""


def step(
    priority: int, *, waits: bool = False, abortable: bool = True, **rules: Any
) -> Callable[[Method], Method]:
    """Declare a step of every flow; of one that waits, of every flow that can wait."""

    def mark(method: Method) -> Method:
        base.deploy_step(priority, abortable=abortable, **rules)(method)
        rest: dict[str, Any] = {"abortable": abortable, "requires_ramdisk": False, **rules}
        base.clean_step(priority, **rest)(method)
        base.service_step(priority and TOP - priority, **rest)(method)
        if not waits:
            kept = {name: rules[name] for name in ("repeatable", "retries") if name in rules}
            base.verify_step(priority, **kept)(method)
        return method

    return mark


# --- what surrounds the steps -----------------------------------------------------


class Deploy(support.Deploy):
    """No steps; tells that it prepared and tidied up."""

    def _prepared(self, task: Any, name: str) -> str | None:
        journal.note("run", name, task)
        return base.wait_state(task) if task.node.extra.get("prepare") == "waits" else None

    def prepare(self, task: Any) -> str | None:
        return self._prepared(task, "prepare")

    def prepare_cleaning(self, task: Any) -> str | None:
        return self._prepared(task, "prepare_cleaning")

    def prepare_service(self, task: Any) -> str | None:
        return self._prepared(task, "prepare_service")

    def clean_up(self, task: Any) -> None:
        journal.note("tidy", "clean_up", task)

    def tear_down_cleaning(self, task: Any) -> None:
        journal.note("tidy", "tear_down_cleaning", task)

    def tear_down_service(self, task: Any) -> None:
        journal.note("tidy", "tear_down_service", task)

    def tear_down(self, task: Any) -> None:
        journal.note("tear", "down", task)


def _no_steps(self: Any, task: Any) -> list[dict[str, Any]]:
    return []


for _flow in FLOWS.values():
    setattr(Deploy, _flow.collect, _no_steps)


class Power(fake.FakePower):
    """Tells that it verified."""

    def verify(self, task: Any) -> None:
        super().verify(task)
        journal.note("run", "verify", task)


class Management(fake.FakeManagement):
    """No steps."""

    def get_verify_steps(self, task: Any) -> list[dict[str, Any]]:
        return []


INTERFACES: dict[str, type[base.BaseInterface]] = {
    "deploy": Deploy,
    "power": Power,
    "management": Management,
}
"""What every story has beside the steps of its vendor interface."""


class TellingDeploy(Deploy):
    """An agent is to come, and tells its steps when it has."""

    def agent_steps(self, task: Any, flow: str) -> list[dict[str, Any]] | None:
        if "agent_url" not in task.node.driver_internal_info:
            return None
        offered = {"interface": "raid", "argsinfo": None, "abortable": True}
        return [
            {**offered, "step": "agents_own", "priority": 95},
            {**offered, "step": "agents_safe", "priority": 15, "repeatable": True},
        ]

    def _execute(self, flow: Any, task: Any, step: Any) -> Any:
        if not step.get("agent"):
            return super()._execute(flow, task, step)
        journal.note("run", step["step"], task)
        return base.wait_state(task)


class OldDeploy(noop.NoopDeploy):
    """Deploys by one method; what follows is done by the agent's beats."""

    def prepare(self, task: Any) -> None:
        journal.note("run", "prepare", task)

    def deploy(self, task: Any) -> str:
        journal.note("run", "deploy", task)
        return states.DEPLOYWAIT

    def deploy_has_started(self, task: Any) -> bool:
        return journal.count("old", "continue") > 0

    def continue_deploy(self, task: Any) -> None:
        task.process_event("resume")
        journal.note("old", "continue", task)
        task.process_event("wait")

    def deploy_is_done(self, task: Any) -> bool:
        return journal.count("old", "continue") > 0

    def reboot_to_instance(self, task: Any) -> None:
        task.process_event("resume")
        journal.note("old", "reboot", task)
        task.process_event("done")


OLD: dict[str, type[base.BaseInterface]] = {
    **{
        kind: getattr(noop, name)
        for kind in INTERFACE_TYPES
        for name in vars(noop)
        if name.lower() in (f"noop{kind}", f"no{kind}")
    },
    "deploy": OldDeploy,
}
"""Interfaces none of which declares a step."""


# --- steps ------------------------------------------------------------------------


class Kinds(support.Vendor):
    """A method for each kind of step; the classes below declare them."""

    def _sync(self, task, name):
        journal.note("run", name, task)

    def _agent(self, task, name):
        journal.note("run", name, task)
        return base.wait_state(task)

    def _polled(self, task, name):
        journal.note("run", name, task)
        return states.wait(base.wait_state(task), poll=0)

    def _unready(self, task, name, after):
        """Ask once to be entered again; the work is done after that."""
        if journal.count("enter", name, task) == 0:
            journal.note("enter", name, task)
            raise exceptions.StepNotReady("not yet", after=after)
        journal.note("run", name, task)

    def _failing_once(self, task, name):
        journal.note("run", name, task)
        if journal.count("run", name, task) == 1:
            self._fails(task, "the first time it fails")

    def _fails(self, task, why):
        raise flow_of_state(task.node.provision_state).error(why)

    def check_step(self, task, step):
        journal.note("check", step["step"], task)
        done = journal.count("check", step["step"], task) > 1
        return states.StepStatus.DONE if done else states.StepStatus.RUNNING


class Safe(Kinds):
    """Steps that may be run again."""

    @step(90, repeatable=True)
    def sync(self, task):
        return self._sync(task, "sync")

    @step(80, waits=True, repeatable=True)
    def agent(self, task):
        return self._agent(task, "agent")

    @step(70, waits=True, repeatable=True)
    def polled(self, task):
        return self._polled(task, "polled")

    @step(60, repeatable=True, retries=1, retry_delay=0.001)
    def retried(self, task):
        return self._failing_once(task, "retried")

    @step(50, repeatable=True, retries=1)
    def retried_at_once(self, task):
        return self._failing_once(task, "retried_at_once")

    @step(40, waits=True, repeatable=True)
    def unready(self, task):
        return self._unready(task, "unready", after=0)

    @step(30, waits=True, repeatable=True)
    def unready_agent(self, task):
        return self._unready(task, "unready_agent", after=None)

    @step(20, repeatable=True)
    def grows(self, task):
        """Lengthen the plan in flight, once."""
        self._sync(task, "grows")
        info, key = task.node.driver_internal_info, flow_of_state(task.node.provision_state)
        plan = info[key.list_field]
        if all(entry["step"] != "grown" for entry in plan):
            here = [entry["step"] for entry in plan].index("grows")
            entry = {**plan[here], "id": "grown", "step": "grown"}
            info[key.list_field] = [*plan[: here + 1], entry, *plan[here + 1 :]]
            task.node.save()

    @step(0, repeatable=True)
    def grown(self, task):
        return self._sync(task, "grown")

    @step(10, repeatable=True)
    def last(self, task):
        return self._sync(task, "last")


class Once(Kinds):
    """Steps that must not be run twice."""

    @step(90)
    def sync(self, task):
        task.node.set_driver_internal_info("mark", {"nested": ["sync"]})
        return self._sync(task, "sync")

    @step(80, waits=True)
    def agent(self, task):
        return self._agent(task, "agent")

    @step(75, waits=True)
    def agent_again(self, task):
        return self._agent(task, "agent_again")

    @step(70, waits=True)
    def polled(self, task):
        return self._polled(task, "polled")

    @step(60, waits=True)
    def unready(self, task):
        return self._unready(task, "unready", after=0)

    @step(50, repeatable=True)
    def safe(self, task):
        return self._sync(task, "safe")

    @step(10, waits=True)
    def last(self, task):
        return self._agent(task, "last")


class Failing(Kinds):
    """The second step fails for good."""

    @step(90)
    def first(self, task):
        return self._sync(task, "first")

    @step(80, repeatable=True, retries=1)
    def broken(self, task):
        journal.note("run", "broken", task)
        self._fails(task, "it is broken")

    @step(70)
    def never(self, task):
        return self._sync(task, "never")


class Mended(Kinds):
    """The second step fails until somebody has asked to go on."""

    @step(90)
    def first(self, task):
        return self._sync(task, "first")

    @step(80, waits=True)
    def broken(self, task):
        journal.note("run", "broken", task)
        if journal.count("again", "asked") == 0:
            self._fails(task, "it is broken")
        return base.wait_state(task)

    @step(70)
    def after(self, task):
        return self._sync(task, "after")


class Waiting(Kinds):
    """Two waits, for what may happen to a node that waits."""

    @step(90, waits=True)
    def first(self, task):
        return self._agent(task, "first")

    @step(80, waits=True)
    def second(self, task):
        return self._agent(task, "second")


class Impatient(Waiting):
    """The second wait is over as soon as it is looked at."""

    @step(80, waits=True, timeout=0.001)
    def second(self, task):
        return self._agent(task, "second")


class Stopping(Kinds):
    """A conductor that is told to stop while a step runs."""

    @step(90)
    def first(self, task):
        self._sync(task, "first")
        if journal.count("stop", "asked") == 0:
            journal.note("stop", "asked")
            task.runtime.stopping.set()

    @step(80)
    def second(self, task):
        return self._sync(task, "second")


class Aborted(Kinds):
    """A run whose end is asked for while a step's code runs, and while one waits."""

    @step(90, waits=True)
    def first(self, task):
        return self._agent(task, "first")

    @step(80)
    def second(self, task):
        self._sync(task, "second")
        if task.node.extra.get("abort") == "running":
            operator_aborts(task.runtime, task.node)

    @step(70, waits=True)
    def third(self, task):
        return self._agent(task, "third")


class Rebooting(Kinds):
    """The second wait is for a machine that boots."""

    @step(90, waits=True)
    def first(self, task):
        return self._agent(task, "first")

    @step(80, waits=True)
    def reboots(self, task):
        journal.path.with_suffix(".token").write_text(task.node.agent_secret_token or "none")
        journal.note("run", "reboots", task)
        return states.wait(base.wait_state(task), reboot=True)

    @step(70, waits=True, repeatable=True)
    def last(self, task):
        return self._agent(task, "last")


class Alone(Kinds):
    """One step; the others of its story are reserved ones."""

    @step(90)
    def first(self, task):
        return self._sync(task, "first")


def operator_aborts(runtime: Any, node: Any) -> None:
    """Abort the node's run as an operator does."""
    from deploysteps.conductor.manager import ConductorManager

    ConductorManager(runtime).do_provisioning_action(None, node.uuid, states.ABORT)
    journal.note("abort", "asked")
