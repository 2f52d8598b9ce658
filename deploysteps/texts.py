"""What every room does with texts from outside."""

from __future__ import annotations

import re
from collections.abc import Iterable


def scrub(text: str) -> str:
    """Return the text without what a database refuses: NUL and lone surrogates."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")


# Controls, but for the ends of lines and tabs, and what turns the direction of writing.
_UNSEEN = re.compile(
    "[\x01-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]"
)


def closest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant, for a message; None if none is like it."""
    import difflib  # for those who made a mistake

    return next(iter(difflib.get_close_matches(name, list(known), n=1)), None)


def visible(text: str) -> str:
    """Return the text with what a terminal obeys, or does not show, as escapes."""
    if text.isprintable():
        return text
    return _UNSEEN.sub(lambda found: found[0].encode("unicode_escape").decode("ascii"), text)
