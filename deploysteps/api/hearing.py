"""What a caller hears of the events: of the nodes that he sees, and as he sees their runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deploysteps.access.caller import Caller
from deploysteps.api import permits
from deploysteps.db.nodes import Projects

_NODE, _RUNS = "baremetal:node:get", "baremetal:node:runs:list"
_RULES = {"node": _NODE, "run": _RUNS, "step": _RUNS}
"""What an event tells of, the first part of its type -> the rule of asking the API for that."""
_KEPT_BACK = {"error": "last_error", "conductor": "reservation"}
"""What an event tells -> the field of the node with which it is kept back."""
_NOBODYS = Projects(None, None)


class Ears:
    """What one caller hears."""

    def __init__(self, caller: Caller) -> None:
        """Find out whether he is to hear less than all.

        :raises Forbidden: there are no nodes for him.
        """
        caller.require_list("node")
        self._caller = caller
        self.project = caller.only("node")
        """The project of whose nodes alone he hears; None: he hears of all nodes."""

    @property
    def hear_all(self) -> bool:
        """Whether he hears every event, and each as it is."""
        asked = (_NODE, _RUNS, permits.THRESHOLD)
        return self.project is None and all(map(self._caller.may, asked))

    def heard(
        self, told: Mapping[str, Any], projects: Mapping[str, Projects]
    ) -> Mapping[str, Any] | None:
        """Return an event as he hears it, None if it is none of his.

        :param projects: uuid -> whose the node is now, of those that are still there.
        """
        its = projects.get(told["node"])
        if self.project is not None and (its is None or self.project not in its):
            return None
        its = its or _NOBODYS
        if not self._caller.may(_RULES[told["type"].partition(".")[0]], *its):
            return None
        hidden = permits.kept_back(self._caller, its, _KEPT_BACK.values())
        return (
            {name: hidden.get(_KEPT_BACK.get(name, ""), value) for name, value in told.items()}
            if hidden
            else told
        )
