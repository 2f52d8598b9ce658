"""The stories of the crash matrix: nodes with steps of every kind, and what people do to them.

A story is told in each flow that can have it.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from deploysteps import exceptions, states
from deploysteps.conductor import task_manager
from deploysteps.db import runs
from deploysteps.db.models import Node, StepAttempt
from deploysteps.drivers import base
from deploysteps.steps import StepFlow, flow_of_state
from tests import support
from tests.crash import drivers, jobs
from tests.crash.journal import journal
from tests.crash.stepwise import Stepwise, World, agent_beats, nothing_else

Asked = list[dict[str, Any]] | None
Begin = Callable[..., None]
"""Called with a conductor, a node, the steps of the request and what else it has."""


@dataclasses.dataclass(frozen=True)
class Way:
    """One way into a flow."""

    name: str
    at: str
    """The state that the node has before."""
    event: str
    ask: Begin
    listed: bool = False
    """What is asked for is the whole list, in its order."""

    @property
    def running(self) -> str:
        """The state that it leads to."""
        return states.next_state(self.at, self.event)

    @property
    def flow(self) -> StepFlow:
        """The flow that it begins."""
        flow = flow_of_state(self.running)
        assert flow is not None
        return flow

    @property
    def goal(self) -> str:
        """Where it leads when all goes well."""
        target = states.target_after(self.at, self.event, None)
        return states.next_state(self.running, states.good_end(self.running, target))


def _action(name: str) -> Begin:
    def ask(conductor: Stepwise, node: Node, asked: Asked) -> None:
        conductor.manager.do_provisioning_action(None, node.uuid, name)

    return ask


def _deploys(conductor: Stepwise, node: Node, asked: Asked) -> None:
    conductor.manager.do_node_deploy(None, node.uuid, deploy_steps=asked)


def _cleans(conductor: Stepwise, node: Node, asked: Asked, **more: Any) -> None:
    conductor.manager.do_node_clean(None, node.uuid, clean_steps=asked, **more)


def _rescues(conductor: Stepwise, node: Node, asked: Asked) -> None:
    conductor.manager.do_node_rescue(None, node.uuid, jobs.PASSWORD)


def _services(conductor: Stepwise, node: Node, asked: Asked, **more: Any) -> None:
    conductor.manager.do_node_service(None, node.uuid, service_steps=asked, **more)


DEPLOY = Way("deploy", states.AVAILABLE, states.DEPLOY, _deploys)
PROVIDE = Way("provide", states.MANAGEABLE, states.PROVIDE, _action(states.PROVIDE))
CLEAN = Way("clean", states.MANAGEABLE, states.CLEAN, _cleans, listed=True)
SERVICE = Way("service", states.ACTIVE, states.SERVICE, _services, listed=True)
VERIFY = Way("verify", states.ENROLL, states.MANAGE, _action(states.MANAGE))

WAYS: dict[str, Way] = {way.name: way for way in (DEPLOY, PROVIDE, CLEAN, SERVICE, VERIFY)}
ALL = tuple(WAYS.values())
WAITING = tuple(way for way in ALL if way.flow.waiting)
REQUESTED = (DEPLOY, CLEAN, SERVICE)
"""Ways on which people may ask for steps."""
GOING_ON = (DEPLOY, SERVICE)
"""Ways on which a failed run may go on."""

INSPECT = Way("inspect", states.MANAGEABLE, states.INSPECT, _action(states.INSPECT))
ADOPT = Way("adopt", states.MANAGEABLE, states.ADOPT, _action(states.ADOPT))
RESCUE = Way("rescue", states.ACTIVE, states.TO_RESCUE, _rescues)
UNRESCUE = Way("unrescue", states.RESCUE, states.UNRESCUE, _action(states.UNRESCUE))

JOBS = (INSPECT, ADOPT, RESCUE, UNRESCUE)
"""Ways into work that is one call."""


@dataclasses.dataclass(frozen=True)
class Scenario:
    """One story. It is told until it ends, then until each of its points."""

    name: str
    way: Way
    vendor: type[drivers.Kinds]
    goal: str
    """The state it ends in when nothing is lost."""
    world: World = nothing_else
    values: dict[str, Any] = dataclasses.field(default_factory=dict)
    classes: Mapping[str, type[base.BaseInterface]] = dataclasses.field(
        default_factory=lambda: drivers.INTERFACES
    )
    also: tuple[dict[str, Any], ...] = ()
    """Steps of others than the vendor interface that are asked for, where somebody asks."""
    backwards: bool = False
    """Its steps may be asked for in any order: the last one first."""
    more: dict[str, Any] = dataclasses.field(default_factory=dict)
    """What the request has beside its steps."""
    again: str | None = None
    """What the operator says when the first run has failed: ``at`` or ``after``."""
    verb: Callable[[Stepwise, Node], None] | None = None
    """What somebody asks for instead of the way's own request."""
    at: str = ""
    """The state that the node has before, where it is not the way's."""
    instance: bool = False
    """Whether the node has an instance from the beginning."""
    steps: bool = True
    """Whether there are runs of steps, whose history has to be complete."""

    @property
    def before(self) -> str:
        """The state that the node has before."""
        return self.at or self.way.at

    @property
    def interfaces(self) -> dict[str, type[base.BaseInterface]]:
        """Every interface that is not the fake one."""
        return {"vendor": self.vendor, **self.classes}

    def asked(self) -> Asked:
        """Return the steps of the request; None where nobody names any."""
        wanted = [dict(one) for one in self.also] if self.way in REQUESTED else []
        if self.way.listed:
            own = self.vendor.declared_steps["deploy"]
            wanted += [
                {"interface": "vendor", "step": name, "args": {}, "priority": one.priority}
                for name, one in own.items()
                if one.priority and name in self.vendor.declared_steps[self.way.flow.name]
            ]
            wanted.sort(key=lambda one: one["priority"], reverse=not self.backwards)
            for one in wanted:
                del one["priority"]
        return wanted or None

    def begin(self, conductor: Stepwise, node: Node) -> None:
        """Ask for it; asked again when a crash lost the question."""
        if self.verb is not None:
            self.verb(conductor, node)
        else:
            self.way.ask(conductor, node, self.asked(), **self.more)

    def go_on(self, conductor: Stepwise, node: Node) -> None:
        """Ask, as an operator, to go on after a failure."""
        journal.note("again", "asked")
        last = runs.of_node(conductor.database, node.id, limit=1)[0]
        attempt = runs.last_attempt(conductor.database, last.id)
        # What prepares the node cannot be left out.
        how = "at" if attempt is None or attempt.position == 0 else self.again
        ask = {DEPLOY: conductor.manager.do_node_deploy, SERVICE: conductor.manager.do_node_service}
        ask[self.way](None, node.uuid, resume=how)


# --- what people do to a node that waits -----------------------------------------------


def tear_down(conductor: Stepwise, node: Node) -> None:
    conductor.manager.do_node_tear_down(None, node.uuid)


def power_off(conductor: Stepwise, node: Node) -> None:
    conductor.manager.change_node_power_state(None, node.uuid, states.POWER_OFF)


def _aborts(step: str) -> World:
    """Abort the wait of a step; the agent is silent by then."""

    def world(conductor: Stepwise, node: Node, attempt: StepAttempt) -> bool:
        if attempt.step != step:
            return False
        if attempt.signal != "abort":
            drivers.operator_aborts(conductor.runtime, node)
        conductor.sweeper.sweep()
        return True

    return world


def _at(step: str, world: World) -> World:
    """Return what happens while this step waits; the usual happens to the others."""
    return lambda conductor, node, attempt: attempt.step == step and world(conductor, node, attempt)


def _told_well(conductor: Stepwise, node: Node, attempt: StepAttempt) -> bool:
    """Complete the wait by a callback."""
    return _says(conductor, node, attempt, None)


def _told_badly(conductor: Stepwise, node: Node, attempt: StepAttempt) -> bool:
    """Fail the wait by a callback."""
    return _says(conductor, node, attempt, "the callback said so")


def _says(conductor: Stepwise, node: Node, attempt: StepAttempt, problem: str | None) -> bool:
    if attempt.signal is None:
        with task_manager.acquire(None, node.uuid, shared=True, runtime=conductor.runtime) as task:
            task.complete_step() if problem is None else task.fail_step(problem)
    conductor.sweeper.sweep()
    return True


def _told(conductor: Stepwise, node: Node, attempt: StepAttempt) -> bool:
    """Complete the first wait by a callback and fail the second."""
    return (_told_well if attempt.step == "first" else _told_badly)(conductor, node, attempt)


def _silent(conductor: Stepwise, node: Node, attempt: StepAttempt) -> bool:
    """Let the wait time out."""
    conductor.sweeper.sweep()
    return True


def _undeploys(conductor: Stepwise, node: Node, attempt: StepAttempt) -> bool:
    if not states.can(node.provision_state, states.DELETE):
        return False
    tear_down(conductor, node)
    return True


def _boots(conductor: Stepwise, node: Node, attempt: StepAttempt) -> bool:
    """Beat as the agent of the old boot, in vain, and then as that of the new one."""
    if attempt.step != "reboots":
        return False
    old = journal.path.with_suffix(".token").read_text()
    try:
        conductor.manager.heartbeat(None, node.uuid, support.CALLBACK, agent_token=old)
    except exceptions.InvalidParameterValue:
        agent_beats(conductor, node)
        return True
    raise AssertionError("the agent of the old boot was heard")


def _asked(priority: int, step: str, interface: str = "deploy", **args: Any) -> dict[str, Any]:
    return {"interface": interface, "step": step, "args": args, "priority": priority}


def _job(how: str) -> dict[str, Any]:
    """Return the values of a node whose work of one call goes like this."""
    return {"extra": {"job": how}}


HOLD = (_asked(85, "hold"), _asked(84, "wait", seconds=0.001), _asked(83, "reboot", "power"))
WAIT = (_asked(85, "wait"), _asked(80, "power_off", "power"))


def _story(
    name: str,
    vendor: type[drivers.Kinds],
    ways: tuple[Way, ...],
    end: str = states.DONE,
    world: World = nothing_else,
    **more: Any,
) -> Iterator[Scenario]:
    """Yield a story, told in each of these ways; ``end`` is ``done``, ``fail`` or a state."""
    for way in ways:
        if way in JOBS:
            more = {"classes": jobs.INTERFACES, **more}
        if way is UNRESCUE:
            held = {"instance_info": {"rescue_password": jobs.PASSWORD}}
            more = {**more, "values": {**more.get("values", {}), **held}}
        goals = {states.DONE: way.goal, states.FAIL: way.flow.failed}
        told = name if way is DEPLOY else f"{name}-{way.name}"
        yield Scenario(told, way, vendor, goals.get(end, end), world, **more)


_FAIL = states.FAIL
_STORIES = (
    _story("repeatable", drivers.Safe, ALL, backwards=True),
    _story("once", drivers.Once, ALL, backwards=True),
    _story("failing", drivers.Failing, ALL, _FAIL),
    _story("stopping", drivers.Stopping, ALL),
    _story("aborted-running", drivers.Aborted, ALL, _FAIL, values={"extra": {"abort": "running"}}),
    _story("aborted-waiting", drivers.Aborted, WAITING, _FAIL, _aborts("third")),
    _story("aborted-holding", drivers.Alone, REQUESTED, _FAIL, _aborts("hold"), also=HOLD),
    _story("timed-out", drivers.Impatient, WAITING, _FAIL, _at("second", _silent)),
    _story("told", drivers.Waiting, WAITING, _FAIL, _told),
    _story("reserved", drivers.Alone, REQUESTED, also=HOLD),
    _story("reserved-wait", drivers.Alone, REQUESTED, also=WAIT),
    _story("rebooting", drivers.Rebooting, WAITING, world=_boots),
    _story("agent-first", drivers.Waiting, WAITING, values={"extra": {"prepare": "waits"}}),
    _story(
        "agents-steps",
        drivers.Alone,
        WAITING,
        values={"extra": {"prepare": "waits"}},
        classes={**drivers.INTERFACES, "deploy": drivers.TellingDeploy},
        also=(_asked(95, "agents_own", "raid"),),
    ),
    _story("without-ramdisk", drivers.Waiting, (CLEAN, SERVICE), more={"disable_ramdisk": True}),
    _story("resumed-at", drivers.Mended, GOING_ON, again="at"),
    _story("resumed-after", drivers.Mended, GOING_ON, again="after"),
    _story(
        "resumed-agents",
        drivers.Mended,
        GOING_ON,
        again="at",
        values={"extra": {"prepare": "waits"}},
        classes={**drivers.INTERFACES, "deploy": drivers.TellingDeploy},
        also=(_asked(95, "agents_own", "raid"),),
    ),
    _story("empty", drivers.Kinds, (PROVIDE, VERIFY)),
    _story(
        "undeployed-waiting",
        drivers.Waiting,
        GOING_ON,
        states.AVAILABLE,
        _at("second", _undeploys),
        instance=True,
    ),
    _story(
        "undeployed",
        drivers.Waiting,
        (DEPLOY,),
        states.AVAILABLE,
        at=states.ACTIVE,
        verb=tear_down,
        instance=True,
    ),
    _story("old", drivers.Kinds, (DEPLOY,), classes=drivers.OLD),
    _story(
        "powered",
        drivers.Waiting,
        (DEPLOY,),
        states.ACTIVE,
        at=states.ACTIVE,
        verb=power_off,
        steps=False,
    ),
    _story("done", drivers.Kinds, JOBS),
    _story("broken", drivers.Kinds, JOBS, _FAIL, values=_job("fails")),
    _story("told-well", drivers.Kinds, (INSPECT,), world=_told_well, values=_job("waits")),
    _story("told-badly", drivers.Kinds, (INSPECT,), _FAIL, _told_badly, values=_job("waits")),
    _story(
        "aborted",
        drivers.Kinds,
        (INSPECT,),
        _FAIL,
        _aborts("inspect_hardware"),
        values=_job("waits"),
    ),
    _story("silent", drivers.Kinds, (INSPECT,), _FAIL, _silent, values=_job("waits briefly")),
    _story("beats", drivers.Kinds, (RESCUE,), values=_job("waits")),
    _story("aborted", drivers.Kinds, (RESCUE,), _FAIL, _aborts("rescue"), values=_job("waits")),
    _story(
        "undeployed-waiting",
        drivers.Kinds,
        (RESCUE,),
        states.AVAILABLE,
        _undeploys,
        values=_job("waits"),
        instance=True,
    ),
)

SCENARIOS: dict[str, Scenario] = {
    scenario.name: scenario for story in _STORIES for scenario in story
}

IN_DEPLOY = [name for name, scenario in SCENARIOS.items() if scenario.way is DEPLOY]
IN_JOBS = [name for name, scenario in SCENARIOS.items() if scenario.way in JOBS]
ELSEWHERE = [name for name in SCENARIOS if name not in (*IN_DEPLOY, *IN_JOBS)]

DENSE = [
    "repeatable",
    "once",
    "failing",
    "stopping",
    "aborted-running",
    "aborted-waiting",
    "timed-out",
    "told",
    "undeployed",
    "undeployed-waiting",
]
"""Told until each of their points on every database; the others share most of theirs."""

ALIKE = ("failing", "told", "timed-out")
"""Those of them that differ in their ends only: on a server every other point is enough."""
