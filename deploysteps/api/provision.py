"""What sets a node in motion: provision state, power, maintenance."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

import falcon

from deploysteps import exceptions, states
from deploysteps.api import bodies, call, masks, permits, schemas, step_lists, versions
from deploysteps.api.answers import done
from deploysteps.api.operations import EMPTY, Operation
from deploysteps.api.query import Query
from deploysteps.api.validation import checked
from deploysteps.conductor.rpc import Context
from deploysteps.db.models import Node
from deploysteps.steps import CLEAN, DEPLOY, SERVICE, Resume, StepDict, StepFlow

_RESUME: dict[str, Resume] = {"resume": "at", "resume_after": "after"}
"""Member of the request -> how the conductor is told to go on."""


class _Setting(call.Resource):
    """What these requests share: they answer 202 with the place to look at."""

    def begun(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Answer that the work has begun."""
        done(resp, 202, f"{self.services.base(req)}/v1/nodes/{ident}/states")


@dataclasses.dataclass(frozen=True, slots=True)
class Wish:
    """What a request for another provision state says."""

    target: str
    version: int
    members: Mapping[str, Any]
    """What was given beside the target, without what says nothing."""

    def steps(self, flow: StepFlow) -> list[StepDict] | None:
        """Return the steps for this flow.

        :raises Invalid: they fail its schema.
        """
        given = self.members.get(flow.list_field)
        return None if given is None else step_lists.asked(flow, given)

    def needs_steps(self, flow: StepFlow) -> None:
        """Refuse a request that names neither steps nor a runbook, or both.

        :raises Invalid: saying which members there are.
        """
        given = [name for name in (flow.list_field, "runbook") if name in self.members]
        if len(given) != 1:
            told = "not both" if given else "one of them"
            raise exceptions.Invalid(
                f"Target '{self.target}' needs '{flow.list_field}', a list that is not empty, or "
                f"'runbook': {told}."
            )

    @property
    def resume(self) -> Resume | None:
        """How to go on with the run that failed; None: not at all.

        :raises Invalid: both ways are asked for, or something beside them.
        """
        ways = [name for name in _RESUME if self.members.get(name)]
        if not ways:
            return None
        beside = [name for name in self.members if name not in _RESUME]
        if len(ways) > 1 or beside:
            raise exceptions.Invalid(
                f"'{ways[0]}' goes on with the plan of the run that failed; "
                f"'{(ways[1:] or beside)[0]}' cannot be given beside it."
            )
        return _RESUME[ways[0]]


class Provision(_Setting):
    """``/v1/nodes/<id>/states/provision``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "PUT": Operation(
            summary="Ask for another provision state",
            rule="baremetal:node:set_provision_state",
            body=schemas.PROVISION,
            members={
                name: min(table.values()) for name, table in versions.PROVISION_MEMBERS.items()
            },
            answers={202: EMPTY},
            errors=(409,),
        )
    }

    def on_put(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Ask for another provision state."""
        Query(req).finish()
        version = call.version(req)
        item = self.node(req, ident)
        body = checked(schemas.PROVISION, bodies.read(req, self.conf), "provision state")
        target = body.pop("target")
        event = _event(item, target, version)
        members = {name: value for name, value in body.items() if value not in (None, [], "")}
        _check_members(target, members, version)
        masks.Masks(self.hidden(req)).new(members)
        permits.steps_of_request(req, item, members)
        if "runbook" in members:
            members["runbook"] = permits.runbook_to_use(req, self.database, members["runbook"]).uuid
        context = call.of(req).context
        begin = self._verbs.get(event)
        if begin is None:
            self.client.do_provisioning_action(context, item.uuid, event)
        else:
            begin(self, context, item.uuid, Wish(target, version, members))
        self.begun(req, resp, ident)

    def _deploy(self, context: Context, node: str, wish: Wish) -> None:
        self.client.do_node_deploy(
            context,
            node,
            rebuild=wish.target == states.REBUILD,
            configdrive=_configdrive(wish),
            deploy_steps=wish.steps(DEPLOY),
            resume=wish.resume,
        )

    def _clean(self, context: Context, node: str, wish: Wish) -> None:
        wish.needs_steps(CLEAN)
        self.client.do_node_clean(
            context,
            node,
            clean_steps=wish.steps(CLEAN),
            disable_ramdisk=wish.members.get("disable_ramdisk"),
            runbook=wish.members.get("runbook"),
        )

    def _service(self, context: Context, node: str, wish: Wish) -> None:
        resume = wish.resume
        if resume is None:
            wish.needs_steps(SERVICE)
        self.client.do_node_service(
            context,
            node,
            service_steps=wish.steps(SERVICE),
            disable_ramdisk=wish.members.get("disable_ramdisk"),
            runbook=wish.members.get("runbook"),
            resume=resume,
        )

    def _rescue(self, context: Context, node: str, wish: Wish) -> None:
        password = wish.members.get("rescue_password")
        if password is None or not password.strip():
            raise exceptions.Invalid(
                "A non-empty 'rescue_password' is required when setting target provision state "
                f"to '{wish.target}'."
            )
        self.client.do_node_rescue(context, node, password)

    def _tear_down(self, context: Context, node: str, wish: Wish) -> None:
        self.client.do_node_tear_down(context, node)

    _verbs: ClassVar[dict[str, Callable[[Provision, Context, str, Wish], None]]] = {
        states.DEPLOY: _deploy,
        states.REBUILD: _deploy,
        states.CLEAN: _clean,
        states.SERVICE: _service,
        states.DELETE: _tear_down,
        states.TO_RESCUE: _rescue,
    }
    """Event -> what begins it; any other is a plain action."""


class Power(_Setting):
    """``/v1/nodes/<id>/states/power``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "PUT": Operation(
            summary="Ask for another power state",
            rule="baremetal:node:set_power_state",
            body=schemas.POWER,
            members={"timeout": versions.POWER_TIMEOUT},
            answers={202: EMPTY},
            errors=(409,),
        )
    }

    def on_put(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Ask for another power state."""
        Query(req).finish()
        version = call.version(req)
        item = self.node(req, ident)
        body = checked(schemas.POWER, bodies.read(req, self.conf), "power state")
        target, timeout = body["target"], body.get("timeout")
        if target not in versions.POWER_TARGETS:
            raise exceptions.InvalidStateRequested(
                action=target[:80], node=ident, state=item.power_state
            )
        versions.check(target, versions.POWER_TARGETS, version)
        if timeout is not None:
            versions.check("timeout", {"timeout": versions.POWER_TIMEOUT}, version)
            timeout = int(timeout)
        self.client.change_node_power_state(
            call.of(req).context, item.uuid, target, timeout=timeout
        )
        self.begun(req, resp, ident)


class Maintenance(call.Resource):
    """``/v1/nodes/<id>/maintenance``."""

    operations: ClassVar[Mapping[str, Operation]] = {
        "PUT": Operation(
            summary="Set a node to maintenance",
            rule="baremetal:node:set_maintenance",
            body=schemas.MAINTENANCE,
            answers={202: EMPTY},
        ),
        "DELETE": Operation(
            summary="Take a node out of maintenance",
            rule="baremetal:node:clear_maintenance",
            answers={202: EMPTY},
        ),
    }

    def on_put(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Set a node to maintenance."""
        Query(req).finish()
        body = checked(schemas.MAINTENANCE, bodies.read(req, self.conf), "maintenance")
        self._set(req, resp, ident, True, body.get("reason"))

    def on_delete(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Take a node out of maintenance."""
        Query(req).finish()
        self._set(req, resp, ident, False, None)

    def _set(
        self,
        req: falcon.Request,
        resp: falcon.Response,
        ident: str,
        maintenance: bool,
        reason: str | None,
    ) -> None:
        item = self.node(req, ident)
        self.client.set_node_maintenance(call.of(req).context, item.uuid, maintenance, reason)
        done(resp, 202)


def _event(item: Node, target: str, version: int) -> str:
    """Return the event of the state table that a target stands for.

    :raises Invalid: there is no such target.
    :raises NotAcceptable: it is newer than the request.
    """
    if target not in versions.TARGETS:
        raise exceptions.InvalidStateRequested(
            action=target[:80], node=item.uuid, state=item.provision_state
        )
    versions.check(target, versions.TARGETS, version)
    if target == states.ABORT and item.provision_state in versions.ABORT_FROM:
        first = versions.ABORT_FROM[item.provision_state]
        versions.check(states.ABORT, {states.ABORT: first}, version)
    return states.VERBS[target]


def _check_members(target: str, members: Mapping[str, Any], version: int) -> None:
    for name in members:
        table = versions.PROVISION_MEMBERS[name]
        if target not in table:
            allowed = " or ".join(f"'{wanted}'" for wanted in table)
            raise exceptions.Invalid(
                f"'{name}' is only valid with target {allowed}, not with '{target}'."
            )
        versions.check(name, {name: table[target]}, version)


def _configdrive(wish: Wish) -> str | dict[str, Any] | None:
    """Return the config drive; what is newer than the request is 400 here, as in the field."""
    drive, first = wish.members.get("configdrive"), 1
    if wish.target == states.REBUILD and drive is not None:
        first = versions.CONFIGDRIVE_REBUILD
    if isinstance(drive, dict):
        given = versions.CONFIGDRIVE_VENDOR_DATA if "vendor_data" in drive else 0
        first = max(first, given, versions.CONFIGDRIVE_OBJECT)
    if wish.version < first:
        raise exceptions.Invalid(
            f"This config drive needs API version 1.{first} or later with target '{wish.target}'."
        )
    kept: str | dict[str, Any] | None = drive
    return kept
