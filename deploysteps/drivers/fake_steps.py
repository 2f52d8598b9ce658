"""Fake interfaces with steps of every kind.

Only ``deploy.deploy`` in a deployment and ``deploy.erase_devices`` in automated
cleaning run by themselves; the others have priority 0 and run when a request
or a setting gives them another one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from deploysteps import exceptions, protocols, states
from deploysteps.drivers import interfaces, raid_schema
from deploysteps.drivers.contract import wait_state
from deploysteps.drivers.declare import clean_step, deploy_step, service_step
from deploysteps.drivers.fake_base import Fake
from deploysteps.drivers.passthru import passthru

_SECONDS = {"type": "number", "minimum": 0, "maximum": 86_400}
_TIMES = {"type": "integer", "minimum": 0, "maximum": 1000}


def _argument(description: str, **more: Any) -> dict[str, Any]:
    return {"description": description, **more}


Method = TypeVar("Method")


def on_request(
    argsinfo: Mapping[str, Mapping[str, Any]] | None = None,
    *,
    abortable: bool = True,
    requires_ramdisk: bool = False,
    **options: Any,
) -> Callable[[Method], Method]:
    """Declare a step of every flow that may wait; it runs when somebody asks for it."""

    def mark(method: Method) -> Method:
        deploy_step(0, argsinfo, abortable=abortable, **options)(method)
        for declare in (clean_step, service_step):
            declare(0, abortable, argsinfo, requires_ramdisk, **options)(method)
        return method

    return mark


class _Polled(Fake):
    """Has steps that go on for some seconds and are then found done."""

    def begin(self, task: protocols.Task, method: str, seconds: float) -> str:
        """Start what :meth:`check_step` finds done after ``seconds``."""
        self.act(task, method)
        task.node.set_driver_internal_info(self._key(method), time.time() + seconds)
        return states.wait(wait_state(task), poll=min(seconds / 4, 1), at_most=5)

    def check_step(self, task: protocols.Task, step: Mapping[str, Any]) -> states.StepStatus:
        """Tell whether the time of a polled step has passed; others are done."""
        self.act(task, "check_step")
        key = self._key(step["step"])
        if task.node.driver_internal_info.get(key, 0) > time.time():
            return states.StepStatus.RUNNING
        task.node.del_driver_internal_info(key)
        return states.StepStatus.DONE

    def _key(self, method: str) -> str:
        return f"fake_{self.interface_type}_{method}_until"


class FakeDeploy(_Polled, interfaces.DeployInterface):
    """Deploys nothing, in one big step or in steps of every kind."""

    def prepare(self, task: protocols.Task) -> None:
        """Take as long, or fail, as asked."""
        self.act(task, "prepare")

    def clean_up(self, task: protocols.Task) -> None:
        """Take as long, or fail, as asked."""
        self.act(task, "clean_up")

    def tear_down(self, task: protocols.Task) -> str | None:
        """Take as long, or fail, as asked."""
        self.act(task, "tear_down")
        return states.DELETED

    def take_over(self, task: protocols.Task) -> None:
        """Take as long, or fail, as asked."""
        self.act(task, "take_over")

    @deploy_step(priority=100)
    def deploy(self, task: protocols.Task) -> None:
        """Deploy in one big step."""
        self.act(task, "deploy")

    def prepare_cleaning(self, task: protocols.Task) -> str | None:
        """Take as long, or fail, as asked."""
        self.act(task, "prepare_cleaning")
        return None

    def tear_down_cleaning(self, task: protocols.Task) -> None:
        """Take as long, or fail, as asked."""
        self.act(task, "tear_down_cleaning")

    def prepare_service(self, task: protocols.Task) -> str | None:
        """Take as long, or fail, as asked."""
        self.act(task, "prepare_service")
        return None

    def tear_down_service(self, task: protocols.Task) -> None:
        """Take as long, or fail, as asked."""
        self.act(task, "tear_down_service")

    @clean_step(priority=10, abortable=True)
    def erase_devices(self, task: protocols.Task) -> None:
        """Erase the disks that are not there."""
        self.act(task, "erase_devices")

    @clean_step(priority=0, abortable=True)
    def erase_devices_metadata(self, task: protocols.Task) -> None:
        """Erase their partition tables only."""
        self.act(task, "erase_devices_metadata")

    @on_request(requires_ramdisk=True)
    def wait_for_agent(self, task: protocols.Task) -> str:
        """Wait until the machine's agent beats."""
        self.act(task, "wait_for_agent")
        return wait_state(task)

    @on_request(abortable=False, requires_ramdisk=True)
    def wait_unabortable(self, task: protocols.Task) -> str:
        """Wait until the machine's agent beats; an abort waits too."""
        self.act(task, "wait_unabortable")
        return wait_state(task)

    @on_request({"seconds": _argument("how long it goes on", schema=_SECONDS)})
    def poll(self, task: protocols.Task, seconds: float = 2) -> str:
        """Go on elsewhere; the conductor looks from time to time."""
        return self.begin(task, "poll", seconds)

    @on_request(repeatable=True)
    def repeat(self, task: protocols.Task) -> None:
        """Run at once; a crash in the middle of it runs it again."""
        self.act(task, "repeat")

    @on_request(
        {"failures": _argument("how often it fails first", schema=_TIMES)},
        repeatable=True,
        retries=3,
        retry_delay=1,
    )
    def retry(self, task: protocols.Task, failures: int = 2) -> None:
        """Fail some times and then work."""
        self.act(task, "retry")
        failed = self.count(task, "retry", failures)
        if failed is not None:
            raise exceptions.DeployStepFailed(f"failure {failed} of {failures}")

    @on_request(
        {
            "times": _argument("how often it is not ready first", schema=_TIMES),
            "after": _argument("seconds before it is entered again", schema=_SECONDS),
        },
        repeatable=True,
    )
    def not_ready(self, task: protocols.Task, times: int = 2, after: float = 1) -> None:
        """Be entered again until it is ready."""
        self.act(task, "not_ready")
        waited = self.count(task, "not_ready", times)
        if waited is not None:
            raise exceptions.StepNotReady(f"time {waited} of {times}", after=after)


_RULES = {"read_only": False, "reset_required": True, "unique": False}
_SETTINGS: tuple[dict[str, Any], ...] = (
    {
        "name": "sriov",
        "value": "Disabled",
        "attribute_type": "Enumeration",
        "allowable_values": ["Enabled", "Disabled"],
        **_RULES,
    },
    {
        "name": "boot_delay",
        "value": "5",
        "attribute_type": "Integer",
        "lower_bound": 0,
        "upper_bound": 60,
        **_RULES,
    },
    {
        "name": "asset_tag",
        "value": "",
        "attribute_type": "String",
        "min_length": 0,
        "max_length": 63,
        **_RULES,
    },
)


class FakeBIOS(Fake, interfaces.BIOSInterface):
    """Settings that are kept with the node."""

    @on_request(
        {
            "settings": _argument(
                "the settings to write",
                required=True,
                schema={
                    "type": "array",
                    "items": {
                        "type": "object",
                        "properties": {
                            "name": {"type": "string", "minLength": 1},
                            "value": {"type": ["string", "integer", "boolean"]},
                        },
                        "required": ["name", "value"],
                        "additionalProperties": False,
                    },
                },
            )
        },
        repeatable=True,
    )
    def apply_configuration(self, task: protocols.Task, settings: Any) -> None:
        """Keep the settings."""
        self.act(task, "apply_configuration")
        kept = dict(task.node.driver_internal_info.get("fake_bios", {}))
        kept.update({setting["name"]: setting["value"] for setting in settings})
        task.node.set_driver_internal_info("fake_bios", kept)

    @on_request(repeatable=True)
    def factory_reset(self, task: protocols.Task) -> None:
        """Forget the settings."""
        self.act(task, "factory_reset")
        task.node.del_driver_internal_info("fake_bios")

    def cache_bios_settings(self, task: protocols.Task) -> None:
        """Keep the settings that every fake machine has, and those that were written."""
        self.act(task, "cache_bios_settings")
        written = dict(task.node.driver_internal_info.get("fake_bios", {}))
        known = [
            {**setting, "value": written.pop(setting["name"], setting["value"])}
            for setting in _SETTINGS
        ]
        others = [{"name": name, "value": value} for name, value in written.items()]
        task.keep_bios_settings([*known, *others])


class FakeRAID(Fake, interfaces.RAIDInterface):
    """Logical disks that are kept with the node."""

    @on_request(raid_schema.VOLUMES)
    def create_configuration(
        self,
        task: protocols.Task,
        create_root_volume: bool = True,
        create_nonroot_volumes: bool = True,
        delete_existing: bool = True,
    ) -> None:
        """Keep the logical disks of the node's ``target_raid_config``.

        :raises MissingParameterValue: it has none.
        """
        self.act(task, "create_configuration")
        wanted = task.node.target_raid_config
        if not wanted:
            raise exceptions.MissingParameterValue(
                f"Node {task.node.uuid} has no target_raid_config; set it first."
            )
        self.apply_configuration(
            task, wanted, create_root_volume, create_nonroot_volumes, delete_existing
        )

    @on_request(raid_schema.RAID_APPLY_CONFIGURATION_ARGSINFO)
    def apply_configuration(
        self,
        task: protocols.Task,
        raid_config: Mapping[str, Any],
        create_root_volume: bool = True,
        create_nonroot_volumes: bool = True,
        delete_existing: bool = True,
    ) -> None:
        """Keep the logical disks."""
        self.act(task, "apply_configuration")
        wanted = {True: create_root_volume, False: create_nonroot_volumes}
        kept = [] if delete_existing else task.node.driver_internal_info.get("fake_raid", [])
        made = [
            disk
            for disk in raid_config["logical_disks"]
            if wanted[disk.get("is_root_volume", False)]
        ]
        task.node.set_driver_internal_info("fake_raid", [*kept, *made])
        task.node.raid_config = {"logical_disks": [*kept, *made]}

    @on_request()
    def delete_configuration(self, task: protocols.Task) -> None:
        """Forget the logical disks."""
        self.act(task, "delete_configuration")
        task.node.del_driver_internal_info("fake_raid")
        task.node.raid_config = {}


_FIRMWARE = {"bmc": "1.0.0", "bios": "1.0.0"}


class FakeFirmware(_Polled, interfaces.FirmwareInterface):
    """Updates that take a while."""

    @on_request(
        {
            "settings": _argument(
                "the components to update",
                required=True,
                schema={
                    "type": "array",
                    "minItems": 1,
                    "items": {
                        "type": "object",
                        "properties": {
                            "component": {"type": "string", "minLength": 1},
                            "url": {"type": "string", "minLength": 1},
                            "wait": {"type": "integer", "minimum": 0},
                        },
                        "required": ["component", "url"],
                        "additionalProperties": False,
                    },
                },
            ),
            "seconds": _argument("how long it goes on", schema=_SECONDS),
        },
        abortable=False,
        timeout=3600,
    )
    def update(self, task: protocols.Task, settings: Any, seconds: float = 2) -> str:
        """Go on elsewhere; the conductor looks from time to time."""
        kept = dict(task.node.driver_internal_info.get("fake_firmware", {}))
        # The last part of the URL stands for the version that is in the file.
        kept.update({one["component"]: one["url"].rsplit("/", 1)[-1][:80] for one in settings})
        task.node.set_driver_internal_info("fake_firmware", kept)
        return self.begin(task, "update", seconds)

    def cache_firmware_components(self, task: protocols.Task) -> None:
        """Keep the components that every fake machine has, and those that were updated."""
        self.act(task, "cache_firmware_components")
        now = {**_FIRMWARE, **task.node.driver_internal_info.get("fake_firmware", {})}
        task.keep_firmware_components(
            [{"component": name, "current_version": version} for name, version in now.items()]
        )


class FakeVendor(Fake, interfaces.VendorInterface):
    """Takes a message, and has the field's four vendor methods."""

    def validate(
        self, task: protocols.Task, method: str | None = None, *args: Any, **kwargs: Any
    ) -> None:
        """Check the node, and the argument of a vendor method.

        :raises MissingParameterValue: it is not given.
        """
        super().validate(task)
        if method is not None and not kwargs.get("bar"):
            raise exceptions.MissingParameterValue(
                f"Parameter 'bar' not passed to method '{method}'."
            )

    @passthru(["POST"], description="Test if the value of bar is baz")
    def first_method(self, task: protocols.Task, http_method: str, bar: Any) -> bool:
        """Compare, in a worker."""
        self.act(task, "first_method")
        return bool(bar == "baz")

    @passthru(["POST"], description="Test if the value of bar is kazoo")
    def second_method(self, task: protocols.Task, http_method: str, bar: Any) -> bool:
        """Compare, in a worker."""
        self.act(task, "second_method")
        return bool(bar == "kazoo")

    @passthru(["POST"], async_call=False, description="Test if the value of bar is meow")
    def third_method_sync(self, task: protocols.Task, http_method: str, bar: Any) -> bool:
        """Compare, while the caller waits."""
        self.act(task, "third_method_sync")
        return bool(bar == "meow")

    @passthru(
        ["POST"], require_exclusive_lock=False, description="Test if the value of bar is woof"
    )
    def fourth_method_shared_lock(self, task: protocols.Task, http_method: str, bar: Any) -> bool:
        """Compare, in a worker, without the node's lock."""
        self.act(task, "fourth_method_shared_lock")
        return bool(bar == "woof")

    @on_request(
        {
            "message": _argument("what to say", required=True, schema={"type": "string"}),
            "password": _argument("a secret to say it with", secret=True),
        },
    )
    def echo(self, task: protocols.Task, message: str, password: Any = None) -> None:
        """Keep the message, and whether there was a secret."""
        self.act(task, "echo")
        task.node.set_driver_internal_info(
            "fake_echo", {"message": message, "with_password": password is not None}
        )
