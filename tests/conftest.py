"""Fixtures: a configuration, a database of each kind, a conductor."""

from __future__ import annotations

import gc
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from oslo_config import cfg

from deploysteps import conf as configuration
from deploysteps.conductor.service import Service
from deploysteps.db import migration
from deploysteps.db.engine import Database
from deploysteps.db.models import Base

SERVERS = {
    "postgresql": os.environ.get(
        "DEPLOYSTEPS_TEST_POSTGRESQL", "postgresql+psycopg://postgres@127.0.0.1:5432/postgres"
    ),
    "mysql": os.environ.get("DEPLOYSTEPS_TEST_MYSQL", "mysql+pymysql://root@127.0.0.1:3306/mysql"),
}
KINDS = ("sqlite", *SERVERS)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Let the garbage collector pass over what lives as long as the session: thousands of tests."""
    gc.collect()
    gc.freeze()


def refuse_or_skip(reason: str) -> None:
    """Skip, or fail where every service has to be there."""
    if os.environ.get("DEPLOYSTEPS_REQUIRE_SERVICES"):
        pytest.fail(reason)
    pytest.skip(reason)


class Servers:
    """Databases of this test process on the servers, made when first asked for."""

    def __init__(self) -> None:
        self._urls: dict[str, str] = {}
        self._why: dict[str, str] = {}

    def url(self, kind: str) -> str:
        if kind not in self._urls and kind not in self._why:
            self._make(kind)
        if kind in self._why:
            refuse_or_skip(self._why[kind])
        return self._urls[kind]

    def _make(self, kind: str) -> None:
        admin = sa.make_url(SERVERS[kind])
        name = f"deploysteps_test_{os.getpid()}"
        try:
            self._execute(kind, f"DROP DATABASE IF EXISTS {name}", f"CREATE DATABASE {name}")
        except Exception as exc:
            self._why[kind] = f"no {kind} server at {admin.host}:{admin.port}: {exc}"
            return
        self._urls[kind] = admin.set(database=name).render_as_string(hide_password=False)

    def _execute(self, kind: str, *statements: str) -> None:
        engine = sa.create_engine(SERVERS[kind], isolation_level="AUTOCOMMIT")
        try:
            with engine.connect() as connection:
                for statement in statements:
                    connection.exec_driver_sql(statement)
        finally:
            engine.dispose()

    def drop(self) -> None:
        for kind, url in self._urls.items():
            force = " WITH (FORCE)" if kind == "postgresql" else ""
            self._execute(kind, f"DROP DATABASE {sa.make_url(url).database}{force}")


@pytest.fixture(scope="session")
def servers() -> Iterator[Servers]:
    """The database servers of this machine."""
    found = Servers()
    yield found
    found.drop()


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    """Each kind of database in turn."""
    return str(request.param)


@pytest.fixture(scope="session")
def memory() -> Iterator[Path]:
    """A folder, in memory where there is such a place: a test's database survives no power cut."""
    place = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=place, ignore_cleanup_errors=True) as folder:
        yield Path(folder)


@pytest.fixture(scope="session")
def migrated(memory: Path) -> Path:
    """An SQLite file with the schema, to be copied: making it anew each time is slow."""
    file = memory / "migrated.sqlite"
    made = Database(f"sqlite:///{file}")
    migration.ensure(made)
    made.dispose()
    return file


@pytest.fixture
def folder(memory: Path) -> Iterator[Path]:
    """The folder of a test's databases; who works until the test has ended asks for it, too."""
    with tempfile.TemporaryDirectory(dir=memory, ignore_cleanup_errors=True) as found:
        yield Path(found)


@pytest.fixture
def url(kind: str, servers: Servers, folder: Path) -> str:
    """The URL of a database of this kind, with whatever the last test left in it."""
    if kind != "sqlite":
        return servers.url(kind)
    own = folder / "url"
    own.mkdir()
    return f"sqlite:///{own}/deploysteps.sqlite"


@pytest.fixture
def database(kind: str, url: str, migrated: Path) -> Iterator[Database]:
    """A database of each kind with the schema and no rows."""
    if kind == "sqlite":
        shutil.copy(migrated, str(sa.make_url(url).database))
    found = Database(url, connect_wait=5)
    found.wait_ready(print)
    if kind != "sqlite":
        emptied(found)
        found.dispose()  # no test finds more connections for being the first, which made the schema
    yield found
    found.dispose()


@pytest.fixture
def sqlite(migrated: Path, folder: Path) -> Iterator[Database]:
    """An SQLite file with the schema and no rows."""
    shutil.copy(migrated, folder / "deploysteps.sqlite")
    found = Database(f"sqlite:///{folder}/deploysteps.sqlite")
    yield found
    found.dispose()


def emptied(database: Database) -> None:
    """Make the schema if it is not there, and remove every row."""
    migration.ensure(database)
    with database.engine.begin() as connection:
        for one in reversed(Base.metadata.sorted_tables):
            if one.name != "schema_revisions":
                connection.execute(sa.delete(one))


@pytest.fixture
def conf(tmp_path: Path) -> cfg.ConfigOpts:
    """A configuration of its own, with short clocks."""
    found = cfg.ConfigOpts()
    configuration.register(found)
    configuration.setup(config_files=[], conf=found)
    found.set_override("state_path", str(tmp_path))
    found.set_override("host", "conductor-1")
    for name, value in {
        "step_poll_interval": 0.2,
        "node_locked_retry_interval": 0.05,
        "heartbeat_interval": 0.5,
        "heartbeat_timeout": 30,
        "recovery_interval": 1,
        "graceful_shutdown_timeout": 5,
        "workers_pool_size": 20,
    }.items():
        found.set_override(name, value, group="conductor")
    return found


Start = Callable[..., Service]


@pytest.fixture
def start(conf: cfg.ConfigOpts, folder: Path) -> Iterator[Start]:
    """Start conductors: ``start(database, vendor=MyVendor)``; stopped at the end."""
    from tests import support

    started: list[Service] = []

    def begin(database: Database, *, host: str | None = None, **classes: Any) -> Service:
        if host is not None:
            conf.set_override("host", host)
        service = Service(conf, database=database, registry=support.registry(conf, **classes))
        service.start()
        started.append(service)
        return service

    yield begin
    for service in reversed(started):
        service.stop(5)
