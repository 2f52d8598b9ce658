"""``[conductor]``: workers, clocks, locks and recovery."""

from __future__ import annotations

from oslo_config import cfg, types

from deploysteps.conf.types import ConductorGroup, Seconds, StepName, StepPriority
from deploysteps.steps import CLEAN, DEPLOY, FLOWS, RUNS

GROUP = cfg.OptGroup("conductor", title="Conductor", help="Workers, clocks, locks and recovery.")

OPTS: list[cfg.Opt] = [
    cfg.IntOpt(
        "workers_pool_size",
        default=100,
        min=3,
        max=10_000,
        help=(
            "How many pieces of work run at once. A node that waits needs no worker, and "
            "neither does a heartbeat."
        ),
    ),
    cfg.IntOpt(
        "reserved_workers_pool_percentage",
        default=5,
        min=0,
        max=50,
        help=(
            "The share of the workers that only operators' requests may use, in percent; at "
            "least one worker unless it is 0, which reserves none."
        ),
    ),
    cfg.Opt(
        "conductor_group",
        type=ConductorGroup(),
        default="",
        help=(
            "The group that this conductor works for: it works on the nodes with this "
            "conductor_group, and on no others. Letters, digits, '_', '-' and '.'; upper and "
            "lower case are the same. Empty: the nodes without a group."
        ),
    ),
    cfg.Opt(
        "heartbeat_interval",
        type=Seconds(min=0.1, max=86_400),
        default=10,
        help="Seconds between two signs of life that this conductor writes to the database.",
    ),
    cfg.Opt(
        "heartbeat_timeout",
        type=Seconds(min=0.2),
        default=60,
        help=(
            "Seconds after the last sign of life when a conductor counts as dead and its "
            "nodes are taken over. Must be longer than heartbeat_interval."
        ),
    ),
    *(
        cfg.Opt(
            flow.callback_timeout,
            type=Seconds(),
            default=1800,
            help=(
                "Seconds of silence, since the last accepted heartbeat of the machine's agent, "
                f"after which {flow.name if flow.job else f'a {flow.name} step'} that the agent "
                "ends fails. 0: no limit."
            ),
        )
        for flow in RUNS.values()
        if flow.callback_timeout and not flow.wait_timeout
    ),
    *(
        cfg.Opt(
            flow.wait_timeout,
            type=Seconds(),
            default=1800,
            help=(
                f"Seconds that the wait of {flow.name} may take where nothing else is said. "
                "0: no limit."
            ),
        )
        for flow in RUNS.values()
        if flow.wait_timeout
    ),
    cfg.Opt(
        "default_step_timeout",
        type=Seconds(),
        default=21_600,
        help=(
            "Seconds that a polled or timed wait of a step without a timeout of its own may "
            "take. 0: no limit."
        ),
    ),
    cfg.Opt(
        "agent_step_timeout",
        type=Seconds(),
        default=604_800,
        help=(
            "Seconds that a step without a timeout of its own may wait for the machine's agent, "
            "also while that sends heartbeats; to overwrite large disks takes days. 0: no limit."
        ),
    ),
    cfg.Opt(
        "step_poll_interval",
        type=Seconds(min=0.05, max=3600),
        default=1,
        help=(
            "The longest pause, in seconds, between two looks at which waiting steps are due "
            "to be polled, retried or timed out."
        ),
    ),
    cfg.Opt(
        "recovery_interval",
        type=Seconds(min=0.1),
        default=30,
        help="Seconds between two searches for work that a dead conductor left behind.",
    ),
    cfg.Opt(
        "sync_power_state_interval",
        type=Seconds(),
        default=60,
        help=(
            "Seconds between two comparisons of the machines' power with what is recorded of it. "
            "0: never."
        ),
    ),
    cfg.IntOpt(
        "sync_power_state_workers",
        default=8,
        min=1,
        max=1000,
        help=(
            "How many machines are asked for their power at once; these threads are no workers "
            "of workers_pool_size."
        ),
    ),
    cfg.Opt(
        "sync_power_state_call_timeout",
        type=Seconds(min=0.05, max=3600),
        default=30,
        help=(
            "Seconds that a machine is given to tell its power. Afterwards others have its turn. "
            "As long as the call has not come back, each further turn counts as a failure; it is "
            "made once more after 20 times as long, and then after ever longer times."
        ),
    ),
    cfg.IntOpt(
        "power_state_sync_max_retries",
        default=3,
        min=0,
        max=1_000_000,
        help=(
            "How often in a row a machine may not tell its power, or have another than is "
            "recorded, before its node is set to maintenance with the fault 'power failure'. "
            "0: the first time is one too many. "
            "Pauses between these tries double, to eight times sync_power_state_interval."
        ),
    ),
    cfg.BoolOpt(
        "force_power_state_during_sync",
        default=True,
        help=(
            "Whether a machine whose power is not as recorded is switched to what is recorded. "
            "False: what it has is recorded. A node with disable_power_off is never switched."
        ),
    ),
    cfg.Opt(
        "power_failure_recovery_interval",
        type=Seconds(),
        default=300,
        help=(
            "Seconds between two looks at the nodes with the fault 'power failure': one that "
            "tells its power again is taken out of maintenance. 0: never."
        ),
    ),
    cfg.IntOpt(
        "node_locked_retry_attempts",
        default=3,
        min=0,
        max=1000,
        help="How often taking a node's lock is tried again. 0: never, fail at once.",
    ),
    cfg.Opt(
        "node_locked_retry_interval",
        type=Seconds(max=3600),
        default=1,
        help="Seconds between two tries to take a node's lock. 0: no pause.",
    ),
    cfg.Opt(
        "lock_warn_after",
        type=Seconds(),
        default=600,
        help=(
            "Seconds after which a lock that is still held is named in the log, with its "
            "holder and purpose. 0: never."
        ),
    ),
    *(
        cfg.Opt(
            flow.overrides,
            type=types.List(StepPriority()),
            default=[],
            help=(
                f"Priorities that replace those of the drivers' {flow.name} steps: a list of "
                "<interface>.<step>:<priority>, for example "
                "bios.apply_configuration:150,raid.create_configuration:0 (0 disables the step)."
            ),
        )
        for flow in FLOWS.values()
        if flow.overrides
    ),
    *(
        cfg.Opt(
            flow.forbidden,
            type=types.List(StepName()),
            default=[],
            help=(
                f"Steps that never run in the {flow.name} flow, whoever asks for them: a list of "
                "<interface>.<step>. A run that would have had one skips it, and says so in its "
                "record and in the node's history."
            ),
        )
        for flow in FLOWS.values()
    ),
    *(
        cfg.IntOpt(
            flow.brake,
            default=default,
            min=0,
            max=1_000_000,
            help=(
                f"How many nodes may be in the {flow.name} flow at once; a request for one more "
                "is refused. What runs already goes on. 0: no limit."
            ),
        )
        for flow, default in ((DEPLOY, 250), (CLEAN, 50))
        if flow.brake
    ),
    cfg.BoolOpt(
        "automated_clean",
        default=True,
        help=(
            "Whether a node is cleaned by its driver's clean steps on its way to available: on "
            "provide and after an undeployment. A node's own automated_clean is asked first."
        ),
    ),
    cfg.BoolOpt(
        "allow_empty_cleaning",
        default=True,
        help=(
            "Whether a node that has no enabled clean step becomes available without one, which "
            "its history tells. False: it ends in clean failed."
        ),
    ),
    cfg.BoolOpt(
        "allow_provisioning_in_maintenance",
        default=True,
        help=(
            "Whether a run goes on when its node is set to maintenance meanwhile, and whether a "
            "node in maintenance may be provided. False: the run fails with that reason. "
            "Deployments, and cleanings and servicings on request, are never begun on a node in "
            "maintenance."
        ),
    ),
    cfg.Opt(
        "graceful_shutdown_timeout",
        type=Seconds(max=86_400),
        default=60,
        help=(
            "Seconds that running steps are given to end when the process is asked to stop. "
            "What is cut off is treated as a crash is. 0: do not wait."
        ),
    ),
    cfg.IntOpt(
        "runs_kept_per_node",
        default=100,
        min=0,
        max=1_000_000,
        help="How many ended runs are kept for each node, with their attempts. 0: all.",
    ),
    cfg.IntOpt(
        "node_history_max_entries",
        default=300,
        min=0,
        max=1_000_000,
        help="How many entries of its history are kept for each node. 0: all.",
    ),
]
