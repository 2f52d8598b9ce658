"""A real service, and the real clients in environments of their own."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploysteps.cli.client import Client
from deploysteps.cli.local_service import LocalService
from tests.peers import environments
from tests.peers.disks import Disk
from tests.peers.nodes import CLOCKS, Node, enrolled

HERE = Path(__file__).parent
QUICK = {"conductor": {"recovery_interval": 0.5, "step_poll_interval": 0.2}}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whatever is in this folder needs the peers."""
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.peers)


def client_environment(endpoint: str) -> dict[str, str]:
    """Return the environment in which ``openstack`` finds a service without authentication."""
    return environments.plain() | {
        "OS_AUTH_TYPE": "none",
        "OS_ENDPOINT": endpoint,
        "OS_CLIENT_CONFIG_FILE": os.devnull,
        "COLUMNS": "400",
    }


class Refused(AssertionError):
    """A command ended with another exit code than expected."""


class OpenStack:
    """``openstack baremetal``, unmodified, in its own process."""

    def __init__(self, service: Client) -> None:
        self.service = service
        self._bin = environments.programs("clients")
        self._environment = client_environment(service.endpoint)
        self._process = subprocess.Popen(
            [self._bin / "python", HERE / "openstack_peer.py"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._environment,
            text=True,
        )

    def run(self, *arguments: str, before: tuple[str, ...] = ()) -> tuple[int, str, str]:
        """Return exit code, output and errors of ``openstack BEFORE baremetal ARGUMENTS``."""
        assert self._process.stdin and self._process.stdout
        print(json.dumps([*before, "baremetal", *arguments]), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        return answer["code"], answer["out"], answer["err"]

    def __call__(self, *arguments: str, before: tuple[str, ...] = ()) -> str:
        """Run a command that has to succeed, and return what it printed."""
        code, out, err = self.run(*arguments, before=before)
        if code:
            raise Refused(f"openstack baremetal {' '.join(arguments)}: exit {code}\n{out}{err}")
        return out

    def json(self, *arguments: str, before: tuple[str, ...] = ()) -> Any:
        """Run a command that has to succeed, and return its ``-f json``."""
        return json.loads(self(*arguments, "-f", "json", before=before))

    def refusal(self, *arguments: str, before: tuple[str, ...] = ()) -> str:
        """Run a command that has to fail in the way of a refusal, and return its text."""
        code, out, err = self.run(*arguments, before=before)
        if code != 1 or "Traceback" in err or not err.strip():
            raise Refused(f"openstack baremetal {' '.join(arguments)}: exit {code}\n{out}{err}")
        return err

    def execute(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the program itself."""
        return subprocess.run(
            [self._bin / "openstack", "baremetal", *arguments],
            env=self._environment,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalService]:
    """``deploysteps serve`` in a process of its own."""
    with LocalService(tmp_path_factory.mktemp("service"), QUICK) as running:
        yield running
        log = running.log.read_text()
    assert "Traceback" not in log, log[-5000:]


@pytest.fixture(scope="module")
def openstack(service: LocalService) -> Iterator[OpenStack]:
    """The client of that service."""
    client = OpenStack(service.client)
    yield client
    client.close()


@pytest.fixture(scope="module")
def machines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., list[Node]]]:
    """Start services whose hardware are processes: ``machines(settings, tls, tls, …)``."""
    stop: list[Callable[[], object]] = []
    patch = pytest.MonkeyPatch()
    patch.setenv("PYTHONPATH", str(HERE / "plugin"))

    def start(
        settings: dict[str, dict[str, Any]], *tls: bool, disk: Disk | None = None
    ) -> list[Node]:
        folder = tmp_path_factory.mktemp("agents")
        service = LocalService(
            folder, {group: {**CLOCKS[group], **settings.get(group, {})} for group in CLOCKS}
        )
        service.start()
        stop.append(service.kill)
        found = []
        for number, one in enumerate(tls):
            node = enrolled(service, folder, number, tls=one, disk=disk)
            stop.append(node.machine.stop)
            found.append(node)
        for target, wanted in (("manage", "manageable"), ("provide", "available")):
            for node in found:
                node.ask(target)
            for node in found:
                node.reach(wanted)
        return found

    yield start
    patch.undo()
    for end in reversed(stop):
        end()
