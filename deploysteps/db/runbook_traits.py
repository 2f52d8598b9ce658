"""Queries on the traits that runbooks are for."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import sqlalchemy as sa

from deploysteps import exceptions
from deploysteps.db import traits
from deploysteps.db.engine import Database
from deploysteps.db.group_models import RunbookTrait
from deploysteps.db.models import Runbook, table

_T, _R = table(RunbookTrait), table(Runbook)


def of_runbook(database: Database, runbook_id: int) -> list[str]:
    """Return the traits of a runbook, sorted."""
    return of_runbooks(database, [runbook_id])[runbook_id]


def of_runbooks(database: Database, runbook_ids: Sequence[int]) -> dict[int, list[str]]:
    """Return runbook id -> its traits, sorted, in one query."""
    found: dict[int, list[str]] = {runbook_id: [] for runbook_id in runbook_ids}
    query = sa.select(_T.c.runbook_id, _T.c.trait).where(_T.c.runbook_id.in_(runbook_ids))
    rows = database.read(lambda c: c.execute(query).all()) if runbook_ids else ()
    for runbook_id, trait in sorted((row[0], row[1]) for row in rows):
        found[runbook_id].append(trait)
    return found


def change(
    database: Database,
    runbook_id: int,
    *,
    replace: Iterable[str] | None = None,
    add: Iterable[str] = (),
    remove: Iterable[str] = (),
) -> list[str]:
    """Change a runbook's traits in one transaction, and return those that it has then.

    To remove one that it does not have changes nothing, as in the field.

    :raises InvalidParameterValue: a name that cannot be one, or too many.
    :raises RunbookNotFound: the runbook is gone.
    """
    given = None if replace is None else frozenset(replace)
    more, less = frozenset(add), frozenset(remove)
    for name in sorted({*(given or ()), *more}, key=str):
        traits.check_name(name)
    after: list[str] = []

    def work(connection: sa.Connection) -> list[str]:
        # Two at once would each see room for the last one.
        row = sa.select(_R.c.name).where(_R.c.id == runbook_id).with_for_update()
        runbook = connection.execute(row).scalar()
        if runbook is None:
            raise exceptions.RunbookNotFound(runbook=runbook_id)
        before = frozenset(_of(connection, runbook_id))
        after[:] = sorted(((before if given is None else given) - less) | more)
        if len(after) > traits.MAX_TRAITS:
            raise exceptions.InvalidParameterValue(
                f"Runbook {runbook} would have {len(after)} traits; it may have at most "
                f"{traits.MAX_TRAITS}"
            )
        gone = sorted(before.difference(after))
        new = [{"runbook_id": runbook_id, "trait": name} for name in after if name not in before]
        if gone:
            mine = sa.delete(_T).where(_T.c.runbook_id == runbook_id)
            connection.execute(mine.where(_T.c.trait.in_(gone)))
        if new:
            connection.execute(sa.insert(_T), new)
        return list(after)

    return database.write(work, happened=lambda c: _of(c, runbook_id) == after)


def _of(connection: sa.Connection, runbook_id: int) -> list[str]:
    query = sa.select(_T.c.trait).where(_T.c.runbook_id == runbook_id)
    return sorted(connection.execute(query).scalars())
