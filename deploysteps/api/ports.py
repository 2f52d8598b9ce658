"""``/v1/ports``, and ``/v1/nodes/<id>/ports``."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import falcon

from deploysteps import exceptions
from deploysteps.api import (
    answer_schemas,
    arguments,
    call,
    changes,
    paging,
    permits,
    render,
    schemas,
    versions,
)
from deploysteps.api.answers import done, fields_of, is_ident, listed_fields, send
from deploysteps.api.operations import EMPTY, Operation
from deploysteps.api.query import Query
from deploysteps.api.validation import checked
from deploysteps.db import nodes, portgroups, ports
from deploysteps.db.models import Node, Port
from deploysteps.db.pages import is_uuid, sortable

_SORTABLE = sortable(Port) & versions.PORT_FIELDS.keys()
_KIND = changes.Kind(what="port", schema=schemas.PORT, table=versions.PORT_MEMBERS)

_ADDRESS = {"address": schemas.ADDRESS}
PAGE = {**arguments.listed(versions.PORT_FIELDS), **arguments.page(_SORTABLE)}
"""What a page of ports is asked for by."""
_LIST = Operation(
    summary="List ports",
    rule="baremetal:port:list",
    query={
        "node": arguments.TEXT,
        "node_uuid": arguments.UUID,
        "portgroup": arguments.since(versions.PORT_FILTERS["portgroup"], arguments.TEXT),
        "shard": arguments.since(versions.PORT_FILTERS["shard"], arguments.TEXTS),
        **_ADDRESS,
        **PAGE,
    },
    answers={200: answer_schemas.PORTS},
)


class PortLists(call.Resource):
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
        portgroup: str | None = None,
        shards: Sequence[str] | None = None,
    ) -> None:
        """Answer with a page of ports.

        :param portgroup: uuid or name of the portgroup that they are in.
        :param shards: those that their nodes are in.
        """
        version, base = call.version(req), self.services.base(req)
        fields = listed_fields(
            query, versions.PORT_FIELDS, versions.PORT_ITEM, version, detail=detail
        )
        page = paging.asked(query, self.conf.api.max_limit, _SORTABLE)
        if page.sort_key in versions.PORT_FIELDS:
            versions.check(page.sort_key, versions.PORT_FIELDS, version)
        query.finish()
        node_id = self.node(req, node).id if node is not None else None
        within = self._portgroup(req, portgroup) if portgroup is not None else None
        project = None if node_id is not None else call.caller(req).only("port")
        if page.marker is not None and call.caller(req).only("port") is not None:
            permits.marker(req, page.marker, self._node_of_port)
        found = ports.listing(
            self.database,
            node_id=node_id,
            address=address,
            portgroup=within,
            shards=shards,
            visible_to=project,
            **page.fetched(),
        )

        def show(item: Port) -> dict[str, Any]:
            return render.port(item, base=base, version=version, fields=fields)

        send(resp, paging.document("ports", found, page, show=show, req=req, base=base))

    def _node_of_port(self, uuid: str) -> Node:
        return nodes.get(self.database, ports.get(self.database, uuid).node_id)

    def _portgroup(self, req: falcon.Request, ident: str) -> str:
        """Return the uuid of a portgroup that the caller sees.

        :raises PortgroupNotFound: there is none for him.
        """
        missing = exceptions.PortgroupNotFound(portgroup=ident[:255])
        if not is_ident(ident):
            raise missing
        found = portgroups.get(self.database, ident)
        node = nodes.get(self.database, found.node_id)
        if not call.caller(req).sees(node.owner, node.lessee):
            raise missing
        return found.uuid

    def answer(
        self, req: falcon.Request, resp: falcon.Response, item: Port, status: int = 200
    ) -> None:
        """Answer with a whole port."""
        base, version = self.services.base(req), call.version(req)
        shown = render.port(item, base=base, version=version, fields=versions.PORT_FIELDS)
        send(resp, shown, status)


class _PortList(PortLists):
    detail: ClassVar[bool]

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List ports."""
        query = Query(req)
        node = query.text("node_uuid")
        named = query.text("node")
        address = query.text("address")
        given = [name for name in versions.PORT_FILTERS if name in query]
        versions.check_all(given, versions.PORT_FILTERS, call.version(req))
        if address is not None:
            checked(schemas.PORT_QUERY, {"address": address}, "the query")
        self.listed(
            req,
            resp,
            query,
            detail=self.detail,
            node=named if node is None else node,
            address=address,
            portgroup=query.text("portgroup"),
            shards=query.names("shard"),
        )


class PortsDetail(_PortList):
    """``/v1/ports/detail``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": dataclasses.replace(_LIST, summary="List ports with all their fields")
    }

    detail = True


class Ports(_PortList):
    """``/v1/ports``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": _LIST,
        "POST": Operation(
            summary="Create a port",
            rule="baremetal:port:create",
            body=schemas.PORT,
            members=versions.PORT_MEMBERS,
            answers={201: answer_schemas.PORT},
            errors=(409,),
        ),
    }

    by_item = frozenset({"POST"})
    detail = False

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Create a port."""
        Query(req).finish()
        values = changes.new(self, req, _KIND)
        values["address"] = values["address"].lower()
        node = _node_of(values, call.version(req))
        try:
            self.node(req, node)
            item = self.client.create_port(call.of(req).context, node, values)
        except exceptions.NodeNotFound as exc:
            # A mistake in the body, not a wrong path.
            raise exceptions.Invalid(exc.message) from exc
        resp.location = f"{self.services.base(req)}/v1/ports/{item.uuid}"
        self.answer(req, resp, item, 201)


def _node_of(values: dict[str, Any], version: int) -> str:
    """Take the node out of a port's body, where it stands under one of two names.

    :raises Invalid: under none or both, or it is named by its name before that came.
    """
    given = [values.pop(name) for name in ("node_uuid", "node_ident") if name in values]
    if not given:
        raise exceptions.Invalid("Schema error for port: 'node_uuid' is a required property")
    if len(given) > 1:
        raise exceptions.Invalid("Schema error for port: give node_uuid or node_ident, not both")
    node = str(given[0])
    _refuse_name(node, version)
    return node


def _refuse_name(node: str, version: int) -> None:
    """Refuse a node that is named by its name before that came.

    :raises Invalid: it is.
    """
    if version < versions.PORT_NODE_NAME and not is_uuid(node):
        raise exceptions.Invalid("Schema error for port: node_uuid must be the UUID of a node")


class NodePorts(PortLists):
    """``/v1/nodes/<id>/ports``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="List the ports of a node",
            rule="baremetal:port:list",
            query={**_ADDRESS, **PAGE},
            answers={200: answer_schemas.PORTS},
        )
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """List the ports of a node."""
        query = Query(req)
        address = query.text("address")
        self.listed(req, resp, query, detail=False, node=ident, address=address)


class OnePort(PortLists):
    """``/v1/ports/<uuid>``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="Show a port",
            rule="baremetal:port:get",
            query=arguments.fields(versions.PORT_FIELDS),
            answers={200: answer_schemas.PORT},
        ),
        "PATCH": Operation(
            summary="Change a port",
            rule="baremetal:port:update",
            body=schemas.PATCH,
            answers={200: answer_schemas.PORT},
            errors=(409,),
        ),
        "DELETE": Operation(
            summary="Delete a port",
            rule="baremetal:port:delete",
            answers={204: EMPTY},
            errors=(409,),
        ),
    }

    by_item = frozenset(operations)

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Show a port."""
        query, version = Query(req), call.version(req)
        fields = fields_of(query, versions.PORT_FIELDS, version) or list(versions.PORT_FIELDS)
        query.finish()
        item = self._port(req, ident)
        base = self.services.base(req)
        send(resp, render.port(item, base=base, version=version, fields=fields))

    def on_patch(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Change a port by a JSON Patch."""
        Query(req).finish()
        item = self._port(req, ident)
        values = changes.of(self, req, item, _KIND)
        if "address" in values:
            values["address"] = values["address"].lower()
        self._check_node(req, item, values)
        self.answer(req, resp, changes.kept(req, item, values, self.client.update_port))

    def _check_node(self, req: falcon.Request, item: Port, values: dict[str, Any]) -> None:
        """Put the uuid of the node that a port is given to in the place of its name.

        :raises Invalid: there is none for the caller, or it is named before that came.
        :raises Forbidden: he may not give it ports.
        """
        named = values.get("node_uuid", item.node_uuid)
        if named == item.node_uuid:
            return
        _refuse_name(str(named), call.version(req))
        try:
            node = self.seen(req, named)
        except exceptions.NodeNotFound as exc:
            raise exceptions.Invalid(exc.message) from exc
        create = Ports.operations["POST"].rule
        call.caller(req).require(str(create), node.owner, node.lessee)
        values["node_uuid"] = node.uuid

    def on_delete(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Remove a port."""
        Query(req).finish()
        self.client.destroy_port(call.of(req).context, self._port(req, ident).uuid)
        done(resp, 204)

    def _port(self, req: falcon.Request, ident: str) -> Port:
        """Return the port of a path, if the caller may do with it what he asks: as its node's.

        :raises PortNotFound: there is none for him; names are no ports before 1.88.
        """
        missing = exceptions.PortNotFound(port=ident[:255])
        named = call.version(req) >= versions.PORT_FIELDS["name"] and is_ident(ident)
        if not (named or is_uuid(ident)):
            raise missing
        item = ports.get(self.database, ident)
        self.permit(req, nodes.get(self.database, item.node_id), missing)
        return item
