"""TaskFlow running a linear flow of no-op tasks here. Runs in TaskFlow's environment.

``sync``: a ``linear_flow`` of N tasks on the serial engine, with the SQLAlchemy persistence
backend; TaskFlow records every task's state when it starts and when it ends. Timed:
``engine.run()``. Compiling the flow and inserting one row for each task are not.
"""

from __future__ import annotations

from importlib.metadata import version

import measuring
from taskflow import engines, task
from taskflow.patterns import linear_flow
from taskflow.persistence import backends
from taskflow.persistence.backends.impl_sqlalchemy import SQLAlchemyBackend
from taskflow.utils import persistence_utils

ran = 0


class NoOp(task.Task):
    """Do nothing."""

    def execute(self) -> None:
        """Count, so that a short run is not taken for a fast one."""
        global ran
        ran += 1


def main() -> None:
    """Measure and print the line."""
    args = measuring.arguments(__doc__ or "", ("sync",))
    path = args.directory.resolve() / "taskflow.sqlite"
    if not args.as_shipped:
        measuring.use_wal(path)
        measuring.use_foreign_keys()
    backend = backends.fetch({"connection": f"sqlite:///{path}"})
    assert isinstance(backend, SQLAlchemyBackend)
    connection = backend.get_connection()
    connection.upgrade()
    book, detail = persistence_utils.temporary_flow_detail(backend)
    flow = linear_flow.Flow("deploy").add(*(NoOp(f"step_{i:04}") for i in range(args.steps)))
    engine = engines.load(flow, engine="serial", backend=backend, book=book, flow_detail=detail)
    engine.compile()
    engine.prepare()
    counter = measuring.Counter()
    with counter:
        engine.run()
    if ran != args.steps:
        raise RuntimeError(f"{ran} steps ran instead of {args.steps}")
    with backend.engine.connect() as look:
        settings = measuring.settings_of(look)
    measuring.report(
        peer="taskflow",
        version=version("taskflow"),
        kind=args.kind,
        steps=args.steps,
        counter=counter,
        settings=settings,
    )


if __name__ == "__main__":
    main()
