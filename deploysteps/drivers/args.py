"""Checks the arguments of a step against what the step declared.

Messages name the argument and the rule and never a value: arguments may be
secrets, and messages go into logs, histories and answers.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import jsonschema
import referencing
import referencing.exceptions
from referencing.jsonschema import DRAFT202012

from deploysteps import exceptions

_LOCAL_ONLY: referencing.Registry[Any] = referencing.Registry()
"""Without it, jsonschema would fetch what a ``$ref`` names from the network."""

_SHOWN = 120
"""Characters of a rule's text that a message shows."""


def validate_step_args(
    argsinfo: Mapping[str, Mapping[str, Any]] | None,
    args: Mapping[str, Any] | None,
    *,
    step: str,
) -> None:
    """Check the arguments of one step.

    :param argsinfo: the step's declaration; None means "takes no arguments".
    :param args: what somebody gave; None means none.
    :param step: ``<interface>.<step>``, for the message.
    :raises InvalidParameterValue: naming the step, every argument that is
        wrong and the rule it breaks, without any value.
    """
    if args is None:
        args = {}
    if not isinstance(args, Mapping):
        raise exceptions.InvalidParameterValue(
            f"{step}: args must be an object (argument name -> value), not {json_type(args)}"
        )
    problems = list(_problems(argsinfo or {}, args))
    if problems:
        raise exceptions.InvalidParameterValue(f"{step}: {'; '.join(problems)}")


def check_schema(schema: object) -> None:
    """Refuse what is no usable JSON Schema 2020-12.

    :raises ValueError: saying what is wrong with it.
    """
    if not isinstance(schema, Mapping):
        raise ValueError(f"it is a {type(schema).__name__}, not a dict")
    try:
        text = json.dumps(schema, allow_nan=False, sort_keys=True)
    except (TypeError, ValueError, RecursionError) as exc:
        raise ValueError(f"it cannot be written as JSON ({exc})") from None
    _compiled(text)


def json_type(value: object) -> str:
    """Return JSON's name for the type of a value."""
    for kinds, name in _JSON_TYPES:
        if isinstance(value, kinds):
            return name
    return "null" if value is None else type(value).__name__


_JSON_TYPES: tuple[tuple[Any, str], ...] = (
    (bool, "boolean"),
    (int, "integer"),
    (float, "number"),
    (str, "string"),
    (list | tuple, "array"),
    (Mapping, "object"),
)


def _problems(argsinfo: Mapping[str, Mapping[str, Any]], args: Mapping[str, Any]) -> Iterator[str]:
    known = ", ".join(sorted(argsinfo)) or "none"
    unknown = sorted(_short(name) for name in args if name not in argsinfo)
    if unknown:
        yield f"unknown argument {', '.join(unknown)} (known: {known})"
    for name, info in argsinfo.items():
        if args.get(name) is None and info.get("required"):
            yield f"missing required argument {name!r}"
        elif name in args and info.get("schema") is not None:
            yield from (
                f"argument {name!r}{problem}" for problem in _schema_problems(info, args[name])
            )


def _schema_problems(info: Mapping[str, Any], value: object) -> Iterator[str]:
    try:
        validator = _compiled(json.dumps(info["schema"], sort_keys=True))
        errors = sorted(validator.iter_errors(value), key=lambda error: list(map(str, error.path)))
    except (ValueError, TypeError):
        yield " cannot be checked: the step declares it with a schema that is none"
        return
    except RecursionError:
        yield " is nested too deeply"
        return
    for error in errors:
        path = "" if info.get("secret") else _path(error)
        yield f"{path} {_rule(error, secret=bool(info.get('secret')))}"


@functools.lru_cache(maxsize=1024)
def _compiled(schema: str) -> jsonschema.Draft202012Validator:
    """Return the validator of a schema in JSON, once per process."""
    loaded = json.loads(schema)
    try:
        jsonschema.Draft202012Validator.check_schema(loaded)
    except jsonschema.SchemaError as exc:
        raise ValueError(f"{'/'.join(map(str, exc.path)) or 'it'}: {exc.message}") from None
    resolver = _LOCAL_ONLY.resolver_with_root(DRAFT202012.create_resource(loaded))
    for reference in _references(loaded):
        try:
            resolver.lookup(reference)
        except referencing.exceptions.Unresolvable:
            raise ValueError(
                f"the $ref {reference!r} leads nowhere; only references inside the schema work"
            ) from None
    return jsonschema.Draft202012Validator(
        loaded,
        registry=_LOCAL_ONLY,
        format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER,
    )


def _references(schema: object) -> Iterator[str]:
    """Yield every ``$ref`` that the schema follows, not those in examples."""
    if isinstance(schema, dict):
        for key, value in schema.items():
            if key in ("$ref", "$dynamicRef") and isinstance(value, str):
                yield value
            elif key not in ("const", "default", "enum", "examples"):
                yield from _references(value)
    elif isinstance(schema, list):
        for item in schema:
            yield from _references(item)


def _path(error: jsonschema.ValidationError) -> str:
    return "".join(f"[{_short(part)}]" for part in error.path)


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def _rule(error: jsonschema.ValidationError, *, secret: bool) -> str:
    """Say which rule is broken, from the schema's side only."""
    rule = str(error.validator)
    expected: Any = error.validator_value
    if rule == "type":
        wanted = expected if isinstance(expected, str) else " or ".join(map(str, expected))
        return f"must be of type {wanted}, not {json_type(error.instance)}"
    if rule == "required":
        instance: Any = error.instance
        missing = [key for key in expected if key not in instance]
        return f"must have {', '.join(map(repr, missing))}"
    if rule in ("additionalProperties", "unevaluatedProperties") and not secret:
        return f"has unknown keys{_unknown_keys(error)}"
    wording = _WORDINGS.get(rule, lambda _: f"breaks the rule {rule!r} of its schema")
    return wording(expected)


def _unknown_keys(error: jsonschema.ValidationError) -> str:
    schema: Any = error.schema
    instance: Any = error.instance
    known: Iterable[str] = schema.get("properties", {})
    unknown = [_short(key) for key in instance if key not in known]
    return f" {', '.join(unknown)} (known: {', '.join(known) or 'none'})"


_WORDINGS: dict[str, Callable[[Any], str]] = {
    "enum": lambda value: f"must be one of {_short(value)}",
    "const": lambda value: f"must be {_short(value)}",
    "minimum": lambda value: f"must be at least {value}",
    "maximum": lambda value: f"must be at most {value}",
    "exclusiveMinimum": lambda value: f"must be more than {value}",
    "exclusiveMaximum": lambda value: f"must be less than {value}",
    "multipleOf": lambda value: f"must be a multiple of {value}",
    "minLength": lambda value: f"must have at least {value} characters",
    "maxLength": lambda value: f"must have at most {value} characters",
    "pattern": lambda value: f"must match the pattern {_short(value)}",
    "format": lambda value: f"must have the format {value!r}",
    "minItems": lambda value: f"must have at least {value} items",
    "maxItems": lambda value: f"must have at most {value} items",
    "uniqueItems": lambda _: "must not have an item twice",
    "minProperties": lambda value: f"must have at least {value} keys",
    "maxProperties": lambda value: f"must have at most {value} keys",
    "additionalProperties": lambda _: "has unknown keys",
    "unevaluatedProperties": lambda _: "has unknown keys",
    "anyOf": lambda _: "has none of the forms that its schema allows",
    "oneOf": lambda _: "does not have exactly one of the forms that its schema allows",
    "not": lambda _: "has a form that its schema forbids",
}
