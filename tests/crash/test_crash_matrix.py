"""A process is killed (SIGKILL) at every point between two SQL statements (F34, F43-F54, F63).

``make crash`` tries every point of the dense stories of a deployment, with four sequels: the
same conductor starts again, another takes over, the one that starts again is killed as well,
and an operator breaks the lock. Of the others, of the same stories in the other flows, and of
work of one call, it tries a part of the points (:func:`density`). ``make test`` tries a sample.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

import pytest

from deploysteps import exceptions
from deploysteps.db import nodes, runs
from deploysteps.steps import FLOWS
from tests.crash import checks
from tests.crash.scenarios import (
    ALIKE,
    DENSE,
    DEPLOY,
    ELSEWHERE,
    IN_DEPLOY,
    IN_JOBS,
    JOBS,
    SCENARIOS,
)
from tests.crash.stage import HOST, OTHER, Stage
from tests.crash.stepwise import forked, points


def restarted(stage: Stage, at: int) -> None:
    forked(lambda: stage.next_life(HOST))


def taken_over(stage: Stage, at: int) -> None:
    forked(lambda: stage.next_life(OTHER))


def killed_again(stage: Stage, at: int) -> None:
    """Kill the recovery as well, at another point each time, then let it be."""
    second = 1 + at * 7 % 60
    if forked(lambda: stage.next_life(HOST, second)).killed:
        forked(lambda: stage.next_life(HOST))


def unlocked(stage: Stage, at: int) -> None:
    """Let an operator break the lock, and another conductor go on."""
    forked(lambda: stage.next_life(OTHER, unlocked=True))


Sequel = Callable[[Stage, int], None]


def in_turn(*sequels: Sequel) -> Sequel:
    """Let another of the sequels follow each kill."""
    told = itertools.count()
    return lambda stage, at: sequels[next(told) % len(sequels)](stage, at)


ELSEWISE = (taken_over, killed_again, unlocked)
EACH = (restarted, *ELSEWISE)
SEQUELS: dict[str, tuple[tuple[Sequel, ...], int]] = {
    # what follows a kill, and every how many-th of the points that are tried it is tried at
    "restarted": ((restarted,), 1),
    "elsewise": (ELSEWISE, 3),
}


def tell_until_every_point(stage: Stage, sequel: Sequel, step: int) -> int:
    """Kill at each ``step``-th point until the story ends first; returns how many."""
    at, killed = 1, 0
    while True:
        stage.set_up()
        ended = forked(lambda at=at: stage.first_life(at))
        try:
            sequel(stage, at)
        except AssertionError as exc:
            exc.add_note(f"killed at point {at}")
            raise
        if not ended.killed:
            return killed
        killed += 1
        at += step


def density(name: str, kind: str) -> int:
    """Return how far the points are apart that are tried.

    What all stories share is told by the dense ones; what is new in another is tried by its
    part of the points, on the cheapest database by the most.
    """
    way, server = SCENARIOS[name].way, kind != "sqlite"
    if way in JOBS:
        return 7 if server else 3
    if way is not DEPLOY:
        return 29 if server else 13
    if name in DENSE:
        return 2 if server and name in ALIKE else 1
    return 13 if server else 4


@pytest.mark.crash
@pytest.mark.timeout(900)
@pytest.mark.parametrize("sequel", SEQUELS)
@pytest.mark.parametrize("name", IN_DEPLOY)
def test_nothing_is_lost_run_twice_or_stuck_wherever_it_is_killed(stage, name, sequel, kind, tried):
    """F34, F43, F54, F63; F46 and F47 where another conductor takes over."""
    calls, each = SEQUELS[sequel]
    if name in DENSE and kind == "sqlite":
        each = 1
    killed = tell_until_every_point(stage(name), in_turn(*calls), each * density(name, kind))
    tried(killed, of=f"{name}, {sequel}", on=kind)


@pytest.mark.crash
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ELSEWHERE + IN_JOBS)
def test_nothing_is_lost_run_twice_or_stuck_in_any_other_flow(stage, name, kind, tried):
    """The same stories by the same code, at a part of their points, by each sequel in turn."""
    killed = tell_until_every_point(stage(name), in_turn(*EACH), density(name, kind))
    tried(killed, of=f"{name}, in turn", on=kind)


@pytest.mark.crash
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["repeatable", "once", "once-provide"])
def test_nothing_is_lost_when_a_whole_service_is_killed(stage, name, kind, tried):
    """F34, F54: with all its threads; each eleventh point, since their order varies."""
    found = stage(name, served=True)
    tried(tell_until_every_point(found, restarted, 11), of=f"{name}, a service", on=kind)


SAMPLE = [
    "repeatable",
    "aborted-waiting",
    "stopping",
    "undeployed",
    "aborted-running-provide",
    "reserved-clean",
    "resumed-at-service",
    "repeatable-verify",
]
"""At least one story of each flow."""


@pytest.mark.parametrize("kind", ["sqlite"])
@pytest.mark.parametrize("name", SAMPLE)
def test_a_sample_of_the_crash_matrix(stage, name, kind, tried):
    """F34, F54: some points of some stories; ``make crash`` tries them all."""
    killed = tell_until_every_point(stage(name), in_turn(*EACH), 9)
    tried(killed, of=f"{name}, a sample", on=kind)


def test_the_sample_has_a_story_of_each_flow():
    assert {SCENARIOS[name].way.flow.name for name in SAMPLE} == set(FLOWS)


def deleted(stage: Stage, at: int) -> None:
    """Let a node wait, and be deleted in maintenance; die at a point of the deletion."""
    conductor = stage.conductor(HOST)
    conductor.start()
    node = stage.node(conductor)
    stage.scenario.begin(conductor, node)
    conductor.manager.set_node_maintenance(None, node.uuid, True)
    points.arm(at)
    conductor.manager.destroy_node(None, node.uuid)


def deleted_again(stage: Stage) -> None:
    """Check that the node is there as a whole or not at all, and delete it if it is."""
    flow = stage.scenario.way.flow
    conductor = stage.conductor(HOST)
    conductor.start()
    left = [node for node in nodes.listing(stage.eyes) if node.uuid == stage.uuid]
    for node in left:
        assert node.reservation is None
        assert node.provision_state in (flow.waiting, flow.failed)
        if node.provision_state == flow.failed:
            checks.nothing_is_left(node, runs.of_node(stage.eyes, node.id)[0])
        conductor.manager.destroy_node(None, node.uuid)
    with pytest.raises(exceptions.NodeNotFound):
        nodes.get(stage.eyes, stage.uuid)


@pytest.mark.crash
@pytest.mark.parametrize("name", ["told", "told-provide", "told-service"])
def test_a_deletion_that_is_killed_leaves_a_whole_node_or_none(stage, name, kind, tried):
    """F37, F54: its run is ended and then the node removed; either has happened as a whole."""
    found, at = stage(name), 1
    while True:
        found.set_up()
        ended = forked(lambda at=at: deleted(found, at))
        forked(lambda: deleted_again(found))
        if not ended.killed:
            break
        at += 1
    tried(at - 1, of=f"{name}, deleted", on=kind)
