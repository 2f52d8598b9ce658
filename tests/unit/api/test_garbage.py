"""No request, however odd, is answered 5xx (F15), and what is refused is not done."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, given, settings

from deploysteps.db import nodes, runbooks, templates
from tests.support_garbage import requests

STEP = {"interface": "bios", "step": "x", "args": {}}
PLAN = {
    "flow": "deploy",
    "steps": [],
    "left_out": [],
    "unknown": [],
    "agent_to_come": False,
    "note": None,
    "problem": None,
}

_CALLED = {"return": None, "async": False, "attach": False}
MACHINE = {
    "get_boot_device": {"boot_device": "pxe", "persistent": False},
    "get_supported_boot_devices": ["pxe"],
    "get_supported_indicators": {},
    "get_indicator_state": "on",
    "get_virtual_media": [],
    "get_raid_logical_disk_properties": {},
    "vif_list": [],
    "get_node_vendor_passthru_methods": {},
    "get_driver_vendor_passthru_methods": {},
    "vendor_passthru": _CALLED,
    "driver_vendor_passthru": _CALLED,
}


@pytest.fixture
def template(sqlite):
    return templates.insert(sqlite, {"name": "CUSTOM_A", "steps": [{**STEP, "priority": 1}]})


@pytest.fixture
def runbook(sqlite):
    return runbooks.insert(sqlite, {"name": "CUSTOM_A", "steps": [{**STEP, "order": 1}]})


@settings(
    max_examples=600,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(request=requests())
def test_no_garbage_is_answered_5xx(api, sqlite, conductor, port, template, runbook, request):
    conductor.calls.clear()
    item = nodes.get(sqlite, "n1")
    conductor._answers.update(create_node=item, update_node=item, lookup=(item, "t"))
    conductor._answers.update(create_port=port, update_port=port)
    conductor._answers.update(get_driver_properties={}, validate_driver_interfaces={})
    conductor._answers.update(get_node_steps=[], get_node_plan=PLAN, get_secret_arguments={})
    conductor._answers.update(create_deploy_template=template, update_deploy_template=template)
    conductor._answers.update(create_runbook=runbook, update_runbook=runbook)
    conductor._answers.update(MACHINE)
    args, more = request
    answer = api(*args, **more)
    assert answer.status < 500, answer
    if answer.status >= 400 and args[0] != "HEAD":
        assert answer.inner
        assert [call for call in conductor.calls if not call[0].startswith("get_")] == []
