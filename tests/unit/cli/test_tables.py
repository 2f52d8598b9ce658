"""Tables on terminals that are narrow, or low."""

import io

import pytest
from rich.console import Console

from deploysteps.cli import tables, watch
from deploysteps.cli.waiting import Snapshot

UUID = "5d1a5b2c-6f1a-4b8a-9d51-000000000001"
COLUMNS = ("uuid", "name", "driver", "provision_state", "power_state", "maintenance")
ROW = (UUID, "node-1", "fake-hardware", "wait call-back", "power off", False)


def drawn(columns, rows, width):
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(tables.table(columns, rows, width))
    lines = [line.rstrip() for line in console.file.getvalue().splitlines()]
    assert all(len(line) <= width for line in lines)
    return lines


def test_what_fits_is_a_line_a_row():
    head, _, row = drawn(COLUMNS, [ROW], 120)
    assert head.split() == list(COLUMNS) and UUID in row and row.endswith("false")


def test_headings_are_shortened_first():
    head, _, row = drawn(COLUMNS, [ROW], 98)
    assert "maint" in head and "maintenance" not in head and UUID in row


def test_in_eighty_columns_a_uuid_stays_whole_below_its_row():
    head, _, row, below = drawn(COLUMNS, [ROW], 80)
    assert head.split() == list(COLUMNS[1:]) and row.split()[0] == "node-1"
    assert below == f"  uuid: {UUID}"


def test_one_long_name_does_not_push_the_others_below():
    rows = [("u", f"node-{i}", "driver", "active", "power on", False) for i in range(20)]
    rows[3] = ("u", "n" * 60, *rows[3][2:])
    lines = drawn(COLUMNS, rows, 80)
    assert len(lines) == 2 + 20 + 1 and lines[2].split()[1] == "node-0"
    assert lines[5].split()[:2] == ["u", "…"] and lines[6] == f"  name: {'n' * 60}"


def test_the_reason_of_a_failure_is_never_cut_off():
    why = "deploy.deploy failed: " + "because " * 30 + "of the fan"
    told = drawn(("uuid", "flow", "note"), [(UUID, "deploy", why), (UUID, "clean", "")], 80)
    assert " ".join(" ".join(told).split()).count("of the fan") == 1
    assert told[-1].split() == [UUID, "clean"]


def test_wide_characters_take_two_columns():
    lines = drawn(("a", "b"), [("マシン", "x"), ("abcdef", "y")], 40)
    assert lines[-2].index("x") + 3 == lines[-1].index("y")


@pytest.mark.parametrize("width", [30, 10])
def test_a_very_narrow_terminal_shows_everything(width):
    told = "".join("".join(drawn(COLUMNS, [ROW], width)).split())
    assert UUID in told and "call-back" in told


def test_a_long_run_shows_the_step_that_goes_on_and_how_much_is_out_of_view(made):
    steps = [{"interface": "deploy", "step": f"planned_{i}"} for i in range(30)]
    info = {"deploy_steps": steps, "deploy_step_index": 0}
    attempts = [made.attempt(f"deploy.done_{i}") for i in range(30)]
    found = Snapshot(
        made.node("deploying", driver_internal_info=info),
        made.run(*attempts, made.attempt("deploy.now", "running")),
    )

    def shown(height):
        console = Console(file=io.StringIO(), width=100)
        console.print(watch.table([found], 100, height))
        return console.file.getvalue()

    low = shown(24)
    assert len(low.splitlines()) <= 24 and "deploy.now" in low
    assert "lines above)" in low and "lines below)" in low
    assert "lines above" not in shown(None) and "planned_29" in shown(None)
