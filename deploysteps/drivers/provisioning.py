"""Interfaces that bring a machine into service: deploy, boot, network and more.

Abstract is what makes no sense without an answer. What may be missing
raises ``UnsupportedDriverExtension`` until a driver overrides it.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

from deploysteps import exceptions, protocols, states, steps
from deploysteps.drivers.contract import BaseInterface, DescribedInterface, unsupported


class DeployInterface(DescribedInterface):
    """Puts an instance on the machine and takes it off again."""

    interface_type = "deploy"

    @abc.abstractmethod
    def prepare(self, task: protocols.Task) -> str | None:
        """Make ready what the steps need; runs before the first one.

        :returns: None, or ``states.DEPLOYWAIT`` when it goes on elsewhere: the
            agent boots, and the first step waits for it.
        """

    @abc.abstractmethod
    def clean_up(self, task: protocols.Task) -> None:
        """Undo :meth:`prepare`; runs before a failed run ends. Idempotent."""

    @abc.abstractmethod
    def tear_down(self, task: protocols.Task) -> str | None:
        """Take the instance off the machine.

        :returns: None or ``states.DELETED``.
        """

    @abc.abstractmethod
    def take_over(self, task: protocols.Task) -> None:
        """Make this conductor serve a node that another one served before."""

    def heartbeat(
        self,
        task: protocols.Task,
        callback_url: str,
        agent_version: str | None,
        agent_verify_ca: str | None = None,
        agent_status: str | None = None,
        agent_status_message: str | None = None,
    ) -> None:
        """Decide what a heartbeat of the machine's agent means.

        This one asks ``check_step`` of the interface whose step waits for the
        agent and completes the step when it is done; a beat that no step
        waits for means nothing. An override decides alone.

        A class that deploys the old way, by a plain method ``deploy(task)``,
        has its own methods asked, as far as it has them: ``continue_deploy``
        until ``deploy_has_started``, ``reboot_to_instance`` when
        ``deploy_is_done``.

        :param callback_url: where the agent answers.
        :raises Exception: any; the waiting step has failed for this reason.
        """
        step = task.waiting_step
        if step is None:
            return
        if step.get("old_way") and not self._is_only_a_step():
            self._old_heartbeat(task)
            return
        # What the agent offers, this interface runs, whatever interface it is listed under.
        interface = self if step.get("agent") else getattr(task.driver, step["interface"])
        status = interface.check_step(task, step)
        if status is states.StepStatus.DONE:
            task.complete_step()
        elif status is not states.StepStatus.RUNNING:
            raise exceptions.DeployStepFailed(
                f"check_step of the {step['interface']} interface {type(interface).__name__} "
                f"returned a {type(status).__name__}; it must return StepStatus.DONE or .RUNNING"
            )

    def _is_only_a_step(self) -> bool:
        """Tell whether ``deploy`` is a declared step, and nothing leads it as in old drivers.

        A pin calls such a class the old way as well; its wait ends as a step's does.
        """
        led = ("deploy_has_started", "continue_deploy", "deploy_is_done", "reboot_to_instance")
        declared = self.declaration(steps.DEPLOY.name, "deploy") is not None
        return declared and not any(self._own(name) for name in led)

    def _old_heartbeat(self, task: protocols.Task) -> None:
        started, go_on = self._own("deploy_has_started"), self._own("continue_deploy")
        done, reboot = self._own("deploy_is_done"), self._own("reboot_to_instance")
        if started and go_on and not started(task):
            go_on(task)
        elif done and reboot and done(task):
            reboot(task)

    def _own(self, name: str) -> Callable[[protocols.Task], Any] | None:
        return getattr(self, name, None)

    def agent_steps(self, task: protocols.Task, flow: str) -> list[steps.StepDict] | None:
        """Return the steps that the machine's agent offers, on any interface.

        A class that offers some overrides ``execute_<flow>_step`` as well: it
        is called with each such step, whose ``agent`` is True.

        :param flow: name of the flow, such as ``deploy``.
        :returns: the steps; an empty list where no agent has any of its own;
            None while an agent is to come that has not told yet.
        """
        return []

    def prepare_cleaning(self, task: protocols.Task) -> str | None:
        """Make ready what cleaning needs.

        :returns: None, or ``states.CLEANWAIT``, as :meth:`prepare`.
        """

    def tear_down_cleaning(self, task: protocols.Task) -> None:
        """Undo :meth:`prepare_cleaning`."""

    def prepare_service(self, task: protocols.Task) -> str | None:
        """Make ready what servicing needs.

        :returns: None, or ``states.SERVICEWAIT``, as :meth:`prepare`.
        """

    def tear_down_service(self, task: protocols.Task) -> None:
        """Undo :meth:`prepare_service`."""


class BootInterface(DescribedInterface):
    """Makes the machine boot the agent's ramdisk or the instance."""

    interface_type = "boot"
    capabilities: ClassVar[Sequence[str]] = ()
    """Words for what this way to boot can do, as the field has them."""

    @abc.abstractmethod
    def prepare_ramdisk(self, task: protocols.Task, ramdisk_params: Mapping[str, Any]) -> None:
        """Make the next boot start the ramdisk.

        :param ramdisk_params: kernel parameters for it.
        """

    @abc.abstractmethod
    def clean_up_ramdisk(self, task: protocols.Task) -> None:
        """Undo :meth:`prepare_ramdisk`."""

    @abc.abstractmethod
    def prepare_instance(self, task: protocols.Task) -> None:
        """Make the next boot start the instance."""

    @abc.abstractmethod
    def clean_up_instance(self, task: protocols.Task) -> None:
        """Undo :meth:`prepare_instance`."""

    def validate_rescue(self, task: protocols.Task) -> None:
        """Check that the node can boot a rescue ramdisk."""
        raise unsupported(task, "validate_rescue")

    def validate_inspection(self, task: protocols.Task) -> None:
        """Check that the node can boot a ramdisk for inspection."""
        raise unsupported(task, "validate_inspection")


class NetworkInterface(BaseInterface):
    """Connects the machine's ports to the networks that it needs."""

    interface_type = "network"

    @abc.abstractmethod
    def port_changed(self, task: protocols.Task, port_obj: protocols.Port) -> None:
        """Check or apply a change of a port."""

    @abc.abstractmethod
    def vif_attach(self, task: protocols.Task, vif_info: Mapping[str, Any]) -> None:
        """Attach a virtual interface; ``vif_info['id']`` names it."""

    @abc.abstractmethod
    def vif_detach(self, task: protocols.Task, vif_id: str) -> None:
        """Detach a virtual interface."""

    @abc.abstractmethod
    def vif_list(self, task: protocols.Task) -> list[dict[str, Any]]:
        """Return the attached virtual interfaces, each ``{'id': ...}``."""

    @abc.abstractmethod
    def get_current_vif(self, task: protocols.Task, p_obj: protocols.Port) -> str | None:
        """Return the virtual interface that a port has now."""

    @abc.abstractmethod
    def add_provisioning_network(self, task: protocols.Task) -> None:
        """Connect the machine to the provisioning network."""

    @abc.abstractmethod
    def remove_provisioning_network(self, task: protocols.Task) -> None:
        """Disconnect the machine from the provisioning network."""

    @abc.abstractmethod
    def configure_tenant_networks(self, task: protocols.Task) -> None:
        """Connect the machine to its tenant's networks."""

    @abc.abstractmethod
    def unconfigure_tenant_networks(self, task: protocols.Task) -> None:
        """Disconnect the machine from its tenant's networks."""

    @abc.abstractmethod
    def add_cleaning_network(self, task: protocols.Task) -> None:
        """Connect the machine to the cleaning network."""

    @abc.abstractmethod
    def remove_cleaning_network(self, task: protocols.Task) -> None:
        """Disconnect the machine from the cleaning network."""

    def add_inspection_network(self, task: protocols.Task) -> None:
        """Connect the machine to the inspection network."""
        raise unsupported(task, "add_inspection_network")

    def remove_inspection_network(self, task: protocols.Task) -> None:
        """Disconnect the machine from the inspection network."""
        raise unsupported(task, "remove_inspection_network")

    def add_rescuing_network(self, task: protocols.Task) -> None:
        """Connect the machine to the rescuing network."""
        raise unsupported(task, "add_rescuing_network")

    def remove_rescuing_network(self, task: protocols.Task) -> None:
        """Disconnect the machine from the rescuing network."""
        raise unsupported(task, "remove_rescuing_network")

    def add_servicing_network(self, task: protocols.Task) -> None:
        """Connect the machine to the servicing network."""
        raise unsupported(task, "add_servicing_network")

    def remove_servicing_network(self, task: protocols.Task) -> None:
        """Disconnect the machine from the servicing network."""
        raise unsupported(task, "remove_servicing_network")

    def validate_rescue(self, task: protocols.Task) -> None:
        """Check that the node can be rescued over the network."""
        raise unsupported(task, "validate_rescue")

    def validate_inspection(self, task: protocols.Task) -> None:
        """Check that the node can be inspected over the network."""
        raise unsupported(task, "validate_inspection")

    def need_power_on(self, task: protocols.Task) -> bool:
        """Tell whether the machine must be on before its networks change."""
        return False

    def get_node_network_data(self, task: protocols.Task) -> dict[str, Any]:
        """Return the static network configuration for the ramdisk."""
        return {}


class InspectInterface(DescribedInterface):
    """Finds out what the machine is made of."""

    interface_type = "inspect"

    @abc.abstractmethod
    def inspect_hardware(self, task: protocols.Task) -> str | None:
        """Inspect the machine.

        :returns: ``states.MANAGEABLE`` when done, ``states.INSPECTWAIT`` when
            it goes on.
        """

    def abort(self, task: protocols.Task) -> None:
        """Stop an inspection that goes on."""
        raise unsupported(task, "abort")

    def continue_inspection(
        self,
        task: protocols.Task,
        inventory: Mapping[str, Any],
        plugin_data: Mapping[str, Any] | None = None,
    ) -> str | None:
        """Take what the ramdisk found."""
        raise unsupported(task, "continue_inspection")


class RescueInterface(DescribedInterface):
    """Boots a rescue system on a machine with an instance."""

    interface_type = "rescue"

    @abc.abstractmethod
    def rescue(self, task: protocols.Task) -> str | None:
        """Boot the rescue system."""

    @abc.abstractmethod
    def unrescue(self, task: protocols.Task) -> str | None:
        """Boot the instance again."""

    def clean_up(self, task: protocols.Task) -> None:
        """Undo what a rescue that failed has made."""


class StorageInterface(DescribedInterface):
    """Connects the machine to remote volumes."""

    interface_type = "storage"

    @abc.abstractmethod
    def attach_volumes(self, task: protocols.Task) -> None:
        """Connect the node's volumes."""

    @abc.abstractmethod
    def detach_volumes(self, task: protocols.Task) -> None:
        """Disconnect the node's volumes."""

    @abc.abstractmethod
    def should_write_image(self, task: protocols.Task) -> bool:
        """Tell whether a deployment writes an image to a disk of the machine."""
