"""Holds every exchange of a test against the OpenAPI document of the application.

A status, a media type, a body or an argument that is not declared fails the test that saw it.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any
from urllib.parse import parse_qs, unquote

import falcon
import jsonschema
import referencing
from falcon import testing
from referencing.jsonschema import DRAFT202012

from deploysteps.api import call, middleware, openapi
from deploysteps.api.validation import coerced

Document = dict[str, Any]
_WHERE = "urn:openapi"


class Told:
    """What a document says."""

    def __init__(self, document: Document) -> None:
        self.document = document
        whole = referencing.Resource(contents=document, specification=DRAFT202012)
        self.registry: Any = referencing.Registry().with_resource(_WHERE, whole)
        self.validators: dict[str, Any] = {}


_TOLD: dict[Any, Told] = {}
"""Version, and path with class -> the document; hundreds of applications of a run have one."""


class Contract:
    """What an application said of itself."""

    def __init__(self, app: Any) -> None:
        self.app = app

    @property
    def told(self) -> Told:
        served = self.app.served
        newest = served["/openapi.json"].services.newest
        key = (newest, *((path, type(resource)) for path, resource in served.items()))
        if key not in _TOLD:
            _TOLD[key] = Told(openapi.document(served, newest))
        return _TOLD[key]

    def read(self) -> Document:
        return self.told.document

    def resolved(self, thing: Document) -> Document:
        """Return what a reference stands for."""
        while "$ref" in thing:
            found: Any = self.read()
            for part in thing["$ref"].removeprefix("#/").split("/"):
                found = found[part]
            thing = {**found, **{k: v for k, v in thing.items() if k != "$ref"}}
        return thing

    def faults(self, schema: Document, value: Any) -> list[str]:
        """Return where a value does not follow a schema of the document."""
        told, key = self.told, json.dumps(schema, sort_keys=True)
        if key not in told.validators:
            told.validators[key] = jsonschema.Draft202012Validator(
                _absolute(schema), registry=told.registry
            )
        return [
            f"{error.json_path}: {error.message[:300]}"
            for error in told.validators[key].iter_errors(value)
        ]

    def hold(
        self, method: str, path: str, query: str, raw: bytes | None, result: testing.Result
    ) -> None:
        """Fail when an exchange is not what the document says."""
        found = self.app._router.find(unquote(path).rstrip("/") or "/")
        resource = found[0] if found else None
        told = f"{method} {path} answered {result.status_code}: {result.text[:300]}"
        status = result.status_code
        if method == "HEAD":  # no resource answers it, and an answer to it has no body
            assert status in (404, 405, 406), told
            return None
        if resource is None:
            assert status in (404, 406), told
            return self._error(result, told)
        if method not in resource.operations:
            assert status in (200, 405) if method == "OPTIONS" else status in (405, 406), told
            return None
        operation = self._operation(found[3], method)
        if operation is None:  # newer than a pinned process tells of
            assert 400 <= status < 500, told
            return self._error(result, told)
        assert str(status) in operation["responses"], f"{told}: the status is not declared"
        declared = operation["responses"][str(status)]
        answer = self.resolved(declared)
        self._body(answer, result, told)
        if declared.get("$ref", "").startswith(f"#/components/responses/Error{status}"):
            return self._error(result, told)
        self._versions(operation, answer, result, told)
        return self._asked(operation, resource, method, query, raw, told)

    def _operation(self, template: str, method: str) -> Document | None:
        paths = self.read()["paths"]
        place = paths.get(template) or paths.get(f"/v1{template}") or {}
        return place.get(method.lower())

    def _body(self, answer: Document, result: testing.Result, told: str) -> None:
        for name, header in answer.get("headers", {}).items():
            value = result.headers.get(name)
            if value is not None:
                schema = self.resolved(header)["schema"]
                given: Any = int(value) if schema["type"] == "integer" else value
                assert not self.faults(schema, given), f"{told}: {name}: {value}"
        media = result.headers.get("content-type", "").partition(";")[0]
        content = answer.get("content")
        if content is None:
            assert not result.content, f"{told}: a body is not declared"
            return
        assert media in content, f"{told}: {media} is not declared"
        schema = content[media]["schema"]
        value = json.loads(result.text) if media == falcon.MEDIA_JSON else result.text
        faults = self.faults(schema, value)
        assert not faults, f"{told}: {faults}"

    def _error(self, result: testing.Result, told: str) -> None:
        schema = self.read()["components"]["schemas"]["Error"]
        body = json.loads(result.text)
        assert not self.faults(schema, body), told
        inner = schema["properties"]["error_message"]["contentSchema"]
        assert not self.faults(inner, json.loads(body["error_message"])), told

    def _versions(
        self, operation: Document, answer: Document, result: testing.Result, told: str
    ) -> None:
        used = result.headers.get(middleware.HEADER)
        if used is None:
            return
        version = _minor(used)
        assert _minor(operation["x-since"]) <= version, f"{told}: too early"
        for content in answer.get("content", {}).values():
            if result.text and falcon.MEDIA_JSON in answer["content"]:
                self._early(content["schema"], json.loads(result.text), version, told)

    def _early(self, schema: Document, value: Any, version: int, told: str) -> None:
        """Fail when an answer has a field that is newer than the request."""
        schema = self.resolved(schema)
        if isinstance(value, list) and "items" in schema:
            for item in value:
                self._early(schema["items"], item, version, told)
        if isinstance(value, dict):
            for name, inner in schema.get("properties", {}).items():
                if name in value:
                    since = inner.get("x-since", "1.1")
                    assert _minor(since) <= version, f"{told}: {name} came in {since}"
                    self._early(inner, value[name], version, told)

    def _asked(
        self,
        operation: Document,
        resource: call.Resource,
        method: str,
        query: str,
        raw: bytes | None,
        told: str,
    ) -> None:
        """Fail when something was taken that is not declared."""
        declared = {p["name"] for p in operation["parameters"] if p.get("in") == "query"}
        taken = set(parse_qs(query, keep_blank_values=True))
        # The documents that every client reads first are given whatever is asked beside.
        assert taken <= declared or "x-rule" not in operation, f"{told}: {taken - declared}"
        if not (raw or b"").strip() or "requestBody" not in operation:
            return
        schema = operation["requestBody"]["content"][falcon.MEDIA_JSON]["schema"]
        body = resource.operations[method].body
        value = json.loads(raw or b"")
        faults = self.faults(schema, coerced(body or {}, value))
        assert not faults, f"{told}: the body was taken: {faults}"


def _absolute(schema: Any) -> Any:
    """Return a schema whose references name the document."""
    if isinstance(schema, list):
        return [_absolute(inner) for inner in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        name: _WHERE + value if name == "$ref" else _absolute(value)
        for name, value in schema.items()
    }


@cache
def _minor(version: str) -> int:
    return int(version.partition(".")[2])
