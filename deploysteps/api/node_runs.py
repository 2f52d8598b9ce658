"""``/v1/nodes/<id>/runs/<uuid>``: one run, with all that is known of it. Ours."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import falcon

from deploysteps.api import answer_schemas, call, permits, render
from deploysteps.api.answers import send
from deploysteps.api.operations import Operation
from deploysteps.api.query import Query
from deploysteps.db import runs


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
        shown = permits.run_shown(req, item, render.run(found, attempts, plan=True))
        send(resp, {**shown, "node_uuid": item.uuid})
