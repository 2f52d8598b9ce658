"""What a rule says about a part of a request or of an answer: a field, an owner, a runbook."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import falcon
from oslo_utils import strutils

from deploysteps import exceptions, states
from deploysteps.access import rules
from deploysteps.access.caller import Caller
from deploysteps.api import answers, call, patch, schemas
from deploysteps.db.engine import Database
from deploysteps.db.models import Node, Runbook
from deploysteps.steps import INTERFACE_TYPES

THRESHOLD = "baremetal:node:get:filter_threshold"
"""The rule of who sees nodes whole."""
_OBJECTS = ("driver_internal_info", "driver_info")
_UNMASKED_BY = {"driver_info": "show_password", "instance_info": "show_instance_secrets"}
_INTERFACES = frozenset(f"{kind}_interface" for kind in INTERFACE_TYPES)
_STEPS_BY = {
    member: f"baremetal:node:set_provision_state:{member}"
    for member in ("clean_steps", "service_steps")
}


_OWN_QUESTIONS = ("owner", "parent_node")
"""Members of a new node that are asked about in another way."""


class Owned(Protocol):
    """What somebody may own or have on loan."""

    @property
    def owner(self) -> str | None:
        """The project that it belongs to."""

    @property
    def lessee(self) -> str | None:
        """The project that has it on loan."""


# --- answers ------------------------------------------------------------------------


def kept_back(caller: Caller, item: Node | Owned, names: Iterable[str]) -> dict[str, Any]:
    """Return the fields of a node that a caller may not see -> what he is told instead."""
    asked = [name for name in names if name in rules.NODE_SEEN_BY]
    if not asked or caller.may(THRESHOLD, item.owner, item.lessee):
        return {}
    found: dict[str, Any] = {}
    for name in asked:
        rule = rules.NODE_SEEN_BY[name]
        if not caller.may(rule, item.owner, item.lessee):
            told = f"** Redacted - requires {rule} permission. **"
            found[name] = {"content": told} if name in _OBJECTS else told
    return found


def sort(req: falcon.Request, field: str) -> None:
    """Refuse to sort nodes by what is kept back: their order tells what it is.

    :raises Forbidden: naming the rule.
    """
    caller, rule = call.caller(req), rules.NODE_SEEN_BY.get(field)
    if rule is not None and not caller.may(THRESHOLD):
        caller.require(rule)


def run_shown(req: falcon.Request, item: Node, run: dict[str, Any]) -> dict[str, Any]:
    """Return a run as the caller may see it: what is kept back of its node is of its runs too."""
    hidden = kept_back(call.caller(req), item, ("last_error", "reservation"))
    of_run, of_attempt = dict[str, Any](), dict[str, Any]()
    if "last_error" in hidden:
        of_run["error"] = of_attempt["error"] = hidden["last_error"]
        of_attempt["evidence"] = {"content": hidden["last_error"]}
    if "reservation" in hidden:
        of_attempt["conductor"] = hidden["reservation"]
    attempts = [_over(attempt, of_attempt) for attempt in run["attempts"]]
    return {**_over(run, of_run), "attempts": attempts}


def lock_shown(
    req: falcon.Request, item: Node, lock: dict[str, Any] | None
) -> dict[str, Any] | None:
    """Return who holds a node's lock as the caller may see it; see :func:`run_shown`."""
    hidden = kept_back(call.caller(req), item, ("reservation",))
    return _over(lock, {"holder": hidden["reservation"]}) if lock and hidden else lock


def _over(shown: dict[str, Any], hidden: Mapping[str, Any]) -> dict[str, Any]:
    """Put what the caller is told in the place of what is there."""
    return {
        name: value if value is None else hidden.get(name, value) for name, value in shown.items()
    }


def unmasked(caller: Caller, item: Node | Owned, names: Iterable[str]) -> frozenset[str]:
    """Return the fields of a node whose secrets a caller sees; none, unless a rule says so."""
    return frozenset(
        name
        for name in names
        if name in _UNMASKED_BY and caller.may(_UNMASKED_BY[name], item.owner, item.lessee)
    )


# --- nodes --------------------------------------------------------------------------


def marker(req: falcon.Request, uuid: str, node_of: Callable[[str], Node]) -> None:
    """Do the same as :func:`marker_of` for a node and what belongs to one.

    :param node_of: returns the node that the marker is, or belongs to.
    """

    def sees(uuid: str) -> bool:
        item = node_of(uuid)
        return call.caller(req).sees(item.owner, item.lessee)

    marker_of(uuid, sees)


def marker_of(uuid: str, sees: Callable[[str], bool]) -> None:
    """Refuse a page that begins after what is not there for the caller.

    :param sees: tells whether he sees what has a uuid.
    :raises NotFound: in the words for what is not there at all.
    """
    try:
        there = sees(uuid)
    except exceptions.NotFound:
        there = False
    if not there:
        raise exceptions.NotFound(f"Marker {uuid} could not be found.")


def parent_of(
    req: falcon.Request, database: Database, values: dict[str, Any], owner: str | None
) -> None:
    """Put the uuid of a parent node that is named in the place of its name.

    Who acts for a project names only nodes that belong to the same one: a node with children
    cannot be deleted.

    :param owner: the project that the node itself belongs to.
    :raises Invalid: there is none for the caller: a mistake in the body, not a wrong path.
    """
    named = values.get("parent_node")
    if named is None:
        return
    try:
        item = answers.node_of(database, named, call.version(req))
    except exceptions.NotFound:
        item = None
    caller = call.caller(req)
    mine = item is not None and (caller.only("node") is None or item.owner == owner)
    if item is None or not mine or not caller.sees(item.owner, item.lessee):
        raise exceptions.Invalid(
            f"Unable to apply the requested parent_node {named!r}: there is no such node."
        )
    values["parent_node"] = item.uuid


def node_to_create(req: falcon.Request, values: dict[str, Any]) -> None:
    """Make a new node the caller's project's, when he may have no others.

    :raises Invalid: he asks for one of another project.
    :raises Forbidden: he gives a member that he might not change afterwards.
    """
    caller = call.caller(req)
    if caller.may("baremetal:node:create"):
        return
    for name, value in values.items():
        unset = value in (None, "", {}, schemas.NODE["properties"][name].get("default"))
        if name not in _OWN_QUESTIONS and not unset:
            rule = _rule_of_field(patch.Operation("add", (name,), value))
            if rule != "baremetal:node:update":
                caller.require(rule, caller.project)
    if values.get("owner") not in (None, caller.project):
        raise exceptions.Invalid(
            "Cannot create a node with an owner other than your own project; leave 'owner' out."
        )
    values["owner"] = caller.project


def node_to_change(req: falcon.Request, item: Node, operations: list[patch.Operation]) -> None:
    """Refuse a change of what the caller may not change.

    :raises Forbidden: naming the rule.
    """
    caller = call.caller(req)
    asked = [_rule_of_field(operation) for operation in operations]
    if any(o.member == "owner" for o in operations) and item.provision_state == states.ACTIVE:
        asked.append("baremetal:node:update_owner_provisioned")
    for rule in dict.fromkeys(asked or ["baremetal:node:update"]):
        caller.require(rule, item.owner, item.lessee)


def _rule_of_field(operation: patch.Operation) -> str:
    name = operation.member
    if name in _INTERFACES:
        return rules.NODE_FIELDS["driver"]
    if name == "automated_clean" and _is_false(operation.value):
        return "baremetal:node:disable_cleaning"
    if name == "maintenance":  # the same as by its own path
        is_set = operation.op != "remove" and not _is_false(operation.value)
        return f"baremetal:node:{'set' if is_set else 'clear'}_maintenance"
    return rules.NODE_FIELDS.get(name, "baremetal:node:update")


def _is_false(value: Any) -> bool:
    return value is not None and not strutils.bool_from_string(str(value), default=True)


def steps_of_request(req: falcon.Request, item: Node, members: Mapping[str, Any]) -> None:
    """Refuse lists of steps from who may only use what is saved.

    :raises Forbidden: naming the rule.
    """
    for member, rule in _STEPS_BY.items():
        if members.get(member):
            call.caller(req).require(rule, item.owner, item.lessee)


# --- runbooks -----------------------------------------------------------------------


def sees_runbook(caller: Caller, item: Runbook) -> bool:
    """Tell whether a runbook is there for a caller."""
    return caller.may("baremetal:runbook:get", item.owner, kind="runbook") or bool(
        item.public and caller.may("baremetal:runbook:list")
    )


def runbook_to_use(req: falcon.Request, database: Database, ident: str) -> Runbook:
    """Return the runbook that a request's body names.

    :raises Invalid: there is none for this caller: a mistake in the body, not a wrong path.
    :raises Forbidden: he sees it, and may not use it.
    """
    item, caller = answers.runbook_of(database, ident), call.caller(req)
    if not sees_runbook(caller, item):
        raise answers.no_runbook(ident)
    if not item.public:
        caller.require("baremetal:runbook:use", item.owner, kind="runbook")
    return item


def runbook_to_create(req: falcon.Request, values: dict[str, Any]) -> None:
    """Make a new runbook the caller's project's, when he acts for one.

    :raises Invalid: it is to be another's, or public.
    """
    caller = call.caller(req)
    if caller.project is None:
        return
    if values.get("owner") not in (None, caller.project):
        raise exceptions.Invalid(
            "Cannot create a runbook with an owner other than your own project; leave 'owner' out."
        )
    if values.get("public"):
        raise exceptions.Invalid("Cannot create a public runbook for a project.")
    values["owner"] = caller.project


def runbook_to_change(req: falcon.Request, item: Runbook, members: Iterable[str]) -> None:
    """Refuse a change of what the caller may not change.

    :raises Forbidden: naming the rule.
    """
    asked = [rules.RUNBOOK_FIELDS.get(name, "baremetal:runbook:update") for name in members]
    for rule in dict.fromkeys(["baremetal:runbook:update", *asked]):
        call.caller(req).require(rule, item.owner, kind="runbook")
