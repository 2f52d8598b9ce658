"""Ports, drivers, conductors, configuration."""

import json
import socket

import pytest

NODE = "5d1a5b2c-6f1a-4b8a-9d51-000000000001"
PORT = {"uuid": "p-1", "address": "52:54:00:00:00:01", "node_uuid": NODE, "pxe_enabled": True}


def test_port_create_takes_the_nodes_name(stub, ok, made):
    stub.on("GET", "/v1/nodes/n", made.node())
    stub.on("POST", "/v1/ports", PORT, status=201)
    ok("port", "create", PORT["address"], "--node", "n", "--uuid", "p-1")
    assert stub.last("POST")["body"] == {
        "address": PORT["address"],
        "node_uuid": NODE,
        "uuid": "p-1",
    }


def test_ports_are_listed_shown_and_removed(stub, ok):
    stub.on("GET", "/v1/ports", {"ports": [PORT]})
    stub.on("GET", "/v1/ports/p-1", PORT)
    stub.on("DELETE", "/v1/ports/p-1", status=204)
    assert PORT["address"] in ok("port", "list", "--node", "n").stdout
    assert stub.last("GET")["query"]["node"] == "n"
    assert PORT["address"] in ok("port", "show", "p-1").stdout
    assert "deleted p-1" in ok("port", "delete", "p-1").stdout


def test_drivers_and_conductors(stub, ok):
    stub.on("GET", "/v1/drivers", {"drivers": [{"name": "fake-hardware", "hosts": ["a", "b"]}]})
    stub.on("GET", "/v1/drivers/fake-hardware/properties", {"address": "where it is"})
    stub.on("GET", "/v1/conductors", {"conductors": [{"hostname": "a", "alive": True}]})
    assert "a, b" in ok("driver", "list").stdout
    assert "where it is" in ok("driver", "properties", "fake-hardware").stdout
    assert "true" in ok("conductor", "list").stdout


def test_a_sample_has_every_option(ok):
    sample = ok("config", "sample").stdout
    for line in ("#port = 6385", "#enabled_hardware_types = fake-hardware", "#debug = false"):
        assert line in sample
    assert "[conductor]" in sample and "[database]" in sample
    assert "#host = <the machine's name>" in sample and socket.gethostname() not in sample.split()


def test_a_sample_as_json(ok):
    options = json.loads(ok("config", "sample", "--json").stdout)["options"]
    assert "api" in options and "conductor" in options


def test_the_sample_is_a_configuration(ok, tmp_path):
    (tmp_path / "deploysteps.conf").write_text(ok("config", "sample").stdout)
    assert "good" in ok("config", "check").stdout


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ("enabled_hardware_types = nosuch", "names 'nosuch', which is not installed"),
        ("auth_strategy = http_basic", "http_basic_auth_user_file"),
        ("[api]\nhost_ip = 0.0.0.0", "allow_public_noauth"),
        ("[api]\nenable_ssl_api = true\ncert_file = no\nkey_file = no", "cert_file no cannot"),
        ("[api]\nnetwork_data_schema = no.json", "network_data_schema: cannot read no.json"),
        ("[oslo_policy]\npolicy_file = no.yaml", "policy_file no.yaml"),
        ("[database]\nconnection = oracle://x", "'oracle' is not supported"),
        ("[database]\nconnection = sqlite:///a.conf", "a.conf is no SQLite database"),
    ],
)
def test_config_check_refuses_what_a_start_would_refuse(run, tmp_path, setting, told):
    (tmp_path / "a.conf").write_text(f"[DEFAULT]\n{setting}\n")
    ended = run("--config-file", "a.conf", "config", "check")
    assert ended.exit_code == 6 and told in ended.stderr


def test_config_check_names_files(ok, tmp_path):
    (tmp_path / "a.conf").write_text("[api]\nport = 1\n")
    assert "a.conf" in ok("--config-file", "a.conf", "config", "check").stdout
    assert json.loads(ok("config", "check", "--json").stdout) == {"files": [], "unknown": []}


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[api]\nport = x\n", "[api] port"),
        ("[api]\nprot = 1\n", "did you mean port?"),
        ("[apo]\nport = 1\n", "did you mean api?"),
        ("port = 1\n", "cannot be read"),
    ],
)
def test_config_check_refuses(run, tmp_path, text, told):
    (tmp_path / "a.conf").write_text(text)
    result = run("--config-file", "a.conf", "config", "check")
    assert result.exit_code == 6 and told in result.stderr and len(result.stderr.splitlines()) == 1
