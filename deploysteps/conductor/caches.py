"""When what is known of a machine's settings and firmware is read anew."""

from __future__ import annotations

import logging
from typing import Any

from deploysteps import exceptions
from deploysteps.conductor import words
from deploysteps.conductor.attempts import PREPARE
from deploysteps.db.models import StepAttempt
from deploysteps.steps import VERIFY, StepFlow

LOG = logging.getLogger(__name__)

CACHES = {"bios": "cache_bios_settings", "firmware": "cache_firmware_components"}
"""Interface type -> the method that reads what it knows."""


def refresh(task: Any, flow: StepFlow, done: StepAttempt | None) -> None:
    """Read again what a step that ended well may have changed.

    That is what its interface knows; and all of it once a new node was reached.
    Nothing fails by it: the step has ended well, and what is known grows older.

    :raises LockLost: the work must stop.
    """
    if done is None:
        return
    reached = flow is VERIFY and done.position == PREPARE
    for kind in CACHES if reached else [done.interface]:
        if kind not in CACHES or (done.position == PREPARE and not reached):
            continue
        try:
            getattr(getattr(task.driver, kind), CACHES[kind])(task)
        except exceptions.UnsupportedDriverExtension:
            continue  # it has nothing to tell
        except BaseException as exc:  # as wherever a driver is called
            if task.lost:
                raise
            told = words.shown(words.text_of(exc), task.masker(), words.LAST_ERROR_BYTES)
            LOG.warning("Node %s: %s failed: %s", task.node.uuid, CACHES[kind], told)
