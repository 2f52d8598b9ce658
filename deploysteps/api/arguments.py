"""The arguments of queries, as JSON Schema: what :class:`~deploysteps.api.query.Query` takes."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from deploysteps.api import versions
from deploysteps.api.query import MOST_NAMES
from deploysteps.api.schemas import Schema

Arguments = dict[str, Schema]

TEXT: Schema = {"type": "string", "pattern": r"^[^\u0000\ud800-\udfff]*$"}
FLAG: Schema = {"type": "boolean"}
"""``Query.flag`` also takes the words that command-line clients send, such as ``yes`` and ``0``."""
UUID: Schema = {"type": "string", "format": "uuid"}


def listing(items: Schema) -> Schema:
    """Return what ``Query.names`` takes: separated by commas, or given several times."""
    return {"type": "array", "minItems": 1, "maxItems": MOST_NAMES, "items": items}


TEXTS: Schema = listing(TEXT)


def since(minor: int, schema: Schema) -> Schema:
    """Return a schema that says since which version its value may be given."""
    return {**schema, "x-since": f"1.{minor}"} if minor > versions.MIN else schema


def choice(values: Iterable[str]) -> Schema:
    """Return what one of these texts follows."""
    return {"type": "string", "enum": list(values)}


def page(sortable: Collection[str] = ()) -> Arguments:
    """Return what :func:`deploysteps.api.paging.asked` takes."""
    found: Arguments = {
        "limit": {"type": "integer", "minimum": 1, "maximum": 999_999_999},
        "marker": TEXT,
    }
    if sortable:
        found["sort_key"] = choice(["id", *sorted(sortable)])
        found["sort_dir"] = choice(["asc", "desc"])
    return found


def fields(table: Mapping[str, int], first: int = versions.LIST_FIELDS) -> Arguments:
    """Return what :func:`deploysteps.api.answers.fields_of` takes."""
    names = choice(table)
    return {"fields": since(first, listing(names))}


def detail(first: int = versions.LIST_DETAIL) -> Arguments:
    """Return what :func:`deploysteps.api.answers.detail_of` takes."""
    return {"detail": since(first, FLAG)}


def listed(table: Mapping[str, int]) -> Arguments:
    """Return what :func:`deploysteps.api.answers.listed_fields` takes."""
    return {**fields(table), **detail()}
