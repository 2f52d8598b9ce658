"""What sets a node in motion: provision state, power, maintenance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import falcon

from deploysteps import exceptions, states
from deploysteps.api import bodies, call, schemas, versions
from deploysteps.api.answers import done, node_of
from deploysteps.api.query import Query
from deploysteps.api.validation import checked
from deploysteps.db.models import Node

_RUNS = (states.DEPLOY, states.REBUILD)
_MEMBERS: dict[str, tuple[str, ...]] = {
    "configdrive": (states.ACTIVE, "deploy", states.REBUILD),
    "deploy_steps": (states.ACTIVE, "deploy", states.REBUILD),
    "clean_steps": ("clean",),
    "disable_ramdisk": ("clean", "service"),
    "rescue_password": ("rescue",),
    "runbook": ("clean", "service"),
    "service_steps": ("service",),
}
"""Member of the request -> the targets it goes with."""


class _Setting(call.Resource):
    """What these requests share: they answer 202 with the place to look at."""

    def begun(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Answer that the work has begun."""
        done(resp, 202, f"{self.services.base(req)}/v1/nodes/{ident}/states")


class Provision(_Setting):
    """``/v1/nodes/<id>/states/provision``."""

    def on_put(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Ask for another provision state."""
        Query(req).finish()
        version = call.version(req)
        item = node_of(self.database, ident, version)
        body = checked(schemas.PROVISION, bodies.read(req, self.conf), "provision state")
        target = body.pop("target")
        event = _event(item, target, version)
        members = {name: value for name, value in body.items() if value not in (None, [], "")}
        _check_members(target, members)
        context = call.of(req).context
        if event in _RUNS:
            self.client.do_node_deploy(
                context,
                item.uuid,
                rebuild=event == states.REBUILD,
                configdrive=_configdrive(members.get("configdrive"), target, version),
                deploy_steps=_deploy_steps(members.get("deploy_steps"), version),
            )
        elif event == states.DELETE:
            self.client.do_node_tear_down(context, item.uuid)
        else:
            self.client.do_provisioning_action(context, item.uuid, event)
        self.begun(req, resp, ident)


class Power(_Setting):
    """``/v1/nodes/<id>/states/power``."""

    def on_put(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Ask for another power state."""
        Query(req).finish()
        version = call.version(req)
        item = node_of(self.database, ident, version)
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
        item = node_of(self.database, ident, call.version(req))
        self.client.set_node_maintenance(call.of(req).context, item.uuid, maintenance, reason)
        done(resp, 202)


def _event(item: Node, target: str, version: int) -> str:
    """Return the event of the state table that a target stands for.

    :raises Invalid: there is no such target, or it is not built.
    :raises NotAcceptable: it is newer than the request.
    """
    if target not in versions.TARGETS:
        raise exceptions.InvalidStateRequested(
            action=target[:80], node=item.uuid, state=item.provision_state
        )
    versions.check(target, versions.TARGETS, version)
    if target not in states.VERBS:
        known = ", ".join(versions.shown(states.VERBS, versions.TARGETS, version))
        raise exceptions.Invalid(
            f"Provision target '{target}' is not supported by this server yet; it has {known}."
        )
    if target == states.ABORT and item.provision_state in versions.ABORT_FROM:
        first = versions.ABORT_FROM[item.provision_state]
        versions.check(states.ABORT, {states.ABORT: first}, version)
    return states.VERBS[target]


def _check_members(target: str, members: Mapping[str, Any]) -> None:
    for name in members:
        if target not in _MEMBERS[name]:
            allowed = " or ".join(f"'{wanted}'" for wanted in _MEMBERS[name])
            raise exceptions.Invalid(
                f"'{name}' is only valid with target {allowed}, not with '{target}'."
            )


def _deploy_steps(steps: list[Any] | None, version: int) -> list[dict[str, Any]] | None:
    if steps is None:
        return None
    versions.check("deploy_steps", {"deploy_steps": versions.DEPLOY_STEPS}, version)
    fit = checked(schemas.DEPLOY_STEPS, steps, "deploy_steps")
    return [{**step, "priority": int(step["priority"])} for step in fit]


def _configdrive(drive: Any, target: str, version: int) -> str | dict[str, Any] | None:
    """Return the config drive; what is newer than the request is 400 here, as in the field."""
    first = 1
    if target == states.REBUILD and drive is not None:
        first = versions.CONFIGDRIVE_REBUILD
    if isinstance(drive, dict):
        given = versions.CONFIGDRIVE_VENDOR_DATA if "vendor_data" in drive else 0
        first = max(first, given, versions.CONFIGDRIVE_OBJECT)
    if version < first:
        raise exceptions.Invalid(
            f"This config drive needs API version 1.{first} or later with target '{target}'."
        )
    kept: str | dict[str, Any] | None = drive
    return kept
