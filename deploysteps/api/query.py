"""Takes the arguments of a request's query, one by one; what is left over is refused."""

from __future__ import annotations

import re

import falcon
from oslo_utils import strutils

from deploysteps import exceptions

_INTEGER = re.compile(r"-?[0-9]{1,9}", re.ASCII)
_UNCLEAN = re.compile("[\0\ud800-\udfff]")
_LONGEST = 80
MOST_NAMES = 1000
"""Texts that an argument may list: fewer than the parameters that a database takes."""


class Query:
    """The query of one request. Call :meth:`finish` when all known were taken."""

    def __init__(self, req: falcon.Request) -> None:
        """Copy the arguments."""
        self._left = dict(req.params)

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def text(self, name: str) -> str | None:
        """Return an argument, None when it is not there.

        :raises Invalid: it is there twice, or is text that no database holds.
        """
        value = self._left.pop(name, None)
        if isinstance(value, list):
            raise exceptions.Invalid(f"The argument {name!r} is given {len(value)} times.")
        if value is not None:
            _refuse_unclean(name, value)
        return value

    def flag(self, name: str) -> bool | None:
        """Return a boolean argument.

        :raises Invalid: it is neither true nor false.
        """
        value = self.text(name)
        if value is None:
            return None
        try:
            return strutils.bool_from_string(value, strict=True)
        except ValueError as exc:
            raise exceptions.Invalid(f"The argument {name!r} must be true or false.") from exc

    def number(self, name: str) -> int | None:
        """Return an integer argument.

        :raises Invalid: it is none.
        """
        value = self.text(name)
        if value is None:
            return None
        if not _INTEGER.fullmatch(value):
            raise exceptions.Invalid(f"The argument {name!r} must be an integer.")
        return int(value)

    def names(self, name: str) -> list[str] | None:
        """Return a list argument: separated by commas, or given several times.

        :raises Invalid: it is too long, or has text that no database holds.
        """
        value = self._left.pop(name, None)
        if value is None:
            return None
        joined = ",".join(value) if isinstance(value, list) else value
        _refuse_unclean(name, joined)
        found = [item.strip() for item in joined.split(",")]
        if len(found) > MOST_NAMES:
            raise exceptions.Invalid(
                f"The argument {name!r} lists {len(found)}; {MOST_NAMES} are allowed."
            )
        return found

    def finish(self) -> None:
        """Refuse what was not taken.

        :raises Invalid: naming it.
        """
        if self._left:
            names = ", ".join(name[:_LONGEST] for name in sorted(self._left)[:5])
            raise exceptions.Invalid(f"Unexpected arguments: {names}")


def _refuse_unclean(name: str, value: str) -> None:
    if _UNCLEAN.search(value):
        raise exceptions.Invalid(f"The argument {name!r} has a character that is not allowed.")
