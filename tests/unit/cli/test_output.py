import datetime
import io
import re

from rich.console import Console

from deploysteps.cli import output, watch
from deploysteps.cli.waiting import Snapshot


def terminal():
    made = output.Output()
    made.console = Console(file=io.StringIO(), force_terminal=True, width=120, highlight=False)
    return made


def shown(made):
    return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", " ", made.console.file.getvalue())


def test_what_a_far_side_sends_cannot_steer_the_terminal():
    assert output.clean("a\x1b[2Jb\r\nc\x07") == "a [2Jb  c "
    assert output.clean({"a": None, "b": [True]}) == '{"a": null, "b": [true]}'
    assert output.clean(None) == ""


def test_markup_in_data_stays_text():
    made = terminal()
    made.rows(("a",), [("[red]x[/red]",)], None)
    assert "[red]x[/red]" in shown(made)


def test_pipes_get_whole_cells():
    text = output.plain(("a", "b"), [("x" * 300, 1), ("y", None)])
    assert "x" * 300 in text and text.splitlines()[2] == "y"


def test_rows_of_a_run(made):
    now = datetime.datetime(2026, 1, 2, 3, 4, 15, tzinfo=datetime.UTC)
    node = made.node(
        "wait call-back",
        driver_internal_info={
            "deploy_steps": [
                {"interface": "raid", "step": "a"},
                {"interface": "deploy", "step": "b"},
                {"interface": "boot", "step": "c"},
            ],
            "deploy_step_index": 1,
            "user_deploy_steps": [{"interface": "boot", "step": "never"}],
        },
    )
    run = made.run(
        made.attempt("deploy.prepare"),
        made.attempt("raid.a", outcome="failed", error="oops"),
        made.attempt("raid.a", number=2),
        made.attempt("deploy.b", "waiting", progress={"percent": 40, "text": "writing"}),
    )
    assert watch.rows(Snapshot(node, run), now)[1].note == ""
    listed = watch.rows(Snapshot(node, run), now)
    assert [(row.step, row.state, row.tries) for row in listed] == [
        ("deploy.prepare", "success", ""),
        ("raid.a", "success", "2"),
        ("deploy.b", "waiting", ""),
        ("boot.c", "planned", ""),
    ]
    assert listed[2].took == "10.0 s" and listed[2].note == "40 % writing"


def test_the_last_failure_is_shown_while_a_step_is_tried_again(made):
    bad = made.attempt("raid.a", outcome="failed", error="raid.a failed: oops (attempt 1)")
    run = made.run(bad, made.attempt("raid.a", "running", number=2))
    assert [row.note for row in watch.rows(Snapshot(made.node(), run))] == ["oops (attempt 1)"]


def test_a_time_of_another_day_has_its_day():
    now = datetime.datetime(2026, 1, 2, 12, tzinfo=datetime.UTC)
    assert len(watch.clock("2026-01-02T12:00:00+00:00", now)) == len("12:00:00")
    assert watch.clock("2025-12-20T12:00:00+00:00", now).startswith("2025-12-20 ")
    assert watch.clock(None) == watch.duration(None, None) == ""


def test_rows_before_the_first_step(made):
    node = made.node(
        "deploying", driver_internal_info={"deploy_steps": [{"interface": "a", "step": "b"}]}
    )
    assert [row.state for row in watch.rows(Snapshot(node, made.run()))] == ["planned"]
    assert watch.rows(Snapshot(made.node(), None)) == []


def test_a_terminal_gets_a_table(made):
    on = terminal()
    run = made.run(made.attempt("deploy.deploy"), outcome="success")
    last = watch.show(on, iter([Snapshot(made.node("active", maintenance=True), run)]))
    assert last.settled
    told = shown(on).split()
    assert {"node-1", "active", "maintenance", "deploy.deploy", "success"} <= set(told)
