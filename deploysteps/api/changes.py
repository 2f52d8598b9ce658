"""What a body makes, or a JSON Patch changes, in a row: both are checked by the same schema."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, Protocol, TypeVar

import falcon

from deploysteps import exceptions, limits
from deploysteps.api import bodies, call, masks, patch, schemas, versions
from deploysteps.api.validation import checked, default


class Row(Protocol):
    """What is changed."""

    @property
    def uuid(self) -> str:
        """By which the conductor knows it."""


R = TypeVar("R", bound=Row)


@dataclasses.dataclass(frozen=True, slots=True, kw_only=True)
class Kind:
    """What may be said of things of one kind."""

    what: str
    """What one is called in messages."""
    schema: schemas.Schema
    """Of the body that makes one."""
    table: Mapping[str, int]
    """Member -> the version it came with."""
    has_steps: bool = False
    """Whether it has steps, whose arguments drivers may have declared secret."""

    def masks(self, resource: call.Resource, req: falcon.Request) -> masks.Masks:
        """Return what puts secrets in the place of their masks."""
        return masks.Masks(resource.hidden(req) if self.has_steps else dict)


def new(resource: call.Resource, req: falcon.Request, kind: Kind) -> dict[str, Any]:
    """Return member -> value of what a request's body makes.

    :raises NotAcceptable: it has what is newer than the request.
    :raises Invalid: the schema does not allow it, or it has the mask of a secret.
    """
    values: dict[str, Any] = checked(kind.schema, bodies.read(req, resource.conf), kind.what)
    versions.check_all(values, kind.table, call.version(req))
    kind.masks(resource, req).new(values)
    return values


def of(
    resource: call.Resource, req: falcon.Request, item: object, kind: Kind, body: Any = None
) -> dict[str, Any]:
    """Return member -> new value of what a request's patch changes in a row.

    :param body: the patch, if it was read already.
    :raises NotAcceptable: it changes what is newer than the request.
    :raises Invalid: it is no patch, does not fit, changes what is read-only,
        or makes what the schema does not allow.
    """
    schema, most = kind.schema, resource.conf.api.max_json_depth
    operations = patch.parse(bodies.read(req, resource.conf) if body is None else body)
    members = {operation.member for operation in operations}
    writable = _writable(schema)
    _check_members(members, writable, kind.table, call.version(req))
    before = {name: getattr(item, name) for name in writable}
    after = patch.apply(before, operations, kind.masks(resource, req))
    values = {name: after[name] if name in after else default(schema, name) for name in members}
    if any(limits.depth(value, most) > most for value in values.values()):
        raise exceptions.Invalid(f"The result is nested deeper than {most} levels.")
    required = {name: getattr(item, name) for name in schema["required"]}
    fit = checked(schema, {**required, **values}, kind.what)
    return {name: fit[name] for name in members}


def kept(req: falcon.Request, item: R, values: Mapping[str, Any], update: Callable[..., R]) -> R:
    """Have a conductor change a row, if there is anything to change, and return it.

    :param update: the conductor's verb: takes context, uuid, values, and what they were made from.
    """
    if not values:
        return item
    return update(call.of(req).context, item.uuid, values, _made_from(item, values))


def _made_from(item: object, values: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the objects and lists among the new values were made from.

    A patch changes a part of one and a row takes the whole: what it was made
    from must be there still, or another's change would be lost.
    """
    return {
        name: getattr(item, name) for name, new in values.items() if isinstance(new, dict | list)
    }


def _writable(schema: schemas.Schema) -> list[str]:
    return sorted(
        name for name, member in schema["properties"].items() if not member.get("readOnly")
    )


def _check_members(
    members: set[str], writable: list[str], table: Mapping[str, int], version: int
) -> None:
    wrong = sorted(members.difference(writable))
    if wrong:
        told = ", ".join(repr(f"/{name[:80]}") for name in wrong[:5])
        known = ", ".join(f"/{name}" for name in versions.shown(writable, table, version))
        raise exceptions.Invalid(f"{told} can not be changed; what can is {known}")
    versions.check_all(members, table, version)
