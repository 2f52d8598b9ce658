"""``/v1/portgroups``, ``/v1/nodes/<id>/portgroups`` and ``/v1/portgroups/<id>/ports``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
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
    ports,
    render,
    schemas,
    versions,
)
from deploysteps.api.answers import done, fields_of, is_ident, listed_fields, send
from deploysteps.api.operations import EMPTY, Operation
from deploysteps.api.query import Query
from deploysteps.api.validation import checked
from deploysteps.db import nodes, portgroups
from deploysteps.db.group_models import Portgroup
from deploysteps.db.models import Node
from deploysteps.db.pages import sortable

_TABLE = versions.PORTGROUP_FIELDS
_KIND = changes.Kind(what="portgroup", schema=schemas.PORTGROUP, table=_TABLE)
_SINCE = versions.ENDPOINTS["portgroups"]
_SORTABLE = sortable(Portgroup) & _TABLE.keys()
_PAGE = {**arguments.listed(_TABLE), **arguments.page(_SORTABLE)}
_ADDRESS = {"address": schemas.ADDRESS}
_LIST = Operation(
    summary="List portgroups",
    rule="baremetal:portgroup:list",
    since=_SINCE,
    query={
        "node": arguments.TEXT,
        "shard": arguments.since(versions.PORTGROUP_SHARD, arguments.TEXTS),
        **_ADDRESS,
        **_PAGE,
    },
    answers={200: answer_schemas.PORTGROUPS},
)


class _Portgroups(call.Resource):
    """What the resources of portgroups share."""

    def version(self, req: falcon.Request, first: int = _SINCE) -> int:
        """Return the version of a request that may know of this at all.

        :raises NotFound: it may not.
        """
        version = call.version(req)
        if version < first:
            raise exceptions.NotFound()
        return version

    def shown(
        self, req: falcon.Request, fields: Sequence[str]
    ) -> Callable[[Portgroup], dict[str, Any]]:
        """Return how a request sees one."""
        base, version = self.services.base(req), call.version(req)
        return lambda item: render.group(
            item,
            base=base,
            version=version,
            place="portgroups",
            part="ports",
            table=_TABLE,
            fields=fields,
        )

    def listed(
        self,
        req: falcon.Request,
        resp: falcon.Response,
        query: Query,
        node: str | None,
        detail: bool,
        shards: Sequence[str] | None = None,
    ) -> None:
        """Answer with a page of portgroups, of one node, or of nodes in shards, if named."""
        version = call.version(req)
        fields = listed_fields(query, _TABLE, versions.PORTGROUP_ITEM, version, detail=detail)
        page = paging.asked(query, self.conf.api.max_limit, _SORTABLE)
        if page.sort_key in _TABLE:
            versions.check(page.sort_key, _TABLE, version)
        address = query.text("address")
        query.finish()
        filters: dict[str, Any] = {} if shards is None else {"shard_in": shards}
        if address is not None:
            filters["address"] = checked(schemas.PORT_QUERY, {"address": address}, "the query")[
                "address"
            ]
        project = call.caller(req).only("portgroup")
        if node is not None:
            filters["node_id"] = self.node(req, node).id
        elif project is not None:
            filters["visible_to"] = project
        if page.marker is not None and project is not None:
            permits.marker(req, page.marker, self._node_of)
        found = portgroups.listing(self.database, filters=filters, **page.fetched())
        show, base = self.shown(req, fields), self.services.base(req)
        send(resp, paging.document("portgroups", found, page, show=show, req=req, base=base))

    def _node_of(self, uuid: str) -> Node:
        return nodes.get(self.database, portgroups.get(self.database, uuid).node_id)

    def item(self, req: falcon.Request, ident: str) -> Portgroup:
        """Return the portgroup of a path, if the caller may do with it what he asks.

        :raises PortgroupNotFound: there is none for him.
        """
        missing = exceptions.PortgroupNotFound(portgroup=ident[:255])
        if not is_ident(ident):
            raise missing
        found = portgroups.get(self.database, ident)
        self.permit(req, nodes.get(self.database, found.node_id), missing)
        return found


class _PortgroupList(_Portgroups):
    detail: ClassVar[bool]

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List portgroups."""
        self.version(req)
        query = Query(req)
        shards = query.names("shard")
        if shards is not None:
            first = {"shard": versions.PORTGROUP_SHARD}
            versions.check("shard", first, call.version(req))
        self.listed(req, resp, query, query.text("node"), self.detail, shards)


class PortgroupsDetail(_PortgroupList):
    """``/v1/portgroups/detail``."""

    operations: ClassVar[Mapping[str, Operation]] = {"GET": _LIST}
    detail = True


class Portgroups(_PortgroupList):
    """``/v1/portgroups``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": _LIST,
        "POST": Operation(
            summary="Create a portgroup",
            rule="baremetal:portgroup:create",
            since=_SINCE,
            body=schemas.PORTGROUP,
            members=_TABLE,
            answers={201: answer_schemas.PORTGROUP},
            errors=(409,),
        ),
    }
    by_item = frozenset({"POST"})
    detail = False

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Create a portgroup."""
        self.version(req)
        Query(req).finish()
        values = changes.new(self, req, _KIND)
        node = values.pop("node_uuid")
        try:
            self.node(req, node)
            item = self.client.create_portgroup(call.of(req).context, node, values)
        except exceptions.NodeNotFound as exc:
            # A mistake in the body, not a wrong path.
            raise exceptions.Invalid(exc.message) from exc
        resp.location = f"{self.services.base(req)}/v1/portgroups/{item.uuid}"
        send(resp, self.shown(req, list(_TABLE))(item), 201)


class NodePortgroups(_Portgroups):
    """``/v1/nodes/<id>/portgroups``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="List the portgroups of a node",
            rule="baremetal:portgroup:list",
            since=versions.PORTGROUP_PARTS,
            query={**_ADDRESS, **_PAGE},
            answers={200: answer_schemas.PORTGROUPS},
        )
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """List the portgroups of a node."""
        self.version(req, versions.PORTGROUP_PARTS)
        self.listed(req, resp, Query(req), ident, False)


class PortgroupPorts(ports.PortLists):
    """``/v1/portgroups/<id>/ports``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="List the ports of a portgroup",
            rule="baremetal:port:list",
            since=versions.PORTGROUP_PARTS,
            query={**_ADDRESS, **ports.PAGE},
            answers={200: answer_schemas.PORTS},
        )
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """List the ports of a portgroup."""
        if call.version(req) < versions.PORTGROUP_PARTS:
            raise exceptions.NotFound()
        query = Query(req)
        address = query.text("address")
        self.listed(req, resp, query, detail=False, node=None, address=address, portgroup=ident)


class OnePortgroup(_Portgroups):
    """``/v1/portgroups/<id>``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="Show a portgroup",
            rule="baremetal:portgroup:get",
            since=_SINCE,
            query=arguments.fields(_TABLE),
            answers={200: answer_schemas.PORTGROUP},
        ),
        "PATCH": Operation(
            summary="Change a portgroup",
            rule="baremetal:portgroup:update",
            since=_SINCE,
            body=schemas.PATCH,
            answers={200: answer_schemas.PORTGROUP},
            errors=(409,),
        ),
        "DELETE": Operation(
            summary="Delete a portgroup that has no port",
            rule="baremetal:portgroup:delete",
            since=_SINCE,
            answers={204: EMPTY},
            errors=(409,),
        ),
    }
    by_item = frozenset(operations)

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Show a portgroup."""
        version, query = self.version(req), Query(req)
        fields = fields_of(query, _TABLE, version) or list(_TABLE)
        query.finish()
        send(resp, self.shown(req, fields)(self.item(req, ident)))

    def on_patch(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Change a portgroup by a JSON Patch."""
        self.version(req)
        Query(req).finish()
        item = self.item(req, ident)
        values = changes.of(self, req, item, _KIND)
        item = changes.kept(req, item, values, self.client.update_portgroup)
        send(resp, self.shown(req, list(_TABLE))(item))

    def on_delete(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Remove a portgroup."""
        self.version(req)
        Query(req).finish()
        self.client.destroy_portgroup(call.of(req).context, self.item(req, ident).uuid)
        done(resp, 204)
