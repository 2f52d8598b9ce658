"""``deploysteps agent``: a simulated machine, for trying waiting steps by hand."""

from __future__ import annotations

import click

from deploysteps.cli.app import Command, State, pass_state
from deploysteps.cli.simulated_agent import SimulatedAgent


@click.command(cls=Command)
@click.argument("address")
@pass_state
def agent(state: State, address: str) -> None:
    """Simulate the agent of the machine that has a port with this MAC ADDRESS.

    It looks itself up and beats, as the agent of a real machine does, until
    Ctrl-C; steps that wait for the machine go on by it.
    """
    output = state.output

    def tell(text: str) -> None:
        output.report(f"{address}: {text}", {"address": address, "event": text})

    simulated = SimulatedAgent(state.client.endpoint, address, tell=tell)
    simulated.start()
    try:
        while simulated.is_alive():
            simulated.join(1)
    finally:
        simulated.stop()
