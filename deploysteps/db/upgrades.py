"""What an upgrade leaves to do: data that older programs wrote, and runs begun the old way.

A migration of the schema changes no rows: it has to be quick. (The seventh is
not, on MariaDB: it writes every table anew.) Rows of older programs are brought
up to date afterwards, a batch at a time, while services run; a later release may
then rely on it.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import sqlalchemy as sa
from oslo_db import exception as db_exc

from deploysteps import exceptions
from deploysteps.db.engine import Database, again
from deploysteps.db.failures import reason_of
from deploysteps.db.models import INTERFACE_COLUMNS, Base, Node, Port, StepAttempt, StepRun, table
from deploysteps.db.runs import BY_STEPS, OLD_WAY


class Batch(NamedTuple):
    """What came of one batch."""

    found: int
    """Rows that were to be changed when they were read."""
    done: int
    """Rows that were changed; others were changed by somebody else meanwhile."""


@dataclasses.dataclass(frozen=True)
class Migration(abc.ABC):
    """An online data migration: a column of rows of older programs is brought up to date.

    Only what is still old is written, in the statement that looks: a newer
    value, by whomever, is never replaced.
    """

    name: str
    model: type[Base]
    column: str

    @property
    def table(self) -> sa.Table:
        """The table that has the rows."""
        return table(self.model)

    @property
    @abc.abstractmethod
    def _old(self) -> sa.ColumnElement[bool]:
        """What rows that are not up to date have."""

    @property
    @abc.abstractmethod
    def _new(self) -> Any:
        """What they get."""

    def left(self, database: Database) -> int:
        """Count the rows that are not up to date."""
        query = sa.select(sa.func.count()).select_from(self.table).where(self._old)
        return int(database.read(lambda c: c.execute(query).scalar()) or 0)

    def batches(self, database: Database, size: int, most: int | None = None) -> Iterator[Batch]:
        """Change rows, ``size`` in a transaction, until none is found or ``most`` were.

        It goes through the table once, by its key: what an older program
        writes behind it is found by the next call.

        :raises Conflict: when all others are done: some cannot be changed.
        """
        columns = list(self.table.primary_key.columns)
        key = sa.tuple_(*columns)
        rows = sa.select(*columns).where(self._old).order_by(*columns)
        left = float("inf") if most is None else most
        taken: list[Any] = []
        while left > 0:
            with database.reading() as connection:
                keys = [tuple(row) for row in connection.execute(rows.limit(int(min(size, left))))]
            if not keys:
                break
            before = len(taken)
            done = self._change(database, key, keys, taken)
            yield Batch(len(keys) - len(taken) + before, done)
            left -= len(keys)
            # The first column again: MariaDB finds no place in an index by several.
            rows = rows.where(columns[0] >= keys[-1][0], key > keys[-1])
        if taken:
            ids = ", ".join(str(one[0]) for one in taken[:10])
            raise exceptions.Conflict(
                f"{self.column} of {len(taken)} of {self.table.name} is another one's, if it is "
                f"the same in capitals and in small letters; change one of each two (id {ids})"
            )

    def _change(self, database: Database, key: Any, keys: list[Any], taken: list[Any]) -> int:
        """Change these rows, and note those whose new value is another row's already."""
        change = sa.update(self.table).where(key.in_(keys), self._old)
        try:
            return _changed(database, change.values({self.column: self._new}))
        except db_exc.DBDuplicateEntry:
            half = len(keys) // 2
            if not half:
                taken.extend(keys)
                return 0
            parts = (keys[:half], keys[half:])
            return sum(self._change(database, key, part, taken) for part in parts)


def _changed(database: Database, change: sa.Update) -> int:
    return database.write(lambda c: c.execute(change).rowcount, happened=again)


@dataclasses.dataclass(frozen=True)
class Fill(Migration):
    """Null becomes the value that it stands for."""

    value: Any

    @property
    def _old(self) -> sa.ColumnElement[bool]:
        return self.table.c[self.column].is_(None)

    @property
    def _new(self) -> Any:
        return self.value


class SmallLetters(Migration):
    """A UUID in capitals becomes one in small letters, by which it is looked for."""

    @property
    def _old(self) -> sa.ColumnElement[bool]:
        differs: sa.ColumnElement[bool] = self.table.c[self.column] != self._new
        return differs

    @property
    def _new(self) -> Any:
        return sa.func.lower(self.table.c[self.column])


MIGRATIONS: tuple[Migration, ...] = (
    Fill("mechanism of runs", StepRun, "mechanism", BY_STEPS),
    Fill("reboot of attempts", StepAttempt, "reboot", False),
    SmallLetters("instance of nodes", Node, "instance_uuid"),
    SmallLetters("chassis of nodes", Node, "chassis_uuid"),
    SmallLetters("portgroup of ports", Port, "portgroup_uuid"),
)
"""Every online data migration, the oldest first. One is taken out when no program
that is compatible with the schema needs it any more."""


@dataclasses.dataclass
class Result:
    """What came of one migration."""

    name: str
    table: str
    found: int = 0
    done: int = 0
    left: int = 0
    error: str | None = None


def migrate(
    database: Database,
    *,
    max_count: int | None = None,
    batch: int = 500,
    progress: Callable[[Result], None] = lambda result: None,
) -> list[Result]:
    """Run every migration, and count what is left in each table afterwards.

    It may be broken off and called again, and several may run at once.

    :param max_count: how many rows to change at most, over all of them.
    :param progress: is told of every batch.
    """
    results: list[Result] = []
    for one in MIGRATIONS:
        result = Result(one.name, one.table.name)
        used = sum(earlier.found for earlier in results)
        results.append(result)
        try:
            room = None if max_count is None else max_count - used
            for found, done in one.batches(database, batch, room):
                result.found, result.done = result.found + found, result.done + done
                progress(result)
        except Exception as exc:  # the others may go on, and what is left is told
            result.error = reason_of(exc)
    for one, result in zip(MIGRATIONS, results, strict=True):
        result.left = one.left(database)
    return results


def leftovers(database: Database) -> Mapping[str, int]:
    """Return table -> rows that an online data migration has to change still."""
    found: dict[str, int] = {}
    for one in MIGRATIONS:
        found[one.table.name] = found.get(one.table.name, 0) + one.left(database)
    return {name: count for name, count in found.items() if count}


def begun_the_old_way(database: Database, limit: int) -> tuple[list[str], int]:
    """Return uuids of nodes whose deployment runs the old way, and how many there are."""
    nodes, runs = table(Node), table(StepRun)
    going_on = sa.select(runs.c.node_id).where(
        runs.c.mechanism == OLD_WAY, runs.c.finished_at.is_(None)
    )
    theirs = nodes.c.id.in_(going_on)
    query = sa.select(nodes.c.uuid).where(theirs).order_by(nodes.c.id).limit(limit)
    count = sa.select(sa.func.count()).select_from(nodes).where(theirs)

    def work(connection: sa.Connection) -> tuple[list[str], int]:
        uuids = list(connection.execute(query).scalars())
        return uuids, int(connection.execute(count).scalar() or 0)

    return database.read(work)


def in_use(database: Database) -> list[tuple[Any, int]]:
    """Return what nodes have as their driver and interfaces, and how many have it.

    Each a row with a node's columns of that kind, and one's ``uuid``.
    """
    nodes = table(Node)
    columns = [nodes.c.driver, *(nodes.c[name] for name in INTERFACE_COLUMNS.values())]
    query = (
        sa.select(sa.func.min(nodes.c.uuid).label("uuid"), sa.func.count(), *columns)
        .group_by(*columns)
        .order_by(sa.literal_column("1"))
    )
    return [(row, int(row[1])) for row in database.read(lambda c: list(c.execute(query).all()))]
