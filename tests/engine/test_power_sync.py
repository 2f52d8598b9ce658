"""Power is kept true: cheaply, by one conductor, and whatever dead controllers do."""

from __future__ import annotations

import threading
import time
from typing import ClassVar

import pytest
import sqlalchemy as sa

from deploysteps import exceptions, states
from deploysteps.conductor import power_sync, rounds
from deploysteps.conductor.charge import Charge
from deploysteps.conductor.task_manager import acquire
from deploysteps.db import conductors, nodes, power
from deploysteps.db.models import Node
from deploysteps.drivers import fake
from tests import support
from tests.support_sql import counting

ON, OFF = states.POWER_ON, states.POWER_OFF


class Machine(fake.FakePower):
    """A controller that says what the test wants: node name -> a state, an error, or an event."""

    says: ClassVar[dict] = {}
    asked: ClassVar[list] = []
    switched: ClassVar[list] = []
    syncs = True

    def get_power_state(self, task):
        self.asked.append(task.node.name)
        said = self.says.get(task.node.name, OFF)
        if isinstance(said, threading.Event):
            said.wait(60)
            return ON
        if isinstance(said, BaseException):
            raise said
        return said

    def set_power_state(self, task, power_state, timeout=None):
        self.switched.append((task.node.name, power_state, nodes_target(task)))
        if isinstance(self.says.get("switch"), BaseException):
            raise self.says["switch"]
        self.says[task.node.name] = power_state

    def supports_power_sync(self, task):
        return self.syncs


def nodes_target(task):
    return nodes.get(task.runtime.database, task.node.id).target_power_state


@pytest.fixture(autouse=True)
def machines():
    Machine.says, Machine.asked, Machine.switched, Machine.syncs = {}, [], [], True
    yield Machine
    for said in Machine.says.values():
        if isinstance(said, threading.Event):
            said.set()


@pytest.fixture
def service(sqlite, start, conf):
    conf.set_override("sync_power_state_call_timeout", 60, group="conductor")
    return start(sqlite, power=Machine)


@pytest.fixture
def short(conf):
    """A machine's turn is over soon."""
    conf.set_override("sync_power_state_call_timeout", 1, group="conductor")


@pytest.fixture
def sync(service):
    found = power_sync.PowerSync(service.runtime)
    yield found
    found.stop()


@pytest.fixture
def recovery(service):
    found = power_sync.PowerRecovery(service.runtime)
    yield found
    found.stop()


def node_of(service, name, **values):
    """A node at rest, with what is recorded of its power; the machine is off."""
    values = {"power_state": OFF, "provision_state": states.AVAILABLE, **values}
    return nodes.insert(
        service.database,
        {
            "name": name,
            "driver": "test-hardware",
            **{f"{kind}_interface": "test" for kind in support.INTERFACE_TYPES},
            **values,
        },
    )


def again(service, node):
    return nodes.get(service.database, node.id)


def told(service, node):
    return [
        (entry.severity, entry.event)
        for entry in nodes.history_of(service.database, node.id)
        if entry.event_type == "power state"
    ]


# --- what it costs -------------------------------------------------------------------------


@pytest.mark.parametrize("many", [3, 150])
def test_machines_that_are_as_recorded_cost_no_statement_and_no_write(service, sync, many):
    """F85: who offers what, and one page of nodes, however many they are."""
    for number in range(many):
        node_of(service, f"n{number}", last_error="kept")
    with counting(service.database) as count:
        assert sync.round() == many
    told = [text for text in count.texts if "UPDATE conductors" not in text]
    mine = [text for text in told if "ports" not in text]
    assert len([t for t in mine if "FROM nodes" in t and "maintenance" in t]) == 1
    assert not [t for t in mine if t.startswith(("UPDATE nodes", "INSERT"))]
    asked_one = [t for t in mine if "WHERE nodes.id = " in t or "nodes.uuid = " in t]
    assert asked_one == []
    assert len(Machine.asked) == many


def test_nodes_beyond_a_page_are_asked_as_well(service, sync, monkeypatch):
    monkeypatch.setattr("deploysteps.conductor.rounds._PAGE", 4)
    for number in range(9):
        node_of(service, f"n{number}")
    assert sync.round() == 9
    assert len(set(Machine.asked)) == 9


@pytest.mark.parametrize(
    "values",
    [
        {"maintenance": True},
        {"reservation": "somebody"},
        {"target_power_state": ON},
        {"provision_state": states.ENROLL},
        {"provision_state": states.ADOPTFAIL},
        *(
            {"provision_state": state}
            for state in sorted(set(states.STATES) - states.STABLE_STATES)
        ),
        {"driver": "other-hardware"},
    ],
    ids=str,
)
def test_who_is_left_alone(service, sync, values):
    """No node with a run in progress, locked, in maintenance, or of somebody else's."""
    Machine.says["n"] = ON
    node = node_of(service, "n", **values)
    assert sync.round() == 0
    assert Machine.asked == [] and again(service, node).power_state == OFF


# --- what differs --------------------------------------------------------------------------


def test_what_was_never_known_is_recorded(service, sync):
    Machine.says["n"] = ON
    node = node_of(service, "n", power_state=None, last_error="a reason")
    sync.round()
    now = again(service, node)
    assert (now.power_state, now.last_error, now.reservation) == (ON, "a reason", None)
    assert told(service, node)[0][0] == "INFO"
    assert Machine.switched == []


def test_a_state_that_was_an_error_is_mended(service, sync):
    node = node_of(service, "n", power_state=states.ERROR)
    sync.round()
    assert again(service, node).power_state == OFF


def test_the_machine_is_switched_to_what_is_recorded_by_default(service, sync):
    """Promise 14: the field's default; the target is visible while it happens."""
    Machine.says["n"] = ON
    node = node_of(service, "n", provision_state=states.DEPLOYFAIL, last_error="it broke")
    sync.round()
    assert Machine.switched == [("n", OFF, OFF)]
    now = again(service, node)
    assert (now.power_state, now.target_power_state, now.reservation) == (OFF, None, None)
    assert now.last_error == "it broke"
    assert told(service, node) == [
        ("WARNING", "the machine is 'power on', and 'power off' is recorded: switched to what is "
         "recorded")
    ]  # fmt: skip
    sync.round()
    assert len(Machine.switched) == 1, "it is as recorded now"


@pytest.mark.parametrize("why", ["setting", "node", "driver"])
def test_what_is_not_switched_is_recorded_as_found(service, sync, conf, why):
    if why == "setting":
        conf.set_override("force_power_state_during_sync", False, group="conductor")
    Machine.syncs = why != "driver"
    Machine.says["n"] = ON
    node = node_of(service, "n", disable_power_off=why == "node")
    sync.round()
    assert Machine.switched == []
    assert again(service, node).power_state == ON
    assert (
        told(service, node)[0][0] == "WARNING" and "recorded as found" in told(service, node)[0][1]
    )


def test_a_node_that_is_locked_meanwhile_is_left_for_the_next_round(service, sync, monkeypatch):
    node = node_of(service, "n")
    held = []

    def locks(self, task):
        held.append(acquire(None, node.id, runtime=service.runtime))
        return ON

    monkeypatch.setattr(Machine, "get_power_state", locks)
    sync.round()
    assert again(service, node).power_state == OFF and Machine.switched == []
    held[0].release_resources()


@pytest.mark.parametrize(
    "meanwhile", [{"power_state": ON}, {"maintenance": True}, {"provision_state": states.DEPLOYING}]
)
def test_what_changed_while_the_machine_was_asked_is_left_alone(
    service, sync, monkeypatch, meanwhile
):
    node = node_of(service, "n")

    def changes(self, task):
        nodes.set_unlocked(service.database, node.id, meanwhile)
        return ON

    monkeypatch.setattr(Machine, "get_power_state", changes)
    sync.round()
    now = again(service, node)
    assert Machine.switched == [] and told(service, node) == [] and now.reservation is None
    assert now.power_state == meanwhile.get("power_state", OFF)


# --- failures ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "said",
    [RuntimeError("no route to host"), states.ERROR, 7, None, SystemExit(3)],
    ids=["raises", "error", "number", "none", "exit"],
)
def test_a_machine_that_does_not_tell_goes_into_maintenance_after_some_tries(
    service, sync, conf, said
):
    conf.set_override("power_state_sync_max_retries", 2, group="conductor")
    Machine.says["n"] = said
    node = node_of(service, "n", last_error="an old reason")
    for _ in range(4):
        assert not again(service, node).maintenance
        sync.round()
    now = again(service, node)
    assert Machine.asked == ["n"] * 3, "pauses double"
    assert (now.maintenance, now.fault, now.power_state) == (True, power.FAULT, None)
    assert "3 times in a row" in now.maintenance_reason
    assert now.last_error == "an old reason" and now.reservation is None
    assert [severity for severity, _ in told(service, node)] == ["ERROR"]


def test_a_machine_that_does_not_keep_its_power_goes_into_maintenance(service, sync, conf):
    conf.set_override("power_state_sync_max_retries", 1, group="conductor")
    Machine.says.update(n=ON, switch=RuntimeError("jammed"))
    node = node_of(service, "n")
    sync.round()
    assert (
        "switching it to what is recorded failed: RuntimeError: jammed" in told(service, node)[0][1]
    )
    assert again(service, node).power_state == OFF
    sync.round()
    now = again(service, node)
    assert (now.maintenance, now.fault, now.power_state) == (True, power.FAULT, ON)


def test_a_good_answer_forgets_the_failures(service, sync, conf):
    conf.set_override("power_state_sync_max_retries", 1, group="conductor")
    node = node_of(service, "n")
    for _ in range(3):
        Machine.says["n"] = RuntimeError("away")
        sync.round()
        Machine.says["n"] = OFF
        sync.round()
    assert not again(service, node).maintenance and len(Machine.asked) == 6


def test_a_setting_that_makes_no_sense_is_no_failure_of_a_machine_never_known(
    service, sync, monkeypatch
):
    def refuses(self, task, *args):
        raise exceptions.InvalidParameterValue("no address")

    monkeypatch.setattr(Machine, "validate", refuses)
    node_of(service, "n", power_state=None)
    sync.round()
    assert Machine.asked == [] and sync._failing == {}


def test_secrets_of_a_controllers_error_are_masked(service, sync, conf):
    """F76."""
    conf.set_override("power_state_sync_max_retries", 0, group="conductor")
    Machine.says["n"] = RuntimeError("login with hunter2secret failed")
    node = node_of(service, "n", driver_info={"ipmi_password": "hunter2secret"})
    sync.round()
    now = again(service, node)
    assert "hunter2secret" not in now.maintenance_reason + told(service, node)[0][1]


# --- dead controllers ------------------------------------------------------------------------


def test_a_controller_that_hangs_delays_nobody_for_long(service, sync, conf, short):
    conf.set_override("sync_power_state_workers", 2, group="conductor")
    Machine.says.update(n0=threading.Event(), n1=threading.Event(), n2=threading.Event())
    for number in range(20):
        node_of(service, f"n{number}")
    began = time.monotonic()
    sync.round()
    assert len(Machine.asked) == 20
    assert time.monotonic() - began < 60, "each of the three takes a thread for a second"
    support.until(lambda: sync.hanging == 3)
    Machine.asked.clear()
    sync._failing.clear()
    began = time.monotonic()
    sync.round()
    assert sorted(Machine.asked) == sorted(f"n{number}" for number in range(3, 20))
    assert time.monotonic() - began < 60, "what hangs is not asked again, nor waited for"


def test_calls_that_do_not_come_back_are_bounded(service, sync, conf):
    """A pool that is dead as a whole takes no more threads than these."""
    conf.set_override("sync_power_state_workers", 1, group="conductor")
    conf.set_override("sync_power_state_call_timeout", 0.05, group="conductor")
    for number in range(40):
        Machine.says[f"n{number}"] = threading.Event()
        node_of(service, f"n{number}")
    for _ in range(3):
        sync.round()
    assert sync.hanging == 32


def test_a_dead_rack_leaves_no_healthy_machine_out(service, sync, conf):
    """Those behind it are asked in each round, also while all its calls hang."""
    conf.set_override("sync_power_state_workers", 1, group="conductor")
    conf.set_override("sync_power_state_call_timeout", 0.05, group="conductor")
    for number in range(12):
        Machine.says[f"n{number}"] = threading.Event()
        node_of(service, f"n{number}")
    well = node_of(service, "well")
    for _ in range(3):
        Machine.asked.clear()
        sync.round()
        assert "well" in Machine.asked
        # Where all is slow, its own answer may have come too late.
        support.until(lambda: sync.hanging == 12)
        sync.is_well(well)


def test_a_call_that_never_comes_back_counts_in_each_round(service, sync, conf, monkeypatch):
    """Its node goes into maintenance, and it is asked again although no thread can be ended."""
    conf.set_override("sync_power_state_call_timeout", 0.05, group="conductor")
    conf.set_override("power_state_sync_max_retries", 2, group="conductor")
    monkeypatch.setattr(rounds, "_MADE_AGAIN", 1_000_000)
    hung = Machine.says["n"] = threading.Event()
    node = node_of(service, "n")
    while not again(service, node).maintenance:
        sync.round()
    now = again(service, node)
    assert Machine.asked == ["n"] and sync.hanging == 1
    assert now.fault == power.FAULT and now.power_state is None
    assert "3 times in a row" in now.maintenance_reason
    service.manager.set_node_maintenance(None, node.uuid, False, None)
    Machine.says["n"] = OFF
    conf.set_override("sync_power_state_call_timeout", 60, group="conductor")
    monkeypatch.setattr(rounds, "_MADE_AGAIN", 0)
    sync.round()
    assert Machine.asked == ["n", "n"] and sync.hanging == 1
    assert again(service, node).power_state == OFF
    hung.set()
    support.until(lambda: sync.hanging == 0)


def test_a_call_that_never_comes_back_counts_also_when_its_node_was_worked_on(
    service, sync, conf, monkeypatch
):
    """Else nothing would be done about a dead controller that somebody looks after."""
    conf.set_override("sync_power_state_call_timeout", 0.05, group="conductor")
    conf.set_override("power_state_sync_max_retries", 1, group="conductor")
    monkeypatch.setattr(rounds, "_MADE_AGAIN", 1_000_000)
    Machine.says["n"] = threading.Event()
    node = node_of(service, "n")
    sync.round()
    service.manager.update_node(None, node.uuid, {"extra": {"ticket": 8}})
    assert not again(service, node).maintenance
    for _ in range(4):
        sync.round()
    now = again(service, node)
    assert now.maintenance and now.fault == power.FAULT and now.reservation is None
    assert Machine.asked == ["n"]


def test_a_controller_that_has_got_another_address_is_asked_there(service, sync, conf, monkeypatch):
    """The call that hangs at the old one tells nothing of it."""
    conf.set_override("sync_power_state_call_timeout", 0.05, group="conductor")
    conf.set_override("power_state_sync_max_retries", 0, group="conductor")
    monkeypatch.setattr(rounds, "_MADE_AGAIN", 1_000_000)
    hung = Machine.says["n"] = threading.Event()
    node = node_of(service, "n", driver_info={"address": "old"})
    sync.round()
    service.manager.set_node_maintenance(None, node.uuid, False, None)
    service.manager.update_node(None, node.uuid, {"driver_info": {"address": "new"}})
    Machine.says["n"] = OFF
    conf.set_override("sync_power_state_call_timeout", 60, group="conductor")
    while again(service, node).power_state is None:
        sync.round()
    assert Machine.asked == ["n", "n"] and not again(service, node).maintenance
    hung.set()
    support.until(lambda: sync.hanging == 0)


def test_a_database_that_is_away_is_told_when_it_goes_and_when_it_is_back(
    service, monkeypatch, caplog
):
    """F52: a round each minute on each conductor would fill the log."""
    rounds_begun = threading.Semaphore(0)
    away = threading.Event()
    away.set()

    class Sync(power_sync.PowerSync):
        def round(self):
            rounds_begun.release()
            if away.is_set():
                raise exceptions.DatabaseUnavailable(reason="gone")

    found = Sync(service.runtime)
    found._interval = 0.01
    caplog.set_level("INFO", rounds.__name__)
    found.start()
    assert all([rounds_begun.acquire(timeout=60) for _ in range(3)])
    away.clear()
    support.until(lambda: "back" in caplog.text)
    found.stop()
    what = "A round of power state sync"
    assert [record.getMessage() for record in caplog.records] == [
        f"{what} failed; it is tried again: The database does not answer: gone",
        f"{what}: the database is back",
    ]


def test_a_new_node_has_nothing_of_a_deleted_one(service, sync, short):
    """SQLite gives a row id again; the call to the machine of the deleted node still hangs."""
    Machine.says.update(n=threading.Event(), young=OFF)
    node = node_of(service, "n")
    sync.round()
    service.manager.destroy_node(None, node.uuid)
    young = node_of(service, "young")
    assert young.id == node.id, "else this shows nothing"
    sync.round()
    assert Machine.asked == ["n", "young"] and not again(service, young).maintenance


def test_a_call_that_comes_back_late_changes_nothing_and_the_node_is_asked_again(
    service, sync, short
):
    hung = Machine.says["n"] = threading.Event()
    node = node_of(service, "n")
    sync.round()
    assert sync.hanging == 1
    Machine.says["n"] = OFF
    hung.set()
    support.until(lambda: sync.hanging == 0)
    assert again(service, node).power_state == OFF and told(service, node) == []
    sync.round()
    assert Machine.asked == ["n", "n"]


def test_a_controller_that_hangs_for_ever_leads_to_maintenance(service, sync, conf, short):
    conf.set_override("power_state_sync_max_retries", 0, group="conductor")
    Machine.says["n"] = threading.Event()
    node = node_of(service, "n")
    sync.round()
    now = again(service, node)
    assert now.fault == power.FAULT and "no answer within 1 s" in now.maintenance_reason


# --- recovery --------------------------------------------------------------------------------


def test_a_machine_that_tells_its_power_again_leaves_maintenance(service, recovery):
    values = {"maintenance": True, "maintenance_reason": "r", "power_state": None}
    Machine.says["n"] = RuntimeError("away")
    node = node_of(service, "n", fault=power.FAULT, last_error="kept", **values)
    other = node_of(service, "m", fault="clean failure", **values)
    recovery.round()
    assert again(service, node).maintenance
    Machine.says["n"] = ON
    recovery.round()
    now = again(service, node)
    assert (now.maintenance, now.maintenance_reason, now.fault) == (False, None, None)
    assert (now.power_state, now.last_error, now.reservation) == (ON, "kept", None)
    assert told(service, node)[0][0] == "INFO"
    assert again(service, other).maintenance and "m" not in Machine.asked


def test_maintenance_that_an_operator_set_meanwhile_stays(service, recovery, monkeypatch):
    node = node_of(service, "n", fault=power.FAULT, maintenance=True)

    def changes(self, task):
        nodes.set_unlocked(service.database, node.id, {"fault": None})
        return ON

    monkeypatch.setattr(Machine, "get_power_state", changes)
    recovery.round()
    assert again(service, node).maintenance


# --- several conductors, and the clock ----------------------------------------------------------


def test_each_node_falls_to_one_conductor_that_offers_its_interfaces(service, database_offers=40):
    made = [node_of(service, f"n{number}") for number in range(database_offers)]
    offers = [tuple(offer) for offer in service.runtime.registry.offers()]
    conductors.register(service.database, "conductor-2", "boot", offers)
    conductors.register(service.database, "conductor-3", "boot", offers[:3])
    mine = {node.uuid for node in made if Charge(service.runtime).mine(node)}
    me = service.runtime.host
    service.runtime.host = "conductor-2"
    try:
        theirs = {node.uuid for node in made if Charge(service.runtime).mine(node)}
    finally:
        service.runtime.host = me
    assert mine | theirs == {node.uuid for node in made} and not mine & theirs
    assert mine and theirs


def test_the_clock_runs_by_itself_and_zero_switches_it_off(sqlite, start, conf):
    """F40."""
    conf.set_override("sync_power_state_interval", 0.05, group="conductor")
    conf.set_override("power_failure_recovery_interval", 0, group="conductor")
    service = start(sqlite, power=Machine)
    Machine.says["n"] = ON
    node = node_of(service, "n", power_state=None)
    stuck = node_of(service, "m", fault=power.FAULT, maintenance=True)
    support.until(lambda: again(service, node).power_state == ON)
    time.sleep(0.2)
    assert again(service, stuck).maintenance


def test_an_error_in_a_round_does_not_end_the_clock(sqlite, start, conf, monkeypatch):
    conf.set_override("sync_power_state_interval", 0.05, group="conductor")
    broken = [RuntimeError("away")] * 2
    real = power.to_sync

    def flaky(*args):
        if broken:
            raise broken.pop()
        return real(*args)

    monkeypatch.setattr(power, "to_sync", flaky)
    service = start(sqlite, power=Machine)
    Machine.says["n"] = ON
    node = node_of(service, "n", power_state=None)
    support.until(lambda: again(service, node).power_state == ON)


def test_the_nodes_to_sync_are_found_on_every_database(database, start):
    service = start(database, power=Machine)
    node = node_of(service, "n", power_state=None)
    node_of(service, "m", maintenance=True)
    faulty = node_of(service, "f", maintenance=True, fault=power.FAULT)
    drivers = ["test-hardware", "x"]
    assert [n.id for n in power.to_sync(database, drivers, 0, 10)] == [node.id]
    assert power.to_sync(database, drivers, node.id, 10) == []
    assert power.to_sync(database, ["x"], 0, 10) == []
    assert [n.id for n in power.to_recover(database, drivers, 0, 10)] == [faulty.id]
    power_sync.PowerSync(service.runtime).round()
    assert again(service, node).power_state == OFF
    with database.reading() as connection:
        assert connection.execute(sa.select(sa.func.count()).select_from(Node)).scalar() == 3
