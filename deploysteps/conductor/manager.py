"""The verbs of a conductor, thin: lock, call the engine or a driver, return."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from deploysteps import exceptions, states
from deploysteps.conductor import beats, calls, inventory, library, power, preview, provision
from deploysteps.conductor.attend import Beat
from deploysteps.conductor.group_verbs import GroupVerbs
from deploysteps.conductor.machine_verbs import MachineVerbs
from deploysteps.conductor.runtime import Runtime
from deploysteps.conductor.task_manager import TaskManager, acquire
from deploysteps.db import nodes, traits
from deploysteps.db.models import DeployTemplate, Node, Port, Runbook
from deploysteps.steps import DEPLOY, StepDict


class ConductorManager(MachineVerbs, GroupVerbs):
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

    def get_node_steps(self, context: Any, node_id: str, flow: str = DEPLOY.name) -> list[StepDict]:
        """Return every step that the node offers a flow, disabled ones last."""
        with self._shared(context, node_id, "listing steps") as task:
            return preview.steps_of(task, preview.flow_named(flow))

    def get_node_plan(
        self,
        context: Any,
        node_id: str,
        flow: str = DEPLOY.name,
        steps: Sequence[Mapping[str, Any]] | None = None,
        runbook: str | None = None,
        disable_ramdisk: bool | None = None,
    ) -> dict[str, Any]:
        """Return what a run would do, without running it.

        :returns: ``flow``; ``steps`` in their order; ``left_out``, each with
            ``why``; ``unknown``, those that wait for the agent's list;
            ``problem``: why it would be refused, or None.
        """
        with self._shared(context, node_id, "planning") as task:
            return preview.plan_of(task, preview.flow_named(flow), steps, runbook, disable_ramdisk)

    # --- provisioning ------------------------------------------------------------

    def do_node_deploy(
        self,
        context: Any,
        node_id: str,
        rebuild: bool = False,
        configdrive: Any = None,
        deploy_steps: Sequence[Mapping[str, Any]] | None = None,
        resume: str | None = None,
    ) -> None:
        """Begin a deployment, or go on with one that failed.

        :param deploy_steps: steps that are laid over the driver's.
        :param resume: ``at`` the step that failed, or ``after`` it.
        :raises InvalidStateRequested, NodeInMaintenance, InvalidParameterValue:
            a mistake in the request.
        :raises NodeLocked: something is going on.
        :raises NoFreeConductorWorker, ConcurrentActionLimit: try again.
        """
        provision.deploy(self.runtime, context, node_id, rebuild, configdrive, deploy_steps, resume)

    def do_node_clean(
        self,
        context: Any,
        node_id: str,
        clean_steps: Sequence[Mapping[str, Any]] | None = None,
        disable_ramdisk: bool | None = None,
        runbook: str | None = None,
    ) -> None:
        """Begin a cleaning by these steps, in their order; it ends in ``manageable``.

        :param disable_ramdisk: do without the ramdisk; steps that need it are refused.
        :param runbook: name or uuid of a runbook, instead of steps.
        Errors as :meth:`do_node_deploy`.
        """
        provision.clean(self.runtime, context, node_id, clean_steps, disable_ramdisk, runbook)

    def do_node_service(
        self,
        context: Any,
        node_id: str,
        service_steps: Sequence[Mapping[str, Any]] | None = None,
        disable_ramdisk: bool | None = None,
        runbook: str | None = None,
        resume: str | None = None,
    ) -> None:
        """Begin a servicing of an active node; parameters as the other two."""
        provision.service(
            self.runtime, context, node_id, service_steps, disable_ramdisk, runbook, resume
        )

    def do_node_tear_down(self, context: Any, node_id: str) -> None:
        """Begin an undeployment; a run that waits is ended by it.

        :raises InvalidStateRequested, NodeProtected: not now.
        :raises NodeLocked: something is going on.
        """
        provision.tear_down(self.runtime, context, node_id)

    def do_provisioning_action(self, context: Any, node_id: str, action: str) -> None:
        """Do what needs nothing but its name: ``manage``, ``inspect``, ``abort`` and so on.

        :raises InvalidStateRequested: not from the node's state.
        :raises InvalidParameterValue: an action that is not known here.
        """
        if action not in _ACTIONS:
            raise exceptions.InvalidParameterValue(
                f"the action {action!r} is not supported; there are {', '.join(_ACTIONS)}"
            )
        _ACTIONS[action](self.runtime, context, node_id)

    def do_node_rescue(self, context: Any, node_id: str, rescue_password: str) -> None:
        """Begin to boot a rescue system on an active node.

        :param rescue_password: with which to log in there; kept in
            ``instance_info`` until the rescue has ended.
        :raises InvalidStateRequested, NodeInMaintenance, InvalidParameterValue:
            a mistake in the request.
        """
        calls.rescue(self.runtime, context, node_id, rescue_password)

    def unlock_node(
        self,
        context: Any,
        node_id: str,
        reason: str | None = None,
        since: str | None = None,
    ) -> None:
        """Break the lock on a node, and bring the node on its way as after a crash.

        Whoever held the lock cannot write any more; the node's history tells
        who broke it, and why. Where no conductor of its group lives, any does
        this: what the node is at is ended, and its machine left alone.

        :param since: when the lock that is meant was taken, as the API shows it.
        :raises InvalidParameterValue: it is not locked.
        :raises ForeignConductorGroup: conductors of its group live.
        :raises Conflict: it is, but by another lock than that.
        """
        provision.unlock(self.runtime, context, node_id, reason, since)

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
        taken = provision.HandingOver(self.runtime, context, node_id, power.PURPOSE)
        with taken as (task, hand_over):
            provision.has_driver(task)
            power.begin(task, new_state, timeout)
            provision.validate(task, ("power",))
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

    # --- traits, templates, runbooks -----------------------------------------------

    def update_node_traits(
        self,
        context: Any,
        node_id: str,
        *,
        replace: Sequence[str] | None = None,
        add: Sequence[str] = (),
        remove: Sequence[str] = (),
    ) -> list[str]:
        """Change a node's traits, and return those that it has then.

        :raises InvalidParameterValue: a name that cannot be one, or too many.
        :raises NodeTraitNotFound: one to be removed that it does not have.
        """
        node = nodes.get(self.runtime.database, node_id)
        return traits.change(
            self.runtime.database, node.id, replace=replace, add=add, remove=remove
        )

    def get_secret_arguments(self, context: Any) -> dict[str, list[str]]:
        """Return ``interface.step`` -> its arguments that an enabled class declares secret."""
        return library.Catalogue(self.runtime.registry).secrets()

    def create_deploy_template(self, context: Any, values: Mapping[str, Any]) -> DeployTemplate:
        """Check and store a deploy template; see :mod:`deploysteps.conductor.library`."""
        return library.create_deploy_template(self.runtime, context, values)

    def update_deploy_template(
        self,
        context: Any,
        ident: str,
        values: Mapping[str, Any],
        before: Mapping[str, Any] | None = None,
    ) -> DeployTemplate:
        """Check and change a deploy template; ``before`` as in :meth:`update_node`."""
        return library.update_deploy_template(self.runtime, context, ident, values, before)

    def destroy_deploy_template(self, context: Any, ident: str) -> None:
        """Remove a deploy template."""
        library.destroy_deploy_template(self.runtime, context, ident)

    def create_runbook(self, context: Any, values: Mapping[str, Any]) -> Runbook:
        """Check and store a runbook."""
        return library.create_runbook(self.runtime, context, values)

    def update_runbook(
        self,
        context: Any,
        ident: str,
        values: Mapping[str, Any],
        before: Mapping[str, Any] | None = None,
    ) -> Runbook:
        """Check and change a runbook; ``before`` as in :meth:`update_node`."""
        return library.update_runbook(self.runtime, context, ident, values, before)

    def destroy_runbook(self, context: Any, ident: str) -> None:
        """Remove a runbook."""
        library.destroy_runbook(self.runtime, context, ident)

    # --- helpers -------------------------------------------------------------------

    def _shared(self, context: Any, node_id: str, purpose: str) -> TaskManager:
        return acquire(context, node_id, shared=True, purpose=purpose, runtime=self.runtime)


_ACTIONS: dict[str, Callable[[Runtime, Any, str], None]] = {
    states.MANAGE: provision.manage,
    states.PROVIDE: provision.provide,
    states.ABORT: provision.abort,
    states.UNHOLD: provision.unhold,
    **{
        event: functools.partial(calls.begin, event=event)
        for event in calls.VERBS
        if event != states.TO_RESCUE
    },
}
