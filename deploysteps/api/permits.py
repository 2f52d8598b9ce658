"""What a rule says about a part of a request or of an answer: a field, an owner, a runbook."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Protocol

import falcon
from oslo_utils import strutils

from deploysteps import exceptions, states
from deploysteps.access import rules
from deploysteps.access.caller import Caller
from deploysteps.api import answers, call, patch
from deploysteps.db import nodes
from deploysteps.db.engine import Database
from deploysteps.db.models import Node, Runbook
from deploysteps.steps import INTERFACE_TYPES

_THRESHOLD = "baremetal:node:get:filter_threshold"
_SEEN_BY: dict[str, str] = {
    name: f"baremetal:node:get:{name}"
    for name in ("last_error", "reservation", "driver_internal_info", "driver_info")
}
_OBJECTS = ("driver_internal_info", "driver_info")
_UNMASKED_BY = {"driver_info": "show_password", "instance_info": "show_instance_secrets"}
_INTERFACES = frozenset(f"{kind}_interface" for kind in INTERFACE_TYPES)
_STEPS_BY = {
    member: f"baremetal:node:set_provision_state:{member}"
    for member in ("clean_steps", "service_steps")
}


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
    asked = [name for name in names if name in _SEEN_BY]
    if not asked or caller.may(_THRESHOLD, item.owner, item.lessee):
        return {}
    found: dict[str, Any] = {}
    for name in asked:
        rule = _SEEN_BY[name]
        if not caller.may(rule, item.owner, item.lessee):
            told = f"** Redacted - requires {rule} permission. **"
            found[name] = {"content": told} if name in _OBJECTS else told
    return found


def unmasked(caller: Caller, item: Node | Owned, names: Iterable[str]) -> frozenset[str]:
    """Return the fields of a node whose secrets a caller sees; none, unless a rule says so."""
    return frozenset(
        name
        for name in names
        if name in _UNMASKED_BY and caller.may(_UNMASKED_BY[name], item.owner, item.lessee)
    )


# --- nodes --------------------------------------------------------------------------


def marker(req: falcon.Request, uuid: str, node_of: Callable[[str], Node]) -> None:
    """Refuse a page that begins after what is not there for the caller.

    :param node_of: returns the node that the marker is, or belongs to.
    :raises NotFound: in the words for what is not there at all.
    """
    missing = exceptions.NotFound(f"Marker {uuid} could not be found.")
    try:
        item = node_of(uuid)
    except exceptions.NotFound as exc:
        raise missing from exc
    if not call.caller(req).sees(item.owner, item.lessee):
        raise missing


def node_to_create(req: falcon.Request, database: Database, values: dict[str, Any]) -> None:
    """Make a new node the caller's project's, when he may have no others.

    :raises Invalid: he asks for one of another project, or below a node that he does not see.
    """
    caller = call.caller(req)
    if caller.may("baremetal:node:create"):
        return
    if values.get("parent_node"):
        try:
            marker(req, values["parent_node"], functools.partial(nodes.get, database))
        except exceptions.NotFound as exc:
            raise exceptions.Invalid(
                f"Unable to apply the requested parent_node {values['parent_node']!r}: "
                "there is no such node."
            ) from exc
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
