"""Every sweep and every list by an index, at 10,000 nodes (F60, F85)."""

from __future__ import annotations

import re
import time

import pytest
import sqlalchemy as sa

from deploysteps import states
from deploysteps.db import (
    beats,
    brakes,
    conductors,
    locks,
    migration,
    nodes,
    ports,
    runs,
    sweeps,
    traits,
    transitions,
    types,
)
from deploysteps.db.models import Node, NodeHistory, NodeTrait, Port, StepAttempt, StepRun
from tests.support_sql import counting

COUNT = 10_000
NOW = types.utcnow()
BIG = {"nodes", "ports", "step_runs", "step_attempts", "node_history", "node_traits"}
RARE = "rare"


def uuid(number: int) -> str:
    return f"00000000-0000-0000-0000-{number:012d}"


def node_rows():
    for number in range(1, COUNT + 1):
        rare = number % 1000 == 0
        yield {
            "id": number,
            "uuid": uuid(number),
            "name": f"node-{number}",
            "created_at": NOW,
            "driver": RARE if rare else "fake-hardware",
            "provision_state": (states.DEPLOYWAIT if number % 2 else states.DEPLOYING)
            if number % 500 == 0
            else states.ACTIVE,
            "instance_uuid": f"i{number}" if rare else None,
            "chassis_uuid": RARE if rare else None,
            "instance_name": RARE if rare else f"instance-{number}",
            "resource_class": RARE if rare else "baremetal",
            "owner": RARE if rare else "owner",
            "lessee": RARE if rare else None,
            "shard": RARE if rare else "shard",
            "conductor_group": RARE if rare else "",
            "parent_node": uuid(1) if rare else None,
            "fault": RARE if rare else None,
            "maintenance": rare,
            "reservation": "gone" if rare else None,
            "lock_token": f"t{number}" if rare else None,
        }


def attempt_rows():
    for number in range(1, COUNT + 1):
        waits = number % 500 == 0
        yield {
            "run_id": number,
            "position": 1,
            "attempt": 1,
            "node_id": number,
            "interface": "deploy",
            "step": "s",
            "state": "waiting" if waits else "finished",
            "conductor": "c1" if number % 1000 else "gone",
            "started_at": NOW,
            "owner": "agent" if waits else None,
            "due_at": NOW if waits else None,
            "reenter": False,
        }


def run_rows():
    for number in range(1, COUNT + 1):
        yield {
            "id": number,
            "uuid": uuid(number),
            "node_id": number,
            "flow": "deploy",
            "plan": [],
            "started_at": NOW,
            "finished_at": NOW,
            "outcome": "success",
        }


def port_rows():
    for number in range(1, COUNT + 1, 5):
        yield {
            "id": number,
            "uuid": uuid(number),
            "node_id": number,
            "node_uuid": uuid(number),
            "created_at": NOW,
            "address": f"52:54:00:00:{number:05d}",
        }


def history_rows():
    for number in range(1, COUNT + 1, 5):
        yield {
            "id": number,
            "uuid": uuid(number),
            "node_id": number,
            "created_at": NOW,
            "severity": "INFO",
            "event_type": "x",
            "event": "y",
        }


def trait_rows():
    for number in range(1, COUNT + 1):
        yield {"node_id": number, "trait": "CUSTOM_ALL"}
        yield {"node_id": number, "trait": f"CUSTOM_{number % 100}"}


@pytest.fixture(scope="module")
def crowded(shared):
    """10,000 nodes, most of them idle, each with a run, a port and a history."""
    migration.ensure(shared)
    with shared.engine.begin() as connection:
        for model, rows in (
            (Node, node_rows()),
            (StepRun, run_rows()),
            (StepAttempt, attempt_rows()),
            (Port, port_rows()),
            (NodeHistory, history_rows()),
            (NodeTrait, trait_rows()),
        ):
            connection.execute(sa.insert(model), list(rows))
    if shared.dialect == "sqlite":
        return shared  # nobody asks it to ANALYZE, and then it plans without statistics
    with shared.engine.connect() as connection:
        for name in sorted(BIG):
            verb = "ANALYZE TABLE" if shared.dialect == "mysql" else "ANALYZE"
            connection.exec_driver_sql(f"{verb} {name}")
        connection.commit()
    return shared


def scans(database, call) -> list[str]:
    """Return the plans of what a call sends that read a whole table."""
    with counting(database) as count:
        call(database)
    found = []
    with database.engine.connect() as connection:
        for text, parameters in count.sent:
            if text.startswith(("SELECT", "UPDATE", "DELETE")):
                found.extend(_scans(database.dialect, connection, text, parameters))
        connection.rollback()
    assert count.sent
    return found


def _scans(dialect, connection, text, parameters):
    explain = {"sqlite": "EXPLAIN QUERY PLAN "}.get(dialect, "EXPLAIN ")
    rows = connection.exec_driver_sql(explain + text, parameters).mappings().all()
    paged = "LIMIT" in text
    if dialect == "sqlite":
        plan = [r["detail"] for r in rows]
        if paged and not any("TEMP B-TREE FOR ORDER BY" in line for line in plan):
            return []  # it walks in the order that is asked for, and stops at the limit
        return [line for line in plan if re.match(rf"SCAN (?:{'|'.join(BIG)})\b", line)]
    if dialect == "postgresql":
        plan = "\n".join(next(iter(r.values())) for r in rows)
        # A whole table, or all of it in the order of an index.
        whole = rf"Seq Scan on (?:{'|'.join(BIG)})\b"
        if not paged:
            whole += r"|Index Scan using \w+ on \w+ .*\n(?!\s+Index Cond)"
        return [plan] if re.search(whole, plan) else []
    bad = ("ALL",) if paged else ("ALL", "index")
    return [str(dict(r)) for r in rows if r["type"] in bad and r["table"] in BIG]


def run(number):
    return transitions.Key(number, 1, 1)


SWEEPS = {
    "due": lambda d: sweeps.due(d, "c1", NOW, 200),
    "locked_nodes": sweeps.locked_nodes,
    "gaps": lambda d: sweeps.gaps(d, types.utcnow()),
    "foreign_waits": lambda d: sweeps.foreign_waits(d, "c1", ["c2"]),
    "own_waits": lambda d: sweeps.own_waits(d, "c1"),
    "last_attempt": lambda d: runs.last_attempt(d, 7),
    "interruptions": lambda d: runs.interruptions(d, 7, 1),
    "attempts": lambda d: runs.attempts(d, [1, 2, 3]),
    "runs": lambda d: runs.of_node(d, 7, limit=10),
    "runs after": lambda d: runs.of_node(d, 7, limit=10, marker=uuid(7)),
    "history": lambda d: nodes.history_of(d, 7, 10),
    "node by uuid": lambda d: nodes.get(d, uuid(7)),
    "node by name": lambda d: nodes.get(d, "node-7"),
    "node by id": lambda d: nodes.get(d, 7),
    "seen": lambda d: beats.see(d, uuid(7)),
    "seen with its wait": lambda d: beats.see_waiting(d, uuid(7)),
    "addresses": lambda d: nodes.of_addresses(d, ["52:54:00:00:00007"]),
    "ports of a node": lambda d: ports.of_node(d, 7),
    "port by address": lambda d: ports.listing(d, address="52:54:00:00:00007"),
    "ports of nodes": lambda d: ports.uuids_of(d, [1, 2, 3]),
    "signal": lambda d: transitions.send_signal(d, run(7), "beat"),
    "abort": lambda d: transitions.ask_abort(d, 7, "me", transitions.Key(7, 0, 1)),
    "take_wait": lambda d: sweeps.take_wait(d, run(7), "c1"),
    "lock": lambda d: locks.release(d, locks.grant(d, 7, "c1", "test")[0]),
    "progress": lambda d: transitions.report_progress(d, run(7), {"percent": 5}),
    "brake": lambda d: d.read(lambda c: brakes.count(c, (states.DEPLOYING, states.DEPLOYWAIT))),
    "users of an interface": lambda d: sweeps.users(d, "raid", {RARE: ["x", None]}, {}),
    "traits of a node": lambda d: traits.of_node(d, 7),
    "traits of nodes": lambda d: traits.of_nodes(d, [1, 2, 3]),
    "a change of traits": lambda d: traits.change(d, 8, add=["CUSTOM_X"], remove=["CUSTOM_8"]),
    "conductors": lambda d: conductors.offers(d, 60),
}


@pytest.mark.parametrize("name", SWEEPS)
def test_a_sweep_uses_an_index(crowded, name):
    assert scans(crowded, SWEEPS[name]) == []


BY_INDEX = {
    "associated": True,
    "chassis_uuid": RARE,
    "conductor_group": RARE,
    "driver": RARE,
    "driver_in": [RARE, "more"],
    "fault": RARE,
    "has_parent": True,
    "instance_name": RARE,
    "instance_uuid": "i1000",
    "lessee": RARE,
    "maintenance": True,
    "owner": RARE,
    "parent_node": uuid(1),
    "provision_state": states.DEPLOYING,
    "provision_state_in": [states.DEPLOYING, states.DEPLOYWAIT],
    "reserved": True,
    "resource_class": RARE,
    "id_in": [1, 2],
    "shard": RARE,
    "shard_in": [RARE],
    "uuid_in": [uuid(1), uuid(2)],
}
"""What is not here looks at the rows: text inside a description, what nearly all nodes have."""


@pytest.mark.parametrize("name", BY_INDEX)
def test_a_filter_uses_an_index(crowded, name):
    if crowded.dialect == "sqlite" and BY_INDEX[name] is True and name != "maintenance":
        # Without statistics it takes "there is one" for a quarter of all rows,
        # and walks them in the list's order; with the API's limit it stops early.
        return
    found = scans(crowded, lambda d: nodes.listing(d, filters={name: BY_INDEX[name]}))
    assert found == [], found


def test_pages_use_an_index(crowded):
    """A page costs what it shows, not what there is."""
    for marker in (None, uuid(5000)):
        call = lambda d, marker=marker: nodes.listing(d, limit=100, marker=marker)  # noqa: E731
        assert scans(crowded, call) == []


@pytest.mark.parametrize("name", ["due", "locked_nodes", "gaps", "foreign_waits"])
def test_a_sweep_is_one_query_and_quick(crowded, name):
    """F85: work for each candidate, not for each node."""
    began = time.monotonic()
    with counting(crowded) as count:
        found = SWEEPS[name](crowded)
    assert count.statements == 1 and time.monotonic() - began < 10
    assert len(found) == {"locked_nodes": 10, "gaps": 10, "due": 10, "foreign_waits": 10}[name]
