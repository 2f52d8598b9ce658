"""F86: what a page of a list costs does not grow with the page."""

from __future__ import annotations

import pytest
import sqlalchemy as sa

from deploysteps.db import (
    allocations,
    chassis,
    events,
    nodes,
    portgroups,
    ports,
    runbooks,
    templates,
)
from deploysteps.db.models import NodeHistory, table
from tests.support_sql import counting

STEP = {"interface": "deploy", "step": "s", "args": {}}


def _allocation(database, _node, n):
    taken = nodes.insert(database, {"driver": "x", "provision_state": "active"})
    values = {"resource_class": "c", "node_id": taken.id if n % 2 else None, "state": "active"}
    allocations.insert(database, values)


def _history(database, node, n):
    row = nodes.history_row(node, f"event {n}", event_type="x")
    with database.engine.begin() as connection:
        connection.execute(sa.insert(table(NodeHistory)).values(row))


def _of(node, **more):
    return {"node_id": node.id, "node_uuid": node.uuid, **more}


MAKE = {
    "nodes": lambda d, node, n: nodes.insert(d, {"driver": "x", "provision_state": "enroll"}),
    "ports": lambda d, node, n: ports.insert(d, _of(node, address=f"52:54:00:00:01:{n:02x}")),
    "portgroups": lambda d, node, n: portgroups.insert(d, _of(node)),
    "chassis": lambda d, node, n: chassis.insert(d, {"extra": {}}),
    "allocations": _allocation,
    "deploy_templates": lambda d, node, n: templates.insert(
        d, {"name": f"CUSTOM_{n}", "steps": [{**STEP, "priority": 1}], "extra": {}}
    ),
    "runbooks": lambda d, node, n: runbooks.insert(
        d, {"name": f"CUSTOM_{n}", "steps": [{**STEP, "order": 1}], "extra": {}, "public": True}
    ),
    "history": _history,
}
PATHS = [
    ("nodes", "/v1/nodes"),
    ("nodes", "/v1/nodes/detail"),
    ("ports", "/v1/ports"),
    ("ports", "/v1/ports/detail"),
    ("ports", "/v1/nodes/n1/ports"),
    ("ports", "/v1/ports?shard=s"),
    ("portgroups", "/v1/portgroups"),
    ("portgroups", "/v1/portgroups/detail"),
    ("chassis", "/v1/chassis"),
    ("chassis", "/v1/chassis/detail"),
    ("allocations", "/v1/allocations"),
    ("deploy_templates", "/v1/deploy_templates?detail=True"),
    ("runbooks", "/v1/runbooks?detail=True"),
    ("history", "/v1/nodes/n1/history"),
    ("history", "/v1/nodes/n1/history?detail=True"),
]


@pytest.mark.parametrize(("kind", "path"), PATHS)
def test_a_page_costs_the_same_statements_whatever_its_length(
    api, conductor, sqlite, node, kind, path
):
    """Runs have a test of their own, and so has what a project sees."""
    conductor._answers.update(get_secret_arguments={})
    nodes.set_unlocked(sqlite, node.id, {"shard": "s"})
    found, lengths = [], []
    for before, after in ((0, 2), (2, 25)):
        for n in range(before, after):
            MAKE[kind](sqlite, node, n)
        with counting(sqlite) as sent:
            lengths.append(len(api.get(path).body[kind]))
        found.append(sent.statements)
    assert found[0] == found[1] and lengths[1] == lengths[0] + 23


@pytest.mark.parametrize("asked", [{}, {"project": "p"}, {"node": "n"}])
def test_a_page_of_events_is_one_statement(sqlite, node, asked):
    nodes.set_unlocked(sqlite, node.id, {"owner": "p"})
    row = events.New(events.NODE_STATE, None, {"state": "x"})
    sqlite.write(lambda c: events.write(c, node.uuid, [row] * 30))
    with counting(sqlite) as sent:
        events.after(sqlite, 0, 200, **asked)
        events.settled(sqlite, 0, 200)
    assert sent.statements == 2
