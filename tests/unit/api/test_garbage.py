"""No request, however odd, is answered 5xx (F15)."""

from __future__ import annotations

import json

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deploysteps.api import schemas, versions
from deploysteps.db import nodes
from tests.support_api import Api, Recording

PATHS = [
    "/", "/v1", "/v1/nodes", "/v1/nodes/detail", "/v1/nodes/{x}", "/v1/nodes/n1",
    "/v1/nodes/{x}/states", "/v1/nodes/n1/states/provision", "/v1/nodes/n1/states/power",
    "/v1/nodes/n1/maintenance", "/v1/nodes/n1/runs", "/v1/nodes/n1/ports", "/v1/ports",
    "/v1/ports/detail", "/v1/ports/{x}", "/v1/drivers", "/v1/drivers/{x}", "/v1/conductors",
    "/v1/conductors/{x}", "/v1/lookup", "/v1/heartbeat/n1", "/v1/heartbeat/{x}", "/{x}",
    "/v1/{x}/{x}",
]  # fmt: skip
ARGUMENTS = [
    *versions.NODE_FILTERS, "fields", "detail", "limit", "marker", "sort_key", "sort_dir",
    "address", "addresses", "node_uuid", "node", "reset_interfaces", "type",
]  # fmt: skip
MEMBERS = [
    *schemas.NODE["properties"], *schemas.PORT["properties"], *schemas.PROVISION["properties"],
    *schemas.POWER["properties"], *schemas.HEARTBEAT["properties"], "reason", "op", "path",
    "value", "interface", "step", "args", "priority", "meta_data",
]  # fmt: skip
WORDS = [
    *versions.TARGETS, *versions.POWER_TARGETS, *versions.NODE_FIELDS, "add", "replace", "remove",
    "/driver", "/extra/a", "/driver_info", "/protected", "True", "http://h/", "fake-hardware",
    "52:54:00:00:00:01", "c2ab0b1e-1f7b-4c1e-9d7a-1a53d7b3f60a", "n1", "asc", "desc", "-1", "1",
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


def quoted(text: str) -> str:
    return "".join(f"%{byte:02x}" for byte in text.encode("utf-8", "surrogatepass"))


@pytest.fixture(scope="module")
def conductor():
    return Recording()


@settings(
    max_examples=600,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    method=st.sampled_from(["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"]),
    path=st.sampled_from(PATHS),
    ident=texts,
    query=st.lists(st.tuples(st.sampled_from(ARGUMENTS) | st.text(max_size=3), texts), max_size=3),
    body=bodies,
    version=st.integers(1, 115),
    header=st.sampled_from([None, "1.5", "baremetal 1.44", "baremetal", "latest", "é", "1.1,2"]),
)
def test_no_garbage_is_answered_5xx(
    conf, sqlite, conductor, method, path, ident, query, body, version, header
):
    conductor.calls.clear()
    if not nodes.listing(sqlite, limit=1):
        nodes.insert(sqlite, {"name": "n1", "driver": "x", "provision_state": "available"})
    item = nodes.get(sqlite, "n1")
    conductor._answers.update(create_node=item, update_node=item, lookup=(item, "t"))
    conductor._answers.update(get_driver_properties={}, validate_driver_interfaces={})
    path = path.replace("{x}", quoted(ident) or "x")
    arguments = "&".join(f"{quoted(name)}={quoted(value)}" for name, value in query)
    answer = Api(conf, sqlite, conductor)(
        method,
        f"{path}?{arguments}",
        raw=body,
        version=version,
        headers={} if header is None else {"OpenStack-API-Version": header},
    )
    ports = [name for name, _, _ in conductor.calls if name in ("create_port", "update_port")]
    assert answer.status < 500 or ports, answer
    if answer.status >= 400 and method != "HEAD":
        assert answer.inner
        names = [name for name, _, _ in conductor.calls]
        assert not set(names) - {"create_port", "update_port"}, "refused, and yet done"
