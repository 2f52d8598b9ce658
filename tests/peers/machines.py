"""Machines made of a process: when one is switched on, the real agent starts."""

from __future__ import annotations

import subprocess
import threading
from pathlib import Path

from deploysteps.cli import local_service
from deploysteps.states import POWER_OFF, POWER_ON
from tests.peers import environments
from tests.peers.disks import Disk

LAUNCHER = Path(__file__).with_name("ipa_peer.py")
_LOOK = 0.02
_REBOOTED = 3
"""Exit code by which the launcher says that its machine boots again."""


class Machine:
    """One machine; :meth:`stop` takes it away."""

    def __init__(
        self, folder: Path, endpoint: str, mac: str, *, tls: bool, disk: Disk | None = None
    ) -> None:
        folder.mkdir()
        self._environment = _environment(folder, mac, disk)
        self.folder, self.mac = folder, mac
        self.boots = 0
        self._process: subprocess.Popen[bytes] | None = None
        self._ended = threading.Event()
        self._lock = threading.Lock()
        self._order = ""
        self._python = environments.programs("agent") / "python"
        (folder / "ipa.conf").write_text(_configuration(endpoint, tls))
        self._tell()
        self._thread = threading.Thread(target=self._run, name=f"machine {mac}", daemon=True)
        self._thread.start()

    @property
    def done(self) -> list[str]:
        """The steps that the agent began, in their order."""
        path = self.folder / "done"
        return path.read_text().split() if path.exists() else []

    @property
    def log(self) -> str:
        """What the agents have logged."""
        return (self.folder / "agent.log").read_text(errors="replace")

    def crash(self) -> None:
        """Let the agent die and its machine boot again by itself, as after a kernel panic."""
        with self._lock:
            self._off()
            self._on()

    def stop(self) -> None:
        """Switch it off for good."""
        self._ended.set()
        self._thread.join(10)
        with self._lock:
            self._off()

    def _run(self) -> None:
        while not self._ended.wait(_LOOK):
            with self._lock:
                self._look()

    def _look(self) -> None:
        code = self._process.poll() if self._process else None
        if code is not None:
            self._process = None
            if code == _REBOOTED:
                self._on()
            self._tell()
        switch = self.folder / "switch"
        if not switch.exists():
            return
        wanted, again, order = switch.read_text().split("|")
        if order == self._order:
            return
        if wanted == POWER_OFF or again == "again":
            self._off()
        if wanted == POWER_ON:
            self._on()
        self._order = order
        self._tell()

    def _on(self) -> None:
        if self._process is not None:
            return
        self.boots += 1
        with (self.folder / "agent.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._python, LAUNCHER, "--config-file", self.folder / "ipa.conf"],
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _off(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def _tell(self) -> None:
        draft = self.folder / "state.new"
        draft.write_text(f"{POWER_ON if self._process else POWER_OFF}|{self._order}")
        draft.rename(self.folder / "state")


def _environment(folder: Path, mac: str, disk: Disk | None) -> dict[str, str]:
    found = environments.plain() | {"PEER_MAC": mac, "PEER_DONE": str(folder / "done")}
    if disk is None:
        return found
    temporary = folder / "tmp"
    temporary.mkdir()
    return found | {"PEER_DISK": disk.path, "PATH": disk.programs, "TMPDIR": str(temporary)}


def _configuration(endpoint: str, tls: bool) -> str:
    port = local_service.free_port()
    return f"""[DEFAULT]
debug = true
api_url = {endpoint}
listen_host = 127.0.0.1
listen_port = {port}
advertise_host = 127.0.0.1
advertise_port = {port}
{"" if tls else "advertise_protocol = http"}
enable_auto_tls = {tls}
lookup_interval = 1
lookup_timeout = 120
disk_wait_attempts = 0
collect_lldp = false
image_download_connection_retries = 0
"""
