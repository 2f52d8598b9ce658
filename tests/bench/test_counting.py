"""What the benchmark counts as a statement and as a commit."""

from __future__ import annotations

import threading
from pathlib import Path

from sqlalchemy import create_engine, text

from benchmarks import measuring


def test_only_statements_on_rows_and_commits_of_writes_count(tmp_path: Path) -> None:
    path = tmp_path / "db.sqlite"
    measuring.use_wal(path)
    engine = create_engine(f"sqlite:///{path}")
    with engine.begin() as connection:
        connection.execute(text("CREATE TABLE t (i INTEGER)"))
    counter = measuring.Counter()

    def write() -> None:
        with engine.begin() as connection:
            connection.execute(text("INSERT INTO t VALUES (1)"))

    write()  # before it counts
    with counter:
        write()
        with engine.begin() as connection:
            connection.exec_driver_sql("PRAGMA user_version")
            connection.execute(text("SELECT * FROM t"))
        with engine.connect() as connection:
            connection.execute(text("UPDATE t SET i = 2"))
            connection.rollback()
        other = threading.Thread(target=write)
        other.start()
        other.join()
    write()  # after it counted
    assert counter.statements == 3
    assert counter.commits == 1
    assert counter.seconds > 0
    with engine.connect() as connection:
        assert measuring.settings_of(connection)["journal_mode"] == "wal"
        assert measuring.settings_of(connection)["synchronous"] == "full"
    engine.dispose()
