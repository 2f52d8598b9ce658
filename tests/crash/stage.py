"""Where the stories of the crash matrix are told, each life in a fork."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any
from uuid import uuid4

from deploysteps import exceptions, states
from deploysteps.db import nodes, runs
from deploysteps.db.engine import Database
from deploysteps.db.models import Node
from tests import support
from tests.crash import checks
from tests.crash.journal import journal
from tests.crash.scenarios import Scenario
from tests.crash.stepwise import Served, Stepwise, drive, eyes_of, points, watched

HOST, OTHER = "conductor-1", "conductor-2"


def _hasty(database: Database) -> str:
    """Return the database's URL, for commits that need to survive a process and no power cut."""
    url = database.url
    if url.get_backend_name() == "postgresql":
        url = url.update_query_dict({"options": "-c synchronous_commit=off"})
    return url.render_as_string(hide_password=False)


class Stage:
    """A warmed-up process; a story is told in forks of it."""

    def __init__(
        self, database: Database, conf: Any, scenario: Scenario, path: Path, *, served: bool
    ) -> None:
        """Set it up.

        :param served: conductors are whole services, with threads.
        """
        self.conf = conf
        self.scenario = scenario
        self.database = watched(Database(_hasty(database), connect_wait=5))
        self.eyes = eyes_of(self.database)
        self.registry = support.registry(conf, **scenario.interfaces)
        self.uuid = ""
        self._kind = Served if served else Stepwise
        journal.path = path

    def set_up(self) -> None:
        """Forget the last telling."""
        journal.path.unlink(missing_ok=True)
        self.uuid = str(uuid4())

    def warm_up(self) -> None:
        """Tell it once in this process: what is compiled then is there in each fork.

        Without threads, since a fork would not have them; and leaving no
        connection, since a fork must not share one.
        """
        kind, self._kind = self._kind, Stepwise
        self.set_up()
        self.live(HOST)
        self._kind = kind
        self.database.dispose()
        gc.collect()
        gc.freeze()

    # --- in forks ---

    def first_life(self, at: int) -> None:
        """Live until the ``at``-th point, or until the story ends."""
        conductor = self.conductor(HOST)
        conductor.start()
        self.node(conductor)
        points.arm(at)
        self._tell(conductor)

    def next_life(self, host: str, at: int = 0, *, unlocked: bool = False) -> None:
        """Recover as ``host``, tell the rest and check all; die at a point if there is one.

        :param unlocked: an operator breaks the dead one's lock, before its time is over.
        """
        before = checks.Before(self.eyes, self.uuid)
        try:
            checks.events_agree(self.eyes, before.node)
            if host != HOST:
                self._is_left_to_a_conductor_that_may_live(host, before)
                before.lock_broken = unlocked and self._unlock(host, before)
                checks.aged(self.eyes, HOST)
            points.arm(at)
            self.live(host)
            points.arm(0)
            checks.check(self.eyes, self.scenario, before, self.uuid)
        except BaseException as exc:
            exc.add_note(f"a crash left it {before}")
            now = checks.Before(self.eyes, self.uuid)
            exc.add_note(f"now it is {now}, error {now.node.last_error}")
            raise

    def live(self, host: str) -> None:
        """Start as ``host`` and tell the story to its end; start again when it stops in it."""
        while True:
            conductor = self.conductor(host)
            conductor.start()
            self._tell(conductor)
            if not conductor.runtime.stopping.is_set():
                return

    def conductor(self, host: str) -> Stepwise:
        return self._kind(self.database, self.conf, self.registry, host)

    def node(self, conductor: Stepwise) -> Node:
        try:
            return nodes.get(self.eyes, self.uuid)
        except exceptions.NodeNotFound:
            values = {
                "uuid": self.uuid,
                "driver": "test-hardware",
                "provision_state": self.scenario.before,
                **self.scenario.values,
            }
            if self.scenario.instance:
                values |= {"instance_uuid": self.uuid, "instance_info": {"image_source": "one"}}
            return conductor.manager.create_node(None, values)

    def _tell(self, conductor: Stepwise) -> None:
        """Tell the story from where it is."""
        node = self.node(conductor)
        if node.provision_state == self.scenario.before and not self._was_asked(node):
            self.scenario.begin(conductor, node)
        while not conductor.runtime.stopping.is_set():
            node = drive(conductor, self.eyes, self.uuid, self.scenario.world)
            if not checks.is_to_go_on(self.scenario, node, runs.of_node(self.eyes, node.id)):
                return
            self.scenario.go_on(conductor, node)

    def _was_asked(self, node: Node) -> bool:
        if self.scenario.steps:
            return bool(runs.of_node(self.eyes, node.id, limit=1))
        return bool(journal.lines()) or node.last_error is not None

    def _unlock(self, host: str, before: checks.Before) -> bool:
        if before.node.reservation is None:
            return False
        self.conductor(host).manager.unlock_node(None, self.uuid, "its host burns")
        return True

    def _is_left_to_a_conductor_that_may_live(self, host: str, before: checks.Before) -> None:
        node = before.node
        if node.reservation is None and node.provision_state in states.TRANSIENT_STATES:
            return  # left for anybody, by a conductor that stopped
        self.conductor(host).start()
        after = checks.Before(self.eyes, self.uuid)
        assert after.node.lock_token == node.lock_token, "it was taken from a conductor that lives"
        assert after.node.generation == node.generation
        if before.attempt is not None and after.attempt is not None:
            assert after.attempt.conductor == before.attempt.conductor == HOST
