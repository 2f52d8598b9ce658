"""``/v1/nodes/<id>/runs`` and one of them, with all that is known of it. Ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

import falcon

from deploysteps.api import answer_schemas, arguments, call, paging, permits, render
from deploysteps.api.answers import send
from deploysteps.api.operations import Operation
from deploysteps.api.query import Query
from deploysteps.api.render import Document
from deploysteps.conductor import waiting
from deploysteps.db import runs
from deploysteps.db.models import Node, StepAttempt, StepRun
from deploysteps.steps import RUNS


class NodeRuns(call.Resource):
    """``/v1/nodes/<id>/runs``: ours, at every version."""

    is_ours = True
    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="List the runs of a node",
            rule="baremetal:node:runs:list",
            query={**arguments.page(), "plan": arguments.FLAG},
            answers={200: answer_schemas.RUNS},
        )
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """List the runs of a node, newest first, with their attempts; and who holds its lock."""
        query = Query(req)
        page = paging.asked(query, self.conf.api.max_limit)
        plan = bool(query.flag("plan"))
        query.finish()
        item = self.node(req, ident)
        found = runs.of_node(self.database, item.id, limit=page.limit + 1, marker=page.marker)
        attempts = runs.attempts(self.database, [run.id for run in found[: page.limit]])
        document = paging.document(
            "runs",
            found,
            page,
            show=lambda run: _shown(self, req, item, run, attempts[run.id], plan=plan),
            req=req,
            base=self.services.base(req),
        )
        send(resp, {**document, "lock": permits.lock_shown(req, item, render.lock(item))})


class OneRun(call.Resource):
    """``/v1/nodes/<id>/runs/<uuid>``."""

    is_ours = True
    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="Show one run of a node",
            rule="baremetal:node:runs:list",
            answers={200: answer_schemas.ONE_RUN},
        )
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str, run: str) -> None:
        """Show a run with its plan and its attempts, each with what is kept to explain it."""
        Query(req).finish()
        item = self.node(req, ident)
        found = runs.one_of_node(self.database, item.id, run)
        attempts = runs.attempts(self.database, [found.id])[found.id]
        shown = _shown(self, req, item, found, attempts, plan=True)
        send(resp, {**shown, "node_uuid": item.uuid})


def _shown(
    resource: call.Resource,
    req: falcon.Request,
    node: Node,
    run: StepRun,
    attempts: Sequence[StepAttempt],
    *,
    plan: bool,
) -> Document:
    """Return what the caller sees of a run."""
    silent = None
    if attempts and run.finished_at is None:
        last, clocks = attempts[-1], waiting.clocks(resource.conf, RUNS[run.flow])
        beat = node.agent_heartbeat_column
        silent = waiting.given_up_at(last.owner, last.waiting_since, beat, clocks)
        if silent is not None:  # later where nobody could be heard: the conductor has said when
            silent = waiting.latest(silent, last.due_at)
    document = render.run(run, attempts, plan=plan, silent_at=silent)
    return permits.run_shown(req, node, document)
