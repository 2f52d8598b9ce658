"""``/v1/nodes``: list, create, show, change and delete nodes."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, ClassVar

import falcon

from deploysteps import exceptions, states
from deploysteps.access.caller import Caller
from deploysteps.api import (
    answer_schemas,
    arguments,
    bodies,
    bulk,
    call,
    changes,
    network_data,
    offers,
    paging,
    patch,
    permits,
    render,
    schemas,
    versions,
)
from deploysteps.api.answers import done, fields_of, listed_fields, send, send_text
from deploysteps.api.operations import EMPTY, Operation
from deploysteps.api.query import Query
from deploysteps.db import allocations, chassis, nodes, power, traits
from deploysteps.db.models import Node
from deploysteps.db.pages import is_uuid, sortable

_FLAGS = frozenset({"associated", "include_children", "maintenance", "retired", "sharded"})
_UUIDS = frozenset({"chassis_uuid", "instance_uuid"})
_SORTABLE = sortable(Node) & versions.NODE_FIELDS.keys()
_KIND = changes.Kind(what="node", schema=schemas.NODE, table=versions.NODE_FIELDS)

_KINDS = {
    **dict.fromkeys(_FLAGS, arguments.FLAG),
    **dict.fromkeys(_UUIDS, arguments.UUID),
    "fault": arguments.choice(power.FAULTS),
    "provision_state": arguments.choice(states.STATES),
    "shard": arguments.TEXTS,
}
_FILTERS = {
    name: arguments.since(first, _KINDS.get(name, arguments.TEXT))
    for name, first in versions.NODE_FILTERS.items()
}
_LIST = Operation(
    summary="List nodes",
    rule="baremetal:node:list",
    query={
        **arguments.listed(versions.NODE_FIELDS),
        **_FILTERS,
        **arguments.page(_SORTABLE),
    },
    answers={200: answer_schemas.NODES},
)


class _Nodes(call.Resource):
    """What the resources of nodes share."""

    def __init__(self, services: call.Services) -> None:
        """Read by what ``network_data`` is checked.

        :raises ConfigurationError: it cannot be.
        """
        super().__init__(services)
        self._network_data = network_data.Checker(services.conf)

    def shown(
        self, req: falcon.Request, fields: Sequence[str], found: Sequence[Node]
    ) -> Callable[[Node], dict[str, Any]]:
        """Return how a request sees these nodes; the queries do not grow with them."""
        base, version = self.services.base(req), call.version(req)
        seen = versions.shown(fields, versions.NODE_FIELDS, version)
        caller = call.caller(req)
        beside = self.beside(caller, seen, [item.id for item in found])
        return lambda item: render.node(
            item,
            base=base,
            version=version,
            fields=seen,
            unmasked=permits.unmasked(caller, item, seen),
            elsewhere={
                **{name: value(item) for name, value in beside.items()},
                **permits.kept_back(caller, item, seen),
            },
        )

    def beside(self, caller: Caller, seen: Collection[str], ids: Sequence[int]) -> bulk.Beside:
        """Return what of these fields is no column of nodes; the queries do not grow with them."""
        found: dict[str, Callable[[Any], Any]] = {}
        if "conductor" in seen:
            found["conductor"] = offers.in_charge(self.services, caller)
        if "traits" in seen:
            held = traits.of_nodes(self.database, ids)
            found["traits"] = lambda item: held.get(item.id, [])
        if "allocation_uuid" in seen:
            taken = allocations.of_nodes(self.database, ids)
            found["allocation_uuid"] = lambda item: taken.get(item.id)
        return found

    def whole(self, req: falcon.Request, item: Node) -> dict[str, Any]:
        """Return a node with all fields that a request sees."""
        return self.shown(req, list(versions.NODE_FIELDS), [item])(item)


class _NodeList(_Nodes):
    detail: ClassVar[bool]

    def listed(
        self, req: falcon.Request, resp: falcon.Response, in_chassis: str | None = None
    ) -> None:
        """Answer with a page of nodes, of one chassis if it is named."""
        query, version = Query(req), call.version(req)
        fields = listed_fields(
            query, versions.NODE_FIELDS, versions.NODE_ITEM, version, detail=self.detail
        )
        caller = call.caller(req)
        filters = self._filters(query, version, caller)
        page = paging.asked(query, self.conf.api.max_limit, _SORTABLE)
        if page.sort_key in versions.NODE_FIELDS:
            versions.check(page.sort_key, versions.NODE_FIELDS, version)
        query.finish()
        permits.sort(req, page.sort_key)
        if in_chassis is not None:
            filters["chassis_uuid"] = self._chassis(req, in_chassis[:255])
        project = caller.only("node")
        if project is not None:
            filters["visible_to"] = project
            if page.marker is not None:
                permits.marker(req, page.marker, functools.partial(nodes.get, self.database))
        seen = versions.shown(fields, versions.NODE_FIELDS, version)
        base = self.services.base(req)
        writer = bulk.NodeWriter(seen, base=base, version=version, caller=caller)
        rows = nodes.rows(self.database, writer.columns, filters=filters, **page.fetched())
        shown = rows[: page.limit]
        beside = self.beside(caller, seen, [writer.item(row).id for row in shown])
        onward = None
        if len(rows) > len(shown):
            onward = paging.onward(page, writer.item(shown[-1]).uuid, req=req, base=base)
        send_text(resp, writer.document(shown, beside, onward))

    def _chassis(self, req: falcon.Request, ident: str) -> str:
        """Return the uuid of the chassis of a path.

        :raises ChassisNotFound: there is none. Who may see none is not told whether there is.
        """
        may_know = call.caller(req).may("baremetal:chassis:get")
        return chassis.get(self.database, ident).uuid if may_know else ident.lower()

    def _filters(self, query: Query, version: int, caller: Caller) -> dict[str, Any]:
        given = [name for name in versions.NODE_FILTERS if name in query]
        versions.check_all(given, versions.NODE_FILTERS, version)
        found = {name: _taken(query, name) for name in given}
        if "shard" in found:
            found["shard_in"] = found.pop("shard")
        if not found.pop("include_children", None) and "parent_node" not in found:
            found["has_parent"] = False  # a part of a machine is none that could be used
        if "conductor" in found:
            found["id_in"] = offers.nodes_of(self.services, found.pop("conductor"), caller)
        return found


def _taken(query: Query, name: str) -> Any:
    """Return the value of a filter.

    :raises Invalid: it is none that a node can have.
    """
    if name in _FLAGS:
        return query.flag(name)
    if name == "shard":
        return query.names(name)
    value = query.text(name) or ""
    if name == "conductor_group":
        return value.lower()
    if name in _UUIDS:
        if not is_uuid(value):
            raise exceptions.Invalid(f"{name} must be a UUID, not {value[:80]!r}")
        return value
    if value not in _KINDS.get(name, {}).get("enum", (value,)):
        known = ", ".join(_KINDS[name]["enum"])
        raise exceptions.Invalid(f"There is no {name} {value[:80]!r}; there are {known}")
    return value


class NodesDetail(_NodeList):
    """``/v1/nodes/detail``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": dataclasses.replace(_LIST, summary="List nodes with all their fields")
    }

    detail = True

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List nodes."""
        self.listed(req, resp)


class ChassisNodes(_NodeList):
    """``/v1/chassis/<uuid>/nodes``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": dataclasses.replace(_LIST, summary="List the nodes of a chassis")
    }
    detail = False

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """List the nodes of a chassis."""
        self.listed(req, resp, ident)


class Nodes(_NodeList):
    """``/v1/nodes``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": _LIST,
        "POST": Operation(
            summary="Create a node",
            rule="baremetal:node:create",
            body=schemas.NODE,
            members=versions.NODE_FIELDS,
            answers={201: answer_schemas.NODE},
            errors=(409,),
        ),
    }

    detail = False

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List nodes."""
        self.listed(req, resp)

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Create a node: ``available`` before 1.11, ``enroll`` from then on."""
        Query(req).finish()
        values = changes.new(self, req, _KIND)
        self._network_data.check(values)
        permits.node_to_create(req, values)
        permits.parent_of(req, self.database, values, values.get("owner"))
        enrolled = call.version(req) >= versions.ENROLL
        values["provision_state"] = states.ENROLL if enrolled else states.AVAILABLE
        item = self.client.create_node(call.of(req).context, values)
        resp.location = f"{self.services.base(req)}/v1/nodes/{item.uuid}"
        send(resp, self.whole(req, item), 201)


class OneNode(_Nodes):
    """``/v1/nodes/<id>``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="Show a node",
            rule="baremetal:node:get",
            query=arguments.fields(versions.NODE_FIELDS),
            answers={200: answer_schemas.NODE},
        ),
        "PATCH": Operation(
            summary="Change a node",
            rule="baremetal:node:update",
            query={"reset_interfaces": arguments.since(versions.RESET_INTERFACES, arguments.FLAG)},
            body=schemas.PATCH,
            answers={200: answer_schemas.NODE},
            errors=(409,),
        ),
        "DELETE": Operation(
            summary="Delete a node",
            rule="baremetal:node:delete",
            answers={204: EMPTY},
            errors=(409,),
        ),
    }

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
        item = self.seen(req, ident)
        body = bodies.read(req, self.conf)
        permits.node_to_change(req, item, patch.parse(body))
        values = changes.of(self, req, item, _KIND, body)
        self._network_data.check(values)
        permits.parent_of(req, self.database, values, values.get("owner", item.owner))
        if reset and "driver" not in values:
            raise exceptions.Invalid(
                "The reset_interfaces parameter can only be used when changing the node's driver."
            )
        send(resp, self.whole(req, self._changed(req, item, values, bool(reset))))

    def _changed(
        self, req: falcon.Request, item: Node, values: dict[str, Any], reset: bool
    ) -> Node:
        def update(context: Any, uuid: str, values: Any, before: Any) -> Node:
            return self.client.update_node(context, uuid, values, reset, before)

        if list(values) != ["maintenance"]:
            return changes.kept(req, item, values, update)
        # A verb of its own: it needs no lock, and a run must hear of it.
        context, on = call.of(req).context, values["maintenance"]
        self.client.set_node_maintenance(context, item.uuid, on, None)
        return nodes.get(self.database, item.id)

    def on_delete(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Remove a node's record."""
        Query(req).finish()
        item = self.node(req, ident)
        self.client.destroy_node(call.of(req).context, item.uuid)
        done(resp, 204)
