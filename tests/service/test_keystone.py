"""``auth_strategy = keystone`` with OpenStack's own middleware, and an Identity service's stand-in.

What the stand-in answers follows the Identity API, version 3: a version document, tokens for
the service itself, and what a caller's token says.
"""

from __future__ import annotations

import http.server
import json
import threading

import pytest
from falcon import testing

from deploysteps.api.access import Access
from deploysteps.api.app import create_app
from deploysteps.db import nodes
from tests.support_api import Answer, Recording

pytest.importorskip("keystonemiddleware")

FAR = "2099-01-01T00:00:00.000000Z"
SCOPES = {
    "system-admin": {"system": {"all": True}, "roles": ["admin", "member", "reader"]},
    "owner-reader": {"project": "project-a", "roles": ["reader"]},
    "other-reader": {"project": "project-b", "roles": ["reader"]},
    "other-admin": {"project": "project-b", "roles": ["admin", "member", "reader"]},
    "system-nobody": {"system": {"all": True}, "roles": ["service"]},
    "a-service": {"project": "service", "roles": ["service"]},
}


def token(name):
    """Return what the Identity service tells of a token."""
    scope = SCOPES[name]
    told = {
        "methods": ["password"],
        "user": {"id": f"id-of-{name}", "name": name, "domain": {"id": "default", "name": "D"}},
        "roles": [{"id": role, "name": role} for role in scope["roles"]],
        "expires_at": FAR,
        "issued_at": "2020-01-01T00:00:00.000000Z",
        "audit_ids": ["a"],
    }
    if "project" in scope:
        domain = {"id": "default", "name": "D"}
        told["project"] = {"id": scope["project"], "name": scope["project"], "domain": domain}
    else:
        told["system"] = scope["system"]
    return {"token": told}


class Identity(http.server.BaseHTTPRequestHandler):
    """The stand-in."""

    broken = False

    def answer(self, status, document, **headers):
        raw = json.dumps(document).encode()
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(raw)))
        self.end_headers()
        self.wfile.write(raw)

    def do_GET(self):
        if type(self).broken:
            return self.answer(500, {})
        if self.path.startswith("/v3/auth/tokens"):
            name = self.headers["X-Subject-Token"]
            return self.answer(200, token(name)) if name in SCOPES else self.answer(404, {})
        base = f"http://{self.headers['Host']}/v3/"
        version = {
            "id": "v3.14",
            "status": "stable",
            "updated": "2020-04-07T00:00:00Z",
            "links": [{"rel": "self", "href": base}],
            "media-types": [],
        }
        if self.path.rstrip("/") == "/v3":
            return self.answer(200, {"version": version})
        return self.answer(300, {"versions": {"values": [version]}})

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        own = token("system-admin")
        endpoint = {
            "id": "e",
            "interface": "public",
            "region": None,
            "region_id": None,
            "url": f"http://{self.headers['Host']}/v3",
        }
        service = {"id": "s", "type": "identity", "name": "keystone"}
        own["token"]["catalog"] = [
            {**service, "endpoints": [endpoint, {**endpoint, "interface": "internal", "id": "i"}]}
        ]
        self.answer(201, own, X_Subject_Token="the-service")

    def log_message(self, *args):
        pass


@pytest.fixture
def identity():
    handler = type("Handler", (Identity,), {})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    handler.address = f"http://127.0.0.1:{server.server_port}"
    yield handler
    server.shutdown()
    server.server_close()


@pytest.fixture
def ask(conf, sqlite, identity, tmp_path):
    path = tmp_path / "deploysteps.conf"
    path.write_text(
        "[DEFAULT]\nauth_strategy = keystone\n[keystone_authtoken]\n"
        f"auth_url = {identity.address}\nwww_authenticate_uri = {identity.address}\n"
        "auth_type = password\nusername = ironic\npassword = p\nproject_name = service\n"
        "user_domain_id = default\nproject_domain_id = default\nhttp_request_max_retries = 0\n"
    )
    from deploysteps import conf as configuration

    configuration.setup(config_files=[str(path)], conf=conf)
    configuration.check(conf)
    assert configuration.unknown(conf) == []
    nodes.insert(
        sqlite,
        {
            "name": "n1",
            "driver": "fake-hardware",
            "provision_state": "available",
            "owner": "project-a",
        },
    )
    recording = Recording()
    client = testing.TestClient(create_app(conf, sqlite, recording, Access.of(conf)))

    def asked(method, path, token=None, **headers):
        sent = {"X-OpenStack-Ironic-API-Version": "latest", **headers}
        if token is not None:
            sent["X-Auth-Token"] = token
        return Answer(client.simulate_request(method, path, headers=sent))

    return asked


def test_tokens_are_validated_and_say_who_it_is(ask):
    assert ask("GET", "/v1/nodes/n1", "system-admin").status == 200
    assert ask("GET", "/v1/nodes/n1", "owner-reader").status == 200
    assert ask("GET", "/v1/nodes/n1", "other-reader").status == 404
    assert ask("DELETE", "/v1/nodes/n1", "owner-reader").status == 403
    assert ask("DELETE", "/v1/nodes/n1", "system-admin").status == 204


def test_what_is_no_token_is_401_in_our_words(ask, identity):
    for wrong in (None, "nonsense", "the-service-2"):
        answer = ask("GET", "/v1/nodes", wrong)
        assert answer.status == 401 and "token" in answer.fault
        assert answer.headers["www-authenticate"] == f'Keystone uri="{identity.address}"'
    spoofed = {"X-Roles": "admin", "X-Identity-Status": "Confirmed", "X-User-Id": "u"}
    assert ask("GET", "/v1/nodes", None, **spoofed).status == 401


def test_the_token_of_a_service_lends_the_caller_no_scope(ask):
    """The middleware tells of both tokens' scopes by the same header."""
    for method in ("GET", "DELETE"):
        lent = ask(method, "/v1/nodes/n1", "other-admin", **{"X-Service-Token": "system-nobody"})
        assert lent.status == 404
    spoofed = ask("GET", "/v1/nodes/n1", "other-admin", **{"OpenStack-System-Scope": "all"})
    assert spoofed.status == 404
    kept = ask("GET", "/v1/nodes/n1", "system-admin", **{"X-Service-Token": "a-service"})
    assert kept.status == 200


def test_what_is_open_asks_no_identity_service(ask, identity):
    identity.broken = True
    for path in ("/", "/v1", "/healthz", "/v1/lookup"):
        assert ask("GET", path).status not in (401, 503), path


def test_an_identity_service_that_fails_is_503(ask, identity):
    identity.broken = True
    answer = ask("GET", "/v1/nodes", "system-admin")
    assert answer.status == 503 and "Identity service" in answer.fault
