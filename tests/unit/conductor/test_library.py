"""Templates and runbooks are checked when they are saved, and listed when they do not fit."""

from __future__ import annotations

import types
from typing import Any

import pytest

from deploysteps import exceptions
from deploysteps.conductor import library, steps
from deploysteps.db import runbooks, templates
from deploysteps.drivers import base
from deploysteps.steps import CLEAN, DEPLOY, SERVICE
from tests import support

SECRET = "hunter2"
SIZE = {
    "size": {
        "description": "how large",
        "required": True,
        "schema": {"type": "object", "properties": {"gb": {"type": "integer", "maximum": 9}},
                   "additionalProperties": False},
    },
    "key": {"description": "a key", "required": False, "secret": True,
            "schema": {"type": "string", "maxLength": 3}},
}  # fmt: skip


class RAID(base.RAIDInterface):
    """Steps of every flow."""

    def get_properties(self) -> dict[str, str]:
        return {}

    def validate(self, task: Any, *args: Any, **kwargs: Any) -> None:
        return None

    def create_configuration(self, task: Any, **kwargs: Any) -> None:
        return None

    def delete_configuration(self, task: Any) -> None:
        return None

    @base.deploy_step(priority=0, argsinfo=SIZE)
    @base.clean_step(priority=0, argsinfo=SIZE, requires_ramdisk=False)
    def build(self, task: Any, size: Any, key: str | None = None) -> None:
        return None

    @base.clean_step(priority=0, argsinfo=SIZE)
    def scrub(self, task: Any, size: Any, key: str | None = None) -> None:
        return None

    @base.service_step(requires_ramdisk=False)
    def tune(self, task: Any) -> None:
        return None


class Vendor(support.Vendor):
    @base.deploy_step(priority=0, argsinfo={"a": {"description": "x", "required": True}})
    def flash(self, task: Any, a: Any) -> None:
        return None


class OtherVendor(support.Vendor):
    @base.deploy_step(priority=0, argsinfo={"b": {"description": "x", "required": True}})
    def flash(self, task: Any, b: Any) -> None:
        return None


class Both:
    """A registry that offers two implementations of the vendor interface."""

    def __init__(self, one: Any, two: Any) -> None:
        self._two = (one, two)

    def offers(self) -> list[Any]:
        return [
            offer._replace(hardware_type=str(number))
            for number, registry in enumerate(self._two)
            for offer in registry.offers()
        ]

    def interfaces(self, driver: str, kind: str) -> Any:
        return self._two[int(driver)].interfaces("test-hardware", kind)


def step(name: str, interface: str = "raid", **more: Any) -> dict[str, Any]:
    return {"interface": interface, "step": name, **more}


def good(name: str = "build", **more: Any) -> dict[str, Any]:
    return step(name, args={"size": {"gb": 5}}, **more)


@pytest.fixture
def registry(conf):
    return support.registry(conf, raid=RAID, vendor=Vendor)


@pytest.fixture
def runtime(registry, sqlite):
    return types.SimpleNamespace(registry=registry, database=sqlite)


def template(runtime, *listed, name="CUSTOM_T", **more):
    values = {"name": name, "steps": list(listed), **more}
    return library.create_deploy_template(runtime, None, values)


def runbook(runtime, *listed, name="CUSTOM_R", **more):
    return library.create_runbook(runtime, None, {"name": name, "steps": list(listed), **more})


# --- saving -------------------------------------------------------------------------------


def test_a_template_through_its_life(runtime):
    made = template(runtime, good(priority=50), step("reboot", "power", priority=10))
    assert made.steps == [
        good(priority=50),
        {"interface": "power", "step": "reboot", "args": {}, "priority": 10},
    ]
    assert made.extra == {}
    changed = library.update_deploy_template(
        runtime, None, "CUSTOM_T", {"name": "HW_RAID", "steps": [good(priority=1)]}
    )
    assert changed.uuid == made.uuid and changed.steps == [good(priority=1)]
    with pytest.raises(exceptions.DeployTemplateDuplicateName):
        template(runtime, good(priority=1), name="HW_RAID")
    library.destroy_deploy_template(runtime, None, "HW_RAID")
    for call in (
        lambda: library.destroy_deploy_template(runtime, None, "HW_RAID"),
        lambda: library.update_deploy_template(runtime, None, made.uuid, {"extra": {}}),
    ):
        with pytest.raises(exceptions.DeployTemplateNotFound):
            call()


def test_a_runbook_is_stored_in_its_order(runtime):
    """F13: no priority is asked for; ``order`` is optional."""
    made = runbook(runtime, good(), step("hold", "deploy"), good(), public=True, description="d")
    assert [(s["step"], s["order"]) for s in made.steps] == [
        ("build", 1),
        ("hold", 2),
        ("build", 3),
    ]
    changed = library.update_runbook(
        runtime,
        None,
        made.uuid,
        {"steps": [good(order=7), step("wait", "deploy", order=2, args={"seconds": 1})]},
    )
    assert [s["step"] for s in changed.steps] == ["wait", "build"] and changed.public
    library.destroy_runbook(runtime, None, "CUSTOM_R")
    with pytest.raises(exceptions.RunbookNotFound):
        library.update_runbook(runtime, None, "CUSTOM_R", {"extra": {}})


@pytest.mark.parametrize("make", [template, runbook])
@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"name": "lower"}, "'lower' cannot be the name of a (deploy template|runbook)"),
        ({"name": None}, "needs name"),
        ({"steps": []}, "CUSTOM_.: steps must be a list of steps; it is empty"),
        ({"steps": None}, "needs steps"),
        ({"steps": {"a": SECRET}}, "not object"),
        ({"steps": [SECRET]}, "a step must be an object, not string"),
        ({"colour": SECRET}, "has no 'colour'"),
        ({"id": 5}, "has no 'id'"),
    ],
)
def test_what_is_no_template_or_runbook(runtime, make, wrong, told):
    """F15: each is the caller's mistake, and in words; nothing is stored."""
    with pytest.raises(exceptions.InvalidParameterValue, match=told) as error:
        make(runtime, **({"steps": [step("tune")]} | wrong))
    assert error.value.code == 400 and SECRET not in str(error.value)
    assert templates.listing(runtime.database) == runbooks.listing(runtime.database) == []


WRONG = {
    "unknown interface": (step("build", "radi", args={}), "unknown interface; one of bios"),
    "no name": (step("", args={}), "has no name"),
    "unknown key": (good(colour=SECRET), "raid.build has an unknown key 'colour'"),
    "args no object": (step("build", args=[SECRET]), "args must be an object"),
    "args missing": (step("build"), "raid.build: missing required argument 'size'"),
    "args unknown": (step("build", args={"size": {}, "sise": SECRET}), "unknown argument 'sise'"),
    "args type": (step("build", args={"size": SECRET}), "must be of type object, not string"),
    "args nested": (step("build", args={"size": {"gb": 1, "mb": 2}}), "has unknown keys 'mb'"),
    "args secret": (step("build", args={"size": {}, "key": SECRET}), "'key' must have at most 3"),
    "reserved": (step("wait", "deploy", args={"seconds": -1}), "must be at least 0"),
    "reserved args": (step("hold", "power", args={"x": SECRET}), "unknown argument 'x'"),
}


@pytest.mark.parametrize("case", sorted(WRONG))
@pytest.mark.parametrize("make", [template, runbook])
def test_a_step_that_is_wrong(runtime, make, case):
    """F9, F10: at request time, by name, nested ones too; no value is told (F12)."""
    wrong, told = WRONG[case]
    place = "priority" if make is template else "order"
    with pytest.raises(exceptions.InvalidParameterValue, match=told) as error:
        make(runtime, {**wrong, place: 5})
    assert SECRET not in str(error.value)
    assert templates.listing(runtime.database) == runbooks.listing(runtime.database) == []


@pytest.mark.parametrize("case", [name for name in sorted(WRONG) if name.startswith("args ")])
def test_the_same_list_has_the_same_error_inline_and_saved(runtime, case):
    """F12: one path of validation."""
    wrong, _ = WRONG[case]
    offered = [
        {**one, "source": "driver"}
        for one in RAID().get_deploy_steps(None)
    ]  # fmt: skip
    request = [{**wrong, "priority": 5}]
    texts = []
    for call in (
        lambda: steps.plan(steps.Offer(offered), [steps.Layer("request", request)], DEPLOY),
        lambda: template(runtime, *request),
        lambda: runbook(runtime, wrong),
    ):
        with pytest.raises(exceptions.InvalidParameterValue) as error:
            call()
        texts.append(str(error.value))
    assert len(set(texts)) == 1


def test_priorities_of_a_template(runtime):
    for priority in (None, -1, 2**31, "5", True, 1.5):
        with pytest.raises(exceptions.InvalidParameterValue, match="raid.build: priority must be"):
            template(runtime, good(priority=priority))
    with pytest.raises(
        exceptions.InvalidParameterValue, match="raid.build is in template .* twice"
    ):
        template(runtime, good(priority=5), good(priority=6))
    with pytest.raises(
        exceptions.InvalidParameterValue, match="core step deploy.deploy can be dis"
    ):
        template(runtime, step("deploy", "deploy", priority=5))
    template(runtime, step("deploy", "deploy", priority=0), good(priority=5))


def test_orders_of_a_runbook(runtime):
    for order in (-1, 2**31, "5", True, 1.5):
        with pytest.raises(exceptions.InvalidParameterValue, match="raid.build: order must be"):
            runbook(runtime, good(order=order))
    with pytest.raises(
        exceptions.InvalidParameterValue, match="give it to all of them, or to none"
    ):
        runbook(runtime, good(order=1), good())


def test_a_runbook_fits_cleaning_or_servicing(runtime):
    runbook(runtime, good("build"), good("scrub"), name="CUSTOM_CLEAN")
    runbook(runtime, step("tune"), step("reboot", "power"), name="CUSTOM_SERVICE")
    with pytest.raises(exceptions.InvalidParameterValue) as told:
        runbook(runtime, good("scrub"), step("tune"))
    assert "fits no flow" in str(told.value)
    assert "clean: no enabled interface has raid.tune;" in str(told.value)
    assert "service: no enabled interface has raid.scrub)" in str(told.value)


def test_a_runbook_without_the_ramdisk(runtime):
    made = runbook(runtime, good("build"), disable_ramdisk=True)
    with pytest.raises(exceptions.InvalidParameterValue, match="raid.scrub needs the ramdisk"):
        library.update_runbook(runtime, None, made.uuid, {"steps": [good("scrub")]})
    other = runbook(runtime, good("scrub"), name="CUSTOM_S")
    with pytest.raises(exceptions.InvalidParameterValue, match="raid.scrub needs the ramdisk"):
        library.update_runbook(runtime, None, other.uuid, {"disable_ramdisk": True})


def test_a_step_that_an_agent_may_bring_is_saved(runtime):
    template(runtime, step("burn_in", "deploy", args={"any": [1]}, priority=5))
    runbook(runtime, step("burn_in", "deploy", args={"any": [1]}))
    assert [(p.what, p.name, p.certain) for p in problems(runtime)] == [
        ("deploy template", "CUSTOM_T", False),
        ("runbook", "CUSTOM_R", False),
    ]


def test_one_of_the_implementations_has_to_take_the_arguments(runtime, conf, registry):
    runtime.registry = Both(registry, support.registry(conf, vendor=OtherVendor))
    for args in ({"a": 1}, {"b": 1}):
        template(runtime, step("flash", "vendor", args=args, priority=5), name=f"CUSTOM_{args!s:.3}"
                 .replace("{'", "").upper())  # fmt: skip
    with pytest.raises(
        exceptions.InvalidParameterValue, match="vendor.flash: unknown argument 'c'"
    ):
        template(runtime, step("flash", "vendor", args={"c": SECRET}, priority=5))


def test_a_change_that_does_not_touch_the_steps_does_not_check_them(runtime, conf):
    """Who renames a template need not mend it first; the upgrade check names it."""
    made = template(runtime, good(priority=5))
    runtime.registry = support.registry(conf, raid=Changed)
    changed = library.update_deploy_template(runtime, None, made.uuid, {"name": "CUSTOM_NEW"})
    assert changed.name == "CUSTOM_NEW"
    with pytest.raises(exceptions.InvalidParameterValue, match="the uuid .* cannot be changed"):
        library.update_deploy_template(runtime, None, made.uuid, {"uuid": "x"})
    before = {"extra": {"other": 1}}
    with pytest.raises(exceptions.Conflict, match="extra of .* was changed"):
        library.update_deploy_template(runtime, None, made.uuid, {"extra": {}}, before)


# --- the upgrade check --------------------------------------------------------------------


class Changed(RAID):
    """As a later release of the driver: ``build`` gained a required argument, ``tune`` went."""

    @base.deploy_step(
        priority=0, argsinfo={**SIZE, "level": {"description": "x", "required": True}}
    )
    @base.clean_step(priority=0, argsinfo={**SIZE, "level": {"description": "x", "required": True}})
    def build(self, task: Any, size: Any, level: str, key: str | None = None) -> None:
        return None


def problems(runtime):
    return library.problems(runtime.registry, runtime.database)


def test_what_does_not_fit_any_more_is_named(runtime, conf):
    template(runtime, good(priority=5), name="CUSTOM_B")
    template(runtime, step("reboot", "power", priority=5), name="CUSTOM_A")
    template(runtime, good(priority=0), name="CUSTOM_OFF")
    runbook(runtime, good("build"), name="CUSTOM_C")
    runbook(runtime, step("tune"), name="CUSTOM_D")
    assert problems(runtime) == []
    runtime.registry = support.registry(conf, raid=Changed)
    text = "raid.build: missing required argument 'level'"
    assert problems(runtime) == [
        ("deploy template", "CUSTOM_B", text, True),
        ("runbook", "CUSTOM_C", text, True),
    ]


def test_one_list_that_is_no_list_does_not_hide_the_others(runtime):
    """Whatever stands in the table, it is told, not raised."""
    templates.insert(
        runtime.database,
        {"name": "CUSTOM_BAD", "steps": [{"interface": "x", "step": "y"}], "extra": {}},
    )
    template(runtime, step("burn_in", "deploy", priority=5))
    found = problems(runtime)
    assert [(p.name, p.certain) for p in found] == [("CUSTOM_BAD", True), ("CUSTOM_T", False)]
    assert "unknown interface" in found[0].text


def test_check_by_itself(registry):
    """For whoever has steps and no row: a plan, a default list."""
    library.check(registry, (DEPLOY,), [good(priority=5)], "template X")
    library.check(registry, (CLEAN, SERVICE), [good()], "runbook X")
    with pytest.raises(exceptions.InvalidParameterValue, match="missing required argument 'size'"):
        library.check(registry, (CLEAN,), [step("build")], "runbook X")
