"""What can be read of one node besides itself: states, validation, steps and runs."""

from __future__ import annotations

import falcon

from deploysteps import secrets
from deploysteps.api import call, paging, render
from deploysteps.api.answers import node_of, send
from deploysteps.api.query import Query
from deploysteps.db import runs
from deploysteps.steps import INTERFACE_TYPES

_VALIDATED = tuple(kind for kind in INTERFACE_TYPES if kind != "vendor")
"""What the field tells of; a vendor interface is asked about each of its methods instead."""


class NodeStates(call.Resource):
    """``/v1/nodes/<id>/states``."""

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Show a node's states."""
        Query(req).finish()
        version = call.version(req)
        send(resp, render.node_states(node_of(self.database, ident, version), version=version))


class NodeValidate(call.Resource):
    """``/v1/nodes/<id>/validate``."""

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Tell of each interface whether it has what it needs."""
        Query(req).finish()
        item = node_of(self.database, ident, call.version(req))
        found = self.client.validate_driver_interfaces(call.of(req).context, item.uuid)
        send(resp, {name: dict(found[name]) for name in _VALIDATED if name in found})


class NodeSteps(call.Resource):
    """``/v1/nodes/<id>/steps``: ours, at every version."""

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """List the steps that a node has."""
        Query(req).finish()
        item = node_of(self.database, ident, call.version(req))
        steps = self.client.get_node_steps(call.of(req).context, item.uuid)
        send(resp, {"steps": secrets.masked(steps)})


class NodeRuns(call.Resource):
    """``/v1/nodes/<id>/runs``: ours, at every version."""

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """List the runs of a node, newest first, with their attempts; and who holds its lock."""
        query = Query(req)
        page = paging.asked(query, self.conf.api.max_limit)
        query.finish()
        item = node_of(self.database, ident, call.version(req))
        found = runs.of_node(self.database, item.id, limit=page.limit + 1, marker=page.marker)
        attempts = runs.attempts(self.database, [run.id for run in found[: page.limit]])
        document = paging.document(
            "runs",
            found,
            page,
            show=lambda run: render.run(run, attempts[run.id]),
            req=req,
            base=self.services.base(req),
        )
        send(resp, {**document, "lock": render.lock(item)})
