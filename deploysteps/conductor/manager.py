"""The verbs of a conductor, thin: lock, call the engine or a driver, return."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deploysteps import exceptions, states
from deploysteps.conductor import (
    beats,
    endings,
    engine,
    inventory,
    jobs,
    policy,
    power,
    steps,
    words,
)
from deploysteps.conductor.attend import Beat, guarded
from deploysteps.conductor.runtime import Runtime
from deploysteps.conductor.task_manager import TaskManager, acquire
from deploysteps.conductor.workers import Slot
from deploysteps.db import nodes, runs
from deploysteps.db.models import Node, Port
from deploysteps.db.transitions import Key, key_of
from deploysteps.steps import DEPLOY, StepDict, StepFlow, flow_of_state

LOG = logging.getLogger(__name__)


class ConductorManager:
    """One conductor's verbs, under the field's names.

    ``context`` says who asks (an ``oslo_context`` request context or None);
    ``node_id`` is a node's uuid or name. A mistake of the caller raises an
    exception whose ``code`` is 4xx, and then nothing was changed. What takes
    long runs in a worker; the state that says so is written before a verb
    returns.
    """

    def __init__(self, runtime: Runtime) -> None:
        """Made by the service."""
        self.runtime = runtime

    # --- inventory ---------------------------------------------------------------

    def create_node(self, context: Any, values: Mapping[str, Any]) -> Node:
        """Enrol a node; interfaces that are not named become the driver's defaults.

        :raises InvalidParameterValue: an unknown or disabled driver or interface.
        :raises DuplicateName, NodeAlreadyExists, InstanceAssociated: it clashes.
        """
        return inventory.create_node(self.runtime, context, values)

    def update_node(
        self,
        context: Any,
        node_id: str,
        values: Mapping[str, Any],
        reset_interfaces: bool = False,
        before: Mapping[str, Any] | None = None,
    ) -> Node:
        """Change columns of a node and return it.

        :param reset_interfaces: interfaces that are not named become defaults.
        :param before: what these columns have to hold still: the new values
            were made from them.
        :raises NodeLocked, Conflict: something is going on.
        """
        return inventory.update_node(
            self.runtime, context, node_id, values, reset_interfaces, before or {}
        )

    def destroy_node(self, context: Any, node_id: str) -> None:
        """Remove a node with its ports and history.

        :raises InvalidState: not from its state, unless it is in maintenance.
        """
        inventory.destroy_node(self.runtime, context, node_id)

    def set_node_maintenance(
        self, context: Any, node_id: str, maintenance: bool, reason: str | None = None
    ) -> None:
        """Set or clear maintenance; works on a locked node as well."""
        inventory.set_maintenance(self.runtime, context, node_id, maintenance, reason)

    def create_port(self, context: Any, node_id: str, values: Mapping[str, Any]) -> Port:
        """Store a port of a node.

        :raises MACAlreadyExists: the address is taken.
        """
        return inventory.create_port(self.runtime, context, node_id, values)

    def update_port(
        self,
        context: Any,
        port_uuid: str,
        values: Mapping[str, Any],
        before: Mapping[str, Any] | None = None,
    ) -> Port:
        """Change columns of a port and return it.

        :param before: as in :meth:`update_node`.
        """
        return inventory.update_port(self.runtime, context, port_uuid, values, before or {})

    def destroy_port(self, context: Any, port_uuid: str) -> None:
        """Remove a port."""
        inventory.destroy_port(self.runtime, context, port_uuid)

    def validate_driver_interfaces(self, context: Any, node_id: str) -> dict[str, dict[str, Any]]:
        """Return interface -> ``{'result': True | False | None, 'reason': …}``."""
        return inventory.validate_interfaces(self.runtime, context, node_id)

    def get_driver_properties(self, context: Any, driver_name: str) -> dict[str, str]:
        """Return what a hardware type reads of ``driver_info``: name -> help.

        :raises DriverNotFound: it is not enabled here.
        """
        found: dict[str, str] = self.runtime.registry.properties(driver_name)
        return found

    def get_node_steps(self, context: Any, node_id: str) -> list[StepDict]:
        """Return every step that the node's interfaces offer, disabled ones last."""
        shown = ("interface", "step", "priority", "default_priority", "argsinfo", "source")
        with self._shared(context, node_id, "listing steps") as task:
            _has_driver(task)
            try:
                found = steps.overridden(task, DEPLOY)
            except BaseException as exc:  # SystemExit would stop the server that asks
                raise words.refusal(task, "the steps cannot be collected", exc) from None
            rules = {steps.key_of(s): policy.of_step(task.driver, DEPLOY, s) for s in found}
        return [
            {
                **{name: step.get(name) for name in shown},
                "flow": DEPLOY.name,
                "abortable": rules[steps.key_of(step)].abortable,
                "repeatable": rules[steps.key_of(step)].repeatable,
            }
            for step in steps.ordered(found, DEPLOY)
        ]

    # --- provisioning ------------------------------------------------------------

    def do_node_deploy(
        self,
        context: Any,
        node_id: str,
        rebuild: bool = False,
        configdrive: Any = None,
        deploy_steps: Sequence[Mapping[str, Any]] | None = None,
    ) -> None:
        """Begin a deployment.

        :param deploy_steps: steps that are laid over the driver's.
        :raises InvalidStateRequested, NodeInMaintenance, InvalidParameterValue:
            a mistake in the request.
        :raises NodeLocked: something is going on.
        :raises NoFreeConductorWorker: try again.
        """
        event = states.REBUILD if rebuild else states.DEPLOY
        slot = self.runtime.workers.reserve(operator=True)
        with self._handing_over(context, node_id, f"node {event}", slot) as (task, hand_over):
            _refuse(task, event, in_maintenance=event)
            if rebuild and task.node.protected:
                raise exceptions.NodeProtected(node=task.node.uuid)
            _validate(task, ("power", "deploy"))
            plan, problem = _plan(task, DEPLOY, deploy_steps or ())
            own = {step["interface"] for step in plan} - {"power", "deploy"}
            _validate(task, sorted(own))
            if configdrive is not None:
                task.node.set_instance_info("configdrive", configdrive)
            engine.start(task, DEPLOY, plan, event=event, requested_by=task.user)
            hand_over(engine.run, DEPLOY, problem)

    def do_node_tear_down(self, context: Any, node_id: str) -> None:
        """Begin an undeployment; a run that waits is ended by it.

        :raises InvalidStateRequested, NodeProtected: not now.
        :raises NodeLocked: something is going on.
        """
        slot = self.runtime.workers.reserve(operator=True)
        with self._handing_over(context, node_id, "node tear down", slot) as (task, hand_over):
            _refuse(task, states.DELETE)
            _has_driver(task)
            if task.node.protected:
                raise exceptions.NodeProtected(node=task.node.uuid)
            jobs.begin_tear_down(task)
            hand_over(jobs.tear_down)

    def do_provisioning_action(self, context: Any, node_id: str, action: str) -> None:
        """Do ``manage``, ``provide`` or ``abort``.

        :raises InvalidStateRequested: not from the node's state.
        :raises InvalidParameterValue: an action that is not known here.
        """
        if action == states.ABORT:
            self._abort(context, node_id)
            return
        if action not in (states.MANAGE, states.PROVIDE):
            raise exceptions.InvalidParameterValue(
                f"the action {action!r} is not supported; there are manage, provide and abort"
            )
        slot = self.runtime.workers.reserve(operator=True)
        with self._handing_over(context, node_id, f"node {action}", slot) as (task, hand_over):
            _refuse(task, action)
            if action == states.MANAGE:
                _has_driver(task)
            if jobs.move(task, action):
                hand_over(jobs.verify)

    def _abort(self, context: Any, node_id: str) -> None:
        """Ask the node's run to end; a second time changes nothing."""
        node = nodes.get(self.runtime.database, node_id)
        flow = flow_of_state(node.provision_state)
        if flow is None or node.run_id is None:
            if not self._was_aborted(node):
                raise _wrong_state(node, states.ABORT)
            return
        user = getattr(context, "user_id", None) or "an operator"
        inventory.request_abort(self.runtime, node, user, self._to_cut_short)

    def _to_cut_short(self, node: Node) -> Key | None:
        """Return the attempt that waits and may be ended at once."""
        flow = flow_of_state(node.provision_state)
        if flow is None or node.run_id is None:
            return None
        attempt = runs.last_attempt(self.runtime.database, node.run_id)
        entry = getattr(node, flow.step_field)
        if attempt is None or attempt.state != runs.WAITING or entry is None:
            return None
        if attempt.step_id != entry.get("id"):
            return None  # it went on between the two reads
        return key_of(attempt) if self._abortable(node, flow, entry) else None

    def _abortable(self, node: Node, flow: StepFlow, entry: StepDict) -> bool:
        try:
            driver = self.runtime.registry.build(node)
        except exceptions.DeployStepsException:
            return policy.of_entry(entry).abortable  # the driver is broken: the plan's word
        return policy.of_step(driver, flow, entry).abortable

    def _was_aborted(self, node: Node) -> bool:
        last = runs.of_node(self.runtime.database, node.id, limit=1)
        failed = states.STATES[node.provision_state].failed
        return failed and bool(last) and last[0].outcome == endings.ABORTED

    def continue_node_deploy(self, context: Any, node_id: str) -> None:
        """The step that waits now is done; go on with the next."""
        with self._shared(context, node_id, "continuing a deployment") as task:
            task.complete_step()

    def change_node_power_state(
        self, context: Any, node_id: str, new_state: str, timeout: float | None = None
    ) -> None:
        """Begin a change of the power state.

        :param new_state: ``power on``, ``power off``, ``rebooting`` or a soft one.
        :param timeout: seconds that the driver may try.
        :raises InvalidParameterValue: an unknown or unsupported target.
        """
        slot = self.runtime.workers.reserve(operator=True)
        purpose = "changing node power state"
        with self._handing_over(context, node_id, purpose, slot) as (task, hand_over):
            _has_driver(task)
            power.begin(task, new_state, timeout)
            _validate(task, ("power",))
            power.show_target(task, new_state)
            hand_over(power.change, new_state, timeout)

    # --- agents ------------------------------------------------------------------

    def lookup(
        self, context: Any, addresses: Sequence[str], node_uuid: str | None = None
    ) -> tuple[Node, str]:
        """Return the node that an agent runs on and its token, given out once a boot.

        :raises NotFound: no such node, or it expects no agent.
        :raises NodeLocked: ask again.
        """
        return beats.lookup(self.runtime, addresses, node_uuid)

    def heartbeat(
        self,
        context: Any,
        node_id: str,
        callback_url: str,
        agent_version: str | None = None,
        agent_token: str | None = None,
        agent_verify_ca: str | None = None,
        agent_status: str | None = None,
        agent_status_message: str | None = None,
    ) -> None:
        """Record a heartbeat; the step that waits for it goes on in a worker.

        :raises InvalidParameterValue: a wrong token or callback URL.
        :raises NodeLocked: it was not recorded; send it again.
        """
        beat = Beat(
            callback_url, agent_version, agent_verify_ca, agent_status, agent_status_message
        )
        beats.heartbeat(self.runtime, node_id, agent_token, beat)

    # --- helpers -------------------------------------------------------------------

    def _shared(self, context: Any, node_id: str, purpose: str) -> TaskManager:
        return acquire(context, node_id, shared=True, purpose=purpose, runtime=self.runtime)

    def _handing_over(self, context: Any, node_id: str, purpose: str, slot: Slot) -> _HandingOver:
        return _HandingOver(self.runtime, context, node_id, purpose, slot)


class _HandingOver:
    """Takes a lock; leaving the block well gives it to a worker, else frees all."""

    def __init__(
        self, runtime: Runtime, context: Any, node_id: str, purpose: str, slot: Slot
    ) -> None:
        self._asked = (runtime, context, node_id, purpose)
        self._slot = slot
        self._work: tuple[Any, ...] | None = None
        self._task: TaskManager | None = None

    def __enter__(self) -> tuple[TaskManager, Callable[..., None]]:
        try:
            runtime, context, node_id, purpose = self._asked
            self._task = acquire(context, node_id, purpose=purpose, runtime=runtime)
        except BaseException:
            self._slot.release()
            raise
        return self._task, self._hand_over

    def _hand_over(self, work: Callable[..., None], *args: Any) -> None:
        self._work = (guarded(work), *args)

    def __exit__(self, kind: Any, exc: BaseException | None, traceback: Any) -> None:
        if self._task is None:
            return
        if self._work is not None and exc is None:
            self._task.hand_over(self._slot, *self._work)
            return
        try:
            self._task.release_resources()
        finally:
            self._slot.release()


def _wrong_state(node: Node, event: str) -> exceptions.InvalidStateRequested:
    return exceptions.InvalidStateRequested(
        action=event, node=node.uuid, state=node.provision_state
    )


def _refuse(task: TaskManager, event: str, in_maintenance: str | None = None) -> None:
    """Refuse what the state table does not have, or what maintenance forbids."""
    node = task.node
    if not states.can(node.provision_state, event):
        raise _wrong_state(node, event)
    if in_maintenance and node.maintenance:
        raise exceptions.NodeInMaintenance(op=in_maintenance, node=node.uuid)


def _has_driver(task: TaskManager) -> None:
    """Refuse what needs a driver that this conductor does not offer."""
    try:
        _ = task.driver
    except exceptions.NotFound as exc:
        raise exceptions.InvalidParameterValue(str(exc)) from exc


def _validate(task: TaskManager, kinds: Sequence[str]) -> None:
    """Ask interfaces whether they have what they need, before anything is written."""
    _has_driver(task)
    for kind in kinds:
        try:
            getattr(task.driver, kind).validate(task)
        except BaseException as exc:  # SystemExit would stop the server that asks
            why = words.shown(words.text_of(exc), task.masker(), words.LAST_ERROR_BYTES)
            raise exceptions.InvalidParameterValue(
                f"Failed to validate {kind} info for node {task.node.uuid}. Error: {why}"
            ) from exc


def _plan(
    task: TaskManager, flow: StepFlow, requested: Sequence[Mapping[str, Any]]
) -> tuple[list[StepDict], str | None]:
    """Return the plan, or none and what is wrong with the driver's own list.

    :raises InvalidParameterValue: what is asked for is wrong.
    """
    try:
        offered = steps.overridden(task, flow)
    except BaseException as exc:  # not the caller's mistake: the run fails and says so
        trace = words.traced(exc, task.masker())
        LOG.error("Node %s: its steps cannot be collected\n%s", task.node.uuid, trace)
        return [], f"the steps cannot be collected: {words.text_of(exc)}"
    return steps.plan(offered, requested, flow), None
