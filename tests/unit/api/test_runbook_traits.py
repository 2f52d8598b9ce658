"""``/v1/runbooks/<id>/traits``: which nodes a runbook is for."""

from __future__ import annotations

import pytest

from deploysteps.db import runbook_traits, runbooks
from tests.support_api import Api, Recording

PATH = "/v1/runbooks/CUSTOM_R/traits"


@pytest.fixture
def book(sqlite):
    return runbooks.insert(sqlite, {"name": "CUSTOM_R", "steps": []})


@pytest.fixture
def api(conf, sqlite, book):
    return Api(conf, sqlite, Recording(get_secret_arguments={}))


@pytest.mark.parametrize(("version", "there"), [(111, False), (112, True), (113, True)])
def test_they_are_there_from_1_112(api, version, there):
    """F84."""
    assert api.get(PATH, version=version).status == (200 if there else 404)
    assert api.put(PATH, {"traits": []}, version=version).status == (204 if there else 404)
    assert api.delete(PATH, version=version).status == (204 if there else 404)
    assert api.put(f"{PATH}/CUSTOM_A", version=version).status == (204 if there else 404)
    assert api.delete(f"{PATH}/CUSTOM_A", version=version).status == (204 if there else 404)


def test_they_are_shown_wherever_a_runbook_is(api, sqlite, book):
    runbook_traits.change(sqlite, book.id, replace=["CUSTOM_B", "CUSTOM_A"])
    assert api.get(PATH).body == {"traits": ["CUSTOM_A", "CUSTOM_B"]}
    assert api.get("/v1/runbooks/CUSTOM_R").body["traits"] == ["CUSTOM_A", "CUSTOM_B"]
    listed = api.get("/v1/runbooks?fields=name,traits").body["runbooks"]
    assert listed[0]["traits"] == ["CUSTOM_A", "CUSTOM_B"]


@pytest.mark.parametrize(
    ("method", "path", "body", "named"),
    [
        ("PUT", PATH, {"traits": ["CUSTOM_A", "HW_CPU"]}, {"replace": ["CUSTOM_A", "HW_CPU"]}),
        ("DELETE", PATH, None, {"replace": []}),
        ("PUT", f"{PATH}/CUSTOM_A", None, {"add": ["CUSTOM_A"]}),
        ("DELETE", f"{PATH}/CUSTOM_A", None, {"remove": ["CUSTOM_A"]}),
    ],
)
def test_a_change_is_a_verb_of_the_conductor(api, book, method, path, body, named):
    answer = api(method, path, body)
    assert (answer.status, answer.text) == (204, "")
    assert api.client.calls == [("update_runbook_traits", (book.uuid,), named)]


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        (PATH, {}, 400),
        (PATH, {"traits": ["custom"]}, 400),
        (PATH, {"traits": "CUSTOM_A"}, 400),
        (f"{PATH}/custom", None, 400),
        (f"{PATH}/CUSTOM_A", {"traits": []}, 400),
        ("/v1/runbooks/CUSTOM_X/traits", {"traits": []}, 404),
        ("/v1/runbooks/a b/traits", {"traits": []}, 404),
    ],
)
def test_what_is_refused(api, path, body, status):
    """Promise 13."""
    assert api.put(path, body).status == status
    assert api.client.calls == []
