"""``deploysteps node unlock``: the last resort against a lock that nobody gives back."""

from __future__ import annotations

import click

from deploysteps.cli import watch
from deploysteps.cli.app import Command, State, pass_state
from deploysteps.cli.client import node_path
from deploysteps.cli.errors import CommandError, ExitCode


@click.command("unlock", cls=Command)
@click.argument("node")
@click.option("--reason", required=True, help="Why; it is kept in the node's history.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@pass_state
def unlock(state: State, node: str, reason: str, yes: bool) -> None:
    """Break the lock that someone holds on a machine, and recover the machine.

    The holder cannot write any more, even when it is only slow; what it does
    to the machine at that moment is not stopped. A run that it was in goes on
    or fails as after a crash. Conductors that are lost lose their locks by
    themselves: this is for one that lives and hangs, and for a conductor group
    in which none lives; then the run ends, and nothing is done to the machine.
    """
    path = node_path(node, "runs")
    lock = state.client.get(path, limit=1)["lock"]
    if lock is None:
        state.output.report(f"{node} is not locked", {"node": node, "lock": None})
        return
    since = watch.clock(lock["since"])
    held = f"{node} is locked by {lock['holder']} since {since} for {lock['purpose']!r}"
    if not yes:
        _confirm(f"{held}. Break the lock?")
    state.client.delete(node_path(node, "lock"), {"reason": reason, "since": lock["since"]})
    state.output.report(f"{held}; the lock is broken", {"node": node, "lock": lock})


def _confirm(question: str) -> None:
    """Ask on stderr.

    :raises CommandError: the answer is no.
    """
    if not click.confirm(question, err=True):
        raise CommandError("nothing was changed", ExitCode.INTERRUPTED)


COMMANDS: tuple[click.Command, ...] = (unlock,)
"""What ``deploysteps node`` has of this."""
