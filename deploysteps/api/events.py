"""``/v1/events/stream``: what happens, to those who listen. Ours, at every version."""

from __future__ import annotations

from typing import ClassVar

import falcon

from deploysteps import exceptions
from deploysteps.api import call, streams
from deploysteps.api.hearing import Ears
from deploysteps.api.operations import Operation
from deploysteps.api.query import Query
from deploysteps.api.wire import TAKE_OVER
from deploysteps.steps import RUNS

_HEADER = "Last-Event-ID"


class NotStreamed(exceptions.DeployStepsException):
    """The server that runs the application cannot stream."""

    _msg_fmt = "This server cannot stream events; `deploysteps serve` can."
    code = 501


class Stream(call.Resource):
    """``/v1/events/stream``."""

    is_ours = True
    operations: ClassVar = {
        "GET": Operation(
            summary="Listen to events as they happen",
            rule="baremetal:event:stream",
            query={
                "node": {"type": "string", "description": "Only of this node, by uuid or name."},
                "flow": {"enum": list(RUNS), "description": "Only of runs of this kind."},
                "last_event_id": {
                    "type": "integer",
                    "minimum": 0,
                    "description": (
                        "What follows this event comes first; instead of the header Last-Event-ID."
                    ),
                },
            },
            answers={200: {"type": "string", "contentMediaType": "text/event-stream"}},
            errors=(501, 503),
        )
    }

    def __init__(self, services: call.Services, known: streams.Streams) -> None:
        """Share all streams of the process."""
        super().__init__(services)
        self._streams = known

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Begin a stream, in the form of server-sent events."""
        query = Query(req)
        last, node, flow = query.text("last_event_id"), query.text("node"), query.text("flow")
        query.finish()
        if flow is not None and flow not in RUNS:
            raise exceptions.Invalid(f"The flow must be one of {', '.join(RUNS)}.")
        given = req.get_header(_HEADER) or last
        if given is not None and not (given.isascii() and given.isdigit() and len(given) < 19):
            raise exceptions.Invalid(f"{_HEADER} must be the id of an event: a whole number.")
        ears = Ears(call.caller(req))
        wanted = streams.Wanted(
            last=self._streams.newest() if given is None else int(given),
            node=None if node is None else self.node(req, node).uuid,
            flow=flow,
            ears=None if ears.hear_all else ears,
        )
        take_over = req.env.get(TAKE_OVER)
        if take_over is None:
            raise NotStreamed()
        resp.content_type = "text/event-stream"
        resp.set_header("Cache-Control", "no-cache, no-transform")
        resp.set_header("X-Accel-Buffering", "no")
        resp.stream = [streams.HELLO]
        take_over(self._streams.admit(wanted))
