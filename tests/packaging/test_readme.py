"""What the README says is tried: its programs run, its lists are those of the code."""

import os
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from deploysteps import conf
from deploysteps.cli.app import COMMANDS
from deploysteps.cli.client import node_path
from deploysteps.cli.errors import MEANINGS
from deploysteps.cli.local_service import LocalService
from tests.docs import blocks

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.rst").read_text()


def block(name):
    """Return the code block of this name."""
    return blocks.named(README, name)


def lines(code):
    return [line for line in code.splitlines() if line.strip()]


def run(folder, *args, env=None):
    return subprocess.run(
        [sys.executable, *args],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.fixture
def lamp(tmp_path):
    (tmp_path / "lamp.py").write_text(block("lamp.py"))
    (tmp_path / "test_lamp.py").write_text(block("test_lamp.py"))
    return tmp_path


def test_the_first_driver_passes_its_test(lamp):
    assert len(lines(block("lamp.py"))) <= 30
    found = run(lamp, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_lamp.py")
    assert found.returncode == 0, found.stdout


def test_the_first_driver_installs_and_deploys_a_node(lamp):
    for name in ("setup.cfg", "pyproject.toml"):
        (lamp / name).write_text(block(name))
    offline = ("--no-deps", "--no-build-isolation", "--no-index", "--quiet")
    made = run(lamp, "-m", "pip", "install", *offline, "--target", "installed", ".")
    assert made.returncode == 0, made.stdout + made.stderr
    elsewhere = lamp / "elsewhere"
    elsewhere.mkdir()
    enabled = re.search(r"enabled_hardware_types =\s+([\w,-]+)``", README)[1]
    (elsewhere / "deploysteps.conf").write_text(
        f"[DEFAULT]\nenabled_hardware_types = {enabled}\n[conductor]\nstep_poll_interval = 0.1\n"
    )
    installed = os.environ | {"PYTHONPATH": str(lamp / "installed")}
    listed = run(
        elsewhere, "-m", "deploysteps.cli", "steps", "list", "--driver", "lamp", env=installed
    )
    assert re.search(r"bios +lamp +true +light", listed.stdout), listed.stdout + listed.stderr
    program = block("embedded.py").replace("fake-hardware", "lamp")
    (elsewhere / "program.py").write_text(program)
    refused = run(elsewhere, "program.py", env=installed)
    assert "driver_info/address is not set" in refused.stderr.splitlines()[-1]
    program = program.replace('"name": "one"', '"name": "one", "driver_info": {"address": "a"}')
    program = program.replace('== "deploying"', 'in ("deploying", "wait call-back")')
    program += "    print(nodes.get(service.database, 'one').last_error)\n"
    (elsewhere / "program.py").write_text(program)
    found = run(elsewhere, "program.py", env=installed)
    assert found.stdout.splitlines() == ["active", "None"], found.stdout + found.stderr


def test_the_embedded_conductor_deploys_a_node_as_often_as_it_is_run(tmp_path):
    program = block("embedded.py")
    assert len(lines(program)) <= 15
    (tmp_path / "embedded.py").write_text(program)
    for _ in range(2):
        found = run(tmp_path, "embedded.py")
        assert found.stdout.splitlines() == ["active"], found.stderr


@pytest.mark.skipif(
    shutil.which("curl") is None and not os.environ.get("DEPLOYSTEPS_REQUIRE_SERVICES"),
    reason="there is no curl here",
)
def test_the_requests_are_answered(tmp_path):
    program = block("rest.sh")
    wanted = {"manage": "manageable", "provide": "available", "active": "active"}
    wanted["deleted"] = "available"
    with LocalService(tmp_path, {}) as service:
        program = program.replace("http://127.0.0.1:6385", service.client.endpoint)
        functions, *requests = re.split(r"^(?=metal \S)", program, flags=re.M)
        for request in requests:
            found = subprocess.run(
                ["bash", "-c", functions + request.replace("metal", "metal -w '%{http_code}'", 1)],
                capture_output=True,
                text=True,
                check=True,
            )
            assert re.search(r"2\d\d$", found.stdout), request + found.stdout
            if target := re.search('"target": "(\\w+)"', request):
                until = time.monotonic() + 120
                node = node_path("two")
                while service.client.get(node)["provision_state"] != wanted[target[1]]:
                    assert time.monotonic() < until, request
                    time.sleep(0.1)


CITED = sorted(set(re.findall(r"``(tests/[\w/]+\.py)::(\w+)``", README)))


@pytest.mark.parametrize(("path", "name"), CITED)
def test_the_tests_that_hold_the_promises_are_there(path, name):
    assert re.search(rf"^def {name}\(", (ROOT / path).read_text(), re.M)


def test_every_promise_is_held():
    table = README.partition("\nWhat it promises\n")[2].partition("\nHow it compares")[0]
    promises = table.split("\n   * - ")[2:]
    assert len(promises) >= 14
    for promise in promises:
        assert re.search(r"``tests/", promise), promise


def test_the_exit_codes_are_those_of_the_code():
    table = re.findall(r"^(\d+) +(.+)$", README, re.M)
    assert {int(code): told for code, told in table} == {int(c): t for c, t in MEANINGS.items()}


def test_every_setting_is_an_option():
    named = {
        (group.lower(), option.lower())
        for group, option in re.findall(r"``OS_([A-Z]+)__([A-Z_]+)``", README)
    }
    known = {(group.name.lower(), o.name) for group, options in conf.list_opts() for o in options}
    assert named - {("default", "debug")} <= known and named


def test_every_command_is_a_command():
    for name in re.findall(r"^ +deploysteps (\w+)", README, re.M):
        assert name in COMMANDS


def test_make_has_what_the_readme_names():
    makefile = (ROOT / "Makefile").read_text()
    named = re.findall(r"``make (\w+)``|^    make (\w+)", README, re.M)
    for target in {one or other for one, other in named}:
        assert re.search(rf"^{target}:", makefile, re.M), target


@pytest.mark.parametrize("link", sorted(set(re.findall(r"`[^`]+ <([^>`]+)>`_", README))))
def test_every_link_leads_somewhere(link):
    assert (ROOT / link).exists()
