"""Periodic methods of drivers: which nodes they get, and what becomes of their errors."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import Any

import pytest
import sqlalchemy as sa

from deploysteps import exceptions, states
from deploysteps.conductor import periodics as clocks
from deploysteps.conductor import task_manager
from deploysteps.conductor.periodics import Periodics
from deploysteps.conductor.runtime import Runtime
from deploysteps.conductor.workers import Workers
from deploysteps.db import conductors, locks, nodes, runs, types
from deploysteps.db.models import Node, StepAttempt, StepRun
from deploysteps.drivers import base, fake
from tests import support
from tests.support_sql import counting

MANAGER = object()
WAITING = {"provision_state": states.CLEANWAIT}


class Looks(fake.FakeRAID):
    """Notes for which nodes it is called; fails as ``extra`` says."""

    seen: list[Any]

    def __init__(self) -> None:
        self.seen = []

    @base.node_periodic(spacing=60, filters={"reserved": False, "provision_state": "clean wait"})
    def look(self, task, manager, context):
        assert manager is MANAGER and context.is_admin
        assert task.purpose == "periodic look" and task.shared
        self.seen.append(task.node.name)
        if task.node.extra.get("fail"):
            raise RuntimeError(f"job 5 failed, password {task.node.driver_info['password']}")
        if task.node.extra.get("exit"):
            raise SystemExit(3)


Build = Callable[..., Periodics]


@pytest.fixture
def build(conf: Any, database: Any) -> Build:
    """Return the periodics of a conductor that offers some classes."""

    def make(host: str = "conductor-1", **classes: Any) -> Periodics:
        registry = support.registry(conf, **classes)
        runtime = Runtime(conf, database, registry, Workers(4, 0), host)
        conductors.register(database, host, runtime.boot_id, registry.offers())
        return Periodics(runtime, MANAGER)

    return make


def the_job(periodics: Periodics) -> Any:
    (job,) = periodics.jobs
    return job


def add(database: Any, name: str, **values: Any) -> Node:
    return nodes.insert(
        database,
        {
            "name": name,
            "driver": "test-hardware",
            "raid_interface": "test",
            "driver_info": {"password": "planted"},
            "provision_state": states.AVAILABLE,
            **values,
        },
    )


def wait_by(database: Any, node: Node, owner: str, interface: str = "raid") -> None:
    """Let a step of the node wait for somebody."""
    now = types.utcnow()
    run = {"node_id": node.id, "uuid": node.uuid, "flow": "clean", "plan": [], "started_at": now}
    attempt = {
        **{"position": 1, "attempt": 1, "node_id": node.id, "interface": interface},
        **{"step": "apply_configuration", "state": runs.WAITING, "owner": owner},
        **{"conductor": "conductor-1", "started_at": now, "waiting_since": now, "reenter": False},
    }
    with database.engine.begin() as c:
        (run_id,) = c.execute(sa.insert(StepRun).values(run)).inserted_primary_key
        c.execute(sa.insert(StepAttempt).values(run_id=run_id, **attempt))
        c.execute(sa.update(Node).where(Node.id == node.id).values(run_id=run_id))


def signal_of(database: Any, node: Node) -> tuple[str | None, str | None]:
    attempt = runs.last_attempt(database, nodes.get(database, node.id).run_id)
    return attempt.signal, attempt.signal_detail


def test_a_method_gets_the_nodes_that_its_filters_let_through(build, database):
    periodics = build(raid=Looks)
    add(database, "waits", **WAITING)
    add(database, "rests")
    add(database, "another-driver", driver="other", **WAITING)
    add(database, "another-interface", raid_interface="no-raid", **WAITING)
    add(database, "by-default", raid_interface=None, **WAITING)
    locks.grant(database, add(database, "locked", **WAITING).id, "c", "test")
    job = the_job(periodics)
    assert periodics.run(job) == 2
    assert job.instance.seen == ["waits", "by-default"]


def test_a_base_classes_method_never_gets_the_nodes_of_a_subclass(conf, database):
    """F16: two pollers for one node resumed it twice."""

    class More(Looks):
        """Inherits the method, and has nodes of its own."""

    registry = support.registry(conf, raid=Looks)
    offered = registry._catalog.offered["test-hardware", "raid"]
    offered["more"] = More()
    runtime = Runtime(conf, database, registry, Workers(4, 0), "conductor-1")
    periodics = Periodics(runtime, MANAGER)
    add(database, "of-base", **WAITING)
    add(database, "of-subclass", raid_interface="more", **WAITING)
    by_class = {type(job.instance): job for job in periodics.jobs}
    for job in by_class.values():
        periodics.run(job)
    assert by_class[Looks].instance.seen == ["of-base"]
    assert by_class[More].instance.seen == ["of-subclass"]


def test_idle_nodes_cost_one_query(build, database):
    """F85: nothing is asked of the database for each node."""
    periodics = build(raid=Looks)
    with database.engine.begin() as c:
        rows = [
            {"uuid": f"{n:08}-0000-4000-8000-000000000000", "driver": "test-hardware"}
            | {"raid_interface": "test", "provision_state": states.ACTIVE}
            for n in range(5000)
        ]
        c.execute(sa.insert(Node), rows)
    with counting(database) as count:
        assert periodics.run(the_job(periodics)) == 0
    assert count.statements == 1


def test_no_session_is_held_while_a_method_runs(build, database):
    """F57: others write meanwhile."""

    class Writes(fake.FakeRAID):
        @base.node_periodic(spacing=60)
        def look(self, task):
            nodes.set_unlocked(database, task.node.id, {"description": "written meanwhile"})
            assert database.engine.pool.checkedout() == 0

    periodics = build(raid=Writes)
    node = add(database, "one")
    assert periodics.run(the_job(periodics)) == 1
    assert nodes.get(database, node.id).description == "written meanwhile"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"filters": {"provision_stat": "x"}}, "unknown node filter 'provision_stat'"),
        ({"filters": {"driver_info": {}}}, "unknown node filter 'driver_info'"),
        ({"filters": {"nothing_in": []}}, "unknown node filter 'nothing_in'"),
        ({"filters": {"power_state": 5}}, "'power_state' takes str, not int"),
        ({"filters": {"power_state_in": ["power on", 5]}}, "'power_state_in' takes str, not int"),
        (
            {"predicate": bool, "predicate_extra_fields": ["raid_configs"]},
            "no field 'raid_configs'",
        ),
    ],
)
def test_a_filter_that_no_node_has_is_an_error_at_the_start(build, options, words):
    """F39: never ignored; the class and the method are named."""

    class Typo(fake.FakeRAID):
        @base.node_periodic(spacing=60, **options)
        def look(self, task):
            pass

    with pytest.raises(exceptions.ConfigurationError) as caught:
        build(raid=Typo)
    assert "Typo.look" in str(caught.value)
    assert words in str(caught.value)


@pytest.mark.parametrize(
    ("filters", "found"),
    [
        ({}, ["a", "b", "c"]),
        ({"maintenance": True}, ["b"]),
        ({"power_state": "power on"}, ["a"]),
        ({"power_state": None}, ["b", "c"]),
        ({"power_state_in": ["power on", "power off"]}, ["a"]),
        ({"power_state_in": []}, []),
        ({"reserved": True}, ["c"]),
        ({"reserved": False}, ["a", "b"]),
        ({"reserved": False, "maintenance": False}, ["a"]),
        ({"resource_class": "gold", "automated_clean": True}, ["b"]),
    ],
)
def test_filters_run_in_sql_on_every_database(build, database, filters, found):
    class Filters(fake.FakeRAID):
        @base.node_periodic(spacing=60, filters=filters)
        def look(self, task):
            seen.append(task.node.name)

    seen: list[str] = []
    periodics = build(raid=Filters)
    add(database, "a", power_state="power on")
    add(database, "b", maintenance=True, resource_class="gold", automated_clean=True)
    locks.grant(database, add(database, "c").id, "elsewhere", "test")
    periodics.run(the_job(periodics))
    assert seen == found


def test_one_nodes_error_is_logged_and_fails_its_step_and_no_other(build, database, caplog):
    """F41: the step fails now, with the reason; F77: without what the node is known to hide."""
    periodics = build(raid=Looks)
    bad = add(database, "bad", extra={"fail": True}, **WAITING)
    worse = add(database, "worse", extra={"exit": True}, **WAITING)
    good = add(database, "good", **WAITING)
    for node in (bad, worse, good):
        wait_by(database, node, "callback")
    job = the_job(periodics)
    assert periodics.run(job) == 3
    assert job.instance.seen == ["bad", "worse", "good"]
    kind, why = signal_of(database, bad)
    assert kind == "fail" and "look() failed: RuntimeError: job 5 failed" in why
    assert signal_of(database, worse) == ("fail", "look() failed: SystemExit: 3")
    assert signal_of(database, good) == (None, None)
    assert "RuntimeError: job 5 failed" in caplog.text
    assert "planted" not in caplog.text + why


@pytest.mark.parametrize(
    ("owner", "interface"), [("agent", "raid"), ("poller", "raid"), ("callback", "bios")]
)
def test_an_error_fails_only_what_the_interface_itself_is_to_end(build, database, owner, interface):
    periodics = build(raid=Looks)
    node = add(database, "bad", extra={"fail": True}, **WAITING)
    wait_by(database, node, owner, interface)
    periodics.run(the_job(periodics))
    assert signal_of(database, node) == (None, None)


def test_a_locked_node_is_left_out_when_the_task_needs_the_lock(build, database):
    class Locks(fake.FakeRAID):
        @base.node_periodic(spacing=60, shared_task=False, purpose="asking the controller")
        def look(self, task, context):
            row = nodes.get(database, task.node.id)
            seen.append((row.name, row.lock_purpose, task.shared))

    seen: list[Any] = []
    periodics = build(raid=Locks)
    locks.grant(database, add(database, "locked").id, "elsewhere", "test")
    add(database, "free")
    assert periodics.run(the_job(periodics)) == 1
    assert seen == [("free", "asking the controller", False)]
    assert nodes.get(database, "free").reservation is None


def test_a_method_may_take_the_lock_itself_and_a_locked_node_fails_nothing(build, database, caplog):
    class Upgrades(fake.FakeRAID):
        @base.node_periodic(spacing=60)
        def look(self, task):
            task.upgrade_lock()
            task.complete_step()

    periodics = build(raid=Upgrades)
    free, locked = add(database, "free", **WAITING), add(database, "locked", **WAITING)
    for node in (free, locked):
        wait_by(database, node, "callback")
    locks.grant(database, locked.id, "elsewhere", "test")
    assert periodics.run(the_job(periodics)) == 1
    assert signal_of(database, free) == ("done", None)
    assert signal_of(database, locked) == (None, None)
    assert nodes.get(database, free.id).reservation is None
    assert "ERROR" not in caplog.text


def test_a_predicate_sees_the_fields_that_it_asked_for(build, database):
    class Narrow(fake.FakeRAID):
        @base.node_periodic(
            spacing=60,
            predicate=lambda n: n.driver_internal_info.get("jobs") and n.name != "c",
            predicate_extra_fields=["driver_internal_info", "name"],
        )
        def look(self, task):
            seen.append(task.node.name)

    class Greedy(fake.FakeBIOS):
        @base.node_periodic(spacing=60, predicate=lambda n: n.driver_internal_info)
        def look(self, task):
            raise AssertionError("its predicate fails")

    class Quits(fake.FakeVendor):
        @base.node_periodic(spacing=60, predicate=lambda n: sys.exit(n.uuid))
        def look(self, task):
            raise AssertionError("its predicate would end the clock")

    seen: list[str] = []
    periodics = build(raid=Narrow, bios=Greedy, vendor=Quits)
    for name, info in (("a", {"jobs": [1]}), ("b", {}), ("c", {"jobs": [2]})):
        add(database, name, driver_internal_column=info, bios_interface="test")
    for job in periodics.jobs:
        periodics.run(job)
    assert seen == ["a"]


def test_a_limit_lets_every_node_have_its_turn(build, database):
    class Few(fake.FakeRAID):
        @base.node_periodic(spacing=60, limit=2)
        def look(self, task):
            seen.append(task.node.name)

    seen: list[str] = []
    periodics = build(raid=Few)
    for name in "abc":
        add(database, name)
    for _ in range(3):
        periodics.run(the_job(periodics))
    assert seen == ["a", "b", "c", "a", "b", "c"]


def test_each_node_falls_to_one_of_the_conductors(build, database):
    """Two conductors do not both ask the same controller."""
    first, second = build("conductor-1", raid=Looks), build("conductor-2", raid=Looks)
    names = {add(database, f"n{number}", **WAITING).name for number in range(30)}
    for periodics in (first, second):
        periodics.run(the_job(periodics))
    seen = [the_job(periodics).instance.seen for periodics in (first, second)]
    assert set(seen[0]) | set(seen[1]) == names
    assert not set(seen[0]) & set(seen[1])
    assert all(seen)


def test_a_node_falls_to_a_conductor_that_offers_all_its_interfaces(build, database):
    """Another one, though it offers this interface, could not build the node's driver."""
    able = build(raid=Looks)
    offers = [offer for offer in able._runtime.registry.offers() if offer[1] != "boot"]
    conductors.register(database, "conductor-2", "b2", offers)
    for number in range(12):
        add(database, f"n{number}", **WAITING)
    assert able.run(the_job(able)) == 12


def test_a_node_that_got_another_interface_meanwhile_is_left_out(build, database, monkeypatch):
    periodics = build(raid=Looks)
    add(database, "one", **WAITING)
    real = task_manager.acquire

    def acquire(*args: Any, **kwargs: Any) -> Any:
        task = real(*args, **kwargs)
        task._driver = periodics._runtime.registry.compose("test-hardware")
        monkeypatch.setitem(task._driver.interfaces, "raid", fake.FakeRAID())
        return task

    monkeypatch.setattr(task_manager, "acquire", acquire)
    assert periodics.run(the_job(periodics)) == 0
    assert the_job(periodics).instance.seen == []


def test_what_is_switched_off_is_never_called(build):
    class Off(fake.FakeRAID):
        @base.node_periodic(spacing=0, enabled=False)
        def look(self, task):
            raise AssertionError

    periodics = build(raid=Off)
    assert periodics.jobs == []
    periodics.start()
    periodics.stop()


def test_started_it_calls_again_and_again_and_stopped_no_more(build, database):
    class Quick(fake.FakeRAID):
        @base.node_periodic(spacing=0.01)
        def look(self, task):
            calls.append(1)
            if len(calls) == 1:
                raise RuntimeError("the clock goes on")
            if len(calls) >= 3:
                enough.set()

    calls: list[int] = []
    enough = threading.Event()
    periodics = build(raid=Quick)
    add(database, "one")
    periodics.start()
    assert enough.wait(60)
    periodics.stop(5)
    before = len(calls)
    assert not threading.Event().wait(0.1)
    assert len(calls) == before


def test_a_database_that_is_away_does_not_end_the_clock(build, database, monkeypatch, caplog):
    """F52: and is told when it goes and when it is back, not by every method at every time."""
    periodics = build(raid=Looks)
    add(database, "one", **WAITING)
    add(database, "two", **WAITING)
    run = periodics._guarded(the_job(periodics))
    caplog.set_level("INFO", clocks.__name__)

    def away(*_: Any) -> None:
        raise exceptions.DatabaseUnavailable(reason="gone")

    for place in (database, "read"), (task_manager, "adopt"):
        with monkeypatch.context() as broken:
            broken.setattr(*place, away)
            run()
            run()
    run()
    told = [record.getMessage() for record in caplog.records]
    label = the_job(periodics).label
    gone = f"{label} failed; it is tried again: The database does not answer: gone"
    assert told == [gone, f"{label}: the database is back"]
    assert the_job(periodics).instance.seen == ["one", "two"]


@pytest.mark.parametrize("saves", [True, False])
def test_a_change_that_is_not_saved_is_told(build, database, caplog, saves):
    """Each call begins with the node as it is stored: what counts there has to be saved."""

    class Counts(Looks):
        @base.node_periodic(spacing=60, filters={"provision_state": "clean wait"})
        def look(self, task):
            count = task.node.driver_internal_info.get("looks", 0)
            task.node.set_driver_internal_info("looks", count + 1)
            if saves:
                task.node.save()

    periodics = build(raid=Counts)
    node = add(database, "waits", **WAITING)
    job = the_job(periodics)
    assert periodics.run(job) == periodics.run(job) == 1
    kept = nodes.get(database, node.uuid).driver_internal_info.get("looks")
    assert kept == (2 if saves else None)
    assert caplog.text.count("and did not save it, so it is lost") == (0 if saves else 2)


def test_a_call_that_does_not_come_back_keeps_no_other_node_waiting(
    build, database, monkeypatch, caplog
):
    """And it is told, and is not made once more beside itself."""
    monkeypatch.setattr(clocks, "_LONG_CALL", 1)
    back = threading.Event()

    class Hangs(Looks):
        @base.node_periodic(spacing=60)
        def look(self, task):
            self.seen.append(task.node.name)
            if task.node.name == "dead":
                back.wait(60)

    periodics = build(raid=Hangs)
    job = the_job(periodics)
    dead = add(database, "dead")
    add(database, "well")
    try:
        assert periodics.run(job) == 2
        assert periodics.run(job) == 1
        assert job.instance.seen == ["dead", "well", "well"]
        assert f"Node {dead.uuid}: " in caplog.text and "has not come back" in caplog.text
        monkeypatch.setattr(clocks, "_MOST_HANGING", 1)
        assert periodics.run(job) == 0 and "calls do not come back" in caplog.text
    finally:
        back.set()
    job.hanging[dead.uuid].join(60)
    assert periodics.run(job) == 2
