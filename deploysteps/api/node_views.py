"""What else there is of one node: states, validation, steps, plan, runs and lock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import falcon

from deploysteps import exceptions, secrets
from deploysteps.api import (
    answer_schemas,
    arguments,
    bodies,
    call,
    paging,
    permits,
    render,
    schemas,
    step_lists,
    versions,
)
from deploysteps.api.answers import done, send
from deploysteps.api.operations import EMPTY, Operation
from deploysteps.api.query import Query
from deploysteps.api.validation import checked
from deploysteps.db import nodes
from deploysteps.db.models import Node
from deploysteps.steps import DEPLOY, FLOWS, INTERFACE_TYPES, StepFlow

_VALIDATED = tuple(kind for kind in INTERFACE_TYPES if kind != "vendor")
"""What the field tells of; a vendor interface is asked about each of its methods instead."""


class NodeStates(call.Resource):
    """``/v1/nodes/<id>/states``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="Show the states of a node",
            rule="baremetal:node:get_states",
            answers={200: answer_schemas.NODE_STATES},
        )
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Show a node's states."""
        Query(req).finish()
        version = call.version(req)
        item = self.node(req, ident)
        hidden = permits.kept_back(call.caller(req), item, versions.STATES_FIELDS)
        send(resp, {**render.node_states(item, version=version), **hidden})


class NodeValidate(call.Resource):
    """``/v1/nodes/<id>/validate``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="Tell of each interface whether it has what it needs",
            rule="baremetal:node:validate",
            answers={200: answer_schemas.VALIDATION},
        )
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Tell of each interface whether it has what it needs."""
        Query(req).finish()
        _validate(self, req, resp, self.node(req, ident))


class Validate(call.Resource):
    """``/v1/nodes/validate``: the same, with the node in the query."""

    by_item: ClassVar[frozenset[str]] = frozenset({"GET"})
    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="Tell of each interface of a node whether it has what it needs",
            rule="baremetal:node:validate",
            query={"node": arguments.TEXT, "node_uuid": arguments.UUID},
            answers={200: answer_schemas.VALIDATION},
        )
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Tell of each interface whether it has what it needs."""
        query = Query(req)
        named, uuid = query.text("node"), query.text("node_uuid")
        query.finish()
        if not (uuid or named):
            raise exceptions.Invalid("The argument 'node' names the node: a UUID, or a name.")
        _validate(self, req, resp, self.node(req, uuid or named or ""))


def _validate(
    resource: call.Resource, req: falcon.Request, resp: falcon.Response, item: Node
) -> None:
    found = resource.client.validate_driver_interfaces(call.of(req).context, item.uuid)
    send(resp, {name: dict(found[name]) for name in _VALIDATED if name in found})


class NodeSteps(call.Resource):
    """``/v1/nodes/<id>/steps``: ours, at every version."""

    is_ours = True
    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="List the steps that a node offers a flow",
            rule="baremetal:node:steps:list",
            query={"flow": arguments.choice(FLOWS), "plan": arguments.FLAG},
            answers={200: {"anyOf": [answer_schemas.STEPS, answer_schemas.PLAN]}},
        )
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """List the steps that a node offers a flow; with ``plan``, those that would run."""
        query = Query(req)
        flow = query.text("flow") or DEPLOY.name
        plan = query.flag("plan")
        query.finish()
        if flow not in FLOWS:
            raise exceptions.Invalid(f"The flow must be one of {', '.join(FLOWS)}.")
        item = self.node(req, ident)
        context = call.of(req).context
        if plan:
            call.caller(req).require("baremetal:node:plan:get", item.owner, item.lessee)
            found = self.client.get_node_plan(context, item.uuid, flow)
            send(resp, secrets.masked(found))
            return
        steps = self.client.get_node_steps(context, item.uuid, flow)
        send(resp, {"steps": secrets.masked(steps)})


class NodePlan(call.Resource):
    """``/v1/nodes/<id>/plan``: ours, at every version."""

    is_ours = True
    operations: ClassVar[Mapping[str, Operation]] = {
        "POST": Operation(
            summary="Tell what a run that asks for steps would do",
            rule="baremetal:node:plan:get",
            body=schemas.PLAN,
            answers={200: answer_schemas.PLAN},
        )
    }

    def on_post(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Tell what a run that asks for these steps would do; nothing is run."""
        Query(req).finish()
        body = checked(schemas.PLAN, bodies.read(req, self.conf), "plan")
        flow = FLOWS[body.pop("flow", DEPLOY.name)]
        given = {name: value for name, value in body.items() if value not in (None, [], "")}
        for name in given:
            if name in schemas.STEPS and name != flow.list_field:
                raise exceptions.Invalid(
                    f"'{name}' are no steps of flow '{flow.name}'; a plan of it takes "
                    f"{_taken_by(flow)}."
                )
            if name not in schemas.STEPS and not flow.in_order:
                raise exceptions.Invalid(
                    f"'{name}' is only valid with flow {_IN_ORDER}, not with '{flow.name}'."
                )
        steps = given.get(flow.list_field)
        runbook = given.get("runbook")
        if steps is not None and runbook is not None:
            raise exceptions.Invalid(f"Give '{flow.list_field}' or 'runbook', not both.")
        item = self.node(req, ident)
        found = self.client.get_node_plan(
            call.of(req).context,
            item.uuid,
            flow.name,
            steps=None if steps is None else step_lists.asked(flow, steps),
            runbook=runbook and permits.runbook_to_use(req, self.database, runbook).uuid,
            disable_ramdisk=given.get("disable_ramdisk"),
        )
        send(resp, secrets.masked(found))


_IN_ORDER = " or ".join(f"'{flow.name}'" for flow in FLOWS.values() if flow.in_order)


def _taken_by(flow: StepFlow) -> str:
    return f"'{flow.list_field}'" if flow.list_field in schemas.STEPS else "none"


class NodeLock(call.Resource):
    """``/v1/nodes/<id>/lock``: ours, at every version."""

    is_ours = True
    operations: ClassVar[Mapping[str, Operation]] = {
        "DELETE": Operation(
            summary="Break the lock on a node",
            rule="baremetal:node:lock:delete",
            body=schemas.LOCK,
            answers={204: EMPTY},
            errors=(409,),
        )
    }

    def on_delete(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Break the lock that someone holds on a node, and recover the node."""
        Query(req).finish()
        body = checked(schemas.LOCK, bodies.read(req, self.conf), "lock")
        item = self.node(req, ident)
        self.client.unlock_node(
            call.of(req).context, item.uuid, reason=body.get("reason"), since=body.get("since")
        )
        done(resp, 204)


class _History(call.Resource):
    """What these requests share."""

    def node(self, req: falcon.Request, ident: str) -> Node:
        """Return the node of a path.

        :raises NotFound: there is none, or the request is older than histories.
        """
        version = call.version(req)
        if version < versions.HISTORY:
            raise exceptions.NotFound()
        return super().node(req, ident)


class NodeHistory(_History):
    """``/v1/nodes/<id>/history``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="List what happened to a node",
            rule="baremetal:node:history:get",
            since=versions.HISTORY,
            query={**arguments.page(), "detail": arguments.FLAG},
            answers={200: answer_schemas.HISTORY},
        )
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """List what happened to a node, newest first."""
        query = Query(req)
        page = paging.asked(query, self.conf.api.max_limit)
        detail = bool(query.flag("detail"))
        query.finish()
        item, base = self.node(req, ident), self.services.base(req)
        found = nodes.history_of(self.database, item.id, page.limit + 1, page.marker)
        table, version = versions.HISTORY_FIELDS, call.version(req)
        fields = versions.shown(table if detail else versions.HISTORY_ITEM, table, version)
        document = paging.document(
            "history",
            found,
            page,
            show=lambda entry: render.history(entry, item, base=base, fields=fields),
            req=req,
            base=base,
        )
        send(resp, document)


class OneHistory(_History):
    """``/v1/nodes/<id>/history/<uuid>``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="Show one thing that happened to a node",
            rule="baremetal:node:history:get",
            since=versions.HISTORY,
            answers={200: answer_schemas.HISTORY_ENTRY},
        )
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str, entry: str) -> None:
        """Show one entry."""
        Query(req).finish()
        item, base = self.node(req, ident), self.services.base(req)
        found = nodes.history_entry(self.database, item.id, entry)
        table = versions.HISTORY_FIELDS
        fields = versions.shown(table, table, call.version(req))
        send(resp, render.history(found, item, base=base, fields=fields))
