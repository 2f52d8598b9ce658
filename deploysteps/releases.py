"""What each release may do: the table that ``pin_release_version`` chooses from.

During a rolling upgrade, processes of several releases share a database. The
pin holds the new ones to what the old ones know, until all are new.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True, slots=True)
class Release:
    """What a release may do."""

    deploy_steps: bool
    """Deployments run by steps; else by the deploy interface's ``deploy(task)``."""
    api: int
    """The newest minor version of API 1 that it speaks."""


RELEASES: dict[str, Release] = {
    "0.0": Release(deploy_steps=False, api=43),
    "0.1": Release(deploy_steps=True, api=115),
}
"""Release -> what it may do, the oldest first. ``0.0`` stands for every release
before there were deploy steps."""

NEWEST = next(reversed(RELEASES))


def pinned(version: str | None) -> Release:
    """Return what a process with this ``pin_release_version`` may do; None: all."""
    return RELEASES[version or NEWEST]
