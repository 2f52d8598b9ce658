"""How a task moves its node's state: by the table, and with all that belongs to it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from deploysteps import exceptions, states
from deploysteps.conductor import endings, old_way
from deploysteps.conductor.runtime import Runtime
from deploysteps.db import nodes, runs, transitions, types
from deploysteps.db.locks import Also
from deploysteps.db.models import Node, StepAttempt
from deploysteps.steps import FLOWS, StepFlow, flow_of_state

LOG = logging.getLogger(__name__)


class StateEvents:
    """Mixed into :class:`~deploysteps.conductor.task_manager.TaskManager`."""

    runtime: Runtime
    node: Node
    attempt: StepAttempt | None
    user: Any
    project: Any
    waiting_step: dict[str, Any] | None
    answer: tuple[bool, str | None] | None
    overheard: bool
    write: Callable[..., Any]
    complete_step: Callable[[], None]
    spawn_after: Callable[..., None]
    _spawn_error: tuple[Callable[..., Any], tuple[Any, ...]] | None

    def process_event(
        self,
        event: str,
        callback: Callable[..., Any] | None = None,
        call_args: Sequence[Any] = (),
        call_kwargs: Mapping[str, Any] | None = None,
        err_handler: Callable[..., Any] | None = None,
        target_state: str | None = None,
    ) -> None:
        """Move the node's state by the table.

        An event that ends a run ends all of it. ``callback`` runs in a
        worker, with the lock, once the block of this task ends; ``err_handler``
        is called when no worker is free.

        :raises InvalidState: the table has no such transition.
        """
        node = self.node
        flow = flow_of_state(node.provision_state)
        if event == states.DONE:
            event = states.good_end(node.provision_state, node.target_provision_state)
        after = states.next_state(node.provision_state, event)
        if after in states.HOLD_STATES:
            raise exceptions.InvalidState(
                "a driver cannot hold a run; the reserved step 'hold' in a request does"
            )
        if flow is not None and self._is_not_the_drivers(event):
            return
        if flow is not None and after not in flow.states:
            self._end_by(flow, event)
            return
        self._enter(event)
        if target_state:
            node.target_provision_state = target_state
        if after in states.TRANSIENT_STATES:
            node.last_error = None
        self.write(node.changes())
        if callback is not None:
            self.spawn_after(callback, *call_args, **(call_kwargs or {}))
            if err_handler is not None:
                self._spawn_error = (err_handler, ())

    def _is_not_the_drivers(self, event: str) -> bool:
        """Take an event that comes while a step waits and the engine has not asked.

        :returns: True when nothing is left to do.
        """
        if self.overheard:
            LOG.warning("Node %s: %r on a beat that ends no wait is ignored", self.node.uuid, event)
            return True
        attempt = self.attempt
        waits = attempt is not None and attempt.state == runs.WAITING
        if not waits or self.waiting_step is not None or old_way.is_old(attempt):
            return False
        if event in (states.DONE, states.KEPT):
            self.complete_step()
        return event in (states.DONE, states.KEPT, states.RESUME, states.WAIT)

    def _end_by(self, flow: StepFlow, event: str) -> None:
        """End the run because the driver said so by an event."""
        outcome = {states.FAIL: endings.FAILED, states.ABORT: endings.ABORTED}.get(
            event, endings.SUCCESS
        )
        if outcome == endings.SUCCESS and not old_way.is_old(self.attempt):
            # Its own step is done; what follows in the list is not its to leave out.
            self.answer = self.answer or (True, None)
            return
        reason = self.node.last_error if outcome != endings.SUCCESS else None
        if outcome != endings.SUCCESS and not reason:
            reason = f"the driver ended the {flow.name} with the event {event!r}"
        endings.end(self, flow, endings.Ending(outcome, event, reason, clean_up=False))

    def _enter(self, event: str) -> None:
        """Move the node's state in memory."""
        node = self.node
        before, target = node.provision_state, node.target_provision_state
        node.provision_state = states.next_state(before, event)
        node.target_provision_state = states.target_after(before, event, target)
        node.provision_updated_at = types.utcnow()

    def move(
        self,
        event: str,
        also: Sequence[Also] = (),
        then: Callable[[sa.Connection], Any] | None = None,
    ) -> None:
        """Move the node's state, and give the lock back where it rests, in one write.

        What failed before is over: neither its error nor its step stays.

        :param then: runs last in the transaction.
        """
        self._enter(event)
        self.node.last_error = None
        for flow in FLOWS.values():
            setattr(self.node, flow.step_field, None)
        rests = self.node.provision_state not in states.TRANSIENT_STATES
        self.write(self.node.changes(), also, unlock=rests, then=then)

    def fail_state(self) -> None:
        """Move by ``fail`` to the state the table says, and give the lock back.

        For work that is no run of steps; ``node.last_error`` says why, and so
        does the history.
        """
        node, was = self.node, self.node.provision_state
        endings.forget_agent(node)
        self._enter(states.FAIL)
        row = nodes.history_row(
            node,
            node.last_error or f"{was} failed",
            event_type=f"{was} failed",
            severity="ERROR",
            conductor=self.runtime.host,
            user=self.user,
            project=self.project,
        )
        self.write(node.changes(), [transitions.history(row)], unlock=True)
