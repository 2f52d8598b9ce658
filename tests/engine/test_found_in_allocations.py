"""Found by trying to break it: whom an allocation takes, and what it costs others."""

from __future__ import annotations

import threading
import time

import pytest

from deploysteps import exceptions, states
from deploysteps.conductor import allocations as working
from deploysteps.conductor.task_manager import acquire
from deploysteps.db import allocations, nodes
from tests import support


@pytest.fixture
def service(sqlite, start, conf):
    conf.set_override("node_locked_retry_interval", 0.05, group="conductor")
    conf.set_override("workers_pool_size", 8, group="conductor")
    return start(sqlite)


def node_of(service, state=states.AVAILABLE):
    return support.enrolled(
        service, resource_class="big", power_state=states.POWER_OFF, provision_state=state
    )


def ask(service, **values):
    return service.manager.create_allocation(None, {"resource_class": "big", **values})


def stored(service):
    return allocations.listing(
        service.database, limit=100, marker=None, sort_key="id", sort_dir="asc"
    )


def test_what_is_told_of_afterwards_never_wants_another_node(service, conf, monkeypatch):
    """A backfill waits for its node's lock; the clock that helps lost ones leaves it alone."""
    conf.set_override("node_locked_retry_attempts", 1000, group="conductor")
    monkeypatch.setattr(working, "_QUIET", -5.0)
    used, free = node_of(service, states.ACTIVE), node_of(service)
    answer = []
    with acquire(None, used.id, runtime=service.runtime):
        asks = threading.Thread(target=lambda: answer.append(ask(service, node_uuid=used.uuid)))
        asks.start()
        time.sleep(0.3)
        assert working.resume(service.runtime) == 0 and stored(service) == []
    asks.join(15)
    assert (answer[0].state, answer[0].node_id) == (allocations.ACTIVE, used.id)
    assert nodes.get(service.database, used.id).instance_uuid == answer[0].uuid
    assert nodes.get(service.database, free.id).instance_uuid is None


def test_a_locked_node_leaves_nothing_behind_under_the_name(service, conf):
    """F21: asked again, as the answer says, it is done."""
    conf.set_override("node_locked_retry_attempts", 0, group="conductor")
    node = node_of(service, states.ACTIVE)
    with (
        acquire(None, node.id, runtime=service.runtime),
        pytest.raises(exceptions.NodeLocked),
    ):
        ask(service, name="a", node_uuid=node.uuid)
    assert ask(service, name="a", node_uuid=node.uuid).node_id == node.id


def test_a_clash_is_told_in_words_and_writes_neither(service):
    ask(service, name="a")
    node = node_of(service, states.ACTIVE)
    with pytest.raises(exceptions.AllocationDuplicateName, match="a"):
        ask(service, name="a", node_uuid=node.uuid)
    found = nodes.get(service.database, node.id)
    assert (found.instance_uuid, found.reservation) == (None, None)


def test_many_that_wait_for_one_locked_node_hold_no_worker(service, conf):
    """F24: what an operator asks for has room; each waits in the database, not in a thread."""
    conf.set_override("node_locked_retry_attempts", 1000, group="conductor")
    wanted, other = node_of(service), node_of(service)
    nodes.set_unlocked(service.database, other.id, {"resource_class": "small"})
    with acquire(None, wanted.id, runtime=service.runtime):
        for _ in range(20):
            ask(service)
            support.until(lambda: service.runtime.workers.busy == 0)
        service.manager.do_node_deploy(None, other.uuid)
        support.settle(service.database, other.uuid, states.ACTIVE)
        assert {one.state for one in stored(service)} == {allocations.ALLOCATING}
    support.until(lambda: [one.node_id for one in stored(service) if one.node_id] == [wanted.id])
    support.until(lambda: service.runtime.allocates is None)
    left = [one for one in stored(service) if one.node_id is None]
    assert len(left) == 19 and all("no node is available" in one.last_error for one in left)
