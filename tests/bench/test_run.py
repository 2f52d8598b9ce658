"""A row that cannot be measured is said so, and the exit code says it as well."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import __main__ as program
from benchmarks import environments, rest, versus
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
    monkeypatch.setattr(rest, "run", played)


def played(pythons: dict[str, Path], *_rest: object) -> versus.Rows:
    """Both services as if they had been measured."""
    rows = versus.Rows(rest.SUBJECTS)
    for name in pythons:
        good = 10.0 if name == versus.OURS else 1.0
        rows.add(name, {s.key: good if s.more_is_better else 1 / good for s in rest.SUBJECTS})
    return rows


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


def test_both_services_are_told_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(environments, "python_of", lambda peer, say: Path("python"))
    path = tmp_path / "result.json"
    assert program.main(["--only", "http", "--json", str(path)]) == 0
    data = json.loads(path.read_text())
    assert "rows" not in data and data["machine"]["cores"] >= 1
    assert {row["subject"] for row in data["http"]} == {s.key for s in rest.SUBJECTS}
    assert all(row["times_as_good"] == pytest.approx(10) for row in data["http"])
    told = capsys.readouterr().out
    assert "start to first answer" in told and "met" in told and "not met" not in told


def test_without_ironic_it_is_said_that_there_is_nothing_to_compare_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(peer: str, say: object) -> Path:
        raise NotAvailable("cannot be installed: no network")

    monkeypatch.setattr(environments, "python_of", refuse)
    path = tmp_path / "result.json"
    assert program.main(["--only", "http", "--json", str(path)]) == 1
    rows = json.loads(path.read_text())["http"]
    assert all(row["ironic"] is None and row["met"] is None for row in rows)
    assert rows[0]["deploysteps"] is not None
    assert "not measured: ironic: cannot be installed: no network" in capsys.readouterr().out


def test_one_part_alone(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    assert program.main(["--only", "steps", "--peers", "none", "--json", str(path)]) == 0
    data = json.loads(path.read_text())
    assert "http" not in data and data["rows"]
