"""``deploysteps db``: the schema of the configured database."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click
import sqlalchemy as sa

from deploysteps import conf, exceptions
from deploysteps.cli.app import Group, State, pass_state
from deploysteps.cli.errors import CommandError, ExitCode
from deploysteps.conductor.service import database_of
from deploysteps.db import migration, upgrades
from deploysteps.db.engine import Database
from deploysteps.db.models import Base


@click.group(cls=Group)
def db() -> None:
    """Make, upgrade and inspect the database's schema."""


@db.command("upgrade")
@click.argument("revision", default="head")
@pass_state
def upgrade(state: State, revision: str) -> None:
    """Make the schema, or bring it to the newest REVISION, or to another one.

    A rolling upgrade runs this first and restarts the services then.
    """
    with configured(state) as database:
        migration.upgrade(database, revision)
        _tell(state, database)


@db.command("downgrade")
@click.argument("revision")
@click.option("--yes", is_flag=True, help="Yes, what the older schema has no place for may go.")
@pass_state
def downgrade(state: State, revision: str, yes: bool) -> None:
    """Take the schema back to an older REVISION; "base" removes every table.

    Stop every service first. What the older schema has no place for is lost.
    """
    if not yes:
        raise click.UsageError("a downgrade loses data; make a copy, and say --yes")
    with configured(state) as database:
        migration.downgrade(database, revision)
        _tell(state, database)


@db.command("version")
@pass_state
def version(state: State) -> None:
    """Show the schema's revision, and the newest that this program knows.

    Nothing is made or changed.
    """
    with configured(state, make=False) as database:
        _tell(state, database)


@db.command("online-data-migrations")
@click.option(
    "--max-count",
    type=click.IntRange(min=1),
    help="Change at most so many rows, and say whether some are left.",
)
@pass_state
def online_data_migrations(state: State, max_count: int | None) -> int:
    """Bring rows that older programs wrote up to date, while services run.

    Run it after `deploysteps db upgrade`, when no older program runs any more.
    It may be broken off, and run again. It exits with 0 when nothing is left;
    1 when rows are left and some were changed (run it again); 2 when rows are
    left and none could be changed.
    """
    with configured(state, make=False) as database:
        refuse_missing(database)
        migration.check(database)
        results = upgrades.migrate(database, max_count=max_count, progress=_tell_progress)
    left = sum(result.left for result in results)
    columns = ("migration", "table", "found", "done", "left", "error")
    rows = [
        (r.name, r.table, str(r.found), str(r.done), str(r.left), r.error or "") for r in results
    ]
    data = {"left": left, "migrations": [dataclasses.asdict(result) for result in results]}
    state.output.rows(columns, rows, data)
    if not left:
        return 0
    return 1 if any(result.found for result in results) else 2


def _tell_progress(result: upgrades.Result) -> None:
    click.echo(f"{result.name}: {result.done} of {result.table}", err=True)


@contextmanager
def configured(state: State, *, make: bool = True) -> Iterator[Database]:
    """Give the configured database; ``make``: also one that is not there yet."""
    from alembic.util import CommandError as AlembicError  # see deploysteps.db.migration

    settings = conf.setup(config_files=state.config_files)
    conf.check(settings)
    database = database_of(settings)
    try:
        refuse_other_file(database)
        if make or not _missing(database):
            database.wait_ready(lambda text: click.echo(text, err=True))
            _refuse_foreign(database)
        yield database
    except AlembicError as exc:
        raise CommandError(
            f"{exc}; `deploysteps db version` shows what is known", ExitCode.USAGE
        ) from exc
    finally:
        database.dispose()


def refuse_missing(database: Database) -> None:
    """Refuse a file that is not there: to look into it would make an empty one.

    :raises DatabaseVersionError: with the command that makes it.
    """
    if _missing(database):
        raise exceptions.DatabaseVersionError(
            f"{database.place}: there is no database file; run: deploysteps db upgrade"
        )


def refuse_other_file(database: Database) -> None:
    """Refuse a file that is no SQLite database, in words; an empty one is an empty database.

    :raises ConfigurationError: naming the file and the settings.
    """
    file = _file(database)
    if file is None:
        return
    try:
        with file.open("rb") as opened:
            head = opened.read(len(_SQLITE))
    except IsADirectoryError:
        head = b"a folder"
    except OSError:
        return  # what is missing can be made; the rest is told when it is connected to
    if head not in (b"", _SQLITE):
        raise exceptions.ConfigurationError(
            f"{file} is no SQLite database; set [database] connection or [DEFAULT] state_path"
        )


def _refuse_foreign(database: Database) -> None:
    """Refuse a database that something else uses, before anything is made in it.

    :raises DatabaseVersionError: naming it and the setting.
    """
    tables = set(database.read(lambda c: sa.inspect(c).get_table_names())) - {"alembic_version"}
    if tables and not tables & set(Base.metadata.tables):
        raise exceptions.DatabaseVersionError(
            f"the database {database.place} has tables and none of deploysteps': it belongs to "
            "something else; set [database] connection"
        )


_SQLITE = b"SQLite format 3\0"


def _file(database: Database) -> Path | None:
    """Return SQLite's file."""
    named = database.dialect == "sqlite" and not database.in_memory
    return Path(str(database.url.database)) if named else None


def _missing(database: Database) -> bool:
    file = _file(database)
    return file is not None and not file.exists()


def _tell(state: State, database: Database) -> None:
    newest = migration.head()
    if _missing(database):
        state.output.report(
            f"{database.place}: there is no database file; `deploysteps db upgrade` and "
            f"`deploysteps serve` make one, at revision {newest}",
            {"current": None, "head": newest},
        )
        return
    found = migration.current(database)
    state.output.report(
        f"{database.place}: the schema is at revision {found or 'none (empty)'}; "
        f"the newest of this program is {newest}",
        {"current": found, "head": newest},
    )
