"""A conductor in one thread, and a process that is killed at its n-th point.

Everything of a conductor but its threads: what a worker would do is done at
once, where it is handed over, and the loops run when they are asked to. So
the points between two SQL statements come in the same order each time, and
the n-th of them is the n-th of them.
"""

from __future__ import annotations

import copy
import gc
import json
import logging
import os
import select
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple

from sqlalchemy import event

from deploysteps import exceptions, states
from deploysteps.conductor.manager import ConductorManager
from deploysteps.conductor.recovery import Recovery
from deploysteps.conductor.runtime import Runtime
from deploysteps.conductor.service import Service
from deploysteps.conductor.sweeper import Sweeper
from deploysteps.conductor.workers import Workers
from deploysteps.db import conductors, nodes, runs
from deploysteps.db.engine import Database
from deploysteps.db.models import Node, StepAttempt
from tests import support

LOG = logging.getLogger(__name__)

KILLED = "kill points"
"""Property of a test's report that says how many were tried."""


class AtOnce(Workers):
    """Workers that do what they are given before they return."""

    def _submit(self, work: Callable[..., Any], *args: Any) -> None:
        try:
            work(*args)
        except BaseException:
            LOG.exception("A worker's last resort failed as well")
        finally:
            self._done()


class Stepwise:
    """A conductor without threads."""

    def __init__(self, database: Database, conf: Any, registry: Any, host: str) -> None:
        self.database = database
        self.runtime = Runtime(
            conf=conf, database=database, registry=registry, workers=AtOnce(20, 5), host=host
        )
        self.manager = ConductorManager(self.runtime)
        self.sweeper = Sweeper(self.runtime)
        self.recovery = Recovery(self.runtime)

    def start(self) -> None:
        """Do what a service does before it serves."""
        before = conductors.heard(self.database, self.runtime.host)
        self.recovery = Recovery(self.runtime, before)
        conductors.register(
            self.database,
            self.runtime.host,
            self.runtime.boot_id,
            self.runtime.registry.offers(),
        )
        self.recovery.sweep(starting=True)


class Served(Stepwise):
    """A whole service, with threads: its own sweeper and recovery are at work."""

    def __init__(self, database: Database, conf: Any, registry: Any, host: str) -> None:
        conf.set_override("host", host)
        self._service = Service(conf, database=database, registry=registry)
        self.database = database
        self.sweeper = self.recovery = self

    def start(self) -> None:
        self._service.start()
        self.runtime, self.manager = self._service.runtime, self._service.manager

    def sweep(self) -> float:
        """Leave it to the service."""
        return 0.005


# --- dying ------------------------------------------------------------------------


class Points:
    """Counts the points of a process, and kills it at one of them."""

    def __init__(self) -> None:
        self.at = 0
        """The point to die at; 0: never."""
        self.count = 0
        self.freezes = 0
        """A thread whose next COMMIT is preceded by a SIGSTOP."""
        self._lock = threading.Lock()

    def arm(self, at: int) -> None:
        """Die at the ``at``-th point from now."""
        self.at, self.count = at, 0

    def __call__(self, *_: Any, **__: Any) -> None:
        """Pass a point."""
        with self._lock:
            self.count += 1
            if self.count == self.at:
                os.kill(os.getpid(), signal.SIGKILL)


points = Points()
"""The points of this process."""


def watched(database: Database) -> Database:
    """Put a point before each statement of a database, and before and after each COMMIT.

    What is after a statement is before the next one, or before the COMMIT, or
    in the code of a step, which has points of its own.
    """
    engine = database.engine

    @event.listens_for(engine, "before_cursor_execute")
    def before(connection: Any, *_: Any) -> None:
        if not connection.get_execution_options().get("unseen"):
            points()

    commit = engine.dialect.do_commit

    def do_commit(connection: Any) -> None:
        points()
        if points.freezes == threading.get_ident():
            points.freezes = 0
            # To this thread: a signal to the process may find another first.
            signal.pthread_kill(threading.get_ident(), signal.SIGSTOP)
        commit(connection)
        points()

    engine.dialect.do_commit = do_commit  # type: ignore[method-assign]
    return database


def eyes_of(database: Database) -> Database:
    """Return a view of a database whose reads are no points, over the same connections."""
    eyes = copy.copy(database)
    eyes.engine = database.engine.execution_options(unseen=True)
    eyes._readers = database._readers.execution_options(unseen=True)
    return eyes


class Ended(NamedTuple):
    """How a forked process ended."""

    killed: bool
    value: Any


def forked(work: Callable[[], Any], limit: float = 120) -> Ended:
    """Run ``work`` in a fork of this process and return what it returned.

    :param limit: seconds; then it is killed, and that is an error.
    :raises AssertionError: with what it raised.
    """
    reader, writer = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        _child(work, writer)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        said = _read(pipe.fileno(), pid, limit)
    status = os.waitpid(pid, 0)[1]
    if os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL and not said:
        return Ended(True, None)
    assert said, f"the forked process ended with status {status} and said nothing"
    told = json.loads(said)
    assert "error" not in told, told["error"]
    return Ended(False, told["value"])


def _child(work: Callable[[], Any], writer: int) -> None:
    gc.disable()  # what the parent made is not this process's to tidy up
    said: dict[str, Any] = {}
    try:
        said = {"value": work()}
    except BaseException:
        said = {"error": traceback.format_exc()}
    finally:
        data = json.dumps(said, default=str).encode()
        while data:
            data = data[os.write(writer, data) :]
        os._exit(0)


def _read(pipe: int, pid: int, limit: float) -> bytes:
    """Read to the end; at the limit, kill it and say so."""
    until, found = time.monotonic() + limit, b""
    while select.select([pipe], [], [], max(until - time.monotonic(), 0))[0]:
        chunk = os.read(pipe, 65536)
        if not chunk:
            return found
        found += chunk
    os.kill(pid, signal.SIGKILL)
    return json.dumps({"error": f"a forked process hung for {limit} s"}).encode()


class Answer:
    """What a :class:`Peer` will answer."""

    def __init__(self, pipe: Any) -> None:
        self._pipe = pipe

    def ready(self) -> bool:
        """Tell whether it has answered."""
        return bool(select.select([self._pipe], [], [], 0)[0])

    def result(self, limit: float = 90) -> Any:
        """Return the answer."""
        assert select.select([self._pipe], [], [], limit)[0], "the other process hangs"
        told = json.loads(self._pipe.readline() or '{"error": "the other process died"}')
        assert "error" not in told, told["error"]
        return told["value"]


class Peer:
    """A fork of this process that does what it is asked, until the block ends."""

    def __init__(self, do: Callable[..., Any]) -> None:
        self._do = do
        self.pid = 0

    def __enter__(self) -> Peer:
        """Start it."""
        asks, asked = os.pipe()
        answers, answered = os.pipe()
        self.pid = os.fork()
        if self.pid == 0:
            gc.disable()
            for other in (asked, answers):
                os.close(other)
            self._serve(asks, answered)
        os.close(asks)
        os.close(answered)
        self._asked, self._answers = os.fdopen(asked, "w"), os.fdopen(answers, "rb", 0)
        return self

    def _serve(self, asks: int, answered: int) -> None:
        try:
            for line in os.fdopen(asks):
                try:
                    said = {"value": self._do(*json.loads(line))}
                except BaseException:
                    said = {"error": traceback.format_exc()}
                os.write(answered, (json.dumps(said, default=str) + "\n").encode())
        finally:
            os._exit(0)

    def ask(self, *order: Any) -> Answer:
        """Ask for something; the answer comes when it comes."""
        self._asked.write(json.dumps(order) + "\n")
        self._asked.flush()
        return Answer(self._answers)

    def __exit__(self, *_: object) -> None:
        """End it."""
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        self._asked.close()
        self._answers.close()


# --- the world around a conductor --------------------------------------------------


def agent_beats(conductor: Stepwise, node: Node) -> None:
    """Heartbeat as the machine's agent, which looks itself up once a boot."""
    token = node.agent_secret_token or conductor.manager.lookup(None, [], node.uuid)[1]
    conductor.manager.heartbeat(None, node.uuid, support.CALLBACK, agent_token=token)


World = Callable[[Stepwise, Node, StepAttempt], bool]
"""What someone does when a node waits; False when the usual is to happen."""


def nothing_else(conductor: Stepwise, node: Node, attempt: StepAttempt) -> bool:
    """Let the agent beat and the clock tick."""
    return False


def drive(
    conductor: Stepwise, eyes: Database, uuid: str, world: World = nothing_else, limit: float = 60
) -> Node:
    """Be the world around a node until it is stable and unlocked; return it."""
    until = time.monotonic() + limit
    while True:
        node = nodes.get(eyes, uuid)
        kind = states.STATES[node.provision_state].kind
        if node.reservation is None and kind is states.Kind.STABLE:
            return node
        attempt = runs.last_attempt(eyes, node.run_id) if node.run_id is not None else None
        if node.reservation is None and attempt is not None and attempt.state == runs.WAITING:
            _while_it_waits(conductor, node, attempt, world)
        else:
            conductor.recovery.sweep()
            time.sleep(0.005)
        assert time.monotonic() < until, (
            f"stuck: {node.provision_state!r}, locked by {node.reservation!r}, "
            f"{support.told(eyes, node)}"
        )


def _while_it_waits(conductor: Stepwise, node: Node, attempt: StepAttempt, world: World) -> None:
    try:
        if world(conductor, node, attempt):
            return
        if attempt.owner == "agent" and attempt.signal is None:
            agent_beats(conductor, node)
            return
        if attempt.owner == "operator" and attempt.signal is None:
            conductor.manager.do_provisioning_action(None, node.uuid, states.UNHOLD)
    except exceptions.NodeLocked:
        return
    if attempt.conductor != conductor.runtime.host:
        conductor.recovery.sweep()  # adopts what a lost conductor waited for
    time.sleep(min(conductor.sweeper.sweep(), 0.005))
