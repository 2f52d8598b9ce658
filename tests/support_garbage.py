"""Odd requests, by hypothesis: right paths with wrong words, and wrong everything."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st

from deploysteps.api import schemas, versions
from tests.support_api import quoted

PATHS = [
    "/", "/v1", "/v1/nodes", "/v1/nodes/detail", "/v1/nodes/{x}", "/v1/nodes/n1",
    "/v1/nodes/{x}/states", "/v1/nodes/n1/states/provision", "/v1/nodes/n1/states/power",
    "/v1/nodes/n1/maintenance", "/v1/nodes/n1/runs", "/v1/nodes/n1/ports", "/v1/ports",
    "/v1/ports/detail", "/v1/ports/{x}", "/v1/drivers", "/v1/drivers/{x}", "/v1/conductors",
    "/v1/conductors/{x}", "/v1/lookup", "/v1/heartbeat/n1", "/v1/heartbeat/{x}", "/{x}",
    "/v1/{x}/{x}", "/v1/nodes/n1/steps", "/v1/nodes/n1/plan", "/v1/nodes/n1/lock",
    "/v1/nodes/n1/traits", "/v1/nodes/n1/traits/{x}", "/v1/deploy_templates",
    "/v1/deploy_templates/{x}", "/v1/deploy_templates/CUSTOM_A", "/v1/runbooks",
    "/v1/runbooks/{x}", "/v1/runbooks/CUSTOM_A", "/v1/nodes/validate",
    "/v1/nodes/n1/management/boot_device", "/v1/nodes/n1/management/boot_device/supported",
    "/v1/nodes/n1/management/inject_nmi", "/v1/nodes/n1/management/indicators",
    "/v1/nodes/n1/management/indicators/{x}", "/v1/nodes/n1/management/indicators/led@system",
    "/v1/nodes/n1/states/boot_mode", "/v1/nodes/n1/states/secure_boot",
    "/v1/nodes/n1/states/raid", "/v1/nodes/n1/states/console", "/v1/nodes/n1/bios",
    "/v1/nodes/n1/bios/{x}", "/v1/nodes/n1/firmware", "/v1/nodes/n1/inventory",
    "/v1/nodes/n1/vifs", "/v1/nodes/n1/vifs/{x}", "/v1/nodes/n1/vmedia",
    "/v1/nodes/n1/vendor_passthru", "/v1/nodes/n1/vendor_passthru/{x}",
    "/v1/nodes/n1/vendor_passthru/methods", "/v1/nodes/n1/vendor_passthru/third_method_sync",
    "/v1/drivers/fake-hardware/vendor_passthru/{x}",
    "/v1/drivers/{x}/vendor_passthru/methods", "/v1/drivers/{x}/raid/logical_disk_properties",
]  # fmt: skip
ARGUMENTS = [
    *versions.NODE_FILTERS, "fields", "detail", "limit", "marker", "sort_key", "sort_dir",
    "address", "addresses", "node_uuid", "node", "reset_interfaces", "type",
    "flow", "plan", "method", "device_types",
]  # fmt: skip
MEMBERS = [
    *schemas.NODE["properties"], *schemas.PORT["properties"], *schemas.PROVISION["properties"],
    *schemas.POWER["properties"], *schemas.HEARTBEAT["properties"],
    *schemas.PLAN["properties"], *schemas.RUNBOOK["properties"], "traits", "order", "reason",
    "op", "path", "value", "interface", "step", "args", "priority", "meta_data",
    *schemas.BOOT_DEVICE["properties"], *schemas.VMEDIA["properties"], "enabled", "id", "state",
    "logical_disks", "size_gb", "raid_level", "bar", "task", "http_method",
]  # fmt: skip
WORDS = [
    *versions.TARGETS, *versions.POWER_TARGETS, *versions.NODE_FIELDS, "add", "replace", "remove",
    "/driver", "/extra/a", "/driver_info", "/protected", "True", "http://h/", "fake-hardware",
    "52:54:00:00:00:01", "c2ab0b1e-1f7b-4c1e-9d7a-1a53d7b3f60a", "n1", "asc", "desc", "-1", "1",
    "CUSTOM_A", "deploy", "clean", "verify", "/steps/0/args/a", "pxe", "uefi", "cdrom",
    "\0", "\ud800", "\U0001f600", "%", "x" * 300,
]  # fmt: skip

texts = st.sampled_from(WORDS) | st.text(max_size=8)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | texts,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(MEMBERS) | st.text(max_size=4), inner, max_size=6)
    ),
    max_leaves=20,
)
patches = st.lists(
    st.fixed_dictionaries(
        {
            "op": st.sampled_from(["add", "replace", "remove"]),
            "path": st.sampled_from(MEMBERS).map("/{}".format) | texts.map("/extra/{}".format),
            "value": values,
        }
    ),
    max_size=3,
)
bodies = (
    st.none()
    | (values | patches).map(lambda value: json.dumps(value).encode())
    | st.binary(max_size=50)
)


@st.composite
def requests(draw: st.DrawFn) -> tuple[tuple[str, str], dict[str, Any]]:
    """Return the arguments of a call of :class:`tests.support_api.Api`."""
    path = draw(st.sampled_from(PATHS)).replace("{x}", quoted(draw(texts)) or "x")
    names = st.sampled_from(ARGUMENTS) | st.text(max_size=3)
    query = draw(st.lists(st.tuples(names, texts), max_size=3))
    arguments = "&".join(f"{quoted(name)}={quoted(value)}" for name, value in query)
    header = draw(
        st.sampled_from([None, "1.5", "baremetal 1.44", "baremetal", "latest", "\u00e9", "1.1,2"])
    )
    method = draw(st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]))
    return (method, f"{path}?{arguments}"), {
        "raw": draw(bodies),
        "version": draw(st.integers(versions.MIN, versions.MAX)),
        "headers": {} if header is None else {"OpenStack-API-Version": header},
    }
