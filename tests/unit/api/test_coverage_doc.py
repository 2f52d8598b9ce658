"""What the documentation says is built is built, and what is not is named."""

from __future__ import annotations

import re
from pathlib import Path

from deploysteps import states
from deploysteps.api import versions
from deploysteps.api.app import resources
from deploysteps.api.call import Services

DOC = (Path(__file__).parents[3] / "doc" / "api-coverage.rst").read_text("utf-8")


def test_every_path_is_in_the_documentation(conf):
    built = DOC.split("What is not built yet\n")[0]
    for path in resources(Services(conf, None, None)):  # type: ignore[arg-type]
        told = re.sub(r"\{\w+\}", "<>", path.removeprefix("/"))
        assert f"{told}``" in re.sub(r"<\w+>", "<>", built), path


def test_every_target_that_is_not_built_is_in_the_documentation():
    missing = DOC.split("What is not built yet\n")[1]
    for target in set(versions.TARGETS) - set(states.VERBS):
        assert re.search(rf"\b{target}\b", missing), target
