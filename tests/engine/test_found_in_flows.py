"""What an adversary found in the running of flows: how steps end, who may go on, brakes, aborts.

What was found in lists and plans of steps is in ``test_found_in_plans``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

from deploysteps import exceptions, states
from deploysteps.conductor import beats, task_manager
from deploysteps.db import beats as rows
from deploysteps.db import nodes, runs
from deploysteps.drivers import base, fake
from deploysteps.steps import FLOWS, StepFlow
from tests import support
from tests.engine.test_runs import assert_no_residue

ENDS = (
    states.ACTIVE,
    states.AVAILABLE,
    states.MANAGEABLE,
    states.ERROR,
    *(flow.failed for flow in FLOWS.values() if flow.waiting),
)
ASKED = pytest.mark.parametrize(
    "flow", [f for f in FLOWS.values() if f.waiting], ids=lambda f: f.name
)
"""The flows that have steps which people ask for."""

Code = Callable[[Any], Any]


def vendor(*codes: Code, **rules: Any) -> type[support.Vendor]:
    """Return an interface whose steps are these functions, under their names.

    They are steps of every flow and run in this order. ``rules`` are those of
    the clean and service steps.
    """
    made = {}
    for place, code in enumerate(codes):
        priority = 90 - place

        def step(self: Any, task: Any, code: Code = code) -> Any:
            return code(task)

        step = base.deploy_step(priority=priority)(step)
        step = base.clean_step(priority=priority, requires_ramdisk=False, **rules)(step)
        made[code.__name__] = base.service_step(requires_ramdisk=False, **rules)(step)
    return type("Vendor", (support.Vendor,), made)


def begun(service: Any, flow: StepFlow, *names: str, **values: Any) -> Any:
    """Begin a run; by these steps where the flow is begun on request, or is to be."""
    start_at = {"deploy": states.AVAILABLE, "clean": states.MANAGEABLE, "service": states.ACTIVE}
    node = support.enrolled(service, provision_state=start_at[flow.name], **values)
    manager = service.manager
    wanted = [{"interface": "vendor", "step": name} for name in names]
    if flow.name == "deploy":
        manager.do_node_deploy(None, node.uuid)
    elif flow.name == "service":
        manager.do_node_service(None, node.uuid, wanted)
    elif names:
        manager.do_node_clean(None, node.uuid, wanted)
    else:
        manager.do_provisioning_action(None, node.uuid, states.PROVIDE)
    return node


def ended(database: Any, node: Any) -> Any:
    """Return the node once nothing goes on with it."""
    return support.settle(database, node.uuid, *ENDS)


def after_a_beat(service: Any, database: Any, node: Any) -> Any:
    """Send the beat that a deployment waits for, and return the node once it has ended."""
    support.settle(database, node.uuid, states.DEPLOYWAIT)
    support.beat(service, node, support.token(service, node))
    return ended(database, node)


def of_vendor(database: Any, node: Any) -> list[tuple[str, str | None]]:
    """Return (step, outcome) of the newest run's attempts at steps of the vendor interface."""
    tried = support.attempts(database, node)
    return [(a.step, a.outcome) for a in tried if a.interface == "vendor"]


# --- what a step or its driver says -----------------------------------------------------------


@ASKED
def test_an_event_in_prepare_ends_prepare_and_not_the_run(sqlite, start, flow):
    """F1: no step is left out because preparing said that it is done."""
    ran: list[int] = []

    class Deploy(support.Deploy):
        def prepare(self, task):
            task.process_event("done")

        prepare_cleaning = prepare_service = prepare

    def wipe(task):
        ran.append(1)

    service = start(sqlite, vendor=vendor(wipe), deploy=Deploy)
    node = begun(service, flow, "wipe")
    assert ended(sqlite, node).last_error is None
    assert ran == [1] and of_vendor(sqlite, node) == [("wipe", "success")]


def test_events_of_a_heartbeat_end_the_wait_of_prepare_and_not_the_run(sqlite, start):
    """F1: as drivers of the field do it, in a ``heartbeat`` of their own."""
    ran: list[int] = []

    class Deploy(support.Deploy):
        def prepare(self, task):
            return states.DEPLOYWAIT

        def heartbeat(self, task, *args, **kwargs):
            task.process_event("resume")
            task.process_event("done")

    def wipe(task):
        ran.append(1)

    service = start(sqlite, vendor=vendor(wipe), deploy=Deploy)
    node = begun(service, FLOWS["deploy"])
    assert after_a_beat(service, sqlite, node).provision_state == states.ACTIVE and ran == [1]


def raises_after_done(task):
    task.process_event("done")
    raise RuntimeError("disk dead")


def says_failed(task):
    task.fail_step("disk dead")


def waits_after_failed(task):
    task.fail_step("disk dead")
    return states.DEPLOYWAIT


@pytest.mark.parametrize("code", [raises_after_done, says_failed, waits_after_failed])
def test_a_failure_stands_whatever_else_the_step_says(sqlite, start, code):
    """F74: fail closed, and the reason is told."""
    service = start(sqlite, vendor=vendor(code))
    node = ended(sqlite, begun(service, FLOWS["deploy"]))
    assert node.provision_state == states.DEPLOYFAIL and "disk dead" in node.last_error
    assert of_vendor(sqlite, node) == [(code.__name__, "failed")]


async def never(self, task):
    raise AssertionError("nobody awaits it")


@pytest.mark.filterwarnings("ignore:coroutine:RuntimeWarning")
@pytest.mark.parametrize(
    "prepare",
    [
        never,
        lambda self, task: False,
        lambda self, task: {"status": "failed"},
        lambda self, task: states.CLEANWAIT,
    ],
    ids=["coroutine", "False", "dict", "wait of another flow"],
)
def test_preparing_answers_as_steps_do(sqlite, start, prepare):
    """F74, F75: what means nothing is a failure that names the method."""
    service = start(sqlite, deploy=type("Deploy", (support.Deploy,), {"prepare": prepare}))
    node = ended(sqlite, begun(service, FLOWS["deploy"]))
    assert node.provision_state == states.DEPLOYFAIL
    assert "deploy.prepare failed: it returned" in node.last_error
    assert support.outcomes(sqlite, node) == []


def test_putting_away_answers_as_steps_do(sqlite, start):
    """F74: a failure that is returned while tidying up does not make the node available."""

    class Deploy(support.Deploy):
        def tear_down_cleaning(self, task):
            return {"status": "failed"}

    service = start(sqlite, deploy=Deploy)
    node = ended(sqlite, begun(service, FLOWS["clean"]))
    assert node.provision_state == states.CLEANFAIL
    assert "deploy.tear_down_cleaning failed: it returned dict" in node.last_error


class Unequal:
    """A share of work that cannot be compared."""

    def __ne__(self, other):
        raise RuntimeError("no")

    def __float__(self):
        return 5.0


class Exits:
    def __str__(self):
        raise SystemExit(1)


@pytest.mark.parametrize(
    ("percent", "text", "noted"),
    [(Unequal(), "", 5.0), (5, Exits(), None), (float("nan"), "", 0.0), (10**400, "", None)],
    ids=["unequal", "exits", "nan", "huge"],
)
def test_progress_is_never_a_reason_to_fail(sqlite, start, percent, text, noted):
    """F64: whatever its values do when they are read."""

    def works(task):
        task.report_progress(percent, text)
        task.report_progress(percent, text)

    service = start(sqlite, vendor=vendor(works))
    node = ended(sqlite, begun(service, FLOWS["deploy"]))
    assert (node.provision_state, node.last_error) == (states.ACTIVE, None)
    progress = support.attempts(sqlite, node)[-1].progress
    assert (progress and progress["percent"]) == noted


# --- who ends a wait --------------------------------------------------------------------------


def waits_again(start, database, **how):
    """Return (service, node, its entries) in the first of two waits of a step."""
    entered: list[int] = []

    def again(task):
        entered.append(1)
        if len(entered) > 2:
            return None
        task.node.set_driver_internal_info("skip_current_deploy_step", False)
        return states.wait(states.DEPLOYWAIT, **how)

    service = start(database, vendor=vendor(again))
    node = begun(service, FLOWS["deploy"])
    support.settle(database, node.uuid, states.DEPLOYWAIT)
    return service, node, entered


def second_wait(database, node, first):
    """Return the attempt once it waits for the second time."""
    support.until(
        lambda: (
            (now := support.attempts(database, node)[-1]).state == runs.WAITING
            and now.waiting_since != first.waiting_since
        )
    )
    support.settle(database, node.uuid, states.DEPLOYWAIT)
    return support.attempts(database, node)[-1]


def test_a_completion_is_of_one_wait_and_not_of_the_next(database, start):
    """F16: an attempt that is entered again may wait twice; who ended the first wait is late."""
    service, node, entered = waits_again(start, database, callback=True)
    first = support.attempts(database, node)[-1]
    late = task_manager.acquire(None, node.uuid, shared=True, runtime=service.runtime)
    late.complete_step()
    assert second_wait(database, node, first).signal is None
    late.complete_step()
    late.fail_step("late")
    now = support.attempts(database, node)[-1]
    assert (now.state, now.signal, len(entered)) == (runs.WAITING, None, 2)
    task_manager.acquire(None, node.uuid, shared=True, runtime=service.runtime).complete_step()
    assert ended(database, node).provision_state == states.ACTIVE and len(entered) == 3


def test_a_beat_that_was_read_in_one_wait_does_not_end_the_next(database, start):
    """F16, F19: it is recorded; the wait goes on."""
    service, node, entered = waits_again(start, database)
    token = support.token(service, node)
    first, seen = support.attempts(database, node)[-1], rows.see(database, node.uuid)
    support.beat(service, node, token)
    second_wait(database, node, first)
    beats._record(service.runtime, seen, beats.Beat(support.CALLBACK), first)
    now = support.attempts(database, node)[-1]
    assert (now.state, now.signal, len(entered)) == (runs.WAITING, None, 2)
    support.beat(service, node, token)
    assert ended(database, node).provision_state == states.ACTIVE


class Jobs:
    """An interface that knows its own jobs only."""

    def check_step(self, task, step):
        return {"job": states.StepStatus.DONE}[step["step"]]


@pytest.mark.parametrize("interface", ["power", "deploy"])
def test_a_reserved_wait_is_ended_by_a_beat_without_asking_the_driver(sqlite, start, interface):
    """F17: ``check_step`` knows the steps of its class, not the engine's."""
    power = type("Power", (Jobs, fake.FakePower), {})
    deploy = type("Deploy", (Jobs, support.Deploy), {})
    service = start(sqlite, power=power, deploy=deploy)
    node = support.enrolled(service)
    wait = {"interface": interface, "step": "wait", "priority": 50, "args": {}}
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=[wait])
    node = after_a_beat(service, sqlite, node)
    assert (node.provision_state, node.last_error) == (states.ACTIVE, None)


def test_the_wait_of_prepare_is_ended_by_a_beat_without_asking_the_driver(sqlite, start):
    """F17: preparing is no step that ``check_step`` would know."""

    class Deploy(Jobs, support.Deploy):
        def prepare(self, task):
            return states.DEPLOYWAIT

    service = start(sqlite, deploy=Deploy)
    node = begun(service, FLOWS["deploy"])
    node = after_a_beat(service, sqlite, node)
    assert (node.provision_state, node.last_error) == (states.ACTIVE, None)


# --- brakes -----------------------------------------------------------------------------------


def test_a_brake_lets_no_more_in_when_all_come_at_once(database, start, conf):
    """Counting and entering are one."""

    def waits(task):
        return states.wait(states.DEPLOYWAIT, callback=True)

    conf.set_override("max_concurrent_deploy", 1, group="conductor")
    service = start(database, vendor=vendor(waits))
    uuids = [support.enrolled(service).uuid for _ in range(6)]
    barrier, refused = threading.Barrier(len(uuids)), []

    def deploy(uuid: str) -> None:
        barrier.wait()
        try:
            service.manager.do_node_deploy(None, uuid)
        except exceptions.ConcurrentActionLimit:
            refused.append(uuid)

    threads = [threading.Thread(target=deploy, args=(uuid,)) for uuid in uuids]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == len(uuids) - 1
    where = {nodes.get(database, uuid).provision_state for uuid in refused}
    assert where == {states.AVAILABLE}


def test_an_undeployment_counts_as_the_cleaning_it_leads_to(sqlite, start, conf):
    """A node that is being torn down will be cleaned: the brake counts it already."""
    gate = threading.Event()

    class Deploy(support.Deploy):
        def tear_down(self, task):
            gate.wait(60)
            return states.DELETED

    conf.set_override("max_concurrent_clean", 1, group="conductor")
    service = start(sqlite, deploy=Deploy)
    first, *others = [support.enrolled(service, provision_state=states.ACTIVE) for _ in range(3)]
    service.manager.do_node_tear_down(None, first.uuid)
    for node in others:
        with pytest.raises(exceptions.ConcurrentActionLimit, match="max_concurrent_clean"):
            service.manager.do_node_tear_down(None, node.uuid)
        assert nodes.get(sqlite, node.uuid).provision_state == states.ACTIVE
    gate.set()
    assert ended(sqlite, first).provision_state == states.AVAILABLE


# --- aborts, maintenance, undeployment ----------------------------------------------------------


def test_an_abort_waits_for_a_step_that_may_not_be_cut_short(sqlite, start):
    """F67, F68: that is not ready yet, too; it is entered again, and the abort comes after it."""
    aborted: list[int] = []
    done: list[int] = []

    def erase(task):
        if not aborted:
            raise exceptions.StepNotReady("erasing", after=0.2)
        done.append(1)

    def after(task):
        done.append(2)

    service = start(sqlite, vendor=vendor(erase, after, abortable=False))
    node = begun(service, FLOWS["clean"])
    support.settle(sqlite, node.uuid, states.CLEANWAIT)
    service.manager.do_provisioning_action(None, node.uuid, "abort")
    aborted.append(1)
    node = ended(sqlite, node)
    assert node.provision_state == states.CLEANFAIL and "aborted" in node.last_error
    assert done == [1] and of_vendor(sqlite, node) == [("erase", "success")]


@pytest.mark.parametrize("flow", [f for f in FLOWS.values() if f.finish], ids=lambda f: f.name)
def test_an_abort_in_the_last_step_puts_away_once(sqlite, start, flow):
    """F67: it is honoured, and nothing is done for both of two endings."""
    entered, go = threading.Event(), threading.Event()
    away: list[int] = []

    class Deploy(support.Deploy):
        def tear_down_cleaning(self, task):
            away.append(1)

        tear_down_service = tear_down_cleaning

    def last(task):
        entered.set()
        go.wait(60)

    service = start(sqlite, vendor=vendor(last), deploy=Deploy)
    node = begun(service, flow, "last")
    assert entered.wait(60)
    service.manager.do_provisioning_action(None, node.uuid, "abort")
    go.set()
    node = ended(sqlite, node)
    assert node.provision_state == flow.failed and "aborted" in node.last_error
    assert away == [1]
    assert_no_residue(sqlite, node)


def must_not(task):
    raise AssertionError("the node is in maintenance")


def test_a_node_in_maintenance_is_not_provided_where_runs_may_not_go_on(sqlite, start, conf):
    """F26."""
    conf.set_override("allow_provisioning_in_maintenance", False, group="conductor")
    service = start(sqlite, vendor=vendor(must_not))
    node = support.enrolled(service, provision_state=states.MANAGEABLE)
    service.manager.set_node_maintenance(None, node.uuid, True, "fire")
    with pytest.raises(exceptions.NodeInMaintenance):
        service.manager.do_provisioning_action(None, node.uuid, states.PROVIDE)
    assert not runs.of_node(sqlite, node.id)


def test_maintenance_during_an_undeployment_fails_the_cleaning_after_it(sqlite, start, conf):
    """F26: the instance is gone, no step runs, and the reason is told."""
    conf.set_override("allow_provisioning_in_maintenance", False, group="conductor")
    entered, go = threading.Event(), threading.Event()

    class Deploy(support.Deploy):
        def tear_down(self, task):
            entered.set()
            go.wait(60)
            return states.DELETED

    service = start(sqlite, vendor=vendor(must_not), deploy=Deploy)
    node = support.enrolled(service, provision_state=states.ACTIVE)
    service.manager.do_node_tear_down(None, node.uuid)
    assert entered.wait(60)
    service.manager.set_node_maintenance(None, node.uuid, True, "fire")
    go.set()
    node = ended(sqlite, node)
    assert node.provision_state == states.CLEANFAIL
    assert "maintenance" in node.last_error and "fire" in node.last_error
    assert support.outcomes(sqlite, node) == []


def test_managing_a_node_takes_the_failed_step_off_it(sqlite, start):
    """F37, F73: the step goes with the error that it explained."""

    def breaks(task):
        raise RuntimeError("broken")

    service = start(sqlite, vendor=vendor(breaks))
    node = ended(sqlite, begun(service, FLOWS["clean"]))
    assert node.provision_state == states.CLEANFAIL and node.clean_step["step"] == "breaks"
    service.manager.do_provisioning_action(None, node.uuid, states.MANAGE)
    node = support.settle(sqlite, node.uuid, states.MANAGEABLE)
    assert (node.clean_step, node.last_error) == (None, None)
