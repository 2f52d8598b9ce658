"""A database that goes away takes no step's end with it."""

from __future__ import annotations

import sqlite3
import threading

import pytest
import sqlalchemy as sa
from oslo_db import exception as db_exc

from deploysteps import exceptions, states
from deploysteps.conductor import patience
from deploysteps.db import engine, failures, nodes
from deploysteps.drivers import base
from tests import support


class Away:
    """Lets a database be away from when it is asked to until it is back."""

    def __init__(self, database, monkeypatch, error):
        self.error = error
        self.is_away, self.asked, self.times = False, threading.Semaphore(0), 0
        real = database._connected

        def connected(*args):
            if self.is_away:
                self.times += 1
                self.asked.release()
                raise error
            return real(*args)

        monkeypatch.setattr(database, "_connected", connected)
        monkeypatch.setattr(engine, "_TRIES", 2)
        monkeypatch.setattr(engine, "_LONGEST_PAUSE", 0.01)

    def was_asked(self, times):
        """Wait until it was asked so often in vain."""
        for _ in range(times):
            assert self.asked.acquire(timeout=30)


@pytest.fixture(
    params=[db_exc.DBConnectionError(), exceptions.DatabaseUnavailable(reason="no connection")],
    ids=["server", "pool"],
)
def away(request, database, monkeypatch):
    return Away(database, monkeypatch, request.param)


def steps_of(away, ran):
    """Return an interface whose first step ends while the database is away."""

    class Vendor(support.Vendor):
        @base.deploy_step(priority=50)
        def first(self, task):
            ran.append("first")
            away.is_away = True

        @base.deploy_step(priority=40)
        def second(self, task):
            ran.append("second")

    return Vendor


def test_a_step_that_ended_while_the_database_was_away_is_not_run_again(
    database, start, away, caplog
):
    """The end is kept, and written when the database is back: nobody is called for a blip."""
    caplog.set_level("INFO", patience.LOG.name)
    ran = []
    service = start(database, vendor=steps_of(away, ran))
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    away.was_asked(50)
    away.is_away = False
    node = support.settle(database, node.uuid, states.ACTIVE)
    assert ran == ["first", "second"]
    assert {outcome for *_, outcome in support.outcomes(database, node)} == {"success"}
    told = [r for r in caplog.records if r.name == patience.LOG.name]
    assert [record.levelname for record in told] == ["ERROR", "INFO"]
    assert node.uuid in told[0].getMessage() and "database" in told[0].getMessage()


def test_a_conductor_that_stops_does_not_wait_for_the_database(database, start, away):
    """Recovery goes on, after the next start, from what is written."""
    ran = []
    service = start(database, vendor=steps_of(away, ran))
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    away.was_asked(10)
    service.runtime.stopping.set()
    support.until(lambda: not service.runtime.workers.busy)
    away.is_away = False
    kept = nodes.get(database, node.uuid)
    assert kept.lock_token is not None and kept.lock_token not in service.runtime.active
    assert support.outcomes(database, node)[-1] == ("first", 1, None)
    assert ran == ["first"]


def test_a_poll_that_cannot_read_is_no_failure_of_the_step(database, start, away):
    """F43: nobody has said that it failed; it is asked again when the database is back."""
    asked = []

    class Vendor(support.Vendor):
        @base.deploy_step(priority=50)
        def first(self, task):
            return states.wait(states.DEPLOYWAIT, poll=0.05)

        def check_step(self, task, step):
            asked.append(step["step"])
            if len(asked) == 1:
                away.is_away = True
            task.node.refresh()
            return states.StepStatus.DONE

    service = start(database, vendor=Vendor)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    away.was_asked(5)
    away.is_away = False
    node = support.settle(database, node.uuid, states.ACTIVE)
    assert support.outcomes(database, node)[-1] == ("first", 1, "success") and len(asked) > 1


@pytest.mark.parametrize(
    ("message", "code"), [("cannot execute UPDATE in a read-only transaction", "25006")]
)
def test_a_server_that_takes_no_writes_for_a_while_is_waited_for(database, message, code):
    """In the middle of a failover."""
    said = type("Said", (Exception,), {"sqlstate": code})(message)
    error = db_exc.DBError(sa.exc.OperationalError("UPDATE", {}, said))
    assert failures.is_transient(error) and failures.is_unavailable(error)
    said = type("Said", (Exception,), {})(1290, "running with the --read-only option")
    assert failures.is_unavailable(sa.exc.OperationalError("UPDATE", {}, said))
    assert not failures.is_unavailable(sa.exc.OperationalError("UPDATE", {}, Exception("denied")))


@pytest.mark.parametrize("is_patient", [True, False])
def test_a_commit_of_unknown_end_is_looked_up_for_as_long_as_there_is_patience(
    database, away, is_patient
):
    """It had happened: what it wrote is not written twice."""
    told = []

    def patience_of(reason):
        told.append(reason)
        away.is_away = len(told) < 50
        return is_patient

    away.is_away = True
    if is_patient:
        assert database._settled(lambda _: True, OSError("gone"), patience_of)
        assert len(told) == 50
    else:
        with pytest.raises(engine.CommitUnknown):
            database._settled(lambda _: True, OSError("gone"), patience_of)
        with pytest.raises(engine.CommitUnknown):
            database._settled(lambda _: True, OSError("gone"), None)
        has_waited = isinstance(away.error, exceptions.DatabaseUnavailable)  # for the pool, long
        assert away.times == (2 if has_waited else 2 * engine._TRIES)


def test_a_full_database_is_waited_for_as_well(database, monkeypatch):
    """The operator makes room; what was done meanwhile is written then."""
    full, told = sqlite3.OperationalError("database or disk is full"), []
    monkeypatch.setattr(engine, "_LONGEST_PAUSE", 0.01)

    def work(_connection):
        if len(told) < 5:
            raise sa.exc.OperationalError("INSERT", {}, full)
        return 7

    assert database.write(work, patience=lambda reason: not told.append(reason)) == 7
    assert len(told) == 5 and "full" in told[0] and not database.is_full
    told.clear()
    with pytest.raises(exceptions.DatabaseFull):
        database.write(work)
