"""What the API offers, the command line reaches: each command asks for what is beside it."""

from __future__ import annotations

from unittest.mock import Mock

import pytest

from deploysteps.api.app import create_app

STEPS = '[{"interface": "bios", "step": "reset", "args": {}, "order": 1}]'

REACHED = {
    ("node", "list"): "GET /v1/nodes",
    ("node", "create", "--driver", "d"): "POST /v1/nodes",
    ("node", "show", "n"): "GET /v1/nodes/{ident}",
    ("node", "set", "n", "--owner", "me"): "PATCH /v1/nodes/{ident}",
    ("node", "unset", "n", "owner"): "PATCH /v1/nodes/{ident}",
    ("node", "delete", "n"): "DELETE /v1/nodes/{ident}",
    ("node", "states", "n"): "GET /v1/nodes/{ident}/states",
    ("node", "manage", "n"): "PUT /v1/nodes/{ident}/states/provision",
    ("node", "power", "n", "on"): "PUT /v1/nodes/{ident}/states/power",
    ("node", "validate", "n"): "GET /v1/nodes/{ident}/validate",
    ("node", "maintenance", "n", "on"): "PUT /v1/nodes/{ident}/maintenance",
    ("node", "maintenance", "n", "off"): "DELETE /v1/nodes/{ident}/maintenance",
    ("node", "steps", "n"): "GET /v1/nodes/{ident}/steps",
    ("node", "plan", "n"): "POST /v1/nodes/{ident}/plan",
    ("node", "runs", "n"): "GET /v1/nodes/{ident}/runs",
    ("node", "run", "n", "r"): "GET /v1/nodes/{ident}/runs/{run}",
    ("node", "history", "n"): "GET /v1/nodes/{ident}/history",
    ("node", "unlock", "n", "--reason", "r", "--yes"): "DELETE /v1/nodes/{ident}/lock",
    ("node", "children", "n"): "GET /v1/nodes/{ident}/children",
    ("node", "traits", "list", "n"): "GET /v1/nodes/{ident}/traits",
    ("node", "traits", "set", "n", "T"): "PUT /v1/nodes/{ident}/traits",
    ("node", "traits", "clear", "n"): "DELETE /v1/nodes/{ident}/traits",
    ("node", "traits", "add", "n", "T"): "PUT /v1/nodes/{ident}/traits/{trait}",
    ("node", "traits", "remove", "n", "T"): "DELETE /v1/nodes/{ident}/traits/{trait}",
    ("node", "bios", "n"): "GET /v1/nodes/{ident}/bios",
    ("node", "bios", "n", "s"): "GET /v1/nodes/{ident}/bios/{setting}",
    ("node", "firmware", "n"): "GET /v1/nodes/{ident}/firmware",
    ("node", "inventory", "n"): "GET /v1/nodes/{ident}/inventory",
    ("node", "boot-device", "n"): "GET /v1/nodes/{ident}/management/boot_device/supported",
    ("node", "boot-device", "n", "pxe"): "PUT /v1/nodes/{ident}/management/boot_device",
    ("node", "boot-mode", "n", "uefi"): "PUT /v1/nodes/{ident}/states/boot_mode",
    ("node", "secure-boot", "n", "on"): "PUT /v1/nodes/{ident}/states/secure_boot",
    ("node", "console", "n"): "GET /v1/nodes/{ident}/states/console",
    ("node", "console", "n", "off"): "PUT /v1/nodes/{ident}/states/console",
    ("node", "raid", "n", "{}"): "PUT /v1/nodes/{ident}/states/raid",
    ("node", "nmi", "n"): "PUT /v1/nodes/{ident}/management/inject_nmi",
    ("node", "indicator", "n"): "GET /v1/nodes/{ident}/management/indicators",
    ("node", "indicator", "n", "l"): "GET /v1/nodes/{ident}/management/indicators/{indicator}",
    ("node", "indicator", "n", "l", "on"): (
        "PUT /v1/nodes/{ident}/management/indicators/{indicator}"
    ),
    ("node", "vifs", "list", "n"): "GET /v1/nodes/{ident}/vifs",
    ("node", "vifs", "attach", "n", "v"): "POST /v1/nodes/{ident}/vifs",
    ("node", "vifs", "detach", "n", "v"): "DELETE /v1/nodes/{ident}/vifs/{vif}",
    ("node", "vmedia", "list", "n"): "GET /v1/nodes/{ident}/vmedia",
    ("node", "vmedia", "attach", "n", "cdrom", "u"): "POST /v1/nodes/{ident}/vmedia",
    ("node", "vmedia", "detach", "n"): "DELETE /v1/nodes/{ident}/vmedia",
    ("node", "vendor", "list", "n"): "GET /v1/nodes/{ident}/vendor_passthru/methods",
    **{
        ("node", "vendor", "call", "n", "m", "--http", http): (
            f"{http} /v1/nodes/{{ident}}/vendor_passthru/{{method}}"
        )
        for http in ("GET", "POST", "PUT", "PATCH", "DELETE")
    },
    ("driver", "list"): "GET /v1/drivers",
    ("driver", "show", "d"): "GET /v1/drivers/{name}",
    ("driver", "properties", "d"): "GET /v1/drivers/{name}/properties",
    ("driver", "raid-properties", "d"): "GET /v1/drivers/{name}/raid/logical_disk_properties",
    ("driver", "vendor", "list", "d"): "GET /v1/drivers/{name}/vendor_passthru/methods",
    **{
        ("driver", "vendor", "call", "d", "m", "--http", http): (
            f"{http} /v1/drivers/{{name}}/vendor_passthru/{{method}}"
        )
        for http in ("GET", "POST", "PUT", "PATCH", "DELETE")
    },
    ("conductor", "list"): "GET /v1/conductors",
    ("conductor", "show", "c"): "GET /v1/conductors/{name}",
    ("shard", "list"): "GET /v1/shards",
    **{
        (name, *verb): f"{method} /v1/{place}"
        for name, place, created in (
            ("port", "ports", ("52:54:00:00:00:01", "--node", "n")),
            ("portgroup", "portgroups", ("--node", "n")),
            ("chassis", "chassis", ()),
            ("allocation", "allocations", ("--resource-class", "c")),
            ("template", "deploy_templates", ("T", "--steps", STEPS)),
            ("runbook", "runbooks", ("T", "--steps", STEPS)),
        )
        for verb, method in ((("list",), "GET"), (("create", *created), "POST"))
    },
    **{
        (name, *verb): f"{method} /v1/{place}/{{ident}}"
        for name, place in (
            ("port", "ports"),
            ("portgroup", "portgroups"),
            ("chassis", "chassis"),
            ("allocation", "allocations"),
            ("template", "deploy_templates"),
            ("runbook", "runbooks"),
        )
        for verb, method in (
            (("show", "i"), "GET"),
            (("set", "i", "--extra", "a=1"), "PATCH"),
            (("unset", "i", "extra/a"), "PATCH"),
            (("delete", "i"), "DELETE"),
        )
    },
    ("runbook", "traits", "list", "r"): "GET /v1/runbooks/{ident}/traits",
    ("runbook", "traits", "set", "r", "T"): "PUT /v1/runbooks/{ident}/traits",
    ("runbook", "traits", "clear", "r"): "DELETE /v1/runbooks/{ident}/traits",
    ("runbook", "traits", "add", "r", "T"): "PUT /v1/runbooks/{ident}/traits/{trait}",
    ("runbook", "traits", "remove", "r", "T"): "DELETE /v1/runbooks/{ident}/traits/{trait}",
    ("events", "--count", "1"): "GET /v1/events/stream",
}
"""Command -> the request that it is there for."""

TOLD_ELSEWHERE = {
    "/v1/nodes/detail": "node list --fields",
    "/v1/ports/detail": "port list --fields",
    "/v1/portgroups/detail": "portgroup list --fields",
    "/v1/chassis/detail": "chassis list --fields",
    "/v1/chassis/{ident}/nodes": "node list --chassis-uuid",
    "/v1/nodes/{ident}/ports": "port list --node",
    "/v1/nodes/{ident}/portgroups": "portgroup list --node",
    "/v1/portgroups/{ident}/ports": "port list --portgroup",
    "/v1/nodes/{ident}/allocation": "allocation list --node, allocation delete",
    "/v1/nodes/{ident}/history/{entry}": "node history, which has all of each entry",
    "/v1/nodes/validate": "node validate",
    "/v1/nodes/{ident}/vendor_passthru": "node vendor call",
    "/v1/drivers/{name}/vendor_passthru": "driver vendor call",
}
"""Paths that say what another one says, too -> the command."""
FOR_MACHINES = {
    "/",
    "/v1",
    "/openapi.json",
    "/metrics",
    "/healthz",
    "/readyz",
    "/v1/lookup",
    "/v1/heartbeat/{ident}",
    "/v1/events",
}
"""What agents, clients, monitors and network services ask for."""
BESIDE = {"GET /v1/nodes/{ident}/management/boot_device": "node boot-device"}
"""Requests that a command makes before its last one."""

ANSWERS = {
    "/v1/nodes/n": {"uuid": "n", "provision_state": "enroll"},
    "/v1/nodes/n/management/boot_device": {"boot_device": "pxe"},
    "/v1/nodes/n/runs": {"runs": [], "lock": {"holder": "c", "since": None, "purpose": "p"}},
}
"""What a command reads before it asks."""


@pytest.mark.parametrize("command", REACHED, ids=" ".join)
def test_a_command_asks_for_what_it_is_there_for(stub, run, command):
    for path, answer in ANSWERS.items():
        stub.on("GET", path, answer)
    ended = run(*command)
    assert "unexpected" not in ended.output and stub.asked, ended.output
    method, _, template = REACHED[command].partition(" ")
    assert any(asked["method"] == method and _fits(asked["path"], template) for asked in stub.asked)


def _fits(path: str, template: str) -> bool:
    found, wanted = path.split("/"), template.split("/")
    pairs = zip(found, wanted, strict=False)
    return len(found) == len(wanted) and all(a == b or b.startswith("{") for a, b in pairs)


def test_nothing_that_the_api_offers_is_out_of_reach(conf):
    served = create_app(conf, Mock(), Mock()).served
    offered = {
        f"{method} {path}"
        for path, resource in served.items()
        for method in resource.operations
        if path not in TOLD_ELSEWHERE and path not in FOR_MACHINES
    }
    assert offered == {*REACHED.values(), *BESIDE}
