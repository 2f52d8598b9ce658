"""What a JSON Patch changes in a row, checked by the schema that made the row."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from deploysteps import exceptions, limits
from deploysteps.api import masks, patch, schemas, versions
from deploysteps.api.validation import checked, default


def of(
    item: object,
    body: Any,
    *,
    what: str,
    schema: schemas.Schema,
    table: Mapping[str, int],
    version: int,
    max_depth: int,
    hidden: Callable[[], masks.Hidden] = dict,
) -> dict[str, Any]:
    """Return member -> new value of what a patch changes in a row.

    :param body: the patch as it came.
    :param table: member -> the version it came with.
    :param hidden: tells which arguments of steps are secret.
    :raises NotAcceptable: it changes what is newer than the request.
    :raises Invalid: it is no patch, does not fit, changes what is read-only,
        or makes what the schema does not allow.
    """
    operations = patch.parse(body)
    members = {operation.member for operation in operations}
    writable = _writable(schema)
    _check_members(members, writable, table, version)
    before = {name: getattr(item, name) for name in writable}
    after = patch.apply(before, operations, masks.Masks(hidden))
    values = {name: after[name] if name in after else default(schema, name) for name in members}
    if any(limits.depth(value, max_depth) > max_depth for value in values.values()):
        raise exceptions.Invalid(f"The result is nested deeper than {max_depth} levels.")
    required = {name: getattr(item, name) for name in schema["required"]}
    fit = checked(schema, {**required, **values}, what)
    return {name: fit[name] for name in members}


def made_from(item: object, values: Mapping[str, Any]) -> dict[str, Any]:
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
