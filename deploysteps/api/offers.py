"""Who is in charge of what: drivers, and the conductor of a node."""

from __future__ import annotations

from collections import namedtuple
from collections.abc import Callable
from typing import Any

from deploysteps.access.caller import Caller
from deploysteps.api import permits
from deploysteps.api.call import Services
from deploysteps.conductor.charge import Ring
from deploysteps.db import conductors, nodes
from deploysteps.db.models import INTERFACE_COLUMNS

SERVED = (
    "uuid",
    "owner",
    "lessee",
    "driver",
    "conductor_group",
    "reservation",
    *INTERFACE_COLUMNS.values(),
)
Served = namedtuple("Served", SERVED)  # type: ignore[misc]
"""What of a node tells its conductor, and who may know who that is."""

Charge = Callable[[Any], str | None]


def in_charge(services: Services, caller: Caller) -> Charge:
    """Return what tells a caller a node's conductor: who works on it, or else whom it falls to.

    Where ``reservation`` is kept back from him, it is always the latter.
    """
    groups = {one.hostname: one.conductor_group for one in conductors.listing(services.database)}
    offered: dict[str, dict[str, Any]] = {}
    for hostname, offers in _alive(services).items():
        offered.setdefault(groups.get(hostname, ""), {})[hostname] = offers
    rings = {group: Ring(offers) for group, offers in offered.items()}

    def conductor(node: Any) -> str | None:
        holder: str | None = node.reservation
        if holder and not permits.kept_back(caller, node, ("reservation",)):
            return holder
        ring = rings.get(node.conductor_group.lower())
        return ring.host(node) if ring else None

    return conductor


def nodes_of(services: Services, conductor: str, caller: Caller) -> list[int]:
    """Return the row ids of the nodes whose conductor this is, as a caller is told."""
    charge = in_charge(services, caller)
    rows = nodes.every(services.database, ("id", *SERVED))
    return [row[0] for row in rows if charge(Served(*row[1:])) == conductor]


def drivers_of(services: Services) -> dict[str, list[str]]:
    """Return the names of the conductors that live -> their hardware types."""
    return {
        hostname: sorted({offer.hardware_type for offer in offered})
        for hostname, offered in _alive(services).items()
    }


def drivers(services: Services) -> dict[str, dict[str, Any]]:
    """Return hardware type -> ``{'hosts', 'interfaces'}`` of the conductors that live."""
    found: dict[str, dict[str, Any]] = {}
    for hostname, offered in _alive(services).items():
        for offer in offered:
            driver = found.setdefault(offer.hardware_type, {"hosts": [], "interfaces": {}})
            if hostname not in driver["hosts"]:
                driver["hosts"].append(hostname)
            kind = driver["interfaces"].setdefault(
                offer.interface_type, {"default": None, "enabled": []}
            )
            kind["enabled"] = sorted({*kind["enabled"], offer.interface_name})
            if offer.is_default and kind["default"] is None:
                kind["default"] = offer.interface_name
    return dict(sorted(found.items()))


def _alive(services: Services) -> Any:
    timeout = services.conf.conductor.heartbeat_timeout
    return conductors.offers(services.database, timeout)
