"""``deploysteps node``: what goes on with a machine, what was, and what would be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click

from deploysteps.cli import watch
from deploysteps.cli.app import Command, State, pass_state
from deploysteps.cli.client import node_path
from deploysteps.cli.errors import CommandError, ExitCode
from deploysteps.cli.params import Seconds, by_runbook, given, steps_option
from deploysteps.cli.provision import RESUMED, follow
from deploysteps.steps import CLEAN, DEPLOY, FLOWS, RUNS, SERVICE

flow_option = click.option(
    "--flow", type=click.Choice(list(FLOWS)), help="The kind of run; by default deploy."
)


@click.command("watch", cls=Command)
@click.argument("node")
@click.option("--interval", type=Seconds(min=0.05), default=1, show_default=True, help="Seconds.")
@click.option(
    "--timeout",
    type=Seconds(min=0),
    default=0,
    show_default=True,
    help="Seconds to watch at most (exit 4); 0: no limit.",
)
@pass_state
def watch_(state: State, node: str, interval: float, timeout: float) -> None:
    """Show the steps of the node's run until it ends; exit 1 when it failed.

    When nothing goes on, the last run is shown. A service that is restarted
    meanwhile is waited for.
    """
    last = follow(state, node, timeout, interval)
    if last.run is None:
        raise CommandError(
            f"node {last.name} has no run yet; `deploysteps node deploy {last.name}` starts one",
            ExitCode.NOT_FOUND,
        )
    if last.run["outcome"] != "success":
        raise CommandError(
            f"the {last.run['flow']} run of node {last.name} ended: {last.run['outcome']}: "
            f"{last.run['error']}"
        )


@click.command("runs", cls=Command)
@click.argument("node")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
@pass_state
def runs(state: State, node: str, limit: int) -> None:
    """List the node's runs, newest first; --json shows every attempt of every step.

    Times are those of this machine's clock, with its offset unless that is UTC.
    """
    found = state.client.list(node_path(node, "runs"), "runs", limit, limit=limit)
    columns = ("uuid", "flow", "outcome", "started", "duration", "note")
    machine = None if state.as_json else _machine(state, node, found)
    rows = [
        (
            run["uuid"],
            run["flow"],
            run["outcome"] or watch.word_of_run(run),
            watch.clock(run["started_at"]),
            watch.duration(run["started_at"], run["finished_at"]),
            "; ".join(_notes(node, run, machine)),
        )
        for run in found
    ]
    state.output.rows(columns, rows, found, f"node {node} has no run yet")


@click.command("run", cls=Command)
@click.argument("node")
@click.argument("run", required=False)
@pass_state
def run(state: State, node: str, run: str | None) -> None:
    """Show one run of the node, by its uuid; by default the last one.

    Its attempts follow, in the order in which they began; --json also has the
    plan and what is kept to explain a failure. Times of attempts are those of
    this machine's clock, with its offset unless that is UTC.
    """
    last = run is None
    if run is None:
        newest = state.client.get(node_path(node, "runs"), limit=1)["runs"]
        if not newest:
            raise CommandError(f"node {node} has no run yet", ExitCode.NOT_FOUND)
        run = str(newest[0]["uuid"])
    found = state.client.get(node_path(node, "runs", run))
    if state.as_json:
        state.output.data(found)
        return
    machine = _machine(state, node, [found])
    state.output.mapping(_shown(found, _notes(node, {**found, "error": None}, machine)))
    columns = ("step", "attempt", "outcome", "conductor", "started", "took", "note")
    rows = [
        (
            watch.name_of(one),
            one["attempt"],
            one["outcome"] or one["state"],
            one["conductor"],
            watch.clock(one["started_at"]),
            watch.duration(one["started_at"], one["finished_at"]),
            "as above" if _told_above(one, found) else watch.note_of(one, node, machine),
        )
        for one in found["attempts"]
    ]
    _section(state, "Attempts:", columns, rows)
    did_not = [(watch.name_of(step),) for step in _did_not_run(found)]
    _section(state, "Did not run any more:", ("step",), did_not)
    left_out = [
        (watch.name_of(step), step.get("source"), step.get("why"))
        for step in found.get("left_out") or ()
    ]
    _section(state, "Left out:", ("step", "source", "why"), left_out)
    if last:
        _tell_next(state, node, found)


_TOLD_BELOW = ("attempts", "plan", "left_out", "request", "node_uuid")


def _shown(run: Mapping[str, Any], notes: Iterable[str]) -> dict[str, Any]:
    """Return what of a run itself says something."""
    plain = {**run, "mechanism": None} if run.get("mechanism") == "steps" else run
    shown = {name: value for name, value in plain.items() if name not in _TOLD_BELOW}
    shown["note"] = "; ".join(notes)
    return {name: value for name, value in shown.items() if value not in (None, "")}


def _told_above(attempt: Mapping[str, Any], run: Mapping[str, Any]) -> bool:
    """Tell whether the error of an attempt is the one that its run is told with."""
    return bool(attempt["error"]) and attempt["error"] == run["error"]


def _did_not_run(run: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the steps of a plan that a run did not come to before it ended.

    Those that it was not to run, as they were done before, are none of them; a step
    that the plan has twice, and that began once, is one.
    """
    if run["finished_at"] is None:
        return []
    begun = Counter(_begun(run["attempts"]))
    left = []
    for step in run.get("plan") or ():
        name = watch.name_of(step)
        if step.get("skip"):
            continue
        if begun[name]:
            begun[name] -= 1
        else:
            left.append(step)
    return left


def _begun(attempts: Iterable[Mapping[str, Any]]) -> Iterable[str]:
    """Yield the steps that began, each once for all of its attempts."""
    before = None
    for attempt in attempts:
        name = watch.name_of(attempt)
        if attempt["attempt"] == 1 or name != before:
            yield name
        before = name


def _tell_next(state: State, node: str, run: Mapping[str, Any]) -> None:
    """Say what may be done about a run that failed, if it is what the node stands at."""
    if run["finished_at"] is None or run["outcome"] == "success":
        return
    evidence = [watch.name_of(one) for one in run["attempts"] if one.get("evidence")]
    told = []
    found = str(state.client.get(node_path(node))["provision_state"])
    if found == RUNS[run["flow"]].failed and found in RESUMED:
        told.append(
            f"mend it, then `deploysteps node resume {node}` goes on with the step that failed "
            "(--skip: after it)"
        )
    if evidence:
        told.append(f"`deploysteps node run {node} --json` has the evidence of {evidence[-1]}")
    if told:
        state.output.say("")
        state.output.say("Next: " + "; ".join(told))


@click.command("history", cls=Command)
@click.argument("node")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
@pass_state
def history(state: State, node: str, limit: int) -> None:
    """List what happened to the node, newest first: runs' ends, skipped steps, broken locks.

    Times are those of this machine's clock, with its offset unless that is UTC.
    """
    found = state.client.list(
        node_path(node, "history"), "history", limit, limit=limit, detail=True
    )
    columns = ("created", "severity", "event_type", "event", "user", "conductor")
    rows = [[watch.clock(e["created_at"]), *(e[name] for name in columns[1:])] for e in found]
    state.output.rows(columns, rows, found, f"node {node} has no history yet")


def _machine(state: State, node: str, runs: Sequence[Mapping[str, Any]]) -> Any:
    """Return the node when one of its runs waits for its agent: it says when that was heard."""
    waits = any(
        run["finished_at"] is None
        and run["attempts"]
        and run["attempts"][-1].get("waits_for") == "agent"
        for run in runs
    )
    return state.client.get(node_path(node)) if waits else None


def _notes(
    node: str, run: Mapping[str, Any], machine: Mapping[str, Any] | None = None
) -> Iterable[str]:
    if run.get("resumes"):
        yield f"goes on with {run['resumes']}"
    if run["error"]:
        yield run["error"]
    attempts = run["attempts"]
    if run["finished_at"] is None and attempts:
        last = attempts[-1]
        told = watch.note_of(last, node, machine)
        yield f"{last['interface']}.{last['step']}{told and f': {told}'}"
    if nothing_done(run):
        yield "nothing was done"
    if run.get("left_out"):
        yield f"left out: {', '.join(_left_out(run['left_out']))}"


def _left_out(steps: Sequence[Mapping[str, Any]]) -> Iterable[str]:
    """Yield steps that did not run; why, where it is the same for all of them."""
    yield from map(watch.name_of, steps[:-1])
    reasons = {str(step.get("why") or "") for step in steps}
    why = f" ({reasons.pop()})" if len(reasons) == 1 else ""
    yield watch.name_of(steps[-1]) + (why if why != " ()" else "")


def nothing_done(run: Mapping[str, Any]) -> bool:
    """Tell whether a run ended well because there was nothing that it did."""
    return run["outcome"] == "success" and not run["attempts"]


@click.command("steps", cls=Command)
@click.argument("node")
@flow_option
@pass_state
def steps(state: State, node: str, flow: str | None) -> None:
    """List the steps that the node offers.

    They are those of a kind of run, by default of a deployment; priority 0 runs
    only when somebody asks for it.
    """
    found = state.client.get(node_path(node, "steps"), flow=flow)["steps"]
    columns = ("interface", "step", "priority", "abortable", "repeatable", "source", "forbidden")
    rows = [[step.get(name) for name in columns] for step in found]
    state.output.rows(columns, rows, found, f"node {node} offers no {flow or 'deploy'} steps")


@click.command("plan", cls=Command)
@click.argument("node")
@flow_option
@steps_option(DEPLOY)
@steps_option(CLEAN)
@steps_option(SERVICE)
@by_runbook
@pass_state
def plan(state: State, /, node: str, flow: str | None, **more: Any) -> None:
    """Show what a run would do, without running it.

    Exit 1 when it would be refused. First the steps in the order in which they
    would run, then those that are left out and why, then those that nobody
    knows before the machine's agent is up.
    """
    asked = given(more)
    named = [name for name, f in _FLOW_OF.items() if f in asked]
    if flow is None and named:
        flow = named[0]
    body = asked | ({"flow": flow} if flow else {})
    found = state.client.post(node_path(node, "plan"), body)
    if state.as_json:
        state.output.data(found)
    elif found["steps"] or found["left_out"] or found["unknown"] or not found["problem"]:
        _show_plan(state, found)
    if found["problem"]:
        raise CommandError(
            f"a {found['flow']} run of node {node} would be refused: {found['problem']}"
        )


_FLOW_OF = {flow.name: flow.list_field for flow in (DEPLOY, CLEAN, SERVICE)}


def _show_plan(state: State, found: Mapping[str, Any]) -> None:
    out = state.output
    listed = [
        (number, watch.name_of(step), step["priority"], step["source"], _replaced(step))
        for number, step in enumerate(found["steps"], 1)
    ]
    columns = ("order", "step", "priority", "source", "replaced")
    note = f": {found['note']}" if found.get("note") else ""
    out.rows(columns, listed, found, f"no step would run in a {found['flow']} run{note}")
    _section(
        state,
        "Left out:",
        ("step", "priority", "source", "why"),
        [
            (watch.name_of(step), step.get("priority"), step.get("source"), step.get("why"))
            for step in found["left_out"]
        ],
    )
    _section(
        state,
        "Unknown until the machine's agent is up, and checked then:",
        ("step", "priority", "source"),
        [
            (watch.name_of(step), step.get("priority"), step.get("source"))
            for step in found["unknown"]
        ],
    )


def _section(
    state: State, title: str, columns: Sequence[str], rows: Sequence[Sequence[object]]
) -> None:
    if rows:
        state.output.say("")
        state.output.say(title)
        state.output.rows(columns, rows, None)


def _replaced(step: Mapping[str, Any]) -> str:
    earlier = step.get("replaced") or ()
    return ", ".join(f"{one.get('source')} {one.get('priority')}" for one in earlier)


COMMANDS: tuple[click.Command, ...] = (watch_, runs, run, history, steps, plan)
"""What ``deploysteps node`` has of this."""
