"""Found by being a hostile agent: whoever has the machine may be the agent."""

from __future__ import annotations

import json
import logging
import socket
import threading
import time
from contextlib import ExitStack
from types import SimpleNamespace
from typing import ClassVar

import pytest

from deploysteps import exceptions, limits, states
from deploysteps.conf import CONF, logs
from deploysteps.db import nodes
from deploysteps.db.models import Node
from deploysteps.drivers import base, fake
from deploysteps.drivers.agent import logs as agent_logs
from deploysteps.drivers.agent import share
from tests import support
from tests.agent.fake_agent import DATA, fails, says, step

NAN = float("nan")


def deep(levels):
    value: list = []
    for _ in range(levels):
        value = [value]
    return value


def tells(machine, steps, versions=None):
    """Return the node of a run whose agent tells these steps."""
    m = machine()

    def tell(command, flow):
        command.status = "SUCCEEDED"
        command.result = {
            f"{flow}_steps": {"M": steps},
            "hardware_manager_version": {"M": "1"} if versions is None else versions,
        }

    m.agent._tell = tell
    node = m.run(ends=states.DEPLOYFAIL)
    assert m.agent.executed == []
    return node


# --- what it says of its steps ---------------------------------------------------------


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ([step(f"s{n}") for n in range(501)], "the agent offers more than 500 steps"),
        ([step("m" * 256, 50)], "has a name of more than 255 characters"),
        ([step("mark", 50, args={"a": deep(40)})], "step deploy.mark is nested deeper than 32"),
        ([step("mark", 50, argsinfo={"a": {"description": "x" * 70_000}})],
         "step deploy.mark has more than 65536 bytes"),
        ([step(f"s{n}", argsinfo={"a": {"description": "x" * 40_000}}) for n in range(20)],
         "its steps have more than 524288 bytes"),
        ([step("mark", 50, retries=2**31 - 1, repeatable=True)],
         "step deploy.mark says retries of more than 10, the most that an agent may say"),
        ([step("mark", 50, retry_delay=3601)], "says retry_delay of more than 3600"),
        ([step("mark", 50, timeout=2**31 - 1)], "says timeout of more than 2.592e+06"),
    ],
)  # fmt: skip
def test_a_step_that_says_too_much_fails_the_plan_and_is_not_kept(machine, steps, told):
    """F58, F80: the step and the limit are named, and nothing of it stays with the node."""
    node = tells(machine, steps)
    assert told in node.last_error and len(node.last_error) < 400
    assert "agent_cached_deploy_steps" not in node.driver_internal_info
    assert len(json.dumps(node.driver_internal_info)) < 1000


@pytest.mark.parametrize(
    ("steps", "told"),
    [
        ([step("ma\ud800rk\0", 50)], "step deploy.ma?rk?: a name is of at most 255 characters"),
        ([{**step("mark", 50), "interface": "i" * 50_000}], "unknown interface"),
        ([step("mark", NAN)], "priority must be a whole number"),
        ([step("mark", 2**40)], "priority must be from 0 (never runs) to 2147483647"),
        ([step("mark", 50, retries=-1)], "retries has to be a whole number"),
    ],
)  # fmt: skip
def test_a_step_that_makes_no_sense_fails_the_plan_in_words(machine, steps, told):
    node = tells(machine, steps)
    assert told in node.last_error and len(node.last_error) < 500
    assert "internal error" not in node.last_error


def test_lists_of_steps_have_to_be_lists(machine):
    node = tells(machine, "abc")
    assert "has a str where a hardware manager's list of steps belongs" in node.last_error


def test_versions_are_bounded(machine):
    node = tells(machine, [step("mark", 50)], {"M": "1" * 20_000})
    assert "hardware_manager_version has more than 16384 bytes" in node.last_error


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_limits_fit_every_database(kind, request, start, machine):
    """F59: what passes is stored; the strictest database says so."""
    name = "é" * 255
    m = machine(step(name, 50, argsinfo={"a": {"description": "x" * 60_000}}))
    m.run()
    assert m.agent.executed == [name]


def test_limits_are_far_above_what_agents_of_the_field_say():
    """Twenty steps with long descriptions."""
    many = [
        step(f"erase_devices_{n}", argsinfo={"x": {"description": "d" * 2000}}) for n in range(20)
    ]
    limits.check_steps(many, "the agent")
    assert limits.size(many) * 10 < limits.LARGEST_STEPS


def test_other_interfaces_that_speak_with_agents_are_bounded_too(machine):
    """The plan checks as well: agent_steps() may be anybody's."""
    with pytest.raises(exceptions.InvalidParameterValue, match="at most|more than"):
        limits.check_steps([step("x", retries=11)], "whoever")


# --- what it answers -------------------------------------------------------------------


def err(value):
    def begin(command):
        command.status, command.error = "FAILED", value

    return begin


@pytest.mark.parametrize("number", [NAN, float("inf"), -float("inf")])
def test_a_number_that_no_database_takes_does_not_hide_the_reason(machine, number):
    """F58: the agent's words are what last_error has."""
    m = machine()
    m.agent.on["mark"] = err({"message": "the disk is gone", "code": number})
    node = m.run(ends=states.DEPLOYFAIL)
    assert node.last_error.startswith("deploy.mark failed: the disk is gone (attempt 1")
    assert m.evidence("mark")["command_error"] == {"message": "the disk is gone", "code": None}


@pytest.mark.parametrize("value", [NAN, float("inf"), {"x": [NAN]}, deep(500), {1, 2}])
def test_evidence_of_any_driver_is_stored(sqlite, start, value):
    """F64: it explains the failure, and never is one."""

    class Vendor(support.Vendor):
        @base.deploy_step(priority=9)
        def tell(self, task):
            task.keep_evidence("bmc", value)
            raise RuntimeError("this is why")

    service = start(sqlite, vendor=Vendor)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid)
    found = support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert "this is why" in found.last_error and "internal error" not in found.last_error
    assert "bmc" in support.attempts(sqlite, node)[-1].evidence


def test_an_error_of_any_size_is_kept_short(machine):
    m = machine()
    m.agent.on["mark"] = err({f"k{n}": "v" * 20 for n in range(90_000)})
    m.run(ends=states.DEPLOYFAIL)
    found = support.attempts(m.database, m.node)
    kept = next(a.evidence for a in reversed(found) if a.step == "mark")["command_error"]
    assert isinstance(kept, str) and len(kept) <= 64 * 1024


@pytest.mark.parametrize("ident", ["../../x?y#z", "\ud800\0\n", "a" * 129, "", 7])
def test_ids_of_commands_are_ids(machine, ident):
    """They are kept with the node, and are parts of URLs."""
    m = machine()

    def named(command):
        command.id, command.status = ident, "RUNNING"

    m.agent.on["mark"] = named
    node = m.run(ends=states.DEPLOYFAIL)
    assert "answered what is no command" in node.last_error
    assert "agent_command" not in node.driver_internal_info


def test_a_status_of_any_size_is_told_once(machine, caplog):
    """F32."""
    m = machine()
    m.agent.on["mark"] = says("Z" * 100_000)
    m.deploy()
    with caplog.at_level(logging.WARNING):
        m.boot()
        node = m.until_step("mark")
        time.sleep(0.5)
    told = [r for r in caplog.records if "no status known here" in r.getMessage()]
    assert len(told) == 1 and len(told[0].getMessage()) < 400
    assert len(json.dumps(node.driver_internal_info["agent_command"])) < 500
    m.agent.commands[-1].status = "SUCCEEDED"
    m.settle(states.ACTIVE)


def test_answers_that_are_nested_too_deep_are_refused(machine):
    """F14."""
    m = machine()
    m.agent.on["mark"] = err({"message": deep(500)})
    node = m.run(ends=states.DEPLOYFAIL)
    assert "no JSON object of at most 64 levels" in node.last_error


def test_a_step_that_succeeded_with_an_error_has_failed(machine):
    """F74: of two words the bad one counts."""
    m = machine()

    def both(command):
        command.status, command.error = "SUCCEEDED", {"message": "partly failed"}

    m.agent.on["mark"] = both
    node = m.run(ends=states.DEPLOYFAIL)
    assert "deploy.mark failed: partly failed" in node.last_error


def test_an_answer_about_another_command_is_none(machine, monkeypatch):
    """F74."""
    m = machine(step("other", 60), step("mark", 50))
    m.agent.on["mark"] = says("RUNNING")
    m.deploy()
    m.boot()
    m.until_step("mark")
    other = next(c for c in m.agent.commands if c.params.get("step", {}).get("step") == "other")
    mine = m.agent.commands[-1]
    monkeypatch.setattr(mine, "shown", other.shown)
    node = m.settle(states.DEPLOYFAIL)
    assert "was asked for one command and told of another" in node.last_error


def test_a_disk_that_does_not_take_what_was_written_is_no_good_end(machine):
    """F74: the machine is not given away as deployed."""
    m = machine()
    m.agent.on["sync"] = fails("I/O error on /dev/sda")
    node = m.run(ends=states.DEPLOYFAIL)
    assert "deploy.tear_down_agent failed: standby.sync failed" in node.last_error
    assert "I/O error on /dev/sda" in node.last_error


def test_an_agent_that_does_not_shut_down_is_told_of(machine):
    m = machine()
    m.agent.broken_paths["POST standby.power_off"] = "400"
    m.run()
    assert "it does not shut down" in m.evidence("tear_down_agent")["agent_shutdown"]


# --- its certificate ---------------------------------------------------------------------


def busy(machine):
    m = machine(tls=True)
    m.agent.on["mark"] = says("RUNNING")
    m.deploy()
    m.boot()
    m.until_step("mark")
    return m


def test_the_certificate_is_pinned_for_each_boot(machine):
    """F30: as the address is."""
    m = busy(machine)
    with pytest.raises(exceptions.InvalidParameterValue, match="change in agent_verify_ca"):
        m.beat(agent_verify_ca=(DATA / "other-cert.pem").read_text())
    m.agent.commands[-1].status = "SUCCEEDED"
    m.settle(states.ACTIVE)


def test_a_beat_that_does_not_repeat_the_certificate_does_not_drop_it(machine):
    """F83."""
    m = busy(machine)
    m.beat(agent_verify_ca=None)
    assert m.node.driver_internal_info["agent_verify_ca"] == m.agent.pem
    m.agent.commands[-1].status = "SUCCEEDED"
    m.settle(states.ACTIVE)


@pytest.mark.parametrize("sign", ["\0", "\x1b", "\ud800", "\u200b"])
def test_an_address_with_signs_that_cannot_be_printed_is_refused(machine, sign):
    """F30: it would be stored as another one, and the next beat be a change."""
    m = machine()
    m.deploy()
    m.agent.reboot(support.token(m.service, m.node))
    with pytest.raises(exceptions.InvalidParameterValue, match="callback_url must be"):
        m.beat(callback_url=f"http://h/{sign}x")


# --- time ----------------------------------------------------------------------------------


@pytest.mark.parametrize("status", ["RUNNING", "FOO"])
def test_an_agent_that_always_goes_on_is_given_up(machine, conf, status):
    """F36: also while it beats."""
    conf.set_override("agent_step_timeout", 600, group="conductor")
    m = machine()
    m.agent.on["mark"] = says(status)
    m.deploy()
    m.boot()
    m.until_step("mark")
    m.beat()
    m.until_step("mark")
    support.let_limit_pass(m.database, m.node)
    node = m.settle(states.DEPLOYFAIL)
    assert "it waited longer than its limit of 600 s for the machine's agent" in node.last_error


# --- what must not happen twice ------------------------------------------------------------


class Once(support.Vendor):
    ran: ClassVar[list[str]] = []

    @base.deploy_step(priority=95)
    def once(self, task):
        self.ran.append("once")

    @base.deploy_step(priority=94, repeatable=True)
    def often(self, task):
        self.ran.append("often")


def test_other_hardware_managers_repeat_no_step_of_the_conductors_that_may_not_be(machine):
    Once.ran.clear()
    m = machine(step("first", 60), step("mark", 50), vendor=Once)

    def change(command):
        command.status, m.agent.versions = "SUCCEEDED", {"peer": "2"}
        m.agent.on.clear()

    m.agent.on["first"] = change
    m.run()
    assert Once.ran == ["once", "often", "often"]
    assert m.ran().count("first") == 2, "the agent's own begin again, as in the field"
    plan = support.last_run(m.database, m.node).plan
    assert [e["step"] for e in plan if e.get("skip")] == ["once"]


def lost_in_another_boot(machine, **more):
    """The agent has perhaps begun the step, and is booted anew before that can be found out."""
    m = machine(step("mark", 50, **more))
    m.agent.on["mark"] = says("RUNNING")
    m.deploy()
    m.agent.broken_paths = {"POST deploy.execute_deploy_step": "lose", "GET list": "503"}
    m.boot()
    support.until(
        lambda: (
            (n := m.node).driver_internal_info.get("agent_command", {}).get("sent")
            and n.reservation is None
        )
    )
    ran = len(m.agent.executed)
    support.retried(lambda: m.service.manager.change_node_power_state(None, m.uuid, states.REBOOT))
    support.until(lambda: not m.node.agent_secret_token and m.node.reservation is None)
    m.agent.broken_paths, m.agent.on = {}, {}
    m.boot()
    return m, ran


def test_a_step_that_another_boot_may_have_begun_is_not_begun_again(machine):
    """F28: the list of this boot says nothing of what the last one did."""
    m, ran = lost_in_another_boot(machine)
    node = m.settle(states.DEPLOYFAIL)
    assert "deploy.mark failed: the machine's agent was restarted" in node.last_error
    assert (ran, m.agent.executed) == (1, [])


def test_one_that_may_be_repeated_is(machine):
    m, ran = lost_in_another_boot(machine, repeatable=True)
    m.settle(states.ACTIVE)
    assert (ran, m.agent.executed) == (1, ["mark"])


@pytest.mark.parametrize("which", [1, 2])
def test_a_conductor_that_lost_the_lock_meanwhile_sends_nothing_again(machine, caplog, which):
    """F46: frozen while an answer was lost, and meanwhile another conductor has the node."""
    m = machine()
    m.deploy()
    posts = []

    def lost():
        posts.append(1)
        if len(posts) == which:
            nodes.set_unlocked(m.database, m.node.id, {"lock_token": "another's"})
            m.agent.before.clear()

    m.agent.before["POST deploy.execute_deploy_step"] = lost
    with caplog.at_level(logging.WARNING):
        m.boot()
        support.until(lambda: "lost" in caplog.text)
        time.sleep(0.3)
    assert len(posts) == which and m.agent.executed == []


# --- how many of them may be slow ------------------------------------------------------------


@pytest.fixture
def small_pool():
    CONF.set_override("workers_pool_size", 8, group="conductor")
    yield
    CONF.clear_override("workers_pool_size", group="conductor")


def places(number, *, silent=False):
    """Let threads take places, as workers do; they keep them until the stack ends."""
    kept, free, failed = [], threading.Event(), []

    def hold(held):
        try:
            with share.room(asked(silent=silent)):
                held.set()
                free.wait(60)
        except exceptions.StepNotReady as exc:
            failed.append(exc)
            held.set()

    def end():
        free.set()
        for thread in kept:
            thread.join()

    for _ in range(number):
        held = threading.Event()
        kept.append(threading.Thread(target=hold, args=(held,)))
        kept[-1].start()
        held.wait()
    return failed, end


def asked(*, silent):
    """Return a node whose agent answered when it was asked last, or did not."""
    node = Node(driver_internal_info={})
    if silent:
        node.set_driver_internal_info("agent_command", {"silent_since": time.time()})
    return node


def test_slow_agents_have_a_share_of_the_workers(small_pool):
    """F24: half of them, and a quarter those that were silent before."""
    with ExitStack() as stack:
        for number, silent, refused in ((2, True, 0), (1, True, 1), (2, False, 0), (1, False, 1)):
            failed, end = places(number, silent=silent)
            stack.callback(end)
            assert [exc.after for exc in failed] == [1] * refused
        assert share.crowded()
    assert not share.crowded()
    with share.room(asked(silent=True)), share.room(asked(silent=True)):
        assert share._busy == 1, "one place is enough for all that a thread asks meanwhile"


@pytest.mark.parametrize("size", [3, 4, 5, 8, 100])
def test_those_that_are_silent_leave_a_place_for_others(size, small_pool):
    CONF.set_override("workers_pool_size", size, group="conductor")
    assert 0 < share.places(silent=True) < share.places(silent=False) < size


def test_a_run_waits_for_its_place_among_the_slow_ones(machine, small_pool):
    m = machine()
    m.deploy()
    _, end = places(4)
    try:
        m.boot()
        time.sleep(0.5)
        assert m.agent.named("get_deploy_steps") == [] and m.node.last_error is None
        assert m.node.provision_state == states.DEPLOYWAIT
    finally:
        end()
    m.settle(states.ACTIVE)


def test_logs_are_left_out_where_there_is_no_place(small_pool, monkeypatch):
    """F24: a hundred agents that fail and then hang hold no more workers than others do."""
    monkeypatch.setattr(agent_logs, "_ROOM_WAIT", 0.05)
    kept = {}
    task = SimpleNamespace(node=asked(silent=False), keep_evidence=kept.__setitem__)
    _, end = places(4)
    try:
        agent_logs.collect(task, failed=True)
    finally:
        end()
    assert "as many agents as may be slow at once" in kept["agent_logs"]["error"]


def test_many_that_hang_do_not_hold_up_one_that_does_not(machine, small_pool, conf):
    """F24: forty agents have sent a heartbeat and answer nothing; ten steps of another go on."""
    for each in (conf, CONF):
        each.set_override("workers_pool_size", 20, group="conductor")
    names = [f"s{number}" for number in range(10)]
    m = machine(*[step(name, 90 - number) for number, name in enumerate(names)])
    m.enrol()
    others = [support.enrolled(m.service) for _ in range(40)]
    with socket.create_server(("127.0.0.1", 0), backlog=1000) as hanging:
        url = f"http://127.0.0.1:{hanging.getsockname()[1]}"
        for node in others:
            m.service.manager.do_node_deploy(None, node.uuid)
        m.deploy()
        for node in others:
            support.settle(m.database, node.uuid, states.DEPLOYWAIT)
            support.beat(m.service, node, support.token(m.service, node), callback_url=url)
        m.boot()
        began = time.monotonic()
        m.settle(states.ACTIVE)
        took = time.monotonic() - began
        assert m.agent.executed == names
        for node in others:
            found = nodes.get(m.database, node.uuid)
            assert (found.provision_state, found.last_error) == (states.DEPLOYWAIT, None)
    assert took < 30, "one that hangs is not waited for as long as one at work may take"


def test_an_agent_that_is_silent_is_asked_once_at_a_look(machine):
    """It is looked at again anyway, and between two looks its lock is free."""
    m = machine()
    m.agent.broken_paths["POST deploy.get_deploy_steps"] = "503"
    m.deploy()
    m.boot()
    support.until(lambda: m.node.driver_internal_info.get("agent_command"))
    assert m.agent.requests.count(("POST", "/v1/commands/")) == 1
    m.agent.broken_paths.clear()
    m.settle(states.ACTIVE)


# --- machines that are never switched off ------------------------------------------------


class Counted(fake.FakePower):
    calls: ClassVar[list[str]] = []

    def set_power_state(self, task, power_state, timeout=None):
        self.calls.append(power_state)
        super().set_power_state(task, power_state, timeout=timeout)

    def reboot(self, task, timeout=None):
        self.calls.append("reboot")
        super().reboot(task, timeout=timeout)


@pytest.mark.parametrize("ends", [states.ACTIVE, states.DEPLOYFAIL])
def test_a_machine_that_is_never_switched_off_is_rebooted_instead(machine, ends):
    """Its controller may share the machine's network, and be gone with it."""
    Counted.calls.clear()
    m = machine(power=Counted)
    if ends == states.DEPLOYFAIL:
        m.agent.on["mark"] = fails("no")
    m.enrol(disable_power_off=True, power_state=states.POWER_ON)
    m.run(ends=ends)
    assert Counted.calls == ["reboot"] * (2 if ends == states.ACTIVE else 1)
    assert m.agent.named("power_off") == []
    found = m.node
    assert (found.power_state, found.agent_secret_token) == (states.POWER_ON, None)
    Counted.calls.clear()
    m.service.manager.do_node_tear_down(None, m.uuid)
    m.settle(states.CLEANWAIT, states.AVAILABLE, states.CLEANFAIL)
    assert states.POWER_OFF not in Counted.calls


def test_a_plan_that_would_switch_it_off_fails(machine):
    m = machine(power=Counted)
    Counted.calls.clear()
    m.enrol(disable_power_off=True, power_state=states.POWER_ON)
    m.deploy([{"interface": "deploy", "step": "power_off", "args": {}, "priority": 15}])
    m.boot()
    node = m.settle(states.DEPLOYFAIL)
    assert "deploy.power_off failed: the node has disable_power_off" in node.last_error
    assert states.POWER_OFF not in Counted.calls


# --- what it writes into logs and onto screens ---------------------------------------------


def test_a_machine_forges_no_lines_and_commands_no_terminal(machine):
    """F76's kind: its words are words."""
    forged = "2026-11-30 10:00:00,000 CRITICAL Node OTHER: deploy ended: success"
    m = machine()
    m.agent.on["mark"] = fails(f"x\n{forged}\x1b[2J\x1b]0;pwn\x07", "y\r\n\u202e")
    lines: list[str] = []
    handler = logging.Handler()
    formatter = logs.Discreet(logging.Formatter("%(levelname)s %(message)s"))
    handler.emit = lambda record: lines.extend(formatter.format(record).split("\n"))
    logging.getLogger("deploysteps").addHandler(handler)
    try:
        node = m.run(ends=states.DEPLOYFAIL)
        support.until(lambda: any(forged in line for line in list(lines)))  # once it is written
    finally:
        logging.getLogger("deploysteps").removeHandler(handler)
    assert not any(line.startswith("2026") for line in lines), lines
    for text in [node.last_error, json.dumps(m.evidence("mark"), ensure_ascii=False), *lines]:
        assert not set(text) & set("\x1b\x07\r\u202e")
    assert "\\x1b[2J" in node.last_error


def test_a_few_retries_are_done(machine):
    m = machine(step("mark", 50, retries=2, retry_delay=0.01, repeatable=True))
    m.agent.on["mark"] = fails("no")
    m.run(ends=states.DEPLOYFAIL)
    assert m.agent.executed == ["mark"] * 3
