"""Lists of nodes, written as JSON straight from their rows.

What a request sees of a node is :func:`deploysteps.api.render.node`'s to say. Here the same is
said of a thousand at once, without making objects of what is only passed on: a value that is
JSON in its column is JSON in the answer, and is taken apart only if something in it may have to
be masked. tests/unit/api/test_bulk.py holds both against each other.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable, Mapping, Sequence
from json.encoder import encode_basestring_ascii as _text
from typing import Any, NamedTuple

import sqlalchemy as sa

from deploysteps import secrets, states
from deploysteps.access.caller import Caller
from deploysteps.api import offers, permits, render, versions
from deploysteps.db import types
from deploysteps.db.models import Node, table
from deploysteps.db.node import COLUMN_KEYS
from deploysteps.steps import FLOWS

_COLUMNS = table(Node).c
_INTERNAL = "driver_internal_info"
_STEPS = frozenset(flow.step_field for flow in FLOWS.values())
_NOTHING = frozenset({"health"})
"""Fields that have no value yet."""


class Item(NamedTuple):
    """What of a node is asked for where its fields are not columns of its own."""

    id: int
    uuid: str
    owner: str | None
    lessee: str | None


Beside = Mapping[str, Callable[[Any], Any]]
"""Field -> its value for a node (an :class:`Item` is enough), where it is no column."""
_Part = tuple[str, int, str, Callable[..., str]]
"""Of a field: what stands before its value; the value's place in the row, -1 when it is made of
the row and the item; the whole of it when it is null; and what writes it."""


class NodeWriter:
    """Writes a list of nodes as one request sees them."""

    def __init__(self, fields: Sequence[str], *, base: str, version: int, caller: Caller) -> None:
        """Write these fields.

        :param fields: those that the version has, in order.
        """
        self._fields = fields
        self._base = base
        self._version = version
        self._caller = caller
        inner = tuple(COLUMN_KEYS) if _INTERNAL in fields else ()
        own = [name for name in fields if name in _COLUMNS]
        if "conductor" in fields:
            own.extend(offers.SERVED)
        self.columns: tuple[str, ...] = tuple(dict.fromkeys([*Item._fields, *own, *inner]))
        """The columns of a row, in order."""
        self._places = {name: place for place, name in enumerate(self.columns)}

    def item(self, row: Sequence[Any]) -> Item:
        """Return which node a row is of."""
        return Item(*row[: len(Item._fields)])

    def document(self, rows: Sequence[Sequence[Any]], beside: Beside, onward: str | None) -> str:
        """Return the JSON text of the answer.

        :param onward: the address of the next page.
        """
        plans: dict[tuple[str | None, str | None], list[_Part]] = {}
        texts = []
        for row in rows:
            item = self.item(row)
            whose = (item.owner, item.lessee)
            if whose not in plans:
                plans[whose] = self._plan(item, beside)
            texts.append(_node(row, item, plans[whose]))
        more = f', "next": {_text(onward)}' if onward else ""
        return f'{{"nodes": [{", ".join(texts)}]{more}}}'

    def _plan(self, item: Item, beside: Beside) -> list[_Part]:
        """Return how the nodes are written that belong to whom this one belongs to."""
        kept_back = permits.kept_back(self._caller, item, self._fields)
        unmasked = permits.unmasked(self._caller, item, self._fields)
        plan = []
        for name in self._fields:
            if name in kept_back:
                told = json.dumps(kept_back[name])
                place, null, write = -1, "", _constant(told)
            else:
                place, null, write = self._written(name, name in unmasked, beside)
            before = f"{_text(name)}: "
            plan.append((before, place, before + null, write))
        return plan

    def _written(
        self, name: str, unmasked: bool, beside: Beside
    ) -> tuple[int, str, Callable[..., str]]:
        """Return a field's place, its null, and what writes it."""
        if name == "conductor":
            return -1, "", self._conductor(beside[name])
        if name in beside:
            value = beside[name]
            return -1, "", lambda row, item: _said(value(item))
        if name == "links":
            return -1, "", self._link()
        if name in render.COLLECTIONS:
            return -1, "", self._link(name)
        if name in _NOTHING:
            return -1, "", _constant("null")
        if name == _INTERNAL:
            return -1, "", self._internal
        place = self._places[name]
        if name in _STEPS:
            return place, "null", _current
        if name in render.OBJECTS:
            return place, "{}", _whole if unmasked else _object
        if name == "provision_state" and self._version < versions.AVAILABLE_SHOWN:
            return place, "null", _unless_available
        return place, "null", _PLAIN[type(_COLUMNS[name].type)]

    def _conductor(self, charge: Callable[[Any], str | None]) -> Callable[..., str]:
        """Return what writes who is in charge of a node."""
        pick = operator.itemgetter(*(self._places[name] for name in offers.SERVED))
        return lambda row, item: _said(charge(offers.Served(*pick(row))))

    def _link(self, *more: str) -> Callable[..., str]:
        """Return what writes the two links of a node or of a part of it."""
        told = json.dumps(render.links(self._base, "nodes", _UUID, *more))
        before, between, after = told.split(_UUID)
        return lambda row, item: f"{before}{item.uuid}{between}{item.uuid}{after}"

    def _internal(self, row: Sequence[Any], item: Item) -> str:
        """Write ``driver_internal_info``, the columns of it included."""
        info = json.loads(row[self._places[_INTERNAL]] or "{}")
        for key in COLUMN_KEYS:
            value = row[self._places[key]]
            if value is not None:
                info[key] = _VIEWED.get(key, _as_it_is)(value)
        return json.dumps(secrets.masked(info)) if info else "{}"


def _node(row: Sequence[Any], item: Item, plan: Sequence[_Part]) -> str:
    parts = []
    for before, place, null, write in plan:
        if place < 0:
            parts.append(before + write(row, item))
        else:
            value = row[place]
            parts.append(null if value is None else before + write(value))
    return f"{{{', '.join(parts)}}}"


_UUID = "00000000-0000-0000-0000-000000000000"


def _as_it_is(value: Any) -> Any:
    return value


_VIEWED: dict[str, Callable[[Any], Any]] = {
    name: json.loads if isinstance(_COLUMNS[name].type, types.Json) else types.timestamp
    for name in COLUMN_KEYS
    if isinstance(_COLUMNS[name].type, types.Json | types.Utc)
}


def _said(value: Any) -> str:
    if value is None:
        return "null"
    return _text(value) if type(value) is str else json.dumps(value)


def _constant(text: str) -> Callable[..., str]:
    return lambda row, item: text


def _object(text: str) -> str:
    if text == "{}":
        return text
    return secrets.masked_json(text) if text.startswith("{") else _whole(text)


def _whole(text: str) -> str:
    return text if text[:1] in "{[" and len(text) > 2 else "{}"


def _current(text: str) -> str:
    return secrets.masked_json(text) if len(text) > 2 else "null"


def _unless_available(state: str) -> str:
    return "null" if state == states.AVAILABLE else _text(state)


_PLAIN: dict[type, Callable[[Any], str]] = {
    sa.Boolean: {True: "true", False: "false"}.__getitem__,
    sa.String: _text,
    types.ShortText: _text,
    types.UuidText: _text,
    types.LongText: _text,
    types.Utc: lambda value: f'"{types.timestamp(value)}"',
}
