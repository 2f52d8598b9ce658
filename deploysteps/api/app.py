"""The WSGI application: routes, and what happens around every request."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

import falcon
from oslo_config import cfg

from deploysteps.api import (
    agents,
    call,
    drivers,
    errors,
    node_views,
    nodes,
    ports,
    provision,
    root,
    saved,
    traits,
)
from deploysteps.api.middleware import REQUEST_ID_HEADERS, RequestLog, Versions
from deploysteps.conductor.rpc import Client
from deploysteps.db.engine import Database

LOG = logging.getLogger(__name__)


class App(falcon.App[falcon.Request, falcon.Response]):
    """Falcon, answering whatever a request raises."""

    def __call__(self, env: dict[str, Any], start_response: Any) -> Iterable[bytes]:
        """Answer a request.

        Code of drivers runs in requests. What it raises that is no
        ``Exception``, like ``SystemExit``, would stop the whole server.
        """
        try:
            return super().__call__(env, start_response)
        except BaseException as exc:
            request_id = call.Call().request_id
            asked = f"{env.get('REQUEST_METHOD')} {env.get('PATH_INFO')}"
            LOG.error("%s", errors.traced(f"{request_id}: {asked} failed", exc))
            body = errors.envelope(errors.internal(request_id))
            headers = [
                ("Content-Type", falcon.MEDIA_JSON),
                ("Content-Length", str(len(body))),
                *((name, request_id) for name in REQUEST_ID_HEADERS),
            ]
            start_response(falcon.HTTP_500, headers)
            return [body]


def create_app(conf: cfg.ConfigOpts, database: Database, client: Client) -> App:
    """Return the REST API as a WSGI application; any WSGI server can run it.

    :param client: reaches a conductor; see :class:`deploysteps.conductor.rpc.Client`.
    """
    services = call.Services(conf, database, client)
    app = App(middleware=[RequestLog(), Versions(services.newest)])
    app.req_options.strip_url_path_trailing_slash = True
    # For answers without a body: clients try to parse what is told to be JSON.
    app.resp_options.default_media_type = falcon.MEDIA_TEXT
    errors.install(app)
    app.add_route("/", root.Root(services))
    app.add_route("/v1", root.V1(services))
    for path, resource in resources(services).items():
        app.add_route(f"/v1{path}", resource)
        app.add_route(path, resource)  # where the "bookmark" links of answers lead
    return app


def resources(services: call.Services) -> dict[str, call.Resource]:
    """Return path below ``/v1`` -> what answers there."""
    # At most half of the threads are for agents, so that operators find one.
    gate = agents.Gate(max(1, services.conf.api.threads // 2))
    return {
        "/nodes": nodes.Nodes(services),
        "/nodes/detail": nodes.NodesDetail(services),
        "/nodes/{ident}": nodes.OneNode(services),
        "/nodes/{ident}/states": node_views.NodeStates(services),
        "/nodes/{ident}/states/provision": provision.Provision(services),
        "/nodes/{ident}/states/power": provision.Power(services),
        "/nodes/{ident}/validate": node_views.NodeValidate(services),
        "/nodes/{ident}/maintenance": provision.Maintenance(services),
        "/nodes/{ident}/ports": ports.NodePorts(services),
        "/nodes/{ident}/steps": node_views.NodeSteps(services),
        "/nodes/{ident}/plan": node_views.NodePlan(services),
        "/nodes/{ident}/lock": node_views.NodeLock(services),
        "/nodes/{ident}/traits": traits.NodeTraits(services),
        "/nodes/{ident}/traits/{trait}": traits.OneTrait(services),
        "/nodes/{ident}/history": node_views.NodeHistory(services),
        "/nodes/{ident}/history/{entry}": node_views.OneHistory(services),
        "/nodes/{ident}/runs": node_views.NodeRuns(services),
        "/ports": ports.Ports(services),
        "/ports/detail": ports.PortsDetail(services),
        "/ports/{ident}": ports.OnePort(services),
        "/drivers": drivers.Drivers(services),
        "/drivers/{name}": drivers.OneDriver(services),
        "/drivers/{name}/properties": drivers.DriverProperties(services),
        "/conductors": drivers.Conductors(services),
        "/conductors/{name}": drivers.OneConductor(services),
        **{
            f"/{kind.place}": saved.SavedList(services, kind)
            for kind in (saved.DEPLOY_TEMPLATES, saved.RUNBOOKS)
        },
        **{
            f"/{kind.place}/{{ident}}": saved.OneSaved(services, kind)
            for kind in (saved.DEPLOY_TEMPLATES, saved.RUNBOOKS)
        },
        "/lookup": agents.Lookup(services, gate),
        "/heartbeat/{ident}": agents.Heartbeat(services, gate),
    }
