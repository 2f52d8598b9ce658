"""Interfaces whose work is one call: inspecting, adopting, rescuing. The node says how it goes."""

from __future__ import annotations

from typing import Any

from deploysteps import states
from deploysteps.drivers import base, fake
from deploysteps.steps import flow_of_state
from tests.crash import drivers
from tests.crash.journal import journal


def _work(task: Any, name: str) -> str | None:
    """Do it, fail, or go on elsewhere, as ``extra`` says."""
    journal.note("run", name, task)
    how = task.node.extra.get("job")
    if how == "fails":
        raise flow_of_state(task.node.provision_state).error("it is broken")
    if how == "waits":
        return base.wait_state(task)
    if how == "waits briefly":
        return states.wait(base.wait_state(task), limit=0.001)
    return None


class Inspect(fake.FakeInspect):
    """Keeps an inventory, and tells that it did."""

    def inspect_hardware(self, task: Any) -> str | None:
        task.keep_inventory({"cpu": {"count": 4}})
        return _work(task, "inspect_hardware")

    def abort(self, task: Any) -> None:
        journal.note("cut", "inspect_hardware", task)


class Rescue(fake.FakeRescue):
    """Tells that it booted the rescue system, put it away, or booted the instance."""

    def rescue(self, task: Any) -> str | None:
        assert task.node.instance_info["rescue_password"] == PASSWORD
        return _work(task, "rescue")

    def unrescue(self, task: Any) -> str | None:
        return _work(task, "unrescue")

    def clean_up(self, task: Any) -> None:
        journal.note("tidy", "rescue", task)


class Deploy(drivers.Deploy):
    """Takes over what runs already."""

    def take_over(self, task: Any) -> None:
        _work(task, "take_over")


PASSWORD = "let me in"

INTERFACES: dict[str, type[base.BaseInterface]] = {
    **drivers.INTERFACES,
    "deploy": Deploy,
    "inspect": Inspect,
    "rescue": Rescue,
}
