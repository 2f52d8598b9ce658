"""``deploysteps demo``: the whole thing in half a minute, with a power cut in the middle.

The fake machines are always there. The rack server of ``examples/rackserver`` is
deployed beside them when its driver is installed.
"""

from __future__ import annotations

import contextlib
import dataclasses
import shlex
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from types import FrameType
from typing import Any

import click

from deploysteps import states
from deploysteps.cli import waiting, watch
from deploysteps.cli.app import Command, State, pass_state
from deploysteps.cli.client import Client, node_path
from deploysteps.cli.errors import CommandError
from deploysteps.cli.local_service import LocalService
from deploysteps.cli.output import Output
from deploysteps.cli.simulated_agent import SimulatedAgent
from deploysteps.drivers import discovery

SETTINGS: dict[str, dict[str, object]] = {
    "api": {"ramdisk_heartbeat_timeout": 4},
    "conductor": {"recovery_interval": 1, "step_poll_interval": 0.5},
}
"""A quick machine: its agent beats every one to three seconds."""

_SETTLE_SECONDS, _MIDDLE_SECONDS, _END_SECONDS = 30, 30, 90
_LOOK, _SHOW = 0.2, 1.5


def _step(name: str, priority: int, **args: Any) -> dict[str, Any]:
    interface, _, step = name.partition(".")
    return {"interface": interface, "step": step, "priority": priority, "args": args}


@dataclasses.dataclass(frozen=True)
class Machine:
    """A node of the demo, and where it is to be when the power is cut."""

    name: str
    address: str
    steps: tuple[dict[str, Any], ...]
    cut_in: str
    """The step that goes on while the service is killed."""
    cut_state: str
    """``waiting`` or ``running``."""
    about: str
    delays: tuple[tuple[str, float], ...] = ()
    """Fake steps that take longer than the others."""
    boots_late: bool = False
    """Its agent comes up only after the power cut."""
    cleaned_by_agent: bool = False
    """Its agent is needed for its cleaning already."""
    driver: str = "fake-hardware"
    own: tuple[str, ...] = ("deploy.deploy",)
    """The driver's steps that run without being asked for, with a priority of 100 or less."""
    first: tuple[str, ...] = ()
    """Those of the request that run before them."""

    @property
    def planned(self) -> list[str]:
        """The steps in the order in which they have to run."""
        if self.first:
            return [*self.first, *self.own]
        return [*self.own, *map(_name, self.steps)]

    def driver_info(self, folder: Path) -> dict[str, Any]:
        """Return what the driver has to know; what it keeps is in ``folder``."""
        if self.driver == RACKSERVER:
            address = f"sim://{folder / self.name}.json"
            return {"rackserver_address": address, "rackserver_password": "demo"}
        return {"fake_delay": {"deploy.deploy": 0.5, **dict(self.delays)}}


# The core step deploy.deploy (priority 100) runs first on each of them.
MACHINES: tuple[Machine, ...] = (
    Machine(
        "node-1",
        "52:54:00:de:30:01",
        (
            _step("deploy.wait_for_agent", 90),
            _step("bios.apply_configuration", 80, settings=[{"name": "Boot", "value": "UEFI"}]),
            _step("deploy.poll", 70, seconds=3),
            _step("deploy.repeat", 60),
        ),
        cut_in="deploy.wait_for_agent",
        cut_state="waiting",
        about="waits for its machine's agent, which boots only after the cut",
        boots_late=True,
    ),
    Machine(
        "node-2",
        "52:54:00:de:30:02",
        (
            _step("deploy.poll", 90, seconds=10),
            _step("deploy.wait_for_agent", 80),
            _step("raid.delete_configuration", 70),
            _step("deploy.repeat", 60),
        ),
        cut_in="deploy.poll",
        cut_state="waiting",
        about="waits for a long job, which is polled; its agent beats, which does not end that",
    ),
    Machine(
        "node-3",
        "52:54:00:de:30:03",
        (
            _step("deploy.repeat", 90),
            _step("vendor.echo", 80, message="hello"),
            _step("deploy.retry", 70, failures=1),
            _step("deploy.poll", 60, seconds=2),
            _step("deploy.wait_for_agent", 50),
        ),
        cut_in="deploy.repeat",
        cut_state="running",
        about="is in the middle of a synchronous step that is safe to repeat",
        delays=(("deploy.repeat", 6.0),),
    ),
)


RACKSERVER = "rackserver"
_DISKS = {"size_gb": 100, "raid_level": "1", "is_root_volume": True}

RACK = Machine(
    "rack-1",
    "52:54:00:de:30:04",
    (
        _step("raid.apply_configuration", 130, raid_config={"logical_disks": [_DISKS]}),
        _step("bios.apply_configuration", 120, settings=[{"name": "BootMode", "value": "UEFI"}]),
        _step(
            "firmware.update", 110, settings=[{"component": "bios", "url": "http://files/2.1.bin"}]
        ),
        _step("deploy.set_kernel_arguments", 70, arguments=["console=ttyS0"]),
    ),
    cut_in="raid.apply_configuration",
    cut_state="waiting",
    about="makes its disks: a job of its controller, which goes on without us",
    cleaned_by_agent=True,
    driver=RACKSERVER,
    first=("raid.apply_configuration", "bios.apply_configuration", "firmware.update"),
    own=(
        "deploy.deploy",
        "deploy.write_image",
        "deploy.set_kernel_arguments",
        "deploy.boot_instance",
    ),
)
"""RAID, BIOS, firmware, image, kernel arguments: polled, rebooting and agent steps."""


def machines() -> tuple[Machine, ...]:
    """Return the machines that can be shown here."""
    installed = discovery.plugins(discovery.TYPES)
    return (*MACHINES, RACK) if RACKSERVER in installed else MACHINES


@click.command(cls=Command)
@pass_state
def demo(state: State) -> None:
    """Deploy simulated machines, cut the power in the middle, and see nothing lost.

    Starts a service of its own on a free port, in a temporary folder, and
    leaves nothing behind. Exit 0: everything went as it should, checked in
    the runs' histories.
    """
    folder = Path(tempfile.mkdtemp(prefix="deploysteps-demo-"))
    with _signals_raise():
        try:
            told = Demo(state.output, folder).run()
        except Exception as exc:
            text = exc.message if isinstance(exc, CommandError) else f"{type(exc).__name__}: {exc}"
            raise CommandError(
                f"the demo failed: {text}; the service's log is {folder / 'service.log'}"
            ) from exc
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
    shutil.rmtree(folder, ignore_errors=True)
    state.output.report(_next(), told)


def _next() -> str:
    """Return what to type next; also how a shell finds the commands, where it does not."""
    found = shutil.which("deploysteps") is not None
    folder = shlex.quote(str(Path(sys.executable).parent))
    return _NEXT.format(path="" if found else f"  export PATH={folder}:$PATH    # in both\n")


_NEXT = """
What to try next, in two terminals:

{path}  deploysteps serve
  deploysteps node create --driver fake-hardware --name one
  deploysteps port create 52:54:00:00:00:01 --node one
  deploysteps node manage one --wait
  deploysteps node provide one --wait
  deploysteps node steps one
  deploysteps node deploy one --wait --deploy-steps \\
      '[{{"interface": "deploy", "step": "poll", "priority": 50, "args": {{"seconds": 5}}}}]'
  deploysteps node runs one --json

Make a step fail:    deploysteps node set one --driver-info fake_fail=deploy.deploy
A step that waits for the machine (deploy.wait_for_agent) needs an agent:
                     deploysteps agent 52:54:00:00:00:01"""


class Demo:
    """One showing."""

    def __init__(self, output: Output, folder: Path) -> None:
        """Prepare; :meth:`run` shows."""
        self.output = output
        self._folder = folder
        self._machines = machines()
        drivers = ",".join(dict.fromkeys(machine.driver for machine in self._machines))
        settings: dict[str, dict[str, object]] = {
            "DEFAULT": {"enabled_hardware_types": drivers},
            **SETTINGS,
        }
        self._service = LocalService(folder, settings)
        self._client: Client = self._service.client
        self._agents: dict[str, SimulatedAgent] = {}
        self._repeatable: dict[str, frozenset[str]] = {}

    def run(self) -> dict[str, Any]:
        """Show it all.

        :returns: what happened, for ``--json``.
        :raises CommandError: what was not as it should be.
        """
        begun = time.monotonic()
        try:
            with self._service:
                self._say(f"The service runs as process {self._service.pid}.")
                self._enrol()
                with watch.screen(self.output) as draw:
                    self._until_the_middle(draw)
                    time.sleep(_SHOW)
                    before = self._look()
                    draw(list(before.values()))
                    self._cut_the_power(before)
                    after = self._until_the_end(draw)
        finally:
            for agent in self._agents.values():
                agent.stop()
        self._check(before, after)
        took = time.monotonic() - begun
        count = len(self._machines)
        self._say(f"All {count} machines are active, after {took:.0f} s and a power cut; checked:")
        for line in CHECKED:
            self._say(f"  - {line}")
        return {
            "seconds": round(took, 1),
            "runs": {name: found.run for name, found in after.items()},
        }

    def _say(self, text: str) -> None:
        self.output.say(text)

    def _enrol(self) -> None:
        for machine in self._machines:
            made = self._client.post(
                "/v1/nodes",
                {
                    "name": machine.name,
                    "driver": machine.driver,
                    "driver_info": machine.driver_info(self._folder),
                    "instance_info": {"image_source": "http://images/one.img"},
                },
            )
            self._client.post("/v1/ports", {"address": machine.address, "node_uuid": made["uuid"]})
            agent = SimulatedAgent(self._client.endpoint, machine.address)
            self._agents[machine.name] = agent
            if machine.cleaned_by_agent:
                agent.start()
            for target in ("manage", "provide"):
                self._ask(machine.name, {"target": target})
                self._await(machine.name, waiting.goal(states.VERBS[target]))
        offered = {m.name: self._steps_of(m) for m in self._machines}
        self._repeatable = {
            name: frozenset(_name(step) for step in steps if step["repeatable"])
            for name, steps in offered.items()
        }
        count = len(self._machines)
        self._say(f"{count} machines are verified, cleaned and available. Deploying them:")
        for machine in self._machines:
            self._ask(machine.name, {"target": states.ACTIVE, "deploy_steps": list(machine.steps)})
            if not (machine.boots_late or machine.cleaned_by_agent):
                self._agents[machine.name].start()

    def _steps_of(self, machine: Machine) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self._client.get(node_path(machine.name, "steps"))["steps"]
        return found

    def _ask(self, name: str, body: dict[str, Any]) -> None:
        self._client.put(node_path(name, "states", "provision"), body)

    def _await(self, name: str, wanted: str) -> None:
        for found in waiting.follow(self._client, name, interval=_LOOK, timeout=_SETTLE_SECONDS):
            last = found
        waiting.judge(last, wanted)

    def _look(self) -> dict[str, waiting.Snapshot]:
        return {m.name: waiting.snapshot(self._client, m.name) for m in self._machines}

    def _until_the_middle(self, draw: Callable[[list[waiting.Snapshot]], None]) -> None:
        """Wait until each machine is in the step in which the power is to be cut."""
        until = time.monotonic() + _MIDDLE_SECONDS
        while time.monotonic() < until:
            found = self._look()
            draw(list(found.values()))
            for name, one in found.items():
                if one.settled:
                    raise CommandError(
                        f"{name} ended before the power cut: {one.node['last_error']}"
                    )
            if all(_is_in(found[m.name], m.cut_in, m.cut_state) for m in self._machines):
                return
            time.sleep(_LOOK)
        where = ", ".join(f"{name} in {_current(one)}" for name, one in found.items())
        raise CommandError(f"the machines did not come to the middle together: {where}")

    def _cut_the_power(self, before: dict[str, waiting.Snapshot]) -> None:
        self._say("")
        self._say("Cutting the power of the service (SIGKILL) while")
        for machine in self._machines:
            self._say(f"  {machine.name} {machine.about}.")
        self._service.kill()
        time.sleep(1)
        self._service.start()
        self._say(f"Started it again, as process {self._service.pid}; the runs go on:")
        for machine in self._machines:
            found = waiting.snapshot(self._client, machine.name)
            known = before[machine.name].run
            if found.run is None or known is None or found.run["uuid"] != known["uuid"]:
                raise CommandError(f"the run of {machine.name} was lost")
            if machine.boots_late:
                self._agents[machine.name].start()

    def _until_the_end(
        self, draw: Callable[[list[waiting.Snapshot]], None]
    ) -> dict[str, waiting.Snapshot]:
        until = time.monotonic() + _END_SECONDS
        while True:
            found = self._look()
            draw(list(found.values()))
            if all(one.settled for one in found.values()):
                return found
            if time.monotonic() >= until:
                going = [name for name, one in found.items() if not one.settled]
                raise CommandError(f"still going on after {_END_SECONDS} s: {', '.join(going)}")
            time.sleep(_LOOK)

    def _check(
        self, before: dict[str, waiting.Snapshot], after: dict[str, waiting.Snapshot]
    ) -> None:
        """Compare the histories with what has to be in them.

        :raises CommandError: naming every difference.
        """
        wrong: list[str] = []
        for machine in self._machines:
            pair = before[machine.name], after[machine.name]
            wrong += differences(machine, self._repeatable[machine.name], *pair)
        if wrong:
            raise CommandError("; ".join(wrong))


CHECKED = (
    "each run is the one that was going on before the cut, and ended well",
    "every planned step is in its history, in order, begun and finished",
    "nothing that was finished before the cut ran again or looks different",
    "no step ran twice that did not declare itself repeatable",
    "the step that the cut interrupted ran again, since it said that it may",
)


def differences(
    machine: Machine,
    repeatable: Collection[str],
    before: waiting.Snapshot,
    after: waiting.Snapshot,
) -> Iterator[str]:
    """Yield what in a machine's history is not as it has to be."""
    name, run = machine.name, after.run
    if after.state != states.ACTIVE:
        yield f"{name} is {after.state!r}, not active: {after.node.get('last_error')}"
    if run is None or before.run is None or run["uuid"] != before.run["uuid"]:
        yield f"{name}: the run is not the one from before the power cut"
        return
    if run["outcome"] != "success" or run["finished_at"] is None:
        yield f"{name}: the run ended as {run['outcome']}"
    attempts = run["attempts"]
    went = list(dict.fromkeys(_name(attempt) for attempt in attempts))
    planned = machine.planned
    if [step for step in went if step != "deploy.prepare"] != planned:
        yield f"{name}: the history has {', '.join(went)}, and the plan {', '.join(planned)}"
    for attempt in attempts:
        if attempt["finished_at"] is None or attempt["outcome"] is None:
            yield f"{name}: {_name(attempt)} has no end in the history"
        if attempt["attempt"] > 1 and _name(attempt) not in repeatable:
            yield f"{name}: {_name(attempt)} ran twice"
    for old in before.run["attempts"]:
        if old["finished_at"] is not None and old not in attempts:
            yield f"{name}: the history of {_name(old)} changed over the power cut"
    repeated = [a for a in attempts if _name(a) == machine.cut_in and a["attempt"] > 1]
    if machine.cut_state == "running" and not repeated:
        yield f"{name}: {machine.cut_in} was interrupted and did not run again"


def _name(attempt: dict[str, Any]) -> str:
    return f"{attempt['interface']}.{attempt['step']}"


def _is_in(found: waiting.Snapshot, step: str, state: str) -> bool:
    attempts = (found.run or {}).get("attempts") or [None]
    last = attempts[-1]
    return last is not None and _name(last) == step and last["state"] == state


def _current(found: waiting.Snapshot) -> str:
    attempts = (found.run or {}).get("attempts")
    return f"{_name(attempts[-1])} ({attempts[-1]['state']})" if attempts else found.state


@contextlib.contextmanager
def _signals_raise() -> Iterator[None]:
    """Let SIGTERM and SIGHUP end the demo as Ctrl-C does: nothing is left running."""

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
