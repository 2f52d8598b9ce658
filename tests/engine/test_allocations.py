"""Allocations: who gets which node, once, whatever else happens."""

from __future__ import annotations

import datetime
import threading
from collections import Counter

import pytest
import sqlalchemy as sa

from deploysteps import exceptions, states
from deploysteps.conductor import allocations as work
from deploysteps.conductor.task_manager import acquire
from deploysteps.db import allocations, nodes, traits, types
from deploysteps.db.group_models import Allocation
from deploysteps.db.models import Node
from tests import support


def node_of(database, **values):
    return nodes.insert(
        database,
        {
            "driver": "test-hardware",
            "provision_state": states.AVAILABLE,
            "resource_class": "big",
            "power_state": states.POWER_OFF,
            **values,
        },
    )


def wish(database, **values):
    return allocations.insert(database, {"resource_class": "big", **values})


def again(database, one):
    if isinstance(one, Allocation):
        return allocations.get(database, one.uuid)
    return nodes.get(database, one.id)


def ends(service, allocation):
    support.until(lambda: again(service.database, allocation).state != allocations.ALLOCATING)
    return again(service.database, allocation)


# --- taking, on every database ---------------------------------------------------------------


def test_a_node_and_its_allocation_are_written_together(database):
    node = node_of(database, instance_info={"kept": 1})
    one = wish(database, traits=["CUSTOM_A"])
    traits.add(database, node.id, ["CUSTOM_A", "CUSTOM_B"])
    (candidate,) = allocations.candidates(database, one)
    assert allocations.take(database, one, candidate)
    now, had = again(database, node), again(database, one)
    assert now.instance_uuid == one.uuid
    assert now.instance_info == {"kept": 1, "traits": ["CUSTOM_A"]}
    assert (had.state, had.node_id, had.last_error) == (allocations.ACTIVE, node.id, None)
    assert not allocations.take(database, one, candidate)
    assert allocations.of_nodes(database, [node.id]) == {node.id: one.uuid}
    assert allocations.nodes_of(database, [had]) == {node.id: node.uuid}


@pytest.mark.parametrize(
    "values",
    [
        {"resource_class": "small"},
        {"resource_class": None},
        {"provision_state": states.ACTIVE},
        {"provision_state": states.MANAGEABLE},
        {"maintenance": True},
        {"retired": True},
        {"instance_uuid": "11111111-1111-1111-1111-111111111111"},
        {"power_state": None},
        {"owner": "other"},
        {"name": "not-asked-for"},
    ],
    ids=str,
)
def test_what_is_not_taken(sqlite, values):
    one = wish(sqlite, owner="mine" if "owner" in values else None)
    asked = node_of(sqlite, name="asked", owner=one.owner)
    if "name" in values:
        one.candidate_nodes = [asked.uuid]
    node_of(sqlite, **values)
    assert [found.id for found in allocations.candidates(sqlite, one)] == [asked.id]


def test_a_node_on_loan_is_its_lessees(sqlite):
    node = node_of(sqlite, owner="other", lessee="mine")
    assert [n.id for n in allocations.candidates(sqlite, wish(sqlite, owner="mine"))] == [node.id]


def test_all_the_traits_are_needed(database):
    full, half = node_of(database), node_of(database)
    traits.add(database, full.id, ["CUSTOM_A", "CUSTOM_B"])
    traits.add(database, half.id, ["CUSTOM_A"])
    one = wish(database, traits=["CUSTOM_B", "CUSTOM_A"])
    assert [found.id for found in allocations.candidates(database, one)] == [full.id]


@pytest.mark.parametrize(
    "meanwhile",
    [
        {"reservation": "somebody"},
        {"maintenance": True},
        {"provision_state": states.DEPLOYING},
        {"resource_class": "small"},
        {"generation": 7},
        {"instance_uuid": "11111111-1111-1111-1111-111111111111"},
    ],
    ids=str,
)
def test_a_node_that_has_changed_since_it_was_found_is_not_taken(sqlite, meanwhile):
    node, one = node_of(sqlite), wish(sqlite)
    (candidate,) = allocations.candidates(sqlite, one)
    nodes.set_unlocked(sqlite, node.id, meanwhile)
    assert not allocations.take(sqlite, one, candidate)
    assert again(sqlite, one).state == allocations.ALLOCATING
    assert again(sqlite, node).instance_uuid == meanwhile.get("instance_uuid")


def test_an_allocation_that_is_gone_meanwhile_takes_nothing(database):
    node, one = node_of(database), wish(database)
    (candidate,) = allocations.candidates(database, one)
    assert allocations.delete(database, one.id)
    assert not allocations.take(database, one, candidate)
    assert again(database, node).instance_uuid is None


def test_no_node_is_given_twice(database):
    """Sixteen allocations, two workers at each, eight nodes: compare-and-set decides."""
    made = [node_of(database) for _ in range(8)]
    wishes = [wish(database, name=f"a{n}") for n in range(16)]
    barrier, errors = threading.Barrier(8), []

    def worker(number):
        try:
            barrier.wait(60)
            for one in wishes[number % 4 :: 4]:
                for candidate in allocations.candidates(database, one):
                    if allocations.take(database, one, candidate):
                        break
        except Exception as exc:
            errors.append(exc)

    threads = [threading.Thread(target=worker, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert errors == []
    with database.reading() as connection:
        rows = connection.execute(sa.select(Allocation.uuid, Allocation.node_id)).all()
        held = dict(connection.execute(sa.select(Node.id, Node.instance_uuid)).all())
    given = {node_id: uuid for uuid, node_id in rows if node_id is not None}
    assert given == held, "each node has the allocation that has it"
    assert sorted(given) == sorted(node.id for node in made)
    assert max(Counter(node_id for _, node_id in rows if node_id).values()) == 1


# --- looking ---------------------------------------------------------------------------------


@pytest.fixture
def service(sqlite, start):
    return start(sqlite)


def ask(service, **values):
    return service.manager.create_allocation(None, {"resource_class": "big", **values})


def test_an_allocation_gets_a_node(service):
    node = node_of(service.database)
    one = ask(service, name="a", traits=[], candidate_nodes=[node.uuid])
    assert one.state == allocations.ALLOCATING
    assert ends(service, one).node_id == node.id
    assert again(service.database, node).reservation is None


def test_the_node_of_its_name_is_preferred(service):
    for number in range(6):
        node_of(service.database, name=f"n{number}")
    one = ends(service, ask(service, name="n4"))
    assert nodes.get(service.database, one.node_id).name == "n4"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({}, "no node is available, of the resource class big"),
        ({"candidate_nodes": ["11111111-1111-1111-1111-111111111111"]},
         "none of the requested nodes are available"),
        ({"traits": ["CUSTOM_A"]}, "with the traits CUSTOM_A"),
    ],
)  # fmt: skip
def test_without_a_node_it_says_why(service, values, words):
    if "traits" in values:
        node_of(service.database)
    one = ends(service, ask(service, **values))
    assert (one.state, one.node_id) == (allocations.ERROR, None)
    assert one.last_error.startswith(f"Failed to process allocation {one.uuid}: ")
    assert words in one.last_error


def test_nodes_that_are_locked_are_tried_again(sqlite, start, conf):
    conf.set_override("node_locked_retry_attempts", 50, group="conductor")
    service = start(sqlite)
    node = node_of(sqlite)
    with acquire(None, node.id, runtime=service.runtime):
        one = ask(service)
        threading.Event().wait(0.2)
        assert again(sqlite, one).state == allocations.ALLOCATING
    assert ends(service, one).node_id == node.id


def test_nodes_that_stay_locked_are_told(sqlite, start, conf):
    conf.set_override("node_locked_retry_attempts", 0, group="conductor")
    service = start(sqlite)
    with acquire(None, node_of(sqlite).id, runtime=service.runtime):
        one = ends(service, ask(service))
    assert one.state == allocations.ERROR and "locked" in one.last_error


def test_clashes_are_told_apart(service):
    one = ask(service, name="a")
    with pytest.raises(exceptions.AllocationDuplicateName):
        ask(service, name="a")
    with pytest.raises(exceptions.AllocationAlreadyExists):
        ask(service, uuid=one.uuid)
    assert service.runtime.workers.busy <= 1


@pytest.mark.parametrize("how", ["restart", "periodic"])
def test_an_allocation_whose_conductor_was_lost_is_worked_at_again(sqlite, start, conf, how):
    """Promise 10: nothing that was asked for is forgotten."""
    service = start(sqlite) if how == "periodic" else None
    node = node_of(sqlite)
    one = wish(sqlite)
    old = types.utcnow() - datetime.timedelta(seconds=60)
    with sqlite.engine.begin() as connection:
        connection.execute(sa.update(Allocation).values(created_at=old))
    service = service or start(sqlite)
    assert ends(service, one).node_id == node.id


def test_an_error_of_the_search_is_told_and_not_lost(service, monkeypatch):
    def broken(*args):
        raise RuntimeError("what is this")

    monkeypatch.setattr(allocations, "candidates", broken)
    one = ends(service, ask(service))
    assert "unexpected error: RuntimeError: what is this" in one.last_error


def test_a_database_that_is_away_fails_no_allocation(service, monkeypatch):
    def away(*args):
        raise exceptions.DatabaseUnavailable(reason="gone")

    one = wish(service.database)
    monkeypatch.setattr(allocations, "candidates", away)
    work.allocate(service.runtime, one)
    assert again(service.database, one).state == allocations.ALLOCATING


# --- giving back -----------------------------------------------------------------------------


def allocated(service, **values):
    node = node_of(service.database, deploy_interface="test", **values)
    one = ends(service, ask(service, traits=[]))
    assert one.node_id == node.id
    return node, one


def test_a_deleted_allocation_frees_its_node(database, start):
    service = start(database)
    node, one = allocated(service)
    service.manager.destroy_allocation(None, one.uuid)
    now = again(database, node)
    assert (now.instance_uuid, now.instance_info, now.reservation) == (None, {}, None)
    with pytest.raises(exceptions.AllocationNotFound):
        again(database, one)


@pytest.mark.parametrize("state", [states.ACTIVE, states.DEPLOYWAIT, states.CLEANING])
def test_a_node_in_use_keeps_its_allocation_unless_it_is_in_maintenance(service, state):
    node, one = allocated(service)
    nodes.set_unlocked(service.database, node.id, {"provision_state": state})
    with pytest.raises(exceptions.InvalidState) as caught:
        service.manager.destroy_allocation(None, one.uuid)
    assert caught.value.code == 409
    assert again(service.database, node).instance_uuid == one.uuid
    nodes.set_unlocked(service.database, node.id, {"maintenance": True})
    service.manager.destroy_allocation(None, one.uuid)
    assert again(service.database, node).instance_uuid is None


def test_with_the_instance_goes_the_allocation(service):
    node, _ = allocated(service)
    nodes.set_unlocked(service.database, node.id, {"provision_state": states.ACTIVE})
    service.manager.do_node_tear_down(None, node.uuid)
    now = support.settle(service.database, node.id, states.AVAILABLE)
    assert now.instance_uuid is None
    assert allocations.of_node(service.database, node.id) is None


def test_with_the_node_goes_the_allocation(database, start):
    service = start(database)
    node, one = allocated(service)
    nodes.set_unlocked(database, node.id, {"maintenance": True})
    service.manager.destroy_node(None, node.uuid)
    with pytest.raises(exceptions.AllocationNotFound):
        again(database, one)


def test_an_instance_that_is_taken_by_hand_takes_the_allocation_with_it(service):
    node, one = allocated(service)
    service.manager.update_node(None, node.uuid, {"instance_uuid": one.uuid})
    assert allocations.of_node(service.database, node.id) is not None
    service.manager.update_node(None, node.uuid, {"instance_uuid": None})
    assert allocations.of_node(service.database, node.id) is None


def test_what_its_user_may_change(service):
    one = ask(service, name="a")
    changed = service.manager.update_allocation(
        None, "a", {"name": "b", "extra": {"x": 1}}, {"extra": {}}
    )
    assert (changed.name, changed.extra, changed.uuid) == ("b", {"x": 1}, one.uuid)
    with pytest.raises(exceptions.Conflict):
        service.manager.update_allocation(None, "b", {"extra": {}}, {"extra": {"y": 1}})


# --- told of afterwards ------------------------------------------------------------------------


def test_a_node_in_use_is_given_its_allocation_afterwards(service):
    node = node_of(service.database, provision_state=states.ACTIVE)
    one = ask(service, node_uuid=node.uuid, traits=[])
    assert (one.state, one.node_id) == (allocations.ACTIVE, node.id)
    assert again(service.database, node).instance_uuid == one.uuid


@pytest.mark.parametrize(
    ("values", "asked", "words"),
    [
        ({"provision_state": states.AVAILABLE}, {}, "it is in state 'available', not 'active'"),
        ({"resource_class": "small"}, {}, "its resource class is small"),
        ({}, {"traits": ["CUSTOM_A"]}, "it has no trait CUSTOM_A"),
        ({}, {"candidate_nodes": ["x"]}, "not among the candidate nodes"),
        ({"instance_uuid": "11111111-1111-1111-1111-111111111111"}, {}, "it has the instance"),
    ],
)
def test_a_node_that_does_not_fit_is_refused_and_the_reason_kept(service, values, asked, words):
    node = node_of(service.database, **{"provision_state": states.ACTIVE, **values})
    with pytest.raises(exceptions.AllocationFailed, match=words) as caught:
        ask(service, name="a", node_uuid=node.uuid, **{"traits": [], **asked})
    assert caught.value.code == 400
    one = allocations.get(service.database, "a")
    assert one.state == allocations.ERROR and words in one.last_error
    assert again(service.database, node).reservation is None


def test_a_node_that_has_an_allocation_gets_no_other(service):
    node, one = allocated(service)
    nodes.set_unlocked(
        service.database, node.id, {"provision_state": states.ACTIVE, "instance_uuid": None}
    )
    with pytest.raises(exceptions.NodeHasAllocation):
        ask(service, name="b", node_uuid=node.uuid, traits=[])
    assert again(service.database, one).node_id == node.id
