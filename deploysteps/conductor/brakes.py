"""Refuses work that would put more nodes into a flow than the operator allows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import sqlalchemy as sa

from deploysteps import exceptions
from deploysteps.db import brakes
from deploysteps.steps import StepFlow


def check(task: Any, flow: StepFlow) -> Callable[[sa.Connection], None]:
    """Return what refuses, last in the transaction by which a node enters a flow.

    It raises ``ConcurrentActionLimit``, naming the setting, and nothing is written.
    """
    limit = task.runtime.conf.conductor[flow.brake] if flow.brake else 0

    def refuse(connection: sa.Connection) -> None:
        others = brakes.count(connection, flow.braked) - 1 if limit else 0
        if limit and others >= limit:
            raise exceptions.ConcurrentActionLimit(
                task_type=flow.name,
                node=task.node.uuid,
                count=others,
                option=flow.brake,
                limit=limit,
            )

    return refuse
