"""What tests of the API share: a client that speaks its versions and its envelope."""

from __future__ import annotations

import json
from typing import Any

from falcon import testing

from deploysteps.api import middleware, versions
from deploysteps.api.app import create_app
from tests.support_openapi import Contract


class Answer:
    """An answer, with its error unwrapped."""

    def __init__(self, result: testing.Result) -> None:
        self.status = result.status_code
        self.headers = {name.lower(): value for name, value in result.headers.items()}
        self.text = result.text
        is_json = "json" in self.headers.get("content-type", "")
        self.body: Any = json.loads(result.text) if is_json and result.text else None

    @property
    def inner(self) -> dict[str, Any]:
        """The document inside the error envelope."""
        assert list(self.body) == ["error_message"], self.body
        assert isinstance(self.body["error_message"], str)
        return json.loads(self.body["error_message"])

    @property
    def fault(self) -> str:
        """The text of an error."""
        assert set(self.inner) == {"faultcode", "faultstring", "debuginfo"}, self.inner
        assert self.inner["faultcode"] == ("Client" if self.status < 500 else "Server")
        return str(self.inner["faultstring"])

    def __repr__(self) -> str:
        return f"<{self.status} {self.text[:500]}>"


class Api:
    """The application without a socket. ``version`` is a minor one; None sends no header."""

    def __init__(self, conf: Any, database: Any, client: Any) -> None:
        self.conf, self.database, self.client = conf, database, client
        self._app = create_app(conf, database, client)
        self._client = testing.TestClient(self._app)
        self._contract = Contract(self._app)

    def __call__(
        self,
        method: str,
        path: str,
        body: Any = None,
        *,
        version: int | None = versions.MAX,
        raw: bytes | None = None,
        headers: dict[str, str] | None = None,
    ) -> Answer:
        sent = {} if version is None else {middleware.HEADER: f"1.{version}"}
        path, _, query = path.partition("?")
        data = raw if raw is not None else None if body is None else json.dumps(body).encode()
        result = self._client.simulate_request(
            method, path, query_string=query, body=data, headers={**sent, **(headers or {})}
        )
        self._contract.hold(method, path, query, data, result)
        return Answer(result)

    def get(self, path: str, **more: Any) -> Answer:
        return self("GET", path, **more)

    def post(self, path: str, body: Any = None, **more: Any) -> Answer:
        return self("POST", path, body, **more)

    def put(self, path: str, body: Any = None, **more: Any) -> Answer:
        return self("PUT", path, body, **more)

    def patch(self, path: str, body: Any = None, **more: Any) -> Answer:
        return self("PATCH", path, body, **more)

    def delete(self, path: str, **more: Any) -> Answer:
        return self("DELETE", path, **more)


def quoted(text: str) -> str:
    """Return a text for a path or a query, lone surrogates included."""
    return "".join(f"%{byte:02x}" for byte in text.encode("utf-8", "surrogatepass"))


class Refusing:
    """A conductor whose every verb raises the same exception."""

    def __init__(self, exception: BaseException) -> None:
        self._exception = exception

    def __getattr__(self, name: str) -> Any:
        def verb(*args: Any, **kwargs: Any) -> Any:
            raise self._exception

        return verb


class Recording:
    """A conductor that does nothing and remembers what it was asked."""

    def __init__(self, **answers: Any) -> None:
        self.calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        def verb(context: Any, *args: Any, **kwargs: Any) -> Any:
            self.calls.append((name, args, kwargs))
            return self._answers.get(name)

        return verb
