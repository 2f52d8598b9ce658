"""What is remembered, with the node, of the command that a step has handed to the agent.

It is one key of ``driver_internal_info`` and written together with what the
engine writes of the step, so that it costs no write of its own.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from deploysteps import exceptions, protocols
from deploysteps.conf import CONF
from deploysteps.drivers.contract import current_flow

KEY = "agent_command"
_LAST = "after"
"""Inside the record: id of the last command that was dealt with. Those that the
agent lists after it were begun since."""

_SILENT = "silent_since"
"""Inside the record: time of the first question that its agent did not answer."""
_PAUSES = 1.0, 30.0


def is_silent(node: protocols.Node) -> bool:
    """Tell whether a node's agent did not answer when it was asked last."""
    return _silent_since(node) is not None


def pause(node: protocols.Node) -> float:
    """Return the seconds until an agent is asked again: the longer it is silent, the more."""
    shortest, longest = _PAUSES
    silent = time.time() - float(_silent_since(node) or time.time())
    return min(max(silent / 4, shortest), longest)


def _silent_since(node: protocols.Node) -> Any:
    return (node.driver_internal_info.get(KEY) or {}).get(_SILENT)


class Record:
    """The record of one step; :meth:`of` finds it, changes are made in place."""

    def __init__(self, node: protocols.Node, step: Mapping[str, Any]) -> None:
        """Find the record of a step, or begin one."""
        self._node = node
        kept = node.driver_internal_info.get(KEY) or {}
        name = step.get("id") or f"{step.get('interface')}.{step.get('step')}"
        self.mine = kept.get("step") == name
        """Whether there was one: the step has been entered before."""
        self._data: dict[str, Any] = dict(kept) if self.mine else {"step": name}
        if not self.mine and kept.get(_LAST):
            self._data[_LAST] = kept[_LAST]

    @property
    def last(self) -> str | None:
        """Id of the last command before this step's."""
        return self._data.get(_LAST)

    def get(self, key: str) -> Any:
        """Return what is noted, or None."""
        return self._data.get(key)

    def note(self, **values: Any) -> None:
        """Note something; None removes it."""
        for key, value in values.items():
            if value is None:
                self._data.pop(key, None)
            else:
                self._data[key] = value
        self.mine = True
        self._node.set_driver_internal_info(KEY, dict(self._data))

    def close(self, ident: str | None = None) -> None:
        """The step's command has ended: keep no more than which it was."""
        last = ident or self.last
        self._node.set_driver_internal_info(KEY, {_LAST: last} if last else {})
        self._data = {"step": self._data.get("step"), **({_LAST: last} if last else {})}
        self.mine = False

    def answered(self) -> None:
        """The agent has answered."""
        if self.get(_SILENT) is not None:
            self.note(**{_SILENT: None})

    def silent(self, why: str) -> exceptions.StepNotReady:
        """The agent has not answered: return what lets the step wait, unless it was for too long.

        The limit is the one for silence of its heartbeats: ``[conductor]
        <flow>_callback_timeout``.

        :raises DeployStepsException: the flow's error; the limit is over.
        """
        now = time.time()
        since = float(self.get(_SILENT) or now)
        flow = current_flow(self._node)
        limit = CONF.conductor[flow.callback_timeout] if flow.callback_timeout else 0
        if limit and now - since >= limit:
            raise flow.error(
                f"{why}, for {limit:g} s ([conductor] {flow.callback_timeout}); can the conductor "
                "reach the network of the machines' agents?"
            )
        self.note(**{_SILENT: since})
        return exceptions.StepNotReady(why, after=pause(self._node))
