"""Whether a JSON column's value has changed, in depth: of short values, and of long ones."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from deploysteps.db import types
from deploysteps.db.models import Node
from deploysteps.db.pages import made

SHORT, LONG = "text", "text" * 50_000


def value(text: str) -> Any:
    return {"steps": [{"args": {"text": text, "n": 1, "f": 0.0, "b": True, "no": None}}, (1, "t")]}


def args(of: Any) -> Any:
    return of["steps"][0]["args"]


CHANGES = {
    "a text": lambda v: args(v).update(text=args(v)["text"] + "."),
    "a number that is equal": lambda v: args(v).update(n=1.0),
    "a boolean that is equal": lambda v: args(v).update(n=True),
    "a number for a boolean": lambda v: args(v).update(b=1),
    "a sign": lambda v: args(v).update(f=-0.0),
    "none": lambda v: args(v).update(n=None),
    "something for none": lambda v: args(v).update(no=0),
    "a key more": lambda v: args(v).update(more=1),
    "a key less": lambda v: args(v).pop("no"),
    "an entry more": lambda v: v["steps"].append({}),
    "an entry less": lambda v: v["steps"].pop(),
}


@pytest.mark.parametrize("text", [SHORT, LONG], ids=["short", "long"])
@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_change_is_seen_in_the_value_itself_and_in_another(change, text):
    one = value(text)
    before = types.fingerprint(one)
    other = copy.deepcopy(one)
    change(other)
    assert types.has_changed(other, before)
    assert not types.has_changed(one, before)
    change(one)
    assert types.has_changed(one, before)


@pytest.mark.parametrize("text", [SHORT, LONG], ids=["short", "long"])
def test_an_equal_value_is_no_change(text):
    assert not types.has_changed(value("".join(list(text))), types.fingerprint(value(text)))


def test_a_long_value_that_is_nested_deeply_has_a_fingerprint_as_well():
    deep: Any = LONG
    for _ in range(600):
        deep = [deep]
    assert not types.has_changed(deep, types.fingerprint(deep))


@pytest.mark.parametrize("text", [SHORT, LONG], ids=["short", "long"])
def test_a_node_tells_a_nested_change_of_a_plan_once(text):
    plan = value(text)["steps"][:1]
    node = made(Node, deploy_steps_column=plan, driver_info={}, driver="d")
    node.mark_loaded()
    assert node.changes().keys() <= {"driver_internal_column"}
    args({"steps": node.driver_internal_info["deploy_steps"]})["n"] = 2
    changes = node.changes()
    assert changes["deploy_steps_column"][0]["args"]["n"] == 2
    node.stored(changes)
    assert not node.changes()
