"""What moves a node: deploy, clean, service, manage, provide, undeploy, abort, unhold, unlock.

Each verb takes the node's lock, refuses what makes no sense, writes that the
work has begun, and hands it to a worker.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, get_args

from deploysteps import exceptions, states
from deploysteps.conductor import (
    attempts,
    charge,
    endings,
    engine,
    inventory,
    jobs,
    old_way,
    planning,
    policy,
    recovery,
    starting,
    words,
)
from deploysteps.conductor.attend import guarded
from deploysteps.conductor.runtime import Runtime
from deploysteps.conductor.steps import Plan, label_of
from deploysteps.conductor.task_manager import TaskManager, acquire
from deploysteps.conductor.workers import Slot
from deploysteps.db import locks, nodes, power, runs, transitions, types
from deploysteps.db.models import Node, StepAttempt
from deploysteps.db.sweeps import Orphan
from deploysteps.db.transitions import Key, key_of
from deploysteps.steps import CLEAN, DEPLOY, RUNS, SERVICE, VERIFY, Resume, StepFlow, flow_of_state

LOG = logging.getLogger(__name__)


class HandingOver:
    """Takes a lock; leaving the block well gives it to a worker, else frees all."""

    def __init__(
        self, runtime: Runtime, context: Any, node_id: str, purpose: str, *, shared: bool = False
    ) -> None:
        """Reserve a worker; the lock is taken on entering.

        :param shared: for work that needs no lock.
        :raises NoFreeConductorWorker: try again.
        """
        self._asked = (runtime, context, node_id, purpose)
        self._shared = shared
        self._slot: Slot = runtime.workers.reserve(operator=True)
        self._work: tuple[Any, ...] | None = None
        self._task: TaskManager | None = None

    def __enter__(self) -> tuple[TaskManager, Callable[..., None]]:
        """Return the task, and what names the work."""
        try:
            runtime, context, node_id, purpose = self._asked
            self._task = acquire(context, node_id, self._shared, purpose=purpose, runtime=runtime)
        except BaseException:
            self._slot.release()
            raise
        return self._task, self._hand_over

    def _hand_over(self, work: Callable[..., None], *args: Any) -> None:
        self._work = (guarded(work), *args)

    def __exit__(self, kind: Any, exc: BaseException | None, traceback: Any) -> None:
        """Hand over, or free all."""
        if self._task is None:
            return
        if self._work is not None and exc is None:
            self._task.hand_over(self._slot, *self._work)
            return
        try:
            self._task.release_resources()
        finally:
            self._slot.release()


# --- runs --------------------------------------------------------------------------


def deploy(
    runtime: Runtime,
    context: Any,
    node_id: str,
    rebuild: bool,
    configdrive: Any,
    asked: Sequence[Any] | None,
    resume: str | None,
) -> None:
    """Begin a deployment; see :meth:`ConductorManager.do_node_deploy`."""
    event = states.REBUILD if rebuild else states.DEPLOY
    with HandingOver(runtime, context, node_id, f"node {event}") as (task, hand_over):
        refuse(task, event, in_maintenance=event)
        if rebuild and task.node.protected:
            raise exceptions.NodeProtected(node=task.node.uuid)
        if configdrive is not None:
            # Before the interfaces are asked: what they check is this one, not an older one. It
            # is stored with the begin of the run, or not at all.
            task.node.set_instance_info("configdrive", configdrive)
        validate(task, ("power", "deploy"))
        _begin(task, hand_over, DEPLOY, event, resume, asked=asked)


def clean(
    runtime: Runtime,
    context: Any,
    node_id: str,
    asked: Sequence[Any] | None,
    disable_ramdisk: bool | None,
    runbook: str | None,
) -> None:
    """Begin a cleaning by given steps; see :meth:`ConductorManager.do_node_clean`."""
    with HandingOver(runtime, context, node_id, "node clean") as (task, hand_over):
        refuse(task, states.CLEAN, in_maintenance=states.CLEAN)
        if not asked and runbook is None:
            raise exceptions.MissingParameterValue(
                "a cleaning on request needs clean_steps or a runbook; `provide` cleans by the "
                "driver's own steps"
            )
        validate(task, ("power",))
        _begin(task, hand_over, CLEAN, states.CLEAN, None, asked, runbook, disable_ramdisk)


def service(
    runtime: Runtime,
    context: Any,
    node_id: str,
    asked: Sequence[Any] | None,
    disable_ramdisk: bool | None,
    runbook: str | None,
    resume: str | None,
) -> None:
    """Begin a servicing; see :meth:`ConductorManager.do_node_service`."""
    with HandingOver(runtime, context, node_id, "node service") as (task, hand_over):
        # One who goes on with the step that failed has looked at the machine.
        looked_at = resume is not None and task.node.fault == SERVICE.fault
        refuse(task, states.SERVICE, in_maintenance=None if looked_at else states.SERVICE)
        validate(task, ("power",))
        well = [power.found_well(task.node.id, SERVICE.fault)] if looked_at else []
        try:
            _begin(
                task,
                hand_over,
                SERVICE,
                states.SERVICE,
                resume,
                asked,
                runbook,
                disable_ramdisk,
                well,
            )
        except locks.Stale:
            # An operator has set or ended it meanwhile, which needs no lock: his word stays.
            raise exceptions.Conflict(
                f"The maintenance of node {task.node.uuid} was changed by another request "
                "meanwhile; look at it again, and repeat the request."
            ) from None
        if looked_at:
            task.node.stored(power.WELL)


def provide(runtime: Runtime, context: Any, node_id: str) -> None:
    """Begin the cleaning that makes a node available."""
    with HandingOver(runtime, context, node_id, "node provide") as (task, hand_over):
        allowed = runtime.conf.conductor.allow_provisioning_in_maintenance
        refuse(task, states.PROVIDE, in_maintenance=None if allowed else states.PROVIDE)
        if task.node.retired:
            raise exceptions.NodeIsRetired(op=states.PROVIDE, node=task.node.uuid)
        has_driver(task)
        _begin(task, hand_over, CLEAN, states.PROVIDE, None)


def manage(runtime: Runtime, context: Any, node_id: str) -> None:
    """Make a node manageable: a new one is verified first."""
    with HandingOver(runtime, context, node_id, "node manage") as (task, hand_over):
        refuse(task, states.MANAGE)
        has_driver(task)
        after = states.next_state(task.node.provision_state, states.MANAGE)
        if after != VERIFY.running:
            task.move(states.MANAGE)
            return
        _begin(task, hand_over, VERIFY, states.MANAGE, None)


def _begin(
    task: TaskManager,
    hand_over: Callable[..., None],
    flow: StepFlow,
    event: str,
    resume: str | None,
    asked: Sequence[Any] | None = None,
    runbook: str | None = None,
    disable_ramdisk: bool | None = None,
    also: Sequence[locks.Also] = (),
) -> None:
    """Plan a run, write that it has begun, and give it to a worker.

    :param also: further statements of the write that begins it.
    :raises InvalidParameterValue: what is asked for cannot be.
    """
    failed = problem = None
    if resume is not None:
        if asked or runbook:
            raise exceptions.InvalidParameterValue(
                "a run that goes on has its steps already; leave them out of the request"
            )
        failed, request, plan = starting.resumed(task, flow, _checked(resume))
    else:
        request = planning.request(task, flow, asked, runbook, disable_ramdisk)
        plan, problem = jobs.planned(task, flow, request)
    how = planning.mechanism(task, flow, plan) if problem is None else runs.BY_STEPS
    problem = problem or _nothing_left(flow, plan, how)
    own = {step["interface"] for step in plan.entries if not step.get("agent")}
    validate(task, sorted(own - {"power", "deploy"}))
    starting.start(
        task,
        flow,
        plan,
        event=event,
        requested_by=task.user,
        request=request,
        how=how,
        resumes=failed,
        also=also,
    )
    hand_over(engine.run, flow, problem, plan.note)


def _nothing_left(flow: StepFlow, plan: Plan, how: str) -> str | None:
    """Return why a run whose steps all fell away fails: which, and by what."""
    empty = not (plan.entries or plan.agent_to_come or plan.note) and how == runs.BY_STEPS
    if not empty or not plan.left_out or flow.may_be_empty is True:
        return None
    gone = "; ".join(f"{label_of(step)}: {step['why']}" for step in plan.left_out)
    return f"no steps: nothing of the {flow.name} is left ({gone})"


def _checked(resume: str) -> str:
    known = get_args(Resume)
    if resume not in known:
        raise exceptions.InvalidParameterValue(
            f"resume is one of {', '.join(known)}, not {resume!r}"
        )
    return resume


def tear_down(runtime: Runtime, context: Any, node_id: str) -> None:
    """Begin an undeployment; see :meth:`ConductorManager.do_node_tear_down`."""
    with HandingOver(runtime, context, node_id, "node tear down") as (task, hand_over):
        refuse(task, states.DELETE)
        has_driver(task)
        if task.node.protected:
            raise exceptions.NodeProtected(node=task.node.uuid)
        jobs.begin_tear_down(task)
        hand_over(jobs.tear_down)


# --- what changes a run that goes on ---------------------------------------------------


def abort(runtime: Runtime, context: Any, node_id: str) -> None:
    """Ask the node's run to end; a second time changes nothing, but in maintenance.

    A step that is not abortable ends first. In a maintenance that an operator has
    set the machine is his, and what waits is ended at once, what runs when it comes
    to wait. A run that no conductor is there for is ended, its machine left alone.
    """
    node = nodes.get(runtime.database, node_id)
    flow = flow_of_state(node.provision_state)
    if flow is None or node.run_id is None:
        if not _was_aborted(runtime, node):
            raise _wrong_state(node, states.ABORT)
        return
    if charge.is_forsaken(runtime, node):
        _abort_forsaken(runtime, context, node)
        return
    _tell_of_a_step_that_ends_first(runtime, context, node, flow)
    inventory.request_abort(runtime, node, _who(context), lambda n: _to_cut_short(runtime, n))


def _abort_forsaken(runtime: Runtime, context: Any, node: Node) -> None:
    """End a run that nobody would attend to, without its driver."""
    if node.reservation is not None:
        charge.refuse_foreign(runtime, node)
    purpose = "node abort"
    with acquire(
        context, node.id, purpose=purpose, retry=False, any_group=True, runtime=runtime
    ) as task:
        flow = engine.flow_of(task)
        if flow is None or task.node.run_id is None:
            return  # it has ended meanwhile
        why = attempts.told(task, f"aborted by {_who(context)}; {charge.left_alone(task.node)}")
        endings.end(task, flow, endings.Ending(endings.ABORTED, states.ABORT, why, clean_up=False))


def _tell_of_a_step_that_ends_first(
    runtime: Runtime, context: Any, node: Node, flow: StepFlow
) -> None:
    """Put into the history why nothing ends yet, and what the operator can do about it."""
    entry, run = getattr(node, flow.step_field), runs.get(runtime.database, node.run_id or 0)
    if not entry or run.abort_requested_at or _is_abortable(runtime, node, flow, entry):
        return
    if _to_cut_short(runtime, node) is not None:
        return
    runs_on = node.provision_state == flow.running
    when = "If it comes to wait, to end that at once" if runs_on else "To end its wait at once"
    told = (
        f"{_who(context)} asked for an abort; {label_of(entry)} is not abortable, so the run ends "
        f"when that step has ended. {when}, set the node to "
        "maintenance and abort again"
    )
    LOG.warning("Node %s: %s", node.uuid, told)
    row = nodes.history_row(
        node,
        told,
        event_type="abort pending",
        severity="WARNING",
        conductor=runtime.host,
        user=getattr(context, "user_id", None),
        project=getattr(context, "project_id", None),
    )
    transitions.tell(runtime.database, row)


def unhold(runtime: Runtime, context: Any, node_id: str) -> None:
    """Let a run that is on hold go on; a second time changes nothing.

    A conductor of the node's group sees to it: where none lives, that is told at once.
    """
    node = nodes.get(runtime.database, node_id)
    if not states.can(node.provision_state, states.UNHOLD):
        raise _wrong_state(node, states.UNHOLD)
    if charge.is_forsaken(runtime, node):
        charge.refuse_foreign(runtime, node)
    attempt = _last_attempt(runtime, node)
    if attempt is not None and attempt.state == runs.WAITING and attempt.owner == "operator":
        transitions.send_signal(runtime.database, key_of(attempt), "done", _who(context))
        runtime.wake()


def _who(context: Any) -> str:
    return getattr(context, "user_id", None) or "an operator"


def _last_attempt(runtime: Runtime, node: Node) -> StepAttempt | None:
    return runs.last_attempt(runtime.database, node.run_id) if node.run_id is not None else None


def _to_cut_short(runtime: Runtime, node: Node) -> Key | None:
    """Return the attempt whose wait, also one that is to come, may be ended at once."""
    flow, attempt = flow_of_state(node.provision_state), _last_attempt(runtime, node)
    if flow is None or attempt is None or attempt.state == runs.FINISHED:
        return None
    if attempt.position == attempts.PREPARE or attempt.step_id == old_way.STEP_ID:
        return key_of(attempt)
    entry = getattr(node, flow.step_field)
    if entry is None or attempt.step_id != entry.get("id"):
        return None  # it went on between the two reads
    at_once = _is_operators(node) or _is_abortable(runtime, node, flow, entry)
    return key_of(attempt) if at_once else None


def _is_operators(node: Node) -> bool:
    """Tell whether somebody has set the node to maintenance; a fault is what the service found."""
    return bool(node.maintenance) and node.fault is None


def _is_abortable(runtime: Runtime, node: Node, flow: StepFlow, entry: Any) -> bool:
    try:
        driver = runtime.registry.build(node)
    except exceptions.DeployStepsException:
        return policy.of_entry(entry).abortable  # the driver is broken: the plan's word
    return policy.of_step(driver, flow, entry).abortable


def _was_aborted(runtime: Runtime, node: Node) -> bool:
    last = runs.of_node(runtime.database, node.id, limit=1)
    aborted = bool(last) and last[0].outcome == endings.ABORTED
    return aborted and node.provision_state == RUNS[last[0].flow].failed


def unlock(
    runtime: Runtime, context: Any, node_id: str, reason: str | None, since: str | None
) -> None:
    """Break a lock; see :meth:`ConductorManager.unlock_node`."""
    node = nodes.get(runtime.database, node_id)
    charge.may_touch(runtime, node)
    if node.reservation is None:
        raise exceptions.InvalidParameterValue(
            f"node {node.uuid} is not locked; there is nothing to break"
        )
    if since is not None and since != (types.timestamp(node.locked_at) if node.locked_at else None):
        raise exceptions.Conflict(
            f"node {node.uuid} is locked by {node.reservation}, but not since {since}: look again"
        )
    slot = runtime.workers.reserve(operator=True)
    purpose = node.lock_purpose or "an unknown purpose"
    told = f"the lock of conductor {node.reservation} for {purpose!r} was broken" + (
        f" ({reason})" if reason else ""
    )
    try:
        lock, fresh = locks.grant(
            runtime.database,
            node.id,
            runtime.host,
            recovery.PURPOSE,
            held=node.lock_token or "",
            also=[
                transitions.history(
                    nodes.history_row(
                        node,
                        words.shortened(told, words.LAST_ERROR_BYTES),
                        event_type="lock broken",
                        severity="WARNING",
                        conductor=runtime.host,
                        user=_who(context),
                        project=getattr(context, "project_id", None),
                    )
                )
            ],
            active=runtime.active,
        )
    except BaseException:
        slot.release()
        raise
    LOG.warning("Node %s: %s", node.uuid, told)
    recovery.take_on(runtime, fresh, lock, slot, Orphan.of(node, why=told))


# --- refusals ----------------------------------------------------------------------------


def _wrong_state(node: Node, event: str) -> exceptions.InvalidStateRequested:
    word = next((verb for verb, found in states.VERBS.items() if found == event), event)
    return exceptions.InvalidStateRequested(action=word, node=node.uuid, state=node.provision_state)


def refuse(task: TaskManager, event: str, in_maintenance: str | None = None) -> None:
    """Refuse what the state table does not have, or what maintenance forbids."""
    node = task.node
    if not states.may(node.provision_state, event):
        raise _wrong_state(node, event)
    if in_maintenance and node.maintenance:
        raise exceptions.NodeInMaintenance(op=in_maintenance, node=node.uuid)


def has_driver(task: TaskManager) -> None:
    """Refuse what needs a driver that this conductor does not offer."""
    try:
        _ = task.driver
    except exceptions.NotFound as exc:
        raise exceptions.InvalidParameterValue(str(exc)) from exc


def validate(task: TaskManager, kinds: Sequence[str]) -> None:
    """Ask interfaces whether they have what they need, before anything is written."""
    has_driver(task)
    for kind in kinds:
        try:
            getattr(task.driver, kind).validate(task)
        except BaseException as exc:  # SystemExit would stop the server that asks
            why = words.shown(words.text_of(exc), task.masker(), words.LAST_ERROR_BYTES)
            raise exceptions.InvalidParameterValue(
                f"Failed to validate {kind} info for node {task.node.uuid}. Error: {why}"
            ) from exc
