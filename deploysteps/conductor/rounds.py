"""Asks many machines something now and then, so that dead ones do not delay the others.

A controller that does not answer costs the others at most one thread for
``sync_power_state_call_timeout``: then its turn is over, though no thread can
be ended. As long as that call has not come back, each further turn counts as one
more failure, and the call is made once more, by another thread, after ever longer
times. Those that failed come last in a round, and ever more rarely.
"""

from __future__ import annotations

import abc
import dataclasses
import logging
import threading
import time
from collections.abc import Callable, Collection
from typing import ClassVar

from oslo_context.context import get_admin_context

from deploysteps import exceptions, secrets, states
from deploysteps.conductor import task_manager, words
from deploysteps.conductor.charge import Charge
from deploysteps.conductor.runtime import Runtime
from deploysteps.conductor.task_manager import TaskManager
from deploysteps.conductor.trouble import Trouble
from deploysteps.db.models import Node

LOG = logging.getLogger(__name__)

_PAGE = 200
"""Nodes that one query reads."""
_LONGEST_PAUSE = 8
"""Rounds after which a machine that keeps failing is asked again, at the latest."""
_HANGING_PER_WORKER = 32
"""How many calls that do not come back are borne, for each worker."""
_HANGING_AGAIN_PER_WORKER = 4
"""With how many of them those that failed when they were asked last are still asked."""
_MADE_AGAIN = 20
"""Limits of a call after which one that has not come back is made once more; doubles."""
_TOLD = (states.POWER_ON, states.POWER_OFF)


@dataclasses.dataclass
class _Call:
    """A machine that is being asked."""

    node: Node
    began: float
    asking: bool = True
    """Its answer has not come."""
    written_off: bool = False
    """Its turn is over, and its thread goes on."""
    replaced: bool = False
    """The same was asked again, by another thread."""


@dataclasses.dataclass
class _Failing:
    """A machine that does not tell its power, or does not keep it."""

    count: int = 0
    pause: int = 0
    """Rounds that are still to pass."""
    replaced: int = 0
    """How many of its calls were made again because they did not come back."""


def _asked_by(node: Node) -> tuple[object, ...]:
    """Return what tells where a node's controller is: a call to another place says nothing."""
    return node.driver, node.power_interface, node.management_interface, node.driver_info


class Rounds(abc.ABC):
    """A clock that goes round the machines: who is asked, when, and what must not take long."""

    purpose: ClassVar[str]
    """What it is called in logs and locks."""

    def __init__(self, runtime: Runtime, interval: float) -> None:
        """Make it; :meth:`start` begins, unless the interval is 0."""
        self._runtime = runtime
        self._interval = interval
        self._stopped = threading.Event()
        self._changed = threading.Condition()
        self._live: dict[str, _Call] = {}
        self._hanging: dict[str, _Call] = {}
        self._replaced = 0
        """How many calls hang that were made again."""
        self._failing: dict[str, _Failing] = {}
        self._thread = threading.Thread(target=self._run, name=self.purpose, daemon=True)

    def start(self) -> None:
        """Begin, after the first pause."""
        if self._interval:
            self._thread.start()

    def stop(self, timeout: float = 5) -> None:
        """Ask nothing more; a call that hangs is left behind."""
        self._stopped.set()
        with self._changed:
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(timeout)

    def _run(self) -> None:
        pause, trouble = self._interval, Trouble(LOG, f"A round of {self.purpose}")
        while not self._stopped.wait(pause):
            began = time.monotonic()
            with trouble.kept_going():  # a database that is away must not end the clock
                self.round()
            pause = max(self._interval - (time.monotonic() - began), 0.0)

    @property
    def hanging(self) -> int:
        """How many calls do not come back."""
        return len(self._hanging) + self._replaced

    # --- a round -----------------------------------------------------------------

    def round(self) -> int:
        """Ask every machine that is this conductor's once; returns how many were asked."""
        charge, seen, later, asked, after = Charge(self._runtime), set[str](), [], 0, 0
        drivers = self._runtime.registry.hardware_types
        while True:
            page = self.wanted(drivers, after, _PAGE)
            for node in page:
                if not charge.mine(node):
                    continue
                seen.add(node.uuid)
                if self._pauses(node):
                    continue
                if node.uuid in self._failing:
                    later.append(node)  # so that it delays none that answers
                    continue
                if not self._begin(node):
                    return asked
                asked += 1
            if len(page) < _PAGE:
                break
            after = page[-1].id
        for node in later:
            if not self._begin(node):
                return asked
            asked += 1
        self._wait(lambda: not self._live)
        for gone in set(self._failing) - seen:
            self._failing.pop(gone, None)
        return asked

    def _pauses(self, node: Node) -> bool:
        """Tell whether a machine is not asked in this round."""
        failing = self._failing.get(node.uuid)
        if failing is not None and failing.pause > 0:
            failing.pause -= 1
            return True
        with self._changed:
            call = self._hanging.get(node.uuid)
            if call is None:
                return node.uuid in self._live
            since = time.monotonic() - call.began
            if self._is_made_again(call, node, since, failing):
                return False
        self._did_not_answer(node, since)  # as it is now: it may have been worked on since
        return True

    def _is_made_again(
        self, call: _Call, node: Node, since: float, failing: _Failing | None
    ) -> bool:
        """Tell whether to ask what has not come back once more; under the condition's lock."""
        conf = self._runtime.conf.conductor
        times = failing.replaced if failing else 0
        is_time = since >= conf.sync_power_state_call_timeout * _MADE_AGAIN * 2**times
        if not is_time and _asked_by(call.node) == _asked_by(node):
            return False
        if self.hanging >= _HANGING_AGAIN_PER_WORKER * conf.sync_power_state_workers:
            return False
        call.replaced = True
        del self._hanging[call.node.uuid]
        self._replaced += 1
        self._failing.setdefault(call.node.uuid, _Failing()).replaced += 1
        return True

    def _begin(self, node: Node) -> bool:
        """Ask a machine in a thread of its own; False when no more can be asked now."""
        conf = self._runtime.conf.conductor
        workers = conf.sync_power_state_workers
        if not self._wait(lambda: len(self._live) < workers):
            return False
        again = node.uuid in self._failing
        if self.hanging >= workers * (_HANGING_AGAIN_PER_WORKER if again else _HANGING_PER_WORKER):
            LOG.warning(
                "%d calls to machines do not come back; in this round of %s %s is left out",
                self.hanging,
                self.purpose,
                "what failed before" if again else "the rest",
            )
            return False
        call = _Call(node, time.monotonic())
        with self._changed:
            self._live[node.uuid] = call
        threading.Thread(
            target=self._ask, args=(call,), name=f"{self.purpose} {node.uuid}", daemon=True
        ).start()
        return True

    def _wait(self, ready: Callable[[], bool]) -> bool:
        """Wait, and write off calls that take too long; False when it is to end."""
        limit = self._runtime.conf.conductor.sync_power_state_call_timeout
        while True:
            overdue = []
            with self._changed:
                now = time.monotonic()
                for call in [c for c in self._live.values() if now - c.began >= limit]:
                    call.written_off = True
                    self._hanging[call.node.uuid] = self._live.pop(call.node.uuid)
                    if call.asking:
                        overdue.append(call)
                ending = self._stopped.is_set() or self._runtime.stopping.is_set()
                if not overdue and (ending or ready()):
                    return not ending
                if not overdue:
                    first = min((c.began for c in self._live.values()), default=now)
                    self._changed.wait(max(first + limit - now, 0.001))
            for call in overdue:
                self._did_not_answer(call.node, limit)

    def _did_not_answer(self, node: Node, since: float) -> None:
        try:
            self.silent(node, f"no answer within {since:.3g} s")
        except exceptions.DeployStepsException as exc:
            LOG.warning("Node %s: %s: %s", node.uuid, self.purpose, exc)

    def _ask(self, call: _Call) -> None:
        """Ask a machine and act on what it says; the last resort of its thread."""
        node = call.node
        try:
            task = TaskManager(self._runtime, get_admin_context(), node, None, self.purpose)
            before = node.power_state
            told, why = self._told(task)
            with self._changed:
                call.asking = False
                late = call.written_off
            if late or self._stopped.is_set():
                return
            if why is not None:
                self.silent(node, why)
            elif told is not None:
                self.spoke(node, before, told)
        except task_manager.NOT_NOW as exc:
            LOG.debug("Node %s is left out by %s: %s", node.uuid, self.purpose, exc)
        except (exceptions.LockLost, exceptions.DatabaseUnavailable) as exc:
            LOG.warning("Node %s: %s stops: %s", node.uuid, self.purpose, exc)
        except BaseException as exc:
            held = secrets.Masker(node.driver_info, node.instance_info, node.extra)
            LOG.error("Node %s: %s failed\n%s", node.uuid, self.purpose, words.traced(exc, held))
        finally:
            with self._changed:
                for calls in (self._live, self._hanging):
                    if calls.get(node.uuid) is call:
                        del calls[node.uuid]
                self._replaced -= call.replaced
                self._changed.notify_all()

    def _told(self, task: TaskManager) -> tuple[str | None, str | None]:
        """Return the machine's power, or why it is not known; neither: it is not asked."""
        driver_power = None
        try:
            driver_power = task.driver.power
            if self.must_validate(task.node):
                driver_power.validate(task)
        except BaseException as exc:  # whatever a driver raises is its word on this node alone
            LOG.debug("Node %s cannot be asked for its power: %s", task.node.uuid, type(exc))
            return None, None
        known = task.node.power_state
        try:
            found = driver_power.get_power_state(task)
        except BaseException as exc:
            told = words.shown(words.text_of(exc), task.masker(), words.LAST_ERROR_BYTES)
            return None, told
        finally:
            task.node.power_state = known
        if isinstance(found, str) and found in _TOLD:
            return str(found), None
        if found is None and known not in _TOLD:
            return None, None  # unknown, and recorded as that
        shown = repr(str(found)) if isinstance(found, str) else type(found).__name__
        return None, f"the driver cannot tell: get_power_state() returned {shown[:80]}"

    def failed(self, node: Node, why: str) -> int:
        """Count a failure and return how many there were in a row."""
        failing = self._failing.setdefault(node.uuid, _Failing())
        failing.count += 1
        failing.pause = min(2 ** (failing.count - 1), _LONGEST_PAUSE) - 1
        LOG.warning(
            "Node %s: %s, failure %d in a row: %s", node.uuid, self.purpose, failing.count, why
        )
        return failing.count

    def is_well(self, node: Node) -> None:
        """Forget the failures of a node."""
        self._failing.pop(node.uuid, None)

    def locked(self, node: Node) -> TaskManager:
        """Return a task with the node's lock, which is not waited for.

        What a machine has told while somebody worked on it tells nothing of it now, also
        where that work is over, and the record reads as before.

        :param node: as it was read before its machine was asked.
        :raises NodeLocked: somebody has worked on it since, or does.
        """
        task = task_manager.acquire(
            get_admin_context(), node.id, purpose=self.purpose, retry=False, runtime=self._runtime
        )
        if task.node.generation == node.generation:
            return task
        with task:
            raise exceptions.NodeLocked(node=node.uuid, host="another operation, until just now")

    # --- what such rounds differ in ---------------------------------------------------

    @abc.abstractmethod
    def wanted(self, drivers: Collection[str], after: int, limit: int) -> list[Node]:
        """Return a page of the nodes that are looked after, by one query."""

    @abc.abstractmethod
    def must_validate(self, node: Node) -> bool:
        """Tell whether a node's settings are checked before its machine is asked."""

    @abc.abstractmethod
    def silent(self, node: Node, why: str) -> None:
        """Act on a machine that does not tell its power."""

    @abc.abstractmethod
    def spoke(self, node: Node, before: str | None, found: str) -> None:
        """Act on a machine that tells its power; ``before`` was recorded."""
