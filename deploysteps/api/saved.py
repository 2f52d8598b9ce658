"""``/v1/deploy_templates`` and ``/v1/runbooks``: lists of steps that are kept for later."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import falcon

from deploysteps import exceptions
from deploysteps.api import bodies, call, changes, paging, render, schemas, step_lists, versions
from deploysteps.api.answers import done, fields_of, is_ident, listed_fields, send
from deploysteps.api.query import Query
from deploysteps.api.validation import checked
from deploysteps.conductor.rpc import Client
from deploysteps.db import runbooks, templates, traits
from deploysteps.db.models import DeployTemplate, Runbook

Item = DeployTemplate | Runbook


@dataclasses.dataclass(frozen=True, slots=True)
class Kind:
    """What deploy templates and runbooks differ in."""

    place: str
    """The collection: the path, and the member of a list's answer."""
    what: str
    """What one is called in messages."""
    schema: schemas.Schema
    table: Mapping[str, int]
    """Field -> the version it came with."""
    sortable: frozenset[str]
    once: bool
    """A step may stand in it once only."""
    get: Callable[..., Item]
    listing: Callable[..., list[Any]]
    create: Callable[[Client], Callable[..., Item]]
    update: Callable[[Client], Callable[..., Item]]
    destroy: Callable[[Client], Callable[..., None]]


def _sortable(model: type[Item], table: Mapping[str, int]) -> frozenset[str]:
    return frozenset(table) & {column.key for column in model.__table__.columns}


DEPLOY_TEMPLATES = Kind(
    place="deploy_templates",
    what="deploy template",
    schema=schemas.DEPLOY_TEMPLATE,
    table=versions.DEPLOY_TEMPLATE_FIELDS,
    sortable=_sortable(DeployTemplate, versions.DEPLOY_TEMPLATE_FIELDS),
    once=True,
    get=templates.get,
    listing=templates.listing,
    create=lambda client: client.create_deploy_template,
    update=lambda client: client.update_deploy_template,
    destroy=lambda client: client.destroy_deploy_template,
)
RUNBOOKS = Kind(
    place="runbooks",
    what="runbook",
    schema=schemas.RUNBOOK,
    table=versions.RUNBOOK_FIELDS,
    sortable=_sortable(Runbook, versions.RUNBOOK_FIELDS),
    once=False,
    get=runbooks.get,
    listing=runbooks.listing,
    create=lambda client: client.create_runbook,
    update=lambda client: client.update_runbook,
    destroy=lambda client: client.destroy_runbook,
)


class _Saved(call.Resource):
    """What the resources of both kinds share."""

    def __init__(self, services: call.Services, kind: Kind) -> None:
        """Serve one kind."""
        super().__init__(services)
        self.kind = kind

    def version(self, req: falcon.Request) -> int:
        """Return the version of a request that may know of this kind at all.

        :raises NotFound: it may not.
        """
        version = call.version(req)
        versions.require(self.kind.place, version)
        return version

    def shown(self, req: falcon.Request, fields: list[str]) -> Callable[[Item], dict[str, Any]]:
        """Return how a request sees one."""
        base, version, kind = self.services.base(req), call.version(req), self.kind
        hidden: dict[str, list[str]] = {}
        if "steps" in fields:
            hidden = self.client.get_secret_arguments(call.of(req).context)
        return lambda item: render.step_list(
            item,
            base=base,
            version=version,
            place=kind.place,
            table=kind.table,
            fields=fields,
            hidden=hidden,
        )

    def whole(self, req: falcon.Request, item: Item) -> dict[str, Any]:
        """Return one with all fields that a request sees."""
        return self.shown(req, list(self.kind.table))(item)

    def fit(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return values as a conductor takes them.

        :raises Invalid: the name is no trait's, or a step stands twice where it may stand once.
        """
        if "name" in values:
            traits.check_name(values["name"], self.kind.what)
        if "steps" in values:
            values["steps"] = step_lists.numbers(values["steps"])
            if self.kind.once:
                step_lists.refuse_twice(values["steps"], self.kind.what)
        return values


class SavedList(_Saved):
    """``/v1/deploy_templates``, ``/v1/runbooks``."""

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List them."""
        version, query, kind = self.version(req), Query(req), self.kind
        fields = listed_fields(query, kind.table, versions.STEP_LIST_ITEM, version, detail=False)
        page = paging.asked(query, self.conf.api.max_limit, kind.sortable)
        if page.sort_key in kind.table:
            versions.check(page.sort_key, kind.table, version)
        query.finish()
        found = kind.listing(self.database, **page.fetched())
        show, base = self.shown(req, fields), self.services.base(req)
        send(resp, paging.document(kind.place, found, page, show=show, req=req, base=base))

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Save a new one."""
        version, kind = self.version(req), self.kind
        Query(req).finish()
        values = checked(kind.schema, bodies.read(req, self.conf), kind.what)
        versions.check_all(values, kind.table, version)
        item = kind.create(self.client)(call.of(req).context, self.fit(values))
        resp.location = f"{self.services.base(req)}/v1/{kind.place}/{item.uuid}"
        send(resp, self.whole(req, item), 201)


class OneSaved(_Saved):
    """``/v1/deploy_templates/<id>``, ``/v1/runbooks/<id>``."""

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Show one."""
        version, query = self.version(req), Query(req)
        fields = fields_of(query, self.kind.table, version)
        query.finish()
        send(resp, self.shown(req, fields or list(self.kind.table))(self._item(ident)))

    def on_patch(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Change one by a JSON Patch."""
        version, kind = self.version(req), self.kind
        Query(req).finish()
        item = self._item(ident)
        values = changes.of(
            item,
            bodies.read(req, self.conf),
            what=kind.what,
            schema=kind.schema,
            table=kind.table,
            version=version,
            max_depth=self.conf.api.max_json_depth,
        )
        if values:
            before = changes.made_from(item, values)
            context, fit = call.of(req).context, self.fit(values)
            item = kind.update(self.client)(context, item.uuid, fit, before)
        send(resp, self.whole(req, item))

    def on_delete(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Forget one."""
        self.version(req)
        Query(req).finish()
        self.kind.destroy(self.client)(call.of(req).context, self._item(ident).uuid)
        done(resp, 204)

    def _item(self, ident: str) -> Item:
        if not is_ident(ident):
            raise exceptions.NotFound(
                f"{self.kind.what.capitalize()} {ident[:255]} could not be found."
            )
        return self.kind.get(self.database, ident)
