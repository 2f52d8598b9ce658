"""Errors as the API tells them: ``{"error_message": ...}``, whose value is JSON in a string.

Inside it are ``faultcode``, ``faultstring`` and ``debuginfo``; or, when a
request went wrong before it reached its resource, ``code``, ``title`` and
``description``.
"""

from __future__ import annotations

import http
import json
import logging
import random
import traceback
from typing import Any

import falcon

from deploysteps import exceptions, secrets
from deploysteps.api import call

LOG = logging.getLogger(__name__)

_LONGEST = 4096
_RETRY_AFTER = (2, 10)
"""Seconds; drawn anew for each answer, so that those refused together do not return together."""
_TOLD_WHEN = ("/v1/lookup", "/v1/heartbeat", "/v1/events/stream")
"""Paths whose callers come in crowds, and are told when to come back. The others are not:
python-ironicclient stumbles over ``Retry-After``, and neither shows the error nor tries again."""

_OF_THE_DATABASE: dict[type[Exception], str] = {
    exceptions.DatabaseUnavailable: "The database does not answer; try again.",
    exceptions.DatabaseFull: "The database has no room for it; nothing was changed. Its disk is "
    "full, or its share of it: make room, and try again.",
}
"""What is told instead of the database's own words, which have names and addresses."""


class VersionNotAcceptable(exceptions.NotAcceptable):
    """The version header asks for what this server does not have."""


class Busy(exceptions.DeployStepsException):
    """The server has no thread to spare for this request."""

    _msg_fmt = "Too many requests of this kind are in progress; nothing was changed, try again."
    code = 503


class Unauthorized(exceptions.NotAuthenticated):
    """The request does not say well who sends it."""

    def __init__(self, message: str, *, challenge: str) -> None:
        """Take the text, and what ``WWW-Authenticate`` asks for."""
        super().__init__(message)
        self.challenge = challenge


def install(app: falcon.App[falcon.Request, falcon.Response]) -> None:
    """Make an app answer every error in the envelope."""
    app.add_error_handler(Exception, _unexpected)
    app.add_error_handler(falcon.HTTPError, _before_routing)
    app.add_error_handler(exceptions.DeployStepsException, _ours)
    app.add_error_handler(VersionNotAcceptable, _version)


def traced(message: str, exc: BaseException | None) -> str:
    """Return a line for the log with the traceback of an exception, masked.

    The log's own way to show a traceback would show what is secret in URLs.
    """
    lines = [message] if exc is None else [message, *traceback.format_exception(exc)]
    return secrets.masked_urls("\n".join(line.rstrip("\n") for line in lines))


def internal(request_id: str) -> dict[str, Any]:
    """Return the answer to what went wrong inside: it tells nothing; the log has it."""
    told = f"An internal error happened; the log of the service has it as {request_id}."
    return {"faultcode": "Server", "faultstring": told, "debuginfo": None}


def envelope(inner: dict[str, Any]) -> bytes:
    """Return the body that tells an error."""
    return json.dumps({"error_message": json.dumps(inner)}).encode()


def told_when(status: int, path: str) -> bool:
    """Tell whether a refusal says when to come back."""
    return status == 503 and path.startswith(_TOLD_WHEN)


def refuse(resp: falcon.Response, request_id: str) -> None:
    """Take back an answer, for what went wrong inside."""
    resp.text, resp.media, resp.stream = None, None, None
    _answer(resp, 500, internal(request_id))


def _answer(resp: falcon.Response, status: int, inner: dict[str, Any]) -> None:
    resp.status = status
    resp.content_type = falcon.MEDIA_JSON
    resp.data = envelope(inner)


def _fault(resp: falcon.Response, status: int, text: str) -> None:
    code = "Client" if status < 500 else "Server"
    text = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
    _answer(resp, status, {"faultcode": code, "faultstring": text, "debuginfo": None})


def _bare(resp: falcon.Response, status: int, text: str) -> None:
    title = http.HTTPStatus(status).phrase
    _answer(resp, status, {"code": status, "title": title, "description": text})


def _ours(
    req: falcon.Request,
    resp: falcon.Response,
    exc: exceptions.DeployStepsException,
    params: dict[str, Any],
) -> None:
    if exc.code >= 500 and exc.code != 503:
        LOG.error("%s", traced(f"{call.of(req).request_id}: {type(exc).__name__}", exc))
    if isinstance(exc, Unauthorized):
        resp.set_header("WWW-Authenticate", exc.challenge)
    text = exc.message
    if type(exc) in _OF_THE_DATABASE:
        LOG.warning("%s: %s", call.of(req).request_id, secrets.masked_urls(text))
        text = _OF_THE_DATABASE[type(exc)]
    _fault(resp, exc.code, secrets.masked_urls(text))
    if told_when(exc.code, req.path):
        resp.set_header("Retry-After", str(random.randint(*_RETRY_AFTER)))


def _version(
    req: falcon.Request, resp: falcon.Response, exc: VersionNotAcceptable, params: dict[str, Any]
) -> None:
    (_fault if req.path == "/" else _bare)(resp, exc.code, exc.message)


def _before_routing(
    req: falcon.Request, resp: falcon.Response, exc: falcon.HTTPError, params: dict[str, Any]
) -> None:
    if exc.headers is not None:
        resp.set_headers(exc.headers)
    call.of(req).version = None  # told to those only who reached something
    text = exc.description or ""
    if isinstance(exc, falcon.HTTPRouteNotFound):
        text = "There is nothing at this path; /openapi.json tells what there is."
    _bare(resp, exc.status_code, text)


def _unexpected(
    req: falcon.Request, resp: falcon.Response, exc: Exception, params: dict[str, Any]
) -> None:
    request_id = call.of(req).request_id
    LOG.error("%s", traced(f"{request_id}: {req.method} {req.path} failed", exc))
    _answer(resp, 500, internal(request_id))
