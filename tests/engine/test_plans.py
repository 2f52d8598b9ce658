"""Where steps come from: templates, runbooks, requests, the agent; and the plan that shows it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest

from deploysteps import exceptions, states
from deploysteps.db import nodes, runs
from deploysteps.drivers import base, fake
from tests import support

DONE: list[Any] = []


@pytest.fixture(autouse=True)
def forgotten() -> None:
    DONE.clear()


def step(name: str, priority: int | None = 50, interface: str = "vendor", **args: Any) -> Any:
    more = {} if priority is None else {"priority": priority}
    return {"interface": interface, "step": name, "args": args, **more}


WORD = {"word": {"description": "a word", "schema": {"type": "string"}, "secret": True}}


class Steps(support.Vendor):
    @base.deploy_step(priority=20, argsinfo=WORD)
    @base.clean_step(priority=0, argsinfo=WORD)
    @base.service_step(priority=0, argsinfo=WORD)
    def one(self, task, word=None):
        DONE.append(("one", word))

    @base.deploy_step(priority=10)
    @base.clean_step(priority=0)
    def two(self, task):
        DONE.append(("two", None))

    @base.deploy_step(priority=0)
    def three(self, task):
        DONE.append(("three", None))


def template(service, name, *steps_):
    return service.manager.create_deploy_template(None, {"name": name, "steps": list(steps_)})


def with_traits(service, *traits, **values):
    node = support.enrolled(service, instance_info={"traits": list(traits)}, **values)
    service.manager.update_node_traits(None, node.uuid, replace=list(traits))
    return node


def sources(plan):
    return {entry["step"]: entry["source"] for entry in plan["steps"]}


def test_templates_are_laid_over_the_driver_and_requests_over_templates(database, start):
    """§2: later wins over earlier; each step knows its source and what it replaced."""
    service = start(database, vendor=Steps)
    template(service, "CUSTOM_ONE", step("one", 70, word="template"), step("three", 60))
    node = with_traits(service, "CUSTOM_ONE")
    plan = service.manager.get_node_plan(None, node.uuid, steps=[step("three", 90)])
    assert plan["problem"] is None
    assert [entry["step"] for entry in plan["steps"]] == ["deploy", "three", "one", "two"]
    assert sources(plan)["one"] == "template CUSTOM_ONE" and sources(plan)["two"] == "driver"
    three = plan["steps"][1]
    assert three["source"] == "request"
    assert three["replaced"][-1] == {"source": "template CUSTOM_ONE", "priority": 60}
    one = plan["steps"][2]
    assert one["replaced"] == [{"source": "driver", "priority": 20}]
    assert one["args"] == {"word": "******"}
    assert not runs.of_node(database, node.id)
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=[step("three", 90)])
    node = support.settle(database, node.uuid, states.ACTIVE)
    assert DONE == [("three", None), ("one", "template"), ("two", None)]
    run = support.last_run(database, node)
    assert [(e["step"], e["source"]) for e in run.plan] == list(sources(plan).items())


def test_the_plan_that_is_shown_is_the_plan_that_runs(sqlite, start):
    """F2: same steps, same order, asked before and taken from the run."""
    service = start(sqlite, vendor=Steps)
    node = support.enrolled(service)
    asked = [step("three", 15), step("one", 0)]
    shown = service.manager.get_node_plan(None, node.uuid, steps=asked)
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=asked)
    node = support.settle(sqlite, node.uuid, states.ACTIVE)
    run = support.last_run(sqlite, node)
    assert [e["step"] for e in run.plan] == [e["step"] for e in shown["steps"]]
    assert run.left_out == shown["left_out"]
    assert [(s["step"], s["why"]) for s in run.left_out] == [("one", "disabled by request")]


def test_two_templates_with_the_same_step_are_refused(sqlite, start):
    service = start(sqlite, vendor=Steps)
    template(service, "CUSTOM_ONE", step("one", 70))
    template(service, "CUSTOM_TWO", step("one", 60))
    node = with_traits(service, "CUSTOM_ONE", "CUSTOM_TWO")
    with pytest.raises(exceptions.InvalidParameterValue, match="CUSTOM_ONE and CUSTOM_TWO"):
        service.manager.do_node_deploy(None, node.uuid)
    plan = service.manager.get_node_plan(None, node.uuid)
    assert "CUSTOM_ONE and CUSTOM_TWO" in plan["problem"]


def test_traits_of_the_instance_have_to_be_traits_of_the_node(sqlite, start):
    service = start(sqlite, vendor=Steps)
    node = support.enrolled(service, instance_info={"traits": ["CUSTOM_ONE"]})
    with pytest.raises(exceptions.InvalidParameterValue, match="CUSTOM_ONE"):
        service.manager.do_node_deploy(None, node.uuid)


def test_the_same_bad_list_is_refused_alike_wherever_it_comes_from(sqlite, start):
    """F12: inline, template, runbook: one path, one error, and no value in it."""
    service = start(sqlite, vendor=Steps)
    bad = step("one", 70, word="fine")
    template(service, "CUSTOM_ONE", bad)
    service.manager.create_runbook(None, {"name": "CUSTOM_ONE", "steps": [step("one", None)]})
    node = with_traits(service, "CUSTOM_ONE")
    told = []
    from deploysteps.db import runbooks, templates

    worse = {**bad, "args": {"word": ["hunter2"]}}
    # What was good when it was saved may be bad when it is used.
    templates.update(sqlite, "CUSTOM_ONE", {"steps": [worse]})
    runbooks.update(sqlite, "CUSTOM_ONE", {"steps": [step("one", None, word=["hunter2"])]})
    for call in (
        lambda: service.manager.do_node_deploy(None, node.uuid),
        lambda: service.manager.do_node_deploy(None, support.enrolled(service).uuid,
                                               deploy_steps=[worse]),
        lambda: service.manager.do_node_clean(
            None, _at(sqlite, node, states.MANAGEABLE).uuid, runbook="CUSTOM_ONE"),
        lambda: service.manager.do_node_clean(
            None, node.uuid, [step("one", None, word=["hunter2"])]),
    ):  # fmt: skip
        with pytest.raises(exceptions.InvalidParameterValue) as caught:
            call()
        told.append(str(caught.value))
    assert len(set(told)) == 1, told
    assert "vendor.one" in told[0] and "'word'" in told[0] and "hunter2" not in told[0]


def _at(database, node, state):
    nodes.set_unlocked(database, node.id, {"provision_state": state})
    return nodes.get(database, node.id)


def test_a_runbook_runs_on_nodes_that_have_its_trait(database, start):
    service = start(database, vendor=Steps)
    book = {"name": "CUSTOM_BOOK", "steps": [step("two", None), step("one", None, word="x")]}
    service.manager.create_runbook(None, book)
    node = support.enrolled(service, provision_state=states.MANAGEABLE)
    with pytest.raises(exceptions.InvalidParameterValue, match="CUSTOM_BOOK"):
        service.manager.do_node_clean(None, node.uuid, runbook="CUSTOM_BOOK")
    service.manager.update_node_traits(None, node.uuid, add=["CUSTOM_BOOK"])
    service.manager.do_node_clean(None, node.uuid, runbook="CUSTOM_BOOK")
    node = support.settle(database, node.uuid, states.MANAGEABLE)
    assert DONE == [("two", None), ("one", "x")]
    run = support.last_run(database, node)
    assert run.request["runbook"] == "CUSTOM_BOOK"
    assert {e["source"] for e in run.plan} == {"runbook CUSTOM_BOOK"}
    with pytest.raises(exceptions.RunbookNotFound):
        service.manager.do_node_clean(None, node.uuid, runbook="CUSTOM_NONE")


# --- what only the agent knows ------------------------------------------------------------


class Agent(support.Deploy):
    """Boots an agent in prepare; it tells its steps when it has booted."""

    offers: tuple[dict[str, Any], ...] = (
        {"interface": "raid", "step": "grow", "priority": 95},
        {"interface": "deploy", "step": "trim", "priority": 5},
        {"interface": "vendor", "step": "two", "priority": 99},
    )

    def agent_steps(self, task, flow):
        if task.node.extra.get("no_agent"):
            return []
        return task.node.driver_internal_info.get("agent_cached_steps")

    def prepare(self, task):
        if self.agent_steps(task, "deploy") is None:
            return states.DEPLOYWAIT
        return None

    def heartbeat(self, task, callback_url, agent_version, **more):
        if task.waiting_step is None:
            return
        if self.agent_steps(task, "deploy") is None:
            task.node.set_driver_internal_info("agent_cached_steps", list(self.offers))
            task.node.save()
        task.complete_step()

    def execute_deploy_step(self, task, step):
        if step.get("agent"):
            DONE.append((step["step"], step["args"] or None))
            return None
        return super().execute_deploy_step(task, step)


def test_the_plan_is_the_same_whether_the_agent_is_up_before_or_comes_later(database, start):
    """F3; F4: of two steps of one name the conductor's runs, and the plan shows both."""
    service = start(database, vendor=Steps, deploy=Agent)
    plans = []
    asked = [step("trim", 12, "deploy")]
    for known in (False, True):
        info = {"agent_cached_steps": list(Agent.offers)} if known else {}
        node = support.enrolled(service)
        if known:
            _remember(service, node, info)
        shown = service.manager.get_node_plan(None, node.uuid, steps=asked)
        assert [e["step"] for e in shown["unknown"]] == ([] if known else ["trim"])
        service.manager.do_node_deploy(None, node.uuid, deploy_steps=asked)
        if not known:
            support.settle(database, node.uuid, states.DEPLOYWAIT)
            support.beat(service, node, support.token(service, node))
        node = support.settle(database, node.uuid, states.ACTIVE)
        run = support.last_run(database, node)
        plans.append([{k: v for k, v in e.items() if k != "id"} for e in run.plan])
    assert plans[0] == plans[1]
    assert [e["step"] for e in plans[0]] == ["deploy", "grow", "one", "trim", "two"]
    two = plans[0][-1]
    assert two["replaced"] == [{"source": "agent", "priority": 99}] and not two.get("agent")
    assert [d[0] for d in DONE] == ["grow", "one", "trim", "two"] * 2


def _remember(service, node, info):
    from deploysteps.conductor import task_manager

    with task_manager.acquire(None, node.uuid, runtime=service.runtime) as task:
        task.node.driver_internal_info.update(info)
        task.node.save()


def test_a_step_that_the_agent_does_not_know_fails_the_run_by_name(database, start):
    """§2: never dropped in silence."""
    service = start(database, vendor=Steps, deploy=Agent)
    node = support.enrolled(service)
    service.manager.do_node_deploy(None, node.uuid, deploy_steps=[step("nope", 80, "raid")])
    support.settle(database, node.uuid, states.DEPLOYWAIT)
    support.beat(service, node, support.token(service, node))
    node = support.settle(database, node.uuid, states.DEPLOYFAIL)
    assert "raid.nope" in node.last_error and not DONE


def test_where_no_agent_will_come_an_unknown_step_is_refused_at_once(sqlite, start):
    service = start(sqlite, vendor=Steps, deploy=Agent)
    node = support.enrolled(service, extra={"no_agent": True})
    with pytest.raises(exceptions.InvalidParameterValue, match=r"raid\.nope"):
        service.manager.do_node_deploy(None, node.uuid, deploy_steps=[step("nope", 80, "raid")])


# --- going on from where it failed ----------------------------------------------------------


class Failing(support.Vendor):
    @base.deploy_step(priority=50)
    @base.service_step(priority=0)
    def first(self, task):
        DONE.append("first")

    @base.deploy_step(priority=40)
    @base.service_step(priority=0)
    def breaks(self, task):
        DONE.append("breaks")
        if not task.node.extra.get("mended"):
            raise exceptions.DeployStepsException("it is broken")

    @base.deploy_step(priority=30)
    @base.service_step(priority=0)
    def last(self, task):
        DONE.append("last")


def failed(service, database, flow="deploy", **values):
    if flow == "deploy":
        node = support.enrolled(service, **values)
        service.manager.do_node_deploy(None, node.uuid)
        return support.settle(database, node.uuid, states.DEPLOYFAIL)
    node = support.enrolled(service, provision_state=states.ACTIVE, **values)
    wanted = [step(name, None) for name in ("first", "breaks", "last")]
    service.manager.do_node_service(None, node.uuid, wanted)
    return support.settle(database, node.uuid, states.SERVICEFAIL)


@pytest.mark.parametrize("how", ["at", "after"])
@pytest.mark.parametrize("flow", ["deploy", "service"])
def test_a_failed_run_goes_on_with_the_failed_step_or_after_it(database, start, flow, how):
    """§4."""
    service = start(database, vendor=Failing)
    node = failed(service, database, flow)
    assert node.maintenance is (flow == "service")
    old = support.last_run(database, node)
    nodes.set_unlocked(database, node.id, {"extra": {"mended": True}})
    DONE.clear()
    verb = service.manager.do_node_deploy if flow == "deploy" else service.manager.do_node_service
    verb(None, node.uuid, resume=how)
    node = support.settle(database, node.uuid, states.ACTIVE)
    assert (["breaks", "last"] if how == "at" else ["last"]) == DONE
    run = support.last_run(database, node)
    assert run.resumes == old.uuid and run.outcome == "success" and node.last_error is None
    assert (node.maintenance, node.maintenance_reason, node.fault) == (False, None, None)
    skipped = [e["step"] for e in run.plan if e.get("skip")]
    assert "first" in skipped and ("breaks" in skipped) is (how == "after")


@pytest.mark.parametrize("word", [(True, "the fan is broken"), (False, None)])
def test_an_operators_word_on_maintenance_while_a_resume_begins_stays(database, start, word):
    """Maintenance is set without the lock: what was read of it with the lock may be over."""

    class Power(fake.FakePower):
        def validate(self, task):
            if DONE == ["resumes"]:
                service.manager.set_node_maintenance(None, task.node.uuid, *word)

    service = start(database, vendor=Failing, power=Power)
    node = failed(service, database, "service")
    DONE[:] = ["resumes"]
    with pytest.raises(exceptions.Conflict, match="maintenance of node"):
        service.manager.do_node_service(None, node.uuid, resume="after")
    now = nodes.get(database, node.uuid)
    assert (now.maintenance, now.maintenance_reason, now.fault) == (*word, None)
    assert (now.provision_state, now.reservation) == (states.SERVICEFAIL, None)
    assert DONE == ["resumes"]
    with pytest.raises(exceptions.NodeInMaintenance) if word[0] else nullcontext():
        service.manager.do_node_service(None, node.uuid, resume="after")
        support.settle(database, node.uuid, states.ACTIVE)


def test_a_failed_run_does_not_go_on_by_another_plan_and_the_difference_is_told(sqlite, start):
    service = start(sqlite, vendor=Failing)
    node = failed(service, sqlite)
    service.runtime.conf.set_override(
        "deploy_step_priority_override", ["vendor.last:45"], group="conductor"
    )
    with pytest.raises(exceptions.InvalidParameterValue, match=r"vendor\.last has another prio"):
        service.manager.do_node_deploy(None, node.uuid, resume="at")
    assert nodes.get(sqlite, node.uuid).provision_state == states.DEPLOYFAIL


def test_without_resume_a_new_deployment_begins_at_the_first_step(sqlite, start):
    service = start(sqlite, vendor=Failing)
    node = failed(service, sqlite)
    nodes.set_unlocked(sqlite, node.id, {"extra": {"mended": True}})
    DONE.clear()
    service.manager.do_node_deploy(None, node.uuid)
    support.settle(sqlite, node.uuid, states.ACTIVE)
    assert DONE == ["first", "breaks", "last"]


def test_a_run_may_go_on_again_and_again(sqlite, start):
    service = start(sqlite, vendor=Failing)
    node = failed(service, sqlite)
    for _ in range(2):
        service.manager.do_node_deploy(None, node.uuid, resume="at")
        support.settle(sqlite, node.uuid, states.DEPLOYFAIL)
    assert DONE == ["first", "breaks", "breaks", "breaks"]
    service.manager.do_node_deploy(None, node.uuid, resume="after")
    support.settle(sqlite, node.uuid, states.ACTIVE)
    assert DONE[-1] == "last"


@pytest.mark.parametrize("state", [states.AVAILABLE, states.DEPLOYFAIL])
def test_there_has_to_be_something_to_go_on_from(sqlite, start, state):
    service = start(sqlite, vendor=Failing)
    node = support.enrolled(service, provision_state=state)
    with pytest.raises(exceptions.InvalidParameterValue, match="no failed deploy"):
        service.manager.do_node_deploy(None, node.uuid, resume="at")
    with pytest.raises(exceptions.InvalidParameterValue, match="one of at, after"):
        service.manager.do_node_deploy(None, node.uuid, resume="sideways")
