"""``/healthz`` and ``/readyz`` (issue 4, section 1)."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from deploysteps.api import health
from deploysteps.db import conductors
from deploysteps.db.engine import Database
from tests.support_api import Api
from tests.support_sql import counting

OK = {"conductor": "ok", "database": "ok", "interfaces": "ok"}


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(health, "_FRESH", 0.0)


@pytest.fixture
def service(start, sqlite):
    return start(sqlite)


@pytest.fixture
def api(conf, service):
    return Api(conf, service.database, service.client)


def ready(api):
    """Return the checks of a service that is not ready, None of one that is."""
    answer = api.get("/readyz", version=None)
    assert answer.status == (200 if answer.body["ready"] else 503)
    assert answer.body["ready"] == (answer.body["checks"] == OK)
    assert list(answer.body) == ["ready", "checks"]
    return None if answer.body["ready"] else answer.body["checks"]


def test_a_process_that_lives_says_so_without_its_database(conf):
    gone = Database("postgresql+psycopg://user:T0PSECRET@127.0.0.1:1/x")
    api = Api(conf, gone, None)
    with counting(gone) as sent:
        answer = api.get("/healthz", version=None)
    assert (answer.status, answer.body) == (200, {"status": "ok"})
    assert sent.statements == 0


def test_a_service_that_works_is_ready(api):
    assert ready(api) is None


def test_no_conductor(conf, sqlite):
    told = ready(Api(conf, sqlite, None))
    assert told["database"] == "ok" and told["conductor"] == "none was started here"
    assert told["interfaces"] == "1 are not registered by a conductor that lives"


def test_a_conductor_elsewhere(conf, sqlite):
    offer = ("fake-hardware", "deploy", "fake", True)
    conductors.register(sqlite, "elsewhere", "b", [offer])
    assert ready(Api(conf, sqlite, None)) is None


def test_a_conductor_that_stops(api, service):
    assert ready(api) is None
    service.runtime.stopping.set()
    assert ready(api)["conductor"] == "it stops"


def test_an_interface_that_is_not_registered(api, service, sqlite):
    """Ready only when every interface is."""
    one = "DELETE FROM conductor_interfaces WHERE interface_type = 'raid'"
    with sqlite.engine.begin() as connection:
        connection.execute(sa.text(one))
    assert ready(api)["interfaces"] == "1 are not registered by a conductor that lives"


def test_a_conductor_that_is_not_heard_of(api, sqlite, service):
    service._periodic.stop()
    service._periodic.wait(60)  # it may be saying that it lives just now
    with sqlite.engine.begin() as connection:
        connection.execute(sa.text("UPDATE conductors SET updated_at = '2020-01-01 00:00:00'"))
    assert "are not registered" in ready(api)["interfaces"]


def test_a_database_that_is_away_is_told_without_where_it_is(conf, service):
    gone = Database("postgresql+psycopg://user:T0PSECRET@127.0.0.1:1/x", connect_wait=0)
    api = Api(conf, gone, None)
    answer = api.get("/readyz", version=None)
    assert answer.status == 503
    assert answer.body["checks"]["database"] == "it does not answer"
    assert "T0PSECRET" not in answer.text and "127.0.0.1" not in answer.text


def test_a_schema_that_is_not_current(conf, tmp_path, service):
    empty = Database(f"sqlite:///{tmp_path}/empty.sqlite")
    told = ready(Api(conf, empty, None))
    assert told["database"] == "its schema is not this program's; run: deploysteps db upgrade"


def test_who_asks_often_does_not_keep_the_database_busy(api, monkeypatch):
    asked, real = [], health.conductors.offers
    monkeypatch.setattr(health.conductors, "offers", lambda *args: asked.append(1) or real(*args))
    monkeypatch.setattr(health, "_FRESH", 60.0)
    for _ in range(10):
        assert ready(api) is None
    assert len(asked) == 1


def test_a_database_without_room_is_not_ready(api, sqlite):
    sqlite.is_full = True
    assert ready(api)["database"] == "it has no room"


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_nothing_else_is_answered(api, path):
    assert api.get(f"{path}?x=1").status == 400
    assert api.post(path, {}).status == 405
