"""Steps that the agent does: told, handed over, and asked after.

A command is begun once. When its answer is lost, or the conductor is, the
agent's own list tells whether it was: the step's command that stands after the
last one that was dealt with is this step's (F28, F34).
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import Any, ClassVar

from deploysteps import exceptions, limits, protocols, states, steps
from deploysteps.conf import CONF
from deploysteps.drivers.agent import client as api
from deploysteps.drivers.agent import logs, payload, share
from deploysteps.drivers.agent.client import AgentClient, Command, begun_after
from deploysteps.drivers.agent.errors import Busy, Gone, Unreachable
from deploysteps.drivers.agent.record import Record
from deploysteps.drivers.contract import current_flow, wait_state
from deploysteps.drivers.provisioning import DeployInterface

LOG = logging.getLogger(__name__)

BOOT_LOOK = 60.0
"""Seconds between two looks at a machine that boots: its heartbeat comes of itself."""
_BUSY_PAUSE, _ABSENT_PAUSE = 1.0, 10.0


class AgentSteps(DeployInterface):
    """Mixin of the deploy interfaces that hand steps to the agent."""

    agent_commands: ClassVar[Mapping[str, str]] = {}
    """Step of this class -> the command that it hands to the agent by :meth:`execute_command`,
    without its extension: by it a lost conductor's is found again."""

    # --- what the agent offers --------------------------------------------------

    def agent_steps(self, task: protocols.Task, flow: str) -> list[steps.StepDict] | None:
        """Return what the agent of the present boot has told; None while it has not."""
        if steps.FLOWS[flow].waiting is None:
            return []
        info = task.node.driver_internal_info
        if flow not in (info.get(steps.AGENT_TOLD) or ()):
            return None
        cached = info.get(f"agent_cached_{flow}_steps") or {}
        return [dict(step) for offered in cached.values() for step in offered]

    def refresh_steps(
        self, task: protocols.Task, flow: steps.StepFlow, attempts: int | None = None
    ) -> None:
        """Ask the agent for its steps, and keep them with the node.

        :param attempts: see :meth:`AgentClient.run`.
        :raises StepNotReady, Unreachable, Refused: see :class:`AgentClient`.
        :raises InvalidParameterValue: it says more than an agent may; nothing is kept.
        """
        node = task.node
        told = AgentClient.of(node).run(
            f"{flow.name}.get_{flow.name}_steps",
            {"node": payload.node(task), "ports": payload.ports(task)},
            attempts=attempts,
        )
        offered = told.get(f"{flow.name}_steps") if isinstance(told, Mapping) else None
        versions = told.get("hardware_manager_version") if isinstance(told, Mapping) else None
        if not isinstance(offered, Mapping) or not isinstance(versions, Mapping | None):
            raise exceptions.DriverOperationError(
                f"the agent's answer to get_{flow.name}_steps has no {flow.name}_steps by manager"
            )
        cached: dict[str, list[Any]] = {}
        told_all = [step for manager in offered.values() for step in _steps_of(manager, flow)]
        limits.check_steps(told_all, "the agent")
        limits.check_versions(versions, "the agent")
        for step in told_all:
            kept = payload.offered(step, flow)
            cached.setdefault(str(kept.get("interface")), []).append(kept)
        node.set_driver_internal_info(f"agent_cached_{flow.name}_steps", cached)
        node.timestamp_driver_internal_info(f"agent_cached_{flow.name}_steps_refreshed")
        node.set_driver_internal_info("hardware_manager_version", dict(versions or {}))
        flows = set(node.driver_internal_info.get(steps.AGENT_TOLD) or ())
        node.set_driver_internal_info(steps.AGENT_TOLD, sorted(flows | {flow.name}))

    # --- a step of the agent's ----------------------------------------------------

    def execute_deploy_step(self, task: protocols.Task, step: Mapping[str, Any]) -> Any:
        """Hand a step to the agent, or run one of this class."""
        if not step.get("agent"):
            return super().execute_deploy_step(task, step)
        return self.execute_in_band(task, step, steps.DEPLOY)

    def execute_clean_step(self, task: protocols.Task, step: Mapping[str, Any]) -> Any:
        """As :meth:`execute_deploy_step`."""
        if not step.get("agent"):
            return super().execute_clean_step(task, step)
        return self.execute_in_band(task, step, steps.CLEAN)

    def execute_service_step(self, task: protocols.Task, step: Mapping[str, Any]) -> Any:
        """As :meth:`execute_deploy_step`."""
        if not step.get("agent"):
            return super().execute_service_step(task, step)
        return self.execute_in_band(task, step, steps.SERVICE)

    def execute_in_band(
        self, task: protocols.Task, step: Mapping[str, Any], flow: steps.StepFlow
    ) -> str | None:
        """Let the agent execute a step of its own.

        :returns: None when it is done already, else the wait that :meth:`check_step` ends.
        """
        versions = task.node.driver_internal_info.get("hardware_manager_version")
        params = {
            "step": payload.step(step),
            "node": payload.node(task),
            "ports": payload.ports(task),
            f"{flow.name}_version": versions or None,
        }
        return self.execute_command(task, step, f"{flow.name}.execute_{flow.name}_step", params)

    def execute_command(
        self, task: protocols.Task, step: Mapping[str, Any], name: str, params: Mapping[str, Any]
    ) -> str | None:
        """Begin a command as the work of a step, once, and wait for its end.

        :param step: the current step; the command is remembered as its.
        :param name: ``<extension>.<command>``; all its parameters have to be in ``params``.
        :returns: None when it has ended well at once, else the wait that :meth:`check_step` ends.
        :raises StepNotReady: the agent is not there, or busy: the step is entered again.
        """
        record = Record(task.node, step)
        record.note(name=name.rpartition(".")[2], rebooting=None)
        client = AgentClient.of(task.node)
        if _was_booted(client, record):
            if not step.get("repeatable"):
                raise _restarted(record, current_flow(task.node))
            record.note(sent=None)
        try:
            with share.room(task.node):
                command = self._begun(client, record)
                command = command or self._begin(task, client, record, name, params)
        except Unreachable as exc:
            raise record.silent(str(exc)) from None
        except Busy:
            record.note(sent=client.boot)  # perhaps by what it is busy with
            raise exceptions.StepNotReady(
                "the agent still executes another command", after=_BUSY_PAUSE
            ) from None
        record.answered()
        record.note(command=command.id, sent=None, again_at=None)
        if self._judge(task, step, record, command) is states.StepStatus.RUNNING:
            return booting(task) if record.get("rebooting") else asked_after(task)
        return None

    def _begin(
        self,
        task: protocols.Task,
        client: AgentClient,
        record: Record,
        name: str,
        params: Mapping[str, Any],
    ) -> Command:
        """Send a command; again only where the agent's list shows that it was not taken."""
        left: int = CONF.agent.max_command_attempts
        while True:
            left -= 1
            try:
                return client.start(name, params)
            except Unreachable as exc:
                if not exc.taken:
                    raise
                record.note(sent=client.boot)
                command = self._begun(client, record)
                if command is not None or not left:
                    if command is None:
                        raise
                    return command
                # Under the lock still? Another conductor may have ended the run meanwhile. A
                # time is never what is stored already, so this is written, or refused.
                record.note(again_at=time.time())
                task.node.save()
                LOG.info("The answer to %s was lost and it was not begun: sent again", name)
            except Busy:
                record.note(sent=client.boot)
                command = self._begun(client, record)
                if command is None:
                    raise
                return command

    def _begun(self, client: AgentClient, record: Record) -> Command | None:
        """Return the step's command if the agent has begun it and its answer was lost.

        The boot has to be the one in which it was sent: another's list does not tell.
        """
        if not record.get("sent"):
            return None
        return begun_after(client.commands(), record.last, str(record.get("name")))

    # --- what became of it ----------------------------------------------------------

    def check_step(self, task: protocols.Task, step: Mapping[str, Any]) -> states.StepStatus:
        """Ask the agent what became of a step's command.

        An agent that does not answer is no failure, until it has not for as
        long as its heartbeats may be silent.
        """
        flow = current_flow(task.node)
        record = Record(task.node, step)
        if flow.prepare == (step.get("interface"), step.get("step")) and not step.get("id"):
            return self._check_boot(task, record, flow)
        if record.get("rebooting"):
            return self._check_reboot(task, record)
        if not record.mine or not (record.get("command") or record.get("sent")):
            return super().check_step(task, step)
        try:
            with share.room(task.node):
                command = self._present(AgentClient.of(task.node), record, flow)
        except Unreachable as exc:
            raise record.silent(str(exc)) from None
        except exceptions.StepNotReady as exc:  # the machine was power cycled meanwhile
            raise exceptions.StepNotReady(str(exc), after=exc.after or _ABSENT_PAUSE) from None
        record.answered()
        return self._judge(task, step, record, command)

    def _present(self, client: AgentClient, record: Record, flow: steps.StepFlow) -> Command:
        ident = record.get("command")
        if _was_booted(client, record):
            raise _restarted(record, flow)
        if ident is None:
            command = self._begun(client, record)
            if command is None:
                record.close()
                raise flow.error(
                    "the conductor was lost before the agent was told of the step, or while it "
                    "was; the agent has not begun it"
                )
            record.note(command=command.id, sent=None)
            return command
        try:
            return client.command(ident)
        except Gone:
            raise _restarted(record, flow) from None

    def _judge(
        self, task: protocols.Task, step: Mapping[str, Any], record: Record, command: Command
    ) -> states.StepStatus:
        """Say what a command's status means."""
        flow = current_flow(task.node)
        if command.status == api.SUCCEEDED:
            record.close(command.id)
            if not step.get("reboot_requested"):
                return states.StepStatus.DONE
            return self._reboot(task, record)
        if command.status == api.FAILED:
            record.close(command.id)
            task.keep_evidence("command_error", dict(command.error or {}))
            logs.collect(task, failed=True)
            record.note(logs="kept")
            raise flow.error(command.why)
        if command.status == api.VERSION_MISMATCH:
            return self._changed(task, record, flow, command)
        if command.status != api.RUNNING and record.get("odd") != command.status:
            LOG.warning(
                "Node %s: the agent says %r of a command, which is no status known here; it "
                "counts as running",
                task.node.uuid,
                command.status,
            )
            record.note(odd=command.status)
        return states.StepStatus.RUNNING

    def _changed(
        self, task: protocols.Task, record: Record, flow: steps.StepFlow, command: Command
    ) -> states.StepStatus:
        """The agent has other steps than it told: fetch them, and begin the run again.

        While it does not tell them, the command stays the step's: asked again, it says the same.
        """
        try:
            with share.room(task.node):
                self.refresh_steps(task, flow, attempts=1)
        except Unreachable as exc:
            raise record.silent(f"its hardware managers have changed, and {exc}") from None
        record.close(command.id)
        raise exceptions.StepsChanged(f"the agent's hardware managers have changed: {command.why}")

    # --- boots -----------------------------------------------------------------------

    def _check_boot(
        self, task: protocols.Task, record: Record, flow: steps.StepFlow
    ) -> states.StepStatus:
        """Tell whether the agent is up and has told its steps: then the first step begins."""
        if not task.node.driver_internal_info.get("agent_url"):
            return states.StepStatus.RUNNING
        try:
            # Once: this is asked again anyway.
            with share.room(task.node):
                self.refresh_steps(task, flow, attempts=1)
        except Unreachable as exc:
            raise record.silent(str(exc)) from None
        except Busy:
            raise exceptions.StepNotReady("the agent is busy", after=_BUSY_PAUSE) from None
        record.close()
        return states.StepStatus.DONE

    def _reboot(self, task: protocols.Task, record: Record) -> states.StepStatus:
        """Boot the agent anew; the step ends when it has.

        Noted before as asked for and only afterwards as done: a conductor that is lost
        between the two leaves a machine that is booted by whoever goes on with the step.
        """
        record.note(rebooting="asked")
        task.driver.boot.prepare_ramdisk(task, ramdisk_params())
        # Writes the record, too, and that the agent of this boot is no longer listened to.
        task.switch_power(states.REBOOT)
        record.note(rebooting="done")
        return states.StepStatus.RUNNING

    def _check_reboot(self, task: protocols.Task, record: Record) -> states.StepStatus:
        if record.get("rebooting") == "asked":  # its conductor was lost meanwhile
            return self._reboot(task, record)
        if not task.node.driver_internal_info.get("agent_url"):
            raise exceptions.StepNotReady("the machine reboots", after=BOOT_LOOK)
        record.note(rebooting=None)
        record.close()
        return states.StepStatus.DONE

    # --- after a crash ------------------------------------------------------------------

    def adopt_step(self, task: protocols.Task, step: Mapping[str, Any]) -> str | None:
        """Find the command of a step whose conductor was lost before it wrote that it waits."""
        record = Record(task.node, step)
        if record.get("rebooting") == "asked":  # perhaps it was not done: no beat may come
            self._reboot(task, record)
        if record.get("rebooting"):
            return booting(task)
        flow = current_flow(task.node)
        name = self.agent_commands.get(str(step.get("step")))
        name = f"execute_{flow.name}_step" if step.get("agent") else name
        if name is None:
            return None
        try:
            client = AgentClient.of(task.node)
            record.note(sent=client.boot, name=name)
            command = self._begun(client, record)
        except Unreachable:
            # Whether it goes on can be told when the agent answers.
            return None if step.get("repeatable") else asked_after(task)
        except exceptions.StepNotReady:
            return None  # the machine was booted since
        if command is None:
            return None
        record.note(command=command.id, sent=None)
        return asked_after(task)


def _was_booted(client: AgentClient, record: Record) -> bool:
    """Tell whether a command may have been taken by the agent of an earlier boot."""
    return record.get("sent") not in (None, True, client.boot)


def _restarted(record: Record, flow: steps.StepFlow) -> exceptions.DeployStepsException:
    record.close()
    return flow.error(
        "the machine's agent was restarted while it executed the step, or perhaps did, and knows "
        "nothing of it any more"
    )


def _steps_of(manager: Any, flow: steps.StepFlow) -> list[Any]:
    if not isinstance(manager, list | None):
        raise exceptions.DriverOperationError(
            f"the agent's answer to get_{flow.name}_steps has a {type(manager).__name__} where "
            "a hardware manager's list of steps belongs"
        )
    return manager or []


def asked_after(task: protocols.Task) -> states.Wait:
    """Return the wait for a command: the agent's, asked after with growing pauses."""
    conf = CONF.agent
    first = conf.command_poll_first
    longest = max(first, conf.command_poll_longest)
    return states.wait(wait_state(task), poll=first, grow=1.5, at_most=longest, agent=True)


def booting(task: protocols.Task) -> states.Wait:
    """Return the wait for an agent that boots: its first heartbeat ends it."""
    return states.wait(wait_state(task), poll=BOOT_LOOK, grow=1, at_most=BOOT_LOOK, agent=True)


def ramdisk_params() -> dict[str, str]:
    """Return the kernel parameters by which the ramdisk finds this service."""
    endpoint = CONF.api.public_endpoint
    return {"ipa-api-url": str(endpoint)} if endpoint else {}
