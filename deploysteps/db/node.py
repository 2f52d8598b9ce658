"""What a :class:`~deploysteps.db.models.Node` does beyond holding columns.

``driver_internal_info`` is one dict for drivers and clients. Some of its keys
are columns of their own in the table (:data:`COLUMN_KEYS`), so that a watcher
can select them and writing an index costs a few bytes; they are moved in and
out here, and nowhere else.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, ClassVar, TypeVar, cast

import sqlalchemy as sa
from sqlalchemy import orm

from deploysteps import exceptions
from deploysteps.db import types
from deploysteps.steps import FLOWS

R = TypeVar("R")

# driver_internal_info key -> mapped attribute.
COLUMN_KEYS: dict[str, str] = {
    **{
        key: f"{key}_column"
        for flow in FLOWS.values()
        for key in (flow.list_field, flow.index_field)
    },
    "agent_url": "agent_url_column",
    "agent_version": "agent_version_column",
    "agent_secret_token": "agent_token_column",
    "agent_last_heartbeat": "agent_heartbeat_column",
    "agent_verify_ca": "agent_ca_column",
}

STEP_KEYS: frozenset[str] = frozenset(
    {
        "run_id",
        *(flow.step_field for flow in FLOWS.values()),
        *(COLUMN_KEYS[flow.list_field] for flow in FLOWS.values()),
        *(COLUMN_KEYS[flow.index_field] for flow in FLOWS.values()),
    }
)
"""Step state: only the engine writes it, and never under a shared lock."""

LOCK_KEYS: frozenset[str] = frozenset(
    {"reservation", "lock_token", "lock_purpose", "locked_at", "generation"}
)
AGENT_KEYS: tuple[str, ...] = tuple(key for key in COLUMN_KEYS if key.startswith("agent_"))


class ViewKey:
    """An attribute that lives in ``driver_internal_info``."""

    def __init__(self, key: str) -> None:
        """Name the key."""
        self.key = key

    def __get__(self, node: NodeMethods | None, owner: type) -> Any:
        """Return the value or None."""
        return self if node is None else node.driver_internal_info.get(self.key)

    def __set__(self, node: NodeMethods, value: Any) -> None:
        """Set the value; None removes the key: there is one "empty"."""
        if value is None:
            node.driver_internal_info.pop(self.key, None)
        else:
            node.driver_internal_info[self.key] = value


class NodeMethods:
    """Mixed into the mapped class. A node that was handed out is detached."""

    deploy_steps = ViewKey("deploy_steps")
    deploy_step_index = ViewKey("deploy_step_index")
    agent_url = ViewKey("agent_url")
    agent_secret_token = ViewKey("agent_secret_token")

    __table__: ClassVar[sa.FromClause]
    _writer: Callable[[Any], None] | None = None
    _reader: Callable[[Any], Any] | None = None
    _view: dict[str, Any] | None = None
    verify_step: dict[str, Any] | None = None
    """The current step of a verification: no column, its attempt names it."""
    job_step: dict[str, Any] | None = None
    """The same of work that has no steps."""
    _loaded: dict[str, Any] | None = None

    @property
    def driver_internal_info(self) -> dict[str, Any]:
        """What drivers and the engine remember, the columns of it included."""
        if self._view is None:
            stored = self.__dict__.get("driver_internal_column") or {}
            self._view = {**stored}
            for key, attribute in COLUMN_KEYS.items():
                value = self.__dict__.get(attribute)
                if isinstance(value, datetime.datetime):
                    value = types.timestamp(value)
                if value is not None:
                    self._view[key] = value
        return self._view

    @driver_internal_info.setter
    def driver_internal_info(self, value: dict[str, Any] | None) -> None:
        self._view = dict(value or {})

    def set_driver_internal_info(self, key: str, value: Any) -> None:
        """Set one key; :meth:`save` keeps it."""
        self.driver_internal_info[key] = value

    def del_driver_internal_info(self, key: str, default_value: Any = None) -> Any:
        """Remove one key and return its value, or ``default_value``."""
        return self.driver_internal_info.pop(key, default_value)

    def timestamp_driver_internal_info(self, key: str) -> None:
        """Set a key to the present time (ISO 8601, UTC)."""
        self.driver_internal_info[key] = types.timestamp(types.utcnow())

    def set_driver_info(self, key: str, value: Any) -> None:
        """Set one key of ``driver_info``; :meth:`save` keeps it."""
        cast("Any", self).driver_info[key] = value

    def set_instance_info(self, key: str, value: Any) -> None:
        """Set one key of ``instance_info``; :meth:`save` keeps it."""
        cast("Any", self).instance_info[key] = value

    def save(self) -> None:
        """Write what changed, nested changes included, under the task's lock.

        :raises LockLost: the lock was taken away; nothing was written.
        """
        if self._writer is None:
            raise exceptions.ExclusiveLockRequired(
                "this node was read without a task; acquire one with task_manager.acquire()"
            )
        self._writer(self)

    def refresh(self) -> None:
        """Read the row again; changes that were not saved are dropped."""
        if self._reader is None:
            raise exceptions.ExclusiveLockRequired("this node was read without a task")
        fresh = self._reader(self)
        for attribute in _attributes(type(self)):
            self.__dict__[attribute] = fresh.__dict__.get(attribute)
        self._view = None
        self.mark_loaded()

    def mark_loaded(self) -> None:
        """Remember the present values; :meth:`changes` compares with them."""
        self._loaded = self._snapshot()

    def was(self, attribute: str) -> Any:
        """Return what a plain column held when it was read or written last."""
        return (self._loaded or {}).get(attribute)

    def stored(self, values: Mapping[str, Any]) -> None:
        """Take these attributes as written: they are the present values."""
        self.__dict__.update(values)
        json = _mapped(type(self))[1]
        if self._loaded is not None:
            for attribute, value in values.items():
                self._loaded[attribute] = _print(attribute, value) if attribute in json else value

    def changes(self) -> dict[str, Any]:
        """Return attribute -> value of what differs from what was loaded.

        :raises InvalidParameterValue: for a value that its column cannot hold.
        """
        before = self._loaded or {}
        found: dict[str, Any] = {}
        plain, json = _mapped(type(self))
        values = self._columns()
        for attribute, column in plain.items():
            if before.get(attribute, _ABSENT) != values[attribute]:
                found[attribute] = _fitting(attribute, column, values[attribute])
        for attribute in json:
            value = values[attribute]
            if _differs(attribute, value, before.get(attribute, _ABSENT)):
                _checked(attribute, types.encode, value)
                found[attribute] = value
        return found

    def _snapshot(self) -> dict[str, Any]:
        json = _mapped(type(self))[1]
        return {
            name: _print(name, value) if name in json else value
            for name, value in self._columns().items()
        }

    def _columns(self) -> dict[str, Any]:
        values = dict.fromkeys(_attributes(type(self)))
        values.update(self.__dict__)
        view = self._view
        if view is not None:
            values["driver_internal_column"] = {
                key: value for key, value in view.items() if key not in COLUMN_KEYS
            }
            for key, attribute in COLUMN_KEYS.items():
                values[attribute] = view.get(key)
            values["agent_heartbeat_column"] = _as_time(values["agent_heartbeat_column"])
        for attribute, column in _mapped(type(self))[1].items():
            if values[attribute] is None and not column.nullable:
                values[attribute] = {}  # as the field has it: no dict is an empty one
        return values


def _print(attribute: str, value: Any) -> Any:
    """Return what tells later whether a JSON column's value differs."""
    return None if value is None else _checked(attribute, types.fingerprint, value)


def _differs(attribute: str, value: Any, before: Any) -> bool:
    if value is None or before is None:
        return value is not before
    return _checked(attribute, lambda v: types.has_changed(v, before), value)


def _fitting(attribute: str, column: sa.Column[Any], value: Any) -> Any:
    """Return the value of a plain column, in words an error where a database has none."""
    if value is None and column.nullable:
        return value
    plain: Any = getattr(column.type, "impl_instance", column.type)
    kind, longest = plain.python_type, getattr(plain, "length", None)
    if not isinstance(value, kind):
        problem = f"takes {kind.__name__}, not {type(value).__name__}"
    elif longest and len(value) > longest:
        problem = f"is too long: {len(value)} characters, at most {longest}"
    else:
        return value
    raise exceptions.InvalidParameterValue(f"node.{_named(attribute)} {problem}")


def _named(attribute: str) -> str:
    return _VIEW_NAMES.get(attribute, attribute.removesuffix("_column"))


_VIEW_NAMES = {
    "driver_internal_column": "driver_internal_info",
    **{attribute: f"driver_internal_info[{key!r}]" for key, attribute in COLUMN_KEYS.items()},
}


def _checked(attribute: str, convert: Callable[[Any], R], value: Any) -> R:
    try:
        return convert(value)
    except (TypeError, ValueError, RecursionError) as exc:
        raise exceptions.InvalidParameterValue(
            f"node.{_named(attribute)} holds a value that is not JSON "
            f"({type(exc).__name__}: {exc}); use text, numbers, booleans, lists and dicts"
        ) from exc


_ABSENT = object()


_Columns = dict[str, Any]
_MAPPED: dict[type, tuple[_Columns, _Columns]] = {}


def _mapped(cls: type) -> tuple[_Columns, _Columns]:
    """Return the attributes with plain values, and those with JSON ones."""
    if cls not in _MAPPED:
        mapper: orm.Mapper[Any] = sa.inspect(cls)
        columns: _Columns = {
            attr.key: attr.columns[0] for attr in mapper.column_attrs if attr.key != "id"
        }
        json = {key: c for key, c in columns.items() if isinstance(c.type, types.Json)}
        _MAPPED[cls] = ({key: c for key, c in columns.items() if key not in json}, json)
    return _MAPPED[cls]


def _attributes(cls: type) -> tuple[str, ...]:
    plain, json = _mapped(cls)
    return (*plain, *json)


def _as_time(value: Any) -> Any:
    """Return an aware time for a time or its text; anything else as it is."""
    if isinstance(value, str):
        with suppress(ValueError):
            value = datetime.datetime.fromisoformat(value)
    if isinstance(value, datetime.datetime) and value.tzinfo is None:
        return value.replace(tzinfo=datetime.UTC)
    return value
