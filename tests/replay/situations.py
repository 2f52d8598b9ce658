"""In which situation a recorded request was made, where the requests before it do not say so.

The recordings are cut by topic out of two long sessions: what happened between two requests of a
flow stands in another flow, or nowhere. Where a request changes something here and did not there,
or the other way round, the next one needs its situation, too.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from deploysteps import states

_TARGETS = {
    states.CLEANFAIL: "manageable",
    states.DEPLOYFAIL: "active",
}


@dataclasses.dataclass(frozen=True)
class Situation:
    """How a node is."""

    state: str | None
    """None: there is none of this name."""
    busy: bool = False
    """Somebody works on it: it is locked."""
    asked: Mapping[str, Any] | None = None
    """What was asked of it then; it goes on with that."""
    more: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    """Other columns."""

    @property
    def target(self) -> str | None:
        return _TARGETS.get(self.state or "")


@dataclasses.dataclass(frozen=True)
class Recorded:
    """A node of the recordings."""

    uuid: str
    members: Mapping[str, Any]
    addresses: tuple[str, ...] = ()


def _fake(name: str, uuid: str, **more: Any) -> Recorded:
    return Recorded(uuid, {"driver": "fake-hardware", "name": name, **more})


NODES = {
    "n1": _fake("n1", "00b6a43b-cd14-49dc-8a14-d20deee713cc", resource_class="baremetal"),
    "n2": _fake("n2", "b812be6a-ed7c-4f13-b1d5-8875f506aa2b", raid_interface="agent"),
    "s1": _fake("s1", "e9e345e2-8922-43e4-97ac-93260f49f602"),
    "s2": _fake("s2", "c79ed832-461e-43ff-a2d5-91d2ab32c34c"),
    "s3": _fake("s3", "82893826-c21f-4942-bc5e-cdc865e83716"),
    "p1": Recorded(
        "ddc3c6d2-5f8b-4919-8c2d-259d1c45d668",
        {
            "driver": "fake-hardware",
            "name": "p1",
            "deploy_interface": "custom-agent",
            "automated_clean": False,
        },
        ("52:54:00:00:00:01",),
    ),
}

_ENROLL = Situation(states.ENROLL)
_MANAGEABLE = Situation(states.MANAGEABLE)
_AVAILABLE = Situation(states.AVAILABLE)
_ACTIVE = Situation(states.ACTIVE)
_DEPLOYFAIL = Situation(states.DEPLOYFAIL)
_CLEANFAIL = Situation(states.CLEANFAIL)
_DEPLOYING = Situation(states.AVAILABLE, asked={"target": "active"})
_CLEANING = Situation(
    states.MANAGEABLE,
    asked={"target": "clean", "clean_steps": [{"interface": "bios", "step": "factory_reset"}]},
)

SITUATIONS: dict[str, dict[int, dict[str, Situation]]] = {
    "agent-autotls": {0: {"p1": _AVAILABLE}},
    "agent-deploy-flow": {0: {"p1": _ACTIVE}, 33: {"p1": _DEPLOYFAIL}, 46: {"p1": _DEPLOYFAIL}},
    "agent-inband-clean-flow": {0: {"p1": _AVAILABLE}},
    "agent-lookup-heartbeat-errors": {
        0: {"p1": _DEPLOYFAIL},
        33: {"p1": _DEPLOYFAIL},  # that server could not reach the agent
    },
    "cli-deploy-in-progress": {0: {"n1": _DEPLOYING}, 14: {"n1": _AVAILABLE}},
    "cli-deploy-undeploy-rebuild": {
        0: {"n1": _AVAILABLE, "n2": _AVAILABLE},
        11: {"n1": _ACTIVE},  # the unknown step was dropped, here it is refused
        21: {"n1": _ACTIVE},  # so was the one that was asked for twice
        36: {"n2": Situation(states.AVAILABLE, busy=True)},  # and the one with wrong arguments
        40: {"n2": _ACTIVE},
        42: {"n1": _DEPLOYING},  # a plan without steps fails before it can be looked at
        43: {"n1": _DEPLOYFAIL},
        57: {"n1": Situation(states.ACTIVE, busy=True)},
    },
    "cli-drivers-conductors": {},
    "cli-errors": {0: {"n1": _CLEANFAIL}},
    "cli-manage-provide-clean": {
        0: {"n1": _ENROLL},
        6: {"n2": _ENROLL},
        19: {"n1": _CLEANFAIL},  # the unknown step failed, here it is refused
        28: {"n1": _CLEANFAIL},  # the fake step there needs a ramdisk, here it does not
    },
    "cli-node-crud-list": {
        7: {"n1": _MANAGEABLE},
        8: {"n1": _AVAILABLE},
        12: {"n1": _CLEANFAIL, "n2": _AVAILABLE},
    },
    "cli-ports": {0: {"n1": _MANAGEABLE}},
    "cli-power-boot-maintenance": {0: {"n1": _AVAILABLE}},
    "cli-redfish-node": {},
    "cli-templates-runbooks-allocations": {0: {"n1": _MANAGEABLE}},
    "openstacksdk": {
        0: {"n1": _CLEANFAIL},
        69: {"s2": _CLEANING},  # the unknown step began and failed, here it is refused
        70: {"s2": _CLEANFAIL},
    },
    "version-negotiation-and-bad-requests": {
        0: {
            "n1": _CLEANFAIL,
            "s1": Situation(states.AVAILABLE, more={"power_state": states.POWER_ON}),
            "s2": _CLEANFAIL,
            "s3": _AVAILABLE,
        },
    },
}
"""Flow -> number of an exchange -> how nodes are before it."""
