"""Hardware whose power switch starts and kills a real agent.

The test that plays the machine watches the file ``switch`` of the folder that ``driver_info``
names, and writes what it is into ``state``: see ``tests/peers/machines.py``.
"""

from __future__ import annotations

import time
import uuid
from pathlib import Path
from typing import Any

from deploysteps import exceptions, states
from deploysteps.drivers import fake, interfaces

_PATIENCE = 10.0


class PeerPower(interfaces.PowerInterface):
    """The switch of a process."""

    def get_properties(self) -> dict[str, str]:
        return {"peer_folder": "Where the machine's files are. Required."}

    def validate(self, task: Any, *args: Any, **kwargs: Any) -> None:
        if not self._folder(task).is_dir():
            raise exceptions.InvalidParameterValue("driver_info/peer_folder is no folder")

    def _folder(self, task: Any) -> Path:
        return Path(task.node.driver_info.get("peer_folder", "/nonexistent"))

    def get_power_state(self, task: Any) -> str:
        return (self._folder(task) / "state").read_text().split("|")[0]

    def set_power_state(self, task: Any, power_state: str, timeout: float | None = None) -> None:
        self._switch(task, states.POWER_TARGETS[power_state], again=False)

    def reboot(self, task: Any, timeout: float | None = None) -> None:
        self._switch(task, states.POWER_ON, again=True)

    def _switch(self, task: Any, wanted: str, *, again: bool) -> None:
        """Throw the switch, and wait until the machine has heard it."""
        folder, order = self._folder(task), uuid.uuid4().hex
        draft = folder / f"switch.{order}"
        draft.write_text(f"{wanted}|{'again' if again else 'once'}|{order}")
        draft.rename(folder / "switch")
        until = time.monotonic() + _PATIENCE
        while (folder / "state").read_text().split("|")[1] != order:
            if time.monotonic() > until:
                raise exceptions.DriverOperationError("the machine does not hear its switch")
            time.sleep(0.01)

    def get_supported_power_states(self, task: Any) -> list[str]:
        return list(states.POWER_TARGETS)


class PeerMachine(fake.FakeHardware):
    """Fake hardware but for its power, with the deploy interfaces of the agent."""

    supported_power_interfaces = property(lambda self: (PeerPower,))
