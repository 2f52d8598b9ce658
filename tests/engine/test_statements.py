"""What lists and heartbeats cost a database, on every kind of it."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from deploysteps import states
from deploysteps.api import app as application
from deploysteps.api import call
from deploysteps.db import conductors, nodes, ports, traits
from deploysteps.db.models import Node
from tests import support
from tests.support_api import Api, Recording
from tests.support_sql import counting

MANY = 40


def fill(database, count):
    """Give a database so many of everything that there are lists of."""
    made = []
    for number in range(count):
        values = {"name": f"n{number}", "driver": "fake-hardware", "provision_state": "enroll"}
        node = nodes.insert(database, {**values, "owner": f"p{number % 3}"})
        address = f"52:54:00:00:00:{number:02x}"
        ports.insert(database, {"node_id": node.id, "node_uuid": node.uuid, "address": address})
        traits.replace(database, node.id, ["CUSTOM_A", "CUSTOM_B"])
        offers = [conductors.Offer("fake-hardware", "deploy", "fake", True)]
        conductors.register(database, f"c{number}", f"b{number}", offers)
        made.append(node)
    return made


@pytest.fixture
def api(conf, database):
    return Api(conf, database, Recording())


def lists(conf, database):
    """Return every list that the API has at the top."""
    resources = application.resources(call.Services(conf, database, Recording()))
    return sorted(
        path
        for path, resource in resources.items()
        if "{" not in path and "GET" in resource.operations
        if "limit" in resource.operations["GET"].query
    )


def test_a_page_costs_the_same_statements_whatever_its_length(api, conf, database):
    """F86."""
    fill(database, 1)
    paths = lists(conf, database)
    assert {"/nodes", "/nodes/detail", "/ports", "/ports/detail", "/conductors"} <= set(paths)
    asked = [f"/v1{path}" for path in paths]
    asked += ["/v1/nodes?fields=uuid,traits,conductor,owner", "/v1/ports?detail=true"]
    few = {}
    for path in asked:
        with counting(database) as sent:
            assert api.get(path).status == 200
        few[path] = sent.statements
    with database.engine.begin() as connection:
        connection.execute(sa.delete(Node))
    fill(database, MANY)
    for path in asked:
        with counting(database) as sent:
            answer = api.get(path)
        assert (path, sent.statements) == (path, few[path])
        assert sent.statements <= 5 and sent.commits == 0, sent.texts
        if path.startswith(("/v1/nodes", "/v1/ports", "/v1/conductors")):
            (key,) = answer.body
            assert len(answer.body[key]) == MANY


def test_a_page_after_a_marker_costs_one_statement_more(api, database):
    made = fill(database, 5)
    with counting(database) as first:
        api.get("/v1/nodes?limit=2")
    with counting(database) as second:
        found = api.get(f"/v1/nodes?limit=2&marker={made[1].uuid}").body["nodes"]
    assert [item["uuid"] for item in found] == [made[2].uuid, made[3].uuid]
    assert second.statements == first.statements + 1


def test_a_beat_that_is_only_recorded_is_one_select_and_one_update(start, database):
    """F56: fewer writes per beat."""
    service = start(database)
    node = support.enrolled(service)
    hold = {"interface": "deploy", "step": "hold", "priority": 150, "args": {}}
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=[hold])
    support.settle(database, node.uuid, states.DEPLOYHOLD)
    token = support.token(service, node)
    support.beat(service, node, token)
    service._sweeper.stop()
    service._periodic.stop()
    before = nodes.get(database, node.id)
    with counting(database) as sent:
        support.beat(service, node, token)
    mine = [text for text in sent.texts if "agent_secret_token" in text]
    assert [text.split()[0] for text in mine] == ["SELECT", "UPDATE"]
    assert "driver_info" not in mine[0]
    after = nodes.get(database, node.id)
    assert after.agent_heartbeat_column > before.agent_heartbeat_column
    assert after.provision_state == states.DEPLOYHOLD
