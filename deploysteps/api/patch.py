"""JSON Patch as clients really send it: add, replace and remove, as pure functions.

Error messages name paths and never values: a patched object may hold secrets.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from deploysteps import exceptions
from deploysteps.api.masks import MISSING, Masks

OPS = ("add", "replace", "remove")
MAX_OPERATIONS = 1000
"""Of one patch: each may move all that a list holds."""
_LONGEST = 200


@dataclasses.dataclass(frozen=True, slots=True)
class Operation:
    """One entry of a patch."""

    op: str
    path: tuple[str, ...]
    """Decoded segments; the first is the member of the resource."""
    value: Any = None

    @property
    def member(self) -> str:
        """The member of the resource that is changed."""
        return self.path[0]

    def failed(self, reason: str) -> exceptions.PatchError:
        """Return the error that says why this cannot be applied."""
        told = f"{self.op} /{'/'.join(self.path)}"[:_LONGEST]
        return exceptions.PatchError(patch=told, reason=reason)


def parse(body: Any) -> list[Operation]:
    """Return the operations of a request's body.

    :raises Invalid: it is no JSON Patch, or has another operation than :data:`OPS`.
    """
    if not isinstance(body, list):
        raise exceptions.Invalid("A JSON patch must be an array of operations.")
    if len(body) > MAX_OPERATIONS:
        raise exceptions.Invalid(
            f"A JSON patch has at most {MAX_OPERATIONS} operations; replace a larger member as a "
            "whole, or send several."
        )
    return [_operation(entry, position) for position, entry in enumerate(body)]


def apply(
    document: Mapping[str, Any], patch: Iterable[Operation], masks: Masks | None = None
) -> dict[str, Any]:
    """Return a copy of ``document`` with the operations applied, in order.

    A whole member that is removed is missing from the answer. ``document``
    stays as it is. A value that has the mask of a secret keeps the secret.

    :raises PatchError: an operation does not fit; nothing was changed.
    :raises Invalid: a mask stands for nothing.
    """
    masks = masks or Masks()
    patch = list(patch)
    touched = {operation.member for operation in patch}
    changed = {k: copy.deepcopy(v) if k in touched else v for k, v in document.items()}
    for operation in patch:
        _apply_one(changed, operation, masks)
    return changed


def _operation(entry: Any, position: int) -> Operation:
    where = f"Operation {position} of the JSON patch"
    if not isinstance(entry, dict):
        raise exceptions.Invalid(f"{where} must be an object.")
    op, path = entry.get("op"), entry.get("path")
    if op not in OPS:
        raise exceptions.Invalid(f"{where}: 'op' must be one of {', '.join(OPS)}.")
    if not isinstance(path, str) or not path.startswith("/") or len(path) < 2:
        raise exceptions.Invalid(f"{where}: 'path' must begin with / and name a member.")
    if op != "remove" and "value" not in entry:
        raise exceptions.Invalid(f"{where}: '{op}' needs a 'value'.")
    segments = path.removesuffix("/").removeprefix("/").split("/")
    return Operation(op, tuple(_decoded(part) for part in segments), entry.get("value"))


def _decoded(segment: str) -> str:
    return segment.replace("~1", "/").replace("~0", "~")


def _apply_one(document: dict[str, Any], operation: Operation, masks: Masks) -> None:
    holder: Any = document
    for part in operation.path[:-1]:
        holder = _inside(holder, part, operation)
    last = operation.path[-1]
    masks.check_names(holder, operation.path)

    def filled(stored: Any) -> Any:
        value = copy.deepcopy(operation.value)
        return masks.filled(value, stored, operation.path, document)

    if isinstance(holder, dict):
        _apply_to_object(holder, last, operation, filled)
    elif isinstance(holder, list):
        _apply_to_array(holder, last, operation, filled)
    else:
        raise operation.failed("the path leads into a value that is no object and no array")


def _apply_to_object(
    holder: dict[str, Any], name: str, operation: Operation, filled: Callable[[Any], Any]
) -> None:
    if operation.op != "add" and name not in holder:
        raise operation.failed(f"can't {operation.op} a non-existent object {name[:_LONGEST]!r}")
    if operation.op == "remove":
        del holder[name]
    else:
        holder[name] = filled(holder.get(name, MISSING))


def _apply_to_array(
    holder: list[Any], index: str, operation: Operation, filled: Callable[[Any], Any]
) -> None:
    if operation.op == "add":
        at = len(holder) if index == "-" else _index(index, len(holder) + 1, operation)
        holder.insert(at, filled(MISSING))
        return
    at = _index(index, len(holder), operation)
    if operation.op == "remove":
        del holder[at]
    else:
        holder[at] = filled(holder[at])


def _inside(holder: Any, part: str, operation: Operation) -> Any:
    if isinstance(holder, dict):
        if part not in holder:
            raise operation.failed(f"member {part[:_LONGEST]!r} not found")
        return holder[part]
    if isinstance(holder, list):
        return holder[_index(part, len(holder), operation)]
    raise operation.failed("the path leads into a value that is no object and no array")


def _index(text: str, count: int, operation: Operation) -> int:
    plain = text.isascii() and text.isdigit() and len(text) < 10 and (text == "0" or text[0] != "0")
    if not plain:
        raise operation.failed("an array is entered by an index, 0 or more")
    if int(text) >= count:
        raise operation.failed("the array is not that long")
    return int(text)
