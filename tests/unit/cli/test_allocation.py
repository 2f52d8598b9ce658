"""``deploysteps allocation``."""

from __future__ import annotations

import json

ONE = {
    "uuid": "c2ab0b1e-1f7b-4c1e-9d7a-1a53d7b3f60a",
    "name": "a",
    "resource_class": "big",
    "state": "active",
    "node_uuid": "n",
}


def test_one_is_asked_for(stub, ok):
    stub.on("POST", "/v1/allocations", {**ONE, "state": "allocating"}, status=201)
    shown = ok(
        "allocation", "create", "--resource-class", "big", "--name", "a", "--trait", "CUSTOM_A",
        "--candidate-node", "n1", "--candidate-node", "n2",
    )  # fmt: skip
    assert "allocating" in shown.stdout
    assert stub.last("POST")["body"] == {
        "resource_class": "big",
        "name": "a",
        "traits": ["CUSTOM_A"],
        "candidate_nodes": ["n1", "n2"],
    }


def test_they_are_listed_shown_and_given_up(stub, ok):
    stub.on("GET", "/v1/allocations", {"allocations": [ONE]})
    stub.on("GET", "/v1/allocations/a", ONE)
    stub.on("DELETE", "/v1/allocations/a", status=204)
    assert "big" in ok("allocation", "list").stdout
    assert json.loads(ok("allocation", "show", "a", "--json").stdout) == ONE
    assert "deleted" in ok("allocation", "delete", "a").stdout
