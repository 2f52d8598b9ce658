"""What belongs to one request: its version, its id, who asks; and what all requests share."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, ClassVar, cast
from uuid import uuid4

import falcon
from oslo_config import cfg
from oslo_context.context import RequestContext

from deploysteps import exceptions, releases
from deploysteps.access.caller import Caller
from deploysteps.access.rules import OPEN
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
    caller: Caller | None = None
    """Who asks, None until it is known; nobody may do anything until then."""
    base: str | None = None
    """The address under which the client knows the service, None until it was checked."""

    @property
    def request_id(self) -> str:
        """``req-`` and a uuid, told in answers and in the log."""
        return str(self.context.request_id)

    @property
    def user(self) -> str:
        """Who asks, for the log; ``-`` when nobody said."""
        return str(self.context.user_name or self.context.user_id or "-")


def of(req: falcon.Request) -> Call:
    """Return the call of a request; made on first use."""
    held = cast("dict[str, Any]", req.context)
    if "call" not in held:
        held["call"] = Call()
    return cast("Call", held["call"])


def caller(req: falcon.Request) -> Caller:
    """Return who makes a request.

    :raises NotAuthenticated: it was not found out.
    """
    found = of(req).caller
    if found is None:
        raise exceptions.NotAuthenticated()
    return found


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
        return of(req).base or ""


class Resource:
    """Base of the classes that answer requests."""

    operations: ClassVar[Mapping[str, Operation]] = {}
    """Method -> what it is; every method that a class answers stands here."""
    is_ours: ClassVar[bool] = False
    """Whether the field has no such path: it is the same at every version."""
    by_item: ClassVar[frozenset[str]] = frozenset()
    """Methods whose rule depends on whose the thing is, so that the class asks itself. What is
    below ``/nodes/<id>`` depends on the node, and :meth:`node` asks."""

    def __init__(self, services: Services) -> None:
        """Keep what all resources share."""
        self.services = services
        self.conf = services.conf
        self.database = services.database
        self.client = services.client

    def hidden(self, req: falcon.Request) -> Callable[[], Mapping[str, Collection[str]]]:
        """Return what tells ``interface.step`` -> its arguments that are secret."""
        return functools.partial(self.client.get_secret_arguments, of(req).context)

    def rule(self, req: falcon.Request) -> str | None:
        """Return the rule of what a request asks for."""
        return self.operations[req.method].rule

    def node(self, req: falcon.Request, ident: str) -> Node:
        """Return the node of a request's path, if the caller may do with it what he asks.

        :raises NodeNotFound: there is none for him; names are no nodes before 1.5.
        :raises Forbidden: he sees it, and may not do this.
        """
        rule = self.rule(req)
        if rule is None or rule in OPEN:  # whoever has it is let through, or was asked already
            return answers.node_of(self.database, ident, version(req))
        item = self.seen(req, ident)
        caller(req).require(rule, item.owner, item.lessee)
        return item

    def permit(self, req: falcon.Request, item: Node, missing: exceptions.NotFound) -> None:
        """Ask for what belongs to a node what is asked for the node itself.

        :raises NotFound: ``missing``, the caller does not see the node.
        :raises Forbidden: he sees it, and may not do this.
        """
        if not caller(req).sees(item.owner, item.lessee):
            caller(req).asked = True
            raise missing
        rule = self.rule(req)
        if rule is not None:
            caller(req).require(rule, item.owner, item.lessee)

    def seen(self, req: falcon.Request, ident: str) -> Node:
        """Return the node of a request's path, if the caller sees it.

        :raises NodeNotFound: there is none for him.
        """
        known = versions.MAX if self.is_ours else version(req)
        item = answers.node_of(self.database, ident, known)
        if not caller(req).sees(item.owner, item.lessee):
            caller(req).asked = True
            raise exceptions.NodeNotFound(node=ident[:255])
        return item
