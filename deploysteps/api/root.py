"""The version documents, which every client reads first."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import falcon

from deploysteps.api import answer_schemas, call, render, versions
from deploysteps.api.answers import send
from deploysteps.api.operations import Operation

_MEDIA_TYPE = "application/vnd.openstack.ironic.v1+json"


def _version(base: str, newest: int) -> dict[str, Any]:
    return {
        "id": "v1",
        "links": [{"href": f"{base}/v1/", "rel": "self"}],
        "status": "CURRENT",
        "min_version": f"1.{versions.MIN}",
        "version": f"1.{newest}",
    }


class Root(call.Resource):
    """``/``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="Show the versions of the API", rule=None, answers={200: answer_schemas.ROOT}
        )
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Tell which versions there are."""
        version = _version(self.services.base(req), self.services.newest)
        send(
            resp,
            {
                "name": "deploysteps",
                "description": "A bare-metal conductor that speaks the Ironic API, version 1.",
                "default_version": version,
                "versions": [version],
            },
        )


class V1(call.Resource):
    """``/v1``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="Show the collections of version 1",
            rule=None,
            answers={200: answer_schemas.V1},
        )
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Tell the version and the collections that the request sees."""
        base, version = self.services.base(req), call.version(req)
        send(
            resp,
            {
                "id": "v1",
                "links": [{"href": f"{base}/v1/", "rel": "self"}],
                "media_types": {"base": "application/json", "type": _MEDIA_TYPE},
                "version": _version(base, self.services.newest),
                **{
                    name: render.links(base, name, "")
                    for name in versions.shown(versions.ENDPOINTS, versions.ENDPOINTS, version)
                },
            },
        )
