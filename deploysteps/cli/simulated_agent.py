"""A machine that is not there: its agent, speaking the real protocol over HTTP.

It does what ironic-python-agent does on the wire: reads the version document,
looks itself up by its MAC address, and then beats. It runs no commands.
"""

from __future__ import annotations

import random
import threading
import urllib.parse
from collections.abc import Callable
from typing import Any

import requests

from deploysteps.addresses import is_loopback

AGENT_VERSION = "13.0.0"
LOOKUP_VERSION, HEARTBEAT_VERSION = (1, 62), (1, 68)
"""The newest versions that the agent of this age speaks."""

_ANSWER_SECONDS = 30
_FIRST_PAUSE, _LONGEST_PAUSE = 0.5, 5.0
_NO_TOKEN = "******"  # noqa: S105
_NOBODY = "no node has a port with this address yet, or it expects no agent now; trying again"
_OTHER_BOOT = (
    "the node's token was handed out to another boot; boot the machine anew with "
    "`deploysteps node power {node} reboot`; trying again"
)


class SimulatedAgent(threading.Thread):
    """Boots, beats, and boots again when its token is no longer taken."""

    def __init__(
        self,
        endpoint: str,
        address: str,
        *,
        node_uuid: str | None = None,
        callback_url: str = "http://192.0.2.1:9999",
        interval: float | None = None,
        tell: Callable[[str], None] = lambda text: None,
    ) -> None:
        """Do nothing yet; :meth:`start` boots it.

        :param endpoint: where the service is.
        :param address: MAC address of a port of the node.
        :param callback_url: where the agent says it listens; it does not.
        :param interval: seconds between two beats at most; without it the
            service's ``heartbeat_timeout`` alone sets the pace.
        :param tell: is given a line for each thing that happens.
        """
        super().__init__(name=f"agent {address}", daemon=True)
        self.endpoint = endpoint.rstrip("/").removesuffix("/v1")
        self.address = address
        self.node_uuid = node_uuid
        self.callback_url = callback_url
        self.interval = interval
        self.beats = 0
        """How many beats were accepted."""
        self._tell = tell
        self._stopped = threading.Event()
        self._server: tuple[int, ...] | None = None
        self._session = requests.Session()
        host = urllib.parse.urlsplit(self.endpoint).hostname or ""
        self._session.trust_env = not is_loopback(host)

    def stop(self) -> None:
        """Switch the machine off, and wait until it is."""
        self._stopped.set()
        if self.is_alive():
            self.join(_ANSWER_SECONDS)

    def run(self) -> None:
        """Look the node up and beat, until :meth:`stop`."""
        while not self._stopped.is_set():
            self._server = None
            found = self._look_up()
            if found is not None:
                self._beat(*found)

    def _look_up(self) -> tuple[str, str, float] | None:
        """Return the node's uuid, the token and the pace, or None when switched off."""
        pauses = _Pauses()
        query = {"addresses": self.address, "node_uuid": self.node_uuid}
        told = set()

        def tell_once(text: str) -> None:
            if text not in told:
                told.add(text)
                self._tell(text)

        while not self._stopped.is_set():
            answer = self._ask("GET", "/v1/lookup", LOOKUP_VERSION, params=query)
            if answer is not None and answer.status_code == 404:
                tell_once(_NOBODY)
            found = _document(answer)
            if found is not None:
                node, token = found["node"]["uuid"], found["config"]["agent_token"]
                if token != _NO_TOKEN:
                    self._tell(f"looked itself up: it is node {node}")
                    return node, token, found["config"]["heartbeat_timeout"]
                tell_once(_OTHER_BOOT.format(node=node))
            self._stopped.wait(pauses.next())
        return None

    def _beat(self, node_uuid: str, token: str, timeout: float) -> None:
        """Beat until switched off, or until the node wants to hear no more of this boot."""
        pauses = _Pauses()
        path = f"/v1/heartbeat/{node_uuid}"
        body = {
            "callback_url": self.callback_url,
            "agent_version": AGENT_VERSION,
            "agent_token": token,
        }
        while not self._stopped.is_set():
            answer = self._ask("POST", path, HEARTBEAT_VERSION, json=body)
            if answer is not None and answer.status_code == 202:
                self.beats += 1
                pause = self._pause(timeout)
                self._tell(f"beat: accepted; next beat in {pause:.3g} s")
                pauses = _Pauses()
                self._stopped.wait(pause)
            elif answer is not None and answer.status_code in (400, 404):
                self._tell(f"beat: refused ({answer.status_code}); this boot is over, booting")
                return
            else:
                # Locked, busy or away: nothing was applied, so beat again soon.
                self._stopped.wait(pauses.next())

    def _pause(self, timeout: float) -> float:
        """Return the seconds until the next beat, as the real agent chooses them."""
        pause = timeout * random.uniform(0.3, 0.6)
        return pause if self.interval is None else min(pause, self.interval)

    def _ask(
        self, method: str, path: str, newest: tuple[int, int], **more: Any
    ) -> requests.Response | None:
        """Return the answer, or None when the service is away."""
        try:
            if self._server is None:
                document = self._session.get(self.endpoint + "/", timeout=_ANSWER_SECONDS).json()
                told = document["default_version"]["version"]
                self._server = tuple(int(part) for part in told.split("."))
            major, minor = min(self._server, newest)
            return self._session.request(
                method,
                self.endpoint + path,
                headers={"X-OpenStack-Ironic-API-Version": f"{major}.{minor}"},
                timeout=_ANSWER_SECONDS,
                **more,
            )
        except (requests.RequestException, ValueError, KeyError) as exc:
            self._tell(f"{path}: no answer ({type(exc).__name__})")
            return None


def _document(answer: requests.Response | None) -> dict[str, Any] | None:
    """Return what a good answer holds."""
    if answer is None or answer.status_code != 200:
        return None
    try:
        found: dict[str, Any] = answer.json()
    except ValueError:
        return None
    return found


class _Pauses:
    """Growing pauses that no two agents share, so that they do not come all at once."""

    def __init__(self) -> None:
        self._pause = _FIRST_PAUSE

    def next(self) -> float:
        """Return the next pause in seconds."""
        pause = self._pause * random.uniform(0.5, 1.5)
        self._pause = min(self._pause * 2, _LONGEST_PAUSE)
        return pause
