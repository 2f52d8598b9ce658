"""``/v1/deploy_templates`` and ``/v1/runbooks``: lists of steps that are kept for later."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import falcon

from deploysteps import exceptions
from deploysteps.api import (
    answer_schemas,
    arguments,
    bodies,
    call,
    changes,
    paging,
    patch,
    permits,
    render,
    schemas,
    step_lists,
    typos,
    versions,
)
from deploysteps.api.answers import done, fields_of, is_ident, listed_fields, send
from deploysteps.api.operations import EMPTY, Operation
from deploysteps.api.query import Query
from deploysteps.conductor.rpc import Client
from deploysteps.db import runbook_traits, runbooks, templates, traits
from deploysteps.db.models import DeployTemplate, Runbook
from deploysteps.db.pages import sortable

Item = DeployTemplate | Runbook


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kind(changes.Kind):
    """What deploy templates and runbooks differ in."""

    place: str
    """The collection: the path, and the member of a list's answer."""
    one: schemas.Schema
    """What one is answered as."""
    listed: schemas.Schema
    """What a list of them is answered as."""
    sortable: frozenset[str]
    once: bool
    """A step may stand in it once only."""
    owned: bool
    """It belongs to a project, or to nobody."""
    get: Callable[..., Item]
    listing: Callable[..., list[Any]]
    create: Callable[[Client], Callable[..., Item]]
    update: Callable[[Client], Callable[..., Item]]
    destroy: Callable[[Client], Callable[..., None]]


def _sortable(model: type[Item], table: Mapping[str, int]) -> frozenset[str]:
    return sortable(model) & table.keys()


DEPLOY_TEMPLATES = Kind(
    place="deploy_templates",
    what="deploy template",
    schema=schemas.DEPLOY_TEMPLATE,
    table=versions.DEPLOY_TEMPLATE_FIELDS,
    one=answer_schemas.DEPLOY_TEMPLATE,
    listed=answer_schemas.DEPLOY_TEMPLATES,
    sortable=_sortable(DeployTemplate, versions.DEPLOY_TEMPLATE_FIELDS),
    has_steps=True,
    once=True,
    owned=False,
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
    one=answer_schemas.RUNBOOK,
    listed=answer_schemas.RUNBOOKS,
    sortable=_sortable(Runbook, versions.RUNBOOK_FIELDS),
    has_steps=True,
    once=False,
    owned=True,
    get=runbooks.get,
    listing=runbooks.listing,
    create=lambda client: client.create_runbook,
    update=lambda client: client.update_runbook,
    destroy=lambda client: client.destroy_runbook,
)


class _Saved(call.Resource):
    """What the resources of both kinds share."""

    kind: ClassVar[Kind]

    def version(self, req: falcon.Request) -> int:
        """Return the version of a request that may know of this kind at all.

        :raises NotFound: it may not.
        """
        version = call.version(req)
        versions.require(self.kind.place, version)
        return version

    def shown(
        self, req: falcon.Request, fields: list[str], found: Sequence[Item]
    ) -> Callable[[Item], dict[str, Any]]:
        """Return how a request sees these; the queries do not grow with them."""
        base, version, kind = self.services.base(req), call.version(req), self.kind
        hidden = self.hidden(req)() if "steps" in fields else {}
        held = self.traits_of(found) if "traits" in fields else {}
        return lambda item: render.step_list(
            item,
            base=base,
            version=version,
            place=kind.place,
            table=kind.table,
            fields=fields,
            hidden=hidden,
            traits=held.get(item.id, []),
        )

    def whole(self, req: falcon.Request, item: Item) -> dict[str, Any]:
        """Return one with all fields that a request sees."""
        return self.shown(req, list(self.kind.table), [item])(item)

    def traits_of(self, found: Sequence[Item]) -> dict[int, list[str]]:
        """Return row id -> the traits of nodes that these are for, where they have such."""
        return {}

    def narrowed(self, req: falcon.Request) -> dict[str, Any]:
        """Return what narrows a list to what the caller sees."""
        return {}

    def sees(self, req: falcon.Request, uuid: str) -> bool:
        """Tell whether the caller sees what has a uuid, for who does not see all."""
        return True

    def refuse_new(self, req: falcon.Request, values: dict[str, Any]) -> None:
        """Refuse, or complete, a new one by what the caller may have."""

    def refuse_change(self, req: falcon.Request, item: Item, body: Any = None) -> None:
        """Refuse what the caller may not do with one; for a patch, also its ``body``."""

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


class _SavedList(_Saved):
    """A collection."""

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        """List them."""
        version, query, kind = self.version(req), Query(req), self.kind
        fields = listed_fields(query, kind.table, versions.STEP_LIST_ITEM, version, detail=False)
        page = paging.asked(query, self.conf.api.max_limit, kind.sortable)
        if page.sort_key in kind.table:
            versions.check(page.sort_key, kind.table, version)
        query.finish()
        filters = self.narrowed(req)
        if page.marker is not None and filters:
            permits.marker_of(page.marker, functools.partial(self.sees, req))
        found = kind.listing(self.database, filters=filters, **page.fetched())
        show, base = self.shown(req, fields, found), self.services.base(req)
        send(resp, paging.document(kind.place, found, page, show=show, req=req, base=base))

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        """Save a new one."""
        self.version(req)
        kind = self.kind
        Query(req).finish()
        values = changes.new(self, req, kind)
        self.refuse_new(req, values)
        item = kind.create(self.client)(call.of(req).context, self.fit(values))
        resp.location = f"{self.services.base(req)}/v1/{kind.place}/{item.uuid}"
        typos.warn(resp, item.steps)
        send(resp, self.whole(req, item), 201)


class _OneSaved(_Saved):
    """One of a collection."""

    def on_get(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Show one."""
        version, query = self.version(req), Query(req)
        fields = fields_of(query, self.kind.table, version)
        query.finish()
        item = self._item(req, ident)
        send(resp, self.shown(req, fields or list(self.kind.table), [item])(item))

    def on_patch(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Change one by a JSON Patch."""
        self.version(req)
        kind = self.kind
        Query(req).finish()
        item = self._item(req, ident)
        body = bodies.read(req, self.conf)
        self.refuse_change(req, item, body)
        values = self.fit(changes.of(self, req, item, kind, body))
        item = changes.kept(req, item, values, kind.update(self.client))
        if "steps" in values:
            typos.warn(resp, item.steps)
        send(resp, self.whole(req, item))

    def on_delete(self, req: falcon.Request, resp: falcon.Response, ident: str) -> None:
        """Forget one."""
        self.version(req)
        Query(req).finish()
        self.kind.destroy(self.client)(call.of(req).context, self._item(req, ident).uuid)
        done(resp, 204)

    def _item(self, req: falcon.Request, ident: str) -> Item:
        if not is_ident(ident):
            raise exceptions.NotFound(
                f"{self.kind.what.capitalize()} {ident[:255]} could not be found."
            )
        item = self.kind.get(self.database, ident)
        try:
            self.refuse_change(req, item)
        except exceptions.RunbookNotFound as exc:  # by the name that was asked for, no other
            raise exceptions.RunbookNotFound(runbook=ident) from exc
        return item


def _of_list(kind: Kind) -> dict[str, Operation]:
    since, rule = versions.ENDPOINTS[kind.place], f"baremetal:{kind.what.replace(' ', '_')}"
    return {
        "GET": Operation(
            summary=f"List {kind.what}s",
            rule=f"{rule}:list" if kind.owned else f"{rule}:get",
            since=since,
            query={**arguments.listed(kind.table), **arguments.page(kind.sortable)},
            answers={200: kind.listed},
        ),
        "POST": Operation(
            summary=f"Create a {kind.what}",
            rule=f"{rule}:create",
            since=since,
            body=kind.schema,
            members=kind.table,
            answers={201: kind.one},
            errors=(409,),
        ),
    }


def _of_one(kind: Kind) -> dict[str, Operation]:
    since, rule = versions.ENDPOINTS[kind.place], f"baremetal:{kind.what.replace(' ', '_')}"
    return {
        "GET": Operation(
            summary=f"Show a {kind.what}",
            rule=f"{rule}:get",
            since=since,
            query=arguments.fields(kind.table),
            answers={200: kind.one},
        ),
        "PATCH": Operation(
            summary=f"Change a {kind.what}",
            rule=f"{rule}:update",
            since=since,
            body=schemas.PATCH,
            answers={200: kind.one},
            errors=(409,),
        ),
        "DELETE": Operation(
            summary=f"Delete a {kind.what}",
            rule=f"{rule}:delete",
            since=since,
            answers={204: EMPTY},
            errors=(409,),
        ),
    }


class DeployTemplates(_SavedList):
    """``/v1/deploy_templates``."""

    kind = DEPLOY_TEMPLATES
    operations: ClassVar[Mapping[str, Operation]] = _of_list(DEPLOY_TEMPLATES)


class OneDeployTemplate(_OneSaved):
    """``/v1/deploy_templates/<id>``."""

    kind = DEPLOY_TEMPLATES
    operations: ClassVar[Mapping[str, Operation]] = _of_one(DEPLOY_TEMPLATES)


class _OfRunbooks(_Saved):
    """What is about runbooks."""

    def traits_of(self, found: Sequence[Item]) -> dict[int, list[str]]:
        """See :class:`_Saved`."""
        return runbook_traits.of_runbooks(self.database, [item.id for item in found])


class Runbooks(_OfRunbooks, _SavedList):
    """``/v1/runbooks``."""

    kind = RUNBOOKS
    operations: ClassVar[Mapping[str, Operation]] = _of_list(RUNBOOKS)

    def narrowed(self, req: falcon.Request) -> dict[str, Any]:
        """See :class:`_Saved`: those of the caller's project and public ones."""
        project = call.caller(req).only("runbook")
        return {} if project is None else {"visible_to": project}

    def sees(self, req: falcon.Request, uuid: str) -> bool:
        """See :class:`_Saved`."""
        return permits.sees_runbook(call.caller(req), runbooks.get(self.database, uuid))

    def refuse_new(self, req: falcon.Request, values: dict[str, Any]) -> None:
        """See :class:`_Saved`."""
        permits.runbook_to_create(req, values)


class OneRunbook(_OfRunbooks, _OneSaved):
    """``/v1/runbooks/<id>``."""

    kind = RUNBOOKS
    operations: ClassVar[Mapping[str, Operation]] = _of_one(RUNBOOKS)
    by_item = frozenset(operations)

    def refuse_change(self, req: falcon.Request, item: Item, body: Any = None) -> None:
        """See :class:`_Saved`.

        :raises RunbookNotFound: it is not there for the caller.
        """
        caller = call.caller(req)
        caller.asked = True
        if not isinstance(item, Runbook) or not permits.sees_runbook(caller, item):
            raise exceptions.RunbookNotFound(runbook=item.uuid)
        if req.method == "DELETE":
            caller.require("baremetal:runbook:delete", item.owner, kind="runbook")
        if body is not None:
            members = [operation.member for operation in patch.parse(body)]
            permits.runbook_to_change(req, item, members)
