"""What answers are put together from: JSON Schemas of values, lists, pages and things."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deploysteps.api.schemas import Schema

TEXT: Schema = {"type": "string"}
MAYBE_TEXT: Schema = {"type": ["string", "null"]}
FLAG: Schema = {"type": "boolean"}
MAYBE_FLAG: Schema = {"type": ["boolean", "null"]}
WHOLE: Schema = {"type": "integer", "minimum": 0}
OBJECT: Schema = {"type": "object"}
MAYBE_OBJECT: Schema = {"type": ["object", "null"]}
ANY: Schema = {}
_MOMENT = r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}\+00:00$"
TIME: Schema = {"type": "string", "format": "date-time", "pattern": _MOMENT}
MAYBE_TIME: Schema = {**TIME, "type": ["string", "null"]}
UUID: Schema = {"type": "string", "format": "uuid"}
MAYBE_UUID: Schema = {**UUID, "type": ["string", "null"]}
URL: Schema = {"type": "string", "format": "uri"}


def array(items: Schema, **more: Any) -> Schema:
    """Return what a list of these follows."""
    return {"type": "array", "items": items, **more}


def one_of(values: Any) -> Schema:
    """Return what one of these values follows; None among them stands for null."""
    values = list(values)
    return {"type": ["string", "null"] if None in values else "string", "enum": values}


def whole(title: str, /, **members: Schema) -> Schema:
    """Return what an object with all these members, and no others, follows."""
    return {
        "title": title,
        "type": "object",
        "properties": members,
        "required": list(members),
        "additionalProperties": False,
    }


def some(schema: Schema, *required: str, **more: Schema) -> Schema:
    """Return an object's schema with more members; only those named must be there."""
    return {
        **schema,
        "properties": {**schema["properties"], **more},
        "required": list(required),
    }


def shown(
    title: str,
    table: Mapping[str, int],
    types: Mapping[str, Schema],
    written: Schema | None = None,
    always: str | None = "links",
) -> Schema:
    """Return what a thing follows whose fields stand in a table of versions.

    :param types: field -> what its value is, where nobody writes it.
    :param written: what validates it when somebody writes it.
    :param always: the field that is there whatever ``fields=`` asks for.
    """
    members = written["properties"] if written is not None else {}
    properties = {
        name: {
            **(types[name] if name in types else _read(members.get(name, MAYBE_TEXT))),
            "x-since": f"1.{minor}",
        }
        for name, minor in table.items()
    }
    return {
        "title": title,
        "type": "object",
        "properties": properties,
        "required": [always] if always else [],
        "additionalProperties": False,
    }


def page(title: str, key: str, item: Schema, **more: Schema) -> Schema:
    """Return what :func:`deploysteps.api.paging.document` answers."""
    listed = whole(title, **{key: array(item)}, **more)
    return some(listed, *listed["properties"], next=URL)


def _read(written: Schema) -> Schema:
    """Return what a value is read as that was written as this: null gave the default."""
    kinds = written["type"] if isinstance(written["type"], list) else [written["type"]]
    if written.get("default") is not None:
        kinds = [kind for kind in kinds if kind != "null"]
    return {"type": kinds[0] if len(kinds) == 1 else kinds}


LINKS = array(whole("Link", href=URL, rel=one_of(["self", "bookmark"])))
TIMES: dict[str, Schema] = {"uuid": UUID, "created_at": TIME, "updated_at": MAYBE_TIME}
