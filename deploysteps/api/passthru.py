"""``vendor_passthru`` of nodes and of drivers: what only one maker's machines do.

A request is handed to the vendor interface as it is: the method's name from the
path (or, as old clients have it, from ``method`` in the query), the HTTP method,
and the members of the body as arguments.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import falcon

from deploysteps import exceptions, secrets
from deploysteps.api import answer_schemas, arguments, bodies, call, schemas
from deploysteps.api.answers import done, send
from deploysteps.api.machine_parts import Part
from deploysteps.api.operations import EMPTY, Operation
from deploysteps.api.query import Query
from deploysteps.api.validation import checked
from deploysteps.drivers.passthru import HTTP_METHODS

_RAW = "application/octet-stream"
_NAMED = {"method": arguments.TEXT}
_OF_NODE, _OF_DRIVER = "baremetal:node:vendor_passthru", "baremetal:driver:vendor_passthru"


def _operations(rule: str, query: Mapping[str, schemas.Schema]) -> dict[str, Operation]:
    return {
        method: Operation(
            summary=f"Call a vendor method by {method}",
            rule=rule,
            query=query,
            body=schemas.VENDOR_ARGUMENTS,
            answers={200: {"x-media": [falcon.MEDIA_JSON, _RAW]}, 202: EMPTY},
            errors=(409, 500, 503),
        )
        for method in HTTP_METHODS
    }


def _methods(summary: str, rule: str) -> dict[str, Operation]:
    told = Operation(summary=summary, rule=rule, answers={200: answer_schemas.VENDOR_METHODS})
    return {"GET": told}


class _Calls(Part):
    """What these requests share."""

    def asked(self, req: falcon.Request, method: str | None) -> tuple[str, str, dict[str, Any]]:
        """Return the vendor method's name, the HTTP method, and the arguments.

        :raises Invalid: no method is named, or the body is no object.
        """
        query = Query(req)
        name = method if method is not None else query.text("method")
        query.finish()
        if not name:
            raise exceptions.Invalid("The vendor method is named in the path.")
        given = checked(schemas.VENDOR_ARGUMENTS, bodies.read(req, self.conf), "vendor method")
        return name[:255], req.method, given

    def answer(self, resp: falcon.Response, found: Mapping[str, Any]) -> None:
        """Answer with what a method returned, or that it has begun."""
        if found["async"]:
            done(resp, 202)
        elif found["attach"]:
            returned = found["return"]
            resp.status = 200
            resp.content_type = _RAW
            resp.data = returned.encode() if isinstance(returned, str) else bytes(returned)
        else:
            send(resp, secrets.masked(found["return"]))


class NodeMethods(Part):
    """``/v1/nodes/<id>/vendor_passthru/methods``."""

    operations: ClassVar[Mapping[str, Operation]] = _methods(
        "List the vendor methods of a node", _OF_NODE
    )

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """List the vendor methods of a node."""
        item = self.plain_node(req, ident)
        send(resp, self.client.get_node_vendor_passthru_methods(call.of(req).context, item.uuid))


class NodeCall(_Calls):
    """``/v1/nodes/<id>/vendor_passthru/<method>``."""

    operations: ClassVar[Mapping[str, Operation]] = _operations(_OF_NODE, {})

    def _call(
        self, req: falcon.Request, resp: falcon.Response, ident: str, method: str | None = None
    ) -> None:
        """Call a vendor method for a node."""
        item = self.node(req, ident)
        found = self.client.vendor_passthru(
            call.of(req).context, item.uuid, *self.asked(req, method)
        )
        self.answer(resp, found)

    on_get = on_post = on_put = on_patch = on_delete = _call


class NodeCallByQuery(NodeCall):
    """``/v1/nodes/<id>/vendor_passthru?method=<method>``."""

    operations: ClassVar[Mapping[str, Operation]] = _operations(_OF_NODE, _NAMED)


class DriverMethods(call.Resource):
    """``/v1/drivers/<name>/vendor_passthru/methods``."""

    operations: ClassVar[Mapping[str, Operation]] = _methods(
        "List the vendor methods of a hardware type", _OF_DRIVER
    )

    def on_get(self, req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """List the vendor methods of a hardware type."""
        Query(req).finish()
        context = call.of(req).context
        send(resp, self.client.get_driver_vendor_passthru_methods(context, name[:255]))


class DriverCall(_Calls):
    """``/v1/drivers/<name>/vendor_passthru/<method>``."""

    operations: ClassVar[Mapping[str, Operation]] = _operations(_OF_DRIVER, {})

    def _call(
        self, req: falcon.Request, resp: falcon.Response, name: str, method: str | None = None
    ) -> None:
        """Call a vendor method of a hardware type."""
        found = self.client.driver_vendor_passthru(
            call.of(req).context, name[:255], *self.asked(req, method)
        )
        self.answer(resp, found)

    on_get = on_post = on_put = on_patch = on_delete = _call


class DriverCallByQuery(DriverCall):
    """``/v1/drivers/<name>/vendor_passthru?method=<method>``."""

    operations: ClassVar[Mapping[str, Operation]] = _operations(_OF_DRIVER, _NAMED)
