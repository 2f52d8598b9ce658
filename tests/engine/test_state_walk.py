"""A walk over all states of the table: whatever happens in each has a defined answer.

A node is put into each state, as a bare row and, where the engine leads
there, by a run; then each thing that can happen to a node happens. What is
refused changes nothing and says why; what is taken leads along the table; and
afterwards somebody owes the node something, or it rests.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import sqlalchemy as sa

from deploysteps import exceptions, states
from deploysteps.api import versions
from deploysteps.conductor import waiting
from deploysteps.conductor.attempts import clocks
from deploysteps.conductor.rpc import local
from deploysteps.db import conductors, locks, nodes, runs, types
from deploysteps.db.engine import Database
from deploysteps.db.models import Node, StepAttempt, StepRun, table
from deploysteps.drivers import base, fake
from deploysteps.states import Kind
from deploysteps.steps import CLEAN, DEPLOY, FLOWS, JOBS, RUNS, SERVICE, StepFlow
from tests import support
from tests.conftest import SERVERS, emptied
from tests.engine import mortal
from tests.engine.mortal import Died, World, is_path
from tests.support_api import Api

pytestmark = pytest.mark.proof

HOST, LIVING, GHOST = "conductor-1", "conductor-2", "conductor-3"
TOKEN = "the token of this boot"
LONG = 7 * 3600.0
"""Seconds after which every wait with default settings is over."""
_NODE = table(Node)


# --- a driver with a step for each way to wait ------------------------------------------


def each(priority: int = 0, **rules: Any) -> Callable[[Any], Any]:
    """Declare a step of every flow that can wait."""

    def mark(method: Any) -> Any:
        base.deploy_step(priority, **rules)(method)
        base.clean_step(priority, **{"abortable": True, **rules})(method)
        base.service_step(priority, **{"abortable": True, **rules})(method)
        return method

    return mark


class Vendor(support.Vendor):
    """Steps that wait, or in which the conductor dies."""

    world: World

    def get_clean_steps(self, task):
        found = super().get_clean_steps(task)
        for step in found:
            step["priority"] = 50 if step["step"] == task.node.extra.get("clean") else 0
        return found

    @each()
    def quick(self, task):
        return None

    @each()
    def agent(self, task):
        return base.wait_state(task)

    @each()
    def reboots(self, task):
        return states.wait(base.wait_state(task), reboot=True)

    @each(abortable=False)
    def stubborn(self, task):
        return base.wait_state(task)

    @each()
    def polled(self, task):
        return states.wait(base.wait_state(task), poll=60)

    @each()
    def called(self, task):
        return states.wait(base.wait_state(task), callback=True)

    @each()
    def unready(self, task):
        if not task.node.extra.get("over"):
            raise exceptions.StepNotReady("not yet", after=60)

    @each()
    def unready_agent(self, task):
        if not task.node.extra.get("over"):
            raise exceptions.StepNotReady("not yet")

    @each(repeatable=True, retries=5, retry_delay=60)
    def retried(self, task):
        raise RuntimeError("it fails")

    @each()
    def dies(self, task):
        self.world.of(task).dead = True
        raise Died

    @each(repeatable=True)
    def dies_once(self, task):
        if task.attempt.attempt == 1:
            self.dies(task)

    @base.verify_step(priority=0)
    def looks(self, task):
        self.dies(task)

    def get_verify_steps(self, task):
        found = super().get_verify_steps(task)
        for step in found:
            step["priority"] = 50 if task.node.extra.get("verify") == "dies" else 0
        return found

    def check_step(self, task, step):
        return states.StepStatus.RUNNING


class Deploy(support.Deploy):
    """No steps; what surrounds them waits, or dies, as ``extra`` says."""

    world: World

    def get_deploy_steps(self, task):
        return []

    def get_clean_steps(self, task):
        return []

    def _prepared(self, task):
        return base.wait_state(task) if task.node.extra.get("prepare") == "waits" else None

    prepare = prepare_cleaning = prepare_service = _prepared

    def take_over(self, task):
        job(self.world, task, None)

    def tear_down(self, task):
        if task.node.extra.get("tear down") == "dies":
            self.world.of(task).dead = True
            raise Died


class Inspect(fake.FakeInspect):
    """Waits, or dies, as ``extra`` says."""

    world: World

    def inspect_hardware(self, task):
        return job(self.world, task, states.INSPECTWAIT) or states.MANAGEABLE

    def check_step(self, task, step):
        return states.StepStatus.RUNNING


class Rescue(fake.FakeRescue):
    """As above."""

    world: World

    def rescue(self, task):
        return job(self.world, task, states.RESCUEWAIT)

    def unrescue(self, task):
        return job(self.world, task, None)

    def check_step(self, task, step):
        return states.StepStatus.RUNNING


def job(world: World, task: Any, waits: str | None) -> str | None:
    how = task.node.extra.get("job")
    if how == "dies":
        world.of(task).dead = True
        raise Died
    if how == "not ready" and not task.node.extra.get("over"):
        raise exceptions.StepNotReady("not yet")
    if how == "polled" and waits:
        return states.wait(waits, poll=60)
    return waits if how == "waits" else None


# --- the stage ---------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Log nothing: here every second line would be the warning of a crash."""
    logger = logging.getLogger("deploysteps")
    before = logger.level
    logger.setLevel(logging.CRITICAL + 1)
    yield
    logger.setLevel(before)


@pytest.fixture(scope="module")
def stage(request: Any, servers: Any) -> Iterator[World]:
    """A database for all walks; a file is kept in memory."""
    with mortal.folder() as place:
        kind = getattr(request, "param", "sqlite")
        url = servers.url(kind) if kind != "sqlite" else f"sqlite:///{place}/deploysteps.sqlite"
        database = Database(url, connect_wait=5)
        database.wait_ready(print)
        emptied(database)
        conf = mortal.settings(place)
        classes = {"vendor": Vendor, "deploy": Deploy, "inspect": Inspect, "rescue": Rescue}
        found = World(database, conf, support.registry(conf, **classes))
        Vendor.world = Deploy.world = Inspect.world = Rescue.world = found
        yield found
        emptied(database)
        database.dispose()


@pytest.fixture
def world(stage: World, monkeypatch: Any) -> Iterator[World]:
    """A conductor that serves, over default settings."""
    with stage.clock(monkeypatch):
        empty(stage)
        stage.conductor(HOST)
        yield stage
        stage.end()


def empty(world: World) -> None:
    """Remove every node."""
    with world.database.engine.begin() as connection:
        connection.execute(sa.delete(_NODE))
    world.observe()


def bare(world: World, state: str, **values: Any) -> Node:
    """Put a row into a state directly."""
    row = states.STATES[state]
    return nodes.insert(
        world.database,
        {
            "driver": "test-hardware",
            "provision_state": state,
            "target_provision_state": row.target,
            "last_error": "it went wrong" if row.failed else None,
            "agent_token_column": TOKEN if row.agent else None,
            **values,
        },
    )


def fresh(world: World, node: Node) -> Node:
    return nodes.get(world.database, node.uuid)


def attempt_of(world: World, node: Node) -> StepAttempt | None:
    return runs.last_attempt(world.database, node.run_id) if node.run_id is not None else None


def step(name: str, **more: Any) -> dict[str, Any]:
    return {"interface": "vendor", "step": name, "args": {}, **more}


HOLD = {"interface": "deploy", "step": "hold", "args": {}}
PAUSE = {"interface": "deploy", "step": "wait", "args": {"seconds": 60}}


def begin(world: World, flow: StepFlow, steps: list[dict[str, Any]], **extra: Any) -> Node:
    """Begin a run of steps; the conductor may die of it, and another one serves then."""
    start = {DEPLOY: states.AVAILABLE, CLEAN: states.MANAGEABLE, SERVICE: states.ACTIVE}[flow]
    node = bare(world, start, extra=extra, last_error=None)
    manager = world.lives[HOST].manager
    if flow is DEPLOY:
        deploy_steps = [{**one, "priority": 90 - i} for i, one in enumerate(steps)]
        manager.do_node_deploy(None, node.uuid, deploy_steps=deploy_steps)
    elif flow is CLEAN and "clean" in extra:
        manager.do_provisioning_action(None, node.uuid, "provide")
    elif flow is CLEAN:
        manager.do_node_clean(None, node.uuid, steps)
    else:
        manager.do_node_service(None, node.uuid, steps)
    return node


def dying(world: World, act: Callable[[], Any]) -> None:
    """Do what the conductor dies of; the database stays as it left it, until it is recovered."""
    act()
    life = world.lives[HOST]
    assert life.dead
    world.lives.pop(HOST)
    world.conductor(LIVING)


def waits(name: str, **extra: Any) -> Callable[[World, StepFlow], Node]:
    return lambda world, flow: begin(world, flow, [step(name), step("quick")], **extra)


def cut_off(name: str) -> Callable[[World, StepFlow], Node]:
    def bring(world: World, flow: StepFlow) -> Node:
        made: list[Node] = []
        dying(world, lambda: made.append(begin(world, flow, [step(name), step("quick")])))
        return made[0]

    return bring


def between(world: World, flow: StepFlow) -> Node:
    """Between two steps: a conductor stopped there, and let the lock go."""
    life = world.lives[HOST]
    node = begin(world, flow, [step("agent"), step("quick")])
    lookup(world, node)
    life.runtime.stopping.set()
    beat(world, fresh(world, node))
    life.runtime.stopping.clear()
    return node


SITUATIONS: dict[str, Callable[[World, StepFlow], Node]] = {
    **{
        name: waits(name)
        for name in (
            "agent",
            "reboots",
            "stubborn",
            "polled",
            "called",
            "unready",
            "unready_agent",
            "retried",
        )
    },
    "prepare": lambda world, flow: begin(world, flow, [step("quick")], prepare="waits"),
    "pause": lambda world, flow: begin(world, flow, [PAUSE, step("quick")]),
    "hold": lambda world, flow: begin(world, flow, [HOLD, step("quick")]),
    "between two steps": between,
    "cut off": cut_off("dies"),
    "cut off, repeatable": cut_off("dies_once"),
}
"""Where a run of any flow that can wait can be."""


def automated(world: World) -> Node:
    return begin(world, CLEAN, [], clean="agent")


def verifying(world: World) -> Node:
    node = bare(world, states.ENROLL, extra={"verify": "dies"})
    manager = world.lives[HOST].manager
    dying(world, lambda: manager.do_provisioning_action(None, node.uuid, "manage"))
    return node


def deleting(world: World) -> Node:
    node = bare(world, states.ACTIVE, extra={"tear down": "dies"})
    dying(world, lambda: world.lives[HOST].manager.do_node_tear_down(None, node.uuid))
    return node


def asked(flow: StepFlow, how: str) -> Callable[[World], Node]:
    """Return what begins work of one call, which waits or dies."""
    event = flow.name

    def bring(world: World) -> Node:
        start = next(m.start for m in states.TRANSITIONS if m.event == event)
        node = bare(world, start, extra={"job": how})
        act = lambda: verb(event)(world, node)  # noqa: E731 - it is called in two ways
        if how == "dies":
            dying(world, act)
        else:
            act()
        return node

    return bring


BROUGHT: dict[str, Callable[[World], Node]] = {
    **{f"{flow.name}: cut off": asked(flow, "dies") for flow in JOBS.values()},
    **{
        f"{flow.name}: {how}": asked(flow, how)
        for flow in JOBS.values()
        if flow.waiting
        for how in ("waits", "polled", "not ready")
    },
    **{
        f"{flow.name}: {name}": lambda world, flow=flow, bring=bring: bring(world, flow)
        for flow in FLOWS.values()
        if flow.waiting
        for name, bring in SITUATIONS.items()
    },
    "clean: automated": automated,
    "verify: cut off": verifying,
    "delete: cut off": deleting,
}
"""Where the engine can bring a node, and how."""


# --- what can happen -----------------------------------------------------------------------


def beat(world: World, node: Node, token: str | None = None) -> None:
    life = next(iter(world.lives.values()))
    life.manager.heartbeat(
        None, node.uuid, support.CALLBACK, agent_token=token or node.agent_secret_token or TOKEN
    )


def verb(name: str) -> Callable[[World, Node], None]:
    """Ask for what a target of the API stands for."""
    event = states.VERBS[name]

    def ask(world: World, node: Node) -> None:
        manager = next(iter(world.lives.values())).manager
        if event in (states.DEPLOY, states.REBUILD):
            wanted = [step("quick", priority=10)]
            rebuild = event == states.REBUILD
            manager.do_node_deploy(None, node.uuid, rebuild=rebuild, deploy_steps=wanted)
        elif event == states.CLEAN:
            manager.do_node_clean(None, node.uuid, [step("quick")])
        elif event == states.SERVICE:
            manager.do_node_service(None, node.uuid, [step("quick")])
        elif event == states.DELETE:
            manager.do_node_tear_down(None, node.uuid)
        elif event == states.TO_RESCUE:
            manager.do_node_rescue(None, node.uuid, "let me in")
        else:
            manager.do_provisioning_action(None, node.uuid, event)

    return ask


def lookup(world: World, node: Node) -> None:
    next(iter(world.lives.values())).manager.lookup(None, [], node.uuid)


def time_passes(world: World, node: Node) -> None:
    world.ahead += LONG
    for life in world.lives.values():
        conductors.touch(world.database, life.runtime.host, life.runtime.boot_id)
        life.sweeper.sweep()


def locked_by(world: World, node: Node, host: str) -> None:
    with world.database.engine.begin() as connection:
        values = locks.grant_values(host, locks.new_token(), "something")
        connection.execute(sa.update(_NODE).where(_NODE.c.id == node.id).values(values))


def owner_dies(maintenance: bool) -> Callable[[World, Node], None]:
    """Let the owner of the node's lock be dead, and recovery look."""

    def happen(world: World, node: Node) -> None:
        life = next(iter(world.lives.values()))
        life.manager.set_node_maintenance(None, node.uuid, maintenance)
        locked_by(world, node, GHOST)
        life.recovery.sweep()

    return happen


def owner_lives(world: World, node: Node) -> None:
    conductors.register(world.database, GHOST, "its boot", [])
    locked_by(world, node, GHOST)
    before = snapshot(world, node)
    next(iter(world.lives.values())).recovery.sweep()
    assert snapshot(world, node) == before, "it was taken from an owner that lives"
    refused_while_locked(world, node)
    conductors.leave(world.database, GHOST, "its boot")


def refused_while_locked(world: World, node: Node) -> None:
    """Everything that needs the lock is refused naming the holder, and may be asked again."""
    before = snapshot(world, node)
    for name, event in states.VERBS.items():
        if event not in (states.ABORT, states.UNHOLD):
            with pytest.raises(exceptions.NodeLocked, match=GHOST):
                verb(name)(world, node)
    for act in (delete, update):
        with pytest.raises(exceptions.NodeLocked, match=GHOST):
            act(world, node)
    if fresh(world, node).agent_secret_token:
        with pytest.raises(exceptions.NodeLocked):
            beat(world, fresh(world, node))
    assert snapshot(world, node) == before


def unlock(world: World, node: Node) -> None:
    next(iter(world.lives.values())).manager.unlock_node(None, node.uuid, "it hangs")


def delete(world: World, node: Node) -> None:
    next(iter(world.lives.values())).manager.destroy_node(None, node.uuid)


def update(world: World, node: Node) -> None:
    next(iter(world.lives.values())).manager.update_node(None, node.uuid, {"description": "d"})


def twice(act: Callable[[World, Node], None]) -> Callable[[World, Node], None]:
    def happen(world: World, node: Node) -> None:
        act(world, node)
        act(world, node)

    return happen


def in_maintenance(act: Callable[[World, Node], None]) -> Callable[[World, Node], None]:
    def happen(world: World, node: Node) -> None:
        next(iter(world.lives.values())).manager.set_node_maintenance(None, node.uuid, True, "fan")
        act(world, node)

    return happen


Expect = Callable[[Node, StepAttempt | None], bool | str]


@dataclasses.dataclass(frozen=True)
class Action:
    """Something that happens to a node."""

    happen: Callable[[World, Node], None]
    taken: Expect
    """Whether it is taken; else it is refused, by an error of this name or any 4xx."""


def legal(event: str) -> Expect:
    def expect(node: Node, attempt: StepAttempt | None) -> bool | str:
        if node.reservation is not None:
            return "NodeLocked"
        return states.may(node.provision_state, event) or "InvalidStateRequested"

    return expect


def stoppable(node: Node, attempt: StepAttempt | None) -> bool | str:
    """An abort needs no lock, and a run to end."""
    run = states.can(node.provision_state, states.ABORT) and node.run_id is not None
    return run or "InvalidStateRequested"


def held(node: Node, attempt: StepAttempt | None) -> bool | str:
    return states.can(node.provision_state, states.UNHOLD) or "InvalidStateRequested"


def known_agent(node: Node, attempt: StepAttempt | None) -> bool | str:
    if not node.agent_secret_token:
        return "InvalidParameterValue"
    return node.reservation is None or "NodeLocked"


def expects_agent(node: Node, attempt: StepAttempt | None) -> bool | str:
    if not states.STATES[node.provision_state].agent:
        return "NotFound"
    return node.reservation is None or "NodeLocked"


def removable(node: Node, attempt: StepAttempt | None) -> bool | str:
    if node.reservation is not None:
        return "NodeLocked"
    return states.STATES[node.provision_state].deletable or "InvalidState"


def at_rest(node: Node, attempt: StepAttempt | None) -> bool | str:
    if node.reservation is not None:
        return "NodeLocked"
    return states.STATES[node.provision_state].kind is Kind.STABLE or "Conflict"


def unlocked(node: Node, attempt: StepAttempt | None) -> bool | str:
    return node.reservation is None or "NodeLocked"


def locked(node: Node, attempt: StepAttempt | None) -> bool | str:
    return node.reservation is not None or "InvalidParameterValue"


def always(node: Node, attempt: StepAttempt | None) -> bool:
    return True


def never(node: Node, attempt: StepAttempt | None) -> str:
    return "InvalidParameterValue"


def nowhere(event: str) -> Expect:
    """Expect a refusal, since a node in maintenance begins no run."""

    def expect(node: Node, attempt: StepAttempt | None) -> str:
        found = legal(event)(node, attempt)
        return found if isinstance(found, str) else "NodeInMaintenance"

    return expect


_NOT_IN_MAINTENANCE = (
    states.DEPLOY,
    states.REBUILD,
    states.CLEAN,
    states.SERVICE,
    states.TO_RESCUE,
    states.UNRESCUE,
)
_VERBS = {
    name: Action(
        verb(name), {states.ABORT: stoppable, states.UNHOLD: held}.get(event, legal(event))
    )
    for name, event in states.VERBS.items()
}
ACTIONS: dict[str, Action] = {
    "heartbeat": Action(lambda world, node: beat(world, fresh(world, node)), known_agent),
    "two heartbeats": Action(
        twice(lambda world, node: beat(world, node, node.agent_secret_token)), always
    ),
    "heartbeat with a wrong token": Action(lambda world, node: beat(world, node, "x"), never),
    "lookup": Action(lookup, expects_agent),
    **_VERBS,
    "abort twice": Action(twice(verb("abort")), stoppable),
    "unhold twice": Action(twice(verb("unhold")), always),
    "time passes": Action(time_passes, always),
    "its owner is dead": Action(owner_dies(False), always),
    "its owner is dead, in maintenance": Action(owner_dies(True), always),
    "its owner lives": Action(owner_lives, always),
    "unlock": Action(unlock, locked),
    "delete": Action(delete, removable),
    "delete in maintenance": Action(in_maintenance(delete), unlocked),
    "update": Action(update, at_rest),
    **{
        f"{name} in maintenance": Action(in_maintenance(verb(name)), nowhere(event))
        for name, event in states.VERBS.items()
        if event in _NOT_IN_MAINTENANCE
    },
    "abort in maintenance": Action(in_maintenance(verb("abort")), stoppable),
}
"""Everything that can happen to a node, and when it is taken."""

ONCE_OR_NOT = ("two heartbeats", "unhold twice")
"""The second of two is refused where the first one was enough."""


# --- what has to be true -------------------------------------------------------------------


def snapshot(world: World, node: Node) -> list[Any]:
    """Return all that is stored of a node and its runs, but for what every lock writes."""
    found: list[Any] = []
    with world.database.reading() as connection:
        for rows, column in (
            (_NODE, "id"),
            (table(StepRun), "node_id"),
            (table(StepAttempt), "node_id"),
        ):
            query = sa.select(rows).where(rows.c[column] == node.id)
            found.extend(dict(row) for row in connection.execute(query).mappings())
    for row in found:
        for name in ("generation", "updated_at", "maintenance", "maintenance_reason"):
            row.pop(name, None)
    return found


def comes_to_rest(world: World, node: Node) -> None:
    """Whatever happened: with a conductor that looks, and in time, the node rests."""
    for _ in range(20):
        try:
            now = fresh(world, node)
        except exceptions.NodeNotFound:
            return
        kind = states.STATES[now.provision_state].kind
        if now.reservation is None and kind is Kind.STABLE:
            break
        attempt = attempt_of(world, now)
        if now.reservation is None and attempt is not None and attempt.state == runs.WAITING:
            somebody_ends_it(now, attempt)
        if kind is Kind.HOLD and now.run_id is not None and now.reservation is None:
            verb("unhold")(world, now)
        with world.database.engine.begin() as connection:
            done = {"extra": {"over": True}}
            connection.execute(sa.update(_NODE).where(_NODE.c.id == node.id).values(done))
        time_passes(world, node)
        for life in list(world.lives.values()):
            if not life.dead:
                life.recovery.sweep()
    else:
        raise AssertionError(f"it never rests: {now.provision_state!r}, {now.last_error!r}")
    nothing_is_left(world, now)


def somebody_ends_it(node: Node, attempt: StepAttempt) -> None:
    """F36: each wait has a time at which somebody looks and gives up; a hold has none."""
    kind = states.STATES[node.provision_state].kind
    if kind is Kind.HOLD:
        assert attempt.owner == "operator" and attempt.deadline_at is None
    else:
        assert kind is Kind.WAIT and attempt.owner != "operator"
        assert attempt.due_at is not None, "nobody ever looks at it"
    if attempt.owner in ("poller", "callback"):
        assert attempt.deadline_at is not None, "it has no limit"


def nothing_is_left(world: World, node: Node) -> None:
    """No lock, no run, no plan, no token; the target is the state's; a reason where it failed."""
    state = states.STATES[node.provision_state]
    assert (node.reservation, node.lock_token, node.run_id) == (None, None, None)
    assert node.target_provision_state in (state.target, *state.other_targets)
    assert not state.failed or node.last_error, "failed without a reason"
    assert node.agent_secret_token is None
    left = {key for flow in RUNS.values() for key in flow.keys} & set(node.driver_internal_info)
    assert not left, left
    assert "rescue_password" not in node.instance_info and node.inspection_started_at is None
    for run in runs.of_node(world.database, node.id):
        assert run.finished_at is not None and run.outcome is not None
        for attempt in runs.attempts(world.database, [run.id])[run.id]:
            assert attempt.state == runs.FINISHED and attempt.outcome


def happens(world: World, name: str, node: Node) -> None:
    """Let something happen to a node and check the answer and all that follows."""
    action = ACTIONS[name]
    node = fresh(world, node)
    expected = action.taken(node, attempt_of(world, node))
    before = snapshot(world, node)
    world.observe()
    world.changes.clear()
    refused: exceptions.DeployStepsException | None = None
    try:
        action.happen(world, node)
    except exceptions.DeployStepsException as exc:
        refused = exc
    if refused is not None:
        assert 400 <= refused.code < 500 and str(refused).strip(), repr(refused)
    if name not in ONCE_OR_NOT:
        wanted = expected if isinstance(expected, str) else None
        told = [cls.__name__ for cls in type(refused).__mro__] if refused is not None else [None]
        assert wanted in told, f"{refused!r} where {expected} was expected"
        if refused is not None:
            assert snapshot(world, node) == before, "it was refused and changed something"
    comes_to_rest(world, node)
    wrong = [change for change in world.changes if not is_path(change)]
    assert not wrong, wrong


def walk(world: World, bring: Callable[[World], Node]) -> None:
    """Let everything happen, each to another node in the same situation."""
    for name in ACTIONS:
        if list(world.lives) != [HOST] or world.lives[HOST].dead:
            world.end()
            world.conductor(HOST)
        node = bring(world)
        try:
            happens(world, name, node)
        except BaseException as exc:
            exc.add_note(f"action: {name}")
            raise
        empty(world)


# --- the walks -----------------------------------------------------------------------------


@pytest.mark.parametrize("state", states.STATES)
def test_everything_in_a_row_that_was_put_into_a_state(world, state):
    """§7.2, F25, F43, F44, F45, F69, F70: no state is forgotten, with or without a run."""
    walk(world, lambda w: bare(w, state))


@pytest.mark.parametrize("situation", BROUGHT)
def test_everything_where_a_run_can_be(world, situation):
    """§7.2: the same where the engine brought the node, and its agent has come."""

    def bring(world: World) -> Node:
        node = BROUGHT[situation](world)
        with contextlib.suppress(exceptions.NodeLocked, exceptions.NotFound):
            lookup(world, node)
        return node

    walk(world, bring)


@pytest.mark.parametrize("stage", SERVERS, indirect=True)
@pytest.mark.parametrize("situation", ["deploy: agent", "service: cut off"])
def test_everything_on_the_other_databases(world, situation):
    """A state of each kind, on databases that have servers."""
    walk(world, BROUGHT[situation])


# --- by the API ------------------------------------------------------------------------------


@pytest.mark.parametrize("state", states.STATES)
def test_every_target_of_the_api_in_every_state(world, state):
    """§7.2, promise 13: 202, or a 4xx with words; never a 5xx, whatever the state."""
    life = world.lives[HOST]
    api = Api(world.conf, world.database, local.client(life.manager))
    bodies: dict[str, dict[str, Any]] = {
        "clean": {"clean_steps": [{"interface": "vendor", "step": "quick"}]},
        "service": {"service_steps": [{"interface": "vendor", "step": "quick"}]},
        "rescue": {"rescue_password": "let me in"},
        "resume": {"resume": True},
        "resume_after": {"resume_after": True},
    }
    for target in (*versions.TARGETS, "resume", "resume_after", "no such target"):
        node = bare(world, state)
        before = snapshot(world, node)
        body = {"target": "active" if "resume" in target else target, **bodies.get(target, {})}
        told = api.put(f"/v1/nodes/{node.uuid}/states/provision", body)
        assert told.status == 202 or 400 <= told.status < 500, (target, told)
        event = states.VERBS.get(target)
        if told.status != 202:
            assert told.fault.strip()
            assert snapshot(world, node) == before, (target, told)
        else:
            assert event is not None and states.may(state, event), (target, told)
        shown = api.get(f"/v1/nodes/{node.uuid}")
        assert shown.status == 200 and shown.body["reservation"] is None
        comes_to_rest(world, node)
        empty(world)


# --- the table ---------------------------------------------------------------------------------


def test_every_state_that_is_not_at_rest_has_a_way_out():
    """F43: by FAIL, to a state that rests and (but for a new node) is called failed."""
    for name, state in states.STATES.items():
        if state.kind is Kind.STABLE:
            assert not states.can(name, states.FAIL) and not states.can(name, states.ABORT)
            continue
        after = states.STATES[states.next_state(name, states.FAIL)]
        assert after.kind is Kind.STABLE
        assert after.failed or after.name == states.ENROLL
        if states.can(name, states.ABORT):
            assert states.next_state(name, states.ABORT) == after.name


def test_every_flow_can_be_aborted_wherever_it_is():
    """F69: in each state of each flow, holds included."""
    for flow in RUNS.values():
        for state in flow.states:
            assert states.can(state, states.ABORT), state


def test_every_transition_leads_to_a_target_of_its_state():
    """Whatever the target was before, the one after is one that the state may show."""
    targets = {None, *states.STATES}
    for move in states.TRANSITIONS:
        end = states.STATES[move.end]
        for before in targets:
            after = states.target_after(move.start, move.event, before)
            assert after in (end.target, *end.other_targets), (move, before, after)
            if move.target is not None:
                assert after == move.target


def test_a_run_keeps_its_target_to_its_good_end():
    """A cleaning that was asked for ends where it was to end, however often it waits."""
    for flow in RUNS.values():
        running = states.STATES[flow.running]
        for target in (running.target, *running.other_targets):
            at = flow.running
            for event in (states.WAIT, states.RESUME, states.HOLD, states.UNHOLD):
                if states.can(at, event):
                    assert states.target_after(at, event, target) == target
                    at = states.next_state(at, event)
            assert states.next_state(at, states.good_end(at, target)) == target


def test_each_wait_is_limited_by_the_default_settings():
    """F36: silence for what the agent ends, a deadline for the rest, nothing for a hold."""
    default = mortal.settings("/nowhere")
    runtime = type("Runtime", (), {"conf": default})
    task = type("Task", (), {"runtime": runtime})
    waits = [flow for flow in RUNS.values() if flow.waiting]
    assert {flow.waiting for flow in waits} == {
        state for state in states.WAIT_STATES if states.can(state, states.RESUME)
    }, "a state waits and no flow leads there: who ends it?"
    for flow in waits:
        bounds = clocks(task, flow)
        now = types.utcnow()
        state = flow.waiting
        begun = {
            "agent": waiting.Said(states.wait(state)),
            "reboot": waiting.Said(states.wait(state, reboot=True)),
            "poller": waiting.Said(states.wait(state, poll=1)),
            "callback": waiting.Said(states.wait(state, callback=True)),
        }
        for name, said in begun.items():
            columns = waiting.begin(said, None, now, None, bounds)
            assert columns["due_at"] is not None, (flow.name, name)
            assert columns["deadline_at"] is not None, (flow.name, "also where the agent calls")
        for after in (None, 5):
            columns = waiting.until_ready(after, None, now, None, None, bounds)
            assert columns["due_at"] is not None
            assert columns["deadline_at"] is not None, (flow.name, "also where the agent calls")
        assert waiting.pause(5, now)["due_at"] is not None
        held = waiting.hold(now)
        assert held["due_at"] is None and held["deadline_at"] is None
