"""``[fake]``: how slow the fake hardware is."""

from __future__ import annotations

from oslo_config import cfg

from deploysteps.conf.types import Seconds

GROUP = cfg.OptGroup(
    "fake",
    title="Fake hardware",
    help="How slow the fake hardware is, for trying things by hand and for load tests.",
)

OPTS: list[cfg.Opt] = [
    cfg.Opt(
        "step_delay",
        type=Seconds(max=86_400),
        default=0,
        help="Seconds that every synchronous fake step takes. 0: none.",
    ),
    cfg.Opt(
        "power_delay",
        type=Seconds(max=86_400),
        default=0,
        help="Seconds that a fake power action takes. 0: none.",
    ),
]
