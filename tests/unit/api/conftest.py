"""The API over an SQLite file, with a conductor that only remembers."""

from __future__ import annotations

import pytest

from deploysteps.db import nodes, ports
from tests.support_api import Api, Recording


@pytest.fixture
def conductor():
    return Recording()


@pytest.fixture
def api(conf, sqlite, conductor):
    return Api(conf, sqlite, conductor)


@pytest.fixture
def node(sqlite):
    return nodes.insert(
        sqlite, {"name": "n1", "driver": "fake-hardware", "provision_state": "available"}
    )


@pytest.fixture
def port(sqlite, node):
    values = {"node_id": node.id, "node_uuid": node.uuid, "address": "52:54:00:00:00:01"}
    return ports.insert(sqlite, values)
