"""``auth_strategy = keystone``: tokens, which OpenStack's own middleware validates."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from typing import Any

from oslo_config import cfg
from oslo_context.context import RequestContext

from deploysteps import exceptions
from deploysteps.api import errors

LOG = logging.getLogger(__name__)

CHALLENGE = "Keystone"
_CONFIRMED = "Confirmed"

Wsgi = Callable[[dict[str, Any], Callable[..., Any]], Iterable[bytes]]


class Keystone:
    """Finds out who sends a request with ``X-Auth-Token``."""

    def __init__(
        self, conf: cfg.ConfigOpts, protocol: Callable[[Wsgi], Wsgi] | None = None
    ) -> None:
        """Prepare to ask the Identity service, by ``[keystone_authtoken]``.

        :param protocol: wraps a WSGI application in what validates tokens; the middleware of
            keystonemiddleware if not given.
        :raises ConfigurationError: it is not installed.
        """
        self._validate = (protocol or _middleware(conf))(_passed)

    def context(self, env: dict[str, Any], request_id: str) -> RequestContext:
        """Return the context of a request, whose headers are replaced by what is true.

        :raises Unauthorized: no valid token.
        :raises IdentityUnavailable: it cannot be found out now.
        """
        answer: dict[str, Any] = {}

        def started(status: str, headers: list[tuple[str, str]], exc: Any = None) -> None:
            answer["status"] = int(status.split(" ", 1)[0])
            answer["headers"] = {name.lower(): value for name, value in headers}

        for _ in self._validate(env, started):
            pass  # nothing of it is sent
        if answer["status"] == 401:
            challenge = answer["headers"].get("www-authenticate", CHALLENGE)
            raise errors.Unauthorized("The request needs a valid token.", challenge=challenge)
        if answer["status"] != 204:
            LOG.error("The Identity service cannot be asked: %d", answer["status"])
            raise IdentityUnavailable()
        found: RequestContext = RequestContext.from_environ(
            env, request_id=request_id, overwrite=True, system_scope=_scope(env)
        )
        return found


class IdentityUnavailable(exceptions.DeployStepsException):
    """Tokens cannot be validated now."""

    _msg_fmt = (
        "The Identity service does not answer, so that tokens cannot be validated; try again."
    )
    code = 503


def _scope(env: dict[str, Any]) -> str | None:
    """Return ``all`` when the caller's own token is for the whole system.

    The middleware tells the scope of the token in ``X-Auth-Token`` by the header
    ``OpenStack-System-Scope``, and then that of the one in ``X-Service-Token`` by the same one:
    a caller would have the scope of the service that he names. What it leaves in
    ``keystone.token_info`` is the Identity service's answer about the caller's own token.
    """
    told = env.get("keystone.token_info") or {}
    system = (told.get("token") or {}).get("system") or {}
    return "all" if system.get("all") is True else None


def _passed(env: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Stand where the application would: what comes here is what the middleware lets through."""
    valid = env.get("HTTP_X_IDENTITY_STATUS") == _CONFIRMED and (
        env.get("HTTP_X_SERVICE_IDENTITY_STATUS", _CONFIRMED) == _CONFIRMED
    )
    start_response("204 No Content" if valid else "401 Unauthorized", [])
    return []


def _middleware(conf: cfg.ConfigOpts) -> Callable[[Wsgi], Wsgi]:
    try:
        from keystoneauth1.exceptions import ClientException
        from keystonemiddleware import auth_token
    except ImportError as exc:
        raise exceptions.ConfigurationError(
            "[DEFAULT] auth_strategy = keystone needs keystonemiddleware, which is not installed "
            f"({exc}): pip install 'deploysteps[keystone]', or use http_basic"
        ) from exc

    def wrap(application: Wsgi) -> Wsgi:
        # Not delayed: it would take an Identity service that is away for a token that is wrong.
        settings = {"oslo_config_config": conf, "delay_auth_decision": False}
        protocol: Wsgi = auth_token.AuthProtocol(application, settings)

        def validate(env: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
            try:
                return protocol(env, start_response)
            except ClientException as exc:
                LOG.error("The Identity service gives no useful answer: %s", exc)
                start_response("503 Service Unavailable", [])
                return []

        return validate

    return wrap
