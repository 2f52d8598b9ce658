"""Who the commands say they are, and whom they trust."""

import pytest

from deploysteps.cli.client import Client
from deploysteps.cli.errors import CommandError, ExitCode
from deploysteps.cli.login import Login

HERE = "http://127.0.0.1:1"


def sent(login):
    """Return the Authorization header of a request that would be sent."""
    import requests

    session = Client(HERE, login)._session
    return session.prepare_request(requests.Request("GET", HERE)).headers.get("Authorization")


def test_a_user_is_sent_only_when_it_is_said_how():
    """OS_USERNAME and OS_PASSWORD are in the environment of whoever uses OpenStack."""
    assert sent(Login(username="u", password="p")) is None
    assert sent(Login(auth_type="none", username="u", password="p")) is None
    assert sent(Login(auth_type="http_basic", username="u", password="p")) == "Basic dTpw"
    assert sent(Login(auth_type="http_basic", username="\u00fc", password="\u00e9"))


def test_passwords_in_netrc_are_not_sent(tmp_path, monkeypatch):
    netrc = tmp_path / "netrc"
    netrc.write_text("machine metal.example.org login u password p\n")
    monkeypatch.setenv("NETRC", str(netrc))
    import requests

    session = Client("http://metal.example.org")._session
    request = session.prepare_request(requests.Request("GET", "http://metal.example.org"))
    assert "Authorization" not in request.headers


@pytest.mark.parametrize(
    ("login", "told"),
    [
        (Login(auth_type="http_basic"), "OS_USERNAME and OS_PASSWORD"),
        (Login(auth_type="http_basic", username="u"), "OS_USERNAME and OS_PASSWORD"),
        (Login(auth_type="password"), "openstack token issue"),
        (Login(cacert="/no/such/file"), "/no/such/file"),
    ],
)
def test_a_login_that_is_not_whole_is_refused(login, told):
    with pytest.raises(CommandError) as refused:
        Client(HERE, login)
    assert told in refused.value.message and refused.value.code == ExitCode.USAGE


def test_a_password_is_not_shown():
    assert "hunter2" not in repr(Login(password="hunter2"))


def test_the_policy_is_printed_and_checked(ok, tmp_path, monkeypatch):
    text = ok("policy", "sample").stdout
    assert '#"baremetal:node:create": "' in text and "# Create nodes." in text
    assert '"baremetal:step:execute"' in ok("policy", "sample", "--json").stdout
    policy = tmp_path / "policy.yaml"
    policy.write_text(text)
    monkeypatch.setenv("OS_OSLO_POLICY__POLICY_FILE", str(policy))
    assert "good" in ok("policy", "check").stdout
    policy.write_text(text.replace('#"', '"'))
    assert "good" in ok("policy", "check").stdout, "the sample is a policy file"


def test_a_broken_policy_is_refused_by_name(run, tmp_path, monkeypatch):
    policy = tmp_path / "policy.yaml"
    policy.write_text('"baremetal:node:get": "role:a and"')
    monkeypatch.setenv("OS_OSLO_POLICY__POLICY_FILE", str(policy))
    ended = run("policy", "check")
    assert ended.exit_code == ExitCode.CONFIGURATION and "baremetal:node:get" in ended.stderr
