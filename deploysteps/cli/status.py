"""``deploysteps status``: whether an upgrade may go on; needs no service."""

from __future__ import annotations

import dataclasses
import enum
import sys
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import click
from oslo_config import cfg

from deploysteps import conf, exceptions
from deploysteps.cli.app import Group, State, pass_state
from deploysteps.cli.db import configured, refuse_missing
from deploysteps.conductor import library
from deploysteps.db import migration, upgrades
from deploysteps.db.engine import Database
from deploysteps.drivers import catalog, factory

_UNEXPECTED = 255
"""Exit code when the checks could not be made, as the field's tools have it."""
_NODES_SHOWN = 20


class Code(enum.IntEnum):
    """What a check comes to; the command exits with the worst."""

    SUCCESS = 0
    WARNING = 1
    FAILURE = 2


@dataclasses.dataclass(frozen=True)
class Result:
    """What one check found."""

    code: Code
    details: str = ""
    skipped: bool = False
    """It could not be made, for something that another check has told."""

    @property
    def word(self) -> str:
        """The result for people and scripts."""
        return "skipped" if self.skipped else self.code.name.lower()


GOOD = Result(Code.SUCCESS)


@dataclasses.dataclass
class Installation:
    """What the checks look at."""

    settings: cfg.ConfigOpts
    database: Database
    usable: bool = False
    """Whether the schema is one that the other checks can read."""
    registry: Any = None
    """The enabled drivers, when they can be loaded."""


@click.group(cls=Group)
def status() -> None:
    """See whether what is installed, configured and stored fits together."""


@status.group("upgrade", cls=Group)
def upgrade() -> None:
    """Before and after an upgrade."""


@upgrade.command("check")
@pass_state
def check(state: State) -> int:
    """Check whether the database, the drivers and what is saved fit this release.

    Nothing is changed. It exits with 0 when all is good; 1 for warnings, which
    are worth a look; 2 for failures, which have to be mended before services of
    this release start; 255 when it could not look.
    """
    try:
        results = {name: result for name, result in _results(state)}
    except click.ClickException:
        raise
    except Exception as exc:
        if state.debug:
            traceback.print_exception(exc)
        click.echo(f"Error: {exc or type(exc).__name__}", err=True)
        sys.exit(_UNEXPECTED)
    worst = max(result.code for result in results.values())
    rows = [(name, result.word, result.details) for name, result in results.items()]
    found = [dict(zip(("check", "result", "details"), row, strict=True)) for row in rows]
    data = {"result": worst.name.lower(), "checks": found}
    state.output.rows(("check", "result", "details"), rows, data)
    return int(worst)


def _results(state: State) -> Iterator[tuple[str, Result]]:
    settings = conf.setup(config_files=state.config_files)
    with configured(state, make=False) as database:
        installation = Installation(settings, database)
        for name, look in CHECKS.items():
            yield name, look(installation)


def _schema(found: Installation) -> Result:
    try:
        refuse_missing(found.database)
        migration.check(found.database)
    except exceptions.DatabaseVersionError as exc:
        return Result(Code.FAILURE, str(exc))
    found.usable = True
    return GOOD


def _drivers(found: Installation) -> Result:
    try:
        broken = catalog.make(found.settings).broken
        found.registry = factory.Registry(found.settings)
    except (exceptions.ConfigurationError, exceptions.DriverLoadError) as exc:
        return Result(Code.FAILURE, str(exc))
    if broken:
        return Result(Code.FAILURE, "; ".join(broken.values()))
    return GOOD


def _data(found: Installation) -> Result:
    if not found.usable:
        return _SKIPPED
    left = upgrades.leftovers(found.database)
    if not left:
        return GOOD
    told = ", ".join(f"{count} in {table}" for table, count in left.items())
    return Result(
        Code.FAILURE,
        f"rows of older programs are left: {told}; run: deploysteps db online-data-migrations",
    )


def _old_way(found: Installation) -> Result:
    if not found.usable:
        return _SKIPPED
    nodes, count = upgrades.begun_the_old_way(found.database, _NODES_SHOWN)
    if not count:
        return GOOD
    more = _more(count, len(nodes))
    return Result(
        Code.WARNING,
        f"deployments of {count} node(s) run the old way, by deploy(task): {', '.join(nodes)}"
        f"{more}; they have to end before a release without this support",
    )


def _nodes(found: Installation) -> Result:
    """Compare nodes with what is offered here; another conductor may offer what this lacks."""
    if not found.usable or found.registry is None:
        return _SKIPPED
    lacking = []
    for row, count in upgrades.in_use(found.database):
        try:
            found.registry.build(row)
        except exceptions.DeployStepsException as exc:
            lacking.append(f"{count} node(s), such as {row.uuid}: {exc}")
    if not lacking:
        return GOOD
    told = "; ".join(lacking[:_NODES_SHOWN]) + _more(len(lacking), _NODES_SHOWN)
    return Result(Code.WARNING, f"not offered by what is installed and enabled here: {told}")


def _more(count: int, shown: int) -> str:
    return f" and {count - shown} more" if count > shown else ""


def _saved(found: Installation) -> Result:
    if not found.usable or found.registry is None:
        return _SKIPPED
    problems = library.problems(found.registry, found.database)
    if not problems:
        return GOOD
    told = "; ".join(f"{one.what} {one.name}: {one.text}" for one in problems)
    certain = any(one.certain for one in problems)
    return Result(Code.FAILURE if certain else Code.WARNING, told)


_SKIPPED = Result(Code.SUCCESS, "not looked at: mend the failures first", skipped=True)

CHECKS: dict[str, Callable[[Installation], Result]] = {
    "database schema": _schema,
    "enabled drivers": _drivers,
    "online data migrations": _data,
    "deployments begun the old way": _old_way,
    "deploy templates and runbooks": _saved,
    "nodes and their drivers": _nodes,
}
"""In the order they are made: later ones need what earlier ones found."""
