"""The root command: help, JSON, exit codes, one line for every error."""

import json
import os
import socket
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from deploysteps import exceptions
from deploysteps.cli import app
from deploysteps.cli.errors import MEANINGS, CommandError, ExitCode, code_of_status


def every_command(group=app.cli, path=()):
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from every_command(command, (*path, name))
        else:
            yield (*path, name), command


COMMANDS = [pytest.param(path, command, id=" ".join(path)) for path, command in every_command()]


@pytest.mark.parametrize(("path", "command"), COMMANDS)
def test_every_command_has_help_and_json(path, command):
    result = CliRunner().invoke(app.cli, [*path, "--help"])
    assert result.exit_code == 0
    assert "--json" in result.output
    assert command.help and command.help.strip().splitlines()[0].endswith((".", ":"))


def test_the_commands_of_the_issue_are_there():
    names = {" ".join(path) for path, _ in every_command()}
    assert names >= {
        "serve",
        "db upgrade",
        "db downgrade",
        "db version",
        *(f"node {verb}" for verb in ("create", "list", "show", "deploy", "watch", "runs")),
        *(f"node {verb}" for verb in ("manage", "provide", "undeploy", "rebuild", "abort")),
        *(f"node {verb}" for verb in ("steps", "power", "maintenance", "delete", "validate")),
        *(f"node {verb}" for verb in ("clean", "service", "unhold", "resume", "plan", "unlock")),
        *(f"node traits {verb}" for verb in ("list", "add", "set", "remove", "clear")),
        *(
            f"{kind} {verb}"
            for kind in ("template", "runbook")
            for verb in ("create", "list", "show", "set", "delete")
        ),
        "port create",
        "port list",
        "driver list",
        "conductor list",
        "steps list",
        "demo",
        "config sample",
        "config check",
    }


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["node", "deploy"], "priority and args, all four required"),
        (["node", "deploy"], "Priority 0 disables a step"),
        (["node", "deploy"], "[default: 0; x>=0]"),
        (["node", "watch"], "[default: 0; x>=0]"),
        (["node", "set"], "VALUE is JSON, or else a text"),
    ],
)
def test_the_help_tells_what_people_stumble_over(args, told):
    helped = " ".join(CliRunner().invoke(app.cli, [*args, "--help"]).output.split())
    assert told in helped


def test_the_help_tells_every_exit_code():
    told = " ".join(CliRunner().invoke(app.cli, ["--help"]).output.split())
    for code, meaning in MEANINGS.items():
        assert f"{code:d} {meaning}" in told
    assert set(MEANINGS) == set(ExitCode)


def test_without_a_command_it_helps():
    result = CliRunner().invoke(app.cli, [])
    assert result.exit_code == ExitCode.USAGE
    assert "node" in result.stderr and "serve" in result.stderr


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (["nod"], "No such command 'nod'"),
        (["node", "listt"], "see `deploysteps node --help`"),
        (["node", "show"], "Missing argument 'NODE'"),
        (["node", "create"], "--driver"),
        (["node", "power", "n", "sideways"], "sideways"),
        (["node", "list", "--limit", "0"], "--limit"),
    ],
)
def test_wrong_usage_is_one_line(failing, args, told):
    code, line = failing(*args)
    assert code == ExitCode.USAGE
    assert told in line


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, 2), (404, 3), (405, 2), (406, 2), (409, 4), (413, 2), (500, 1), (503, 4)],
)
def test_each_status_has_its_code(stub, failing, status, code):
    stub.on_error("GET", "/v1/nodes/x", status, "some\nwords \x1b[31mred")
    found, line = failing("node", "show", "x")
    assert found == code == code_of_status(status)
    assert line == f"Error: some words  [31mred (HTTP {status})"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"<html>", "Internal Server Error"),
        (b"", "Internal Server Error"),
        ({"error_message": {"title": "T"}}, "T (HTTP 500)"),
        ({"error_message": '{"description": "D"}'}, "D (HTTP 500)"),
        ({"error_message": "no json"}, "no json"),
        ([1], "[1]"),
    ],
)
def test_any_form_of_error_has_words(stub, failing, body, told):
    stub.on("GET", "/v1/nodes/x", body, status=500)
    assert told in failing("node", "show", "x")[1]


def test_a_service_that_is_not_there(failing):
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        endpoint = f"http://user:secret@127.0.0.1:{free.getsockname()[1]}"
        code, line = failing("node", "list", env={"OS_ENDPOINT": endpoint})
    assert code == ExitCode.UNREACHABLE
    assert "deploysteps serve" in line and "secret" not in line


@pytest.mark.parametrize("endpoint", ["ftp://x", "127.0.0.1:6385", "http://", "no", "x://u:pw@h"])
def test_an_endpoint_that_is_none(failing, endpoint):
    code, line = failing("--endpoint", endpoint, "node", "list")
    assert code == ExitCode.USAGE
    assert "OS_ENDPOINT" in line and "pw" not in line


def test_an_answer_that_is_no_json(stub, failing):
    stub.on("GET", "/v1/nodes/x", b"hello")
    assert "no JSON" in failing("node", "show", "x")[1]


@pytest.mark.parametrize("ending", ["", "/", "/v1", "/v1/"])
def test_the_endpoint_may_end_as_people_write_it(stub, run, made, ending):
    stub.on("GET", "/v1/nodes/x", made.node())
    result = run("node", "show", "x", env={"OS_ENDPOINT": stub.endpoint + ending})
    assert result.exit_code == 0
    assert stub.last("GET")["headers"]["X-OpenStack-Ironic-API-Version"] == "latest"


@pytest.mark.parametrize(
    ("raised", "code", "told"),
    [
        (CommandError("words"), 1, "words"),
        (exceptions.ConfigurationError("bad option"), 6, "bad option"),
        (exceptions.DatabaseVersionError("run upgrade"), 6, "run upgrade"),
        (exceptions.DatabaseUnavailable("no database"), 5, "no database"),
        (exceptions.DriverNotFound(driver_name="x"), 3, "x"),
        (ZeroDivisionError("zero"), 1, "unexpected ZeroDivisionError: zero; run with --debug"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_each_error_has_its_code(failing, monkeypatch, raised, code, told):
    def broken(self, *args, **kwargs):
        raise raised

    monkeypatch.setattr(app.Client, "get", broken)
    found, line = failing("node", "show", "x")
    assert found == code
    assert told in line


def test_debug_shows_where(run, monkeypatch):
    def broken(self, *args, **kwargs):
        raise ZeroDivisionError

    monkeypatch.setattr(app.Client, "get", broken)
    result = run("--debug", "node", "show", "x")
    assert result.exit_code == 1
    assert "Traceback" in result.stderr and "--debug" not in result.stderr.splitlines()[-1]


@pytest.mark.parametrize(
    ("raised", "code"), [(SystemExit(7), 7), (SystemExit(), 0), (SystemExit("x"), 1)]
)
def test_an_exit_is_passed_on(monkeypatch, raised, code):
    assert app._tell(raised, debug=False) == code


@pytest.mark.parametrize("command", [("config", "sample"), ("node", "steps", "x", "--json")])
def test_a_reader_that_went_away_is_no_failure(stub, command):
    stub.on("GET", "/v1/nodes/x/steps", {"steps": [{"step": "y" * 70_000}]})
    end, begin = os.pipe()
    os.close(end)
    ended = subprocess.run(
        [sys.executable, "-m", "deploysteps.cli", *command],
        stdout=begin,
        stderr=subprocess.PIPE,
        env={**os.environ, "OS_ENDPOINT": stub.endpoint},
    )
    os.close(begin)
    assert (ended.returncode, ended.stderr) == (0, b"")


def test_a_full_disk_is_told(stub, made):
    stub.on("GET", "/v1/nodes/x", made.node())
    with open("/dev/full", "wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "deploysteps.cli", "node", "show", "x"],
            stdout=full,
            stderr=subprocess.PIPE,
            env={**os.environ, "OS_ENDPOINT": stub.endpoint},
        )
    assert ended.returncode == 1 and b"cannot be written: No space left" in ended.stderr


@pytest.mark.parametrize("name", ["", ".", ".."])
@pytest.mark.parametrize(
    "command",
    [
        ("node", "show"),
        ("node", "delete"),
        ("node", "traits", "remove", "n"),
        ("port", "delete"),
        ("runbook", "traits", "remove", "r"),
        ("node", "vifs", "detach", "n"),
        ("conductor", "show"),
        ("driver", "show"),
    ],
)
def test_a_name_never_leads_to_what_is_above_it(stub, failing, command, name):
    assert failing(*command, name) == (ExitCode.USAGE, f"Error: {name!r} is no name and no uuid")
    assert stub.asked == []


PAGE = b"""<html>
<head><title>502 Bad Gateway</title></head>
<body><center><h1>502 Bad Gateway</h1></center><hr><center>nginx</center></body>
</html>"""


@pytest.mark.parametrize("status", [502, 503, 504])
def test_a_proxys_page_is_told_in_its_own_few_words(stub, failing, status):
    stub.on("GET", "/v1/nodes/x", PAGE.replace(b"502", b"%d" % status), status=status)
    code, line = failing("node", "show", "x")
    assert code == ExitCode.UNREACHABLE
    assert line.endswith(f"does not answer; the proxy there says: {status} Bad Gateway")


def test_a_page_without_a_title_is_told_without_its_tags(stub, failing):
    stub.on("GET", "/v1/nodes/x", b"<p>go &amp; <b>away</b>\n<style>x{}</style>", status=403)
    assert failing("node", "show", "x")[1] == "Error: go & away (HTTP 403)"


@pytest.mark.parametrize("answer", [[], "x", 1, b"null", {"other": []}])
@pytest.mark.parametrize("command", [("node", "list"), ("node", "steps", "x"), ("driver", "list")])
def test_an_answer_that_is_not_the_services_is_told(stub, failing, answer, command):
    for path in ("/v1/nodes", "/v1/nodes/x/steps", "/v1/drivers"):
        stub.on("GET", path, answer)
    code, line = failing(*command)
    assert code == ExitCode.FAILED and line.endswith("is OS_ENDPOINT the bare-metal service?")


def test_events_end_at_once_where_there_are_none_to_come(stub, failing):
    stub.on("GET", "/v1/events/stream", b"<html>hello</html>")
    assert "is no stream of events" in failing("events", "--count", "1")[1]


def test_a_login_that_is_not_taken_says_what_was_sent(stub, failing):
    stub.on_error("GET", "/v1/nodes/x", 401, "Invalid")
    env = {"OS_AUTH_TYPE": "http_basic", "OS_USERNAME": "me", "OS_PASSWORD": "old"}
    assert "OS_PASSWORD were sent" in failing("node", "show", "x", env=env)[1]
    env = {"OS_AUTH_TYPE": "v3token", "OS_TOKEN": "old"}
    assert "tokens expire" in failing("node", "show", "x", env=env)[1]


@pytest.mark.parametrize("part", ["runs", "steps"])
def test_another_server_of_this_api_is_told_from_a_node_that_is_not_there(
    stub, failing, made, part
):
    stub.on_error("GET", f"/v1/nodes/x/{part}", 404, "The resource could not be found.")
    stub.on_error("GET", "/v1/nodes/x", 404, "Node x could not be found.")
    assert "another server" not in failing("node", part, "x")[1]
    stub.on("GET", "/v1/nodes/x", made.node())
    code, line = failing("node", part, "x")
    assert code == ExitCode.NOT_FOUND and f"has no {part} to ask for: it is another server" in line


@pytest.mark.parametrize("asked", [(), ("--node", "x")])
def test_a_server_without_a_stream_is_told_from_a_node_that_is_not_there(
    stub, failing, made, asked
):
    stub.on_error("GET", "/v1/events/stream", 404, "Node x could not be found.")
    stub.on("GET", "/v1/nodes/x", made.node())
    code, line = failing("events", *asked)
    assert code == ExitCode.NOT_FOUND and "has no stream to ask for" in line
    stub.on_error("GET", "/v1/nodes/x", 404, "Node x could not be found.")
    code, line = failing("events", "--node", "x")
    assert (code, line) == (ExitCode.NOT_FOUND, "Error: Node x could not be found. (HTTP 404)")


def test_json_goes_to_stdout_alone(stub, ok, made):
    stub.on("GET", "/v1/nodes/x", made.node(name="ü"))
    result = ok("node", "show", "x", "--json")
    assert json.loads(result.stdout)["name"] == "ü"
    assert result.stderr == ""
