"""Under which address the client knows the service; links in answers are built from it.

What a client sends as ``Host`` would come back in links: only what is a
host's name or address is taken, and only the allowed ones when they are
named. What a proxy adds is believed only when the operator says so.
"""

from __future__ import annotations

import re

import falcon
from oslo_config import cfg

from deploysteps import exceptions
from deploysteps.api import call

_HOST = re.compile(
    r"(?P<name>\[[0-9A-Fa-f:.]{2,45}\]|[A-Za-z0-9_](?:[A-Za-z0-9._-]{0,252}[A-Za-z0-9_.])?)"
    r"(?::(?P<port>[0-9]{1,5}))?",
    re.ASCII,
)
_PREFIX = re.compile(r"(/[A-Za-z0-9._~-]{1,64}){0,8}/?", re.ASCII)

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
        self._proxied = bool(conf.oslo_middleware.enable_proxy_headers_parsing)

    def process_request(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Check the host, before anything else is done.

        :raises Invalid: it is none, or not allowed.
        """
        host = self._checked("Host", req.env.get("HTTP_HOST") or req.netloc)
        public = str(self._conf.api.public_endpoint or "").rstrip("/")
        call.of(req).base = public or self._base(req, host)

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

    def _checked(self, header: str, host: str) -> str:
        found = _HOST.fullmatch(host)
        if found is None or int(found["port"] or 0) > 65535:
            raise exceptions.Invalid(
                f"The header {header} has to be the name or the address of a machine, with or "
                "without a port."
            )
        if self._allowed and not self._is_allowed(found["name"].lower().strip("[]").rstrip(".")):
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


def _last(header: str | None) -> str:
    """Return what the nearest proxy has written."""
    return (header or "").rsplit(",", 1)[-1].strip()
