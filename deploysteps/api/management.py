"""``/v1/nodes/<id>/management``: boot device, indicators, interrupt; and virtual media."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import falcon

from deploysteps import exceptions, secrets
from deploysteps.api import answer_schemas, arguments, call, render, schemas, versions
from deploysteps.api.answers import done, send
from deploysteps.api.machine_parts import Part
from deploysteps.api.operations import EMPTY, Operation
from deploysteps.api.query import Query


class BootDevice(Part):
    """``/v1/nodes/<id>/management/boot_device``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="Show what a machine boots from",
            rule="baremetal:node:get_boot_device",
            answers={200: answer_schemas.BOOT_DEVICE},
            errors=(500,),
        ),
        "PUT": Operation(
            summary="Choose what a machine boots from",
            rule="baremetal:node:set_boot_device",
            body=schemas.BOOT_DEVICE,
            answers={204: EMPTY},
            errors=(409, 500),
        ),
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Show what a machine boots from."""
        item = self.plain_node(req, ident)
        send(resp, self.client.get_boot_device(call.of(req).context, item.uuid))

    def on_put(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Choose what a machine boots from."""
        item = self.plain_node(req, ident)
        body: Any = self.body(req, schemas.BOOT_DEVICE, "boot device")
        persistent = bool(body.get("persistent"))
        self.client.set_boot_device(
            call.of(req).context, item.uuid, body["boot_device"], persistent=persistent
        )
        done(resp, 204)


class BootDevices(Part):
    """``/v1/nodes/<id>/management/boot_device/supported``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="List what a machine can boot from",
            rule="baremetal:node:get_boot_device",
            answers={200: answer_schemas.BOOT_DEVICES},
            errors=(500,),
        )
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """List what a machine can boot from."""
        item = self.plain_node(req, ident)
        found = self.client.get_supported_boot_devices(call.of(req).context, item.uuid)
        send(resp, {"supported_boot_devices": found})


class InjectNmi(Part):
    """``/v1/nodes/<id>/management/inject_nmi``."""

    part = "management/inject_nmi"
    operations: ClassVar[Mapping[str, Operation]] = {
        "PUT": Operation(
            summary="Send a machine a non-maskable interrupt",
            rule="baremetal:node:inject_nmi",
            since=versions.NODE_PARTS[part],
            body=schemas.NOTHING,
            answers={204: EMPTY},
            errors=(409, 500),
        )
    }

    def on_put(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Send a machine a non-maskable interrupt."""
        item = self.plain_node(req, ident)
        self.body(req, schemas.NOTHING, "interrupt")
        self.client.inject_nmi(call.of(req).context, item.uuid)
        done(resp, 204)


class Indicators(Part):
    """``/v1/nodes/<id>/management/indicators``."""

    part = "management/indicators"
    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="List the indicator lights of a machine",
            rule="baremetal:node:get_indicator_state",
            since=versions.NODE_PARTS[part],
            answers={200: answer_schemas.INDICATORS},
            errors=(500,),
        )
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """List the indicator lights of a machine."""
        item = self.plain_node(req, ident)
        found = self.client.get_supported_indicators(call.of(req).context, item.uuid)
        base = self.services.base(req)
        send(
            resp,
            {
                "indicators": [
                    render.indicator(item, component, name, known, base=base)
                    for component, named in found.items()
                    for name, known in named.items()
                ]
            },
        )


class OneIndicator(Part):
    """``/v1/nodes/<id>/management/indicators/<name>@<component>``."""

    part = "management/indicators"
    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="Show an indicator light",
            rule="baremetal:node:get_indicator_state",
            since=versions.NODE_PARTS[part],
            answers={200: answer_schemas.INDICATOR_STATE},
            errors=(500,),
        ),
        "PUT": Operation(
            summary="Switch an indicator light",
            rule="baremetal:node:set_indicator_state",
            since=versions.NODE_PARTS[part],
            body=schemas.INDICATOR,
            answers={204: EMPTY},
            errors=(409, 500),
        ),
    }

    def on_get(
        self, req: falcon.Request, resp: falcon.Response, ident: str, indicator: str
    ) -> None:
        """Show an indicator light."""
        item = self.plain_node(req, ident)
        name, component = _parts(indicator)
        state = self.client.get_indicator_state(call.of(req).context, item.uuid, component, name)
        send(resp, {"state": state})

    def on_put(
        self, req: falcon.Request, resp: falcon.Response, ident: str, indicator: str
    ) -> None:
        """Switch an indicator light."""
        item = self.plain_node(req, ident)
        name, component = _parts(indicator)
        body: Any = self.body(req, schemas.INDICATOR, "indicator")
        self.client.set_indicator_state(
            call.of(req).context, item.uuid, component, name, body["state"]
        )
        done(resp, 204)


def _parts(indicator: str) -> tuple[str, str]:
    """Return the name and the component of an indicator's one name."""
    name, at, component = indicator[:512].partition("@")
    if not (name and at and component):
        raise exceptions.Invalid("An indicator is named <name>@<component>, as the list has it.")
    return name, component


class VirtualMedia(Part):
    """``/v1/nodes/<id>/vmedia``."""

    part = "vmedia"
    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="Show the virtual drives of a machine",
            rule="baremetal:node:vmedia:get",
            since=versions.NODE_PARTS["vmedia GET"],
            answers={200: answer_schemas.VIRTUAL_MEDIA},
            errors=(500,),
        ),
        "POST": Operation(
            summary="Put an image into a virtual drive",
            rule="baremetal:node:vmedia:attach",
            since=versions.NODE_PARTS[part],
            body=schemas.VMEDIA,
            answers={204: EMPTY},
            errors=(409, 503),
        ),
        "DELETE": Operation(
            summary="Empty virtual drives",
            rule="baremetal:node:vmedia:detach",
            since=versions.NODE_PARTS[part],
            query={"device_types": arguments.listing(arguments.choice(schemas.VMEDIA_DEVICES))},
            answers={204: EMPTY},
            errors=(409, 503),
        ),
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Show the virtual drives of a machine."""
        self.since_then(req, "vmedia GET")
        item = self.plain_node(req, ident)
        found = self.client.get_virtual_media(call.of(req).context, item.uuid)
        send(resp, secrets.masked(found))

    def on_post(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Begin to put an image into a virtual drive."""
        item = self.plain_node(req, ident)
        body: Any = self.body(req, schemas.VMEDIA, "virtual media")
        self.client.attach_virtual_media(
            call.of(req).context, item.uuid, body["device_type"], body["image_url"]
        )
        done(resp, 204)

    def on_delete(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Begin to empty virtual drives: those named, or all."""
        self.since_then(req)
        query = Query(req)
        devices = query.names("device_types")
        query.finish()
        known = schemas.VMEDIA_DEVICES
        if devices is not None and not set(devices) <= set(known):
            raise exceptions.Invalid(f"The device types are {', '.join(known)}.")
        item = self.node(req, ident)
        self.client.detach_virtual_media(call.of(req).context, item.uuid, devices)
        done(resp, 204)
