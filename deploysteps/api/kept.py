"""What is kept of a machine: ``bios``, ``firmware``, ``inventory``; and its ``vifs``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import falcon

from deploysteps import exceptions, secrets
from deploysteps.api import answer_schemas, arguments, call, render, schemas, versions
from deploysteps.api.answers import done, fields_of, is_ident, send
from deploysteps.api.machine_parts import Part
from deploysteps.api.operations import EMPTY, Operation
from deploysteps.api.query import Query
from deploysteps.db import inventories, machine_parts


class Bios(Part):
    """``/v1/nodes/<id>/bios``."""

    part = "bios"
    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="List the settings of a machine's firmware",
            rule="baremetal:node:bios:get",
            since=versions.NODE_PARTS[part],
            query={
                **arguments.fields(versions.BIOS_FIELDS, versions.BIOS_REGISTRY),
                **arguments.detail(versions.BIOS_REGISTRY),
            },
            answers={200: answer_schemas.BIOS_SETTINGS},
        )
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """List the settings of a machine's firmware, as its driver read them last."""
        self.since_then(req)
        query, version = Query(req), call.version(req)
        fields = _fields(
            query, version, versions.BIOS_FIELDS, versions.BIOS_ITEM, versions.BIOS_REGISTRY
        )
        query.finish()
        item, base = self.node(req, ident), self.services.base(req)
        found = machine_parts.settings_of(self.database, item.id)
        shown = [render.bios_setting(one, ident, base=base, fields=fields) for one in found]
        send(resp, {"bios": secrets.masked(shown)})


class OneBios(Part):
    """``/v1/nodes/<id>/bios/<setting>``."""

    part = "bios"
    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="Show a setting of a machine's firmware",
            rule="baremetal:node:bios:get",
            since=versions.NODE_PARTS[part],
            answers={200: answer_schemas.ONE_BIOS_SETTING},
        )
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str, setting: str) -> None:
        """Show a setting of a machine's firmware."""
        item, version = self.plain_node(req, ident), call.version(req)
        found = machine_parts.setting(self.database, item.id, setting[:255])
        if found is None:
            raise exceptions.NotFound(
                f"Node {item.uuid} doesn't have a BIOS setting '{setting[:80]}'"
            )
        fields = versions.shown(versions.BIOS_FIELDS, versions.BIOS_FIELDS, version)
        shown = render.bios_setting(found, item.uuid, base=self.services.base(req), fields=fields)
        send(resp, {found.name: secrets.masked(shown)})


class Firmware(Part):
    """``/v1/nodes/<id>/firmware``."""

    part = "firmware"
    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="List the firmware of a machine",
            rule="baremetal:node:firmware:get",
            since=versions.NODE_PARTS[part],
            query={
                **arguments.fields(versions.FIRMWARE_FIELDS, versions.NODE_PARTS[part]),
                **arguments.detail(versions.NODE_PARTS[part]),
            },
            answers={200: answer_schemas.FIRMWARE},
        )
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """List the firmware of a machine, as its driver read it last."""
        self.since_then(req)
        query, version = Query(req), call.version(req)
        table = versions.FIRMWARE_FIELDS
        fields = _fields(query, version, table, table, versions.NODE_PARTS["firmware"])
        query.finish()
        item = self.node(req, ident)
        found = machine_parts.components_of(self.database, item.id)
        shown = [render.firmware(one, fields=fields) for one in found]
        send(resp, {"firmware": secrets.masked(shown)})


def _fields(
    query: Query, version: int, table: Mapping[str, int], short: Any, first: int
) -> list[str]:
    """Return the fields that a list is asked for; before ``first`` nothing can be asked for."""
    if version < first:
        return versions.shown(short, table, version)
    detail = bool(query.flag("detail"))
    # What is newer than the request is refused by its name.
    wanted = fields_of(query, {**table, "links": first}, version, first)
    if detail and wanted is not None:
        raise exceptions.Invalid("Can't fetch a subset of fields with 'detail' set")
    return wanted or versions.shown(table if detail else short, table, version)


class Inventory(Part):
    """``/v1/nodes/<id>/inventory``."""

    part = "inventory"
    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="Show what the last inspection of a machine found",
            rule="baremetal:node:inventory:get",
            since=versions.NODE_PARTS[part],
            answers={200: answer_schemas.INVENTORY},
        )
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Show what the last inspection of a machine found."""
        item = self.plain_node(req, ident)
        found = inventories.get(self.database, item.id)
        if found is None:
            raise exceptions.NotFound(
                f"Node inventory record for node {item.uuid} could not be found."
            )
        send(resp, secrets.masked(found))


class Vifs(Part):
    """``/v1/nodes/<id>/vifs``."""

    part = "vifs"
    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="List the virtual interfaces of a node",
            rule="baremetal:node:vif:list",
            since=versions.NODE_PARTS[part],
            answers={200: answer_schemas.VIFS},
            errors=(500,),
        ),
        "POST": Operation(
            summary="Attach a virtual interface to a node",
            rule="baremetal:node:vif:attach",
            since=versions.NODE_PARTS[part],
            body=schemas.VIF,
            answers={204: EMPTY},
            errors=(409, 500),
        ),
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """List the virtual interfaces of a node."""
        item = self.plain_node(req, ident)
        found = self.client.vif_list(call.of(req).context, item.uuid)
        send(resp, {"vifs": secrets.masked(found)})

    def on_post(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Attach a virtual interface to a node."""
        item = self.plain_node(req, ident)
        body: Any = self.body(req, schemas.VIF, "virtual interface")
        if call.version(req) >= versions.VIF_PORT and {"port_uuid", "portgroup_uuid"} <= set(body):
            raise exceptions.Invalid("Cannot specify both port_uuid and portgroup_uuid")
        self.client.vif_attach(call.of(req).context, item.uuid, body)
        done(resp, 204)


class OneVif(Part):
    """``/v1/nodes/<id>/vifs/<vif>``."""

    part = "vifs"
    operations: ClassVar[Mapping[str, Operation]] = {
        "DELETE": Operation(
            summary="Detach a virtual interface from a node",
            rule="baremetal:node:vif:detach",
            since=versions.NODE_PARTS[part],
            answers={204: EMPTY},
            errors=(409, 500),
        )
    }

    def on_delete(self, req: falcon.Request, resp: falcon.Response, ident: str, vif: str) -> None:
        """Detach a virtual interface from a node."""
        item = self.plain_node(req, ident)
        if not is_ident(vif):
            raise exceptions.Invalid("A virtual interface is named by a UUID or a name.")
        self.client.vif_detach(call.of(req).context, item.uuid, vif)
        done(resp, 204)
