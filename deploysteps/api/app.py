"""The WSGI application: routes, and what happens around every request."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Mapping
from typing import Any

import falcon
from oslo_config import cfg

from deploysteps.api import (
    agents,
    allocations,
    call,
    chassis,
    drivers,
    errors,
    events,
    health,
    kept,
    machine_states,
    management,
    metrics,
    node_runs,
    node_views,
    nodes,
    openapi,
    passthru,
    portgroups,
    ports,
    provision,
    root,
    runbook_traits,
    saved,
    shards,
    traits,
)
from deploysteps.api.access import Access, Guard
from deploysteps.api.hosts import Addresses, headers
from deploysteps.api.middleware import REQUEST_ID_HEADERS, RequestLog, Versions
from deploysteps.api.streams import Streams
from deploysteps.conductor.rpc import Client
from deploysteps.db.engine import Database

LOG = logging.getLogger(__name__)


class App(falcon.App[falcon.Request, falcon.Response]):
    """Falcon, answering whatever a request raises."""

    streams: Streams | None = None
    served: Mapping[str, call.Resource] = {}
    """Path -> what answers there; the places of "bookmark" links are left out."""

    def close(self) -> None:
        """End what outlives requests: the streams of events."""
        if self.streams is not None:
            self.streams.close()

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
            told = [
                ("Content-Type", falcon.MEDIA_JSON),
                ("Content-Length", str(len(body))),
                *((name, request_id) for name in REQUEST_ID_HEADERS),
                *headers(str(env.get("wsgi.url_scheme"))).items(),
            ]
            start_response(falcon.HTTP_500, told)
            return [body]


def create_app(
    conf: cfg.ConfigOpts, database: Database, client: Client, access: Access | None = None
) -> App:
    """Return the REST API as a WSGI application; any WSGI server can run it.

    :param client: reaches a conductor; see :class:`deploysteps.conductor.rpc.Client`.
    :param access: how callers are known and what they may do; by default as ``conf`` says.
    :raises ConfigurationError: a file that ``conf`` names for that is missing or broken.
    """
    services = call.Services(conf, database, client)
    guard = Guard(access or Access.of(conf))
    app = App(
        middleware=[
            metrics.Counting(),
            RequestLog(),
            Addresses(conf),
            Versions(services.newest),
            guard,
        ]
    )
    app.req_options.strip_url_path_trailing_slash = True
    # For answers without a body: clients try to parse what is told to be JSON.
    app.resp_options.default_media_type = falcon.MEDIA_TEXT
    errors.install(app)
    known = app.streams = Streams(conf, database)
    served: dict[str, call.Resource] = {
        "/": root.Root(services),
        "/v1": root.V1(services),
        "/v1/events/stream": events.Stream(services, known),
        "/metrics": metrics.Metrics(services, known),
        "/healthz": health.Healthz(services),
        "/readyz": health.Readyz(services),
    }
    for path, resource in resources(services).items():
        served[f"/v1{path}"] = resource
        app.add_route(path, resource)  # where the "bookmark" links of answers lead
    served["/openapi.json"] = openapi.OpenApi(services, served)
    app.served = served
    for path, resource in served.items():
        app.add_route(path, resource)
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
        "/nodes/{ident}/runs": node_runs.NodeRuns(services),
        "/nodes/{ident}/runs/{run}": node_runs.OneRun(services),
        "/nodes/validate": node_views.Validate(services),
        "/nodes/{ident}/management/boot_device": management.BootDevice(services),
        "/nodes/{ident}/management/boot_device/supported": management.BootDevices(services),
        "/nodes/{ident}/management/inject_nmi": management.InjectNmi(services),
        "/nodes/{ident}/management/indicators": management.Indicators(services),
        "/nodes/{ident}/management/indicators/{indicator}": management.OneIndicator(services),
        "/nodes/{ident}/vmedia": management.VirtualMedia(services),
        "/nodes/{ident}/states/boot_mode": machine_states.BootMode(services),
        "/nodes/{ident}/states/secure_boot": machine_states.SecureBoot(services),
        "/nodes/{ident}/states/raid": machine_states.Raid(services),
        "/nodes/{ident}/states/console": machine_states.Console(services),
        "/nodes/{ident}/bios": kept.Bios(services),
        "/nodes/{ident}/bios/{setting}": kept.OneBios(services),
        "/nodes/{ident}/firmware": kept.Firmware(services),
        "/nodes/{ident}/inventory": kept.Inventory(services),
        "/nodes/{ident}/vifs": kept.Vifs(services),
        "/nodes/{ident}/vifs/{vif}": kept.OneVif(services),
        "/nodes/{ident}/vendor_passthru": passthru.NodeCallByQuery(services),
        "/nodes/{ident}/vendor_passthru/methods": passthru.NodeMethods(services),
        "/nodes/{ident}/vendor_passthru/{method}": passthru.NodeCall(services),
        "/ports": ports.Ports(services),
        "/ports/detail": ports.PortsDetail(services),
        "/ports/{ident}": ports.OnePort(services),
        "/drivers": drivers.Drivers(services),
        "/drivers/{name}": drivers.OneDriver(services),
        "/drivers/{name}/properties": drivers.DriverProperties(services),
        "/drivers/{name}/raid/logical_disk_properties": drivers.LogicalDiskProperties(services),
        "/drivers/{name}/vendor_passthru": passthru.DriverCallByQuery(services),
        "/drivers/{name}/vendor_passthru/methods": passthru.DriverMethods(services),
        "/drivers/{name}/vendor_passthru/{method}": passthru.DriverCall(services),
        "/conductors": drivers.Conductors(services),
        "/conductors/{name}": drivers.OneConductor(services),
        "/deploy_templates": saved.DeployTemplates(services),
        "/deploy_templates/{ident}": saved.OneDeployTemplate(services),
        "/runbooks": saved.Runbooks(services),
        "/runbooks/{ident}": saved.OneRunbook(services),
        "/runbooks/{ident}/traits": runbook_traits.RunbookTraits(services),
        "/runbooks/{ident}/traits/{trait}": runbook_traits.OneRunbookTrait(services),
        "/chassis": chassis.ChassisList(services),
        "/chassis/detail": chassis.ChassisDetail(services),
        "/chassis/{ident}": chassis.OneChassis(services),
        "/chassis/{ident}/nodes": nodes.ChassisNodes(services),
        "/portgroups": portgroups.Portgroups(services),
        "/portgroups/detail": portgroups.PortgroupsDetail(services),
        "/portgroups/{ident}": portgroups.OnePortgroup(services),
        "/portgroups/{ident}/ports": portgroups.PortgroupPorts(services),
        "/nodes/{ident}/portgroups": portgroups.NodePortgroups(services),
        "/nodes/{ident}/children": shards.NodeChildren(services),
        "/shards": shards.Shards(services),
        "/events": shards.Events(services),
        "/allocations": allocations.Allocations(services),
        "/allocations/{ident}": allocations.OneAllocation(services),
        "/nodes/{ident}/allocation": allocations.NodeAllocation(services),
        "/lookup": agents.Lookup(services, gate),
        "/heartbeat/{ident}": agents.Heartbeat(services, gate),
    }
