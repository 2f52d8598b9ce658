"""A process is killed at every point of what is no run of steps (F21, F34, F37, F54).

Allocations, ports, traits, power, maintenance, broken locks: ``make crash`` tries every
point of each, on every database.
"""

from __future__ import annotations

import pytest

from tests.crash.deeds import DEEDS


@pytest.mark.crash
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", DEEDS)
def test_a_deed_that_is_killed_happens_as_a_whole_or_not_at_all(telling, name, kind, tried):
    found = telling(DEEDS[name])
    every = 1 if kind == "sqlite" else found.deed.every
    tried(found.told(every), of=f"{name}, in turn", on=kind)
