"""Checks a body against its schema, in words that name the member and tell no value."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any

import jsonschema
from oslo_utils import strutils

from deploysteps import exceptions
from deploysteps.api import schemas

_LONGEST = 80
_VALIDATORS: dict[int, jsonschema.Draft202012Validator] = {}


def checked(schema: schemas.Schema, value: Any, what: str) -> Any:
    """Return ``value``, made fit, when it follows ``schema``.

    :param what: what the body is, e.g. ``node``; begins the message.
    :raises Invalid: it does not.
    """
    value = coerced(schema, value)
    error = next(_validator(schema).iter_errors(value), None)
    if error is not None:
        raise exceptions.Invalid(f"Schema error for {what}: {explained(error)}")
    return value


def coerced(schema: schemas.Schema, value: Any) -> Any:
    """Return an object with texts that mean a boolean as booleans, and null as the default.

    Command-line clients send flags as ``"True"``.
    """
    if not isinstance(value, dict):
        return value
    return {name: _member(schema["properties"].get(name, {}), v) for name, v in value.items()}


def default(schema: schemas.Schema, name: str) -> Any:
    """Return what removing a member of an object gives.

    :raises Invalid: the member has to be there.
    """
    member = schema["properties"][name]
    if "default" not in member:
        raise exceptions.Invalid(f"'{name}' is a mandatory attribute and can not be removed")
    return copy.deepcopy(member["default"])


def explained(error: jsonschema.ValidationError) -> str:
    """Return what is wrong, in words, without the value that is wrong."""
    place = _place(error)
    words = _WORDS.get(str(error.validator), _described)
    return words(place, error)


def _validator(schema: schemas.Schema) -> jsonschema.Draft202012Validator:
    # Schemas are constants, so their identity is a key.
    if id(schema) not in _VALIDATORS:
        _VALIDATORS[id(schema)] = jsonschema.Draft202012Validator(schema)
    return _VALIDATORS[id(schema)]


def _member(schema: Mapping[str, Any], value: Any) -> Any:
    if value is None and "default" in schema:
        return copy.deepcopy(schema["default"])
    if isinstance(value, str) and "boolean" in schema.get("type", ()):
        try:
            return strutils.bool_from_string(value, strict=True)
        except ValueError:
            return value
    return value


def _place(error: jsonschema.ValidationError) -> str:
    path = ""
    for part in error.absolute_path:
        path += f"[{part}]" if isinstance(part, int) else f".{_short(part)}"
    return path.removeprefix(".") or "the body"


def _short(name: object) -> str:
    text = str(name)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _described(place: str, error: jsonschema.ValidationError) -> str:
    schema = error.schema
    told = schema.get("description") if isinstance(schema, Mapping) else None
    return f"{place} must be {told or 'something else'}"


def _type(place: str, error: jsonschema.ValidationError) -> str:
    wanted = error.validator_value
    kinds = " or ".join([wanted] if isinstance(wanted, str) else wanted)
    return f"{place} must be of type {kinds}"


def _unexpected(place: str, error: jsonschema.ValidationError) -> str:
    known = error.schema.get("properties", {}) if isinstance(error.schema, Mapping) else {}
    extra = sorted(name for name in error.instance if name not in known)
    told = ", ".join(repr(_short(name)) for name in extra[:5])
    were = "was" if len(extra) == 1 else "were"
    within = "" if place == "the body" else f" in {place}"
    return f"Additional properties are not allowed ({told} {were} unexpected){within}"


def _required(place: str, error: jsonschema.ValidationError) -> str:
    missing = next(name for name in error.validator_value if name not in error.instance)
    within = "" if place == "the body" else f" of {place}"
    return f"'{missing}' is a required property{within}"


_WORDS: dict[str, Callable[[str, jsonschema.ValidationError], str]] = {
    "type": _type,
    "additionalProperties": _unexpected,
    "required": _required,
    "enum": lambda place, error: (
        f"{place} must be one of {', '.join(str(v) for v in error.validator_value if v)}"
    ),
    "minimum": lambda place, error: f"{place} must be at least {error.validator_value}",
    "maximum": lambda place, error: f"{place} must be at most {error.validator_value}",
    "minLength": lambda place, error: f"{place} must not be empty",
    "maxLength": lambda place, error: (
        f"{place} must not be longer than {error.validator_value} characters"
    ),
    "maxItems": lambda place, error: (
        f"{place} must not have more than {error.validator_value} items"
    ),
}
