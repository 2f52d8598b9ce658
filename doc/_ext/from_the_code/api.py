"""The reference of the REST API, from its OpenAPI document."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from oslo_config import cfg

from deploysteps import conf
from deploysteps.api import openapi
from deploysteps.api.app import create_app
from from_the_code.tables import table

Document = Mapping[str, Any]
_TITLES = {
    "service": "The service itself",
    "deploy_templates": "Deploy templates",
    "lookup": "What agents ask",
    "heartbeat": "What agents say",
}
_FIRST = "1.1"
_LONG = {
    "fields": "names of members of the answer, separated by commas",
    "sort_key": "``id``, or the name of a member of the answer",
    "provision_state": "one of :doc:`the states </states>`",
}
"""What would be a long list of words."""


def document() -> dict[str, Any]:
    """Return the document of this release, as a service without settings of its own has it."""
    settings = cfg.ConfigOpts()
    conf.register(settings)
    settings(args=[], default_config_files=[], default_config_dirs=[])
    # Nothing is asked of a database or a conductor: only what is declared is read.
    app = create_app(settings, None, None)  # type: ignore[arg-type]
    return openapi.document(app.served)


def operations() -> str:
    """Return every operation, by collection."""
    told = document()
    lines: list[str] = []
    for tag in (entry["name"] for entry in told["tags"]):
        lines += _heading(_TITLES.get(tag, tag.capitalize()), "-")
        for path, place in told["paths"].items():
            for method, operation in place.items():
                if method != "parameters" and operation["tags"] == [tag]:
                    lines += _operation(path, method.upper(), operation)
    return "\n".join(lines)


def schemas() -> str:
    """Return every schema that has a name."""
    told = document()
    lines: list[str] = []
    for name, schema in told["components"]["schemas"].items():
        lines += [f".. _schema-{name}:", "", *_heading(name, "-"), *_schema(schema)]
    return "\n".join(lines)


def _heading(title: str, line: str) -> list[str]:
    return [title, line * len(title), ""]


def _operation(path: str, method: str, operation: Document) -> Iterator[str]:
    yield from _heading(f"{method} {path}".replace("_", "\\_"), "~")
    yield operation["summary"] + "."
    yield ""
    facts = [("Since", operation["x-since"])] if operation["x-since"] != _FIRST else []
    rule = operation.get("x-rule")
    facts.append(("Policy", f"``{rule}``" if rule else "for everybody"))
    if "requestBody" in operation:
        body = operation["requestBody"]
        needed = "" if body["required"] else ", may be left out"
        facts.append(("Body", _content(body) + needed))
    for status, answer in operation["responses"].items():
        if "$ref" not in answer:
            facts.append((f"Answer {status}", _content(answer)))
    refused = sorted(s for s, answer in operation["responses"].items() if "$ref" in answer)
    facts.append(("Refusals", ", ".join(refused)))
    yield from (f":{name}: {text}" for name, text in facts)
    yield ""
    query = [one for one in operation["parameters"] if one.get("in") == "query"]
    if query:
        rows = [
            (f"``{one['name']}``", _LONG.get(one["name"]) or _kind(one["schema"]), _since(one))
            for one in query
        ]
        yield from table(("Argument", "Type", "Since"), rows, "24 62 14").splitlines()
        yield ""


def _content(thing: Document) -> str:
    """Return what a body is."""
    content = thing.get("content", {})
    kinds = [
        _kind(inner["schema"]) + ("" if media == openapi.JSON else f" (``{media}``)")
        for media, inner in content.items()
    ]
    return ", or ".join(kinds) or "no body"


def _schema(schema: Document) -> Iterator[str]:
    members = schema.get("properties", {})
    if schema.get("description"):
        yield from (schema["description"], "")
    if not members:
        yield from (f"{_kind(schema)}.", "")
        return
    required = schema.get("required", ())
    rows = [
        (
            f"``{name}``" + (" *" if name in required else ""),
            _LONG.get(name) or _kind(member) if "enum" in member else _kind(member),
            _since(member),
        )
        for name, member in members.items()
    ]
    yield from table(("Member", "Type", "Since"), rows, "30 56 14").splitlines()
    yield ""


def _since(thing: Document) -> str:
    since = str(thing.get("x-since", _FIRST))
    return "" if since == _FIRST else since


def _kind(schema: Document) -> str:
    """Return what a value is, in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f":ref:`{name} <schema-{name}>`"
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return " or ".join(_kind(one) for one in schema[word])
    if "x-values" in schema:
        return "one of " + ", ".join(
            f"``{value}``" + ("" if since == _FIRST else f" ({since})")
            for value, since in schema["x-values"].items()
        )
    if "enum" in schema:
        return "one of " + ", ".join(f"``{_json(value)}``" for value in schema["enum"])
    kinds = schema.get("type", "anything")
    told = " or ".join([kinds] if isinstance(kinds, str) else kinds)
    if "items" in schema:
        told = f"{told} of {_kind(schema['items'])}"
    limits = [
        f"{word} {schema[keyword]}".strip()
        for keyword, word in _LIMITS.items()
        if keyword in schema
    ]
    return f"{told} ({', '.join(limits)})" if limits else told


_LIMITS = {
    "format": "",
    "minimum": "from",
    "maximum": "to",
    "maxLength": "at most",
    "maxItems": "at most",
}


def _json(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value)
