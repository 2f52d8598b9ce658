"""Who sends a request, and whether its operation's rule lets him pass.

Every operation declares its rule (see :mod:`deploysteps.api.operations`).
What is open to everybody needs no authentication: the version documents, and
what agents call. For all else the caller is found out first, by
``[DEFAULT] auth_strategy``; then the rule is asked, here or, where it
depends on whose the thing is, by the resource.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable

import falcon
from oslo_config import cfg
from oslo_context.context import RequestContext

from deploysteps import exceptions
from deploysteps.access.caller import Caller, of_the_system
from deploysteps.access.enforcer import Enforcer
from deploysteps.api import call, errors, hosts
from deploysteps.api.access_basic import HttpBasic
from deploysteps.api.access_keystone import Keystone

LOG = logging.getLogger(__name__)

Identify = Callable[[falcon.Request, RequestContext], RequestContext]
"""Returns the context of a request, its caller in it; raises ``Unauthorized`` when it cannot."""

_NODE = "/nodes/{ident}"


@dataclasses.dataclass(frozen=True)
class Access:
    """What is known of callers: how they are found out, and the rules."""

    enforcer: Enforcer
    identify: Identify

    @classmethod
    def of(cls, conf: cfg.ConfigOpts) -> Access:
        """Return what the configuration says.

        :raises ConfigurationError: a file that it names is missing or broken.
        """
        return cls(Enforcer(conf), _STRATEGIES[conf.auth_strategy](conf))


def _noauth(conf: cfg.ConfigOpts) -> Identify:
    return lambda req, context: of_the_system(context, None, "admin")


def _http_basic(conf: cfg.ConfigOpts) -> Identify:
    users = HttpBasic(conf)
    proxied = bool(conf.oslo_middleware.enable_proxy_headers_parsing)

    def identify(req: falcon.Request, context: RequestContext) -> RequestContext:
        user, role = users.user(req.get_header("Authorization"), hosts.sender(req, proxied))
        return of_the_system(context, user, role)

    return identify


def _keystone(conf: cfg.ConfigOpts) -> Identify:
    service = Keystone(conf)
    return lambda req, context: service.context(req.env, str(context.request_id))


_STRATEGIES: dict[str, Callable[[cfg.ConfigOpts], Identify]] = {
    "noauth": _noauth,
    "http_basic": _http_basic,
    "keystone": _keystone,
}


class Guard:
    """Lets in who may do what he asks."""

    def __init__(self, access: Access) -> None:
        """Ask these rules."""
        self._access = access

    def process_resource(
        self, req: falcon.Request, resp: falcon.Response, resource: call.Resource, params: object
    ) -> None:
        """Find out who asks, and ask the rule.

        :raises Unauthorized: it cannot be found out.
        :raises Forbidden: he may not do this.
        """
        operation = resource.operations.get(req.method)
        if operation is None:
            if hasattr(resource, f"on_{req.method.lower()}"):
                raise exceptions.Forbidden(rule=f"of {req.method} {req.uri_template}")
            return  # Falcon says which methods there are
        this = call.of(req)
        rule = operation.rule
        if rule is None or self._access.enforcer.is_open(rule):
            this.caller = Caller(self._access.enforcer, this.context)
            this.caller.asked = True
            return
        this.context = self._access.identify(req, this.context)
        this.caller = Caller(self._access.enforcer, this.context)
        template = (req.uri_template or "").removeprefix("/v1")
        if template.startswith(_NODE) or req.method in resource.by_item:
            return  # the resource asks, when it knows whose the thing is
        kind, _, verb = rule.removeprefix("baremetal:").rpartition(":")
        if verb == "list":
            this.caller.require_list(kind)
        else:
            this.caller.require(rule)

    def process_response(
        self, req: falcon.Request, resp: falcon.Response, resource: object, req_succeeded: bool
    ) -> None:
        """Keep back an answer of which no rule was asked: a resource has forgotten to."""
        this = call.of(req)
        if not req_succeeded or this.caller is None or this.caller.asked:
            return
        LOG.error(
            "%s: %s %s was answered without asking a rule",
            this.request_id,
            req.method,
            req.uri_template,
        )
        errors.refuse(resp, this.request_id)
