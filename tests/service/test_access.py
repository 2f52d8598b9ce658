"""``deploysteps serve`` as a process that asks who is there, with and without TLS (issue 4, 3)."""

from __future__ import annotations

import time

import bcrypt
import pytest
import requests

from deploysteps.cli.client import Client, node_path
from deploysteps.cli.errors import CommandError
from deploysteps.cli.local_service import LocalService
from deploysteps.cli.login import Login
from tests.service.test_serve import command, log_of, wait_for
from tests.support_tls import certificate

ALICE = Login(auth_type="http_basic", username="alice", password="secret")


def line(user, password):
    return f"{user}:{bcrypt.hashpw(password.encode(), bcrypt.gensalt(6)).decode()}\n"


@pytest.fixture
def service(tmp_path):
    """Starts a service with users, and these settings of ``[api]``."""
    users = tmp_path / "htpasswd"
    users.write_text(line("alice", "secret") + line("rita", "reads"))
    made = []

    def start(login=ALICE, **api):
        own = {"http_basic_roles": "rita:reader", **api}
        settings = {
            "DEFAULT": {"auth_strategy": "http_basic", "http_basic_auth_user_file": users},
            "api": own,
        }
        one = LocalService(tmp_path, settings)
        endpoint = one.client.endpoint
        if own.get("enable_ssl_api"):
            endpoint = endpoint.replace("http://", "https://")
        one.client = Client(endpoint, login)
        made.append(one)
        one.start()
        return one

    start.users = users
    yield start
    for one in made:
        one.kill()


def status(running, user, password):
    return requests.get(
        f"{running.client.endpoint}/v1/nodes", auth=(user, password), timeout=20
    ).status_code


def test_users_of_a_file_and_their_roles(service):
    running = service()
    assert "authentication by http_basic" in log_of(running)
    endpoint = running.client.endpoint
    assert requests.get(f"{endpoint}/v1/nodes", timeout=20).status_code == 401
    assert requests.get(f"{endpoint}/", timeout=20).status_code == 200
    assert requests.get(f"{endpoint}/healthz", timeout=20).status_code == 200
    running.client.post("/v1/nodes", {"driver": "fake-hardware", "name": "n"})
    reader = Client(endpoint, Login(auth_type="http_basic", username="rita", password="reads"))
    assert reader.get(node_path("n"))["name"] == "n"
    with pytest.raises(CommandError, match=r"baremetal:node:create.*HTTP 403"):
        reader.post("/v1/nodes", {"driver": "fake-hardware"})
    told = log_of(running)
    assert " alice POST /v1/nodes 201 " in told and " rita POST /v1/nodes 403 " in told
    for secret in ("secret", "reads"):
        assert secret not in told


def test_the_users_are_read_again_while_it_runs(service):
    running = service()
    assert status(running, "alice", "secret") == 200
    service.users.write_text(line("alice", "other"))
    assert status(running, "alice", "secret") == 401
    assert status(running, "alice", "other") == 200
    assert status(running, "rita", "reads") == 401
    service.users.write_text("broken")
    assert status(running, "alice", "other") == 200
    wait_for(lambda: "The users of before stay" in log_of(running), "told in the log")


def test_guessing_passwords_keeps_nobody_out(service):
    """A flood of wrong passwords, and who is known is answered all the same."""
    import concurrent.futures

    running = service(threads=8)
    assert status(running, "alice", "secret") == 200
    with concurrent.futures.ThreadPoolExecutor(16) as pool:
        guesses = [pool.submit(status, running, "alice", f"guess-{n}") for n in range(200)]
        took = []
        while not all(guess.done() for guess in guesses):
            begun = time.monotonic()
            assert status(running, "alice", "secret") == 200
            took.append(time.monotonic() - begun)
    assert {guess.result() for guess in guesses} <= {401, 503}
    assert max(took) < 30


def test_the_command_takes_user_and_password_from_the_environment(service, tmp_path):
    running = service()
    env = {"OS_ENDPOINT": running.client.endpoint, "OS_AUTH_TYPE": "http_basic"}
    good = command(tmp_path, "node", "list", OS_USERNAME="alice", OS_PASSWORD="secret", **env)
    assert good.returncode == 0, good.stderr
    bad = command(tmp_path, "node", "list", OS_USERNAME="alice", OS_PASSWORD="wrong", **env)
    assert (
        "Incorrect username or password" in bad.stderr and "wrong" not in bad.stderr.split("(")[0]
    )


def test_https_and_the_command_that_trusts_its_certificate(service, tmp_path):
    cert, key = certificate(tmp_path)
    login = Login(**{**vars_of(ALICE), "cacert": str(cert)})
    running = service(login, enable_ssl_api=True, cert_file=cert, key_file=key)
    endpoint = running.client.endpoint
    assert endpoint.startswith("https://") and f"serves {endpoint}" in log_of(running)
    env = {
        "OS_ENDPOINT": endpoint,
        "OS_AUTH_TYPE": "http_basic",
        "OS_USERNAME": "alice",
        "OS_PASSWORD": "secret",
    }
    assert command(tmp_path, "--cacert", cert, "node", "list", **env).returncode == 0
    assert command(tmp_path, "node", "list", **env, OS_CACERT=str(cert)).returncode == 0
    loose = command(tmp_path, "--insecure", "node", "list", **env)
    assert loose.returncode == 0 and "Warning" not in loose.stderr
    strange = command(tmp_path, "node", "list", **env)
    assert strange.returncode != 0 and "--cacert" in strange.stderr


def vars_of(login):
    import dataclasses

    return dataclasses.asdict(login)


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        ({"OS_DEFAULT__AUTH_STRATEGY": "http_basic"}, "http_basic_auth_user_file"),
        ({"OS_API__ENABLE_SSL_API": "true"}, "[api] cert_file"),
        (
            {
                "OS_API__ENABLE_SSL_API": "true",
                "OS_API__CERT_FILE": "/no/such",
                "OS_API__KEY_FILE": "/no/such",
            },
            "[api] cert_file /no/such cannot be read",
        ),
        ({"OS_OSLO_POLICY__POLICY_FILE": "/no/such.yaml"}, "[oslo_policy] policy_file /no/such"),
        ({"OS_API__HTTP_BASIC_ROLES": "alice:boss"}, "http_basic_roles"),
        ({"OS_DEFAULT__AUTH_STRATEGY": "kerberos"}, "auth_strategy"),
    ],
)
def test_what_cannot_work_stops_the_start_in_one_line(tmp_path, environment, told):
    absent = {"OS_DEFAULT__HTTP_BASIC_AUTH_USER_FILE": str(tmp_path / "nobody")}
    ended = command(tmp_path, "serve", OS_API__PORT="0", **absent, **environment)
    errors = [one for one in ended.stderr.splitlines() if one.startswith("Error: ")]
    assert ended.returncode == 6, ended.stderr
    assert len(errors) == 1 and told in errors[0] and "Traceback" not in ended.stderr
    assert not (tmp_path / "var").exists() or not list((tmp_path / "var").iterdir()), "nothing ran"


def test_keystone_without_its_middleware_says_what_to_install(tmp_path):
    """Where it is installed, as in the tests' environment, an empty module stands before it."""
    (tmp_path / "keystonemiddleware.py").touch()
    wanted = {"OS_API__PORT": "0", "OS_DEFAULT__AUTH_STRATEGY": "keystone"}
    ended = command(tmp_path, "serve", PYTHONPATH=str(tmp_path), **wanted)
    assert ended.returncode == 6 and "deploysteps[keystone]" in ended.stderr


def test_users_may_come_from_everywhere_and_nobody_without_a_password(service):
    """What is refused is to listen for others without authentication."""
    running = service(host_ip="0.0.0.0")
    assert status(running, "alice", "secret") == 200
    assert "come to 0.0.0.0 without encryption" in log_of(running)
