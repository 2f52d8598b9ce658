"""``[webhooks]``: events that are sent to others by HTTP."""

from __future__ import annotations

from oslo_config import cfg, types

from deploysteps.conf.types import HttpAddress, Seconds

GROUP = cfg.OptGroup("webhooks", title="Webhooks", help="Events that are sent to others by HTTP.")

OPTS: list[cfg.Opt] = [
    cfg.Opt(
        "url",
        type=types.List(HttpAddress()),
        default=[],
        secret=True,
        help=(
            "Where events are sent by POST, separated by commas. A new address gets what happens "
            "from then on."
        ),
    ),
    cfg.StrOpt(
        "secret",
        secret=True,
        help=(
            "What each request is signed with: X-Deploysteps-Signature is 'sha256=' and the "
            "HMAC-SHA256, in hex, of X-Deploysteps-Timestamp, a full stop and the body. At least "
            "16 characters; needed when there is a url."
        ),
    ),
    cfg.Opt(
        "events",
        type=types.List(types.String()),
        default=[],
        help="Types of events that are sent, such as run.finished,step.failed. Empty: all.",
    ),
    cfg.StrOpt(
        "ca_file",
        help="Certificates that receivers are verified by (PEM), instead of the usual ones.",
    ),
    cfg.IntOpt(
        "max_tries",
        default=12,
        min=1,
        max=1000,
        help=(
            "How often a delivery is tried before it is put on the list of dead ones "
            "(deploysteps webhooks list). The events of the node that follow wait meanwhile."
        ),
    ),
    cfg.Opt(
        "first_pause",
        type=Seconds(min=0.01, max=3600),
        default=2,
        help="Seconds before the second try; each pause is twice as long as the last, and random.",
    ),
    cfg.Opt(
        "longest_pause",
        type=Seconds(min=0.01, max=86_400),
        default=600,
        help="Seconds that a pause between two tries lasts at most.",
    ),
    cfg.Opt(
        "timeout",
        type=Seconds(min=0.1, max=60),
        default=10,
        help="Seconds to connect, and again to wait for the answer.",
    ),
    cfg.IntOpt(
        "workers",
        default=4,
        min=1,
        max=100,
        help="Requests that are on their way at once, for each receiver.",
    ),
    cfg.IntOpt(
        "dead_kept_days",
        default=30,
        min=0,
        max=10_000,
        help="Days that a dead delivery is kept for `deploysteps webhooks retry`. 0: for ever.",
    ),
]
