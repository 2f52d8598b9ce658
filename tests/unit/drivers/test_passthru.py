"""Vendor methods: how they are declared, found and refused."""

from __future__ import annotations

import functools

import pytest

from deploysteps import exceptions, steps
from deploysteps.drivers import base, fake, passthru
from tests.support import Vendor


def one(decorator, name="do_it"):
    """Return a class with one method that carries a decorator."""

    def do_it(self, task, http_method, bar=None):
        return bar

    return type("One", (Vendor,), {name: decorator(do_it)})


def test_what_is_declared_is_found():
    cls = one(base.passthru(["post", "Get"], description="Do it"))
    (route,) = cls.vendor_routes.values()
    assert (route.name, route.attribute) == ("do_it", "do_it")
    assert route.shown() == {
        "http_methods": ["POST", "GET"],
        "async": True,
        "description": "Do it",
        "attach": False,
        "require_exclusive_lock": True,
    }
    assert cls.driver_routes == {} and Vendor.vendor_routes == {}


def test_one_name_for_callers_and_another_in_the_class():
    options = {"method": "other", "async_call": False, "attach": True}
    route = one(base.driver_passthru(["GET"], **options)).driver_routes["other"]
    assert route.attribute == "do_it" and route.require_exclusive_lock is None
    assert "require_exclusive_lock" not in route.shown() and route.shown()["attach"] is True


def test_classes_inherit_override_and_drop():
    class First(Vendor):
        @base.passthru(["GET"])
        def a(self, task, http_method): ...

        @base.passthru(["GET"])
        def b(self, task, http_method): ...

    class Second(First):
        @base.passthru(["POST"])
        def a(self, task, http_method): ...

        def b(self, task, http_method): ...

    assert Second.vendor_routes["a"].http_methods == ("POST",)
    assert set(Second.vendor_routes) == {"a"} and set(First.vendor_routes) == {"a", "b"}


def test_methods_of_plain_mixins_are_found():
    class Mixin:
        @base.passthru(["GET"])
        def a(self, task, http_method): ...

    class Mixed(Mixin, Vendor): ...

    assert set(Mixed.vendor_routes) == {"a"}


@pytest.mark.parametrize("first", ["step", "passthru"])
def test_a_step_may_be_a_vendor_method_as_well(first):
    """As the field's fake driver has it: both decorators, in either order."""
    marks = [base.clean_step(priority=1), base.passthru(["POST"])]
    if first == "passthru":
        marks.reverse()

    class Both(Vendor):
        @marks[0]
        @marks[1]
        def log_passthrough(self, task, **kwargs): ...

    assert set(Both.vendor_routes) == {"log_passthrough"}
    assert Both.declaration(steps.CLEAN.name, "log_passthrough").priority == 1


def test_a_decorator_above_keeps_the_mark():
    def timed(function):
        @functools.wraps(function)
        def inner(*args, **kwargs):
            return function(*args, **kwargs)

        return inner

    class Timed(Vendor):
        @timed
        @base.passthru(["POST"])
        def a(self, task, http_method): ...

    assert set(Timed.vendor_routes) == {"a"}


async def _later(self, task, http_method): ...


@pytest.mark.parametrize(
    ("declare", "why"),
    [
        (lambda: one(base.passthru([])), "needs a list of HTTP methods"),
        (lambda: one(base.passthru("GET")), "needs a list of HTTP methods"),
        (lambda: one(base.passthru(["GET", "BREW"])), "each one of GET, POST"),
        (lambda: one(base.passthru(["GET"], attach=True)), "add async_call=False"),
        (lambda: base.passthru(["GET"])(_later), "an async function cannot be a vendor method"),
        (lambda: base.passthru(["GET"])(staticmethod(len)), "staticmethod"),
        (
            lambda: one(lambda f: base.passthru(["GET"])(base.passthru(["GET"])(f))),
            "@passthru twice",
        ),
    ],
)
def test_what_could_not_work_is_refused_where_it_stands(declare, why):
    with pytest.raises(exceptions.StepDeclarationError, match=why) as told:
        declare()
    assert "test_passthru.py" in str(told.value) or "len" in str(told.value)


def test_two_methods_of_one_name_are_refused():
    with pytest.raises(exceptions.StepDeclarationError, match="two methods @passthru of the name"):

        class Two(Vendor):
            @base.passthru(["GET"], method="x")
            def a(self, task, http_method): ...

            @base.passthru(["GET"])
            def x(self, task, http_method): ...


def test_arguments_that_do_not_fit():
    def method(task, http_method, bar, other=1): ...

    assert passthru.misfit(method, None, {"bar": 1}, "GET") is None
    assert "bar" in passthru.misfit(method, None, {}, "GET")
    assert "zzz" in passthru.misfit(method, None, {"bar": 1, "zzz": 1}, "GET")
    assert passthru.not_to_give({"bar": 1}) is None
    assert "'task'" in passthru.not_to_give({"bar": 1, "task": 1})


def test_the_fake_driver_has_the_field_s_methods():
    """Names, ways and words as in the field, for whoever tries them."""
    found = {name: route.shown() for name, route in fake.FakeVendor.vendor_routes.items()}
    assert {name: (one["async"], one["require_exclusive_lock"]) for name, one in found.items()} == {
        "first_method": (True, True),
        "second_method": (True, True),
        "third_method_sync": (False, True),
        "fourth_method_shared_lock": (True, False),
    }
    assert all(one["http_methods"] == ["POST"] for one in found.values())
