"""``[agent]``: the agent on the machine."""

from __future__ import annotations

from oslo_config import cfg, types

from deploysteps.conf.types import Network, Seconds

GROUP = cfg.OptGroup("agent", title="Agent", help="The agent that runs on the machine.")

OPTS: list[cfg.Opt] = [
    cfg.Opt(
        "callback_networks",
        type=types.List(Network()),
        default=[],
        help=(
            "Networks (CIDR) that an agent's callback address must be in; a heartbeat with "
            "another one is refused. Empty: any."
        ),
    ),
    cfg.BoolOpt(
        "require_tls",
        default=True,
        help=(
            "Whether the agents that steps are handed to must answer with TLS. A run on a machine "
            "whose agent does not fails, and says so. Deploy interfaces that hand no steps to the "
            "agent do not mind."
        ),
    ),
    cfg.StrOpt(
        "api_ca_file",
        help=(
            "A file with the certificates (PEM) to trust when an agent with TLS does not send its "
            "own, which agents do that make one (enable_auto_tls). Unset: such an agent is "
            "not spoken to."
        ),
    ),
    cfg.Opt(
        "command_timeout",
        type=Seconds(min=1, max=3600),
        default=60,
        help=(
            "Seconds that the agent is given for a command that is waited for, such as telling its "
            "steps or collecting its logs. Steps are not waited for in this way."
        ),
    ),
    cfg.IntOpt(
        "max_command_attempts",
        default=3,
        min=1,
        max=100,
        help="How often a command that is safe to send again is sent to an agent that is silent.",
    ),
    cfg.Opt(
        "command_poll_first",
        type=Seconds(min=0.01, max=3600),
        default=0.02,
        help=(
            "Seconds after which the agent is asked for the first time what became of a step. "
            "Each further pause is one and a half times as long."
        ),
    ),
    cfg.Opt(
        "command_poll_longest",
        type=Seconds(min=0.01, max=3600),
        default=2,
        help="Seconds that such a pause may grow to.",
    ),
    cfg.IntOpt(
        "post_deploy_get_power_state_retries",
        default=6,
        min=0,
        max=10_000,
        help=(
            "How many intervals the agent is given to shut its machine down, before the machine is "
            "powered off without it. 0: at once."
        ),
    ),
    cfg.Opt(
        "post_deploy_get_power_state_retry_interval",
        type=Seconds(min=0.05, max=3600),
        default=5,
        help="Seconds of such an interval, and the longest pause between two looks.",
    ),
    cfg.StrOpt(
        "deploy_logs_collect",
        default="on_failure",
        choices=[
            ("on_failure", "when a step or a run fails while the agent can be reached"),
            ("always", "also at the good end of a deployment, cleaning or servicing"),
            ("never", "not at all"),
        ],
        help="When the logs of the agent's machine are collected and kept with the attempt.",
    ),
    cfg.IntOpt(
        "deploy_logs_kept_kilobytes",
        default=64,
        min=1,
        max=1024,
        help="How much of the logs is kept with an attempt, in KiB: the end of them.",
    ),
]
