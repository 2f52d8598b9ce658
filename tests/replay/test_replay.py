"""Every recorded request, in its order and situation: the same status and shape, or a reason."""

from __future__ import annotations

import dataclasses
import fnmatch
import tomllib
from pathlib import Path
from typing import Any

import pytest

from deploysteps.conductor.service import Service
from deploysteps.db import migration
from deploysteps.db.engine import Database
from deploysteps.drivers import fake_base
from tests.replay import hardware, recordings
from tests.replay.compare import differences
from tests.replay.recordings import Exchange
from tests.replay.situations import SITUATIONS
from tests.replay.stage import Stage
from tests.support_api import Answer, Api

LISTED = Path(__file__).parents[1] / "data" / "replay-differences.toml"


@dataclasses.dataclass(frozen=True)
class Difference:
    """What came out otherwise."""

    exchange: Exchange
    told: str
    answer: Answer

    def is_meant(self, where: str, pattern: str) -> bool:
        """Whether an entry of the list means it."""
        exchange = self.exchange
        there = where in ("*", exchange.flow, f"{exchange.flow}#{exchange.n}")
        return there and fnmatch.fnmatchcase(self.told, pattern)

    def __str__(self) -> str:
        return f"{self.exchange}: {self.told}; {self.answer!r}"


def listed() -> list[tuple[str, str]]:
    """Return where and what of every intended difference."""
    entries = tomllib.loads(LISTED.read_text())["difference"]
    assert all(entry["what"] and entry["why"] for entry in entries)
    return [
        (where, pattern)
        for entry in entries
        for where, patterns in entry["seen"].items()
        for pattern in patterns
    ]


@pytest.fixture
def replay(conf: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Replay one flow against a service of its own."""

    def of_flow(flow: str, exchanges: list[Exchange]) -> list[Difference]:
        gate = hardware.Gate()
        monkeypatch.setattr(fake_base.Fake, "act", gate.act(hardware.ACT))
        database = Database(f"sqlite:///{tmp_path}/{flow}.sqlite")
        database.wait_ready(print)
        migration.ensure(database)
        service = Service(conf, database=database, registry=hardware.registry(conf))
        service.start()
        found = []
        try:
            stage = Stage(Api(conf, database, service.client), gate)
            for exchange in exchanges:
                stage.prepare(exchange, SITUATIONS[flow].get(exchange.n, {}))
                answer = stage.send(exchange)
                known = stage.recorded(exchange)
                found += [Difference(exchange, told, answer) for told in differences(known, answer)]
        finally:
            gate.open()
            service.stop(5)
            database.dispose()
        return found

    return of_flow


@pytest.mark.slow
def test_every_recorded_request(replay):
    """F15 and the defects of the reference that are not to be copied: see the list."""
    flows = recordings.flows()
    assert set(flows) == set(SITUATIONS) and sum(map(len, flows.values())) == 461
    found = [one for flow, exchanges in flows.items() for one in replay(flow, exchanges)]
    meant = listed()
    surprises = [one for one in found if not any(one.is_meant(*entry) for entry in meant)]
    gone = [entry for entry in meant if not any(one.is_meant(*entry) for one in found)]
    assert not surprises, "\n".join(map(str, surprises))
    assert not gone, f"listed differences that do not occur: {gone}"
