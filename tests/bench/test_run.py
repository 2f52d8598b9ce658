"""A row that cannot be measured is said so, and the exit code says it as well."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import __main__ as program
from benchmarks import environments
from benchmarks.environments import NotAvailable
from benchmarks.measuring import SETTINGS
from benchmarks.report import Measurement


@pytest.fixture(autouse=True)
def nothing_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(environments, "BENCH", tmp_path / "bench")

    def measure(entry: program.Entry, *_rest: object) -> Measurement:
        if entry.peer == "dbos":
            raise NotAvailable("exit 1: [no] such thing")
        return Measurement(10, 1.0, 3.0, 1.0, "1", SETTINGS)

    monkeypatch.setattr(program, "measure", measure)


def run(tmp_path: Path, *arguments: str) -> tuple[int, list[dict[str, object]]]:
    path = tmp_path / "out" / "result.json"
    code = program.main([*arguments, "--json", str(path)])
    return code, json.loads(path.read_text())["rows"]


def test_everything_measured_is_success(tmp_path: Path) -> None:
    code, rows = run(tmp_path, "--peers", "none", "--rounds", "2")
    assert code == 0
    assert [(row["kind"], row["engine"]) for row in rows] == [
        ("sync", "floor"),
        ("sync", "deploysteps"),
        ("resume", "floor"),
        ("resume", "deploysteps"),
    ]
    assert rows[0]["rounds"] == [10.0, 10.0]


def test_a_peer_that_fails_is_named_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(environments, "python_of", lambda peer, say: Path("python"))
    code, rows = run(tmp_path, "--peers", "dbos")
    assert code == 1
    assert [row["not_measured"] for row in rows if row["engine"] == "dbos"] == [
        "exit 1: [no] such thing"
    ]
    assert "not measured: dbos, sync: exit 1: [no] such thing" in capsys.readouterr().out


def test_a_peer_that_cannot_be_installed_is_named_with_its_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(command: list[str]) -> None:
        raise NotAvailable("cannot be installed: no network")

    monkeypatch.setattr(environments, "_run", refuse)
    code, rows = run(tmp_path, "--peers", "ironic")
    assert code == 1
    missing = {(row["kind"], row["engine"]) for row in rows if row["not_measured"]}
    assert missing == {
        (kind, engine) for kind in ("sync", "resume") for engine in ("ironic", "ironic, as shipped")
    }
    assert "cannot be installed: no network" in capsys.readouterr().out


def test_an_unknown_peer_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        program.parse(["--peers", "ironic,celery"])
    assert "unknown: celery" in capsys.readouterr().err
