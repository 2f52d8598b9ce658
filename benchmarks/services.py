"""The two services that are compared over HTTP: how each is configured, started and stopped.

Both run as an operator would run them: ``deploysteps serve`` from this environment, and
Ironic's combined ``ironic`` process (API and conductor) from its own, without authentication,
on the address of this machine only, on an SQLite file in WAL mode.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import psutil

from benchmarks import measuring
from benchmarks.client import Client, Unanswered
from benchmarks.environments import NotAvailable

START_SECONDS = 60.0
_LOOK_SECONDS = 0.005

_OURS = """\
[DEFAULT]
host = bench
state_path = {state}
log_file = {state}/service.log
use_stderr = false
enabled_hardware_types = fake-hardware
enabled_deploy_interfaces = fake
enabled_boot_interfaces = fake
enabled_management_interfaces = fake
enabled_network_interfaces = noop
enabled_power_interfaces = fake
enabled_inspect_interfaces = no-inspect
enabled_raid_interfaces = no-raid
[api]
host_ip = 127.0.0.1
port = {port}
[conductor]
automated_clean = false
{quiet}
[database]
connection = sqlite:///{database}
"""

# Debug is off and nothing is logged more than ours logs. A conductor's slow clocks are as
# they ship, but for the one that would ask 5,000 machines for their power in the middle of
# a measurement; it is off in both.
_IRONIC = """\
[DEFAULT]
auth_strategy = noauth
host = bench
my_ip = 127.0.0.1
rpc_transport = none
state_path = {state}
log_file = {state}/service.log
enabled_hardware_types = fake-hardware
enabled_bios_interfaces = no-bios
enabled_boot_interfaces = fake
enabled_console_interfaces = no-console
enabled_deploy_interfaces = fake,custom-agent
enabled_firmware_interfaces = no-firmware
enabled_inspect_interfaces = no-inspect
enabled_management_interfaces = fake
enabled_network_interfaces = noop
enabled_power_interfaces = fake
enabled_raid_interfaces = no-raid
enabled_rescue_interfaces = no-rescue
enabled_storage_interfaces = noop
enabled_vendor_interfaces = no-vendor
[agent]
require_tls = false
[api]
host_ip = 127.0.0.1
port = {port}
public_endpoint = http://127.0.0.1:{port}
api_workers = 1
[conductor]
automated_clean = false
sync_power_state_interval = 0
[database]
connection = sqlite:///{database}
[oslo_concurrency]
lock_path = {state}
[oslo_messaging_notifications]
driver = noop
[service_catalog]
auth_type = none
endpoint_override = http://127.0.0.1:{port}
"""


def free_port() -> int:
    """Return a port that nothing listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Service:
    """One of the two, in one folder, on one database file."""

    name: str

    def __init__(self, python: Path, state: Path) -> None:
        """Work in ``state``, which is made.

        :param python: the interpreter of the environment that the service is installed in.
        """
        self.python = python
        self.state = state
        self.database = state / "service.sqlite"
        self.port = 0
        self._process: subprocess.Popen[bytes] | None = None
        state.mkdir(parents=True, exist_ok=True)

    def configuration(self) -> str:
        """Return its configuration file's text."""
        raise NotImplementedError

    def make_schema(self) -> None:
        """Make the tables in a new file."""
        raise NotImplementedError

    def command(self) -> list[str]:
        """Return what starts it."""
        raise NotImplementedError

    @property
    def config_file(self) -> Path:
        """Where the configuration is written."""
        return self.state / "service.conf"

    def configure(self) -> None:
        """Write the configuration, with a port of its own."""
        self.port = free_port()
        self.config_file.write_text(self.configuration())

    def script(self, name: str) -> str:
        """Return a program of the service's environment."""
        return str(self.python.with_name(name))

    def client(self) -> Client:
        """Return a client with a connection of its own."""
        return Client(self.port)

    def start(self) -> float:
        """Start it; return the seconds until ``GET /v1/nodes`` is answered.

        :raises NotAvailable: it ends, or takes too long.
        """
        self.configure()
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
        began = time.perf_counter()
        with (self.state / "output").open("ab") as output:
            self._process = subprocess.Popen(
                self.command(),
                stdout=output,
                stderr=output,
                cwd=self.state,
                env=environment,
                start_new_session=True,
            )
        try:
            self._until("/v1/nodes", None)
            return time.perf_counter() - began
        except BaseException:
            self.stop()
            raise

    def until_ready(self) -> None:
        """Wait until a conductor offers drivers, so that nodes can be worked on."""
        self._until("/v1/drivers", "drivers")

    def _until(self, path: str, key: str | None) -> None:
        until = time.monotonic() + START_SECONDS
        while time.monotonic() < until:
            assert self._process is not None
            if self._process.poll() is not None:
                raise NotAvailable(
                    f"{self.name} ended with {self._process.returncode}: {self._said()}"
                )
            try:
                answer = self.client().get(path)
                if key is None or answer[key]:
                    return
            except (Unanswered, OSError):
                pass  # not yet
            time.sleep(_LOOK_SECONDS)
        raise NotAvailable(f"{self.name} did not answer within {START_SECONDS:g} s: {self._said()}")

    def _said(self) -> str:
        lines = [
            line
            for name in ("service.log", "output")
            if (self.state / name).exists()
            for line in (self.state / name).read_text(errors="replace").splitlines()
            if line.strip()
        ]
        return f"{lines[-1] if lines else 'it said nothing'} (all of it: {self.state})"

    def memory(self) -> tuple[float, float]:
        """Return the megabytes of the process and its children: PSS and USS.

        PSS shares what several processes share among all that do, so that the sum over a
        process and its children is what the service costs the machine.
        """
        assert self._process is not None
        parent = psutil.Process(self._process.pid)
        family = [parent, *parent.children(recursive=True)]
        infos = [process.memory_full_info() for process in family]
        return sum(i.pss for i in infos) / 2**20, sum(i.uss for i in infos) / 2**20

    def stop(self) -> None:
        """Kill it and its children: their files are thrown away."""
        process, self._process = self._process, None
        if process is None:
            return
        try:
            family = psutil.Process(process.pid).children(recursive=True)
        except psutil.NoSuchProcess:
            family = []
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
        for child in family:
            try:
                child.kill()
            except psutil.NoSuchProcess:
                continue  # it went with its parent
        process.wait()
        psutil.wait_procs(family, timeout=5)

    def leave(self) -> None:
        """End it as an operator would, so that its database is whole."""
        process = self._process
        if process is None:
            return
        process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        self.stop()


class Ours(Service):
    """``deploysteps serve``."""

    name = "deploysteps"

    def configuration(self) -> str:
        """Return it."""
        return _OURS.format(
            state=self.state,
            port=self.port,
            database=self.database,
            quiet="sync_power_state_interval = 0",
        )

    def make_schema(self) -> None:
        """Make the tables."""
        self.configure()
        _run([*self._program(), "db", "upgrade"])

    def command(self) -> list[str]:
        """Return what starts it."""
        return [*self._program(), "serve"]

    def _program(self) -> list[str]:
        return [self.script("deploysteps"), "--config-file", str(self.config_file)]


class Ironic(Service):
    """Ironic's ``ironic``: API and conductor in one service."""

    name = "ironic"

    def configuration(self) -> str:
        """Return it."""
        return _IRONIC.format(state=self.state, port=self.port, database=self.database)

    def make_schema(self) -> None:
        """Make the tables, in a file that is in WAL mode as ours is."""
        self.configure()
        measuring.use_wal(self.database)
        _run([self.script("ironic-dbsync"), "--config-file", self._config(), "create_schema"])

    def command(self) -> list[str]:
        """Return what starts it."""
        return [self.script("ironic"), "--config-file", self._config()]

    def _config(self) -> str:
        return str(self.config_file)


def _run(command: list[str]) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    if done.returncode:
        said = (done.stderr + done.stdout).strip().splitlines() or ["it said nothing"]
        raise NotAvailable(f"{command[0]} ended with {done.returncode}: {said[-1]}")


def own_python() -> Path:
    """Return this environment's interpreter, by the path that its programs lie beside."""
    return Path(sys.executable)
