"""What is different between two answers: status, shape, and the headers and values that matter."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

from tests.replay.recordings import Exchange
from tests.support_api import Answer

FREE = {
    "args",
    "argsinfo",
    "driver_info",
    "driver_internal_info",
    "extra",
    "instance_info",
    "internal_info",
    "local_link_connection",
    "network_data",
    "properties",
    "raid_config",
    "target_raid_config",
}
"""Objects whose members are the user's or the driver's: only what is masked is compared."""

SITUATION = {"maintenance", "provision_state", "target_provision_state"}
"""Members whose values say that the situation is the same."""

MASK = "******"


def differences(recorded: Exchange, answer: Answer) -> Iterator[str]:
    """Yield each difference as one line: where, what was recorded, what came."""
    if recorded.status != answer.status:
        yield f"status: {recorded.status} -> {answer.status}"
        return
    yield from _headers(recorded.headers, answer.headers)
    expected, found = recorded.answer, answer.body
    if isinstance(expected, dict) and "error_message" in expected:
        yield from _errors(expected, found)
    elif recorded.path.partition("?")[0].endswith("/properties"):
        yield from _kinds(expected, found, "body")  # the members are the driver's
    else:
        yield from _shape(expected, found, "body")


def _headers(expected: dict[str, str], found: dict[str, str]) -> Iterator[str]:
    for name, value in expected.items():
        if name not in found:
            yield f"header {name}: missing"
        elif name == "location":
            if urlsplit(value).path != urlsplit(found[name]).path:
                yield f"header location: {urlsplit(value).path} -> {urlsplit(found[name]).path}"
        elif name.endswith("request-id"):
            if not found[name].startswith("req-"):
                yield f"header {name}: {found[name]}"
        elif name == "allow":
            if _methods(value) != _methods(found[name]):
                yield f"header allow: {_methods(value)} -> {_methods(found[name])}"
        elif value.partition(";")[0] != found[name].partition(";")[0]:
            yield f"header {name}: {value} -> {found[name]}"
    for name in found:
        if name.startswith("x-openstack-ironic-api") and name not in expected:
            yield f"header {name}: added"


def _methods(value: str) -> str:
    return ", ".join(sorted(method.strip() for method in value.split(",")))


def _errors(expected: Any, found: Any) -> Iterator[str]:
    if list(found) != ["error_message"] or not isinstance(found["error_message"], str):
        yield "body: another envelope"
        return
    inner, ours = json.loads(expected["error_message"]), json.loads(found["error_message"])
    yield from _shape(inner, ours, "error")
    for name in ("faultcode", "code", "title"):  # the words of the others are ours
        if name in inner and inner[name] != ours.get(name):
            yield f"error.{name}: {inner[name]} -> {ours.get(name)}"
    said, ours_said = (_refused(one.get("faultstring") or "") for one in (inner, ours))
    if said and said != ours_said:
        yield f"error.faultstring: {said} -> {ours_said}"


def _refused(text: str) -> tuple[str, ...]:
    """Return what was asked for and the state that does not allow it."""
    found = re.search(r'requested action "([^"]+)" .* in state "([^"]+)"', text)
    return found.groups() if found else ()


def _kind(value: Any) -> str:
    if value is None:
        return "null"
    kinds = {dict: "object", list: "array", str: "string", bool: "boolean"}
    return kinds.get(type(value), "number")


def _kinds(expected: Any, found: Any, where: str) -> Iterator[str]:
    kinds = _kind(expected), _kind(found)
    scalar = not {"object", "array"} & set(kinds)
    if kinds[0] != kinds[1] and not (scalar and "null" in kinds):
        yield f"{where}: {kinds[0]} -> {kinds[1]}"


def _shape(expected: Any, found: Any, where: str, name: str = "") -> Iterator[str]:
    """Compare keys and kinds; null is as good as a text, a number or a boolean."""
    wrong = list(_kinds(expected, found, where))
    if wrong or expected is None or found is None:
        yield from wrong
    elif isinstance(expected, dict):
        if name in FREE:
            yield from _masks(expected, found, where)
            return
        for key in expected.keys() - found.keys():
            yield f"{where}.{key}: missing"
        for key in found.keys() - expected.keys():
            yield f"{where}.{key}: added"
        for key in expected.keys() & found.keys():
            yield from _shape(expected[key], found[key], f"{where}.{key}", key)
    elif isinstance(expected, list):
        if bool(expected) != bool(found):
            told = ["filled" if items else "empty" for items in (expected, found)]
            yield f"{where}: {told[0]} -> {told[1]}"
        for number, item in enumerate(found if expected else []):
            like = expected[min(number, len(expected) - 1)]
            yield from _shape(like, item, f"{where}.N")
    elif name in SITUATION and expected != found:
        yield f"{where}: {expected!r} -> {found!r}"


def _masks(expected: dict[str, Any], found: dict[str, Any], where: str) -> Iterator[str]:
    for key, value in expected.items():
        if value == MASK and found.get(key, MASK) != MASK:
            yield f"{where}.{key}: not masked"
