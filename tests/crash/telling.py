"""Tells a deed in forks of a process, and kills it at each of its points."""

from __future__ import annotations

import itertools

from deploysteps import exceptions
from deploysteps.db import conductors, nodes
from deploysteps.db.models import Node
from tests.crash import checks
from tests.crash.deeds import Deed
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
