"""``deploysteps serve`` as a process: start, refusals, signals, restart."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import requests

from deploysteps.cli import demo as shown
from deploysteps.cli import local_service
from deploysteps.cli.client import node_path
from deploysteps.cli.local_service import LocalService
from deploysteps.db import conductors
from deploysteps.db.engine import Database

COMMAND = [sys.executable, "-m", "deploysteps.cli"]
QUICK = {"conductor": {"recovery_interval": 0.5, "graceful_shutdown_timeout": 30}}


def command(folder, *args, **environment):
    return subprocess.run(
        [*COMMAND, *args],
        cwd=folder,
        env=local_service._environment() | environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def wait_for(condition, what, seconds=60.0):
    until = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < until, what
        time.sleep(0.05)


def log_of(service):
    return service.log.read_text()


@pytest.fixture
def service(tmp_path):
    """Makes services in the test's folder; what is left running is killed."""
    made = []

    def make(settings=QUICK):
        one = LocalService(tmp_path, settings)
        made.append(one)
        return one

    yield make
    for one in made:
        one.kill()


def enrol(client, name="n", **driver_info):
    client.post("/v1/nodes", {"driver": "fake-hardware", "name": name, "driver_info": driver_info})
    for target, state in (("manage", "manageable"), ("provide", "available")):
        client.put(node_path(name, "states", "provision"), {"target": target})
        wait_for(lambda state=state: client.get(node_path(name))["provision_state"] == state, state)


def deploy(client, name="n", **more):
    client.put(node_path(name, "states", "provision"), {"target": "active", **more})


def state_of(client, name="n"):
    return client.get(node_path(name))["provision_state"]


def test_it_starts_tells_and_stops(service):
    with service() as running:
        assert running.client.get("/v1/drivers")["drivers"][0]["name"] == "fake-hardware"
        told = log_of(running)
        assert running.client.endpoint in told and "deploysteps.sqlite" in told
        assert "NO authentication" in told
        process = running._process
    assert process.returncode == 0
    assert "Traceback" not in log_of(running)


def test_ctrl_c_stops_it_too(service):
    with service() as running:
        running._process.send_signal(signal.SIGINT)
        assert running._process.wait(60) == 0


def test_it_starts_again_at_once_with_the_same_name_and_port(service):
    """F48, F55: after a kill as after a stop, everything is there."""
    with service() as running:
        enrol(running.client)
        for end in (running.stop, running.kill):
            end()
            running.start()
            assert state_of(running.client) == "available"


def test_who_asks_while_it_starts_is_answered_in_full_and_keeps_his_lock(service):
    """F48, F91: asked from the first moment on, with a lock of before in the way."""
    with service() as running:
        enrol(running.client, fake_delay={"deploy.deploy": 60})
        enrol(running.client, "early", fake_delay={"deploy.deploy": 2})
        deploy(running.client)
        wait_for(lambda: state_of(running.client) == "deploying", "deploying")
        running.kill()
        asker = Early(running.client.endpoint)
        asker.start()
        running.start()
        wait_for(lambda: asker.accepted, "a deployment that was asked for early")
        wait_for(lambda: state_of(running.client, "early") == "active", "it ran to its end")
        wait_for(lambda: state_of(running.client) == "deploy failed", "the lock of before is gone")
        asker.stop()
        told = running.client.get("/v1/drivers")
        assert asker.refused, "it was asked before it listened"
        assert asker.drivers and all(one == told for one in asker.drivers)
        assert True in asker.ready and asker.ready == sorted(asker.ready), "ready, and stays so"


class Early(threading.Thread):
    """Asks a service again and again, long before it listens."""

    def __init__(self, endpoint):
        super().__init__(daemon=True)
        self._endpoint, self._done = endpoint, threading.Event()
        self._session = requests.Session()
        self._session.headers["X-OpenStack-Ironic-API-Version"] = "latest"
        self.refused, self.accepted = 0, False
        self.drivers, self.ready = [], []

    def run(self):
        while not self._done.wait(0.01):
            try:
                self._ask()
            except requests.ConnectionError:
                self.refused += 1

    def _ask(self):
        ready = self._session.get(f"{self._endpoint}/readyz", timeout=60).status_code
        self.ready.append(ready == 200)
        answer = self._session.get(f"{self._endpoint}/v1/drivers", timeout=60)
        assert answer.status_code == 200
        self.drivers.append(answer.json())
        if not self.accepted:
            path = f"{self._endpoint}/v1/nodes/early/states/provision"
            answer = self._session.put(path, json={"target": "active"}, timeout=60)
            self.accepted = answer.status_code == 202

    def stop(self):
        self._done.set()
        self.join(30)


def test_a_second_service_on_the_port_is_refused_and_harms_nothing(service, tmp_path):
    with service() as running:
        enrol(running.client, fake_delay={"deploy.deploy": 2})
        deploy(running.client)
        second = command(tmp_path, "--config-file", running._config, "serve")
        assert second.returncode == 6
        assert "is the service running already?" in second.stderr
        wait_for(lambda: state_of(running.client) == "active", "the run goes on")


def test_a_running_step_may_finish(service):
    with service() as running:
        enrol(running.client, fake_delay={"deploy.deploy": 2})
        deploy(running.client)
        running.stop()  # the state says that it goes on since the request was answered
        running.start()
        run = running.client.get(node_path("n", "runs"))["runs"][0]
        assert (run["outcome"], state_of(running.client)) == ("success", "active")


def test_what_outlasts_the_grace_is_a_crash_that_is_told(service):
    with service({"conductor": {"graceful_shutdown_timeout": 0.5}}) as running:
        enrol(running.client, fake_delay={"deploy.deploy": 120})
        deploy(running.client)
        process = running._process
        running.stop()
        assert process.returncode == 0
        running.start()
        wait_for(lambda: state_of(running.client) == "deploy failed", "recovered")
        assert "deploy.deploy" in running.client.get(node_path("n"))["last_error"]


def test_a_second_signal_ends_it_at_once(service):
    with service() as running:
        enrol(running.client, fake_delay={"deploy.deploy": 120})
        deploy(running.client)
        wait_for(lambda: state_of(running.client) == "deploying", "deploying")
        running._process.terminate()
        wait_for(lambda: "Stopping" in log_of(running), "the first signal is heard")
        running._process.terminate()
        assert running._process.wait(60) == 130


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_the_wait_for_the_database(tmp_path, number):
    away = {"OS_DATABASE__CONNECTION": "postgresql://u:p@127.0.0.1:1/d", "OS_API__PORT": "0"}
    process = subprocess.Popen(
        [*COMMAND, "serve"],
        cwd=tmp_path,
        env=local_service._environment() | away,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        for line in process.stderr:
            if "waiting up to 60 s" in line:
                break
        process.send_signal(number)
        _, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert "Stopped before" in err and "Traceback" not in err and "Error" not in err


def test_a_second_service_of_the_name_is_refused_and_harms_nothing(service, tmp_path):
    with service() as running:
        enrol(running.client)
        second = command(tmp_path, "--config-file", running._config, "serve", OS_API__PORT="0")
        assert second.returncode == 6 and "[DEFAULT] host" in second.stderr
        assert "Traceback" not in second.stderr
        assert state_of(running.client) == "available"


def test_a_service_whose_name_is_taken_ends(service, tmp_path):
    quick = {"conductor": {"heartbeat_interval": 0.2, "recovery_interval": 0.5}}
    with service(quick) as running:
        enrol(running.client, fake_delay={"deploy.deploy": 60})
        deploy(running.client)
        database = Database(f"sqlite:///{tmp_path / 'var' / 'deploysteps.sqlite'}")
        conductors.register(database, "demo", "the boot of another", [])
        database.dispose()
        assert running._process.wait(60) == 1
    told = log_of(running)
    assert "Error: another process took the name demo; exiting" in told
    assert "Traceback" not in told


def test_json_tells_the_same(tmp_path):
    port = local_service.free_port()
    process = subprocess.Popen(
        [*COMMAND, "serve", "--json"],
        cwd=tmp_path,
        env=local_service._environment() | {"OS_API__PORT": str(port)},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        lines = [process.stdout.readline() for _ in range(7)]
        told = json.loads("".join(lines))
        assert told["address"] == f"http://127.0.0.1:{port}"
        assert told["authentication"] is None and told["pid"] == process.pid
    finally:
        process.terminate()
        process.communicate()
    assert process.returncode == 0


@pytest.mark.parametrize(
    ("environment", "code", "told"),
    [
        ({"OS_API__HOST_IP": "0.0.0.0"}, 6, "allow_public_noauth"),
        ({"OS_API__HOST_IP": "::"}, 6, "allow_public_noauth"),
        ({"OS_API__HOST_IP": "192.168.1.1"}, 6, "allow_public_noauth"),
        ({"OS_API__HOST_IP": "no-such-host.invalid"}, 6, "is neither an address nor the name"),
        (
            {"OS_API__HOST_IP": "192.0.2.1", "OS_API__ALLOW_PUBLIC_NOAUTH": "true"},
            6,
            "host_ip has to be an address of this machine",
        ),
        ({"OS_API__PORT": "99999"}, 6, "[api] port"),
        ({"OS_CONDUCTOR__WORKERS_POOL_SIZE": "-1"}, 6, "workers_pool_size"),
        ({"OS_DEFAULT__ENABLED_HARDWARE_TYPES": "fake-hardwear"}, 6, "did you mean"),
        ({"OS_DATABASE__CONNECTION": "nonsense"}, 6, "[database] connection"),
        (
            {
                "OS_DATABASE__CONNECTION": "postgresql://u:hunter2@127.0.0.1:1/d",
                "OS_DATABASE__CONNECT_WAIT": "0",
            },
            5,
            "Connection refused",
        ),
        (
            {
                "OS_CONDUCTOR__DEPLOY_STEP_PRIORITY_OVERRIDE": "deploy.deploi:5",
                # An agent might bring a step of that name.
                "OS_DEFAULT__ENABLED_DEPLOY_INTERFACES": "fake",
                "OS_API__PORT": "0",
            },
            6,
            "'deploi'",
        ),
    ],
)
def test_refusals_are_one_line(tmp_path, environment, code, told):
    """F40, F89, F90: what cannot work is said at start, by name."""
    ended = command(tmp_path, "serve", **({"OS_API__PORT": "0"} | environment))
    errors = [line for line in ended.stderr.splitlines() if line.startswith("Error: ")]
    assert ended.returncode == code, ended.stderr
    assert len(errors) == 1 and "Traceback" not in ended.stderr
    assert told in errors[0]
    assert "hunter2" not in ended.stdout + ended.stderr


def test_a_public_address_can_be_wanted(tmp_path):
    settings = {"api": {"host_ip": "0.0.0.0", "allow_public_noauth": True}}
    with LocalService(tmp_path, settings) as running:
        assert running.client.get("/v1/drivers")["drivers"]


def test_strange_settings_are_told_in_the_log(tmp_path):
    with LocalService(tmp_path, {"api": {"prot": 1}}) as running:
        assert "there is no option prot in [api]; did you mean port?" in log_of(running)


def left_running(folder: Path) -> list[str]:
    """Processes whose command line names the folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode()
            except OSError:
                continue
            if str(folder) in line:
                found.append(line)
    return found


def demo(folder, *args):
    return subprocess.Popen(
        [*COMMAND, "demo", *args],
        env=local_service._environment() | {"TMPDIR": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Who runs the tests in the background of a shell has it ignored, and so have children.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )


@pytest.mark.slow
def test_the_demo_goes_well_and_leaves_nothing(tmp_path):
    process = demo(tmp_path, "--json")
    out, err = process.communicate(timeout=150)
    assert process.returncode == 0, err
    runs = json.loads(out)["runs"]
    assert set(runs) == {machine.name for machine in shown.machines()}
    assert {run["outcome"] for run in runs.values()} == {"success"}
    assert left_running(tmp_path) == [] and list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_an_interrupted_demo_leaves_nothing(tmp_path, number):
    process = demo(tmp_path)
    try:
        for line in process.stdout:
            if "Deploying them" in line:
                break
        assert left_running(tmp_path)
        process.send_signal(number)
        _, err = process.communicate(timeout=120)
    finally:
        process.kill()
    assert process.returncode == 130, err
    assert "interrupted" in err and "Traceback" not in err
    assert left_running(tmp_path) == [] and list(tmp_path.iterdir()) == []
