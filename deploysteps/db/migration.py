"""The schema: made, upgraded, and recognised.

A rolling upgrade migrates first, so a program may meet a newer schema. Each
migration leaves its position in ``schema_revisions`` together with the oldest
position whose programs still work on it; see ``alembic/script.py.mako``.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import sqlalchemy as sa
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory

from deploysteps import exceptions
from deploysteps.db import types
from deploysteps.db.engine import Database
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


def _is_empty(database: Database) -> bool:
    return not database.read(lambda c: sa.inspect(c).get_table_names())


def _position(revision: str) -> int:
    script: Any = scripts().get_revision(revision)
    return int(script.module.position)


def _known(revision: str) -> bool:
    return any(script.revision == revision for script in scripts().walk_revisions())


def upgrade(database: Database, revision: str = "head") -> None:
    """Bring the schema to a revision, and note what was applied.

    :raises DatabaseVersionError: the schema is not one of this program's line.
    """
    found = current(database)
    if found is not None and not _known(found):
        raise exceptions.DatabaseVersionError(_foreign(database, found))
    with database.engine.connect() as connection, connection.begin():
        command.upgrade(_config(connection), revision)
        _note(connection)


def downgrade(database: Database, revision: str) -> None:
    """Take the schema back to an older revision; ``base`` removes every table."""
    with database.engine.connect() as connection, connection.begin():
        command.downgrade(_config(connection), revision)
        if sa.inspect(connection).has_table(_REVISIONS.name):
            _note(connection)


def _note(connection: sa.Connection) -> None:
    """Write the applied revisions with their positions."""
    applied = MigrationContext.configure(connection).get_current_revision()
    line = list(scripts().iterate_revisions(applied, "base")) if applied else []
    connection.execute(sa.delete(_REVISIONS))
    for script in line:
        connection.execute(
            sa.insert(_REVISIONS).values(
                revision=script.revision,
                position=script.module.position,
                compatible_from=script.module.compatible_from,
                applied_at=types.utcnow(),
            )
        )


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
        if not _is_empty(database):
            raise exceptions.DatabaseVersionError(
                f"the database {database!r} has tables and none of deploysteps' revisions: it "
                f"belongs to something else, or its schema was not made by: deploysteps db upgrade"
            )
        LOG.info("Making the schema in the empty database %r", database)
        upgrade(database)
    elif _known(found):
        if database.dialect != "sqlite":
            raise exceptions.DatabaseVersionError(
                f"the schema of {database!r} is at revision {found}, and this program needs "
                f"{head()}; {_UPGRADE}"
            )
        LOG.info("Upgrading the schema from revision %s to %s", found, head())
        upgrade(database)
    else:
        _accept_newer(database, found)


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
