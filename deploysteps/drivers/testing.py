"""For tests of drivers: run a step without hardware, database or conductor.

::

    def test_sriov():
        task = testing.FakeTask(MyBIOS(), driver_info={"address": "10.0.0.1"})
        assert testing.run_step(task, "enable_sriov", {"port": 3}) is None
"""

from __future__ import annotations

import copy
import dataclasses
import datetime
import types
import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deploysteps import exceptions, protocols, states, steps
from deploysteps.drivers import args as step_args
from deploysteps.drivers.contract import BaseInterface, overrides_check_step


@dataclasses.dataclass
class FakeNode:
    """A node that is kept nowhere."""

    uuid: str = dataclasses.field(default_factory=lambda: str(uuid.uuid4()))
    name: str | None = None
    driver: str = "fake-hardware"
    provision_state: str = states.DEPLOYING
    target_provision_state: str | None = states.ACTIVE
    power_state: str | None = None
    target_power_state: str | None = None
    maintenance: bool = False
    maintenance_reason: str | None = None
    last_error: str | None = None
    instance_uuid: str | None = None
    instance_info: dict[str, Any] = dataclasses.field(default_factory=dict)
    driver_info: dict[str, Any] = dataclasses.field(default_factory=dict)
    driver_internal_info: dict[str, Any] = dataclasses.field(default_factory=dict)
    properties: dict[str, Any] = dataclasses.field(default_factory=dict)
    extra: dict[str, Any] = dataclasses.field(default_factory=dict)
    boot_mode: str | None = None
    secure_boot: bool | None = None
    console_enabled: bool = False
    disable_power_off: bool = False
    raid_config: dict[str, Any] = dataclasses.field(default_factory=dict)
    target_raid_config: dict[str, Any] = dataclasses.field(default_factory=dict)
    deploy_step: dict[str, Any] | None = None
    clean_step: dict[str, Any] | None = None
    service_step: dict[str, Any] | None = None
    saves: int = 0
    """How often :meth:`save` was called."""

    def save(self) -> None:
        """Count."""
        self.saves += 1

    def refresh(self) -> None:
        """Nothing was kept, so nothing is read."""

    def set_driver_internal_info(self, key: str, value: Any) -> None:
        """Set one key of ``driver_internal_info``."""
        self.driver_internal_info[key] = value

    def del_driver_internal_info(self, key: str, default_value: Any = None) -> Any:
        """Remove one key and return its value, or ``default_value``."""
        return self.driver_internal_info.pop(key, default_value)

    def timestamp_driver_internal_info(self, key: str) -> None:
        """Set a key to the present time."""
        self.driver_internal_info[key] = datetime.datetime.now(datetime.UTC).isoformat()


class FakeTask:
    """A task on a :class:`FakeNode` with some interfaces.

    :param interfaces: what ``task.driver`` has.
    :param node: keyword arguments of the node, such as ``driver_info``.
    """

    def __init__(self, *interfaces: BaseInterface, **node: Any) -> None:
        """See the class."""
        self.context: Any = None
        self.shared = False
        self.purpose = "test"
        self.waiting_step: dict[str, Any] | None = None
        self.node: protocols.Node = FakeNode(**node)
        self.driver: Any = types.SimpleNamespace(
            **{str(interface.interface_type): interface for interface in interfaces}
        )
        self.ports: Sequence[protocols.Port] = ()
        self.events: list[tuple[Any, ...]] = []
        """What the driver asked the task for: name and arguments of the calls."""

    def upgrade_lock(self, purpose: str | None = None) -> None:
        """Note the call."""
        self.shared = False

    def process_event(self, event: str, target_state: str | None = None) -> None:
        """Note the event."""
        self.events.append(("process_event", event))

    def complete_step(self) -> None:
        """Note that the waiting step is done."""
        self.events.append(("complete_step",))

    def fail_step(self, why: str) -> None:
        """Note that the waiting step failed."""
        self.events.append(("fail_step", why))

    def report_progress(self, percent: float | None, text: str = "") -> None:
        """Note how far the step is."""
        self.events.append(("report_progress", percent, text))

    def keep_evidence(self, name: str, value: Any) -> None:
        """Note what was kept."""
        self.events.append(("keep_evidence", name, value))

    def switch_power(self, target: str, timeout: float | None = None) -> None:
        """Note the call, and switch the power interface if there is one."""
        self.events.append(("switch_power", target))
        power = getattr(self.driver, "power", None)
        if self.node.disable_power_off and states.POWER_TARGETS.get(target) == states.POWER_OFF:
            return
        if power is not None and target == states.REBOOT:
            power.reboot(self, timeout=timeout)
        elif power is not None:
            power.set_power_state(self, target, timeout=timeout)
        self.node.power_state = states.POWER_TARGETS[target]

    def keep_bios_settings(self, settings: Sequence[Mapping[str, Any]]) -> None:
        """Note the settings."""
        self.events.append(("keep_bios_settings", list(settings)))

    def keep_firmware_components(self, components: Sequence[Mapping[str, Any]]) -> None:
        """Note the components."""
        self.events.append(("keep_firmware_components", list(components)))

    def keep_inventory(
        self, inventory: Mapping[str, Any], plugin_data: Mapping[str, Any] | None = None
    ) -> None:
        """Note the inventory."""
        self.events.append(("keep_inventory", inventory, plugin_data))

    def spawn_after(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Note what is to run later; it does not run."""
        self.events.append(("spawn_after", call, args, kwargs))

    def release_resources(self) -> None:
        """Note the call."""
        self.events.append(("release_resources",))


def run_step(
    task: FakeTask,
    name: str,
    args: Mapping[str, Any] | None = None,
    *,
    flow: steps.StepFlow = steps.DEPLOY,
) -> str | None:
    """Run a step as the engine does: check its arguments, run it, check its answer.

    The node is brought into the flow's state first, and its current step set.

    :param name: the step's name, or ``<interface>.<step>``.
    :param flow: one of ``steps.FLOWS``.
    :returns: None (done) or the wait state.
    :raises InvalidParameterValue: when the arguments are not what it declares.
    :raises Exception: what the step raises, and the flow's error for an answer
        that is neither None nor the flow's wait state.
    """
    owner, step = _find(task, name, flow)
    label = f"{step['interface']}.{step['step']}"
    step_args.validate_step_args(step["argsinfo"], args, step=label)
    current = {**step, "args": copy.deepcopy(dict(args or {}))}
    task.node.provision_state = flow.running
    if hasattr(task.node, flow.step_field):
        setattr(task.node, flow.step_field, current)
    answer = getattr(owner, flow.execute)(task, current)
    if isinstance(answer, states.Wait) and answer.poll is not None and answer == flow.waiting:
        if not overrides_check_step(owner):
            raise flow.error(
                f"{label} asked to be polled, but {type(owner).__name__} has no check_step(); "
                "write one, or return the plain wait state for a wait that the agent ends"
            )
        return answer
    if answer is None or (isinstance(answer, str) and answer == flow.waiting):
        return answer
    allowed = f"None or {flow.waiting!r}" if flow.waiting else "None: it cannot wait"
    shown = f" {str(answer)!r}" if isinstance(answer, str) and answer in states.STATES else ""
    raise flow.error(f"{label} returned a {type(answer).__name__}{shown}; it must return {allowed}")


def _find(task: FakeTask, name: str, flow: steps.StepFlow) -> tuple[BaseInterface, steps.StepDict]:
    known: list[str] = []
    for owner in vars(task.driver).values():
        for step in getattr(owner, flow.collect)(task):
            known.append(f"{step['interface']}.{step['step']}")
            if name in (step["step"], known[-1]):
                return owner, step
    raise exceptions.InvalidParameterValue(
        f"there is no {flow.name} step {name!r}; there are {', '.join(known) or 'none'} "
        "(flow=... names another flow)"
    )
