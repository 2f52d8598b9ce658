"""Who asks the service, and which certificates are trusted."""

from __future__ import annotations

import dataclasses
import os
import warnings
from typing import TYPE_CHECKING

from deploysteps.cli.errors import CommandError, ExitCode

if TYPE_CHECKING:
    import requests


def _check_certificates(path: str) -> None:
    """Refuse a file that has no certificate in it: nothing would be trusted.

    :raises CommandError: naming the file.
    """
    import ssl  # here: not every command speaks TLS

    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(path)
    except OSError as exc:  # an SSLError is one, too
        why = "" if isinstance(exc, ssl.SSLError) else f" ({exc.strerror})"
        raise CommandError(
            f"{path} (--cacert) has no certificate that can be read{why}; it has to be PEM, with "
            "BEGIN CERTIFICATE",
            ExitCode.USAGE,
        ) from exc


TOKENS = ("v3token", "token", "admin_token", "token_endpoint")
"""Kinds of logging in by a token that is there already, as OpenStack's clients call them."""


@dataclasses.dataclass(frozen=True)
class Login:
    """What the options say; their words are those of OpenStack's clients."""

    auth_type: str | None = None
    """``none``, ``http_basic`` or one of :data:`TOKENS`. It has to be said: what OS_USERNAME,
    OS_PASSWORD and OS_TOKEN hold may be for another service, and is sent to nobody else."""
    username: str | None = None
    password: str | None = dataclasses.field(default=None, repr=False)
    token: str | None = dataclasses.field(default=None, repr=False)
    """Of the Identity service; ``openstack token issue`` prints one."""
    cacert: str | None = None
    """A file with the certificates that are trusted, instead of the system's."""
    insecure: bool = False
    """Trust any certificate."""

    @property
    def sent(self) -> str | None:
        """What is sent, if anything: http_basic or token."""
        kind = self.auth_type or "none"
        return "token" if kind in TOKENS else None if kind == "none" else kind

    def prepare(self, session: requests.Session) -> None:
        """Make a session use all this.

        :raises CommandError: user, password or token is missing, the kind is not known, or there
            is no such file.
        """
        import requests

        if self.insecure:
            warnings.filterwarnings("ignore", "Unverified HTTPS request")
        elif self.cacert and not os.path.isfile(self.cacert):
            raise CommandError(f"there is no file {self.cacert} (--cacert)", ExitCode.USAGE)
        elif self.cacert:
            _check_certificates(self.cacert)
        session.verify = False if self.insecure else self.cacert or True
        kind = self.auth_type or "none"
        if kind == "none":
            # Not unset: requests would look for a user of that host in ~/.netrc.
            session.auth = lambda request: request
            return
        if kind in TOKENS:
            self._send_token(session)
            return
        if kind != "http_basic":
            raise CommandError(
                f"OS_AUTH_TYPE is {kind[:80]!r}; this command knows none, http_basic and "
                f"{TOKENS[0]} (also as --os-auth-type). With keystone: "
                f"OS_AUTH_TYPE={TOKENS[0]} OS_TOKEN=$(openstack token issue -f value -c id)",
                ExitCode.USAGE,
            )
        if not self.username or self.password is None:
            raise CommandError(
                "http_basic needs a user and a password; set OS_USERNAME and OS_PASSWORD",
                ExitCode.USAGE,
            )
        session.auth = requests.auth.HTTPBasicAuth(self.username.encode(), self.password.encode())

    def _send_token(self, session: requests.Session) -> None:
        if not self.token or not self.token.isascii() or not self.token.isprintable():
            raise CommandError(
                f"{self.auth_type} needs a token; set OS_TOKEN, such as to what "
                "`openstack token issue -f value -c id` prints",
                ExitCode.USAGE,
            )
        token = self.token

        def add(request: requests.PreparedRequest) -> requests.PreparedRequest:
            request.headers["X-Auth-Token"] = token
            return request

        session.auth = add
