"""The floor: one UPDATE and one COMMIT for each step, and nothing else.

This is the least that an engine can do which records a step durably before it goes on, with
the same library (SQLAlchemy Core, compiled statements, a pooled connection), on the same kind
of file with the same settings. What lies above it is the price of everything an engine adds.
"""

from __future__ import annotations

import json
from importlib.metadata import version

from sqlalchemy import Column, Integer, MetaData, String, Table, Text, create_engine, update

from benchmarks import measuring

nodes = Table(
    "nodes",
    MetaData(),
    Column("id", Integer, primary_key=True),
    Column("uuid", String(36), unique=True),
    Column("deploy_step", Text),
    Column("deploy_step_index", Integer),
)


def main() -> None:
    """Measure and print the line."""
    args = measuring.arguments(__doc__ or "", ("sync",))
    path = args.directory.resolve() / "floor.sqlite"
    measuring.use_wal(path)
    measuring.use_foreign_keys()
    engine = create_engine(f"sqlite:///{path}")
    nodes.metadata.create_all(engine)
    with engine.begin() as connection:
        connection.execute(nodes.insert().values(id=1, uuid="0" * 36))

    def record(number: int) -> None:
        step = {"interface": "deploy", "step": f"step_{number:04}", "priority": 50}
        with engine.begin() as connection:
            connection.execute(
                update(nodes)
                .where(nodes.c.id == 1)
                .values(deploy_step=json.dumps(step), deploy_step_index=number)
            )

    record(0)  # the first one compiles the statement
    counter = measuring.Counter()
    with counter:
        for number in range(args.steps):
            record(number)
    with engine.connect() as connection:
        settings = measuring.settings_of(connection)
    measuring.report(
        peer="floor",
        version=f"SQLAlchemy {version('sqlalchemy')}",
        kind=args.kind,
        steps=args.steps,
        counter=counter,
        settings=settings,
    )


if __name__ == "__main__":
    main()
