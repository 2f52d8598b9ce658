"""A conductor that is frozen past its timeout, taken over, and then wakes (F46, F47).

It is a real process, stopped by SIGSTOP and woken by SIGCONT, with all its
threads; another conductor, in this process, takes its node over meanwhile.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploysteps import exceptions, states
from deploysteps.conductor.service import Service
from deploysteps.db import conductors, nodes
from deploysteps.db.engine import Database
from deploysteps.db.models import Node
from deploysteps.drivers import base
from tests import support
from tests.crash import checks
from tests.crash.drivers import Deploy, Kinds
from tests.crash.journal import journal
from tests.crash.stepwise import Peer, points, watched

FROZEN, AWAKE = "conductor-1", "conductor-2"
TIMEOUT = 3


class Slow(Kinds):
    """A step that lasts until it is told to end, or to end with a write of its own."""

    def _slow(self, task: Any, name: str) -> None:
        journal.note("run", name)
        if task.runtime.host != FROZEN:
            return
        if task.node.extra.get("freeze") == "at commit":
            points.freezes = threading.get_ident()
            return
        until = time.monotonic() + 60
        while not journal.path.with_suffix(".go").exists():
            assert time.monotonic() < until
            time.sleep(0.01)
        if task.node.extra.get("saves"):
            task.node.set_driver_internal_info("late", True)
            try:
                task.node.save()
            except exceptions.LockLost:
                journal.note("refused", name)
                raise
        journal.note("end", name)


class SlowOnce(Slow):
    """May not be run again."""

    @base.deploy_step(priority=9)
    def slow(self, task):
        self._slow(task, "slow")

    @base.deploy_step(priority=8)
    def after(self, task):
        journal.note("run", "after")


class SlowAgain(Slow):
    """May be run again, even while the first try is still running."""

    @base.deploy_step(priority=9, repeatable=True)
    def slow(self, task):
        self._slow(task, "slow")

    @base.deploy_step(priority=8)
    def after(self, task):
        journal.note("run", "after")


@pytest.fixture(autouse=True)
def a_journal(tmp_path: Path, conf: Any) -> Iterator[Path]:
    """A journal, and clocks that are short."""
    journal.path = tmp_path / "journal"
    for name, value in {
        "heartbeat_interval": 0.2,
        "heartbeat_timeout": TIMEOUT,
        "recovery_interval": 0.3,
    }.items():
        conf.set_override(name, value, group="conductor")
    yield journal.path.with_suffix(".go")
    journal.path = Path(os.devnull)


def conductor_process(url: str, conf: Any, vendor: Any) -> Callable[..., Any]:
    """Return what the process does that will be frozen."""
    made: dict[str, Any] = {}

    def do(order: str, *args: Any) -> Any:
        if order == "start":
            conf.set_override("host", FROZEN)
            database = watched(Database(url, busy_timeout=20, idle_transaction_timeout=3))
            registry = support.registry(conf, vendor=vendor, deploy=Deploy)
            made["service"] = Service(conf, database=database, registry=registry)
            made["service"].start()
        elif order == "deploy":
            values = {"driver": "test-hardware", "provision_state": states.AVAILABLE, **args[0]}
            made["node"] = made["service"].manager.create_node(None, values)
            made["service"].manager.do_node_deploy(None, made["node"].uuid)
            return made["node"].uuid
        elif order == "idle":
            support.until(lambda: made["service"].runtime.workers.busy == 0)
        return None

    return do


@pytest.fixture
def woken_other(url: str, conf: Any, database: Database) -> Iterator[Callable[..., Any]]:
    """Start a conductor process that will be frozen."""
    started: list[Peer] = []

    def start(vendor: Any) -> Peer:
        database.dispose()
        peer = Peer(conductor_process(url, conf, vendor)).__enter__()
        started.append(peer)
        peer.ask("start").result()
        return peer

    yield start
    for peer in started:
        peer.__exit__()


def silent(database: Database, host: str) -> bool:
    """Tell whether a conductor is past its timeout."""
    return host not in conductors.alive_names(database, TIMEOUT)


def seen(node: Node) -> tuple[Any, ...]:
    """Return what must not change any more."""
    return (
        node.provision_state,
        node.generation,
        node.updated_at,
        node.last_error,
        node.deploy_step,
        node.driver_internal_info,
        node.reservation,
    )


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("saves", [True, False], ids=["in the step", "after the step"])
@pytest.mark.parametrize("vendor", [SlowOnce, SlowAgain], ids=["once", "repeatable"])
def test_the_writes_of_a_conductor_that_was_taken_over_are_refused(
    database, start, woken_other, a_journal, vendor, saves
):
    """F46, F47: frozen in a step, taken over, woken: it writes nothing and runs nothing."""
    peer = woken_other(vendor)
    uuid = peer.ask("deploy", {"extra": {"saves": saves}}).result()
    support.until(lambda: journal.count("run", "slow"))
    os.kill(peer.pid, signal.SIGSTOP)
    support.until(lambda: silent(database, FROZEN))
    start(database, host=AWAKE, vendor=vendor, deploy=Deploy)
    goal = states.ACTIVE if vendor is SlowAgain else states.DEPLOYFAIL
    node = support.settle(database, uuid, goal)
    before = seen(node)
    a_journal.touch()
    os.kill(peer.pid, signal.SIGCONT)
    peer.ask("idle").result(90)
    time.sleep(0.5)  # its loops have a look at the node as well
    node = nodes.get(database, uuid)
    assert seen(node) == before
    assert journal.count("refused" if saves else "end", "slow") == 1
    assert journal.count("run", "slow") == (2 if vendor is SlowAgain else 1)
    assert journal.count("run", "after") == (1 if vendor is SlowAgain else 0)
    if goal == states.DEPLOYFAIL:
        assert f"vendor.slow failed: interrupted: conductor {FROZEN} was lost" in node.last_error
    checks.nothing_is_left(node)
    checks.history_is_complete(database, node, support.last_run(database, node))


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_conductor_that_wakes_is_alive_again_and_works(database, start, woken_other, a_journal):
    """F46: losing one node's lock is no reason to end."""
    peer = woken_other(SlowOnce)
    uuid = peer.ask("deploy", {}).result()
    support.until(lambda: journal.count("run", "slow"))
    os.kill(peer.pid, signal.SIGSTOP)
    support.until(lambda: silent(database, FROZEN))
    start(database, host=AWAKE, vendor=SlowOnce, deploy=Deploy)
    support.settle(database, uuid, states.DEPLOYFAIL)
    a_journal.touch()
    os.kill(peer.pid, signal.SIGCONT)
    peer.ask("idle").result(90)
    support.until(lambda: not silent(database, FROZEN))
    again = peer.ask("deploy", {}).result()
    support.settle(database, again, states.ACTIVE)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
@pytest.mark.parametrize("kind", ["postgresql", "mysql"])
def test_a_conductor_that_is_frozen_in_a_transaction_does_not_hold_the_node(
    database, start, woken_other, kind
):
    """F46, F65: it holds the row itself, which others would wait for without an end."""
    peer = woken_other(SlowOnce)
    uuid = peer.ask("deploy", {"extra": {"freeze": "at commit"}}).result()
    support.until(lambda: stopped(peer.pid))
    support.until(lambda: silent(database, FROZEN))
    start(database, host=AWAKE, vendor=SlowOnce, deploy=Deploy)
    node = support.settle(database, uuid, states.DEPLOYFAIL, timeout=60)
    before = seen(node)
    os.kill(peer.pid, signal.SIGCONT)
    peer.ask("idle").result(90)
    assert seen(nodes.get(database, uuid)) == before
    assert journal.runs() == ["prepare", "slow"]


def stopped(pid: int) -> bool:
    """Tell whether a process is stopped by a signal."""
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "T"


def test_a_conductor_that_cannot_say_that_it_lives_does_not_take_over_from_itself(
    database, start, conf, monkeypatch, a_journal
):
    """F46: the keepalive fails for twice the timeout while a step runs."""
    service = start(database, host=FROZEN, vendor=SlowOnce, deploy=Deploy)
    node = support.enrolled(service)
    monkeypatch.setattr(conductors, "touch", lambda *_: True)
    service.manager.do_node_deploy(None, node.uuid)
    support.until(lambda: silent(database, FROZEN))
    time.sleep(TIMEOUT)
    a_journal.touch()
    node = support.settle(database, node.uuid, states.ACTIVE)
    assert journal.runs() == ["prepare", "slow", "after"]
    checks.history_is_complete(database, node, support.last_run(database, node))


def test_a_conductor_that_cannot_say_that_it_lives_is_refused_once_taken_over(
    database, url, start, conf, monkeypatch, a_journal
):
    """F46: it goes on, not knowing that another holds its node by now."""
    first = start(database, host=FROZEN, vendor=SlowOnce, deploy=Deploy)
    touch = conductors.touch
    monkeypatch.setattr(
        conductors, "touch", lambda db, host, boot: host == FROZEN or touch(db, host, boot)
    )
    node = support.enrolled(first)
    first.manager.do_node_deploy(None, node.uuid)
    support.until(lambda: journal.count("run", "slow"))
    support.until(lambda: silent(database, FROZEN))
    start(database, host=AWAKE, vendor=SlowOnce, deploy=Deploy)
    before = seen(support.settle(database, node.uuid, states.DEPLOYFAIL))
    a_journal.touch()
    support.until(lambda: first.runtime.workers.busy == 0)
    assert seen(nodes.get(database, node.uuid)) == before
    assert journal.runs() == ["prepare", "slow"]
