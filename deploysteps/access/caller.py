"""Somebody who asks for something, and whether he may have it."""

from __future__ import annotations

from typing import Any

from oslo_context.context import RequestContext

from deploysteps import exceptions
from deploysteps.access.enforcer import Enforcer
from deploysteps.access.rules import OF_CALLERS
from deploysteps.conf.api import ROLES

_OWN = {
    "baremetal:node:create": "baremetal:node:create:self_owned_node",
    "baremetal:node:delete": "baremetal:node:delete:self_owned_node",
}
"""Rule -> the one for what belongs to the caller's own project; either of them will do."""


def of_the_system(context: RequestContext, user: str | None, role: str) -> RequestContext:
    """Make a context that of somebody who has a role for the whole service."""
    context.user_id = context.user_name = user
    context.roles = list(ROLES[role])
    context.system_scope = "all"
    return context


class Caller:
    """Who makes a request. What was asked about him once is remembered."""

    def __init__(self, enforcer: Enforcer, context: RequestContext) -> None:
        """Take him from a request's context."""
        self._enforcer = enforcer
        held = {name: getattr(context, name, None) for name in OF_CALLERS}
        # What is not set is left out: "None" is not to be equal to "None".
        self._who: dict[str, Any] = {name: value for name, value in held.items() if value}
        self._who["roles"] = list(context.roles or ())
        self._key = (*self._who["roles"], *(held[name] or "" for name in OF_CALLERS))
        self._known: dict[tuple[str, ...], bool] = {}
        self.asked = False
        """Whether anything that is refused when a rule says so was asked for."""

    @property
    def project(self) -> str | None:
        """The project that he acts for."""
        project: str | None = self._who.get("project_id")
        return project

    def may(
        self, rule: str, owner: str | None = None, lessee: str | None = None, kind: str = "node"
    ) -> bool:
        """Tell whether a rule lets him pass.

        :param owner: the project that the thing belongs to; ``lessee``: that has it on loan.
        :param kind: what the thing is: ``node``, ``runbook``, ``allocation``.
        """
        key = (rule, kind, owner or "", lessee or "")
        if key not in self._known:
            target = {f"{kind}.owner": owner, f"{kind}.lessee": lessee}
            found = {name: value for name, value in target.items() if value}
            self._known[key] = self._enforcer.check(rule, found, self._who, (key, self._key))
        return self._known[key]

    def require(
        self, rule: str, owner: str | None = None, lessee: str | None = None, kind: str = "node"
    ) -> None:
        """Refuse what he may not do.

        :raises Forbidden: naming the rule.
        """
        self.asked = True
        own = _OWN.get(rule)
        if self.may(rule, owner, lessee, kind):
            return
        if own is None or not self.may(own, owner, lessee, kind):
            raise exceptions.Forbidden(rule=rule)

    def sees(self, owner: str | None, lessee: str | None) -> bool:
        """Tell whether a node is there for him."""
        return self.may("baremetal:node:get", owner, lessee)

    def require_list(self, kind: str) -> None:
        """Refuse a list that would have nothing for him.

        :raises Forbidden: he sees neither all of a kind nor those of a project.
        """
        self.asked = True
        if self.may(f"baremetal:{kind}:list_all"):
            return
        if self.project is None or not self.may(f"baremetal:{kind}:list"):
            raise exceptions.Forbidden(rule=f"baremetal:{kind}:list")

    def only(self, kind: str) -> str | None:
        """Return the project whose things alone he sees in lists; None: he sees all."""
        return None if self.may(f"baremetal:{kind}:list_all") else self.project or ""
