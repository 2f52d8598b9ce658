"""Masking, in one place: copies for people are masked, payloads never are.

What a node is known to hold (values under keys that name secrets, arguments
declared ``secret``, agent tokens, the user part of URLs) is masked by value
wherever it appears; see :class:`Masker`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

MASK = "******"

_SECRET_KEY = re.compile(
    r"(pass(word|wd|phrase|code)?$|passw|secret|token|community|credential|private_?key|api_?key"
    r"|auth_?key|priv_?key|_pw$|^pw$|kg_key|configdrive|swift_temp_url_key)",
    re.IGNORECASE,
)
# Every repetition is bounded: the texts come from anywhere, and may be long.
_URL_USER = re.compile(
    r"(?P<scheme>\b[a-z][a-z0-9+.-]{0,30}://)(?P<user>[^/\s@?#]{1,2048})@", re.IGNORECASE
)
_URL_TOKEN = re.compile(
    r"(?P<key>[?&][\w.~%-]{0,64}?(token|secret|password|signature)[\w.~%-]{0,64}=)[^&\s\"']+",
    re.IGNORECASE,
)
_LEAST = 4
"""Shorter values would mask ordinary words; they are still masked by key."""


def names_secret(key: object) -> bool:
    """Tell whether a key names a secret, e.g. ``ipmi_password``."""
    return isinstance(key, str) and bool(_SECRET_KEY.search(key))


def secret_args(argsinfo: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the names of the arguments declared ``'secret': True``."""
    if not isinstance(argsinfo, Mapping):
        return frozenset()
    return frozenset(
        name
        for name, info in argsinfo.items()
        if isinstance(info, Mapping) and info.get("secret") is True
    )


def masked(value: Any, extra: frozenset[str] = frozenset()) -> Any:
    """Return a copy of a JSON value with what is secret by key masked.

    A dict with ``args`` and ``argsinfo`` (a step) has its declared secret
    arguments masked too. ``extra`` names further secret keys.
    """
    if isinstance(value, Mapping):
        inner = secret_args(value.get("argsinfo"))
        return {
            key: item
            if key == "argsinfo" or item is None
            else MASK
            if names_secret(key) or key in extra
            else masked(item, inner if key == "args" else frozenset())
            for key, item in value.items()
        }
    if isinstance(value, list | tuple):
        return [masked(item) for item in value]
    if isinstance(value, str):
        return masked_urls(value)
    return value


def masked_urls(text: str) -> str:
    """Mask user parts and tokens of the URLs in a text."""
    if "://" in text:
        text = _URL_USER.sub(rf"\g<scheme>{MASK}@", text)
    return _URL_TOKEN.sub(rf"\g<key>{MASK}", text) if "=" in text else text


def values(value: Any, under: bool = False, extra: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield every secret text that a JSON value holds."""
    if isinstance(value, Mapping):
        inner = secret_args(value.get("argsinfo"))
        for key, item in value.items():
            if key == "argsinfo":
                continue
            yield from values(
                item,
                under or names_secret(key) or key in extra,
                inner if key == "args" else frozenset(),
            )
    elif isinstance(value, list | tuple):
        for item in value:
            yield from values(item, under)
    elif under and isinstance(value, str | int | float) and not isinstance(value, bool):
        yield str(value)
    elif isinstance(value, str) and "://" in value:
        for match in _URL_USER.finditer(value):
            user = match["user"]
            yield user
            if ":" in user:
                yield user.split(":", 1)[1]


class Masker:
    """Masks, in texts, what some JSON values are known to hold."""

    def __init__(self, *sources: Any) -> None:
        """Collect the secrets of ``sources``."""
        found = {text for source in sources for text in values(source) if len(text) >= _LEAST}
        # Longest first, so that a secret inside another leaves no tail.
        self._known = sorted(found, key=len, reverse=True)

    def text(self, text: str) -> str:
        """Return the text with every known secret and URL user masked."""
        for known in self._known:
            if known in text:
                text = text.replace(known, MASK)
        return masked_urls(text)
