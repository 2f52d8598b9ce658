"""Drivers and conductors."""

from __future__ import annotations

import datetime

import pytest
import sqlalchemy as sa

from deploysteps import exceptions
from deploysteps.db import conductors, types
from deploysteps.db.models import Conductor
from tests.support_api import Api, Recording, Refusing

Offer = conductors.Offer


@pytest.fixture
def two(sqlite):
    """c1 has two drivers, c2 one of them with another deploy interface."""
    fake = [
        Offer("fake-hardware", "deploy", "fake", True),
        Offer("fake-hardware", "deploy", "noop", False),
        Offer("fake-hardware", "power", "fake", True),
    ]
    conductors.register(sqlite, "c1", "1", [*fake, Offer("other", "power", "x", True)])
    conductors.register(sqlite, "c2", "2", [*fake, Offer("fake-hardware", "deploy", "more", False)])


def test_drivers_are_those_of_the_conductors_that_live(api, sqlite, two):
    """F50, F91."""
    body = api.get("/v1/drivers").body
    assert [(d["name"], d["hosts"]) for d in body["drivers"]] == [
        ("fake-hardware", ["c1", "c2"]),
        ("other", ["c1"]),
    ]
    assert {d["type"] for d in body["drivers"]} == {"dynamic"}
    conductors.leave(sqlite, "c1", "1")
    body = api.get("/v1/drivers").body
    assert [(d["name"], d["hosts"]) for d in body["drivers"]] == [("fake-hardware", ["c2"])]


def test_a_driver_tells_its_interfaces(api, two):
    body = api.get("/v1/drivers/fake-hardware").body
    assert body["default_deploy_interface"] == "fake"
    assert body["enabled_deploy_interfaces"] == ["fake", "more", "noop"]
    assert (body["default_raid_interface"], body["enabled_raid_interfaces"]) == (None, [])
    assert body["properties"][0]["href"].endswith("/v1/drivers/fake-hardware/properties")


@pytest.mark.parametrize(
    ("query", "version", "status"),
    [
        ("detail=True", 30, 200),
        ("detail=True", 29, 400),
        ("type=dynamic", 30, 200),
        ("type=zzz", 30, 400),
        ("fields=name", 77, 200),
        ("fields=name", 76, 406),
        ("fields=zzz", 77, 400),
        ("zzz=1", 115, 400),
    ],
)
def test_the_list_of_drivers_may_be_narrowed(api, two, query, version, status):
    assert api.get(f"/v1/drivers?{query}", version=version).status == status


def test_details_and_types_of_drivers(api, two):
    assert "enabled_deploy_interfaces" in api.get("/v1/drivers?detail=True").body["drivers"][0]
    assert api.get("/v1/drivers?type=classic").body == {"drivers": []}
    assert set(api.get("/v1/drivers/other?fields=name").body) == {"name", "links"}


def test_an_unknown_driver_is_404(conf, sqlite, two):
    api = Api(conf, sqlite, Refusing(exceptions.DriverNotFound(driver_name="nope")))
    for path in ("/v1/drivers/nope", "/v1/drivers/%00", "/v1/drivers/nope/properties"):
        assert api.get(path).status == 404


def test_properties_are_flat(conf, sqlite):
    api = Api(conf, sqlite, Recording(get_driver_properties={"a": "what a is"}))
    assert api.get("/v1/drivers/x/properties").body == {"a": "what a is"}


def test_conductors(api, sqlite, two):
    long_ago = types.utcnow() - datetime.timedelta(hours=1)
    sqlite.write(
        lambda c: c.execute(
            sa.update(Conductor).where(Conductor.hostname == "c2").values(updated_at=long_ago)
        )
    )
    body = api.get("/v1/conductors").body
    assert [(c["hostname"], c["alive"]) for c in body["conductors"]] == [
        ("c1", True),
        ("c2", False),
    ]
    assert set(body["conductors"][0]) == {"hostname", "conductor_group", "alive", "links"}
    one = api.get("/v1/conductors/c1").body
    assert one["drivers"] == ["fake-hardware", "other"]
    assert one["created_at"] and one["updated_at"] and one["conductor_group"] == ""
    assert api.get("/v1/conductors/c2").body["drivers"] == []
    assert api.get("/v1/conductors/nope").status == 404


def test_conductors_in_pages(api, two):
    first = api.get("/v1/conductors?limit=1&sort_key=hostname&sort_dir=desc&fields=hostname").body
    assert [c["hostname"] for c in first["conductors"]] == ["c2"]
    rest = api.get(first["next"].removeprefix("http://falconframework.org")).body
    assert [c["hostname"] for c in rest["conductors"]] == ["c1"]
    assert "next" not in rest
    assert "updated_at" in api.get("/v1/conductors?detail=True").body["conductors"][0]


@pytest.mark.parametrize(
    ("query", "status"),
    [("marker=nope", 404), ("sort_key=boot_id", 400), ("fields=boot_id", 400), ("zzz=1", 400)],
)
def test_a_mistake_in_a_query_is_4xx(api, two, query, status):
    assert api.get(f"/v1/conductors?{query}").status == status
