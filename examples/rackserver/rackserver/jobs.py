"""What the steps that begin a job of the controller share.

A step begins its job, notes which one it is with the node, and returns at once:
a wait costs a row in the database and no thread. The conductor then asks
:meth:`JobSteps.check_step`, in this process or in one that was started after
this one was killed.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deploysteps import exceptions, protocols, states
from deploysteps.drivers import base
from rackserver import client

_KEY = "rackserver_job"
"""Key of ``driver_internal_info``: the job that the current step waits for."""


class JobSteps:
    """Mixin of the interfaces whose steps begin jobs."""

    def begin_job(self, task: protocols.Task, kind: str, what: Any = None) -> None:
        """Begin a job, and note it.

        :raises StepNotReady: the controller has another one; the conductor
            enters the step again a little later.
        """
        try:
            job_id = client.connect(task.node).submit(kind, what)
        except client.ControllerBusy as exc:
            raise exceptions.StepNotReady(str(exc), after=1) from exc
        task.node.set_driver_internal_info(_KEY, job_id)
        # Saved at once: the note has to be there when this process is not any more.
        task.node.save()

    def forget_job(self, task: protocols.Task) -> None:
        """Forget a job whose step ended without being asked about: aborted, or timed out."""
        task.node.del_driver_internal_info(_KEY)

    def polled(self, task: protocols.Task) -> str:
        """Return what a step returns whose job the conductor is to ask about.

        First after half a second, then in growing pauses of at most ten. The
        wait state is that of the flow that runs: one method serves them all.
        """
        return states.wait(base.wait_state(task), poll=0.5, at_most=10)

    def check_step(self, task: protocols.Task, step: Mapping[str, Any]) -> states.StepStatus:
        """Tell whether the job is done.

        :raises ControllerError: it failed. The step fails now, with these words,
            and not by a time-out some time later.
        """
        job_id = task.node.driver_internal_info.get(_KEY)
        if job_id is None:
            return states.StepStatus.DONE
        job = client.connect(task.node).job(job_id)
        if job.error is not None and job.done:
            task.node.del_driver_internal_info(_KEY)
            raise client.ControllerError(f"{job.kind} ({job.id}) failed: {job.error}")
        # Shown to people; the conductor sees to it that it is not written too often.
        task.report_progress(round(job.percent), job.kind)
        if not job.done:
            return states.StepStatus.RUNNING
        # Nothing of a step stays with the node when it is over.
        task.node.del_driver_internal_info(_KEY)
        return states.StepStatus.DONE
