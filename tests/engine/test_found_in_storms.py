"""What many processes, clients and clocks at once have brought to light, one at a time."""

from __future__ import annotations

import datetime
import time

import pytest
import sqlalchemy as sa

from deploysteps import exceptions, states
from deploysteps.conductor import beats, inventory
from deploysteps.conductor.recovery import Recovery
from deploysteps.db import conductors, locks, nodes, transitions, types
from deploysteps.db.models import Conductor, Node, StepAttempt, table
from deploysteps.drivers import base
from tests import support


class WaitsForAgent(support.Vendor):
    """One step, which the machine's agent ends."""

    @base.deploy_step(priority=50)
    def first(self, task):
        return states.DEPLOYWAIT


def waits(start, database):
    """Return a service, a node that waits for its agent, and the agent's token."""
    service = start(database, vendor=WaitsForAgent)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(database, node.uuid, states.DEPLOYWAIT)
    return service, node, support.token(service, node)


def earlier(database, seconds):
    """Let all that is noted have happened so much earlier: nobody was there since."""
    by = datetime.timedelta(seconds=seconds)
    noted = {
        Conductor: ("updated_at",),
        Node: ("agent_last_heartbeat",),
        StepAttempt: ("waiting_since", "due_at", "deadline_at"),
    }
    with database.engine.begin() as connection:
        for model, names in noted.items():
            rows = table(model)
            for row in connection.execute(sa.select(rows)).mappings():
                same = [key == row[key.name] for key in rows.primary_key.columns]
                values = {name: row[name] - by for name in names if row[name] is not None}
                if values:
                    connection.execute(sa.update(rows).where(*same).values(values))


def test_a_beat_whose_token_was_rotated_since_it_was_checked_ends_no_wait(
    database, start, monkeypatch
):
    """F27, F29: its machine was switched off while the conductor that checked it was frozen."""
    service, node, token = waits(start, database)
    check = beats._check_token

    def frozen(seen, given):
        check(seen, given)
        service.manager.change_node_power_state(None, node.uuid, states.POWER_OFF)
        support.until(lambda: nodes.get(database, node.uuid).power_state == states.POWER_OFF)
        support.settle(database, node.uuid, states.DEPLOYWAIT)

    monkeypatch.setattr(beats, "_check_token", frozen)
    with pytest.raises(exceptions.NodeLocked):
        service.manager.heartbeat(None, node.uuid, support.CALLBACK, agent_token=token)
    now = support.settle(database, node.uuid, states.DEPLOYWAIT)
    assert now.agent_url_column is None and now.agent_secret_token is None
    assert support.told(database, node)[-1] == ("vendor.first", 1, "waiting", None)


@pytest.mark.parametrize("is_first", [True, False], ids=["first", "second"])
def test_an_agent_is_not_silent_while_the_whole_service_is_down(database, start, is_first):
    """Promise 10: it has called all the time, and its next heartbeat ends the wait.

    Also where the conductor that looks after it is not the first to come back.
    """
    service, node, token = waits(start, database)
    assert service.stop()
    earlier(database, 3600)
    if not is_first:
        conductors.register(database, "conductor-2", "boot", [])
    service = start(database, vendor=WaitsForAgent)
    service.runtime.wake()
    support.until(lambda: support.attempts(database, node)[-1].due_at > types.utcnow())
    now = support.settle(database, node.uuid, states.DEPLOYWAIT)
    assert now.last_error is None
    support.beat(service, node, token)
    support.settle(database, node.uuid, states.ACTIVE)


class Job(support.Vendor):
    """One step that goes on elsewhere for at most a minute, and is asked after."""

    found = states.StepStatus.RUNNING

    @base.deploy_step(priority=50, timeout=60)
    def job(self, task):
        return states.wait(states.DEPLOYWAIT, poll=0.01)

    def check_step(self, task, step):
        return self.found


@pytest.mark.parametrize(
    ("found", "state", "outcome"),
    [
        (states.StepStatus.DONE, states.ACTIVE, "success"),
        (states.StepStatus.RUNNING, states.DEPLOYFAIL, "timeout"),
    ],
)
def test_polled_work_is_asked_after_once_more_before_its_limit_fails_it(
    sqlite, start, found, state, outcome
):
    """F34, F41: its last hour nobody looked, and it had ended in the first minute."""
    vendor = type("Jobs", (Job,), {})
    service = start(sqlite, vendor=vendor)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(sqlite, node.uuid, states.DEPLOYWAIT)
    assert service.stop()
    earlier(sqlite, 3600)
    vendor.found = found
    start(sqlite, vendor=vendor)
    support.settle(sqlite, node.uuid, state)
    assert support.last_run(sqlite, node).outcome == outcome


def test_a_wrong_clock_takes_no_conductor_that_lives_for_dead(database, start, conf, monkeypatch):
    """F46: what the others are at work on is theirs, however long ago their signs seem."""
    conf.set_override("heartbeat_interval", 0.1, group="conductor")
    conf.set_override("heartbeat_timeout", 0.5, group="conductor")
    conf.set_override("recovery_interval", 3600, group="conductor")
    service = start(database, vendor=WaitsForAgent)
    node = support.enrolled(service)
    conductors.register(database, "other", "boot", [])
    locks.grant(database, node.id, "other", "node deploy")
    monkeypatch.setattr(conductors, "clock_ahead", lambda _database: 3600.0)
    recovery = Recovery(service.runtime)

    def sign_of_life(age):
        then = types.utcnow() - datetime.timedelta(seconds=age)
        change = sa.update(Conductor).where(Conductor.hostname == "other")
        with database.engine.begin() as connection:
            connection.execute(change.values(updated_at=then))

    for age in (3600, 3599):
        sign_of_life(age)
        assert recovery.sweep() == 0
        time.sleep(0.6)
    assert nodes.get(database, node.uuid).reservation == "other"
    support.until(recovery.sweep)  # it was quiet since the last look, by any clock
    support.until(lambda: nodes.get(database, node.uuid).reservation is None)


def test_how_far_two_clocks_are_apart(database, monkeypatch):
    assert abs(conductors.clock_ahead(database)) < 1
    if database.dialect == "sqlite":
        return

    class Later(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return datetime.datetime.now(tz) + by

    class Module:
        datetime, UTC = Later, datetime.UTC

    monkeypatch.setattr(conductors, "datetime", Module)
    for seconds in (3600, -3600):
        by = datetime.timedelta(seconds=seconds)
        assert abs(conductors.clock_ahead(database) - seconds) < 5


def test_a_sign_of_life_that_comes_late_does_not_bring_back_who_has_left(database):
    """F50: its thread had begun to write one when the process took its leave."""
    conductors.register(database, "c1", "boot", [])
    assert conductors.touch(database, "c1", "boot")
    conductors.leave(database, "c1", "boot")
    assert not conductors.touch(database, "c1", "boot")
    assert conductors.alive_names(database, 60) == set()


def test_an_abort_does_not_reach_into_the_run_that_begins_meanwhile(database, start, monkeypatch):
    """The run that it was for ended between its two looks; nobody has asked for this one's end."""
    service, node, _token = waits(start, database)
    node = nodes.get(database, node.uuid)
    mine = transitions.key_of(support.attempts(database, node)[-1])
    told = []
    monkeypatch.setattr(transitions, "cut_short", lambda _database, key: told.append(key))
    for second in (mine._replace(run_id=mine.run_id + 1), mine):
        looks = iter([None, second])
        inventory.request_abort(service.runtime, node, "me", lambda _node, looks=looks: next(looks))
    assert told == [mine]
