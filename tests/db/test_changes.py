"""Changes inside JSON columns, and driver_internal_info as one dict."""

from __future__ import annotations

import copy
import datetime
import enum
import json
import threading

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deploysteps import exceptions
from deploysteps.db import locks, nodes, types
from deploysteps.db.node import COLUMN_KEYS
from deploysteps.steps import FLOWS

JSON_COLUMNS = (
    "driver_info",
    "properties",
    "extra",
    "instance_info",
    "network_data",
    "raid_config",
    "target_raid_config",
    "driver_internal_info",
)


@pytest.fixture
def held(sqlite, make):
    """A locked node, and a way to save it and to read it in another session."""

    class Held:
        def __init__(self):
            self.lock, self.node = locks.grant(sqlite, make(sqlite).id, "c", "test")
            self.node._writer = self.write
            self.node._reader = lambda node: self.fresh()

        def write(self, node):
            changes = node.changes()
            locks.write(sqlite, self.lock, changes)
            node.stored(changes)

        def fresh(self):
            return nodes.get(sqlite, self.node.id)

    return Held()


@pytest.mark.parametrize("column", JSON_COLUMNS)
def test_nested_changes_are_found_and_saved(database, make, column):
    """F63: read again in another session."""
    node = make(database)
    lock, node = locks.grant(database, node.id, "c", "test")

    def save():
        changes = node.changes()
        locks.write(database, lock, changes)
        node.stored(changes)
        assert node.changes() == {}
        return getattr(nodes.get(database, node.id), column)

    value = getattr(node, column)
    value["a"] = {"b": [1, {"c": []}]}
    assert save() == {"a": {"b": [1, {"c": []}]}}
    value["a"]["b"][1]["c"].append("deep")
    assert save() == {"a": {"b": [1, {"c": ["deep"]}]}}
    value["a"]["b"].insert(0, None)
    assert save()["a"]["b"] == [None, 1, {"c": ["deep"]}]
    del value["a"]["b"]
    assert save() == {"a": {}}
    setattr(node, column, {"new": 1})
    assert save() == {"new": 1}
    value["a"] = "the dict that was replaced"
    assert save() == {"new": 1}
    setattr(node, column, None)
    assert save() == {}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (1, True),
        (True, 1),
        (1, 1.0),
        (0, False),
        (0.0, -0.0),
        ("1", 1),
        (None, 0),
        ([], None),
        ([1, 2], [2, 1]),
        ({"a": None}, {}),
        ("\ud800", "\\ud800"),
        (2**63, float(2**63)),
    ],
    ids=repr,
)
def test_what_is_equal_in_python_and_not_in_json_is_a_change(held, before, after):
    held.node.extra["x"] = before
    held.node.save()
    held.node.extra["x"] = after
    assert set(held.node.changes()) == {"extra"}
    held.node.save()
    assert repr(held.fresh().extra) == repr({"x": after})


class Colour(enum.StrEnum):
    """A text that knows more."""

    RED = "red"


@pytest.mark.parametrize("value", [Colour.RED, (1, 2), {1: "a"}], ids=repr)
def test_what_json_can_hold_though_it_is_of_another_type(held, value):
    held.node.extra["x"] = value
    held.node.save()
    assert held.fresh().extra == json.loads(json.dumps({"x": value}))
    assert held.node.changes() == {}


def circle():
    value = []
    value.append(value)
    return value


def deep():
    value = []
    for _ in range(100_000):
        value = [value]
    return value


@pytest.mark.parametrize(
    "value",
    [
        object(),
        b"bytes",
        {1, 2},
        float("nan"),
        float("inf"),
        threading.Lock(),
        types.utcnow(),
        lambda: None,
        1j,
        ...,
        {("a", "b"): 1},
        circle(),
        deep(),
        10**5000,
    ],
    ids=lambda v: type(v).__name__,
)
def test_what_is_not_json_is_refused_and_the_column_named(held, value):
    """F64; and nothing is written."""
    for column in ("instance_info", "driver_internal_info", "deploy_step"):
        held.node.refresh()
        check_refusal(held, column, value)


def check_refusal(held, column, value):
    setattr(held.node, column, {"hunter2": value})
    held.node.name = "new"
    with pytest.raises(exceptions.InvalidParameterValue, match=rf"node\.{column} .*not JSON") as e:
        held.node.save()
    assert "use text, numbers" in str(e.value)
    assert held.fresh().name is None and not getattr(held.fresh(), column)


@pytest.mark.parametrize(
    ("attribute", "value", "words"),
    [
        ("name", "x" * 256, "name is too long: 256 characters, at most 255"),
        ("name", 7, "name takes str, not int"),
        ("driver", None, "driver takes str, not NoneType"),
        ("maintenance", None, "maintenance takes bool, not NoneType"),
        ("provision_updated_at", "soon", "provision_updated_at takes datetime, not str"),
        ("agent_url", 7, "driver_internal_info['agent_url'] takes str, not int"),
        ("agent_secret_token", "t" * 129, "['agent_secret_token'] is too long"),
    ],
)
def test_what_a_plain_column_cannot_hold_is_refused_in_words(held, attribute, value, words):
    """A server would refuse it in its own, with the whole row, secrets and all (F76)."""
    held.node.extra["x"] = 1
    setattr(held.node, attribute, value)
    with pytest.raises(exceptions.InvalidParameterValue) as told:
        held.node.save()
    assert f"node.{words}" in str(told.value) or words in str(told.value)
    assert held.fresh().extra == {}


@pytest.mark.parametrize("value", ["yesterday", 12, True, {}])
def test_a_heartbeat_time_that_is_none_is_not_lost_in_silence(held, value):
    held.node.driver_internal_info["agent_last_heartbeat"] = value
    with pytest.raises(exceptions.InvalidParameterValue, match="agent_last_heartbeat"):
        held.node.save()


def test_a_node_without_a_task_is_not_saved(sqlite, make):
    node = make(sqlite)
    node.extra["x"] = 1
    for call in (node.save, node.refresh):
        with pytest.raises(exceptions.ExclusiveLockRequired, match="without a task"):
            call()


def test_refresh_drops_what_was_not_saved(held):
    held.node.extra["x"], held.node.name = 1, "n"
    held.node.driver_internal_info["agent_url"] = "http://x"
    held.node.refresh()
    assert (held.node.extra, held.node.name, held.node.driver_internal_info) == ({}, None, {})
    assert held.node.changes() == {}


def test_only_what_changed_is_written(held):
    held.node.extra["x"] = 1
    held.node.driver_internal_info["deploy_step_index"] = 3
    assert set(held.node.changes()) == {"extra", "deploy_step_index_column"}
    held.node.save()
    held.node.driver_internal_info["mine"] = 3
    assert set(held.node.changes()) == {"driver_internal_column"}


def test_no_two_nodes_share_a_default(sqlite, make):
    one, two = make(sqlite), make(sqlite)
    one.extra["x"] = one.driver_internal_info["y"] = 1
    assert two.extra == two.driver_internal_info == {}


# --- driver_internal_info -----------------------------------------------------------------

NOW = datetime.datetime(2026, 11, 3, 12, 0, 0, 5, datetime.UTC)
COLUMN_VALUES = {
    **{flow.list_field: [{"step": "a", "args": {"x": [1]}}] for flow in FLOWS.values()},
    **{flow.index_field: 0 for flow in FLOWS.values()},
    "agent_url": "http://agent:9999",
    "agent_version": "11.0",
    "agent_secret_token": "token",
    "agent_last_heartbeat": types.timestamp(NOW),
    "agent_verify_ca": "-----BEGIN",
}


def test_every_key_of_a_column_has_a_value_here():
    assert COLUMN_VALUES.keys() == COLUMN_KEYS.keys()


@pytest.mark.parametrize("key", sorted(COLUMN_KEYS))
def test_a_key_that_is_a_column_whatever_way_it_is_written(sqlite, make, key):
    """It is moved out and in, and never stands twice."""
    database = sqlite
    lock, node = locks.grant(database, make(database).id, "c", "test")
    value, column = COLUMN_VALUES[key], COLUMN_KEYS[key]

    def saved(edit):
        edit(node.driver_internal_info)
        changes = node.changes()
        locks.write(database, lock, changes)
        node.stored(changes)
        return nodes.get(database, node.id)

    def whole(_info):
        node.driver_internal_info = {"other": 1, key: value}

    ways = (
        lambda info: info.__setitem__(key, value),
        lambda info: node.set_driver_internal_info(key, value),
        lambda info: info.update({key: value}),
        lambda info: (info.pop(key, None), info.setdefault(key, value)),
        whole,
    )
    for put in ways:
        for take in (
            lambda info: info.pop(key),
            lambda info: node.del_driver_internal_info(key),
            lambda info: info.__setitem__(key, None),
            lambda info: info.clear(),
            lambda info: setattr(node, "driver_internal_info", None),
        ):
            fresh = saved(put)
            assert fresh.driver_internal_info[key] == value
            assert getattr(fresh, column) is not None
            assert key not in fresh.driver_internal_column
            assert saved(take).driver_internal_info.get(key) is None
            assert getattr(nodes.get(database, node.id), column) is None


def test_the_keys_that_are_columns_on_each_database(database, make):
    lock, node = locks.grant(database, make(database).id, "c", "test")
    node.driver_internal_info = {**COLUMN_VALUES, "other": [1]}
    locks.write(database, lock, node.changes())
    fresh = nodes.get(database, node.id)
    assert fresh.driver_internal_info == {**COLUMN_VALUES, "other": [1]}
    assert fresh.driver_internal_column == {"other": [1]}


def test_the_field_s_methods(held):
    node = held.node
    assert node.del_driver_internal_info("none") is None
    assert node.del_driver_internal_info("none", 7) == 7
    node.set_driver_info("a", 1)
    node.set_instance_info("b", 2)
    node.timestamp_driver_internal_info("agent_last_heartbeat")
    node.timestamp_driver_internal_info("since")
    node.deploy_step_index, node.deploy_steps, node.agent_url = 2, [], "http://x"
    node.save()
    fresh = held.fresh()
    assert fresh.driver_info == {"a": 1} and fresh.instance_info == {"b": 2}
    assert (fresh.deploy_step_index, fresh.deploy_steps, fresh.agent_url) == (2, [], "http://x")
    info = fresh.driver_internal_info
    assert abs((fresh.agent_heartbeat_column - types.utcnow()).total_seconds()) < 30
    assert info["since"][:16] == info["agent_last_heartbeat"][:16] and "+00:00" in info["since"]
    node.agent_url = None
    assert "agent_url" not in node.driver_internal_info


TEXT = st.text(st.characters(exclude_categories=()), max_size=8).filter(
    lambda text: json.loads(json.dumps(text)) == text
)
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=8,
)
PLAIN = st.text("abc/: é\N{SQUARED COOL}", min_size=1, max_size=12)
TIMES = st.datetimes(
    datetime.datetime(2000, 1, 1), datetime.datetime(2100, 1, 1), timezones=st.just(datetime.UTC)
).map(types.timestamp)
OF_COLUMN = {
    **{flow.list_field: st.lists(VALUES, max_size=3) for flow in FLOWS.values()},
    **{flow.index_field: st.integers(0, 300) for flow in FLOWS.values()},
    "agent_url": PLAIN,
    "agent_version": PLAIN,
    "agent_secret_token": PLAIN,
    "agent_last_heartbeat": TIMES,
    "agent_verify_ca": PLAIN,
}


@st.composite
def items(draw):
    """A key and a value that it may have."""
    key = draw(st.sampled_from(sorted(COLUMN_KEYS)) | TEXT)
    return key, draw(st.none() | OF_COLUMN[key] if key in COLUMN_KEYS else VALUES)


EDITS = st.one_of(
    st.tuples(st.just("set"), items()),
    st.tuples(st.just("method"), items()),
    st.tuples(st.just("delete"), st.sampled_from(sorted(COLUMN_KEYS)) | TEXT),
    st.tuples(st.just("whole"), st.lists(items(), max_size=4).map(dict)),
    st.tuples(st.just("nest"), VALUES),
    st.tuples(st.just("save"), st.none()),
)


def apply(node, model, edit, value):
    """Do one edit to a node, and to the plain dict that it ought to be like."""
    info = node.driver_internal_info
    if edit == "set":
        info[value[0]] = copy.deepcopy(value[1])
        model[value[0]] = value[1]
    elif edit == "method":
        node.set_driver_internal_info(value[0], copy.deepcopy(value[1]))
        model[value[0]] = value[1]
    elif edit == "delete":
        assert node.del_driver_internal_info(value, "none") == model.pop(value, "none")
    elif edit == "whole":
        node.driver_internal_info = copy.deepcopy(value)
        model.clear()
        model.update(value)
    elif edit == "nest":
        for place in (info, model):
            for inner in place.values():
                if isinstance(inner, list):
                    inner.append(copy.deepcopy(value))
                elif isinstance(inner, dict):
                    inner["nested"] = copy.deepcopy(value)
    elif edit == "save":
        node.save()


@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(st.lists(EDITS, min_size=1, max_size=10))
def test_any_sequence_of_edits_is_what_another_session_reads(held, edits):
    """F63."""
    held.node.driver_internal_info = {}
    held.node.save()
    model = {}
    for edit, value in edits:
        apply(held.node, model, edit, copy.deepcopy(value))
    held.node.save()
    # An absent column and an empty one are the same: there is one "empty".
    wanted = {k: v for k, v in model.items() if not (k in COLUMN_KEYS and v is None)}
    assert json.dumps(held.fresh().driver_internal_info, sort_keys=True) == json.dumps(
        wanted, sort_keys=True
    )
    assert held.node.changes() == {} == held.fresh().changes()
