"""DBOS running a workflow of no-op steps in this process. Runs in DBOS's environment.

``sync``: one workflow that calls N functions decorated with ``@DBOS.step()``, each of which
returns at once; DBOS records every step's result before the next one runs. Timed: the call of
the workflow, from its first record to its result.

DBOS makes its own engine and its own schema. The threads that it keeps for queues and
notifications run as they do in any application, but are not counted.
"""

from __future__ import annotations

import logging
import os
from importlib.metadata import version

import measuring
from dbos import DBOS, DBOSConfig

ran = 0


@DBOS.step()
def no_op(number: int) -> None:
    """Do nothing."""
    global ran
    ran += 1


@DBOS.workflow()
def deploy(steps: int) -> int:
    """Run the steps one after another."""
    for number in range(steps):
        no_op(number)
    return steps


def main() -> None:
    """Measure and print the line."""
    args = measuring.arguments(__doc__ or "", ("sync",))
    path = args.directory.resolve() / "dbos.sqlite"
    if not args.as_shipped:
        measuring.use_wal(path)
    config: DBOSConfig = {"name": "bench", "system_database_url": f"sqlite:///{path}"}
    instance = DBOS(config=config)
    DBOS.launch()
    logging.getLogger("dbos").setLevel(logging.WARNING)
    # The settings belong to connections, so they are asked of the engine that DBOS made.
    with instance._sys_db.engine.connect() as connection:
        settings = measuring.settings_of(connection)

    deploy(1)  # imports, prepared statements and the first connection
    counter = measuring.Counter()
    with counter:
        deploy(args.steps)
    if ran != args.steps + 1:
        raise RuntimeError(f"{ran} steps ran instead of {args.steps + 1}")
    measuring.report(
        peer="dbos",
        version=version("dbos"),
        kind=args.kind,
        steps=args.steps,
        counter=counter,
        settings=settings,
    )
    os._exit(0)  # its threads need not be waited for


if __name__ == "__main__":
    main()
