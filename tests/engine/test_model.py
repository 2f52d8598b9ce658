"""A node driven at random: verbs, agents, callbacks, polls, clocks and crashes, against a model.

The model knows what a run of given steps does: which one waits for whom, and
where the run ends. As long as no conductor dies, the node has to be exactly
where the model is. After a crash anything that the invariants allow may be
so; the model looks at where the node is and goes on from there.

``DEPLOYSTEPS_MODEL_EXAMPLES`` is how many lives are tried; with it they are
other ones each time.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa
from hypothesis import HealthCheck, Verbosity, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from deploysteps import exceptions, states
from deploysteps.conductor.task_manager import acquire
from deploysteps.db import conductors, nodes, runs, types
from deploysteps.db.engine import Database
from deploysteps.db.models import Node, StepAttempt, table
from deploysteps.drivers import base
from deploysteps.states import Kind
from deploysteps.steps import CLEAN, DEPLOY, FLOWS, SERVICE, VERIFY, StepFlow, flow_of_state
from tests import support
from tests.conftest import emptied
from tests.engine import mortal
from tests.engine.mortal import Died, Mortal, World, is_path

EXAMPLES = os.environ.get("DEPLOYSTEPS_MODEL_EXAMPLES")
HOSTS = ("conductor-1", "conductor-2")
SILENCE, LIMIT, PAUSE = 1800.0, 21_600.0, 30.0
"""Default settings, and the seconds that pauses of the steps here take."""

WAITS = {
    "agent": "agent",
    "reboots": "agent",
    "stubborn": "agent",
    "unready_agent": "agent",
    "polled": "poller",
    "called": "callback",
    "unready": "timer",
    "wait": "timer",
    "hold": "operator",
}
"""Step -> who ends its wait."""
REENTERED = {"unready", "unready_agent"}
REPEATABLE = {"safe", "flaky"}
RESERVED = {"wait", "hold"}
NAMES = ("sync", "safe", "fails", "flaky", *WAITS)


# --- what the node is made of -----------------------------------------------------------


def each(**rules: Any) -> Callable[[Any], Any]:
    def mark(method: Any) -> Any:
        base.deploy_step(0, **rules)(method)
        base.clean_step(0, **{"abortable": True, **rules})(method)
        base.service_step(0, **{"abortable": True, **rules})(method)
        return method

    return mark


class Vendor(support.Vendor):
    """Steps of every kind; each tells the journal that it ran."""

    journal: Journal

    def get_clean_steps(self, task):
        wanted = list(self.journal.automatic)
        found = [s for s in super().get_clean_steps(task) if s["step"] in wanted]
        for one in found:
            one["priority"] = 90 - wanted.index(one["step"])
        return [*found, *(s for s in super().get_clean_steps(task) if s["step"] not in wanted)]

    @each()
    def sync(self, task):
        self.journal.note(task, "sync")

    @each(repeatable=True)
    def safe(self, task):
        self.journal.note(task, "safe")

    @each()
    def fails(self, task):
        self.journal.note(task, "fails")
        raise RuntimeError("it fails")

    @each(repeatable=True, retries=1, retry_delay=PAUSE)
    def flaky(self, task):
        self.journal.note(task, "flaky")
        if self.journal.count(task, "flaky") == 1:
            raise RuntimeError("the first time it fails")

    @each()
    def agent(self, task):
        self.journal.note(task, "agent")
        return base.wait_state(task)

    @each()
    def reboots(self, task):
        self.journal.note(task, "reboots")
        return states.wait(base.wait_state(task), reboot=True)

    @each(abortable=False)
    def stubborn(self, task):
        self.journal.note(task, "stubborn")
        return base.wait_state(task)

    @each()
    def polled(self, task):
        self.journal.note(task, "polled")
        return states.wait(base.wait_state(task), poll=PAUSE, at_most=PAUSE)

    @each()
    def called(self, task):
        self.journal.note(task, "called")
        return states.wait(base.wait_state(task), callback=True)

    @each()
    def unready(self, task):
        self.journal.note(task, "unready")
        if self.journal.count(task, "unready") == 1:
            raise exceptions.StepNotReady("not yet", after=PAUSE)

    @each()
    def unready_agent(self, task):
        self.journal.note(task, "unready_agent")
        if self.journal.count(task, "unready_agent") == 1:
            raise exceptions.StepNotReady("not yet")

    @base.verify_step(priority=5)
    def looks(self, task):
        self.journal.note(task, "looks")
        if self.journal.broken:
            raise exceptions.VerifyStepFailed("it looks wrong")

    def check_step(self, task, step):
        self.journal.world.of(task).point()
        if step["step"] != "polled":
            return states.StepStatus.DONE
        if self.journal.machine == "fails":
            raise RuntimeError("the job failed")
        if self.journal.machine == "runs":
            return states.StepStatus.RUNNING
        self.journal.granted.add((task.node.run_id, step["step"]))
        return states.StepStatus.DONE


class Deploy(support.Deploy):
    """No steps of its own."""

    journal: Journal

    def get_deploy_steps(self, task):
        return []

    def get_clean_steps(self, task):
        return []

    def tear_down(self, task):
        self.journal.world.of(task).point()
        if self.journal.broken:
            raise RuntimeError("it cannot be torn down")


class Journal:
    """Which steps ran, whether each might, and what the machine is like."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.automatic: list[str] = []
        """Steps of automated cleaning."""
        self.asked: dict[str, tuple[list[str], int]] = {}
        """Flow -> the steps of its next or latest run, and where it begins."""
        self.programs: dict[int, tuple[list[str], int]] = {}
        self.ran: list[tuple[int, str, int]] = []
        self.granted: set[tuple[int | None, str]] = set()
        """(run, step) of waits that somebody has ended who may."""
        self.broken = False
        self.machine = "runs"
        self.wrong: list[str] = []

    def count(self, task: Any, name: str) -> int:
        return sum(run == task.node.run_id and step == name for run, step, _ in self.ran)

    def note(self, task: Any, name: str) -> None:
        """Tell that a step's code runs, between two points to die at."""
        life = self.world.of(task)
        life.point()
        run_id, number = task.node.run_id, task.attempt.attempt
        flow = flow_of_state(task.node.provision_state)
        steps, begin = self.programs.setdefault(run_id, self.asked[flow.name])
        problem = self._problem(run_id, name, number, steps, begin)
        if problem:
            self.wrong.append(f"{flow.name} {steps} from {begin}: {problem}; ran {self.ran}")
        self.ran.append((run_id, name, number))
        life.point()

    def _problem(
        self, run_id: int, name: str, number: int, steps: list[str], begin: int
    ) -> str | None:
        place = steps.index(name)
        mine = [(step, tries) for run, step, tries in self.ran if run == run_id]
        if mine and mine[-1][0] == name:
            if number == mine[-1][1]:
                entered = name in REENTERED and (run_id, name) in self.granted
                return None if entered else f"{name} was entered again"
            return None if name in REPEATABLE else f"{name} ran twice"
        last = steps.index(mine[-1][0]) if mine else begin - 1
        between = steps[last + 1 : place]
        if place <= last or any(step not in RESERVED for step in between):
            return f"{name} ran out of order"
        for step in (*([steps[last]] if mine else ()), *between):
            if step in WAITS and step not in REENTERED and (run_id, step) not in self.granted:
                return f"{name} ran while {step} waited"
        return None


# --- the model ------------------------------------------------------------------------------


@dataclasses.dataclass
class Run:
    """A run, as the model thinks of it."""

    flow: StepFlow
    target: str
    """Where it ends when all goes well."""
    steps: list[str]
    at: int
    owner: str | None = None
    """Who ends the wait of the current step."""
    reenter: bool = False
    """The step is entered again then."""
    since: float = 0.0
    due: float = 0.0
    """When somebody looks at it, where a clock is asked."""
    heard: float = 0.0
    pending: str | None = None
    """What somebody has said of the wait, and nobody has looked at yet."""
    aborting: bool = False
    entered: bool = False
    """The current step has been entered before."""
    retry: bool = False

    @property
    def step(self) -> str:
        return self.steps[self.at]


class All:
    """Every rule is on."""

    def is_enabled(self, name: str) -> bool:
        return True


class Life(RuleBasedStateMachine):
    """One node and whoever does something to it."""

    world: World

    def __init__(self) -> None:
        super().__init__()
        # Of rules that exclude each other by the state, a subset does little: take all, always.
        vars(self._rules_strategy)["enabled_rules_strategy"] = st.just(All())
        world = self.world
        world.end()
        emptied(world.database)
        world.changes.clear()
        world.observe()
        self.journal = Vendor.journal = Deploy.journal = Journal(world)
        self.node = nodes.insert(
            world.database, {"driver": "test-hardware", "provision_state": states.ENROLL}
        )
        world.observe()
        self.state: str = states.ENROLL
        self.run: Run | None = None
        self.failed: tuple[StepFlow, list[str], int, int | None] | None = None
        """The run that failed last: its flow and steps, where `at` begins, where `after` does."""
        self.aborted = False
        """Whether the last run was aborted, and the node is where that left it."""
        self.maintenance, self.fault = False, None
        self.token: str | None = None
        self.old_token: str | None = None
        self.token_at: Any = None
        self.sure = True
        """Whether the model knows where the node is: no conductor has died since it looked."""
        self.odd = False
        """Whether requests are made that make no sense."""
        world.conductor(HOSTS[0])

    # --- looking ---

    def row(self) -> Node:
        return nodes.get(self.world.database, self.node.uuid)

    def attempt(self) -> StepAttempt | None:
        run_id = self.row().run_id
        return runs.last_attempt(self.world.database, run_id) if run_id is not None else None

    def living(self) -> list[Mortal]:
        return [life for life in self.world.lives.values() if not life.dead]

    def one(self, first: bool) -> Mortal:
        return self.living()[0 if first else -1]

    def do(self, life: Mortal, call: Callable[[], Any]) -> exceptions.DeployStepsException | None:
        """Do something by a conductor, and return how it was refused, if it was."""
        try:
            call()
        except exceptions.DeployStepsException as exc:
            assert life.dead or exc.code < 500, repr(exc)
            return exc
        except Died:
            assert life.dead
        finally:
            self.odd = False
            if life.dead:
                self.sure = False
        return None

    def expect(self, refused: Exception | None, legal: bool, what: str) -> bool:
        """Compare an answer with the model's; True when the model is to follow."""
        if not self.sure:
            return False
        assert (refused is None) == legal, f"{what} in {self.state}: {refused!r}, legal: {legal}"
        return legal

    def asks(self, *events: str) -> bool:
        """Tell whether to ask for one of these: where it makes sense, and at odd moments."""
        return self.odd or any(states.may(self.state, event) for event in events)

    def is_to_be_aborted(self) -> bool:
        """Tell whether an abort would be the first one; every fourth node is aborted twice."""
        return self.run is not None and (not self.run.aborting or self.node.id % 4 == 0)

    # --- what the model does ---

    def begin(self, flow: StepFlow, target: str, steps: list[str], at: int = 0) -> None:
        self.aborted = False
        self.run = Run(flow, target, steps, at)
        self._steps(self.run)

    def _steps(self, run: Run) -> None:
        """Run steps until one waits, or the run ends."""
        while run.at < len(run.steps):
            if run.aborting:
                return self._end(run, run.flow.failed, aborted=True, done=run.at > 0)
            name = run.step
            if name == "fails" or (name == "looks" and self.journal.broken):
                return self._end(run, run.flow.failed)
            if name == "flaky" and not run.entered:
                return self._wait(run, "timer", retry=True)
            if name in WAITS and not (name in REENTERED and run.entered):
                return self._wait(run, WAITS[name])
            run.at, run.entered = run.at + 1, False
        if run.aborting:
            return self._end(run, run.flow.failed, aborted=True, done=True)
        return self._end(run, run.target)

    def _wait(self, run: Run, owner: str, retry: bool = False) -> None:
        run.owner, run.since, run.retry = owner, self.world.ahead, retry
        run.due = run.since + PAUSE
        run.reenter = retry or run.step in REENTERED
        run.entered, run.pending = True, None
        flow = run.flow
        self.state = str(flow.holding if owner == "operator" else flow.waiting)
        if run.step == "reboots":
            self._forget_token()

    def _end(self, run: Run, state: str, *, aborted: bool = False, done: bool = False) -> None:
        self.state, self.run, self.aborted = state, None, aborted
        if state == run.target:
            self.failed = None
        else:
            begin = run.at
            after = begin if done else begin + 1
            self.failed = (run.flow, run.steps, begin, after)
            if run.flow.fault and not aborted and not self.maintenance:
                self.maintenance, self.fault = True, run.flow.fault
        self._forget_token()

    def _forget_token(self) -> None:
        self.old_token, self.token = self.token or self.old_token, None

    def resume(self, run: Run) -> None:
        """The wait of the current step is over."""
        run.owner = run.pending = None
        if run.aborting:
            done = not run.reenter
            run.at += done
            return self._end(run, run.flow.failed, aborted=True, done=done)
        if not run.reenter:
            run.at, run.entered = run.at + 1, False
        return self._steps(run)

    def attend(self, run: Run) -> None:
        """A conductor looks at the wait."""
        now = self.world.ahead
        limited = run.owner in ("poller", "callback") or (
            run.owner == "timer" and run.step == "unready"
        )
        if run.pending == "abort":
            self._end(run, run.flow.failed, aborted=True)
        elif run.pending == "done":
            self.resume(run)
        elif run.pending == "fail" or (limited and now >= run.since + LIMIT):
            self._end(run, run.flow.failed)
        elif run.pending == "beat":
            self.resume(run)
        elif run.owner == "poller" and now >= run.due:
            if self.journal.machine == "fails":
                self._end(run, run.flow.failed)
            elif self.journal.machine == "done":
                self.resume(run)
            else:
                run.due = now + PAUSE
        elif run.owner == "timer" and now >= run.due:
            self.resume(run)
        elif run.owner == "agent" and now >= max(run.since, run.heard) + SILENCE:
            self._end(run, run.flow.failed)

    # --- verbs ---

    @initialize(
        state=st.sampled_from(
            [states.ENROLL, states.MANAGEABLE, states.AVAILABLE, states.AVAILABLE, states.ACTIVE]
        ),
        automatic=st.lists(st.sampled_from(sorted({*NAMES} - RESERVED)), unique=True, max_size=3),
    )
    def is_found(self, state: str, automatic: list[str]) -> None:
        """The node is in some state, and its driver has some clean steps."""
        with self.world.database.engine.begin() as connection:
            connection.execute(sa.update(table(Node)).values(provision_state=state))
        self.state, self.journal.automatic = state, automatic
        self.world.observe()
        self.world.changes.clear()

    def _steps_of(self, names: list[str]) -> list[dict[str, Any]]:
        made = []
        for place, name in enumerate(names):
            interface = "deploy" if name in RESERVED else "vendor"
            args = {"seconds": PAUSE} if name == "wait" else {}
            made.append(
                {"interface": interface, "step": name, "args": args, "priority": 90 - place}
            )
        return made

    someone = st.booleans()
    lists = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4, unique=True)

    def _asking(self, flow: StepFlow, names: list[str], begin: int = 0) -> None:
        self.journal.asked[flow.name] = (names, begin)

    @precondition(lambda self: self.living() and self.asks(states.DEPLOY, states.REBUILD))
    @rule(first=someone, names=lists, rebuild=st.booleans())
    def deploy(self, first: bool, names: list[str], rebuild: bool) -> None:
        life = self.one(first)
        event = states.REBUILD if rebuild else states.DEPLOY
        legal = states.can(self.state, event) and not self.maintenance
        before = self.journal.asked.get("deploy")
        self._asking(DEPLOY, names)
        steps = self._steps_of(names)
        refused = self.do(
            life,
            lambda: life.manager.do_node_deploy(
                None, self.node.uuid, rebuild=rebuild, deploy_steps=steps
            ),
        )
        if refused is not None and before is not None:
            self.journal.asked["deploy"] = before
        if self.expect(refused, legal, "deploy"):
            self.begin(DEPLOY, states.ACTIVE, names)

    @precondition(lambda self: self.living() and self.asks(states.CLEAN))
    @rule(first=someone, names=lists)
    def clean(self, first: bool, names: list[str]) -> None:
        life = self.one(first)
        legal = self.state == states.MANAGEABLE and not self.maintenance
        before = self.journal.asked.get("clean")
        self._asking(CLEAN, names)
        steps = [{k: v for k, v in one.items() if k != "priority"} for one in self._steps_of(names)]
        refused = self.do(life, lambda: life.manager.do_node_clean(None, self.node.uuid, steps))
        if refused is not None and before is not None:
            self.journal.asked["clean"] = before
        if self.expect(refused, legal, "clean"):
            self.begin(CLEAN, states.MANAGEABLE, names)

    @precondition(lambda self: self.living() and self.asks(states.SERVICE))
    @rule(first=someone, names=lists)
    def service(self, first: bool, names: list[str]) -> None:
        life = self.one(first)
        legal = self.state in (states.ACTIVE, states.SERVICEFAIL) and not self.maintenance
        before = self.journal.asked.get("service")
        self._asking(SERVICE, names)
        steps = [{k: v for k, v in one.items() if k != "priority"} for one in self._steps_of(names)]
        refused = self.do(life, lambda: life.manager.do_node_service(None, self.node.uuid, steps))
        if refused is not None and before is not None:
            self.journal.asked["service"] = before
        if self.expect(refused, legal, "service"):
            self.begin(SERVICE, states.ACTIVE, names)

    @precondition(lambda self: self.living() and self.asks(states.MANAGE, states.PROVIDE))
    @rule(first=someone, action=st.sampled_from(["manage", "provide"]))
    def action(self, first: bool, action: str) -> None:
        life = self.one(first)
        cleans = action == "provide"
        before = dict(self.journal.asked)
        if cleans:
            self._asking(CLEAN, self.journal.automatic)
        else:
            self._asking(VERIFY, ["looks"])
        refused = self.do(
            life, lambda: life.manager.do_provisioning_action(None, self.node.uuid, action)
        )
        if refused is not None:
            self.journal.asked = before
        if not self.expect(refused, states.can(self.state, action), action):
            return
        if cleans:
            self.begin(CLEAN, states.AVAILABLE, list(self.journal.automatic))
        elif self.state == states.ENROLL:
            self.begin(VERIFY, states.MANAGEABLE, ["looks"])
        else:
            self.state, self.aborted = states.MANAGEABLE, False

    @precondition(lambda self: self.living() and self.asks(states.DELETE))
    @rule(first=someone)
    def undeploy(self, first: bool) -> None:
        life = self.one(first)
        before = dict(self.journal.asked)
        self._asking(CLEAN, self.journal.automatic)
        refused = self.do(life, lambda: life.manager.do_node_tear_down(None, self.node.uuid))
        if refused is not None:
            self.journal.asked = before
        if not self.expect(refused, states.can(self.state, states.DELETE), "undeploy"):
            return
        self._forget_token()
        self.run, self.aborted = None, False
        if self.journal.broken:
            self.state = states.ERROR
        else:
            self.begin(CLEAN, states.AVAILABLE, list(self.journal.automatic))

    @precondition(lambda self: self.living() and (self.odd or self.failed is not None))
    @rule(first=someone, how=st.sampled_from(["at", "after"]))
    def go_on(self, first: bool, how: str) -> None:
        life = self.one(first)
        service = self.state in (states.ACTIVE, states.SERVICEFAIL)
        flow, manager = (SERVICE if service else DEPLOY), life.manager
        verb = manager.do_node_service if service else manager.do_node_deploy
        looked_at = service and self.fault == SERVICE.fault
        legal = (not self.maintenance or looked_at) and states.can(
            self.state, states.SERVICE if service else states.DEPLOY
        )
        place = 0
        if self.failed is None or self.failed[0] is not flow or not legal:
            legal = False
        else:
            _, _, begin, after = self.failed
            legal = how == "at" or after is not None
            place = begin if how == "at" or after is None else after
        before = dict(self.journal.asked)
        if self.failed is not None and legal:
            self._asking(flow, self.failed[1], place)
        elif not self.sure:
            return
        extra: dict[str, Any] = {"deploy_steps": None} if flow is DEPLOY else {}
        refused = self.do(life, lambda: verb(None, self.node.uuid, resume=how, **extra))
        if refused is not None:
            self.journal.asked = before
        if self.expect(refused, legal, f"resume {how}") and self.failed is not None:
            if looked_at:
                self.maintenance, self.fault = False, None
            self.begin(flow, states.ACTIVE, self.failed[1], place)

    def is_operators(self) -> bool:
        return self.maintenance and self.fault is None

    @precondition(lambda self: self.living() and (self.odd or self.is_to_be_aborted()))
    @rule(first=someone)
    def abort(self, first: bool) -> None:
        life = self.one(first)
        run = self.run
        refused = self.do(
            life, lambda: life.manager.do_provisioning_action(None, self.node.uuid, "abort")
        )
        known = run is not None or self.aborted
        if self.expect(refused, known, "abort") and run is not None:
            first_time, run.aborting = not run.aborting, True
            at_once = first_time and run.step != "stubborn"
            if (at_once or self.is_operators()) and run.pending in (None, "beat"):
                run.pending = "abort"

    @precondition(lambda self: self.living() and self.asks(states.UNHOLD))
    @rule(first=someone)
    def unhold(self, first: bool) -> None:
        life = self.one(first)
        attempt, run = self.attempt(), self.run
        refused = self.do(
            life, lambda: life.manager.do_provisioning_action(None, self.node.uuid, "unhold")
        )
        if attempt is not None and attempt.owner == "operator" and refused is None:
            self.journal.granted.add((attempt.run_id, attempt.step))
        if self.expect(refused, self.state in states.HOLD_STATES, "unhold") and run is not None:
            run.pending = run.pending or "done"

    @precondition(lambda self: self.living())
    @rule(
        maintenance=st.sampled_from([False, False, True]),
        broken=st.sampled_from([False, False, True]),
        machine=st.sampled_from(["runs", "done", "done", "fails"]),
        odd=st.booleans(),
    )
    def something_changes(self, maintenance: bool, broken: bool, machine: str, odd: bool) -> None:
        """Maintenance; a fault; what the machine was told to do; and a request that is odd."""
        self.journal.broken, self.journal.machine = broken, machine
        if maintenance != self.maintenance or (maintenance and self.fault):
            life = self.one(True)
            uuid = self.node.uuid
            self.do(life, lambda: life.manager.set_node_maintenance(None, uuid, maintenance))
            self.maintenance, self.fault = self.row().maintenance, None
        self.odd = odd

    # --- agents and callbacks ---

    def agent_boots(self, first: bool) -> None:
        life = self.one(first)
        given: list[str] = []
        refused = self.do(
            life, lambda: given.append(life.manager.lookup(None, [], self.node.uuid)[1])
        )
        self.expect(refused, states.STATES[self.state].agent, "lookup")
        known = self.row().agent_secret_token
        if given and given[0] == known:
            self.old_token, self.token = self.token or self.old_token, known
            self.token_at = types.utcnow()

    @precondition(lambda self: self.living() and (states.STATES[self.state].agent or self.odd))
    @rule(first=someone, which=st.sampled_from(["own", "own", "own", "own", "old", "wrong"]))
    def beat(self, first: bool, which: str) -> None:
        """The agent beats; it looks itself up first, where it has no token."""
        if which == "own" and self.token is None:
            self.agent_boots(first)
        if not self.living():
            return
        life, run = self.one(first), self.run
        node, attempt = self.row(), self.attempt()
        sent = {"own": self.token, "old": self.old_token, "wrong": "wrong"}[which]
        right = sent is not None and sent == node.agent_secret_token
        waits = (
            attempt is not None
            and attempt.state == runs.WAITING
            and attempt.owner == "agent"
            and node.reservation is None
        )
        if right and waits and attempt is not None:
            self.journal.granted.add((attempt.run_id, attempt.step))
            if attempt.step == "reboots":
                assert self.token_at > attempt.waiting_since, "an agent of the old boot is known"
        refused = self.do(
            life,
            lambda: life.manager.heartbeat(
                None, self.node.uuid, support.CALLBACK, agent_token=sent
            ),
        )
        if not self.expect(refused, right, f"a beat with the {which} token") or run is None:
            return
        run.heard = self.world.ahead
        if run.owner == "agent" and run.pending in (None, "beat"):
            run.pending = "beat"
            if attempt is not None and attempt.conductor == life.runtime.host:
                self.attend(run)

    @precondition(lambda self: self.living() and (self.run is not None or self.odd))
    @rule(first=someone, good=st.booleans(), times=st.integers(1, 2))
    def driver_calls_back(self, first: bool, good: bool, times: int) -> None:
        life, run = self.one(first), self.run
        attempt = self.attempt()
        may = (
            attempt is not None
            and attempt.state == runs.WAITING
            and attempt.owner not in ("timer", "operator")
        )
        if may and good and attempt is not None:
            self.journal.granted.add((attempt.run_id, attempt.step))

        def call() -> None:
            with acquire(None, self.node.uuid, shared=True, runtime=life.runtime) as task:
                for _ in range(times):
                    if good:
                        task.complete_step()
                    else:
                        task.fail_step("it went wrong")

        self.expect(self.do(life, call), True, "callback")
        told = run is not None and run.owner not in ("timer", "operator")
        if self.sure and told and run is not None and run.pending in (None, "beat"):
            run.pending = "done" if good else "fail"

    # --- time and conductors ---

    @precondition(lambda self: self.living() and (self.run is not None or not self.sure))
    @rule(seconds=st.sampled_from([0.0, 31.0, 31.0, 31.0, 31.0, 31.0, 2000.0, 25_000.0]))
    def time_passes(self, seconds: float) -> None:
        """Time passes, and the conductors that live look at what is due."""
        self.world.ahead += seconds
        for life in self.living():
            host, boot_id = life.runtime.host, life.runtime.boot_id
            conductors.touch(self.world.database, host, boot_id)
        for life in self.living():
            attempt = self.attempt()
            due = (
                attempt is not None
                and attempt.state == runs.WAITING
                and attempt.due_at is not None
                and attempt.due_at <= self.world.now()
            )
            if due and attempt is not None and attempt.owner == "timer":
                self.journal.granted.add((attempt.run_id, attempt.step))
            mine = attempt is not None and attempt.conductor == life.runtime.host
            run = self.run
            self.do(life, lambda life=life: life.sweeper.sweep())
            if self.sure and mine and run is not None and run is self.run:
                self.attend(run)

    @rule(
        what=st.sampled_from(["dies soon", "dies soon", "starts", "recovers"]),
        host=st.sampled_from(HOSTS),
        points=st.integers(0, 40),
    )
    def conductors_change(self, what: str, host: str, points: int) -> None:
        """One starts, or again; one will die; one looks for what others left, or is told to."""
        living = self.living()
        if what == "starts" or not living:
            self.starts(host)
        elif what == "dies soon":
            living[0].left = points
        elif self.row().reservation is not None and points % 2:
            life, uuid = living[-1], self.node.uuid
            self.do(life, lambda: life.manager.unlock_node(None, uuid, "it hangs"))
        else:
            life = living[-1]
            self.do(life, lambda: life.recovery.sweep())

    def starts(self, host: str) -> None:
        """Start a conductor: what one of its name was in the middle of is cut off."""
        before = self.world.lives.get(host)
        if before is not None:
            before.kill()
        self.world.lives[host] = life = Mortal(self.world, host)
        self.do(life, life.start)

    # --- what is true always ---

    @invariant()
    def the_table_is_kept_to(self) -> None:
        wrong = [change for change in self.world.changes if not is_path(change)]
        assert not wrong, wrong
        self.world.changes.clear()
        node = self.row()
        state = states.STATES[node.provision_state]
        assert node.target_provision_state in (state.target, *state.other_targets)

    @invariant()
    def steps_run_as_they_may(self) -> None:
        assert not self.journal.wrong, self.journal.wrong[0]

    @invariant()
    def one_attempt_at_a_time(self) -> None:
        node = self.row()
        all_runs = runs.of_node(self.world.database, node.id)
        tries = runs.attempts(self.world.database, [run.id for run in all_runs])
        open_runs = [run.id for run in all_runs if run.finished_at is None]
        assert open_runs in ([], [node.run_id]), (open_runs, node.run_id)
        begun = [
            attempt
            for attempts in tries.values()
            for attempt in attempts
            if attempt.state != runs.FINISHED
        ]
        assert len(begun) <= 1 and all(attempt.run_id == node.run_id for attempt in begun)
        told = support.ends_told(self.world.database, node)
        ended = [f"{run.flow} {run.outcome}" for run in all_runs if run.finished_at is not None]
        assert sorted(told) == sorted(ended)

    @invariant()
    def what_rests_has_no_residue(self) -> None:
        node = self.row()
        state = states.STATES[node.provision_state]
        if state.kind is not Kind.STABLE:
            return
        assert node.run_id is None and node.agent_secret_token is None
        keys = {key for flow in FLOWS.values() for key in flow.keys}
        assert not keys & set(node.driver_internal_info)
        may_have_failed = state.failed or state.name == states.ENROLL
        assert may_have_failed or node.last_error is None, (state.name, node.last_error)
        assert not state.failed or node.last_error, state.name
        current = [flow.step_field for flow in FLOWS.values() if getattr(node, flow.step_field)]
        assert state.failed or not current, current

    @invariant()
    def only_the_dead_hold_locks(self) -> None:
        node = self.row()
        if node.reservation is not None:
            holder = self.world.lives.get(node.reservation)
            assert (
                holder is None
                or holder.dead
                or not self.sure
                or (node.lock_token not in holder.runtime.active)
            ), "a lock was left by work that has ended"

    @invariant()
    def the_node_is_where_the_model_is(self) -> None:
        if not self.sure:
            self._look()
            return
        node, attempt, run = self.row(), self.attempt(), self.run
        assert node.provision_state == self.state, (node.provision_state, node.last_error, run)
        assert node.reservation is None, node.lock_purpose
        if run is None:
            assert node.run_id is None
            return
        assert attempt is not None and attempt.state == runs.WAITING
        assert (attempt.step, attempt.owner) == (run.step, run.owner)
        assert attempt.signal == run.pending, (attempt.signal, run)
        if run.owner == "operator":
            assert run.pending or attempt.due_at is None
        else:
            assert attempt.due_at is not None, "nobody looks at it"

    def _look(self) -> None:
        """Let the model be where the node is, if it is somewhere where it can stay."""
        node = self.row()
        kind = states.STATES[node.provision_state].kind
        if node.reservation is not None or kind is Kind.TRANSIENT:
            return
        last = next(iter(runs.of_node(self.world.database, node.id, limit=1)), None)
        attempt = runs.last_attempt(self.world.database, last.id) if last is not None else None
        self.failed, self.aborted = None, False
        if kind is Kind.STABLE:
            if node.run_id is not None:
                return
            self.run = None
            if last is not None and last.outcome not in ("success", None) and attempt is not None:
                self._look_at_failed(node, last, attempt)
        else:
            if attempt is None or attempt.state != runs.WAITING:
                return
            self._look_at_waiting(node, last, attempt)
        self.state, self.sure = node.provision_state, True
        self.maintenance, self.fault = node.maintenance, node.fault
        if node.agent_secret_token is None or node.agent_secret_token != self.token:
            self._forget_token()

    def _look_at_failed(self, node: Node, last: Any, attempt: StepAttempt) -> None:
        flow = FLOWS[last.flow]
        self.aborted = last.outcome == "aborted" and node.provision_state == flow.failed
        names = [entry["step"] for entry in last.plan]
        if attempt.position == 0:
            begin = next((i for i, e in enumerate(last.plan) if not e.get("skip")), 0)
            self.failed = (flow, names, begin, None)
        else:
            place = names.index(attempt.step)
            done = attempt.outcome == "success"
            self.failed = (flow, names, place + done, place + 1)

    def _look_at_waiting(self, node: Node, last: Any, attempt: StepAttempt) -> None:
        names = [entry["step"] for entry in last.plan]
        began = self.world.began
        self.run = Run(
            flow=FLOWS[last.flow],
            target=node.target_provision_state or "",
            steps=names,
            at=names.index(attempt.step),
            owner=attempt.owner,
            reenter=attempt.reenter,
            since=(attempt.waiting_since - began).total_seconds(),
            due=(attempt.due_at - began).total_seconds() if attempt.due_at else 0.0,
            heard=(node.agent_heartbeat_column - began).total_seconds()
            if node.agent_heartbeat_column
            else 0.0,
            pending=attempt.signal,
            aborting=last.abort_requested_at is not None,
            entered=True,
        )

    def teardown(self) -> None:
        """Whatever it was: with a conductor that lives, and in time, the node rests."""
        for _ in range(12):
            node = self.row()
            kind = states.STATES[node.provision_state].kind
            if node.reservation is None and kind is Kind.STABLE:
                break
            for host in HOSTS:
                self.starts(host)
            self.world.ahead += 120
            for life in self.living():
                conductors.touch(self.world.database, life.runtime.host, life.runtime.boot_id)
                life.recovery.sweep()
            if self.row().provision_state in states.HOLD_STATES:
                with contextlib.suppress(exceptions.InvalidStateRequested):
                    self.unhold(True)
            self.time_passes(25_000.0)
            self.the_node_is_where_the_model_is()
        else:
            raise AssertionError(f"it never rests: {node.provision_state}")
        self.what_rests_has_no_residue()
        self.steps_run_as_they_may()
        self.the_table_is_kept_to()
        self.world.end()


# --- running it -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    logger = logging.getLogger("deploysteps")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    with mortal.folder() as place:
        database = Database(f"sqlite:///{place}/deploysteps.sqlite")
        database.wait_ready(print)
        emptied(database)
        conf = mortal.settings(place)
        found = World(database, conf, support.registry(conf, vendor=Vendor, deploy=Deploy))
        with pytest.MonkeyPatch.context() as patch, found.clock(patch):
            yield found
            found.end()
        database.dispose()
    logger.setLevel(before)


@pytest.fixture
def life(world: World) -> type[Life]:
    Life.world = world
    return Life


def test_a_node_driven_at_random_is_where_the_model_is(life: type[Life]) -> None:
    """§7.3: no transition that the table lacks, no step out of order, no residue."""
    run_state_machine_as_test(
        life,
        settings=settings(
            max_examples=int(EXAMPLES or 60),
            stateful_step_count=40,
            derandomize=EXAMPLES is None,
            database=None,
            deadline=None,
            suppress_health_check=list(HealthCheck),
            verbosity=Verbosity.normal,
        ),
    )
