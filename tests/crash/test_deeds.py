"""A process is killed at every point of what is no run of steps (F21, F34, F37, F54).

Allocations, ports, traits, power, maintenance, broken locks: ``make crash`` tries every
point of each, on every database.
"""

from __future__ import annotations

import gc
import itertools
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deploysteps import exceptions
from deploysteps.db import conductors, nodes
from deploysteps.db.engine import Database
from deploysteps.db.models import Node
from tests.crash import checks
from tests.crash.deeds import DEEDS, LOST, Deed
from tests.crash.stage import HOST, OTHER, Stage
from tests.crash.stepwise import forked, points

DAY = 86_400


class Telling:
    """A deed, told in forks of this process."""

    def __init__(self, stage: Stage, deed: Deed) -> None:
        self.stage, self.deed = stage, deed

    def first_life(self, at: int) -> None:
        """Do it, until the ``at``-th point or to its end."""
        stage = self.stage
        conductor = stage.conductor(HOST)
        conductor.start()
        node = stage.node(conductor)
        self.deed.before(conductor, node)
        points.arm(at)
        self.deed.act(conductor, nodes.get(stage.eyes, node.id))
        points.arm(0)

    def next_life(self, host: str) -> None:
        """Start as ``host``, and check that it has happened as a whole or not at all."""
        stage = self.stage
        for other in conductors.alive_names(stage.eyes, DAY) - {host}:
            checks.aged(stage.eyes, other)
        conductor = stage.conductor(host)
        conductor.database = stage.eyes
        conductor.start()
        self.deed.is_whole(conductor, self._node)

    @property
    def _node(self) -> Node:
        """The node as it is, or the little that deeds need to know of one that is gone."""
        try:
            return nodes.get(self.stage.eyes, self.stage.uuid)
        except exceptions.NodeNotFound:
            return Node(id=-1, uuid=self.stage.uuid)

    def told(self, every: int) -> int:
        """Kill it at each of so many of its points; returns at how many."""
        for killed, host in enumerate(itertools.cycle([HOST, OTHER])):
            at = 1 + killed * every
            self.stage.set_up()
            ended = forked(lambda at=at: self.first_life(at))
            try:
                forked(lambda host=host: self.next_life(host))
            except AssertionError as exc:
                exc.add_note(f"killed at point {at}, then {host} came")
                raise
            if not ended.killed:
                return killed
        raise AssertionError


@pytest.fixture
def telling(database: Database, conf: Any, tmp_path: Path) -> Iterator[Callable[[str], Telling]]:
    made: list[Stage] = []

    def make(name: str) -> Telling:
        deed = DEEDS[name]
        conductors.register(database, LOST, "x" * 32, [])
        checks.aged(database, LOST)
        database.dispose()
        made.append(Stage(database, conf, deed.story, tmp_path / "journal", served=False))
        found = Telling(made[0], deed)
        made[0].set_up()
        found.first_life(0)
        found.next_life(HOST)
        made[0].database.dispose()
        gc.collect()
        gc.freeze()
        return found

    with warnings.catch_warnings():
        # The threads of the test runner do not matter to what a fork does here.
        warnings.simplefilter("ignore", DeprecationWarning)
        yield make
    for found in made:
        found.database.dispose()
    gc.unfreeze()
    gc.collect()
    gc.freeze()  # as tests/conftest.py does


@pytest.mark.crash
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", DEEDS)
def test_a_deed_that_is_killed_happens_as_a_whole_or_not_at_all(telling, name, kind, tried):
    found = telling(name)
    every = 1 if kind == "sqlite" else found.deed.every
    tried(found.told(every), of=f"{name}, in turn", on=kind)
