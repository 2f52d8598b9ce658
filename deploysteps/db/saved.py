"""Queries on what is named by a uuid or a name: templates, runbooks, chassis, portgroups."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, Generic, TypeVar
from uuid import uuid4

import sqlalchemy as sa

from deploysteps import exceptions
from deploysteps.db import types
from deploysteps.db.engine import Database
from deploysteps.db.group_models import Chassis, Portgroup
from deploysteps.db.models import DeployTemplate, Runbook, table
from deploysteps.db.pages import exists, fetch, is_uuid, page, rows_of, translating

M = TypeVar("M", DeployTemplate, Runbook)
"""What is a saved list of steps."""
R = TypeVar("R", DeployTemplate, Runbook, Chassis, Portgroup)

_GIVEN_HERE = frozenset({"id", "created_at", "updated_at"})


class Saved(Generic[R]):
    """One of these tables; a row is named by its uuid or its name.

    :param model: the table.
    :param missing: returns the error for a row that is not there.
    :param filters: what a list may be narrowed by: name -> condition of a value.
    """

    def __init__(
        self,
        model: type[R],
        missing: Callable[[str], exceptions.NotFound],
        filters: Mapping[str, Callable[[Any], sa.ColumnElement[bool]]] | None = None,
    ) -> None:
        """See the class."""
        self._model: type[R] = model
        self._missing = missing
        self.fields = tuple(c.name for c in table(model).c if c.name not in _GIVEN_HERE)
        """The columns that their user fills."""
        self._name: Any = getattr(model, "name", None)
        """The column with the name, if these have one."""
        self._filters = {"name_in": lambda v: self._name.in_(list(v)), **(filters or {})}

    def get(self, database: Database, ident: str) -> R:
        """Return the row of this uuid or name.

        :raises NotFound: there is none; the kind's own error.
        """
        return database.read(lambda c: self._get(c, ident))

    def values(self, row: R) -> dict[str, Any]:
        """Return the columns of a row that its user fills."""
        return {name: getattr(row, name) for name in self.fields}

    def listing(
        self,
        database: Database,
        *,
        filters: Mapping[str, Any] | None = None,
        limit: int | None = None,
        marker: str | None = None,
        sort_key: str = "id",
        sort_dir: str = "asc",
    ) -> list[R]:
        """Return a page of rows.

        :raises InvalidParameterValue: for an unknown filter or sort key.
        :raises NotFound: for an unknown marker (a uuid).
        """
        query = rows_of(self._model)
        for name, value in (filters or {}).items():
            if name not in self._filters:
                raise exceptions.InvalidParameterValue(
                    f"unknown filter {name!r} of {self._model.__tablename__}"
                )
            query = query.where(self._filters[name](value))
        return database.read(
            lambda c: page(
                query, self._model, c, limit=limit, marker=marker, sort_key=sort_key,
                sort_dir=sort_dir,
            )
        )  # fmt: skip

    def named(self, database: Database, names: Collection[str]) -> dict[str, R]:
        """Return name -> row of those that there are, in one query."""
        if not names:
            return {}
        query = rows_of(self._model).where(self._name.in_(list(names)))
        found = database.read(lambda c: fetch(c, self._model, query.order_by(self._name)))
        return {str(row.__dict__["name"]): row for row in found}

    def insert(self, database: Database, values: Mapping[str, Any]) -> R:
        """Insert a row and return it; it is given a uuid when it has none.

        :raises Conflict: its name or its uuid is taken; the kind's own error.
        """
        row = {**values, "uuid": (values.get("uuid") or str(uuid4())).lower()}
        with translating(row):
            database.write(
                lambda c: c.execute(sa.insert(self._model).values(row)) and None,
                happened=lambda c: exists(c, self._model, row["uuid"]),
            )
        return self.get(database, row["uuid"])

    def update(
        self,
        database: Database,
        ident: str,
        values: Mapping[str, Any],
        *,
        before: Mapping[str, Any] | None = None,
    ) -> R:
        """Change a row and return it.

        :param before: what these columns have to hold still.
        :raises NotFound: there is none.
        :raises Conflict: the new name is taken, or ``before`` is not true any more.
        """
        now = types.utcnow()

        def work(connection: sa.Connection) -> R:
            found = self._get(connection, ident, lock=True)
            for name, value in (before or {}).items():
                if types.encode(getattr(found, name)) != types.encode(value):
                    raise exceptions.Conflict(
                        f"{name} of {ident} was changed by another request meanwhile; "
                        "read it again and repeat the change"
                    )
            mine = self._model.id == found.id
            connection.execute(
                sa.update(self._model).where(mine).values({**values, "updated_at": now})
            )
            return fetch(connection, self._model, rows_of(self._model).where(mine))[0]

        def happened(connection: sa.Connection) -> bool:
            query = rows_of(self._model).where(self._model.updated_at == now)
            return bool(fetch(connection, self._model, query))

        with translating({**values, "uuid": ident}):
            return database.write(work, happened=happened)

    def delete(self, database: Database, ident: str) -> R:
        """Remove a row, and return what it was.

        :raises NotFound: there is none.
        """
        found = self.get(database, ident)
        gone = database.write(
            lambda c: c.execute(sa.delete(self._model).where(self._model.id == found.id)).rowcount,
            happened=lambda c: not exists(c, self._model, found.uuid),
        )
        if not gone:
            raise self._missing(ident)
        return found

    def _get(self, connection: sa.Connection, ident: str, *, lock: bool = False) -> R:
        by_uuid = is_uuid(ident)
        if not by_uuid and self._name is None:
            raise self._missing(ident)
        column = self._model.uuid if by_uuid else self._name
        query = rows_of(self._model).where(column == (ident.lower() if by_uuid else ident))
        found = fetch(connection, self._model, query.with_for_update() if lock else query)
        if not found:
            raise self._missing(ident)
        return found[0]
