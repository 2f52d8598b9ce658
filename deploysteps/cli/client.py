"""Speaks REST with the service, and turns its refusals into words and codes."""

from __future__ import annotations

import contextlib
import html
import json
import re
import urllib.parse
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import click

from deploysteps import secrets
from deploysteps.addresses import is_loopback
from deploysteps.cli.errors import CommandError, ExitCode, code_of_status
from deploysteps.cli.login import Login
from deploysteps.cli.output import clean

if TYPE_CHECKING:
    import requests

DEFAULT_ENDPOINT = "http://127.0.0.1:6385"
_CONNECT_SECONDS, _ANSWER_SECONDS = 5, 60
_VERSION_HEADER = {"X-OpenStack-Ironic-API-Version": "latest"}


_HOW_TO_LOG_IN = {
    "basic": "no user was sent: set OS_AUTH_TYPE=http_basic (or --os-auth-type http_basic) with "
    "OS_USERNAME and OS_PASSWORD",
    "keystone": "no token was sent: set OS_AUTH_TYPE=v3token (or --os-auth-type v3token) with "
    "OS_TOKEN=$(openstack token issue -f value -c id)",
}
"""What a service asks for, in ``WWW-Authenticate`` -> how it is sent."""
_NOT_TAKEN = {
    "http_basic": "OS_USERNAME and OS_PASSWORD were sent; are they right, and not changed since?",
    "token": "OS_TOKEN was sent, and tokens expire: set it to what "
    "`openstack token issue -f value -c id` prints now",
}
"""What was sent and not taken -> what to do."""
_AWAY = (502, 503, 504)
"""What is answered while a service is away, by itself or by a proxy before it."""
_OURS = re.compile(r"(/v1/nodes/[^/]+)/(?:runs|steps|plan|lock)|/v1/events/stream")
"""Paths that other servers of this API do not have; the node above one, if it is of a node."""
_NO_TLS = ("wrong_version_number", "packet_length_too_long", "record_layer_failure", "http_request")
"""What OpenSSL calls an answer that is no TLS."""


_RAW = "application/octet-stream"
_WARNING = re.compile(r'299 \S+ "([^"]*)"')
"""What the service has to say of a request that it has done all the same."""


class Unreachable(CommandError):
    """The service does not answer."""


class Client:
    """One service. Paths begin with ``/v1``; answers are decoded JSON."""

    def __init__(self, endpoint: str = DEFAULT_ENDPOINT, login: Login | None = None) -> None:
        """Connect to nothing yet.

        :raises CommandError: when the endpoint is no http(s) address, or the login is not whole.
        """
        import requests  # here: ``serve`` asks nobody, and starts sooner without it

        parts = urllib.parse.urlsplit(endpoint)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise CommandError(
                f"{secrets.masked_urls(endpoint)!r} is no address of a service; set OS_ENDPOINT "
                f"or --endpoint to something like {DEFAULT_ENDPOINT}",
                ExitCode.USAGE,
            )
        self.endpoint = endpoint.rstrip("/").removesuffix("/v1")
        self._session = requests.Session()
        self._session.headers.update(_VERSION_HEADER)
        # A proxy cannot reach this machine's own loopback.
        self._session.trust_env = not is_loopback(parts.hostname)
        login = login or Login()
        login.prepare(self._session)
        self._sent = login.sent

    def get(self, path: str, **params: Any) -> Any:
        """Read an object; parameters that are None are left out."""
        found = self._request("GET", path, params=params)
        if not isinstance(found, dict):
            raise self._strange("something that is no object")
        return _Answer(found, self._strange)

    def post(self, path: str, body: Any) -> Any:
        """Create."""
        return self._request("POST", path, body=body)

    def put(self, path: str, body: Any) -> Any:
        """Ask for a change of state."""
        return self._request("PUT", path, body=body)

    def patch(self, path: str, body: Any, **params: Any) -> Any:
        """Change fields by a JSON patch."""
        return self._request("PATCH", path, params=params, body=body)

    def delete(self, path: str, body: Any = None, **params: Any) -> Any:
        """Remove."""
        return self._request("DELETE", path, params=params, body=body)

    def call(self, method: str, path: str, body: Any) -> Any:
        """Ask by any method; what is no JSON, and says so, is returned as bytes."""
        return self._request(method, path, body=body)

    def list(self, path: str, key: str, most: int | None = None, **params: Any) -> list[Any]:
        """Read a collection, following pages, until ``most`` items are there."""
        found: list[Any] = []
        while True:
            page = self.get(path, **params)
            found.extend(page[key])
            if most is not None and len(found) >= most:
                if page.get("next") or len(found) > most:
                    click.echo(f"there are more than these {most}; see --limit", err=True)
                return found[:most]
            if not page.get("next"):
                return found
            # Only the query: the link's host is how others reach the service.
            query = urllib.parse.urlsplit(page["next"]).query
            params = dict(urllib.parse.parse_qsl(query, keep_blank_values=True))

    def lines(self, path: str, silence: float, **params: Any) -> Iterator[str]:
        """Yield the lines of an answer that goes on, as they come.

        :param silence: seconds without a word after which it is given up.
        :raises Unreachable: it ended, or nothing came.
        :raises CommandError: what answers is no stream.
        """
        answer = self._ask("GET", path, params=params, stream=True, timeout=silence)
        with answer, self._reached():
            if not answer.headers.get("Content-Type", "").startswith("text/event-stream"):
                raise self._strange("something that is no stream of events")
            for line in answer.iter_lines(chunk_size=None):
                yield line.decode("utf-8", "replace")

    def _ask(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, Any] | None = None,
        timeout: float = _ANSWER_SECONDS,
        **more: Any,
    ) -> requests.Response:
        """Return the good answer to a request."""
        with self._reached():
            answer = self._session.request(
                method,
                self.endpoint + path,
                params={k: v for k, v in (params or {}).items() if v is not None},
                verify=self._session.verify,  # else the environment would have its own word
                timeout=(_CONNECT_SECONDS, timeout),
                allow_redirects=False,  # a token would go with it, and a PUT would become a GET
                **more,
            )
        if answer.status_code >= 400:
            raise self._refused(answer, path, params or {})
        if answer.status_code >= 300:
            raise CommandError(
                f"{secrets.masked_urls(self.endpoint)} leads to {_elsewhere(answer, path)} "
                f"(HTTP {answer.status_code}); if that is the service, set OS_ENDPOINT to it",
                ExitCode.USAGE,
            )
        return answer

    def _refused(
        self, answer: requests.Response, path: str, params: Mapping[str, Any]
    ) -> CommandError:
        """Return what a refusal says, and what may be done about it."""
        status, told = answer.status_code, _told(answer)
        if status in _AWAY:
            own = _document(answer) is not None
            if own:
                return Unreachable(told, code_of_status(status))
            return Unreachable(
                f"the service behind {secrets.masked_urls(self.endpoint)} does not answer; the "
                f"proxy there says: {told}",
                ExitCode.UNREACHABLE,
            )
        if status == 401:
            asked = answer.headers.get("WWW-Authenticate", "").partition(" ")[0].lower()
            hint = _NOT_TAKEN.get(self._sent) if self._sent else _HOW_TO_LOG_IN.get(asked)
            told += f"; {hint}" if hint else ""
        if status == 404 and self._lacks(path, params.get("node")):
            told = (
                f"{secrets.masked_urls(self.endpoint)} has no {path.rpartition('/')[2]} to ask "
                f"for: it is another server of this API, or an older one (HTTP {status})"
            )
        return CommandError(told, code_of_status(status))

    def _lacks(self, path: str, node: str | None) -> bool:
        """Tell whether it is a path of ours, and not the node it is asked of, that is not there."""
        found = _OURS.fullmatch(path)
        if found is None:
            return False
        above = found[1] or (node and node_path(node))
        if not above:
            return True
        with self._reached():
            looked = self._session.get(
                self.endpoint + above,
                verify=self._session.verify,
                timeout=(_CONNECT_SECONDS, _ANSWER_SECONDS),
                allow_redirects=False,
            )
        return looked.status_code == 200

    @contextlib.contextmanager
    def _reached(self) -> Iterator[None]:
        """Say it in words when the service does not answer."""
        import requests

        try:
            yield
        except requests.exceptions.SSLError as exc:
            if any(word in str(exc).lower().replace(" ", "_") for word in _NO_TLS):
                raise Unreachable(
                    f"what answers at {secrets.masked_urls(self.endpoint)} speaks no TLS; is it "
                    "http:// and not https://? Set OS_ENDPOINT",
                    ExitCode.UNREACHABLE,
                ) from exc
            raise CommandError(
                f"the certificate of {secrets.masked_urls(self.endpoint)} is not trusted "
                f"({_short(exc)}); name its authority with --cacert, or trust any with --insecure"
            ) from exc
        except requests.RequestException as exc:
            raise Unreachable(
                f"the service at {secrets.masked_urls(self.endpoint)} does not answer "
                f"({_short(exc)}); start it with `deploysteps serve`, or set OS_ENDPOINT",
                ExitCode.UNREACHABLE,
            ) from exc

    def _request(
        self, method: str, path: str, params: Mapping[str, Any] | None = None, body: Any = None
    ) -> Any:
        answer = self._ask(method, path, params=params, json=body)
        warning = _WARNING.fullmatch(answer.headers.get("Warning", ""))
        if warning:
            click.echo(f"Warning: {clean(warning[1])}", err=True)
        if not answer.content:
            return None
        if answer.headers.get("Content-Type") == _RAW:
            return answer.content
        try:
            return answer.json()
        except ValueError as exc:
            raise self._strange("something that is no JSON") from exc

    def _strange(self, what: str) -> CommandError:
        return CommandError(
            f"{secrets.masked_urls(self.endpoint)} answered {what}; "
            "is OS_ENDPOINT the bare-metal service?"
        )


class _Answer(dict[str, Any]):
    """An object that the service answered with; what it has to have and has not is told."""

    def __init__(self, found: dict[str, Any], strange: Callable[[str], CommandError]) -> None:
        """Keep how it is told."""
        super().__init__(found)
        self._strange = strange

    def __missing__(self, name: str) -> Any:
        raise self._strange(f"without {name!r}")


def path_of(place: str, *parts: str) -> str:
    """Return the path of a collection, of something in it, or of a part of that.

    :raises CommandError: a name is one that would lead to the path above it.
    """
    for part in parts:
        if part in ("", ".", ".."):
            raise CommandError(f"{part!r} is no name and no uuid", ExitCode.USAGE)
    return "/".join((f"/v1/{place}", *(urllib.parse.quote(part, safe="") for part in parts)))


def node_path(node: str, *more: str) -> str:
    """Return the path of a node, by uuid or name."""
    return path_of("nodes", node, *more)


_CODES = re.compile(r"\[[^\]]*\]\s*|\s*\(_ssl\.c:\d+\)")
"""What OpenSSL's messages have around their words."""


def _short(exc: requests.RequestException) -> str:
    import requests

    if isinstance(exc, requests.Timeout):
        return "timed out"
    cause: BaseException = exc
    for arg in exc.args:
        reason = getattr(arg, "reason", arg)
        if isinstance(reason, BaseException):
            cause = reason
    text = _CODES.sub("", str(cause)).strip().rsplit(": ", 1)[-1]
    return secrets.masked_urls(text) or type(exc).__name__


def _elsewhere(answer: requests.Response, path: str) -> str:
    """Return the endpoint that an answer leads to."""
    target = urllib.parse.urljoin(answer.url, answer.headers.get("Location", ""))
    plain = urllib.parse.urlsplit(target)._replace(query="", fragment="").geturl()
    return clean(secrets.masked_urls(plain.removesuffix(path)))


def _document(answer: requests.Response) -> dict[str, Any] | None:
    """Return what an error answer has in it, whichever of the forms it has."""
    try:
        document = json.loads(answer.text)
        inner = document["error_message"]
        inner = json.loads(inner) if isinstance(inner, str) else inner
    except (ValueError, KeyError, TypeError):
        return None
    return inner if isinstance(inner, dict) else None


_TITLE = re.compile(r"<(title|h1)\b[^>]*>(.*?)</\1>", re.IGNORECASE | re.DOTALL)
_TAG = re.compile(r"<(style|script)\b.*?</\1>|<[^>]*>", re.IGNORECASE | re.DOTALL)


def _told(answer: requests.Response) -> str:
    """Return the words of an error answer; of a page for browsers, those that it is titled by."""
    inner, status = _document(answer), f" (HTTP {answer.status_code})"
    if inner is not None:
        text = inner.get("faultstring") or inner.get("description") or inner.get("title")
    else:
        text = answer.text[:100_000]
        if text.lstrip().startswith("<"):
            title = _TITLE.search(text)
            text = html.unescape(_TAG.sub(" ", title[2] if title else text))
            status = "" if text.lstrip().startswith(str(answer.status_code)) else status
    words = " ".join(str(text or "").split())[:2000] or answer.reason
    return f"{words}{status}"
