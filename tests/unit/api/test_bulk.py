"""Lists of nodes show of each what showing it shows, at every version and to every caller."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
import sqlalchemy as sa
from hypothesis import given, settings
from hypothesis import strategies as st

from deploysteps import secrets
from deploysteps.api import versions
from deploysteps.db import nodes, traits
from deploysteps.db.models import Node
from tests.support_api import Api

MARK = "pLaNtEd-SeCrEt"
LONG_S = "pa\u017f\u017fword"
"""Its letters are those of ``password`` when case is ignored."""
STEP = {
    "interface": "deploy",
    "step": "write_image",
    "priority": 80,
    "args": {"url": f"https://u:{MARK}@h/i", "pin": MARK, "size": 3},
    "argsinfo": {"pin": {"secret": True}, "size": {"description": "GiB"}},
}
NODES = {
    "bare": {},
    "full": {
        "provision_state": "active",
        "target_provision_state": "active",
        "power_state": "power on",
        "maintenance": True,
        "maintenance_reason": 'a "quoted" reason, with \\ and ünïcode \U0001f600 and \u2028',
        "driver_info": {
            "ipmi_password": MARK,
            "ipmi_port": 623,
            "url": f"https://u:{MARK}@bmc/?a=b",
        },
        "properties": {"cpus": 4, "float": 1.5, "none": None, "list": [1, {"token": MARK}, [True]]},
        "instance_info": {"configdrive": MARK * 100, "traits": ["CUSTOM_A"], "deep": {"a": {}}},
        "extra": {"größe": "x", LONG_S: MARK, "\u212aey": "x", "a": "http://h/?token=" + MARK},
        "network_data": {"links": []},
        "raid_config": {"logical_disks": [{"size_gb": "MAX"}]},
        "target_raid_config": {},
        "resource_class": "gold",
        "owner": "p1",
        "lessee": "p2",
        "instance_uuid": "7f1c5d3e-8f46-4a4a-8f2d-6d2a1f4f3a10",
        "provision_updated_at": datetime(2026, 11, 30, 1, 2, 3, tzinfo=UTC),
        "inspection_started_at": datetime(2026, 11, 30, 1, 2, 3, 456789, tzinfo=UTC),
        "secure_boot": False,
        "automated_clean": True,
        "deploy_step": STEP,
        "clean_step": {},
        "last_error": "it failed",
    },
    "running": {
        "provision_state": "deploying",
        "driver_internal_column": {
            "is_whole_disk_image": True,
            "agent_secret_token_pregenerated": 1,
        },
        "deploy_steps_column": [STEP, STEP],
        "deploy_step_index_column": 0,
        "agent_url_column": f"https://u:{MARK}@agent:9999",
        "agent_version_column": "11.0.0",
        "agent_token_column": MARK,
        "agent_heartbeat_column": datetime(2026, 11, 30, 1, 2, 3, tzinfo=UTC),
    },
    "free": {"provision_state": "available", "description": "", "extra": {"plain": "words"}},
}


@pytest.fixture
def api(conf, sqlite, conductor):
    for name, values in NODES.items():
        made = {"driver": "fake-hardware", "provision_state": "enroll", "name": name}
        item = nodes.insert(sqlite, {**made, "conductor_group": ""})
        if values:
            changed = sa.update(Node).where(Node.id == item.id).values(values)
            sqlite.write(lambda c, query=changed: c.execute(query))
    traits.replace(sqlite, nodes.get(sqlite, "full").id, ["CUSTOM_B", "CUSTOM_A"])
    return Api(conf, sqlite, conductor)


def each(api, version):
    """Yield what a list tells of each node, and what showing it tells."""
    listed = api.get(
        "/v1/nodes?detail=true" if version >= versions.LIST_DETAIL else "/v1/nodes/detail",
        version=version,
    )
    assert len(listed.body["nodes"]) == len(NODES), listed
    for item in listed.body["nodes"]:
        yield item, api.get(f"/v1/nodes/{item['uuid']}", version=version).body


BOUNDARIES = sorted({1, 2, versions.MAX, *versions.NODE_FIELDS.values()})


@pytest.mark.parametrize("version", BOUNDARIES)
def test_a_list_tells_what_showing_tells_at_every_version(api, version):
    for item, shown in each(api, version):
        assert item == shown
        assert list(item) == list(shown)
        assert MARK not in json.dumps(item)


def test_every_field_alone_and_the_short_form(api):
    for field in versions.NODE_FIELDS:
        for item in api.get(f"/v1/nodes?fields=uuid,{field}").body["nodes"]:
            assert item == api.get(f"/v1/nodes/{item['uuid']}?fields=uuid,{field}").body
    for item in api.get("/v1/nodes").body["nodes"]:
        assert list(item) == list(versions.NODE_ITEM)


@pytest.mark.parametrize("rule", ["show_password", "show_instance_secrets"])
def test_a_rule_that_shows_secrets_shows_them_in_lists_as_well(conf, api, tmp_path, rule):
    (tmp_path / "policy.yaml").write_text(f'{rule}: ""\n')
    conf.set_override("policy_file", str(tmp_path / "policy.yaml"), group="oslo_policy")
    api = Api(conf, api.database, api.client)
    pairs = list(each(api, versions.MAX))
    assert all(item == shown for item, shown in pairs)
    assert any(MARK in json.dumps(item) for item, _ in pairs)


def test_what_a_caller_may_not_see_is_kept_back_in_lists_as_well(conf, api, tmp_path):
    policy = {f"baremetal:node:get:{name}": "!" for name in ("filter_threshold", "driver_info")}
    (tmp_path / "policy.yaml").write_text(
        json.dumps({**policy, "baremetal:node:get:last_error": "!"})
    )
    conf.set_override("policy_file", str(tmp_path / "policy.yaml"), group="oslo_policy")
    api = Api(conf, api.database, api.client)
    for item, shown in each(api, versions.MAX):
        assert item == shown
        assert "Redacted" in item["driver_info"]["content"] and "Redacted" in item["last_error"]


def test_next_goes_on_where_the_page_ends(api):
    path, seen = "/v1/nodes/detail?limit=1&sort_key=name&sort_dir=desc", []
    while path:
        page = api.get(path).body
        seen += [item["name"] for item in page["nodes"]]
        path = page.get("next", "").partition("/v1")[2]
        path = path and f"/v1{path}"
    assert seen == sorted(NODES, reverse=True)


keys = st.sampled_from(["password", "Token", LONG_S, "a", "url", "argsinfo", "args", "secret"])
texts = st.one_of(
    st.text(max_size=12),
    st.sampled_from(["http://u:p@h/", "http://h/?token=x", "x=1", "a", "ftp://a:b@c@d"]),
)
values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), texts),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.one_of(keys, st.text(max_size=6)), inner)
    ),
    max_leaves=12,
)


@settings(max_examples=300, deadline=None)
@given(st.dictionaries(st.one_of(keys, st.text(max_size=6)), values, max_size=4))
def test_masking_text_is_masking_what_it_says(value):
    """F76: the short way past texts without secrets hides no less than the long one."""
    text = json.dumps(value, separators=(",", ":"))
    assert json.loads(secrets.masked_json(text)) == secrets.masked(value)
