"""What a service that starts does not load: parts of its memory and of its start that show."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import pytest

HEAVY = (
    "alembic",
    "difflib",
    "requests",
    "rich",
    "sqlalchemy.dialects.mysql",
    "sqlalchemy.dialects.postgresql",
)


def run(code: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The modules of a process that began to serve on a schema that is there."""
    folder = tmp_path_factory.mktemp("light")
    start = f"""
        import sys
        from oslo_config import cfg
        from deploysteps import conf
        from deploysteps.cli import serve, app
        from deploysteps.cli.db import refuse_other_file
        found = conf.setup(config_files=[])
        found.set_override("state_path", {str(folder)!r})
        found.set_override("connection", "sqlite:///{folder}/d.sqlite", group="database")
        found.set_override("enabled_deploy_interfaces", ["fake"])
        from deploysteps.api.app import create_app
        from deploysteps.api.server import Server
        from deploysteps.conductor.service import Service
        service = Service(found)
        refuse_other_file(service.database)
        service.start()
        create_app(found, service.database, service.client)
        print(*sys.modules)
        sys.stdout.flush()
        service.stop()
        """
    run(start)  # makes the schema, for which alembic is needed
    return set(run(start).split())


@pytest.mark.parametrize("name", HEAVY)
def test_serving_does_without(loaded: set[str], name: str) -> None:
    assert "deploysteps.api.app" in loaded and "sqlalchemy.dialects.sqlite" in loaded
    assert name not in loaded
