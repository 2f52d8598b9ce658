"""Masking, in one place: copies for people are masked, payloads never are.

What a node is known to hold (values under keys that name secrets, arguments
declared ``secret``, agent tokens, the user part of URLs) is masked by value
wherever it appears; see :class:`Masker`.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import quote, quote_plus, unquote

from deploysteps.texts import scrub

MASK = "******"

_WORDS: dict[str, str] = {
    "pass": r"pass(wd|code)?$|passw|passphrase|(admin|new)_?pass",
    "pw": r"(^|[_-])pw$|pwd$",
    "pswd": r"pswd",
    "pin": r"[_-]pin(code)?$",
    "secret": r"secret",
    "token": r"token",
    "communit": r"community",
    "credential": r"credential",
    "cookie": r"cookie",
    "authorization": r"authorization",
    "configdrive": r"configdrive",
    "key": r"(private|priv|api|auth|access|ssh|ssl|tls|cert|client|encrypt(ed|ion)|fernet|heartbeat"
    r"|ndc|k_?g|temp_?url)[_-]?key|ceph\w{0,32}key",
    "kek": r"cryptokek",
    "fsid": r"clusterfsid",
    "hashsuffix": r"hashsuffix",
}
"""What every key has, in lower case, that one of these patterns finds -> the pattern: it names a
secret. They have all that the field masks (``oslo_utils.strutils.mask_dict_password``)."""
_OF_URLS = r"signature|(?<![a-z0-9])(sig|auth)$"
"""What names a secret in URLs only."""

_SECRET_KEY = re.compile("|".join(_WORDS.values()), re.IGNORECASE)
# Every repetition is bounded: the texts come from anywhere, and may be long.
# A password may have an "@" of its own: the host begins after the last one. It may also have what
# ends a host in any other URL: then what follows the first ":" is no port.
_URL_USER = re.compile(
    r"(?P<scheme>\b[a-z][a-z0-9+.-]{0,30}://)(?P<user>[^/\s?#]{1,2048}"
    r"|[^/\s?#:@\[\"']{0,255}:(?!\d{0,5}(?:[/?#\s\"']|$))"
    # Whether there is an end is looked for once, and not from each place where it could be.
    r"(?=[^\s\"'<>][^\s\"'<>@]{0,511}+@)[^\s\"'<>]{1,512})@",
    re.IGNORECASE,
)
_URL_TOKEN = re.compile(
    r"(?P<key>[?&#](?:[\w.~%-]{0,64}?(?:"
    + "|".join((*_WORDS.values(), _OF_URLS)).replace("$", "(?==)").replace("^", "(?<=[?&#])")
    + r")[\w.~%-]{0,64}=))[^&\s\"']+",
    re.IGNORECASE,
)
_LEAST = 4
"""Shorter values would mask ordinary words; they are still masked by key."""
_WORD = re.compile(r"[a-z_]+")
_LEAST_KEY = 8
"""The same for what is only a key inside a secret object: most keys are words."""
_LONGEST_QUOTED = 64 * 2**10
"""Longer secrets are looked for as they are only."""
_LONGEST_PATTERN = 2048
"""Longer secrets are looked for as they are, and quoted once."""
_PARTS = re.compile(r"[A-Za-z0-9]+")


def names_secret(key: object) -> bool:
    """Tell whether a key names a secret, e.g. ``ipmi_password``."""
    if not isinstance(key, str):
        return False
    return _looked_up(key) if len(key) <= _SHORT_KEY else bool(_SECRET_KEY.search(key))


_SHORT_KEY = 64


@functools.lru_cache(4096)
def _looked_up(key: str) -> bool:
    # A list of nodes has the same few keys thousands of times.
    return bool(_SECRET_KEY.search(key))


def secret_args(argsinfo: Mapping[str, Any] | None) -> frozenset[str]:
    """Return the names of the arguments declared ``'secret': True``."""
    if not isinstance(argsinfo, Mapping):
        return frozenset()
    return frozenset(
        name
        for name, info in argsinfo.items()
        if isinstance(info, Mapping) and info.get("secret") is True
    )


def _undeclared(value: Mapping[str, Any]) -> frozenset[str]:
    """Return the names of the arguments of a step of which it is not known what it declares."""
    args, is_step = value.get("args"), "interface" in value and "step" in value
    if value[UNKNOWN] is not True or not is_step or not isinstance(args, Mapping):
        return _NONE
    return frozenset(args)


def is_secret_setting(value: Mapping[str, Any]) -> bool:
    """Tell whether an object is a setting whose ``value`` is secret, by its ``name``."""
    return names_secret(value.get("name"))


def masked(value: Any, extra: frozenset[str] = frozenset()) -> Any:
    """Return a copy of a JSON value with what is secret by key masked.

    A dict with ``args`` and ``argsinfo`` (a step) has its declared secret
    arguments masked too, and one with ``name`` and ``value`` (a setting) its
    value, when the name names a secret. A step that is ``unknown``, because the
    agent that may declare it has not told yet, has all of them masked.
    ``extra`` names further secret keys.
    """
    if isinstance(value, str):
        return masked_urls(value)
    if isinstance(value, dict | Mapping):
        declared = secret_args(value["argsinfo"]) if "argsinfo" in value else _NONE
        if UNKNOWN in value:
            declared |= _undeclared(value)
        if "value" in value and is_secret_setting(value):
            extra = extra | _VALUE
        found = {}
        for key, item in value.items():
            # What most values are comes without a call: lists have a hundred thousand of them.
            kind = type(item)
            if item is None or key == "argsinfo":
                found[key] = item
            elif names_secret(key) or key in extra:
                found[key] = MASK
            elif kind is str:
                found[key] = masked_urls(item) if "=" in item or "://" in item else item
            elif kind is int or kind is bool:
                found[key] = item
            else:
                found[key] = masked(item, declared if key == "args" else _NONE)
        return found
    if isinstance(value, list | tuple):
        return [masked(item) for item in value]
    return value


_NONE: frozenset[str] = frozenset()
_VALUE = frozenset({"value"})
UNKNOWN = "unknown"
"""Key of a step whose declaration is not known."""
_HINTS = (*_WORDS, UNKNOWN)
_URL_HINTS = ("://", "=", "\\u")
_SHORTEST = len('{"pw":1}')
"""Characters of the shortest text that has a secret; many are "{}"."""
_LOOKED_THROUGH = 256
"""Characters; a longer text is taken apart at once, which then takes less than to look."""
_decoded = json.JSONDecoder().raw_decode
_encoded = json.JSONEncoder(check_circular=False).encode


def masked_json(text: str) -> str:
    """Return the JSON text of :func:`masked` of what a JSON text says.

    :param text: as :func:`json.dumps` writes it, ASCII only.
    """
    if len(text) < _SHORTEST:
        return text
    # What has none of these has no key that names a secret and no URL. An escape may be a
    # letter that is one of theirs when case is ignored.
    if (
        len(text) <= _LOOKED_THROUGH
        and not any(map(text.__contains__, _URL_HINTS))
        and not any(map(text.lower().__contains__, _HINTS))
    ):
        return text
    return _encoded(masked(_decoded(text)[0]))


def masked_urls(text: str) -> str:
    """Mask user parts and tokens of the URLs in a text."""
    if "://" in text and "@" in text:
        text = _URL_USER.sub(rf"\g<scheme>{MASK}@", text)
    return _URL_TOKEN.sub(rf"\g<key>{MASK}", text) if "=" in text else text


def has_masked_url(text: str) -> bool:
    """Tell whether a text has a URL as :func:`masked_urls` leaves it."""
    if MASK not in text:
        return False
    users = (match["user"] for match in _URL_USER.finditer(text))
    tokens = (match[0].rpartition("=")[2] for match in _URL_TOKEN.finditer(text))
    return MASK in {*users, *tokens}


def values(value: Any, under: bool = False, extra: frozenset[str] = frozenset()) -> Iterator[str]:
    """Yield every secret text that a JSON value holds."""
    if isinstance(value, Mapping):
        inner = secret_args(value.get("argsinfo"))
        args = value.get("args")
        if "value" in value and is_secret_setting(value):
            extra = extra | _VALUE
        if inner and isinstance(args, Mapping):
            for name in inner & args.keys():
                yield from _secret_keys(args[name], value["argsinfo"][name].get("schema"))
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
                password = user.split(":", 1)[1]
                yield password
                yield unquote(password)


def _keys(value: Any) -> Iterator[str]:
    """Yield every key inside a JSON value."""
    if isinstance(value, Mapping):
        yield from map(str, value)
        value = list(value.values())
    if isinstance(value, list | tuple):
        for item in value:
            yield from _keys(item)


def _secret_keys(value: Any, schema: Any) -> Iterator[str]:
    """Yield the keys of a secret argument that are data, not words that say what is what."""
    words = frozenset(_keys(schema))
    for key in _keys(value):
        named = key in words or (names_secret(key) and _WORD.fullmatch(key))
        if not named and len(key) >= _LEAST_KEY:
            yield key


def _forms(secret: str) -> Iterator[str]:
    """Yield a secret as it stands in texts: as it is, and as programs quote it once."""
    yield secret
    if _is_plain(secret) or len(secret) > _LONGEST_QUOTED:
        return
    raw = secret.encode("utf-8", "surrogatepass")
    # The leading '"' makes repr() quote by "'" and escape it; beside a text
    # without '"' it would do neither.
    for shown in (repr('"' + secret)[2:-1], repr(b'"' + raw)[3:-1]):
        yield shown
        yield shown.replace("\\'", "'")
    yield json.dumps(secret)[1:-1]
    yield json.dumps(secret, ensure_ascii=False)[1:-1]
    yield quote(raw)
    yield quote(raw, safe="")
    yield quote_plus(raw)


def _is_plain(secret: str) -> bool:
    """Tell whether no way to quote changes a text."""
    return secret.isascii() and secret.isalnum()


_SHORT = {"\n": "n", "\r": "r", "\t": "t", "\b": "b", "\f": "f", "\v": "v", "\a": "a"}


@functools.lru_cache(maxsize=256)
def _quoted(secret: str) -> re.Pattern[str]:
    """Return what finds a secret that was quoted several times over, each time in another way.

    No text takes long, also one that is full of backslashes: each run of them is gone through
    once. So at the ends of a secret one of them stands for all, and what comes after its own
    brings none along.
    """
    core = secret.strip("\\")
    if not core:
        return re.compile(f"(?i:{_BACKSLASH}{{{len(secret)}}})")
    at_end = f"(?i:{_BACKSLASH})"
    found = [at_end] if secret[0] == "\\" else []
    before = secret[0] if found else ""
    for letter in core:
        if letter != "\\" or before != "\\":  # quoting makes more of them, and all are taken
            found.append(_quoted_letter(letter, before))
        before = letter
    return re.compile("".join([*found, at_end] if secret[-1] == "\\" else found))


_BACKSLASH = r"(?:\\|%(?:25)*5c)"
_SOME = f"{_BACKSLASH}++"


@functools.lru_cache(maxsize=2048)
def _quoted_letter(letter: str, before: str) -> str:
    """Return what finds a letter of a secret.

    :param before: the letter before it; empty for the first one.
    """
    if _is_plain(letter):
        return letter
    if letter == "\\":
        return f"(?i:{_SOME})"
    # What else of backslashes stands before the first one may stay in the text.
    first = {"": ("", _BACKSLASH), "\\": ("", "")}
    any_, some = first.get(before, (f"{_BACKSLASH}*+", _SOME))
    number = ord(letter)
    raw = letter.encode("utf-8", "surrogatepass")
    units = letter.encode("utf-16-be", "surrogatepass").hex()
    shown = [
        f"{any_}{re.escape(letter)}",
        some + _SOME.join(f"x{byte:02x}" for byte in raw),
        any_ + "".join(f"%(?:25)*{byte:02x}" for byte in raw),
        some + _SOME.join(f"u{units[at : at + 4]}" for at in range(0, len(units), 4)),
        f"{some}U{number:08x}",
    ]
    if number < 256:
        shown.append(f"{some}x{number:02x}")
    if letter in _SHORT:
        shown.append(some + _SHORT[letter])
    if letter == " ":
        shown.append(r"(?:\+|%(?:25)*2b)")
    return f"(?i:{'|'.join(shown)})"


class Masker:
    """Masks, in texts, what some JSON values are known to hold."""

    def __init__(self, *sources: Any) -> None:
        """Collect the secrets of ``sources``."""
        held = {text for source in sources for text in values(source) if len(text) >= _LEAST}
        forms = {form for secret in held for form in _forms(secret)}
        # A text may have been stored, or made fit to be.
        found = forms | {scrub(form) for form in forms}
        # Longest first, so that a secret inside another leaves no tail.
        self._known = sorted(found, key=len, reverse=True)
        self._changed = sorted(
            (text for text in held if not _is_plain(text) and len(text) <= _LONGEST_PATTERN),
            key=len,
            reverse=True,
        )

    def text(self, text: str) -> str:
        """Return the text with every known secret and URL user masked."""
        for known in self._known:
            if known in text:
                text = text.replace(known, MASK)
        for secret in self._changed:
            # Its longest part that no quoting changes tells cheaply that it is not there.
            if max(_PARTS.findall(secret), key=len, default="") in text:
                text = _quoted(secret).sub(MASK, text)
        return masked_urls(text)
