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
_WHOLE = "the body"
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


def fits(schema: schemas.Schema, value: Any) -> bool:
    """Tell whether a value follows a schema."""
    return bool(_validator(schema).is_valid(value))


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
    return _WORDS.get(str(error.validator), _described)(_place(error), error.validator_value, error)


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
    return path.removeprefix(".") or _WHOLE


def _short(name: object) -> str:
    text = str(name)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _described(place: str, wanted: Any, error: jsonschema.ValidationError) -> str:
    schema = error.schema
    told = schema.get("description") if isinstance(schema, Mapping) else None
    return f"{place} must be {told or 'something else'}"


def _type(place: str, wanted: Any, error: jsonschema.ValidationError) -> str:
    kinds = " or ".join([wanted] if isinstance(wanted, str) else wanted)
    return f"{place} must be of type {kinds}"


def _unexpected(place: str, wanted: Any, error: jsonschema.ValidationError) -> str:
    given: Any = error.instance
    known = error.schema.get("properties", {}) if isinstance(error.schema, Mapping) else {}
    extra = sorted(name for name in given if name not in known)
    told = ", ".join(repr(_short(name)) for name in extra[:5])
    were = "was" if len(extra) == 1 else "were"
    return f"Additional properties are not allowed ({told} {were} unexpected){_within(place)}"


def _required(place: str, wanted: Any, error: jsonschema.ValidationError) -> str:
    given: Any = error.instance
    first, *more = (repr(name) for name in wanted if name not in given)
    also = f", and so {'are' if more[1:] else 'is'} {' and '.join(more)}" if more else ""
    return f"{first} is a required property{_within(place)}{also}"


def _within(place: str) -> str:
    return "" if place == _WHOLE else f" in {place}"


_WORDS: dict[str, Callable[[str, Any, jsonschema.ValidationError], str]] = {
    "type": _type,
    "additionalProperties": _unexpected,
    "required": _required,
    "enum": lambda place, wanted, _: (
        f"{place} must be one of {', '.join(str(one) for one in wanted if one)}"
    ),
    "minimum": lambda place, wanted, _: f"{place} must be at least {wanted}",
    "maximum": lambda place, wanted, _: f"{place} must be at most {wanted}",
    "minLength": lambda place, wanted, _: f"{place} must not be empty",
    "maxLength": lambda place, wanted, _: f"{place} must have at most {wanted} characters",
    "minItems": lambda place, wanted, _: f"{place} must not be empty",
    "maxItems": lambda place, wanted, _: f"{place} must have at most {wanted} items",
}
