"""Loaded by schemathesis: sends a good part of its requests to what is there, in a known version.

Left alone it would make up names, so that nearly every answer would be 404.
"""

from __future__ import annotations

import json
import os
import zlib
from typing import Any

import schemathesis

THERE: dict[str, list[str]] = json.loads(os.environ["DEPLOYSTEPS_THERE"])
"""Tag of an operation -> the names of what was there when the run began."""
VERSION = "X-OpenStack-Ironic-API-Version"


def _number(value: object) -> int:
    return zlib.crc32(repr(value).encode())


@schemathesis.hook
def before_load_schema(context: Any, raw_schema: dict[str, Any]) -> None:
    """Make a choice of what the document leaves open and a request seldom hits by chance."""
    schemas = raw_schema["components"]["schemas"]
    for body in ("ProvisionBody", "PowerBody"):
        target = schemas[body]["properties"]["target"]
        target["enum"] = target["examples"]
    written = [schemas[f"{what}Body"] for what in ("Node", "Port", "Portgroup", "Runbook")]
    members = {name for body in written for name in body["properties"]}
    paths = [f"/{name}{below}" for name in sorted(members) for below in ("", "/a", "/a/0", "/-")]
    schemas["PatchBody"]["items"]["properties"]["path"]["enum"] = paths
    for body in ("DeployTemplateBody", "RunbookBody"):
        schemas[body]["properties"]["name"]["pattern"] = "^CUSTOM_[A-Z0-9_]{1,9}$"
        _known_steps(schemas[body]["properties"]["steps"])
    for body in ("DeployStepsBody", "OrderedStepsBody"):
        _known_steps(schemas[body])
    lookup = raw_schema["paths"]["/v1/lookup"]["get"]["parameters"]
    addresses = next(one for one in lookup if one.get("name") == "addresses")
    addresses["schema"]["items"] = {"enum": THERE["addresses"]}


def _known_steps(steps: dict[str, Any]) -> None:
    steps["items"]["properties"]["step"]["enum"] = THERE["steps"]
    steps["items"]["properties"]["args"]["maxProperties"] = 1


@schemathesis.hook
def map_path_parameters(context: Any, path_parameters: dict[str, Any]) -> dict[str, Any]:
    """Name what is there, five times of six."""
    tags = context.operation.definition.raw.get("tags", [""]) if context.operation else [""]
    there = THERE.get(tags[0], [])
    known = {"ident": there, "name": there, **{name: THERE[name] for name in ("method", "trait")}}
    for name, names in known.items():
        if names and name in (path_parameters or {}):
            number = _number(path_parameters[name])
            if number % 6:
                path_parameters[name] = names[number // 6 % len(names)]
    return path_parameters


@schemathesis.hook
def map_headers(context: Any, headers: Any) -> Any:
    """Ask for the newest version, three times of four."""
    if headers is not None and _number(dict(headers)) % 4:
        headers.pop("OpenStack-API-Version", None)
        headers[VERSION] = "latest"
    return headers
