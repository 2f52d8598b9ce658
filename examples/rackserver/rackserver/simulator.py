"""The machine that is not there: its controller, its disks and its agent, in a file.

A file, and not this process, so that a conductor that is killed finds its jobs
again: they go on, as those of a real controller do. Nothing here is part of a
driver; what a driver sees of it is :mod:`rackserver.client`.
"""

from __future__ import annotations

import contextlib
import copy
import fcntl
import itertools
import json
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

State = dict[str, Any]

PACE = float(os.environ.get("RACKSERVER_PACE", "1"))
"""All times are multiplied by it; 0 is at once."""

_SECONDS = {
    "create volumes": 2.0,
    "delete volumes": 1.0,
    "bios settings": 1.0,
    "bios reset": 1.0,
    "firmware": 3.0,
    "secure erase": 2.0,
    "write_image": 3.0,
    "erase_devices": 2.0,
}

_AT_BOOT = ("bios settings", "bios reset")
"""Jobs that begin when the machine boots."""

_IN_BAND = ("write_image", "erase_devices")
"""Commands of the agent: a machine that is switched off does not end them."""

_FACTORY = {"BootMode": "Legacy", "SriovEnabled": False, "HyperThreading": True}

_NEW: State = {
    "password": None,
    "on": False,
    "boots": 0,
    "boot_device": "disk",
    "volumes": [],
    "settings": _FACTORY,
    "firmware": {"bmc": "1.0", "bios": "1.0"},
    "image": None,
    "kernel_arguments": [],
    "jobs": {},
    "fail": {},
}


class Refused(Exception):
    """The machine says no; its text is what a driver's error should tell."""


class Busy(Refused):
    """The machine has another job of this kind; try again later."""


class Machine:
    """One machine, kept in a file that several processes may use at once."""

    def __init__(self, path: str | Path) -> None:
        """Name the file; it is made when it is not there."""
        self._path = Path(path)

    def read(self) -> State:
        """Return all there is to know."""
        with self._changing() as state:
            return copy.deepcopy(state)

    def switch(self, on: bool) -> None:
        """Switch the machine. Switched on it boots, and what waits for that begins."""
        with self._changing() as state:
            if state["on"] and not on:
                for job in _going_on(state):
                    if job["kind"] in _IN_BAND:
                        job.update(error="the machine was switched off", applied=True)
            elif on and not state["on"]:
                state["boots"] += 1
                for job in _going_on(state):
                    job["began_at"] = job["began_at"] or time.time()
            state["on"] = on

    def submit(self, kind: str, what: Any = None) -> str:
        """Begin a job and return its id; asked for the same again, it is that one.

        :raises Busy: another job of this kind goes on.
        :raises Refused: the machine cannot do it now.
        """
        with self._changing() as state:
            for job in _going_on(state):
                if job["kind"] == kind:
                    if job["what"] == what:
                        return str(job["id"])
                    raise Busy(f"job {job['id']} ({kind}) goes on")
            if kind in _IN_BAND and not state["on"]:
                raise Refused("the machine is off, so no agent runs on it")
            job_id = f"job-{len(state['jobs']) + 1}"
            state["jobs"][job_id] = {
                "id": job_id,
                "kind": kind,
                "what": what,
                "began_at": None if kind in _AT_BOOT else time.time(),
                "seconds": _SECONDS[kind] * PACE,
                "error": state["fail"].pop(kind, None),
                "applied": False,
            }
            return job_id

    def job(self, job_id: str) -> State:
        """Return a job: ``kind``, ``percent``, ``done`` and ``error``.

        :raises Refused: there is none.
        """
        state = self.read()
        if job_id not in state["jobs"]:
            raise Refused(f"there is no job {job_id}")
        found: State = state["jobs"][job_id]
        passed = time.time() - found["began_at"] if found["began_at"] else 0.0
        percent = 100.0 * min(passed / found["seconds"], 1.0) if found["seconds"] else 100.0
        return {**found, "done": found["applied"], "percent": percent}

    def change(self, **values: Any) -> None:
        """Change something that takes no time."""
        with self._changing() as state:
            state.update(values)

    def fail(self, kind: str, why: str) -> None:
        """Let the next job of a kind fail."""
        with self._changing() as state:
            state["fail"][kind] = why

    @contextlib.contextmanager
    def _changing(self) -> Iterator[State]:
        """Give the state, brought up to now, and keep what is changed of it."""
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.with_suffix(".lock").open("a") as guard:
            fcntl.flock(guard, fcntl.LOCK_EX)
            try:
                state: State = json.loads(self._path.read_text())
            except FileNotFoundError:
                state = copy.deepcopy(_NEW)
            before = copy.deepcopy(state)
            _settle(state)
            yield state
            if state != before:
                fresh = self._path.with_suffix(".new")
                fresh.write_text(json.dumps(state, indent=1))
                fresh.replace(self._path)


def _going_on(state: State) -> list[State]:
    return [job for job in state["jobs"].values() if not job["applied"]]


def _settle(state: State) -> None:
    """Let the jobs end whose time has come."""
    for job in _going_on(state):
        began = job["began_at"]
        if began is not None and time.time() >= began + job["seconds"]:
            job["applied"] = True
            if job["error"] is None:
                _EFFECTS[job["kind"]](state, job["what"])


def _create_volumes(state: State, what: Any) -> None:
    number = itertools.count(1)
    state["volumes"] = [{"name": f"volume-{next(number)}", **disk} for disk in what]
    state["image"] = None


def _delete_volumes(state: State, _what: Any) -> None:
    state.update(volumes=[], image=None)


def _erase(state: State, _what: Any) -> None:
    state.update(image=None, kernel_arguments=[])


_EFFECTS: dict[str, Callable[[State, Any], None]] = {
    "create volumes": _create_volumes,
    "delete volumes": _delete_volumes,
    "bios settings": lambda state, what: state["settings"].update(what),
    "bios reset": lambda state, _: state.update(settings=dict(_FACTORY)),
    "firmware": lambda state, what: state["firmware"].update(what),
    "secure erase": _erase,
    "write_image": lambda state, what: state.update(image=what),
    "erase_devices": _erase,
}
