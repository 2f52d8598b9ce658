"""What a step is, and what one flow of steps differs in from another.

A :class:`StepFlow` is data: the engine asks it for names and never which
flow it is.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any, Literal

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
    """Column of the node with the current step."""
    list_field: str
    """Column with the plan; shown inside ``driver_internal_info``."""
    index_field: str
    """Column with the position in the plan; shown likewise."""
    running: str
    """State while a step's code runs."""
    waiting: str
    """State while a step goes on elsewhere."""
    core: tuple[str, str] | None
    """The step that may be disabled, but not given another priority."""
    prepare: str | None
    """Method of the deploy interface that runs before the first step."""
    clean_up: str | None
    """Method of the deploy interface that runs before a failed run's end."""
    flags: tuple[str, ...]
    """Keys of ``driver_internal_info`` by which drivers of the field say that
    a step goes on; they belong to one attempt and go with it."""
    reboots: str
    """The flag among them that says that the machine reboots."""
    callback_timeout: str
    """``[conductor]`` option: silence of the agent that fails a wait."""
    overrides: str
    """``[conductor]`` option with operators' priorities."""
    error: type[exceptions.DeployStepsException]
    """What a step of this flow raises when it fails."""

    @property
    def done(self) -> str:
        """State after the last step."""
        return states.next_state(self.running, states.DONE)

    @property
    def failed(self) -> str:
        """State after a failure."""
        return states.next_state(self.running, states.FAIL)

    def rank_of(self, interface: str) -> int:
        """Return the interface's place in :attr:`rank`; the first is 0."""
        return self.rank.index(interface)


DEPLOY = StepFlow(
    name="deploy",
    rank=(
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
    ),
    collect="get_deploy_steps",
    execute="execute_deploy_step",
    step_field="deploy_step",
    list_field="deploy_steps",
    index_field="deploy_step_index",
    running=states.DEPLOYING,
    waiting=states.DEPLOYWAIT,
    core=("deploy", "deploy"),
    prepare="prepare",
    clean_up="clean_up",
    flags=("deployment_polling", "deployment_reboot", "skip_current_deploy_step"),
    reboots="deployment_reboot",
    callback_timeout="deploy_callback_timeout",
    overrides="deploy_step_priority_override",
    error=exceptions.DeployStepFailed,
)

FLOWS: dict[str, StepFlow] = {flow.name: flow for flow in (DEPLOY,)}


def flow_of_state(state: str | None) -> StepFlow | None:
    """Return the flow whose running or waiting state this is."""
    for flow in FLOWS.values():
        if state in (flow.running, flow.waiting):
            return flow
    return None


Owner = Literal["agent", "poller", "timer"]
"""Who ends a wait: the machine's agent by a heartbeat, ``check_step`` asked on
the timer, or the timer alone (a retry's pause)."""
