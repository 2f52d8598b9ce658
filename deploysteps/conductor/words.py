"""Texts about failures: safe to make, masked, bounded, and telling why."""

from __future__ import annotations

import math
import traceback
from collections.abc import Mapping
from typing import Any

from deploysteps import exceptions, secrets
from deploysteps.db import types
from deploysteps.texts import visible

LAST_ERROR_BYTES = 16 * 1024
EVIDENCE_BYTES = 64 * 1024
MOST_EVIDENCE_BYTES = 2 * 2**20
"""Of one text that explains a failure, and of all of one value that does."""
PROGRESS_BYTES = 500


def text_of(exc: BaseException) -> str:
    """Return an exception's text, whatever its ``__str__`` does."""
    try:
        text = str(exc).strip()
    except BaseException as inner:  # an author's __str__ may raise anything at all
        text = f"(its text cannot be shown: {type(inner).__name__})"
    if isinstance(exc, exceptions.DeployStepsException) and text:
        return text
    return f"{type(exc).__name__}: {text}" if text else type(exc).__name__


def shortened(text: str, limit: int) -> str:
    """Return a text of at most ``limit`` UTF-8 bytes, its head and tail kept."""
    text = types.scrub(text)
    raw = text.encode("utf-8")
    if len(raw) <= limit:
        return text
    mark = f" ...[{len(raw) - limit} bytes left out]... "
    room = limit - len(mark)
    head = raw[: room * 2 // 3].decode("utf-8", "ignore")
    tail = raw[len(raw) - room // 3 :].decode("utf-8", "ignore")
    return head + mark + tail


def shown(text: str, mask: secrets.Masker, limit: int) -> str:
    """Return a text for people: masked while it is whole, then shortened.

    What a terminal would obey in it is escaped: some of it comes from machines.
    """
    return shortened(visible(mask.text(text)), limit)


def shown_value(value: Any, mask: secrets.Masker, limit: int, levels: int = 16) -> Any:
    """Return a JSON value for people: every text in it as :func:`shown`.

    Whatever it holds, a database takes it: what is no JSON, or lies deeper than so
    many levels, is told by its type, and no number is infinite.
    """
    if isinstance(value, str):
        return shown(value, mask, limit)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, bool | int | float):
        return value
    if levels and isinstance(value, Mapping):
        return {
            shown(str(k), mask, limit): shown_value(v, mask, limit, levels - 1)
            for k, v in value.items()
        }
    if levels and isinstance(value, list | tuple):
        return [shown_value(item, mask, limit, levels - 1) for item in value]
    return str(type(value))


def bounded_value(value: Any, mask: secrets.Masker, limit: int, most: int) -> Any:
    """Return :func:`shown_value`, as a shortened text of it when it has more than ``most`` bytes.

    :param limit: bytes of each text in it.
    """
    found = shown_value(value, mask, limit)
    text = types.encode(found)
    return found if len(text) <= most else shortened(text, limit)


def seconds(value: float) -> str:
    """Return a duration for people: ``0.2 s``, ``12 s``."""
    return f"{value:.1f} s" if value < 10 else f"{value:.0f} s"


def step_failed(interface: str, step: str, why: str, attempt: int, took: float) -> str:
    """Return the text of ``last_error`` for a step."""
    return f"{interface}.{step} failed: {why} (attempt {attempt}, after {seconds(took)})"


def traced(exc: BaseException, mask: secrets.Masker) -> str:
    """Return an exception's traceback, masked, for the log and for evidence."""
    try:
        trace = "".join(traceback.format_exception(exc))
    except BaseException:  # formatting calls __str__, which may raise anything
        trace = type(exc).__name__
    return shown(trace, mask, EVIDENCE_BYTES)


def refusal(
    task: Any, what: str, exc: BaseException
) -> exceptions.InvalidParameterValue | exceptions.DriverOperationError:
    """Return what to tell a caller when a driver that was asked raised.

    What a driver says of a setting is the caller's to mend (400); anything
    else is the driver's own (500). The text is masked.
    """
    told = shown(f"{what}: {text_of(exc)}", task.masker(), LAST_ERROR_BYTES)
    if isinstance(exc, exceptions.DeployStepsException) and exc.code < 500:
        return exceptions.InvalidParameterValue(told)
    return exceptions.DriverOperationError(told)


def evidence_of(
    exc: BaseException | None, mask: secrets.Masker, before: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Return what is kept with an attempt to explain its failure.

    :param before: evidence that the attempt has already: what the agent or
        the BMC answered last.
    """
    found = dict(before or {})
    if exc is not None:
        found["exception"] = shown(text_of(exc), mask, EVIDENCE_BYTES)
        found["traceback"] = traced(exc, mask)
    return found
