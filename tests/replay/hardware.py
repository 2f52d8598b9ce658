"""Hardware like that of the recorded server, whose work goes on only when the replay says so.

``fake-hardware`` is the product's own. ``custom-agent``, the RAID interface ``agent`` and the
hardware type ``redfish`` are stand-ins: they offer the recorded names and states, so that the API
comes into the recorded situations.
"""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

from deploysteps import states
from deploysteps.drivers import discovery, fake, fake_base, noop
from deploysteps.drivers.contract import wait_state
from deploysteps.drivers.declare import clean_step, deploy_step
from deploysteps.drivers.factory import Registry
from deploysteps.steps import INTERFACE_TYPES


class Gate:
    """Where fake work waits, node by node, until it is let through."""

    WORK: ClassVar = {
        ("bios", "apply_configuration"),
        ("bios", "factory_reset"),
        ("deploy", "deploy"),
        ("deploy", "erase_devices"),
        ("deploy", "prepare"),
        ("deploy", "prepare_cleaning"),
        ("deploy", "tear_down"),
        ("management", "check_bmc"),
        ("power", "reboot"),
    }

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._waiting: Counter[str] = Counter()
        self._permits: Counter[str] = Counter()
        self._open = False

    def act(self, act: Callable[..., None]) -> Callable[..., None]:
        """Wrap :meth:`fake_base.Fake.act`."""

        def gated(interface: Any, task: Any, method: str, *more: Any) -> None:
            if (interface.interface_type, method) in self.WORK:
                self._wait(task.node.uuid)
            act(interface, task, method, *more)

        return gated

    def _wait(self, node: str) -> None:
        with self._changed:
            self._waiting[node] += 1
            self._changed.notify_all()
            let = self._changed.wait_for(lambda: self._open or self._permits[node], 60)
            assert let, "nobody let the work through"
            self._permits[node] -= 1

    def holds(self, node: str) -> bool:
        """Whether work of the node waits."""
        with self._changed:
            return self._waiting[node] > 0

    def let_one(self, node: str) -> None:
        """Let one piece of the node's work through."""
        with self._changed:
            self._waiting[node] -= 1
            self._permits[node] += 1
            self._changed.notify_all()

    def open(self) -> None:
        """Let everything through, for ever."""
        with self._changed:
            self._open = True
            self._changed.notify_all()


class AgentDeploy(fake.FakeDeploy):
    """Boots an agent and has its steps; each ends with a heartbeat."""

    @deploy_step(priority=100)
    def deploy(self, task: Any) -> str:
        """Boot the agent."""
        task.node.power_state = states.POWER_ON
        return wait_state(task)

    def prepare_cleaning(self, task: Any) -> str:
        """Boot the agent."""
        self.act(task, "prepare_cleaning")
        return states.CLEANWAIT

    @clean_step(priority=0)
    @deploy_step(priority=50)
    def peer_mark(self, task: Any) -> str:
        """Do nothing on the machine."""
        return wait_state(task)

    @clean_step(priority=0, argsinfo={"seconds": {"description": "how long"}})
    @deploy_step(priority=0, argsinfo={"seconds": {"description": "how long"}})
    def peer_sleep(self, task: Any, seconds: float = 1) -> str:
        """Sleep on the machine."""
        return wait_state(task)

    @deploy_step(priority=0)
    def peer_fail(self, task: Any) -> str:
        """Fail on the machine; the replay does that."""
        return wait_state(task)

    @deploy_step(priority=0)
    def peer_reboot(self, task: Any) -> str:
        """Reboot the machine."""
        return wait_state(task)


class AgentRAID(fake.FakeRAID):
    """Offers what the fake one does."""


class AgentInspect(fake.FakeInspect):
    """Finds what the fake one does."""


class RedfishPower(fake.FakePower):
    """A switch like the fake one."""


class RedfishManagement(fake.FakeManagement):
    """A boot device like the fake one."""


class RedfishBIOS(fake.FakeBIOS):
    """Settings like the fake ones."""


class RedfishBoot(fake.FakeBoot):
    """Boots nothing, as the fake one."""


def _supported(*classes: type) -> property:
    return property(lambda self: classes)


class Fake(fake.FakeHardware):
    """Fake hardware with a deploy interface of an agent."""

    supported_deploy_interfaces = _supported(fake.FakeDeploy, AgentDeploy)
    supported_raid_interfaces = _supported(fake.FakeRAID, AgentRAID, noop.NoRAID)


class Redfish(fake.FakeHardware):
    """Hardware that shares no power or boot interface with the fake."""

    supported_bios_interfaces = _supported(RedfishBIOS)
    supported_boot_interfaces = _supported(RedfishBoot)
    supported_console_interfaces = _supported(noop.NoConsole)
    supported_deploy_interfaces = _supported(AgentDeploy)
    supported_firmware_interfaces = _supported(noop.NoFirmware)
    supported_inspect_interfaces = _supported(AgentInspect)
    supported_management_interfaces = _supported(RedfishManagement)
    supported_power_interfaces = _supported(RedfishPower)
    supported_raid_interfaces = _supported(noop.NoRAID)
    supported_rescue_interfaces = _supported(noop.NoRescue)
    supported_vendor_interfaces = _supported(noop.NoVendor)


_NAMES = {
    "bios": {"redfish": RedfishBIOS},
    "boot": {"redfish-virtual-media": RedfishBoot},
    "deploy": {"custom-agent": AgentDeploy},
    "inspect": {"agent": AgentInspect},
    "management": {"redfish": RedfishManagement},
    "power": {"redfish": RedfishPower},
    "raid": {"agent": AgentRAID},
}


def registry(conf: Any) -> Registry:
    """Return a registry of this hardware beside the product's fake and no-op interfaces."""

    def plugin(name: str, value: type) -> discovery.Plugin:
        return discovery.Plugin(name, "the replay", value)

    found = {
        discovery.TYPES: {
            name: plugin(name, kind)
            for name, kind in (("fake-hardware", Fake), ("redfish", Redfish))
        }
    }
    for kind in INTERFACE_TYPES:
        group = discovery.namespace(kind)
        own = {name: plugin(name, value) for name, value in _NAMES.get(kind, {}).items()}
        found[group] = {**discovery.plugins(group), **own}
    conf.set_override("enabled_hardware_types", list(found[discovery.TYPES]))
    return Registry(conf, find=lambda group: found[group])


def until(condition: Callable[[], Any], what: str, seconds: float = 60) -> Any:
    """Wait until something is so."""
    end = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < end, what
        time.sleep(0.005)
    return value


ACT = fake_base.Fake.act
"""As it is, before a gate is built in."""
