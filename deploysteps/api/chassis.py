"""``/v1/chassis``: the cases that nodes stand in."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import falcon

from deploysteps.api import (
    answer_schemas,
    arguments,
    call,
    changes,
    paging,
    render,
    schemas,
    versions,
)
from deploysteps.api.answers import done, fields_of, listed_fields, send
from deploysteps.api.operations import EMPTY, Operation
from deploysteps.api.query import Query
from deploysteps.db import chassis
from deploysteps.db.group_models import Chassis
from deploysteps.db.pages import sortable

_TABLE = versions.CHASSIS_FIELDS
_KIND = changes.Kind(what="chassis", schema=schemas.CHASSIS, table=_TABLE)
_SORTABLE = sortable(Chassis) & _TABLE.keys()
_LIST = Operation(
    summary="List chassis",
    rule="baremetal:chassis:get",
    query={**arguments.listed(_TABLE), **arguments.page(_SORTABLE)},
    answers={200: answer_schemas.CHASSIS_LIST},
)


class _Chassis(call.Resource):
    """What the resources of chassis share."""

    def shown(
        self, req: falcon.Request, fields: Sequence[str]
    ) -> Callable[[Chassis], dict[str, Any]]:
        """Return how a request sees one."""
        base, version = self.services.base(req), call.version(req)
        return lambda item: render.group(
            item,
            base=base,
            version=version,
            place="chassis",
            part="nodes",
            table=_TABLE,
            fields=fields,
        )


class _ChassisList(_Chassis):
    detail: ClassVar[bool]

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List chassis."""
        query, version = Query(req), call.version(req)
        fields = listed_fields(query, _TABLE, versions.CHASSIS_ITEM, version, detail=self.detail)
        page = paging.asked(query, self.conf.api.max_limit, _SORTABLE)
        query.finish()
        found = chassis.listing(self.database, **page.fetched())
        show, base = self.shown(req, fields), self.services.base(req)
        send(resp, paging.document("chassis", found, page, show=show, req=req, base=base))


class ChassisDetail(_ChassisList):
    """``/v1/chassis/detail``."""

    operations: ClassVar[Mapping[str, Operation]] = {"GET": _LIST}
    detail = True


class ChassisList(_ChassisList):
    """``/v1/chassis``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": _LIST,
        "POST": Operation(
            summary="Create a chassis",
            rule="baremetal:chassis:create",
            body=schemas.CHASSIS,
            members=_TABLE,
            answers={201: answer_schemas.CHASSIS},
            errors=(409,),
        ),
    }
    detail = False

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Create a chassis."""
        Query(req).finish()
        values = changes.new(self, req, _KIND)
        item = self.client.create_chassis(call.of(req).context, values)
        resp.location = f"{self.services.base(req)}/v1/chassis/{item.uuid}"
        send(resp, self.shown(req, list(_TABLE))(item), 201)


class OneChassis(_Chassis):
    """``/v1/chassis/<uuid>``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="Show a chassis",
            rule="baremetal:chassis:get",
            query=arguments.fields(_TABLE),
            answers={200: answer_schemas.CHASSIS},
        ),
        "PATCH": Operation(
            summary="Change a chassis",
            rule="baremetal:chassis:update",
            body=schemas.PATCH,
            answers={200: answer_schemas.CHASSIS},
            errors=(409,),
        ),
        "DELETE": Operation(
            summary="Delete a chassis in which no node stands",
            rule="baremetal:chassis:delete",
            answers={204: EMPTY},
        ),
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Show a chassis."""
        query, version = Query(req), call.version(req)
        fields = fields_of(query, _TABLE, version) or list(_TABLE)
        query.finish()
        send(resp, self.shown(req, fields)(self._item(ident)))

    def on_patch(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Change a chassis by a JSON Patch."""
        Query(req).finish()
        item = self._item(ident)
        values = changes.of(self, req, item, _KIND)
        item = changes.kept(req, item, values, self.client.update_chassis)
        send(resp, self.shown(req, list(_TABLE))(item))

    def on_delete(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Remove a chassis."""
        Query(req).finish()
        self.client.destroy_chassis(call.of(req).context, self._item(ident).uuid)
        done(resp, 204)

    def _item(self, ident: str) -> Chassis:
        return chassis.get(self.database, ident[:255])
