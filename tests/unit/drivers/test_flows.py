"""Clean, verify and service steps beside deploy steps, and what interfaces do around them."""

from __future__ import annotations

import inspect

import pytest

from deploysteps import exceptions, reserved, states, steps
from deploysteps.drivers import base, noop, testing

DECORATORS = {
    "deploy": base.deploy_step,
    "clean": base.clean_step,
    "verify": base.verify_step,
    "service": base.service_step,
}
ARG = {"size": {"description": "words"}}


def one_step(flow, name="go", kind="bios", priority=10, **options):
    """Create a class with one step of one flow."""
    decorated = DECORATORS[flow](priority, **options)(lambda self, task, size=None: size)
    return type("Made", (base.BaseInterface,), {"interface_type": kind, name: decorated})


class Several(base.BIOSInterface):
    """One method, a step of every flow."""

    get_properties = validate = lambda self, task=None: {}

    @base.verify_step(40, repeatable=True, retries=2)
    @base.service_step(argsinfo=ARG, requires_ramdisk=False, timeout=7)
    @base.clean_step(30, argsinfo=ARG, abortable=True)
    @base.deploy_step(0, ARG)
    def go(self, task, size=None):
        return size


def test_there_is_a_decorator_for_each_flow():
    assert set(DECORATORS) == set(steps.FLOWS)


SIGNATURES = {
    "clean": "(priority, abortable=False, argsinfo=None, requires_ramdisk=True, *, "
    "repeatable=False, timeout=None, retries=0, retry_delay=0)",
    "verify": "(priority, *, repeatable=False, retries=0)",
    "service": "(priority=0, abortable=False, argsinfo=None, requires_ramdisk=True, *, "
    "repeatable=False, timeout=None, retries=0, retry_delay=0)",
}


@pytest.mark.parametrize("flow", SIGNATURES)
def test_the_decorators_have_the_fields_signatures(flow):
    """The field's positional arguments; what is ours comes after them, by name."""
    signature = inspect.signature(DECORATORS[flow])
    plain = [p.replace(annotation=p.empty) for p in signature.parameters.values()]
    assert str(inspect.Signature(plain)) == SIGNATURES[flow]


def test_a_priority_belongs_to_a_step_and_a_flow():
    """F5: a priority meant for one flow does not leak into another."""
    several = Several()
    found = {
        name: getattr(several, flow.collect)(None)[0]["priority"]
        for name, flow in steps.FLOWS.items()
    }
    assert found == {"deploy": 0, "clean": 30, "verify": 40, "service": 0}


@pytest.mark.parametrize("flow", DECORATORS)
def test_a_step_of_one_flow_is_none_of_another(flow):
    """F5."""
    made = one_step(flow)()
    for name, other in steps.FLOWS.items():
        found = [step["step"] for step in getattr(made, other.collect)(None)]
        assert found == (["go"] if name == flow else [])
        if name != flow:
            with pytest.raises(other.error, match=f"has no {name} step 'go'"):
                getattr(made, other.execute)(None, {"step": "go"})


def test_the_dicts_say_what_each_flow_declared():
    several = Several()
    common = {"step": "go", "interface": "bios", "retry_delay": 0}
    assert several.get_clean_steps(None) == [
        common
        | {"priority": 30, "argsinfo": ARG, "abortable": True, "repeatable": False}
        | {"timeout": None, "retries": 0, "requires_ramdisk": True}
    ]
    assert several.get_verify_steps(None) == [
        common
        | {"priority": 40, "argsinfo": None, "abortable": True, "repeatable": True}
        | {"timeout": None, "retries": 2}
    ]
    assert several.get_service_steps(None) == [
        common
        | {"priority": 0, "argsinfo": ARG, "abortable": False, "repeatable": False}
        | {"timeout": 7, "retries": 0, "requires_ramdisk": False}
    ]


@pytest.mark.parametrize("name", steps.FLOWS)
def test_each_flow_lists_and_runs_its_own(name):
    flow, several = steps.FLOWS[name], Several()
    listed = getattr(several, flow.collect)(None)
    assert listed == getattr(several, f"{name}_steps")
    listed[0]["priority"] = 99
    assert getattr(several, flow.collect)(None)[0]["priority"] != 99
    assert getattr(several, flow.execute)(None, {"step": "go", "args": {"size": 3}}) == 3
    with pytest.raises(flow.error, match="did you mean 'go'"):
        getattr(several, flow.execute)(None, {"step": "g"})
    with pytest.raises(flow.error, match=r"args of bios.go are a list"):
        getattr(several, flow.execute)(None, {"step": "go", "args": []})


def test_an_override_keeps_only_the_flows_that_it_names():
    """Table row: subclass overrides without decorator, for each flow by itself."""
    with pytest.warns(UserWarning) as caught:

        class Less(Several):
            @base.clean_step(5)
            def go(self, task):
                pass

    told = sorted(str(warning.message) for warning in caught)
    assert [flow for flow in steps.FLOWS if Less.declaration(flow, "go")] == ["clean"]
    assert len(told) == 3
    for text, flow in zip(told, ["deploy", "service", "verify"], strict=True):
        assert f"overrides 'go', a {flow} step" in text
        assert f"without @{flow}_step" in text


@pytest.mark.parametrize("flow", DECORATORS)
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"priority": True}, "priority=...) takes an integer"),
        ({"priority": 2**31}, "priority=...) takes an integer"),
        ({"repeatable": 1}, "repeatable=...) takes True or False"),
        ({"retries": -1, "repeatable": True}, "retries=...) takes an integer"),
        ({"retries": 1}, "needs repeatable=True"),
    ],
)
def test_every_decorator_refuses_what_cannot_work(flow, options, words):
    """Promise 11, for every flow alike."""
    with pytest.raises(exceptions.StepDeclarationError) as caught:
        one_step(flow, **options)
    assert words in str(caught.value)
    assert f"@{flow}_step(" in str(caught.value)


@pytest.mark.parametrize("flow", ["clean", "service"])
@pytest.mark.parametrize("value", [1, None, "no"])
def test_requires_ramdisk_is_true_or_false(flow, value):
    with pytest.raises(exceptions.StepDeclarationError, match="requires_ramdisk=.*True or False"):
        one_step(flow, requires_ramdisk=value)


@pytest.mark.parametrize("flow", DECORATORS)
def test_every_decorator_needs_its_parentheses(flow):
    """Table row: decorator without parentheses."""
    with pytest.raises(exceptions.StepDeclarationError, match=rf"@{flow}_step\(50\)"):
        DECORATORS[flow](lambda self, task: None)


@pytest.mark.parametrize("flow", DECORATORS)
def test_one_decorator_twice_is_refused(flow):
    with pytest.raises(exceptions.StepDeclarationError, match=f"@{flow}_step twice"):

        class Twice(base.BaseInterface):
            @DECORATORS[flow](1)
            @DECORATORS[flow](2)
            def go(self, task):
                pass


def test_a_verify_step_takes_no_arguments():
    with pytest.raises(exceptions.StepDeclarationError, match="needs the argument 'size'"):
        base.verify_step(1)(lambda self, task, size: None)
    for option in ("timeout", "retry_delay", "argsinfo"):
        with pytest.raises(TypeError):
            base.verify_step(1, **{option: None})


# --- names that are taken ------------------------------------------------------


@pytest.mark.parametrize("name", reserved.RESERVED)
@pytest.mark.parametrize("kind", reserved.INTERFACES)
@pytest.mark.parametrize("flow", DECORATORS)
def test_the_name_of_a_reserved_step_is_refused_where_it_is_reserved(flow, kind, name):
    with pytest.raises(exceptions.StepDeclarationError, match=rf"Made.{name}: .*rename it"):
        one_step(flow, name, kind)


@pytest.mark.parametrize("name", reserved.RESERVED)
def test_on_other_interfaces_such_a_name_is_free(name):
    assert one_step("clean", name, "vendor")().get_clean_steps(None)[0]["step"] == name


def test_a_mixins_step_is_refused_where_its_name_is_reserved():
    class Mixin(base.BaseInterface):
        @base.deploy_step(0)
        def hold(self, task):
            pass

    type("Fine", (Mixin,), {"interface_type": "raid"})
    with pytest.raises(exceptions.StepDeclarationError, match=r"Mixin.hold: .*rename it"):
        type("Bad", (Mixin,), {"interface_type": "power"})
    with pytest.warns(UserWarning, match="it is no deploy step any more"):
        type("Plain", (Mixin,), {"interface_type": "power", "hold": lambda self, task: None})


@pytest.mark.parametrize(
    ("kind", "name"),
    [
        (call.interface, call.method)
        for flow in steps.FLOWS.values()
        for call in (flow.prepare, flow.finish, flow.clean_up)
        if call
    ],
)
def test_what_the_engine_calls_around_the_steps_is_no_step(kind, name):
    with pytest.raises(exceptions.StepDeclarationError, match="called by the engine.*rename it"):
        one_step("deploy", name, kind)


# --- waiting -------------------------------------------------------------------


@pytest.mark.parametrize("flow", steps.FLOWS.values(), ids=list(steps.FLOWS))
def test_a_method_shared_by_flows_waits_in_the_flow_of_its_node(flow):
    for state in flow.states:
        task = testing.FakeTask(provision_state=state)
        if flow.waiting:
            assert base.wait_state(task) == flow.waiting
            assert states.wait(base.wait_state(task), poll=1) == flow.waiting
        else:
            with pytest.raises(flow.error, match=f"{flow.name} step cannot wait"):
                base.wait_state(task)


@pytest.mark.parametrize("state", [states.ACTIVE, states.AVAILABLE, states.RESCUE])
def test_where_no_steps_run_nothing_can_wait(state):
    with pytest.raises(exceptions.InvalidState, match=state):
        base.wait_state(testing.FakeTask(provision_state=state))


# --- around the steps ----------------------------------------------------------


class Switch(noop.NoopPower):
    def validate(self, task):
        if "address" not in task.node.driver_info:
            raise exceptions.MissingParameterValue("driver_info/address is missing")

    def get_power_state(self, task):
        return states.POWER_ON


def test_verifying_takes_down_the_power_state():
    task = testing.FakeTask(Switch(), driver_info={"address": "x"})
    assert task.driver.power.verify(task) is None
    assert task.node.power_state == states.POWER_ON
    task = testing.FakeTask(Switch())
    with pytest.raises(exceptions.MissingParameterValue):
        task.driver.power.verify(task)
    assert task.node.power_state is None


@pytest.mark.parametrize("flow", steps.FLOWS)
def test_an_agent_offers_nothing_by_default(flow):
    deploy = noop.NoopDeploy()
    assert deploy.agent_steps(testing.FakeTask(deploy), flow) == []


@pytest.mark.parametrize("flow", steps.FLOWS.values(), ids=list(steps.FLOWS))
def test_a_step_of_the_agent_is_not_taken_for_the_drivers_own(flow):
    """Nobody hands it over: that is said, and the driver's step of that name does not run."""
    made = one_step(flow.name, kind="deploy")()
    entry = {"interface": "raid", "step": "go", "agent": True}
    with pytest.raises(flow.error, match=rf"raid.go .*Made.* override {flow.execute}"):
        getattr(made, flow.execute)(None, entry)


# --- the old way ---------------------------------------------------------------


class Old(noop.NoopDeploy):
    """Deploys by one method; what it was asked is noted in the class's order."""

    started = done = False

    def __init__(self):
        self.asked = []

    def deploy(self, task):
        return states.DEPLOYWAIT

    def deploy_has_started(self, task):
        return self.started

    def deploy_is_done(self, task):
        return self.done

    def continue_deploy(self, task):
        self.asked.append("continue_deploy")

    def reboot_to_instance(self, task):
        self.asked.append("reboot_to_instance")


OLD_WAIT = {"interface": "deploy", "step": "deploy", "old_way": True}


def old_beat(cls, **facts):
    made = cls()
    vars(made).update(facts)
    task = testing.FakeTask(made)
    task.waiting_step = dict(OLD_WAIT)
    made.heartbeat(task, "http://10.0.0.1:9999", "11.0")
    assert task.events == [], "an old way is ended by the driver itself"
    return made.asked


@pytest.mark.parametrize(
    ("started", "done", "asked"),
    [
        (False, False, ["continue_deploy"]),
        (False, True, ["continue_deploy"]),
        (True, False, []),
        (True, True, ["reboot_to_instance"]),
    ],
)
def test_a_beat_of_an_old_deployment_goes_to_the_drivers_own_methods(started, done, asked):
    """Issue section 5, in this order."""
    assert old_beat(Old, started=started, done=done) == asked


@pytest.mark.parametrize("lacking", ["deploy_has_started", "continue_deploy"])
def test_an_old_class_is_asked_as_far_as_it_goes(lacking):
    made = type("Less", (Old,), {lacking: None})
    assert old_beat(made) == []
    assert old_beat(made, done=True) == ["reboot_to_instance"]


def test_an_old_class_without_any_of_them_is_left_alone():
    class Bare(noop.NoopDeploy):
        asked = ()

        def deploy(self, task):
            return states.DEPLOYWAIT

    assert old_beat(Bare) == ()
    assert Bare.declared_steps["deploy"] == {}


# --- what authors are given to test them -----------------------------------------


@pytest.mark.parametrize("flow", steps.FLOWS.values(), ids=list(steps.FLOWS))
def test_run_step_runs_a_step_of_any_flow(flow):
    task = testing.FakeTask(Several())
    args = None if flow is steps.VERIFY else {"size": flow.waiting}
    assert testing.run_step(task, "bios.go", args, flow=flow) == flow.waiting
    assert task.node.provision_state == flow.running
    current = getattr(task.node, flow.step_field, {"step": "go"})
    assert current["step"] == "go"


class Waiting(Several):
    @base.verify_step(1)
    def wait(self, task):
        return states.CLEANWAIT


def test_run_step_refuses_the_wait_of_another_flow_and_any_wait_where_there_is_none():
    """F75."""
    task = testing.FakeTask(Waiting())
    with pytest.raises(exceptions.CleanStepFailed, match="None or 'clean wait'"):
        testing.run_step(task, "go", {"size": states.DEPLOYWAIT}, flow=steps.CLEAN)
    with pytest.raises(exceptions.VerifyStepFailed, match="None: it cannot wait"):
        testing.run_step(task, "wait", flow=steps.VERIFY)


def test_the_fake_task_notes_progress_and_switches_power():
    task = testing.FakeTask(Switch())
    task.report_progress(40, "writing")
    task.switch_power(states.REBOOT, timeout=3)
    assert task.node.power_state == states.POWER_ON
    task.switch_power(states.SOFT_POWER_OFF)
    assert task.node.power_state == states.POWER_OFF
    assert task.events == [
        ("report_progress", 40, "writing"),
        ("switch_power", states.REBOOT),
        ("switch_power", states.SOFT_POWER_OFF),
    ]
    alone = testing.FakeTask()
    alone.switch_power(states.POWER_ON)
    assert alone.node.power_state == states.POWER_ON


@pytest.mark.parametrize("flow", [steps.DEPLOY, steps.CLEAN, steps.SERVICE])
@pytest.mark.parametrize(
    ("args", "why"),
    [({}, "missing a required argument: 'size'"), ({"size": 1, "old": "s3"}, "'old'")],
)
def test_a_plan_of_another_version_of_the_driver_is_refused_in_words(flow, args, why):
    """F47: an argument is new, or gone, since the step was planned."""

    class Newer(base.VendorInterface):
        def get_properties(self):
            return {}

        def validate(self, task, method=None, **kwargs):
            pass

        @base.deploy_step(0, argsinfo=ARG)
        @base.clean_step(0, argsinfo=ARG)
        @base.service_step(argsinfo=ARG)
        def resize(self, task, size):
            raise AssertionError("it ran")

    task = testing.FakeTask(Newer())
    with pytest.raises(flow.error, match="Newer does not take the arguments.*planned") as told:
        getattr(task.driver.vendor, flow.execute)(task, {"step": "resize", "args": args})
    assert why in str(told.value) and "s3" not in str(told.value)
