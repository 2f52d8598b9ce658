"""What is told of nodes as a whole: shards, children; and the events of network services."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import ClassVar

import falcon

from deploysteps import exceptions
from deploysteps.api import answer_schemas, bodies, call, schemas, versions
from deploysteps.api.answers import done, send
from deploysteps.api.operations import EMPTY, Operation
from deploysteps.api.query import Query
from deploysteps.api.validation import checked
from deploysteps.db import nodes

LOG = logging.getLogger(__name__)


class Shards(call.Resource):
    """``/v1/shards``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="List shards, each with how many nodes are in it",
            rule="baremetal:shards:get",
            since=versions.ENDPOINTS["shards"],
            answers={200: answer_schemas.SHARDS},
        )
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List shards, the fullest first; the nodes that are in none are under ``None``."""
        versions.require("shards", call.version(req))
        Query(req).finish()
        found = nodes.shards(self.database)
        send(resp, {"shards": [{"name": str(name), "count": count} for name, count in found]})


class NodeChildren(call.Resource):
    """``/v1/nodes/<id>/children``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="List the nodes that a node is the parent of",
            rule="baremetal:node:get",
            since=versions.CHILDREN,
            answers={200: answer_schemas.CHILDREN},
        )
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """List the uuids of the children that the caller sees."""
        if call.version(req) < versions.CHILDREN:
            raise exceptions.NotFound()
        Query(req).finish()
        item = self.node(req, ident)
        found = nodes.children(self.database, item.uuid, call.caller(req).only("node"))
        place = f"{self.services.base(req)}/v1/nodes/?parent_node={item.uuid}"
        send(resp, {"children": found, "links": {"href": place, "rel": "children"}})


class Events(call.Resource):
    """``/v1/events``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "POST": Operation(
            summary="Tell what happened to virtual interfaces",
            rule="baremetal:events:post",
            since=versions.ENDPOINTS["events"],
            body=schemas.EVENTS,
            answers={204: EMPTY},
        )
    }

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Take note of them in the log, as the field's server does; nothing waits for them."""
        versions.require("events", call.version(req))
        Query(req).finish()
        body = checked(schemas.EVENTS, bodies.read(req, self.conf), "events")
        for told in body["events"]:
            LOG.debug("A network service tells: %s of %s", told["event"], told["port_id"])
        done(resp, 204)
