"""What happens to every request: its version, its headers, its line in the log."""

from __future__ import annotations

import logging
import time

import falcon
import microversion_parse

from deploysteps import secrets
from deploysteps.api import call, errors, versions

LOG = logging.getLogger(__name__)

SERVICE = "baremetal"
HEADER = "X-OpenStack-Ironic-API-Version"
MIN_HEADER = "X-OpenStack-Ironic-API-Minimum-Version"
MAX_HEADER = "X-OpenStack-Ironic-API-Maximum-Version"
REQUEST_ID_HEADERS = ("openstack-request-id", "x-openstack-request-id")


class Versions:
    """Finds out which version a request is of, and says so in the answer."""

    def __init__(self, newest: int) -> None:
        """Speak versions up to the minor one ``newest``."""
        self._newest = newest

    def process_resource(
        self, req: falcon.Request, resp: falcon.Response, resource: object, params: object
    ) -> None:
        """Read the version headers.

        :raises VersionNotAcceptable: this server does not have that version.
        """
        call.of(req).version = requested(
            microversion_parse.get_version(
                dict(req.headers), service_type=SERVICE, legacy_headers=[HEADER]
            ),
            self._newest,
        )

    def process_response(
        self, req: falcon.Request, resp: falcon.Response, resource: object, req_succeeded: bool
    ) -> None:
        """Tell the versions that there are, and the one that was used."""
        version = call.of(req).version
        if version is not None:
            resp.set_header(HEADER, f"1.{version}")
        if version is not None or resp.status_code == 406:
            resp.set_header(MIN_HEADER, f"1.{versions.MIN}")
            resp.set_header(MAX_HEADER, f"1.{self._newest}")


def requested(text: str | None, newest: int) -> int:
    """Return the minor version that a header's text asks for; without one, the oldest.

    :raises VersionNotAcceptable: this server does not have that version.
    """
    if text is None:
        return versions.MIN
    if text.lower() == "latest":
        return newest
    try:
        major, minor = microversion_parse.parse_version_string(text)
    except TypeError as exc:
        raise errors.VersionNotAcceptable(f"Invalid value for {HEADER} header") from exc
    there = f"The supported version range is: [1.{versions.MIN}, 1.{newest}]."
    if major != 1:
        raise errors.VersionNotAcceptable(
            f"Mutually exclusive versions requested. Version {major}.{minor} requested but not "
            f"supported by this service. {there}"
        )
    if not versions.MIN <= minor <= newest:
        raise errors.VersionNotAcceptable(
            f"Version {major}.{minor} was requested but the minor version is not supported by "
            f"this service. {there}"
        )
    return int(minor)


class RequestLog:
    """Gives a request its id, and logs it without body and secrets."""

    def process_request(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Begin."""
        request_id = call.of(req).request_id
        for name in REQUEST_ID_HEADERS:
            resp.set_header(name, request_id)

    def process_response(
        self, req: falcon.Request, resp: falcon.Response, resource: object, req_succeeded: bool
    ) -> None:
        """End."""
        this = call.of(req)
        LOG.info(
            "%s %s %s %d %.3f s",
            this.user,
            req.method,
            secrets.masked_urls(req.relative_uri)[:2000],
            resp.status_code,
            time.monotonic() - this.started,
            extra={"context": this.context},  # its id is in the line as in every other of it
        )
