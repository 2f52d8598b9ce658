"""What every query needs: detached objects, pages, and errors in words."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar, cast
from uuid import UUID

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import orm

from deploysteps import exceptions
from deploysteps.db import types
from deploysteps.db.models import Base, Node, table

M = TypeVar("M", bound=Base)


def is_uuid(text: object) -> bool:
    """Tell whether a text is a UUID in its usual form."""
    try:
        return str(UUID(str(text))) == str(text).lower()
    except ValueError:
        return False


@functools.cache
def rows_of(model: type[M]) -> sa.Select[Any]:
    """Return the query for a model's rows, to be narrowed and given to :func:`fetch`."""
    return sa.select(table(model))


@functools.cache
def _hydration(model: type[Base]) -> tuple[Callable[[], Any], tuple[str, ...]]:
    """Return what makes an empty object, and its attributes in the table's order."""
    orm.configure_mappers()  # else an object made past the session has no attributes
    mapper: orm.Mapper[Any] = sa.inspect(model)
    keys = tuple(mapper.get_property_by_column(column).key for column in table(model).c)
    return mapper.class_manager.new_instance, keys


def made(model: type[M], **values: Any) -> M:
    """Return a detached object of these values; what is not named is None.

    For what is made once a step: a fifth of the constructor's cost.
    """
    make, keys = _hydration(model)
    item: M = make()
    item.__dict__.update(dict.fromkeys(keys))
    item.__dict__.update(values)
    return item


def of_row(model: type[M], row: Sequence[Any]) -> M:
    """Return a detached object of the values of a row, in the table's order."""
    make, keys = _hydration(model)
    item: M = make()
    item.__dict__.update(zip(keys, row, strict=True))
    return item


def fetch(
    connection: sa.Connection,
    model: type[M],
    query: sa.Select[Any],
    values: Mapping[str, Any] | None = None,
) -> list[M]:
    """Return the objects of a query of :func:`rows_of`, detached.

    Past the session, whose bookkeeping costs more than the query and is of
    no use for objects that are handed out.
    """
    make, keys = _hydration(model)
    found: list[M] = []
    for row in connection.execute(query, values or {}):
        item = make()
        item.__dict__.update(zip(keys, row, strict=True))
        found.append(item)
    for item in found:
        if isinstance(item, Node):
            item.mark_loaded()
    return found


_SORTED_BY = 250
"""Characters of a long text that it is sorted by: fewer than MariaDB's ``max_sort_length``."""


def sortable(model: type[Base]) -> frozenset[str]:
    """Return the columns that :func:`paged` sorts by: all that are not JSON."""
    columns = model.__table__.columns
    return frozenset(one.key for one in columns if not isinstance(one.type, types.Json))


def page(
    query: sa.Select[Any],
    model: type[M],
    connection: sa.Connection,
    *,
    limit: int | None,
    marker: str | None,
    sort_key: str,
    sort_dir: str,
) -> list[M]:
    """Return one page of a query; see :func:`paged`."""
    query = paged(
        query,
        model,
        connection,
        limit=limit,
        marker=marker,
        sort_key=sort_key,
        sort_dir=sort_dir,
    )
    return fetch(connection, model, query)


def paged(
    query: sa.Select[Any],
    model: type[Base],
    connection: sa.Connection,
    *,
    limit: int | None,
    marker: str | None,
    sort_key: str,
    sort_dir: str,
) -> sa.Select[Any]:
    """Return the query of one page of a query, after the row whose uuid is ``marker``.

    :raises InvalidParameterValue: for a column that cannot be sorted by.
    :raises NotFound: for an unknown marker.
    """
    column: Any = model.__table__.c.get(sort_key)
    if column is None or isinstance(column.type, types.Json):
        raise exceptions.InvalidParameterValue(
            f"The sort_key value {sort_key!r} is an invalid field for sorting"
        )
    row_id = model.__table__.c.id
    nullable = column.nullable
    if isinstance(column.type, types.LongText):
        # MariaDB sorts by the beginning of a text, and would compare the marker's as a whole
        column = sa.func.substr(column, 1, _SORTED_BY, type_=column.type)
    if sort_dir not in ("asc", "desc"):
        raise exceptions.InvalidParameterValue(f"sort_dir is asc or desc, not {sort_dir!r}")
    down = sort_dir == "desc"
    if marker is not None:
        at = connection.execute(
            sa.select(column, row_id).where(model.__table__.c.uuid == marker)
        ).first()
        if at is None:
            raise exceptions.NotFound(f"Marker {marker} could not be found.")
        query = query.where(_after(column, row_id, at[0], at[1], down=down))
    order: list[Any] = [row_id]
    if column is not row_id:
        order.insert(0, column)
    order = [by.desc() if down else by.asc() for by in order]
    if nullable:
        order.insert(0, column.is_(None))  # last, whichever way the rest goes
    query = query.order_by(*order)
    return query.limit(limit) if limit else query


def _after(
    column: sa.ColumnElement[Any],
    row_id: sa.ColumnElement[Any],
    value: Any,
    last: int,
    *,
    down: bool,
) -> sa.ColumnElement[bool]:
    further = row_id < last if down else row_id > last
    if column is row_id:
        return further
    if value is None:
        return sa.and_(column.is_(None), further)
    at = sa.bindparam(None, value, type_=column.type)  # a plain True cannot be compared with
    beyond = column < at if down else column > at
    return sa.or_(beyond, column.is_(None), sa.and_(column == at, further))


def has(column: Any) -> sa.ColumnElement[bool]:
    """Return the condition that a text is there, so that SQLite looks it up in an index."""
    return cast("sa.ColumnElement[bool]", column >= "")


def exists(connection: sa.Connection, model: type[M], uuid: str) -> bool:
    """Tell whether a row of this uuid is there."""
    query = sa.select(sa.literal(1)).where(model.__table__.c.uuid == uuid)
    return connection.execute(query).first() is not None


# (table, column) -> the error, and which of its arguments are which columns.
_CLASHES: dict[tuple[str, str], tuple[type[exceptions.Conflict], dict[str, str]]] = {
    ("nodes", "uuid"): (exceptions.NodeAlreadyExists, {"uuid": "uuid"}),
    ("nodes", "name"): (exceptions.DuplicateName, {"name": "name"}),
    ("nodes", "instance_uuid"): (
        exceptions.InstanceAssociated,
        {"instance_uuid": "instance_uuid", "node": "uuid"},
    ),
    ("ports", "uuid"): (exceptions.PortAlreadyExists, {"uuid": "uuid"}),
    ("ports", "name"): (exceptions.DuplicatePortName, {"name": "name"}),
    ("ports", "address"): (exceptions.MACAlreadyExists, {"mac": "address"}),
    ("deploy_templates", "uuid"): (exceptions.DeployTemplateAlreadyExists, {"uuid": "uuid"}),
    ("deploy_templates", "name"): (exceptions.DeployTemplateDuplicateName, {"name": "name"}),
    ("runbooks", "uuid"): (exceptions.RunbookAlreadyExists, {"uuid": "uuid"}),
    ("runbooks", "name"): (exceptions.RunbookDuplicateName, {"name": "name"}),
    ("allocations", "uuid"): (exceptions.AllocationAlreadyExists, {"uuid": "uuid"}),
    ("allocations", "name"): (exceptions.AllocationDuplicateName, {"name": "name"}),
    ("allocations", "node_id"): (exceptions.NodeHasAllocation, {"node": "uuid"}),
    ("chassis", "uuid"): (exceptions.ChassisAlreadyExists, {"uuid": "uuid"}),
    ("portgroups", "uuid"): (exceptions.PortgroupAlreadyExists, {"uuid": "uuid"}),
    ("portgroups", "name"): (exceptions.PortgroupDuplicateName, {"name": "name"}),
    ("portgroups", "address"): (exceptions.PortgroupMACAlreadyExists, {"mac": "address"}),
}
# How each database names the constraint; anchored, since the text quotes
# the value as well, and that may look like anything.
_CLASH = re.compile(
    r"""(?:UNIQUE constraint failed: |constraint "uq_|for key \\?'(?:\w+\.)?uq_)"""
    rf"({'|'.join({name for name, _ in _CLASHES})})[._]"
    rf"({'|'.join({column for _, column in _CLASHES})})\b",
)


@contextmanager
def translating(values: Mapping[str, Any]) -> Iterator[None]:
    """Turn a database's duplicate error into words about ``values``.

    Its text names the constraint (servers) or the column (SQLite), and both
    are spelled <table>, a sign, <column>.
    """
    try:
        yield
    except db_exc.DBDuplicateEntry as exc:
        found = _CLASH.search(str(getattr(exc.inner_exception, "orig", exc)))
        if found is None:
            raise
        error, named = _CLASHES[found[1], found[2]]
        raise error(**{name: values.get(column) for name, column in named.items()}) from exc
