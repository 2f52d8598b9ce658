"""What a worker has done is not given up because the database is away."""

from __future__ import annotations

import logging
import threading

LOG = logging.getLogger(__name__)


class Patience:
    """Has the writes of a worker tried until the database takes them, or the conductor stops.

    The fence of the node's lock holds for however late a write: where another conductor has taken
    the node meanwhile, it finds that the lock is lost.
    """

    def __init__(self, node: str, stopping: threading.Event) -> None:
        """Tell of it in the name of this node."""
        self._node, self._stopping = node, stopping
        self._is_told = False

    def __call__(self, reason: str) -> bool:
        """Answer whether a write is tried once more."""
        if self._stopping.is_set():
            return False  # recovery goes on, after the next start, from what is written
        if not self._is_told:
            self._is_told = True
            LOG.error(
                "Node %s: the database does not take what was done: %s; it is kept, and tried "
                "again until it does",
                self._node,
                reason,
            )
        return True

    def over(self) -> None:
        """Tell that a write was done, if it had to be waited for."""
        if self._is_told:
            self._is_told = False
            LOG.info("Node %s: the database has taken what was done", self._node)
