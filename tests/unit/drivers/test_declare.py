"""The declaration table: what a declaration may do, and what it gets."""

from __future__ import annotations

import enum
import functools
import inspect

import pytest

from deploysteps import exceptions, states
from deploysteps.drivers import base


def nowraps(func):
    def wrapper(*args, **kwargs):
        return func(*args, **kwargs)

    return wrapper


def withwraps(func):
    @functools.wraps(func)
    def wrapper(*args, **kwargs):
        return func(*args, **kwargs)

    return wrapper


def forgets(func):
    return lambda *args, **kwargs: None


def declared(priority=10, argsinfo=None, method=None, **options):
    """Create a class with one step ``go``, as an author's module would."""

    def fresh(self, task):
        return None

    class Made(base.BaseInterface):
        interface_type = "bios"
        go = base.deploy_step(priority, argsinfo, **options)(method or fresh)

    return Made


def _go(self, task):
    return None


def refused(make, *words):
    with pytest.raises(exceptions.StepDeclarationError) as caught:
        make()
    for word in words:
        assert word in str(caught.value)
    return str(caught.value)


ARG = {"description": "words"}


@pytest.mark.parametrize(
    "priority", [True, False, 10**30, 2**31, -1, 1.0, "5", None, b"1", [], float("nan")]
)
def test_a_priority_that_is_no_small_integer_is_refused(priority):
    """Table rows `priority=True` and `priority=10**30`."""
    refused(lambda: declared(priority), "priority", "integer from 0 to 2147483647")


@pytest.mark.parametrize("priority", [0, 1, 2**31 - 1, enum.IntEnum("P", {"A": 5}).A])
def test_integers_up_to_the_bound_are_priorities(priority):
    """Table row `priority=10**30`: the bound itself is fine."""
    declaration = declared(priority).declaration("deploy", "go")
    assert declaration.priority == priority
    assert type(declaration.priority) is int


def test_a_decorator_without_parentheses_is_refused():
    """Table row: `@deploy_step` without parentheses."""

    def make():
        class Sloppy(base.BaseInterface):
            @base.deploy_step
            def go(self, task):
                pass

    text = refused(make, "did you forget ()?", "Sloppy.go", "@deploy_step(50)")
    assert __file__ in text


@pytest.mark.parametrize("kind", [staticmethod, classmethod, property])
def test_a_decorator_without_parentheses_on_a_descriptor_is_refused(kind):
    """Table row: `@deploy_step` without parentheses."""
    refused(lambda: base.deploy_step(kind(_go)), "did you forget ()?", "_go")


@pytest.mark.parametrize("argsinfo", [[], (), "", 0, False, "name", ["name"]])
def test_argsinfo_of_a_wrong_type_is_refused(argsinfo):
    """Table row `argsinfo=[]`, `()`, `""`."""
    refused(lambda: declared(argsinfo=argsinfo), "argsinfo is a", "write a dict")


@pytest.mark.parametrize("key", [1, "", "a b", "1a", "a-b", None, ("a",), b"a"])
def test_argsinfo_keys_are_names(key):
    """Table row `argsinfo={1: {...}}`."""
    refused(lambda: declared(argsinfo={key: ARG}), "key", "write an argument's name")


@pytest.mark.parametrize(
    ("info", "words"),
    [
        (None, "write {'description'"),
        ("text", "write {'description'"),
        ({}, "no 'description'"),
        ({"description": ""}, "no 'description'"),
        ({"description": "  "}, "no 'description'"),
        ({"description": 5}, "no 'description'"),
        ({**ARG, "required": "yes"}, "'required' is"),
        ({**ARG, "required": 1}, "'required' is"),
        ({**ARG, "secret": None}, "'secret' is"),
        ({**ARG, "type": "string"}, "unknown keys ['type']"),
        ({**ARG, "schema": "string"}, "no JSON Schema"),
        ({**ARG, "schema": None}, "no JSON Schema"),
        ({**ARG, "schema": {"type": "text"}}, "no JSON Schema"),
        ({**ARG, "schema": {"pattern": "("}}, "no JSON Schema"),
        ({**ARG, "schema": {"enum": [object()]}}, "cannot be written as JSON"),
        ({**ARG, "schema": {"maximum": float("inf")}}, "cannot be written as JSON"),
        ({**ARG, "schema": {"$ref": "https://example.org/schema"}}, "leads nowhere"),
        ({**ARG, "schema": {"items": {"$ref": "#/$defs/missing"}}}, "leads nowhere"),
    ],
)
def test_what_argsinfo_says_of_an_argument_is_checked(info, words):
    """F9, F10: a declaration that cannot check anything is refused at once."""

    def go(self, task, arg=None):
        pass

    refused(lambda: declared(argsinfo={"arg": info}, method=go), "argsinfo['arg']", words)


def test_a_schema_may_refer_to_its_own_parts():
    def go(self, task, arg=None):
        pass

    schema = {"$ref": "#/$defs/word", "$defs": {"word": {"type": "string"}}}
    made = declared(argsinfo={"arg": {**ARG, "schema": schema}}, method=go)
    base.validate_step_args(made.declaration("deploy", "go").argsinfo, {"arg": "x"}, step="bios.go")


def test_an_argument_that_the_method_lacks_is_refused():
    """Table row: argsinfo names an arg the method lacks."""
    refused(lambda: declared(argsinfo={"size": ARG}), "'size'", "no such argument", "fresh")


def test_an_argument_that_only_position_can_give_is_refused():
    """Table row: argsinfo names an arg the method lacks; the engine passes by name."""

    def go(self, task, size=1, /):
        pass

    refused(lambda: declared(argsinfo={"size": ARG}, method=go), "'size'", "no such argument")


@pytest.mark.parametrize("argsinfo", [None, {}, {"other": ARG}])
def test_an_argument_that_the_method_needs_must_be_declared(argsinfo):
    """Table row: method needs an arg that is not in argsinfo."""

    def go(self, task, size, other=None):
        pass

    refused(lambda: declared(argsinfo=argsinfo, method=go), "needs the argument 'size'")


def test_a_needed_keyword_only_argument_must_be_declared():
    """Table row: method needs an arg that is not in argsinfo."""

    def go(self, task, *, size):
        pass

    refused(lambda: declared(method=go), "needs the argument 'size'")


def test_an_argument_without_default_cannot_be_declared_optional():
    """Of the same kind: it would be a TypeError in mid-deployment."""

    def go(self, task, size):
        pass

    refused(lambda: declared(argsinfo={"size": {**ARG, "required": False}}, method=go), "default")


def test_an_argument_without_default_is_required():
    def go(self, task, size):
        pass

    argsinfo = {"size": dict(ARG)}
    made = declared(argsinfo=argsinfo, method=go)
    assert made.declaration("deploy", "go").argsinfo == {"size": {**ARG, "required": True}}
    assert argsinfo == {"size": ARG}, "the author's own dict stays as it was"


def test_an_argument_with_default_need_not_be_declared():
    def go(self, task, size=1):
        pass

    assert declared(method=go)().execute_deploy_step(None, {"step": "go"}) is None


@pytest.mark.parametrize("name", ["task", "self"])
def test_arguments_that_the_engine_passes_are_refused(name):
    """Table row: arg called `task`."""

    def go(self, task, **kwargs):
        pass

    refused(lambda: declared(argsinfo={name: ARG}, method=go), repr(name), "rename")


def test_an_argument_named_like_the_methods_own_task_is_refused():
    """Table row: arg called `task`, under the name that the author gave it."""

    def go(me, job, **kwargs):
        pass

    refused(lambda: declared(argsinfo={"job": ARG}, method=go), "'job'", "rename")


@pytest.mark.parametrize("method", [lambda: None, lambda self: None, lambda self, *, task: None])
def test_a_method_that_takes_no_task_is_refused(method):
    """Of the same kind: a TypeError in mid-deployment."""
    refused(lambda: declared(method=method), "takes no task")


def test_an_inner_wrapper_without_wraps_is_listed_by_its_attribute():
    """Table row: inner wrapper without `wraps`."""

    class Wrapped(base.BaseInterface):
        interface_type = "bios"

        @base.deploy_step(10)
        @nowraps
        def go(self, task):
            return states.DEPLOYWAIT

    assert [step["step"] for step in Wrapped().get_deploy_steps(None)] == ["go"]
    assert Wrapped().execute_deploy_step(None, {"step": "go"}) == states.DEPLOYWAIT


@pytest.mark.parametrize("decorator", [nowraps, forgets])
def test_a_mark_lost_under_an_outer_wrapper_is_refused(decorator):
    """Table row: inner wrapper without `wraps`, the other way round: the step would be lost."""

    def make():
        class Lossy(base.BaseInterface):
            @decorator
            @base.deploy_step(10)
            def go(self, task):
                pass

    text = refused(make, "Lossy.go", "functools.wraps", "@deploy_step on top")
    assert __file__ in text


def test_a_mark_lost_in_a_plain_mixin_is_refused_where_it_is_composed():
    """Table rows: mixin, inner wrapper without `wraps`."""

    class Mixin:
        @nowraps
        @base.deploy_step(10)
        def go(self, task):
            pass

    def make():
        class Lossy(Mixin, base.BaseInterface):
            pass

    refused(make, "Mixin.go")
    refused(make, "Mixin.go")


def test_two_steps_of_one_name_in_a_class_are_refused():
    """F4: nobody wins in silence."""

    def make():
        class Twice(base.BaseInterface):
            @base.deploy_step(10)
            def go(self, task):
                pass

            @base.deploy_step(20)
            def go(self, task):  # noqa: F811 - the mistake
                pass

    refused(make, "Twice.go", "defined twice")


def test_one_decorator_twice_is_refused():
    def make():
        class Twice(base.BaseInterface):
            @base.deploy_step(10)
            @base.deploy_step(20)
            def go(self, task):
                pass

    refused(make, "@deploy_step twice")


def test_a_lambda_is_a_step_under_its_attributes_name():
    """Table row: lambda."""

    class Short(base.BaseInterface):
        interface_type = "bios"
        go = base.deploy_step(10)(lambda self, task: states.DEPLOYWAIT)

    assert [step["step"] for step in Short().deploy_steps] == ["go"]
    assert Short().execute_deploy_step(None, {"step": "go"}) == states.DEPLOYWAIT


@pytest.mark.parametrize(
    ("wrap", "word"),
    [
        (staticmethod, "staticmethod"),
        (functools.partialmethod, "partialmethod"),
        (functools.partial, "partial"),
        (property, "property"),
        (functools.cached_property, "cached_property"),
    ],
)
@pytest.mark.parametrize("outside", [True, False])
def test_what_is_no_plain_method_is_refused(wrap, word, outside):
    """Table row: `staticmethod`, `partialmethod`."""

    def make():
        class Odd(base.BaseInterface):
            if outside:
                go = wrap(base.deploy_step(10)(lambda self, task: None))
            else:
                go = base.deploy_step(10)(wrap(lambda self, task: None))

    refused(make, word, "plain method")


class Callable:
    def __call__(self, task):
        pass


@pytest.mark.parametrize("thing", [5, None, "go", Callable, Callable(), Callable().__call__, len])
def test_what_does_not_bind_like_a_method_is_refused(thing):
    """Of the same kind as `staticmethod`: called without its instance, or not at all."""
    refused(lambda: base.deploy_step(10)(thing), "cannot be a step")


def test_a_method_that_cannot_be_marked_is_refused():
    refused(lambda: base.deploy_step(10)(dict.update), "write a plain method")


@pytest.mark.parametrize("outside", [True, False])
def test_a_classmethod_is_a_step(outside):
    """Table row: `classmethod`."""

    class Shared(base.BaseInterface):
        interface_type = "bios"

        def _go(cls, task):
            cls.ran = True

        if outside:
            go = classmethod(base.deploy_step(10)(_go))
        else:
            go = base.deploy_step(10)(classmethod(_go))

    Shared().execute_deploy_step(None, {"step": "go"})
    assert Shared.ran


async def _async(self, task):
    pass


def _generator(self, task):
    yield


async def _async_generator(self, task):
    yield


@pytest.mark.parametrize("method", [_async, _generator, _async_generator])
@pytest.mark.parametrize("wrap", [lambda func: func, withwraps])
def test_a_body_that_a_call_does_not_run_is_refused_at_decoration(method, wrap):
    """Table row: `async def` / generator, also under a wrapper that just passes it on."""
    refused(lambda: base.deploy_step(10)(wrap(method)), "does not run its body", method.__name__)


def test_a_step_made_async_by_a_later_decorator_is_refused():
    """Table row: `async def` / generator."""

    def to_async(func):
        @functools.wraps(func)
        async def wrapper(*args, **kwargs):
            return func(*args, **kwargs)

        return wrapper

    def make():
        class Late(base.BaseInterface):
            @to_async
            @base.deploy_step(10)
            def go(self, task):
                pass

    refused(make, "Late.go", "async")


@pytest.mark.parametrize("retries", [1, 3])
def test_retries_need_a_repeatable_step(retries):
    """Table row: `retries` on a step that is not `repeatable`."""
    refused(lambda: declared(retries=retries), "repeatable=True")
    assert declared(retries=retries, repeatable=True).declaration("deploy", "go").retries == retries


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("retries", -1),
        ("retries", True),
        ("retries", 1.5),
        ("retries", None),
        ("retry_delay", -1),
        ("retry_delay", None),
        ("retry_delay", "1"),
        ("retry_delay", float("nan")),
        ("timeout", -1),
        ("timeout", True),
        ("timeout", "60"),
        ("timeout", float("inf")),
        ("timeout", 1e300),
        ("abortable", 1),
        ("abortable", None),
        ("repeatable", "yes"),
    ],
)
def test_options_of_a_wrong_type_or_size_are_refused(option, value):
    """F40 for what a declaration sets."""
    options = {"repeatable": True, option: value}
    refused(lambda: declared(**options), f"@deploy_step({option}=")


@pytest.mark.parametrize("wrap", [withwraps, functools.lru_cache])
@pytest.mark.parametrize("outside", [True, False])
def test_stacked_decorators_that_wrap_properly_work(wrap, outside):
    """Table row: stacked decorators of others, above or below, with `functools.wraps`."""

    def _go(self, task, size=None):
        return states.DEPLOYWAIT

    class Stacked(base.BaseInterface):
        interface_type = "bios"
        if outside:
            go = wrap(base.deploy_step(10, {"size": ARG})(_go))
        else:
            go = base.deploy_step(10, {"size": ARG})(wrap(_go))

    assert [step["step"] for step in Stacked().deploy_steps] == ["go"]
    assert Stacked().execute_deploy_step(None, {"step": "go"}) == states.DEPLOYWAIT


def test_the_signature_is_that_of_the_innermost_function():
    """Table row: the signature check follows `__wrapped__`."""

    def make():
        class Hidden(base.BaseInterface):
            @base.deploy_step(10)
            @withwraps
            def go(self, task, size):
                pass

    refused(make, "'size'")


def test_any_arguments_are_accepted_by_star_args():
    """Table row: the signature check accepts `*args, **kwargs`."""

    def go(*args, **kwargs):
        return kwargs and None

    made = declared(argsinfo={"size": ARG}, method=go)
    made().execute_deploy_step(None, {"step": "go", "args": {"size": 3}})


def test_a_decorated_function_stays_what_it_was():
    def go(self, task, size=1):
        """Words."""

    before = inspect.signature(go)
    assert base.deploy_step(10)(go) is go
    assert inspect.signature(go) == before


def test_errors_name_file_line_class_and_method():
    """Promise 11."""

    def make():
        class Place(base.BaseInterface):
            @base.deploy_step(-1)
            def go(self, task):
                pass

    text = refused(make, "Place.go")
    assert text.startswith(f"{__file__}:")
    assert isinstance(exceptions.StepDeclarationError("x"), TypeError)
