"""The API over a real conductor, with hardware whose steps wait and can be let go."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import requests

from deploysteps import states
from deploysteps.api import middleware
from deploysteps.api.app import create_app
from deploysteps.api.server import Server
from deploysteps.drivers import base
from tests import support
from tests.support_api import Api


class Vendor(support.Vendor):
    """One step that waits for the agent, one that takes as long as the test wants."""

    go = threading.Event()

    @base.deploy_step(priority=0)
    def hang(self, task: Any) -> None:
        """Run until the test says so."""
        assert type(self).go.wait(30)

    @base.deploy_step(priority=50)
    def wait_for_agent(self, task: Any) -> str:
        """Go on elsewhere."""
        return states.DEPLOYWAIT

    @base.deploy_step(
        priority=0,
        argsinfo={"word": {"description": "what to say", "required": True, "secret": True}},
    )
    def say(self, task: Any, word: str) -> None:
        """Fail, telling a secret."""
        raise ValueError(f"cannot say {word}")


@pytest.fixture
def service(start, sqlite):
    Vendor.go.clear()
    yield start(sqlite, vendor=Vendor)
    Vendor.go.set()


@pytest.fixture
def api(conf, service):
    return Api(conf, service.database, service.client)


class Http:
    """A client of a real server."""

    def __init__(self, server: Server) -> None:
        self.server = server

    def __call__(self, method: str, path: str, body: Any = None, **more: Any) -> requests.Response:
        more.setdefault("headers", {middleware.HEADER: "latest"})
        more.setdefault("timeout", 60)
        if body is not None:
            more["json"] = body
        return requests.request(method, self.server.address + path, **more)


@pytest.fixture
def http_of(conf, service) -> Iterator[Callable[[], Http]]:
    """Start a server with what the configuration says by then."""
    conf.set_override("port", 0, group="api")
    started: list[Server] = []

    def begin() -> Http:
        server = Server(conf, create_app(conf, service.database, service.client))
        server.start()
        started.append(server)
        return Http(server)

    yield begin
    for server in started:
        server.stop()


@pytest.fixture
def http(http_of) -> Http:
    return http_of()
