"""What goes wrong between the conductor and the agent, and what the run makes of it."""

from __future__ import annotations

import contextlib
import logging
import time

import pytest

from deploysteps import exceptions, states
from deploysteps.conf import CONF
from deploysteps.db import nodes
from tests import support
from tests.agent.fake_agent import DATA, fails, runs_for, says, step


@pytest.fixture
def silence():
    """Limit how long an agent may be silent, for the driver as for the engine."""

    def change(seconds):
        CONF.set_override("deploy_callback_timeout", seconds, group="conductor")

    yield change
    CONF.clear_override("deploy_callback_timeout", group="conductor")


@pytest.mark.parametrize("how", ["lose", "drop"])
def test_a_lost_answer_runs_the_step_once(machine, how):
    """F28: executed and the answer lost, or the request lost: the agent's list tells which."""
    m = machine(step("once", 90))
    m.agent.on["once"] = runs_for(0.2)
    m.agent.break_first["POST deploy.execute_deploy_step"] = how
    m.run()
    assert m.agent.executed == ["once"]
    assert m.outcomes()[1] == ("once", 1, "success")


def test_a_lost_answer_when_the_list_cannot_be_had_either(machine):
    """The step is entered again later, and finds its command then."""
    m = machine(step("once", 90))
    m.agent.on["once"] = says("RUNNING")
    m.deploy()
    m.agent.broken_paths = {"POST deploy.execute_deploy_step": "lose", "GET list": "503"}
    m.boot()
    node = support.until(
        lambda: (
            n if (n := m.node).driver_internal_info.get("agent_command", {}).get("sent") else None
        )
    )
    assert node.last_error is None
    m.agent.broken_paths.clear()
    m.agent.commands[-1].status = "SUCCEEDED"
    m.settle(states.ACTIVE)
    assert m.agent.executed == ["once"]


def test_a_busy_agent_is_waited_for(machine):
    """F28: 409 is no failure."""
    m = machine(step("mark", 90))
    m.agent.busy_with = "something_else"
    m.deploy()
    m.boot()
    m.until_step("mark")
    m.agent.busy_with = None
    m.settle(states.ACTIVE)
    assert m.agent.executed == ["mark"]


@pytest.mark.parametrize("status", ["new", "", None, 7, ["x"]])
def test_an_unknown_status_counts_as_running_and_is_logged_once(machine, caplog, status):
    """F32."""
    m = machine(step("odd", 90))
    m.agent.on["odd"] = says(status)
    with caplog.at_level(logging.WARNING):
        m.deploy()
        m.boot()
        m.until_step("odd")
        time.sleep(0.4)
    assert len([r for r in caplog.records if "no status known here" in r.message]) == 1
    m.agent.commands[-1].status = "SUCCEEDED"
    m.settle(states.ACTIVE)


@pytest.mark.parametrize("how", ["500", "503", "drop"])
def test_errors_of_the_agent_while_it_is_asked_are_no_failure(machine, how):
    m = machine(step("slow", 90))
    m.agent.on["slow"] = says("RUNNING")
    m.deploy()
    m.boot()
    m.until_step("slow")
    m.agent.broken_paths["GET one"] = how
    support.until(lambda: m.node.driver_internal_info.get("agent_command", {}).get("silent_since"))
    m.agent.commands[-1].status = "SUCCEEDED"
    m.agent.broken_paths.clear()
    node = m.settle(states.ACTIVE)
    assert node.last_error is None


def test_a_list_that_is_broken_for_good_is_in_nobodys_way(machine):
    """After wrong params to a sync command the list answers 500: one command is asked for."""
    m = machine(step("slow", 90))
    m.agent.on["slow"] = runs_for(0.1)
    m.agent.broken_paths["GET list"] = "500"
    m.run()
    assert m.agent.executed == ["slow"]


def test_an_agent_that_is_gone_in_the_middle_is_given_its_time(machine, conf, silence):
    """An agent that does not answer fails the step when it has been silent for too long."""
    m = machine(step("slow", 90))
    m.agent.on["slow"] = says("RUNNING")
    m.deploy()
    m.boot()
    m.until_step("slow")
    m.agent.stop()
    conf.set_override("deploy_callback_timeout", 1.5, group="conductor")
    silence(1.5)
    node = m.settle(states.DEPLOYFAIL, states.DEPLOYFAIL)
    assert "deploy_callback_timeout" in node.last_error and node.deploy_step["step"] == "slow"


def test_an_agent_that_beats_but_cannot_be_reached_fails_the_run(machine, silence):
    """F36: beats alone keep no run alive for ever."""
    silence(1)
    m = machine(step("mark", 90))
    m.deploy()
    m.agent.reboot(support.token(m.service, m.node))
    m.agent.stop()
    m.beat()
    node = m.settle(states.DEPLOYFAIL)
    assert "refuses connections" in node.last_error and "for 1 s" in node.last_error
    assert m.agent.token not in node.last_error


def test_an_agent_that_was_restarted_knows_nothing_of_the_step(machine):
    m = machine(step("slow", 90))
    m.agent.on["slow"] = says("RUNNING")
    m.deploy()
    m.boot()
    m.until_step("slow")
    m.agent.commands = []
    node = m.settle(states.DEPLOYFAIL)
    assert "restarted while it executed the step" in node.last_error


def test_a_version_mismatch_fetches_the_steps_and_begins_again(machine):
    m = machine(step("one", 90), step("two", 80))

    def change(command):
        command.status = "SUCCEEDED"
        if m.agent.versions == {"peer": "1"}:
            m.agent.versions = {"peer": "2"}
            m.agent.steps.append(step("new", 85))

    m.agent.on["one"] = change
    node = m.run()
    ran = [c.params["step"]["step"] for c in m.agent.named("execute_deploy_step")]
    assert ran == ["one", "two", "one", "new", "two"]
    outcomes = m.outcomes()
    assert [o for o in outcomes if o[0] == "two"] == [("two", 1, "failed"), ("two", 1, "success")]
    assert m.ran().count("deploy") == 2 and "steps_started_over" not in node.driver_internal_info
    assert node.driver_internal_info["hardware_manager_version"] == {"peer": "2"}


def test_a_version_that_always_differs_ends_the_run(machine):
    """Bounded: three new beginnings, then a failure that says why."""
    m = machine(step("one", 90))
    m.agent._step = lambda command, flow: (
        setattr(command, "status", "CLEAN_VERSION_MISMATCH"),
        setattr(command, "error", {"message": "never the same"}),
    )
    node = m.run(ends=states.DEPLOYFAIL)
    assert "never the same" in node.last_error and "3 times" in node.last_error
    assert len(m.agent.named("execute_deploy_step")) == 4


@pytest.mark.parametrize("asked_after", [True, False])
def test_after_a_version_mismatch_the_steps_may_be_told_late(machine, asked_after):
    """F24: it is no failure, and no worker waits for them."""
    m = machine(step("mark", 50))

    def change(command):
        m.agent.versions = {"peer": "2"}
        m.agent.broken_paths["POST deploy.get_deploy_steps"] = "503"
        m.agent.on.clear()
        command.status = "RUNNING" if asked_after else "CLEAN_VERSION_MISMATCH"
        command.error = {"message": "other versions"}

    m.agent.on["mark"] = change
    m.deploy()
    m.boot()
    if asked_after:
        m.until_step("mark")
        m.agent.commands[-1].status = "CLEAN_VERSION_MISMATCH"
    support.until(lambda: m.node.driver_internal_info.get("agent_command", {}).get("silent_since"))
    assert m.node.last_error is None
    m.agent.broken_paths.clear()
    m.settle(states.ACTIVE)
    assert m.ran().count("mark") == 1


def test_a_version_mismatch_in_cleaning_on_request(machine):
    m = machine(step("one"), step("two"))

    def change(command):
        command.status, m.agent.versions = "SUCCEEDED", {"peer": "2"}

    m.agent.on["one"] = change
    m.enrol(provision_state=states.MANAGEABLE)
    listed = [{"interface": "deploy", "step": name} for name in ("one", "two")]
    m.service.manager.do_node_clean(None, m.uuid, listed)
    m.settle(states.CLEANWAIT)
    m.boot()
    m.settle(states.MANAGEABLE)
    assert m.agent.executed == ["one", "two", "one", "two"]


def test_an_agent_without_tls_is_refused_by_default(machine, settings):
    settings(require_tls=True)
    node = machine().run(ends=states.DEPLOYFAIL)
    assert "[agent] require_tls" in node.last_error


def test_another_certificate_than_the_agent_sent_is_not_trusted(machine):
    m = machine(tls=True)
    m.deploy()
    m.agent.reboot(support.token(m.service, m.node))
    m.beat(agent_verify_ca=(DATA / "other-cert.pem").read_text())
    node = m.settle(states.DEPLOYFAIL)
    assert "cannot be trusted: certificate verify failed" in node.last_error
    assert m.agent.requests == []


def test_tls_without_a_certificate_needs_a_file(machine, settings):
    m = machine(tls=True)
    m.agent.pem = None
    node = m.run(ends=states.DEPLOYFAIL)
    assert "[agent] api_ca_file" in node.last_error
    settings(api_ca_file=str(DATA / "agent-cert.pem"))
    m.service.manager.do_node_deploy(None, m.uuid)
    m.settle(states.DEPLOYWAIT)
    m.boot()
    m.settle(states.ACTIVE)


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("redirect", "redirect (308), which is not followed"),
        ("huge", "more than"),
        ("text", "no JSON object"),
        ("401", "401"),
        ("404", "404"),
    ],
)
def test_what_no_agent_answers_fails_the_step(machine, how, said):
    m = machine(step("mark", 90))
    m.agent.broken_paths["POST deploy.execute_deploy_step"] = how
    node = m.run(ends=states.DEPLOYFAIL)
    assert said in node.last_error


def test_the_environments_proxies_and_certificates_are_not_used(machine, monkeypatch):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("REQUESTS_CA_BUNDLE", str(DATA / "other-cert.pem"))
    m = machine(tls=True)
    m.run()


def test_the_token_is_nowhere_to_be_read(machine, caplog):
    """F76: a run with every kind of trouble, at DEBUG."""
    m = machine(step("bad", 90))
    m.agent.on["bad"] = says("RUNNING")
    with caplog.at_level(logging.DEBUG):
        m.deploy()
        m.boot()
        m.until_step("bad")
        token = m.agent.token
        m.agent.broken_paths["GET one"] = "500"
        support.until(
            lambda: m.node.driver_internal_info.get("agent_command", {}).get("silent_since")
        )
        m.agent.broken_paths.clear()
        m.agent.logs = {"journal": f"a log that has {token} in it".encode()}
        command = m.agent.commands[-1]
        command.error = {"message": f"http://x/?agent_token={token} failed", "details": token}
        command.status = "FAILED"
        node = m.settle(states.DEPLOYFAIL)
    kept = support.attempts(m.database, node)
    shown = [caplog.text, node.last_error, str([(a.error, a.evidence) for a in kept])]
    shown.append(str([h.event for h in nodes.history_of(m.database, node.id)]))
    shown.append(str(support.last_run(m.database, node).error))
    assert token and not any(token in text for text in shown)
    assert "a log that has ****** in it" in str(m.evidence("bad"))


def test_of_long_logs_the_end_is_kept(machine, settings):
    settings(deploy_logs_kept_kilobytes=1)
    m = machine(step("bad", 90))
    m.agent.on["bad"] = fails("no")
    m.agent.logs = {"journal": b"x" * 500_000 + b"the end", "dmesg": b"short"}
    m.run(ends=states.DEPLOYFAIL)
    kept = m.evidence("bad")["agent_logs"]
    assert kept["dmesg"] == "short" and kept["journal"].endswith("the end")
    assert 900 < len(kept["journal"]) + len(kept["dmesg"]) <= 1024


def test_a_burst_of_beats_runs_each_step_once(machine):
    """F16, F19: beats and looks at once, and one advance."""
    m = machine(*(step(f"s{n}", 90 - n) for n in range(5)))
    for n in range(5):
        m.agent.on[f"s{n}"] = runs_for(0.05)
    m.deploy()
    m.boot()

    def beat():
        with contextlib.suppress(exceptions.DeployStepsException):  # locked, or it has ended
            m.service.manager.heartbeat(None, m.uuid, m.agent.url, agent_token=m.agent.token)
        return nodes.get(m.database, m.uuid).provision_state == states.ACTIVE

    support.until(beat)
    assert m.agent.executed == [f"s{n}" for n in range(5)]


@pytest.mark.parametrize(
    "event", ["power off", "already off", "reboot", "abort", "timeout", "fail"]
)
def test_the_token_goes_with_every_loss_of_the_agent(machine, conf, event):
    """F29: the old token is refused, the next boot is accepted."""
    m = machine(step("slow", 90))
    m.agent.on["slow"] = says("RUNNING")
    m.deploy()
    m.boot()
    m.until_step("slow")
    old, manager = m.agent.token, m.service.manager
    if event == "already off":
        support.retried(lambda: manager.change_node_power_state(None, m.uuid, states.POWER_OFF))
        support.until(lambda: m.node.reservation is None and m.node.power_state == "power off")
        m.boot()  # as the node has it, it is off; who knows who pressed the button
        old = m.agent.token
    if event in ("power off", "already off", "reboot"):
        target = states.REBOOT if event == "reboot" else states.POWER_OFF
        support.retried(lambda: manager.change_node_power_state(None, m.uuid, target))
        support.until(lambda: m.node.reservation is None and m.node.target_power_state is None)
    elif event == "abort":
        manager.do_provisioning_action(None, m.uuid, "abort")
        m.settle(states.DEPLOYFAIL)
    elif event == "timeout":
        conf.set_override("deploy_callback_timeout", 0.5, group="conductor")
        m.settle(states.DEPLOYFAIL)
    else:
        m.agent.commands[-1].status = "FAILED"
        m.settle(states.DEPLOYFAIL)
    with pytest.raises(exceptions.InvalidParameterValue, match="token"):
        m.beat(old)
    if m.node.provision_state == states.DEPLOYFAIL:
        conf.clear_override("deploy_callback_timeout", group="conductor")
        m.deploy()
    m.boot()
    assert m.agent.token != old


@pytest.mark.parametrize(
    "url",
    [
        "file:///etc/passwd",
        "127.0.0.1:9",
        "http://",
        "http://u:p@127.0.0.1/",
        "http://127.0.0.1/?a=b",
    ],
)
def test_a_callback_that_is_no_plain_address_is_refused(machine, url):
    """F30."""
    m = machine()
    m.deploy()
    m.agent.reboot(support.token(m.service, m.node))
    with pytest.raises(exceptions.InvalidParameterValue, match="callback_url"):
        m.beat(callback_url=url)
    assert m.node.driver_internal_info.get("agent_url") is None


def test_the_callback_is_pinned_until_the_next_boot(machine):
    """F30: also one with the right token cannot move it."""
    m = machine(step("slow", 90))
    m.agent.on["slow"] = says("RUNNING")
    m.deploy()
    m.boot()
    m.until_step("slow")
    with pytest.raises(exceptions.InvalidParameterValue, match="pinned"):
        m.beat(callback_url="http://127.0.0.1:1")


def test_an_agent_command_that_is_forgotten_fails_the_step(machine):
    """F31: started a command of the agent and returned None."""
    from deploysteps.drivers import base
    from deploysteps.drivers.agent.client import AgentClient

    class Forgets(support.Vendor):
        @base.deploy_step(priority=85)
        def forgets(self, task):
            AgentClient.of(task.node).start("standby.run_image", {})

    m = machine(vendor=Forgets)
    m.agent.on["run_image"] = says("RUNNING")
    node = m.run(ends=states.DEPLOYFAIL)
    assert "started a command of the machine's agent and then returned None" in node.last_error
