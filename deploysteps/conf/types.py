"""Types of option values that oslo.config does not have.

Every number has two bounds, so that a slip (a negative pause, a timeout past
what clocks and databases hold) is refused at start and not met at midnight.
"""

from __future__ import annotations

import ipaddress
import math
import re
from typing import Any

from oslo_config import types

from deploysteps import secrets, steps

MAX_SECONDS = 366 * 24 * 3600
"""The longest interval or timeout: a year. 0 means "off", not "for ever"."""

_PRIORITY = re.compile(
    r"(?P<interface>\w+)\.(?P<step>[^\W\d]\w*)\s*:\s*(?P<priority>\d+)", re.ASCII
)


class Seconds(types.Float):
    """A finite number of seconds between ``min`` and a year."""

    def __init__(self, min: float = 0, max: float = MAX_SECONDS) -> None:
        """See the class."""
        super().__init__(min=min, max=max, type_name="number of seconds")

    def __call__(self, value: Any) -> Any:
        """Convert and check a value; ``nan`` would pass every comparison."""
        number = super().__call__(value)
        if number is not None and not math.isfinite(number):
            raise ValueError("should be a finite number of seconds")
        return number


class ConductorGroup(types.String):
    """A conductor group's name; upper and lower case are the same."""

    def __init__(self) -> None:
        """See the class."""
        super().__init__(regex=r"^[a-zA-Z0-9_.-]*\Z", max_length=255, type_name="conductor group")

    def __call__(self, value: Any) -> Any:
        """Check a name, and return it in lower case."""
        return super().__call__(value).lower()


class ListenAddress(types.HostAddress):
    """An IP address, or a host's name, to listen on."""

    def __call__(self, value: Any) -> Any:
        """Check an address."""
        try:
            return super().__call__(value)
        except ValueError as exc:
            raise ValueError(
                f"{str(value)!r} is no address; it should look like 127.0.0.1, ::1 or 0.0.0.0"
            ) from exc


class HttpAddress(types.URI):
    """An http or https URL of a service."""

    def __init__(self) -> None:
        """See the class."""
        super().__init__(schemes=["http", "https"], type_name="http or https address")

    def __call__(self, value: Any) -> Any:
        """Check an address; what the type itself says of a bad one is no sentence."""
        try:
            return super().__call__(value)
        except ValueError as exc:
            raise ValueError(
                f"{secrets.masked_urls(str(value))!r} is no address of a service; it should look "
                "like https://metal.example.org:6385"
            ) from exc


class StepPriority(types.ConfigType):
    """``<interface>.<step>:<priority>``, the priority being 0 to 2**31-1."""

    def __init__(self) -> None:
        """See the class."""
        super().__init__(type_name="interface.step:priority")

    def __call__(self, value: Any) -> str:
        """Check an entry and return it without blanks."""
        match = _PRIORITY.fullmatch(str(value).strip())
        if match is None:
            raise ValueError(
                f"{value!r} should look like <interface>.<step>:<priority>, "
                "for example deploy.write_image:80 (0 disables the step)"
            )
        if match["interface"] not in steps.INTERFACE_TYPES:
            raise ValueError(
                f"{value!r} names no interface; known are {', '.join(steps.INTERFACE_TYPES)}"
            )
        if int(match["priority"]) > steps.MAX_PRIORITY:
            raise ValueError(f"the priority in {value!r} should be at most {steps.MAX_PRIORITY}")
        return f"{match['interface']}.{match['step']}:{int(match['priority'])}"

    def __repr__(self) -> str:
        return "StepPriority"

    def __eq__(self, other: object) -> bool:
        return self.__class__ == other.__class__

    __hash__ = types.ConfigType.__hash__

    def _formatter(self, value: Any) -> str:
        return str(value)


class StepName(types.ConfigType):
    """``<interface>.<step>``."""

    def __init__(self) -> None:
        """See the class."""
        super().__init__(type_name="interface.step")

    def __call__(self, value: Any) -> str:
        """Check an entry and return it without blanks."""
        name = str(value).strip()
        interface, _, step = name.partition(".")
        if interface not in steps.INTERFACE_TYPES or not step.isidentifier():
            raise ValueError(
                f"{value!r} should look like <interface>.<step>, for example "
                f"deploy.erase_devices; interfaces are {', '.join(steps.INTERFACE_TYPES)}"
            )
        return name

    def __repr__(self) -> str:
        return "StepName"

    def __eq__(self, other: object) -> bool:
        return self.__class__ == other.__class__

    __hash__ = types.ConfigType.__hash__

    def _formatter(self, value: Any) -> str:
        return str(value)


class Network(types.ConfigType):
    """A network in CIDR notation, IPv4 or IPv6."""

    def __init__(self) -> None:
        """See the class."""
        super().__init__(type_name="network")

    def __call__(self, value: Any) -> str:
        """Check a network and return it in its usual spelling."""
        return str(ipaddress.ip_network(str(value).strip(), strict=False))

    def __repr__(self) -> str:
        return "Network"

    def __eq__(self, other: object) -> bool:
        return self.__class__ == other.__class__

    __hash__ = types.ConfigType.__hash__

    def _formatter(self, value: Any) -> str:
        return str(value)
