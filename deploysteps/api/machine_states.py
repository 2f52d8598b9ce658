"""``/v1/nodes/<id>/states``: boot mode, secure boot, RAID and console; power is elsewhere."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import falcon

from deploysteps import exceptions, secrets
from deploysteps.api import answer_schemas, call, schemas, versions
from deploysteps.api.answers import done, send
from deploysteps.api.machine_parts import Part
from deploysteps.api.operations import EMPTY, Operation


class BootMode(Part):
    """``/v1/nodes/<id>/states/boot_mode``."""

    part = "states/boot_mode"
    operations: ClassVar[Mapping[str, Operation]] = {
        "PUT": Operation(
            summary="Begin a change of a machine's boot mode",
            rule="baremetal:node:set_boot_mode",
            since=versions.NODE_PARTS[part],
            body=schemas.BOOT_MODE,
            answers={202: EMPTY},
            errors=(409, 503),
        )
    }

    def on_put(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Begin a change of a machine's boot mode."""
        item = self.plain_node(req, ident)
        body: Any = self.body(req, schemas.BOOT_MODE, "boot mode")
        self.client.change_node_boot_mode(call.of(req).context, item.uuid, body["target"])
        done(resp, 202, self.address(req, ident, "states"))


class SecureBoot(Part):
    """``/v1/nodes/<id>/states/secure_boot``."""

    part = "states/secure_boot"
    operations: ClassVar[Mapping[str, Operation]] = {
        "PUT": Operation(
            summary="Begin to switch a machine's secure boot on or off",
            rule="baremetal:node:set_secure_boot",
            since=versions.NODE_PARTS[part],
            body=schemas.SECURE_BOOT,
            answers={202: EMPTY},
            errors=(409, 503),
        )
    }

    def on_put(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Begin to switch a machine's secure boot on or off."""
        item = self.plain_node(req, ident)
        body: Any = self.body(req, schemas.SECURE_BOOT, "secure boot")
        self.client.change_node_secure_boot(call.of(req).context, item.uuid, body["target"])
        done(resp, 202, self.address(req, ident, "states"))


class Raid(Part):
    """``/v1/nodes/<id>/states/raid``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "PUT": Operation(
            summary="Keep the RAID configuration that a node is to have",
            rule="baremetal:node:set_raid_state",
            since=versions.RAID,
            body=schemas.RAID,
            answers={204: EMPTY},
            errors=(409, 500),
        )
    }

    def on_put(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Keep the RAID configuration that a node is to have; a step makes it so."""
        versions.check("raid", {"raid": versions.RAID}, call.version(req))
        item = self.plain_node(req, ident)
        body = self.body(req, schemas.RAID, "RAID configuration")
        try:
            self.client.set_target_raid_config(call.of(req).context, item.uuid, body)
        except exceptions.UnsupportedDriverExtension as exc:
            # As in the field: to such a node, there is no RAID at all.
            raise exceptions.NotFound(exc.message) from exc
        done(resp, 204)


class Console(Part):
    """``/v1/nodes/<id>/states/console``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="Show how to reach a machine's console",
            rule="baremetal:node:get_console",
            answers={200: answer_schemas.CONSOLE},
            errors=(500,),
        ),
        "PUT": Operation(
            summary="Begin to start or to stop a machine's console",
            rule="baremetal:node:set_console_state",
            body=schemas.CONSOLE,
            answers={202: EMPTY},
            errors=(409, 503),
        ),
    }

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Show how to reach a machine's console, if it is started."""
        item = self.plain_node(req, ident)
        found = self.client.get_console_information(call.of(req).context, item.uuid)
        send(
            resp,
            {"console_enabled": found is not None, "console_info": secrets.masked(found)},
        )

    def on_put(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Begin to start or to stop a machine's console."""
        item = self.plain_node(req, ident)
        body: Any = self.body(req, schemas.CONSOLE, "console")
        self.client.set_console_mode(call.of(req).context, item.uuid, body["enabled"])
        done(resp, 202, self.address(req, ident, "states", "console"))
