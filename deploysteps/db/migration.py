"""The schema: made, upgraded, and recognised.

A rolling upgrade migrates first, so a program may meet a newer schema. Each
migration leaves its position in ``schema_revisions`` together with the oldest
position whose programs still work on it; see ``alembic/script.py.mako``.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import sqlalchemy as sa
from oslo_db import exception as db_exc
from sqlalchemy import exc as sa_exc

from deploysteps import exceptions
from deploysteps.db import event_models as event_models  # so do these
from deploysteps.db import group_models as group_models  # its tables belong to the schema
from deploysteps.db import machine_models as machine_models
from deploysteps.db import types
from deploysteps.db.engine import Database
from deploysteps.db.failures import reason_of
from deploysteps.db.models import Base, SchemaRevision, table

if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import ScriptDirectory

# Alembic is imported where a schema is changed or its history is asked for. A service that
# starts on the schema that it knows needs none of it: a tenth of its memory and of its start.

LOG = logging.getLogger(__name__)

_NAMED = re.compile(
    r"""^revision = ["'](\w+)["']\ndown_revision = (?:["'](\w+)["']|None)$""", re.MULTILINE
)
"""The two lines that alembic/script.py.mako gives every migration."""
_REVISIONS = table(SchemaRevision)
_METADATA = Base.metadata
_VERSION = sa.table("alembic_version", sa.column("version_num", sa.String))
_UPGRADE = "run: deploysteps db upgrade"


def _folder() -> Path:
    return Path(__file__).parent / "migrations"


def _config(connection: sa.Connection | None = None) -> Config:
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_folder()))
    config.attributes["connection"] = connection
    return config


def scripts() -> ScriptDirectory:
    """Return the migrations that come with this program."""
    from alembic.script import ScriptDirectory

    return ScriptDirectory.from_config(_config())


def head() -> str:
    """Return the newest revision that this program knows: the one that no other comes after."""
    # Read, not imported as alembic does: this is asked at every start.
    found = [_NAMED.findall(path.read_text(encoding="utf-8")) for path in _revisions()]
    if all(len(one) == 1 for one in found):
        (newest,) = {one[0][0] for one in found} - {one[0][1] for one in found}
        return str(newest)
    return str(scripts().get_current_head())


def _revisions() -> list[Path]:
    return list((_folder() / "versions").glob("*.py"))


def current(database: Database) -> str | None:
    """Return the schema's revision; None for an empty database."""
    return database.read(_applied)


def _applied(connection: sa.Connection) -> str | None:
    if not sa.inspect(connection).has_table(_VERSION.name):
        return None
    found: str | None = connection.execute(sa.select(_VERSION.c.version_num)).scalar_one_or_none()
    return found


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
        _migrate(database, "upgrade", revision)


def downgrade(database: Database, revision: str) -> None:
    """Take the schema back to an older revision; ``base`` removes every table.

    :raises DatabaseVersionError: as :func:`upgrade`.
    """
    with _alone(database):
        _migrate(database, "downgrade", revision)


def _migrate(database: Database, way: Literal["upgrade", "downgrade"], revision: str) -> None:
    from alembic import command

    move = getattr(command, way)
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
    applied = _applied(connection)
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
    if "alembic_version" in tables and tables & set(_METADATA.tables):
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
    _migrate(database, "upgrade", "head")


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
    from alembic.autogenerate import compare_metadata
    from alembic.runtime.migration import MigrationContext

    context = MigrationContext.configure(connection, opts={"compare_type": True})
    return list(compare_metadata(context, _METADATA))
