"""Which conductor is in charge of a node, where only one is to do something."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any

from deploysteps.conductor.runtime import Runtime
from deploysteps.db import conductors
from deploysteps.db.models import INTERFACE_COLUMNS


def chosen(uuid: str, hosts: Collection[str]) -> str:
    """Return the conductor that a node falls to: the same on each of them."""
    return max(hosts, key=lambda host: hashlib.sha256(f"{host} {uuid}".encode()).digest())


class Charge:
    """Who is in charge of which node, as things are now; made by one query.

    A node falls to one of the conductors that are alive and offer all of its
    interfaces. For a moment two may think it theirs, when one of them has just
    come or gone: what they do has to bear that.
    """

    def __init__(self, runtime: Runtime) -> None:
        """Ask who offers what."""
        timeout = runtime.conf.conductor.heartbeat_timeout
        self._me = runtime.host
        self._offers: dict[str, set[tuple[str, str, str | None]]] = {}
        found = dict(conductors.offers(runtime.database, timeout))
        # However late its last sign of life is, this one is alive.
        found[self._me] = [conductors.Offer(*offer) for offer in runtime.registry.offers()]
        for host, offered in found.items():
            keys = self._offers[host] = set()
            for offer in offered:
                keys.add((offer.hardware_type, offer.interface_type, offer.interface_name))
                if offer.is_default:  # of nodes that name none
                    keys.add((offer.hardware_type, offer.interface_type, None))
        self._known: dict[tuple[Any, ...], list[str]] = {}

    def mine(self, node: Any) -> bool:
        """Tell whether a node falls to this conductor."""
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
        return self._me in hosts and chosen(node.uuid, hosts) == self._me
