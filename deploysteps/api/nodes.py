"""``/v1/nodes``: list, create, show, change and delete nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import falcon

from deploysteps import exceptions, states
from deploysteps.api import (
    bodies,
    call,
    changes,
    offers,
    paging,
    render,
    schemas,
    versions,
)
from deploysteps.api.answers import done, fields_of, listed_fields, send
from deploysteps.api.query import Query
from deploysteps.api.validation import checked
from deploysteps.db import nodes, traits
from deploysteps.db.models import Node

_FLAGS = frozenset({"associated", "maintenance", "retired", "sharded"})
_SORTABLE = frozenset(versions.NODE_FIELDS) & {column.key for column in Node.__table__.columns}


class _Nodes(call.Resource):
    """What the resources of nodes share."""

    def shown(
        self, req: falcon.Request, fields: Sequence[str], found: Sequence[Node]
    ) -> Callable[[Node], dict[str, Any]]:
        """Return how a request sees these nodes; the queries do not grow with them."""
        base, version = self.services.base(req), call.version(req)
        seen = versions.shown(fields, versions.NODE_FIELDS, version)
        charge = offers.in_charge(self.services) if "conductor" in seen else {}
        ids = [item.id for item in found] if "traits" in seen else []
        held = traits.of_nodes(self.database, ids) if ids else {}
        return lambda item: render.node(
            item,
            base=base,
            version=version,
            fields=seen,
            elsewhere={
                "conductor": charge.get((item.driver, item.conductor_group)),
                "traits": held.get(item.id, []),
            },
        )

    def whole(self, req: falcon.Request, item: Node) -> dict[str, Any]:
        """Return a node with all fields that a request sees."""
        return self.shown(req, list(versions.NODE_FIELDS), [item])(item)


class _NodeList(_Nodes):
    detail: ClassVar[bool]

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List nodes."""
        query, version = Query(req), call.version(req)
        fields = listed_fields(
            query, versions.NODE_FIELDS, versions.NODE_ITEM, version, detail=self.detail
        )
        filters = self._filters(query, version)
        page = paging.asked(query, self.conf.api.max_limit, _SORTABLE)
        if page.sort_key in versions.NODE_FIELDS:
            versions.check(page.sort_key, versions.NODE_FIELDS, version)
        query.finish()
        found = nodes.listing(self.database, filters=filters, **page.fetched())
        show, base = self.shown(req, fields, found), self.services.base(req)
        send(resp, paging.document("nodes", found, page, show=show, req=req, base=base))

    def _filters(self, query: Query, version: int) -> dict[str, Any]:
        given = [name for name in versions.NODE_FILTERS if name in query]
        versions.check_all(given, versions.NODE_FILTERS, version)
        found: dict[str, Any] = {
            name: query.flag(name) if name in _FLAGS else query.text(name) for name in given
        }
        state = found.get("provision_state")
        if state is not None and state not in states.STATES:
            raise exceptions.Invalid(f"Provision state {state[:80]!r} is not valid")
        if "conductor" in found:
            conductor = found.pop("conductor")
            charge = offers.in_charge(self.services)
            found["served_in"] = [key for key, name in charge.items() if name == conductor]
        return found


class NodesDetail(_NodeList):
    """``/v1/nodes/detail``."""

    detail = True


class Nodes(_NodeList):
    """``/v1/nodes``."""

    detail = False

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Create a node: ``available`` before 1.11, ``enroll`` from then on."""
        Query(req).finish()
        version = call.version(req)
        values = checked(schemas.NODE, bodies.read(req, self.conf), "node")
        versions.check_all(values, versions.NODE_FIELDS, version)
        changes.refuse_none_here(values)
        enrolled = version >= versions.ENROLL
        values["provision_state"] = states.ENROLL if enrolled else states.AVAILABLE
        item = self.client.create_node(call.of(req).context, values)
        resp.location = f"{self.services.base(req)}/v1/nodes/{item.uuid}"
        send(resp, self.whole(req, item), 201)


class OneNode(_Nodes):
    """``/v1/nodes/<id>``."""

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Show a node."""
        query, version = Query(req), call.version(req)
        fields = fields_of(query, versions.NODE_FIELDS, version)
        query.finish()
        item = self.node(req, ident)
        send(resp, self.shown(req, fields or list(versions.NODE_FIELDS), [item])(item))

    def on_patch(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Change a node by a JSON Patch."""
        query, version = Query(req), call.version(req)
        reset = query.flag("reset_interfaces")
        if reset is not None:
            first = {"reset_interfaces": versions.RESET_INTERFACES}
            versions.check("reset_interfaces", first, version)
        query.finish()
        item = self.node(req, ident)
        values = changes.of(
            item,
            bodies.read(req, self.conf),
            what="node",
            schema=schemas.NODE,
            table=versions.NODE_FIELDS,
            version=version,
            max_depth=self.conf.api.max_json_depth,
        )
        if reset and "driver" not in values:
            raise exceptions.Invalid(
                "The reset_interfaces parameter can only be used when changing the node's driver."
            )
        send(resp, self.whole(req, self._changed(req, item, values, bool(reset))))

    def _changed(
        self, req: falcon.Request, item: Node, values: dict[str, Any], reset: bool
    ) -> Node:
        context = call.of(req).context
        maintenance = values.pop("maintenance", None)
        if values:
            before = changes.made_from(item, values)
            item = self.client.update_node(context, item.uuid, values, reset, before)
        if maintenance is not None:
            # A verb of its own: it needs no lock, and a run must hear of it.
            self.client.set_node_maintenance(context, item.uuid, maintenance, None)
            item = nodes.get(self.database, item.id)
        return item

    def on_delete(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Remove a node's record."""
        Query(req).finish()
        item = self.node(req, ident)
        self.client.destroy_node(call.of(req).context, item.uuid)
        done(resp, 204)
