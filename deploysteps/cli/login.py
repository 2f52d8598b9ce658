"""Who asks the service, and which certificates are trusted."""

from __future__ import annotations

import dataclasses
import os
import warnings
from typing import TYPE_CHECKING

from deploysteps.cli.errors import CommandError, ExitCode

if TYPE_CHECKING:
    import requests


@dataclasses.dataclass(frozen=True)
class Login:
    """What the options say; their words are those of OpenStack's clients."""

    auth_type: str | None = None
    """``none`` or ``http_basic``. It has to be said: OS_USERNAME and OS_PASSWORD may be those of
    another service, and are sent to nobody else."""
    username: str | None = None
    password: str | None = dataclasses.field(default=None, repr=False)
    cacert: str | None = None
    """A file with the certificates that are trusted, instead of the system's."""
    insecure: bool = False
    """Trust any certificate."""

    def prepare(self, session: requests.Session) -> None:
        """Make a session use all this.

        :raises CommandError: user or password is missing, the kind is not known, or there is no
            such file.
        """
        import requests

        if self.insecure:
            warnings.filterwarnings("ignore", "Unverified HTTPS request")
        elif self.cacert and not os.path.isfile(self.cacert):
            raise CommandError(f"there is no file {self.cacert} (--cacert)", ExitCode.USAGE)
        session.verify = False if self.insecure else self.cacert or True
        kind = self.auth_type or "none"
        if kind == "none":
            # Not unset: requests would look for a user of that host in ~/.netrc.
            session.auth = lambda request: request
            return
        if kind != "http_basic":
            raise CommandError(
                f"OS_AUTH_TYPE is {kind[:80]!r}; this command knows none and http_basic (also as "
                "--os-auth-type). With keystone use the `openstack baremetal` command",
                ExitCode.USAGE,
            )
        if not self.username or self.password is None:
            raise CommandError(
                "http_basic needs a user and a password; set OS_USERNAME and OS_PASSWORD",
                ExitCode.USAGE,
            )
        session.auth = requests.auth.HTTPBasicAuth(self.username.encode(), self.password.encode())
