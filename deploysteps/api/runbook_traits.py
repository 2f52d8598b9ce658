"""``/v1/runbooks/<id>/traits``: which nodes a runbook is for; from 1.112."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

import falcon

from deploysteps import exceptions
from deploysteps.api import (
    answer_schemas,
    answers,
    bodies,
    call,
    permits,
    schemas,
    versions,
)
from deploysteps.api.answers import done, send
from deploysteps.api.operations import EMPTY, Operation
from deploysteps.api.query import Query
from deploysteps.api.validation import checked
from deploysteps.db import runbook_traits, runbooks, traits
from deploysteps.db.models import Runbook

_SINCE = versions.RUNBOOK_FIELDS["traits"]


class _RunbookTraits(call.Resource):
    """What these requests share."""

    def runbook(self, req: falcon.Request, ident: str) -> Runbook:
        """Return the runbook of a path, if the caller may do with it what he asks.

        :raises RunbookNotFound: there is none for him, or the request is older than this.
        :raises Forbidden: he sees it, and may not do this.
        """
        caller = call.caller(req)
        caller.asked = True
        Query(req).finish()
        missing = exceptions.RunbookNotFound(runbook=ident[:255])
        if call.version(req) < _SINCE or not answers.is_ident(ident):
            raise missing
        item = runbooks.get(self.database, ident)
        if not permits.sees_runbook(caller, item):
            raise missing
        rule = str(self.rule(req))
        if req.method != "GET":
            caller.require(rule, item.owner, kind="runbook")
        return item


def _set(summary: str, body: schemas.Schema | None = None) -> Operation:
    return Operation(
        summary=summary,
        rule="baremetal:runbook:update",
        since=_SINCE,
        body=body,
        answers={204: EMPTY},
    )


class RunbookTraits(_RunbookTraits):
    """``/v1/runbooks/<id>/traits``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="List the traits of a runbook",
            rule="baremetal:runbook:get",
            since=_SINCE,
            answers={200: answer_schemas.TRAITS},
        ),
        "PUT": _set("Give a runbook these traits and no others", body=schemas.TRAITS),
        "DELETE": _set("Take all its traits from a runbook"),
    }
    by_item = frozenset(operations)

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """List the traits of a runbook."""
        item = self.runbook(req, ident)
        send(resp, {"traits": runbook_traits.of_runbook(self.database, item.id)})

    def on_put(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Give a runbook these traits and no others."""
        item = self.runbook(req, ident)
        body = checked(schemas.TRAITS, bodies.read(req, self.conf), "traits")
        for name in body["traits"]:
            traits.check_name(name)
        self.client.update_runbook_traits(call.of(req).context, item.uuid, replace=body["traits"])
        done(resp, 204)

    def on_delete(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Take all its traits from a runbook."""
        item = self.runbook(req, ident)
        self.client.update_runbook_traits(call.of(req).context, item.uuid, replace=[])
        done(resp, 204)


class OneRunbookTrait(_RunbookTraits):
    """``/v1/runbooks/<id>/traits/<trait>``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "PUT": _set("Give a runbook a trait"),
        "DELETE": _set("Take a trait from a runbook"),
    }
    by_item = frozenset(operations)

    def on_put(self, req: falcon.Request, resp: falcon.Response, ident: str, trait: str) -> None:
        """Give a runbook a trait."""
        item = self.runbook(req, ident)
        if bodies.read(req, self.conf):
            raise exceptions.Invalid("No body should be provided when adding a trait")
        traits.check_name(trait)
        self.client.update_runbook_traits(call.of(req).context, item.uuid, add=[trait])
        done(resp, 204, f"{self.services.base(req)}/v1/runbooks/{ident}/traits/{trait}")

    def on_delete(self, req: falcon.Request, resp: falcon.Response, ident: str, trait: str) -> None:
        """Take a trait from a runbook; one that it does not have is no mistake."""
        item = self.runbook(req, ident)
        self.client.update_runbook_traits(call.of(req).context, item.uuid, remove=[trait])
        done(resp, 204)
