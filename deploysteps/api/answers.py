"""How resources answer, and what they need before: the node or the fields asked for."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import falcon

from deploysteps import exceptions
from deploysteps.api import versions
from deploysteps.api.query import Query
from deploysteps.db import nodes, runbooks
from deploysteps.db.engine import Database
from deploysteps.db.models import Node, Runbook
from deploysteps.db.pages import is_uuid

_NAME = re.compile(r"[A-Za-z0-9._~-]{1,255}", re.ASCII)


def send(resp: falcon.Response, document: Any, status: int = 200) -> None:
    """Answer with JSON; ASCII only, so that no text can fail to be sent."""
    send_text(resp, json.dumps(document), status)


def send_text(resp: falcon.Response, text: str, status: int = 200) -> None:
    """Answer with what is JSON already, ASCII only."""
    resp.status = status
    resp.content_type = falcon.MEDIA_JSON
    resp.data = text.encode()


def done(resp: falcon.Response, status: int, location: str | None = None) -> None:
    """Answer without a body."""
    resp.status = status
    if location is not None:
        resp.location = location


def node_of(database: Database, ident: str, version: int) -> Node:
    """Return the node of a path.

    :raises NodeNotFound: there is none; names are no nodes before 1.5.
    """
    named = version >= versions.NODE_NAMES and _NAME.fullmatch(ident)
    if not (named or is_uuid(ident)):
        raise exceptions.NodeNotFound(node=ident[:255])
    return nodes.get(database, ident)


def is_ident(ident: str) -> bool:
    """Tell whether a text can be a uuid or a name at all."""
    return bool(_NAME.fullmatch(ident)) or is_uuid(ident)


def runbook_of(database: Database, ident: str) -> Runbook:
    """Return the runbook that a request's body names.

    :raises Invalid: there is none: a mistake in the body, not a wrong path.
    """
    if is_ident(ident):
        with suppress(exceptions.NotFound):
            return runbooks.get(database, ident)
    raise no_runbook(ident)


def no_runbook(ident: str) -> exceptions.Invalid:
    """Return the error of a request's body that names a runbook which is not there."""
    return exceptions.Invalid(f"Runbook {ident[:255]} could not be found.")


def fields_of(
    query: Query, table: Mapping[str, int], version: int, first: int = versions.LIST_FIELDS
) -> list[str] | None:
    """Return what ``fields=`` asks for, ``links`` added; None without it.

    :raises NotAcceptable: fields, or one of them, are newer than the request.
    :raises Invalid: for an unknown field.
    """
    wanted = query.names("fields")
    if wanted is None:
        return None
    versions.check("fields", {"fields": first}, version)
    unknown = [name for name in wanted if name not in table]
    if unknown:
        told = ", ".join(repr(name[:80]) for name in unknown[:5])
        raise exceptions.Invalid(f"Field(s) {told} are not valid.")
    versions.check_all(wanted, table, version)
    return list(dict.fromkeys([*wanted, "links"]))


def detail_of(query: Query, version: int, first: int = versions.LIST_DETAIL) -> bool:
    """Return what ``detail=`` asks for; before ``first`` there is no such argument."""
    return bool(query.flag("detail")) if version >= first else False


def listed_fields(
    query: Query,
    table: Mapping[str, int],
    short: Iterable[str],
    version: int,
    *,
    detail: bool,
) -> list[str]:
    """Return the fields that the items of a list have.

    :raises Invalid: when both ``fields`` and ``detail`` are asked for.
    """
    wanted = fields_of(query, table, version)
    detail = detail_of(query, version) or detail
    if detail and wanted is not None:
        raise exceptions.Invalid("Can't fetch a subset of fields with 'detail' set")
    return list(table) if detail else wanted or list(short)
