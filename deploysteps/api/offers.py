"""Who is in charge of what: drivers, and the conductor of a node."""

from __future__ import annotations

from typing import Any

from deploysteps.api.call import Services
from deploysteps.db import conductors

Charge = dict[tuple[str, str], str]


def in_charge(services: Services) -> Charge:
    """Return (driver, conductor group) -> the conductor that lives and offers it.

    Of several the first by name is told, so that all answers agree.
    """
    offered = _alive(services)
    found: Charge = {}
    for conductor in conductors.listing(services.database):
        for offer in offered.get(conductor.hostname, ()):
            found.setdefault((offer.hardware_type, conductor.conductor_group), conductor.hostname)
    return found


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
