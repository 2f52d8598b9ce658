"""A management controller that is not there, for :mod:`bmc` to talk to.

It keeps jobs as real ones do: a job is scheduled, begins when the machine
boots, and is done some time later, by itself.
"""

from __future__ import annotations

import dataclasses
import itertools
import threading
import time

JOB_SECONDS = 0.2
"""How long a job takes once the machine has booted."""


@dataclasses.dataclass
class Job:
    """One job, as the controller tells of it."""

    id: str
    name: str
    settings: object
    done_at: float | None = None
    """When it is done; None while it waits for a boot."""
    message: str = "Job completed successfully."

    @property
    def state(self) -> str:
        """``Scheduled``, ``Running``, ``Completed`` or ``Failed``."""
        if self.done_at is None:
            return "Scheduled"
        if time.monotonic() < self.done_at:
            return "Running"
        return "Completed" if self.message == Job.message else "Failed"


class Controller:
    """The controller of one machine."""

    def __init__(self) -> None:
        """Begin with a machine that is off and no jobs."""
        self._lock = threading.Lock()
        self._numbers = itertools.count(1)
        self.jobs: dict[str, Job] = {}
        self.power_on = False
        self.boots = 0
        self.fail_next: str | None = None
        """What the next job will fail with."""

    def schedule(self, name: str, settings: object = None) -> str:
        """Schedule a job for the next boot and return its id."""
        with self._lock:
            job = Job(f"JID_{next(self._numbers):012}", name, settings)
            if self.fail_next:
                job.message, self.fail_next = self.fail_next, None
            self.jobs[job.id] = job
            return job.id

    def job(self, job_id: str) -> Job:
        """Return a job.

        :raises KeyError: there is none.
        """
        return self.jobs[job_id]

    def switch(self, on: bool) -> None:
        """Switch the machine; switched on it boots, and what is scheduled begins."""
        with self._lock:
            if on and not self.power_on:
                self.boots += 1
                for job in self.jobs.values():
                    job.done_at = job.done_at or time.monotonic() + JOB_SECONDS
            self.power_on = on


_controllers: dict[str, Controller] = {}
_making = threading.Lock()


def at(address: str) -> Controller:
    """Return the controller at an address."""
    with _making:
        return _controllers.setdefault(address, Controller())
