"""``/openapi.json``: the API as an OpenAPI 3.1 document.

It is made from what every resource declares in ``operations``, whose schemas are those that
validate bodies; from the version tables come ``x-since`` of operations, fields and arguments, and
from the declarations ``x-rule``, the policy rule. A process that is pinned to an older release
tells of what that release has.
"""

from __future__ import annotations

import http
import json
import re
from collections.abc import Iterable, Mapping
from importlib import metadata
from typing import Any, ClassVar

import falcon

from deploysteps.access import rules
from deploysteps.api import (
    answer_schemas,
    call,
    descriptions,
    errors,
    middleware,
    schemas,
    versions,
)
from deploysteps.api.operations import Operation
from deploysteps.api.schemas import Schema

Document = dict[str, Any]
Resources = Mapping[str, call.Resource]

JSON = falcon.MEDIA_JSON
_ALWAYS = (400, 404, 406, 500, 503)
_OF_CALLERS = (401, 403)
_OF_BODIES = (408, 413)
_BOOKMARKS = re.compile(r"/(?!v1(/|$))")
_SUBSCHEMAS = ("items", "additionalProperties", "not", "if", "then", "else", "contentSchema")
_LISTS = ("anyOf", "allOf", "oneOf")
SCHEMES: Document = {
    "basic": {"type": "http", "scheme": "basic"},
    "token": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"},
}
_STRATEGIES = {"noauth": (), "http_basic": ("basic",), "keystone": ("token",)}
_OPEN = (None, *rules.OPEN)
_OURS = ("$schema", "x-media")
"""Members of schemas that are not published."""
_ABOUT = (
    "The bare-metal API, version 1, as deploysteps speaks it. A request without a version header "
    "is of version 1.1; `x-since` says with which version an operation, an argument or a field "
    "came. What answers below `/v1` also answers without it, where the `bookmark` links lead, and "
    "every path with a slash at its end. Errors are a JSON document in a string in `error_message`."
)


class OpenApi(call.Resource):
    """``/openapi.json``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "GET": Operation(summary="Show this document", rule=None, answers={200: {"type": "object"}})
    }

    def __init__(self, services: call.Services, served: Resources) -> None:
        """Tell of what is served: path -> resource, this one with them."""
        super().__init__(services)
        self._served = served
        self._text: str | None = None

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Tell what the API is; the same for everybody, so it is made once."""
        if self._text is None:
            asked = _STRATEGIES[self.conf.auth_strategy]
            self._text = json.dumps(document(self._served, self.services.newest, asked))
        servers = json.dumps({"servers": [{"url": self.services.base(req) or "/"}]})
        resp.content_type = JSON
        resp.data = f"{servers[:-1]}, {self._text[1:]}".encode()


def document(
    served: Resources, newest: int = versions.MAX, schemes: Iterable[str] = ("basic", "token")
) -> Document:
    """Return the document, without ``servers``.

    :param served: path -> what answers there.
    :param newest: the newest version to tell of.
    :param schemes: of those of :data:`SCHEMES`, the ones by which a caller may say who he is.
    """
    made = _Maker(newest, schemes)
    operations = [
        (path, method, operation)
        for path, resource in served.items()
        for method, operation in resource.operations.items()
        if operation.since <= newest
    ]
    paths: dict[str, Document] = {}
    for path, method, operation in operations:
        place = paths.setdefault(path, _place(path))
        place[method.lower()] = made.operation(path, method, operation)
    _link(paths)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "deploysteps",
            "version": f"1.{newest}",
            "summary": f"deploysteps {metadata.version('deploysteps')}",
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "tags": [{"name": name} for name in dict.fromkeys(tag(path) for path in paths)],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(made.named.items())),
            "parameters": _version_parameters(newest),
            "headers": _HEADERS,
            "responses": dict(sorted(made.refusals.items())),
            "securitySchemes": SCHEMES,
        },
    }


def tag(path: str) -> str:
    """Return the group of a path: its collection."""
    parts = path.removeprefix("/v1").strip("/").split("/")
    return parts[0] if path.startswith("/v1/") else "service"


def operation_id(path: str, method: str) -> str:
    """Return the name of an operation, e.g. ``get_nodes_ident_states``."""
    words = re.findall(r"\w+", path.removeprefix("/v1/") if path != "/v1" else path)
    return "_".join([method.lower(), *(words or ["versions"])])


class _Maker:
    """Makes operations; collects the schemas that have a name."""

    def __init__(self, newest: int, schemes: Iterable[str]) -> None:
        self._newest = newest
        self._security = [{name: list[str]()} for name in schemes]
        self._held: dict[str, Schema] = {}
        self.named: dict[str, Schema] = {}
        self.refusals: dict[str, Document] = {}

    def operation(self, path: str, method: str, operation: Operation) -> Document:
        """Return an operation."""
        public = operation.rule is None
        refused = [
            *_ALWAYS,
            *(() if public else _OF_CALLERS),
            *(() if operation.body is None else _OF_BODIES),
            *operation.errors,
        ]
        made: Document = {
            "operationId": operation_id(path, method),
            "summary": operation.summary,
            "tags": [tag(path)],
            "parameters": [
                {"$ref": "#/components/parameters/IronicVersion"},
                {"$ref": "#/components/parameters/OpenStackVersion"},
                *self._query(operation.query),
            ],
            "responses": {
                **{
                    str(status): self._answer(status, schema)
                    for status, schema in operation.answers.items()
                },
                **{
                    str(status): self._refusal(status, path)
                    for status in sorted(set(refused) - set(operation.answers))
                },
            },
            "security": [] if operation.rule in _OPEN else self._security,
            "x-since": f"1.{operation.since}",
        }
        if operation.rule is not None:
            made["x-rule"] = operation.rule
        if operation.body is not None:
            made["requestBody"] = self._body(operation.body, operation.members)
        return made

    def schema(self, schema: Schema, members: Mapping[str, int] | None = None) -> Schema:
        """Return a schema as it is published: in the components, if it has a name.

        :param members: property -> the version it came with.
        """
        name = schema.get("title") or _BODIES.get(id(schema))
        if name is None:
            return self._plain(schema, members or {})
        if self._held.setdefault(name, schema) != schema:
            raise ValueError(f"two schemas have the title {name!r}")
        if name not in self.named:
            self.named[name] = {}  # a place is taken: what is inside may refer to it
            self.named[name] = self._plain(schema, members or {})
        return {"$ref": f"#/components/schemas/{name}"}

    def _plain(self, schema: Schema, members: Mapping[str, int]) -> Schema:
        shown = {name: value for name, value in schema.items() if name not in _OURS}
        if "properties" in schema:
            owner = schema.get("title") or _BODIES.get(id(schema), "")
            shown["properties"] = {
                name: _described(self._member(name, inner, members), owner, name)
                for name, inner in schema["properties"].items()
                if members.get(name, versions.MIN) <= self._newest and self._is_there(inner)
            }
        if "required" in shown:
            there = shown.get("properties", shown["required"])
            shown["required"] = [name for name in schema["required"] if name in there]
        if "pattern" in shown:
            shown["pattern"] = _portable(shown["pattern"])
        if shown.pop("readOnly", False):
            # OpenAPI's word means what a request may never have.
            shown["x-create-only"] = True
        for keyword in _SUBSCHEMAS:
            if isinstance(schema.get(keyword), dict):
                shown[keyword] = self.schema(schema[keyword])
        for keyword in _LISTS:
            if keyword in schema:
                shown[keyword] = [self.schema(inner) for inner in schema[keyword]]
        return shown

    def _member(self, name: str, schema: Schema, members: Mapping[str, int]) -> Schema:
        since = {"x-since": f"1.{members[name]}"} if name in members else {}
        if name in schemas.STEPS and schema == schemas.LATER_STEPS:
            anything = [self.schema(schemas.STEPS[name]), {"type": "null"}]
            return {"anyOf": anything, **since}
        shown = self.schema(schema)
        # Beside a reference there may stand more in 3.1.
        return {**shown, **since}

    def _is_there(self, schema: Schema) -> bool:
        since = str(schema.get("x-since", "1.1"))
        return int(since.partition(".")[2]) <= self._newest

    def _query(self, query: Mapping[str, Schema]) -> Iterable[Document]:
        for name, schema in query.items():
            if not self._is_there(schema):
                continue
            since = schema.get("x-since")
            shown = {key: value for key, value in schema.items() if key != "x-since"}
            made: Document = {"name": name, "in": "query", "schema": self.schema(shown)}
            if schema.get("type") == "array":
                made.update(style="form", explode=False)
            if since is not None:
                made["x-since"] = since
            yield made

    def _body(self, body: Schema, members: Mapping[str, int]) -> Document:
        needed = bool(body.get("required")) or body.get("type") != "object"
        content = {JSON: {"schema": self.schema(body, members)}}
        return {"required": needed, "content": content}

    def _answer(self, status: int, schema: Schema | None) -> Document:
        place = status in (201, 202)
        made: Document = {
            "description": http.HTTPStatus(status).phrase,
            "headers": {**_ALL_HEADERS, **_OK_HEADERS, **(_LOCATION if place else {})},
        }
        if schema is not None:
            kinds = schema.get("x-media") or [schema.get("contentMediaType", JSON)]
            made["content"] = {media: {"schema": self.schema(schema)} for media in kinds}
        return made

    def _refusal(self, status: int, path: str) -> Document:
        when = errors.told_when(status, path)
        name = f"Error{status}{'AndWhen' if when else ''}"
        if name not in self.refusals:
            self.refusals[name] = {
                "description": http.HTTPStatus(status).phrase,
                "headers": {**_ALL_HEADERS, **(_RETRY if when else {})},
                "content": {JSON: {"schema": self.schema(answer_schemas.ERROR)}},
            }
        return {"$ref": f"#/components/responses/{name}"}


def _described(shown: Schema, owner: str, name: str) -> Schema:
    """Return a member with what it means, before what it has to look like."""
    meaning, form = descriptions.of(owner, name), shown.get("description")
    told = " ".join(part for part in (meaning, form and f"It is {form}.") if part)
    if meaning and form and form[:1].isupper():
        told = f"{meaning} {form}"
    return {**shown, "description": told} if told else shown


def _portable(pattern: str) -> str:
    """Return a pattern in the words that other engines than Python's know, too.

    Their ``$`` is the end, and most have no word for lone surrogates, which their texts lack.
    """
    return pattern.replace(r"(?!\n)", "").replace(r"\ud800-\udfff", "")


def _version_parameters(newest: int) -> Document:
    there = ["latest", *(f"1.{minor}" for minor in range(newest, versions.MIN - 1, -1))]
    return {
        "IronicVersion": {
            "name": middleware.HEADER,
            "in": "header",
            "description": "The version that the request is of; 1.1 without it.",
            "schema": {"type": "string", "enum": there},
        },
        "OpenStackVersion": {
            "name": "OpenStack-API-Version",
            "in": "header",
            "description": "The same, in the words of all OpenStack services.",
            "schema": {"type": "string", "enum": [f"{middleware.SERVICE} {v}" for v in there]},
        },
    }


def _place(path: str) -> Document:
    parameters = [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _IN_PATHS.get(name, name),
            "schema": {"type": "string", "minLength": 1},
        }
        for name in re.findall(r"{(\w+)}", path)
    ]
    return {"parameters": parameters} if parameters else {}


def _link(paths: Mapping[str, Document]) -> None:
    """Say in answers that create something where it is found."""
    for path, place in paths.items():
        created = place.get("post", {}).get("responses", {}).get("201")
        if created is None:
            continue
        created["links"] = {
            operation["operationId"]: {
                "operationId": operation["operationId"],
                "parameters": {"path.ident": "$response.body#/uuid"},
            }
            for below, operations in paths.items()
            if below.startswith(f"{path}/{{ident}}") and below.count("{") == 1
            for method, operation in operations.items()
            if method != "parameters"
        }


def _bodies() -> dict[int, str]:
    """Return the identity of each schema of a body -> the name it is published under."""
    return {
        id(schema): "".join(word.capitalize() for word in name.split("_")) + "Body"
        for name, schema in vars(schemas).items()
        if isinstance(schema, dict) and "$schema" in schema
    }


_BODIES = _bodies()
_IN_PATHS = {
    "ident": "UUID, or name where the thing has one.",
    "name": "Name.",
    "trait": "Name of the trait.",
    "entry": "UUID of the entry.",
}
_HEADERS: Document = {
    "RequestId": {
        "description": "The request, as the log of the service names it.",
        "schema": {"type": "string", "pattern": "^req-[0-9a-f-]{36}$"},
    },
    "Version": {
        "description": "The version that was used.",
        "schema": {"type": "string", "pattern": r"^1\.[0-9]+$"},
    },
    "Location": {
        "description": "Where to look at what was made or begun.",
        "schema": {"type": "string", "format": "uri-reference"},
    },
    "RetryAfter": {
        "description": "Seconds to wait before the request is sent again; agents and readers of "
        "streams are told.",
        "schema": {"type": "integer"},
    },
}


def _header(name: str) -> Document:
    return {"$ref": f"#/components/headers/{name}"}


_ALL_HEADERS = {name: _header("RequestId") for name in middleware.REQUEST_ID_HEADERS}
_OK_HEADERS = {
    name: _header("Version")
    for name in (middleware.HEADER, middleware.MIN_HEADER, middleware.MAX_HEADER)
}
_LOCATION = {"Location": _header("Location")}
_RETRY = {"Retry-After": _header("RetryAfter")}
