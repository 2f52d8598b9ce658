"""How scenes are played: in turns, in bounded time, and what fails is told."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from benchmarks import rest, seeding, versus
from benchmarks.environments import NotAvailable
from benchmarks.services import Service


class Clock:
    """Time that passes when a scene is played."""

    now = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """Scenes that only note who played them."""
    found: list[tuple[str, str]] = []

    def prepare(service: Service, directory: Path) -> dict[str, Path]:
        file = directory / f"{service.name}.sqlite"
        file.touch()
        return dict.fromkeys(rest.SCENES, file)

    def scene(name: str) -> object:
        def play(service: Service) -> dict[str, float]:
            assert service.database.exists()
            found.append((name, service.name))
            return {"start": 1.0}

        return play

    monkeypatch.setattr(rest, "prepare", prepare)
    monkeypatch.setattr(rest, "SCENES", {name: scene(name) for name in ("one", "two")})
    return found


BOTH = {versus.OURS: Path("python"), versus.THEIRS: Path("python")}


def test_each_scene_is_played_by_both_and_every_other_round_begins_with_the_other(
    played: list[tuple[str, str]], tmp_path: Path
) -> None:
    rows = rest.run(BOTH, tmp_path, 2, lambda text: None)
    ours, theirs = versus.OURS, versus.THEIRS
    assert played == [
        *(("one", ours), ("one", theirs), ("two", ours), ("two", theirs)),
        *(("one", theirs), ("one", ours), ("two", theirs), ("two", ours)),
    ]
    assert not rows.missing
    assert next(iter(rows)).values == {ours: [1.0] * 4, theirs: [1.0] * 4}


def test_what_fails_is_told_and_not_tried_again(
    played: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(service: Service) -> dict[str, float]:
        if service.name == versus.THEIRS:
            raise NotAvailable("it ended")
        return {}

    monkeypatch.setitem(rest.SCENES, "one", fails)
    said: list[str] = []
    rows = rest.run(BOTH, tmp_path, 2, said.append)
    assert rows.missing == {versus.THEIRS: "one: it ended"}
    assert played == [("two", versus.OURS)] * 2
    assert sum("not measured: it ended" in text for text in said) == 1


def test_no_round_is_begun_that_would_take_too_long(
    played: list[tuple[str, str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()

    def slow(service: Service) -> dict[str, float]:
        clock.now += 100
        return {}

    monkeypatch.setitem(rest.SCENES, "one", slow)
    monkeypatch.setattr(rest, "time", clock)
    said: list[str] = []
    rest.run(BOTH, tmp_path, 5, said.append)
    assert played.count(("two", versus.OURS)) == 2  # 200 s each, of 450
    assert said[-1] == "2 rounds instead of 5: another would take too long"


def test_nodes_are_copied_with_names_and_addresses_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "d.sqlite"
    connection = sqlite3.connect(path)
    connection.executescript(
        """
        CREATE TABLE nodes (id INTEGER PRIMARY KEY, uuid TEXT UNIQUE, name TEXT UNIQUE,
          instance_uuid TEXT UNIQUE, driver_info TEXT, instance_info TEXT, created_at TEXT,
          provision_state TEXT, target_provision_state TEXT, power_state TEXT,
          provision_updated_at TEXT, driver_internal_info TEXT, agent_url TEXT);
        CREATE TABLE ports (id INTEGER PRIMARY KEY, uuid TEXT UNIQUE, address TEXT UNIQUE,
          node_id INTEGER);
        CREATE TABLE node_traits (node_id INTEGER, trait TEXT);
        INSERT INTO nodes (id, uuid, name, driver_info, instance_info, created_at)
          VALUES (1, 'u', 'node-00000', '{"a": "bmc-00000"}', '{"b": 1}', '2026');
        INSERT INTO ports VALUES (1, 'p', 'm', 1), (2, 'q', 'n', 1);
        INSERT INTO node_traits VALUES (1, 'T');
        """
    )
    connection.close()
    seeding.fill(path, 3, state="active")
    connection = sqlite3.connect(path)
    nodes = connection.execute(
        "SELECT name, driver_info, provision_state, agent_url FROM nodes ORDER BY id"
    ).fetchall()
    assert nodes[2] == ("node-00002", '{"a": "bmc-00002"}', "active", seeding.AGENT_URL)
    assert [row[0] for row in nodes] == ["node-00000", "node-00001", "node-00002"]
    owners = connection.execute("SELECT node_id, count(*) FROM ports GROUP BY 1").fetchall()
    assert owners == [(1, 2), (2, 2), (3, 2)]
    assert connection.execute("SELECT count(*) FROM node_traits").fetchone() == (3,)
    info = connection.execute("SELECT driver_internal_info FROM nodes").fetchone()[0]
    assert "agent_url" not in info and "is_whole_disk_image" in info
    connection.close()
