"""How the steps of a class are found, ordered, run and told."""

from __future__ import annotations

import logging
import threading
import warnings

import pytest

from deploysteps import exceptions, states, steps
from deploysteps.drivers import base


class Mixin:
    @base.deploy_step(5)
    def mixed(self, task):
        return None


class Parent(base.BaseInterface):
    @base.deploy_step(10)
    def zebra(self, task):
        return "parent"

    @base.deploy_step(10, {"size": {"description": "words"}}, repeatable=True, timeout=9)
    def ant(self, task, size=None):
        return size

    def secret(self, task):
        raise AssertionError("not a step")


class Child(Mixin, Parent):
    interface_type = "raid"

    @base.deploy_step(10)
    def last(self, task):
        return None

    @base.deploy_step(20)
    def zebra(self, task):
        return states.DEPLOYWAIT


def names(interface):
    return [step["step"] for step in interface.get_deploy_steps(None)]


def test_order_is_that_of_the_class_body_and_bases_come_first():
    """Promise 1: ties by declaration order, not alphabetical; an override keeps its place."""
    assert names(Child()) == ["zebra", "ant", "mixed", "last"]
    assert Child.declaration("deploy", "zebra").priority == 20
    assert Parent.declaration("deploy", "zebra").priority == 10


def test_steps_of_a_mixin_are_steps():
    """Table row: mixin."""
    assert Child().execute_deploy_step(None, {"step": "mixed"}) is None


def test_the_dicts_say_all_that_was_declared():
    assert Child().get_deploy_steps(None)[1] == {
        "step": "ant",
        "priority": 10,
        "argsinfo": {"size": {"description": "words"}},
        "interface": "raid",
        "abortable": True,
        "repeatable": True,
        "timeout": 9,
        "retries": 0,
        "retry_delay": 0,
    }


def test_deploy_steps_is_a_list_on_the_instance_as_authors_know_it():
    child = Child()
    assert child.deploy_steps == child.get_deploy_steps(None)
    child.deploy_steps.append({"step": "mine"})
    assert names(child)[-1] == "mine"
    assert "mine" not in names(Child())


def test_copies_are_the_callers_own():
    """An override never changes the driver's own declaration; F5."""
    child = Child()
    copy = child.get_deploy_steps(None)
    copy[1]["priority"] = 0
    copy[1]["argsinfo"]["size"]["description"] = "changed"
    assert child.get_deploy_steps(None)[1]["priority"] == 10
    assert Child.declaration("deploy", "ant").argsinfo["size"]["description"] == "words"
    assert Child().deploy_steps[1]["argsinfo"]["size"]["description"] == "words"


def test_the_authors_argsinfo_may_change_afterwards():
    argsinfo = {"size": {"description": "words"}}

    class Late(base.BaseInterface):
        interface_type = "raid"

        @base.deploy_step(1, argsinfo)
        def go(self, task, size=None):
            pass

    argsinfo["size"]["description"] = "changed"
    assert Late().deploy_steps[0]["argsinfo"]["size"]["description"] == "words"


def test_a_class_is_looked_at_once_and_instances_never(monkeypatch):
    """F94: count calls to the collection per run."""
    from deploysteps.drivers import collect

    calls = []
    real = collect.collect
    monkeypatch.setattr(collect, "collect", lambda *args: calls.append(args[0]) or real(*args))

    class Counted(Parent):
        interface_type = "raid"

        @property
        def explosive(self):
            raise AssertionError("instances are not looked at")

    for _ in range(3):
        names(Counted())
    assert calls == [Counted]


def test_an_attribute_that_pretends_to_have_everything_is_no_step():
    class Yes:
        __isabstractmethod__ = False

        def __getattr__(self, name):
            return self

    class Strange(base.BaseInterface):
        interface_type = "raid"
        yes = Yes()

    assert names(Strange()) == []


def test_a_nested_class_is_no_step():
    class Outer(base.BaseInterface):
        interface_type = "raid"

        class Inner:
            @base.deploy_step(1)
            def go(self, task):
                pass

    assert names(Outer()) == []


@base.deploy_step(1)
def outside(self, task):
    """A function that classes below take over."""
    return None


def test_a_function_decorated_outside_is_a_step_of_each_class_that_takes_it():
    one = type("One", (base.BaseInterface,), {"interface_type": "raid", "a": outside})
    two = type("Two", (base.BaseInterface,), {"interface_type": "bios", "b": outside})
    assert (names(one()), names(two())) == (["a"], ["b"])


def test_a_class_made_in_a_thread_of_its_own_has_its_steps():
    """A decorator looks for its class body up the stack, and may reach its end."""
    made = []

    def make():
        made.append(base.deploy_step(1)(lambda self, task: None))

    thread = threading.Thread(target=make)
    thread.start()
    thread.join()
    cls = type("Late", (base.BaseInterface,), {"interface_type": "raid", "go": made[0]})
    assert names(cls()) == ["go"]


@pytest.mark.parametrize("replacement", [lambda self, task: None, None, 5])
def test_an_override_without_decorator_drops_the_step_and_warns_with_both_classes(
    replacement, caplog
):
    """Table row: subclass overrides without decorator."""
    with pytest.warns(UserWarning, match=r"Dropping.*'zebra'.*Child.*@deploy_step") as caught:

        class Dropping(Child):
            zebra = replacement

    assert names(Dropping()) == ["ant", "mixed", "last"]
    assert len(caught) == 1
    assert caught[0].filename == __file__
    assert [record.levelno for record in caplog.records] == [logging.WARNING]
    with pytest.raises(exceptions.DeployStepFailed, match="no deploy step 'zebra'"):
        Dropping().execute_deploy_step(None, {"step": "zebra"})

    with warnings.catch_warnings():
        warnings.simplefilter("error")

        class Further(Dropping):
            """Nothing new: no second warning."""

        class Again(Dropping):
            @base.deploy_step(1)
            def zebra(self, task):
                pass

    assert names(Further()) == ["ant", "mixed", "last"]
    assert "zebra" in names(Again())


def test_a_mixin_that_hides_a_step_warns_in_the_class_that_combines_them():
    """Table rows: mixin, subclass overrides without decorator."""

    class Hides:
        def zebra(self, task):
            pass

    with pytest.warns(UserWarning, match="Hides.*'zebra'"):

        class Combined(Hides, Child):
            pass

    assert "zebra" not in names(Combined())


def test_an_abstract_base_needs_no_interface_type():
    assert Parent.interface_type is None
    assert list(Parent.declared_steps["deploy"]) == ["zebra", "ant"]


def test_an_instance_without_interface_type_lists_and_runs_nothing():
    """Table row: interface_type not set."""
    for call in (
        lambda: Parent().get_deploy_steps(None),
        lambda: Parent().execute_deploy_step(None, {"step": "zebra"}),
    ):
        with pytest.raises(exceptions.StepDeclarationError, match=r"Parent has no interface_type"):
            call()


@pytest.mark.parametrize("kind", ["base", "", "BIOS", 5, ["bios"]])
def test_an_unknown_interface_type_is_refused(kind):
    """Table row: interface_type not set."""
    with pytest.raises(exceptions.StepDeclarationError, match=r"Typo.*write one of bios, boot"):
        type("Typo", (base.BaseInterface,), {"interface_type": kind})


@pytest.mark.parametrize("kind", steps.INTERFACE_TYPES)
def test_all_thirteen_types_may_have_steps(kind):
    """Promise 1: every interface may have steps."""
    made = type(
        "Any",
        (base.BaseInterface,),
        {"interface_type": kind, "go": base.deploy_step(1)(lambda self, task: None)},
    )
    assert made().get_deploy_steps(None)[0]["interface"] == kind


@pytest.mark.parametrize(
    "name", ["get_deploy_steps", "execute_deploy_step", "check_step", "validate", "__init__"]
)
def test_what_the_engine_itself_calls_cannot_be_a_step(name):
    with pytest.raises(exceptions.StepDeclarationError, match="cannot be a step; rename"):
        type(
            "Bad",
            (base.BaseInterface,),
            {"interface_type": "bios", name: base.deploy_step(1)(lambda self, task: None)},
        )


@pytest.mark.parametrize(
    "name", ["secret", "__init__", "", None, 5, [], "get_deploy_steps", "zebr", "validate"]
)
def test_only_declared_steps_are_run(name):
    """Table row: execute a name that is not a step."""
    with pytest.raises(exceptions.DeployStepFailed, match="Child has no deploy step"):
        Child().execute_deploy_step(None, {"step": name})
    with pytest.raises(exceptions.DeployStepFailed, match="did you mean 'zebra'"):
        Child().execute_deploy_step(None, {"step": "zebr"})


@pytest.mark.parametrize("args", [None, {}])
def test_no_args_are_no_args(args):
    assert Child().execute_deploy_step(None, {"step": "ant", "args": args}) is None


@pytest.mark.parametrize("args", [[], "", 0, ["size"]])
def test_args_that_are_no_mapping_fail_the_step(args):
    with pytest.raises(exceptions.DeployStepFailed, match=r"raid.ant"):
        Child().execute_deploy_step(None, {"step": "ant", "args": args})


@pytest.mark.parametrize("answer", [None, states.DEPLOYWAIT, 0, "", [], True, (1,), object()])
def test_the_answer_is_handed_on_for_the_engine_to_judge(answer):
    """F74, F75: the interface neither drops nor blesses an answer."""
    step = {"step": "ant", "args": {"size": answer}}
    assert Child().execute_deploy_step(None, step) is answer


def test_a_step_gets_its_task_and_its_own_arguments():
    """F11: arguments arrive."""
    seen = {}

    class Echo(base.BaseInterface):
        interface_type = "vendor"

        @base.deploy_step(0, {"a": {"description": "a"}, "b": {"description": "b"}})
        def echo(self, task, a=None, *, b=None):
            seen.update(task=task, a=a, b=b)

    task = object()
    Echo().execute_deploy_step(task, {"step": "echo", "args": {"a": [1], "b": {"c": 2}}})
    assert seen == {"task": task, "a": [1], "b": {"c": 2}}


def test_who_overrides_check_step_is_known():
    class Asks(Child):
        def check_step(self, task, step):
            return states.StepStatus.RUNNING

    instance = Child()
    assert not base.overrides_check_step(instance)
    assert base.overrides_check_step(Asks())
    assert instance.check_step(None, {}) is states.StepStatus.DONE
    instance.check_step = lambda task, step: states.StepStatus.DONE
    assert base.overrides_check_step(instance)


def test_base_interface_promises_nothing_and_needs_nothing():
    assert Child().get_properties() == {}
    assert Child().validate(None) is None
    assert base.BaseInterface.declaration("deploy", "anything") is None
