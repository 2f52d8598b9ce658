"""Realistic sizes and odd texts: what goes in comes out, or is scrubbed."""

from __future__ import annotations

import pytest

from deploysteps import exceptions
from deploysteps.db import conductors, locks, nodes, ports, runs, transitions, types
from deploysteps.db.models import StepAttempt

EMOJI = "\N{SQUARED COOL}"
ODD = f"caf\u00e9 {EMOJI} \x00 \ud83d \udc80 \x7f \u2028 \\u0000 ' \" % :x {{}}"
SCRUBBED = f"caf\u00e9 {EMOJI} \\0 \\ud83d \\udc80 \x7f \u2028 \\u0000 ' \" % :x {{}}"


def plan(count=200, size=10_000):
    """200 steps of 10 KB of arguments each."""
    return [
        {
            "interface": "deploy",
            "step": f"step_{number}",
            "priority": number,
            "id": f"{number:032x}",
            "args": {"blob": "x" * (size - 100), ODD: [EMOJI * 20, None, True, 1, 1.0, -0.5e-300]},
        }
        for number in range(count)
    ]


def begun(database, node, lock, attempt_values=(), plan_=()):
    """Begin a run with one attempt, as the engine does."""
    now = types.utcnow()
    run_id, _uuid = locks.write(
        database,
        lock,
        {},
        then=lambda c: transitions.start_run(
            c,
            node_id=node.id,
            flow="deploy",
            plan=list(plan_),
            requested_by=ODD,
            started_at=now,
        ),
    )
    first = {"run_id": run_id, "position": 1, "attempt": 1, "node_id": node.id}
    what = {"interface": "deploy", "step": "s", "state": "running", "conductor": "c"}
    attempt = StepAttempt(started_at=now, **{**first, **what, **dict(attempt_values)})
    locks.write(database, lock, {"run_id": run_id}, [transitions.begin(attempt)])
    return run_id, attempt


def test_a_long_plan_and_long_errors(database, make):
    """F58, F59: JSON exactly; texts exactly but for what no database can hold."""
    node = make(database)
    lock, node = locks.grant(database, node.id, "c", "test")
    steps = plan()
    run_id, attempt = begun(database, node, lock, plan_=steps)
    error = (EMOJI + ODD) * 10_000
    assert len(error.encode("utf-8", "replace")) > 64 * 1024 * 4
    node.driver_internal_info["deploy_steps"] = steps
    node.deploy_step = steps[-1]
    node.last_error = error
    node.instance_info["configdrive"] = "y" * 1_000_000
    now = types.utcnow()
    also = [
        transitions.finish(
            attempt,
            "failed",
            now,
            error=error,
            evidence={"text": error},
        ),
        transitions.end_run(run_id, "failed", error, now, good=False),
        transitions.history(nodes.history_row(node.id, error, event_type="x", user=ODD)),
    ]
    locks.write(database, lock, node.changes(), also, unlock=True)

    fresh = nodes.get(database, node.uuid)
    assert fresh.driver_internal_info["deploy_steps"] == steps
    assert repr(fresh.deploy_step) == repr(steps[-1])
    assert fresh.last_error == (EMOJI + SCRUBBED) * 10_000
    assert len(fresh.instance_info["configdrive"]) == 1_000_000
    run = runs.get(database, run_id)
    assert run.plan == steps and run.error == fresh.last_error
    assert run.requested_by == SCRUBBED and run.outcome == "failed"
    (ended,) = runs.attempts(database, [run_id])[run_id]
    assert ended.evidence == {"text": error} and ended.error == fresh.last_error
    (told,) = nodes.history_of(database, node.id)
    assert told.event == fresh.last_error and told.user == SCRUBBED
    assert nodes.get(database, node.uuid).changes() == {}


@pytest.mark.parametrize("text", ["n" * 255, EMOJI * 255, "\u00e9" * 255])
def test_names_of_255_characters(database, make, text):
    """F59: characters, not bytes, on every database and in every index."""
    named = (
        "name",
        "driver",
        "instance_name",
        "resource_class",
        "owner",
        "lessee",
        "shard",
        "conductor_group",
        "fault",
        "deploy_interface",
        "vendor_interface",
    )
    node = make(database, **dict.fromkeys(named, text))
    fresh = nodes.get(database, text)
    assert fresh.uuid == node.uuid and {getattr(fresh, name) for name in named} == {text}
    port = ports.insert(
        database,
        {
            "node_id": node.id,
            "node_uuid": node.uuid,
            "address": "a" * 64,
            "name": text,
            "vendor": text,
            "category": text,
        },
    )
    assert ports.get(database, port.uuid).name == text
    lock, _ = locks.grant(database, node.id, text, text * 2)
    assert nodes.get(database, node.id).reservation == text
    assert nodes.get(database, node.id).lock_purpose == text
    locks.release(database, lock)
    conductors.register(database, text, "b" * 32, [("h" * 64, "management", "i" * 64, True)], text)
    assert conductors.get(database, text).conductor_group == text


@pytest.mark.parametrize("ident", ["a\x00b", "\ud800", ODD, "x" * 100_000, "", EMOJI, "%", "\\"])
def test_what_can_be_in_a_url_is_looked_for_and_not_found(database, make, ident):
    """F15: a NUL in a path is no server error; PostgreSQL refuses it if it gets there."""
    make(database, name="ab")
    with pytest.raises(exceptions.NodeNotFound):
        nodes.get(database, ident)
    with pytest.raises(exceptions.NotFound):
        nodes.listing(database, marker=ident)
    with pytest.raises(exceptions.PortNotFound):
        ports.get(database, ident)
    with pytest.raises(exceptions.PortNotFound):
        ports.delete(database, ident)
    assert ports.listing(database, address=ident) == []
    assert nodes.of_addresses(database, [ident]) == []
    filters = ("driver", "owner", "instance_uuid", "description_contains", "shard_in", "uuid_in")
    for name in filters:
        value = [ident] if name.endswith("_in") else ident
        if name == "description_contains" and len(ident) > 4096:
            with pytest.raises(exceptions.InvalidParameterValue, match="at most 4096"):
                nodes.listing(database, filters={name: value})
        else:
            assert nodes.listing(database, filters={name: value}) == []


def test_a_description_is_searched_for_as_it_is_written(database, make):
    """No wildcards: % and _ are characters."""
    for number, text in enumerate(("50% off", "500 off", "a_b", "aXb", "back\\slash", None)):
        make(database, name=str(number), description=text)

    def found(text):
        return [n.name for n in nodes.listing(database, filters={"description_contains": text})]

    assert found("0%") == ["0"] and found("a_b") == ["2"] and found("k\\s") == ["4"]
    assert found("off") == ["0", "1"]


@pytest.mark.parametrize(
    "name", ["owner", "lessee", "resource_class", "instance_name", "shard", "driver", "name"]
)
def test_a_text_is_that_text_and_no_other(database, make, name):
    """Blanks at the end and capitals make others, on every database."""
    values = ["a", "a ", "A"]
    for value in values:
        make(database, **{name: value})
    for value in values:
        found = (
            [nodes.get(database, value)]
            if name == "name"
            else nodes.listing(database, filters={name: value})
        )
        assert [getattr(node, name) for node in found] == [value]


def test_upper_and_lower_case_are_two(database, make):
    """MariaDB's usual collation says that they are one."""
    make(database, name="Node")
    make(database, name="node")
    make(database, name="nod\u00e9")
    assert nodes.get(database, "node").name == "node"
    assert [n.name for n in nodes.listing(database, sort_key="name")][-1] == "nod\u00e9"


def test_times_keep_their_microseconds_and_their_zone(database, make):
    import datetime

    at = datetime.datetime(2026, 11, 3, 23, 59, 59, 123456, datetime.UTC)
    zone = datetime.timezone(datetime.timedelta(hours=5, minutes=30))
    assert make(database, provision_updated_at=at).provision_updated_at == at
    moved = make(database, provision_updated_at=at.astimezone(zone))
    assert moved.provision_updated_at == at
    assert moved.provision_updated_at.utcoffset() == datetime.timedelta(0)
    assert types.timestamp(moved.provision_updated_at) == "2026-11-03T23:59:59.123456+00:00"
    naive = make(database, provision_updated_at=at.replace(tzinfo=None))
    assert naive.provision_updated_at == at
    assert types.timestamp(at.replace(tzinfo=None)) == types.timestamp(at)
    assert types.timestamp(None) is None
