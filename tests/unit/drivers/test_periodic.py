"""What ``@node_periodic`` accepts, and what a class has of it. Running: tests/engine."""

from __future__ import annotations

import functools

import pytest

from deploysteps import exceptions
from deploysteps.drivers import base


def declared(spacing=60, filters=None, method=None, **options):
    def fresh(self, task, manager, context):
        return None

    class Made(base.BaseInterface):
        interface_type = "raid"
        look = base.node_periodic(spacing, filters, **options)(method or fresh)

    return Made.declared_periodics["look"]


def refused(*words, **options):
    with pytest.raises(exceptions.StepDeclarationError) as caught:
        declared(**options)
    for word in words:
        assert word in str(caught.value)


def test_a_declaration_says_what_was_said():
    made = declared(
        spacing=0.5,
        filters={"reserved": False, "provision_state_in": ("clean wait",)},
        purpose="asking the controller",
        limit=5,
        shared_task=False,
        predicate=bool,
        predicate_extra_fields=["driver_internal_info"],
    )
    assert (made.spacing, made.purpose, made.limit) == (0.5, "asking the controller", 5)
    assert made.filters == {"reserved": False, "provision_state_in": ("clean wait",)}
    assert (made.shared_task, made.predicate) == (False, bool)
    assert made.predicate_extra_fields == ("driver_internal_info",)


def test_left_out_it_is_all_nodes_under_a_shared_task():
    made = declared()
    assert (made.filters, made.limit, made.predicate) == ({}, None, None)
    assert made.enabled is True and made.shared_task is True
    assert made.purpose == "periodic fresh"


@pytest.mark.parametrize("spacing", [0, -1, None, "60", True, float("nan"), float("inf"), 1e12])
def test_spacing_is_a_number_of_seconds(spacing):
    refused("@node_periodic(spacing=", "above 0", "fresh", spacing=spacing)


def test_a_method_that_is_switched_off_may_have_no_spacing():
    """Drivers of the field write ``enabled=CONF.interval > 0``."""
    assert declared(spacing=0, enabled=False).enabled is False


@pytest.mark.parametrize("filters", [[], "maintenance", {("a",): 1}, {1: 2}])
def test_filters_are_a_mapping_of_names(filters):
    refused("filters", filters=filters)


@pytest.mark.parametrize("value", ["clean wait", None, 5, {"a": 1}])
def test_a_filter_for_several_values_takes_a_list(value):
    refused("provision_state_in", "list", filters={"provision_state_in": value})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("enabled", 1),
        ("shared_task", "no"),
        ("limit", 0),
        ("limit", True),
        ("limit", 2.5),
        ("predicate", "x"),
        ("predicate_extra_fields", "driver"),
        ("predicate_extra_fields", [1]),
    ],
)
def test_options_of_a_wrong_type_are_refused(option, value):
    refused(option, **{"predicate": bool, option: value})


def test_extra_fields_without_a_predicate_are_refused():
    refused("predicate", predicate_extra_fields=["driver"])


@pytest.mark.parametrize(
    ("method", "takes"),
    [
        (lambda self, task: None, 1),
        (lambda self, task, context: None, 2),
        (lambda self, task, manager, context: None, 3),
        (lambda self, task, manager=None, context=None, more=None: None, 3),
        (lambda self, *args: None, 3),
        (lambda *args, **kwargs: None, 3),
    ],
)
def test_a_method_is_given_what_it_takes(method, takes):
    assert declared(method=method).takes == takes


@pytest.mark.parametrize(
    "method",
    [
        lambda: None,
        lambda self: None,
        lambda self, task, manager, context, more: None,
        lambda self, task, *, more: None,
    ],
)
def test_a_method_that_cannot_be_called_is_refused(method):
    refused("(self, task, manager, context)", method=method)


async def _async(self, task):
    pass


@pytest.mark.parametrize("method", [_async, staticmethod(lambda self, task: None)])
def test_what_is_no_plain_method_is_refused(method):
    refused("cannot be a periodic method", method=method)


def test_the_decorator_needs_its_parentheses():
    with pytest.raises(exceptions.StepDeclarationError, match=r"@node_periodic\(60\)"):
        base.node_periodic(lambda self, task: None)


class Parent(base.BaseInterface):
    @base.node_periodic(60)
    def look(self, task):
        pass

    @base.deploy_step(0)
    def go(self, task):
        pass


def test_periodic_methods_are_inherited_and_are_no_steps():
    child = type("Child", (Parent,), {"interface_type": "raid"})
    assert list(child.declared_periodics) == ["look"]
    assert list(child.declared_steps["deploy"]) == ["go"]
    assert dict(base.RAIDInterface.declared_periodics) == {}


def test_an_override_without_decorator_is_told():
    with pytest.warns(UserWarning, match="'look', a periodic method of .*without @node_periodic"):
        child = type("Child", (Parent,), {"look": lambda self, task: None})
    assert dict(child.declared_periodics) == {}


def test_a_mark_that_a_wrapper_loses_is_refused():
    def forgets(func):
        return lambda *args: func(*args)

    with pytest.raises(exceptions.StepDeclarationError, match="was declared a periodic method"):

        class Lossy(base.BaseInterface):
            @forgets
            @base.node_periodic(60)
            def look(self, task):
                pass


def test_wrappers_of_others_may_stand_above_and_below():
    """As the timers that drivers of the field wrap their methods in."""

    def timed(func):
        @functools.wraps(func)
        def wrapper(*args, **kwargs):
            return func(*args, **kwargs)

        return wrapper

    class Timed(base.BaseInterface):
        @timed
        @base.node_periodic(60)
        @timed
        def look(self, task, manager, context):
            pass

    assert Timed.declared_periodics["look"].takes == 3


@pytest.mark.parametrize("name", ["validate", "check_step", "__init__"])
def test_what_the_engine_calls_is_no_periodic_method(name):
    with pytest.raises(exceptions.StepDeclarationError, match="cannot be a periodic method"):
        type("Bad", (base.BaseInterface,), {name: base.node_periodic(1)(lambda self, task: None)})
