"""Which conductors a node may be worked on by, and which one where only one is to do something."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from deploysteps import exceptions, states
from deploysteps.conductor import liveness
from deploysteps.conductor.runtime import Runtime
from deploysteps.db import conductors
from deploysteps.db.models import INTERFACE_COLUMNS


def chosen(uuid: str, hosts: Collection[str]) -> str:
    """Return the conductor that a node falls to: the same on each of them."""
    return max(hosts, key=lambda host: hashlib.sha256(f"{host} {uuid}".encode()).digest())


class Ring:
    """The conductors of one group, and what each of them offers."""

    def __init__(self, offers: Mapping[str, Iterable[conductors.Offer]]) -> None:
        """Take host -> what it offers."""
        self._offers = {host: set(_keys(offered)) for host, offered in offers.items()}
        self._known: dict[tuple[Any, ...], list[str]] = {}

    def host(self, node: Any) -> str | None:
        """Return the conductor that a node falls to: of those that offer all its interfaces."""
        names = tuple(getattr(node, column) for column in INTERFACE_COLUMNS.values())
        needs = (node.driver, *names)
        hosts = self._known.get(needs)
        if hosts is None:
            wanted = {
                (node.driver, kind, name)
                for kind, name in zip(INTERFACE_COLUMNS, names, strict=True)
            }
            hosts = [host for host, offered in self._offers.items() if wanted <= offered]
            self._known[needs] = hosts
        return chosen(node.uuid, hosts) if hosts else None


def _keys(offered: Iterable[conductors.Offer]) -> Iterable[tuple[str, str, str | None]]:
    for offer in offered:
        yield offer.hardware_type, offer.interface_type, offer.interface_name
        if offer.is_default:  # of nodes that name none
            yield offer.hardware_type, offer.interface_type, None


class Charge:
    """Who is in charge of which node, as things are now; made by one query.

    A node falls to one of the conductors of its group that are alive and offer all of
    its interfaces. For a moment two may think it theirs, when one of them has just
    come or gone: what they do has to bear that.
    """

    def __init__(self, runtime: Runtime) -> None:
        """Ask who offers what."""
        self._runtime = runtime
        found = dict(_alive(runtime, group_of(runtime)))
        # However late its last sign of life is, this one is alive.
        found[runtime.host] = [conductors.Offer(*offer) for offer in runtime.registry.offers()]
        self._me = runtime.host
        self._ring = Ring(found)

    def host(self, node: Any) -> str | None:
        """Return the conductor of this one's group that a node falls to; None: nobody offers it."""
        in_group = is_of_group(self._runtime, node.conductor_group)
        return self._ring.host(node) if in_group else None

    def mine(self, node: Any) -> bool:
        """Tell whether a node falls to this conductor."""
        return self.host(node) == self._me


# --- conductor groups --------------------------------------------------------------------


def group_of(runtime: Runtime) -> str:
    """Return the group of this conductor; empty, as a node's is, where there are none."""
    return str(runtime.conf.conductor.conductor_group)


def is_of_group(runtime: Runtime, group: str) -> bool:
    """Tell whether nodes of a group are this conductor's to work on."""
    return group.lower() == group_of(runtime)


def refuse_foreign(runtime: Runtime, node: Any) -> None:
    """Refuse work on a node of another group.

    :raises ForeignConductorGroup: naming those that may.
    """
    if is_of_group(runtime, node.conductor_group):
        return
    others = sorted(_alive(runtime, node.conductor_group.lower()))
    ask = f"ask {' or '.join(others)}" if others else _way_out(runtime, node)
    raise exceptions.ForeignConductorGroup(
        f"Node {node.uuid} is of {named(node.conductor_group)}, and conductor {runtime.host} "
        f"is of {named(group_of(runtime))}; {ask}."
    )


def _way_out(runtime: Runtime, node: Any) -> str:
    """Return what can be done with a node of whose group no conductor is alive."""
    if not liveness.can_tell(runtime):
        return "who of that group is alive cannot be told here now: ask one of them, or again later"
    state = states.STATES.get(node.provision_state)
    ends = "which ends what it is at and leaves the machine alone; then give it"
    if node.reservation not in (None, runtime.host):
        first = f"unlock the node, {ends}"
    elif state is not None and state.kind is not states.Kind.STABLE:
        first = f"abort its run, {ends}"
    else:
        first = "give the node"
    return f"no conductor of that group is alive: start one, or {first} another conductor_group"


def is_forsaken(runtime: Runtime, node: Any) -> bool:
    """Tell whether a node is of another group, and no conductor of that is alive.

    It is not while that cannot be told: what is ended as forsaken may be at work.
    """
    if is_of_group(runtime, node.conductor_group):
        return False
    return not _alive(runtime, node.conductor_group.lower()) and liveness.can_tell(runtime)


def may_touch(runtime: Runtime, node: Any) -> bool:
    """Tell whether one who ends a node's work here may use its driver.

    Of a node that is forsaken anybody may end it, and leaves the machine alone.

    :raises ForeignConductorGroup: others may.
    """
    if is_forsaken(runtime, node):
        return False
    refuse_foreign(runtime, node)
    return True


def left_alone(node: Any) -> str:
    """Return, for a reason, why nothing was done to the machine."""
    return (
        f"the machine was left as it is, since no conductor of {named(node.conductor_group)} is "
        "alive"
    )


def resolved(
    runtime: Runtime, group: str, driver: str, asked: Mapping[str, str | None]
) -> dict[str, str]:
    """Return an interface name for each type: what is asked for, or the default.

    As of a conductor that works on nodes of the group: this one, or one that is alive and
    offers all that is asked for.

    :raises InvalidParameterValue: there is none, and why.
    """
    if is_of_group(runtime, group):
        found: dict[str, str] = runtime.registry.resolve(driver, asked)
        return found
    lacking = []
    for host, offered in _alive(runtime, group.lower()).items():
        own = [offer for offer in offered if offer.hardware_type == driver]
        known = {(offer.interface_type, offer.interface_name) for offer in own}
        defaults = {offer.interface_type: offer.interface_name for offer in own if offer.is_default}
        names = {kind: asked.get(kind) or defaults.get(kind, "") for kind in INTERFACE_COLUMNS}
        lacks = [
            f"{kind} interface {name!r}"
            for kind, name in names.items()
            if (kind, name) not in known
        ]
        if not lacks:
            return names
        if own:
            lacking.append(f"{host} does not offer {', '.join(lacks)}")
    which = f"of {named(group)}" if group else "without a conductor group"
    raise exceptions.InvalidParameterValue(
        f"No conductor {which} that offers what the node needs is alive: {'; '.join(lacking)}"
        if lacking
        else f"No conductor {which} that offers hardware type {driver!r} is alive; a conductor's "
        "group is its setting [conductor] conductor_group."
    )


def named(group: str) -> str:
    """Return how a group is called in a sentence."""
    return f"conductor group {group!r}" if group else "no conductor group"


def _alive(runtime: Runtime, group: str) -> Mapping[str, list[conductors.Offer]]:
    timeout = runtime.conf.conductor.heartbeat_timeout
    return conductors.offers(runtime.database, timeout, group)
