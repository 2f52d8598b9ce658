"""Found by trying to break it: clocks that overrule operators, or believe what is over."""

from __future__ import annotations

import threading

import pytest

from deploysteps import states
from deploysteps.conductor import power_sync
from deploysteps.db import nodes, power
from deploysteps.drivers import fake
from tests import support

ON, OFF = states.POWER_ON, states.POWER_OFF
REASON = "the disk is being replaced, do not touch"


class Machine(fake.FakePower):
    """Its controller tells ``found``, after ``before_it_tells`` was called."""

    found: object = OFF
    before_it_tells = staticmethod(lambda: None)
    switched: list = []  # noqa: RUF012

    def get_power_state(self, task):
        if threading.current_thread().name.startswith("power "):
            type(self).before_it_tells()
        if isinstance(self.found, Exception):
            raise self.found
        return self.found

    def set_power_state(self, task, power_state, timeout=None):
        self.switched.append(power_state)


@pytest.fixture
def service(sqlite, start, conf):
    Machine.found, Machine.switched = OFF, []
    Machine.before_it_tells = staticmethod(lambda: None)
    conf.set_override("power_state_sync_max_retries", 0, group="conductor")
    return start(sqlite, power=Machine)


@pytest.fixture
def recovery(service):
    found = power_sync.PowerRecovery(service.runtime)
    yield found
    found.stop()


@pytest.fixture
def sync(service):
    found = power_sync.PowerSync(service.runtime)
    yield found
    found.stop()


def faulty(service):
    return support.enrolled(
        service, power_state=OFF, maintenance=True, maintenance_reason="silent", fault=power.FAULT
    )


def stored(service, node):
    found = nodes.get(service.database, node.id)
    return found.maintenance, found.maintenance_reason, found.fault


@pytest.mark.parametrize("how", ["maintenance", "patch", "patch of the reason"])
def test_maintenance_that_an_operator_sets_over_a_fault_is_the_operators(service, recovery, how):
    node = faulty(service)
    if how == "maintenance":
        service.manager.set_node_maintenance(None, node.uuid, True, REASON)
    else:
        values = {"maintenance": True} if how == "patch" else {}
        service.manager.update_node(None, node.uuid, {**values, "maintenance_reason": REASON})
    recovery.round()
    assert stored(service, node) == (True, REASON, None)


def test_maintenance_that_nobody_touched_still_ends(service, recovery):
    node = faulty(service)
    recovery.round()
    assert stored(service, node) == (False, None, None)


def set_in_the_middle(service, node, monkeypatch, *more):
    """An operator sets maintenance, without a lock, right before the clock writes."""
    original = power_sync.write

    def late(*args, **kwargs):
        service.manager.set_node_maintenance(None, node.uuid, True, REASON)
        return original(*args, **kwargs)

    monkeypatch.setattr(power_sync, "write", late)


def test_an_operators_word_between_the_clocks_look_and_its_write_stays(
    service, recovery, monkeypatch
):
    node = faulty(service)
    set_in_the_middle(service, node, monkeypatch)
    recovery.round()
    assert stored(service, node) == (True, REASON, None)
    assert nodes.get(service.database, node.id).reservation is None


def test_a_fault_is_not_put_over_an_operators_maintenance(service, sync, monkeypatch):
    node = support.enrolled(service, power_state=OFF)
    Machine.found = RuntimeError("away")
    set_in_the_middle(service, node, monkeypatch)
    sync.round()
    assert stored(service, node) == (True, REASON, None)


@pytest.mark.parametrize("force", [True, False])
@pytest.mark.parametrize("retries", [0, 3])
def test_what_was_told_in_the_middle_of_a_reboot_is_not_believed(
    service, sync, conf, force, retries
):
    """F53: the record reads as before, and what the machine told is over all the same."""
    conf.set_override("force_power_state_during_sync", force, group="conductor")
    conf.set_override("power_state_sync_max_retries", retries, group="conductor")
    node = support.enrolled(service, power_state=ON)

    def reboots():
        service.manager.change_node_power_state(None, node.uuid, states.REBOOT)
        support.until(
            lambda: (
                (n := nodes.get(service.database, node.id)).reservation is None
                and n.target_power_state is None
                and n.generation > 0
            )
        )

    Machine.before_it_tells = staticmethod(reboots)
    Machine.found = OFF
    sync.round()
    found = nodes.get(service.database, node.id)
    assert (found.power_state, found.maintenance, Machine.switched) == (ON, False, [])
