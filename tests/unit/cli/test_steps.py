import json

import pytest


def test_steps_are_listed_without_a_service(ok):
    found = json.loads(ok("steps", "list", "--driver", "fake-hardware", "--json").stdout)
    named = {(step["interface"], step["step"]): step for step in found if step["default"]}
    core = named["deploy", "deploy"]
    assert core["priority"] == 100 and core["default"] and core["description"]
    assert named["deploy", "repeat"]["repeatable"] and not core["repeatable"]
    assert named["deploy", "poll"]["argsinfo"]["seconds"]["description"]
    assert "wait_for_agent" in ok("steps", "list", "--driver", "fake-hardware").stdout


@pytest.mark.parametrize(
    ("driver", "environment", "code", "told"),
    [
        ("fake-hardwear", {}, 3, "did you mean 'fake-hardware'"),
        ("fake-hardware", {"OS_DEFAULT__ENABLED_HARDWARE_TYPES": "nope"}, 6, "not installed"),
    ],
)
def test_what_is_not_there(failing, driver, environment, code, told):
    """F90: each cause has its own words."""
    found, line = failing("steps", "list", "--driver", driver, env=environment)
    assert found == code and told in line
