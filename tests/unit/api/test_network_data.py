"""What ``network_data`` of a node may be."""

from __future__ import annotations

import json

import pytest

from deploysteps import exceptions
from deploysteps.api.app import create_app
from deploysteps.db import nodes
from tests.support_api import Api, Recording

MAC = "52:54:00:00:00:01"
PHY = {"id": "eth0", "type": "phy", "ethernet_mac_address": MAC, "mtu": 1500}
STATIC = {
    "id": "n0",
    "type": "ipv4",
    "link": "eth0",
    "ip_address": "192.0.2.7",
    "netmask": "255.255.255.0",
    "routes": [{"network": "0.0.0.0", "netmask": "0.0.0.0", "gateway": "192.0.2.1"}],
}
DNS = {"type": "dns", "address": "192.0.2.53"}


def data(links=(PHY,), networks=(STATIC,), **more):
    return {"links": list(links), "networks": list(networks), **more}


@pytest.fixture
def recording(node):
    return Recording(create_node=node, update_node=node)


@pytest.fixture
def client(conf, sqlite, recording):
    return Api(conf, sqlite, recording)


@pytest.mark.parametrize(
    "value",
    [
        {},
        data([], []),
        data(services=[DNS, {"type": "ntp", "address": "ntp.example.org"}]),
        data(
            [
                {**PHY, "type": "ovs", "vif_id": "x", "mtu": None},
                {
                    **PHY,
                    "id": "bond0",
                    "type": "bond",
                    "bond_links": ["eth0"],
                    "bond_mode": "802.3ad",
                },
                {"id": "v", "type": "vlan", "vlan_link": "bond0", "vlan_id": 9},
            ],
            [
                {"id": "a", "type": "ipv4_dhcp", "link": "v"},
                {"id": "b", "type": "ipv6_dhcpv6-stateless", "link": "v", "services": [DNS]},
                {"id": "c", "type": "ipv6", "link": "v", "ip_address": "2001:db8::7/64"},
            ],
            of_ours=1,
        ),
    ],
)
def test_what_describes_a_network_is_taken(client, recording, value):
    body = {"driver": "fake-hardware", "network_data": value}
    assert client.post("/v1/nodes", body).status == 201
    patch = [{"op": "add", "path": "/network_data", "value": value}]
    assert client.patch("/v1/nodes/n1", patch).status == 200
    assert recording.calls[0][1][-1]["network_data"] == value


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"links": []}, "'networks' is a required property in network_data"),
        ({"links": {}, "networks": []}, "network_data.links must be of type array"),
        (data([{**PHY, "type": "wlan"}]), "network_data.links[0].type must be one of phy, bridge"),
        (
            data([{"id": "e", "type": "phy"}]),
            "'ethernet_mac_address' is a required property in network_data.links[0]",
        ),
        (
            data([PHY, {**PHY, "ethernet_mac_address": "s3cret"}]),
            "network_data.links[1].ethernet_mac_address must be a MAC address",
        ),
        (
            data([{**PHY, "ethernet_mac_address": f"{MAC}\n"}]),
            "network_data.links[0].ethernet_mac_address must be a MAC address",
        ),
        (
            data([{"id": "b", "type": "bond"}]),
            "'bond_links' is a required property in network_data.links[0]",
        ),
        (
            data([{"id": "v", "type": "vlan", "vlan_link": "e", "vlan_id": 5000}]),
            "network_data.links[0].vlan_id must be at most 4095",
        ),
        (
            data(networks=[{"id": "n", "type": "ipv4", "link": "e"}]),
            "'ip_address' is a required property in network_data.networks[0]",
        ),
        (
            data(networks=[{**STATIC, "ip_address": "s3cret"}]),
            "network_data.networks[0].ip_address must be an IP address",
        ),
        (
            data(networks=[{**STATIC, "routes": [{"network": "0.0.0.0"}]}]),
            "'gateway' is a required property in network_data.networks[0].routes[0]",
        ),
        (data(services=[{"type": "dns"}]), "'address' is a required property in network_data.serv"),
        (data(services={}), "network_data.services must be of type array"),
    ],
)
def test_what_does_not_is_refused_with_its_place(client, recording, value, told):
    made = client.post("/v1/nodes", {"driver": "fake-hardware", "network_data": value})
    patch = [{"op": "add", "path": "/network_data", "value": value}]
    for answer in (made, client.patch("/v1/nodes/n1", patch)):
        assert answer.status == 400
        assert answer.fault.startswith("Schema error for node: ") and told in answer.fault
        assert "s3cret" not in answer.text
    assert recording.calls == []


def test_a_node_that_has_what_is_refused_now_is_changed_otherwise(client, sqlite, node):
    nodes.set_unlocked(sqlite, node.id, {"network_data": {"old": 1}})
    patch = [{"op": "add", "path": "/extra/a", "value": 1}]
    assert client.patch("/v1/nodes/n1", patch).status == 200


def test_a_schema_of_ones_own(conf, sqlite, recording, tmp_path):
    """One as the field's is: of no draft that is known, its parts named by references."""
    file = tmp_path / "schema.json"
    schema = {
        "$schema": "http://openstack.org/nova/network_data.json#",
        "id": "http://openstack.org/nova/network_data.json",
        "type": "object",
        "properties": {"vlan": {"$ref": "#/definitions/vlan"}},
        "definitions": {"vlan": {"type": "integer"}},
    }
    file.write_text(json.dumps(schema))
    conf.set_override("network_data_schema", str(file), group="api")
    client = Api(conf, sqlite, recording)
    for value, status in (({"vlan": 7}, 201), ({"vlan": "x"}, 400)):
        answer = client.post("/v1/nodes", {"driver": "fake-hardware", "network_data": value})
        assert answer.status == status
    assert "network_data.vlan must be of type integer" in answer.fault


def test_what_fits_none_of_several_forms_is_told_by_its_member(conf, sqlite, recording, tmp_path):
    file = tmp_path / "schema.json"
    vlan = {"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]}
    link = {"oneOf": [{"type": "string"}, vlan]}
    file.write_text(json.dumps({"properties": {"links": {"type": "array", "items": link}}}))
    conf.set_override("network_data_schema", str(file), group="api")
    made = {"driver": "fake-hardware", "network_data": {"links": [{"id": "s3cret"}]}}
    answer = Api(conf, sqlite, recording).post("/v1/nodes", made)
    assert answer.status == 400
    assert answer.fault == "Schema error for node: network_data.links[0].id must be of type integer"


def test_a_reference_that_leads_nowhere_is_told_with_its_setting(conf, sqlite, recording, tmp_path):
    file = tmp_path / "schema.json"
    file.write_text(json.dumps({"properties": {"links": {"$ref": "#/definitions/no"}}}))
    conf.set_override("network_data_schema", str(file), group="api")
    made = {"driver": "fake-hardware", "network_data": {"links": []}}
    answer = Api(conf, sqlite, recording).post("/v1/nodes", made)
    assert answer.status == 500 and recording.calls == []
    assert "[api] network_data_schema refers to /definitions/no" in answer.fault


@pytest.mark.parametrize("text", [None, "{", "[]", '{"type": "nothing"}'])
def test_a_schema_that_is_none_stops_the_service_at_its_start(conf, sqlite, tmp_path, text):
    file = tmp_path / "schema.json"
    if text is not None:
        file.write_text(text)
    conf.set_override("network_data_schema", str(file), group="api")
    with pytest.raises(exceptions.ConfigurationError, match="network_data_schema: .*schema.json"):
        create_app(conf, sqlite, Recording())
