"""``/v1/allocations`` and ``/v1/nodes/<id>/allocation``."""

from __future__ import annotations

import abc
import functools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import falcon

from deploysteps import exceptions
from deploysteps.api import (
    answer_schemas,
    answers,
    arguments,
    bodies,
    call,
    changes,
    masks,
    paging,
    permits,
    render,
    schemas,
    versions,
)
from deploysteps.api.answers import done, fields_of, is_ident, send
from deploysteps.api.operations import EMPTY, Operation
from deploysteps.api.query import Query
from deploysteps.api.validation import checked
from deploysteps.db import allocations, nodes, traits
from deploysteps.db.group_models import Allocation
from deploysteps.db.models import Node
from deploysteps.db.pages import is_uuid, sortable

_TABLE = versions.ALLOCATION_FIELDS
_SINCE = versions.ENDPOINTS["allocations"]
_SORTABLE = sortable(Allocation) & _TABLE.keys()
_FIELDS = arguments.fields(_TABLE, _SINCE)
_KIND = changes.Kind(
    what="allocation", schema=schemas.ALLOCATION, table=versions.ALLOCATION_MEMBERS
)


class _Allocations(call.Resource):
    """What the resources of allocations share."""

    def version(self, req: falcon.Request) -> int:
        """Return the version of a request that may know of allocations at all.

        :raises NotFound: it may not.
        """
        version = call.version(req)
        versions.require("allocations", version)
        return version

    def shown(
        self, req: falcon.Request, found: Sequence[Allocation], fields: Sequence[str] = ()
    ) -> Any:
        """Return how a request sees these; the queries do not grow with them."""
        base, version = self.services.base(req), call.version(req)
        fields = fields or list(_TABLE)
        held = allocations.nodes_of(self.database, found) if "node_uuid" in fields else {}
        return lambda item: render.allocation(
            item, held.get(item.node_id), base=base, version=version, fields=fields
        )

    def may(
        self, req: falcon.Request, item: Allocation, missing: exceptions.NotFound
    ) -> Allocation:
        """Return an allocation with which the caller may do what he asks.

        :raises NotFound: ``missing``, it is not there for him.
        :raises Forbidden: he sees it, and may not do this.
        """
        caller = call.caller(req)
        caller.asked = True
        if not caller.may("baremetal:allocation:get", item.owner, kind="allocation"):
            raise missing
        caller.require(str(self.rule(req)), item.owner, kind="allocation")
        return item


class Allocations(_Allocations):
    """``/v1/allocations``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="List allocations",
            rule="baremetal:allocation:list",
            since=_SINCE,
            query={
                "node": arguments.TEXT,
                "resource_class": arguments.TEXT,
                "state": arguments.choice(allocations.STATES),
                "owner": arguments.since(_TABLE["owner"], arguments.TEXT),
                **_FIELDS,
                **arguments.page(_SORTABLE),
            },
            answers={200: answer_schemas.ALLOCATIONS},
        ),
        "POST": Operation(
            summary="Ask for a node",
            rule="baremetal:allocation:create",
            since=_SINCE,
            body=schemas.ALLOCATION,
            members=versions.ALLOCATION_MEMBERS,
            answers={201: answer_schemas.ALLOCATION},
            errors=(409, 503),
        ),
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List allocations."""
        version, query = self.version(req), Query(req)
        fields = fields_of(query, _TABLE, version, _SINCE) or list(_TABLE)
        page = paging.asked(query, self.conf.api.max_limit, _SORTABLE)
        filters = self._filters(req, query, version)
        query.finish()
        if page.marker is not None and call.caller(req).only("allocation") is not None:
            permits.marker_of(page.marker, functools.partial(self._sees, req))
        found = allocations.listing(self.database, filters=filters, **page.fetched())
        show, base = self.shown(req, found, fields), self.services.base(req)
        send(resp, paging.document("allocations", found, page, show=show, req=req, base=base))

    def _sees(self, req: falcon.Request, uuid: str) -> bool:
        owner = allocations.get(self.database, uuid).owner
        return call.caller(req).may("baremetal:allocation:get", owner, kind="allocation")

    def _filters(self, req: falcon.Request, query: Query, version: int) -> dict[str, Any]:
        found = {name: query.text(name) for name in ("resource_class", "state", "owner")}
        filters: dict[str, Any] = {
            name: value for name, value in found.items() if value is not None
        }
        if "owner" in filters:
            versions.check("owner", _TABLE, version)
        if filters.get("state", allocations.ACTIVE) not in allocations.STATES:
            raise exceptions.Invalid(f"state is one of {', '.join(allocations.STATES)}.")
        named = query.text("node")
        if named is not None:
            filters["node_id"] = self._node_of(req, named).id
        project = call.caller(req).only("allocation")
        if project is not None and filters.setdefault("owner", project) != project:
            raise exceptions.Forbidden(rule="baremetal:allocation:list_all")
        return filters

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Ask for a node."""
        version = self.version(req)
        Query(req).finish()
        values = checked(schemas.ALLOCATION, bodies.read(req, self.conf), "allocation")
        given = {name: value for name, value in values.items() if value is not None}
        if "node" in given and version < versions.ALLOCATION_MEMBERS["node"]:
            raise exceptions.Invalid(
                "Cannot set node when creating an allocation in this API version; it came with "
                f"1.{versions.ALLOCATION_MEMBERS['node']}."
            )
        versions.check_all(given, versions.ALLOCATION_MEMBERS, version)
        masks.Masks().new(given)
        self._whose(req, given)
        given["traits"] = list(dict.fromkeys(given.get("traits", ())))
        for name in given["traits"]:
            traits.check_name(name)
        given["candidate_nodes"] = self._candidates(req, given.pop("candidate_nodes", []))
        self._backfills(req, given)
        item = self.client.create_allocation(call.of(req).context, given)
        resp.location = f"{self.services.base(req)}/v1/allocations/{item.uuid}"
        send(resp, self.shown(req, [item])(item), 201)

    def _whose(self, req: falcon.Request, values: dict[str, Any]) -> None:
        """Make it the caller's project's, when he may ask for no others.

        :raises Invalid: he asks for one of another project.
        """
        caller = call.caller(req)
        if caller.may("baremetal:allocation:create_restricted"):
            return
        if values.get("owner") not in (None, caller.project):
            raise exceptions.Invalid(
                "Cannot create an allocation with an owner other than your own project; leave "
                "'owner' out."
            )
        values["owner"] = caller.project

    def _backfills(self, req: falcon.Request, values: dict[str, Any]) -> None:
        """Name the node that an allocation is told of afterwards, and what follows from it."""
        named = values.pop("node", None)
        if named is not None:
            node = self._node_of(req, named)
            values["node_uuid"] = node.uuid
            values.setdefault("resource_class", node.resource_class)
            if node.instance_uuid is not None:
                values.setdefault("uuid", node.instance_uuid)
        elif not values.get("resource_class"):
            raise exceptions.Invalid("The resource_class field is mandatory when not backfilling")

    def _candidates(self, req: falcon.Request, named: Sequence[str]) -> list[str]:
        """Return the uuids of nodes that a body names, each once; the queries do not grow.

        :raises Invalid: there is none for the caller.
        """
        idents = list(dict.fromkeys(named))
        there = nodes.owned(self.database, [ident for ident in idents if is_ident(ident)])
        caller, found = call.caller(req), dict[str, None]()
        for ident in idents:
            known = there.get(ident.lower() if is_uuid(ident) else ident)
            if known is None or not caller.sees(known[1], known[2]):
                raise exceptions.Invalid(exceptions.NodeNotFound(node=ident[:255]).message)
            found[known[0]] = None
        return list(found)

    def _node_of(self, req: falcon.Request, ident: str) -> Node:
        """Return a node that a query or a body names, if the caller sees it.

        :raises Invalid: there is none: no wrong path.
        """
        try:
            item = answers.node_of(self.database, ident, call.version(req))
        except exceptions.NodeNotFound as exc:
            raise exceptions.Invalid(exc.message) from exc
        if not call.caller(req).sees(item.owner, item.lessee):
            raise exceptions.Invalid(exceptions.NodeNotFound(node=ident[:255]).message)
        return item


class _OneAllocation(_Allocations, abc.ABC):
    """One allocation, however a path leads to it."""

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Show an allocation."""
        version, query = self.version(req), Query(req)
        fields = fields_of(query, _TABLE, version, _SINCE) or list(_TABLE)
        query.finish()
        item = self._item(req, ident)
        send(resp, self.shown(req, [item], fields)(item))

    def on_delete(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Give up an allocation."""
        self.version(req)
        Query(req).finish()
        item = self._item(req, ident)
        self.client.destroy_allocation(call.of(req).context, item.uuid)
        done(resp, 204)

    @abc.abstractmethod
    def _item(self, req: falcon.Request, ident: str) -> Allocation:
        """Return it, if the caller may do with it what he asks."""


class OneAllocation(_OneAllocation):
    """``/v1/allocations/<id>``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="Show an allocation",
            rule="baremetal:allocation:get",
            since=_SINCE,
            query=_FIELDS,
            answers={200: answer_schemas.ALLOCATION},
        ),
        "PATCH": Operation(
            summary="Change the name or extra of an allocation",
            rule="baremetal:allocation:update",
            since=versions.ALLOCATION_UPDATE,
            body=schemas.PATCH,
            answers={200: answer_schemas.ALLOCATION},
            errors=(405, 409),
        ),
        "DELETE": Operation(
            summary="Give up an allocation, and free its node",
            rule="baremetal:allocation:delete",
            since=_SINCE,
            answers={204: EMPTY},
            errors=(409,),
        ),
    }
    by_item = frozenset(operations)

    def on_patch(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Change an allocation by a JSON Patch."""
        version = self.version(req)
        Query(req).finish()
        if version < versions.ALLOCATION_UPDATE:
            raise falcon.HTTPMethodNotAllowed(["GET", "DELETE"])
        item = self._item(req, ident)
        values = changes.of(self, req, item, _KIND)
        item = changes.kept(req, item, values, self.client.update_allocation)
        send(resp, self.shown(req, [item])(item))

    def _item(self, req: falcon.Request, ident: str) -> Allocation:
        missing = exceptions.AllocationNotFound(allocation=ident[:255])
        if not is_ident(ident):
            raise missing
        return self.may(req, allocations.get(self.database, ident), missing)


class NodeAllocation(_OneAllocation):
    """``/v1/nodes/<id>/allocation``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="Show the allocation of a node",
            rule="baremetal:allocation:get",
            since=_SINCE,
            query=_FIELDS,
            answers={200: answer_schemas.ALLOCATION},
        ),
        "DELETE": Operation(
            summary="Give up the allocation of a node",
            rule="baremetal:allocation:delete",
            since=_SINCE,
            answers={204: EMPTY},
            errors=(409,),
        ),
    }

    def _item(self, req: falcon.Request, ident: str) -> Allocation:
        node = self.seen(req, ident)
        found = allocations.of_node(self.database, node.id)
        missing = exceptions.NotFound(f"Allocation for node {ident[:255]} was not found")
        if found is None:
            call.caller(req).asked = True
            raise missing
        return self.may(req, found, missing)
