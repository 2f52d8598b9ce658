"""Upgrades with real processes: two of different pins on one database, and all stopped.

Starting is decided by the pin of the process that is asked; going on is decided
by the run, whichever process goes on with it.
"""

from __future__ import annotations

import json
import textwrap
import time

import pytest
import requests
import sqlalchemy as sa

from deploysteps import releases
from deploysteps.cli.client import node_path
from deploysteps.cli.errors import CommandError
from deploysteps.cli.local_service import LocalService
from deploysteps.db import migration, nodes, types
from deploysteps.db.engine import Database
from deploysteps.db.models import Base, StepRun, table
from tests.service.test_serve import command, wait_for

OLD_RELEASE = next(iter(releases.RELEASES))
pytestmark = pytest.mark.proof

DRIVER = '''
from deploysteps import states
from deploysteps.drivers import base, hardware_type, noop

class Bare(base.DeployInterface):
    """No steps, and no deploy()."""

    def get_properties(self):
        return {}

    def validate(self, task):
        return None

    def prepare(self, task):
        return None

    def clean_up(self, task):
        return None

    def tear_down(self, task):
        return states.DELETED

    def take_over(self, task):
        return None


class Steps(Bare):
    """A core step that the agent ends, and one after it."""

    @base.deploy_step(priority=100)
    def deploy(self, task):
        return states.DEPLOYWAIT

    @base.deploy_step(priority=50)
    def after(self, task):
        return None


class Core(Bare):
    """A core step alone."""

    @base.deploy_step(priority=100)
    def deploy(self, task):
        return states.DEPLOYWAIT


class Old(Bare):
    """Of before there were steps: it moves the node by events itself."""

    def deploy(self, task):
        return states.DEPLOYWAIT

    def deploy_has_started(self, task):
        return bool(task.node.driver_internal_info.get("continued"))

    def continue_deploy(self, task):
        task.process_event("resume")
        task.node.set_driver_internal_info("continued", True)
        task.node.save()
        task.process_event("wait")

    def deploy_is_done(self, task):
        return True

    def reboot_to_instance(self, task):
        task.process_event("resume")
        task.node.del_driver_internal_info("continued")
        task.process_event("done")


class Rolling(hardware_type.GenericHardware):
    @property
    def supported_deploy_interfaces(self):
        return [Steps, Core, Old]
'''
POINTS = """
[deploysteps.hardware.types]
rolling = rolling:Rolling
[deploysteps.hardware.interfaces.deploy]
steps = rolling:Steps
core = rolling:Core
old = rolling:Old
"""
QUICK = {
    "recovery_interval": 0.3,
    "heartbeat_interval": 0.3,
    "heartbeat_timeout": 5,
    "step_poll_interval": 0.2,
    "node_locked_retry_interval": 0.1,
}


class Fleet:
    """Services on one database, each with a name, a folder and a pin of its own."""

    def __init__(self, folder, url):
        self.folder, self.url = folder, url
        self.services: dict[str, LocalService] = {}

    def make(self, name, pin=None):
        """Write a service's configuration; it is not started."""
        place = self.folder / name
        place.mkdir()
        default = {"state_path": place / "var", "host": name, "enabled_hardware_types": "rolling"}
        if pin is not None:
            default["pin_release_version"] = pin
        settings = {"DEFAULT": default, "database": {"connection": self.url}, "conductor": QUICK}
        self.services[name] = LocalService(place, settings)
        return self.services[name]

    def command(self, name, *args):
        """Run a command with the configuration of a service."""
        service = self.services[name]
        return command(service.log.parent, "--config-file", service._config, *args)

    def database(self):
        return Database(self.url, connect_wait=5)

    def check(self, name):
        """Return the exit code of ``status upgrade check``, and check -> result."""
        ended = self.command(name, "status", "upgrade", "check", "--json")
        found = json.loads(ended.stdout)["checks"]
        return ended.returncode, {one["check"]: one["result"] for one in found}

    def kill(self):
        for service in self.services.values():
            service.kill()


@pytest.fixture(scope="module")
def plugin(tmp_path_factory):
    """A folder with the driver and its entry points, on every process's path."""
    folder = tmp_path_factory.mktemp("plugin")
    (folder / "rolling.py").write_text(DRIVER)
    info = folder / "rolling-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: rolling\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(textwrap.dedent(POINTS))
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(folder))
        yield folder


def blank(database):
    """Remove every table."""
    with database.engine.begin() as connection:
        Base.metadata.drop_all(connection)
        connection.execute(sa.text("DROP TABLE IF EXISTS alembic_version"))


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def fleet_of(request, plugin, servers, tmp_path_factory):
    """Make fleets on an empty database; what is left running is killed."""
    made = []

    def make():
        folder = tmp_path_factory.mktemp("fleet")
        if request.param == "sqlite":
            url = f"sqlite:///{folder}/deploysteps.sqlite"
        else:
            url = servers.url(request.param)
            database = Database(url, connect_wait=5)
            blank(database)
            database.dispose()
        made.append(Fleet(folder, url))
        return made[-1]

    yield make
    for fleet in made:
        fleet.kill()
    if request.param != "sqlite":
        database = Database(servers.url(request.param), connect_wait=5)
        blank(database)
        migration.ensure(database)
        database.dispose()


@pytest.fixture(scope="module")
def fleet(fleet_of):
    """Two processes in a rolling upgrade: one is held to the old release, one is not."""
    found = fleet_of()
    found.make("pinned", OLD_RELEASE)
    found.make("free")
    assert found.command("free", "db", "upgrade").returncode == 0
    for service in found.services.values():
        service.start()
    return found


@pytest.fixture
def pair(fleet):
    """Both processes, running."""
    for service in fleet.services.values():
        if service.pid is None:
            service.start()
    return fleet.services["pinned"], fleet.services["free"]


_counted = iter(range(10_000))


def enrolled(service, deploy):
    """Return the name of a new node that is available."""
    name = f"n{next(_counted)}"
    body = {"driver": "rolling", "name": name, "deploy_interface": deploy}
    service.client.post("/v1/nodes", body)
    for target, state in (("manage", "manageable"), ("provide", "available")):
        service.client.put(node_path(name, "states", "provision"), {"target": target})
        settled(service, name, state)
    return name


def node_of(service, name):
    return service.client.get(node_path(name))


def settled(service, name, state):
    def there():
        node = node_of(service, name)
        return node["provision_state"] == state and node["reservation"] is None

    wait_for(there, f"{name} becomes {state}")
    return node_of(service, name)


def run_of(service, name):
    return service.client.get(node_path(name, "runs"))["runs"][0]


def begin(service, name):
    service.client.put(node_path(name, "states", "provision"), {"target": "active"})
    return settled(service, name, "wait call-back")


class Agent:
    """The machine's agent; it speaks with whichever process it is told to."""

    def __init__(self, service, name):
        self.uuid = node_of(service, name)["uuid"]
        self.token = None

    def beat(self, service):
        until = time.monotonic() + 60
        while True:
            answer = self._beat(service)
            if answer.status_code != 409 or time.monotonic() > until:
                assert answer.status_code == 202, answer.text
                return
            time.sleep(0.05)

    def _beat(self, service):
        headers = {"X-OpenStack-Ironic-API-Version": "1.36"}
        address = service.client.endpoint
        if self.token is None:
            told = requests.get(
                f"{address}/v1/lookup?node_uuid={self.uuid}", headers=headers, timeout=60
            )
            if told.status_code != 200:
                return told
            self.token = told.json()["config"]["agent_token"]
        body = {"callback_url": "http://127.0.0.1:9999", "agent_token": self.token}
        return requests.post(
            f"{address}/v1/heartbeat/{self.uuid}",
            json={**body, "agent_version": "1"},
            headers=headers,
            timeout=60,
        )


def ended(service, name, *, by, steps):
    """Check that a deployment ended well, by which mechanism and which steps."""
    settled(service, name, "active")
    run = run_of(service, name)
    assert (run["outcome"], run["mechanism"]) == ("success", by), run
    told = [one["step"] for one in run["attempts"] if one["step"] != "prepare"]
    assert told == steps
    return run


# --- rolling ---------------------------------------------------------------------------


def test_the_pinned_process_speaks_as_the_old_release(pair):
    """§6: the pin is the newest version of its API; 1.44 and its field are the other's."""
    pinned, free = pair
    name = enrolled(free, "steps")
    begin(free, name)
    for service, newest in ((pinned, releases.pinned(OLD_RELEASE).api), (free, None)):
        told = service.client.get("/v1")["version"]["version"]
        assert told == f"1.{newest or releases.pinned(None).api}"
        answer = requests.get(
            f"{service.client.endpoint}/v1/nodes/{name}",
            headers={"X-OpenStack-Ironic-API-Version": "1.44"},
            timeout=60,
        )
        if newest is None:
            assert answer.status_code == 200
            assert answer.json()["deploy_step"]["step"] == "deploy"
        else:
            assert answer.status_code == 406 and "1.43" in answer.text
            assert "deploy_step" not in node_of(service, name)


def test_what_was_begun_by_steps_goes_on_by_a_beat_at_the_pinned_process(pair):
    """§6: starting is decided by the pin, continuing by the run."""
    pinned, free = pair
    name = enrolled(free, "steps")
    begin(free, name)
    Agent(free, name).beat(pinned)
    ended(free, name, by="steps", steps=["deploy", "after"])


def test_what_was_begun_by_steps_goes_on_by_steps_when_the_pinned_process_takes_over(pair):
    """§6, promise 10: the process that began it is killed; nothing is lost or run twice."""
    pinned, free = pair
    name = enrolled(free, "steps")
    begin(free, name)
    agent = Agent(free, name)
    free.kill()
    agent.beat(pinned)
    run = ended(pinned, name, by="steps", steps=["deploy", "after"])
    assert run["attempts"][-1]["conductor"] == "pinned"


@pytest.mark.parametrize("interface", ["core", "old"])
def test_what_was_begun_the_old_way_ends_the_old_way_wherever_it_goes_on(pair, interface):
    """§6: a decorated deploy(task) too is called the old way below the pin."""
    pinned, free = pair
    name = enrolled(pinned, interface)
    begin(pinned, name)
    assert run_of(free, name)["mechanism"] == "deploy"
    assert "deploy_steps" not in node_of(free, name)["driver_internal_info"]
    agent = Agent(pinned, name)
    pinned.kill()
    agent.beat(free)
    if interface == "old":
        wait_for(lambda: node_of(free, name)["driver_internal_info"].get("continued"), "continued")
        settled(free, name, "wait call-back")
        agent.beat(free)
    ended(free, name, by="deploy", steps=["deploy"])


def test_the_pinned_process_refuses_what_it_would_do_by_half(pair):
    """§6: a step beside deploy.deploy is named; the other process runs it."""
    pinned, free = pair
    name = enrolled(pinned, "steps")
    with pytest.raises(CommandError, match=r"pin_release_version.*deploy\.after"):
        begin(pinned, name)
    assert node_of(free, name)["provision_state"] == "available"
    begin(free, name)
    Agent(free, name).beat(free)
    ended(free, name, by="steps", steps=["deploy", "after"])


def test_an_old_driver_works_without_a_pin(pair):
    """§5: until every driver is new, on new processes as well; the check tells of it."""
    _pinned, free = pair
    name = enrolled(free, "old")
    begin(free, name)
    agent = Agent(free, name)
    agent.beat(free)
    wait_for(lambda: node_of(free, name)["driver_internal_info"].get("continued"), "continued")
    settled(free, name, "wait call-back")
    agent.beat(free)
    ended(free, name, by="deploy", steps=["deploy"])


@pytest.mark.slow
def test_data_is_brought_up_to_date_while_both_run(fleet, pair):
    """§6: the check fails for rows of older programs, warns of runs begun the old way."""
    pinned, free = pair
    old = enrolled(pinned, "old")
    begin(pinned, old)
    database = fleet.database()
    node = nodes.get(database, old)
    try:
        database.write(
            lambda c: (
                c.execute(
                    table(StepRun).insert(),
                    [
                        {
                            "uuid": f"{node.id:018}{number:018}",
                            "node_id": node.id,
                            "flow": "deploy",
                            "plan": [],
                            "started_at": types.utcnow(),
                            "finished_at": types.utcnow(),
                            "outcome": "success",
                            "mechanism": None,
                        }
                        for number in range(5)
                    ],
                )
                and None
            )
        )
        code, checks = fleet.check("free")
        assert (code, checks["online data migrations"]) == (2, "failure")
        some = fleet.command("free", "db", "online-data-migrations", "--max-count", "2")
        assert some.returncode == 1, some.stderr
        rest = fleet.command("free", "db", "online-data-migrations")
        assert rest.returncode == 0, rest.stderr
        code, checks = fleet.check("free")
        assert code == 1 and checks["deployments begun the old way"] == "warning"
        assert checks["online data migrations"] == "success"
    finally:
        database.write(
            lambda c: (
                c.execute(
                    sa.delete(table(StepRun)).where(
                        table(StepRun).c.node_id == node.id, table(StepRun).c.outcome == "success"
                    )
                )
                and None
            )
        )
        database.dispose()
    free.client.put(node_path(old, "states", "provision"), {"target": "abort"})
    settled(pinned, old, "deploy failed")
    assert fleet.check("free")[0] == 0


# --- cold --------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_cold_upgrade(fleet_of):
    """§6: stop all, upgrade the schema, start; what waited goes on by the steps it was begun by."""
    fleet = fleet_of()
    service = fleet.make("one")
    on_sqlite = fleet.url.startswith("sqlite")
    assert fleet.command("one", "db", "upgrade").returncode == 0
    service.start()
    name = enrolled(service, "steps")
    begin(service, name)
    service.stop()
    first = migration.scripts().get_base()
    taken = fleet.command("one", "db", "downgrade", first, "--yes")
    assert taken.returncode == 0, taken.stderr
    assert version_of(fleet) == (first, migration.head())
    code, checks = fleet.check("one")
    assert (code, checks["database schema"]) == (2, "failure")
    assert checks["online data migrations"] == "skipped"
    if not on_sqlite:
        with pytest.raises(CommandError, match="deploysteps db upgrade"):
            service.start()
    assert fleet.command("one", "db", "upgrade").returncode == 0
    assert version_of(fleet) == (migration.head(), migration.head())
    code, checks = fleet.check("one")
    assert (code, checks["online data migrations"]) == (2, "failure")
    service.start()
    assert run_of(service, name)["mechanism"] == "steps"
    assert fleet.command("one", "db", "online-data-migrations").returncode == 0
    assert fleet.check("one")[0] == 0
    Agent(service, name).beat(service)
    ended(service, name, by="steps", steps=["deploy", "after"])
    service.stop()


def version_of(fleet):
    told = json.loads(fleet.command("one", "db", "version", "--json").stdout)
    return told["current"], told["head"]
