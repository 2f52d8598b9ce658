"""``/metrics``: what is counted, with few labels, and one bounded read (issue 4, section 1)."""

from __future__ import annotations

import pytest
import sqlalchemy as sa
from prometheus_client.parser import text_string_to_metric_families

from deploysteps import counts, exceptions, states
from deploysteps.api import metrics
from deploysteps.db import events, nodes, types, webhooks
from deploysteps.db.events import New
from deploysteps.db.models import StepAttempt
from tests import support
from tests.support_api import Api, Recording, Refusing
from tests.support_sql import counting
from tests.unit.api.test_runs import run_of


def shown(api, status=200):
    """Return name -> {labels as a sorted tuple: value}."""
    answer = api._client.simulate_request("GET", "/metrics")
    assert answer.status_code == status, answer.text
    found = {}
    for family in text_string_to_metric_families(answer.text):
        for sample in family.samples:
            labels = tuple(sorted(sample.labels.items()))
            found.setdefault(sample.name, {})[labels] = sample.value
    return found


def label(**values):
    return tuple(sorted(values.items()))


def test_what_the_database_tells(api, sqlite, node):
    nodes.insert(sqlite, {"driver": "x", "provision_state": states.ACTIVE, "reservation": "c"})
    run_of(sqlite, node, 1, states=("waiting",), owner="agent")
    late = sa.update(StepAttempt).values(due_at=types.utcnow())
    sqlite.write(lambda c: c.execute(late) and None)
    endpoint = webhooks.known(sqlite, "http://hook/T0PSECRET")
    row = New(events.NODE_STATE, None, {"state": "x"})
    sqlite.write(lambda c: events.write(c, node.uuid, [row]))
    assert webhooks.lease(sqlite, endpoint.id, "me", 60)
    (event,) = events.after(sqlite, 0, 10)
    webhooks.take(sqlite, endpoint.id, "me", 0, 1, [webhooks.Ready(event, "{}")])
    found = shown(api)
    assert found["deploysteps_nodes"] == {label(state="available"): 1, label(state="active"): 1}
    assert found["deploysteps_nodes_locked"] == {(): 1}
    assert found["deploysteps_waits"][label(owner="agent")] == 1
    assert found["deploysteps_waits"][label(owner="timer")] == 0
    assert found["deploysteps_waits_due"] == {(): 1}
    assert found["deploysteps_webhooks"] == {label(state="pending"): 1, label(state="dead"): 0}
    assert 0 <= found["deploysteps_webhook_lag_seconds"][()] < 60
    assert found["deploysteps_database_up"] == {(): 1}
    assert found["deploysteps_event_streams"] == {(): 0}
    assert "process_resident_memory_bytes" in found
    assert "T0PSECRET" not in str(found)


def test_it_asks_the_database_once_in_a_while(api, sqlite, monkeypatch):
    with counting(sqlite) as sent:
        for _ in range(5):
            shown(api)
    assert sent.statements == 2 and sent.commits == 0
    monkeypatch.setattr(metrics, "_FRESH", 0.0)
    with counting(sqlite) as sent:
        shown(api)
    assert sent.statements == 2


def test_a_database_that_is_away_leaves_what_the_process_counts(api, monkeypatch):
    def found(_database):
        raise exceptions.DatabaseUnavailable(reason="gone")

    monkeypatch.setattr(metrics.rows, "found", found)
    got = shown(api)
    assert got["deploysteps_database_up"] == {(): 0}
    assert "deploysteps_nodes" not in got and "deploysteps_db_statements_total" in got


def test_requests_are_counted_by_route_and_no_path_is_a_label(api, node):
    before = counts.REQUESTS.shown()
    api.get(f"/v1/nodes/{node.uuid}")
    api.get("/v1/nodes/nobody-of-this-name")
    api.get("/v1/no/such/path/at/all")
    api.put("/v1/nodes", {})
    api._client.simulate_request("BREW", "/v1/nodes")
    now = counts.REQUESTS.shown()
    more = {key: n - before.get(key, 0) for key, n in now.items() if n != before.get(key, 0)}
    assert more == {
        ("GET", "/v1/nodes/{ident}", "200"): 1,
        ("GET", "/v1/nodes/{ident}", "404"): 1,
        ("GET", "none", "404"): 1,
        ("PUT", "/v1/nodes", "405"): 1,
        ("other", "/v1/nodes", "400"): 1,
    }
    assert not any("nobody" in part or "such" in part for key in now for part in key)


@pytest.mark.parametrize(
    ("raised", "status"),
    [(None, "202"), (exceptions.NodeLocked(node="n", host="h"), "409")],
)
def test_heartbeats_are_counted_by_their_answer(conf, sqlite, node, raised, status):
    api = Api(conf, sqlite, Refusing(raised) if raised else Recording())
    before = counts.HEARTBEATS.shown().get((status,), 0)
    body = {"callback_url": "http://127.0.0.1:9999/", "agent_token": "t", "agent_version": "1"}
    api.post(f"/v1/heartbeat/{node.uuid}", body, version=68)
    assert counts.HEARTBEATS.shown()[(status,)] == before + 1


def test_a_run_is_counted_and_secrets_are_in_no_label(conf, start, sqlite):
    """F77."""
    service = start(sqlite)
    api = Api(conf, sqlite, service.client)
    before = shown(api)
    node = support.enrolled(service, driver_info={"ipmi_password": "hunter2-secret"})
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(sqlite, node.uuid, states.ACTIVE)
    support.until(lambda: service.runtime.workers.busy == 0)  # counted once it is written
    now = shown(api)

    def more(name, **labels):
        key = label(**labels)
        return now[name][key] - before.get(name, {}).get(key, 0)

    assert more("deploysteps_runs_total", flow="deploy", outcome="success") == 1
    done = {"flow": "deploy", "step": "deploy.deploy"}
    assert more("deploysteps_steps_total", **done, outcome="success") == 1
    assert more("deploysteps_step_duration_seconds_count", **done) == 1
    assert more("deploysteps_step_duration_seconds_bucket", **done, le="+Inf") == 1
    assert more("deploysteps_lock_wait_seconds_count") >= 1
    assert more("deploysteps_db_statements_total") > more("deploysteps_db_commits_total") > 0
    workers = now["deploysteps_workers"]
    assert sum(workers.values()) == conf.conductor.workers_pool_size
    assert "hunter2" not in str(now) and node.uuid not in str(now)


def test_a_lock_that_another_has_is_counted(conf, start, sqlite):
    from deploysteps.conductor import task_manager

    conf.set_override("node_locked_retry_attempts", 0, group="conductor")
    service = start(sqlite)
    node = support.enrolled(service)
    before = counts.LOCK_REFUSALS.shown()[()]
    with (
        task_manager.acquire(None, node.uuid, runtime=service.runtime),
        pytest.raises(exceptions.NodeLocked),
    ):
        task_manager.acquire(None, node.uuid, runtime=service.runtime)
    assert counts.LOCK_REFUSALS.shown()[()] == before + 1


def test_histograms_add_up():
    one = counts.Histogram("x", "y", ("step",))
    for seconds in (0.001, 0.01, 0.02, 7, 10**6):
        one.add("s", seconds=seconds)
    buckets, total = one.shown()["s",]
    assert sum(buckets) == 5 and buckets[0] == 2 and buckets[-1] == 1
    assert total == pytest.approx(1000007.031)
    cumulated = metrics._cumulated(buckets)
    assert cumulated[0] == ("0.01", 2) and cumulated[-1] == ("+Inf", 5)
    assert [count for _, count in cumulated] == sorted(count for _, count in cumulated)


def test_a_scrape_while_another_waits_for_the_database_does_not_wait(api, monkeypatch):
    import threading

    entered, go = threading.Event(), threading.Event()
    real = metrics.rows.found

    def found(database):
        entered.set()
        assert go.wait(60)
        return real(database)

    monkeypatch.setattr(metrics.rows, "found", found)
    slow = threading.Thread(target=shown, args=(api,))
    slow.start()
    assert entered.wait(60)
    shown(api)
    assert slow.is_alive(), "it has waited for the other"
    go.set()
    slow.join()
