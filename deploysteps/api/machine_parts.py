"""What the resources about a machine itself share."""

from __future__ import annotations

from typing import ClassVar

import falcon

from deploysteps.api import bodies, call, versions
from deploysteps.api.query import Query
from deploysteps.api.schemas import Schema
from deploysteps.api.validation import checked
from deploysteps.db.models import Node


class Part(call.Resource):
    """Something below ``/v1/nodes/<id>`` that came with a version of its own."""

    part: ClassVar[str | None] = None
    """Its name in ``versions.NODE_PARTS``; None: it was always there."""

    def since_then(self, req: falcon.Request, part: str | None = None) -> None:
        """Answer an older request as a server that does not have it.

        :raises NotFound: the request is older.
        """
        name = part or self.part
        if name is not None:
            versions.require_part(name, call.version(req))

    def node(self, req: falcon.Request, ident: str) -> Node:
        """Return the node of a path; what is newer than the request is not there.

        :raises NotFound: there is no such node, or no such path.
        """
        self.since_then(req)
        return super().node(req, ident)

    def plain_node(self, req: falcon.Request, ident: str) -> Node:
        """As :meth:`node`, for a request without a query.

        :raises Invalid: it has one.
        """
        self.since_then(req)
        Query(req).finish()
        return self.node(req, ident)

    def body(self, req: falcon.Request, schema: Schema, what: str) -> dict[str, object]:
        """Return the body, if it follows its schema.

        :raises Invalid: it does not.
        """
        found: dict[str, object] = checked(schema, bodies.read(req, self.conf), what)
        return found

    def address(self, req: falcon.Request, ident: str, *path: str) -> str:
        """Return where something of a node is found."""
        return "/".join((f"{self.services.base(req)}/v1/nodes", ident, *path))
