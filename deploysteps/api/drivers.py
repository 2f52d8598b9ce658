"""``/v1/drivers`` and ``/v1/conductors``: what the conductors that live offer."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import falcon

from deploysteps import exceptions
from deploysteps.api import answer_schemas, arguments, call, offers, paging, render, versions
from deploysteps.api.answers import detail_of, fields_of, listed_fields, send
from deploysteps.api.operations import Operation
from deploysteps.api.query import Query
from deploysteps.db import conductors
from deploysteps.db.models import Conductor

_KINDS = ("dynamic", "classic")
_SORTABLE = ("hostname", "conductor_group", "created_at", "updated_at")


class Drivers(call.Resource):
    """``/v1/drivers``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="List the hardware types",
            rule="baremetal:driver:get",
            query={
                **arguments.fields(versions.DRIVER_FIELDS, versions.DRIVER_LIST_FIELDS),
                "type": arguments.since(versions.DRIVER_DETAIL, arguments.choice(_KINDS)),
                **arguments.detail(versions.DRIVER_DETAIL),
            },
            answers={200: answer_schemas.DRIVERS},
        )
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List the hardware types."""
        query, version, base = Query(req), call.version(req), self.services.base(req)
        wanted = fields_of(query, versions.DRIVER_FIELDS, version, versions.DRIVER_LIST_FIELDS)
        kind = query.text("type") if version >= versions.DRIVER_DETAIL else None
        detail = detail_of(query, version, versions.DRIVER_DETAIL)
        query.finish()
        if kind not in (None, *_KINDS):
            raise exceptions.Invalid(f"The driver type must be one of {', '.join(_KINDS)}.")
        fields = wanted or (versions.DRIVER_FIELDS if detail else versions.DRIVER_ITEM)
        found = {} if kind == "classic" else offers.drivers(self.services)
        send(
            resp,
            {
                "drivers": [
                    render.driver(name, **offer, base=base, version=version, fields=fields)
                    for name, offer in found.items()
                ]
            },
        )


class OneDriver(call.Resource):
    """``/v1/drivers/<name>``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="Show a hardware type",
            rule="baremetal:driver:get",
            query=arguments.fields(versions.DRIVER_FIELDS, versions.DRIVER_LIST_FIELDS),
            answers={200: answer_schemas.DRIVER},
        )
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Show a hardware type."""
        query, version, base = Query(req), call.version(req), self.services.base(req)
        wanted = fields_of(query, versions.DRIVER_FIELDS, version, versions.DRIVER_LIST_FIELDS)
        query.finish()
        found = offers.drivers(self.services)
        if name not in found:
            raise exceptions.DriverNotFound(driver_name=name[:80])
        fields = wanted or versions.DRIVER_FIELDS
        send(resp, render.driver(name, **found[name], base=base, version=version, fields=fields))


class DriverProperties(call.Resource):
    """``/v1/drivers/<name>/properties``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="Show what a hardware type reads of driver_info",
            rule="baremetal:driver:get_properties",
            answers={200: answer_schemas.DRIVER_PROPERTIES},
        )
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Show what a hardware type reads from ``driver_info``."""
        Query(req).finish()
        send(resp, self.client.get_driver_properties(call.of(req).context, name[:255]))


class LogicalDiskProperties(call.Resource):
    """``/v1/drivers/<name>/raid/logical_disk_properties``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="Show what a RAID configuration may say of a logical disk",
            rule="baremetal:driver:get_raid_logical_disk_properties",
            since=versions.RAID,
            answers={200: answer_schemas.LOGICAL_DISK},
            errors=(500,),
        )
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Show what a RAID configuration may say of a logical disk."""
        versions.check("raid", {"raid": versions.RAID}, call.version(req))
        Query(req).finish()
        context = call.of(req).context
        send(resp, self.client.get_raid_logical_disk_properties(context, name[:255]))


class _Conductors(call.Resource):
    """What the resources of conductors share."""

    def shown(
        self, req: falcon.Request, fields: Iterable[str]
    ) -> Callable[[Conductor], dict[str, Any]]:
        """Return how a request sees a conductor."""
        base, names = self.services.base(req), list(fields)
        drivers = offers.drivers_of(self.services) if "drivers" in names else {}
        timeout = self.conf.conductor.heartbeat_timeout
        return lambda item: render.conductor(
            item,
            alive=conductors.is_alive(item, timeout),
            drivers=drivers.get(item.hostname, []),
            base=base,
            fields=names,
        )


class Conductors(_Conductors):
    """``/v1/conductors``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="List the conductors",
            rule="baremetal:conductor:get",
            since=versions.ENDPOINTS["conductors"],
            query={**arguments.listed(versions.CONDUCTOR_FIELDS), **arguments.page(_SORTABLE)},
            answers={200: answer_schemas.CONDUCTORS},
        )
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List the conductors."""
        query, version = Query(req), call.version(req)
        versions.require("conductors", version)
        fields = listed_fields(
            query, versions.CONDUCTOR_FIELDS, versions.CONDUCTOR_ITEM, version, detail=False
        )
        page = paging.asked(query, self.conf.api.max_limit, _SORTABLE)
        query.finish()
        found = _part(conductors.listing(self.database), page)
        show, base = self.shown(req, fields), self.services.base(req)
        send(
            resp,
            paging.document(
                "conductors", found, page, show=show, req=req, base=base, name="hostname"
            ),
        )


class OneConductor(_Conductors):
    """``/v1/conductors/<hostname>``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="Show a conductor",
            rule="baremetal:conductor:get",
            since=versions.ENDPOINTS["conductors"],
            query=arguments.fields(versions.CONDUCTOR_FIELDS),
            answers={200: answer_schemas.CONDUCTOR},
        )
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response, name: str) -> None:
        """Show a conductor."""
        query, version = Query(req), call.version(req)
        versions.require("conductors", version)
        fields = fields_of(query, versions.CONDUCTOR_FIELDS, version)
        query.finish()
        item = conductors.get(self.database, name[:255])
        send(resp, self.shown(req, fields or versions.CONDUCTOR_FIELDS)(item))


def _part(found: list[Conductor], page: paging.Page) -> list[Conductor]:
    """Return the rest of a short list, from the page's marker on."""
    found = sorted(
        found, key=lambda item: getattr(item, page.sort_key), reverse=page.sort_dir == "desc"
    )
    if page.marker is None:
        return found
    names = [item.hostname for item in found]
    if page.marker not in names:
        raise exceptions.ConductorNotFound(conductor=page.marker[:80])
    return found[names.index(page.marker) + 1 :]
