"""Limits come before parsing (F14), and what is not JSON is the caller's mistake (F15)."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploysteps import exceptions, limits
from deploysteps.api import bodies

DEEP = 64


def refused(raw: bytes) -> str:
    with pytest.raises(exceptions.Invalid) as caught:
        bodies.parse(raw, DEEP)
    assert caught.value.code == 400
    return str(caught.value)


@pytest.mark.parametrize("count", [DEEP + 1, 1000, 100_000, 1_000_000])
@pytest.mark.parametrize(("left", "right"), [(b"[", b"]"), (b'{"a":', b"}"), (b'[{"a":', b"}]")])
def test_deep_json_is_refused_before_it_is_parsed(count, left, right):
    """F14."""
    begun = time.monotonic()
    assert "nested deeper" in refused(left * count + b"1" + right * count)
    assert "nested deeper" in refused(left * count)
    assert time.monotonic() - begun < 10


def test_the_limit_itself_is_let_through():
    assert limits.depth(bodies.parse(b"[" * DEEP + b"]" * DEEP, DEEP), DEEP) == DEEP
    wide = b"[" + b"[[]]," * 10_000 + b"[]]"
    assert len(bodies.parse(wide, DEEP)) == 10_001


@pytest.mark.parametrize(
    "text", ['"[[[["', r'"\"[[[["', r'"\\"', '{"a[": "]}"}', r'["\\\"]"]', '""']
)
def test_brackets_in_texts_do_not_count(text):
    assert bodies.parse(text.encode(), 2) == json.loads(text)


@pytest.mark.parametrize(
    "raw",
    [
        b"{bad",
        b"[1",
        b'"abc',
        b'"abc\\',
        b"]",
        b"[}",
        b"{}{}",
        b"\xff\xfe",
        b'"\xff"',
        b"NaN",
        b"[Infinity]",
        b"-Infinity",
        b"1e999",
        b"9" * 5000,
        b'{"a": 1, "a": 2}',
        b'{"x": {"b": 1, "a": 1, "b": 2}}',
        "{}".encode("utf-16"),
        b"\xef\xbb\xbf{}",
    ],
)
def test_what_is_not_json_is_refused_in_words(raw):
    """F15."""
    told = refused(raw)
    assert "request body" in told


def test_a_name_twice_is_told():
    assert "'again' stands twice" in refused(b'{"again": 1, "b": 2, "again": 3}')


@pytest.mark.parametrize(
    "raw",
    [
        b'"' + b'\\"' * 2_000_000,  # an endless text: no quadratic search for its end
        b"{" + b",".join(b'"%d":1' % i for i in range(300_000)) + b',"0":1}',
        b"[],{}" * 500_000,
        (b"[" * 60 + b"]" * 60) * 30_000,
    ],
)
def test_hostile_bodies_cost_little_time(raw):
    """F14."""
    begun = time.monotonic()
    refused(raw)
    assert time.monotonic() - begun < 8


@given(st.recursive(st.none() | st.text() | st.integers(), lambda i: st.lists(i, max_size=2)))
def test_every_json_text_is_read_as_it_is(value):
    assert bodies.parse(json.dumps(value).encode(), 200) == value
    assert bodies.parse(json.dumps(value, ensure_ascii=True).encode(), 200) == value


@given(st.binary(max_size=60) | st.text('[]{}",:\\1ae ', max_size=60).map(str.encode))
def test_any_bytes_are_read_or_refused(raw):
    try:
        bodies.parse(raw, 3)
    except exceptions.Invalid as exc:
        assert exc.code == 400


def test_a_body_that_is_too_large_is_413(api):
    """F14: 50 MB of arguments."""
    api.conf.set_override("max_request_body_bytes", 1000, group="api")
    answer = api.post("/v1/nodes", raw=b'{"driver": "%s"}' % (b"x" * 50_000_000))
    assert answer.status == 413
    assert "1000 bytes" in answer.fault


def test_no_body_means_an_empty_object(api):
    answer = api.post("/v1/nodes")
    assert answer.status == 400
    assert answer.fault == "Schema error for node: 'driver' is a required property"
