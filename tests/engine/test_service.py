"""Starting and stopping a conductor, and what another start goes on with."""

from __future__ import annotations

import logging
import threading
import time
from typing import Any
from unittest.mock import Mock

import pytest
import sqlalchemy as sa

from deploysteps import exceptions, states
from deploysteps.conductor import recovery
from deploysteps.conductor import runtime as runtimes
from deploysteps.conductor import service as services
from deploysteps.conductor.recovery import Recovery
from deploysteps.conductor.service import Service
from deploysteps.conductor.workers import Workers
from deploysteps.db import conductors, nodes
from deploysteps.db.engine import Database
from deploysteps.db.models import Conductor, Node, NodeHistory, StepRun
from deploysteps.drivers import base, fake
from tests import support
from tests.engine.test_runs import assert_no_residue


def slow(log: list[str], entered: threading.Event, go: threading.Event, **rules: Any) -> Any:
    class Slow(support.Vendor):
        @base.deploy_step(priority=9, **rules)
        def slow(self, task):
            log.append("slow")
            entered.set()
            go.wait(60)

        @base.deploy_step(priority=8)
        def after(self, task):
            log.append("after")

    return Slow


def test_stopping_lets_the_running_step_end_and_the_next_start_goes_on(database, start):
    """Nothing is lost, nothing runs twice, though no step is repeatable (F54)."""
    log: list[str] = []
    entered, go = threading.Event(), threading.Event()
    driver = slow(log, entered, go)
    service = start(database, vendor=driver)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    assert entered.wait(60)
    threading.Timer(0.3, go.set).start()
    assert service.stop(60) is True
    between = nodes.get(database, node.uuid)
    assert between.provision_state == states.DEPLOYING and between.reservation is None
    assert between.deploy_step["step"] == "slow" and log == ["slow"]
    start(database, vendor=driver)
    support.settle(database, node.uuid, states.ACTIVE)
    assert log == ["slow", "after"]
    assert_no_residue(database, node)


@pytest.mark.parametrize("repeatable", [True, False])
def test_what_is_cut_off_is_treated_as_a_crash(sqlite, start, repeatable):
    """Promise 10."""
    log: list[str] = []
    entered, go = threading.Event(), threading.Event()
    driver = slow(log, entered, go, repeatable=repeatable)
    service = start(sqlite, vendor=driver)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    assert entered.wait(60)
    assert service.stop(0.1) is False
    second = threading.Event()
    second.set()
    start(sqlite, vendor=slow(log, entered, second, repeatable=repeatable))
    wanted = states.ACTIVE if repeatable else states.DEPLOYFAIL
    node = support.settle(sqlite, node.uuid, wanted)
    go.set()  # the old thread wakes up: it has lost the lock and can write nothing
    time.sleep(0.3)
    after = nodes.get(sqlite, node.uuid)
    assert after.provision_state == wanted
    if repeatable:
        assert log == ["slow", "slow", "after"]
    else:
        assert log == ["slow"]
        told = "vendor.slow failed: interrupted: conductor conductor-1 was lost (last heard of at "
        assert told in after.last_error
        assert "not declared repeatable" in after.last_error
        assert after.deploy_step["step"] == "slow"
    assert_no_residue(sqlite, node)


def test_a_step_that_loses_its_conductor_again_and_again_is_given_up(sqlite, start, monkeypatch):
    """F80: a cap, and a reason that says so."""
    monkeypatch.setattr(recovery, "MOST_INTERRUPTIONS", 0)
    log: list[str] = []
    entered, go = threading.Event(), threading.Event()
    driver = slow(log, entered, go, repeatable=True)
    service = start(sqlite, vendor=driver)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    assert entered.wait(60)
    service.stop(0.1)
    start(sqlite, vendor=driver)
    node = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    go.set()
    assert "as it was 0 times before" in node.last_error and log == ["slow"]


def test_all_that_hangs_has_one_time_to_end(sqlite, start, monkeypatch):
    """A stop takes no longer than it is given, whatever hangs beside the steps."""
    given: list[float] = []
    close = Workers.close
    monkeypatch.setattr(
        Workers, "close", lambda self, timeout: given.append(timeout) or close(self, timeout)
    )
    log: list[str] = []
    entered, go, called = threading.Event(), threading.Event(), threading.Event()

    class Hangs(fake.FakeRAID):
        @base.node_periodic(spacing=0.05)
        def look(self, task):
            called.set()
            go.wait(60)

    service = start(sqlite, vendor=slow(log, entered, go), raid=Hangs)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    assert entered.wait(60) and called.wait(60)
    assert service.stop(1.5) is False
    assert given == [0], "the method beside the steps has had all of it"
    go.set()


def test_a_stopping_conductor_takes_nothing_new(sqlite, start):
    service = start(sqlite)
    node = support.enrolled(service)
    manager = service.manager
    service.runtime.workers.close(1)
    with pytest.raises(exceptions.NotStarted) as caught:
        manager.do_node_deploy(None, node.uuid)
    assert caught.value.code == 503


def test_a_service_that_is_not_started_says_so(conf, sqlite):
    service = Service(conf, database=sqlite, registry=support.registry(conf))
    with pytest.raises(exceptions.NotStarted, match=r"start\(\)"):
        _ = service.manager
    assert service.stop() is True
    with pytest.raises(exceptions.NotStarted, match="Service"):
        runtimes.current()


def test_a_conductor_is_registered_with_all_it_offers_in_one_transaction(database, start):
    """F91."""
    service = start(database)
    offered = conductors.offers(database, 60)["conductor-1"]
    assert {o.interface_type for o in offered} == set(base.INTERFACES)
    assert all(o.hardware_type == "test-hardware" and o.is_default for o in offered)
    service.stop()
    assert conductors.offers(database, 60) == {}


def test_alive_is_online_and_recent(database, start, conf, monkeypatch):
    """F50."""
    one_at_a_time, touch = threading.Lock(), conductors.touch

    def touched(*args):
        with one_at_a_time:
            return touch(*args)

    monkeypatch.setattr(conductors, "touch", touched)
    service = start(database)
    assert conductors.alive_names(database, 60) == {"conductor-1"}
    with one_at_a_time:  # it says nothing meanwhile
        with database.engine.begin() as connection:
            connection.execute(sa.update(Conductor).values(updated_at=conductors.alive_since(120)))
        assert conductors.alive_names(database, 60) == set()
    support.until(lambda: conductors.alive_names(database, 60))  # it keeps saying so
    service.stop()
    assert conductors.alive_names(database, 60) == set()
    assert conductors.prune(database, conductors.alive_since(-10)) == 1


def test_a_second_process_of_the_same_name_stops_the_first(database, start, caplog, conf, tmp_path):
    first = start(database)
    conf.set_override("state_path", str(tmp_path / "elsewhere"))  # another machine
    second = start(database)
    support.until(first.displaced.is_set)
    assert "Another process took the name" in caplog.text
    assert not second.displaced.is_set()
    with pytest.raises(exceptions.NotStarted):
        first.runtime.workers.reserve(operator=True)


def test_a_second_process_of_the_same_name_on_one_machine_is_refused(sqlite, start):
    first = start(sqlite)
    with pytest.raises(exceptions.ConfigurationError, match="'conductor-1' is running here"):
        start(sqlite)
    first.stop()
    start(sqlite)


def test_the_clocks_tell_what_they_do_in_words(sqlite, start, monkeypatch, caplog):
    """F52: the log said `_keep_alive failed`, which is a name in the code."""
    jobs = []
    monkeypatch.setattr(
        services.periodics, "PeriodicWorker", lambda given, **_: jobs.extend(given) or Mock()
    )
    start(sqlite)
    monkeypatch.setattr(conductors, "last_heard", Mock(side_effect=exceptions.DatabaseFull("full")))
    jobs[0][0]()
    assert "Writing a sign of life failed; it is tried again: full" in caplog.text


def test_waiting_for_a_database_can_be_given_up(conf):
    database = Database("postgresql+psycopg://nobody@127.0.0.1:1/x", connect_wait=60)
    cancelled = threading.Event()
    cancelled.set()
    service = Service(conf, database=database, registry=support.registry(conf))
    begun = time.monotonic()
    with pytest.raises(exceptions.NotStarted, match="waited for the database"):
        service.start(cancelled)
    assert time.monotonic() - begun < 30


def test_the_file_of_a_database_is_its_owners_alone(tmp_path):
    own = str(tmp_path / "deep" / "er")
    database = Database(f"sqlite:///{own}/deploysteps.sqlite", own_folder=own)
    database.wait_ready(print)
    database.write(lambda c: c.execute(sa.text("CREATE TABLE t (a INT)")) and None)
    for file in (tmp_path / "deep" / "er").iterdir():
        assert file.stat().st_mode & 0o077 == 0, file
    assert (tmp_path / "deep" / "er").stat().st_mode & 0o077 == 0
    database.dispose()


def test_a_database_in_memory_is_warned_of(conf, caplog):
    """F55."""
    with caplog.at_level(logging.WARNING):
        service = Service(conf, database=Database("sqlite://"), registry=support.registry(conf))
        service.start()
        service.stop()
    assert "in memory" in caplog.text


def test_a_restart_finds_its_nodes(conf, start, sqlite):
    """F55."""
    service = start(sqlite)
    node = support.enrolled(service)
    service.stop()
    start(sqlite)
    assert nodes.get(sqlite, node.uuid).uuid == node.uuid


def test_old_runs_and_history_are_pruned_by_setting(sqlite, start, conf):
    conf.set_override("runs_kept_per_node", 2, group="conductor")
    conf.set_override("node_history_max_entries", 3, group="conductor")
    service = start(sqlite)
    node = support.enrolled(service)
    for _ in range(4):
        service.manager.do_node_deploy(None, node.uuid)
        support.settle(sqlite, node.uuid, states.ACTIVE)
        service.manager.do_node_tear_down(None, node.uuid)
        support.settle(sqlite, node.uuid, states.AVAILABLE)
    from deploysteps.conductor.service import _Periodic

    _Periodic(service.runtime, Recovery(service.runtime))._prune()
    with sqlite.engine.connect() as connection:
        count = sa.select(sa.func.count())
        assert connection.execute(count.select_from(StepRun)).scalar() == 2
        assert connection.execute(count.select_from(NodeHistory)).scalar() == 3


def test_a_lock_that_is_held_for_long_is_named_in_the_log(sqlite, start, conf, caplog):
    """F65."""
    conf.set_override("lock_warn_after", 0.05, group="conductor")
    service = start(sqlite)
    node = support.enrolled(service)
    from deploysteps.conductor import task_manager

    with task_manager.acquire(None, node.uuid, purpose="hanging", runtime=service.runtime):
        time.sleep(0.1)
        recovery = Recovery(service.runtime)
        recovery.sweep()
        recovery.sweep()
    told = [r for r in caplog.records if "locked by conductor-1" in r.getMessage()]
    assert told and node.uuid in told[0].getMessage()


def test_an_idle_fleet_costs_a_constant_number_of_queries(sqlite, start):
    """F85: filter in SQL first, then lock only candidates."""
    from tests.support_sql import counting

    service = start(sqlite)
    service._sweeper.stop()
    service._periodic.stop()
    rows = [
        {"uuid": f"{n:032x}", "driver": "test-hardware", "provision_state": states.ACTIVE}
        for n in range(5000)
    ]
    with sqlite.engine.begin() as connection:
        connection.execute(sa.insert(Node), rows)
    with counting(sqlite, here=True) as sent:
        Recovery(service.runtime).sweep()
        service._sweeper.sweep()
    assert sent.statements <= 5 and sent.commits == 0
