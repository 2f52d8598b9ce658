"""No request, however odd, is answered 5xx, whatever database is below (F15, F58, F59)."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from tests import support
from tests.support_api import Api, quoted
from tests.support_garbage import requests

SETTINGS = settings(
    max_examples=200,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.fixture
def whole(conf, start, database):
    """The API on each kind of database, with a node that has a port."""
    conf.set_override("node_locked_retry_attempts", 0, group="conductor")
    service = start(database)
    support.enrolled(service, name="n1")
    return Api(conf, database, service.client)


@SETTINGS
@given(request=requests())
def test_no_garbage_is_answered_5xx(whole, request):
    args, more = request
    answer = whole(*args, **more)
    assert answer.status < 500, answer


@pytest.mark.parametrize(
    "text", ["x" * 255, "\U0001f600" * 255, "a\u0301", "'; DROP TABLE nodes; --"]
)
def test_the_longest_and_oddest_texts_come_back_as_they_went(whole, text):
    """F59."""
    body = {
        "driver": "test-hardware",
        "owner": text,
        "description": "\U0001f600" * 4096,
        "extra": {text: [text], "surrogate": "\ud800", "nul": "\0", "big": 10**40},
    }
    created = whole.post("/v1/nodes", body)
    assert created.status == 201, created
    shown = whole.get(f"/v1/nodes/{created.body['uuid']}").body
    assert {name: shown[name] for name in body} == body
    found = whole.get(f"/v1/nodes?owner={quoted(text)}").body["nodes"]
    assert [item["uuid"] for item in found] == [created.body["uuid"]]


@pytest.mark.parametrize("name", ["owner", "lessee", "shard", "instance_name", "conductor_group"])
def test_a_text_that_no_column_holds_is_refused(whole, name):
    """F59."""
    for text in ("x" * 256, "\0", "\ud800"):
        assert whole.post("/v1/nodes", {"driver": "test-hardware", name: text}).status == 400
