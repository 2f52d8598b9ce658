"""Power, by the controller."""

from __future__ import annotations

from deploysteps import exceptions, protocols, states
from deploysteps.drivers import base
from rackserver import client


class RackPower(client.Described, base.PowerInterface):
    """Switches the machine.

    ``verify()`` is inherited: it validates the node and reads its power state
    when the node becomes manageable.
    """

    def get_power_state(self, task: protocols.Task) -> str | None:
        """Return whether the machine is on."""
        return states.POWER_ON if client.connect(task.node).read()["on"] else states.POWER_OFF

    def set_power_state(
        self, task: protocols.Task, power_state: str, timeout: float | None = None
    ) -> None:
        """Switch the machine.

        :raises InvalidParameterValue: for a state that it does not know.
        """
        if power_state not in (states.POWER_ON, states.POWER_OFF):
            raise exceptions.InvalidParameterValue(
                f"rackserver power takes {states.POWER_ON!r} or {states.POWER_OFF!r}, "
                f"not {power_state!r}"
            )
        client.connect(task.node).switch(power_state == states.POWER_ON)

    def reboot(self, task: protocols.Task, timeout: float | None = None) -> None:
        """Switch the machine off and on; one that is off is switched on.

        ``reboot`` is also a reserved step, which the conductor does by calling
        this method: so it is not decorated.
        """
        controller = client.connect(task.node)
        controller.switch(False)
        controller.switch(True)
