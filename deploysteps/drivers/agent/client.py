"""The agent's REST API, version 1: commands.

Facts of the protocol are those of ironic-python-agent 13.0.0: one command at a
time; a failed command is still a 200; ``/v1/commands/`` with its slash.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import logging
import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import tenacity

from deploysteps import exceptions, limits, protocols, states
from deploysteps.conf import CONF
from deploysteps.drivers.agent import record, share
from deploysteps.drivers.agent.errors import CommandFailed, Refused, Unreachable

LOG = logging.getLogger(__name__)

RUNNING, SUCCEEDED, FAILED = "RUNNING", "SUCCEEDED", "FAILED"
VERSION_MISMATCH = "CLEAN_VERSION_MISMATCH"
"""The steps were told by other hardware managers than the agent has now; of any flow."""


class Patience(NamedTuple):
    """Seconds that an agent is given for what it answers at once."""

    connect: float
    answer: float


QUICK, HURRIED, PATIENT = Patience(2.0, 3.0), Patience(1.0, 1.0), Patience(5.0, 10.0)
"""It needs milliseconds, and is hurried while many are being asked. One that did not answer is
asked again with patience, perhaps its machine is at full load; such ones have fewer places
(:mod:`.share`)."""
_LARGEST = 4 * 2**20
_LARGEST_LOGS = 32 * 2**20
"""Bytes of an answer: of one to most commands, and of one that carries logs."""
_TRY_PAUSE = 0.5
_IDENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.:-]{0,127}")
"""Ids of commands: kept with the node, and parts of URLs."""


@dataclasses.dataclass(frozen=True, slots=True)
class Command:
    """A command as the agent tells of it."""

    id: str
    name: str
    """Without the extension: ``execute_deploy_step``."""
    status: str
    """One of the four above, or what only a newer agent knows."""
    error: Mapping[str, Any] | None
    result: Any

    @property
    def why(self) -> str:
        """Why it failed, in the agent's words."""
        error = self.error or {}
        told = [str(error.get(key)) for key in ("message", "details") if error.get(key)]
        return ": ".join(told) or f"the agent says no more than {self.status!r}"


def command_of(value: Any) -> Command:
    """Return the command that an answer describes.

    :raises Refused: it describes none.
    """
    ident = value.get("id") if isinstance(value, Mapping) else None
    if not isinstance(ident, str) or not _IDENT.fullmatch(ident):
        raise Refused("the agent answered what is no command: one has an id, such as a UUID")
    error, status = value.get("command_error"), value.get("command_status")
    if error and not isinstance(error, Mapping):
        error = {"message": str(error)}
    status = limits.short(status if isinstance(status, str) else repr(status))
    if status == SUCCEEDED and error:
        status = FAILED  # of two words the bad one counts
    return Command(
        ident,
        limits.short(value.get("command_name")),
        status,
        error or None,
        value.get("command_result"),
    )


def begun_after(commands: list[Command], last: str | None, name: str) -> Command | None:
    """Return the newest command of a name after one that was dealt with.

    Where the list does not have that one, the agent was started since, and all are newer.
    """
    places = [place for place, command in enumerate(commands) if command.id == last]
    later = commands[places[-1] + 1 :] if places else commands
    return next((command for command in reversed(later) if command.name == name), None)


class AgentClient:
    """Speaks with the agent of one node, of its present boot."""

    def __init__(
        self, url: str, token: str, pem: str | None = None, *, silent: bool = False
    ) -> None:
        """Take where it is, its token, and the certificate that it sent.

        :param silent: it did not answer when it was asked last.
        :raises Refused: it cannot be spoken to as the configuration wants it.
        """
        self._base = url.rstrip("/")
        self._token = token
        self._silent = silent
        self._pem = _trusted(self._base, pem)

    @property
    def boot(self) -> str:
        """What tells one boot of the agent from another; it gives no token away."""
        return hashlib.sha256(self._token.encode()).hexdigest()[:16]

    @classmethod
    def of(cls, node: protocols.Node) -> AgentClient:
        """Return a client for the agent that beats for a node.

        :raises StepNotReady: none has yet, since the machine was booted last.
        :raises Refused: see :meth:`__init__`.
        """
        info = node.driver_internal_info
        url, token = info.get("agent_url"), info.get("agent_secret_token")
        if not url or not token:
            raise exceptions.StepNotReady("the machine's agent has not called yet")
        return cls(url, token, info.get("agent_verify_ca"), silent=record.is_silent(node))

    def start(self, name: str, params: Mapping[str, Any]) -> Command:
        """Begin a command that goes on; one that has ended already tells so.

        It is sent once: whether it is safe to send it again only the caller
        can find out, by :meth:`commands`.

        :param name: ``<extension>.<command>``.
        :raises Busy: another one is being executed.
        :raises Unreachable: no answer; ``taken`` says whether it may be executed all the same.
        """
        command = command_of(self._post(name, params, wait=False, seconds=PATIENT.answer))
        if command.status not in (SUCCEEDED, FAILED, VERSION_MISMATCH):
            states.asked_to_wait.set("started a command of the machine's agent")
        return command

    def run(
        self,
        name: str,
        params: Mapping[str, Any],
        *,
        attempts: int | None = None,
        largest: int = _LARGEST,
    ) -> Any:
        """Execute a command that is safe to be sent again, and return its result.

        It may take ``[agent] command_timeout``. One who is not there at all is not
        waited for as long: whether it answers is found out first.

        :param attempts: how often it is tried when the agent does not answer;
            ``[agent] max_command_attempts`` by default.
        :raises CommandFailed: it did.
        :raises Unreachable, Busy, Refused: as it is, after the last try.
        """
        tries = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(Unreachable),
            stop=tenacity.stop_after_attempt(attempts or CONF.agent.max_command_attempts),
            wait=tenacity.wait_exponential(_TRY_PAUSE, max=5),
            reraise=True,
        )
        command: Command = tries(lambda: self._waited_for(name, params, largest))
        if command.status != SUCCEEDED:
            raise CommandFailed(f"{name} failed on the agent: {command.why}", status=200)
        return command.result

    def _waited_for(self, name: str, params: Mapping[str, Any], largest: int) -> Command:
        with contextlib.suppress(Refused):  # then it answers, too
            self._send("GET", "/v1/status")
        seconds = CONF.agent.command_timeout
        return command_of(self._post(name, params, True, seconds, largest))

    def logs(self) -> Any:
        """Return what ``log.collect_system_logs`` gives: a dict with a base64 archive."""
        return self.run("log.collect_system_logs", {}, attempts=1, largest=_LARGEST_LOGS)

    def command(self, ident: str) -> Command:
        """Return a command by its id.

        :raises Gone: the agent does not know it.
        :raises Refused: it tells of another one.
        """
        command = command_of(self._send("GET", f"/v1/commands/{ident}"))
        if command.id != ident:
            raise Refused("the agent was asked for one command and told of another")
        return command

    def commands(self) -> list[Command]:
        """Return every command since the agent's start, the oldest first."""
        found = self._send("GET", "/v1/commands/", largest=_LARGEST_LOGS).get("commands")
        if not isinstance(found, list):
            raise Refused("the agent answered what is no list of commands")
        return [command_of(item) for item in found]

    def _post(
        self,
        name: str,
        params: Mapping[str, Any],
        wait: bool,
        seconds: float,
        largest: int = _LARGEST,
    ) -> Any:
        return self._send(
            "POST",
            "/v1/commands/",
            {"wait": "true" if wait else "false"},
            {"name": name, "params": dict(params)},
            seconds,
            largest,
        )

    def _send(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        seconds: float | None = None,
        largest: int = _LARGEST,
    ) -> Any:
        # Here, so that a process that speaks with no agent does not load requests.
        from deploysteps.drivers.agent import transport

        patience = PATIENT if self._silent else HURRIED if share.crowded() else QUICK
        return transport.exchange(
            method,
            f"{self._base}{path}",
            query={**(query or {}), "agent_token": self._token},
            body=body,
            pem=self._pem,
            connect_timeout=patience.connect,
            read_timeout=patience.answer if seconds is None else seconds,
            largest=largest,
        )


def _trusted(url: str, pem: str | None) -> str | None:
    """Return the certificate to trust for a URL.

    :raises Refused: there has to be one and is none, or the URL has no TLS.
    """
    if not url.startswith("https:"):
        if CONF.agent.require_tls:
            raise Refused(
                "the agent answers without TLS, which [agent] require_tls forbids: let it make a "
                "certificate (its enable_auto_tls), or set require_tls to false where the "
                "network to the machines is trusted"
            )
        return None
    if pem:
        return pem
    path = CONF.agent.api_ca_file
    if not path:
        raise Refused(
            "the agent answers with TLS and has not sent its certificate (API version 1.68): set "
            "[agent] api_ca_file to a file with the certificates to trust"
        )
    try:
        with open(os.fspath(path), encoding="utf-8") as file:
            return file.read()
    except (OSError, ValueError) as exc:
        raise Refused(f"[agent] api_ca_file cannot be read: {type(exc).__name__}") from None
