"""``[database]``: where everything is kept."""

from __future__ import annotations

from oslo_config import cfg

from deploysteps.conf.types import Seconds

GROUP = cfg.OptGroup("database", title="Database", help="Where everything is kept.")

OPTS: list[cfg.Opt] = [
    cfg.StrOpt(
        "connection",
        default="sqlite:///$state_path/deploysteps.sqlite",
        secret=True,
        help=(
            "The database as SQLAlchemy spells it: sqlite:///relative/path, "
            "sqlite:////absolute/path, postgresql+psycopg://user:password@host/name or "
            "mysql+pymysql://user:password@host/name?charset=utf8mb4. Write a $ as $$. One "
            "process can use SQLite; several need a server."
        ),
    ),
    cfg.Opt(
        "busy_timeout",
        type=Seconds(min=1, max=3600),
        default=30,
        help="Seconds that a write waits for another process's write (SQLite only).",
    ),
    cfg.IntOpt(
        "max_pool_size",
        default=20,
        min=1,
        max=1000,
        help="Connections that are kept open.",
    ),
    cfg.IntOpt(
        "max_overflow",
        default=50,
        min=0,
        max=1000,
        help="Connections beyond max_pool_size in times of need. 0: none.",
    ),
    cfg.Opt(
        "pool_timeout",
        type=Seconds(min=1, max=3600),
        default=30,
        help="Seconds that a piece of work waits for a free connection before it fails.",
    ),
    cfg.Opt(
        "connect_wait",
        type=Seconds(max=86_400),
        default=60,
        help=(
            "Seconds that the start waits for a database that does not answer; it says what "
            "it waits for. 0: do not wait."
        ),
    ),
]
