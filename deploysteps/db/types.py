"""Column types that behave the same on SQLite, PostgreSQL and MariaDB."""

from __future__ import annotations

import datetime
import functools
import json
import marshal
from typing import Any

import sqlalchemy as sa
from sqlalchemy.engine import Dialect

from deploysteps.texts import scrub as scrub


def utcnow() -> datetime.datetime:
    """Return the present time, aware, in UTC."""
    return datetime.datetime.now(datetime.UTC)


def encode(value: Any) -> str:
    """Return JSON text, ASCII only: every text survives every database."""
    return json.dumps(value, separators=(",", ":"), allow_nan=False)


_LONG = 64 * 1024
"""Bytes from which on a fingerprint is no bytes."""


def fingerprint(value: Any) -> Any:
    """Return what tells later whether a JSON value has changed, in depth and in type.

    ``1``, ``1.0`` and ``True`` are equal in Python and not in JSON, so
    comparing values would lose changes. Bytes are much cheaper than JSON
    text; and of a long value, a copy that shares its texts is much cheaper
    to compare than bytes are to make.
    """
    try:
        found = marshal.dumps(value, 2)
    except ValueError:  # a subclass of a plain type, e.g. an enum of texts
        found = encode(value).encode()
    if len(found) < _LONG:
        return found
    try:
        return _copied(value)
    except RecursionError:
        return found


def has_changed(value: Any, before: Any) -> bool:
    """Tell whether a JSON value is another one than when its fingerprint was taken."""
    return bool((fingerprint(value) if isinstance(before, bytes) else value) != before)


class _Number:
    """A number that is equal only to one that JSON writes in the same way."""

    __slots__ = ("_kind", "_text")

    def __init__(self, value: Any) -> None:
        self._kind, self._text = type(value), repr(value)

    def __eq__(self, other: object) -> bool:
        return type(other) is self._kind and repr(other) == self._text


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(one) for key, one in value.items()}
    if isinstance(value, list):
        return [_copied(one) for one in value]
    if isinstance(value, tuple):
        return tuple(_copied(one) for one in value)
    return value if value is None or isinstance(value, str) else _Number(value)


_MARIADB = ("mysql", "mariadb")


def _long_text(dialect: Dialect) -> sa.types.TypeEngine[str]:
    """Return the type of a text of any length; other databases' modules are not loaded."""
    if dialect.name not in _MARIADB:
        return sa.Text()
    from sqlalchemy.dialects import mysql

    return mysql.LONGTEXT()


class Json(sa.types.TypeDecorator[Any]):
    """A JSON value in a text column; ``None`` is SQL NULL."""

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        """MariaDB's TEXT ends at 64 KiB; take the long one."""
        return dialect.type_descriptor(_long_text(dialect))

    def process_bind_param(self, value: Any, dialect: Dialect) -> str | None:
        """Encode on the way in."""
        return None if value is None else encode(value)

    def process_result_value(self, value: Any, dialect: Dialect) -> Any:
        """Decode on the way out."""
        return None if value is None else json.loads(value)


class ShortText(sa.types.TypeDecorator[str]):
    """Text up to a length, scrubbed: also what a row is looked for by."""

    impl = sa.String
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Scrub on the way in."""
        return None if value is None else scrub(value)


class UuidText(ShortText):
    """A UUID; written, and looked for, in small letters."""

    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Make it small on the way in."""
        return None if value is None else scrub(value).lower()


class LongText(sa.types.TypeDecorator[str]):
    """Text of any length that a database can hold, scrubbed."""

    impl = sa.Text
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        """As :meth:`Json.load_dialect_impl`."""
        return dialect.type_descriptor(_long_text(dialect))

    def process_bind_param(self, value: str | None, dialect: Dialect) -> str | None:
        """Scrub on the way in."""
        return None if value is None else scrub(value)


class Utc(sa.types.TypeDecorator[datetime.datetime]):
    """An aware time, stored as UTC with microseconds."""

    impl = sa.DateTime
    cache_ok = True

    def load_dialect_impl(self, dialect: Dialect) -> Any:
        """MariaDB drops microseconds unless asked not to."""
        if dialect.name not in _MARIADB:
            return dialect.type_descriptor(sa.DateTime())
        from sqlalchemy.dialects import mysql

        return dialect.type_descriptor(mysql.DATETIME(fsp=6))

    def process_bind_param(
        self, value: datetime.datetime | None, dialect: Dialect
    ) -> datetime.datetime | None:
        """Convert to naive UTC; a naive value is taken as UTC."""
        if value is None or value.tzinfo is None:
            return value
        return value.astimezone(datetime.UTC).replace(tzinfo=None)

    def process_result_value(
        self, value: datetime.datetime | None, dialect: Dialect
    ) -> datetime.datetime | None:
        """Make it aware again."""
        return None if value is None else value.replace(tzinfo=datetime.UTC)


JSON, UTC, LONG_TEXT, UUID = Json(), Utc(), LongText(), UuidText(36)
"""For all columns: SQLAlchemy makes a class, and a way in and out, for each such object."""


@functools.cache
def short_text(length: int = 255) -> ShortText:
    """Return the type of texts up to a length, for all columns of that length."""
    return ShortText(length)


def timestamp(value: datetime.datetime | None) -> str | None:
    """Return ISO 8601 with microseconds and offset, as the API shows times."""
    if value is None:
        return None
    if value.tzinfo is None:
        value = value.replace(tzinfo=datetime.UTC)
    return value.isoformat(timespec="microseconds")
