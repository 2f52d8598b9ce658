"""What a driver may rely on: the shapes of ``task`` and ``task.node``.

Drivers import these for annotations; the conductor's own classes fit them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol


class Node(Protocol):
    """A node as a driver sees it. Changes are kept by :meth:`save`."""

    uuid: str
    name: str | None
    driver: str
    provision_state: str
    target_provision_state: str | None
    power_state: str | None
    target_power_state: str | None
    maintenance: bool
    maintenance_reason: str | None
    last_error: str | None
    instance_uuid: str | None
    instance_info: dict[str, Any]
    driver_info: dict[str, Any]
    properties: dict[str, Any]
    extra: dict[str, Any]
    boot_mode: str | None
    secure_boot: bool | None
    console_enabled: bool
    disable_power_off: bool
    raid_config: dict[str, Any]
    target_raid_config: dict[str, Any]
    deploy_step: dict[str, Any] | None
    clean_step: dict[str, Any] | None
    service_step: dict[str, Any] | None

    @property
    def driver_internal_info(self) -> dict[str, Any]:
        """What drivers and the engine remember; also shows the step list."""

    @driver_internal_info.setter
    def driver_internal_info(self, value: dict[str, Any]) -> None: ...

    def save(self) -> None:
        """Write what changed, nested changes included, under the task's lock.

        :raises LockLost: when the lock was taken away; nothing was written.
        """

    def refresh(self) -> None:
        """Read the row again; changes that were not saved are dropped."""

    def set_driver_internal_info(self, key: str, value: Any) -> None:
        """Set one key of ``driver_internal_info``."""

    def del_driver_internal_info(self, key: str, default_value: Any = None) -> Any:
        """Remove one key and return its value, or ``default_value``."""

    def timestamp_driver_internal_info(self, key: str) -> None:
        """Set a key to the present time (ISO 8601, UTC)."""


class Port(Protocol):
    """A network port of a node."""

    uuid: str
    address: str
    extra: dict[str, Any]
    local_link_connection: dict[str, Any]
    pxe_enabled: bool


class Task(Protocol):
    """One unit of work on one node: the lock, the node and its driver."""

    context: Any
    shared: bool
    purpose: str
    waiting_step: dict[str, Any] | None
    """The step that the heartbeat (or poll) now looked at may complete; None
    when nothing waits for it."""

    @property
    def node(self) -> Node:
        """The node."""

    @property
    def driver(self) -> Any:
        """The node's interfaces, by type: ``task.driver.power`` and so on."""

    @property
    def ports(self) -> Sequence[Port]:
        """The node's ports; read once."""

    def upgrade_lock(self, purpose: str | None = None) -> None:
        """Turn a shared lock into an exclusive one and re-read the node."""

    def process_event(self, event: str, target_state: str | None = None) -> None:
        """Move the node's state by the table; an ending is a whole ending."""

    def complete_step(self) -> None:
        """The step that waited when this task began is done; go on.

        A second call, a late or a wrong one is recorded and changes nothing.
        """

    def fail_step(self, why: str) -> None:
        """The step that waited when this task began failed; end the run."""

    def report_progress(self, percent: float | None, text: str = "") -> None:
        """Tell people how far the step is; never a reason to fail.

        :param percent: 0 to 100; what lies outside is cut. None: the text alone, such as
            what a step waits for.
        :param text: a few words, such as ``writing the image``.
        """

    def keep_evidence(self, name: str, value: Any) -> None:
        """Keep, with the current attempt, what explains how it ended.

        It is shown as ``evidence`` of the attempt (``GET /v1/nodes/<id>/runs``).

        :param name: such as ``command_error``.
        :param value: a JSON value; its texts are masked, and shortened to 64 KiB.
        """

    def switch_power(self, target: str, timeout: float | None = None) -> None:
        """Bring the machine into a power state, through ``driver.power``.

        The node's ``power_state`` stays true, and the agent that a power cycle
        ends is no longer listened to. A node with ``disable_power_off`` is not switched
        off: it is left on, without its agent, and what is to boot it anew has to reboot it.

        :param target: ``states.POWER_ON``, ``POWER_OFF``, ``REBOOT`` or what else
            the power interface takes.
        :param timeout: seconds to try; None means the driver's default.
        :raises PowerStateFailure: when the state was not reached.
        """

    def keep_bios_settings(self, settings: Sequence[Mapping[str, Any]]) -> None:
        """Keep the settings of the machine's firmware, in place of those kept before.

        :param settings: each a dict of ``name`` and ``value`` and, as far as they are
            known, ``attribute_type``, ``allowable_values``, ``lower_bound``,
            ``upper_bound``, ``min_length``, ``max_length``, ``read_only``,
            ``reset_required`` and ``unique``.
        :raises InvalidParameterValue: naming what is none.
        """

    def keep_firmware_components(self, components: Sequence[Mapping[str, Any]]) -> None:
        """Keep what firmware the machine has, in place of what was kept before.

        :param components: each a dict of ``component``, ``current_version`` and, as
            far as they are known, ``initial_version``, ``last_version_flashed``,
            ``vendor``, ``model`` and ``serial_number``.
        :raises InvalidParameterValue: naming what is none.
        """

    def keep_inventory(
        self, inventory: Mapping[str, Any], plugin_data: Mapping[str, Any] | None = None
    ) -> None:
        """Keep what an inspection found, in place of what the last one did."""

    def spawn_after(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        """Run ``call`` in a worker, with the lock, once this block ends."""

    def release_resources(self) -> None:
        """Free the lock; a second call does nothing."""
