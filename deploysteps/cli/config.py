"""``deploysteps config``: the options, and a check of what is set."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

import click
from oslo_config import cfg, generator

from deploysteps import conf, exceptions
from deploysteps.cli.app import Group, State, pass_state
from deploysteps.cli.errors import CommandError, ExitCode
from deploysteps.cli.output import clean


@click.group(cls=Group)
def config() -> None:
    """See and check the configuration."""


@config.command("sample")
@pass_state
def sample(state: State) -> None:
    """Print a configuration file with every option, its help and its default."""
    options = cfg.ConfigOpts()
    generator.register_cli_opts(options)
    arguments = []
    for namespace in ("deploysteps", "oslo.log", "oslo.policy"):
        arguments += ["--namespace", namespace]
    options(
        args=[*arguments, *(["--format", "json"] if state.as_json else [])],
        project="deploysteps",
        default_config_files=[],
        default_config_dirs=[],
        use_env=False,
    )
    generator.generate(options, sys.stdout)


def refuse_all(problems: Sequence[str]) -> NoReturn:
    """End because of several things that are wrong in what is configured, a line for each.

    :raises CommandError: with the last of them.
    """
    *others, last = problems
    for one in others:
        click.echo(f"Error: {clean(one)}", err=True)
    raise CommandError(last, ExitCode.CONFIGURATION)


def _try_all(settings: cfg.ConfigOpts) -> None:
    """Read what a service reads at its start.

    :raises ConfigurationError, DriverLoadError: as that start does.
    """
    from deploysteps.cli.serve import read_all
    from deploysteps.conductor.service import check_steps_named
    from deploysteps.drivers.factory import Registry

    _access, service = read_all(settings)
    service.database.dispose()
    check_steps_named(settings, Registry(settings))  # a conductor does it as it starts


@config.command("check")
@pass_state
def check(state: State) -> None:
    """Check every value that is set, what it names, and names that no option has.

    What a service would refuse to start with is refused: drivers that are not
    there or broken, files of users, rules and certificates that cannot be used,
    a database of a kind that is not known. No database is connected to.
    """
    settings = conf.setup(config_files=state.config_files)
    strange = conf.unknown(settings)
    bad = conf.problems(settings)
    if not bad:
        try:
            _try_all(settings)
        except (exceptions.ConfigurationError, exceptions.DriverLoadError) as exc:
            bad = [exc.message]
    if bad:
        refuse_all([*bad, *strange])
    files = list(settings.config_file or ())
    state.output.report(
        f"read {', '.join(files) or 'no file, only defaults and the environment'}; "
        f"{'found strange names' if strange else 'good'}",
        {"files": files, "unknown": strange},
    )
    if strange:
        refuse_all(strange)
