"""Versions in headers, errors in their envelope, the log."""

from __future__ import annotations

import logging

import pytest
from oslo_log import formatters

from deploysteps import exceptions
from deploysteps.api import middleware, versions
from deploysteps.db.engine import CommitUnknown
from tests.support_api import Api, Refusing

RANGE = {middleware.MIN_HEADER.lower(): "1.1", middleware.MAX_HEADER.lower(): "1.115"}
USED = middleware.HEADER.lower()


def has_range(answer) -> bool:
    return all(answer.headers.get(name) == value for name, value in RANGE.items())


@pytest.mark.parametrize(
    ("headers", "used"),
    [
        ({}, "1.1"),
        ({"X-OpenStack-Ironic-API-Version": "1.44"}, "1.44"),
        ({"x-openstack-ironic-api-version": "latest"}, "1.115"),
        ({"OpenStack-API-Version": "baremetal 1.44"}, "1.44"),
        ({"OpenStack-API-Version": "baremetal latest"}, "1.115"),
        ({"OpenStack-API-Version": "compute 2.1, baremetal 1.50"}, "1.50"),
        ({"OpenStack-API-Version": "compute 2.1"}, "1.1"),
        (
            {
                "OpenStack-API-Version": "baremetal 1.109",
                "X-OpenStack-Ironic-API-Version": "1.109",
                "X-Auth-Token": "notused",
            },
            "1.109",
        ),
    ],
)
def test_both_headers_name_the_version_and_the_answer_tells_it(api, headers, used):
    answer = api.get("/v1/nodes", version=None, headers=headers)
    assert (answer.status, answer.headers[USED]) == (200, used)
    assert has_range(answer)


@pytest.mark.parametrize(
    "text", ["1.999", "1.116", "1.0", "2.0", "0.1", "1.-1", "abc", "1", "1.x", "", "1.1.1"]
)
def test_a_version_that_is_not_there_is_406_with_the_range(api, text):
    for path, form in (("/v1/nodes", {"code", "title", "description"}), ("/", None)):
        answer = api.get(path, version=None, headers={middleware.HEADER: text})
        assert answer.status == 406
        assert has_range(answer)
        assert USED not in answer.headers
        if form:
            assert set(answer.inner) == form
            assert (answer.inner["code"], answer.inner["title"]) == (406, "Not Acceptable")
        else:
            assert answer.fault


def test_errors_that_reached_a_resource_tell_the_versions(api):
    answer = api.get("/v1/nodes/nope", version=99)
    assert answer.fault == "Node nope could not be found."
    assert answer.headers[USED] == "1.99" and has_range(answer)


@pytest.mark.parametrize(
    ("method", "path", "status", "title"),
    [
        ("GET", "/v2/nodes", 404, "Not Found"),
        ("GET", "/v1/nope", 404, "Not Found"),
        ("GET", "/v1/nodes/x/management", 404, "Not Found"),
        ("GET", "/v1/volume", 404, "Not Found"),
        ("PUT", "/v1/nodes", 405, "Method Not Allowed"),
        ("POST", "/v1/nodes/detail", 405, "Method Not Allowed"),
        ("GET", "/v1/nodes/x/states/power", 405, "Method Not Allowed"),
    ],
)
def test_what_is_not_built_is_told_before_routing_without_versions(
    api, method, path, status, title
):
    answer = api(method, path)
    assert answer.status == status
    told = "There is nothing at this path; /openapi.json tells what there is."
    description = told if status == 404 else ""
    assert answer.inner == {"code": status, "title": title, "description": description}
    assert USED not in answer.headers and not has_range(answer)
    assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/", "/v1/nodes/", "/nodes", "/v1/nodes/n1/"])
def test_a_trailing_slash_makes_no_difference_and_bookmarks_lead_somewhere(api, node, path):
    assert api.get(path).status == 200


def test_only_answers_with_a_body_are_json(api, node):
    """A client that is told so tries to parse what is not there, and complains."""
    provision = "/v1/nodes/n1/states/provision"
    for answer in (
        api.put(provision, {"target": "active"}),
        api.put("/v1/nodes/n1/maintenance"),
        api.post("/v1/heartbeat/n1", {"callback_url": "http://192.0.2.1/"}),
        api.delete("/v1/nodes/n1"),
    ):
        assert answer.status in (202, 204) and answer.text == ""
        assert "json" not in answer.headers.get("content-type", "")
    for answer in (api.get("/"), api.get("/nope"), api.put(provision, {}), api.put("/v1/nodes")):
        assert answer.headers["content-type"] == "application/json"


def test_every_answer_has_an_id_of_its_own(api):
    seen = set()
    for path in ("/", "/v1/nodes", "/v1/nodes/nope", "/nope"):
        headers = api.get(path).headers
        assert headers["openstack-request-id"] == headers["x-openstack-request-id"]
        assert headers["openstack-request-id"].startswith("req-")
        seen.add(headers["openstack-request-id"])
    assert len(seen) == 4


def test_the_version_documents_are_what_clients_negotiate_by(api):
    root = api.get("/", version=None).body
    assert root["versions"] == [root["default_version"]]
    assert root["default_version"]["version"] == "1.115"
    assert root["default_version"]["min_version"] == "1.1"
    assert root["default_version"]["id"] == "v1"
    v1 = api.get("/v1", version=None).body
    assert v1["version"] == root["default_version"]
    assert v1["id"] == "v1" and v1["media_types"]["base"] == "application/json"


@pytest.mark.parametrize("first", sorted(set(versions.ENDPOINTS.values())))
def test_the_version_document_lists_what_the_request_sees(api, first):
    for version in (max(1, first - 1), first):
        there = {name for name, since in versions.ENDPOINTS.items() if since <= version}
        body = api.get("/v1", version=version).body
        assert there == set(body) - {"id", "links", "media_types", "version"}


# --- errors of the conductor -----------------------------------------------------------------


@pytest.mark.parametrize(
    ("exception", "status"),
    [
        (exceptions.InvalidParameterValue("no"), 400),
        (exceptions.InvalidStateRequested(action="a", node="b", state="c"), 400),
        (exceptions.NodeInMaintenance(op="deploy", node="n"), 400),
        (exceptions.NodeNotFound(node="x"), 404),
        (exceptions.NodeLocked(node="n", host="h"), 409),
        (exceptions.Conflict("busy"), 409),
        (exceptions.NoFreeConductorWorker(), 503),
        (exceptions.NotStarted(reason="it stops"), 503),
        (CommitUnknown("the connection broke at COMMIT"), 503),
        (exceptions.PowerStateFailure(pstate="power on"), 500),
    ],
)
def test_the_code_of_an_exception_is_the_status(conf, sqlite, node, exception, status):
    answer = Api(conf, sqlite, Refusing(exception)).put(
        "/v1/nodes/n1/states/provision", {"target": "active"}
    )
    assert answer.status == status
    assert answer.fault == str(exception)


def test_a_client_that_stumbles_over_retry_after_is_not_sent_it(conf, sqlite, node):
    """python-ironicclient raises TypeError at it: no error is shown, and nothing tried again."""
    api = Api(conf, sqlite, Refusing(exceptions.NoFreeConductorWorker()))
    refused = api.put("/v1/nodes/n1/states/provision", {"target": "active"})
    assert refused.status == 503 and "retry-after" not in refused.headers
    beat = api.post("/v1/heartbeat/n1", {"callback_url": "http://127.0.0.1:1"})
    assert beat.status == 503 and "retry-after" in beat.headers


@pytest.mark.parametrize("exception", [ZeroDivisionError("hunter2"), OSError("hunter2")])
def test_an_unexpected_error_tells_nothing_but_the_log_has_it(
    conf, sqlite, node, caplog, exception
):
    answer = Api(conf, sqlite, Refusing(exception)).delete("/v1/nodes/n1")
    assert answer.status == 500
    assert "hunter2" not in answer.text and "Traceback" not in answer.text
    request_id = answer.headers["openstack-request-id"]
    assert request_id in answer.fault
    logged = next(r.getMessage() for r in caplog.records if r.levelname == "ERROR")
    assert request_id in logged
    assert "Traceback" in logged and f"{type(exception).__name__}: hunter2" in logged


@pytest.mark.parametrize("kind", [ZeroDivisionError, exceptions.DriverOperationError])
def test_the_log_of_an_error_inside_shows_no_user_of_a_url(conf, sqlite, node, caplog, kind):
    """F76: neither in its text nor in the traceback of what led to it."""

    class Broken(Refusing):
        def __getattr__(self, name):
            def verb(*args, **kwargs):
                try:
                    raise OSError("cannot reach https://root:hunter2@10.0.0.1/")
                except OSError as exc:
                    raise kind("lost https://root:hunter2@10.0.0.1/?token=hunter2") from exc

            return verb

    assert Api(conf, sqlite, Broken(OSError())).delete("/v1/nodes/n1").status == 500
    assert "Traceback" in caplog.text and "10.0.0.1" in caplog.text
    assert "hunter2" not in caplog.text


@pytest.mark.parametrize("exception", [SystemExit(3), KeyboardInterrupt(), GeneratorExit()])
def test_whatever_a_request_raises_is_an_answer(conf, sqlite, node, caplog, exception):
    """F51: what is no Exception, too."""
    answer = Api(conf, sqlite, Refusing(exception)).delete("/v1/nodes/n1")
    assert answer.status == 500
    assert answer.headers["content-type"] == "application/json"
    assert answer.headers["openstack-request-id"] in answer.fault
    assert answer.headers["openstack-request-id"] in caplog.text
    assert type(exception).__name__ in caplog.text


def test_an_error_text_is_short_and_tells_no_token(conf, sqlite, node):
    told = "cannot reach http://u:hunter2@h/?agent_token=hunter2 " + "x" * 100_000
    answer = Api(conf, sqlite, Refusing(exceptions.Invalid(told))).delete("/v1/nodes/n1")
    assert answer.status == 400
    assert "hunter2" not in answer.text
    assert len(answer.text) < 10_000


def test_an_error_text_with_odd_characters_is_still_an_answer(conf, sqlite, node):
    refused = Refusing(exceptions.Invalid("\ud800\0\U0001f600 \u2028"))
    answer = Api(conf, sqlite, refused).delete("/v1/nodes/n1")
    assert answer.status == 400
    assert answer.fault == "\ud800\0\U0001f600 \u2028"


def test_a_database_that_is_away_is_503(conf, sqlite, node, monkeypatch):
    def away(*args, **kwargs):
        raise exceptions.DatabaseUnavailable(reason="no route")

    monkeypatch.setattr(sqlite, "read", away)
    assert Api(conf, sqlite, None).get("/v1/nodes").status == 503


# --- log ----------------------------------------------------------------------------------------


LOOKUP = "/v1/lookup?addresses=52:54:00:00:00:01"


def test_what_a_database_says_of_itself_is_for_the_log(conf, sqlite, node, caplog):
    """Callers without credentials come here, by lookup and heartbeat."""
    said = 'connection to server at "10.9.8.7", port 5432 failed: FATAL: user "ironic"'
    away = Refusing(exceptions.DatabaseUnavailable(reason=said))
    for method, path in (("DELETE", "/v1/nodes/n1"), ("GET", LOOKUP)):
        answer = Api(conf, sqlite, away)(method, path)
        assert (answer.status, answer.fault) == (503, "The database does not answer; try again.")
        assert ("retry-after" in answer.headers) == (path == LOOKUP)
        (line,) = [r.getMessage() for r in caplog.records if "10.9.8.7" in r.getMessage()]
        assert line.startswith(answer.headers["openstack-request-id"]) and "\n" not in line
        caplog.clear()


def test_a_database_without_room_is_not_told_as_one_that_is_away(conf, sqlite, node, caplog):
    """F52: who reads "does not answer" looks at the network, and not at the disk."""
    full = Refusing(exceptions.DatabaseFull(reason="10.9.8.7: database or disk is full"))
    answer = Api(conf, sqlite, full)("DELETE", "/v1/nodes/n1")
    assert answer.status == 503
    assert answer.fault.startswith("The database has no room") and "10.9" not in answer.fault
    assert "10.9.8.7: database or disk is full" in caplog.text


def test_a_request_is_one_line_with_its_id_once_and_without_secrets(api, node, caplog, conf):
    caplog.set_level(logging.INFO, middleware.__name__)
    answer = api.get("/v1/nodes/n1?agent_token=hunter2&x=1")
    form = formatters.ContextFormatter(config=conf)
    (line,) = [form.format(r) for r in caplog.records if r.name == middleware.__name__]
    assert "hunter2" not in line
    assert line.count(answer.headers["openstack-request-id"]) == 1
    assert "GET /v1/nodes/n1?" in line and " 400 " in line


def test_bodies_are_not_logged(api, caplog):
    """F76."""
    caplog.set_level(logging.DEBUG)
    api.post("/v1/nodes", {"driver": "x", "driver_info": {"password": "hunter2"}, "zzz": "hunter2"})
    assert not any("hunter2" in r.getMessage() for r in caplog.records)
