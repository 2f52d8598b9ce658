"""What a step may do through its task beside its own work: switch power, tell how far it is."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from deploysteps import exceptions, secrets, states
from deploysteps.conductor import endings, words
from deploysteps.conductor.runtime import Runtime
from deploysteps.db import transitions, types
from deploysteps.db.models import Node, StepAttempt
from deploysteps.db.transitions import Key

LOG = logging.getLogger(__name__)

_PROGRESS_PAUSE, _ALL = 1.0, 100
"""Seconds between two notes of a step's progress; the percent that is always noted."""


class StepWork:
    """Mixed into :class:`~deploysteps.conductor.task_manager.TaskManager`."""

    runtime: Runtime
    node: Node
    driver: Any
    attempt: StepAttempt | None
    progress_of: Key | None
    """The attempt whose progress was noted last."""
    progress_at: float
    """When that was, by the monotonic clock."""
    masker: Callable[[], secrets.Masker]

    def loses_agent(self, target: str) -> bool:
        """Tell whether an agent on the machine is gone after a change of power."""
        return target != states.POWER_ON or self.node.power_state != states.POWER_ON

    def switch_power(self, target: str, timeout: float | None = None) -> None:
        """Change the machine's power; what is known of its agent goes with the agent.

        A node with ``disable_power_off`` is left on where it would be switched off.

        :param target: one of ``states.POWER_TARGETS``.
        :param timeout: seconds that the driver may try.
        :raises InvalidParameterValue: an unknown target.
        """
        if target not in states.POWER_TARGETS:
            raise exceptions.InvalidParameterValue(
                f"unknown power target {target!r}; there are {', '.join(states.POWER_TARGETS)}"
            )
        node, power = self.node, self.driver.power
        if self.loses_agent(target):
            # Written before: an agent of the new boot has to be given a token.
            endings.forget_agent(node)
            node.save()
        if node.disable_power_off and states.POWER_TARGETS.get(target) == states.POWER_OFF:
            # Its controller may share the machine's network, and be gone with it.
            LOG.warning("Node %s: has disable_power_off, so its machine is left on", node.uuid)
            return
        if target == states.REBOOT:
            power.reboot(self, timeout=timeout)
        else:
            power.set_power_state(self, target, timeout=timeout)
        node.power_state = states.POWER_TARGETS[target]

    def keep_evidence(self, name: str, value: Any) -> None:
        """Keep, with the current attempt, what explains how it ended.

        :param name: such as ``command_error``.
        :param value: a JSON value; its texts are masked, and shortened to 64 KiB. One
            of more than 2 MiB is kept as such a text.
        """
        if self.attempt is None:
            return
        try:
            value = secrets.masked(value)
        except RecursionError:  # what explains a failure must not be one
            value = "(nested too deep to be kept)"
        kept = words.bounded_value(
            value, self.masker(), words.EVIDENCE_BYTES, words.MOST_EVIDENCE_BYTES
        )
        self.attempt.evidence = {**(self.attempt.evidence or {}), name: kept}

    def report_progress(self, percent: float | None, text: str = "") -> None:
        """Show how far the current step is: at most once a second, and 100 always.

        :param percent: 0 to 100; what is outside is brought inside. None: there is only
            the text, such as what a wait is for.
        :param text: a few words; secrets in it are masked.
        """
        attempt = self.attempt
        if attempt is None:
            return
        now, key = time.monotonic(), transitions.key_of(attempt)
        again = self.progress_of == key and now - self.progress_at < _PROGRESS_PAUSE
        try:
            share = None if percent is None else _share(percent)
            if again and share != _ALL:
                return
            shown = words.shown(str(text), self.masker(), words.PROGRESS_BYTES)
            progress = {
                "percent": share,
                "text": shown,
                "at": types.timestamp(types.utcnow()),
            }
            transitions.report_progress(self.runtime.database, key, progress)
        except BaseException as exc:
            # Telling how far a step is must never be what makes it fail.
            LOG.warning("Node %s: progress was not noted: %s", self.node.uuid, words.text_of(exc))
        self.progress_of, self.progress_at = key, now


def _share(percent: float) -> float:
    """Return a number as one from 0 to 100; nan is none."""
    share = float(percent)
    return min(max(share, 0.0), float(_ALL)) if share == share else 0.0
