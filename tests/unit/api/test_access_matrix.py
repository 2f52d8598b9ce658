"""Who may do what: every operation, every role, every scope, by one written table (issue 4, 3)."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import falcon
import pytest
import sqlalchemy as sa
from falcon import testing

from deploysteps.access.rules import list_rules
from deploysteps.api import middleware
from deploysteps.api.app import create_app
from deploysteps.db import (
    allocations,
    chassis,
    migration,
    nodes,
    portgroups,
    ports,
    runbooks,
    templates,
)
from deploysteps.db.engine import Database
from deploysteps.db.group_models import Allocation
from tests.support_access import LESSEE, OWNER, ROLES, SCOPES, keystone, token
from tests.support_api import Answer, Recording

TABLE = Path(__file__).parents[2] / "data" / "access-matrix.txt"
STEP = {"interface": "deploy", "step": "erase_devices", "args": {}}
SAVED = {"name": "CUSTOM_X", "steps": [{**STEP, "order": 1}]}

# What a request needs to come as far as the rule: after the path it may have a query.
QUERIES = {
    "GET /v1/nodes/validate": "?node={node}",
    **{
        f"{method} /v1/{kind}/vendor_passthru": "?method=x"
        for method in ("GET", "POST", "PUT", "PATCH", "DELETE")
        for kind in ("drivers/{name}", "nodes/{node}")
    },
}
BODIES: dict[str, Any] = {
    "POST /v1/nodes": {"driver": "fake-hardware"},
    "POST /v1/ports": {"address": "52:54:00:00:00:09", "node_uuid": "{node}"},
    "POST /v1/runbooks": SAVED,
    "PATCH /v1/runbooks/{runbook}": [{"op": "add", "path": "/description", "value": "d"}],
    "PATCH /v1/runbooks/{public}": [{"op": "add", "path": "/description", "value": "d"}],
    "POST /v1/chassis": {},
    "POST /v1/portgroups": {"node_uuid": "{node}"},
    "PATCH /v1/chassis/{chassis}": [{"op": "add", "path": "/description", "value": "d"}],
    "PATCH /v1/portgroups/{portgroup}": [{"op": "add", "path": "/extra", "value": {}}],
    "POST /v1/allocations": {"resource_class": "large"},
    "PATCH /v1/allocations/{allocation}": [{"op": "add", "path": "/name", "value": "n"}],
    "PATCH /v1/ports/{port}": [{"op": "add", "path": "/extra", "value": {}}],
    "POST /v1/heartbeat/{node}": {"callback_url": "http://127.0.0.1:9999"},
    "PUT /v1/nodes/{node}/states/provision deploy": {"target": "active"},
    "PUT /v1/nodes/{node}/states/provision clean": {"target": "clean", "clean_steps": [STEP]},
    "PUT /v1/nodes/{node}/states/provision service": {"target": "service", "service_steps": [STEP]},
    "PUT /v1/nodes/{node}/states/provision runbook": {"target": "clean", "runbook": "{runbook}"},
    "PUT /v1/nodes/{node}/states/provision public": {"target": "clean", "runbook": "{public}"},
    "PUT /v1/nodes/{node}/states/power": {"target": "power on"},
}
VALUES: dict[str, Any] = {
    "extra": {},
    "instance_info": {},
    "driver_info": {},
    "properties": {},
    "network_data": {},
    "automated_clean": False,
    "public": True,
    "maintenance": True,
    "protected": False,
    "retired": True,
    "disable_power_off": True,
}


class Row(NamedTuple):
    """A line of the table."""

    text: str
    method: str
    path: str
    kind: str
    letters: str
    """Empty for what is open."""


def rows() -> list[Row]:
    found = []
    for line in TABLE.read_text("utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        match = re.fullmatch(r"(([A-Z]+) (/\S*)(?: (\S+))?)\s{2,}(open|[AFNB ]+)", line)
        assert match, f"no row: {line}"
        text, method, path, kind, told = match.groups()
        letters = "" if told == "open" else "".join(told.split())
        assert len(letters) in (0, 16), line
        found.append(Row(text, method, path, kind or "", letters))
    return found


ROWS = rows()
CALLERS = [(scope, role) for scope in SCOPES for role in ROLES]


class World:
    """An application with one of everything, whose conductor only remembers."""

    def __init__(self, conf: Any, database: Database) -> None:
        owned = {"driver": "fake-hardware", "owner": OWNER, "lessee": LESSEE}
        node = nodes.insert(database, {**owned, "provision_state": "manageable"})
        active = nodes.insert(database, {**owned, "provision_state": "active"})
        port = ports.insert(
            database,
            {"node_id": node.id, "node_uuid": node.uuid, "address": "52:54:00:00:00:01"},
        )
        template = templates.insert(database, {**SAVED, "name": "CUSTOM_T", "extra": {}})
        book = runbooks.insert(database, {**SAVED, "owner": OWNER, "extra": {}, "public": False})
        public = runbooks.insert(
            database, {**SAVED, "name": "CUSTOM_P", "owner": None, "extra": {}, "public": True}
        )
        allocation = self._allocated(database, node)
        case = chassis.insert(database, {"description": "a rack", "extra": {}})
        group = portgroups.insert(database, {"node_id": node.id, "node_uuid": node.uuid})
        self.names = {
            "node": node.uuid,
            "active": active.uuid,
            "port": port.uuid,
            "template": template.uuid,
            "runbook": book.uuid,
            "public": public.uuid,
            "allocation": allocation,
            "chassis": case.uuid,
            "portgroup": group.uuid,
            "name": "fake-hardware",
            "trait": "CUSTOM_T",
        }
        self.conductor = Recording(
            create_node=node,
            update_node=node,
            create_port=port,
            update_port=port,
            create_portgroup=group,
            update_portgroup=group,
            create_chassis=case,
            update_chassis=case,
            create_runbook=book,
            update_runbook=book,
            create_deploy_template=template,
            update_deploy_template=template,
            get_secret_arguments={},
            get_node_steps=[],
            get_node_plan={},
            validate_driver_interfaces={},
            get_driver_properties={},
            get_supported_indicators={},
        )
        self.app = create_app(conf, database, self.conductor, keystone(conf))
        self._client = testing.TestClient(self.app)

    @staticmethod
    def _allocated(database: Database, node: Any) -> str:
        made = allocations.insert(database, {"resource_class": "large", "owner": OWNER})
        with database.engine.begin() as connection:
            connection.execute(
                sa.update(Allocation).values(node_id=node.id).where(Allocation.uuid == made.uuid)
            )
        return made.uuid

    def ask(self, row: Row, headers: dict[str, str]) -> Answer:
        query = QUERIES.get(f"{row.method} {row.path}", "")
        path, _, query = self._filled(row.path + query).partition("?")
        body = BODIES.get(row.text)
        if row.method == "PATCH" and row.kind:
            body = [
                {"op": "add", "path": f"/{name}", "value": VALUES.get(name, str(uuid4()))}
                for name in row.kind.split("+")
            ]
        sent = {middleware.HEADER: "latest", **headers}
        return Answer(
            self._client.simulate_request(
                row.method,
                path,
                query_string=query,
                body=None if body is None else self._filled(json.dumps(body)),
                headers=sent,
            )
        )

    def letter(self, row: Row, headers: dict[str, str]) -> str:
        """Ask, and return what came out as a letter of the table."""
        before = len(self.conductor.calls)
        answer = self.ask(row, headers)
        went_on = len(self.conductor.calls) > before
        if not row.letters:
            return str(answer.status) if answer.status in (401, 403) else "A"
        if answer.status == 403:
            assert not went_on, f"{row.text}: refused after the conductor was asked"
            return "F"
        if answer.status == 401:
            return "401"
        text = answer.inner.get("faultstring", "") if answer.status >= 400 else ""
        gone = re.search(
            r"(Node|Port|Portgroup|Runbook|Allocation) \S+ could not be found"
            r"|Allocation for node \S+ was not found",
            text,
        )
        if gone and not went_on:
            return {404: "N", 400: "B"}[answer.status]
        if went_on or answer.status < 400:
            return "A"
        # A body that says too little is refused by who is let in.
        return "A" if answer.status in (400, 404, 406, 409, 501) else f"{answer.status} {text}"

    def _filled(self, text: str) -> str:
        return re.sub(r"\{(\w+)\}", lambda found: self.names.get(found[1], str(uuid4())), text)


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    from oslo_config import cfg

    from deploysteps import conf as configuration

    conf = cfg.ConfigOpts()
    configuration.register(conf)
    configuration.setup(config_files=[], conf=conf)
    database = Database(f"sqlite:///{tmp_path_factory.mktemp('matrix')}/m.sqlite")
    migration.ensure(database)
    yield World(conf, database)
    database.dispose()


def served(app) -> dict[str, Any]:
    found, waiting = {}, list(app._router._roots)
    while waiting:
        one = waiting.pop()
        waiting += one.children
        if one.resource is not None:
            found[one.uri_template] = one.resource
    return found


def methods(resource) -> set[str]:
    return {name for name in falcon.COMBINED_METHODS if hasattr(resource, f"on_{name.lower()}")}


def unnamed(path: str) -> str:
    return re.sub(r"\{\w+\}", "{}", path)


def test_every_operation_has_a_row_and_every_row_an_operation(world):
    """Nothing can be forgotten: a new route needs a row in tests/data/access-matrix.txt."""
    routes = {
        f"{method} {unnamed(path)}"
        for path, resource in served(world.app).items()
        for method in methods(resource)
        if path.startswith("/v1") or f"/v1{path}".rstrip("/") not in served(world.app)
    }
    routes |= {"GET /"}
    told = {f"{row.method} {unnamed(row.path)}" for row in ROWS}
    assert routes - told == set(), "rows are missing"
    assert told - routes == set(), "rows without an operation"


def test_every_method_that_is_answered_has_a_rule_that_there_is(world):
    known = {rule.name for rule in list_rules()}
    for path, resource in served(world.app).items():
        assert set(resource.operations) == methods(resource), path
        for method, operation in resource.operations.items():
            assert operation.rule is None or operation.rule in known, (path, method)


def test_what_is_open_to_everybody_is_a_short_list(world):
    """It is known from the declarations what needs no credentials; and no more than that."""
    found = {
        f"{method} {unnamed(path)}"
        for path, resource in served(world.app).items()
        for method, operation in resource.operations.items()
        if operation.rule is None
    }
    assert found <= {f"{row.method} {unnamed(row.path)}" for row in ROWS if not row.letters}


@pytest.mark.parametrize("scope", SCOPES)
def test_the_table(world, scope):
    wrong = []
    for row in ROWS:
        for place, (of, role) in enumerate(CALLERS):
            if of != scope:
                continue
            wanted = row.letters[place] if row.letters else "A"
            found = world.letter(row, token(scope, role))
            if found != wanted:
                wrong.append(f"{row.text}: {role} of {scope} is {wanted}, was {found}")
    assert not wrong, "\n" + "\n".join(wrong)


def test_without_credentials_all_is_401_that_is_not_open(world):
    for row in ROWS:
        for headers in ({}, {"X-Auth-Token": "wrong"}, {"X-Roles": "admin", "X-User-Id": "u"}):
            answer = world.ask(row, headers)
            if row.letters:
                assert answer.status == 401, row.text
                assert answer.headers["www-authenticate"] == "Keystone"
                assert answer.inner["faultcode"] == "Client"
            else:
                assert answer.status not in (401, 403), row.text


def test_headers_that_only_the_identity_service_may_set_are_not_believed(world):
    """A reader cannot make himself an admin by sending the headers of one."""
    spoofed = {"X-Roles": "admin", "OpenStack-System-Scope": "all", "X-Project-Id": OWNER}
    row = next(row for row in ROWS if row.text == "DELETE /v1/nodes/{node}")
    assert world.letter(row, {**token("other", "reader"), **spoofed}) == "N"


def test_what_is_not_there_for_a_caller_is_told_as_what_is_not_there_at_all(world):
    """Not even the words tell the one from the other."""
    row = next(row for row in ROWS if row.text == "GET /v1/nodes/{node}")
    hidden = world.ask(row, token("other", "admin"))
    gone = world.ask(row._replace(path="/v1/nodes/{nothing}"), token("other", "admin"))
    assert hidden.status == gone.status == 404
    shape = re.compile(r"[0-9a-f-]{36}")
    assert shape.sub("U", hidden.fault) == shape.sub("U", gone.fault)
