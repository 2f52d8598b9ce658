"""Every ending of every flow is the same ending: nothing is left, and a new run can start.

One code for all flows: what differs between them is read from their data.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from deploysteps import exceptions, states
from deploysteps.conductor import endings, task_manager
from deploysteps.db import nodes, runs
from deploysteps.db.engine import Database
from deploysteps.db.models import Node, StepAttempt, StepRun
from deploysteps.drivers import base
from deploysteps.steps import StepFlow, flow_of_state
from tests import support
from tests.crash import checks, drivers
from tests.crash.journal import journal
from tests.crash.scenarios import HOLD, WAYS, Way, tear_down
from tests.crash.stepwise import Stepwise, drive

pytestmark = pytest.mark.proof

HOST, OTHER = "conductor-1", "conductor-2"

Act = Callable[[Any], Any]
acts: dict[str, Act] = {}
"""What steps, preparing and tidying up do, where it is not nothing."""


def act(what: str, task: Any) -> Any:
    return acts[what](task) if what in acts else None


class Steps(drivers.Kinds):
    """Three steps; the second does what a test wants."""

    @drivers.step(90)
    def first(self, task):
        return self._sync(task, "first")

    @drivers.step(80)
    def tried(self, task):
        journal.note("run", "tried", task)
        return act("tried", task)

    @drivers.step(70, waits=True)
    def last(self, task):
        return self._agent(task, "last")


class Deploy(drivers.Deploy):
    """Prepares and tidies up as a test wants."""

    def _prepared(self, task, name):
        return act("prepare", task)

    def clean_up(self, task):
        return act("tidy", task)

    tear_down_cleaning = tear_down_service = clean_up


class Power(drivers.Power):
    """Verifies as a test wants."""

    def verify(self, task):
        super().verify(task)
        act("prepare", task)


CLASSES: dict[str, Any] = {
    **drivers.INTERFACES,
    "vendor": Steps,
    "deploy": Deploy,
    "power": Power,
}


@pytest.fixture(autouse=True)
def nothing_noted(tmp_path: Path) -> Iterator[None]:
    journal.path = tmp_path / "journal"
    acts.clear()
    yield
    journal.path = Path(os.devnull)


class World:
    """A node, its conductor and what happens to them."""

    def __init__(self, database: Database, conf: Any, way: Way) -> None:
        self.database, self.conf, self.way = database, conf, way
        self.token: str | None = None
        self.conductor = self.started(HOST)
        self.node = self.conductor.manager.create_node(
            None, {"driver": "test-hardware", "provision_state": way.at}
        )

    @property
    def flow(self) -> StepFlow:
        return self.way.flow

    def started(self, host: str) -> Stepwise:
        """Return a conductor that has started."""
        registry = support.registry(self.conf, **CLASSES)
        found = Stepwise(self.database, self.conf, registry, host)
        found.start()
        return found

    def begin(self, tried: Act | None = None, *also: dict[str, Any]) -> None:
        """Let the run begin; it goes as far as it goes without waiting."""
        if tried is not None:
            acts["tried"] = tried
        ask(self.conductor, self.node, self.way, also)

    def waits(self, tried: Act | None = None) -> None:
        """Let it wait in the second step, with an agent on the machine."""
        self.begin(tried or base.wait_state)
        assert self.now.provision_state == self.flow.waiting, self.now.last_error
        self.token = self.conductor.manager.lookup(None, [], self.node.uuid)[1]

    @property
    def now(self) -> Node:
        return nodes.get(self.database, self.node.uuid)

    @property
    def runs(self) -> list[StepRun]:
        return runs.of_node(self.database, self.node.id)

    @property
    def attempts(self) -> list[StepAttempt]:
        """The attempts of the first run."""
        first = self.runs[-1].id
        return runs.attempts(self.database, [first])[first]

    def shared(self) -> Any:
        return task_manager.acquire(
            None, self.node.uuid, shared=True, runtime=self.conductor.runtime
        )

    def abort(self) -> None:
        self.conductor.manager.do_provisioning_action(None, self.node.uuid, states.ABORT)
        self.conductor.sweeper.sweep()

    def drive(self) -> None:
        """Let agents beat and clocks tick until the node is stable."""
        drive(self.conductor, self.database, self.node.uuid)


def ask(conductor: Stepwise, node: Node, way: Way, also: tuple[dict[str, Any], ...] = ()) -> None:
    """Ask for a run on a way; where a request lists the steps, for all that there are."""
    wanted = [dict(one) for one in also]
    if way.listed:
        wanted += [
            {"interface": "vendor", "step": name, "priority": declared.priority}
            for name, declared in Steps.declared_steps["deploy"].items()
        ]
        wanted.sort(key=lambda one: -one["priority"])
        for one in wanted:
            del one["priority"]
    way.ask(conductor, node, wanted or None)


# --- how a run may end ---------------------------------------------------------------


def succeeds(world: World) -> None:
    """F18: a flag by which the driver ends a wait does not outlive it: the next is the agent's."""
    if world.flow.flags is None:
        world.begin()
        return

    def goes_on(task: Any) -> str:
        flow = flow_of_state(task.node.provision_state)
        task.node.set_driver_internal_info(flow.flags.polling, True)
        return base.wait_state(task)

    world.waits(goes_on)
    assert world.attempts[-1].owner == "callback"
    with world.shared() as task:
        task.complete_step()
    world.conductor.sweeper.sweep()
    assert world.attempts[-1].step == "last" and world.attempts[-1].owner == "agent"
    world.drive()


def raises(why: str) -> Act:
    def raising(task: Any) -> None:
        raise flow_of_state(task.node.provision_state).error(why)

    return raising


def a_step_raised(world: World) -> None:
    world.begin(raises("the disk is gone"))


def an_odd_answer(world: World) -> None:
    world.begin(lambda task: 7)


def told_to_fail(world: World) -> None:
    world.waits()
    with world.shared() as task:
        task.fail_step("the controller said so")
    world.conductor.sweeper.sweep()


def aborted_running(world: World) -> None:
    world.begin(lambda task: drivers.operator_aborts(task.runtime, task.node))


def aborted_waiting(world: World) -> None:
    world.waits()
    world.abort()


def aborted_preparing(world: World) -> None:
    acts["prepare"] = base.wait_state
    world.begin()
    world.abort()


def aborted_holding(world: World) -> None:
    world.begin(None, HOLD[0])
    assert world.now.provision_state == world.flow.holding
    world.abort()


def timed_out(world: World) -> None:
    world.waits(lambda task: states.wait(base.wait_state(task), limit=0.001))
    support.until(lambda: world.conductor.sweeper.sweep() and world.now.last_error)


def silent(world: World) -> None:
    world.conf.set_override(world.flow.callback_timeout, 0.05, group="conductor")
    world.waits()
    support.until(lambda: world.conductor.sweeper.sweep() and world.now.last_error)
    world.conf.clear_override(world.flow.callback_timeout, group="conductor")


def undeployed(world: World) -> None:
    world.waits()
    acts.clear()
    tear_down(world.conductor, world.node)
    world.drive()


def dies(task: Any) -> None:
    """Stop as a conductor does that is killed: the lock stays, nothing more is written."""
    task.abandon()
    task.node.save()
    raise AssertionError("it wrote without a lock")


def is_killed(task: Any) -> None:
    task.node.extra["touched"] = True
    dies(task)


def taken_over(world: World) -> None:
    world.begin(is_killed)
    assert world.now.reservation == HOST
    checks.aged(world.database, HOST)
    world.conductor = world.started(OTHER)


def crashed(world: World) -> None:
    world.begin(is_killed)
    world.conductor = world.started(HOST)


def unlocked(world: World) -> None:
    world.begin(is_killed)
    world.conductor = world.started(OTHER)
    world.conductor.manager.unlock_node(None, world.node.uuid, "its host burns")


def tidying_fails_as_well(world: World) -> None:
    acts["tidy"] = raises("the broom is broken")
    world.begin(raises("the disk is gone"))


def preparing_raised(world: World) -> None:
    acts["prepare"] = raises("the network is wrong")
    world.begin()


def putting_away_raised(world: World) -> None:
    acts["tidy"] = raises("the network is stuck")
    world.begin()
    world.drive()


@dataclasses.dataclass(frozen=True)
class Ending:
    """How a run ended, and what has to be said of it."""

    does: Callable[[World], None]
    outcome: str = endings.FAILED
    words: str = ""
    """What the reason has to say."""
    attempt: str = ""
    """Outcome of the attempt that was current, where it is not the run's."""
    step: str | None = "tried"
    """The step that the reason, and the node, name."""
    where: Callable[[StepFlow], Any] = lambda flow: True
    """Tells whether a flow can end so."""


def _can_wait(flow: StepFlow) -> bool:
    return flow.waiting is not None


def _aborted(does: Callable[[World], None], **more: Any) -> Ending:
    return Ending(does, endings.ABORTED, "aborted by an operator", **more)


ENDINGS: dict[str, Ending] = {
    "success": Ending(succeeds, endings.SUCCESS, step=None),
    "step raised": Ending(a_step_raised, words="the disk is gone"),
    "odd answer": Ending(an_odd_answer, words="it returned int 7"),
    "told to fail": Ending(told_to_fail, words="the controller said so", where=_can_wait),
    "abort running": _aborted(aborted_running, attempt=endings.SUCCESS),
    "abort waiting": _aborted(aborted_waiting, where=_can_wait),
    "abort preparing": _aborted(aborted_preparing, step=None, where=_can_wait),
    "abort in hold": _aborted(aborted_holding, step="hold", where=_can_wait),
    "timeout": Ending(timed_out, endings.TIMEOUT, "longer than its limit", where=_can_wait),
    "silence": Ending(silent, endings.TIMEOUT, "no heartbeat", where=lambda f: f.callback_timeout),
    "undeploy": Ending(
        undeployed,
        endings.UNDEPLOYED,
        step=None,
        where=lambda flow: flow.waiting and states.can(flow.waiting, states.DELETE),
    ),
    "taken over": Ending(
        taken_over, words=f"conductor {HOST} was lost", attempt=endings.INTERRUPTED
    ),
    "crash": Ending(crashed, words=f"conductor {HOST} was lost", attempt=endings.INTERRUPTED),
    "lock broken": Ending(
        unlocked, words=f"the lock of conductor {HOST}", attempt=endings.INTERRUPTED
    ),
    "tidying failed as well": Ending(
        tidying_fails_as_well, words="the broom is broken", where=lambda flow: flow.clean_up
    ),
    "preparing raised": Ending(preparing_raised, words="the network is wrong", step=None),
    "putting away raised": Ending(
        putting_away_raised,
        words="the network is stuck",
        attempt=endings.SUCCESS,
        step="last",
        where=lambda flow: flow.finish,
    ),
}

REQUESTED = ("abort in hold",)
"""Endings of runs that somebody asks steps for."""


def _can(way: Way, name: str) -> bool:
    asked = name not in REQUESTED or way.name != "provide"
    return asked and bool(ENDINGS[name].where(way.flow))


CASES = [(way, name) for way in WAYS for name in ENDINGS if _can(WAYS[way], name)]


@pytest.mark.parametrize(
    ("way", "name"), CASES, ids=[f"{way}-{name}".replace(" ", "-") for way, name in CASES]
)
def test_nothing_is_left_after_any_ending_and_a_new_run_can_start(database, conf, way, name):
    """F37, F66-F71, F18, promise 6: by one function, whatever the flow."""
    world, ending = World(database, conf, WAYS[way]), ENDINGS[name]
    ending.does(world)
    is_told(world, ending)
    is_free(world)
    if world.now.fault:  # a step has failed: somebody has looked at the machine
        world.conductor.manager.set_node_maintenance(None, world.now.uuid, False, None)
    acts.clear()
    starts_again(world)


def is_told(world: World, ending: Ending) -> None:
    """The run, its last attempt, the node and its history say how it ended, and why."""
    flow, node, run, last = world.flow, world.now, world.runs[-1], world.attempts[-1]
    assert (run.flow, run.outcome) == (flow.name, ending.outcome), run.error
    assert last.outcome == (ending.attempt or ending.outcome)
    if ending.outcome == endings.UNDEPLOYED:
        assert node.provision_state == states.AVAILABLE
        assert [run.flow for run in world.runs] == ["clean", flow.name]
        assert node.last_error is None
        return
    good = ending.outcome == endings.SUCCESS
    assert node.provision_state == (world.way.goal if good else flow.failed), node.last_error
    assert (node.last_error is None) == good and node.last_error == run.error
    current = getattr(node, flow.step_field)
    if not good:
        assert ending.words in node.last_error, node.last_error
        failed = ending.step or last.step
        if ending.does is putting_away_raised and flow.finish is not None:
            failed = flow.finish.method
        told = node.last_error
        assert f".{failed} failed: " in told or f".{failed} had ended" in told, told
    if flow.step_field in Node.__table__.columns:
        assert (current or {}).get("step") == ending.step
    told = nodes.history_of(world.database, node.id)[0]
    assert told.event_type == f"{flow.name} {ending.outcome}"
    assert good or told.event == node.last_error


def is_free(world: World) -> None:
    """No lock, no list, no flag, no token, no attempt without an end."""
    node = world.now
    checks.nothing_is_left(node, world.runs[0])
    for run in world.runs:
        checks.history_is_complete(world.database, node, run)
    checks.each_end_is_told(world.database, node)
    assert not world.conductor.runtime.active
    if world.token is not None:
        with pytest.raises(exceptions.InvalidParameterValue, match="token"):
            world.conductor.manager.heartbeat(
                None, node.uuid, support.CALLBACK, agent_token=world.token
            )


def starts_again(world: World) -> None:
    """From where the table says, a new run begins, and it ends well."""
    manager, had = world.conductor.manager, len(world.runs)
    if not begins(world.now):
        manager.do_provisioning_action(None, world.node.uuid, states.MANAGE)
    assert world.now.reservation is None
    way = begins(world.now)[0]
    ask(world.conductor, world.node, way)
    world.drive()
    node = world.now
    assert node.provision_state == way.goal, node.last_error
    assert len(world.runs) == had + 1 and world.runs[0].outcome == endings.SUCCESS
    is_free(world)


def begins(node: Node) -> list[Way]:
    """Return the ways into a flow that the table has from where a node is."""
    state = node.provision_state
    return [
        way
        for way in WAYS.values()
        if states.can(state, way.event) and states.next_state(state, way.event) == way.running
    ]


WAITING = [name for name, way in WAYS.items() if way.flow.waiting]


@pytest.mark.parametrize("way", WAITING)
def test_a_node_that_is_deleted_in_maintenance_takes_its_run_along(database, conf, way):
    """F37: what was made ready is put away, and no row is left."""
    world, tidied = World(database, conf, WAYS[way]), []
    world.waits()
    acts["tidy"] = lambda task: tidied.append(task.node.uuid)
    world.conductor.manager.set_node_maintenance(None, world.node.uuid, True, "it goes")
    world.conductor.manager.destroy_node(None, world.node.uuid)
    assert tidied == [world.node.uuid]
    with pytest.raises(exceptions.NodeNotFound):
        nodes.get(database, world.node.uuid)
    with pytest.raises(exceptions.NodeNotFound):
        world.conductor.manager.heartbeat(
            None, world.node.uuid, support.CALLBACK, agent_token=world.token
        )
    with database.engine.connect() as connection:
        for table in (StepRun, StepAttempt):
            assert connection.execute(sa.select(sa.func.count()).select_from(table)).scalar() == 0
    assert not world.conductor.runtime.active
    world.conductor.sweeper.sweep()
    world.conductor.recovery.sweep()


@pytest.mark.parametrize("way", WAITING)
def test_an_abort_before_or_after_the_end_is_answered_and_changes_nothing(database, conf, way):
    """F70: the second abort of a run is accepted; one that has nothing to end is refused."""
    world = World(database, conf, WAYS[way])
    with pytest.raises(exceptions.InvalidStateRequested):
        world.abort()
    world.waits()
    world.abort()
    before = world.now
    world.abort()
    after = world.now
    assert (after.last_error, after.generation) == (before.last_error, before.generation)
    assert len(world.runs) == 1
    acts.clear()
    starts_again(world)
    with pytest.raises(exceptions.InvalidStateRequested):
        world.abort()


@pytest.mark.parametrize("way", WAITING)
def test_a_late_report_changes_nothing_after_the_end(database, conf, way):
    """Promise 7: it is acknowledged, and the terminal state stays as it is."""
    world = World(database, conf, WAYS[way])
    world.waits()
    with world.shared() as late, world.shared() as later:
        world.abort()
        before = checks.Before(database, world.node.uuid).node
        late.complete_step()
        later.fail_step("too late")
    world.conductor.sweeper.sweep()
    assert world.now.generation == before.generation
    assert world.now.last_error == before.last_error
