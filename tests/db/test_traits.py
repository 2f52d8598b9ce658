"""Traits of nodes."""

from __future__ import annotations

import threading

import pytest

from deploysteps import exceptions
from deploysteps.db import traits
from deploysteps.db.engine import CommitUnknown
from tests.support_sql import counting


def test_a_node_s_traits_through_their_life(database, make):
    node, other = make(database), make(database)
    assert traits.of_node(database, node.id) == []
    assert traits.replace(database, node.id, ["CUSTOM_B", "CUSTOM_A"]) == ["CUSTOM_A", "CUSTOM_B"]
    assert traits.add(database, node.id, ["HW_CPU_X86_VMX", "CUSTOM_A"]) == [
        "CUSTOM_A",
        "CUSTOM_B",
        "HW_CPU_X86_VMX",
    ]
    assert traits.remove(database, node.id, ["CUSTOM_B"]) == ["CUSTOM_A", "HW_CPU_X86_VMX"]
    assert traits.change(database, node.id, replace=["CUSTOM_C"], add=["CUSTOM_D"]) == [
        "CUSTOM_C",
        "CUSTOM_D",
    ]
    assert traits.of_node(database, other.id) == []
    assert traits.replace(database, node.id, []) == traits.of_node(database, node.id) == []


def test_the_traits_of_many_nodes_are_one_query(database, make):
    many = [make(database) for _ in range(5)]
    for number, node in enumerate(many):
        traits.replace(database, node.id, [f"CUSTOM_{n}" for n in range(number)])
    with counting(database) as count:
        found = traits.of_nodes(database, [node.id for node in many])
    assert count.statements == 1
    assert [len(found[node.id]) for node in many] == [0, 1, 2, 3, 4]
    assert found[many[2].id] == ["CUSTOM_0", "CUSTOM_1"]
    assert traits.of_nodes(database, []) == {}


def test_what_does_not_change_is_not_written(database, make):
    node = make(database)
    traits.replace(database, node.id, ["CUSTOM_A", "CUSTOM_B"])
    with counting(database) as count:
        traits.replace(database, node.id, ["CUSTOM_B", "CUSTOM_A"])
    assert count.of("INSERT", "DELETE") == []


def test_traits_go_with_their_node(database, make):
    from deploysteps.db import locks

    node = make(database)
    traits.replace(database, node.id, ["CUSTOM_A"])
    lock, _ = locks.grant(database, node.id, "c", "test")
    locks.delete_node(database, lock)
    assert traits.of_node(database, node.id) == []
    with pytest.raises(exceptions.NodeNotFound):
        traits.add(database, node.id, ["CUSTOM_A"])


def test_a_trait_that_is_not_there_cannot_be_removed(database, make):
    node = make(database)
    traits.replace(database, node.id, ["CUSTOM_A"])
    with pytest.raises(exceptions.NodeTraitNotFound) as told:
        traits.remove(database, node.id, ["CUSTOM_A", "CUSTOM_B"])
    assert node.uuid in str(told.value) and "CUSTOM_B" in str(told.value) and told.value.code == 404
    assert traits.of_node(database, node.id) == ["CUSTOM_A"]


def test_fifty_and_no_more(database, make):
    node = make(database)
    fifty = [f"CUSTOM_{n}" for n in range(traits.MAX_TRAITS)]
    traits.replace(database, node.id, fifty)
    with pytest.raises(exceptions.InvalidParameterValue, match="51 traits.*at most 50"):
        traits.add(database, node.id, ["CUSTOM_MORE"])
    assert len(traits.of_node(database, node.id)) == 50
    traits.change(database, node.id, add=["CUSTOM_MORE"], remove=["CUSTOM_0"])


def test_two_that_add_at_once_do_not_pass_the_limit_together(database, make):
    """They take turns on the node's row; each counts what the other stored."""
    node = make(database)
    traits.replace(database, node.id, [f"CUSTOM_{n}" for n in range(traits.MAX_TRAITS - 3)])
    told: list[str] = []
    start = threading.Barrier(6)

    def add(number: int) -> None:
        start.wait(60)
        try:
            traits.add(database, node.id, [f"CUSTOM_NEW_{number}"])
            told.append("added")
        except exceptions.InvalidParameterValue:
            told.append("refused")

    threads = [threading.Thread(target=add, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert sorted(told) == ["added"] * 3 + ["refused"] * 3
    assert len(traits.of_node(database, node.id)) == traits.MAX_TRAITS


def test_a_commit_of_unknown_outcome_is_looked_up(database, make, monkeypatch):
    """A second try of a removal would say that there is no such trait."""
    node = make(database)
    traits.replace(database, node.id, ["CUSTOM_A", "CUSTOM_B"])
    asked = []
    write = database.write

    def cut_off(work, *, happened=None):
        result = write(work, happened=happened)
        with database.reading() as connection:
            asked.append(happened(connection))
        if not asked[-1]:
            raise CommitUnknown("the connection broke at COMMIT")
        return result

    monkeypatch.setattr(database, "write", cut_off)
    assert traits.remove(database, node.id, ["CUSTOM_A"]) == ["CUSTOM_B"]
    assert asked == [True]


@pytest.mark.parametrize(
    "name", ["CUSTOM_X", "CUSTOM_1_A", "HW_CPU_X86_AVX", "CUSTOM_" + "A" * 248]
)
def test_a_name(name):
    traits.check_name(name)


@pytest.mark.parametrize(
    "name",
    ["", "custom_x", "CUSTOM_", "CUSTOM_x", "CUSTOM-X", "CUSTOM X", "_X", "1X", "CUSTOM_X\n",
     "CUSTOM_É", "CUSTOM_" + "A" * 249, None, 5, ["CUSTOM_X"]],
)  # fmt: skip
def test_what_is_no_name(name, sqlite, make):
    with pytest.raises(exceptions.InvalidParameterValue, match="CUSTOM_ and a name") as told:
        traits.check_name(name)
    assert len(str(told.value)) < 300
    node = make(sqlite)
    if isinstance(name, str):
        with pytest.raises(exceptions.InvalidParameterValue):
            traits.change(sqlite, node.id, add=[name])
    assert traits.of_node(sqlite, node.id) == []
