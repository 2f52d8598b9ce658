"""What a machine said of its settings and its firmware: queries, and how it is kept.

A list that is kept takes the place of the one before: what is not in it any
more goes, and what did not change keeps its times.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import sqlalchemy as sa

from deploysteps import exceptions
from deploysteps.db import types
from deploysteps.db.engine import Database
from deploysteps.db.machine_models import BIOSSetting, FirmwareComponent
from deploysteps.db.models import Base, table
from deploysteps.db.pages import fetch, rows_of

M = TypeVar("M", bound=Base)

_KEPT_HERE = frozenset({"node_id", "created_at", "updated_at"})
_LONGEST = 255


def fields(model: type[Base]) -> list[str]:
    """Return what a driver may tell of a setting or a component."""
    return [column.name for column in table(model).c if column.name not in _KEPT_HERE]


def settings_of(database: Database, node_id: int) -> list[BIOSSetting]:
    """Return a node's settings, by name."""
    return _of(database, BIOSSetting, node_id, "name")


def setting(database: Database, node_id: int, name: str) -> BIOSSetting | None:
    """Return one of a node's settings; None when there is none of this name."""
    query = rows_of(BIOSSetting).where(BIOSSetting.node_id == node_id, BIOSSetting.name == name)
    found = database.read(lambda c: fetch(c, BIOSSetting, query))
    # MariaDB does not see spaces at the end of a text.
    return next((one for one in found if one.name == name), None)


def components_of(database: Database, node_id: int) -> list[FirmwareComponent]:
    """Return a node's components, by name."""
    return _of(database, FirmwareComponent, node_id, "component")


def _of(database: Database, model: type[M], node_id: int, key: str) -> list[M]:
    columns = table(model).c
    query = rows_of(model).where(columns.node_id == node_id).order_by(columns[key])
    return database.read(lambda c: fetch(c, model, query))


def checked(model: type[Base], given: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return rows that a database holds, of what a driver says.

    :raises InvalidParameterValue: it is not what the table is for.
    """
    key, known = _key(model), fields(model)
    rows: dict[str, dict[str, Any]] = {}
    for number, item in enumerate(given):
        where = f"{model.__tablename__}[{number}]"
        if not isinstance(item, Mapping):
            raise exceptions.InvalidParameterValue(
                f"{where} is a {type(item).__name__}, not a dict with {', '.join(known)}"
            )
        unknown = sorted(str(name) for name in item if name not in known)
        if unknown:
            raise exceptions.InvalidParameterValue(
                f"{where} has {', '.join(unknown)}; there are {', '.join(known)}"
            )
        row = {name: _fitting(model, name, item.get(name), where) for name in known}
        # As the database has it; controllers pad names, and MariaDB does not see that.
        row[key] = types.scrub(row[key] or "").rstrip(" ")
        if not row[key]:
            raise exceptions.InvalidParameterValue(f"{where} has no {key}")
        if row[key] in rows:
            raise exceptions.InvalidParameterValue(f"{where} has the {key} of another one")
        rows[row[key]] = row
    return list(rows.values())


def keep(
    connection: sa.Connection, model: type[Base], node_id: int, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Make a node's rows these; ``then`` of a write under the node's lock.

    :param rows: from :func:`checked`.
    """
    columns, key, now = table(model).c, _key(model), types.utcnow()
    stored = {
        row[key]: row
        for row in connection.execute(
            sa.select(table(model)).where(columns.node_id == node_id)
        ).mappings()
    }
    wanted = {str(row[key]): dict(row) for row in rows}
    if model is FirmwareComponent:
        for name, row in wanted.items():
            _versions(row, stored.get(name))
    gone = [name for name in stored if name not in wanted]
    if gone:
        connection.execute(
            sa.delete(table(model)).where(columns.node_id == node_id, columns[key].in_(gone))
        )
    new = [row for name, row in wanted.items() if name not in stored]
    if new:
        connection.execute(
            sa.insert(table(model)),
            [{"node_id": node_id, "created_at": now, **row} for row in new],
        )
    for name, row in wanted.items():
        if name in stored and any(stored[name][field] != value for field, value in row.items()):
            connection.execute(
                sa.update(table(model))
                .where(columns.node_id == node_id, columns[key] == name)
                .values(updated_at=now, **row)
            )


def _versions(row: dict[str, Any], before: Mapping[Any, Any] | None) -> None:
    """Fill in what a driver does not tell: which version was first, and which was put there."""
    if before is None:
        row["initial_version"] = row["initial_version"] or row["current_version"]
        return
    changed = row["current_version"] not in (None, before["current_version"])
    row["initial_version"] = row["initial_version"] or before["initial_version"]
    row["last_version_flashed"] = row["last_version_flashed"] or (
        row["current_version"] if changed else before["last_version_flashed"]
    )


def _key(model: type[Base]) -> str:
    return "component" if model is FirmwareComponent else "name"


def _fitting(model: type[Base], name: str, value: Any, where: str) -> Any:
    column = table(model).c[name]
    if isinstance(column.type, types.Json):
        if value is None or (
            isinstance(value, list | tuple) and all(isinstance(item, str) for item in value)
        ):
            return None if value is None else list(value)
        raise exceptions.InvalidParameterValue(f"{where}.{name} is no list of texts")
    plain: Any = getattr(column.type, "impl_instance", column.type)
    kind = plain.python_type
    if value is None or (isinstance(value, kind) and (kind is bool or not isinstance(value, bool))):
        if kind is str and value is not None and getattr(plain, "length", None):
            _short_enough(value, f"{where}.{name}")
        if kind is int and value is not None and not -(2**63) <= value < 2**63:
            raise exceptions.InvalidParameterValue(f"{where}.{name} is too large a number")
        return value
    if name == "value" and isinstance(value, str | int | float | bool):
        return str(value)  # drivers tell numbers and flags as they are; the table has texts
    raise exceptions.InvalidParameterValue(
        f"{where}.{name} is a {type(value).__name__}, not {kind.__name__}"
    )


def _short_enough(value: str, where: str) -> None:
    if len(value) > _LONGEST:
        raise exceptions.InvalidParameterValue(
            f"{where} is too long: {len(value)} characters, at most {_LONGEST}"
        )
