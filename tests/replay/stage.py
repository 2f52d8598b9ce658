"""The service under replay: brings nodes into the recorded situation, sends requests, compares."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

import sqlalchemy as sa

from deploysteps import exceptions, states
from deploysteps.db import nodes
from deploysteps.db.models import Node
from tests.replay import hardware
from tests.replay.recordings import Exchange
from tests.replay.situations import NODES, Situation
from tests.support_api import Answer, Api

_NODE = re.compile(r"/v1/nodes/(?P<ident>[^/?]+)(?P<rest>/[^?]*)?")
_STATE_TOLD = re.compile(r'on node "[^"]+" while it is in state "([^"]+)"')
_BUSY = re.compile("is locked|in progress")
_AT_WORK = {states.Kind.TRANSIENT, states.Kind.WAIT}


class Stage:
    """One flow's service."""

    def __init__(self, api: Api, gate: hardware.Gate) -> None:
        self.api, self._gate = api, gate
        self._database = api.database
        self._ours: dict[str, str] = {}
        """Recorded UUID or token -> ours."""

    # --- the situation ---------------------------------------------------------------

    def prepare(self, exchange: Exchange, wanted: Mapping[str, Situation]) -> None:
        """Bring every node into the situation in which the request was recorded."""
        for name, situation in wanted.items():
            self._place(name, situation)
        found = _NODE.match(exchange.path)
        if found is not None:
            self._bring(exchange, self._translated(found["ident"]), found["rest"])
        elif exchange.path.startswith(("/v1/lookup", "/v1/heartbeat/")):
            self._bring(exchange, self._translated(NODES["p1"].uuid), "agent")

    def _bring(self, exchange: Exchange, ident: str, rest: str | None) -> None:
        node = self._node(ident)
        if node is None:
            return
        told = _STATE_TOLD.search(exchange.error)
        answer = exchange.answer if isinstance(exchange.answer, dict) else {}
        if told and told[1] in states.STATES:
            self._follow(node.uuid, told[1])
        elif exchange.status == 409 and _BUSY.search(exchange.error):
            hardware.until(lambda: self._gate.holds(node.uuid), "nothing runs", 2)
        elif exchange.method != "GET" or rest == "agent":
            self._settle(node.uuid)
        elif "provision_state" in answer:
            step = answer.get("deploy_step") if answer["provision_state"] == "deploying" else None
            self._follow(node.uuid, answer["provision_state"], None if step is None else bool(step))

    def _node(self, ident: str) -> Node | None:
        try:
            return nodes.get(self._database, ident)
        except exceptions.NodeNotFound:
            return None

    def _state(self, uuid: str) -> str:
        return str(nodes.get(self._database, uuid).provision_state)

    def _at_rest(self, uuid: str) -> bool:
        return nodes.get(self._database, uuid).reservation is None

    def _still(self, uuid: str) -> None:
        """Wait until nothing of the node moves by itself."""
        hardware.until(
            lambda: self._gate.holds(uuid) or self._at_rest(uuid), "the node's work goes nowhere"
        )

    def _step(self, uuid: str) -> bool:
        """Let one piece of work through; False when the node is at rest."""
        self._still(uuid)
        if not self._gate.holds(uuid):
            return False
        before = nodes.get(self._database, uuid)
        self._gate.let_one(uuid)
        hardware.until(
            lambda: (
                self._gate.holds(uuid)
                or self._at_rest(uuid)
                or self._state(uuid) != before.provision_state
                or nodes.get(self._database, uuid).deploy_step != before.deploy_step
            ),
            "the node's work does not go on",
        )
        return True

    def _follow(self, uuid: str, state: str, in_step: bool | None = None) -> None:
        """Let work through until the node is in a state, and in a step of it or in none."""

        def there() -> bool:
            node = nodes.get(self._database, uuid)
            return node.provision_state == state and in_step in (None, bool(node.deploy_step))

        self._still(uuid)
        while not there():
            if not self._step(uuid) and not there():
                raise AssertionError(f"the node is {self._state(uuid)!r}, not {state!r}")
            self._still(uuid)

    def _settle(self, uuid: str) -> None:
        """Let everything through."""
        while self._step(uuid):
            pass

    def _place(self, name: str, situation: Situation) -> None:
        node = self._node(self._translated(NODES[name].uuid))
        if situation.state is None:
            if node is not None:
                self._settle(node.uuid)
                self._write(node.uuid, provision_state=states.ENROLL)
                assert self.api.delete(f"/v1/nodes/{node.uuid}").status == 204
            return
        if node is None:
            made = self.api.post("/v1/nodes", {"uuid": NODES[name].uuid, **NODES[name].members})
            assert made.status == 201, made
            for address in NODES[name].addresses:
                port = {"node_uuid": NODES[name].uuid, "address": address}
                assert self.api.post("/v1/ports", port).status == 201
            node = nodes.get(self._database, NODES[name].uuid)
        self._settle(node.uuid)
        if states.STATES[self._state(node.uuid)].kind in _AT_WORK:
            path = f"/v1/nodes/{node.uuid}/states/provision"
            assert self.api.put(path, {"target": "abort"}).status == 202
            hardware.until(
                lambda: states.STATES[self._state(node.uuid)].kind not in _AT_WORK, "the abort"
            )
            self._settle(node.uuid)
        self._write(
            node.uuid,
            provision_state=situation.state,
            target_provision_state=situation.target,
            **situation.more,
        )
        if situation.asked:
            path = f"/v1/nodes/{node.uuid}/states/provision"
            assert self.api.put(path, situation.asked).status == 202
        if situation.busy:
            power = self.api.put(f"/v1/nodes/{node.uuid}/states/power", {"target": "rebooting"})
            assert power.status == 202, power
            hardware.until(lambda: self._gate.holds(node.uuid), "nothing runs")

    def _write(self, uuid: str, **values: Any) -> None:
        with self._database.engine.begin() as connection:
            connection.execute(sa.update(Node).where(Node.uuid == uuid).values(**values))

    # --- the request -----------------------------------------------------------------

    def send(self, exchange: Exchange) -> Answer:
        """Send the recorded request, with our UUIDs and tokens in it."""
        body, raw = exchange.body, None
        if isinstance(body, str):
            body, raw = None, body.encode()
        elif body is not None:
            body = json.loads(self._translated(json.dumps(body)))
        before = self._agents_work()
        answer = self.api(
            exchange.method,
            self._translated(exchange.path),
            body,
            raw=raw,
            version=None,
            headers=dict(exchange.sent),
        )
        self._learn(exchange.answer, answer.body)
        if exchange.path.startswith("/v1/heartbeat/") and answer.status == 202:
            hardware.until(lambda: self._agents_work() != before, "the heartbeat ends nothing")
        return answer

    def _agents_work(self) -> object:
        """Return what the agent's node waits for."""
        node = self._node(NODES["p1"].uuid)
        return node and (node.provision_state, node.deploy_step, node.clean_step)

    def _translated(self, text: str) -> str:
        for recorded, ours in self._ours.items():
            text = text.replace(recorded, ours)
        return text

    def recorded(self, exchange: Exchange) -> Exchange:
        """Return the exchange as it would have been recorded here."""
        headers = {name: self._translated(value) for name, value in exchange.headers.items()}
        return Exchange(**{**exchange.__dict__, "headers": headers})

    def _learn(self, expected: Any, found: Any) -> None:
        """Keep what the service chose itself: UUIDs of what it made, and tokens."""
        if not isinstance(expected, dict) or not isinstance(found, dict):
            return
        for name in ("uuid", "agent_token"):
            theirs, ours = expected.get(name), found.get(name)
            if isinstance(theirs, str) and isinstance(ours, str) and "*" not in theirs + ours:
                self._ours[theirs] = ours
        self._learn(expected.get("config"), found.get("config"))
