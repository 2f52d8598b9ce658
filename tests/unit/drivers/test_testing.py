"""What authors are given to test their drivers."""

from __future__ import annotations

import pytest

from deploysteps import exceptions, states
from deploysteps.drivers import base, testing


class Odd(base.BIOSInterface):
    get_properties = validate = lambda self, task=None: {}

    @base.deploy_step(10, {"answer": {"description": "what it returns", "required": True}})
    def go(self, task, answer):
        task.node.set_driver_internal_info("seen", answer)
        return answer


class Polled(Odd):
    def check_step(self, task, step):
        return states.StepStatus.DONE


def test_a_wait_that_nobody_can_check_is_refused_as_by_the_engine():
    waits = states.wait(states.DEPLOYWAIT, poll=1)
    with pytest.raises(exceptions.DeployStepFailed, match=r"Odd has no check_step"):
        testing.run_step(testing.FakeTask(Odd()), "go", {"answer": waits})


def test_a_step_runs_without_hardware_database_or_conductor():
    task = testing.FakeTask(Polled(), driver_info={"address": "x"})
    waits = states.wait(states.DEPLOYWAIT, poll=1)
    assert testing.run_step(task, "go", {"answer": waits}) == states.DEPLOYWAIT
    assert task.node.driver_internal_info == {"seen": waits}
    assert task.node.driver_info == {"address": "x"}


@pytest.mark.parametrize(
    "answer", [0, "", [], True, (1, 2), object(), NotImplemented, "clean wait"]
)
def test_an_answer_that_the_engine_refuses_is_refused(answer):
    """F75."""
    with pytest.raises(exceptions.DeployStepFailed, match=r"bios.go returned a"):
        testing.run_step(testing.FakeTask(Odd()), "bios.go", {"answer": answer})


def test_arguments_are_checked_and_unknown_steps_refused():
    task = testing.FakeTask(Odd())
    with pytest.raises(exceptions.InvalidParameterValue, match="answer"):
        testing.run_step(task, "go")
    with pytest.raises(exceptions.InvalidParameterValue, match=r"no deploy step 'gone'.*bios\.go"):
        testing.run_step(task, "gone")


def test_what_a_driver_asks_the_task_for_is_noted():
    task = testing.FakeTask()
    task.upgrade_lock()
    task.process_event("fail")
    task.complete_step()
    task.fail_step("why")
    task.spawn_after(print, 1, sep="")
    task.release_resources()
    assert task.events == [
        ("process_event", "fail"),
        ("complete_step",),
        ("fail_step", "why"),
        ("spawn_after", print, (1,), {"sep": ""}),
        ("release_resources",),
    ]


def test_the_fake_node_has_the_nodes_methods():
    node = testing.FakeTask().node
    node.timestamp_driver_internal_info("at")
    assert node.driver_internal_info["at"].endswith("+00:00")
    assert node.del_driver_internal_info("at")
    assert node.del_driver_internal_info("at", "none") == "none"
    node.save()
    node.refresh()
    assert node.saves == 1
