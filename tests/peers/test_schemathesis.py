"""Schemathesis reads the OpenAPI document and tries to find an answer that it does not declare.

``make peers`` gives it a fixed number of examples and a fixed seed; ``make fuzz`` gives it minutes
(``DEPLOYSTEPS_FUZZ_SECONDS``) and a seed of its own, which it prints.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import time
from typing import Any
from uuid import UUID

import pytest
import requests

from deploysteps.cli.local_service import LocalService
from tests.peers import environments
from tests.peers.conftest import HERE

CHECKS = (
    "not_a_server_error",
    "status_code_conformance",
    "content_type_conformance",
    "response_headers_conformance",
    "response_schema_conformance",
)
SEED, EXAMPLES, PHASES = 20261130, 6, "examples,fuzzing,stateful"
"""Of a run without a budget: less than a minute and a half. The phase that is left out tries every
boundary of every argument, which takes minutes."""
SECONDS = int(os.environ.get("DEPLOYSTEPS_FUZZ_SECONDS", "0"))
PATH = (("manage", "manageable"), ("provide", "available"), ("active", "active"))
"""Target -> state: a node in every fourth of the nodes goes on to the end."""
COLLECTIONS = (
    "nodes",
    "ports",
    "portgroups",
    "chassis",
    "deploy_templates",
    "runbooks",
    "allocations",
    "heartbeat",
)
ENDLESS = "/v1/events/stream"
"""An answer that never ends."""


def call(service: LocalService, method: str, path: str, body: Any = None) -> Any:
    answer = requests.request(
        method,
        service.client.endpoint + path,
        json=body,
        headers={"X-OpenStack-Ironic-API-Version": "latest"},
        timeout=30,
    )
    assert answer.status_code < 300, answer.text
    return answer.json() if answer.content else None


def reach(service: LocalService, node: str, state: str) -> None:
    until = time.monotonic() + 60
    while (there := call(service, "GET", f"/v1/nodes/{node}/states")["provision_state"]) != state:
        assert time.monotonic() < until, there
        time.sleep(0.05)


def address(number: int) -> str:
    return f"52:54:00:00:00:{number:02x}"


def uuid(number: int) -> str:
    return str(UUID(int=number))


@pytest.fixture(scope="module")
def there(service: LocalService) -> dict[str, list[str]]:
    """Fill the service, and tell what is there: tag -> names."""
    step = {"interface": "network", "step": "configure_switch", "args": {}}
    for number in range(12):
        node = uuid(number)
        saved = {"uuid": node, "name": f"CUSTOM_N{number}"}
        for path, body in (
            ("chassis", {"uuid": node}),
            ("nodes", {"driver": "fake-hardware", "uuid": node, "chassis_uuid": node}),
            ("portgroups", {"uuid": node, "node_uuid": node}),
            ("ports", {"uuid": node, "node_uuid": node, "address": address(number)}),
            ("deploy_templates", {**saved, "steps": [{**step, "priority": 50}]}),
            ("runbooks", {**saved, "steps": [{**step, "order": 1}]}),
            ("allocations", {"uuid": node, "resource_class": "none"}),
        ):
            call(service, "POST", f"/v1/{path}", body)
        for target, state in PATH[: number % 4]:
            call(service, "PUT", f"/v1/nodes/{node}/states/provision", {"target": target})
            reach(service, node, state)
    names = [uuid(number) for number in range(12)]
    offered = [
        step["step"]
        for flow in ("deploy", "clean", "service")
        for step in call(service, "GET", f"/v1/nodes/{names[0]}/steps?flow={flow}")["steps"]
    ]
    methods = call(service, "GET", f"/v1/nodes/{names[0]}/vendor_passthru/methods")
    return {
        **dict.fromkeys(COLLECTIONS, names),
        "drivers": ["fake-hardware"],
        "steps": sorted(set(offered)),
        "method": sorted(methods),
        "trait": ["CUSTOM_A", "HW_CPU_X86_VMX"],
        "addresses": [address(number) for number in range(12)],
        "conductors": [
            item["hostname"] for item in call(service, "GET", "/v1/conductors")["conductors"]
        ],
    }


@pytest.mark.timeout(SECONDS + 600)
def test_no_answer_is_one_that_the_document_does_not_declare(service, there, tmp_path):
    program = environments.programs("schemathesis") / "schemathesis"
    seed = random.randrange(2**32) if SECONDS else SEED
    fixed = ["--max-examples", str(EXAMPLES), "--phases", PHASES]
    budget = ["--max-time", str(SECONDS)] if SECONDS else fixed
    done = subprocess.run(
        [
            program,
            "run",
            f"{service.client.endpoint}/openapi.json",
            "--exclude-path",
            ENDLESS,
            "--checks",
            ",".join(CHECKS),
            "--seed",
            str(seed),
            "--workers",
            "2",
            "--request-timeout",
            "30",
            "--continue-on-failure",
            "--warnings",
            "off",
            "--no-color",
            *budget,
        ],
        cwd=tmp_path,
        env=environments.plain()
        | {
            "SCHEMATHESIS_HOOKS": "schemathesis_hooks",
            "PYTHONPATH": str(HERE),
            "DEPLOYSTEPS_THERE": json.dumps(there),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    print(done.stdout[-3000:])
    assert done.returncode == 0, f"{done.stdout[-20000:]}{done.stderr[-5000:]}"
