"""Traits of nodes."""

from __future__ import annotations

import pytest

from deploysteps import exceptions
from deploysteps.db import nodes, traits
from tests.support_api import Api, Refusing, quoted

PATH = "/v1/nodes/n1/traits"


@pytest.fixture(autouse=True)
def _node(node):
    return node


def asked(conductor):
    ((verb, args, named),) = conductor.calls
    conductor.calls.clear()
    assert verb == "update_node_traits"
    return args, named


def test_traits_are_listed_and_shown_with_the_node(api, sqlite, node):
    assert api.get(PATH).body == {"traits": []}
    other = nodes.insert(sqlite, {"driver": "x", "provision_state": "enroll"})
    traits.replace(sqlite, node.id, ["HW_CPU_X86_VMX", "CUSTOM_A"])
    traits.replace(sqlite, other.id, ["CUSTOM_B"])
    assert api.get(PATH).body == {"traits": ["CUSTOM_A", "HW_CPU_X86_VMX"]}
    assert api.get("/v1/nodes/n1").body["traits"] == ["CUSTOM_A", "HW_CPU_X86_VMX"]
    for path in ("/v1/nodes/detail", "/v1/nodes?fields=traits"):
        shown = [item["traits"] for item in api.get(path).body["nodes"]]
        assert shown == [["CUSTOM_A", "HW_CPU_X86_VMX"], ["CUSTOM_B"]]


def test_traits_are_changed_by_the_conductor(api, conductor, node):
    for answer, named in (
        (api.put(PATH, {"traits": ["CUSTOM_B", "CUSTOM_A", "CUSTOM_B"]}),
         {"replace": ["CUSTOM_B", "CUSTOM_A"]}),
        (api.put(PATH, {"traits": []}), {"replace": []}),
        (api.delete(PATH), {"replace": []}),
        (api.put(f"{PATH}/CUSTOM_A"), {"add": ["CUSTOM_A"]}),
        (api.delete(f"{PATH}/CUSTOM_A"), {"remove": ["CUSTOM_A"]}),
    ):  # fmt: skip
        assert (answer.status, answer.text) == (204, "")
        name, args, given = conductor.calls.pop(0)
        assert (name, args, given) == ("update_node_traits", (node.uuid,), named)


def test_the_place_of_a_trait_is_told(api):
    answer = api.put(f"{PATH}/CUSTOM_A")
    assert answer.headers["location"].endswith("/v1/nodes/n1/traits/CUSTOM_A")


@pytest.mark.parametrize(
    "body",
    [None, [], {}, {"traits": None}, {"traits": "CUSTOM_A"}, {"traits": [5]}, {"zzz": []},
     {"traits": ["bad-name"]}, {"traits": ["custom_a"]}, {"traits": [""]}, {"traits": ["\0"]},
     {"traits": ["CUSTOM_" + "X" * 250]}, {"traits": [f"CUSTOM_{n}" for n in range(51)]}],
)  # fmt: skip
def test_a_list_that_is_none_is_400(api, conductor, body):
    assert api.put(PATH, body).status == 400
    assert conductor.calls == []


@pytest.mark.parametrize("name", ["bad-name", "custom_a", "CUSTOM_", "A b", "\ud800", "X" * 256])
def test_a_name_that_cannot_be_a_traits_is_400(api, conductor, name):
    assert api.put(f"{PATH}/{quoted(name)}").status == 400
    assert conductor.calls == []


def test_a_single_trait_is_added_without_a_body(api, conductor):
    assert "without a body" in api.put(f"{PATH}/CUSTOM_A", {"traits": []}).fault
    assert api.put(f"{PATH}/CUSTOM_A", raw=b"{").status == 400
    assert conductor.calls == []


def test_what_is_not_there_is_404(conf, sqlite, node):
    gone = exceptions.NodeTraitNotFound(node=node.uuid, trait="CUSTOM_A")
    api = Api(conf, sqlite, Refusing(gone))
    assert api.delete(f"{PATH}/CUSTOM_A").status == 404
    for method in ("GET", "PUT", "DELETE"):
        assert api(method, "/v1/nodes/nope/traits").status == 404
    assert api.get(f"{PATH}?zzz=1").status == 400
    assert api.get(f"{PATH}/CUSTOM_A").status == 405
