"""What belongs to one request: its version, its id, who asks; and what all requests share."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Mapping
from typing import Any, ClassVar, cast
from uuid import uuid4

import falcon
from oslo_config import cfg
from oslo_context.context import RequestContext

from deploysteps import releases
from deploysteps.api import answers, versions
from deploysteps.api.operations import Operation
from deploysteps.conductor.rpc import Client
from deploysteps.db.engine import Database
from deploysteps.db.models import Node


def _context() -> RequestContext:
    # It takes the place of this thread's last one, so that log lines tell the right id.
    return RequestContext(request_id=f"req-{uuid4()}", overwrite=True)


@dataclasses.dataclass(slots=True)
class Call:
    """One request."""

    context: RequestContext = dataclasses.field(default_factory=_context)
    """Goes with every verb of the conductor."""
    started: float = dataclasses.field(default_factory=time.monotonic)
    version: int | None = None
    """Minor version, None until it is known."""

    @property
    def request_id(self) -> str:
        """``req-`` and a uuid, told in answers and in the log."""
        return str(self.context.request_id)


def of(req: falcon.Request) -> Call:
    """Return the call of a request; made on first use."""
    held = cast("dict[str, Any]", req.context)
    if "call" not in held:
        held["call"] = Call()
    return cast("Call", held["call"])


def version(req: falcon.Request) -> int:
    """Return the minor version of a request."""
    return of(req).version or versions.MIN


@dataclasses.dataclass(frozen=True, slots=True)
class Services:
    """What resources work with."""

    conf: cfg.ConfigOpts
    database: Database
    client: Client

    @property
    def newest(self) -> int:
        """The newest minor version that this process speaks, as it is pinned."""
        return releases.pinned(self.conf.pin_release_version).api

    def base(self, req: falcon.Request) -> str:
        """Return the address under which the client knows the service, without ``/v1``."""
        return str(self.conf.api.public_endpoint or req.prefix).rstrip("/")


class Resource:
    """Base of the classes that answer requests."""

    operations: ClassVar[Mapping[str, Operation]] = {}
    """Method -> what it is; every method that a class answers stands here."""

    def __init__(self, services: Services) -> None:
        """Keep what all resources share."""
        self.services = services
        self.conf = services.conf
        self.database = services.database
        self.client = services.client

    def node(self, req: falcon.Request, ident: str) -> Node:
        """Return the node of a request's path, if the caller may do with it what he asks.

        :raises NodeNotFound: there is none; names are no nodes before 1.5.
        """
        return answers.node_of(self.database, ident, version(req))
