"""``deploysteps agent``: a simulated machine, for trying waiting steps by hand."""

from __future__ import annotations

import click
from oslo_utils import netutils

from deploysteps.cli.app import Command, State, pass_state
from deploysteps.cli.params import Seconds
from deploysteps.cli.simulated_agent import SimulatedAgent


def mac(text: str) -> str:
    """Read a MAC address, in the spelling that the service keeps."""
    if not netutils.is_valid_mac(text):
        raise click.BadParameter(f"{text!r} is no MAC address such as 52:54:00:00:00:01")
    return text.lower()


@click.command(cls=Command)
@click.argument("address", type=mac, metavar="ADDRESS")
@click.option(
    "--interval",
    type=Seconds(min=0.05),
    default=3,
    show_default=True,
    metavar="SECONDS",
    help="Seconds between two beats at most; a real agent's pace is that of the service.",
)
@pass_state
def agent(state: State, address: str, interval: float) -> None:
    """Simulate the agent of the machine that has a port with this MAC ADDRESS.

    It looks itself up and beats, as the agent of a real machine does, until
    Ctrl-C; steps that wait for the machine go on by it. When the machine is
    rebooted, its next beat is refused, and it looks itself up again at once.

    It has no steps and answers no calls. The deploy interfaces custom-agent and
    direct, which hand steps to the agent, need the real one.
    """
    output = state.output

    def tell(text: str) -> None:
        output.report(f"{address}: {text}", {"address": address, "event": text})

    simulated = SimulatedAgent(state.client.endpoint, address, interval=interval, tell=tell)
    simulated.start()
    try:
        while simulated.is_alive():
            simulated.join(1)
    finally:
        simulated.stop()
