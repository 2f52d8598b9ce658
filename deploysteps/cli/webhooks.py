"""``deploysteps webhooks``: what receivers have not taken. Works on the database itself."""

from __future__ import annotations

import click

from deploysteps import conf
from deploysteps.cli import watch
from deploysteps.cli.app import Group, State, pass_state
from deploysteps.cli.db import configured, refuse_missing
from deploysteps.cli.errors import CommandError, ExitCode
from deploysteps.db import migration, types
from deploysteps.db import webhooks as rows

_MOST = 10_000


@click.group(cls=Group)
def webhooks() -> None:
    """See webhooks that were not taken by their receivers, and send dead ones again."""


@webhooks.command("list")
@click.option(
    "--state",
    "wanted",
    type=click.Choice([rows.PENDING, rows.DEAD]),
    help="Only those that are still tried, or only those that were given up.",
)
@click.option("--limit", type=click.IntRange(min=1, max=_MOST), default=100, show_default=True)
@pass_state
def list_(state: State, wanted: str | None, limit: int) -> None:
    """List deliveries that no receiver has taken, the oldest first."""
    with configured(state, make=False) as database:
        refuse_missing(database)
        migration.check(database)
        found = rows.listing(database, wanted, limit)
        receivers = rows.receivers(database)
    columns = ("id", "state", "event", "node", "tries", "created", "next_try", "url", "note")
    shown = [
        (
            one.id,
            one.state,
            one.event_id,
            one.node,
            one.tries,
            watch.clock(types.timestamp(one.created_at)),
            watch.clock(types.timestamp(one.next_try_at)) if one.state == rows.PENDING else "",
            one.url,
            one.last_error or "",
        )
        for one in found
    ]
    data = [
        {
            **one._asdict(),
            "created_at": types.timestamp(one.created_at),
            "next_try_at": types.timestamp(one.next_try_at),
        }
        for one in found
    ]
    if receivers or conf.setup(config_files=state.config_files).webhooks.url:
        told = f"no webhook is {wanted}" if wanted else "every webhook was taken"
    else:
        told = "no [webhooks] url is set, and none was: no webhook is sent"
    state.output.rows(columns, shown, data, told)
    if not state.as_json:
        click.echo(f"(looked at {database.place})", err=True)


@webhooks.command("retry")
@click.argument("ids", nargs=-1, type=click.IntRange(min=1), metavar="[ID]...")
@click.option("--all", "everything", is_flag=True, help="All that were given up.")
@pass_state
def retry(state: State, ids: tuple[int, ...], everything: bool) -> None:
    """Send deliveries that were given up again, by the ids that `webhooks list` shows.

    A conductor that runs does it; their tries begin anew.
    """
    if bool(ids) == everything:
        raise click.UsageError("give ids, or --all")
    with configured(state, make=False) as database:
        refuse_missing(database)
        migration.check(database)
        again = rows.retry(database, None if everything else ids)
    if ids and again < len(set(ids)):
        missed = len(set(ids)) - again
        raise CommandError(
            f"{missed} of the {len(set(ids))} {'is' if missed == 1 else 'are'} not dead, or not "
            f"there; {_sent_again(again)}",
            ExitCode.NOT_FOUND,
        )
    state.output.report(_sent_again(again), {"again": again})


def _sent_again(count: int) -> str:
    return "1 is sent again" if count == 1 else f"{count} are sent again"
