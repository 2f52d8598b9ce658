"""``deploysteps node``: what sets a machine in motion, and waits for the end."""

from __future__ import annotations

import re
from typing import Any

import click

from deploysteps import states
from deploysteps.cli import waiting, watch
from deploysteps.cli.app import Command, State, pass_state
from deploysteps.cli.client import node_path
from deploysteps.cli.errors import CommandError
from deploysteps.cli.params import by_runbook, given, steps_option
from deploysteps.cli.params import waiting as wait_options
from deploysteps.steps import CLEAN, DEPLOY, SERVICE, flow_of_state

_SIMPLE_VERBS: tuple[tuple[str, str, str], ...] = (
    ("manage", "manage", "Check that the node can be managed: it becomes manageable."),
    (
        "provide",
        "provide",
        "Clean a manageable node: it becomes available.",
    ),
    (
        "undeploy",
        states.DELETED,
        "Undo a deployment and clean the node: it is available again.",
    ),
    ("inspect", "inspect", "Find out what a manageable node is made of."),
    ("adopt", "adopt", "Take over a manageable node that has its instance already: it is active."),
    ("unrescue", "unrescue", "Boot the instance of a rescued node again: it is active."),
    ("abort", "abort", "Stop the node's run; its state tells that it failed."),
    ("unhold", "unhold", "Let a run go on that is held by a step 'hold'."),
)

RESUMED = {DEPLOY.failed: states.ACTIVE, SERVICE.failed: states.SERVICE}
"""State of a node whose run can be gone on with -> the target that does it."""


def _simple(name: str, target: str, told: str) -> click.Command:
    @click.command(name, cls=Command, help=told)
    @click.argument("node", metavar="NODE")
    @wait_options
    @pass_state
    def verb(state: State, node: str, wait: bool, timeout: float) -> None:
        ask(state, node, {"target": target}, wait, timeout)

    return verb


@click.command("deploy", cls=Command)
@click.argument("node")
@steps_option(DEPLOY)
@click.option("--config-drive", "configdrive", help="A configuration drive: a URL, or its data.")
@wait_options
@pass_state
def deploy(state: State, /, node: str, wait: bool, timeout: float, **more: Any) -> None:
    """Run the deploy steps: the node becomes active.

    It begins with the first step; `deploysteps node resume` goes on from where
    a deployment failed.
    """
    ask(state, node, {"target": states.ACTIVE} | given(more), wait, timeout)


@click.command("rebuild", cls=Command)
@click.argument("node")
@steps_option(DEPLOY)
@click.option("--config-drive", "configdrive", help="As for deploy.")
@wait_options
@pass_state
def rebuild(state: State, /, node: str, wait: bool, timeout: float, **more: Any) -> None:
    """Deploy a node again that is active or failed."""
    ask(state, node, {"target": states.REBUILD} | given(more), wait, timeout)


@click.command("clean", cls=Command)
@click.argument("node")
@steps_option(CLEAN)
@by_runbook
@wait_options
@pass_state
def clean(state: State, /, node: str, wait: bool, timeout: float, **more: Any) -> None:
    """Run clean steps on a manageable node: it stays manageable.

    Give --clean-steps or --runbook.
    """
    refuse_other_than_one(more, CLEAN.list_field)
    ask(state, node, {"target": states.CLEAN} | given(more), wait, timeout)


@click.command("service", cls=Command)
@click.argument("node")
@steps_option(SERVICE)
@by_runbook
@wait_options
@pass_state
def service(state: State, /, node: str, wait: bool, timeout: float, **more: Any) -> None:
    """Run service steps on an active node: it stays active.

    Give --service-steps or --runbook.
    """
    refuse_other_than_one(more, SERVICE.list_field)
    ask(state, node, {"target": states.SERVICE} | given(more), wait, timeout)


@click.command("resume", cls=Command)
@click.argument("node")
@click.option("--skip", is_flag=True, help="Go on after the step that failed, leaving it out.")
@wait_options
@pass_state
def resume(state: State, node: str, skip: bool, wait: bool, timeout: float) -> None:
    """Go on with a failed run from the step that failed.

    That is a deployment or a servicing. What the steps before it did is kept.
    It is refused when the plan does not fit any more; `deploysteps node deploy`
    begins anew.
    """
    found = waiting.state_of(state.client.get(node_path(node)))
    member = "resume_after" if skip else "resume"
    # In any other state there is nothing to go on with: the service says so.
    target = RESUMED.get(found, states.ACTIVE)
    ask(state, node, {"target": target, member: True}, wait, timeout)


@click.command("rescue", cls=Command)
@click.argument("node")
@click.option(
    "--rescue-password",
    "password",
    prompt=True,
    hide_input=True,
    confirmation_prompt=True,
    help="With which to log in to the rescue system; asked for when it is left out.",
)
@wait_options
@pass_state
def rescue(state: State, node: str, password: str, wait: bool, timeout: float) -> None:
    """Boot a rescue system on an active node."""
    body = {"target": states.TO_RESCUE, "rescue_password": password}
    ask(state, node, body, wait, timeout)


COMMANDS: tuple[click.Command, ...] = (
    *(_simple(*verb) for verb in _SIMPLE_VERBS),
    deploy,
    rebuild,
    clean,
    service,
    resume,
    rescue,
)
"""What ``deploysteps node`` has of this."""


def refuse_other_than_one(more: dict[str, Any], steps: str) -> None:
    """Refuse options that name neither steps nor a runbook, or both.

    :raises UsageError: naming the options.
    """
    named = [name for name in (steps, "runbook") if more.get(name)]
    if len(named) != 1:
        option = f"--{steps.replace('_', '-')}"
        both = f"give {option} or --runbook, not both"
        raise click.UsageError(both if named else f"give {option} (at least one step) or --runbook")


def ask(state: State, node: str, body: dict[str, Any], wait: bool, timeout: float) -> None:
    """Ask for another provision state, and wait for it when that is wanted."""
    client, asked = state.client, {"node": node, "target": body["target"]}
    event, aborting = states.VERBS[body["target"]], body["target"] == states.ABORT
    before = client.get(node_path(node)) if aborting or wait else {}
    last = waiting.newest_run(client, node) if wait and event not in _GO_ON else None
    try:
        client.put(node_path(node, "states", "provision"), body)
    except CommandError as exc:
        raise CommandError(_with_what_is_possible(exc.message, aborting), exc.code) from exc
    found = waiting.state_of(before) if before else None
    if aborting and found in states.STABLE_STATES:
        # It was aborted before: the service takes that for done.
        state.output.report(f"{node}: there is nothing to abort, it is {found!r}", asked)
        return
    if aborting:
        _tell_of_a_step_that_ends_first(state, node, before)
    if not wait:
        told = f"{node}: accepted; `deploysteps node watch {node}` shows how it goes"
        state.output.report(told, asked)
        return
    ended = follow(state, node, timeout, after=last)
    wanted = waiting.goal(event, found, before.get("target_provision_state"))
    waiting.judge(ended, wanted)


def _tell_of_a_step_that_ends_first(state: State, node: str, before: dict[str, Any]) -> None:
    flow = flow_of_state(waiting.state_of(before))
    step = before.get(flow.step_field) if flow else None
    if not flow or not step or step.get("abortable") is not False:
        return
    if before.get("maintenance") and not before.get("fault"):
        return  # an operator's: its waits are ended at once
    runs = waiting.state_of(before) == flow.running
    when = "If it comes to wait, that can be ended at once" if runs else "To end its wait at once"
    state.output.say(
        f"{node}: {step['interface']}.{step['step']} is not abortable, so the run ends when "
        f"that step has ended. {when}: `deploysteps node maintenance {node} on`, and abort again"
    )


_GO_ON = (states.ABORT, states.UNHOLD)
"""Events of a run that goes on already; any other begins a new one, or none."""

_IN_STATE = re.compile(r"in state \"([^\"]+)\"")


def _with_what_is_possible(message: str, aborting: bool) -> str:
    """Return a refusal that names a state with the commands that are possible in it."""
    named = _IN_STATE.search(message)
    if named is None or named[1] not in states.STATES:
        return message
    names = {command.name for command in COMMANDS}
    busy = named[1] in states.TRANSIENT_STATES  # what else moves it on is not for people to say
    possible = [
        verb
        for verb in states.verbs(named[1])
        if verb in names and (verb == states.ABORT or not busy)
    ]
    if named[1] in RESUMED:
        possible.append("resume")
    listed = ", ".join(possible)
    idle = aborting and named[1] in states.STABLE_STATES
    told = f"there is nothing to abort: {message}" if idle else message
    return f"{told}; possible now: {listed or 'to wait'}"


def tell(text: str) -> None:
    """Say what is not the result, on stderr."""
    click.echo(text, err=True)


def follow(
    state: State,
    node: str,
    timeout: float,
    interval: float = 1.0,
    *,
    after: str | None = None,
) -> waiting.Snapshot:
    """Show what goes on with a node until it has settled."""
    output = state.output
    last = watch.show(
        output,
        waiting.follow(
            state.client,
            node,
            interval=interval,
            timeout=timeout,
            after=after,
            tell=tell,
        ),
    )
    if state.as_json:
        output.data({"node": last.node, "run": last.run})
    return last
