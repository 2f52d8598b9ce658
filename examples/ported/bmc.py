"""RAID and BIOS settings as jobs of a management controller.

A step schedules a job, reboots the machine and returns; a periodic method
asks the controller about the jobs, and ends the wait.
"""

from __future__ import annotations

import logging

from deploysteps import states
from deploysteps.drivers import base
from deploysteps.drivers import compat as deploy_utils
from deploysteps.drivers import compat as manager_utils
from deploysteps.drivers import compat as metrics_utils
from deploysteps.drivers import compat as periodics
from deploysteps.drivers import compat as task_manager
from deploysteps.drivers.compat import _, exception
from examples.ported import controller

LOG = logging.getLogger(__name__)

METRICS = metrics_utils.get_metrics_logger(__name__)

COMMON_PROPERTIES = {"bmc_address": _("where the management controller is. Required.")}

QUERY_INTERVAL = 1
"""Seconds between two looks at the jobs; a real driver takes it from its settings."""

_RAID_ARGSINFO = {
    "create_root_volume": {
        "description": _("Whether to create the root volume. Defaults to True."),
        "required": False,
    },
    "create_nonroot_volumes": {
        "description": _("Whether to create the other volumes. Defaults to True."),
        "required": False,
    },
    "delete_existing": {
        "description": _("Whether to delete existing volumes first. Defaults to False."),
        "required": False,
    },
}

_BIOS_ARGSINFO = {
    "settings": {
        "description": _("A list of BIOS settings, each with a name and a value."),
        "required": True,
    }
}


def _client(node):
    """Return the node's controller.

    :raises MissingParameterValue: the node does not say where it is.
    """
    address = (node.driver_info or {}).get("bmc_address")
    if not address:
        raise exception.MissingParameterValue(_("Missing bmc_address in node's driver_info."))
    return controller.at(address)


class BMCPower(base.PowerInterface):
    """Switches the machine through its controller."""

    def get_properties(self):
        """Return what may be set in driver_info."""
        return COMMON_PROPERTIES

    def validate(self, task):
        """Check that the node says where its controller is."""
        _client(task.node)

    @METRICS.timer("BMCPower.get_power_state")
    def get_power_state(self, task):
        """Ask the controller."""
        return states.POWER_ON if _client(task.node).power_on else states.POWER_OFF

    @METRICS.timer("BMCPower.set_power_state")
    @task_manager.require_exclusive_lock
    def set_power_state(self, task, power_state, timeout=None):
        """Switch the machine."""
        if power_state == states.REBOOT:
            self.reboot(task, timeout)
        else:
            _client(task.node).switch(power_state == states.POWER_ON)

    @METRICS.timer("BMCPower.reboot")
    @task_manager.require_exclusive_lock
    def reboot(self, task, timeout=None):
        """Switch the machine off and on."""
        _client(task.node).switch(False)
        _client(task.node).switch(True)


def _begin_jobs(task, key, job_ids):
    """Note the jobs, reboot the machine for them, and say how the step goes on."""
    node = task.node
    node.set_driver_internal_info(key, job_ids)
    node.save()
    deploy_utils.set_async_step_flags(node, reboot=True, skip_current_step=True, polling=True)
    manager_utils.node_power_action(task, states.REBOOT)
    return deploy_utils.get_async_step_return_state(node)


def _resume(task):
    """Let the flow that waits go on."""
    if task.node.clean_step:
        manager_utils.notify_conductor_resume_clean(task)
    elif task.node.service_step:
        manager_utils.notify_conductor_resume_service(task)
    else:
        manager_utils.notify_conductor_resume_deploy(task)


def _jobs_of(node, key):
    """Return the node's jobs that go on, and those that have failed."""
    client = _client(node)
    jobs = [client.job(job_id) for job_id in node.driver_internal_info[key]]
    pending = [job for job in jobs if job.state in ("Scheduled", "Running")]
    failed = [job for job in jobs if job.state == "Failed"]
    return pending, failed


class BMCRAID(base.RAIDInterface):
    """Logical disks by jobs of the controller."""

    def get_properties(self):
        """Return what may be set in driver_info."""
        return COMMON_PROPERTIES

    @METRICS.timer("BMCRAID.create_configuration")
    @base.service_step(priority=0, abortable=False, argsinfo=_RAID_ARGSINFO, requires_ramdisk=False)
    @base.clean_step(priority=0, abortable=False, argsinfo=_RAID_ARGSINFO, requires_ramdisk=False)
    @base.deploy_step(priority=0, argsinfo=_RAID_ARGSINFO)
    def create_configuration(
        self, task, create_root_volume=True, create_nonroot_volumes=True, delete_existing=False
    ):
        """Make the logical disks of the node's target_raid_config."""
        config = getattr(task.node, "target_raid_config", None) or {}
        disks = [
            disk
            for disk in config.get("logical_disks", ())
            if (create_root_volume if disk.get("is_root_volume") else create_nonroot_volumes)
        ]
        if not disks:
            raise exception.MissingParameterValue(_("The node has no target_raid_config."))
        client = _client(task.node)
        jobs = [client.schedule("delete volumes")] if delete_existing else []
        jobs += [client.schedule("create volume", disk) for disk in disks]
        return _begin_jobs(task, "raid_config_job_ids", jobs)

    @METRICS.timer("BMCRAID.delete_configuration")
    @base.clean_step(priority=0, requires_ramdisk=False)
    @base.deploy_step(priority=0)
    def delete_configuration(self, task):
        """Remove all logical disks."""
        jobs = [_client(task.node).schedule("delete volumes")]
        return _begin_jobs(task, "raid_config_job_ids", jobs)

    @METRICS.timer("BMCRAID._query_raid_config_job_status")
    @periodics.node_periodic(
        purpose="checking async raid configuration jobs",
        spacing=QUERY_INTERVAL,
        filters={"reserved": False, "maintenance": False},
        predicate_extra_fields=["driver_internal_info"],
        predicate=lambda n: n.driver_internal_info.get("raid_config_job_ids"),
    )
    def _query_raid_config_job_status(self, task, manager, context):
        """Ask about the jobs of one node."""
        self._check_node_raid_jobs(task)

    @METRICS.timer("BMCRAID._check_node_raid_jobs")
    def _check_node_raid_jobs(self, task):
        node = task.node
        pending, failed = _jobs_of(node, "raid_config_job_ids")
        if pending:
            return
        task.upgrade_lock()
        # Forgotten before the wait ends: a step that starts next may have jobs too.
        node.del_driver_internal_info("raid_config_job_ids")
        node.save()
        if failed:
            self._set_failed(task, failed)
        else:
            _resume(task)

    def _set_failed(self, task, jobs):
        message = _("Failed RAID configuration jobs: %s") % ", ".join(
            f"{job.id} ({job.message})" for job in jobs
        )
        LOG.error("RAID configuration of node %s failed: %s", task.node.uuid, message)
        task.node.last_error = message
        task.process_event("fail")


class BMCBIOS(base.BIOSInterface):
    """BIOS settings by a job of the controller."""

    def get_properties(self):
        """Return what may be set in driver_info."""
        return COMMON_PROPERTIES

    def validate(self, task):
        """Check that the node says where its controller is."""
        _client(task.node)

    def cache_bios_settings(self, task):
        """Nothing is kept."""

    @METRICS.timer("BMCBIOS.apply_configuration")
    @base.service_step(priority=0, abortable=False, argsinfo=_BIOS_ARGSINFO, requires_ramdisk=False)
    @base.clean_step(priority=0, abortable=False, argsinfo=_BIOS_ARGSINFO, requires_ramdisk=False)
    @base.deploy_step(priority=0, argsinfo=_BIOS_ARGSINFO)
    def apply_configuration(self, task, settings):
        """Write settings at the next boot."""
        jobs = [_client(task.node).schedule("BIOS settings", settings)]
        return _begin_jobs(task, "bios_config_job_ids", jobs)

    @METRICS.timer("BMCBIOS.factory_reset")
    @base.clean_step(priority=0, requires_ramdisk=False)
    @base.deploy_step(priority=0)
    def factory_reset(self, task):
        """Bring all settings back to the maker's at the next boot."""
        jobs = [_client(task.node).schedule("BIOS reset")]
        return _begin_jobs(task, "bios_config_job_ids", jobs)

    @METRICS.timer("BMCBIOS._query_bios_config_job_status")
    @periodics.node_periodic(
        purpose="checking async bios configuration jobs",
        spacing=QUERY_INTERVAL,
        filters={"reserved": False, "maintenance": False},
        predicate_extra_fields=["driver_internal_info"],
        predicate=lambda n: n.driver_internal_info.get("bios_config_job_ids"),
    )
    def _query_bios_config_job_status(self, task, manager, context):
        """Ask about the jobs of one node."""
        node = task.node
        pending, failed = _jobs_of(node, "bios_config_job_ids")
        if pending:
            return
        task.upgrade_lock()
        node.del_driver_internal_info("bios_config_job_ids")
        node.save()
        if not failed:
            _resume(task)
            return
        message = _("Failed BIOS configuration: %s") % failed[0].message
        if node.clean_step:
            manager_utils.cleaning_error_handler(task, message)
        elif node.service_step:
            manager_utils.servicing_error_handler(task, message)
        else:
            manager_utils.deploying_error_handler(task, message, errmsg=message)
