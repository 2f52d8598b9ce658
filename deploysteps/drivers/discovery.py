"""Finds the entry points of plugins and loads them one by one.

Looking is done once per process. Loading one never stops the others: what
went wrong is kept beside its entry point, to be told when it matters.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib.metadata
from collections import defaultdict
from collections.abc import Iterable, Mapping
from importlib.metadata import Distribution, EntryPoint
from typing import Any

from stevedore import named

_GROUPS = "deploysteps.hardware."
TYPES = f"{_GROUPS}types"
"""Entry points of hardware types."""


def namespace(interface_type: str) -> str:
    """Return the entry points' group of one type of interface."""
    return f"{_GROUPS}interfaces.{interface_type}"


@dataclasses.dataclass(frozen=True, slots=True)
class Plugin:
    """An entry point, and what came of loading it."""

    name: str
    origin: str
    """``name = module:attribute (distribution version)``, for messages."""
    value: Any = None
    problem: str | None = None
    """Why it could not be loaded; None when it could."""


@functools.cache
def plugins(group: str) -> Mapping[str, Plugin]:
    """Return the plugins of a group by name, all loaded; once per process."""
    return load(entry_points(group), distributions(group))


def entry_points(group: str) -> list[EntryPoint]:
    """Return the group's entry points without loading one.

    stevedore keeps what it has read, and sees what is installed over it up to two
    minutes late: the times of the folders are rounded in its key.
    """
    kept: list[EntryPoint] = named.NamedExtensionManager(group, names=[]).list_entry_points()
    now = {(point.name, point.value): point for point in _installed(group)}
    known = [point for point in kept if (point.name, point.value) in now]
    names = {(point.name, point.value) for point in known}
    return [*known, *(point for key, point in now.items() if key not in names)]


def _installed(group: str) -> Iterable[EntryPoint]:
    return [point for point in _ours() if point.group == group]


@functools.cache
def _ours() -> list[EntryPoint]:
    """Return what is installed for here. Each look reads a file of every distribution there is."""
    found = importlib.metadata.entry_points()
    ours = sorted(group for group in found.groups if group.startswith(_GROUPS))
    return [point for group in ours for point in found.select(group=group)]


def distributions(group: str) -> dict[tuple[str, str], list[str]]:
    """Return (name, value) of an entry point -> the distributions that register it.

    stevedore's own list does not know them.
    """
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    for point in _installed(group):
        found[point.name, point.value].append(_label(point.dist))
    return found


@functools.cache
def _label(dist: Distribution | None) -> str:
    # Name and version are parsed out of a file, each time that they are asked for.
    return f"{dist.name} {dist.version}" if dist else "unknown distribution"


def load(
    points: Iterable[EntryPoint], origins: Mapping[tuple[str, str], list[str]]
) -> dict[str, Plugin]:
    """Load entry points; two of one name are a problem that names both."""
    by_name: dict[str, list[EntryPoint]] = defaultdict(list)
    for point in points:
        by_name[point.name].append(point)
    return {name: _load(name, same, origins) for name, same in sorted(by_name.items())}


def _load(
    name: str, points: list[EntryPoint], origins: Mapping[tuple[str, str], list[str]]
) -> Plugin:
    origin = " and ".join(_origin(point, origins) for point in points)
    if len(points) > 1:
        return Plugin(name, origin, problem="registered more than once; uninstall one of them")
    try:
        return Plugin(name, origin, value=points[0].load())
    except KeyboardInterrupt:
        raise
    except BaseException as exc:
        # A module may do anything when it is imported, sys.exit() included.
        return Plugin(name, origin, problem=reason(exc))


def _origin(point: EntryPoint, origins: Mapping[tuple[str, str], list[str]]) -> str:
    owners = origins.get((point.name, point.value)) or ["unknown distribution"]
    return f"{point.name} = {point.value} ({', '.join(owners)})"


def reason(exc: BaseException) -> str:
    """Return type and text of an exception, whatever its text does."""
    try:
        text = str(exc)
    except Exception:
        text = "its text cannot be shown"
    return f"{type(exc).__name__}: {text}" if text else type(exc).__name__
