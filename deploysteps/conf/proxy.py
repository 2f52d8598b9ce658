"""``[oslo_middleware]``: a proxy in front of the REST service."""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup(
    "oslo_middleware", title="Proxy", help="What is believed of a proxy in front of the service."
)

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "enable_proxy_headers_parsing",
        default=False,
        help=(
            "Believe X-Forwarded-Proto, X-Forwarded-Host and X-Forwarded-Prefix, which a proxy "
            "sets, for links in answers; and the last address of X-Forwarded-For as the client's, "
            "for limits of one address. Only behind a proxy that sets or removes all four: "
            "otherwise clients choose them. [api] public_endpoint comes first."
        ),
    ),
]
