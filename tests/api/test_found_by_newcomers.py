"""What somebody who met the API for the first time stumbled over."""

import pytest

from deploysteps.steps import RUNS


def saved(api, *steps):
    whole = [
        {"args": {}, "priority": 1, **dict(zip(("interface", "step"), s, strict=True))}
        for s in steps
    ]
    return api.post("/v1/deploy_templates", {"name": "CUSTOM_N", "steps": whole})


def test_a_step_that_nobody_has_is_saved_and_told(api):
    """It may be a typing error, or a step of a driver that comes later: no reason to refuse."""
    answer = saved(api, ("deploy", "erase_devics"), ("bios", "factory_reset"))
    assert answer.status == 201
    told = answer.headers["warning"]
    assert told.startswith(
        '299 deploysteps "no driver that is enabled here declares deploy.erase_devi'
    )
    assert "did you mean deploy.erase_devices?" in told and told.count("declares") == 1


def test_steps_that_are_there_are_saved_without_a_word(api):
    answer = saved(api, ("bios", "factory_reset"))
    assert answer.status == 201 and "warning" not in answer.headers


def test_what_is_told_of_a_step_is_fit_for_a_header(api):
    answer = saved(api, ("deploy", "d\u00e9ploy"))
    assert answer.status in (201, 400)
    assert answer.headers.get("warning", "").isascii()


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (
            [{"interface": "bios", "step": "x"}],
            "'args' is a required property in steps[0], and so is",
        ),
        ([{"interface": "bios"}], "and so are"),
    ],
)
def test_all_that_is_missing_is_named_at_once(api, body, told):
    fault = api.post("/v1/deploy_templates", {"name": "CUSTOM_N", "steps": body}).fault
    assert told in fault and "'args'" in fault and "'priority'" in fault
    assert "interface" not in fault


def test_every_kind_of_run_can_be_listened_for(api):
    for flow in RUNS:
        assert api.get(f"/v1/events/stream?flow={flow}").status in (200, 501)
