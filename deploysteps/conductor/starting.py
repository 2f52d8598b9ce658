"""The beginning of a run: one write, whatever the flow and wherever the plan is from."""

from __future__ import annotations

import logging
from collections.abc import Sequence

import sqlalchemy as sa

from deploysteps import exceptions, states
from deploysteps.conductor import attempts, brakes, endings, old_way, planning, positions, words
from deploysteps.conductor.planning import Request
from deploysteps.conductor.steps import SKIPPED, Plan, label_of
from deploysteps.conductor.task_manager import TaskManager
from deploysteps.db import events, locks, nodes, runs, transitions, types
from deploysteps.db.events import New
from deploysteps.db.locks import Also
from deploysteps.db.models import StepAttempt, StepRun
from deploysteps.db.runs import BY_STEPS, OLD_WAY
from deploysteps.steps import AWAITS_AGENT, FLOWS, StepDict, StepFlow

LOG = logging.getLogger(__name__)


def start(
    task: TaskManager,
    flow: StepFlow,
    plan: Plan,
    *,
    event: str,
    requested_by: str | None,
    request: Request | None = None,
    how: str = BY_STEPS,
    resumes: StepRun | None = None,
    also: Sequence[Also] = (),
) -> None:
    """Write that a run begins: state, list, run and its first attempt, in one go.

    The caller's changes of the node (instance_info, say) go into the same write.

    :param how: by steps, or the old way.
    :param resumes: the failed run that this one goes on from.
    :param also: further statements of the same write.
    """
    node, now = task.node, types.utcnow()
    wanted = request or Request()
    entries = planning.entries_of(task, flow, plan, how)
    # What is on its way into the flow, as an undeployment is, was let in when it began.
    enters = node.provision_state not in flow.braked
    _note_begin(task, flow, plan, event, wanted, how)
    first = _first(flow, plan, wanted, how)

    refuse = brakes.check(task, flow)

    def insert(connection: sa.Connection) -> tuple[int, StepAttempt | None]:
        if enters:
            refuse(connection)
        run_id, _uuid = transitions.start_run(
            connection,
            node_id=node.id,
            flow=flow.name,
            plan=entries,
            request=wanted.stored() if wanted != Request() else None,
            left_out=plan.left_out or None,
            mechanism=how,
            resumes=resumes.uuid if resumes is not None else None,
            requested_by=requested_by,
            started_at=now,
        )
        connection.execute(transitions.set_current_run(node.id, run_id))
        if first is None:
            return run_id, None
        attempt = attempts.new(task, run_id, attempts.PREPARE, 1, first)
        locks.run_also(connection, transitions.begin(attempt))
        return run_id, attempt

    def tells(inserted: tuple[int, StepAttempt | None]) -> list[New]:
        run_id, attempt = inserted
        how_it_began = {
            "requested_by": requested_by,
            "resumes": resumes.uuid if resumes is not None else None,
            "steps": len(entries),
        }
        told = [New(events.RUN_STARTED, run_id, how_it_began)]
        begun = transitions.begin(attempt).tells if attempt is not None else None
        return [*told, begun] if begun is not None else told

    also = [*also, *told_skipped(task, flow, plan)]
    run_id, task.attempt = task.write(node.changes(), also, then=insert, tells=tells)
    node.stored({"run_id": run_id})
    LOG.info("Node %s: %s begins with %d steps", node.uuid, flow.name, len(entries))


def _note_begin(
    task: TaskManager, flow: StepFlow, plan: Plan, event: str, wanted: Request, how: str
) -> None:
    """Set on the node what a run that begins shows; what earlier runs left goes."""
    node, info = task.node, task.node.driver_internal_info
    before, target = node.provision_state, node.target_provision_state
    for other in FLOWS.values():
        setattr(node, other.step_field, None)
        for key in other.keys:
            info.pop(key, None)
    if how != OLD_WAY and (
        plan.entries or plan.note or plan.agent_to_come or flow.may_be_empty is True
    ):
        info[flow.list_field] = plan.entries  # none at all: the plan could not be made
    if plan.agent_to_come:
        info[AWAITS_AGENT] = True
    if flow.no_ramdisk and wanted.disable_ramdisk:
        info[flow.no_ramdisk] = True
    node.provision_state = states.next_state(before, event)
    node.target_provision_state = states.target_after(before, event, target)
    node.provision_updated_at = types.utcnow()
    node.last_error = None
    if flow.times:
        since, until = flow.times
        setattr(node, since, node.provision_updated_at)
        setattr(node, until, None)


def _first(flow: StepFlow, plan: Plan, wanted: Request, how: str) -> StepDict | None:
    """Return what the first attempt is: it prepares the node, unless there is nothing to do."""
    to_do = plan.entries or plan.agent_to_come or flow.may_be_empty is True or how == OLD_WAY
    to_do = to_do or flow.job
    if not flow.prepare or not to_do or (flow.no_ramdisk and wanted.disable_ramdisk):
        return None
    return {**attempts.prepares(flow), "id": old_way.STEP_ID if how == OLD_WAY else None}


def _forbidden(plan: Plan) -> list[str]:
    return [label_of(step) for step in plan.left_out if step["why"].startswith(SKIPPED)]


def told_skipped(task: TaskManager, flow: StepFlow, plan: Plan) -> list[Also]:
    """Return the history entry that tells which steps are forbidden and do not run, if some are."""
    if not _forbidden(plan):
        return []
    row = nodes.history_row(
        task.node,
        f"{SKIPPED} ([conductor] {flow.forbidden}): {', '.join(_forbidden(plan))}",
        event_type=f"{flow.name} steps skipped",
        severity="WARNING",
        conductor=task.runtime.host,
        user=task.user,
        project=task.project,
    )
    return [transitions.history(row)]


def resumed(task: TaskManager, flow: StepFlow, how: str) -> tuple[StepRun, Request, Plan]:
    """Return the failed run that is to go on, what it was asked, and the plan for the rest.

    :param how: ``at``: with the failed step; ``after``: with the one after it.
    :raises InvalidParameterValue: there is nothing to go on from, or the plan
        of today is another.
    """
    run, last = _failed_run(task, flow)
    wanted = planning.again(task, flow, Request.of(run.request))
    try:
        now = planning.build(task, flow, wanted)
    except planning.CollectionFailed as exc:
        why = f"nothing to compare: the steps cannot be collected: {words.text_of(exc.cause)}"
        told = words.shown(why, task.masker(), words.LAST_ERROR_BYTES)
        raise exceptions.InvalidParameterValue(told) from None
    known, fresh = run.plan, now.entries
    if now.agent_to_come:
        # What the agent had told then, it will tell again: it is compared when it has.
        known, fresh = (
            [entry for entry in entries if not (entry.get("agent") or entry.get("unknown"))]
            for entries in (known, fresh)
        )
    positions.refuse_another(known, fresh, flow)
    begin, why = _begin_at(run, last, how)
    entries = [dict(entry) for entry in run.plan]
    for place, entry in enumerate(entries[:begin]):
        done = why if place == begin - 1 else f"done before, see run {run.uuid}"
        entry.setdefault("skip", done)  # what was skipped before stays told so
    return run, wanted, Plan(entries, now.left_out, now.agent_to_come)


def _failed_run(task: TaskManager, flow: StepFlow) -> tuple[StepRun, StepAttempt]:
    database = task.runtime.database
    if task.node.provision_state != flow.failed:
        raise exceptions.InvalidParameterValue(
            f"there is no failed {flow.name} to go on from: the node is "
            f"{task.node.provision_state!r}, not {flow.failed!r}"
        )
    for run in runs.of_node(database, task.node.id, limit=1):
        last = runs.last_attempt(database, run.id)
        if (
            run.flow == flow.name
            and last is not None
            and run.outcome not in (None, endings.SUCCESS)
        ):
            if run.mechanism == OLD_WAY:
                raise exceptions.InvalidParameterValue(
                    "a deployment by deploy(task) has no steps to go on from; deploy again"
                )
            return run, last
    raise exceptions.InvalidParameterValue(
        f"there is no failed {flow.name} to go on from: the node's last run was another, or ended "
        "before its first step"
    )


def _begin_at(run: StepRun, last: StepAttempt, how: str) -> tuple[int, str]:
    """Return the place in the plan of the step to begin with, and what became of the one before.

    :raises InvalidParameterValue: there is no such place.
    """
    done = f"done before, see run {run.uuid}"
    if last.position == attempts.PREPARE:
        if how == "after":
            raise exceptions.InvalidParameterValue(
                f"what failed is {last.interface}.{last.step}, which prepares the node and "
                "cannot be skipped"
            )
        return next((i for i, entry in enumerate(run.plan) if not entry.get("skip")), 0), done
    places = [i for i, entry in enumerate(run.plan) if entry.get("id") == last.step_id]
    if len(places) != 1:
        raise exceptions.InvalidParameterValue(
            f"{last.interface}.{last.step}, which failed, is not in the plan any more"
        )
    if last.outcome == endings.SUCCESS:  # an abort that came while it ran took effect after it
        return places[0] + 1, done
    if how == "after":
        return places[0] + 1, f"skipped on request; it failed in run {run.uuid}"
    return places[0], done
