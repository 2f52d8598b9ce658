"""What all fake interfaces share: delays and failures on request."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from deploysteps import exceptions, protocols
from deploysteps.conf import CONF

MAX_DELAY = 86_400
"""Longest delay that a node may ask for, in seconds."""

PROPERTIES = {
    "fake_delay": (
        "Seconds that each fake step or power action takes, or an object of <interface>.<method> "
        "(or <method>) -> seconds. Default: [fake] step_delay and power_delay. Optional."
    ),
    "fake_fail": (
        "What fails: <interface>.<method> (or <method>), a list of them, or an object of them -> "
        "error text. Optional."
    ),
}


class Fake:
    """Mixin of the fake interfaces."""

    interface_type: Any

    def get_properties(self) -> dict[str, str]:
        """Return the keys of ``driver_info`` that fake interfaces read."""
        return dict(PROPERTIES)

    def validate(self, task: protocols.Task, *args: Any, **kwargs: Any) -> None:
        """Check those keys.

        :raises InvalidParameterValue: naming the key.
        """
        delays(task.node.driver_info.get("fake_delay"))
        failures(task.node.driver_info.get("fake_fail"))

    def act(self, task: protocols.Task, method: str, option: str = "step_delay") -> None:
        """Take as long, or fail, as the node or the configuration says.

        :param method: the method that is called, for the settings' names.
        :param option: option of ``[fake]`` with the default delay.
        :raises DriverOperationError: when ``fake_fail`` names the method.
        """
        info = task.node.driver_info
        names = (f"{self.interface_type}.{method}", method)
        wanted = delays(info.get("fake_delay"))
        default = wanted.get("", CONF.fake[option])
        seconds = next((wanted[name] for name in names if name in wanted), default)
        if seconds:
            time.sleep(seconds)
        failing = failures(info.get("fake_fail"))
        for name in names:
            if name in failing:
                raise exceptions.DriverOperationError(reason=failing[name])

    def count(self, task: protocols.Task, method: str, upto: int) -> int | None:
        """Count calls of a method on the node; None when there were enough.

        The count is kept in ``driver_internal_info``, and dropped at the end.
        """
        key = f"fake_{self.interface_type}_{method}"
        done = int(task.node.driver_internal_info.get(key, 0))
        if done >= upto:
            task.node.del_driver_internal_info(key)
            return None
        task.node.set_driver_internal_info(key, done + 1)
        task.node.save()
        return done + 1


def delays(value: Any) -> dict[str, float]:
    """Return method name -> seconds; the name of the default is empty."""
    if value is None:
        return {}
    wanted = dict(value) if isinstance(value, Mapping) else {"": value}
    for seconds in wanted.values():
        if (
            isinstance(seconds, bool)
            or not isinstance(seconds, int | float)
            or not 0 <= seconds <= MAX_DELAY
        ):
            raise exceptions.InvalidParameterValue(
                f"driver_info/fake_delay takes seconds from 0 to {MAX_DELAY}, "
                "or an object of <interface>.<method> -> seconds"
            )
    return wanted


def failures(value: Any) -> dict[str, str]:
    """Return method name -> error text."""
    if isinstance(value, Mapping):
        pairs = list(value.items())
    else:
        names = [value] if isinstance(value, str) else value or []
        text = "failed because driver_info/fake_fail says so"
        pairs = [(name, text) for name in names] if isinstance(names, list) else [(value, text)]
    if not all(isinstance(part, str) for pair in pairs for part in pair):
        raise exceptions.InvalidParameterValue(
            "driver_info/fake_fail takes <interface>.<method>, a list of them, "
            "or an object of them -> error text"
        )
    return dict(pairs)
