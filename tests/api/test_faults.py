"""Entries of doc/faults.rst whose input comes by HTTP, each whole: all paths, all shapes."""

from __future__ import annotations

import re
import time
from typing import Any, ClassVar

import pytest

from deploysteps import states
from deploysteps.drivers import base
from tests import support
from tests.api.conftest import Vendor as Common

PROVISION = "/v1/nodes/n1/states/provision"
MAC = "52:54:00:00:00:01"
IMAGES = {
    "type": "array",
    "items": {
        "type": "object",
        "properties": {"url": {"type": "string"}, "wait": {"type": "integer"}},
        "required": ["url"],
        "additionalProperties": False,
    },
}


class Vendor(Common):
    """A step whose arguments have schemas, for each flow that takes steps from people."""

    got: ClassVar[list[Any]] = []

    @base.deploy_step(
        priority=0,
        argsinfo={
            "word": {"description": "a text", "schema": {"type": "string"}},
            "images": {"description": "what to load", "schema": IMAGES},
        },
    )
    def load(self, task: Any, word: str = "", images: Any = None) -> None:
        """Load what is named."""
        self.got.append((word, images))


@pytest.fixture
def service(start, sqlite):
    Vendor.go.clear()
    Vendor.got.clear()
    yield start(sqlite, vendor=Vendor)
    Vendor.go.set()


@pytest.fixture
def node(api, service):
    made = api.post("/v1/nodes", {"driver": "test-hardware", "name": "n1"}).body
    assert api.post("/v1/ports", {"address": MAC, "node_uuid": made["uuid"]}).status == 201
    for target, state in (("manage", states.MANAGEABLE), ("provide", states.AVAILABLE)):
        assert api.put(PROVISION, {"target": target}).status == 202
        support.settle(service.database, "n1", state)
    return made


def load(**args: Any) -> dict[str, Any]:
    return {"interface": "vendor", "step": "load", "args": args, "priority": 90}


# --- F61: reads and the lock -----------------------------------------------------------------

# What a query has to say, and what stands for the parts of a path.
QUERIES = {"/v1/nodes/{ident}/vendor_passthru": "?method=none"}
PARTS = {"ident": "n1", "indicator": "led@chassis"}


def reads(api: Any) -> list[str]:
    """Return every path that tells of one node."""
    return [
        re.sub(r"\{(\w+)\}", lambda part: PARTS.get(part[1], "none"), path) + QUERIES.get(path, "")
        for path, resource in api._app.served.items()
        if path.startswith("/v1/nodes/{ident}") and "GET" in resource.operations
    ]


def test_every_read_of_a_node_is_answered_while_its_lock_is_held(api, service, node):
    """F61: by the routes, so that a new one is among them; lookup hands out a token and is 409."""
    paths = [*reads(api), "/v1/nodes", "/v1/nodes/detail", f"/v1/ports?address={MAC}"]
    free = {path: api.get(path).status for path in paths}
    assert len(paths) > 25 and list(free.values()).count(200) > 20
    hang = {"interface": "vendor", "step": "hang", "args": {}, "priority": 200}
    assert api.put(PROVISION, {"target": "active", "deploy_steps": [hang]}).status == 202
    support.until(lambda: (api.get("/v1/nodes/n1").body["deploy_step"] or {}).get("step") == "hang")
    assert api.get("/v1/nodes/n1").body["reservation"] == "conductor-1"
    begun = time.monotonic()
    assert {path: api.get(path).status for path in paths} == free
    assert time.monotonic() - begun < 30
    assert api.get(f"/v1/lookup?addresses={MAC}").status == 409
    assert api.get("/v1/nodes/n1").body["reservation"] == "conductor-1", "it was held all the time"
    Vendor.go.set()


# --- F9, F10, F14, F15: what is wrong with arguments -----------------------------------------

DEEP: Any = "x"
for _ in range(70):
    DEEP = [DEEP]
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"word": ["a"]}, "'word'"),
    ({"word": {"a": 1}}, "'word'"),
    ({"word": None}, "'word'"),
    ({"word": 5}, "'word'"),
    ({"word": True}, "'word'"),
    ({"wrod": "a"}, "'wrod'"),
    ({"images": [{"url": "http://h/a", "wati": 5}]}, "wati"),
    ({"images": [{"wait": 5}]}, "url"),
    ({"images": [{"url": "http://h/a", "wait": "5"}]}, "images"),
    ({"images": {"url": "http://h/a"}}, "images"),
    ({"images": [None]}, "images"),
    ({"word": DEEP}, "deeper"),
]


@pytest.mark.parametrize(("args", "told"), WRONG)
def test_a_mistake_in_an_argument_is_400_before_anything_runs(api, service, node, args, told):
    """F9, F10, F15: in a request and in a template, told by its name."""
    before = api.get("/v1/nodes/n1").body
    template = {"name": "CUSTOM_T", "steps": [load(**args)]}
    asked = api.put(PROVISION, {"target": "active", "deploy_steps": [load(**args)]})
    assert asked.status == 400 and told in asked.fault, asked
    saved = api.post("/v1/deploy_templates", template)
    assert saved.status in (201, 400), "arguments are those of the node's driver"
    if saved.status == 201:
        added = [{"op": "add", "path": "/instance_info/traits", "value": ["CUSTOM_T"]}]
        assert api.put("/v1/nodes/n1/traits/CUSTOM_T").status == 204
        assert api.patch("/v1/nodes/n1", added).status == 200
        drawn = api.put(PROVISION, {"target": "active"})
        assert drawn.status == 400 and told in drawn.fault, drawn
    after = api.get("/v1/nodes/n1").body
    assert after["provision_state"] == before["provision_state"] and not Vendor.got
    assert after["last_error"] is None


def test_an_argument_that_is_right_arrives_as_it_was_sent(api, service, node):
    """F10, F11: an empty text is a text; from the body to the call nothing is lost."""
    images = [{"url": "http://h/\u00e4 \U0001f600", "wait": 2**53}, {"url": ""}]
    body = {"target": "active", "deploy_steps": [load(word="", images=images)]}
    assert api.put(PROVISION, body).status == 202
    support.until(lambda: bool(Vendor.got))
    assert Vendor.got == [("", images)]
