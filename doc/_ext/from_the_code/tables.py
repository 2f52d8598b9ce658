"""Tables and drawings of states, transitions, flows, reserved steps and releases."""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from deploysteps import releases, reserved, states, steps
from deploysteps.cli.errors import MEANINGS


def indented(text: str, by: int = 3) -> str:
    """Return a text whose lines stand further right."""
    return "".join(f"{' ' * by}{line}\n" if line else "\n" for line in text.splitlines())


def table(head: Sequence[str], rows: Iterable[Sequence[str]], widths: str = "auto") -> str:
    """Return a list-table."""
    lines = [".. list-table::", "   :header-rows: 1", f"   :widths: {widths}", ""]
    for row in (head, *rows):
        for number, cell in enumerate(row):
            first, *rest = (cell or "").splitlines() or [""]
            lines.append(f"   {'*' if number == 0 else ' '} - {first}".rstrip())
            lines.extend(f"       {line}".rstrip() for line in rest)
    return "\n".join(lines) + "\n"


def code(names: Iterable[str | None]) -> str:
    """Return names as code, separated by commas."""
    return ", ".join(f"``{name}``" for name in names if name)


# --- states ---------------------------------------------------------------------------

_KINDS = {
    states.Kind.STABLE: "nothing goes on",
    states.Kind.TRANSIENT: "a conductor is at work",
    states.Kind.WAIT: "work goes on elsewhere",
    states.Kind.HOLD: "waits for an operator",
}
_VERBS = {event: verb for verb, event in reversed(states.VERBS.items())}
"""Event -> the word that people ask for it by."""


def states_table() -> str:
    """Return every state, what it means and what may be asked for in it."""
    rows = [
        (
            f"``{state.name}``",
            state.kind.value,
            code(_asked(name)),
            ", ".join(
                word
                for word, is_so in (
                    ("the agent may beat", state.agent),
                    ("the node may be deleted", state.deletable),
                    ("``last_error`` says why", state.failed),
                )
                if is_so
            ),
        )
        for name, state in states.STATES.items()
    ]
    return table(("State", "Kind", "May be asked for", "Besides"), rows, "22 12 36 30")


def _asked(state: str) -> list[str]:
    """Return the words of the API, one for each event."""
    return [word for event, word in _VERBS.items() if states.can(state, event)]


def kinds_table() -> str:
    """Return what the kinds of states are."""
    return table(("Kind", "Meaning"), [(kind.value, told) for kind, told in _KINDS.items()])


def transitions_table() -> str:
    """Return every transition."""
    rows = [
        (f"``{move.start}``", f"``{move.event}``", f"``{move.end}``", _who(move.event))
        for move in states.TRANSITIONS
    ]
    return table(("From", "Event", "To", "Who says so"), rows)


def _who(event: str) -> str:
    return f"people: ``{_VERBS[event]}``" if event in _VERBS else "the engine"


# --- drawings ---------------------------------------------------------------------------


def diagram(what: str) -> str:
    """Draw the states of a flow, or of a comma-separated list of states, or all.

    Each box is a state; what leads to it is on its left, what leads away on its right.
    """
    if what == "all":
        names = list(states.STATES)
    elif what in steps.FLOWS:
        flow = steps.FLOWS[what]
        names = list(dict.fromkeys([*flow.states, flow.failed]))
    else:
        names = [name.strip() for name in what.split(",")]
    boxes = [(_arrows_in(name), name, _arrows_out(name)) for name in names]
    margin = max(len(line) for lines, _, _ in boxes for line in lines) if boxes else 0
    width = max(len(name) for _, name, _ in boxes)
    return "\n".join(_box(left, name, right, margin, width) for left, name, right in boxes)


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for end, event in pairs:
        found.setdefault(end, []).append(event)
    return found


def _arrows_in(name: str) -> list[str]:
    moves = _grouped((m.start, m.event) for m in states.TRANSITIONS if m.end == name)
    lines = [f"{start} ── {', '.join(events)} ─▶" for start, events in moves.items()]
    return lines or [""]


def _arrows_out(name: str) -> list[str]:
    moves = _grouped((m.end, m.event) for m in states.TRANSITIONS if m.start == name)
    lines = [f"── {', '.join(events)} ─▶ {end}" for end, events in moves.items()]
    return lines or [""]


def _box(left: list[str], name: str, right: list[str], margin: int, width: int) -> str:
    """Draw one state between its arrows."""
    height = max(len(left), len(right))
    pad = " " * margin
    lines = [f"{pad} ┌{'─' * (width + 2)}┐"]
    for number in range(height):
        before = left[number] if number < len(left) else ""
        after = right[number] if number < len(right) else ""
        inside = name if number == (height - 1) // 2 else ""
        lines.append(f"{before:>{margin}} │ {inside:^{width}} │ {after}".rstrip())
    lines.append(f"{pad} └{'─' * (width + 2)}┘")
    return "\n".join(lines)


# --- flows ------------------------------------------------------------------------------


def flows_table() -> str:
    """Return what the flows differ in."""
    rows = [
        (
            f"**{flow.name}**",
            f"``@{flow.name}_step``",
            f"``{flow.running}``",
            f"``{flow.waiting}``" if flow.waiting else "cannot wait",
            f"``{flow.failed}``",
            f"``{flow.error.__name__}``",
        )
        for flow in steps.FLOWS.values()
    ]
    return table(("Flow", "Decorator", "Runs in", "Waits in", "Fails to", "A step raises"), rows)


def calls_table() -> str:
    """Return what runs around the steps of each flow."""
    rows = [
        (
            f"**{flow.name}**",
            *(f"``{call.interface}.{call.method}``" if call else "—" for call in calls),
        )
        for flow in steps.FLOWS.values()
        for calls in [(flow.prepare, flow.finish, flow.clean_up)]
    ]
    return table(("Flow", "Before the first step", "After the last", "After a failure"), rows)


def ranks_table() -> str:
    """Return the order of interfaces that breaks ties."""
    groups = _grouped((", ".join(flow.rank), flow.name) for flow in steps.FLOWS.values())
    return table(
        ("Flows", "Interfaces, the first first"),
        [(", ".join(n), r) for r, n in groups.items()],
        "20 80",
    )


def flow_settings_table() -> str:
    """Return the settings that belong to each flow."""
    rows = []
    for flow in steps.FLOWS.values():
        empty = flow.may_be_empty if isinstance(flow.may_be_empty, str) else None
        limits = (flow.callback_timeout, flow.brake)
        names = (flow.overrides, flow.forbidden, *limits, flow.switch, empty)
        rows.append(
            (f"**{flow.name}**", "\n".join(f"| :setting:`[conductor] {n}`" for n in names if n))
        )
    return table(("Flow", "Settings"), rows, "20 80")


_OWNERS = {
    "agent": "The next heartbeat of the machine's agent: the default of a wait.",
    "poller": "``check_step``, asked by the conductor after each pause.",
    "timer": "The clock alone: a pause, such as that between two tries.",
    "callback": "The driver, by ``task.complete_step()`` or ``task.fail_step(why)``.",
    "operator": "An operator, by ``unhold``.",
}


def owners_table() -> str:
    """Return who may end a wait."""
    rows = [(f"``{owner}``", _OWNERS[owner]) for owner in steps.OWNERS]
    return table(("Owner", "What ends the wait"), rows, "20 80")


def reserved_table() -> str:
    """Return the reserved steps."""
    rows = [
        (
            f"``{name}``",
            one.help,
            "\n".join(
                f"``{arg}``: {info['description']}" for arg, info in (one.argsinfo or {}).items()
            ),
        )
        for name, one in reserved.RESERVED.items()
    ]
    return table(("Step", "What it does", "Arguments"), rows, "16 44 40")


def releases_table() -> str:
    """Return what ``pin_release_version`` chooses from."""
    rows = [
        (
            f"``{name}``" + (" (the newest)" if name == releases.NEWEST else ""),
            "by steps" if release.deploy_steps else "by ``deploy(task)``",
            f"1.{release.api}",
        )
        for name, release in releases.RELEASES.items()
    ]
    return table(("Release", "Deployments begin", "API up to"), rows)


def exit_codes_table() -> str:
    """Return the exit codes of the command line."""
    return table(
        ("Code", "Meaning"), [(str(int(code)), told) for code, told in MEANINGS.items()], "15 85"
    )


def interfaces_line() -> str:
    """Return the types of interface."""
    return code(steps.INTERFACE_TYPES) + ".\n"


def differences_list() -> str:
    """Return where recorded requests are answered otherwise than by the field's server."""
    kept = Path(__file__).parents[3] / "tests" / "data" / "replay-differences.toml"
    entries = tomllib.loads(kept.read_text())["difference"]
    return "".join(f"- {entry['what']} {entry['why']}\n" for entry in entries)


TABLES: dict[str, Callable[[], str]] = {
    "states": states_table,
    "kinds": kinds_table,
    "transitions": transitions_table,
    "flows": flows_table,
    "calls": calls_table,
    "ranks": ranks_table,
    "flow-settings": flow_settings_table,
    "owners": owners_table,
    "reserved-steps": reserved_table,
    "releases": releases_table,
    "exit-codes": exit_codes_table,
    "interfaces": interfaces_line,
    "differences": differences_list,
}
