"""The root command: global options, commands loaded when used, errors as one line."""

from __future__ import annotations

import dataclasses
import errno
import importlib
import sys
import traceback
from collections.abc import Sequence
from typing import Any

import click

from deploysteps import exceptions
from deploysteps.cli.client import DEFAULT_ENDPOINT, Client
from deploysteps.cli.errors import MEANINGS, CommandError, ExitCode, code_of_status, in_commands
from deploysteps.cli.login import Login
from deploysteps.cli.output import Output, clean

COMMANDS: dict[str, str] = {
    "serve": "serve",
    "db": "db",
    "node": "node",
    "port": "port",
    "portgroup": "port",
    "chassis": "chassis",
    "allocation": "allocation",
    "template": "saved",
    "runbook": "saved",
    "driver": "driver",
    "conductor": "driver",
    "shard": "driver",
    "agent": "agent",
    "events": "events",
    "webhooks": "webhooks",
    "steps": "steps",
    "status": "status",
    "config": "config",
    "policy": "policy",
    "demo": "demo",
}
"""Command -> the module of this package that has it, under the command's name."""


@dataclasses.dataclass
class State:
    """What the global options say; commands get it as their first argument."""

    config_files: tuple[str, ...] = ()
    endpoint: str = DEFAULT_ENDPOINT
    login: Login = dataclasses.field(default_factory=Login)
    debug: bool = False
    as_json: bool = False

    @property
    def output(self) -> Output:
        """How to print."""
        return Output(self.as_json)

    @property
    def client(self) -> Client:
        """The service to speak to."""
        return Client(self.endpoint, self.login)


pass_state = click.make_pass_decorator(State, ensure=True)


def _want_json(context: click.Context, _param: click.Parameter, value: bool) -> None:
    context.ensure_object(State).as_json |= value


class Command(click.Command):
    """A command; every one of them has ``--json``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        """Add the option."""
        super().__init__(*args, **kwargs)
        self.params.append(
            click.Option(
                ["--json"],
                is_flag=True,
                expose_value=False,
                callback=_want_json,
                help="Print JSON on stdout.",
            )
        )


class Group(click.Group):
    """A command with commands, groups among them."""

    command_class = Command
    group_class = type


class Application(Group):
    """The root: imports a command's module when the command is used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Name the commands in the order people meet them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import a command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"deploysteps.cli.{COMMANDS[cmd_name]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def invoke(self, ctx: click.Context) -> Any:
        """Run; a reader that has seen enough, such as ``head``, is no failure."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:  # click would exit with 1
            sys.stdout = None  # Python would complain again at exit
            return ExitCode.OK

    def main(  # type: ignore[override]
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = None,
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,
    ) -> None:
        """Run, print an error as one line, and exit with its code."""
        state = State()
        try:
            code = super().main(
                args, prog_name or "deploysteps", complete_var, False, obj=state, **extra
            )
        except BaseException as exc:
            code = _tell(exc, state.debug)
        sys.exit(code if isinstance(code, int) else 0)


def _tell(exc: BaseException, debug: bool) -> int:
    """Print what happened on stderr and return the exit code."""
    if debug:
        traceback.print_exception(exc)
    if isinstance(exc, SystemExit):
        return exc.code if isinstance(exc.code, int) else int(exc.code is not None)
    if isinstance(exc, click.exceptions.NoArgsIsHelpError):
        click.echo(exc.format_message(), err=True)
        return ExitCode.USAGE
    if isinstance(exc, click.Abort | KeyboardInterrupt):
        return _say("interrupted", ExitCode.INTERRUPTED)
    if isinstance(exc, click.ClickException):
        hint = ""
        if isinstance(exc, click.UsageError) and exc.ctx is not None:
            hint = f" (see `{exc.ctx.command_path} --help`)"
        return _say(exc.format_message() + hint, ExitCode.USAGE)
    if isinstance(exc, CommandError):
        return _say(exc.message, exc.code)
    if isinstance(exc, exceptions.ConfigurationError | exceptions.DatabaseVersionError):
        return _say(exc.message, ExitCode.CONFIGURATION)
    if isinstance(exc, exceptions.DatabaseUnavailable):
        return _say(exc.message, ExitCode.UNREACHABLE)
    if isinstance(exc, exceptions.DeployStepsException):
        return _say(exc.message, code_of_status(exc.code))
    if isinstance(exc, OSError) and exc.errno == errno.ENOSPC:
        return _say(f"the output cannot be written: {exc.strerror}", ExitCode.FAILED)
    hint = "" if debug else "; run with --debug for more, and please report it"
    return _say(f"unexpected {type(exc).__name__}: {exc}{hint}", ExitCode.FAILED)


def _say(text: str, code: ExitCode) -> int:
    click.echo(f"Error: {clean(in_commands(text))}", err=True)
    return int(code)


_EPILOG = "Exit codes: " + "; ".join(f"{code:d} {told}" for code, told in MEANINGS.items()) + "."


@click.group(
    "deploysteps",
    cls=Application,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(package_name="deploysteps", prog_name="deploysteps")
@click.option(
    "--config-file",
    "config_files",
    multiple=True,
    metavar="FILE",
    help="Configuration to read (may be repeated, the last wins). Without it: "
    "./deploysteps.conf, else /etc/deploysteps/deploysteps.conf, when there is one.",
)
@click.option(
    "--endpoint",
    envvar="OS_ENDPOINT",
    default=DEFAULT_ENDPOINT,
    show_default=True,
    show_envvar=True,
    help="The service that commands speak to, those from node to events in the list below.",
)
@click.option(
    "--os-auth-type",
    "auth_type",
    envvar="OS_AUTH_TYPE",
    show_envvar=True,
    help="none (when not given), http_basic, or v3token: with keystone.",
)
@click.option("--os-username", "username", envvar="OS_USERNAME", show_envvar=True, help="The user.")
@click.option(
    "--os-password",
    "password",
    envvar="OS_PASSWORD",
    show_envvar=True,
    help="The user's password. Others on this machine can see arguments, but not the environment.",
)
@click.option(
    "--os-token",
    "token",
    envvar="OS_TOKEN",
    show_envvar=True,
    help="A token of the Identity service. Better in the environment, as the password.",
)
@click.option(
    "--os-cacert",
    "--cacert",
    "cacert",
    envvar="OS_CACERT",
    show_envvar=True,
    metavar="FILE",
    help="Certificates in PEM that are trusted, instead of the system's.",
)
@click.option("--insecure", is_flag=True, help="Trust any certificate of the service.")
@click.option("--debug", is_flag=True, help="Show where an error comes from.")
@pass_state
def cli(
    state: State, /, config_files: tuple[str, ...], endpoint: str, debug: bool, **login: Any
) -> None:
    """Run bare-metal nodes through their deploy steps.

    `deploysteps demo` shows it all in half a minute; `deploysteps serve` runs
    the service.
    """
    state.config_files, state.endpoint, state.debug = config_files, endpoint, debug
    state.login = Login(**login)
