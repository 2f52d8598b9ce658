"""How this driver talks to a machine's controller.

Everything that a node has to say is read and checked here, and everything that
can go wrong becomes an error that says what the controller said. The
interfaces above know neither addresses nor the controller's own errors.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar
from urllib.parse import urlsplit

from deploysteps import exceptions, protocols
from rackserver import simulator

Result = TypeVar("Result")

PROPERTIES = {
    "rackserver_address": (
        "Where the management controller is: sim:// and the path of the file that simulates it. "
        "Required."
    ),
    "rackserver_password": "The controller's password. Required.",
}
"""Keys of ``driver_info``. A name with "password" in it is masked wherever people look."""


class ControllerError(exceptions.DriverOperationError):
    """The controller refused or failed."""

    _msg_fmt = "the controller at %(address)s: %(error)s"


class ControllerBusy(ControllerError):
    """The controller has other work; try again later."""


@dataclasses.dataclass(frozen=True, slots=True)
class Job:
    """A job of the controller, as it is now."""

    id: str
    kind: str
    percent: float
    done: bool
    error: str | None


class Client:
    """The controller of one machine."""

    def __init__(self, address: str, machine: simulator.Machine) -> None:
        """Made by :func:`connect`."""
        self._address = address
        self._machine = machine

    def read(self) -> dict[str, Any]:
        """Return what the controller knows of its machine."""
        return self._call(self._machine.read)

    def switch(self, on: bool) -> None:
        """Switch the machine on or off."""
        self._call(lambda: self._machine.switch(on))

    def change(self, **values: Any) -> None:
        """Set something that takes no time, such as ``boot_device``."""
        self._call(lambda: self._machine.change(**values))

    def submit(self, kind: str, what: Any = None) -> str:
        """Begin a job and return its id.

        Asked again for a job that goes on, it is that one: so a step that is run
        again after a crash begins nothing twice.

        :raises ControllerBusy: another one of its kind goes on.
        """
        return self._call(lambda: self._machine.submit(kind, what))

    def job(self, job_id: str) -> Job:
        """Return a job."""
        found = self._call(lambda: self._machine.job(job_id))
        return Job(**{field.name: found[field.name] for field in dataclasses.fields(Job)})

    def _call(self, call: Callable[[], Result]) -> Result:
        try:
            return call()
        except simulator.Busy as exc:
            raise ControllerBusy(address=self._address, error=exc) from exc
        except (simulator.Refused, OSError, ValueError) as exc:
            raise ControllerError(address=self._address, error=exc) from exc


def connect(node: protocols.Node) -> Client:
    """Return the controller of a node.

    :raises MissingParameterValue: ``driver_info`` lacks something.
    :raises InvalidParameterValue: something in it makes no sense.
    :raises ControllerError: it does not answer, or the password is wrong.
    """
    address = check(node)
    client = Client(address, simulator.Machine(urlsplit(address).path))
    password = client.read()["password"]
    if password is None:
        client.change(password=node.driver_info["rackserver_password"])
    elif password != node.driver_info["rackserver_password"]:
        raise ControllerError(address=address, error="the password is wrong")
    return client


def check(node: protocols.Node) -> str:
    """Check a node's ``driver_info`` without talking to anybody; return the address.

    Errors as :func:`connect`. Each names the key and the remedy, and never a value.
    """
    info = node.driver_info
    for key in PROPERTIES:
        if not isinstance(info.get(key), str) or not info[key]:
            raise exceptions.MissingParameterValue(f"driver_info/{key} is missing; set it (text)")
    address = str(info["rackserver_address"])
    parts = urlsplit(address)
    if parts.scheme != "sim" or parts.netloc or not parts.path.strip("/"):
        raise exceptions.InvalidParameterValue(
            "driver_info/rackserver_address must be sim:// and an absolute path, such as "
            "sim:///var/tmp/server-1.json"
        )
    return address


class Described:
    """Mixin of the interfaces: they need of a node what :func:`check` checks."""

    def get_properties(self) -> dict[str, str]:
        """Return what may be set in ``driver_info``."""
        return dict(PROPERTIES)

    def validate(self, task: protocols.Task) -> None:
        """Check it."""
        check(task.node)
