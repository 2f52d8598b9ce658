"""Host and redirect safety, and what every answer says besides (issue 4, 3)."""

from __future__ import annotations

import json

import pytest
from falcon import testing

from deploysteps.api.app import create_app
from tests.support_api import Answer


@pytest.fixture
def ask(conf, sqlite, conductor, node):
    """Ask with these headers; settings are read when the application is made."""

    def asked(method="GET", path="/v1/nodes/n1", body=None, **headers):
        client = testing.TestClient(create_app(conf, sqlite, conductor))
        sent = {name.replace("_", "-"): value for name, value in headers.items()}
        sent.setdefault("X-OpenStack-Ironic-API-Version", "latest")
        data = None if body is None else json.dumps(body)
        return Answer(client.simulate_request(method, path, headers=sent, body=data))

    return asked


def base_of(answer):
    return answer.body["links"][0]["href"].partition("/v1/")[0]


@pytest.mark.parametrize(
    "host",
    [
        "metal.example.org",
        "metal.example.org.",
        "METAL:6385",
        "a_b-c.d",
        "127.0.0.1:6385",
        "[::1]",
        "[::1]:6385",
        "x" * 200,
    ],
)
def test_links_repeat_a_host_that_is_one(ask, host):
    assert base_of(ask(Host=host)) == f"http://{host}"


@pytest.mark.parametrize(
    "host",
    [
        "evil.org/path",
        "evil.org?x=",
        "evil.org#",
        "user@evil.org",
        "evil.org:80:80",
        "evil.org:99999",
        "evil.org:port",
        'evil.org"><script>',
        "evil org",
        "evil.org,metal",
        "[::1",
        "::1",
        "-evil",
        "x" * 300,
        "ev\u00efl.org",
        "[evil.org]",
        ".",
    ],
)
def test_a_host_that_is_none_is_400_and_not_repeated(ask, host):
    """What a client sends as Host comes back in links and Location."""
    for path in ("/", "/v1", "/v1/nodes/n1"):
        answer = ask(path=path, Host=host)
        assert answer.status == 400 and "Host" in answer.fault, path
        assert "evil" not in answer.text + str(answer.headers)


def test_only_allowed_hosts_are_served_when_they_are_named(ask, conf):
    conf.set_override("allowed_hosts", ["metal.example.org", ".internal", "[::1]"], group="api")
    for good in ("metal.example.org", "Metal.Example.Org:6385", "a.internal", "[::1]:80"):
        assert ask(Host=good).status == 200, good
    for bad in ("evil.org", "example.org", "internal", "metal.example.org.evil.org", "127.0.0.1"):
        answer = ask(Host=bad)
        assert answer.status == 400 and "[api] allowed_hosts" in answer.fault, bad
        assert bad not in answer.text


def test_the_public_endpoint_comes_before_any_host(ask, conf):
    conf.set_override("public_endpoint", "https://metal.example.org/baremetal/", group="api")
    conf.set_override("enable_proxy_headers_parsing", True, group="oslo_middleware")
    answer = ask(Host="evil.org", X_Forwarded_Host="evil.org")
    assert base_of(answer) == "https://metal.example.org/baremetal" and "evil" not in answer.text


FORWARDED = {
    "X_Forwarded_Proto": "https",
    "X_Forwarded_Host": "front.example.org",
    "X_Forwarded_Prefix": "/metal",
    "Forwarded": "host=evil.org;proto=https",
    "X_Original_Host": "evil.org",
}


def test_what_a_proxy_adds_is_believed_only_when_the_operator_says_so(ask, conf):
    assert base_of(ask(Host="metal:80", **FORWARDED)) == "http://metal:80"
    conf.set_override("enable_proxy_headers_parsing", True, group="oslo_middleware")
    assert base_of(ask(Host="metal:80", **FORWARDED)) == "https://front.example.org/metal"
    assert base_of(ask(Host="metal:80")) == "http://metal:80"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X_Forwarded_Host", "evil.org/"),
        ("X_Forwarded_Host", "user@evil.org"),
    ],
)
def test_a_forwarded_host_is_checked_as_well(ask, conf, name, value):
    conf.set_override("enable_proxy_headers_parsing", True, group="oslo_middleware")
    assert ask(Host="metal", **{name: value}).status == 400


@pytest.mark.parametrize("value", ["javascript", "file", "https://evil", ""])
def test_a_forwarded_scheme_is_http_or_https(ask, conf, value):
    conf.set_override("enable_proxy_headers_parsing", True, group="oslo_middleware")
    assert base_of(ask(Host="metal", X_Forwarded_Proto=value)) == "http://metal"


@pytest.mark.parametrize("value", ["//evil.org", "/a/../b?", "/a\\b", "evil", "/a b"])
def test_a_forwarded_prefix_is_a_path(ask, conf, value):
    conf.set_override("enable_proxy_headers_parsing", True, group="oslo_middleware")
    assert base_of(ask(Host="metal", X_Forwarded_Prefix=value)) == "http://metal"


def test_of_several_proxies_the_nearest_is_believed(ask, conf):
    """The first entries are the client's to write."""
    conf.set_override("enable_proxy_headers_parsing", True, group="oslo_middleware")
    answer = ask(Host="metal", X_Forwarded_Host="evil.org, front.org")
    assert base_of(answer) == "http://front.org"


@pytest.mark.parametrize(
    "path",
    ["/", "/v1", "/v1/", "/v1/nodes/", "//v1/nodes", "/v1//nodes", "/nodes/", "//evil.org/%2e%2e"],
)
def test_nothing_redirects(ask, path):
    for method in ("GET", "POST", "OPTIONS", "HEAD"):
        answer = ask(method, path)
        assert not 300 <= answer.status < 400, (method, path)
        assert "location" not in answer.headers


def test_locations_are_built_as_links_are(ask, node):
    answer = ask("PUT", "/v1/nodes/n1/states/power", {"target": "power on"}, Host="metal:1")
    assert answer.status == 202
    assert answer.headers["location"] == "http://metal:1/v1/nodes/n1/states"


def test_every_answer_keeps_browsers_and_caches_from_guessing(ask):
    for path in ("/", "/v1/nodes/n1", "/v1/nodes/nothing", "/nothing"):
        headers = ask(path=path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cache-control"] == "no-store"
        assert headers["x-frame-options"] == "DENY"
        assert "default-src 'none'" in headers["content-security-policy"]
        assert "strict-transport-security" not in headers, "only with TLS"
