"""The server's certificate and key."""

from __future__ import annotations

import os
import ssl

from oslo_config import cfg

from deploysteps import exceptions

_VERSIONS = {"1.2": ssl.TLSVersion.TLSv1_2, "1.3": ssl.TLSVersion.TLSv1_3}


def context(conf: cfg.ConfigOpts) -> ssl.SSLContext | None:
    """Return what https is served with, None for http.

    :raises ConfigurationError: certificate and key are missing, broken, or do not belong together.
    """
    api = conf.api
    if not api.enable_ssl_api:
        return None
    for name in ("cert_file", "key_file"):
        _refuse_unreadable(name, api[name])
    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = _VERSIONS[api.server_tls_minimum_version]
    asked: list[bool] = []

    def passphrase() -> str:
        asked.append(True)
        return "none"

    try:
        # Without the last it would ask for a passphrase on a terminal that nobody sits at.
        made.load_cert_chain(api.cert_file, api.key_file, password=passphrase)
    except (ssl.SSLError, OSError, ValueError) as exc:
        raise exceptions.ConfigurationError(
            _told(api.cert_file, api.key_file, exc, bool(asked))
        ) from exc
    return made


def _refuse_unreadable(name: str, path: str | None) -> None:
    if not path:
        raise exceptions.ConfigurationError(
            f"[api] enable_ssl_api needs [api] {name}: the path of a file in PEM"
        )
    try:
        with open(path, "rb"):
            pass
    except OSError as exc:
        raise exceptions.ConfigurationError(
            f"[api] {name} {path} cannot be read by user {os.getuid()}: {exc.strerror}"
        ) from exc


def _told(cert: str, key: str, exc: Exception, hidden: bool) -> str:
    reason = getattr(exc, "reason", None) or ""
    if reason == "KEY_VALUES_MISMATCH":
        return (
            f"[api] key_file {key} is not the key of [api] cert_file {cert}: their public keys "
            "differ"
        )
    if hidden:
        return f"[api] key_file {key} has a passphrase; take it off with: openssl pkey -in {key}"
    return (
        f"[api] cert_file {cert}, key_file {key}: no certificate and key in PEM that can be used "
        f"({str(reason).lower().replace('_', ' ') or exc})"
    )
