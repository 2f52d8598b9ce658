"""``deploysteps node``: machines, over REST."""

from __future__ import annotations

import re
from typing import Any

import click

from deploysteps import states
from deploysteps.cli import waiting, watch
from deploysteps.cli.app import Group, State, pass_state
from deploysteps.cli.client import node_path
from deploysteps.cli.errors import CommandError, ExitCode
from deploysteps.cli.params import OBJECTS, STEPS_HELP, node_fields, step_list
from deploysteps.cli.params import waiting as wait_options

LISTED = ("uuid", "name", "driver", "provision_state", "power_state", "maintenance")

POWER: dict[str, tuple[str, str]] = {
    "on": (states.POWER_ON, states.POWER_ON),
    "off": (states.POWER_OFF, states.POWER_OFF),
    "reboot": (states.REBOOT, states.POWER_ON),
    "soft-off": (states.SOFT_POWER_OFF, states.POWER_OFF),
    "soft-reboot": (states.SOFT_REBOOT, states.POWER_ON),
}
"""What people write -> the target, and the power state that it ends in."""

_SIMPLE_VERBS: tuple[tuple[str, str, str], ...] = (
    ("manage", "manage", "Check that the node can be managed: it becomes manageable."),
    ("provide", "provide", "Offer a manageable node for deployments: it becomes available."),
    ("undeploy", states.DELETED, "Take the deployment off the node: it becomes available again."),
    ("abort", "abort", "Stop the node's run: it becomes 'deploy failed'."),
)

_RUNS = (states.ACTIVE, states.REBUILD)
"""Targets that start a run of steps."""


@click.group(cls=Group)
def node() -> None:
    """Enrol machines, deploy them, and see what goes on."""


@node.command("create")
@click.option("--driver", required=True, help="The hardware type, e.g. fake-hardware.")
@click.option("--uuid", help="A UUID to have; by default it gets one.")
@node_fields
@pass_state
def create(state: State, /, **fields: Any) -> None:
    """Enrol a machine."""
    made = state.client.post("/v1/nodes", _given(fields))
    state.output.mapping(made)


@node.command("list")
@click.option(
    "--provision-state",
    type=click.Choice(list(states.STATES)),
    metavar="STATE",
    help="Only nodes in this state, such as 'deploy failed'.",
)
@click.option("--driver", help="Only nodes of this hardware type.")
@click.option("--maintenance", type=bool, help="Only nodes that are, or are not, in maintenance.")
@click.option("--associated", type=bool, help="Only nodes that have, or have not, an instance.")
@click.option("--fields", default=",".join(LISTED), show_default=True, help="What to show.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many.")
@pass_state
def list_(state: State, /, fields: str, limit: int | None, **filters: Any) -> None:
    """List machines."""
    columns = [name.strip() for name in fields.split(",") if name.strip()]
    found = state.client.list(
        "/v1/nodes", "nodes", limit, fields=",".join(columns), limit=limit, **filters
    )
    rows = [[item.get(name) for name in columns] for item in found]
    state.output.rows(columns, rows, found, "no nodes; `deploysteps node create` enrols one")


@node.command("show")
@click.argument("node")
@click.option("--fields", help="Show only these, separated by commas.")
@pass_state
def show(state: State, node: str, fields: str | None) -> None:
    """Show a machine, by uuid or name."""
    state.output.mapping(state.client.get(node_path(node), fields=fields))


@node.command("set")
@click.argument("node")
@click.option("--driver", help="Another hardware type.")
@node_fields
@pass_state
def set_(state: State, /, node: str, **fields: Any) -> None:
    """Change fields of a machine, and show it.

    KEY=VALUE sets one member of an object and leaves its other members alone.
    """
    objects = {name for _, name, _ in OBJECTS}
    values: dict[str, Any] = {}
    for field, value in _given(fields).items():
        if field in objects:
            values |= {f"/{field}/{_pointer(key)}": item for key, item in value.items()}
        else:
            values[f"/{field}"] = value
    patch = [{"op": "add", "path": path, "value": value} for path, value in values.items()]
    _patch(state, node, patch)


@node.command("unset")
@click.argument("node")
@click.argument("fields", nargs=-1, required=True, metavar="FIELD[/KEY]...")
@pass_state
def unset(state: State, node: str, fields: tuple[str, ...]) -> None:
    """Empty fields of a machine, or take members out of them, and show it.

    For example `deploysteps node unset node-1 description driver_info/address`.
    """
    _patch(state, node, [{"op": "remove", "path": f"/{field.lstrip('/')}"} for field in fields])


@node.command("delete")
@click.argument("nodes", nargs=-1, required=True)
@pass_state
def delete(state: State, nodes: tuple[str, ...]) -> None:
    """Forget machines; a machine that is in use must be undeployed first."""
    for name in nodes:
        state.client.delete(node_path(name))
    state.output.report(f"deleted {', '.join(nodes)}", {"deleted": list(nodes)})


@node.command("validate")
@click.argument("node")
@pass_state
def validate(state: State, node: str) -> None:
    """Check what each interface needs to know; exit 1 when something is missing."""
    report = state.client.get(node_path(node, "validate"))
    rows = [(kind, item["result"], item.get("reason")) for kind, item in sorted(report.items())]
    state.output.rows(("interface", "result", "reason"), rows, report)
    bad = [kind for kind, result, _ in rows if result is False]
    if bad:
        raise CommandError(f"node {node} is not valid: {', '.join(bad)}")


def _add_simple_verb(name: str, target: str, told: str) -> None:
    @node.command(name, help=told)
    @click.argument("node", metavar="NODE")
    @wait_options
    @pass_state
    def verb(state: State, node: str, wait: bool, timeout: float) -> None:
        _provision(state, node, {"target": target}, wait, timeout)


for _verb in _SIMPLE_VERBS:
    _add_simple_verb(*_verb)


@node.command("deploy")
@click.argument("node")
@click.option(
    "--deploy-steps",
    type=step_list,
    metavar="JSON|@FILE|-",
    help=STEPS_HELP,
)
@click.option("--config-drive", "configdrive", help="A configuration drive: a URL, or its data.")
@wait_options
@pass_state
def deploy(state: State, /, node: str, wait: bool, timeout: float, **more: Any) -> None:
    """Run the deploy steps: the node becomes active."""
    _provision(state, node, {"target": states.ACTIVE} | _given(more), wait, timeout)


@node.command("rebuild")
@click.argument("node")
@click.option("--deploy-steps", type=step_list, metavar="JSON|@FILE|-", help="As for deploy.")
@click.option("--config-drive", "configdrive", help="As for deploy.")
@wait_options
@pass_state
def rebuild(state: State, /, node: str, wait: bool, timeout: float, **more: Any) -> None:
    """Deploy a node again that is active or failed."""
    _provision(state, node, {"target": states.REBUILD} | _given(more), wait, timeout)


@node.command("watch")
@click.argument("node")
@click.option(
    "--interval", type=click.FloatRange(min=0.05), default=1, show_default=True, help="Seconds."
)
@click.option(
    "--timeout",
    type=click.FloatRange(min=0),
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
    last = _follow(state, node, timeout, interval)
    if last.run is None:
        raise CommandError(
            f"node {last.name} has no run yet; `deploysteps node deploy {last.name}` starts one",
            ExitCode.NOT_FOUND,
        )
    if last.run["outcome"] != "success":
        raise CommandError(
            f"the run of node {last.name} ended: {last.run['outcome']}: {last.run['error']}"
        )


@node.command("runs")
@click.argument("node")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True)
@pass_state
def runs(state: State, node: str, limit: int) -> None:
    """List the node's runs, newest first; --json shows every attempt of every step."""
    found = state.client.list(node_path(node, "runs"), "runs", limit, limit=limit)
    columns = ("uuid", "flow", "outcome", "started", "duration", "error")
    rows = [
        (
            run["uuid"],
            run["flow"],
            run["outcome"] or run["state"],
            watch.clock(run["started_at"]),
            watch.duration(run["started_at"], run["finished_at"]),
            run["error"],
        )
        for run in found
    ]
    state.output.rows(columns, rows, found, f"node {node} has no run yet")


@node.command("steps")
@click.argument("node")
@pass_state
def steps(state: State, node: str) -> None:
    """List the steps that the node's interfaces offer."""
    found = state.client.get(node_path(node, "steps"))["steps"]
    columns = ("interface", "step", "priority", "abortable", "repeatable", "source")
    state.output.rows(columns, [[step[name] for name in columns] for step in found], found)


@node.command("power")
@click.argument("node")
@click.argument("target", type=click.Choice(list(POWER)))
@wait_options
@pass_state
def power(state: State, node: str, target: str, wait: bool, timeout: float) -> None:
    """Switch a machine on or off."""
    wanted, end = POWER[target]
    client = state.client
    body = {"target": wanted} | ({"timeout": int(timeout)} if timeout >= 1 else {})
    client.put(node_path(node, "states", "power"), body)
    if not wait:
        state.output.report(f"{node}: {wanted} asked for", {"node": node, "target": wanted})
        return
    last = waiting.until_power_settled(client, node, timeout)
    if last["power_state"] != end:
        raise CommandError(
            f"node {node} is {last['power_state']!r}: {last['last_error'] or 'no reason was told'}"
        )
    state.output.report(f"{node} is {last['power_state']}", last)


@node.command("maintenance")
@click.argument("node")
@click.argument("switch", type=click.Choice(["on", "off"]))
@click.option("--reason", help="Why, for others to read.")
@pass_state
def maintenance(state: State, node: str, switch: str, reason: str | None) -> None:
    """Take a machine out of service, or back."""
    path = node_path(node, "maintenance")
    if switch == "on":
        state.client.put(path, {"reason": reason} if reason else {})
    elif reason:
        raise click.UsageError("--reason goes with on")
    else:
        state.client.delete(path)
    told = {"node": node, "maintenance": switch == "on"}
    state.output.report(f"{node}: maintenance {switch}", told)


def _given(fields: dict[str, Any]) -> dict[str, Any]:
    """Return what was given; pairs of an object become the object."""
    objects = {name for _, name, _ in OBJECTS}
    given = {name: dict(v) if name in objects else v for name, v in fields.items()}
    return {name: value for name, value in given.items() if value not in (None, {})}


def _pointer(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _patch(state: State, node: str, patch: list[dict[str, Any]]) -> None:
    if not patch:
        raise click.UsageError(
            "nothing to change was given, such as --driver-info address=10.0.0.1"
        )
    state.output.mapping(state.client.patch(node_path(node), patch))


def _provision(state: State, node: str, body: dict[str, Any], wait: bool, timeout: float) -> None:
    asked = {"node": node, "target": body["target"]}
    aborting = body["target"] == states.ABORT
    found = state.client.get(node_path(node))["provision_state"] if aborting else None
    try:
        state.client.put(node_path(node, "states", "provision"), body)
    except CommandError as exc:
        raise CommandError(_with_what_is_possible(exc.message, aborting), exc.code) from exc
    if found in states.STABLE_STATES:
        # It was aborted before: the service takes that for done.
        state.output.report(f"{node}: there is nothing to abort, it is {found!r}", asked)
        return
    if not wait:
        told = f"{node}: accepted; `deploysteps node watch {node}` shows how it goes"
        state.output.report(told, asked)
        return
    # What is no run must not show an old one.
    last = _follow(state, node, timeout, with_run=body["target"] in _RUNS)
    waiting.judge(last, waiting.goal(states.VERBS[body["target"]]))


_IN_STATE = re.compile(r"in state \"([^\"]+)\"")


def _with_what_is_possible(message: str, aborting: bool) -> str:
    """Return a refusal that names a state with the commands that are possible in it."""
    named = _IN_STATE.search(message)
    if named is None or named[1] not in states.STATES:
        return message
    possible = states.events(named[1])
    commands = [verb for verb, event in states.VERBS.items() if event in possible]
    listed = ", ".join(name for name in commands if name in node.commands)
    idle = aborting and named[1] in states.STABLE_STATES
    told = f"there is nothing to abort: {message}" if idle else message
    return f"{told}; possible now: {listed or 'to wait'}"


def _follow(
    state: State, node: str, timeout: float, interval: float = 1.0, *, with_run: bool = True
) -> waiting.Snapshot:
    output = state.output
    last = watch.show(
        output,
        waiting.follow(
            state.client,
            node,
            interval=interval,
            timeout=timeout,
            with_run=with_run,
            tell=lambda text: click.echo(text, err=True),
        ),
    )
    if state.as_json:
        output.data({"node": last.node, "run": last.run})
    return last
