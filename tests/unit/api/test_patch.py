"""JSON Patch as a pure function."""

from __future__ import annotations

import copy
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploysteps import exceptions, limits
from deploysteps.api import patch


def applied(document, *operations):
    return patch.apply(document, patch.parse(list(operations)))


def op(name, path, *value):
    return {"op": name, "path": path, **({"value": value[0]} if value else {})}


@pytest.mark.parametrize(
    ("before", "operation", "after"),
    [
        ({"a": None}, op("add", "/a", 1), {"a": 1}),
        ({"a": 1}, op("replace", "/a", 2), {"a": 2}),
        ({"a": 1}, op("remove", "/a"), {}),
        ({"a": {}}, op("add", "/a/b", 1), {"a": {"b": 1}}),
        ({"a": {"b": 1}}, op("remove", "/a/b"), {"a": {}}),
        ({"a": {"b": {"c": 1}}}, op("replace", "/a/b/c", 2), {"a": {"b": {"c": 2}}}),
        ({"a": {"x/y": 1}}, op("remove", "/a/x~1y"), {"a": {}}),
        ({"a": {"x~y": 1}}, op("remove", "/a/x~0y"), {"a": {}}),
        ({"a": {"~1": 1}}, op("remove", "/a/~01"), {"a": {}}),
        ({"a": [1, 3]}, op("add", "/a/1", 2), {"a": [1, 2, 3]}),
        ({"a": [1]}, op("add", "/a/-", 2), {"a": [1, 2]}),
        ({"a": [1]}, op("add", "/a/1", 2), {"a": [1, 2]}),
        ({"a": [1, 2]}, op("remove", "/a/0"), {"a": [2]}),
        ({"a": [{"b": 1}]}, op("replace", "/a/0/b", 2), {"a": [{"b": 2}]}),
    ],
)
def test_an_operation_does_what_the_standard_says(before, operation, after):
    kept = copy.deepcopy(before)
    assert applied(before, operation) == after
    assert before == kept


@pytest.mark.parametrize(
    "operation",
    [
        op("add", "/a/missing/c", 1),
        op("remove", "/a/missing"),
        op("replace", "/a/missing", 1),
        op("remove", "/missing"),
        op("add", "/a/text/c", 1),
        op("add", "/a/list/3", 1),
        op("add", "/a/list/01", 1),
        op("add", "/a/list/-1", 1),
        op("add", "/a/list/x", 1),
        op("add", "/a/list/9999999999999", 1),
        op("remove", "/a/list/2"),
        op("remove", "/a/list/-"),
        op("replace", "/a/list/x/y", 1),
    ],
)
def test_what_does_not_fit_is_refused_by_path_without_values(operation):
    document = {"a": {"text": "hunter2", "list": ["hunter2", 1]}}
    with pytest.raises(exceptions.PatchError) as caught:
        applied(document, operation)
    assert operation["path"] in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert caught.value.code == 400


@pytest.mark.parametrize(
    "body",
    [
        {},
        "x",
        None,
        [1],
        [{}],
        [op("move", "/a", 1)],
        [op("test", "/a", 1)],
        [op("copy", "/a", 1)],
        [{"op": ["add"], "path": "/a", "value": 1}],
        [op("add", "a", 1)],
        [op("add", "", 1)],
        [op("add", "/", 1)],
        [op("add", 5, 1)],
        [op("add", "/a")],
        [op("replace", "/a")],
        [{"path": "/a", "value": 1}],
        [{"op": "remove"}],
    ],
)
def test_what_is_no_patch_is_refused(body):
    with pytest.raises(exceptions.Invalid) as caught:
        patch.parse(body)
    assert caught.value.code == 400


def test_an_added_value_is_not_shared():
    value = {"x": []}
    operation = op("add", "/a/one", value)
    after = applied({"a": {}}, operation, op("add", "/a/one/x/-", 1))
    assert after == {"a": {"one": {"x": [1]}}}
    assert value == {"x": []}


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)
documents = st.dictionaries(st.sampled_from(["a", "b", "c"]), json_values, min_size=1)
paths = st.lists(st.text(max_size=3) | st.sampled_from(["a", "b", "0", "-"]), min_size=1).map(
    lambda parts: "/" + "/".join(part.replace("~", "~0").replace("/", "~1") for part in parts)
)
operations = st.fixed_dictionaries(
    {"op": st.sampled_from(patch.OPS), "path": paths, "value": json_values}
)


@given(documents, st.lists(operations, max_size=4))
def test_any_patch_is_applied_or_refused_and_never_changes_the_document(document, body):
    kept = json.dumps(document)
    try:
        after = patch.apply(document, patch.parse(body))
    except exceptions.Invalid as exc:
        assert exc.code == 400
    else:
        json.dumps(after)
    assert json.dumps(document) == kept


@given(documents, st.text(min_size=1, max_size=4), json_values)
def test_what_was_added_is_there_and_can_be_removed(document, name, value):
    document = {**document, "a": {}}
    path = "/a/" + name.replace("~", "~0").replace("/", "~1")
    if path.endswith("/"):
        return
    after = applied(document, op("add", path, value))
    assert after["a"][name] == value
    assert applied(after, op("remove", path)) == document


@given(json_values)
def test_depth_counts_what_is_nested(value):
    def told(item):
        inner = item.values() if isinstance(item, dict) else item
        return 1 + max(map(told, inner), default=0) if isinstance(item, dict | list) else 0

    assert limits.depth(value, 1000) == told(value)
