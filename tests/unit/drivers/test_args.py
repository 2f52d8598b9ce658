"""Checking the arguments of a step."""

from __future__ import annotations

import json
import urllib.request

import hypothesis
import pytest
from hypothesis import strategies as st

from deploysteps import exceptions
from deploysteps.drivers import args

STEP = "raid.create"


def check(argsinfo, given):
    return args.validate_step_args(argsinfo, given, step=STEP)


def refused(argsinfo, given):
    with pytest.raises(exceptions.InvalidParameterValue) as caught:
        check(argsinfo, given)
    assert caught.value.code == 400, "F15: a user's mistake is a 4xx"
    assert str(caught.value).startswith(f"{STEP}: ")
    return str(caught.value)


def argument(schema=None, **more):
    info = {"description": "words", **more}
    return {"arg": info if schema is None else {**info, "schema": schema}}


@pytest.mark.parametrize("argsinfo", [None, {}, argument()])
@pytest.mark.parametrize("given", [None, {}])
def test_nothing_given_is_fine_when_nothing_is_required(argsinfo, given):
    check(argsinfo, given)


@pytest.mark.parametrize("given", [[], "", 0, False, "arg", [{"arg": 1}]])
def test_args_are_an_object(given):
    assert "must be an object" in refused(argument(), given)


@pytest.mark.parametrize("argsinfo", [None, {}])
def test_a_step_without_arguments_takes_none(argsinfo):
    assert "unknown argument 'size' (known: none)" in refused(argsinfo, {"size": 1})


def test_unknown_arguments_are_named_with_the_known_ones():
    text = refused(argument(), {"arg": 1, "agr": 2, 5: 6})
    assert "unknown argument 'agr', 5 (known: arg)" in text


@pytest.mark.parametrize("given", [{}, None, {"arg": None}])
def test_none_does_not_satisfy_a_required_argument(given):
    """Sorting, overriding, telling: `None` does not satisfy a required argument."""
    assert "missing required argument 'arg'" in refused(argument(required=True), given)


@pytest.mark.parametrize("value", [0, "", [], {}, False])
def test_falsy_values_satisfy_a_required_argument(value):
    check(argument(required=True), {"arg": value})


@pytest.mark.parametrize("value", [["a"], {"a": 1}, None, 5, True, 1.5])
def test_a_string_argument_takes_only_strings(value):
    """F10: names checked, types not."""
    text = refused(argument({"type": "string"}), {"arg": value})
    assert "argument 'arg' must be of type string, not " in text
    check(argument({"type": "string"}), {"arg": ""})


@pytest.mark.parametrize("value", [True, False, "5", 1.5])
def test_an_integer_is_no_bool(value):
    assert "must be of type integer" in refused(argument({"type": "integer"}), {"arg": value})


FIRMWARE = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"component": {"enum": ["bmc", "bios"]}, "url": {"type": "string"}},
        "required": ["component", "url"],
        "additionalProperties": False,
    },
}


def test_a_mistyped_nested_key_is_named_before_anything_runs():
    """F9: a bad firmware list is found at once."""
    text = refused(
        argument(FIRMWARE),
        {"arg": [{"component": "bmc", "url": "x"}, {"component": "bmc", "ulr": 1}]},
    )
    assert "argument 'arg'[1] has unknown keys 'ulr' (known: component, url)" in text
    assert "argument 'arg'[1] must have 'url'" in text


def test_all_problems_are_told_at_once():
    argsinfo = {**argument({"minimum": 5}), "other": {"description": "x", "required": True}}
    text = refused(argsinfo, {"arg": 1, "third": 2})
    for words in ("'third'", "'other'", "'arg' must be at least 5"):
        assert words in text


MARKER = "PLANTED-MARKER"

SCHEMAS = [
    {"type": "integer"},
    {"type": ["integer", "null"]},
    {"enum": [1, 2]},
    {"const": 5},
    {"pattern": "^x$"},
    {"maxLength": 1},
    {"minLength": 500},
    {"format": "ipv4", "type": "string"},
    {"not": {"type": "string"}},
    {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    {"oneOf": [{"type": "string"}, {"minLength": 1}]},
    {"allOf": [{"type": "integer"}]},
    {"if": {"type": "string"}, "then": False},
    False,
    {"type": "object", "propertyNames": {"maxLength": 1}},
]


@pytest.mark.parametrize("schema", SCHEMAS[:-2])
@pytest.mark.parametrize("secret", [True, False])
def test_no_message_has_the_value(schema, secret):
    """Sorting, overriding, telling: prints no argument's value; F76."""
    assert MARKER not in refused(argument(schema, secret=secret), {"arg": MARKER})


NESTED = [
    ({"items": {"type": "integer"}}, [MARKER]),
    ({"uniqueItems": True}, [MARKER, MARKER]),
    ({"contains": {"type": "integer"}}, [MARKER]),
    ({"maxItems": 0}, [MARKER]),
    ({"minItems": 3}, [MARKER]),
    ({"properties": {"a": {"type": "integer"}}}, {"a": MARKER}),
    ({"required": ["b"]}, {"a": MARKER}),
    ({"minProperties": 3}, {"a": MARKER}),
    ({"maxProperties": 0}, {"a": MARKER}),
    ({"dependentRequired": {"a": ["b"]}}, {"a": MARKER}),
    ({"prefixItems": [{"type": "integer"}]}, [MARKER]),
]


@pytest.mark.parametrize(("schema", "value"), NESTED)
def test_no_message_has_a_nested_value(schema, value):
    assert MARKER not in refused(argument(schema), {"arg": value})


@pytest.mark.parametrize("rule", ["additionalProperties", "unevaluatedProperties"])
def test_of_a_secret_not_even_the_keys_are_told(rule):
    schema = {rule: False}
    assert MARKER in refused(argument(schema), {"arg": {MARKER: 1}})
    assert MARKER not in refused(argument(schema, secret=True), {"arg": {MARKER: 1}})
    deep = {"additionalProperties": {"type": "integer"}}
    assert MARKER not in refused(argument(deep, secret=True), {"arg": {MARKER: "x"}})


@pytest.mark.parametrize(
    ("schema", "value", "words"),
    [
        ({"maximum": 3}, 4, "at most 3"),
        ({"exclusiveMinimum": 3}, 3, "more than 3"),
        ({"exclusiveMaximum": 3}, 3, "less than 3"),
        ({"multipleOf": 5}, 7, "multiple of 5"),
        ({"const": "x"}, "y", "must be 'x'"),
        ({"format": "ipv4"}, "nonsense", "format 'ipv4'"),
        ({"dependentRequired": {"a": ["b"]}}, {"a": 1}, "breaks the rule 'dependentRequired'"),
        (False, 1, "breaks the rule"),
    ],
)
def test_the_rule_is_told_in_words(schema, value, words):
    assert words in refused(argument(schema), {"arg": value})


def test_a_long_rule_is_shortened():
    assert len(refused(argument({"enum": ["x" * 10_000]}), {"arg": 1})) < 300


def test_deep_nesting_is_a_users_mistake():
    """F14: deep JSON is a 4xx."""
    deep = []
    for _ in range(50_000):
        deep = [deep]
    schema = {"$ref": "#/$defs/tree", "$defs": {"tree": {"items": {"$ref": "#/$defs/tree"}}}}
    assert "nested too deeply" in refused(argument(schema), {"arg": deep})


def test_a_schema_that_is_none_is_told_and_not_raised():
    """A driver that adds steps per node may bring anything."""
    assert "schema that is none" in refused(argument({"type": "text"}), {"arg": 1})


def test_a_remote_reference_is_never_fetched(monkeypatch):
    def no_network(*_, **__):
        raise AssertionError("the network was used")

    monkeypatch.setattr(urllib.request, "urlopen", no_network)
    assert "schema that is none" in refused(
        argument({"$ref": "http://127.0.0.1:1/schema"}), {"arg": 1}
    )


def test_a_ref_inside_an_example_is_no_reference():
    args.check_schema({"const": {"$ref": "#/nowhere"}, "examples": [{"$ref": "x"}]})


def test_a_schema_is_compiled_once():
    """F94: nothing is probed for each run."""
    args._compiled.cache_clear()
    for value in (1, 2, 3):
        check(argument({"type": "integer", "title": "once"}), {"arg": value})
    assert args._compiled.cache_info().misses == 1


LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text()
JSON = (
    LEAVES
    | st.lists(LEAVES, max_size=3)
    | st.dictionaries(st.text(max_size=9), LEAVES | st.lists(LEAVES, max_size=2), max_size=3)
)
NAMES = st.sampled_from(["a", "b", "c", "d"])
ARGSINFO = st.dictionaries(
    NAMES,
    st.fixed_dictionaries(
        {"description": st.just("words")},
        optional={
            "required": st.booleans(),
            "secret": st.booleans(),
            "schema": st.sampled_from([{"type": "string"}, {"type": "object"}, {}, *SCHEMAS[:9]]),
        },
    ),
)


@hypothesis.given(ARGSINFO, st.dictionaries(NAMES, JSON))
def test_any_arguments_pass_or_are_refused_with_words(argsinfo, given):
    """Never a bare KeyError or TypeError; what passes is known and what is required is there."""
    before = json.dumps(given)
    try:
        check(argsinfo, given)
    except exceptions.InvalidParameterValue as exc:
        assert str(exc).startswith(f"{STEP}: ")
    else:
        assert set(given) <= set(argsinfo)
        for name, info in argsinfo.items():
            assert not info.get("required") or given[name] is not None
    assert json.dumps(given) == before


@hypothesis.given(JSON.filter(lambda value: len(json.dumps(value)) > 6))
def test_a_secret_that_is_refused_is_not_shown(value):
    """F76: for any value."""
    text = refused(argument(False, secret=True), {"arg": value})
    assert json.dumps(value) not in text
    assert repr(value) not in text
