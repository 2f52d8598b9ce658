"""What a step is, and what one flow of steps differs in from another.

A :class:`StepFlow` is data: the engine asks it for names and never which
flow it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, get_args

from deploysteps import exceptions, states

INTERFACE_TYPES: tuple[str, ...] = (
    "bios",
    "boot",
    "console",
    "deploy",
    "firmware",
    "inspect",
    "management",
    "network",
    "power",
    "raid",
    "rescue",
    "storage",
    "vendor",
)
"""Every kind of hardware interface a node has, in the order people list them."""

MAX_PRIORITY = 2**31 - 1
"""The largest priority that databases, JSON and every client can hold."""

StepDict = dict[str, Any]
"""A step as it is stored and shown: ``interface``, ``step``, ``priority``,
``args``, ``argsinfo``, ``abortable``, ``source`` and, in a plan, ``id``."""


@dataclasses.dataclass(frozen=True, slots=True)
class Declaration:
    """What ``@deploy_step`` and its kin say about a method."""

    flow: str
    priority: int
    argsinfo: Mapping[str, Mapping[str, Any]] | None = None
    abortable: bool = True
    repeatable: bool = False
    timeout: float | None = None
    retries: int = 0
    retry_delay: float = 0
    requires_ramdisk: bool = False


AWAITS_AGENT = "awaits_agent_steps"
"""Key of ``driver_internal_info``: the plan lacks what the agent will offer."""


AGENT_TOLD = "agent_told_steps"
"""Key of ``driver_internal_info``: flows whose steps the agent of this boot has told."""

STARTED_OVER = "steps_started_over"
"""Key of ``driver_internal_info``: how often the run began again, with a new plan."""


class Flags(NamedTuple):
    """Keys of ``driver_internal_info`` by which drivers of the field say how a step goes on.

    They belong to one attempt: they become its fields and go.
    """

    reboot: str
    """The machine reboots: only a new boot of its agent counts."""
    polling: str
    """A periodic method of the driver ends the wait, not a heartbeat."""
    skip: str
    """False: the step is entered again when the wait is over."""


class Call(NamedTuple):
    """A method of an interface that the engine calls beside the steps."""

    interface: str
    method: str


@dataclasses.dataclass(frozen=True, slots=True)
class StepFlow:
    """One kind of run, as data. Field names say what differs."""

    name: str
    """``deploy``: names the runs, and the decorator's mark."""
    rank: tuple[str, ...]
    """Interfaces in the order that breaks ties of priority."""
    collect: str
    """``BaseInterface`` method that lists an interface's steps."""
    execute: str
    """``BaseInterface`` method that runs one step."""
    step_field: str
    """Attribute of the node with the current step."""
    list_field: str
    """Column with the plan; shown inside ``driver_internal_info``."""
    index_field: str
    """Column with the position in the plan; shown likewise."""
    running: str
    """State while a step's code runs."""
    forbidden: str
    """``[conductor]`` option with the steps that operators forbid."""
    error: type[exceptions.DeployStepsException]
    """What a step of this flow raises when it fails."""
    waiting: str | None = None
    """State while a step goes on elsewhere; None where nothing can wait."""
    holding: str | None = None
    """State while the run waits for an operator."""
    core: tuple[str, str] | None = None
    """The step that may be disabled, but not given another priority."""
    prepare: Call | None = None
    """Runs before the first step, as an attempt of its own; may wait."""
    finish: Call | None = None
    """Runs after the last step, before a good end."""
    clean_up: Call | None = None
    """Runs before a failed run's end."""
    flags: Flags | None = None
    fault: str | None = None
    """``fault`` of the node, which is set to maintenance, when one of its steps has failed."""
    callback_timeout: str | None = None
    """``[conductor]`` option: silence of the agent that fails a wait."""
    overrides: str | None = None
    """``[conductor]`` option with operators' priorities."""
    no_ramdisk: str | None = None
    """Key of ``driver_internal_info``: this run does without the ramdisk. Where there is
    such a choice, steps say whether they need it (``requires_ramdisk``)."""
    brake: str | None = None
    """``[conductor]`` option: how many nodes may be in this flow at once."""
    in_order: bool = False
    """What a request asks for is the whole list, in its order; else it is laid
    over what the driver offers."""
    on_request: bool = False
    """Without steps that somebody asks for there is nothing to run."""
    templates: bool = False
    """Deploy templates add steps, by the instance's traits."""
    may_be_empty: bool | str = False
    """Whether a run without any step ends well, or the ``[conductor]`` option that says so."""
    switch: str | None = None
    """``[conductor]`` option by which a run that nobody asked steps for does none."""
    old_way: bool = False
    """Interfaces without any step may run it by one method, ``deploy(task)``."""
    job: bool = False
    """There are no steps: ``prepare`` is all there is to do."""
    says_done: str | None = None
    """What drivers of the field answer when ``prepare`` is done; None says so everywhere."""
    waits_for: str = "agent"
    """Who ends a wait that is neither polled nor said to be somebody's."""
    wait_timeout: str | None = None
    """``[conductor]`` option: how long a wait may take that names no limit."""
    cut_short: Call | None = None
    """Stops what goes on elsewhere when its wait ends badly, where a driver can."""
    drops: tuple[str, ...] = ()
    """Keys of ``instance_info`` that go with the run."""
    times: tuple[str, str] | None = None
    """Columns of the node: since when a run goes on, and when the last one ended well."""

    @property
    def failed(self) -> str:
        """State after a failure."""
        return states.next_state(self.running, states.FAIL)

    @property
    def states(self) -> tuple[str, ...]:
        """The states of a node that is in this flow."""
        return tuple(state for state in (self.running, self.waiting, self.holding) if state)

    @property
    def braked(self) -> tuple[str, ...]:
        """States of nodes that are in this flow, or on the way into it."""
        coming = (
            move.start
            for move in states.TRANSITIONS
            if move.end == self.running and move.start in states.TRANSIENT_STATES
        )
        return (*self.states, *coming)

    @property
    def keys(self) -> tuple[str, ...]:
        """Keys of ``driver_internal_info`` that belong to a run and go with it."""
        run = (
            self.list_field,
            self.index_field,
            AWAITS_AGENT,
            STARTED_OVER,
            self.no_ramdisk,
        )
        return tuple(key for key in (*run, *(self.flags or ())) if key)

    def rank_of(self, interface: str) -> int:
        """Return the interface's place in :attr:`rank`; the first is 0."""
        return self.rank.index(interface)


_RANK = (
    "vendor",
    "power",
    "management",
    "firmware",
    "deploy",
    "bios",
    "raid",
    "network",
    "storage",
    "boot",
    "inspect",
    "console",
    "rescue",
)

DEPLOY = StepFlow(
    name="deploy",
    rank=_RANK,
    collect="get_deploy_steps",
    execute="execute_deploy_step",
    step_field="deploy_step",
    list_field="deploy_steps",
    index_field="deploy_step_index",
    forbidden="forbidden_deploy_steps",
    running=states.DEPLOYING,
    waiting=states.DEPLOYWAIT,
    holding=states.DEPLOYHOLD,
    core=("deploy", "deploy"),
    prepare=Call("deploy", "prepare"),
    clean_up=Call("deploy", "clean_up"),
    flags=Flags("deployment_reboot", "deployment_polling", "skip_current_deploy_step"),
    callback_timeout="deploy_callback_timeout",
    overrides="deploy_step_priority_override",
    brake="max_concurrent_deploy",
    templates=True,
    old_way=True,
    error=exceptions.DeployStepFailed,
)

CLEAN = StepFlow(
    name="clean",
    rank=_RANK,
    collect="get_clean_steps",
    execute="execute_clean_step",
    step_field="clean_step",
    list_field="clean_steps",
    index_field="clean_step_index",
    forbidden="forbidden_clean_steps",
    running=states.CLEANING,
    waiting=states.CLEANWAIT,
    holding=states.CLEANHOLD,
    prepare=Call("deploy", "prepare_cleaning"),
    finish=Call("deploy", "tear_down_cleaning"),
    clean_up=Call("deploy", "tear_down_cleaning"),
    fault="clean failure",
    flags=Flags("cleaning_reboot", "cleaning_polling", "skip_current_clean_step"),
    callback_timeout="clean_callback_timeout",
    overrides="clean_step_priority_override",
    brake="max_concurrent_clean",
    no_ramdisk="cleaning_disable_ramdisk",
    in_order=True,
    may_be_empty="allow_empty_cleaning",
    switch="automated_clean",
    error=exceptions.CleanStepFailed,
)

VERIFY = StepFlow(
    name="verify",
    rank=(
        "power",
        "management",
        "firmware",
        "inspect",
        "deploy",
        "boot",
        "bios",
        "raid",
        "vendor",
        "network",
        "storage",
        "console",
        "rescue",
    ),
    collect="get_verify_steps",
    execute="execute_verify_step",
    step_field="verify_step",
    list_field="verify_steps",
    index_field="verify_step_index",
    forbidden="forbidden_verify_steps",
    running=states.VERIFYING,
    prepare=Call("power", "verify"),
    overrides="verify_step_priority_override",
    may_be_empty=True,
    error=exceptions.VerifyStepFailed,
)

SERVICE = StepFlow(
    name="service",
    rank=("network", *(kind for kind in _RANK if kind != "network")),
    collect="get_service_steps",
    execute="execute_service_step",
    step_field="service_step",
    list_field="service_steps",
    index_field="service_step_index",
    forbidden="forbidden_service_steps",
    running=states.SERVICING,
    waiting=states.SERVICEWAIT,
    holding=states.SERVICEHOLD,
    prepare=Call("deploy", "prepare_service"),
    finish=Call("deploy", "tear_down_service"),
    clean_up=Call("deploy", "tear_down_service"),
    fault="service failure",
    flags=Flags("servicing_reboot", "servicing_polling", "skip_current_service_step"),
    callback_timeout="service_callback_timeout",
    no_ramdisk="service_disable_ramdisk",
    in_order=True,
    on_request=True,
    error=exceptions.ServiceStepFailed,
)

FLOWS: dict[str, StepFlow] = {flow.name: flow for flow in (DEPLOY, CLEAN, VERIFY, SERVICE)}
"""The flows that have steps."""


def _job(name: str, running: str, call: Call, **more: Any) -> StepFlow:
    """Return work of one call as a flow without steps.

    So it has what runs have: one row that says who asked and what became of it,
    waits that are limited, an abort, one ending, and recovery after a crash.
    """
    return StepFlow(
        name=name,
        rank=(),
        collect="",
        execute="",
        step_field="job_step",
        list_field="job_steps",
        index_field="job_step_index",
        running=running,
        forbidden="",
        error=exceptions.DriverOperationError,
        prepare=call,
        job=True,
        **more,
    )


INSPECT = _job(
    "inspect",
    states.INSPECTING,
    Call("inspect", "inspect_hardware"),
    waiting=states.INSPECTWAIT,
    says_done=states.MANAGEABLE,
    waits_for="callback",
    callback_timeout="inspect_wait_timeout",
    wait_timeout="inspect_wait_timeout",
    cut_short=Call("inspect", "abort"),
    times=("inspection_started_at", "inspection_finished_at"),
)
ADOPT = _job("adopt", states.ADOPTING, Call("deploy", "take_over"))
RESCUE = _job(
    "rescue",
    states.RESCUING,
    Call("rescue", "rescue"),
    waiting=states.RESCUEWAIT,
    says_done=states.RESCUE,
    callback_timeout="rescue_callback_timeout",
    clean_up=Call("rescue", "clean_up"),
    drops=("rescue_password", "hashed_rescue_password"),
)
UNRESCUE = _job(
    "unrescue",
    states.UNRESCUING,
    Call("rescue", "unrescue"),
    says_done=states.ACTIVE,
    drops=("rescue_password", "hashed_rescue_password"),
)

JOBS: dict[str, StepFlow] = {flow.name: flow for flow in (INSPECT, ADOPT, RESCUE, UNRESCUE)}
"""What is one call of a driver's, in the shape of a flow."""

RUNS: dict[str, StepFlow] = {**FLOWS, **JOBS}
"""Everything that a run can be of."""

_BY_STATE = {state: flow for flow in RUNS.values() for state in flow.states}


def flow_of_state(state: str | None) -> StepFlow | None:
    """Return the flow whose running, waiting or holding state this is."""
    return _BY_STATE.get(state or "")


Owner = Literal["agent", "poller", "timer", "callback", "operator"]
"""Who ends a wait: the machine's agent by a heartbeat; ``check_step`` asked on
the timer; the timer alone (a pause); the driver by ``task.complete_step()``; an
operator by ``unhold``."""

Resume = Literal["at", "after"]
"""How a failed run goes on: with the step that failed, or with the one after it."""

OWNERS: tuple[str, ...] = get_args(Owner)

NO_DRIVERS_TO_END: tuple[Owner, ...] = ("timer", "operator")
"""Owners of waits that nothing which a driver says, or hears from an agent, ends."""
