"""What every room does with texts from outside."""

from __future__ import annotations


def scrub(text: str) -> str:
    """Return the text without what a database refuses: NUL and lone surrogates."""
    if text.isascii() and "\0" not in text:
        return text
    return text.replace("\0", "\\0").encode("utf-8", "backslashreplace").decode("utf-8")
