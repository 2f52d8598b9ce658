"""Reads request bodies: limits first, then parsing.

Size and depth are checked before anything is parsed, so that neither a huge
nor a deeply nested body costs more than reading it.
"""

from __future__ import annotations

import itertools
import json
import re
from collections import Counter
from typing import Any, NoReturn

import falcon
from oslo_config import cfg

from deploysteps import exceptions

DRAINED = 64 * 2**20
"""Bytes of a body past the limit that are read and thrown away: many clients only look at the
answer after they have sent all, so a refusal without reading would look like a broken line."""

_CHUNK = 64 * 2**10
_CUT_OFF = "The request body did not arrive in full."
_BRACKETS = bytes.maketrans(b"{}", b"[]")
_STEPS = bytes.maketrans(b"[]", b"\x01\xff")
_ROUNDS = 3
_REST = bytes(set(range(256)) - set(b"[]{}"))
# The unterminated text at the end is taken too: searching on inside it would be quadratic.
_TEXT = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)', re.DOTALL)


def read(req: falcon.Request, conf: cfg.ConfigOpts, most: int | None = None) -> Any:
    """Return the JSON value of a request's body; ``{}`` when it has none.

    :param most: bytes, for a request that may come from anybody.
    :raises Invalid: 413 for a body that is too large, 408 for one that takes
        too long, 400 for one that is nested too deep or is not JSON.
    """
    limit, setting = conf.api.max_request_body_bytes, " ([api] max_request_body_bytes)"
    if most is not None and most < limit:
        limit, setting = most, ""
    raw = _received(req, limit, setting)
    return parse(raw, conf.api.max_json_depth) if raw.strip() else {}


def parse(raw: bytes, max_depth: int) -> Any:
    """Return the JSON value that ``raw`` is the text of.

    :raises Invalid: it is nested deeper than ``max_depth``, or is not JSON
        (RFC 8259): not UTF-8, cut off, with ``NaN``, with a number that no
        float can hold, or with a name twice in one object.
    """
    if _deeper(raw, max_depth):
        raise exceptions.Invalid(f"The request body is nested deeper than {max_depth} levels.")
    try:
        return json.loads(
            raw.decode("utf-8"),
            object_pairs_hook=_object,
            parse_constant=_refuse,
            parse_float=_number,
        )
    except UnicodeDecodeError as exc:
        raise exceptions.Invalid("The request body is not UTF-8 text.") from exc
    except (ValueError, RecursionError) as exc:
        where = f" ({exc})" if isinstance(exc, json.JSONDecodeError | _NotJson) else ""
        raise exceptions.Invalid(f"The request body is not valid JSON{where}.") from exc


class _NotJson(ValueError):
    """Python's parser would take it; JSON does not have it."""


def _received(req: falcon.Request, limit: int, setting: str) -> bytes:
    """Return the body, or read it away and refuse it."""
    length = req.content_length
    chunked = "chunked" in (req.get_header("Transfer-Encoding") or "").lower()
    stream = req.stream if chunked else req.bounded_stream
    kept, count, most = [], 0, limit + DRAINED
    if not chunked and (length or 0) > most:
        raise _too_large(limit, setting)
    try:
        while count <= most and (chunk := stream.read(_CHUNK)):
            count += len(chunk)
            if count <= limit:
                kept.append(chunk)
    except TimeoutError as exc:
        raise exceptions.Invalid(
            "The request body took too long to arrive ([api] request_timeout).", code=408
        ) from exc
    except (OSError, ValueError) as exc:
        raise exceptions.Invalid(_CUT_OFF) from exc
    if count > limit:
        raise _too_large(limit, setting)
    if not chunked and count < (length or 0):  # the client is gone, who may have had more to say
        raise exceptions.Invalid(_CUT_OFF)
    return b"".join(kept)


def _too_large(limit: int, setting: str) -> exceptions.Invalid:
    return exceptions.Invalid(f"The request body is larger than {limit} bytes{setting}.", code=413)


def _deeper(raw: bytes, limit: int) -> bool:
    """Tell whether brackets are nested deeper than ``limit``, without parsing."""
    brackets = _TEXT.sub(b"", raw).translate(_BRACKETS, _REST)
    if b"[" * (limit + 1) in brackets:
        return True
    gone = 0
    # One level, the innermost of each group, goes at a time: most bodies have few, and many
    # would make it slow.
    while gone < min(limit, _ROUNDS):
        fewer = brackets.replace(b"[]", b"")
        if len(fewer) == len(brackets):
            break
        brackets, gone = fewer, gone + 1
    steps = memoryview(brackets.translate(_STEPS)).cast("b")
    return gone + max(itertools.accumulate(steps), default=0) > limit


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise _NotJson(f"member {_twice(pairs)[:80]!r} stands twice in one object")
    return found


def _twice(pairs: list[tuple[str, Any]]) -> str:
    return Counter(name for name, _ in pairs).most_common(1)[0][0]


def _refuse(constant: str) -> NoReturn:
    raise _NotJson(f"{constant} is no JSON number")


def _number(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise _NotJson("a number is too large")
    return number
