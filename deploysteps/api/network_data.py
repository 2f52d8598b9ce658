"""What ``network_data`` of a node may be: links, networks on them, and services.

The format is that of a metadata service's ``network_data.json``, as its users read it (cloud-init,
the agent's ramdisk): https://docs.openstack.org/nova/latest/user/metadata.html. What it does not
name is let through.
"""

from __future__ import annotations

import functools
import ipaddress
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import jsonschema
import referencing
from oslo_config import cfg

from deploysteps import exceptions
from deploysteps.api.schemas import Schema
from deploysteps.api.validation import explained

_NAME: Schema = {"type": "string", "minLength": 1}
_MAC: Schema = {
    "type": "string",
    "pattern": "^([0-9A-Fa-f]{2}[:-]){5}[0-9A-Fa-f]{2}$(?!\\n)",
    "description": "a MAC address",
}
_ADDRESS: Schema = {
    "type": "string",
    "format": "ip-interface",
    "description": "an IP address, perhaps with the length of its prefix",
}
_NETMASK: Schema = {"type": ["string", "integer"], "description": "a netmask"}
_OF_PORTS = (
    "phy", "bridge", "dvs", "hw_veb", "hyperv", "ovs", "tap", "vhostuser", "vif",
)  # fmt: skip
"""Types of links that are found by their MAC address."""
_STATIC = ("ipv4", "ipv6")
_ASKED_FOR = (
    "ipv4_dhcp",
    "ipv6_dhcp",
    "ipv6_slaac",
    "ipv6_dhcpv6-stateful",
    "ipv6_dhcpv6-stateless",
)


def _list(item: Schema) -> Schema:
    return {"type": "array", "items": item}


def _object(required: list[str], **properties: Schema) -> Schema:
    return {"type": "object", "required": required, "properties": properties}


def _where(kinds: tuple[str, ...], required: list[str]) -> Schema:
    """Return a rule for objects of some types."""
    of_kind = {"properties": {"type": {"enum": list(kinds)}}, "required": ["type"]}
    return {"if": of_kind, "then": {"required": required}}


_LINK: Schema = {
    **_object(
        ["id", "type"],
        id=_NAME,
        type={"enum": [*_OF_PORTS, "bond", "vlan"]},
        ethernet_mac_address=_MAC,
        mtu={"type": ["integer", "null"], "minimum": 1},
        vif_id={"type": ["string", "null"]},
        bond_links=_list(_NAME),
        vlan_link=_NAME,
        vlan_id={"type": "integer", "minimum": 0, "maximum": 4095},
        vlan_mac_address=_MAC,
    ),
    "allOf": [
        _where(_OF_PORTS, ["ethernet_mac_address"]),
        _where(("bond",), ["bond_links"]),
        _where(("vlan",), ["vlan_link", "vlan_id"]),
    ],
}
_ROUTE = _object(["network", "gateway"], network=_ADDRESS, netmask=_NETMASK, gateway=_ADDRESS)
_SERVICES = _list(_object(["type", "address"], type={"enum": ["dns", "ntp"]}, address=_NAME))
_NETWORK: Schema = {
    **_object(
        ["id", "link", "type"],
        id=_NAME,
        link=_NAME,
        type={"enum": [*_STATIC, *_ASKED_FOR]},
        network_id={"type": ["string", "null"]},
        ip_address=_ADDRESS,
        netmask=_NETMASK,
        routes=_list(_ROUTE),
        services=_SERVICES,
    ),
    "allOf": [_where(_STATIC, ["ip_address"])],
}
SCHEMA: Schema = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    **_object(
        ["links", "networks"], links=_list(_LINK), networks=_list(_NETWORK), services=_SERVICES
    ),
}
_FORMATS = jsonschema.FormatChecker(formats=())


@_FORMATS.checks("ip-interface", raises=ValueError)
def _is_address(value: object) -> bool:
    return not isinstance(value, str) or bool(ipaddress.ip_interface(value))


class Checker:
    """Checks it by the schema that a service is set up with."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        """Read the schema.

        :raises ConfigurationError: the file is missing or holds none.
        """
        self._validator = _validator(conf.api.network_data_schema)

    def check(self, values: Mapping[str, Any]) -> None:
        """Refuse a node's new values with what cannot be its network; an empty one can.

        :raises Invalid: naming the place, and no value.
        :raises ConfigurationError: the schema has a reference that leads nowhere.
        """
        given = values.get("network_data")
        if not given:
            return
        try:
            error = jsonschema.exceptions.best_match(self._validator.iter_errors(given))
        except referencing.exceptions.Unresolvable as exc:
            raise exceptions.ConfigurationError(
                f"[api] network_data_schema refers to {exc.ref}, which is not in the file"
            ) from exc
        if error is not None:
            whole = error
            while whole.parent is not None:
                whole = whole.parent
            whole.path.appendleft("network_data")
            raise exceptions.Invalid(f"Schema error for node: {explained(error)}")


@functools.cache
def _validator(file: str | None) -> Any:
    schema = SCHEMA if file is None else _read(Path(file))
    # What names no draft is of the field's.
    made = jsonschema.validators.validator_for(schema, default=jsonschema.Draft4Validator)
    try:
        made.check_schema(schema)
    except jsonschema.SchemaError as exc:
        raise exceptions.ConfigurationError(
            f"[api] network_data_schema: {file} is no JSON schema: {exc.message}"
        ) from exc
    # With a registry of its own it fetches nothing from elsewhere.
    return made(schema, registry=referencing.Registry(), format_checker=_FORMATS)


def _read(file: Path) -> Schema:
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as exc:
        raise exceptions.ConfigurationError(
            f"[api] network_data_schema: cannot read {file}: {exc}"
        ) from exc
    if not isinstance(found, dict):
        raise exceptions.ConfigurationError(f"[api] network_data_schema: {file} is no JSON object")
    return found
