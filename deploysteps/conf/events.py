"""``[events]``: what is told to watchers."""

from __future__ import annotations

from oslo_config import cfg

from deploysteps.conf.types import Seconds

GROUP = cfg.OptGroup("events", title="Events", help="What is told to watchers of runs and steps.")

EVENT_TYPES = (
    "run.started",
    "run.finished",
    "step.started",
    "step.retried",
    "step.waiting",
    "step.resumed",
    "step.finished",
    "step.failed",
    "node.state",
)
"""Every type of event that there is; a test compares it with what is written."""

OPTS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "enabled",
        default=True,
        help=(
            "Write an event with every transition of a run, a step or a node's provision state: "
            "what the stream of events and webhooks tell. It costs one statement more in each "
            "of these transactions."
        ),
    ),
    cfg.IntOpt(
        "keep_hours",
        default=72,
        min=0,
        max=100_000,
        help="Hours that an event is kept. 0: without limit.",
    ),
    cfg.IntOpt(
        "keep_rows",
        default=1_000_000,
        min=0,
        max=1_000_000_000,
        help="Events that are kept at most; the oldest go first. 0: without limit.",
    ),
    cfg.IntOpt(
        "max_streams",
        default=50,
        min=0,
        max=10_000,
        help=(
            "Streams of events (GET /v1/events/stream) that this process serves at once; one more "
            "is answered 503. Half of them are for who acts for a project, and a quarter for one "
            "project. They take no thread of [api] threads. 0: there is no stream."
        ),
    ),
    cfg.Opt(
        "stream_heartbeat",
        type=Seconds(min=0.1, max=3600),
        default=15,
        help="Seconds after which a stream with nothing to tell says that it lives.",
    ),
    cfg.Opt(
        "poll_interval",
        type=Seconds(min=0.05, max=60),
        default=0.5,
        help=(
            "Seconds between two looks for new events: one query for all streams of this process, "
            "and none while there is no stream; and one for each receiver of webhooks."
        ),
    ),
]
