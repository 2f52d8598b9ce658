"""A run from its request to its ending."""

from __future__ import annotations

import copy
import itertools
import threading
from typing import Any

import pytest

from deploysteps import exceptions, states
from deploysteps.conductor import endings, engine, planning, starting, task_manager
from deploysteps.db import nodes, runs
from deploysteps.drivers import base
from deploysteps.steps import DEPLOY
from tests import support
from tests.support_sql import counting


def many(count: int, log: list[str]) -> type[base.VendorInterface]:
    """Return an interface with that many synchronous steps."""

    def make(name: str) -> Any:
        def step(self: Any, task: Any) -> None:
            log.append(name)

        step.__name__ = name
        return base.deploy_step(priority=50)(step)

    return type("Many", (support.Vendor,), {f"s{n:02}": make(f"s{n:02}") for n in range(count)})


def test_steps_run_highest_priority_first_one_at_a_time(database, start):
    """Promises 1 and 2."""
    log: list[str] = []
    running = threading.Semaphore(1)

    class Ordered(support.Vendor):
        def _do(self, name):
            assert running.acquire(blocking=False), "two steps at once"
            log.append(name)
            running.release()

        @base.deploy_step(priority=10)
        def zz_first_declared(self, task):
            self._do("zz_first_declared")

        @base.deploy_step(priority=10)
        def aa_second_declared(self, task):
            self._do("aa_second_declared")

        @base.deploy_step(priority=200)
        def top(self, task):
            self._do("top")

        @base.deploy_step(priority=0)
        def never(self, task):
            self._do("never")

    service = start(database, vendor=Ordered)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(database, node.uuid, states.ACTIVE)
    assert log == ["top", "zz_first_declared", "aa_second_declared"]
    assert [s for s, _, _ in support.outcomes(database, node)] == [
        "top", "deploy", "zz_first_declared", "aa_second_declared",
    ]  # fmt: skip


def test_the_record_of_a_run_has_no_two_steps_at_once(database, start):
    """Promise 2, as the history tells it: each attempt begins when the one before it has ended."""
    service = start(database, vendor=many(5, []))
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(database, node.uuid, states.ACTIVE)
    told = support.attempts(database, node)
    assert len(told) == 7
    for one, following in itertools.pairwise(told):
        assert one.finished_at <= following.started_at, (one.step, following.step)


def test_before_a_steps_code_runs_the_row_says_so(database, start):
    """Promise 3."""
    seen: list[Any] = []

    class Looking(support.Vendor):
        @base.deploy_step(priority=5)
        def look(self, task):
            node = nodes.get(database, task.node.uuid)
            info = node.driver_internal_info
            seen.append((node.provision_state, node.deploy_step["step"], info["deploy_step_index"]))
            seen.append([entry["step"] for entry in info["deploy_steps"]])
            seen.append(support.told(database, node)[-1])

    service = start(database, vendor=Looking)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(database, node.uuid, states.ACTIVE)
    assert seen == [
        (states.DEPLOYING, "look", 1),
        ["deploy", "look"],
        ("vendor.look", 1, "running", None),
    ]


def test_the_state_and_its_target_are_visible_before_the_verb_returns(database, start):
    release = threading.Event()

    class Slow(support.Vendor):
        @base.deploy_step(priority=5)
        def slow(self, task):
            release.wait(60)

    service = start(database, vendor=Slow)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    seen = nodes.get(database, node.uuid)
    assert (seen.provision_state, seen.target_provision_state) == (states.DEPLOYING, states.ACTIVE)
    assert seen.reservation == "conductor-1" and seen.lock_purpose == "node deploy"
    assert seen.locked_at is not None
    with pytest.raises(exceptions.NodeLocked, match="conductor-1"):
        service.manager.do_node_deploy(None, node.uuid)
    release.set()
    support.settle(database, node.uuid, states.ACTIVE)


def run_of(service, node, count, log):
    """Run a deployment in this thread and return what it sent."""
    with counting(service.database, here=True) as sent:
        task = task_manager.acquire(None, node.uuid, purpose="test", runtime=service.runtime)
        plan = planning.build(task, DEPLOY, planning.Request())
        starting.start(task, DEPLOY, plan, event=states.DEPLOY, requested_by=None)
        engine.run(task, DEPLOY)
    assert len(log) == count
    return sent


@pytest.mark.parametrize(("events", "statements"), [(True, 4), (False, 3)])
def test_a_step_costs_one_commit_and_few_statements(database, conf, start, events, statements):
    """Promise 4: K steps cost at most K+5 commits, and a step three statements; one more tells."""
    conf.set_override("enabled", events, group="events")
    sent = {}
    for count in (10, 20):
        log: list[str] = []
        service = start(database, host=f"conductor-{count}", vendor=many(count, log))
        service._sweeper.stop()  # its looks would be counted
        service._periodic.stop()
        sent[count] = run_of(service, support.enrolled(service), count, log)
        service.stop()
    steps = 21  # twenty, and deploy.deploy
    assert sent[20].commits <= steps + 5 and sent[20].commits <= 25 + 1
    assert sent[20].statements - sent[10].statements == statements * 10
    assert sent[20].commits - sent[10].commits == 10


def test_the_list_is_written_once_and_not_with_every_step(database, start):
    """Promise 4: the list is written only when it changes."""
    log: list[str] = []
    service = start(database, vendor=many(5, log))
    node = support.enrolled(service)
    sent = run_of(service, node, 5, log)
    assert len([t for t in sent.texts if t.startswith("UPDATE") and "deploy_steps=" in t]) == 2


def assert_no_residue(database, node):
    """Promise 6 and F37: nothing of a run is left, and a new one can start."""
    node = nodes.get(database, node.uuid)
    assert node.reservation is None and node.run_id is None
    info = node.driver_internal_info
    left = {"deploy_steps", "deploy_step_index", "agent_secret_token", "agent_url", *DEPLOY.flags}
    assert not left & set(info)
    run = support.last_run(database, node)
    assert run.finished_at is not None and run.outcome is not None
    assert all(a.state == runs.FINISHED and a.outcome for a in support.attempts(database, node))
    return node


def test_after_success_no_step_is_current_and_history_is_complete(database, start):
    log: list[str] = []
    service = start(database, vendor=many(2, log))
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(database, node.uuid, states.ACTIVE)
    node = assert_no_residue(database, node)
    assert node.deploy_step is None and node.last_error is None
    assert node.target_provision_state is None
    run = support.last_run(database, node)
    assert (run.outcome, run.error, run.flow) == ("success", None, "deploy")
    assert [entry["step"] for entry in run.plan] == ["deploy", "s00", "s01"]
    assert support.told(database, node)[0] == ("deploy.prepare", 1, "finished", "success")
    assert nodes.history_of(database, node.id)[0].event_type == "deploy success"


class Failing(support.Vendor):
    """Fails in the way that ``driver_info`` asks for."""

    @base.deploy_step(priority=5)
    def fail(self, task):
        raise exceptions.DeployStepFailed(reason=f"the disk {task.node.extra.get('disk')} is gone")


def test_a_failed_step_names_itself_and_the_reason_in_the_same_write_as_the_state(database, start):
    """F71, F72, promise 6: deploy_step names the step until the next run clears it."""
    service = start(database, vendor=Failing)
    node = support.enrolled(service, extra={"disk": "sda"})
    watched: list[Any] = []
    done = threading.Event()

    def watch() -> None:
        while not done.is_set():
            seen = nodes.get(database, node.uuid)
            if seen.provision_state == states.DEPLOYFAIL:
                watched.append(seen.last_error)
                return

    watcher = threading.Thread(target=watch)
    watcher.start()
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(database, node.uuid, states.DEPLOYFAIL)
    watcher.join(10)
    done.set()
    assert watched and "vendor.fail failed: Deploy step failed: the disk sda is gone" in watched[0]
    assert "(attempt 1, after 0." in watched[0]
    node = assert_no_residue(database, node)
    assert node.deploy_step["step"] == "fail"
    assert node.target_provision_state == states.ACTIVE
    last = support.attempts(database, node)[-1]
    assert (last.outcome, last.error) == ("failed", node.last_error)
    assert "DeployStepFailed" in last.evidence["traceback"]
    service.manager.do_node_tear_down(None, node.uuid)
    node = support.settle(database, node.uuid, states.AVAILABLE)
    assert node.deploy_step is None and node.last_error is None


def test_a_new_run_clears_the_last_ones_error(database, start):
    """F73."""

    class Once(support.Vendor):
        failed = False

        @base.deploy_step(priority=5)
        def once(self, task):
            if not Once.failed:
                Once.failed = True
                raise ValueError("first time")

    service = start(database, vendor=Once)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    assert support.settle(database, node.uuid, states.DEPLOYFAIL).last_error
    service.manager.do_node_deploy(None, node.uuid)
    assert support.settle(database, node.uuid, states.ACTIVE).last_error is None
    told = [h.event for h in nodes.history_of(database, node.id)]
    assert any("first time" in event for event in told)


@pytest.mark.parametrize("raised", [SystemExit, KeyboardInterrupt, GeneratorExit, OSError])
def test_whatever_a_step_raises_fails_the_run_and_not_the_conductor(sqlite, start, raised):
    """F51."""

    class Raising(support.Vendor):
        @base.deploy_step(priority=5)
        def go(self, task):
            raise raised("stop")

    service = start(sqlite, vendor=Raising)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert raised.__name__ in node.last_error
    assert_no_residue(sqlite, node)


def test_an_error_of_the_engine_itself_fails_the_node(sqlite, start, monkeypatch):
    """F51: the last resort."""
    log: list[str] = []
    service = start(sqlite, vendor=many(2, log))
    node = support.enrolled(service)

    def broken(*_: Any) -> None:
        raise SystemExit("a bug")

    monkeypatch.setattr(engine, "_execute", broken)
    service.manager.do_node_deploy(None, node.uuid)
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert "internal error" in node.last_error and "a bug" in node.last_error
    assert_no_residue(sqlite, node)


@pytest.mark.parametrize("value", [0, "", [], True, (1, 2), object(), NotImplemented, "error"])
def test_an_odd_return_value_fails_the_run(sqlite, start, value):
    """F74, F75."""

    class Odd(support.Vendor):
        @base.deploy_step(priority=5)
        def odd(self, task):
            return value

    service = start(sqlite, vendor=Odd)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert f"vendor.odd failed: it returned {type(value).__name__}" in node.last_error


class Empty(support.Deploy):
    def get_deploy_steps(self, task):
        return []


class Zeros(support.Deploy):
    def get_deploy_steps(self, task):
        return [{"step": "deploy", "priority": 0, "interface": "deploy"}]


class Nothing(support.Deploy):
    def get_deploy_steps(self, task):
        return None


class Raises(support.Deploy):
    def get_deploy_steps(self, task):
        raise ZeroDivisionError("by the driver")


class Wrong(support.Deploy):
    def get_deploy_steps(self, task):
        return [{"step": "deploy", "priority": "5", "interface": "deploy"}]


@pytest.mark.parametrize(
    ("deploy", "words"),
    [(Empty, "no steps"), (Zeros, "no steps"), (Nothing, "NoneType"),
     (Raises, "ZeroDivisionError"), (Wrong, "priority")],
)  # fmt: skip
def test_a_list_without_steps_fails_and_never_succeeds(sqlite, start, deploy, words):
    """F1."""
    service = start(sqlite, deploy=deploy)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert words in node.last_error
    assert_no_residue(sqlite, node)


def test_a_failing_clean_up_is_told_beside_the_reason(sqlite, start):
    """F79."""

    class Untidy(support.Deploy):
        def prepare(self, task):
            raise RuntimeError("wrong network")

        def clean_up(self, task):
            raise OSError("broom is broken")

    service = start(sqlite, deploy=Untidy)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert "deploy.prepare failed: RuntimeError: wrong network" in node.last_error
    assert "broom is broken" in node.last_error
    assert_no_residue(sqlite, node)


def test_what_a_step_changes_in_depth_is_kept_without_a_save(database, start):
    """F63."""

    class Nested(support.Vendor):
        @base.deploy_step(priority=9)
        def put(self, task):
            task.node.driver_internal_info.setdefault("raid", {})["disks"] = [{"id": 1}]

        @base.deploy_step(priority=8)
        def change(self, task):
            fresh = nodes.get(database, task.node.uuid)
            assert fresh.driver_internal_info["raid"] == {"disks": [{"id": 1}]}
            task.node.driver_internal_info["raid"]["disks"][0]["id"] = True

        @base.deploy_step(priority=7)
        def check(self, task):
            fresh = nodes.get(database, task.node.uuid)
            assert fresh.driver_internal_info["raid"]["disks"][0]["id"] is True

    service = start(database, vendor=Nested)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(database, node.uuid, states.ACTIVE)


def test_a_value_that_json_cannot_hold_fails_the_step_that_left_it(sqlite, start):
    class Odd(support.Vendor):
        @base.deploy_step(priority=9)
        def put(self, task):
            task.node.driver_internal_info["socket"] = object()

    service = start(sqlite, vendor=Odd)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert "driver_internal" in node.last_error and "not JSON" in node.last_error


def echo(log):
    """Return an interface whose step keeps the arguments that it was given."""

    class Echo(support.Vendor):
        @base.deploy_step(
            priority=0,
            argsinfo={
                "text": {"description": "any text", "required": True},
                "key": {"description": "a secret", "secret": True},
            },
        )
        def echo(self, task, text, key=None):
            log.append((text, key))
            if text == "wait" and len(log) == 1:
                raise exceptions.StepNotReady("not yet", after=0.05)
            if text == "fail":
                raise RuntimeError(f"cannot use {key} at http://admin:{key}@bmc/")

    return Echo


def test_arguments_arrive_as_they_were_given_also_after_a_wait(database, start):
    """F11, F77."""
    log: list[Any] = []
    service = start(database, vendor=echo(log))
    node = support.enrolled(service)
    wanted = {"interface": "vendor", "step": "echo", "priority": 5}
    args = {"text": "wait", "key": "s3cr3t-\U0001f600\0\ud800"}
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=[{**wanted, "args": args}])
    support.settle(database, node.uuid, states.ACTIVE, states.DEPLOYFAIL)
    assert log == [("wait", args["key"])] * 2


def test_a_secret_in_an_exception_is_masked_where_people_read(database, start):
    """F76, promise 12: what the node is known to hold is masked by value."""
    log: list[Any] = []
    service = start(database, vendor=echo(log))
    node = support.enrolled(service, driver_info={"ipmi_password": "hunter2-hunter2"})
    args = {"text": "fail", "key": "pl4nted-marker"}
    service.manager.do_node_deploy(
        None,
        node.uuid,
        deploy_steps=[{"interface": "vendor", "step": "echo", "priority": 5, "args": args}],
    )
    node = support.settle(database, node.uuid, states.DEPLOYFAIL)
    assert log == [("fail", "pl4nted-marker")]
    last = support.attempts(database, node)[-1]
    history = [h.event for h in nodes.history_of(database, node.id)]
    shown = repr([node.last_error, last.error, last.evidence, history])
    assert "cannot use ******" in node.last_error
    assert "pl4nted-marker" not in shown


def test_the_list_may_change_in_flight(database, start):
    """F8: the engine goes on after the same step, wherever it is now."""
    log: list[str] = []

    class Editing(support.Vendor):
        @base.deploy_step(priority=9)
        def edit(self, task):
            log.append("edit")
            plan = copy.deepcopy(task.node.driver_internal_info["deploy_steps"])
            before = {"interface": "vendor", "step": "late", "priority": 999, "args": {}, "id": "x"}
            task.node.set_driver_internal_info("deploy_steps", [before, *plan])
            task.node.save()

        @base.deploy_step(priority=8)
        def after(self, task):
            log.append("after")

        @base.deploy_step(priority=0)
        def late(self, task):
            log.append("late")

    service = start(database, vendor=Editing)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(database, node.uuid, states.ACTIVE, states.DEPLOYFAIL)
    assert log == ["edit", "after"]
    assert support.last_run(database, node).plan[0]["step"] == "late"


@pytest.mark.parametrize("left", [[], None, "gone", [{"interface": "vendor", "step": "other"}]])
def test_a_list_that_lost_the_current_step_fails_the_run(sqlite, start, left):
    """F8, position in the list: never a success."""

    class Breaking(support.Vendor):
        @base.deploy_step(priority=9)
        def breaks(self, task):
            task.node.driver_internal_info["deploy_steps"] = left

    service = start(sqlite, vendor=Breaking)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert "nconsistent" in node.last_error
    assert_no_residue(sqlite, node)


def test_retries_run_again_and_then_tell_the_last_cause(database, start):
    """F42, F80: retries=3 is four calls, and then it stops."""
    calls: list[int] = []

    class Again(support.Vendor):
        @base.deploy_step(priority=9, repeatable=True, retries=3, retry_delay=0.05)
        def again(self, task):
            calls.append(1)
            raise RuntimeError(f"cause {len(calls)}")

    service = start(database, vendor=Again)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    node = support.settle(database, node.uuid, states.DEPLOYFAIL)
    assert len(calls) == 4 and "cause 4" in node.last_error and "attempt 4" in node.last_error
    outcomes = [o for s, _, o in support.outcomes(database, node) if s == "again"]
    assert outcomes == ["failed"] * 4
    assert "cause 2" in support.attempts(database, node)[3].error
    assert_no_residue(database, node)


def test_retries_without_a_pause_hold_the_lock_and_succeed(sqlite, start):
    calls: list[int] = []

    class Again(support.Vendor):
        @base.deploy_step(priority=9, repeatable=True, retries=2)
        def again(self, task):
            calls.append(1)
            if len(calls) < 3:
                raise RuntimeError("not yet")

    service = start(sqlite, vendor=Again)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(sqlite, node.uuid, states.ACTIVE)
    assert [o for s, _, o in support.outcomes(sqlite, node) if s == "again"] == [
        "failed", "failed", "success",
    ]  # fmt: skip


def test_a_driver_that_fires_the_ending_itself_ends_as_all_others_do(database, start):
    """A state change that a driver fires itself goes through the same ending."""

    class Old(support.Vendor):
        @base.deploy_step(priority=9)
        def ends(self, task):
            task.node.last_error = "I give up"
            task.process_event("fail")

    service = start(database, vendor=Old)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    node = support.settle(database, node.uuid, states.DEPLOYFAIL)
    assert "I give up" in node.last_error
    assert_no_residue(database, node)
    assert support.last_run(database, node).outcome == endings.FAILED


@pytest.mark.parametrize("event", ["deploy", "rebuild"])
def test_a_deployment_is_refused_in_maintenance(sqlite, start, event):
    """F26."""
    service = start(sqlite)
    state = states.AVAILABLE if event == "deploy" else states.ACTIVE
    node = support.enrolled(service, provision_state=state)
    service.manager.set_node_maintenance(None, node.uuid, True, "broken fan")
    with pytest.raises(exceptions.NodeInMaintenance):
        service.manager.do_node_deploy(None, node.uuid, rebuild=event == "rebuild")
    assert nodes.get(sqlite, node.uuid).provision_state == state
    assert nodes.get(sqlite, node.uuid).reservation is None


def test_nothing_is_changed_when_no_worker_is_free(sqlite, start, conf):
    """The remedy is said, and the node is as it was."""
    conf.set_override("workers_pool_size", 3, group="conductor")
    service = start(sqlite)
    node = support.enrolled(service)
    slots = [service.runtime.workers.reserve(operator=True) for _ in range(3)]
    with pytest.raises(exceptions.NoFreeConductorWorker) as caught:
        service.manager.do_node_deploy(None, node.uuid)
    assert caught.value.code == 503
    assert nodes.get(sqlite, node.uuid).provision_state == states.AVAILABLE
    for slot in slots:
        slot.release()
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(sqlite, node.uuid, states.ACTIVE)


def test_background_work_leaves_workers_to_operators(sqlite, start, conf):
    """F24."""
    conf.set_override("workers_pool_size", 4, group="conductor")
    service = start(sqlite)
    workers = service.runtime.workers
    slots = []
    with pytest.raises(exceptions.NoFreeConductorWorker):
        while True:
            slots.append(workers.reserve())
    slots.append(workers.reserve(operator=True))
    for slot in slots:
        slot.release()
