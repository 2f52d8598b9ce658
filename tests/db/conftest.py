"""Databases for the tests of the db room."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from deploysteps.db import nodes
from deploysteps.db.engine import Database
from deploysteps.db.models import Node
from tests.conftest import KINDS, Servers


def _new_url(kind: str, servers: Servers, folder: Path, name: str) -> str:
    """Return the URL of a database in which nothing is, not even the schema."""
    if kind == "sqlite":
        return f"sqlite:///{folder}/{name}.sqlite"
    url = sa.make_url(servers.url(kind))
    admin = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    force = " WITH (FORCE)" if kind == "postgresql" else ""
    with admin.connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {url.database}_{name}{force}")
        connection.exec_driver_sql(f"CREATE DATABASE {url.database}_{name}")
    admin.dispose()
    return url.set(database=f"{url.database}_{name}").render_as_string(hide_password=False)


def _drop(kind: str, servers: Servers, name: str) -> None:
    if kind == "sqlite":
        return
    url = sa.make_url(servers.url(kind))
    force = " WITH (FORCE)" if kind == "postgresql" else ""
    admin = sa.create_engine(url, isolation_level="AUTOCOMMIT")
    with admin.connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {url.database}_{name}{force}")
    admin.dispose()


@pytest.fixture
def blank(kind: str, servers: Servers, tmp_path: Path) -> Iterator[Database]:
    """A database of each kind in which nothing is, not even the schema."""
    found = Database(_new_url(kind, servers, tmp_path, "blank"), connect_wait=5)
    found.wait_ready(print)
    yield found
    found.dispose()
    _drop(kind, servers, "blank")


@pytest.fixture(scope="module", params=KINDS)
def shared(
    request: pytest.FixtureRequest, servers: Servers, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Database]:
    """A database of each kind for all tests of a module, which fills it itself."""
    kind = str(request.param)
    folder = tmp_path_factory.mktemp("shared")
    found = Database(_new_url(kind, servers, folder, "shared"), connect_wait=5)
    found.wait_ready(print)
    yield found
    found.dispose()
    _drop(kind, servers, "shared")


Make = Callable[..., Node]


@pytest.fixture
def make() -> Make:
    """Insert a node: ``make(database, name="n")``."""

    def insert(database: Database, **values: Any) -> Node:
        return nodes.insert(
            database, {"driver": "fake-hardware", "provision_state": "available", **values}
        )

    return insert
