"""``/v1/lookup`` and ``/v1/heartbeat``: what the agent on the machine calls."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar
from urllib.parse import urlsplit

import falcon

from deploysteps import exceptions
from deploysteps.api import (
    answer_schemas,
    arguments,
    bodies,
    call,
    errors,
    render,
    schemas,
    versions,
)
from deploysteps.api.answers import done, is_ident, send
from deploysteps.api.operations import EMPTY, Operation
from deploysteps.api.query import Query
from deploysteps.api.validation import checked, fits

_FIELDS = ("uuid", "properties", "instance_info", "driver_internal_info", "links")
_MAX_BODY = 128 * 2**10
"""Bytes of a heartbeat: anybody may send one, and a larger one is not even looked at."""
_SHOWN = {name: versions.NODE_FIELDS[name] for name in _FIELDS}

# What the field's agent reads besides; each value is the field's default, which leaves the
# agent as it is configured.
_CONFIG: dict[str, Any] = {
    "metrics": {
        "backend": "noop",
        "prepend_host": False,
        "prepend_uuid": False,
        "prepend_host_reverse": True,
        "global_prefix": None,
    },
    "metrics_statsd": {"statsd_host": "localhost", "statsd_port": 8125},
    "agent_containers": {
        "allow_arbitrary_containers": False,
        "allowed_containers": [],
        "container_steps_file": "/etc/ironic-python-agent.d/mysteps.yaml",
        "runner": "podman",
        "pull_options": [],
        "run_options": ["--rm", "--network=host"],
    },
    "agent_token_required": True,
    "agent_md5_checksum_enable": True,
    "disable_deep_image_inspection": False,
    "permitted_image_formats": ["raw", "gpt", "qcow2", "iso"],
    "agent_skip_bmc_detect": False,
    "enable_bios_bootloader_install": False,
    "tls_min_version": "1.3",
    "tls_cipher_suites": None,
}


class Gate:
    """Lets a limited number of requests in; others are told at once to come back.

    A thousand agents may call at the same moment; operators' requests must
    find a thread all the same.
    """

    def __init__(self, most: int) -> None:
        """Make it for ``most`` requests at a time."""
        self._free = threading.BoundedSemaphore(most)

    @contextmanager
    def __call__(self) -> Iterator[None]:
        """Go in and out.

        :raises Busy: it is full.
        """
        if not self._free.acquire(blocking=False):
            raise errors.Busy()
        try:
            yield
        finally:
            self._free.release()


class Lookup(call.Resource):
    """``/v1/lookup``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(
            summary="Tell an agent which node it runs on",
            rule="baremetal:driver:ipa_lookup",
            since=versions.ENDPOINTS["lookup"],
            query={
                "addresses": {**arguments.TEXTS, "minItems": 0},
                "node_uuid": arguments.UUID,
            },
            answers={200: answer_schemas.LOOKUP},
            errors=(409,),
        )
    }

    def __init__(self, services: call.Services, gate: Gate) -> None:
        """Share the gate of all that agents ask."""
        super().__init__(services)
        self._gate = gate

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Tell an agent which node it runs on, its settings and its token."""
        version = call.version(req)
        versions.require("lookup", version)
        query = Query(req)
        addresses = [a.lower() for a in query.names("addresses") or () if _is_address(a)]
        node_uuid = query.text("node_uuid")
        query.finish()
        if node_uuid and not fits(schemas.UUID, node_uuid):
            raise exceptions.Invalid("Expected a UUID for the argument 'node_uuid'.")
        if not (addresses or node_uuid):
            raise exceptions.Invalid(
                "At least one of 'addresses' and 'node_uuid' parameters is required"
            )
        with self._gate():
            item, token = self.client.lookup(call.of(req).context, addresses, node_uuid or None)
        shown = render.node(item, base=self.services.base(req), version=version, fields=_FIELDS)
        send(resp, {"node": shown, "config": self._config(token)})

    def _config(self, token: str) -> dict[str, Any]:
        seconds = self.conf.api.ramdisk_heartbeat_timeout
        return {**_CONFIG, "heartbeat_timeout": int(seconds), "agent_token": token}


class Heartbeat(call.Resource):
    """``/v1/heartbeat/<id>``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "POST": Operation(
            summary="Take an agent's sign of life",
            rule="baremetal:node:ipa_heartbeat",
            since=versions.ENDPOINTS["heartbeat"],
            body=schemas.HEARTBEAT,
            members=versions.HEARTBEAT_FIELDS,
            answers={202: EMPTY},
            errors=(409,),
        )
    }

    def __init__(self, services: call.Services, gate: Gate) -> None:
        """Share the gate of all that agents ask."""
        super().__init__(services)
        self._gate = gate

    def on_post(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Take an agent's sign of life; what it sets off is not waited for."""
        version = call.version(req)
        versions.require("heartbeat", version)
        with self._gate():
            Query(req).finish()
            body = _heartbeat(bodies.read(req, self.conf, _MAX_BODY), version)
            if not is_ident(ident):
                raise exceptions.NodeNotFound(node=ident[:255])
            # Not read here: the conductor does, once, and its token says who may do this.
            self.client.heartbeat(call.of(req).context, ident, **body)
        done(resp, 202)


def _heartbeat(body: Any, version: int) -> dict[str, Any]:
    """Return the members of a heartbeat.

    :raises Invalid: one is missing, wrong, unknown, or newer than the request.
    """
    given = checked(schemas.HEARTBEAT, body, "heartbeat")
    for name, value in given.items():
        if value is not None and versions.HEARTBEAT_FIELDS[name] > version:
            raise exceptions.Invalid(f'Field "{name}" not recognised in API version 1.{version}')
    found: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    try:
        parts = urlsplit(found["callback_url"])
        well = bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        well = False
    if found["callback_url"] and not well:
        raise exceptions.Invalid('An issue with the supplied "callback_url" has been detected.')
    return found


def _is_address(text: str) -> bool:
    return fits(schemas.ADDRESS, text)
