"""``/v1/ports``, and ``/v1/nodes/<id>/ports``."""

from __future__ import annotations

from typing import Any, ClassVar

import falcon

from deploysteps import exceptions
from deploysteps.api import bodies, call, changes, paging, render, schemas, versions
from deploysteps.api.answers import done, fields_of, listed_fields, send
from deploysteps.api.query import Query
from deploysteps.api.validation import checked
from deploysteps.db import ports
from deploysteps.db.models import Port
from deploysteps.db.pages import is_uuid

_SORTABLE = frozenset(versions.PORT_FIELDS) & {column.key for column in Port.__table__.columns}


class _Ports(call.Resource):
    """What the resources of ports share."""

    def listed(
        self,
        req: falcon.Request,
        resp: falcon.Response,
        query: Query,
        *,
        detail: bool,
        node: str | None,
        address: str | None,
    ) -> None:
        """Answer with a page of ports."""
        version, base = call.version(req), self.services.base(req)
        fields = listed_fields(
            query, versions.PORT_FIELDS, versions.PORT_ITEM, version, detail=detail
        )
        page = paging.asked(query, self.conf.api.max_limit, _SORTABLE)
        if page.sort_key in versions.PORT_FIELDS:
            versions.check(page.sort_key, versions.PORT_FIELDS, version)
        query.finish()
        node_id = self.node(req, node).id if node is not None else None
        found = ports.listing(self.database, node_id=node_id, address=address, **page.fetched())

        def show(item: Port) -> dict[str, Any]:
            return render.port(item, base=base, version=version, fields=fields)

        send(resp, paging.document("ports", found, page, show=show, req=req, base=base))

    def answer(
        self, req: falcon.Request, resp: falcon.Response, item: Port, status: int = 200
    ) -> None:
        """Answer with a whole port."""
        base, version = self.services.base(req), call.version(req)
        shown = render.port(item, base=base, version=version, fields=versions.PORT_FIELDS)
        send(resp, shown, status)


class _PortList(_Ports):
    detail: ClassVar[bool]

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List ports."""
        query = Query(req)
        node = query.text("node_uuid")
        named = query.text("node")
        address = query.text("address")
        if address is not None:
            checked(schemas.PORT_QUERY, {"address": address}, "the query")
        node = named if node is None else node
        self.listed(req, resp, query, detail=self.detail, node=node, address=address)


class PortsDetail(_PortList):
    """``/v1/ports/detail``."""

    detail = True


class Ports(_PortList):
    """``/v1/ports``."""

    detail = False

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Create a port."""
        Query(req).finish()
        version = call.version(req)
        values = checked(schemas.PORT, bodies.read(req, self.conf), "port")
        versions.check_all(values, versions.PORT_FIELDS, version)
        changes.refuse_none_here(values)
        values["address"] = values["address"].lower()
        node = values.pop("node_uuid")
        try:
            item = self.client.create_port(call.of(req).context, node, values)
        except exceptions.NodeNotFound as exc:
            # A mistake in the body, not a wrong path.
            raise exceptions.Invalid(exc.message) from exc
        resp.location = f"{self.services.base(req)}/v1/ports/{item.uuid}"
        self.answer(req, resp, item, 201)


class NodePorts(_Ports):
    """``/v1/nodes/<id>/ports``."""

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """List the ports of a node."""
        query = Query(req)
        address = query.text("address")
        self.listed(req, resp, query, detail=False, node=ident, address=address)


class OnePort(_Ports):
    """``/v1/ports/<uuid>``."""

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Show a port."""
        query, version = Query(req), call.version(req)
        fields = fields_of(query, versions.PORT_FIELDS, version) or list(versions.PORT_FIELDS)
        query.finish()
        item = self._port(ident)
        base = self.services.base(req)
        send(resp, render.port(item, base=base, version=version, fields=fields))

    def on_patch(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Change a port by a JSON Patch."""
        Query(req).finish()
        version = call.version(req)
        item = self._port(ident)
        values = changes.of(
            item,
            bodies.read(req, self.conf),
            what="port",
            schema=schemas.PORT,
            table=versions.PORT_FIELDS,
            version=version,
            max_depth=self.conf.api.max_json_depth,
        )
        if "address" in values:
            values["address"] = values["address"].lower()
        if values:
            before = changes.made_from(item, values)
            item = self.client.update_port(call.of(req).context, item.uuid, values, before)
        self.answer(req, resp, item)

    def on_delete(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Remove a port."""
        Query(req).finish()
        self.client.destroy_port(call.of(req).context, self._port(ident).uuid)
        done(resp, 204)

    def _port(self, ident: str) -> Port:
        if not is_uuid(ident):
            raise exceptions.PortNotFound(port=ident[:255])
        return ports.get(self.database, ident.lower())
