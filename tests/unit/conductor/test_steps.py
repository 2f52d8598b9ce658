"""The list of steps: pure functions, by example and by property."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploysteps import exceptions
from deploysteps.conductor import positions, steps
from deploysteps.steps import DEPLOY, INTERFACE_TYPES, MAX_PRIORITY


def step(name: str = "one", interface: str = "deploy", priority: Any = 10, **more: Any) -> Any:
    found = {"interface": interface, "step": name, "priority": priority}
    return {**found, "args": None, "source": "driver", **more}


def planned(offered: Any, requested: Any = (), **more: Any) -> list[Any]:
    layers = [steps.Layer(steps.REQUEST, requested)]
    return steps.plan(steps.Offer(offered), layers, DEPLOY, **more).entries


def merged(offered: Any, requested: Any) -> list[Any]:
    return steps.merge(steps.Offer(offered), [steps.Layer(steps.REQUEST, requested)], DEPLOY)


some_steps = st.lists(
    st.builds(
        step,
        st.text("abc", min_size=1, max_size=3),
        st.sampled_from(INTERFACE_TYPES),
        st.integers(0, 5),
    ),
    unique_by=steps.key_of,
    max_size=40,
)


@given(some_steps)
def test_any_list_is_sorted_stable_and_complete(found: list[Any]) -> None:
    """Promise 1: none lost, none invented, ties by rank and then as they came."""
    given_order = {steps.key_of(s): place for place, s in enumerate(found)}
    result = steps.ordered(found, DEPLOY)
    assert sorted(map(steps.key_of, result)) == sorted(map(steps.key_of, found))
    ranks = [
        (-s["priority"], DEPLOY.rank.index(s["interface"]), given_order[steps.key_of(s)])
        for s in result
    ]
    assert ranks == sorted(ranks)


@given(some_steps)
def test_a_plan_has_every_enabled_step_once_with_an_id_of_its_own(found: list[Any]) -> None:
    plan = planned(found)
    assert [s for s in plan if s["priority"] == 0] == []
    enabled = [steps.key_of(s) for s in found if s["priority"]]
    assert sorted(map(steps.key_of, plan)) == sorted(enabled)
    assert len({s["id"] for s in plan}) == len(plan)


@given(some_steps, st.data())
def test_an_override_changes_copies_only(found: list[Any], data: st.DataObject) -> None:
    """Sorting, overriding, telling: an override never changes the driver's declaration."""
    before = copy.deepcopy(found)
    keys = [steps.key_of(s) for s in found]
    wanted = data.draw(st.dictionaries(st.sampled_from(keys or [("a", "b")]), st.integers(0, 9)))
    result = steps.override(found, wanted)
    assert found == before
    assert [s["priority"] for s in result] == [
        wanted.get(steps.key_of(s), s["priority"]) for s in found
    ]


def test_ties_are_broken_by_interface_rank_and_then_by_declaration() -> None:
    found = [
        step("b", "rescue"),
        step("z", "deploy"),
        step("a", "deploy"),
        step("p", "power"),
        step("v", "vendor"),
        step("n", "network"),
        step("first", "rescue", 11),
    ]
    assert [s["step"] for s in steps.ordered(found, DEPLOY)] == [
        "first", "v", "p", "z", "a", "n", "b",
    ]  # fmt: skip


def test_a_user_step_lands_between_the_drivers_by_its_priority() -> None:
    """F2."""
    driver = [step("deploy", priority=100), step("write", priority=80), step("tear", priority=60)]
    driver.append(step("raid", "raid", 0))
    plan = planned(driver, [step("raid", "raid", 70)])
    assert [s["step"] for s in plan] == ["deploy", "write", "raid", "tear"]
    assert plan[2]["source"] == "request"


@pytest.mark.parametrize("priority", [None, "5", -1, True, MAX_PRIORITY + 1, 10**30, 1.0, [], {}])
def test_a_priority_that_is_none_is_refused_by_name(priority: Any) -> None:
    """Sorting, overriding, telling: never a bare KeyError or TypeError."""
    with pytest.raises(exceptions.InvalidParameterValue, match=r"deploy\.one.*priority"):
        merged([step()], [step(priority=priority)])


def test_a_missing_priority_or_name_and_an_unknown_interface_are_refused_by_name() -> None:
    with pytest.raises(exceptions.InvalidParameterValue, match=r"deploy\.one.*missing"):
        steps.check_shape({"interface": "deploy", "step": "one"}, "here")
    with pytest.raises(exceptions.InvalidParameterValue, match="no name"):
        steps.check_shape({"interface": "deploy", "priority": 1}, "here")
    with pytest.raises(exceptions.InvalidParameterValue, match=r"gpu\.one: unknown interface"):
        steps.check_shape(step(interface="gpu"), "here")


def test_the_core_step_can_be_disabled_and_not_moved() -> None:
    core = [step("deploy", priority=100)]
    assert planned(core, [step("deploy", priority=0)]) == []
    with pytest.raises(exceptions.InvalidParameterValue, match=r"deploy\.deploy can be disabled"):
        planned(core, [step("deploy", priority=7)])


def test_an_unknown_and_a_repeated_requested_step_are_refused() -> None:
    with pytest.raises(exceptions.InvalidParameterValue, match=r"deploy\.two"):
        merged([step()], [step("two")])
    with pytest.raises(exceptions.InvalidParameterValue, match=r"deploy\.one is requested twice"):
        merged([step()], [step(), step()])


def test_arguments_are_checked_without_printing_them() -> None:
    """F10: an error names step and argument, and no value."""
    info = {"size": {"description": "GiB", "schema": {"type": "integer"}, "required": True}}
    offered = [step(argsinfo=info)]
    with pytest.raises(exceptions.InvalidParameterValue) as caught:
        planned(offered, [step(args={"size": "hunter2"})])
    assert "deploy.one" in str(caught.value) and "size" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    with pytest.raises(exceptions.InvalidParameterValue, match="size"):
        planned(offered, [step(args={"size": None})])


def test_a_disabled_step_needs_no_arguments() -> None:
    info = {"size": {"description": "GiB", "required": True}}
    assert planned([step(argsinfo=info, priority=0)]) == []


A, B, C = ({"id": name, **step(name)} for name in "abc")


@pytest.mark.parametrize(
    ("current", "index", "plan", "place"),
    [
        (None, None, [A, B], -1),
        (A, 0, [A, B], 0),
        (A, 0, [C, A, B], 1),
        (C, 2, [A, C], 1),
        (step("x"), 0, [step("x"), step("y")], 0),
        (step("y"), 0, [step("x"), step("y")], 1),
    ],
    ids=["planned", "plain", "gained before", "shrank", "without ids", "moved without ids"],
)
def test_a_position_is_found_by_identity(current: Any, index: Any, plan: Any, place: int) -> None:
    """F8, promise 5; (null, null, list) is "planned, not started"."""
    assert positions.locate(current, index, plan) == place


@pytest.mark.parametrize(
    ("current", "index", "plan"),
    [
        (A, None, [A, B]),
        (A, -5, [A, B]),
        (A, "0", [A, B]),
        (A, True, [A, B]),
        (A, 0, None),
        (A, 0, []),
        (None, None, None),
        (None, 0, [A, B]),
        (A, 0, [B, C]),
        (A, 7, [B]),
        (step("x"), 5, [step("x"), step("x")]),
        (A, 0, "ab"),
    ],
)
def test_an_inconsistent_triple_is_said_to_be_so(current: Any, index: Any, plan: Any) -> None:
    """Position in the list: anything else is a failure, never a success."""
    with pytest.raises(exceptions.InconsistentSteps, match="Inconsistent"):
        positions.locate(current, index, plan)
