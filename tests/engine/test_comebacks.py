"""Conductors that come back together after the database was away, and clocks that are wrong."""

from __future__ import annotations

import datetime
import types as python

import pytest
import sqlalchemy as sa

from deploysteps.conductor import charge, liveness
from deploysteps.conductor.hearing import Hearing
from deploysteps.conductor.liveness import Liveness
from deploysteps.db import conductors, types
from deploysteps.db.models import Conductor

TIMEOUT = 60.0


class Clock:
    """The time of this process, which goes on when it is told to."""

    def __init__(self) -> None:
        self.now = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)

    def goes_on(self, seconds):
        self.now += datetime.timedelta(seconds=seconds)


@pytest.fixture
def clock(monkeypatch):
    found = Clock()
    monkeypatch.setattr(types, "utcnow", lambda: found.now)
    own = python.SimpleNamespace(monotonic=lambda: found.now.timestamp())
    monkeypatch.setattr(liveness, "time", own)
    return found


class Beside:
    """A conductor, as far as it judges others."""

    def __init__(self, database, conf, name):
        conf.set_override("heartbeat_timeout", TIMEOUT, "conductor")
        conf.set_override("heartbeat_interval", 10, "conductor")
        self.database, self.conf, self.host = database, conf, name
        self.hearing = Hearing(TIMEOUT)
        self._liveness = Liveness(self)
        conductors.register(database, name, name, [("hardware", "deploy", "direct", True)], name)

    def gives_a_sign(self, late=0):
        """Write a sign of life, by a clock that is behind by some seconds."""
        before = conductors.last_heard(self.database)
        conductors.touch(self.database, self.host, self.host)
        self.hearing.note(before)
        if late:
            then = types.utcnow() - datetime.timedelta(seconds=late)
            change = sa.update(Conductor).where(Conductor.hostname == self.host)
            with self.database.engine.begin() as connection:
                connection.execute(change.values(updated_at=then))

    def finds_alive(self):
        rows = conductors.listing(self.database)
        return self._liveness.alive([row for row in rows if row.hostname != self.host])

    def finds_forsaken(self, other):
        return charge.is_forsaken(self, python.SimpleNamespace(conductor_group=other.host))


@pytest.fixture
def two(sqlite, conf, clock):
    """Two conductors that have given signs of life for a while, and have looked at each other."""
    found = [Beside(sqlite, conf, name) for name in ("a", "b")]
    for _ in range(20):
        for one in found:
            one.gives_a_sign()
        clock.goes_on(10)
    assert [one.finds_alive() for one in found] == [{"b"}, {"a"}]
    assert [one.hearing.since() for one in found] == [None, None]
    return found


def test_each_conductor_begins_to_hear_when_it_is_back_itself(two, clock):
    """Promise 10: only the first of them saw that nobody had been heard of meanwhile."""
    clock.goes_on(1740)
    back = []
    for one in two:
        one.gives_a_sign()
        back.append(clock.now)
        clock.goes_on(5)
    assert [one.hearing.since() for one in two] == back


def test_who_comes_back_after_another_is_not_lost(two, clock):
    """F46: while the database was away nobody could say that he lives."""
    a, b = two
    clock.goes_on(600)
    assert a.finds_alive() == {"b"}  # its round was quicker than its own sign of life
    a.gives_a_sign()
    assert a.finds_alive() == {"b"}
    assert not a.finds_forsaken(b)
    clock.goes_on(9)
    b.gives_a_sign()
    assert (a.finds_alive(), b.finds_alive()) == ({"b"}, {"a"})


def test_who_does_not_come_back_is_lost(two, clock):
    a, b = two
    clock.goes_on(600)
    for _ in range(7):
        a.gives_a_sign()
        assert a.finds_alive() == {"b"} and not a.finds_forsaken(b)
        clock.goes_on(10)
    a.gives_a_sign()
    assert a.finds_alive() == set() and a.finds_forsaken(b)


def test_a_conductor_whose_clock_is_behind_lives_as_long_as_it_gives_signs(two, clock):
    """F46: a sign is new, however old it says that it is."""
    a, b = two
    for _ in range(20):
        clock.goes_on(10)
        a.gives_a_sign()
        b.gives_a_sign(late=3600)
        assert a.finds_alive() == {"b"}
    for seconds in range(0, int(TIMEOUT), 10):
        assert a.finds_alive() == {"b"}, seconds
        clock.goes_on(10)
        a.gives_a_sign()
    clock.goes_on(1)
    assert a.finds_alive() == set()


def test_a_conductor_that_is_lost_is_found_so_by_its_last_sign(two, clock):
    """That it was seen to move later than it wrote gives it no more time."""
    a, b = two
    b.gives_a_sign()
    for _ in range(2):
        clock.goes_on(30)
        a.gives_a_sign()
        assert a.finds_alive() == {"b"}
    clock.goes_on(1)
    assert a.finds_alive() == set()


def test_a_wrong_clock_calls_no_group_forsaken(two, clock, monkeypatch):
    """F46: an abort there would end what another conductor is at work on."""
    a, b = two
    clock.goes_on(61)
    b.gives_a_sign(late=61)
    a.hearing = Hearing(TIMEOUT)  # of one that was just started
    assert a.finds_forsaken(b)
    monkeypatch.setattr(conductors, "clock_ahead", lambda _database: 61.0)
    assert not a.finds_forsaken(b)
    node = python.SimpleNamespace(uuid="u", conductor_group=b.host)
    with pytest.raises(charge.exceptions.ForeignConductorGroup, match="cannot be told here now"):
        charge.refuse_foreign(a, node)
    monkeypatch.setattr(conductors, "clock_ahead", lambda _database: 0.0)
    assert a.finds_forsaken(b)
