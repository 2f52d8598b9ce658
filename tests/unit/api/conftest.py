"""The API over an SQLite file, with a conductor that only remembers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from deploysteps.db import migration, nodes, ports
from deploysteps.db.engine import Database
from tests.support_api import Api, Recording


@pytest.fixture(scope="session")
def schema(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file with the schema: copying it is much cheaper than migrating hundreds of times."""
    path = tmp_path_factory.mktemp("schema") / "deploysteps.sqlite"
    database = Database(f"sqlite:///{path}")
    migration.ensure(database)
    database.dispose()
    return path


@pytest.fixture
def sqlite(schema: Path, tmp_path: Path) -> Iterator[Database]:
    path = tmp_path / "deploysteps.sqlite"
    shutil.copy(schema, path)
    database = Database(f"sqlite:///{path}")
    yield database
    database.dispose()


@pytest.fixture
def conductor():
    return Recording()


@pytest.fixture
def api(conf, sqlite, conductor):
    return Api(conf, sqlite, conductor)


@pytest.fixture
def node(sqlite):
    return nodes.insert(
        sqlite, {"name": "n1", "driver": "fake-hardware", "provision_state": "available"}
    )


@pytest.fixture
def port(sqlite, node):
    values = {"node_id": node.id, "node_uuid": node.uuid, "address": "52:54:00:00:00:01"}
    return ports.insert(sqlite, values)
