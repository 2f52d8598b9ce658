"""What the errors of databases mean, whatever the database."""

from __future__ import annotations

from typing import Any

from oslo_db import exception as db_exc

from deploysteps import exceptions

_TIMING = (
    "database is locked",
    "database table is locked",
    "could not serialize",
    "lock wait timeout",
)
_FULL = (1021, 1114, "53100")
"""MariaDB and MySQL: the disk is full, a table cannot grow; PostgreSQL: the disk is full."""
_READ_ONLY = (1290, 1836, "25006")
"""MariaDB and MySQL, PostgreSQL: the server takes no writes, as in the middle of a failover."""
_NO_ROOM = ("disk is full", "disk full", "no space left on device", "disk i/o error")
"""What is told without a code of its own, by SQLite above all."""
_ESCAPED = "\"'\\\n\r\0\x1a"
"""What MariaDB and MySQL are sent with a backslash before it."""


def reason_of(exc: BaseException) -> str:
    """Return the first line of what the database said."""
    inner = getattr(exc, "inner_exception", None) or exc
    inner = getattr(inner, "orig", None) or inner
    return str(inner).splitlines()[0] if str(inner) else type(inner).__name__


def code_of(exc: BaseException) -> int | str | None:
    """Return the code of what the database said: MariaDB's number, else the SQLSTATE."""
    inner = getattr(exc, "inner_exception", None) or exc
    said = getattr(inner, "orig", None)
    number = next(iter(getattr(said, "args", ())), None)
    if isinstance(number, int):
        return number  # MariaDB's SQLSTATE is "HY000" for most of what it says
    return getattr(said, "sqlstate", None) or getattr(said, "pgcode", None)


def is_disconnect(exc: BaseException) -> bool:
    """Tell whether the connection is gone."""
    inner = getattr(exc, "inner_exception", None)
    return isinstance(exc, db_exc.DBConnectionError) or any(
        bool(getattr(error, "connection_invalidated", False)) for error in (exc, inner)
    )


def is_transient(exc: BaseException) -> bool:
    """Tell whether the same transaction may well succeed a moment later."""
    if isinstance(exc, db_exc.DBDeadlock) or is_disconnect(exc) or code_of(exc) in _READ_ONLY:
        return True
    text = reason_of(exc).lower()
    return any(words in text for words in _TIMING)


def has_no_room(exc: BaseException) -> bool:
    """Tell whether there is no room for what was to be written."""
    if code_of(exc) in _FULL:
        return True
    text = reason_of(exc).lower()
    return any(words in text for words in _NO_ROOM)


def is_unavailable(exc: BaseException) -> bool:
    """Tell whether the database is away, or takes nothing."""
    return has_no_room(exc) or is_transient(exc)


def raise_unavailable(exc: BaseException) -> None:
    """Tell that the database is away, or takes nothing, if that is what an error says.

    :raises DatabaseUnavailable: it does; :class:`DatabaseFull` when it has no room.
    """
    if has_no_room(exc):
        raise exceptions.DatabaseFull(reason=reason_of(exc)) from exc
    if is_transient(exc):
        raise exceptions.DatabaseUnavailable(reason=reason_of(exc)) from exc


def size_of(params: Any) -> int:
    """Return the bytes that the texts of a statement's largest row take on the way."""
    rows = params if isinstance(params, list) else [params or {}]
    return max(
        sum(
            len(text.encode("utf-8", "replace")) + sum(map(text.count, _ESCAPED))
            for text in row.values()
            if isinstance(text, str)
        )
        for row in rows
    )
