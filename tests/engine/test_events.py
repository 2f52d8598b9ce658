"""Events: one for each transition, written with it, and read in order (issue 4, section 1)."""

from __future__ import annotations

import datetime
import threading
import time

import pytest
import sqlalchemy as sa

from deploysteps import exceptions, states
from deploysteps.conductor import telling
from deploysteps.conf.events import EVENT_TYPES
from deploysteps.db import events, locks, nodes, types
from deploysteps.db.event_models import Event
from deploysteps.db.events import New
from deploysteps.drivers import base
from tests import support
from tests.conftest import SERVERS
from tests.support_sql import counting

SECRET = "hunter2-is-no-secret"


class Vendor(support.Vendor):
    """Steps that wait, come again, and fail telling what they know."""

    tries = 0

    @base.deploy_step(priority=90)
    def wait_for_agent(self, task):
        return states.DEPLOYWAIT

    @base.deploy_step(priority=80, repeatable=True, retries=1, retry_delay=0.01)
    def flaky(self, task):
        type(self).tries += 1
        if type(self).tries == 1:
            raise ValueError(f"no answer to {task.node.driver_info['ipmi_password']}")

    @base.deploy_step(priority=70)
    def late(self, task):
        if not task.node.extra.get("warm"):
            task.node.extra = {"warm": True}
            task.node.save()
            raise exceptions.StepNotReady("cold", after=0.01)

    @base.deploy_step(priority=0)
    def break_down(self, task):
        raise ValueError(f"cannot reach http://admin:{SECRET}@bmc/ with {SECRET}")


@pytest.fixture
def service(start, database):
    Vendor.tries = 0
    database.idle_transaction_timeout = 0  # ids of earlier tests are no gaps to wait for
    return start(database, vendor=Vendor)


def told(database, node=None):
    return events.after(database, 0, 1000, node=node.uuid if node else None)


def short(event):
    data = event.data
    if event.type == events.NODE_STATE:
        return f"{data['previous']} -> {data['state']}"
    more = [data[key] for key in ("step", "attempt", "waits_for", "outcome") if key in data]
    return " ".join(map(str, (event.type, *more)))


def test_every_transition_of_a_run_is_told_in_order(service, database):
    node = support.enrolled(service, driver_info={"ipmi_password": SECRET})
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(database, node.uuid, states.DEPLOYWAIT)
    support.beat(service, node, support.token(service, node))
    support.settle(database, node.uuid, states.ACTIVE)
    run = support.last_run(database, node)
    found = told(database, node)
    assert {(event.run_uuid, event.flow) for event in found} == {(run.uuid, "deploy")}
    assert [short(event) for event in found] == [
        "run.started",
        "step.started prepare 1",
        "available -> deploying",
        "step.finished prepare 1 success",
        "step.started deploy 1",
        "step.finished deploy 1 success",
        "step.started wait_for_agent 1",
        "step.waiting wait_for_agent 1 agent",
        "deploying -> wait call-back",
        "step.finished wait_for_agent 1 success",
        "step.started flaky 1",
        "wait call-back -> deploying",
        "step.failed flaky 1 failed",
        "step.retried flaky 2 timer",
        "deploying -> wait call-back",
        "step.resumed flaky 2",
        "wait call-back -> deploying",
        "step.finished flaky 2 success",
        "step.started late 1",
        "step.waiting late 1 timer",
        "deploying -> wait call-back",
        "step.resumed late 1",
        "wait call-back -> deploying",
        "step.finished late 1 success",
        "run.finished success",
        "deploying -> active",
    ]
    begin, end = found[0], found[-2]
    assert begin.data["steps"] == 4 and begin.at <= end.at
    ended = events.document(found[-3])
    assert ended["seconds"] >= 0 and ended["position"] == 4 and ended["interface"] == "vendor"
    assert ended["node"] == node.uuid and ended["at"].endswith("+00:00")
    failed = found[12].data["error"]
    assert failed.startswith("vendor.flaky failed: ValueError: no answer to ******")


def test_what_an_error_repeats_of_the_nodes_secrets_is_masked(service, database):
    """F77: by the same mask as last_error; the step got it as it is."""
    steps = [{"interface": "vendor", "step": "break_down", "priority": 95}]
    node = support.enrolled(
        service, driver_info={"ipmi_password": SECRET, "bmc": f"http://admin:{SECRET}@bmc/"}
    )
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=steps)
    node = support.settle(database, node.uuid, states.DEPLOYFAIL)
    with database.reading() as connection:
        raw = str(connection.execute(sa.text("SELECT * FROM events")).all())
    assert SECRET not in raw and "cannot reach http://******@bmc/ with ******" in raw
    ends = [e.data["error"] for e in told(database, node) if "error" in e.data]
    assert ends == [node.last_error] * 2


def test_a_long_error_is_cut_in_events_and_whole_in_the_run(service, database, monkeypatch):
    monkeypatch.setattr(events, "_LONGEST_ERROR", 40)
    node = support.enrolled(service)
    steps = [{"interface": "vendor", "step": "break_down", "priority": 95}]
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=steps)
    node = support.settle(database, node.uuid, states.DEPLOYFAIL)
    (end,) = [event for event in told(database, node) if event.type == events.RUN_FINISHED]
    assert end.data["error"] == f"{node.last_error[:40]}..."


def test_an_undeployment_and_what_is_no_run_are_told_by_the_nodes_states(service, database):
    node = support.enrolled(service)
    nodes.set_unlocked(database, node.id, {"provision_state": states.ACTIVE})
    service.manager.do_node_tear_down(None, node.uuid)
    support.settle(database, node.uuid, states.AVAILABLE)
    found = told(database, node)
    assert [short(e) for e in found if e.type == events.NODE_STATE] == [
        "active -> deleting",
        "deleting -> cleaning",
        "cleaning -> available",
    ]
    assert found[0].run_uuid is None and found[0].flow is None
    assert {event.flow for event in found[1:]} == {"clean"}


def test_a_write_that_does_not_happen_tells_nothing(service, database):
    node = support.enrolled(service)
    lock, _ = locks.grant(database, node.id, "c1", "test")
    row = New(events.NODE_STATE, None, {"state": "x"})
    locks.write(database, lock, {"extra": {}}, tells=lambda _: [row])
    lost = locks.Lock(lock.node_id, lock.node_uuid, "another", lock.generation)
    with pytest.raises(exceptions.LockLost):
        locks.write(database, lost, {"extra": {}}, tells=lambda _: [row])
    stale = locks.Also(sa.update(Event.__table__).where(sa.false()).values(type="x"), {}, must=True)
    with pytest.raises(locks.Stale):
        locks.write(database, lock, {"extra": {}}, [stale], tells=lambda _: [row])
    assert len(told(database, node)) == 1


def test_all_that_one_write_tells_is_one_statement(database):
    node = nodes.insert(database, {"driver": "x", "provision_state": states.AVAILABLE})
    lock, _ = locks.grant(database, node.id, "c1", "test")
    row = New(events.NODE_STATE, None, {"state": "x"})
    with counting(database) as sent:
        locks.write(database, lock, {"extra": {}}, tells=lambda _: [row] * 5)
    assert sent.statements == 2 and sent.commits == 1
    assert len(told(database, node)) == 5


def test_it_can_be_switched_off(start, database, conf):
    conf.set_override("enabled", False, group="events")
    service = start(database)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(database, node.uuid, states.ACTIVE)
    assert told(database) == []


def test_the_types_that_the_configuration_knows_are_those_that_are_written():
    known = {v for k, v in vars(events).items() if k.startswith(("RUN_", "STEP_", "NODE_"))}
    assert known == set(EVENT_TYPES)


# --- reading ------------------------------------------------------------------------


def insert(database, count=1, *, connection=None, at=None, state="x"):
    """Write events past the engine; returns nothing."""

    def work(c):
        for _ in range(count):
            events.write(c, "node", [New(events.NODE_STATE, None, {"state": state})])
            if at is not None:
                newest = c.scalar(sa.select(sa.func.max(Event.id)))
                c.execute(sa.update(Event).where(Event.id == newest).values(at=at))

    if connection is not None:
        work(connection)
    else:
        database.write(work)


several_writers = pytest.mark.parametrize("kind", SERVERS, indirect=True)
"""SQLite has one writer at a time."""


def ids(found):
    return [event.id for event in found]


@several_writers
def test_an_event_that_is_committed_late_is_waited_for(database):
    """Two transactions: the one that wrote first commits last."""
    database.idle_transaction_timeout = 30
    insert(database)
    begin = events.edges(database).newest
    with database.engine.connect() as slow:
        transaction = slow.begin()
        insert(database, connection=slow, state="late")
        insert(database, 3, state="early")
        assert events.settled(database, begin, 100) == []
        assert events.settled_newest(database) == begin
        assert len(events.after(database, begin, 100)) == 3
        transaction.commit()
    found = events.settled(database, begin, 100)
    assert [event.data["state"] for event in found] == ["late", "early", "early", "early"]
    assert ids(found) == sorted(ids(found))
    assert events.settled_newest(database) == found[-1].id


@several_writers
def test_an_event_that_was_rolled_back_is_not_waited_for_for_ever(database):
    insert(database)
    begin = events.edges(database).newest
    with database.engine.connect() as lost:
        transaction = lost.begin()
        insert(database, connection=lost)
        insert(database, 2)
        transaction.rollback()
    database.idle_transaction_timeout = 30
    assert events.settled(database, begin, 100) == []
    database.idle_transaction_timeout = -events._MARGIN - 1
    assert len(events.settled(database, begin, 100)) == 2


@several_writers
def test_a_writer_whose_clock_is_ahead_keeps_nothing_back(database):
    """What is missing before its event is waited for by the clock of the reader."""
    insert(database)
    begun = events.edges(database).newest
    with database.engine.connect() as gone:
        transaction = gone.begin()
        insert(database, connection=gone)
        transaction.rollback()
    insert(database, at=types.utcnow() + datetime.timedelta(hours=1))
    database.idle_transaction_timeout = 600
    assert events.settled(database, begun, 10) == []
    database.idle_transaction_timeout = -events._MARGIN
    assert ids(events.settled(database, begun, 10)) == [events.edges(database).newest]


def test_readers_beside_many_writers_miss_nothing(database):
    """Threads commit in any order; a reader that follows sees each event once, in order."""
    insert(database)
    cursor = events.edges(database).newest
    database.idle_transaction_timeout = 30
    threads = [
        threading.Thread(target=lambda n=n: [insert(database, state=f"{n}") for _ in range(25)])
        for n in range(6)
    ]
    for thread in threads:
        thread.start()
    seen, end = [], time.monotonic() + 120
    while len(seen) < 150 and time.monotonic() < end:
        found = events.settled(database, cursor, 40)
        seen += ids(found)
        cursor = seen[-1] if seen else cursor
    for thread in threads:
        thread.join()
    assert len(seen) == 150 and seen == sorted(set(seen))


def test_pages_and_filters(service, database):
    node = support.enrolled(service)
    insert(database, 3)
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(database, node.uuid, states.DEPLOYWAIT)
    everything = events.after(database, 0, 1000)
    assert ids(events.after(database, everything[0].id, 2)) == ids(everything[1:3])
    mine = events.after(database, 0, 1000, node=node.uuid)
    assert mine and {event.node_uuid for event in mine} == {node.uuid}
    assert events.after(database, 0, 1000, flow="deploy") == [] or ids(mine) == ids(
        events.after(database, 0, 1000, flow="deploy")
    )
    assert ids(events.after(database, 0, 1000, until=everything[1].id)) == ids(everything[:2])
    for field in ("owner", "lessee"):
        assert events.after(database, 0, 1000, project=field) == []
        nodes.set_unlocked(database, node.id, {field: field})
        assert ids(events.after(database, 0, 1000, project=field)) == ids(mine)
    known = nodes.projects_of(database, {event.node_uuid for event in everything})
    assert known == {node.uuid: ("owner", "lessee")}, "what is gone is nobody's"


# --- pruning ------------------------------------------------------------------------


def test_what_is_too_old_goes_in_batches_and_the_newest_stays(database):
    old = types.utcnow() - datetime.timedelta(hours=3)
    insert(database, 7, at=old)
    insert(database, 2)
    kept = ids(events.after(database, 0, 100))[-2:]
    with counting(database) as sent:
        assert events.prune(database, hours=2, rows=0, batch=3) == 7
    assert ids(events.after(database, 0, 100)) == kept
    assert len(sent.of("DELETE")) == 3
    assert events.prune(database, hours=2, rows=0, batch=3) == 0
    database.write(lambda c: c.execute(sa.update(Event).values(at=old)) and None)
    assert events.prune(database, hours=2, rows=0) == 1
    assert ids(events.after(database, 0, 100)) == kept[-1:]


def test_what_is_too_much_goes_and_no_id_is_given_again(database):
    insert(database, 10)
    newest = events.edges(database).newest
    assert events.prune(database, hours=0, rows=4, batch=3) == 6
    assert ids(events.after(database, 0, 100)) == list(range(newest - 3, newest + 1))
    assert events.prune(database, hours=0, rows=0) == 0
    database.write(lambda c: c.execute(sa.delete(Event)) and None)
    assert events.edges(database) == (0, 0)
    insert(database)
    assert events.edges(database).newest > newest


def test_one_call_removes_so_many_at_most(database):
    insert(database, 10)
    assert events.prune(database, hours=0, rows=1, batch=2, most=4) == 4


# --- counting -----------------------------------------------------------------------


def test_metrics_name_only_steps_that_somebody_declares(service, database):
    before = telling.counts.STEPS.shown()
    row = {"interface": "vendor", "seconds": 1.0, "outcome": "success"}
    told = [
        New(events.STEP_FINISHED, 1, {**row, "step": "late"}),
        New(events.STEP_FAILED, 1, {**row, "step": "brought-by-an-agent"}),
        New(events.RUN_FINISHED, 1, {"outcome": "failed"}),
    ]
    telling.count(told, service.runtime.registry, states.DEPLOYING, states.ACTIVE)
    after = telling.counts.STEPS.shown()
    more = {key: count - before.get(key, 0) for key, count in after.items()}
    assert more["deploy", "vendor.late", "success"] == 1
    assert more["deploy", "other", "success"] == 1
    assert not any("brought" in step for _flow, step, _outcome in after)
