"""The OpenAPI document, and what it is made from (issue 4)."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys

import jsonschema
import openapi_spec_validator
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deploysteps import exceptions
from deploysteps.api import (
    answer_schemas,
    descriptions,
    openapi,
    patch,
    query,
    schemas,
    validation,
    versions,
)
from deploysteps.api.app import create_app
from deploysteps.db import runbooks, templates
from tests.support_api import Api

METHODS = {"get", "put", "post", "patch", "delete"}
IDENT = "c2ab0b1e-1f7b-4c1e-9d7a-1a53d7b3f60a"


def operations(document):
    """Return (path, method) -> operation."""
    return {
        (path, method): operation
        for path, place in document["paths"].items()
        for method, operation in place.items()
        if method in METHODS
    }


def references(thing):
    if isinstance(thing, list):
        return {name for inner in thing for name in references(inner)}
    if not isinstance(thing, dict):
        return set()
    own = {thing["$ref"]} if isinstance(thing.get("$ref"), str) else set()
    return own | {name for inner in thing.values() for name in references(inner)}


@pytest.fixture
def served(conf):
    return create_app(conf, None, None).served


@pytest.fixture
def document(conf, api):
    return api.get("/openapi.json").body


def test_the_document_is_openapi_3_1(document):
    assert document["openapi"].startswith("3.1.")
    openapi_spec_validator.validate(document)


@pytest.mark.parametrize("newest", [versions.MIN, 43, 77, versions.MAX])
def test_the_document_of_a_pinned_process_is_openapi_too_and_tells_of_nothing_newer(served, newest):
    document = openapi.document(served, newest)
    openapi_spec_validator.validate(document)
    numbers = [int(text.split('"')[0]) for text in json.dumps(document).split('"x-since": "1.')[1:]]
    assert max(numbers) <= newest
    assert ("deploy_step" in document["components"]["schemas"]["Node"]["properties"]) == (
        newest >= versions.NODE_FIELDS["deploy_step"]
    )
    assert ("/v1/runbooks" in document["paths"]) == (newest >= versions.ENDPOINTS["runbooks"])


def test_every_operation_that_is_served_is_in_it(document, served):
    told = operations(document)
    assert set(told) == {
        (path, method.lower())
        for path, resource in served.items()
        for method in resource.operations
    }
    for (path, method), operation in told.items():
        declared = served[path].operations[method.upper()]
        assert operation.get("x-rule") == declared.rule
        assert operation["x-since"] == f"1.{declared.since}"
        assert operation["summary"]


def test_the_names_of_operations_are_unique(document):
    names = [operation["operationId"] for operation in operations(document).values()]
    assert len(names) == len(set(names))


def test_every_reference_leads_somewhere_and_every_component_is_used(document):
    used = references(document)
    for reference in used:
        found = document
        for part in reference.removeprefix("#/").split("/"):
            found = found[part]
    parts = document["components"]
    there = {
        f"#/components/{kind}/{name}"
        for kind in ("schemas", "parameters", "headers", "responses")
        for name in parts[kind]
    }
    assert used == there


def test_agents_and_readers_of_streams_alone_are_told_when_to_come_back(document):
    telling = {
        f"#/components/responses/{name}"
        for name, answer in document["components"]["responses"].items()
        if "Retry-After" in answer["headers"]
    }
    told = {
        path
        for (path, _), operation in operations(document).items()
        for answer in operation["responses"].values()
        if answer.get("$ref") in telling
    }
    assert told == {"/v1/lookup", "/v1/heartbeat/{ident}", "/v1/events/stream"}


def test_every_schema_is_json_schema(document):
    for name, schema in document["components"]["schemas"].items():
        jsonschema.Draft202012Validator.check_schema(schema)
        assert "$schema" not in json.dumps(schema), name
    for name, value in vars(answer_schemas).items():
        if isinstance(value, dict) and name.isupper():
            jsonschema.Draft202012Validator.check_schema(value)


def test_an_answer_of_a_node_has_the_fields_of_the_table(document):
    shown = document["components"]["schemas"]["Node"]["properties"]
    assert {name: since["x-since"] for name, since in shown.items()} == {
        name: f"1.{first}" for name, first in versions.NODE_FIELDS.items()
    }


def test_a_body_tells_since_when_its_members_are_taken(document):
    body = document["components"]["schemas"]["ProvisionBody"]["properties"]
    assert body["deploy_steps"]["x-since"] == "1.69"
    assert body["deploy_steps"]["anyOf"][0] == {"$ref": "#/components/schemas/DeployStepsBody"}
    assert body["target"]["x-values"]["abort"] == "1.13"
    node = document["components"]["schemas"]["NodeBody"]["properties"]
    assert node["shard"]["x-since"] == "1.82"
    assert node["uuid"]["x-create-only"] is True


def test_the_document_is_for_everybody_and_made_once(conf, sqlite):
    conf.set_override("public_endpoint", "https://bm.example/x", group="api")
    api = Api(conf, sqlite, None)
    first = api.get("/openapi.json", version=None).body
    assert first["servers"] == [{"url": "https://bm.example/x"}]
    resource = api._app.served["/openapi.json"]
    made = resource._text
    assert api.get("/openapi.json").body == first
    assert resource._text is made


@pytest.mark.parametrize(
    ("strategy", "security"),
    [("noauth", []), ("http_basic", [{"basic": []}]), ("keystone", [{"token": []}])],
)
def test_who_may_call_is_told_as_it_is_configured(conf, served, strategy, security):
    told = openapi.document(served, schemes=openapi._STRATEGIES[strategy])
    assert told["paths"]["/v1/nodes"]["get"]["security"] == security
    assert told["paths"]["/v1"]["get"]["security"] == []
    assert told["paths"]["/v1/lookup"]["get"]["security"] == []
    assert set(told["components"]["securitySchemes"]) == {"basic", "token"}


def test_two_things_cannot_have_one_name(served):
    made = openapi._Maker(versions.MAX, ())
    made.schema({"title": "X", "type": "object"})
    made.schema({"title": "X", "type": "object"})
    with pytest.raises(ValueError, match="'X'"):
        made.schema({"title": "X", "type": "array"})


# --- the document tells what the code takes ------------------------------------------------


@pytest.fixture
def asked(monkeypatch):
    """The names of the arguments that resources ask for."""
    names = set()

    def noting(method):
        def wrapped(self, name):
            names.add(name)
            return method(self, name)

        return wrapped

    for name in ("__contains__", "text", "names"):
        monkeypatch.setattr(query.Query, name, noting(getattr(query.Query, name)))
    return names


@pytest.fixture
def places(sqlite, node, port):
    """Tag -> the name of one that is there."""
    step = {"interface": "bios", "step": "x", "args": {}}
    saved = {
        "deploy_templates": templates.insert(
            sqlite, {"name": "CUSTOM_A", "steps": [{**step, "priority": 1}]}
        ),
        "runbooks": runbooks.insert(sqlite, {"name": "CUSTOM_A", "steps": [{**step, "order": 1}]}),
    }
    return {
        "nodes": node.uuid,
        "ports": port.uuid,
        **{tag: item.uuid for tag, item in saved.items()},
    }


def test_the_arguments_of_a_query_are_those_that_the_code_takes(api, document, places, asked):
    found = operations(document)
    for (path, method), operation in found.items():
        if "x-rule" not in operation:
            continue
        asked.clear()
        at = re.sub(r"{\w+}", places.get(operation["tags"][0], IDENT), path)
        answer = api(method.upper(), f"{at}?zz=1", version=versions.MAX)
        assert answer.status == 400 and "Unexpected arguments: zz" in answer.fault, (path, method)
        declared = {p["name"] for p in operation["parameters"] if p.get("in") == "query"}
        assert asked == declared, (path, method)


OPS = st.sampled_from(["add", "replace", "remove", "move", "test", 1, None])
PATHS = st.sampled_from(["/", "/name", "/a/b", "name", "", "//", "/~1", 7, None])


@given(
    st.lists(
        st.fixed_dictionaries(
            {}, optional={"op": OPS, "path": PATHS, "value": st.none() | st.integers()}
        )
        | st.sampled_from([[], 1, None, "x"])
    )
    | st.sampled_from([{}, None, 1, "x"])
)
def test_the_schema_of_a_patch_takes_what_the_code_takes(body):
    try:
        patch.parse(body)
    except exceptions.Invalid:
        assert not validation.fits(schemas.PATCH, body)
    else:
        assert validation.fits(schemas.PATCH, body)


_PRINT = """
from oslo_config import cfg
from deploysteps import conf as configuration
from deploysteps.api import app, call, openapi
conf = cfg.ConfigOpts()
configuration.register(conf)
configuration.setup(config_files=[], conf=conf)
print(openapi.document(app.resources(call.Services(conf, None, None))))
"""


def test_the_document_has_one_order_in_every_process():
    """Who keeps it in a repository sees what has changed, and nothing else."""
    told = [
        subprocess.run(
            [sys.executable, "-c", _PRINT],
            env={**os.environ, "PYTHONHASHSEED": seed},
            check=True,
            capture_output=True,
        ).stdout
        for seed in ("1", "2")
    ]
    assert told[0] == told[1] and len(told[0]) > 10_000


def properties(schema, owner):
    """Yield (owner, name, schema) of every property in a schema."""
    if isinstance(schema, list):
        for inner in schema:
            yield from properties(inner, owner)
    if not isinstance(schema, dict):
        return
    for name, inner in schema.get("properties", {}).items():
        yield owner, name, inner
    for keyword, inner in schema.items():
        inside = list(inner.values()) if keyword == "properties" else inner
        yield from properties(inside, owner)


def test_every_field_says_what_it_means(document):
    """And no meaning is left of a field that is gone."""
    there = [
        found
        for name, schema in document["components"]["schemas"].items()
        for found in properties(schema, name)
    ]
    assert {name for _, name, schema in there if not schema.get("description")} == set()
    assert set(descriptions._FIELDS) <= {name for _, name, _ in there}
    assert set(descriptions._IN) <= {(owner, name) for owner, name, _ in there}
    node = document["components"]["schemas"]["NodeBody"]["properties"]
    assert node["chassis_uuid"]["description"] == "The chassis that the node is in. It is a UUID."


@pytest.mark.parametrize(
    ("schema", "field", "words"),
    [
        ("IndicatorState", "state", "light"),
        ("IndicatorBody", "state", "light"),
        ("Indicator", "states", "light"),
        ("HistoryEntry", "state", "before it happened"),
        ("HistoryEntry", "duration_seconds", "had been in that state"),
        ("Allocation", "node_uuid", "was taken"),
        ("Node", "deploy_step", "null:"),
        ("Node", "clean_step", "null:"),
    ],
)
def test_a_field_that_means_something_else_elsewhere_says_what_it_means_there(
    document, schema, field, words
):
    found = document["components"]["schemas"][schema]["properties"][field]
    assert words in found["description"]
