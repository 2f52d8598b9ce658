"""Under which address the client knows the service; links in answers are built from it.

What a client sends as ``Host`` would come back in links: only what is a
host's name or address is taken, and only the allowed ones when they are
named. What a proxy adds is believed only when the operator says so.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from urllib.parse import urlsplit

import falcon
from oslo_config import cfg

from deploysteps import exceptions
from deploysteps.addresses import is_address
from deploysteps.api import call

_HOST = re.compile(
    r"(?P<name>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9_.])?)"
    r"(?::(?P<port>[0-9]{1,5}))?",
    re.ASCII,
)
_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]{1,64}){0,8}/?", re.ASCII)

_PORT = re.compile(r":[0-9]{1,5}$")
_PROBES = ("/healthz", "/readyz")
"""What asks these calls each instance by its address; the answers have no links."""
LOCAL_ONLY = "deploysteps.local_only"
"""In the environment of a request, true: the server listens on this machine's own address only."""

_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
}
_ONLY_HTTPS = "max-age=31536000"


class Addresses:
    """Finds out the address of a request, and refuses what is none."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Take ``[api] public_endpoint``, ``allowed_hosts``, and whether a proxy is believed."""
        self._conf = conf
        self._allowed = [name.strip().lower().strip("[]") for name in conf.api.allowed_hosts]
        self._own = str(conf.api.host_ip).strip("[]").lower()
        self._proxied = bool(conf.oslo_middleware.enable_proxy_headers_parsing)

    def process_request(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Check the host, before anything else is done.

        :raises Invalid: it is none, or not allowed.
        """
        host = self._checked("Host", req.env.get("HTTP_HOST") or req.netloc, req.path in _PROBES)
        public = str(self._conf.api.public_endpoint or "").rstrip("/")
        call.of(req).base = base = public or self._base(req, host)
        if self._conf.auth_strategy == "keystone":
            return  # a page of another site has no token to send
        if req.env.get(LOCAL_ONLY) and not (self._allowed or self._proxied):
            self._refuse_strange(host, (self._own, urlsplit(public).hostname))
        if req.method not in ("GET", "HEAD", "OPTIONS"):
            self._refuse_foreign(req, {host.lower(), urlsplit(base).netloc.lower()})

    def _refuse_strange(self, host: str, ours: Collection[str | None]) -> None:
        """Refuse a name that this machine does not have for itself.

        Without authentication the only guard is that nobody else reaches the service. A browser
        on this machine does, for any page whose own name is made to lead here (DNS rebinding).

        :param ours: the names that settings give to the service.
        :raises Invalid: the name may be such a page's.
        """
        name = host.rpartition(":")[0] if _PORT.search(host) else host
        name = name.strip("[]").rstrip(".").lower()
        own = "." not in name or name.endswith(".localhost") or name in ours
        if self._conf.auth_strategy == "noauth" and not (own or is_address(name)):
            raise exceptions.Invalid(
                "There is no authentication, and the header Host has a name that may be another "
                "machine's; call the service by its address, or allow the name in [api] "
                "allowed_hosts."
            )

    def _refuse_foreign(self, req: falcon.Request, own: set[str]) -> None:
        """Refuse what a browser sends for a page of another site, with the user's password.

        :raises Invalid: the page is of none of these hosts.
        """
        origin = req.get_header("Origin")
        there = urlsplit(origin).netloc.lower() if origin and len(origin) < 1000 else ""
        is_own = there in own or bool(
            there and self._allowed and self._is_allowed(there.partition(":")[0])
        )
        site = "" if origin else (req.get_header("Sec-Fetch-Site") or "")
        if (origin is not None and not is_own) or site in ("cross-site", "same-site"):
            raise exceptions.Invalid(
                "A page of another site sends this (header Origin or Sec-Fetch-Site); what may is "
                "a page of the service's own address, or of one in [api] allowed_hosts.",
                code=403,
            )

    def process_response(
        self, req: falcon.Request, resp: falcon.Response, resource: object, req_succeeded: bool
    ) -> None:
        """Tell browsers and caches to make nothing else of an answer than it is."""
        for name, value in headers(req.scheme).items():
            if resp.get_header(name) is None:
                resp.set_header(name, value)

    def _base(self, req: falcon.Request, host: str) -> str:
        scheme, root = req.scheme, req.root_path
        if self._proxied:
            asked = _last(req.get_header("X-Forwarded-Proto"))
            scheme = asked.lower() if asked.lower() in ("http", "https") else scheme
            told = _last(req.get_header("X-Forwarded-Host"))
            host = self._checked("X-Forwarded-Host", told) if told else host
            prefix = _last(req.get_header("X-Forwarded-Prefix"))
            root = prefix if _PREFIX.fullmatch(prefix) else root
        return f"{scheme}://{host}{root}".rstrip("/")

    def _checked(self, header: str, host: str, any_name: bool = False) -> str:
        found = _HOST.fullmatch(host)
        if found is None or int(found["port"] or 0) > 65535:
            raise exceptions.Invalid(
                f"The header {header} has to be the name or the address of a machine, with or "
                "without a port."
            )
        if any_name or not self._allowed:
            return host
        if not self._is_allowed(found["name"].lower().strip("[]").rstrip(".")):
            raise exceptions.Invalid(
                f"The service is not called by the name in the header {header}; its operator can "
                "allow it in [api] allowed_hosts."
            )
        return host

    def _is_allowed(self, name: str) -> bool:
        return any(
            name == allowed or (allowed.startswith(".") and name.endswith(allowed))
            for allowed in self._allowed
        )


def headers(scheme: str) -> dict[str, str]:
    """Return what every answer says besides."""
    return {
        **_HEADERS,
        **({"Strict-Transport-Security": _ONLY_HTTPS} if scheme == "https" else {}),
    }


def sender(req: falcon.Request, proxied: bool) -> str:
    """Return the address that a request comes from: of the client, where a proxy is believed."""
    told = _last(req.get_header("X-Forwarded-For")) if proxied else ""
    return told if is_address(told) else str(req.remote_addr)


def _last(header: str | None) -> str:
    """Return what the nearest proxy has written."""
    return (header or "").rsplit(",", 1)[-1].strip()
