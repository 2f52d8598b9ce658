"""Every method that a resource answers is declared, and nothing else is (issue 4, OpenAPI)."""

from __future__ import annotations

import falcon
import pytest

from deploysteps.api.app import create_app


def served(conf):
    """Return path -> resource of everything that the application routes."""
    found = {}
    waiting = list(create_app(conf, None, None)._router._roots)  # type: ignore[arg-type]
    while waiting:
        node = waiting.pop()
        waiting += node.children
        if node.resource is not None:
            found[node.uri_template] = node.resource
    return found


def methods(resource) -> set[str]:
    return {name for name in falcon.COMBINED_METHODS if hasattr(resource, f"on_{name.lower()}")}


def test_every_method_has_an_operation_and_every_operation_a_method(conf):
    found = served(conf)
    assert {"/", "/v1", "/v1/nodes", "/nodes", "/v1/nodes/{ident}/traits/{trait}"} <= set(found)
    wrong = {
        path: (sorted(resource.operations), sorted(methods(resource)))
        for path, resource in found.items()
        if set(resource.operations) != methods(resource)
    }
    assert not wrong


def test_what_is_public_are_the_version_documents(conf):
    public = {
        (path, method)
        for path, resource in served(conf).items()
        for method, operation in resource.operations.items()
        if operation.rule is None
    }
    documents = {"/", "/v1", "/openapi.json", "/healthz", "/readyz"}
    assert public == {(path, "GET") for path in documents}


@pytest.mark.parametrize("word", ["list", "get", "create", "update", "delete"])
def test_the_rules_of_nodes_have_the_names_of_the_field(conf, word):
    rules = {
        operation.rule
        for path, resource in served(conf).items()
        if path in ("/v1/nodes", "/v1/nodes/{ident}")
        for operation in resource.operations.values()
    }
    assert f"baremetal:node:{word}" in rules
