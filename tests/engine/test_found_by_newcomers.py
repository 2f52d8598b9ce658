"""What somebody who met the service for the first time stumbled over, in the conductor."""

import logging

import pytest

from deploysteps import counts, exceptions, states
from deploysteps.conductor import beats
from deploysteps.conductor.recovery import Recovery
from deploysteps.db import conductors, locks, nodes, types
from deploysteps.drivers.base import clean_step
from tests import support

DRIVE = {"meta_data": {"name": "x"}}


class Choosy(support.Deploy):
    """Refuses every configuration drive that is an object."""

    def validate(self, task):
        if isinstance(task.node.instance_info.get("configdrive"), dict):
            raise exceptions.InvalidParameterValue("configdrive: no program makes an ISO")


def test_the_configdrive_of_the_request_is_what_is_checked(sqlite, start):
    """A drive that is refused is not stored, and does not stand in the way of the next one."""
    service = start(sqlite, deploy=Choosy)
    node = support.enrolled(service)
    with pytest.raises(exceptions.InvalidParameterValue, match="no program makes an ISO"):
        service.manager.do_node_deploy(None, node.uuid, configdrive=DRIVE)
    now = nodes.get(sqlite, node.uuid)
    assert now.provision_state == states.AVAILABLE and now.reservation is None
    assert "configdrive" not in now.instance_info
    service.manager.do_node_deploy(None, node.uuid, configdrive="http://x/drive")
    now = support.settle(sqlite, node.uuid, states.ACTIVE)
    assert now.instance_info["configdrive"] == "http://x/drive"


def test_a_new_configdrive_is_checked_in_place_of_a_stored_one(sqlite, start):
    service = start(sqlite, deploy=Choosy)
    node = support.enrolled(service, instance_info={"configdrive": DRIVE})
    with pytest.raises(exceptions.InvalidParameterValue, match="no program makes an ISO"):
        service.manager.do_node_deploy(None, node.uuid)
    service.manager.do_node_deploy(None, node.uuid, configdrive="http://x/drive")
    support.settle(sqlite, node.uuid, states.ACTIVE)


class Erases(support.Deploy):
    """Has a cleaning step, and may be unable to tell it."""

    broken = False

    @clean_step(priority=10)
    def erase(self, task):
        """Erase the disks."""

    def get_clean_steps(self, task):
        if self.broken:
            raise RuntimeError("no steps today")
        return super().get_clean_steps(task)


@pytest.mark.parametrize("broken", [False, True])
def test_a_cleaning_that_is_switched_off_keeps_what_it_did_not_do(
    sqlite, start, conf, monkeypatch, broken
):
    monkeypatch.setattr(Erases, "broken", broken)
    conf.set_override("automated_clean", False, group="conductor")
    service = start(sqlite, deploy=Erases)
    before = counts.RUNS.shown().get(("clean", "nothing_done"), 0)
    node = support.enrolled(service, provision_state=states.MANAGEABLE)
    service.manager.do_provisioning_action(None, node.uuid, "provide")
    node = support.settle(sqlite, node.uuid, states.AVAILABLE)
    run = support.last_run(sqlite, node)
    assert run.outcome == "success" and run.plan == []
    left = [(one["step"], one["why"]) for one in run.left_out or ()]
    why = "[conductor] automated_clean is off"
    assert left == [] if broken else ("erase", why) in left
    # Counted once it is written.
    support.until(lambda: counts.RUNS.shown().get(("clean", "nothing_done"), 0) == before + 1)


def test_metrics_name_the_calls_of_work_without_steps(sqlite, start):
    service = start(sqlite)
    node = support.enrolled(service, provision_state=states.MANAGEABLE)
    service.manager.do_provisioning_action(None, node.uuid, "inspect")
    support.settle(sqlite, node.uuid, states.MANAGEABLE, states.INSPECTFAIL)

    def steps():
        return {labels[1] for labels in counts.STEPS.shown() if labels[0] == "inspect"}

    support.until(steps)
    assert steps() == {"inspect.inspect_hardware"}


def test_a_second_conductor_on_one_sqlite_file_is_told(sqlite, start, caplog):
    conductors.register(sqlite, "another-host", "boot", [])
    start(sqlite)
    assert "is also used by conductor another-host" in caplog.text


def test_a_lookup_without_an_answer_says_why_to_the_operator(sqlite, start, caplog):
    """The agent is told the same text in each case, the log is not."""
    service = start(sqlite)
    node = support.enrolled(service)
    caplog.set_level(logging.INFO)
    for addresses, uuid, told in (
        ((), node.uuid, f"found node {node.uuid}, which is in state available"),
        ((), "5d1a5b2c-6f1a-4b8a-9d51-00000000ffff", "which is not there"),
        (("52:54:00:00:00:99",), None, "has a port: 52:54:00:00:00:99"),
    ):
        caplog.clear()
        with pytest.raises(exceptions.NotFound, match="Could not find the requested node"):
            beats.lookup(service.runtime, addresses, uuid)
        assert told in caplog.text


def test_a_conductor_is_lost_once_whatever_it_did_then(database, start):
    """The time that is told is its last sign of life, not the begin of each step."""
    service = start(database)
    conductors.register(database, "gone", "boot", [])
    heard = types.timestamp(conductors.get(database, "gone").updated_at)
    lost = []
    for _ in range(2):
        node = support.enrolled(service, provision_state=states.DEPLOYING)
        locks.grant(database, node.id, "gone", "deploy")
        lost.append(node)
    conductors.leave(database, "gone", "boot")
    Recovery(service.runtime).sweep()
    for node in lost:
        after = support.settle(database, node.uuid, states.DEPLOYFAIL)
        assert f"conductor gone was lost (last heard of at {heard})" in after.last_error
