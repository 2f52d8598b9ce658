"""The schema: made, upgraded, and recognised.

A rolling upgrade migrates first, so a program may meet a newer schema. Each
migration leaves its position in ``schema_revisions`` together with the oldest
position whose programs still work on it; see ``alembic/script.py.mako``.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from oslo_db import exception as db_exc
from sqlalchemy import exc as sa_exc

from deploysteps import exceptions
from deploysteps.db import types
from deploysteps.db.engine import Database, reason_of
from deploysteps.db.models import Base, SchemaRevision, table

LOG = logging.getLogger(__name__)

_REVISIONS = table(SchemaRevision)
_UPGRADE = "run: deploysteps db upgrade"


def _config(connection: sa.Connection | None = None) -> Config:
    config = Config()
    config.set_main_option("script_location", str(Path(__file__).parent / "migrations"))
    config.attributes["connection"] = connection
    return config


def scripts() -> ScriptDirectory:
    """Return the migrations that come with this program."""
    return ScriptDirectory.from_config(_config())


def head() -> str:
    """Return the newest revision that this program knows."""
    return str(scripts().get_current_head())


def current(database: Database) -> str | None:
    """Return the schema's revision; None for an empty database."""
    return database.read(lambda c: MigrationContext.configure(c).get_current_revision())


def _position(revision: str) -> int:
    script: Any = scripts().get_revision(revision)
    return int(script.module.position)


def _known(revision: str) -> bool:
    return any(script.revision == revision for script in scripts().walk_revisions())


def upgrade(database: Database, revision: str = "head") -> None:
    """Bring the schema to a revision, and note what was applied.

    :raises DatabaseVersionError: the schema is not one of this program's line.
    """
    with _alone(database):
        _migrate(database, command.upgrade, revision)


def downgrade(database: Database, revision: str) -> None:
    """Take the schema back to an older revision; ``base`` removes every table.

    :raises DatabaseVersionError: as :func:`upgrade`.
    """
    with _alone(database):
        _migrate(database, command.downgrade, revision)


def _migrate(database: Database, move: Callable[[Config, str], None], revision: str) -> None:
    found = current(database)
    if found is not None and not _known(found):
        raise exceptions.DatabaseVersionError(_foreign(database, found))
    try:
        with database.engine.connect() as connection, _unbound(connection), connection.begin():
            move(_config(connection), revision)
            if sa.inspect(connection).has_table(_REVISIONS.name):
                _note(connection)
    except (db_exc.DBError, sa_exc.SQLAlchemyError) as exc:
        raise exceptions.DatabaseVersionError(_broken_off(database, exc)) from exc


@contextmanager
def _unbound(connection: sa.Connection) -> Iterator[None]:
    """Keep SQLite from emptying the tables that refer to one that is made anew.

    Changing a table is making another and dropping the first there, and that
    deletes its rows, which cascades. The setting is no part of a transaction.
    """
    if connection.dialect.name != "sqlite":
        yield
        return
    dbapi: Any = connection.connection.dbapi_connection
    dbapi.execute("PRAGMA foreign_keys = OFF")
    try:
        yield
    finally:
        dbapi.execute("PRAGMA foreign_keys = ON")


_LOCK = "deploysteps schema"
_ALONE: dict[str, tuple[str, str]] = {
    "postgresql": (
        "SELECT pg_advisory_lock(hashtext(:name))",
        "SELECT pg_advisory_unlock(hashtext(:name))",
    ),
    "mysql": ("SELECT GET_LOCK(:name, 3600)", "SELECT RELEASE_LOCK(:name)"),
}


@contextmanager
def _alone(database: Database) -> Iterator[None]:
    """Let one process at a time change the schema; SQLite's writers are alone anyhow."""
    if database.dialect not in _ALONE:
        yield
        return
    take, give = map(sa.text, _ALONE[database.dialect])
    # MariaDB's named locks are the server's, not the database's.
    name = {"name": f"{_LOCK} {database.url.database}"[:64]}
    with database.engine.connect() as connection:
        if connection.execute(take, name).scalar() == 0:
            raise exceptions.DatabaseUnavailable(reason="another process changes its schema")
        connection.commit()
        try:
            yield
        finally:
            connection.execute(give, name)


def _note(connection: sa.Connection) -> None:
    """Write the applied revisions with their positions, and forget others."""
    applied = MigrationContext.configure(connection).get_current_revision()
    line = list(scripts().iterate_revisions(applied, "base")) if applied else []
    names = [script.revision for script in line]
    connection.execute(sa.delete(_REVISIONS).where(_REVISIONS.c.revision.not_in(names)))
    noted = set(connection.execute(sa.select(_REVISIONS.c.revision)).scalars())
    for script in line:
        if script.revision not in noted:
            connection.execute(
                sa.insert(_REVISIONS).values(
                    revision=script.revision,
                    position=script.module.position,
                    compatible_from=script.module.compatible_from,
                    applied_at=types.utcnow(),
                )
            )


def _broken_off(database: Database, exc: Exception) -> str:
    at = current(database)
    if database.dialect == "mysql" and _goes_on(at):
        remedy = f"mend the cause and then {_UPGRADE}, which goes on from there"
    elif database.dialect == "mysql":
        remedy = (
            "MariaDB keeps what the broken migration did so far: restore the copy made before "
            "it, or take those changes back by hand, and then " + _UPGRADE
        )
    else:
        remedy = f"nothing was changed; mend the cause and then {_UPGRADE}"
    return (
        f"a migration of {database!r} failed after revision {at or 'none (empty)'}: "
        f"{reason_of(exc)}; {remedy}"
    )


def _goes_on(after: str | None) -> bool:
    """Tell whether the migration after a revision may be run again when it broke off."""
    following = (s for s in scripts().walk_revisions() if s.down_revision == after)
    return any(getattr(script.module, "goes_on", False) for script in following)


def ensure(database: Database) -> None:
    """Make the schema usable for this program, or say what to do.

    An empty database gets the schema. An older one is upgraded by itself on
    SQLite, which nobody else uses meanwhile. A newer one is used if it only
    adds to what this program knows.

    :raises DatabaseVersionError: with the command to run.
    """
    found = current(database)
    if found == head():
        return
    if found is None:
        with _alone(database):
            # Another process may be making it right now, or was killed at that.
            if current(database) is None:
                _make(database)
        ensure(database)
    elif _known(found):
        if database.dialect != "sqlite":
            raise exceptions.DatabaseVersionError(_behind(database, found))
        LOG.info("Upgrading the schema from revision %s to %s", found, head())
        upgrade(database)
    else:
        _accept_newer(database, found)


def check(database: Database) -> None:
    """Refuse a schema that this program does not work on; nothing is made or changed.

    :raises DatabaseVersionError: with the command to run.
    """
    found = current(database)
    if found == head():
        return
    if found is None:
        raise exceptions.DatabaseVersionError(f"{database!r} has no schema yet; {_UPGRADE}")
    if _known(found):
        raise exceptions.DatabaseVersionError(_behind(database, found))
    _accept_newer(database, found)


def _behind(database: Database, found: str) -> str:
    return (
        f"the schema of {database!r} is at revision {found}, and this program needs {head()}; "
        f"{_UPGRADE}"
    )


def _make(database: Database) -> None:
    tables = set(database.read(lambda c: sa.inspect(c).get_table_names()))
    if "alembic_version" in tables and tables & set(Base.metadata.tables):
        raise exceptions.DatabaseVersionError(
            f"the database {database!r} has deploysteps' tables and no revision: making them "
            f"broke off halfway. If there is nothing in them, drop the tables "
            f"{', '.join(sorted(tables))}, and then {_UPGRADE}"
        )
    if tables - {"alembic_version"}:
        raise exceptions.DatabaseVersionError(
            f"the database {database!r} has tables and none of deploysteps' revisions: it "
            f"belongs to something else, or its schema was not made by: deploysteps db upgrade"
        )
    LOG.info("Making the schema in the empty database %r", database)
    _migrate(database, command.upgrade, "head")


def _accept_newer(database: Database, found: str) -> None:
    mine = _position(head())
    rows = database.read(
        lambda c: list(
            c.execute(sa.select(_REVISIONS).where(_REVISIONS.c.position > mine)).all()
            if sa.inspect(c).has_table(_REVISIONS.name)
            else ()
        )
    )
    if not any(row.revision == found for row in rows) or any(
        row.compatible_from > mine for row in rows
    ):
        raise exceptions.DatabaseVersionError(_foreign(database, found))
    LOG.info(
        "The schema is at revision %s, newer than this program's %s; it only adds and is used",
        found,
        head(),
    )


def _foreign(database: Database, found: str) -> str:
    return (
        f"the schema of {database!r} is at revision {found}, which this program does not know "
        f"(its newest is {head()}): upgrade deploysteps, or point [database] connection elsewhere"
    )


def differences(connection: sa.Connection) -> list[object]:
    """Return where the models and the migrated schema differ; for tests."""
    context = MigrationContext.configure(connection, opts={"compare_type": True})
    return list(compare_metadata(context, Base.metadata))
