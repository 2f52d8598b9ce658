"""``/v1/nodes/<id>/traits``: from 1.37; older requests are told 406, as in the field."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import falcon

from deploysteps import exceptions
from deploysteps.api import answer_schemas, bodies, call, schemas, versions
from deploysteps.api.answers import done, send
from deploysteps.api.operations import EMPTY, Operation
from deploysteps.api.query import Query
from deploysteps.api.validation import checked
from deploysteps.db import traits
from deploysteps.db.models import Node


class _Traits(call.Resource):
    """What these requests share."""

    def node(self, req: falcon.Request, ident: str) -> Node:
        """Return the node of a path.

        :raises NotAcceptable: the request is older than traits.
        """
        version = call.version(req)
        versions.check("traits", {"traits": versions.TRAITS}, version)
        Query(req).finish()
        return super().node(req, ident)


class NodeTraits(_Traits):
    """``/v1/nodes/<id>/traits``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="List the traits of a node",
            rule="baremetal:node:traits:list",
            since=versions.TRAITS,
            answers={200: answer_schemas.TRAITS},
        ),
        "PUT": Operation(
            summary="Replace the traits of a node",
            rule="baremetal:node:traits:set",
            since=versions.TRAITS,
            body=schemas.TRAITS,
            answers={204: EMPTY},
            errors=(409,),
        ),
        "DELETE": Operation(
            summary="Remove all traits of a node",
            rule="baremetal:node:traits:delete",
            since=versions.TRAITS,
            answers={204: EMPTY},
            errors=(409,),
        ),
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """List the traits of a node."""
        item = self.node(req, ident)
        send(resp, {"traits": traits.of_node(self.database, item.id)})

    def on_put(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Give a node these traits and no others."""
        item = self.node(req, ident)
        body = checked(schemas.TRAITS, bodies.read(req, self.conf), "traits")
        wanted = list(dict.fromkeys(body["traits"]))
        for name in wanted:
            traits.check_name(name)
        self.client.update_node_traits(call.of(req).context, item.uuid, replace=wanted)
        done(resp, 204)

    def on_delete(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Take all its traits from a node."""
        item = self.node(req, ident)
        self.client.update_node_traits(call.of(req).context, item.uuid, replace=[])
        done(resp, 204)


class OneTrait(_Traits):
    """``/v1/nodes/<id>/traits/<trait>``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "PUT": Operation(
            summary="Add a trait to a node",
            rule="baremetal:node:traits:set",
            since=versions.TRAITS,
            answers={204: EMPTY},
            errors=(409,),
        ),
        "DELETE": Operation(
            summary="Remove a trait of a node",
            rule="baremetal:node:traits:delete",
            since=versions.TRAITS,
            answers={204: EMPTY},
            errors=(409,),
        ),
    }

    def on_put(self, req: falcon.Request, resp: falcon.Response, ident: str, trait: str) -> None:
        """Give a node a trait."""
        item = self.node(req, ident)
        if bodies.read(req, self.conf):
            raise exceptions.Invalid(
                "A single trait is added by its name in the path, without a body; all are "
                "replaced by PUT of a list of 'traits' to the path without a name."
            )
        traits.check_name(trait)
        self.client.update_node_traits(call.of(req).context, item.uuid, add=[trait])
        done(resp, 204, f"{self.services.base(req)}/v1/nodes/{ident}/traits/{trait}")

    def on_delete(self, req: falcon.Request, resp: falcon.Response, ident: str, trait: str) -> None:
        """Take a trait from a node that has it."""
        item = self.node(req, ident)
        self.client.update_node_traits(call.of(req).context, item.uuid, remove=[trait])
        done(resp, 204)
